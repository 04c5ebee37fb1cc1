/*
 * Caches sums of tallies for charts, which request them again and again: the sums of past slots are
 * cached, so that the next reading only reads the rows of the last minutes. Sums of one app are not
 * cached: their pages do not request them again and again.
 *
 * At most TALLY_CACHE_MAX ranges of accounts are cached. Each is read completely again after
 * TALLY_CACHE_S, which finds rows that were written late, for example by a process that could not
 * reach the database.
 */
#ifndef STORE_TALLY_CACHE_H
#define STORE_TALLY_CACHE_H

#include "store/tally_sums.h"

enum {
    TALLY_CACHE_MAX = 32,
    TALLY_CACHE_ROWS_MIN = 500, /* sums of fewer rows are read each time */
    TALLY_CACHE_S = 1800,       /* rows of this age are not folded yet (tally.c) */
    TALLY_CACHE_MARGIN_S = 60,  /* by this time all processes have written their counts */
};

struct tally_cache;
/* Returns NULL if out of memory. */
struct tally_cache *tally_cache_new(void) MUST_CHECK;
/* No reading may be under way. Accepts NULL. */
void tally_cache_free(struct tally_cache *cache);

/* One reading. `range`, `account_id` and `integration_id` belong to the caller, all else is
 * private. */
struct tally_reading {
    struct uuid account_id;
    slice integration_id; /* only this app; SLICE_NONE: all */
    struct tally_range range;
    struct tally_cache *cache;
    struct pg_pool *pool;
    struct pg_query query;
    struct tally_sum *closed; /* sums from the cache; in the op's arena, with their texts */
    size_t closed_count;
    int64_t from_at, open_at, now;
    bool is_added_up; /* the database summed, because there are more rows than the limit */
    uint64_t read_ns; /* when the whole range was read */
};

/* Starts the query, which holds the op. now: the wall clock. */
void tally_cache_read(struct tally_cache *cache, struct pg_pool *pool,
                      struct tally_reading *reading, struct op *op, int64_t now);
/* To be called once the op is awake. Returns true if there are many rows, so that another query
 * holds the op; call it again when that query is done. */
bool tally_cache_continue(struct tally_reading *reading) MUST_CHECK;
/* Gets all sums of the range, sorted, at most TALLY_SUMS_MAX, in the op's arena. *before gets the
 * calls of the equally long previous range, up to the same point in it as now; this is an estimate
 * if rows have longer slots. Returns OK, ERR_NOMEM or the query's status. */
int tally_cache_result(struct tally_reading *reading, struct tally_sum **list, size_t *count,
                       struct tally_sum *before) MUST_CHECK;

#endif
