/*
 * See stream.h.
 */
#include "serve/stream.h"

#include "base/err.h"

static void on_refused(struct vault_guard *guard)
{
    struct serve_stream *stream = CONTAINER_OF(guard, struct serve_stream, guard);
    stream->is_refused = !guard->has_other_policy;
    stream->is_over = guard->has_other_policy;
    serve_stream_wake(stream);
}

void serve_stream_open(struct serve_stream *stream, struct op *op, struct http_exchange *exchange,
                       struct vault_auth *auth, const struct vault_check *check, uint64_t ms_max)
{
    stream->op = op;
    stream->exchange = exchange;
    if (ms_max > 0)
        stream->until_ns = loop_now_ns(op->loop) + ms_max * 1000000;
    stream->guard.on_refused = on_refused;
    vault_guard_start(auth, &stream->guard, check);
}

void serve_stream_close(struct serve_stream *stream)
{
    vault_guard_stop(&stream->guard);
}

void serve_stream_wake(struct serve_stream *stream)
{
    op_sleep_stop(&stream->timer);
}

/* The refused key is checked first: nothing is sent for it, however much has changed. */
enum serve_stream_state serve_stream_check(const struct serve_stream *stream)
{
    if (stream->is_refused)
        return SERVE_STREAM_REFUSED;
    if (stream->is_over ||
        (stream->until_ns > 0 && loop_now_ns(stream->op->loop) >= stream->until_ns) ||
        http_server_is_draining(stream->exchange->server))
        return SERVE_STREAM_OVER;
    return http_reply_pending(stream->exchange) > SERVE_SLOW_BYTES ? SERVE_STREAM_SLOW
                                                                   : SERVE_STREAM_READY;
}

/* The only timer of a stream: a change, a refused key and the heartbeat end the same sleep. */
void serve_stream_sleep(struct serve_stream *stream, uint64_t ms, const char *what)
{
    op_sleep(stream->op, &stream->timer, ms, what);
}

void serve_events_begin(struct http_exchange *exchange)
{
    static const struct http_header headers[] = {
        {SLICE_INIT("Content-Type"), SLICE_INIT("text/event-stream; charset=utf-8")},
        {SLICE_INIT("Cache-Control"), SLICE_INIT("no-store")},
        {SLICE_INIT("X-Accel-Buffering"), SLICE_INIT("no")}, /* nginx passes each event on */
    };
    http_reply_begin(exchange, 200, headers, ARRAY_LEN(headers));
}

bool serve_events_beat(struct http_exchange *exchange)
{
    return http_reply_chunk(exchange, SLICE(": still here\n\n")) == OK;
}
