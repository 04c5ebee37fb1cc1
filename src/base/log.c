/*
 * log: one buffer of LOG_BUFFER_BYTES, one lock. A line is built in a separate block and copied, so
 * that the buffer contains only whole lines (and at its start the rest of a line that the sink
 * accepted in part). The heap is not used, so that running out of memory can be logged.
 */
#include "base/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log_sink.h"
#include "base/log_text.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int level_min = LOG_INFO;
static enum log_format format_wanted = LOG_JSON;
static struct log_style style;
static struct log_sink sink;
static bool is_open;
static int fd_wanted = STDERR_FILENO;

/* The buffer is static, like all blocks here: logging works without the heap, and a crash handler
 * may use it. */
static char buffer[LOG_BUFFER_BYTES];
static size_t buffer_len;
static uint64_t dropped, dropped_reported;

static void open_sink(void)
{
    if (is_open)
        log_sink_close(&sink);
    log_sink_open(&sink, fd_wanted);
    is_open = true;
    style.is_text = format_wanted == LOG_TEXT || (format_wanted == LOG_AUTO && sink.is_terminal);
    style.is_coloured = style.is_text && sink.is_terminal && !getenv("NO_COLOR");
}

static uint64_t lines_in(slice bytes)
{
    uint64_t lines = 0;
    for (ptrdiff_t at; (at = slice_find_char(bytes, '\n')) >= 0; lines++)
        bytes = slice_from(bytes, (size_t)at + 1);
    return lines;
}

/* Writes as much of the buffer to the sink as it accepts. The caller holds the lock. */
static void drain(void)
{
    size_t done = 0;
    ssize_t wrote = 0;
    if (!is_open)
        open_sink();
    do {
        done += (size_t)wrote;
        wrote = log_sink_write(&sink, slice_of(buffer + done, buffer_len - done));
    } while (wrote > 0);
    if (wrote < 0) { /* the reader has closed, so these lines are lost */
        dropped += lines_in(slice_of(buffer + done, buffer_len - done));
        done = buffer_len;
    }
    /* The rest moves to the front. It may begin in the middle of a line that a terminal accepted
     * in part; the next write continues it. */
    memmove(buffer, buffer + done, buffer_len - done);
    buffer_len -= done;
}

static bool append_line(const struct log_text *line)
{
    if (line->len > sizeof(buffer) - buffer_len)
        drain();
    if (line->len > sizeof(buffer) - buffer_len)
        return false;
    memcpy(buffer + buffer_len, line->bytes, line->len);
    buffer_len += line->len;
    return true;
}

/* Reports dropped lines once there is room again. */
static void report_dropped(void)
{
    static struct log_text line;
    uint64_t missing = dropped - dropped_reported;
    /* Waits until half of the buffer is free again; otherwise the report itself would displace a
     * line. */
    if (missing == 0 || buffer_len > sizeof(buffer) / 2)
        return;
    struct log_field count = LOG_INT("lines", missing);
    log_text_line(&line, style, LOG_WARN, "log lines dropped", &count, 1);
    if (append_line(&line))
        dropped_reported += missing;
}

static void flush_locked(void)
{
    if (buffer_len == 0)
        return;
    drain();
    report_dropped();
    drain();
}

void log_init(enum log_level level, enum log_format format)
{
    pthread_mutex_lock(&lock);
    flush_locked();
    atomic_store(&level_min, (int)level);
    format_wanted = format;
    open_sink();
    pthread_mutex_unlock(&lock);
}

enum log_level log_level_get(void)
{
    return (enum log_level)atomic_load_explicit(&level_min, memory_order_relaxed);
}

void log_line(enum log_level level, const char *msg, const struct log_field *fields, size_t count)
{
    /* The line is static, under the lock: 4 KB is a lot for the stack of a pool thread. */
    static struct log_text line;
    /* The level is checked before the lock is taken: most calls have a level that is off. */
    if (level < log_level_get())
        return;
    pthread_mutex_lock(&lock);
    log_text_line(&line, style, level, msg, fields, count);
    /* The report comes before the new line, so that the gap is reported at its position. */
    report_dropped();
    if (!append_line(&line))
        dropped++;
    if (level >= LOG_WARN)
        flush_locked();
    pthread_mutex_unlock(&lock);
}

void log_flush(void)
{
    pthread_mutex_lock(&lock);
    flush_locked();
    pthread_mutex_unlock(&lock);
}

void log_flush_crash(void)
{
    /* The thread that crashes may itself hold the lock (a failed ASSERT below log_line): waiting
     * would hang the process instead of ending it. */
    if (pthread_mutex_trylock(&lock))
        return;
    flush_locked();
    pthread_mutex_unlock(&lock);
}

void log_set_fd(int fd)
{
    pthread_mutex_lock(&lock);
    flush_locked();
    dropped += lines_in(slice_of(buffer, buffer_len)); /* these lines were not meant for the new
                                                        * fd */
    buffer_len = 0;
    fd_wanted = fd;
    open_sink();
    pthread_mutex_unlock(&lock);
}

uint64_t log_dropped(void)
{
    pthread_mutex_lock(&lock);
    uint64_t lines = dropped;
    pthread_mutex_unlock(&lock);
    return lines;
}

bool log_level_parse(slice text, enum log_level *level)
{
    for (int i = LOG_TRACE; i <= LOG_ERROR; i++) {
        if (!slice_eq_cstr(text, log_level_name((enum log_level)i)))
            continue;
        *level = (enum log_level)i;
        return true;
    }
    return false;
}

/* A child must neither print lines that the parent has buffered nor find the lock held. */
static void before_fork(void)
{
    pthread_mutex_lock(&lock);
    flush_locked();
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void after_fork_child(void)
{
    /* The parent's buffered lines were flushed, or remain in its own buffer; a copy here would
     * print them twice. */
    buffer_len = 0;
    dropped = dropped_reported = 0;
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void watch_fork(void)
{
    int failed = pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    ASSERT(!failed);
}
