/*
 * The real program, run by a test: to its end with what it printed, or beside the test.
 */
#ifndef INTEGRATION_SUPPORT_PROGRAM_H
#define INTEGRATION_SUPPORT_PROGRAM_H

#include <stdbool.h>
#include <sys/types.h>

enum { PROGRAM_TEXT_MAX = 256 * 1024, PROGRAM_ARGS_MAX = 32 };

struct program {
    pid_t pid;  /* 0: it has ended and was waited for */
    int status; /* exit code; 128 + signal when one ended it */
    int out_fd, err_fd;
    char *out, *err; /* what it printed; program_free */
};

/* $SLUICE_BIN, which `make` sets. Fails the test when it is missing. */
const char *program_sluice(void);
/* args behind the program's name, NULL ends them; input (may be NULL) comes on stdin. uid 0: as we
 * are. Its output goes to files, so that it never waits for us. */
void program_start(struct program *program, const char *path, const char *const *args,
                   const char *input, uid_t uid);
/* false once it has ended. */
bool program_is_running(struct program *program);
/* Waits for its end and reads what it printed. */
void program_wait(struct program *program);
/* What it has printed up to now, in out and err. */
void program_read(struct program *program);
void program_free(struct program *program);

#endif
