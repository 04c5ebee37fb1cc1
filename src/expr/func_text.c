/*
 * func_text: functions over strings. Lengths and limits count code points, as the specification
 * does. Searching and joining work on bytes, which gives the same result for valid UTF-8.
 */
#include "expr/func.h"

#include <inttypes.h>
#include <stdio.h>

EXPR_FUNCTION(starts_with)
{
    *out = json_bool(slice_starts_with(json_str(&args[0]), json_str(&args[1])));
    return expr_run_scan(run, args[1].count);
}

EXPR_FUNCTION(ends_with)
{
    *out = json_bool(slice_ends_with(json_str(&args[0]), json_str(&args[1])));
    return expr_run_scan(run, args[1].count);
}

EXPR_FUNCTION(word_after)
{
    slice text = json_str(&args[0]), marker = json_str(&args[1]);
    ptrdiff_t at = slice_find(text, marker);
    *out = json_null;
    slice rest = at < 0 ? SLICE_NONE : slice_from(text, (size_t)at + marker.len);
    /* strchr finds the NUL at the end of its list, too, so a NUL in the text counts as white
     * space. */
    while (rest.len > 0 && strchr(" \t\r\n", *rest.ptr))
        rest = slice_from(rest, 1);
    size_t len = 0;
    while (len < rest.len && !strchr(" \t\r\n", rest.ptr[len]))
        len++;
    if (len > 0)
        *out = expr_string(rest.ptr, len);
    return expr_run_scan(run, text.len);
}

/* Puts the text between two `quote` characters and writes `escape` before each `quote` and each
 * `escape` inside. */
static int write_between(struct expr_run *run, slice text, char quote, char escape,
                         struct json *out)
{
    size_t len = text.len + 2;
    char *to = NULL;
    for (size_t i = 0; i < text.len; i++)
        len += text.ptr[i] == quote || text.ptr[i] == escape;
    int rc = expr_run_text(run, len, &to);
    if (rc != OK)
        return rc;
    *out = expr_string(to, len);
    *to++ = quote;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == quote || text.ptr[i] == escape)
            *to++ = escape;
        *to++ = text.ptr[i];
    }
    *to++ = quote;
    ASSERT(to == out->as.text + len);
    return OK;
}

static bool is_control(char c)
{
    return (unsigned char)c < ' ' || c == 0x7f;
}

EXPR_FUNCTION(one_line)
{
    slice text = json_str(&args[0]);
    char *to = NULL;
    size_t len = 0;
    *out = json_null;
    if (args[0].type == JSON_NULL)
        return OK;
    int rc = expr_run_text(run, text.len, &to);
    for (size_t i = 0; rc == OK && i < text.len; i++)
        if (!is_control(text.ptr[i]))
            to[len++] = text.ptr[i];
        else if (i == 0 || !is_control(text.ptr[i - 1]))
            to[len++] = ' ';
    if (rc == OK)
        *out = expr_string(to, len);
    return rc;
}

EXPR_FUNCTION(quote)
{
    return write_between(run, json_str(&args[0]), '"', '\\', out);
}

EXPR_FUNCTION(quote_odata)
{
    return write_between(run, json_str(&args[0]), '\'', '\'', out);
}

EXPR_FUNCTION(join)
{
    slice glue = json_str(&args[0]);
    const struct json *parts = &args[1];
    size_t len = parts->count ? glue.len * (parts->count - 1) : 0;
    int rc = expr_run_visit(run, parts->count);
    for (uint32_t i = 0; rc == OK && i < parts->count; i++)
        len += parts->as.items[i].count;
    char *to = NULL;
    if (rc == OK)
        rc = expr_run_text(run, len, &to);
    if (rc != OK)
        return rc;
    *out = expr_string(to, len);
    for (uint32_t i = 0; i < parts->count; i++) {
        slice part = json_str(&parts->as.items[i]);
        if (i > 0 && glue.len)
            to = mempcpy(to, glue.ptr, glue.len);
        if (part.len)
            to = mempcpy(to, part.ptr, part.len);
    }
    ASSERT(to == out->as.text + len);
    return OK;
}

EXPR_FUNCTION(to_string)
{
    *out = args[0];
    if (args[0].type == JSON_STRING)
        return OK;
    slice text = SLICE_NONE;
    int rc = expr_value_text(run, &args[0], &text);
    if (rc == OK)
        *out = expr_string(text.ptr, text.len);
    return rc;
}

EXPR_FUNCTION(type)
{
    *out = json_string(slice_cstr(expr_value_type(&args[0])));
    return OK;
}

/* Returns the length in bytes of the first *points code points of text, and sets *points to the
 * number found. */
static size_t first_points(slice text, int64_t *points)
{
    int64_t found = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (((unsigned char)text.ptr[i] & 0xC0) == 0x80)
            continue;
        /* Stops before the first code point over the limit. */
        if (found == *points)
            return i;
        found++;
    }
    *points = found;
    return text.len;
}

EXPR_FUNCTION(truncate)
{
    int64_t max = 0;
    slice text = json_str(&args[0]);
    slice suffix = call->count > 2 ? json_str(&args[2]) : SLICE("\xE2\x80\xA6");
    /* json_to_i64 also accepts a real number that is whole (10.0). */
    if (!json_to_i64(&args[1], &max) || max < 0)
        return expr_run_fail(run, EXPR_FAULT_VALUE, call->at,
                             "truncate() wants a whole number that is not negative");
    int rc = expr_run_scan(run, text.len + suffix.len);
    if (rc != OK)
        return rc;
    *out = args[0];
    int64_t kept = max;
    /* Nothing is cut off, so the text is shared. */
    if (first_points(text, &kept) == text.len)
        return OK;
    int64_t suffix_points = INT64_MAX;
    first_points(suffix, &suffix_points);
    if (suffix_points > max) {
        suffix = SLICE_NONE; /* the suffix does not fit, and the text is more important */
        suffix_points = 0;
    }
    kept = max - suffix_points;
    size_t len = first_points(text, &kept);
    char *to = NULL;
    rc = expr_run_text(run, len + suffix.len, &to);
    if (rc != OK)
        return rc;
    memcpy(to, text.ptr, len);
    if (suffix.len)
        memcpy(to + len, suffix.ptr, suffix.len);
    *out = expr_string(to, len + suffix.len);
    return OK;
}

/* Returns the plural ending of an English noun: "ies" instead of a "y" after a consonant, "es"
 * after a sibilant, else "s". Sets *kept to the number of the noun's bytes before the ending. */
static slice plural_end(slice noun, size_t *kept)
{
    *kept = noun.len;
    char last = noun.len > 1 ? noun.ptr[noun.len - 1] : '\0';
    char before = noun.len > 1 ? noun.ptr[noun.len - 2] : '\0';
    if (last == 'y' && !strchr("aeiou", before)) {
        (*kept)--;
        return SLICE("ies");
    }
    if (last == 's' || last == 'x' || (last == 'h' && (before == 'c' || before == 's')))
        return SLICE("es");
    return SLICE("s");
}

EXPR_FUNCTION(counted)
{
    int64_t count = args[0].type == JSON_ARRAY ? (int64_t)args[0].count : 0;
    if (json_is_number(&args[0]) && (!json_to_i64(&args[0], &count) || count < 0))
        return expr_run_fail(run, EXPR_FAULT_VALUE, call->at,
                             "counted() wants an array or a whole number that is not negative");
    slice noun = json_str(&args[1]), end = SLICE_NONE;
    size_t kept = noun.len;
    if (count != 1 && call->count > 2) {
        noun = json_str(&args[2]);
        kept = noun.len;
    } else if (count != 1) {
        end = plural_end(noun, &kept);
    }
    /* "No" is for 0; any other number replaces it below. */
    char number[24] = "No";
    if (count > 0)
        (void)snprintf(number, sizeof(number), "%" PRId64, count);
    size_t len = strlen(number) + 1 + kept + end.len + (count == 0);
    char *to = NULL;
    int rc = expr_run_text(run, len, &to);
    if (rc != OK)
        return rc;
    *out = expr_string(to, len);
    to = mempcpy(to, number, strlen(number));
    *to++ = ' ';
    if (kept)
        to = mempcpy(to, noun.ptr, kept);
    if (end.len)
        to = mempcpy(to, end.ptr, end.len);
    if (count == 0)
        *to = '.';
    return OK;
}
