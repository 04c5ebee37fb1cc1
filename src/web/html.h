/*
 * html: pages as text. Everything that is no literal of this room goes through HTML(), which
 * escapes it, so that text from outside (mail subjects, page titles, labels) stays text wherever it
 * is: between tags and inside double-quoted attributes. For parts of a URL encode_percent comes
 * first (base/encode.h).
 */
#ifndef WEB_HTML_H
#define WEB_HTML_H

#include "base/buf.h"

/* HTML(out, "<a href=\"/flows/{}\">{}</a>", id, name): each {} takes the next slice, escaped. */
#define HTML(out, markup, ...)                                                  \
    html_write((out), (markup), (const slice[]){SLICE_NONE, ##__VA_ARGS__} + 1, \
               sizeof((const slice[]){SLICE_NONE, ##__VA_ARGS__}) / sizeof(slice) - 1)

/* As HTML() does; as many {} as values (asserted). */
void html_write(struct buf *out, const char *markup, const slice *values, size_t count);
/* Escaped: & < > " ' and what is no UTF-8 (U+FFFD); control characters but tab and newline become
 * U+FFFD, too. */
void html_text(struct buf *out, slice text);
/* A part of a page that the script updates on its own (assets/app.mjs): an element with this id,
 * and the hash of its content as its version. attributes: markup, "" or " class=...". Returns
 * `began` for html_block_end, which writes the version and the closing tag. */
size_t html_block_begin(struct buf *out, const char *tag, slice id, const char *attributes);
void html_block_end(struct buf *out, const char *tag, size_t began);
/* <time datetime="...">2026-01-31 23:59 UTC</time>; "-" for 0. */
void html_time(struct buf *out, int64_t wall_us);

#endif
