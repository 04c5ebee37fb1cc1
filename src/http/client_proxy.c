/*
 * client_proxy: the CONNECT requests to the operator's proxy (RFC 9110 9.3.6). They contain an
 * address that the client has resolved and checked itself, never a name, so that the proxy's
 * resolver cannot lead a call into the internal network. The proxy's own address is set by the
 * operator and is not checked. Nothing of a call is sent before the tunnel is open and its TLS
 * session is verified.
 */
#include <stdio.h>

#include "base/encode.h"
#include "base/mem.h"
#include "http/client_internal.h"

struct http_proxy {
    char host[URL_HOST_MAX + 1];
    uint16_t port;
    struct buf authorization; /* the header line; wiped */
};

enum { AUTHORIZATION_BYTES_MAX = 1024, REQUEST_BYTES_MAX = 2048, STATUS_LINE_BYTES_MIN = 12 };

/* Writes the header for "user:password", each of which is percent-encoded if necessary (RFC 3986
 * 3.2.1). */
static int put_authorization(struct buf *out, slice user_info)
{
    struct buf plain;
    buf_init(&plain, AUTHORIZATION_BYTES_MAX / 2);
    int code = decode_percent(&plain, user_info, false);
    buf_append_cstr(out, "Proxy-Authorization: Basic ");
    encode_base64(out, slice_of(plain.ptr, plain.len));
    buf_append_cstr(out, "\r\n");
    bool is_ok = code == OK && buf_is_ok(&plain) && buf_is_ok(out);
    mem_wipe(plain.ptr, plain.len);
    buf_deinit(&plain);
    return is_ok ? OK : ERR_SYNTAX;
}

/* No message quotes the URL: it may contain a password. */
int proxy_new(slice text, struct http_proxy **out, struct err *err)
{
    static const slice scheme = SLICE_INIT("http://");
    char plain[URL_HOST_MAX + 32];
    struct url url;
    struct http_proxy *proxy = mem_zalloc(sizeof(*proxy));
    *out = proxy;
    if (!proxy)
        return err_set(err, ERR_NOMEM, "out of memory for the proxy");
    buf_init(&proxy->authorization, AUTHORIZATION_BYTES_MAX);
    slice rest = slice_from(text, scheme.len), user_info = SLICE_NONE;
    for (size_t i = rest.len; i > 0 && !user_info.ptr;
         i--) /* searches the last @, since a password may contain one */
        if (rest.ptr[i - 1] == '@') {
            user_info = slice_first(rest, i - 1);
            rest = slice_from(rest, i);
        }
    int n = snprintf(plain, sizeof(plain), "http://%.*s", SLICE_ARG(rest));
    bool is_url = slice_eq_nocase(slice_first(text, scheme.len), scheme) &&
                  slice_find_char(text, '\0') < 0 && n > 0 && (size_t)n < sizeof(plain) &&
                  url_parse(slice_of(plain, (size_t)n), &url, NULL) == OK &&
                  (url.target.len == 0 || slice_eq_cstr(url.target, "/"));
    if (!is_url || (user_info.ptr && put_authorization(&proxy->authorization, user_info) != OK)) {
        proxy_free(proxy);
        *out = NULL;
        return err_set(err, ERR_SYNTAX,
                       "must be http://HOST:PORT or http://USER:PASSWORD@HOST:PORT (requests to "
                       "the proxy are plain HTTP; the calls that go through it use TLS)");
    }
    memcpy(proxy->host, url.host.ptr, url.host.len);
    proxy->port = url.port;
    return OK;
}

void proxy_free(struct http_proxy *proxy)
{
    if (!proxy)
        return;
    mem_wipe(proxy->authorization.ptr, proxy->authorization.len);
    buf_deinit(&proxy->authorization);
    mem_free(proxy);
}

slice proxy_host(const struct http_proxy *proxy)
{
    return slice_cstr(proxy->host);
}

uint16_t proxy_port(const struct http_proxy *proxy)
{
    return proxy->port;
}

int proxy_ask(const struct http_proxy *proxy, struct stream *stream, const char *target)
{
    char head[REQUEST_BYTES_MAX];
    int n = snprintf(head, sizeof(head), "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", target, target);
    ASSERT(n > 0 && (size_t)n < sizeof(head));
    const slice parts[] = {slice_of(head, (size_t)n),
                           slice_of(proxy->authorization.ptr, proxy->authorization.len),
                           SLICE("\r\n")};
    return stream_write(stream, parts, ARRAY_LEN(parts));
}

/* A TLS server sends nothing before the client does, so bytes after the head do not belong to a
 * reply. */
bool proxy_is_head_whole(struct buf *head)
{
    return slice_find(slice_of(head->ptr, head->len), SLICE("\r\n\r\n")) >= 0;
}

int proxy_read_head(const struct buf *head, unsigned *status)
{
    slice text = slice_of(head->ptr, head->len);
    uint64_t value;
    bool is_http = text.len > STATUS_LINE_BYTES_MIN && slice_starts_with(text, SLICE("HTTP/1.")) &&
                   (text.ptr[7] == '0' || text.ptr[7] == '1') && text.ptr[8] == ' ' &&
                   (text.ptr[12] == ' ' || text.ptr[12] == '\r') &&
                   slice_to_u64(slice_of(text.ptr + 9, 3), 999, &value);
    ptrdiff_t end = slice_find(text, SLICE("\r\n\r\n"));
    if (!is_http || end < 0 || value < 200)
        return ERR_SYNTAX;
    *status = (unsigned)value;
    return *status < 300 && (size_t)end + 4 != text.len ? ERR_SYNTAX : OK;
}
