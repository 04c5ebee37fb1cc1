/*
 * url: see url.h. The grammar is RFC 3986's, narrowed to text that a request may contain unchanged.
 * The address check relies on decisions made here: what the host is, and that no other reader can
 * find another host in the same text.
 */
#include "http/url.h"

#include "base/ascii.h"
#include "base/ip.h"

static bool is_url_host_char(char c)
{
    return ascii_is_alnum(c) || c == '-' || c == '_';
}

/* pchar, "/" and "?" of RFC 3986 3.3 and 3.4; "%" is checked with what follows it. Beyond them "[",
 * "]", "|" and the like are accepted, which real services use in queries; never characters that
 * could end the request line or begin a fragment. */
static bool is_target_char(char c)
{
    return c > 0x20 && c < 0x7f && c != '#' && c != '"' && c != '<' && c != '>' && c != '\\' &&
           c != '^' && c != '`';
}

static int check_target(slice target, struct err *err)
{
    for (size_t i = 0; i < target.len; i++) {
        char c = target.ptr[i];
        if (c == '#')
            return err_set(err, ERR_SYNTAX, "a request URL must not have a fragment (#...)");
        if (!is_target_char(c))
            return err_set(err, ERR_SYNTAX,
                           "byte 0x%02x at %zu of the URL's path and query must be "
                           "percent-encoded",
                           (unsigned)(unsigned char)c, i);
        /* Both digits must be present: "%4" at the end is not an escape. */
        if (c == '%' && (i + 2 >= target.len || !ascii_is_hex(target.ptr[i + 1]) ||
                         !ascii_is_hex(target.ptr[i + 2])))
            return err_set(err, ERR_SYNTAX, "a %% in the URL is not followed by two hex digits");
    }
    return OK;
}

static int parse_v6(slice literal, struct url *url, struct err *err)
{
    uint8_t ignored[16];
    if (ip_parse(literal, ignored) != 16)
        return err_set(err, ERR_SYNTAX, "the URL's host is not a valid IPv6 address in brackets");
    url->host = literal;
    url->is_ip_literal = true;
    return OK;
}

/* Hosts that end in a number are IPv4 addresses to some resolvers, in forms (octal, hex, fewer
 * parts) that others read differently: 0177.0.0.1 is 127.0.0.1 for one and 177.0.0.1 for another.
 * Only the plain form of four decimals is accepted. */
static bool ends_in_number(slice host)
{
    slice last = host;
    for (size_t i = 0; i < host.len; i++)
        if (host.ptr[i] == '.' && i + 1 < host.len)
            last = slice_from(host, i + 1);
    if (last.len >= 2 && last.ptr[0] == '0' && (last.ptr[1] | 0x20) == 'x') {
        for (size_t i = 2; i < last.len; i++)
            if (!ascii_is_hex(last.ptr[i]))
                return false;
        return true;
    }
    for (size_t i = 0; i < last.len; i++)
        if (!ascii_is_digit(last.ptr[i]))
            return false;
    return true;
}

static int check_labels(slice host, struct err *err)
{
    size_t label = 0;
    for (size_t i = 0; i < host.len; i++) {
        char c = host.ptr[i];
        /* RFC 1035 2.3.4: labels of 1 to 63 bytes. An empty label is refused, except for the
         * root's dot at the end. */
        if (c == '.' ? label == 0 : !is_url_host_char(c) || label == 63)
            return err_set(err, ERR_SYNTAX, "the URL's host \"%.*s\" is not a valid host name",
                           SLICE_ARG(slice_first(host, 80)));
        label = c == '.' ? 0 : label + 1;
    }
    return OK;
}

static int parse_name(slice host, struct url *url, struct err *err)
{
    uint8_t ignored[16];
    if (host.len == 0)
        return err_set(err, ERR_SYNTAX, "the URL has no host");
    if (host.len > URL_HOST_MAX)
        return err_set(err, ERR_SYNTAX, "the URL's host is longer than %d characters",
                       URL_HOST_MAX);
    int code = check_labels(host, err);
    if (code != OK)
        return code;
    url->host = host;
    /* "127.0.0.1." is an address, too. */
    slice bare = host.ptr[host.len - 1] == '.' ? slice_first(host, host.len - 1) : host;
    if (!ends_in_number(bare))
        return OK;
    if (ip_parse(host, ignored) != 4)
        return err_set(err, ERR_SYNTAX,
                       "the URL's host \"%.*s\" is neither a name nor an IPv4 address in its plain "
                       "form",
                       SLICE_ARG(slice_first(host, 80)));
    url->is_ip_literal = true;
    return OK;
}

static int parse_port(slice rest, struct url *url, struct err *err)
{
    uint64_t port;
    if (rest.len == 0)
        return OK;
    if (rest.ptr[0] != ':')
        return err_set(err, ERR_SYNTAX, "the URL has text between host and port");
    /* A port has at most five digits; no connection to port 0 is possible. */
    if (rest.len > 6 || !slice_to_u64(slice_from(rest, 1), 65535, &port) || port == 0)
        return err_set(err, ERR_SYNTAX, "the URL's port is not a number from 1 to 65535");
    url->port = (uint16_t)port;
    return OK;
}

static int parse_authority(slice authority, struct url *url, struct err *err)
{
    /* "https://good.example@evil.example/": readers overlook the actual host. */
    if (memchr(authority.ptr, '@', authority.len))
        return err_set(err, ERR_SYNTAX,
                       "the URL has user information; credentials belong in a header");
    url->authority = authority;
    if (authority.len && authority.ptr[0] == '[') {
        ptrdiff_t end = slice_find_char(authority, ']');
        if (end < 0)
            return err_set(err, ERR_SYNTAX, "the URL's IPv6 address has no closing bracket");
        int code = parse_v6(slice_of(authority.ptr + 1, (size_t)end - 1), url, err);
        return code != OK ? code : parse_port(slice_from(authority, (size_t)end + 1), url, err);
    }
    ptrdiff_t colon = slice_find_char(authority, ':');
    size_t host_len = colon < 0 ? authority.len : (size_t)colon;
    int code = parse_name(slice_first(authority, host_len), url, err);
    return code != OK ? code : parse_port(slice_from(authority, host_len), url, err);
}

int url_parse(slice text, struct url *url, struct err *err)
{
    *url = (struct url){0};
    if (text.len > URL_BYTES_MAX)
        return err_set(err, ERR_LIMIT, "the URL is longer than %d bytes", URL_BYTES_MAX);
    if (slice_eq_nocase(slice_first(text, 8), SLICE("https://"))) {
        url->is_https = true;
        text = slice_from(text, 8);
    } else if (slice_eq_nocase(slice_first(text, 7), SLICE("http://"))) {
        text = slice_from(text, 7);
    } else {
        return err_set(err, ERR_SYNTAX, "the URL does not begin with https:// or http://");
    }
    url->port = url->is_https ? 443 : 80;
    size_t len = 0;
    /* The authority ends here for every parser (RFC 3986 3.2); a backslash, which browsers read as
     * a slash, is refused as part of the host. */
    while (len < text.len && text.ptr[len] != '/' && text.ptr[len] != '?' && text.ptr[len] != '#')
        len++;
    url->target = slice_from(text, len);
    if (len == 0)
        return err_set(err, ERR_SYNTAX, "the URL has no host");
    int code = parse_authority(slice_first(text, len), url, err);
    return code != OK ? code : check_target(url->target, err);
}

slice url_origin(const struct url *url, char out[URL_ORIGIN_MAX + 1])
{
    bool is_v6 = url->is_ip_literal && memchr(url->host.ptr, ':', url->host.len);
    char port[SLICE_U64_MAX];
    const slice parts[] = {url->is_https ? SLICE("https://") : SLICE("http://"),
                           is_v6 ? SLICE("[") : SLICE_NONE, url->host,
                           is_v6 ? SLICE("]:") : SLICE(":"), slice_of_u64(url->port, port)};
    slice text = slice_join(out, URL_ORIGIN_MAX + 1, parts, ARRAY_LEN(parts));
    ASSERT(text.len <= URL_ORIGIN_MAX);
    /* Scheme and host are case-insensitive (RFC 3986 6.2.2.1); the port has no letters. */
    for (size_t i = 0; i < text.len; i++)
        out[i] = ascii_lower(out[i]);
    out[text.len] = '\0';
    return text;
}
