/*
 * The text of an HTML page, for the functions that handle HTML (func_html.c). Private to the room.
 */
#ifndef EXPR_HTML_H
#define EXPR_HTML_H

#include "base/slice.h"

/* Writes into `to`, which must have as many bytes as the page; returns the bytes written. */
size_t expr_html_text(slice page, char *to);
/* Whether the text has anything other than white space and characters without a glyph. */
bool expr_text_has_words(slice text);

#endif
