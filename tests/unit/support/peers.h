/*
 * Two ends of a connection in one loop, for tests of streams: received bytes are collected, events
 * are counted, and every wait is for a condition.
 */
#ifndef TESTS_SUPPORT_PEERS_H
#define TESTS_SUPPORT_PEERS_H

#include <stdbool.h>

#include "base/buf.h"
#include "loop/loop.h"
#include "loop/stream.h"
#include "loop/tcp.h"
#include "support/wait.h"

/* One end. */
struct end {
    struct stream *stream; /* NULL after on_closed */
    struct buf got;
    unsigned opened, eofs, drained, closed;
    bool is_clean;         /* as reported by the last on_eof */
    struct err why;        /* as reported by on_closed */
    size_t pause_at;       /* stops reading when that much has arrived; 0: never */
    bool is_close_on_read; /* closes from inside on_read */
};

void end_init(struct end *end);
void end_deinit(struct end *end);
/* For stream_own, tcp_connect, ...; the owner is a struct end. on_open sets stream. */
extern const struct stream_events end_events;

/* A listener on 127.0.0.1 that passes each connection to on_accept. */
struct tcp_listener *listen_local(struct loop *loop,
                                  void (*on_accept)(struct stream *stream, void *owner),
                                  void *owner);
/* Connects to the listener. */
struct stream *connect_local(struct loop *loop, const struct tcp_listener *listener,
                             const struct stream_events *events, void *owner);

#endif
