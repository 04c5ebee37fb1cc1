/*
 * html: text as markup that is safe in any position: between tags and inside double-quoted
 * attributes.
 */
#ifndef WEB_HTML_H
#define WEB_HTML_H

#include "base/buf.h"

/* Escapes & < > " and ', and replaces bytes that are not UTF-8 and control characters except tab
 * and newline by U+FFFD. */
void html_text(struct buf *out, slice text);
/* Escapes text that is only displayed, not sent again: invisible characters appear as \uXXXX,
 * and a text with right-to-left letters is isolated (U+2068, U+2069), so that it never moves the
 * text around it. */
void html_visible(struct buf *out, slice text);

#endif
