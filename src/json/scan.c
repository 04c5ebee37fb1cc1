/*
 * scan: see scan.h. Only brackets and quotes are read: in valid JSON they alone decide where a
 * value ends. Depth is a counter, not recursion.
 */
#include "json/scan.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && is_space(*at))
        at++;
    return at;
}

/* at: the position after the opening quote. Returns the position after the closing quote. */
static const char *skip_string(const char *at, const char *end)
{
    const char *start = at;
    while (at < end && (at = memchr(at, '"', (size_t)(end - at)))) {
        /* A quote is escaped if an odd number of backslashes precedes it. */
        const char *escape = at;
        while (escape > start && escape[-1] == '\\')
            escape--;
        at++;
        if ((at - 1 - escape) % 2 == 0)
            return at;
        start = at; /* an escaped quote ends the run of backslashes before it */
    }
    return end;
}

/* at: the position after the opening bracket. Returns the position after the closing one. */
static const char *skip_container(const char *at, const char *end)
{
    /* A text that ends early (invalid, by contract) also ends the loop, because at never passes
     * end. */
    for (size_t depth = 1; at < end && depth > 0;) {
        char c = *at++;
        if (c == '"')
            at = skip_string(at, end);
        else if (c == '{' || c == '[')
            depth++;
        else if (c == '}' || c == ']')
            depth--;
    }
    return at;
}

static const char *skip_scalar(const char *at, const char *end)
{
    while (at < end && *at != ',' && *at != '}' && *at != ']' && *at != ':' && !is_space(*at))
        at++;
    return at;
}

slice json_scan_value(slice text)
{
    if (text.len == 0)
        return SLICE_NONE;
    const char *end = text.ptr + text.len, *start = skip_space(text.ptr, end), *at;
    if (start == end)
        return SLICE_NONE;
    if (*start == '"')
        at = skip_string(start + 1, end);
    else if (*start == '{' || *start == '[')
        at = skip_container(start + 1, end);
    else
        at = skip_scalar(start, end);
    return at > start ? slice_of(start, (size_t)(at - start)) : SLICE_NONE;
}

enum json_type json_scan_type(slice value)
{
    /* An empty value counts as null. */
    switch (value.len ? value.ptr[0] : 'n') {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
    case 'f':
        return JSON_BOOL;
    case 'n':
        return JSON_NULL;
    default:
        return JSON_REAL;
    }
}

/* ---- containers ---- */

static void skip_separators(struct json_scan *scan, char separator)
{
    const char *end = scan->rest.ptr + scan->rest.len, *at = skip_space(scan->rest.ptr, end);
    if (at < end && *at == separator)
        at = skip_space(at + 1, end);
    scan->rest = slice_of(at, (size_t)(end - at));
}

void json_scan_open(struct json_scan *scan, slice container)
{
    enum json_type type = json_scan_type(container);
    scan->is_object = type == JSON_OBJECT;
    bool has_inside = (scan->is_object || type == JSON_ARRAY) && container.len >= 2;
    scan->rest = has_inside ? slice_of(container.ptr + 1, container.len - 2) : SLICE_NONE;
}

bool json_scan_next(struct json_scan *scan, slice *key, slice *value)
{
    slice name = SLICE_NONE;
    if (scan->rest.len == 0)
        return false;
    skip_separators(scan, ',');
    if (scan->is_object) {
        name = json_scan_value(scan->rest);
        if (!name.ptr)
            /* Only white space is left. */
            return false;
        scan->rest = slice_from(scan->rest, name.len);
        skip_separators(scan, ':');
    }
    slice found = json_scan_value(scan->rest);
    if (!found.ptr)
        return false;
    scan->rest = slice_from(scan->rest, found.len);
    /* Set only here, so that both are unchanged if nothing was found. */
    *key = name;
    *value = found;
    return true;
}

size_t json_scan_count(slice container)
{
    struct json_scan scan;
    slice key, value;
    size_t count = 0;
    json_scan_open(&scan, container);
    while (json_scan_next(&scan, &key, &value))
        count++;
    return count;
}

/* ---- keys ---- */

slice json_scan_str(slice quoted, struct arena *arena)
{
    if (quoted.len < 2 || quoted.ptr[0] != '"')
        return SLICE_NONE;
    slice inside = slice_of(quoted.ptr + 1, quoted.len - 2);
    /* Most keys have no escape, and are borrowed without a copy. */
    if (slice_find_char(inside, '\\') < 0)
        return inside;
    return json_str(json_parse(arena, quoted, &json_limits_provider, NULL));
}

slice json_scan_get(slice object, slice wanted, struct arena *arena)
{
    struct json_scan scan;
    slice key, value;
    json_scan_open(&scan, object);
    while (scan.is_object && json_scan_next(&scan, &key, &value))
        if (slice_eq(json_scan_str(key, arena), wanted))
            return value;
    return SLICE_NONE;
}

/* ---- pointers ---- */

static slice member_by_token(struct json_scan *scan, slice token, struct arena *arena)
{
    slice key, value;
    while (json_scan_next(scan, &key, &value))
        if (json_pointer_token_is(token, json_scan_str(key, arena)))
            return value;
    return SLICE_NONE;
}

static slice item_by_token(struct json_scan *scan, slice token)
{
    slice key, value;
    uint64_t index;
    if (!json_pointer_token_index(token, &index))
        return SLICE_NONE;
    while (json_scan_next(scan, &key, &value))
        if (index-- == 0)
            return value;
    return SLICE_NONE;
}

slice json_scan_pointer(slice root, slice pointer, struct arena *arena)
{
    slice value = json_scan_value(root), token;
    /* Each token descends one level. The cost is the text before the value, once for each level. */
    while (value.ptr && pointer.len > 0) {
        struct json_scan scan;
        if (!json_pointer_next(&pointer, &token))
            return SLICE_NONE;
        json_scan_open(&scan, value);
        value = scan.is_object ? member_by_token(&scan, token, arena) : item_by_token(&scan, token);
    }
    return value;
}
