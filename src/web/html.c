/*
 * Writes HTML; see html.h.
 */
#include "web/html.h"

#include "base/encode.h"

static slice escape_of(unsigned char c)
{
    switch (c) {
    case '&':
        return SLICE("&amp;");
    case '<':
        return SLICE("&lt;");
    case '>':
        return SLICE("&gt;");
    case '"':
        return SLICE("&quot;");
    case '\'':
        return SLICE("&#39;");
    /* These are white space in HTML and stay unchanged. */
    case '\t':
    case '\n':
    case '\r':
        return SLICE_NONE;
    default:
        /* Other control characters are not allowed in HTML; they become U+FFFD. */
        return c < 0x20 || c == 0x7F ? SLICE("\xEF\xBF\xBD") : SLICE_NONE;
    }
}

void html_text(struct buf *out, slice text)
{
    /* Bytes that need no escape are copied in runs, not one by one. */
    size_t run = 0, at = 0;
    while (at < text.len) {
        unsigned char c = (unsigned char)text.ptr[at];
        /* If len is 0, the bytes here are not UTF-8: one byte is replaced, and the scan continues
         * after it. */
        size_t len = c < 0x80 ? 1 : slice_utf8_first(slice_from(text, at));
        slice instead = len == 0 ? SLICE("\xEF\xBF\xBD") : c < 0x80 ? escape_of(c) : SLICE_NONE;
        if (instead.ptr) {
            buf_append(out, slice_of(text.ptr + run, at - run));
            buf_append(out, instead);
            run = at + (len ? len : 1);
        }
        at += len ? len : 1;
    }
    buf_append(out, slice_from(text, run));
}

/* Returns whether the character is in a block with right-to-left letters (Unicode's
 * DerivedBidiClass: R and AL). */
static bool is_right_to_left(uint32_t c)
{
    return (c >= 0x590 && c <= 0x8ff) || (c >= 0xfb1d && c <= 0xfdff) ||
           (c >= 0xfe70 && c <= 0xfefe) || (c >= 0x10800 && c <= 0x10fff) ||
           (c >= 0x1e800 && c <= 0x1efff);
}

static bool has_right_to_left(slice text)
{
    uint32_t c;
    for (size_t at = 0, len; at < text.len; at += len ? len : 1) {
        len = slice_utf8_first(slice_from(text, at));
        if (len > 1 && slice_code_point(slice_from(text, at), &c) && is_right_to_left(c))
            return true;
    }
    return false;
}

void html_visible(struct buf *out, slice text)
{
    static const slice kept = SLICE_INIT("\t\n\r"); /* white space in HTML */
    struct buf visible;
    if (slice_printable(text, ' ') == text.len) { /* nearly every text */
        html_text(out, text);
        return;
    }
    buf_init(&visible, 8 * text.len + 16);
    bool is_isolated = has_right_to_left(text);
    buf_append(&visible, is_isolated ? SLICE("\u2068") : SLICE(""));
    encode_visible(&visible, text, kept);
    buf_append(&visible, is_isolated ? SLICE("\u2069") : SLICE(""));
    html_text(out, buf_slice(&visible));
    out->is_failed = out->is_failed || !buf_is_ok(&visible);
    buf_deinit(&visible);
}
