/*
 * log_sink: O_NONBLOCK belongs to the open file, which stderr shares with the shell, with other
 * workers and with any other writer, so it may not be set on fd 2. A pipe or terminal is opened a
 * second time through /proc, a socket (journald) has MSG_DONTWAIT, and a regular file does not
 * block.
 */
#include "base/log_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void open_stream(struct log_sink *sink, int fd)
{
    char path[40];
    int flags = fcntl(fd, F_GETFL);
    /* The descriptor is already non-blocking: its owner wants this, and nothing has to be
     * opened. */
    if (flags >= 0 && (flags & O_NONBLOCK))
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    /* O_CLOEXEC: a child would keep the pipe open and its reader would wait for the end. O_NOCTTY:
     * opening a terminal must not make it the controlling terminal. */
    int again = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    sink->is_own = again >= 0;
    sink->is_blocking = again < 0;
    if (again >= 0)
        sink->fd = again;
}

void log_sink_open(struct log_sink *sink, int fd)
{
    struct stat info;
    *sink = (struct log_sink){.kind = LOG_SINK_FILE, .fd = fd, .is_terminal = isatty(fd)};
    if (fstat(fd, &info))
        return;
    if (S_ISSOCK(info.st_mode)) {
        sink->kind = LOG_SINK_SOCKET;
    } else if (S_ISFIFO(info.st_mode) || sink->is_terminal) {
        sink->kind = LOG_SINK_STREAM;
        open_stream(sink, fd);
    }
}

void log_sink_close(struct log_sink *sink)
{
    if (sink->is_own)
        close(sink->fd);
    sink->is_own = false;
}

/* Returns whole lines up to PIPE_BUF, which a pipe accepts completely or refuses, so that the lines
 * of several workers never mix. The rest of a line that a terminal accepted in part is written
 * alone. */
static slice stream_run(slice lines)
{
    if (lines.len <= PIPE_BUF)
        return lines;
    const char *end = memrchr(lines.ptr, '\n', PIPE_BUF);
    return slice_first(lines, end ? (size_t)(end - lines.ptr) + 1 : PIPE_BUF);
}

static bool is_writable(int fd)
{
    struct pollfd ask = {.fd = fd, .events = POLLOUT};
    return poll(&ask, 1, 0) == 1;
}

ssize_t log_sink_write(struct log_sink *sink, slice lines)
{
    ssize_t wrote;
    if (lines.len == 0 || (sink->is_blocking && !is_writable(sink->fd)))
        return 0;
    if (sink->kind == LOG_SINK_STREAM)
        lines = stream_run(lines);
    do {
        if (sink->kind == LOG_SINK_SOCKET)
            /* MSG_NOSIGNAL: if the reader has closed, this is an error, not the end of the
             * process. */
            wrote = send(sink->fd, lines.ptr, lines.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        else
            wrote = write(sink->fd, lines.ptr, lines.len);
    } while (wrote < 0 && errno == EINTR);
    if (wrote < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    return wrote;
}
