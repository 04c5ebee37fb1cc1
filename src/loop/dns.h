/*
 * Name lookups: getaddrinfo on the thread pool, with a cache (fixed TTL, also for negative answers)
 * and one flight per name, so that one slow resolver cannot starve others. Lookups use at most half
 * of the pool's threads. Of these slots, at most half are for names that were slow last time, and
 * one in four is reserved for names that were quick before. A waiting query ends at its own
 * deadline, while the lookup continues for the cache.
 */
#ifndef LOOP_DNS_H
#define LOOP_DNS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/slice.h"
#include "loop/op.h"

enum { DNS_ADDRESSES_MAX = 8, DNS_NAME_MAX = 253 };

struct dns_resolver;

/* Zero it before its first use, so that dns_cancel may always be called. */
struct dns_query {
    /* in */
    /* a name, or an IPv4 or IPv6 literal without brackets; borrowed during dns_resolve */
    slice host;
    uint64_t deadline_ns;
    /* out */
    int status; /* OK, ERR_NOTFOUND, ERR_TIMEOUT, ERR_BUSY, ERR_IO, ERR_NOMEM, ERR_CLOSED */
    size_t address_count;
    struct sockaddr_storage addresses[DNS_ADDRESSES_MAX]; /* port 0; v6 and v4 interleaved */
    struct err err;
    /* private */
    struct op *op; /* NULL: not under way */
    struct dns_resolver *resolver;
    struct list link;
    struct timer timer;
    /* the lookup is not done; false once the query has its answer, and its op is being notified */
    bool is_waiting;
};

/* The addresses of a name, in order of preference. */
struct dns_addresses {
    size_t count;
    struct sockaddr_storage list[DNS_ADDRESSES_MAX];
};

/* Called on a pool thread; may block. Returns OK, ERR_NOTFOUND, ERR_NOMEM or ERR_IO; *cause is a
 * constant text for a person. */
typedef int dns_lookup(const char *name, struct dns_addresses *out, const char **cause);

struct dns_config {
    unsigned ttl_ms;          /* 0: 30 s */
    unsigned negative_ttl_ms; /* 0: 2 s */
    size_t cache_max;         /* names, 0: 4096 */
    size_t queries_max;       /* waiting, 0: 10000 */
    unsigned slow_ms;         /* a lookup that takes longer counts as slow; 0: 1000 */
    dns_lookup *lookup;       /* NULL: dns_lookup_system */
};

/* Calls getaddrinfo; IPv6 and IPv4 alternate, beginning with the family that RFC 6724 prefers. */
int dns_lookup_system(const char *name, struct dns_addresses *out, const char **cause);

/* config may be NULL. Returns NULL if out of memory. */
struct dns_resolver *dns_resolver_new(struct loop *loop,
                                      const struct dns_config *config) MUST_CHECK;
/* Waiting queries end with ERR_CLOSED; lookups on threads are abandoned safely (loop_free waits
 * for them). */
void dns_resolver_free(struct dns_resolver *resolver);
/* Holds op until the query is done. Cached answers and literals complete through the run queue
 * as well. */
void dns_resolve(struct dns_resolver *resolver, struct dns_query *query, struct op *op);
/* For tests: forgets cached names that are not being resolved now. */
void dns_cache_clear(struct dns_resolver *resolver);
/* Ends the query with ERR_CLOSED and releases the hold; does nothing if the query is not under
 * way. */
void dns_cancel(struct dns_query *query);

#endif
