/*
 * Addresses of authorization servers that differ per customer: `${connection.params.x}` in
 * authorize_url and token_url, as in base_url.
 */
#include "connect/oauth_token.h"

#include "base/ascii.h"
#include "base/encode.h"

static const char OPENING[] = "${connection.params.";

/* Allows only characters that cannot end a host, a port or a path segment, because a customer types
 * the value and the client's secret is sent to the resulting address. */
static bool is_address_part(slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        bool is_word = ascii_is_alnum(c);
        if (!is_word && c != '-' && c != '.' && c != '_')
            return false;
    }
    return value.len > 0;
}

/* Also returns false for a placeholder of another kind, and for one that is not terminated. */
static bool fill_placeholders(slice text, const struct json *params, struct buf *out)
{
    ptrdiff_t at;
    while ((at = slice_find(text, SLICE("${"))) >= 0) {
        slice rest = slice_from(text, (size_t)at);
        ptrdiff_t end = slice_find_char(rest, '}');
        if (!slice_starts_with(rest, slice_cstr(OPENING)) || end < 0)
            return false;
        slice name = slice_of(rest.ptr + sizeof(OPENING) - 1, (size_t)end - (sizeof(OPENING) - 1));
        slice value = json_get_str(params, name);
        if (!is_address_part(value))
            return false;
        buf_append(out, slice_first(text, (size_t)at));
        buf_append(out, value);
        text = slice_from(rest, (size_t)end + 1);
    }
    buf_append(out, text);
    return buf_is_ok(out);
}

slice oauth_url_make(slice text, const struct json *params, struct arena *arena)
{
    struct buf out;
    if (slice_find(text, SLICE("${")) < 0)
        return text;
    buf_init(&out, OAUTH_REQUEST_BYTES_MAX);
    bool is_filled = fill_placeholders(text, params, &out);
    slice url = arena_take(arena, &out), rest = url;
    return is_filled && !path_has_dot_segment(slice_split(&rest, '?')) ? url : SLICE_NONE;
}
