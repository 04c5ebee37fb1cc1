/*
 * schema_uri: RFC 3986 5.2, strict: a reference with a scheme is absolute even if its scheme equals
 * the base's. The only normalization is the removal of dot segments, so URIs are compared as
 * written.
 */
#include "schema/uri.h"

#include "base/ascii.h"

struct uri {
    slice scheme;    /* including its ':' */
    slice authority; /* including its '//' */
    slice path;
    slice query; /* including its '?' */
};

slice schema_uri_split(slice uri, slice *fragment)
{
    ptrdiff_t at = slice_find_char(uri, '#');
    if (fragment)
        *fragment = at < 0 ? SLICE_NONE : slice_from(uri, (size_t)at + 1);
    return at < 0 ? uri : slice_first(uri, (size_t)at);
}

size_t schema_uri_scheme_len(slice text)
{
    size_t at = 0;
    while (at < text.len && (ascii_is_letter(text.ptr[at]) ||
                             (at > 0 && (ascii_is_digit(text.ptr[at]) || text.ptr[at] == '+' ||
                                         text.ptr[at] == '-' || text.ptr[at] == '.'))))
        at++;
    return at > 0 && at < text.len && text.ptr[at] == ':' ? at + 1 : 0;
}

static slice take_uri_part(slice *text, size_t len)
{
    slice part = slice_first(*text, len);
    *text = slice_from(*text, len);
    return part;
}

/* Returns the number of bytes before the first of the characters in `stops`. */
static size_t span_until(slice text, const char *stops)
{
    size_t len = 0;
    /* strchr also finds the NUL at the end of `stops`, so a NUL in the text is tested first. */
    while (len < text.len && (!text.ptr[len] || !strchr(stops, text.ptr[len])))
        len++;
    return len;
}

static struct uri take_apart(slice text)
{
    struct uri uri = {0};
    uri.scheme = take_uri_part(&text, schema_uri_scheme_len(text));
    if (slice_starts_with(text, SLICE("//")))
        uri.authority = take_uri_part(&text, 2 + span_until(slice_from(text, 2), "/?"));
    uri.path = take_uri_part(&text, span_until(text, "?"));
    uri.query = text;
    return uri;
}

/* Removes dot segments (RFC 3986 5.2.4) in place; returns the new length. */
static size_t remove_dot_segments(char *path, size_t len)
{
    size_t out = 0;
    for (size_t at = 0; at < len;) {
        size_t end = at + 1;
        while (end < len && path[end] != '/')
            end++;
        slice segment = {path + at, end - at};
        bool is_last = end == len;
        if (slice_eq(segment, SLICE("/.")) || slice_eq(segment, SLICE("/.."))) {
            if (segment.len == 3) {
                /* ".." removes the last segment written so far; at the root there is none, so it
                 * does nothing. */
                while (out > 0 && path[--out] != '/')
                    continue;
            }
            if (is_last)
                path[out++] = '/';
        } else {
            memmove(path + out, path + at, segment.len);
            out += segment.len;
        }
        at = end;
    }
    return out;
}

/* Merges paths (RFC 3986 5.2.3): the base's path up to its last '/', then the reference's. */
static slice merge_paths(struct arena *arena, const struct uri *base, slice path)
{
    size_t keep = base->path.len;
    while (keep > 0 && base->path.ptr[keep - 1] != '/')
        keep--;
    /* RFC 3986 5.2.3: an authority and no path make "/" the base. */
    bool needs_root = base->authority.len > 0 && base->path.len == 0;
    slice head = needs_root ? SLICE("/") : slice_first(base->path, keep);
    return arena_printf(arena, "%.*s%.*s", SLICE_ARG(head), SLICE_ARG(path));
}

static slice assemble(struct arena *arena, const struct uri *uri, slice path)
{
    /* Only for absolute paths: a relative base keeps its dot segments, since there is nothing to
     * resolve them against. */
    if (path.len > 0 && path.ptr[0] == '/') {
        char *text = arena_alloc_text(arena, path.len);
        if (!text)
            return SLICE_NONE;
        memcpy(text, path.ptr, path.len);
        path = slice_of(text, remove_dot_segments(text, path.len));
    }
    const slice parts[] = {uri->scheme, uri->authority, path, uri->query};
    size_t size = uri->scheme.len + uri->authority.len + path.len + uri->query.len;
    char *whole = arena_alloc_text(arena, size + 1);
    return whole ? slice_join(whole, size, parts, ARRAY_LEN(parts)) : SLICE_NONE;
}

slice schema_uri_resolve(struct arena *arena, slice base, slice reference)
{
    base = schema_uri_split(base, NULL);
    reference = schema_uri_split(reference, NULL);
    if (base.len > SCHEMA_URI_BYTES_MAX || reference.len > SCHEMA_URI_BYTES_MAX)
        return SLICE_NONE;
    /* The empty reference is the base document itself (RFC 3986 4.4). */
    if (reference.len == 0)
        return base.ptr ? base : SLICE("");
    struct uri from = take_apart(base);
    struct uri uri = take_apart(reference);
    slice path = uri.path;
    if (uri.scheme.len == 0) {
        /* The first part that the reference has decides; all parts before that one come from the
         * base. */
        uri.scheme = from.scheme;
        if (uri.authority.len == 0) {
            uri.authority = from.authority;
            if (path.len == 0) {
                path = from.path;
                if (uri.query.len == 0)
                    uri.query = from.query;
            } else if (path.ptr[0] != '/') {
                path = merge_paths(arena, &from, path);
            }
        }
    }
    return assemble(arena, &uri, path);
}
