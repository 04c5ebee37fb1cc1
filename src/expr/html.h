/*
 * What a page says, for the functions that meet HTML (func_html.c). Private to the room.
 */
#ifndef EXPR_HTML_H
#define EXPR_HTML_H

#include "base/slice.h"

/* Into to, which has room for as many bytes as the page: the bytes written. */
size_t expr_html_text(slice page, char *to);
/* Whether it holds anything but white space and characters without a shape. */
bool expr_text_has_words(slice text);

#endif
