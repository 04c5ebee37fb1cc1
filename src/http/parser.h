/*
 * parser: a small interface to llhttp in its strict mode, for messages whose raw bytes have passed
 * http/head.h. It gets exactly the bytes of one message: the complete head, then the body as it
 * arrives. Private to the room.
 */
#ifndef HTTP_PARSER_H
#define HTTP_PARSER_H

#include <llhttp.h>

#include "base/err.h"
#include "http/head.h"

struct http_parser {
    llhttp_t llhttp;
    /* Gets decoded body bytes, borrowed for the call. Returns false to stop, because memory or a
     * limit is used up. */
    bool (*on_body)(struct http_parser *parser, slice bytes);
    const struct http_head *head; /* the result of http_head_check; llhttp must find the same */
    bool is_complete, is_refused;
};

void http_parser_init(struct http_parser *parser, const struct http_head *head,
                      bool (*on_body)(struct http_parser *parser, slice bytes));
/* Returns OK; ERR_SYNTAX if llhttp refuses what the check accepted; ERR_LIMIT if on_body returned
 * false. */
int http_parser_feed(struct http_parser *parser, slice bytes) MUST_CHECK;

#endif
