/*
 * The outbound HTTP/1.1 client: a keep-alive pool per origin, TLS with resumption, an address check
 * on the very address that is connected to, deadlines and limits on everything. No redirects are
 * followed, no cookies kept, nothing decompressed.
 *
 * A call is embedded in the struct of an op and takes a hold on it; it never completes before
 * http_call_start returns.
 *
 * Slots (client_slot.c): calls_per_origin calls are under way to an origin, connections_max in all.
 * Further ones wait, at most waiting_ms, and go in turn by tenant, whatever number each has
 * waiting. A tenant alone may use its share of either; the more the others use, the fewer slots it
 * gets, so that one that takes all it can leaves some for tenants that come later.
 *
 * Pool: the most recently used idle connection is taken (the least likely to have been closed by
 * its peer); connections over the limits are closed from the least recently used end. A reused
 * connection may die before the first byte of a reply, because the peer closed it while idle: then
 * the call is sent again, once, on a fresh connection, if it is idempotent or no byte of it left.
 *
 * Proxy (client_proxy.c): with one, https calls go through a CONNECT tunnel of it, but for those to
 * overrides and to hosts that the operator allowed by name, which are near. A client has one proxy
 * for life, so an origin's connections all lead there, or none does.
 *
 * Plain http:// goes only to hosts that the operator allowed or put in an override: a token must
 * not cross a network in clear.
 */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "base/list.h"
#include "base/slice.h"
#include "http/address.h"
#include "http/message.h"
#include "loop/dns.h"
#include "loop/op.h"
#include "tls/tls.h"

/* 0 stands for the default in each. */
struct http_client_config {
    struct dns_resolver *resolver; /* borrowed, outlives the client */
    struct address_policy *policy; /* borrowed, may be NULL */
    slice proxy;                   /* its URL, http://[user:password@]host:port; "": none */
    struct tls_context *tls;       /* counted; NULL: https calls end with HTTP_CALL_TLS */
    slice user_agent;              /* copied; "sluice" */
    size_t calls_per_origin;       /* in flight at once, 64 */
    size_t share_of_origin;    /* of them for a tenant alone, seven eighths; as many: no share */
    size_t share_of_all;       /* of connections_max, likewise */
    size_t waiting_max;        /* of a tenant, for one origin, 256; more: OVERLOADED */
    unsigned waiting_ms;       /* longest wait for a slot, 5000 */
    size_t idle_per_origin;    /* connections kept, 16 */
    size_t connections_max;    /* of all origins together, 1024; idle ones make way */
    size_t origins_max;        /* 4096; unused ones are forgotten; shared like slots */
    unsigned idle_ms;          /* an unused connection is closed after, 30000; a peer's
                                  Keep-Alive: timeout makes it shorter */
    unsigned write_reuse_ms;   /* calls that are not idempotent take only connections
                                  used within, 10000: less risk that the peer is just
                                  closing it */
    unsigned connect_ms;       /* name, TCP and TLS together, 10000 */
    unsigned first_byte_ms;    /* from the last byte sent to the first received, 30000 */
    unsigned between_bytes_ms; /* longest silence inside a reply, 15000 */
    size_t response_bytes_max; /* body, 8 MiB */
    bool is_apart;             /* it makes no calls to apps: it is in none of their metrics */
};

enum {
    HTTP_CALL_HEADERS_MAX = 64, /* of a request */
    HTTP_CALL_REQUEST_HEAD_MAX = 32 * 1024,
    HTTP_CALL_RESPONSE_HEADERS_MAX = 256,
    HTTP_CALL_RESPONSE_HEAD_MAX = 64 * 1024,
    HTTP_CALL_INTERIM_MAX = 16, /* 1xx replies before the real one */
    HTTP_CALL_BODY_PARTS_MAX = 256,
    HTTP_OVERRIDES_MAX = 64,
};

struct http_client;

/* NULL: err. */
struct http_client *http_client_new(struct loop *loop, const struct http_client_config *config,
                                    struct err *err) MUST_CHECK;
/* Calls still under way end with CANCELLED, connections are closed; memory is freed as the
 * loop runs on. */
void http_client_free(struct http_client *client);
/* For a reload: connections made under the former context are closed as they fall idle. */
void http_client_tls_set(struct http_client *client, struct tls_context *tls);
/* Operator only: requests for origin ("https://gmail.googleapis.com") go to target
 * ("https://127.0.0.1:9443", a path in it is put before the request's own). The Host header stays
 * the original's authority; SNI and certificate check use the target's host, since that
 * server answers. The target's address is always allowed. Copies. ERR_SYNTAX, ERR_LIMIT. */
int http_client_override(struct http_client *client, slice origin, slice target,
                         struct err *err) MUST_CHECK;

struct http_client_stats {
    size_t connections, idle, calls_active, calls_waiting, origins;
};
struct http_client_stats http_client_stats(const struct http_client *client);

enum http_call_result {
    HTTP_CALL_OK,              /* a whole reply, whatever its status */
    HTTP_CALL_DNS,             /* no such name, or the look-up failed */
    HTTP_CALL_ADDRESS_REFUSED, /* by the address policy, or no such name where is_host_given;
                                  nothing was connected */
    HTTP_CALL_CONNECT,         /* no address took the connection */
    HTTP_CALL_PROXY, /* the operator's proxy gave no tunnel; nothing of the call was sent */
    HTTP_CALL_TLS,   /* handshake or certificate */
    HTTP_CALL_TIMEOUT_CONNECT, /* name, TCP or TLS took too long; nothing of the call was sent */
    HTTP_CALL_TIMEOUT,         /* first byte, silence, or the total deadline */
    HTTP_CALL_RESET,           /* the connection ended before the reply was whole */
    HTTP_CALL_PROTOCOL,        /* not an HTTP/1.1 reply that can be trusted */
    HTTP_CALL_TOO_LARGE,       /* status, headers and the body's beginning are there */
    HTTP_CALL_OVERLOADED,      /* own limits: queue full or too long a wait, descriptors, memory */
    HTTP_CALL_UNSENT,          /* the caller's may_send said no; nothing of the call was sent */
    HTTP_CALL_INVALID,         /* for callers, where http_call_start refused what it was to send */
    HTTP_CALL_CANCELLED,
    HTTP_CALL_RESULTS
};
/* "ok", "dns", "address_refused" ...: for labels and logs. */
const char *http_call_result_name(enum http_call_result result);

/* Zero it, fill "in", start. Everything in "in" is borrowed until the call has ended. */
struct http_call {
    /* in */
    struct uuid tenant; /* whose share of the slots it takes; nil is a tenant, too */
    slice method;       /* a token: "GET" */
    slice url;          /* absolute; path and query already percent-encoded */
    bool is_host_given; /* by the tenant, which must not learn which names exist inside */
    const struct http_header *headers; /* not Host, Content-Length, Transfer-Encoding, Connection,
                                          Expect, TE, Trailer, Upgrade, Keep-Alive: they are ours */
    size_t header_count;
    const slice *body_parts; /* sent one behind the other; Content-Length is their sum */
    size_t body_part_count;  /* 0: no body (Content-Length: 0 for POST, PUT, PATCH) */
    unsigned attempt;        /* for the log: which one of the same request this is, from 1 */
    bool is_idempotent;      /* may be sent twice: a read, or a write with a provider's key */
    /* NULL: always. Asked right before the first byte would leave, each time that it would: behind
     * the wait for a place and the handshake, and again for a second sending. false: the call ends
     * with UNSENT, and its connection stays in the pool for the next one; or with RESET, where a
     * first sending has left something. It may not touch the call. */
    bool (*may_send)(const struct http_call *call);
    uint64_t deadline_ns; /* loop clock, for everything together; 0: none (then the others) */
    unsigned connect_ms, first_byte_ms, between_bytes_ms; /* 0: the client's */
    size_t response_bytes_max;                            /* 0: the client's */

    /* out; all of it lies in the owner's arena or in the struct */
    enum http_call_result result;
    struct err err;  /* a sentence unless result is OK */
    unsigned status; /* 0 until a reply's head was whole; 3xx come back like any other */
    struct http_header *response_headers;
    size_t response_header_count;
    slice body;
    bool is_any_byte_sent; /* of this call, on any connection it tried: a write may have happened */
    bool is_reused;        /* the last connection tried came from the pool */
    bool is_resumed;       /* its TLS session was a resumed one (also when reused) */
    bool is_resent;        /* sent a second time after a stale connection */
    char remote[ADDRESS_TEXT_MAX]; /* NUL-terminated, "" when none was connected */
    /* Durations; 0 where it did not happen in this call. first_byte and total from the start. */
    uint64_t waiting_ns, dns_ns, connect_ns, tls_ns, first_byte_ns, total_ns;

    /* private */
    struct http_client *client;
    struct op *owner;
    struct list all_link, wait_link;
    struct loop_task ended; /* releases the hold */
    struct timer timer;
    struct http_origin *origin;
    struct http_line *line;
    struct http_connection *connection;
    struct http_dial *dial;
    uint64_t started_ns, queued_ns, phase_due_ns;
    slice target_prefix, target, authority; /* of the request line and Host */
    uint64_t body_bytes;                    /* sum of body_parts */
    uint8_t state, slot;
    bool is_fresh_wanted; /* no pooled connection this time */
};

/* Takes a hold on owner until the call has ended; results lie in owner's arena, whose limit must
 * leave room for headers and body. Does not complete before it returns. An error means that nothing
 * was started: ERR_SYNTAX, ERR_INVALID or ERR_LIMIT with a sentence in call->err (a URL, method or
 * header that may not be sent), ERR_NOMEM. */
int http_call_start(struct http_client *client, struct http_call *call,
                    struct op *owner) MUST_CHECK;
/* Ends it with CANCELLED; the hold is released in the next drain. A connection that it is on is
 * closed. Harmless when the call is not under way, but it must have been zeroed once. */
void http_call_cancel(struct http_call *call);
bool http_call_is_active(const struct http_call *call);
/* The first response header of that name, SLICE_NONE when absent. */
slice http_call_header(const struct http_call *call, slice name);

#endif
