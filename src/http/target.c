/*
 * target: the request target (RFC 9112 3.2) and the authority in Host (RFC 9110 7.2). Both may name
 * the host; what is made of it must not depend on which of them is read.
 */
#include "http/head_internal.h"

#include "base/ascii.h"

static bool is_port(slice text)
{
    uint64_t port;
    return text.len <= 5 && slice_to_u64(text, 65535, &port);
}

/* "[::1]" with what may stand between the brackets; the rest must be empty or a port. */
static bool is_bracketed(slice text)
{
    ptrdiff_t end = slice_find_char(text, ']');
    if (end < 3)
        return false;
    /* Zone ids ("%25eth0", RFC 6874) are refused: they have no meaning outside the machine that
     * wrote them. */
    for (ptrdiff_t i = 1; i < end; i++)
        if (ascii_hex_value(text.ptr[i]) < 0 && text.ptr[i] != ':' && text.ptr[i] != '.')
            return false;
    slice rest = slice_from(text, (size_t)end + 1);
    return rest.len == 0 || (rest.ptr[0] == ':' && is_port(slice_from(rest, 1)));
}

bool http_is_authority(slice text)
{
    /* A name of 255 bytes, a colon and five digits. */
    if (text.len == 0 || text.len > 255 + 6)
        return false;
    if (text.ptr[0] == '[')
        return is_bracketed(text);
    slice host = slice_split(&text, ':');
    /* slice_split leaves a NULL ptr where there was no colon: no port was written. */
    if (host.len == 0 || (text.ptr && !is_port(text)))
        return false;
    for (size_t i = 0; i < host.len; i++)
        if (!ascii_is_alnum(host.ptr[i]) && host.ptr[i] != '.' && host.ptr[i] != '-' &&
            host.ptr[i] != '_')
            return false;
    return true;
}

/* Visible ASCII without what RFC 3986 never allows and no client sends; escapes whole and not NUL.
 */
static bool is_target_text(slice text, const char **why)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        *why = "the request target has a character that needs an escape";
        /* A fragment is never sent (RFC 9112 3.2); a backslash is a slash for some and not for
         * others. */
        if (c <= ' ' || c > '~' || c == '#' || c == '"' || c == '<' || c == '>' || c == '\\')
            return false;
        if (c != '%')
            continue;
        *why = "the request target has a broken escape";
        if (i + 2 >= text.len || ascii_hex_value(text.ptr[i + 1]) < 0 ||
            ascii_hex_value(text.ptr[i + 2]) < 0)
            return false;
        /* %00 would cut the path for whatever handles it as a C string. */
        *why = "the request target has an escaped NUL";
        if (text.ptr[i + 1] == '0' && text.ptr[i + 2] == '0')
            return false;
    }
    return true;
}

/* "http://host/path": only with the host that Host names, so that no proxy sees another one. */
static bool read_absolute(struct http_head *head, slice *path, const char **why)
{
    slice target = head->target;
    size_t scheme = slice_eq_nocase(slice_first(target, 7), SLICE("http://"))    ? 7
                    : slice_eq_nocase(slice_first(target, 8), SLICE("https://")) ? 8
                                                                                 : 0;
    *why = "the request target is neither a path nor a URL";
    if (!scheme)
        return false;
    slice rest = slice_from(target, scheme);
    size_t end = 0;
    /* The authority ends at '/' or '?': a URL may have no path. */
    while (end < rest.len && rest.ptr[end] != '/' && rest.ptr[end] != '?')
        end++;
    slice authority = slice_first(rest, end);
    *why = "the request target names another host than Host";
    /* RFC 9112 3.2.2 has the target win over Host; a proxy that routed by Host would have chosen
     * another server, so they must agree. */
    if (!http_is_authority(authority) ||
        (head->host.ptr && !slice_eq_nocase(authority, head->host)))
        return false;
    head->host = authority;
    *path = slice_from(rest, end);
    return true;
}

bool http_target_read(struct http_head *head, const char **why)
{
    slice path = head->target;
    if (!is_target_text(path, why))
        return false;
    if (slice_eq_cstr(path, "*")) {
        *why = "the request target * is for OPTIONS only";
        head->path = path;
        return head->method == HTTP_METHOD_OPTIONS;
    }
    if (path.ptr[0] != '/' && !read_absolute(head, &path, why))
        return false;
    ptrdiff_t mark = slice_find_char(path, '?');
    head->path = mark < 0 ? path : slice_first(path, (size_t)mark);
    head->query = mark < 0 ? SLICE_NONE : slice_from(path, (size_t)mark + 1);
    if (head->path.len == 0)
        head->path = SLICE("/");
    return true;
}
