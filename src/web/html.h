/*
 * html: text as markup, wherever it is: between tags and inside double-quoted attributes.
 */
#ifndef WEB_HTML_H
#define WEB_HTML_H

#include "base/buf.h"

/* Escaped: & < > " ' and what is no UTF-8 (U+FFFD); control characters but tab and newline become
 * U+FFFD, too. */
void html_text(struct buf *out, slice text);

#endif
