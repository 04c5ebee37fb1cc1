/*
 * Structured log to stderr: one JSON object per line, or a short coloured line on a terminal. Lines
 * are buffered in memory and written once per turn of the loop (log_flush), at once for errors.
 * Logging never blocks the loop for long: if a pipe is full, lines are dropped and counted. Values
 * are escaped; secrets cannot be logged (base/secret.h).
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

enum {
    /* bytes including the newline; a pipe takes such a line whole in one write */
    LOG_LINE_MAX = 4096,
    LOG_VALUE_MAX = 1024,        /* bytes of an escaped string; the rest becomes "..." */
    LOG_BUFFER_BYTES = 64 * 1024 /* bytes that wait for log_flush */
};

/* trace: recurring background work; debug: the steps of a request. */
enum log_level { LOG_TRACE, LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_AUTO, LOG_JSON, LOG_TEXT }; /* auto: text on a terminal */

/* A field of a line; made by the LOG_* macros below. */
struct log_field {
    const char *key;
    enum { LOG_FIELD_STR, LOG_FIELD_INT, LOG_FIELD_BOOL, LOG_FIELD_MS } kind;
    slice str;
    int64_t num;
};

#define LOG_STR(key, value)  ((struct log_field){(key), LOG_FIELD_STR, (value), 0})
#define LOG_CSTR(key, value) ((struct log_field){(key), LOG_FIELD_STR, slice_cstr(value), 0})
#define LOG_INT(key, value)  ((struct log_field){(key), LOG_FIELD_INT, SLICE_NONE, (int64_t)(value)})
#define LOG_BOOL(key, value) ((struct log_field){(key), LOG_FIELD_BOOL, SLICE_NONE, (value)})
/* value in nanoseconds, printed as milliseconds with 3 decimals */
#define LOG_MS(key, value_ns) \
    ((struct log_field){(key), LOG_FIELD_MS, SLICE_NONE, (int64_t)(value_ns)})

/* Opens a sink on fd 2 (or on that of log_set_fd, if it was called first). The process must
 * ignore SIGPIPE. NO_COLOR in the environment turns colours off. */
void log_init(enum log_level level, enum log_format format);
enum log_level log_level_get(void);
/* May be called on any thread. Fields that do not fit into LOG_LINE_MAX are omitted; the line then
 * ends with "truncated":true. Lines of LOG_WARN and above are written at once, as is a full
 * buffer. */
void log_line(enum log_level level, const char *msg, const struct log_field *fields, size_t count);
/* Writes as much as fd accepts without blocking. The rest stays in the buffer. When it is full,
 * lines are dropped, and a later line reports the number. */
void log_flush(void);
/* For assert_fail: like log_flush, but does nothing if the log's lock is held. */
void log_flush_crash(void);
/* For tests: flushes, then sends further lines to fd, which the caller continues to own. A pipe
 * or terminal that blocks is opened a second time, without blocking, and held until the next
 * call: a test that waits for the end of a pipe's data calls log_set_fd(2) first. */
void log_set_fd(int fd);
/* For tests: returns the number of lines dropped since the process started. */
uint64_t log_dropped(void);

/* log_event(LOG_INFO, "listening", LOG_CSTR("address", text), LOG_INT("port", 8080)); msg is a
 * constant; variable parts go into fields. At least one field is needed. */
#define log_event(level, msg, ...)                                                               \
    do {                                                                                         \
        if ((level) >= log_level_get()) {                                                        \
            const struct log_field log_fields_[] = {__VA_ARGS__};                                \
            log_line((level), (msg), log_fields_, sizeof(log_fields_) / sizeof(log_fields_[0])); \
        }                                                                                        \
    } while (0)

bool log_level_parse(slice text, enum log_level *level) MUST_CHECK;

#endif
