/*
 * stream: a request that stays open: a long poll, or a reply of server-sent events (WHATWG HTML
 * 9.2). It sleeps until something has changed; the callback for a change stores a flag and wakes
 * it, and never writes. It ends with its key, when the server drains, and when its time is over.
 */
#ifndef SERVE_STREAM_H
#define SERVE_STREAM_H

#include "http/server.h"
#include "loop/op.h"
#include "vault/auth.h"

enum {
    SERVE_HEARTBEAT_MS = 15000, /* a comment line, so that proxies do not end an idle stream */
    SERVE_SLOW_BYTES =
        256 * 1024, /* if this many bytes are pending, the next event waits for a heartbeat */
};

/* Zeroed before its first use. */
struct serve_stream {
    struct op *op;
    struct http_exchange *exchange;
    uint64_t until_ns; /* loop time; 0: no end */
    bool is_refused;   /* the key was revoked, or has expired */
    bool is_over;      /* the key has another policy: its client asks again */
    /* private */
    struct op_timer timer;
    struct vault_guard guard;
};

enum serve_stream_state {
    SERVE_STREAM_REFUSED, /* no further event may be sent for this key */
    SERVE_STREAM_OVER,
    SERVE_STREAM_SLOW, /* its reader has too much pending: events are delayed, not lost */
    SERVE_STREAM_READY,
};

/* Starts to watch the key of the request's check. ms_max: maximum life; 0: the stream ends
 * at until_ns if that is set, else never. */
void serve_stream_open(struct serve_stream *stream, struct op *op, struct http_exchange *exchange,
                       struct vault_auth *auth, const struct vault_check *check, uint64_t ms_max);
/* To be called before the op ends, even if the stream was never opened: callbacks must not reach
 * an op that has ended. */
void serve_stream_close(struct serve_stream *stream);
/* Wakes the op; for a callback. */
void serve_stream_wake(struct serve_stream *stream);
/* After a sleep. */
enum serve_stream_state serve_stream_check(const struct serve_stream *stream);
/* Sleeps until it is woken, at most ms; 0: until its next turn. The op must wait. */
void serve_stream_sleep(struct serve_stream *stream, uint64_t ms, const char *what);

/* Sends status and headers of a reply of events. */
void serve_events_begin(struct http_exchange *exchange);
/* Sends the comment that keeps the stream open; returns whether that was possible. */
bool serve_events_beat(struct http_exchange *exchange) MUST_CHECK;

#endif
