/*
 * Writes HTML; see html.h.
 */
#include "web/html.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/map.h"

enum { VERSION_LEN = 16 };

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

void html_write(struct buf *out, const char *markup, const slice *values, size_t count)
{
    slice rest = slice_cstr(markup);
    for (size_t i = 0;; i++) {
        ptrdiff_t at = slice_find(rest, SLICE("{}"));
        if (at < 0) {
            /* Too few or too many values are a bug in the caller, found by the first page that is
             * rendered. */
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

size_t html_block_begin(struct buf *out, const char *tag, slice id, const char *attributes)
{
    HTML(out, "<{} id=\"{}\"", slice_cstr(tag), id);
    /* The version is not known yet; html_block_end overwrites the zeros. */
    buf_printf(out, "%s data-version=\"%0*d\">", attributes, VERSION_LEN, 0);
    return out->len;
}

void html_block_end(struct buf *out, const char *tag, size_t began)
{
    char version[VERSION_LEN + 1];
    /* A failed buffer has no content to hash; the page is not sent anyway. */
    if (!buf_is_ok(out))
        return;
    ASSERT(began <= out->len && began >= VERSION_LEN + 2);
    (void)snprintf(version, sizeof(version), "%0*llx", VERSION_LEN,
                   (unsigned long long)hash_stable(out->ptr + began, out->len - began));
    memcpy(out->ptr + began - VERSION_LEN - 2, version, VERSION_LEN); /* before the "> */
    HTML(out, "</{}>", slice_cstr(tag));
}

void html_time(struct buf *out, int64_t wall_us)
{
    /* 0 is "never" in the database's rows. */
    char text[TIME_TEXT_LEN + 1];
    if (wall_us == 0) {
        buf_append_char(out, '-');
        return;
    }
    time_format(wall_us, text);
    /* Rendered in UTC; the script rewrites it in the reader's time zone. */
    HTML(out, "<time datetime=\"{}\">{} {} UTC</time>", slice_cstr(text), slice_of(text, 10),
         slice_of(text + 11, 5));
}
