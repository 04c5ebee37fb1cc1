/*
 * Internals of the outbound client (http/client*.c). Owners:
 *
 *   http_client      origins, by key; counts connections and dials; freed after the last of them
 *   http_origin      its idle connections and queues; freed once nothing points to it
 *   http_queue       the calls of one tenant to one origin; freed with the last of them
 *   http_tenant      its calls that wait for a slot; freed with its last queue
 *   http_dial        an op: name, address, TCP, TLS; works for one call, ends as a connection
 *   http_proxy       the proxy of the client; NULL if there is none
 *   http_connection  a stream, and the call that it carries, if any
 *   http_call        the caller's; links to it are cut in call_detach() only
 */
#ifndef HTTP_CLIENT_INTERNAL_H
#define HTTP_CLIENT_INTERNAL_H

#include <llhttp.h>

#include "base/buf.h"
#include "base/keyed.h"
#include "base/map.h"
#include "http/client.h"
#include "http/url.h"
#include "loop/budget_wait.h"

enum {
    /* bytes passed to a stream at once; together with a head, less than TLS_FLUSH_BYTES */
    CLIENT_SEND_BYTES = 64 * 1024,
    /* after this number of writes, other connections get their turn */
    CLIENT_SENDS_A_TURN = 8,
    CLIENT_STREAM_QUEUE = 256 * 1024, /* plain bytes that a stream may queue */
    CLIENT_HEAD_FIRST_PARTS = 63,     /* body parts that are sent with the head in one writev */
};

enum call_state {
    CALL_IDLE,    /* never started, or ended */
    CALL_WAITING, /* waits for its slot in the origin, or in the client */
    CALL_DIALING,
    CALL_SENDING,   /* on a connection; the request is not completely sent */
    CALL_RECEIVING, /* the request is sent; the reply is not complete */
    CALL_ENDING,    /* the result is set, the hold not yet released */
};

enum call_slot {
    SLOT_NONE,      /* waits for a slot in its origin */
    SLOT_IN_ORIGIN, /* has that slot, and waits for one in the client */
    SLOT_IN_ALL,    /* under way */
};

struct http_override {
    char origin[URL_ORIGIN_MAX + 1];
    char *target_text; /* holds the text of target's slices */
    struct url target;
    slice prefix; /* path without a trailing slash */
};

/* A head being received: raw names and values, and where each is in text. */
struct head_field {
    uint32_t name_at, name_len, value_at, value_len;
};
struct head_scratch {
    struct buf text, fields;
};

struct http_client {
    struct loop *loop;
    struct http_client_config config; /* defaults filled in */
    struct tls_context *tls;
    struct http_proxy *proxy;
    char user_agent[128];
    size_t refs; /* references: one of the owner, one per connection and dial */
    bool is_freed;
    struct map origins;
    struct list calls;   /* calls that have not ended, by all_link */
    struct list by_idle; /* idle connections of all origins, least recently used first */
    size_t connection_count, dial_count, idle_count, call_count, waiting_count, active_count;
    struct keyed_table tenants, queues; /* struct http_tenant, http_queue */
    /* tenants with calls that wait for a slot in the client, in the order of their turns */
    struct list ring;
    struct loop_task serve_more;
    bool is_serving;
    /* set whenever a count changes */
    struct metric_series *idle_series, *busy_series, *waiting_series;
    struct http_override *overrides;
    size_t override_count;
    struct buf head;                    /* head of the request being written; wiped after each
                                         * request */
    struct head_scratch *spare_scratch; /* reused, so that a reply needs no allocation for its
                                         * head */
    struct loop_garbage garbage;
};

struct http_origin {
    struct http_client *client;
    char key_text[1 + URL_ORIGIN_MAX + 1]; /* begins with '!' if an override applies: its
                                              connections may not serve others */
    slice key;
    char host[URL_HOST_MAX + 1];
    uint16_t port;
    bool is_https, is_override, is_proxied;
    struct list idle; /* connections, least recently used first */
    struct list ring; /* queues with calls that wait for a slot here, in the order of their turns */
    size_t idle_count, slot_count, queue_count, connection_count, dial_count;
    size_t pins; /* number of functions that still use the origin */
};

struct queue_key {
    struct http_origin *origin;
    struct uuid tenant;
};

struct http_queue {
    struct keyed keyed; /* by queue_key; in the origin's ring; has the waiting calls */
    struct http_origin *origin;
    struct http_tenant *tenant;
    size_t waiting_count, slot_count;
};

struct http_tenant {
    struct keyed keyed; /* in the client's ring; has the calls that have their slot in the origin
                         * and wait for one in the client */
    struct http_client *client;
    size_t queue_count, active_count;
};

struct http_response {
    llhttp_t parser;
    struct head_scratch *scratch; /* while a head is read */
    bool is_value_open;           /* the newest field's value has begun */
    bool is_head_done, is_complete, is_keep_alive, is_length_known;
    bool is_failed;
    enum http_call_result result; /* when is_failed */
    unsigned interims;
    uint64_t wire_bytes, body_bytes;
    char *body; /* in the owner's arena, if the length is known */
    size_t body_cap;
    size_t bytes_paid,
        /* body bytes for which memory is reserved, and for which memory is still needed */
        bytes_wanted;
    struct buf body_buf;   /* if the length is not known */
    unsigned keep_alive_s; /* from the peer's Keep-Alive, 0: none */
};

struct http_connection {
    struct stream *stream; /* NULL once it closes */
    struct http_client *client;
    struct http_origin *origin;
    struct http_call *call; /* NULL: idle or closing */
    struct list idle_link, all_idle_link;
    struct timer idle_timer;
    struct loop_task send_more;
    const struct tls_context *tls; /* the TLS context with which it was made; NULL: plain */
    uint64_t idle_since_ns;
    bool is_resumed, is_idle, is_eof;
    char remote[ADDRESS_TEXT_MAX];
    size_t part_index, part_offset; /* position in the call's body up to which it has been sent */
    struct http_response response;
    struct budget_wait memory; /* the wait for more memory */
};

/* ---- client.c: calls and origins ---- */

/* The only end of a call: cuts its links, records the times, and releases the hold in the next
 * drain. call->err is set before. */
void call_finish(struct http_call *call, enum http_call_result result);
void call_fail(struct http_call *call, enum http_call_result result, enum err_code code,
               const char *fmt, ...) PRINTF_LIKE(4, 5);
/* Sets the timer to the deadline of the phase or of the call, whichever is sooner. */
void call_set_phase(struct http_call *call, enum call_state state, uint64_t phase_due_ns);
/* Finds a connection for the call, or dials one. It may end the call. */
void call_assign(struct http_call *call);
void origin_collect(struct http_origin *origin);
void client_unref(struct http_client *client);
void client_count_changed(struct http_client *client);

/* ---- client_slot.c: slots ---- */

void slot_init(struct http_client *client);
void slot_deinit(struct http_client *client);
/* Whether this tenant may use one more origin that no other tenant uses. */
bool slot_allows_origin(struct http_client *client, struct uuid key);
/* Returns whether the call has its slot. Otherwise it waits, or has ended with OVERLOADED. */
bool slot_ask(struct http_call *call, struct http_origin *origin);
/* Releases the call's slots, or removes the call from its queue; call slot_serve for the origin
 * afterwards. */
void slot_leave(struct http_call *call);
/* Assigns the next calls when a slot in the origin is free, and possibly one in the client. The
 * origin may be freed after this. */
void slot_serve(struct http_origin *origin);
/* Call it when a connection or dial without a call ends; it serves waiting calls in the next
 * drain. */
void slot_room_came(struct http_client *client);

/* ---- client_request.c ---- */

/* Checks all texts of the call that will be sent. */
int request_check(struct http_call *call) MUST_CHECK;
/* Returns the head, in client->head; SLICE_NONE if out of memory. The caller calls request_wipe. */
slice request_head(struct http_call *call);
void request_wipe(struct http_client *client);

/* ---- client_dial.c ---- */

/* Returns NULL if out of memory. */
struct http_dial *dial_start(struct http_call *call) MUST_CHECK;
/* Called when the call has ended; the dial then ends without it. */
void dial_abandon(struct http_dial *dial);
/* Whether the dial waits for the proxy. */
bool dial_waits_for_proxy(const struct http_dial *dial);

/* ---- client_proxy.c ---- */

/* On failure returns ERR_SYNTAX, with a text in err that is put after the setting's name; *out is
 * then NULL. */
int proxy_new(slice text, struct http_proxy **out, struct err *err) MUST_CHECK;
void proxy_free(struct http_proxy *proxy);
slice proxy_host(const struct http_proxy *proxy);
uint16_t proxy_port(const struct http_proxy *proxy);
/* Writes a CONNECT request; target: "192.0.2.1:443". Returns what stream_write does. */
int proxy_ask(const struct http_proxy *proxy, struct stream *stream, const char *target) MUST_CHECK;
bool proxy_is_head_whole(struct buf *head);
/* Reads the proxy's reply, which may be incomplete. Returns ERR_SYNTAX if it is not an HTTP/1 head,
 * or more bytes than a head where the tunnel should begin. */
int proxy_read_head(const struct buf *head, unsigned *status) MUST_CHECK;

/* ---- client_connection.c ---- */

/* Takes over the stream. Returns NULL if out of memory; the caller then still owns the stream. */
struct http_connection *connection_new(struct http_origin *origin,
                                       struct stream *stream) MUST_CHECK;
/* Takes the most recently used idle connection that may carry this call out of the idle lists; NULL
 * if there is none. */
struct http_connection *connection_take_idle(struct http_call *call);
/* Sends the call's request. Returns false if the connection proved to be dead before a byte was
 * sent, and is closing. */
bool connection_send(struct http_connection *connection, struct http_call *call);
/* Closes the connection of a call that failed or was cancelled: it is no longer usable. */
void connection_drop(struct http_connection *connection);
void connection_close_idle(struct http_connection *connection);
/* Makes room for one more connection if the limit is reached; returns false if all are busy. */
bool connection_make_room(struct http_client *client);

/* ---- client_response.c ---- */

void response_begin(struct http_connection *connection);
/* Returns whether the connection pauses until there is memory for more. */
bool response_waits_for_memory(struct http_connection *connection) MUST_CHECK;
/* Feeds bytes; afterwards is_complete or is_failed may be set. Returns how many bytes belong to
 * the reply. */
size_t response_feed(struct http_connection *connection, slice bytes);
/* Called when the peer has closed. Returns whether the close was the reply's proper end. */
bool response_finish(struct http_connection *connection);
/* Moves the body to the call and releases the scratch memory. */
void response_end(struct http_connection *connection);

#endif
