/*
 * err: formats the sentence of a failure. Both calls format into a local block first, so that the
 * text of *err itself may be an argument. A text that is too long is truncated after a whole
 * character.
 */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/slice.h"

/* Formats into text[size]; returns the length without the NUL. */
static size_t format_cut(char *text, size_t size, const char *fmt, va_list args) PRINTF_LIKE(3, 0);

static size_t format_cut(char *text, size_t size, const char *fmt, va_list args)
{
    int want = vsnprintf(text, size, fmt, args);
    if (want < 0)
        want = 0;
    size_t len = (size_t)want;
    if (len >= size)
        /* vsnprintf may have split the last character. slice_first_utf8 leaves a slice that is
         * short enough unchanged, so it gets one byte less than the text has. */
        len = slice_first_utf8(slice_of(text, size - 1), size - 2).len;
    text[len] = '\0';
    return len;
}

static void set_text(struct err *err, enum err_code code, const char *fmt, va_list args)
    PRINTF_LIKE(3, 0);

static void set_text(struct err *err, enum err_code code, const char *fmt, va_list args)
{
    char text[ERR_TEXT_MAX];
    ASSERT(code != OK);
    if (!err)
        return;
    memcpy(err->text, text, format_cut(text, sizeof(text), fmt, args) + 1);
    err->code = code;
}

int err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    set_text(err, code, fmt, args);
    va_end(args);
    return code;
}

void *err_null(struct err *err, enum err_code code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    set_text(err, code, fmt, args);
    va_end(args);
    return NULL;
}

int err_prefix(struct err *err, const char *fmt, ...)
{
    ASSERT(err && err->code != OK);
    char text[ERR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    size_t len = format_cut(text, sizeof(text), fmt, args);
    va_end(args);
    slice tail = slice_cstr(err->text);
    /* Leaves room for ": " and the NUL. The prefix stays whole if possible; the old text is
     * truncated. */
    if (len > sizeof(text) - 3)
        len = slice_first_utf8(slice_of(text, len), sizeof(text) - 3).len;
    text[len++] = ':';
    text[len++] = ' ';
    tail = slice_first_utf8(tail, sizeof(text) - 1 - len);
    memcpy(text + len, tail.ptr, tail.len);
    text[len + tail.len] = '\0';
    memcpy(err->text, text, len + tail.len + 1);
    return err->code;
}
