/*
 * The provider's own HTTP/1.1 connections: a server that misbehaves on request, which the real one
 * (src/http) must not be able to do. Heads and chunked framing are checked by http/head.h.
 *
 * One request at a time; pipelined ones are answered in order. Replies of one read go out in one
 * write. A reply that is late or comes in pieces is kept in the connection.
 */
#ifndef PROVIDER_CONN_H
#define PROVIDER_CONN_H

#include "base/list.h"
#include "loop/stream.h"
#include "provider/fault.h"
#include "provider/provider.h"

enum {
    CONNS_MAX = 20000,
    CONN_PIPELINE_BYTES_MAX = 1024 * 1024, /* kept while a reply is late; then reading pauses */
    CONN_WRITE_BYTES_MAX = PROVIDER_REPLY_BYTES_MAX + 1024 * 1024,
    CONN_HEADERS_MAX = 100,
    CONN_ARENA_BYTES_MAX = 256 * 1024 * 1024,
    /* a client must read half a reply before the RST may overtake it */
    CONN_RESET_DELAY_MS = 50,
};

/* What all connections of a process share. */
struct host {
    struct loop *loop;
    struct provider *provider;
    struct list conns;
    size_t conn_count;
    struct buf out;  /* replies of the read that is being worked on */
    struct buf body; /* of the reply that is being made */
    struct arena arena;
    char date[64]; /* "Date: ...\r\n" of date_s */
    int64_t date_s;
};

void host_init(struct host *host, struct loop *loop, struct provider *provider);
/* Closes all connections; the loop must turn before host_deinit. */
void host_close(struct host *host);
void host_deinit(struct host *host);

/* Takes the stream over (plain or TLS; reading starts when it is open). Closes it when there are
 * too many. */
void conn_accept(struct host *host, struct stream *stream, bool is_open);
extern const struct stream_events conn_events;
/* For TLS: the owner that on_open and the rest are called with; conn_attach follows. NULL: no room.
 */
struct conn;
struct conn *conn_new(struct host *host) MUST_CHECK;
void conn_attach(struct conn *conn, struct stream *stream);
void conn_discard(struct conn *conn);

#endif
