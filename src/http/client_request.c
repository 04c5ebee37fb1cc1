/*
 * client_request: the bytes that a call sends. Checks come first: a CR or LF in a header or method
 * would let a tenant's text end the line and add headers or a second request (header injection,
 * request splitting). Then the head is written into one buffer that the client keeps and wipes,
 * since it holds credentials.
 */
#include "base/mem.h"
#include "http/client_internal.h"

/* Framing and connection management are up to the client: a second Content-Length or a
 * Transfer-Encoding of a caller would contradict what it sends (RFC 9112 6.1). */
static const slice own_headers[] = {
    SLICE_INIT("host"),
    SLICE_INIT("content-length"),
    SLICE_INIT("transfer-encoding"),
    SLICE_INIT("connection"),
    SLICE_INIT("expect"),
    SLICE_INIT("te"),
    SLICE_INIT("trailer"),
    SLICE_INIT("upgrade"),
    SLICE_INIT("keep-alive"),
    SLICE_INIT("proxy-connection"),
};

static int check_header(struct http_call *call, const struct http_header *header)
{
    if (!http_is_token(header->name))
        return err_set(&call->err, ERR_INVALID, "\"%.*s\" is not the name of a header",
                       SLICE_ARG(slice_first(header->name, 80)));
    if (!http_is_field_value(header->value))
        return err_set(&call->err, ERR_INVALID,
                       "the value of header \"%.*s\" has a byte that may not be sent",
                       SLICE_ARG(slice_first(header->name, 80)));
    for (size_t i = 0; i < ARRAY_LEN(own_headers); i++)
        if (slice_eq_nocase(header->name, own_headers[i]))
            return err_set(&call->err, ERR_INVALID,
                           "the header \"%.*s\" is set by the HTTP client itself",
                           SLICE_ARG(header->name));
    return OK;
}

static size_t head_size(const struct http_call *call)
{
    /* 128 bytes are for the fixed parts of the request line, Host and Content-Length, and for line
     * ends. */
    size_t size = call->method.len + call->target_prefix.len + call->target.len +
                  call->authority.len + call->client->config.user_agent.len + 128;
    for (size_t i = 0; i < call->header_count; i++)
        size += call->headers[i].name.len + call->headers[i].value.len + 4;
    return size;
}

int request_check(struct http_call *call)
{
    /* CONNECT would turn the connection into a tunnel (RFC 9110 9.3.6). */
    if (!http_is_token(call->method) || call->method.len > 32 ||
        slice_eq_cstr(call->method, "CONNECT"))
        return err_set(&call->err, ERR_INVALID, "\"%.*s\" is not a method that can be sent",
                       SLICE_ARG(slice_first(call->method, 40)));
    if (call->header_count > HTTP_CALL_HEADERS_MAX)
        return err_set(&call->err, ERR_LIMIT, "the request has more than %d headers",
                       HTTP_CALL_HEADERS_MAX);
    if (call->body_part_count > HTTP_CALL_BODY_PARTS_MAX)
        return err_set(&call->err, ERR_LIMIT, "the request body has more than %d parts",
                       HTTP_CALL_BODY_PARTS_MAX);
    for (size_t i = 0; i < call->header_count; i++) {
        int code = check_header(call, &call->headers[i]);
        if (code != OK)
            return code;
    }
    /* The sum is checked here, so that the buffer's limit is not reached in the middle of a
     * head. */
    if (head_size(call) > HTTP_CALL_REQUEST_HEAD_MAX)
        return err_set(&call->err, ERR_LIMIT, "the request's head is larger than %d bytes",
                       HTTP_CALL_REQUEST_HEAD_MAX);
    call->body_bytes = 0;
    for (size_t i = 0; i < call->body_part_count; i++)
        call->body_bytes += call->body_parts[i].len;
    return OK;
}

/* Whether a request with this method has Content-Length even without a body (RFC 9110 8.6). */
static bool method_has_body(slice method)
{
    return slice_eq_cstr(method, "POST") || slice_eq_cstr(method, "PUT") ||
           slice_eq_cstr(method, "PATCH");
}

slice request_head(struct http_call *call)
{
    struct http_client *client = call->client;
    struct buf *out = &client->head;
    buf_clear(out);
    buf_append(out, call->method);
    buf_append_char(out, ' ');
    buf_append(out, call->target_prefix);
    /* "https://host?x=1" has a target without a slash; on the wire the path is never empty (RFC
     * 9112 3.2.1). */
    if (call->target.len == 0 || call->target.ptr[0] != '/')
        buf_append_char(out, '/');
    buf_append(out, call->target);
    buf_append(out, SLICE(" HTTP/1.1\r\nHost: "));
    buf_append(out, call->authority);
    buf_append(out, SLICE("\r\n"));
    if (http_header_count(call->headers, call->header_count, SLICE("user-agent")) == 0)
        http_header_write(out,
                          (struct http_header){SLICE("User-Agent"), client->config.user_agent});
    for (size_t i = 0; i < call->header_count; i++)
        http_header_write(out, call->headers[i]);
    if (call->body_part_count || method_has_body(call->method)) {
        buf_append(out, SLICE("Content-Length: "));
        buf_append_u64(out, call->body_bytes);
        buf_append(out, SLICE("\r\n"));
    }
    buf_append(out, SLICE("\r\n"));
    return buf_is_ok(out) ? buf_slice(out) : SLICE_NONE;
}

void request_wipe(struct http_client *client)
{
    /* Wipes only what was written; a larger block from an earlier head was wiped earlier. */
    if (client->head.len)
        mem_wipe(client->head.ptr, client->head.len);
    buf_clear(&client->head);
}
