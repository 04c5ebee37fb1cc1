/*
 * See reply_text.h.
 */
#include "call/reply_text.h"

enum { LINE_BYTES_MAX = 64 * 1024 };

/* ---- finding ---- */

static slice html_title(slice page)
{
    ptrdiff_t at = slice_find(page, SLICE("<title>"));
    if (at < 0)
        return SLICE_NONE;
    slice title = slice_from(page, (size_t)at + 7);
    ptrdiff_t end = slice_find_char(title, '<');
    return end < 0 ? SLICE_NONE : slice_trim(slice_first(title, (size_t)end));
}

slice reply_error_text(const struct json *body)
{
    static const char *const pointers[] = {
        "/error/message",   "/errors/0/message", "/message",        "/error_description",
        "/errors/0/detail", "/detail",           "/error/detail",   "/0/message",
        "/errorMessages/0", "/error_summary",    "/errors/0/title", "/title",
        "/reason",          "/errors/0",         "/error",
    };
    if (json_is(body, JSON_STRING)) {
        slice text = slice_trim(json_str(body));
        return slice_starts_with(text, SLICE("<")) ? html_title(text) : text;
    }
    for (size_t i = 0; i < ARRAY_LEN(pointers); i++) {
        slice text = json_str(json_pointer(body, slice_cstr(pointers[i])));
        if (slice_trim(text).len > 0)
            return text;
    }
    return SLICE_NONE;
}

/* ---- cleaning ---- */

static bool is_blank(unsigned char c)
{
    return c <= 0x20 || c == 0x7f;
}

/* Returns the number of leading bytes that are ASCII and are shown unchanged. */
static size_t plain_first(slice text)
{
    size_t len = 0;
    while (len < text.len && text.ptr[len] > 0x20 && text.ptr[len] < 0x7f)
        len++;
    return len;
}

slice reply_clean_text(slice text, size_t bytes_max, struct arena *arena)
{
    struct buf out;
    buf_init(&out, LINE_BYTES_MAX);
    text = slice_first(text, LINE_BYTES_MAX / 4); /* a longer text is truncated anyway */
    while (text.len > 0 && out.len <= bytes_max) {
        size_t len = plain_first(text);
        if (len == 0)
            len = slice_utf8_first(text);
        if (len == 0 || is_blank((unsigned char)text.ptr[0])) {
            if (out.len > 0 && out.ptr[out.len - 1] != ' ')
                buf_append_char(&out, ' ');
            len = 1;
        } else {
            buf_append(&out, slice_first(text, len));
        }
        text = slice_from(text, len);
    }
    slice line = slice_trim(slice_first_utf8(buf_slice(&out), bytes_max));
    slice cleaned = buf_is_ok(&out) && line.len > 0 ? arena_dup(arena, line) : SLICE_NONE;
    buf_deinit(&out);
    return cleaned;
}
