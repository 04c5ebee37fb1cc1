/*
 * head: step 2 of the check of a head: start line, names, Host, framing, on the contiguous bytes.
 * Refuses whatever two parsers could read in two ways; RFC 9112 3 to 6 say what is well-formed.
 *
 * Where the RFC lets a recipient repair a message (a bare LF, two equal Content-Lengths, more
 * white space in the start line), this server refuses it: a proxy in front may have repaired it in
 * another way, which is how requests are smuggled (RFC 9112 11.2).
 */
#include "http/head.h"

#include "base/ascii.h"
#include "http/head_internal.h"

static bool refuse_head(struct http_problem *problem, unsigned status, const char *text)
{
    *problem = (struct http_problem){status, text};
    return false;
}

/* The next line without its CRLF; *rest moves behind it. The scan found the CRLFs. */
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

/* "HTTP/1.1"; 505 for a version that is well-formed but not ours. */
static bool read_version(slice text, struct http_head *out, struct http_problem *problem)
{
    /* Fixed positions: the version has one form, of eight bytes and case-sensitive (RFC 9112
     * 2.3). */
    if (text.len != 8 || !slice_starts_with(text, SLICE("HTTP/")) || text.ptr[6] != '.' ||
        !ascii_is_digit(text.ptr[5]) || !ascii_is_digit(text.ptr[7]))
        return refuse_head(problem, 400, "the start line has no HTTP version");
    if (text.ptr[5] != '1' || text.ptr[7] > '1')
        return refuse_head(problem, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    out->version_minor = (unsigned)(text.ptr[7] - '0');
    return true;
}

static bool read_request_line(slice line, struct http_head *out, struct http_problem *problem)
{
    /* Single spaces only: with two the target is empty, and what follows is no version. */
    slice method = slice_split(&line, ' ');
    slice target = slice_split(&line, ' ');
    if (!http_is_token(method))
        return refuse_head(problem, 400, "the method is no token");
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

/* Lower case without anything but letters and digits, into out; the length, SIZE_MAX when longer.
 */
static size_t squeeze(slice name, char *out, size_t cap)
{
    size_t len = 0;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        c = ascii_lower(c);
        /* _ and - and other characters of a token are what CGI-like gateways map onto one
         * another. */
        if (!(ascii_is_lower(c) || ascii_is_digit(c)))
            continue;
        if (len == cap)
            /* As many letters as the longest name of interest: a longer one is none of them. */
            return SIZE_MAX;
        out[len++] = c;
    }
    return len;
}

/* Transfer_Encoding, Host_, ContentLength: some gateways read these as the real ones. */
static bool resembles_framing(slice name)
{
    static const struct {
        slice squeezed, real;
    } critical[] = {
        {SLICE_INIT("transferencoding"), SLICE_INIT("Transfer-Encoding")},
        {SLICE_INIT("contentlength"), SLICE_INIT("Content-Length")},
        {SLICE_INIT("host"), SLICE_INIT("Host")},
        {SLICE_INIT("connection"), SLICE_INIT("Connection")},
        {SLICE_INIT("authorization"), SLICE_INIT("Authorization")},
        {SLICE_INIT("expect"), SLICE_INIT("Expect")},
    };
    char text[16];
    size_t len = squeeze(name, text, sizeof(text));
    for (size_t i = 0; len != SIZE_MAX && i < ARRAY_LEN(critical); i++)
        if (slice_eq(slice_of(text, len), critical[i].squeezed))
            return !slice_eq_nocase(name, critical[i].real);
    return false;
}

static bool read_field(slice line, struct http_header *out, struct http_problem *problem)
{
    /* The first colon ends the name. White space before it makes the name no token (RFC 9112
     * 5.1). */
    ptrdiff_t colon = slice_find_char(line, ':');
    if (colon < 0)
        return refuse_head(problem, 400, "a header line has no colon");
    slice name = slice_first(line, (size_t)colon);
    if (!http_is_token(name))
        return refuse_head(problem, 400, "a header name is no token");
    if (resembles_framing(name))
        return refuse_head(problem, 400, "a header name looks like one that frames messages");
    *out = (struct http_header){name, slice_trim(slice_from(line, (size_t)colon + 1))};
    return true;
}

/* ---- framing ---- */

static bool read_content_length(slice value, struct http_head *out, struct http_problem *problem)
{
    /* 19 digits hold INT64_MAX; slice_to_u64 refuses signs, spaces and lists ("5, 5"). */
    if (value.len > 19 || !slice_to_u64(value, INT64_MAX, &out->content_length))
        return refuse_head(problem, 400, "Content-Length is no number");
    out->framing = HTTP_FRAMING_LENGTH;
    return true;
}

static bool read_framing(struct http_head *out, struct http_problem *problem)
{
    const struct http_header *headers = out->headers;
    size_t lengths = http_header_count(headers, out->header_count, SLICE("Content-Length"));
    size_t codings = http_header_count(headers, out->header_count, SLICE("Transfer-Encoding"));
    /* The classic of request smuggling (CL.TE and TE.CL); RFC 9112 6.3 wants it treated as an
     * error. */
    if (lengths && codings)
        return refuse_head(problem, 400, "both Content-Length and Transfer-Encoding");
    if (lengths > 1)
        return refuse_head(problem, 400, "more than one Content-Length");
    if (codings > 1)
        return refuse_head(problem, 400, "more than one Transfer-Encoding");
    if (codings) {
        slice coding = http_header_get(headers, out->header_count, SLICE("Transfer-Encoding"));
        if (out->version_minor == 0)
            return refuse_head(problem, 400, "Transfer-Encoding in HTTP/1.0");
        /* Exactly this: "chunked, identity" or "xchunked" is chunked for some and not for
         * others. */
        if (!slice_eq_nocase(coding, SLICE("chunked")))
            return refuse_head(problem, 400, "a Transfer-Encoding other than chunked");
        out->framing = HTTP_FRAMING_CHUNKED;
    }
    if (!lengths)
        return true;
    return read_content_length(http_header_get(headers, out->header_count, SLICE("Content-Length")),
                               out, problem);
}

static bool read_connection(struct http_head *out, struct http_problem *problem)
{
    static const slice forbidden[] = {
        SLICE_INIT("host"),
        SLICE_INIT("content-length"),
        SLICE_INIT("transfer-encoding"),
    };
    const struct http_header *headers = out->headers;
    size_t count = out->header_count;
    slice name = SLICE("Connection");
    /* A proxy removes what Connection names: a request could so lose its framing on the way (RFC
     * 9110 7.6.1). */
    for (size_t i = 0; i < ARRAY_LEN(forbidden); i++)
        if (http_header_has_token(headers, count, name, forbidden[i]))
            return refuse_head(problem, 400, "Connection names a header that frames messages");
    bool is_close = http_header_has_token(headers, count, name, SLICE("close"));
    bool is_asked = http_header_has_token(headers, count, name, SLICE("keep-alive"));
    /* By default HTTP/1.1 goes on and HTTP/1.0 ends (RFC 9112 9.3). */
    out->is_keep_alive = !is_close && (out->version_minor == 1 || is_asked);
    return true;
}

/* ---- the other fields ---- */

static bool read_host(struct http_head *out, struct http_problem *problem)
{
    size_t hosts = http_header_count(out->headers, out->header_count, SLICE("Host"));
    if (hosts > 1)
        return refuse_head(problem, 400, "more than one Host");
    /* HTTP/1.1 must have it, 1.0 need not (RFC 9112 3.2). */
    if (hosts == 0)
        return out->version_minor == 0 ? true : refuse_head(problem, 400, "no Host");
    out->host = http_header_get(out->headers, out->header_count, SLICE("Host"));
    return http_is_authority(out->host) ? true : refuse_head(problem, 400, "Host is no host");
}

/* Of these RFC 9110 5.3 allows one. Which of two counts is for each reader to guess: a proxy may
 * have checked the other one. */
static bool check_singles(const struct http_head *out, struct http_problem *problem)
{
    static const struct {
        slice name;
        const char *text;
    } singles[] = {
        {SLICE_INIT("Authorization"), "more than one Authorization"},
        {SLICE_INIT("Content-Type"), "more than one Content-Type"},
        {SLICE_INIT("Idempotency-Key"), "more than one Idempotency-Key"},
    };
    for (size_t i = 0; i < ARRAY_LEN(singles); i++)
        if (http_header_count(out->headers, out->header_count, singles[i].name) > 1)
            return refuse_head(problem, 400, singles[i].text);
    return true;
}

static void read_expect(struct http_head *out)
{
    for (size_t i = 0; i < out->header_count; i++) {
        /* HTTP/1.0 has no Expect; it is ignored there (RFC 9110 10.1.1). */
        if (!slice_eq_nocase(out->headers[i].name, SLICE("Expect")) || out->version_minor == 0)
            continue;
        if (slice_eq_nocase(out->headers[i].value, SLICE("100-continue")))
            out->expects_continue = true;
        else
            out->expects_other = true;
    }
}

static bool check_request(struct http_head *out, struct http_problem *problem)
{
    const char *text = NULL;
    if (!read_host(out, problem) || !read_framing(out, problem) || !read_connection(out, problem) ||
        !check_singles(out, problem))
        return false;
    /* After the framing was checked: a broken message is 400 whatever its method. */
    if (out->method == HTTP_METHOD_OTHER)
        return refuse_head(problem, 501, "the method is not known");
    if (!http_target_read(out, &text))
        return refuse_head(problem, 400, text);
    read_expect(out);
    return true;
}

bool http_head_check(slice head, struct http_header *headers, size_t headers_max,
                     struct http_head *out, struct http_problem *problem)
{
    *out = (struct http_head){.headers = headers};
    *problem = (struct http_problem){0};
    slice rest = head, line = take_line(&rest);
    /* Empty lines before a request line; the scan has bounded their number (RFC 9112 2.2). */
    while (line.len == 0 && rest.len)
        line = take_line(&rest);
    if (!read_request_line(line, out, problem))
        return false;
    /* Ends at the empty line, which the scan has found: line is empty only there. */
    for (line = take_line(&rest); line.len; line = take_line(&rest)) {
        if (out->header_count == headers_max)
            return refuse_head(problem, 431, "too many header fields");
        if (!read_field(line, &headers[out->header_count++], problem))
            return false;
    }
    return check_request(out, problem);
}
