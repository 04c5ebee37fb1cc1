/*
 * How many requests a second an account may make (src/api/README.md "HTTP").
 * Off unless configured. Each process counts for itself. ACCOUNTS_MAX are remembered; the one whose
 * last request is oldest is dropped first. Its next request finds a full bucket, so that an account
 * may get more than its rate and never less.
 */
#ifndef API_ACCOUNT_RATE_H
#define API_ACCOUNT_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"

enum { ACCOUNT_RATE_ACCOUNTS_MAX = 50000 };

struct account_rate;

/* burst 0: two seconds' worth. rate_per_s > 0. NULL: out of memory. */
struct account_rate *account_rate_new(uint64_t rate_per_s, uint64_t burst) MUST_CHECK;
void account_rate_free(struct account_rate *rate);
/* One request more. 0: it may be served; else the milliseconds after which another one will be. */
uint64_t account_rate_take(struct account_rate *rate, struct uuid account_id, uint64_t now_ns);

#endif
