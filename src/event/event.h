/*
 * event: what accounts hear of their changes. An account has endpoints (the noun webhook), and each
 * gets signed messages. command.h changes an endpoint, send.h sends one message, sign.h signs it.
 *
 * The service has an HTTP client of its own: messages never take the connections of calls to apps,
 * nor are they sent through overrides or to hosts that were allowed for these. Addresses are
 * checked as for calls; only hosts of the setting webhook-host may be inside.
 */
#ifndef EVENT_EVENT_H
#define EVENT_EVENT_H

#include "due/due.h"
#include "http/client.h"
#include "vault/seal.h"

struct pg_pool;

enum { EVENT_TIMEOUT_MS = 15000 };

/* All of it must outlive the service. */
struct event_config {
    struct loop *loop;
    struct pg_pool *pool;
    const struct vault_ring *ring;
    struct dns_resolver *dns;
    struct tls_context *tls;
    slice proxy;        /* as http_client_config.proxy */
    const slice *hosts; /* hosts that may be inside, and without TLS (address_policy_allow) */
    size_t host_count;
    struct due_timers
        *due; /* the service owns the deliveries in it; NULL: it sends none (a command) */
    unsigned timeout_ms; /* longest time for a message and its reply; 0: EVENT_TIMEOUT_MS */
};

struct event_service;

/* Returns NULL with err set on failure. */
struct event_service *event_service_new(const struct event_config *config,
                                        struct err *err) MUST_CHECK;
/* Replaces the trust roots (http_client_tls_set). */
void event_service_tls_set(struct event_service *service, struct tls_context *tls);
/* Begins no more deliveries. Those under way go on; event_service_active is their number. */
void event_service_drain(struct event_service *service);
size_t event_service_active(const struct event_service *service);
/* Cancels them: their messages may have arrived, and are sent again. */
void event_service_cancel_all(struct event_service *service);
/* Frees in two steps, as struct outbound: the first ends messages under way, the second follows
 * once the loop has run the close callbacks. Both accept NULL. */
void event_service_close(struct event_service *service);
void event_service_free(struct event_service *service);

/* Checks an endpoint's URL: https, unless its host is in webhook-host; no address inside; not the
 * origin of public_url (which may be empty). Returns ERR_INVALID with a sentence that begins with
 * "url". A name is resolved, and its address checked, only when a message is sent. */
int event_url_check(const struct event_service *service, slice url, slice public_url,
                    struct err *err) MUST_CHECK;

#endif
