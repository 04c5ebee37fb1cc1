/*
 * log_sink: writes lines to a file descriptor of any kind without ever blocking. Private to log.c.
 */
#ifndef BASE_LOG_SINK_H
#define BASE_LOG_SINK_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/slice.h"

struct log_sink {
    enum { LOG_SINK_FILE, LOG_SINK_STREAM, LOG_SINK_SOCKET } kind;
    int fd;
    bool is_own;      /* opened by log_sink_open */
    bool is_blocking; /* the fd could not be opened a second time: poll before each write */
    bool is_terminal;
};

void log_sink_open(struct log_sink *sink, int fd);
/* Leaves the caller's fd open. */
void log_sink_close(struct log_sink *sink);
/* Returns the number of bytes written of `lines` (whole lines, each at most LOG_LINE_MAX), 0 if it
 * would block, or -1 if the descriptor cannot be written to. Call it again while the result is > 0
 * and something is left. */
ssize_t log_sink_write(struct log_sink *sink, slice lines);

#endif
