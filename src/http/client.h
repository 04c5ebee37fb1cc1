/*
 * The outbound HTTP/1.1 client: a keep-alive pool per origin, TLS with resumption, a check of each
 * address that it connects to, and deadlines and limits for everything. It follows no redirects,
 * keeps no cookies and decompresses nothing.
 *
 * A call is embedded in the struct of an op and takes a hold on it; it never completes before
 * http_call_start returns.
 *
 * Slots (client_slot.c): at most calls_per_origin calls are under way to an origin, and
 * connections_max in total. Further calls wait, at most waiting_ms, and start in turn by tenant,
 * however many each tenant has waiting. A tenant alone may use its share of both; the more slots
 * other tenants use, the fewer it gets, so that a tenant that takes all it can leaves some for
 * others.
 *
 * Pool: a call takes the most recently used idle connection (the least likely to have been closed
 * by its peer); connections over the limits are closed from the least recently used end. A reused
 * connection may die before the first byte of a reply, because the peer closed it while idle. The
 * call is then sent again, once, on a fresh connection, if it is idempotent or none of its bytes
 * were sent.
 *
 * Proxy (client_proxy.c): with a proxy, https calls go through its CONNECT tunnel, except those to
 * overrides and to hosts that the operator allowed by name, which are local. A client keeps one
 * proxy, so either all connections of an origin use it, or none.
 *
 * Plain http:// goes only to hosts that the operator allowed or put in an override: a token must
 * not cross a network unencrypted.
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

/* 0 in a member means its default. */
struct http_client_config {
    struct dns_resolver *resolver; /* borrowed, outlives the client */
    struct address_policy *policy; /* borrowed, may be NULL */
    slice proxy;                   /* the proxy's URL, http://[user:password@]host:port; "": none */
    /* a counted reference; NULL: https calls end with HTTP_CALL_TLS */
    struct tls_context *tls;
    slice user_agent;        /* copied; "sluice" */
    size_t calls_per_origin; /* calls in flight at once, 64 */
    size_t share_of_origin;  /* maximum for one tenant, seven eighths; equal to the limit:
                              * no share */
    size_t share_of_all;     /* the maximum for one tenant of connections_max; same default */
    /* waiting calls per tenant and origin, 256; further calls end with OVERLOADED */
    size_t waiting_max;
    unsigned waiting_ms;    /* longest wait for a slot, 5000 */
    size_t idle_per_origin; /* connections kept, 16 */
    size_t connections_max; /* total, 1024; idle connections are closed for new calls */
    size_t origins_max;     /* 4096; unused origins are freed; shared like slots */
    unsigned idle_ms; /* an unused connection is closed after this, 30000; or earlier by the peer's
                         Keep-Alive: timeout */
    unsigned write_reuse_ms;   /* a call that is not idempotent uses no connection that was idle for
                                  longer, 10000: its peer may be closing it */
    unsigned connect_ms;       /* name, TCP and TLS together, 10000 */
    unsigned first_byte_ms;    /* from the last byte sent to the first received, 30000 */
    unsigned between_bytes_ms; /* longest silence inside a reply, 15000 */
    size_t response_bytes_max; /* body, 8 MiB */
    /* this client makes no calls to apps, so the metrics of such calls exclude it */
    bool is_apart;
};

enum {
    HTTP_CALL_HEADERS_MAX = 64, /* per request */
    HTTP_CALL_REQUEST_HEAD_MAX = 32 * 1024,
    HTTP_CALL_RESPONSE_HEADERS_MAX = 256,
    HTTP_CALL_RESPONSE_HEAD_MAX = 64 * 1024,
    HTTP_CALL_INTERIM_MAX = 16, /* 1xx replies before the final reply */
    HTTP_CALL_BODY_PARTS_MAX = 256,
    HTTP_OVERRIDES_MAX = 64,
};

struct http_client;

/* Returns NULL on failure; err says why. */
struct http_client *http_client_new(struct loop *loop, const struct http_client_config *config,
                                    struct err *err) MUST_CHECK;
/* Calls still under way end with CANCELLED and connections are closed; memory is freed in later
 * turns of the loop. */
void http_client_free(struct http_client *client);
/* For a reload: connections made under the former context are closed when they become idle. */
void http_client_tls_set(struct http_client *client, struct tls_context *tls);
/* For operators only: requests for origin ("https://gmail.googleapis.com") go to target
 * ("https://127.0.0.1:9443"; a path in it precedes the request's own). The Host header remains the
 * original authority; SNI and the certificate check use the target's host, since that server
 * replies. The target's address is always allowed. The texts are copied. Returns ERR_SYNTAX or
 * ERR_LIMIT. */
int http_client_override(struct http_client *client, slice origin, slice target,
                         struct err *err) MUST_CHECK;

struct http_client_stats {
    size_t connections, idle, calls_active, calls_waiting, origins;
};
struct http_client_stats http_client_stats(const struct http_client *client);

enum http_call_result {
    HTTP_CALL_OK,              /* a complete reply, whatever its status */
    HTTP_CALL_DNS,             /* the name does not exist, or the lookup failed */
    HTTP_CALL_ADDRESS_REFUSED, /* refused by the address policy, or is_host_given is set and the
                                  name does not exist; no connection was made */
    HTTP_CALL_CONNECT,         /* no address accepted the connection */
    HTTP_CALL_PROXY, /* the operator's proxy did not open a tunnel; nothing of the call was sent */
    HTTP_CALL_TLS,   /* handshake or certificate */
    HTTP_CALL_TIMEOUT_CONNECT, /* name, TCP or TLS took too long; nothing of the call was sent */
    HTTP_CALL_TIMEOUT,         /* no first byte, a silence, or the total deadline */
    HTTP_CALL_RESET,           /* the connection ended before the reply was complete */
    HTTP_CALL_PROTOCOL,        /* not an HTTP/1.1 reply that can be trusted */
    HTTP_CALL_TOO_LARGE,       /* status, headers and the beginning of the body are available */
    /* this client's own limits: full queue, long wait, descriptors, memory */
    HTTP_CALL_OVERLOADED,
    HTTP_CALL_UNSENT,  /* the caller's may_send returned false; nothing of the call was sent */
    HTTP_CALL_INVALID, /* set by callers if http_call_start refused the request */
    HTTP_CALL_CANCELLED,
    HTTP_CALL_RESULTS
};
/* Returns "ok", "dns", "address_refused" ..., for labels and logs. */
const char *http_call_result_name(enum http_call_result result);

/* Zero it, fill "in", start. Everything in "in" is borrowed until the call has ended. */
struct http_call {
    /* in */
    struct uuid tenant; /* slots are counted for this tenant; nil is a tenant, too */
    slice method;       /* a token: "GET" */
    slice url;          /* absolute; path and query already percent-encoded */
    bool is_host_given; /* a tenant gave the host, and must not learn which internal names exist */
    const struct http_header
        *headers; /* without the headers that the client sets: Host, Content-Length,
                   * Transfer-Encoding, Connection, Expect, TE, Trailer, Upgrade, Keep-Alive */
    size_t header_count;
    const slice *body_parts; /* sent in order; Content-Length is their sum */
    size_t body_part_count;  /* 0: no body (Content-Length: 0 for POST, PUT, PATCH) */
    unsigned attempt;        /* logged: the number of this attempt, from 1 */
    bool is_idempotent;      /* may be sent twice: a read, or a write with a provider's key */
    /* Whether the request may be sent; NULL: always. Called right before the first byte is sent:
     * after the wait for a slot and the handshake, and again before a resend. If it returns false,
     * the call ends with UNSENT, and its connection stays in the pool; if a first attempt has sent
     * bytes, the call ends with RESET. It must not touch the call. */
    bool (*may_send)(const struct http_call *call);
    uint64_t deadline_ns; /* deadline for all phases together, loop clock; 0: only the deadlines of
                             the phases */
    unsigned connect_ms, first_byte_ms, between_bytes_ms; /* 0: the client's */
    size_t response_bytes_max;                            /* 0: the client's */

    /* Results; all memory is in the owner's arena or in the struct. */
    enum http_call_result result;
    struct err err;  /* a sentence unless result is OK */
    unsigned status; /* 0 until a reply's head is complete; 3xx are returned like any other */
    struct http_header *response_headers;
    size_t response_header_count;
    slice body;
    /* bytes were sent on any connection that this call tried, so a write may have happened */
    bool is_any_byte_sent;
    bool is_reused;  /* the last connection tried came from the pool */
    bool is_resumed; /* its TLS session was resumed (also if the connection was reused) */
    bool is_resent;  /* sent a second time after a stale connection */
    char remote[ADDRESS_TEXT_MAX]; /* NUL-terminated; "" if there was no connection */
    /* Durations; 0 if the phase did not occur in this call. first_byte and total are measured
     * from the start of the call. */
    uint64_t waiting_ns, dns_ns, connect_ns, tls_ns, first_byte_ns, total_ns;

    /* private */
    struct http_client *client;
    struct op *owner;
    struct list all_link, wait_link;
    struct loop_task ended; /* releases the hold */
    struct timer timer;
    struct http_origin *origin;
    struct http_queue *queue;
    struct http_connection *connection;
    struct http_dial *dial;
    uint64_t started_ns, queued_ns, phase_due_ns;
    slice target_prefix, target, authority; /* parts of the request line and Host */
    uint64_t body_bytes;                    /* sum of body_parts */
    uint8_t state, slot;
    bool is_fresh_wanted; /* no pooled connection this time */
};

/* Takes a hold on owner until the call has ended; results are in owner's arena, whose limit must
 * leave room for headers and body. Does not complete before it returns. An error means that nothing
 * was started: ERR_SYNTAX, ERR_INVALID or ERR_LIMIT with a sentence in call->err (a URL, method or
 * header that may not be sent), ERR_NOMEM. */
int http_call_start(struct http_client *client, struct http_call *call,
                    struct op *owner) MUST_CHECK;
/* Ends the call with CANCELLED; the hold is released in the next drain. The connection that the
 * call uses is closed. Does nothing if the call is not under way, but the struct must have been
 * zeroed. */
void http_call_cancel(struct http_call *call);
bool http_call_is_active(const struct http_call *call);
/* Returns the first response header of that name, SLICE_NONE if it is absent. */
slice http_call_header(const struct http_call *call, slice name);

#endif
