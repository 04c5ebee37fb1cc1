/*
 * parser: the interface to llhttp. Framing that it reads differently from http_head_check is an
 * error: request smuggling relies on parsers that disagree. So a bug in one of them alone cannot
 * make a message end at the wrong byte.
 */
#include "http/parser.h"

static struct http_parser *parser_of(llhttp_t *llhttp)
{
    return CONTAINER_OF(llhttp, struct http_parser, llhttp);
}

static int on_headers_complete(llhttp_t *llhttp)
{
    const struct http_head *head = parser_of(llhttp)->head;
    bool is_chunked = llhttp->flags & F_CHUNKED;
    bool has_length = llhttp->flags & F_CONTENT_LENGTH;
    if (llhttp->http_major != 1 || llhttp->http_minor != head->version_minor)
        return -1;
    if (is_chunked != (head->framing == HTTP_FRAMING_CHUNKED) ||
        has_length != (head->framing == HTTP_FRAMING_LENGTH))
        return -1;
    return has_length && llhttp->content_length != head->content_length ? -1 : 0;
}

static int on_body(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *parser = parser_of(llhttp);
    if (parser->on_body(parser, slice_of(at, len)))
        return 0;
    parser->is_refused = true;
    return -1;
}

static int on_message_complete(llhttp_t *llhttp)
{
    parser_of(llhttp)->is_complete = true;
    /* Pauses llhttp at the message's end: it must not continue into the next request. */
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

void http_parser_init(struct http_parser *parser, const struct http_head *head,
                      bool (*sink)(struct http_parser *parser, slice bytes))
{
    *parser = (struct http_parser){.on_body = sink, .head = head};
    llhttp_init(&parser->llhttp, HTTP_REQUEST, &settings);
}

int http_parser_feed(struct http_parser *parser, slice bytes)
{
    if (bytes.len == 0)
        return OK;
    if (parser->is_complete) /* there are bytes after the message's end */
        return ERR_SYNTAX;
    llhttp_errno_t rc = llhttp_execute(&parser->llhttp, bytes.ptr, bytes.len);
    if (rc == HPE_OK)
        return OK;
    if ((rc == HPE_PAUSED || rc == HPE_PAUSED_UPGRADE) && parser->is_complete)
        /* The end that llhttp found must be the last byte given, which is where the scan ended. */
        return llhttp_get_error_pos(&parser->llhttp) == bytes.ptr + bytes.len ? OK : ERR_SYNTAX;
    return parser->is_refused ? ERR_LIMIT : ERR_SYNTAX;
}
