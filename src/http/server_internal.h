/*
 * Internals of the server, for server.c (listeners, drain), conn.c (a connection's states),
 * exchange.c (a request) and reply.c (its answer).
 *
 * An exchange has these references: one from its connection (as the current exchange, or in the
 * outbox until its bytes are written), one until the handler replies, and those of
 * http_exchange_ref.
 */
#ifndef HTTP_SERVER_INTERNAL_H
#define HTTP_SERVER_INTERNAL_H

#include "base/buf.h"
#include "base/id.h"
#include "base/keyed.h"
#include "http/parser.h"
#include "http/server.h"

enum {
    CONN_INPUT_BYTES_MAX = 512 * 1024, /* the input that may be kept, and one read in addition */
    /* no next request while this many bytes wait for the client */
    CONN_PENDING_HIGH = 64 * 1024,
    CONN_PIECE_BYTES = 128 * 1024, /* bytes of a large body that are written at a time */
    /* an unwanted body up to this size is read, to keep the connection */
    CONN_DISCARD_BYTES_MAX = 64 * 1024,
    /* connections over connections_max that are answered with 503 before they are closed */
    CONN_REFUSED_MAX = 256,
    CONN_ADDRESS_REFUSED_MAX = 16, /* the same for the limit of one address */
    CONN_PARTS_MAX = 64,
    CONN_FLUSH_NS_ABOUT = 10 * 1000, /* time to write a reply, nearly all in the kernel */
    DATE_TEXT_LEN = 29,
};

enum conn_state {
    CONN_HEAD,   /* idle, or reading a head: http_head_scan_has_begun distinguishes */
    CONN_BODY,   /* reading the body of its exchange */
    CONN_BUSY,   /* the request is complete; the connection waits for the end of the reply */
    CONN_LINGER, /* no more requests: FIN after queued bytes, input is dropped */
    CONN_CLOSED, /* only on_closed follows */
};

struct http_conn {
    struct http_server *server;
    struct stream *stream; /* NULL after on_closed */
    struct list link;      /* server->conns */
    struct list flush_link;
    struct list outbox; /* exchanges whose bytes are sent at the end of the turn, in order */
    size_t outbox_bytes;
    struct exchange *exchange;
    struct buf input; /* a partial head, or pipelined requests; empty while idle */
    struct http_head_scan scan;
    struct timer timer;
    struct loop_task task; /* continues with the input after a reply */
    struct loop_garbage garbage;
    uint64_t state_ns;    /* when its state began */
    uint64_t progress_ns; /* when pending bytes last decreased, or lingering input arrived */
    uint64_t write_ns;    /* the time since which bytes have been pending */
    uint64_t write_bytes; /* queued since then */
    size_t pending_before;
    uint64_t turn;
    uint32_t turn_requests;            /* requests begun in this turn */
    struct sockaddr_in6 peer;          /* an IPv6 or IPv4 address, or only AF_UNIX */
    struct http_conn_address *address; /* NULL: not counted */
    /* the account of its last request with a known key; nil: none */
    struct uuid account;
    uint8_t state;
    bool is_first, is_eof, is_eof_due, is_processing, is_shut;
};

struct exchange {
    struct http_exchange pub; /* must be the first member: the two share an address */
    struct http_conn *conn;   /* NULL once the client side is done */
    unsigned refs;
    struct list out_link; /* conn->outbox */
    slice out_head, out_body;
    slice rest;         /* the part of a large body that is not queued yet */
    const slice *parts; /* the parts after `rest` */
    size_t part_count;
    void (*release)(
        /* returns the large body to its owner; NULL if there is no such body, or after the call */
        void *ctx);
    void *release_ctx;
    struct http_parser parser;
    struct http_chunk_scan chunk;
    struct buf body;
    uint64_t body_left; /* with HTTP_FRAMING_LENGTH: bytes of the body left to read */
    uint64_t body_received, body_ns;
    struct http_header *params;
    size_t param_count;
    struct loop_garbage garbage;
    bool is_reply_due; /* on_request was called and the handler has not answered */
    bool is_answered;  /* the handler has answered */
    bool is_begun;     /* a reply's head was made */
    bool is_complete;  /* the reply's last byte is queued */
    bool is_streaming, is_chunked, is_raw;
    bool is_body_done, is_body_dropped, is_body_awaited, is_continue_due;
    bool is_close;    /* the connection ends with this reply */
    bool is_given_up; /* the server answered instead of the handler */
    bool is_gone_reported, is_finished, has_params;
};

struct http_server {
    struct loop *loop;
    struct http_server_config config; /* without listeners */
    struct http_handler handler;
    void *ctx;
    struct tcp_listener **listeners;
    size_t listener_count;
    struct list conns, flush;
    size_t conn_count, exchange_count;
    struct keyed_table addresses; /* conn_address.c */
    uint64_t accepted;
    size_t conn_count_reported; /* the count as last added to the metric */
    struct loop_hook hook;
    struct timer drain_timer, grace_timer;
    struct loop_task drain_task;
    size_t drain_left; /* connections that the drain has not reached yet */
    struct loop_garbage garbage;
    void (*on_drained)(void *ctx);
    void *drained_ctx;
    int64_t date_second;
    char date[DATE_TEXT_LEN + 1];
    char *server_name;
    bool is_draining, is_freed, is_drained_reported;
};

/* conn.c */
void http_conn_accept(struct http_server *server, struct stream *stream);
/* Called when the exchange has progressed: the reply is complete, or its body is wanted. */
void http_conn_advance(struct http_conn *conn);
/* Writes the outbox and then parts, at once. Returns false if the connection is lost. */
bool http_conn_flush(struct http_conn *conn, const slice *parts, size_t count);
void http_conn_queue_flush(struct http_conn *conn);
void http_conn_close_idle(struct http_conn *conn);
void http_conn_cut(struct http_conn *conn);
void http_conn_end_turn(struct http_conn *conn);

/* conn_address.c */
void http_conn_addresses_init(struct http_server *server);
/* Counts the connection for its address; returns the address's connections, including this one;
 * 0: not counted. */
size_t http_conn_address_take(struct http_conn *conn);
void http_conn_address_release(struct http_conn *conn);

/* conn_time.c */
uint64_t http_conn_write_due(const struct http_conn *conn);
uint64_t http_conn_state_due(const struct http_conn *conn);
/* Checks how much the kernel has taken since the last call. */
void http_conn_note_progress(struct http_conn *conn);

/* exchange.c */
/* Copies, checks and parses the raw head. If it is refused, *problem is set, but the exchange is
 * still created. Returns NULL if out of memory. */
struct exchange *http_exchange_new(struct http_conn *conn, slice head,
                                   struct http_problem *problem) MUST_CHECK;
/* Takes the bytes that belong to the body and sets *used to their number; sets is_body_done at the
 * end of the body. Returns false with *problem set if the body is refused. */
bool http_exchange_feed(struct exchange *exchange, slice bytes, size_t *used,
                        struct http_problem *problem) MUST_CHECK;
/* Whether the handler takes no more of the body for now: nothing is read until http_body_accept. */
bool http_exchange_pauses(struct exchange *exchange) MUST_CHECK;
/* Called when the client has closed, or the server abandoned the request: notifies the handler,
 * once. */
void http_exchange_gone(struct exchange *exchange);
void http_exchange_finish(struct exchange *exchange);

/* reply.c */
/* Writes the next piece of a large body. */
void http_exchange_pump(struct exchange *exchange);
/* Releases a large body that is no longer needed. */
void http_exchange_release(struct exchange *exchange);
/* Sends a reply by the server itself, after which the connection closes. */
void http_exchange_refuse(struct exchange *exchange, struct http_problem problem);
/* Returns a complete reply as text, for connections without an exchange. */
slice http_refusal_text(struct http_server *server, char *out, size_t cap, unsigned status,
                        const char *text);

/* server.c */
slice http_server_date(struct http_server *server);
void http_server_conn_gone(struct http_server *server);
void http_server_release(struct http_server *server);

static inline struct exchange *exchange_of(const struct http_exchange *pub)
{
    return (struct exchange *)(uintptr_t)pub;
}

#endif
