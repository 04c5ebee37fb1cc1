/*
 * rate_lease: leases to each process the part of an account's limit that it may use for
 * RATE_LEASE_MS (limit/lease.h has the rules). A limit is a rate with a burst, or a number of
 * concurrent calls.
 *
 * The row of a limit adds up at any time: the sum of the holders' parts is at most `total`, and the
 * sum of their shares of the burst, with what their parts have added since, is at most its level.
 */
#ifndef STORE_RATE_LEASE_H
#define STORE_RATE_LEASE_H

#include "store/store.h"

enum { RATE_LEASE_MS = 2000, RATE_LEASE_NAME_MAX = 120, RATE_LEASE_HOLDERS_MAX = 64 };

/* All amounts of a rate are in millionths of a call. */
struct rate_lease_ask {
    struct uuid account_id;
    slice name; /* 1 to RATE_LEASE_NAME_MAX bytes; borrowed */
    struct uuid holder;
    int64_t total;   /* calls per second, or concurrent calls */
    int64_t burst;   /* 0 if total counts concurrent calls */
    int64_t used;    /* since the last request */
    int64_t need;    /* the part of total that could be used */
    int64_t floor;   /* the part of total that is in use, so it cannot be returned */
    int64_t backlog; /* the part of the burst that could be used at once */
    int64_t kept;    /* the part of the burst that was granted and not returned */
};

struct rate_lease {
    int64_t part; /* granted part of total; the RATE_LEASE_MS begin before the request is sent */
    int64_t held; /* granted part of the burst, including kept */
};

/* Renews or takes a holder's lease. Not replayable: after ERR_CLOSED the result is unknown, and
 * a repeated report counts twice. */
void store_rate_lease_take(STORE_ARGS, const struct rate_lease_ask *ask);
int store_rate_lease_take_result(const struct pg_query *query, struct rate_lease *lease) MUST_CHECK;

/* Removes rows that mean the same as no row, at most 1000 per call. Read the result with
 * store_done_result. */
void store_rate_lease_sweep(STORE_ARGS);

#endif
