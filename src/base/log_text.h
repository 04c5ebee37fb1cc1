/*
 * log_text: one log line as text, in a block of fixed size. Private to log.c.
 */
#ifndef BASE_LOG_TEXT_H
#define BASE_LOG_TEXT_H

#include "base/log.h"

struct log_text {
    size_t len;
    bool is_full; /* something did not fit since the last mark */
    char bytes[LOG_LINE_MAX];
};

struct log_style {
    bool is_text;     /* false: JSON */
    bool is_coloured; /* text only */
};

/* Writes a whole line with its newline. */
void log_text_line(struct log_text *text, struct log_style style, enum log_level level,
                   const char *msg, const struct log_field *fields, size_t count);
const char *log_level_name(enum log_level level);

#endif
