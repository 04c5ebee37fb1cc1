/*
 * The number of requests per second that an account may make (src/api/README.md "HTTP"). Off unless
 * configured. Several processes share an account's rate by leases (limit/lease.h). ACCOUNTS_MAX
 * accounts are remembered; the account whose last request is oldest is dropped first. In a single
 * process its next request finds a full bucket, so an account may get more than its rate but never
 * less.
 */
#ifndef LIMIT_ACCOUNT_RATE_H
#define LIMIT_ACCOUNT_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "limit/lease.h"
#include "loop/op.h"

enum { ACCOUNT_RATE_ACCOUNTS_MAX = 50000 };

struct account_rate;

/* In the memory of an op that waits. */
struct account_rate_wait {
    struct op *op;
    struct list link;
    size_t count;
};

/* rate_per_s > 0. burst 0: the requests of two seconds. leases must outlive the result; NULL: this
 * process is the only one. Returns NULL if out of memory. */
struct account_rate *account_rate_new(uint64_t rate_per_s, uint64_t burst,
                                      struct leases *leases) MUST_CHECK;
/* Releases waiting requests. */
void account_rate_free(struct account_rate *rate);
/* Returns true if the database is queried for a sufficient part of the rate; op is then held until
 * it has answered, and the caller calls again. If it returns false, account_rate_take decides. */
bool account_rate_awaits(struct account_rate *rate, struct uuid account_id, size_t count,
                         uint64_t now_ns, struct account_rate_wait *wait, struct op *op) MUST_CHECK;
/* Counts a request. Returns 0 if it may be served; otherwise the milliseconds until the next
 * request may be served. */
uint64_t account_rate_take(struct account_rate *rate, struct uuid account_id, uint64_t now_ns);

#endif
