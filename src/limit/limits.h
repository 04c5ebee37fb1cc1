/*
 * limits: the rate of one connection's calls, and how many run concurrently (src/api/README.md
 * "Executions"). The limits come from the manifest's `limits` and from the provider's replies: a
 * 429 with a time to wait, and the remaining quota in headers.
 *
 * A call that is too early waits in the connection's queue (first in, first out) if its turn can
 * come before its deadline. Otherwise it is refused at once, with the time after which to retry. A
 * connection without any limit costs one lookup in an empty map.
 *
 * Limits: buckets_max connections are remembered (of those without a call, the least recently used
 * is dropped first), and LIMITS_WAITING_MAX calls wait for one connection. Several processes share
 * a manifest's limits by leases (limit/lease.h); each learns from replies on its own.
 */
#ifndef LIMIT_LIMITS_H
#define LIMIT_LIMITS_H

#include "base/id.h"
#include "catalog/catalog.h"
#include "limit/lease.h"
#include "loop/op.h"

enum {
    LIMITS_WAITING_MAX = 1000,
    /* then one call is sent to check whether the limit still applies */
    LIMITS_CLOSED_MS_MAX = 3600 * 1000,
    LIMITS_KEY_MAX = 16 + 8 + 1 + CATALOG_TOOL_NAME_MAX,
};

struct limits;

struct limits_config {
    struct loop *loop;
    size_t buckets_max;    /* at least the number of slots taken at the same time */
    struct leases *leases; /* NULL if this process is the only one. Must outlive the limits */
    bool is_off;           /* no limits apply */
};

/* Calls with the same key are counted together. */
struct limits_key {
    struct uuid account_id;
    int64_t connection_id; /* 0: the app needs no connection */
    const struct catalog_action *action;
};

enum limits_verdict {
    LIMITS_FREE,    /* go ahead; the slot is taken */
    LIMITS_QUEUED,  /* the op is held; afterwards limits_slot.verdict is one of the others */
    LIMITS_REFUSED, /* see retry_after_ms */
};

/* A call's slot in its connection's limits, or its position in the queue for one. Zero it before
 * its first use, so that limits_leave is always harmless. */
struct limits_slot {
    /* out */
    enum limits_verdict verdict;
    uint64_t retry_after_ms;
    /* private */
    struct limits_bucket *bucket; /* NULL: the call is not limited, or has not entered */
    struct op *op;                /* while queued */
    struct list link;
    uint64_t entered_ns, due_ns;
};

/* Returns NULL if out of memory. */
struct limits *limits_new(const struct limits_config *config) MUST_CHECK;
/* No slot may be taken (asserted). */
void limits_free(struct limits *limits);

/* Takes a slot, or queues the op for one. A wait never ends before this returns, and not after
 * until_ns (loop clock). */
enum limits_verdict limits_enter(struct limits *limits, struct limits_slot *slot,
                                 const struct limits_key *key, uint64_t until_ns,
                                 struct op *op) MUST_CHECK;
/* Counts another call that the same execution makes in its slot. Returns the milliseconds until its
 * turn; the caller has to wait this time itself. */
uint64_t limits_repeat(struct limits_slot *slot);
/* Returns the slot, and the rate token if no call was sent. If queued, leaves the queue and
 * releases the op. May be called any number of times. */
void limits_leave(struct limits_slot *slot, bool is_used);

/* What a reply says about later calls; -1 if a value is not given. */
struct limits_feedback {
    bool is_too_fast;       /* the call was refused because of its rate */
    int64_t retry_after_ms; /* with is_too_fast */
    int64_t remaining;      /* remaining calls */
    int64_t reset_ms;       /* time from now until the quota is reset */
};
/* Applies the feedback to all later calls. slot is the slot that the call had. */
void limits_learn(struct limits *limits, struct limits_slot *slot, const struct limits_key *key,
                  const struct limits_feedback *feedback);

/* Returns the milliseconds until calls may be sent again according to previous replies; 0 if now.
 * Ignores the manifest's rate. */
uint64_t limits_closed_ms(const struct limits *limits, const struct limits_key *key);

#endif
