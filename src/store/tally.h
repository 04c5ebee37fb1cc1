/*
 * tally: an account's calls by action, outcome and duration. Rows of five minutes become hours
 * after two hours, six hours after thirty hours and days after eight days, and are kept for thirty
 * days. For charts only: the counts since a process last wrote are lost when it crashes.
 */
#ifndef STORE_TALLY_H
#define STORE_TALLY_H

#include "store/store.h"

enum {
    TALLY_SLOT_S = 300,
    TALLY_BUCKETS = 16,
    TALLY_OLD_MAX = 500,   /* rows that store_tally_due returns */
    TALLY_SUMS_MAX = 1000, /* per account */
    TALLY_ROWS_MAX = 1000, /* read without aggregation */
    TALLY_STEPS_MAX = 30,  /* in a range */
    TALLY_LAST_MAX = 180,  /* bytes of a tally_row's last */
    TALLY_BUCKETS_TEXT_MAX = TALLY_BUCKETS * (SLICE_U64_MAX + 1) + 2,
};

enum tally_outcome { TALLY_SUCCEEDED, TALLY_FAILED, TALLY_BLOCKED };

struct tally_row {
    struct uuid account_id;
    int64_t slot;                    /* its start */
    slice integration_id, action_id; /* empty if not in the catalog */
    enum tally_outcome outcome;
    slice error_code; /* empty: succeeded */
    int64_t calls, ms_sum;
    slice buckets; /* tally_buckets_write; "{}" if blocked */
    slice last;    /* the newest failure (tally_last_write); SLICE_NONE if there was none */
};

/* Returns the bucket of a call that took this long. */
size_t tally_bucket_of(int64_t ms);
/* Writes the counts of all buckets as an array of PostgreSQL; "{}" if all are 0. */
slice tally_buckets_write(char room[TALLY_BUCKETS_TEXT_MAX], const int64_t buckets[TALLY_BUCKETS]);
/* Returns the duration in milliseconds below which `percent` of the calls in these buckets stay,
 * estimated within its bucket, or -1 if there were no calls. */
int64_t tally_percentile(const int64_t buckets[TALLY_BUCKETS], unsigned percent);

/* Writes the time and text of a failure as rows store them: of two such texts the greater is the
 * newer. The text is on one line, without control characters, truncated to the buffer. */
slice tally_last_write(char room[TALLY_LAST_MAX], int64_t at, slice message);
/* Returns the text of a result of tally_last_write, and sets *at to its time; "" and 0 for
 * SLICE_NONE. */
slice tally_last_read(slice last, int64_t *at);

/* Adds to a row, or inserts it. Not replayable: after ERR_CLOSED the result is unknown, and a
 * resend may count twice. Read the result with store_done_result. */
void store_tally_add(STORE_ARGS, const struct tally_row *row);

/* The range of a chart of the last hour, day, week or 30 days: its start and steps; the last step
 * has not ended. The previous range has the same length and begins at before_at or, as older rows
 * have longer slots, up to before_s later; it is 0 if it is not stored. tally_range_of returns
 * false if `hours` is not 1, 24, 168 or 720. */
struct tally_range {
    int64_t since, step_s;
    size_t steps;
    int64_t before_at, before_s;
};
/* Returns false if `hours` is not 1, 24, 168 or 720. */
bool tally_range_of(uint64_t hours, int64_t now, struct tally_range *range);

/* A single row, or the sum of several rows; the members that are set are common to these rows. */
struct tally_group {
    int64_t at; /* start of the slot or step; 0 for several, see steps */
    slice integration_id, action_id, error_code; /* SLICE_NONE if only `at` is common */
    enum tally_outcome outcome;
    int64_t calls, ms_sum;
    slice buckets; /* as in struct tally_row */
    slice last;    /* the greatest of the rows */
    /* the members below are not set for single rows */
    bool is_open; /* the sum is of rows from open_at on */
    int64_t rows; /* number of rows */
    slice steps;  /* calls by the range's steps, "0:12 3:7"; a step may occur twice */
};
/* Reads an account's rows from from_at on: of one app, or of all if integration_id is
 * SLICE_NONE. If there are more than TALLY_ROWS_MAX, the list is incomplete. */
void store_tally_rows(STORE_ARGS, struct uuid account_id, slice integration_id, int64_t from_at);
STORE_LIST_RESULT(store_tally_rows_result, tally_group)
/* Sums the same rows, separately for rows before open_at and from it on: first by step and outcome,
 * then (without those before the range) by action, outcome and error, most calls first; at most
 * twice TALLY_SUMS_MAX. */
void store_tally_read(STORE_ARGS, struct uuid account_id, slice integration_id,
                      const struct tally_range *range, int64_t from_at, int64_t open_at);
STORE_LIST_RESULT(store_tally_read_result, tally_group)

/* Finds rows whose slot is shorter than their age demands, and rows over thirty days old, over
 * all accounts: at most TALLY_OLD_MAX pairs of account and time, the oldest first. */
struct tally_old {
    struct uuid account_id;
    int64_t slot;
};
void store_tally_due(STORE_ARGS);
STORE_LIST_RESULT(store_tally_due_result, tally_old)
/* Adds an account's rows of that time to the longer slot that contains it, and removes rows over
 * thirty days old. Replayable. Read the result with store_done_result. */
void store_tally_fold(STORE_ARGS, const struct tally_old *old);

#endif
