/*
 * Name look-ups: getaddrinfo on the thread pool, with a cache (TTL fixed, negative answers too),
 * single flight per name and a cap on look-ups in flight, so that one slow resolver cannot starve
 * others (PROVING.md trap 4): at most half of the pool's threads look up names, a name that is slow
 * occupies one of them only, and a waiting query ends at its own deadline while the look-up goes on
 * for the cache.
 */
#ifndef LOOP_DNS_H
#define LOOP_DNS_H

#include <sys/socket.h>

#include "base/slice.h"
#include "loop/op.h"

enum { DNS_ADDRESSES_MAX = 8, DNS_NAME_MAX = 253 };

struct dns_resolver;

struct dns_query {
    /* in */
    slice host; /* a name, an IPv4 or an IPv6 literal without brackets; borrowed until the end */
    uint64_t deadline_ns;
    /* out */
    int status; /* OK, ERR_NOTFOUND, ERR_TIMEOUT, ERR_BUSY, ERR_IO */
    size_t address_count;
    struct sockaddr_storage addresses[DNS_ADDRESSES_MAX]; /* port 0; v6 and v4 interleaved */
    struct err err;
    /* private */
    struct op *op;
    struct list link;
    struct timer timer;
    void *flight;
};

struct dns_config {
    unsigned ttl_ms;          /* 0: 30 s */
    unsigned negative_ttl_ms; /* 0: 2 s */
    size_t cache_max;         /* names, 0: 4096 */
    size_t queries_max;       /* waiting, 0: 10000 */
};

struct dns_resolver *dns_resolver_new(struct loop *loop,
                                      const struct dns_config *config) MUST_CHECK;
/* Queries still waiting end with ERR_CLOSED; look-ups on threads are abandoned safely. */
void dns_resolver_free(struct dns_resolver *resolver);
/* Holds op until done. Cached answers and literals complete through the run queue as well. */
void dns_resolve(struct dns_resolver *resolver, struct dns_query *query, struct op *op);
/* Ends the query with ERR_CLOSED and releases the hold; harmless when it is not under way. */
void dns_cancel(struct dns_query *query);

#endif
