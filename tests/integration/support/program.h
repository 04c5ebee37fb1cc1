/*
 * Runs the real program in a test: to its end, with its output, or in the background.
 */
#ifndef INTEGRATION_SUPPORT_PROGRAM_H
#define INTEGRATION_SUPPORT_PROGRAM_H

#include <stdbool.h>
#include <sys/types.h>

enum { PROGRAM_TEXT_MAX = 256 * 1024, PROGRAM_ARGS_MAX = 32 };

struct program {
    pid_t pid;  /* 0: it has ended and was waited for */
    int status; /* exit code; 128 + signal if a signal ended it */
    int out_fd, err_fd;
    char *out, *err; /* its output; program_free */
};

/* $SLUICE_BIN, which `make` sets. Fails the test if it is missing. */
const char *program_sluice(void);
/* args follow the program's name and end with NULL. input (may be NULL) is its stdin. uid 0: the
 * same user. Its output goes to files, so it never waits for us. */
void program_start(struct program *program, const char *path, const char *const *args,
                   const char *input, uid_t uid);
/* false once it has ended. */
bool program_is_running(struct program *program);
/* Waits for the program's end and reads its output. */
void program_wait(struct program *program);
/* The output of the program until now, in out and err. */
void program_read(struct program *program);
void program_free(struct program *program);

#endif
