/*
 * frame: ties an op to a request, in any room that answers requests with ops. The exchange waits
 * for the op while a body may still come and its client may go, and is answered exactly once
 * whatever becomes of the op. A room's request embeds a frame next to its op, and hands the
 * exchange's events on.
 */
#ifndef HTTP_FRAME_H
#define HTTP_FRAME_H

#include "http/server.h"
#include "loop/op.h"

struct http_frame {
    struct op *op;
    struct http_exchange *exchange; /* a reference, until the op's end; its user is the frame */
    size_t *active;                 /* a count of the room's, of requests under way */
    bool is_answered, is_body_here, is_waiting_for_body;
};

/* In on_head, before op_start: fills the frame. on_gone: the exchange's, from now on until the op's
 * end. */
void http_frame_begin(struct http_frame *frame, struct http_exchange *exchange, struct op *op,
                      size_t *active, void (*on_gone)(struct http_exchange *exchange));
/* In on_head instead, where there is no memory for the op: answers with 503. */
enum http_body_wanted http_frame_refuse(struct http_exchange *exchange);
/* In a step: OP_NEXT when the body is here, else the op is held until it is, or has paused. */
enum op_result http_frame_wait_for_body(struct http_frame *frame);
/* A room's on_request, and its on_body_paused, after which is_body_here is false still: the op asks
 * once more. */
void http_frame_on_request(struct http_exchange *exchange, void *ctx);
void http_frame_on_body_paused(struct http_exchange *exchange, void *ctx);
/* In the op's on_cancel, and on_end. */
void http_frame_cancel(struct http_frame *frame);
void http_frame_end(struct http_frame *frame, enum op_end end);
/* NULL once the op has ended. */
struct http_frame *http_frame_of(const struct http_exchange *exchange);

#endif
