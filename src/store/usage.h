/*
 * usage: how many runs each key of an account and each of its users made, by day. Rows of users are
 * the account's: erasing the user deletes them.
 */
#ifndef STORE_USAGE_H
#define STORE_USAGE_H

#include "store/tally.h"

enum {
    USAGE_DAYS_MAX = 92,     /* of a query */
    USAGE_KEPT_DAYS = 400,   /* then rows are removed */
    USAGE_SCAN_USERS = 1000, /* users that a page reads at most */
};
#define USAGE_DAY_US INT64_C(86400000000)

/* Returns the midnight (UTC) before a time. */
static inline int64_t usage_day_of(int64_t wall_us)
{
    return wall_us - wall_us % USAGE_DAY_US;
}

struct usage_counts {
    int64_t reads, writes; /* runs that were not blocked, with those that failed */
    int64_t failed, blocked;
    int64_t flow_calls; /* those of all runs that flows made */
    /* Runs that were not blocked, by duration (tally_bucket_of). Rows of single users, which may be
     * very many, have none, nor has what the version before wrote. */
    int64_t buckets[TALLY_BUCKETS];
};

struct usage_row {
    struct uuid account_id;
    int64_t day;
    struct uuid key_id, user_id;
    struct usage_counts counts; /* its buckets are not read: the text is written */
    slice buckets;              /* tally_buckets_write */
};
/* In place of a user, all users of the account together: by key, and by day with the key nil. Reads
 * by day or key add these rows to the account's own, so they read no rows of users. */
extern const struct uuid usage_users_by_key, usage_users_by_day;

/* Adds the counts to a row. Nothing is stored if the account or the user no longer exists, or
 * if the user is being erased. Not replayed. */
void store_usage_add(STORE_ARGS, const struct usage_row *row);

/* Sums the rows of an account in [from, to), which are midnights, by day, key or user, in the order
 * of their days, ids or external ids. Days without a run, keys and users likewise, are left out. */
struct usage_sum {
    int64_t day;
    struct uuid key_id; /* nil: no key is known */
    slice key_name;     /* SLICE_NONE: there is no such key */
    slice external_id;  /* SLICE_NONE: the account itself, which comes last */
    bool is_scan_end;   /* the last user that was read; it may be without a run. More follow */
    bool is_empty;
    struct usage_counts counts;
};
struct usage_range {
    struct uuid account_id;
    struct uuid key_id; /* by day: only this key; nil: all */
    int64_t from, to;
    size_t count_max;
};
void store_usage_by_day(STORE_ARGS, const struct usage_range *range);
/* From the key `first` on. */
void store_usage_by_key(STORE_ARGS, const struct usage_range *range, struct uuid first);
/* After the user `after`. Reads USAGE_SCAN_USERS users at most. */
void store_usage_by_user(STORE_ARGS, const struct usage_range *range, slice after);
STORE_LIST_RESULT(store_usage_result, usage_sum)

/* Removes rows older than USAGE_KEPT_DAYS, some at a time. */
void store_usage_sweep(STORE_ARGS);

#endif
