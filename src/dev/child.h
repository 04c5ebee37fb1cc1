/*
 * Child processes of `sluice dev`: started before the loop, watched by waitpid, and ended with
 * their parent (PR_SET_PDEATHSIG). Each has its own session, so that Ctrl-C at the terminal reaches
 * only the parent, which stops them in order.
 */
#ifndef DEV_CHILD_H
#define DEV_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct child {
    pid_t pid; /* 0: none */
    const char *name;
};

struct child_spec {
    const char *name;        /* shown in messages: "postgres" */
    const char *const *argv; /* argv[0] is the program's path; NULL ends it */
    const char *log_path;    /* file that stdout and stderr are appended to */
    uid_t uid;               /* 0: as the parent */
    gid_t gid;
    int death_signal; /* sent to the child when its parent dies; 0: SIGTERM */
};

/* Returns once the program runs: a program that is missing or cannot be executed is an error here.
 */
int child_start(struct child *child, const struct child_spec *spec, struct err *err) MUST_CHECK;
/* Returns false if the child has ended; err (may be NULL) then says how, and where its log is. */
bool child_is_running(struct child *child, const char *log_path, struct err *err);
/* Sends signum, waits, and after timeout_ms kills the child's whole group. Harmless if it has
 * ended. */
void child_stop(struct child *child, int signum, unsigned timeout_ms);
/* Runs a program to its end. ERR_IO names the exit status and the last line of the log. */
int child_run(const struct child_spec *spec, struct err *err) MUST_CHECK;

#endif
