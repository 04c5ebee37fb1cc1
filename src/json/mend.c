/*
 * mend: see mend.h. It handles backslashes without checking whether they are inside a string:
 * elsewhere they are a syntax error, and they remain one.
 */
#include "json/mend.h"

#include "base/ascii.h"

enum { ESCAPE_BYTES = 6 }; /* \uXXXX */

/* Returns the UTF-16 unit of the escape at the start of text, -1 if there is none. */
static int32_t escaped_unit(slice text)
{
    int32_t unit = 0;
    if (text.len < ESCAPE_BYTES || text.ptr[0] != '\\' || text.ptr[1] != 'u')
        return -1;
    for (size_t i = 2; i < ESCAPE_BYTES; i++) {
        int digit = ascii_hex_value(text.ptr[i]);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

static bool is_half(int32_t unit, int32_t first)
{
    return unit >= first && unit < first + 0x400;
}

/* Returns the length of the piece at the start of text, which is not empty, and sets *becomes to
 * its replacement. */
static size_t next_piece(slice text, slice *becomes)
{
    size_t len = 0;
    while (len < text.len && text.ptr[len] != '\\' && (unsigned char)text.ptr[len] < 0x80)
        len++;
    if (len == 0 && text.ptr[0] != '\\')
        len = slice_utf8_first(text);
    if (len == 0 && text.ptr[0] != '\\') {
        *becomes = SLICE("\xEF\xBF\xBD");
        return slice_utf8_fault(text);
    }
    if (len == 0) { /* an escape; one that is not \u takes two bytes */
        int32_t unit = escaped_unit(text);
        bool is_low = is_half(unit, 0xDC00), is_high = is_half(unit, 0xD800);
        len = unit >= 0 ? ESCAPE_BYTES : text.len > 1 && (unsigned char)text.ptr[1] < 0x80 ? 2 : 1;
        if (is_high && is_half(escaped_unit(slice_from(text, ESCAPE_BYTES)), 0xDC00)) {
            len = 2 * (size_t)ESCAPE_BYTES;
        } else if (is_low || is_high) {
            *becomes = SLICE("\\ufffd");
            return len;
        }
    }
    *becomes = slice_first(text, len);
    return len;
}

/* Writes the mended text to `to` and returns its length. If `to` is NULL, only counts the bytes. */
static size_t mend(slice text, char *to)
{
    size_t bytes = 0;
    slice piece;
    if (slice_starts_with(text, SLICE("\xEF\xBB\xBF")))
        text = slice_from(text, 3);
    while (text.len > 0) {
        text = slice_from(text, next_piece(text, &piece));
        if (to)
            memcpy(to + bytes, piece.ptr, piece.len);
        bytes += piece.len;
    }
    return bytes;
}

size_t json_mend_bytes(slice text)
{
    return mend(text, NULL);
}

void json_mend(slice text, char *to)
{
    (void)mend(text, to);
}
