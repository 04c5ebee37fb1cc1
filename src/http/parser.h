/*
 * parser: a small interface to llhttp in its strict mode, for messages whose raw bytes have passed
 * http/head.h. It is given exactly the bytes of one message: the complete head, then the body as it
 * arrives. Private to the room.
 */
#ifndef HTTP_PARSER_H
#define HTTP_PARSER_H

#include <llhttp.h>

#include "base/err.h"
#include "http/head.h"

struct http_parser {
    llhttp_t llhttp;
    /* Called with decoded body bytes, which are borrowed for the call. Returns false to stop, if
     * memory or a limit is exhausted. */
    bool (*on_body)(struct http_parser *parser, slice bytes);
    const struct http_head *head; /* the result of http_head_check, with which llhttp must agree */
    bool is_complete, is_refused;
};

void http_parser_init(struct http_parser *parser, const struct http_head *head,
                      bool (*on_body)(struct http_parser *parser, slice bytes));
/* Returns OK; ERR_SYNTAX if llhttp refuses what the check accepted; ERR_LIMIT if on_body returned
 * false. */
int http_parser_feed(struct http_parser *parser, slice bytes) MUST_CHECK;

#endif
