/*
 * log_text: both forms of a line. External text can neither end the line, nor move the cursor of a
 * terminal, nor reverse text: control characters (C0, DEL, C1), line separators and bidirectional
 * overrides become \uXXXX, bytes that are not UTF-8 become U+FFFD.
 */
#include "base/log_text.h"

#include <stdio.h>

#include "base/ascii.h"
#include "base/clock.h"

/* Room reserved after the fields for the end of the line. */
#define JSON_END SLICE(",\"truncated\":true}\n")
#define TEXT_END SLICE(" truncated=true\n")
enum { END_LEN = 32 };

struct level_style {
    const char *name;   /* in JSON */
    const char *text;   /* on a terminal, 5 columns wide */
    const char *colour; /* SGR */
};

static const struct level_style level_styles[] = {
    [LOG_TRACE] = {"trace", "TRACE", "\x1b[2m"},  [LOG_DEBUG] = {"debug", "DEBUG", "\x1b[2m"},
    [LOG_INFO] = {"info", "INFO ", "\x1b[32m"},   [LOG_WARN] = {"warn", "WARN ", "\x1b[33m"},
    [LOG_ERROR] = {"error", "ERROR", "\x1b[31m"},
};

const char *log_level_name(enum log_level level)
{
    ASSERT((size_t)level < ARRAY_LEN(level_styles));
    return level_styles[level].name;
}

static void put_log_bytes(struct log_text *text, slice bytes)
{
    if (text->is_full || bytes.len > sizeof(text->bytes) - END_LEN - text->len) {
        text->is_full = true;
        return;
    }
    if (bytes.len)
        memcpy(text->bytes + text->len, bytes.ptr, bytes.len);
    text->len += bytes.len;
}

static void put_cstr(struct log_text *text, const char *bytes)
{
    put_log_bytes(text, slice_cstr(bytes));
}

/* Returns whether a value can be written without quotes in the text form. */
static bool is_bare(slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        bool is_word = ascii_is_alnum(c);
        if (!is_word && (c == '\0' || !strchr("_-./:@%+,~*()[]", c)))
            return false;
    }
    return value.len > 0;
}

/* Appends the first character of rest, which has len bytes, escaped as in a string. len is 0 if
 * rest does not begin with a well-formed character. */
static void put_char(struct log_text *text, slice rest, size_t len)
{
    char escape[8];
    uint32_t c = 0;
    if (len > 0)
        (void)slice_code_point(rest, &c);
    if (len == 0) {
        put_log_bytes(text, SLICE("\xEF\xBF\xBD"));
    } else if (c == '"' || c == '\\') {
        escape[0] = '\\';
        escape[1] = (char)c;
        put_log_bytes(text, slice_of(escape, 2));
    } else if (c == '\n') {
        put_log_bytes(text, SLICE("\\n"));
    } else if (code_point_is_unsafe(c)) {
        /* Every unsafe code point has at most four hex digits; the mask proves this to the
         * compiler, which checks that the text fits into escape. */
        snprintf(escape, sizeof(escape), "\\u%04x", c & 0xffff);
        put_cstr(text, escape);
    } else {
        put_log_bytes(text, slice_first(rest, len));
    }
}

/* Returns the number of bytes at the start of s that need no check: printable ASCII without quote
 * and backslash. */
static size_t plain_run(slice s, size_t max)
{
    size_t i = 0;
    while (i < s.len && i < max && s.ptr[i] >= 0x20 && s.ptr[i] < 0x7f && s.ptr[i] != '"' &&
           s.ptr[i] != '\\')
        i++;
    return i;
}

static void put_string(struct log_text *text, slice value)
{
    size_t start = text->len;
    put_log_bytes(text, SLICE("\""));
    while (value.len && !text->is_full) {
        /* The length is measured in output bytes: an escape turns one byte into six, and
         * LOG_VALUE_MAX limits what is printed. */
        size_t used = text->len - start;
        if (used >= LOG_VALUE_MAX) {
            put_log_bytes(text, SLICE("..."));
            break;
        }
        size_t run = plain_run(value, LOG_VALUE_MAX - used);
        if (run) {
            put_log_bytes(text, slice_first(value, run));
        } else {
            run = slice_utf8_first(value);
            put_char(text, value, run);
            run += run == 0;
        }
        value = slice_from(value, run);
    }
    put_log_bytes(text, SLICE("\""));
}

static void put_number(struct log_text *text, const struct log_field *field)
{
    char digits[40];
    if (field->kind == LOG_FIELD_INT) {
        snprintf(digits, sizeof(digits), "%lld", (long long)field->num);
    } else {
        /* INT64_MIN has no positive counterpart, so its magnitude is computed in unsigned
         * arithmetic. */
        uint64_t size = field->num < 0 ? 0 - (uint64_t)field->num : (uint64_t)field->num;
        uint64_t us = size / 1000;
        snprintf(digits, sizeof(digits), "%s%llu.%03u", field->num < 0 ? "-" : "",
                 (unsigned long long)(us / 1000), (unsigned)(us % 1000));
    }
    put_cstr(text, digits);
}

static void put_value(struct log_text *text, const struct log_field *field, bool is_text)
{
    switch (field->kind) {
    case LOG_FIELD_STR:
        if (is_text && field->str.len <= LOG_VALUE_MAX && is_bare(field->str))
            put_log_bytes(text, field->str);
        else
            put_string(text, field->str);
        break;
    case LOG_FIELD_BOOL:
        put_cstr(text, field->num ? "true" : "false");
        break;
    case LOG_FIELD_INT:
    case LOG_FIELD_MS:
        put_number(text, field);
        break;
    }
}

static void put_log_field(struct log_text *text, struct log_style style,
                          const struct log_field *field)
{
    if (!style.is_text) {
        put_log_bytes(text, SLICE(","));
        put_string(text, slice_cstr(field->key));
        put_log_bytes(text, SLICE(":"));
    } else {
        put_cstr(text, style.is_coloured ? " \x1b[2m" : " ");
        put_cstr(text, field->key);
        put_cstr(text, style.is_coloured ? "=\x1b[0m" : "=");
    }
    put_value(text, field, style.is_text);
}

static void put_head(struct log_text *text, struct log_style style, enum log_level level,
                     const char *msg)
{
    char time[TIME_TEXT_LEN + 1];
    time_format(clock_wall_us(), time);
    if (!style.is_text) {
        put_log_bytes(text, SLICE("{\"time\":\""));
        put_cstr(text, time);
        put_log_bytes(text, SLICE("\",\"level\":\""));
        put_cstr(text, level_styles[level].name);
        put_log_bytes(text, SLICE("\",\"msg\":"));
        put_string(text, slice_cstr(msg));
        return;
    }
    put_log_bytes(text, slice_of(time + 11, 12)); /* 23:59:59.123 */
    put_log_bytes(text, SLICE(" "));
    put_cstr(text, style.is_coloured ? level_styles[level].colour : "");
    put_cstr(text, level_styles[level].text);
    put_cstr(text, style.is_coloured ? "\x1b[0m " : " ");
    slice rest = slice_cstr(msg);
    put_log_bytes(text, slice_first(rest, plain_run(rest, LOG_VALUE_MAX)));
}

void log_text_line(struct log_text *text, struct log_style style, enum log_level level,
                   const char *msg, const struct log_field *fields, size_t count)
{
    ASSERT((size_t)level < ARRAY_LEN(level_styles));
    text->len = 0;
    text->is_full = false;
    put_head(text, style, level, msg);
    /* The parts of the head are short and constant, and msg is truncated to LOG_VALUE_MAX, so
     * the head always fits. */
    ASSERT(!text->is_full);
    for (size_t i = 0; i < count && !text->is_full; i++) {
        size_t mark = text->len;
        put_log_field(text, style, &fields[i]);
        /* A field is written completely or omitted; half an escape would make the line invalid
         * JSON. */
        if (text->is_full)
            text->len = mark;
    }
    slice end = style.is_text ? TEXT_END : JSON_END;
    if (!text->is_full) /* without the "truncated" field */
        end = style.is_text ? SLICE("\n") : SLICE("}\n");
    ASSERT(end.len <= END_LEN && text->len + end.len <= sizeof(text->bytes));
    memcpy(text->bytes + text->len, end.ptr, end.len);
    text->len += end.len;
}
