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
    TALLY_ROWS_MAX = 1000, /* that are read as they are */
    TALLY_STEPS_MAX = 30,  /* of a range */
    TALLY_LAST_MAX = 180,  /* bytes of a tally_row's last */
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
    slice last;    /* the newest failure (tally_last_write); SLICE_NONE: there is none */
};

/* Which bucket a call of that duration counts in. */
size_t tally_bucket_of(int64_t ms);
/* The duration that `percent` of the calls in these buckets stay below, in milliseconds, estimated
 * within its bucket; -1: there are no calls. */
int64_t tally_percentile(const int64_t buckets[TALLY_BUCKETS], unsigned percent);

/* When something failed and what was said of it, as rows keep it: of two the greater one is newer.
 * On one line, without what a message may have that is no text, cut where the room ends. */
slice tally_last_write(char room[TALLY_LAST_MAX], int64_t at, slice message);
/* What was said, of what tally_last_write made, and when; "" and 0 of SLICE_NONE. */
slice tally_last_read(slice last, int64_t *at);

/* Adds to a row, or inserts it. Not replayable: of ERR_CLOSED nothing is known, and what is sent
 * again may count twice. store_done_result. */
void store_tally_add(struct pg_pool *pool, struct pg_query *query, struct op *op,
                     const struct tally_row *row);

/* What a chart of the last hour, day, week or 30 days asks for: since when, in which steps, of
 * which the last is not over. Those before it are of as long a time, and begin at before_at or
 * within before_s from there, as longer rows do; 0: none are kept. false: `hours` is none of 1, 24,
 * 168 and 720. */
struct tally_range {
    int64_t since, step_s;
    size_t steps;
    int64_t before_at, before_s;
};
bool tally_range_of(uint64_t hours, int64_t now, struct tally_range *range);

/* What is read of rows: one of them, or what some have in common. */
struct tally_part {
    int64_t at;                                  /* of a slot or step; 0: several, as steps say */
    slice integration_id, action_id, error_code; /* SLICE_NONE where `at` alone is common */
    enum tally_outcome outcome;
    int64_t calls, ms_sum;
    slice buckets; /* as of a tally_row */
    slice last;    /* the greatest */
    /* not of single rows */
    bool is_open; /* from open_at on */
    int64_t rows; /* how many */
    slice steps;  /* calls of the range's steps, "0:12 3:7"; a step may be there twice */
};
/* An account's rows from from_at on by time; more than TALLY_ROWS_MAX: not all of them. */
void store_tally_rows(struct pg_pool *pool, struct pg_query *query, struct op *op,
                      struct uuid account_id, int64_t from_at);
STORE_LIST_RESULT(store_tally_rows_result, tally_part)
/* The same rows added up, those from open_at on by themselves: by step and outcome, then, without
 * those before the range, by action, outcome and error, most calls first; at most twice
 * TALLY_SUMS_MAX. */
void store_tally_read(struct pg_pool *pool, struct pg_query *query, struct op *op,
                      struct uuid account_id, const struct tally_range *range, int64_t from_at,
                      int64_t open_at);
STORE_LIST_RESULT(store_tally_read_result, tally_part)

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
