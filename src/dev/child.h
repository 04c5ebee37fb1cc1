/*
 * Child processes of `sluice dev`: started before the loop, watched by waitpid, ended with their
 * parent (PR_SET_PDEATHSIG), and in a session of their own, so that Ctrl-C at the terminal reaches
 * the parent only, which stops them in order.
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
    const char *log_path;    /* stdout and stderr are appended there */
    uid_t uid;               /* 0: as the parent */
    gid_t gid;
    int death_signal; /* sent to the child when its parent dies; 0: SIGTERM */
};

/* Returns once the program runs: a program that is missing or cannot be executed is an error here.
 */
int child_start(struct child *child, const struct child_spec *spec, struct err *err) MUST_CHECK;
/* false when it has ended; err (may be NULL) then says how, and where its log is. */
bool child_is_running(struct child *child, const char *log_path, struct err *err);
/* Sends signum, waits, and after timeout_ms kills its whole group. Harmless when it has ended. */
void child_stop(struct child *child, int signum, unsigned timeout_ms);
/* Runs it to its end. ERR_IO names the exit status and the last line of the log. */
int child_run(const struct child_spec *spec, struct err *err) MUST_CHECK;

#endif
