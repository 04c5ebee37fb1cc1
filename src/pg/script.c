#include "pg/script.h"

#include "base/ascii.h"

/* Returns the length of text from `start` to the end of the first `end` after it; all of the text
 * if there is none. */
static size_t length_to(slice text, size_t start, slice end)
{
    ptrdiff_t at = slice_find(slice_from(text, start), end);
    return at < 0 ? text.len : start + (size_t)at + end.len;
}

/* Returns "$$" or "$name$" at the start of text; SLICE_NONE for a parameter or anything else. */
static slice dollar_tag(slice text)
{
    size_t len = 1;
    while (len < text.len && (ascii_is_alnum(text.ptr[len]) || text.ptr[len] == '_'))
        len++;
    bool is_tag = len < text.len && text.ptr[len] == '$' && !ascii_is_digit(text.ptr[1]);
    return is_tag ? slice_first(text, len + 1) : SLICE_NONE;
}

/* Length of the comment, string, quoted name or dollar quote at the start of text, else 1. A
 * doubled quote inside ends one string and begins another. */
static size_t token_length(slice text)
{
    char first = text.ptr[0];
    if (first == '\'' || first == '"')
        return length_to(text, 1, slice_first(text, 1));
    if (slice_starts_with(text, SLICE("--")))
        return length_to(text, 2, SLICE("\n"));
    if (slice_starts_with(text, SLICE("/*")))
        return length_to(text, 2, SLICE("*/"));
    slice tag = first == '$' ? dollar_tag(text) : SLICE_NONE;
    return tag.len ? length_to(text, tag.len, tag) : 1;
}

bool pg_script_next(slice *script, slice *statement)
{
    while (script->len && slice_find_char(SLICE(" \t\r\n;"), script->ptr[0]) >= 0)
        *script = slice_from(*script, 1);
    size_t len = 0;
    while (len < script->len && script->ptr[len] != ';')
        len += token_length(slice_from(*script, len));
    *statement = slice_first(*script, len);
    *script = slice_from(*script, len);
    return statement->len > 0;
}
