/*
 * HTTP/1.1 server: listeners, connections, exchanges. Strict about its input (http/head.h), with a
 * limit on every size, count and time. An idle connection has no buffer and no arena.
 *
 * One request at a time runs per connection. Pipelined requests are answered strictly in order; up
 * to HTTP_PIPELINE_BYTES_MAX of them are kept before reading pauses. Replies of one turn are sent
 * together at LOOP_PHASE_REPLY: one writev per connection.
 *
 * Life of an exchange: made when a head is complete -> on_head -> body -> on_request -> reply. It
 * lives until its reply is complete and its client side is done, or until the last
 * http_exchange_unref; memory is freed at the bottom of the turn.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/budget.h"
#include "base/err.h"
#include "base/id.h"
#include "base/slice.h"
#include "http/head.h"
#include "http/message.h"
#include "loop/loop.h"
#include "loop/tcp.h"

enum {
    /* bytes of pipelined requests that are kept before reading pauses */
    HTTP_PIPELINE_BYTES_MAX = 16 * 1024,
    HTTP_REQUEST_ID_MAX = 128,
    HTTP_REPLY_HEADERS_MAX = 32,
    HTTP_HEADERS_LIMIT = 256, /* the highest headers_max that can be configured */
};

struct http_server;
struct http_exchange;
struct address_policy;

struct http_server_config {
    const struct tcp_listen_config *listeners; /* borrowed for http_server_new */
    size_t listener_count;
    /* 0 in a member means its default, in brackets. */
    struct http_head_limits head; /* {16 KiB, 8 KiB, 100}: 431, 414, 431 */
    uint64_t body_bytes_max;      /* (8 MiB): 413 */
    size_t connections_max;       /* (10000); over: 503 and close */
    /* (seven eighths of connections_max) from one client address; further ones get 503 and are
     * closed */
    size_t address_connections_max;
    const struct address_policy *uncounted; /* proxies, whose connections are not limited;
                                             * borrowed, must outlive the server; NULL: none */
    uint32_t requests_per_turn_max; /* (32) of one connection, so that a pipeline does not stall
                                       others */
    uint64_t arena_bytes_max;       /* (32 MiB) of one exchange */
    uint64_t write_bytes_max;       /* (64 MiB) of a reply: a larger one becomes a 500 */
    /* (10 s) from the head's first byte, then 408; from accept, then closed */
    uint32_t head_timeout_ms;
    uint32_t body_timeout_ms; /* (60 s) whole body: 408 */
    uint32_t idle_timeout_ms; /* (75 s) between requests, then closed without a reply */
    /* (120 s) from the complete head to the begin of the reply, then 503 and on_gone */
    uint32_t request_timeout_ms;
    /* (30 s) in which a client reads nothing of its reply, then reset */
    uint32_t reply_timeout_ms;
    uint32_t linger_timeout_ms; /* (2 s) after this server's FIN, input is read and dropped; ends
                                 * when no input came for this long, or after ten times as long */
    uint32_t drain_timeout_ms;  /* (30 s) until the remaining connections are cut */
    /* In a drain, a connection between two requests is closed after this long (0: at once).
     * Requests that the client has sent already, or sends in this time, are answered with
     * Connection: close. */
    uint32_t drain_grace_ms;
    /* The rate of a body (a reply) is not measured for the first rate_grace_ms; after that it
     * must average this many bytes per second. */
    uint32_t rate_grace_ms;    /* (10 s) */
    uint32_t rate_bytes_s_min; /* (256) */
    slice server_name;         /* Server header; empty: none */
    bool is_without_ids;       /* no X-Request-Id is read, made or sent */
    /* Puts a TLS session over an accepted stream, with these events for this owner, and sets the
     * queue limit of that stream. If it returns NULL, the connection is closed. Without this
     * function connections are plain. ctx is the handler's. */
    struct stream *(*wrap)(struct stream *under, const struct stream_events *events, void *owner,
                           void *ctx);
};

enum http_body_wanted {
    HTTP_BODY_READ, /* continue: read the body (100 Continue is sent if it is expected) */
    HTTP_BODY_WAIT, /* read nothing until http_body_accept or a reply */
};

struct http_handler {
    /* Called when the head is complete and no byte of the body was read. It may answer at once
     * (then the body is dropped, within limits, and on_request is never called), may set
     * exchange->body_bytes_max, and may start work (which holds the exchange with
     * http_exchange_ref) and answer later. If it is NULL, all bodies are read. */
    enum http_body_wanted (*on_head)(struct http_exchange *exchange, void *ctx);
    /* Called when body_pause_at bytes of the body have been read, and more follow: reading stops
     * until http_body_accept. May be NULL if body_pause_at is never set. */
    void (*on_body_paused)(struct http_exchange *exchange, void *ctx);
    /* The request is complete. Unless it was answered already, http_reply or http_reply_begin must
     * follow exactly once, now or later. */
    void (*on_request)(struct http_exchange *exchange, void *ctx);
    /* For metrics and the access log; may be NULL. Called once per exchange, after the last byte of
     * its reply was queued or its client has closed; the status is 0 if there was no answer. Also
     * called if the head was refused before on_head. */
    void (*on_finished)(struct http_exchange *exchange, void *ctx);
};

/* The public part of an exchange. Slices live as long as the exchange. */
struct http_exchange {
    struct arena arena; /* the handler may allocate here; bounded by arena_bytes_max */
    struct http_server *server;
    struct loop *loop;
    /* ---- request ---- */
    struct http_head head; /* method, target, path, query, headers ... */
    const slice *segments; /* percent-decoded path; "/" has none */
    size_t segment_count;
    slice body;       /* complete in on_request */
    slice request_id; /* X-Request-Id if it has 1 to 128 visible ASCII characters, else a new id;
                       * empty with is_without_ids */
    struct sockaddr_storage peer; /* ss_family AF_UNIX for a Unix socket */
    uint64_t started_ns;          /* when the first byte of the head arrived */
    /* ---- reply, for on_finished ---- */
    unsigned status;      /* 0: none yet */
    uint64_t reply_bytes; /* the body's bytes, as sent */
    bool is_gone;         /* the client closed, or the server abandoned the request */
    bool is_delivered;    /* the handler was called; false if the request was refused before */
    /* ---- the handler's ---- */
    void *user;
    const char *route; /* for metrics: the matched pattern; "(none)" until a route has matched */
    /* fields of each reply, including the server's own replies; on_head may set them, as for
     * http_reply */
    const struct http_header *common;
    size_t common_count;
    uint64_t body_bytes_max; /* on_head may change it for its path */
    uint64_t body_pause_at;  /* 0: the body is read at once; may be set before http_body_accept */
    /* the use that the body is charged to; it must outlive http_body_release */
    struct budget_use *use;
    /* Called at most once, from the loop: the client closed or reset the connection, or the
     * request timed out before its reply was complete. A client that only half-closed may still
     * read a reply, so the handler may try to reply but does not have to: a handler that drops
     * the request calls http_reply_drop. */
    void (*on_gone)(struct http_exchange *exchange);
    /* Called during a streamed reply when the kernel has taken all queued bytes. */
    void (*on_drained)(struct http_exchange *exchange);
};

/* ---- reading a request ---- */

/* Returns the first field with that name, SLICE_NONE if it is absent. */
slice http_request_header(const struct http_exchange *exchange, slice name);
/* Returns the first value of a query parameter, decoded ('+' is a space) into the arena at the
 * first call; SLICE_NONE if it is absent, "" if it has no value. A query with a broken escape is
 * answered with 400 before the handler is called. */
slice http_query_get(struct http_exchange *exchange, slice name);
/* Returns all decoded parameters in order, with name and value. */
const struct http_header *http_query_all(struct http_exchange *exchange, size_t *count);
/* Returns the client's address without its port, as the nearest of these proxies reports it in
 * X-Forwarded-For; "unix" for a client on a Unix socket. If proxies is NULL, no proxy is trusted.
 * The text is in the arena. */
slice http_client_address(struct http_exchange *exchange, const struct address_policy *proxies);
/* Sets the account of the request: from now on the connection is read in that account's turn.
 * Before this call, or with nil, the request has no account. */
void http_request_account_set(struct http_exchange *exchange, struct uuid account);
/* Ends HTTP_BODY_WAIT or a pause; does nothing in any other state. */
void http_body_accept(struct http_exchange *exchange);
/* Releases the body; exchange->body is then empty, and no bytes are charged to `use`. */
void http_body_release(struct http_exchange *exchange);

/* ---- replies: on the loop, at any time, also after the client has closed (then nothing is sent)
 * ---- */

/* Sends a whole reply. Header names and values are checked (a bad name is a bug and fails an
 * ASSERT; a value that could split the message gives a 500). Content-Length, Date, X-Request-Id,
 * Connection and Server are added and must not be given. headers are copied; body is borrowed until
 * the end of this turn (the exchange's or the op's arena, or a constant). HEAD, 204 and 304 send no
 * body. */
void http_reply(struct http_exchange *exchange, unsigned status, const struct http_header *headers,
                size_t header_count, slice body);
/* Like http_reply, for a large body in one or more parts of any size. The parts and their array
 * stay in place, and their bytes are sent as the client takes them, without being copied to a
 * queue. release(ctx) is called exactly once, from the loop, when the body is no longer needed,
 * possibly before this returns. */
void http_reply_large(struct http_exchange *exchange, unsigned status,
                      const struct http_header *headers, size_t header_count, const slice *parts,
                      size_t part_count, void (*release)(void *ctx), void *ctx);
/* Replies with {"error": text} as application/json; text is escaped. */
void http_reply_error(struct http_exchange *exchange, unsigned status, slice text);
/* Begins a streamed reply: chunked, or until close for HTTP/1.0. Read time-outs of the request
 * end here; reply_timeout_ms still applies. */
void http_reply_begin(struct http_exchange *exchange, unsigned status,
                      const struct http_header *headers, size_t header_count);
/* Like http_reply_begin, for a peer in tests that has to break the rules: no head is made and
 * nothing is framed; http_reply_chunk sends its bytes unchanged. If closes is set, the connection
 * ends with the reply. */
void http_reply_begin_raw(struct http_exchange *exchange, bool closes);
/* bytes are copied if necessary. Returns ERR_LIMIT if write_bytes_max would be exceeded (on_drained
 * follows), or ERR_CLOSED if the client has closed; then only http_reply_end may be called. Empty
 * bytes only flush the head. */
int http_reply_chunk(struct http_exchange *exchange, slice bytes) MUST_CHECK;
/* Returns the number of bytes of this connection that the kernel has not taken yet. */
size_t http_reply_pending(const struct http_exchange *exchange);
void http_reply_end(struct http_exchange *exchange);
/* Call it instead of a reply, after on_gone, or to abandon a streamed reply: it resets the
 * connection, so that the client cannot mistake the partial reply for a complete one. */
void http_reply_drop(struct http_exchange *exchange);

/* Adds a reference: the exchange's memory is valid until the matching unref. */
void http_exchange_ref(struct http_exchange *exchange);
void http_exchange_unref(struct http_exchange *exchange);

/* ---- the server ---- */

/* Creates a server and listens. Returns NULL on failure; err names the address and the reason.
 * handler is copied. */
struct http_server *http_server_new(struct loop *loop, const struct http_server_config *config,
                                    const struct http_handler *handler, void *ctx,
                                    struct err *err) MUST_CHECK;
/* Returns the port of the listener at index (0 for a Unix socket). */
uint16_t http_server_port(const struct http_server *server, size_t index);
/* Stops accepting (after taking the backlog), closes idle connections with FIN, answers the
 * others with Connection: close, and lingers, so that no connection is reset. Remaining
 * connections are cut after drain_timeout_ms. on_drained (may be NULL) is called once, from the
 * loop, when none is left. */
void http_server_drain(struct http_server *server, void (*on_drained)(void *ctx), void *ctx);
bool http_server_is_draining(const struct http_server *server);
/* Cuts remaining connections; on_gone of their exchanges is called in the next turn. Memory is
 * freed once the last exchange has been answered or dropped. The pointer must not be used
 * afterwards. */
void http_server_free(struct http_server *server);

#endif
