/*
 * Markup of ours, text of others.
 */
#include "web/html.h"

#include "base/clock.h"

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
    case '\t':
    case '\n':
    case '\r':
        return SLICE_NONE;
    default:
        return c < 0x20 || c == 0x7F ? SLICE("\xEF\xBF\xBD") : SLICE_NONE;
    }
}

void html_text(struct buf *out, slice text)
{
    size_t run = 0, at = 0;
    while (at < text.len) {
        unsigned char c = (unsigned char)text.ptr[at];
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

void html_write(struct buf *out, const char *markup, const slice *values, size_t count)
{
    slice rest = slice_cstr(markup);
    for (size_t i = 0;; i++) {
        ptrdiff_t at = slice_find(rest, SLICE("{}"));
        if (at < 0) {
            ASSERT(i == count);
            buf_append(out, rest);
            return;
        }
        ASSERT(i < count);
        buf_append(out, slice_first(rest, (size_t)at));
        html_text(out, values[i]);
        rest = slice_from(rest, (size_t)at + 2);
    }
}

void html_time(struct buf *out, int64_t wall_us)
{
    char text[TIME_TEXT_LEN + 1];
    if (wall_us == 0) {
        buf_append_char(out, '-');
        return;
    }
    time_format(wall_us, text);
    HTML(out, "<time datetime=\"{}\">{} {} UTC</time>", slice_cstr(text), slice_of(text, 10),
         slice_of(text + 11, 5));
}
