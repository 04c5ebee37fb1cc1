/*
 * limits: the rate of one connection's calls and how many run at a time (src/api/README.md
 * "Executions"). The limits come from the manifest's `limits` and from the provider's replies
 * since: a 429 with a time, the remaining quota of its headers.
 *
 * A call that is too early waits in the connection's queue, first in, first out, if its turn can
 * come within the time that it may wait; else it is refused at once, with the time after which to
 * try again. A connection without any limit costs one check of an empty map.
 *
 * Limits: buckets_max connections are remembered (of those without a call the least recently used
 * is dropped first), LIMITS_WAITING_MAX wait for one connection. Several processes share a
 * manifest's limits by leases (limit/lease.h); each learns from replies itself.
 */
#ifndef LIMIT_LIMITS_H
#define LIMIT_LIMITS_H

#include "base/id.h"
#include "catalog/catalog.h"
#include "limit/lease.h"
#include "loop/op.h"

enum {
    LIMITS_WAITING_MAX = 1000,
    LIMITS_CLOSED_MS_MAX = 3600 * 1000, /* then one call is sent to see whether it still applies */
    LIMITS_KEY_MAX = 16 + 8 + 1 + CATALOG_TOOL_NAME_MAX,
};

struct limits;

struct limits_config {
    struct loop *loop;
    size_t buckets_max;    /* at least the number of slots taken at the same time */
    struct leases *leases; /* NULL: this process is the only one. Outlives it */
    bool is_off;           /* no limits apply */
};

/* Calls with the same key are counted together. */
struct limits_key {
    struct uuid account_id;
    int64_t connection_id; /* 0: the app needs none */
    const struct catalog_action *action;
};

enum limits_verdict {
    LIMITS_FREE,    /* go ahead; the slot is taken */
    LIMITS_QUEUED,  /* the op is held; afterwards limits_slot.verdict is one of the others */
    LIMITS_REFUSED, /* see retry_after_ms */
};

/* A call's slot in its connection's limits, or its position in the queue for one. Zero it before
 * its first use: then limits_leave is harmless from the start. */
struct limits_slot {
    /* out */
    enum limits_verdict verdict;
    uint64_t retry_after_ms;
    /* private */
    struct limits_bucket *bucket; /* NULL: not limited, or not entered */
    struct op *op;                /* while queued */
    struct list link;
    uint64_t entered_ns, due_ns;
};

/* NULL: out of memory. */
struct limits *limits_new(const struct limits_config *config) MUST_CHECK;
/* No slot may be taken (asserted). */
void limits_free(struct limits *limits);

/* Never completes a wait before it returns. until_ns (loop clock) bounds the wait. */
enum limits_verdict limits_enter(struct limits *limits, struct limits_slot *slot,
                                 const struct limits_key *key, uint64_t until_ns,
                                 struct op *op) MUST_CHECK;
/* The same execution makes another call in its slot, which counts. Returns the milliseconds until
 * its turn, for a caller that has not waited otherwise. */
uint64_t limits_repeat(struct limits_slot *slot);
/* Gives the slot back, and the token if no call was sent. While queued: leaves the queue and
 * releases the op. Any number of times. */
void limits_leave(struct limits_slot *slot, bool is_used);

/* A reply's information on later calls; -1: none. */
struct limits_feedback {
    bool is_too_fast;       /* refused because of its rate */
    int64_t retry_after_ms; /* with is_too_fast */
    int64_t remaining;      /* remaining calls */
    int64_t reset_ms;       /* until the quota is reset, from now */
};
/* For all later calls. slot is the slot that the call had. */
void limits_learn(struct limits *limits, struct limits_slot *slot, const struct limits_key *key,
                  const struct limits_feedback *feedback);

/* Milliseconds until calls may be sent again, by the replies so far; 0: at once. The rate
 * rate_per_s does not count. */
uint64_t limits_closed_ms(const struct limits *limits, const struct limits_key *key);

#endif
