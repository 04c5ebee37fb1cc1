/*
 * frame: requests as ops; see frame.h. The frame and the op are one allocation of the room's; the
 * exchange outlives both by the reference taken here.
 */
#include "http/frame.h"

void http_frame_begin(struct http_frame *frame, struct http_exchange *exchange, struct op *op,
                      size_t *active, void (*on_gone)(struct http_exchange *exchange))
{
    *frame = (struct http_frame){.op = op, .exchange = exchange, .active = active};
    (*active)++;
    exchange->user = frame;
    exchange->on_gone = on_gone;
    http_exchange_ref(exchange); /* a client may vanish while its key is loaded */
}

enum http_body_wanted http_frame_refuse(struct http_exchange *exchange)
{
    http_reply_error(exchange, 503, SLICE("Out of memory"));
    return HTTP_BODY_READ;
}

enum op_result http_frame_wait_for_body(struct http_frame *frame)
{
    if (frame->is_body_here)
        return OP_NEXT;
    frame->is_waiting_for_body = true;
    op_hold(frame->op, "request body");
    http_body_accept(frame->exchange);
    return OP_WAIT;
}

static void stop_waiting(struct http_frame *frame)
{
    /* Released exactly once: by the body, by its pause, or by a cancel, whichever comes first. */
    if (frame->is_waiting_for_body)
        op_release(frame->op);
    frame->is_waiting_for_body = false;
}

void http_frame_on_request(struct http_exchange *exchange, void *ctx)
{
    struct http_frame *frame = http_frame_of(exchange);
    (void)ctx;
    if (!frame)
        return;
    frame->is_body_here = true;
    stop_waiting(frame);
}

void http_frame_on_body_paused(struct http_exchange *exchange, void *ctx)
{
    struct http_frame *frame = http_frame_of(exchange);
    (void)ctx;
    if (frame)
        stop_waiting(frame);
}

void http_frame_cancel(struct http_frame *frame)
{
    stop_waiting(frame);
}

void http_frame_end(struct http_frame *frame, enum op_end end)
{
    /* Cut before the reply below: its callbacks must not find a frame of an op that has ended. */
    frame->exchange->user = NULL;
    frame->exchange->on_gone = NULL;
    (*frame->active)--;
    /* An op that ends without an answer is cancelled or has a bug; its client gets a reset or a
     * 500, but never no end at all. */
    if (!frame->is_answered && end == OP_ENDED_CANCELLED)
        http_reply_drop(frame->exchange);
    else if (!frame->is_answered)
        http_reply_error(frame->exchange, 500, SLICE("Internal error"));
    http_exchange_unref(frame->exchange);
}

struct http_frame *http_frame_of(const struct http_exchange *exchange)
{
    return exchange->user;
}
