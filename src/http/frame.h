/*
 * frame: how an op stands for a request, whichever room's: the exchange waits for the op while a
 * body may still come and its client may go, and is answered exactly once whatever becomes of the
 * op. A room's request embeds a frame beside its op, and hands the exchange's events on.
 */
#ifndef HTTP_FRAME_H
#define HTTP_FRAME_H

#include "http/server.h"
#include "loop/op.h"

/* What outlives the op: the exchange's user. */
struct http_frame_tag {
    struct http_frame *frame; /* NULL once the op has ended */
    const char *route;        /* for metrics: the pattern, once it is known */
};

struct http_frame {
    struct op *op;
    struct http_exchange *exchange; /* a reference, until the op's end */
    struct http_frame_tag *tag;
    size_t *active; /* a count of the room's, of requests under way */
    bool is_answered, is_body_here, is_waiting_for_body;
};

/* In on_head, before op_start: fills the frame. frame NULL, or no memory for the tag: answered with
 * 503, and false. on_gone: the exchange's, from now on until the op's end. */
bool http_frame_begin(struct http_frame *frame, struct http_exchange *exchange, struct op *op,
                      size_t *active, void (*on_gone)(struct http_exchange *exchange)) MUST_CHECK;
/* In a step: OP_NEXT when the body is here, else the op is held until it is. */
enum op_result http_frame_wait_for_body(struct http_frame *frame);
/* In on_request. */
void http_frame_body_came(struct http_exchange *exchange);
/* In the op's on_cancel, and on_end. */
void http_frame_cancel(struct http_frame *frame);
void http_frame_end(struct http_frame *frame, enum op_end end);
/* NULL once the op has ended. */
struct http_frame *http_frame_of(const struct http_exchange *exchange);
/* "(none)" where no route was found. */
const char *http_frame_route(const struct http_exchange *exchange);

#endif
