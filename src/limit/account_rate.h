/*
 * account_rate: limits the requests per second of each account (src/api/README.md "HTTP"). There is
 * no limit unless it is configured. Several processes share an account's rate by leases
 * (limit/lease.h). ACCOUNTS_MAX accounts are remembered; the account whose last request is oldest
 * is dropped first. In a single process, the next request of a dropped account finds a full bucket,
 * so the account may get more than its rate but never less.
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

/* A waiting request, in the memory of its op. */
struct account_rate_wait {
    struct op *op;
    struct list link;
    size_t count;
};

/* rate_per_s must not be 0. A burst of 0 means the requests of two seconds. leases must outlive the
 * result; NULL if this process is the only one. Returns NULL if out of memory. */
struct account_rate *account_rate_new(uint64_t rate_per_s, uint64_t burst,
                                      struct leases *leases) MUST_CHECK;
/* Releases waiting requests. */
void account_rate_free(struct account_rate *rate);
/* Returns true if the database is asked for a sufficient part of the rate; op is then held until
 * the answer, and the caller calls this function again. If it returns false, account_rate_take
 * decides. */
bool account_rate_awaits(struct account_rate *rate, struct uuid account_id, size_t count,
                         uint64_t now_ns, struct account_rate_wait *wait, struct op *op) MUST_CHECK;
/* Counts a request. Returns 0 if it may be served; otherwise the milliseconds until the next
 * request may be served. */
uint64_t account_rate_take(struct account_rate *rate, struct uuid account_id, uint64_t now_ns);

#endif
