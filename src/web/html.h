/*
 * html: text as markup, wherever it is: between tags and inside double-quoted attributes.
 */
#ifndef WEB_HTML_H
#define WEB_HTML_H

#include "base/buf.h"

/* Escaped: & < > " ' and what is no UTF-8 (U+FFFD); control characters but tab and newline become
 * U+FFFD, too. */
void html_text(struct buf *out, slice text);
/* The same of what is there to be read, and not to be sent again: what no reader sees appears as
 * \uXXXX, and a text with letters from right to left is isolated (U+2068, U+2069), so that it moves
 * nothing around it, wherever it is. */
void html_visible(struct buf *out, slice text);

#endif
