/*
 * head: step 2 of the check of a head: start line, names, Host, framing, on the contiguous bytes.
 * Refuses anything that two parsers could read differently; RFC 9112 3 to 6 define what is
 * well-formed.
 *
 * Where the RFC lets a recipient repair a message (a bare LF, two equal Content-Lengths, more white
 * space in the start line), this server refuses it: a proxy in front may have repaired it
 * differently, which is how requests are smuggled (RFC 9112 11.2).
 */
#include "http/head.h"

#include "base/ascii.h"

static bool refuse_head(struct http_problem *problem, unsigned status, const char *text)
{
    *problem = (struct http_problem){status, text};
    return false;
}

/* Returns the next line without its CRLF and moves *rest past it. The scan has found the CRLFs. */
static slice take_line(slice *rest)
{
    slice line = *rest;
    for (size_t at = 0; at < line.len; at++) {
        const char *end = memchr(line.ptr + at, '\n', line.len - at);
        if (!end)
            break;
        at = (size_t)(end - line.ptr);
        if (at == 0 || end[-1] != '\r')
            continue;
        *rest = slice_from(line, at + 1);
        return slice_first(line, at - 1);
    }
    *rest = SLICE_NONE;
    return line;
}

/* ---- start line ---- */

/* Reads "HTTP/1.1"; the problem is 505 for a version that is well-formed but not supported. */
static bool read_version(slice text, struct http_head *out, struct http_problem *problem)
{
    /* Positions are fixed: the version has a single form of eight bytes, which is case-sensitive
     * (RFC 9112 2.3). */
    if (text.len != 8 || !slice_starts_with(text, SLICE("HTTP/")) || text.ptr[6] != '.' ||
        !ascii_is_digit(text.ptr[5]) || !ascii_is_digit(text.ptr[7]))
        return refuse_head(problem, 400, "the start line has no HTTP version");
    if (text.ptr[5] != '1' || text.ptr[7] > '1')
        return refuse_head(problem, 505, "this server speaks only HTTP/1.1 and HTTP/1.0");
    out->version_minor = (unsigned)(text.ptr[7] - '0');
    return true;
}

static bool read_request_line(slice line, struct http_head *out, struct http_problem *problem)
{
    /* Only single spaces are accepted: with two of them the target would be empty, and the
     * remainder is not a version. */
    slice method = slice_split(&line, ' ');
    slice target = slice_split(&line, ' ');
    if (!http_is_token(method))
        return refuse_head(problem, 400, "the method is not a token");
    if (target.len == 0)
        return refuse_head(problem, 400, "the request line has no target");
    if (!read_version(line, out, problem))
        return false;
    out->method = http_method_parse(method);
    out->method_text = method;
    out->target = target;
    return true;
}

/* ---- header fields ---- */

/* The fields that the check itself reads. No other field name may resemble those up to TYPE. */
enum known { HOST, LENGTH, CODING, CONNECTION, EXPECT, AUTHORIZATION, TYPE, KEY, KNOWN };

static const struct {
    slice name; /* in lower case */
    const char *twice;
} known[KNOWN] = {
    [HOST] = {SLICE_INIT("host"), "more than one Host"},
    [LENGTH] = {SLICE_INIT("content-length"), "more than one Content-Length"},
    [CODING] = {SLICE_INIT("transfer-encoding"), "more than one Transfer-Encoding"},
    [CONNECTION] = {SLICE_INIT("connection"), NULL},
    [EXPECT] = {SLICE_INIT("expect"), NULL},
    [AUTHORIZATION] = {SLICE_INIT("authorization"), "more than one Authorization"},
    [TYPE] = {SLICE_INIT("content-type"), "more than one Content-Type"},
    [KEY] = {SLICE_INIT("idempotency-key"), "more than one Idempotency-Key"},
};

struct found {
    size_t count;
    slice value; /* the first field's */
};

/* Whether the letters and digits of the name are those of the known name. CGI-like gateways map
 * _, - and other characters of a token onto one another. */
static bool squeezes_to(slice name, slice real)
{
    size_t len = 0;
    for (size_t i = 0; i < name.len; i++) {
        char c = ascii_lower(name.ptr[i]);
        if (!ascii_is_lower(c) && !ascii_is_digit(c))
            continue;
        if (len == real.len || c != real.ptr[len++])
            return false;
        len += len < real.len && real.ptr[len] == '-';
    }
    return len == real.len;
}

/* Whether a name such as Transfer_Encoding, Host_ or ContentLength resembles a real field: some
 * gateways treat it as that field. */
static bool resembles_framing(slice name)
{
    for (size_t i = 0; i < TYPE; i++)
        if (squeezes_to(name, known[i].name))
            return true;
    return false;
}

static bool note_known(const struct http_header *field, struct found found[KNOWN])
{
    for (size_t i = 0; i < KNOWN; i++) {
        if (!slice_eq_nocase(field->name, known[i].name))
            continue;
        if (found[i].count++ == 0)
            found[i].value = field->value;
        return true;
    }
    return false;
}

static bool read_field(slice line, struct http_header *out, struct found found[KNOWN],
                       struct http_problem *problem)
{
    /* The first colon ends the name. With white space before it the name is not a token (RFC 9112
     * 5.1). */
    ptrdiff_t colon = slice_find_char(line, ':');
    if (colon < 0)
        return refuse_head(problem, 400, "a header line has no colon");
    slice name = slice_first(line, (size_t)colon);
    *out = (struct http_header){name, slice_trim(slice_from(line, (size_t)colon + 1))};
    if (note_known(out, found))
        return true;
    if (!http_is_token(name))
        return refuse_head(problem, 400, "a header name is not a token");
    if (resembles_framing(name))
        return refuse_head(problem, 400, "a header name looks like one that frames messages");
    return true;
}

/* Checks that the field appears at most once (RFC 9110 5.3). With two, readers would have to guess
 * which one counts: a proxy may have checked the other one. */
static bool is_single(const struct found found[KNOWN], enum known which,
                      struct http_problem *problem)
{
    return found[which].count < 2 || refuse_head(problem, 400, known[which].twice);
}

/* ---- framing ---- */

static bool read_content_length(slice value, struct http_head *out, struct http_problem *problem)
{
    /* 19 digits hold INT64_MAX; slice_to_u64 refuses signs, spaces and lists ("5, 5"). */
    if (value.len > 19 || !slice_to_u64(value, INT64_MAX, &out->content_length))
        return refuse_head(problem, 400, "Content-Length is not a number");
    out->framing = HTTP_FRAMING_LENGTH;
    return true;
}

static bool read_framing(struct http_head *out, const struct found found[KNOWN],
                         struct http_problem *problem)
{
    size_t lengths = found[LENGTH].count, codings = found[CODING].count;
    /* The classic form of request smuggling (CL.TE and TE.CL); RFC 9112 6.3 treats it as an
     * error. */
    if (lengths && codings)
        return refuse_head(problem, 400, "both Content-Length and Transfer-Encoding");
    if (!is_single(found, LENGTH, problem) || !is_single(found, CODING, problem))
        return false;
    if (codings) {
        if (out->version_minor == 0)
            return refuse_head(problem, 400, "Transfer-Encoding in HTTP/1.0");
        /* Exactly "chunked": "chunked, identity" or "xchunked" is chunked for some parsers only. */
        if (!slice_eq_nocase(found[CODING].value, SLICE("chunked")))
            return refuse_head(problem, 400, "a Transfer-Encoding other than chunked");
        out->framing = HTTP_FRAMING_CHUNKED;
    }
    return !lengths || read_content_length(found[LENGTH].value, out, problem);
}

static bool read_connection(struct http_head *out, const struct found found[KNOWN],
                            struct http_problem *problem)
{
    static const slice forbidden[] = {
        SLICE_INIT("host"),
        SLICE_INIT("content-length"),
        SLICE_INIT("transfer-encoding"),
    };
    const struct http_header *headers = out->headers;
    size_t count = out->header_count;
    slice name = known[CONNECTION].name;
    out->is_keep_alive = out->version_minor == 1;
    if (!found[CONNECTION].count)
        return true;
    /* A proxy removes the fields that Connection names: a request could lose its framing this way
     * (RFC 9110 7.6.1). */
    for (size_t i = 0; i < ARRAY_LEN(forbidden); i++)
        if (http_header_has_token(headers, count, name, forbidden[i]))
            return refuse_head(problem, 400, "Connection names a header that frames messages");
    bool is_close = http_header_has_token(headers, count, name, SLICE("close"));
    bool is_asked = http_header_has_token(headers, count, name, SLICE("keep-alive"));
    /* By default a connection stays open after HTTP/1.1 and closes after HTTP/1.0 (RFC 9112
     * 9.3). */
    out->is_keep_alive = !is_close && (out->version_minor == 1 || is_asked);
    return true;
}

/* ---- the target (RFC 9112 3.2) and the authority in Host (RFC 9110 7.2) ---- Both may name the
 * host; the result must not depend on which of them is read. */

static bool is_port_text(slice text)
{
    uint64_t port;
    return text.len <= 5 && slice_to_u64(text, 65535, &port);
}

/* Whether text is like "[::1]": only allowed characters between the brackets; the rest must be
 * empty or a port. */
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
    return rest.len == 0 || (rest.ptr[0] == ':' && is_port_text(slice_from(rest, 1)));
}

/* Whether text is a host name or address with an optional port: "example.org:8080", "[::1]". */
static bool is_host_and_port(slice text)
{
    /* A name of 255 bytes, a colon and five digits. */
    if (text.len == 0 || text.len > 255 + 6)
        return false;
    if (text.ptr[0] == '[')
        return is_bracketed(text);
    slice host = slice_split(&text, ':');
    /* slice_split leaves a NULL ptr if there was no colon: there is no port. */
    if (host.len == 0 || (text.ptr && !is_port_text(text)))
        return false;
    for (size_t i = 0; i < host.len; i++)
        if (!ascii_is_alnum(host.ptr[i]) && host.ptr[i] != '.' && host.ptr[i] != '-' &&
            host.ptr[i] != '_')
            return false;
    return true;
}

/* Whether text is visible ASCII without the characters that RFC 3986 never allows and no client
 * sends, and its escapes are complete and not NUL. */
static bool is_target_text(slice text, const char **why)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (ascii_is_lower(c)) /* most characters are lower-case letters */
            continue;
        *why = "the request target has a character that needs an escape";
        /* A fragment is never sent (RFC 9112 3.2); some parsers read a backslash as a slash. */
        if (c <= ' ' || c > '~' || c == '#' || c == '"' || c == '<' || c == '>' || c == '\\')
            return false;
        if (c != '%')
            continue;
        *why = "the request target has a broken escape";
        if (i + 2 >= text.len || ascii_hex_value(text.ptr[i + 1]) < 0 ||
            ascii_hex_value(text.ptr[i + 2]) < 0)
            return false;
        /* %00 would truncate the path for any reader that handles it as a C string. */
        *why = "the request target has an escaped NUL";
        if (text.ptr[i + 1] == '0' && text.ptr[i + 2] == '0')
            return false;
    }
    return true;
}

/* Reads a target such as "http://host/path", which must have the host of the Host field, so that a
 * proxy cannot see another host. */
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
    /* By RFC 9112 3.2.2 the target takes precedence over Host; a proxy that routed by Host would
     * have chosen another server, so they must agree. */
    if (!is_host_and_port(authority) || (head->host.ptr && !slice_eq_nocase(authority, head->host)))
        return false;
    head->host = authority;
    *path = slice_from(rest, end);
    return true;
}

/* Fills path and query from target, method and host. Returns false with the reason in *why on
 * failure. */
static bool read_target(struct http_head *head, const char **why)
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

/* ---- the other fields ---- */

static bool read_host(struct http_head *out, const struct found *host, struct http_problem *problem)
{
    /* HTTP/1.1 requires Host, HTTP/1.0 does not (RFC 9112 3.2). */
    if (host->count == 0)
        return out->version_minor == 0
                   ? true
                   : refuse_head(problem, 400, "an HTTP/1.1 request must have a Host header");
    out->host = host->value;
    return is_host_and_port(out->host) ? true
                                       : refuse_head(problem, 400, "Host is not a host name");
}

static void read_expect(struct http_head *out)
{
    for (size_t i = 0; i < out->header_count; i++) {
        /* HTTP/1.0 does not have Expect; it is ignored there (RFC 9110 10.1.1). */
        if (!slice_eq_nocase(out->headers[i].name, known[EXPECT].name) || out->version_minor == 0)
            continue;
        if (slice_eq_nocase(out->headers[i].value, SLICE("100-continue")))
            out->expects_continue = true;
        else
            out->expects_other = true;
    }
}

static bool check_request(struct http_head *out, const struct found found[KNOWN],
                          struct http_problem *problem)
{
    const char *text = NULL;
    if (!is_single(found, HOST, problem) || !read_host(out, &found[HOST], problem) ||
        !read_framing(out, found, problem) || !read_connection(out, found, problem) ||
        !is_single(found, AUTHORIZATION, problem) || !is_single(found, TYPE, problem) ||
        !is_single(found, KEY, problem))
        return false;
    /* Checked after the framing: a broken message is 400 whatever its method. */
    if (out->method == HTTP_METHOD_OTHER)
        return refuse_head(problem, 501, "the method is not known");
    if (!read_target(out, &text))
        return refuse_head(problem, 400, text);
    if (found[EXPECT].count)
        read_expect(out);
    return true;
}

bool http_head_check(slice head, struct http_header *headers, size_t headers_max,
                     struct http_head *out, struct http_problem *problem)
{
    struct found found[KNOWN] = {{0}};
    *out = (struct http_head){.headers = headers};
    *problem = (struct http_problem){0};
    slice rest = head, line = take_line(&rest);
    /* Empty lines before a request line; the scan has bounded their number (RFC 9112 2.2). */
    while (line.len == 0 && rest.len)
        line = take_line(&rest);
    if (!read_request_line(line, out, problem))
        return false;
    /* The loop ends at the empty line that the scan has found; no other line is empty. */
    for (line = take_line(&rest); line.len; line = take_line(&rest)) {
        if (out->header_count == headers_max)
            return refuse_head(problem, 431, "too many header fields");
        if (!read_field(line, &headers[out->header_count++], found, problem))
            return false;
    }
    return check_request(out, found, problem);
}
