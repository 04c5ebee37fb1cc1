/*
 * tally: how many calls an account made, of which action, how they ended and how long they took;
 * rows of five minutes, which become hours when they are two hours old, six hours after thirty and
 * days after eight days, kept for thirty. For charts: what a process has counted since it last
 * wrote is lost with it.
 */
#ifndef STORE_TALLY_H
#define STORE_TALLY_H

#include "store/store.h"

enum {
    TALLY_SLOT_S = 300,
    TALLY_BUCKETS = 16,
    TALLY_OLD_MAX = 500,   /* of a store_tally_due */
    TALLY_SUMS_MAX = 1000, /* of an account's sums */
};

enum tally_outcome { TALLY_SUCCEEDED, TALLY_FAILED, TALLY_BLOCKED };

struct tally_row {
    struct uuid account_id;
    int64_t slot;                    /* its begin */
    slice integration_id, action_id; /* empty: the catalog knows none of that name */
    enum tally_outcome outcome;
    slice error_code; /* empty: succeeded */
    int64_t calls, ms_sum;
    slice buckets; /* an array of integers, as PostgreSQL writes it; "{}" where it was blocked */
};

/* Which bucket a call of that duration counts in. */
size_t tally_bucket_of(int64_t ms);
/* The duration that `percent` of the calls in these buckets stay below, in milliseconds, estimated
 * within its bucket; -1: there are no calls. */
int64_t tally_percentile(const int64_t buckets[TALLY_BUCKETS], unsigned percent);

/* Adds to a row, or inserts it. Not replayable: of ERR_CLOSED nothing is known, and what is sent
 * again may count twice. store_done_result. */
void store_tally_add(struct pg_pool *pool, struct pg_query *query, struct op *op,
                     const struct tally_row *row);

/* Sums over rows since a time, in this order; those of one kind by calls, most first, TALLY_BY_TIME
 * by time. */
enum tally_kind {
    TALLY_BY_TIME,   /* `at` */
    TALLY_BY_APP,    /* integration_id */
    TALLY_BY_ERROR,  /* integration_id, action_id, error_code: those that did not succeed */
    TALLY_BY_ACTION, /* integration_id, action_id */
};
struct tally_sum {
    int64_t kind; /* enum tally_kind */
    bool is_open; /* of the rows from open_at on; those before have sums of their own */
    int64_t at;   /* the begin of a step */
    slice integration_id, action_id, error_code;
    int64_t succeeded, failed, blocked, ms_sum;
    int64_t rows;                   /* that were added up */
    int64_t buckets[TALLY_BUCKETS]; /* of those that were tried */
};
/* What a chart of the last hour, day, week or 30 days asks for: since when, in which steps. false:
 * `hours` is none of 1, 24, 168 and 720. */
struct tally_range {
    int64_t since, step_s;
};
bool tally_range_of(uint64_t hours, int64_t now, struct tally_range *range);
/* The sums of an account's rows from from_at on (not before the range's begin; both of a
 * TALLY_SLOT_S), at most twice TALLY_SUMS_MAX. A step without calls has no row. */
void store_tally_read(struct pg_pool *pool, struct pg_query *query, struct op *op,
                      struct uuid account_id, const struct tally_range *range, int64_t from_at,
                      int64_t open_at);
STORE_LIST_RESULT(store_tally_read_result, tally_sum)

/* A scan for rows of a shorter time than their age asks for, and for those that are over thirty
 * days old: over all accounts, at most TALLY_OLD_MAX times of an account, the oldest first. */
struct tally_old {
    struct uuid account_id;
    int64_t slot;
};
void store_tally_due(struct pg_pool *pool, struct pg_query *query, struct op *op);
STORE_LIST_RESULT(store_tally_due_result, tally_old)
/* Adds an account's rows at that time to those of the longer time that it is in, and removes what
 * is over thirty days old. Replayable. store_done_result. */
void store_tally_fold(struct pg_pool *pool, struct pg_query *query, struct op *op,
                      const struct tally_old *old);

#endif
