/*
 * Writes HTML; see html.h.
 */
#include "web/html.h"

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
    /* These are white space in HTML and stay as they are. */
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
        /* 0: not UTF-8 here. One byte is replaced, and the scan goes on after it. */
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
