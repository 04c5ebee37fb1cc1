/*
 * Shared by conn.c (bytes in), conn_request.c (a request to a reply) and conn_reply.c (bytes out).
 */
#ifndef PROVIDER_CONN_INTERNAL_H
#define PROVIDER_CONN_INTERNAL_H

#include "http/head.h"
#include "provider/conn.h"

enum conn_state {
    CONN_READING,   /* the next request may be worked on */
    CONN_LATE,      /* a complete reply waits for the timer, or for conn_let_go */
    CONN_SLOW,      /* pieces of a reply go out by the timer */
    CONN_ENDLESS,   /* a body without end, as fast as it is taken */
    CONN_RESETTING, /* the timer resets it */
    CONN_HUNG,      /* nothing is ever answered */
    CONN_ENDING,    /* FIN is on its way; input is dropped */
    CONN_CLOSED,
};

struct conn {
    struct host *host;
    struct stream *stream;
    struct list link;
    enum conn_state state;
    bool is_attached;
    bool is_last;      /* Connection: close, or HTTP/1.0 */
    bool is_continued; /* 100 Continue was sent for this request */
    bool is_held;      /* late, and no timer runs */
    bool is_read_stopped, has_eof;
    struct buf in; /* read and not yet used */
    struct http_chunk_scan chunk;
    size_t chunk_at; /* how far the chunked body was scanned; 0: not begun */
    struct buf held; /* a reply that is late or slow */
    size_t held_sent;
    struct fault fault; /* for slow */
    struct timer timer;
    struct loop_garbage garbage;
};

/* A request that is whole: points into the bytes read. */
struct conn_request {
    struct http_head head;
    struct http_header headers[CONN_HEADERS_MAX];
    slice body;
    size_t bytes; /* of everything */
};

/* conn_request.c: answers one request into host->out (or arranges what happens instead). */
void conn_run(struct conn *conn, struct conn_request *request);

/* conn_reply.c */
/* Head and body into out; is_whole adds Content-Length, else the length given in its place. */
void conn_write_reply(struct conn *conn, struct buf *out, const struct provider_reply *reply,
                      bool has_body);
/* {status, reason} as a plain JSON reply; the connection reads no further request. */
void conn_refuse(struct conn *conn, unsigned status, const char *text);
/* Sends what is in host->out; false: the connection is gone. */
bool conn_flush(struct conn *conn);
/* FIN after what is queued. */
void conn_end(struct conn *conn);
void conn_reset(struct conn *conn);
/* Sends a reply that is ready, as the fault wants it: late, slow, cut off or not at all. */
void conn_deliver(struct conn *conn, const struct provider_reply *reply, bool has_body,
                  const struct fault *fault);
/* Replies that are held until the rules change go out. */
void conn_let_go(struct host *host);
void conn_on_timer(struct timer *timer);
void conn_more_endless(struct conn *conn);
/* conn.c: goes on with what was read meanwhile. */
void conn_resume(struct conn *conn);

#endif
