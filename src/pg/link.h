/*
 * A link is one permanent connection to the database: it resolves names, connects without blocking,
 * notifies its owner, and starts again with back-off when it is lost. One op for its whole life
 * ("pg_link").
 */
#ifndef PG_LINK_H
#define PG_LINK_H

#include "loop/dns.h"
#include "loop/loop.h"
#include "loop/op.h"
#include "pg/target.h"

struct pg_link;

/* The pause before the first attempt of connections that are not needed at the start: a server on a
 * few cores is ready sooner if not all of its backends start at once. */
enum { PG_LINK_SPARE_MS = 30 };

struct pg_link_events {
    /* Called when connected; conn is non-blocking. May call pg_link_lost. */
    void (*on_up)(struct pg_link *link);
    /* Called when the socket is readable and PQconsumeInput has succeeded. May call
     * pg_link_lost. */
    void (*on_readable)(struct pg_link *link);
    /* Called when the connection was up and is lost or closed; conn can still be read. */
    void (*on_down)(struct pg_link *link, const struct err *why);
    /* Called when an attempt to connect has failed, or the connection was lost; may be NULL. */
    void (*on_failure)(struct pg_link *link);
    /* Called last: the memory may be freed. */
    void (*on_freed)(struct pg_link *link);
};

struct pg_link {
    struct op op;
    struct loop *loop;
    const struct pg_link_events *events;
    void *owner;
    const struct pg_target *target;
    struct dns_resolver *dns;
    uint64_t connect_timeout_ms;
    uint64_t first_rest_ms; /* before the first attempt; the owner may set it after the start */
    bool is_pipeline;
    /* public to the owner */
    PGconn *conn; /* NULL unless connecting or up */
    bool is_up;
    struct err last_err; /* the last failure; code OK if there was none */
    uint64_t connects, failures_total;
    /* private */
    struct op_timer rest;
    struct timer connect_timer;
    struct poll_watch *watch;
    struct dns_query query;
    struct pg_endpoints endpoints;
    size_t host_first, host_at;                   /* the attempt begins at host_first */
    unsigned failures;                            /* in a row */
    bool is_connecting, is_setting, is_resolving; /* is_setting: sets up the session */
};

/* Starts the op; the first attempt begins in the next drain. All pointers outlive the link. */
void pg_link_start(struct pg_link *link, struct loop *loop, const struct pg_target *target,
                   struct dns_resolver *dns, uint64_t connect_timeout_ms, bool is_pipeline,
                   const struct pg_link_events *events, void *owner);
/* Ends the link permanently. Calls on_down if it was up, and on_freed at the bottom of a turn. */
void pg_link_close(struct pg_link *link);
/* Called when the owner finds the connection unusable: drops it and reconnects. */
void pg_link_lost(struct pg_link *link, enum err_code code, const char *why);
/* Call after PQsend*: flushes, and watches for writing if the socket did not accept everything. */
void pg_link_flush(struct pg_link *link);

#endif
