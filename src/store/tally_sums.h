/*
 * Sums of the results of store_tally_rows and store_tally_read, as charts and lists show them: by
 * time, app, error and action.
 */
#ifndef STORE_TALLY_SUMS_H
#define STORE_TALLY_SUMS_H

#include "store/tally.h"

/* Sums are sorted in this order. Sums of one kind are sorted by calls, most first, but
 * TALLY_BY_TIME by time. */
enum tally_kind {
    TALLY_BY_TIME,   /* `at` */
    TALLY_BY_APP,    /* integration_id */
    TALLY_BY_ERROR,  /* integration_id, action_id, error_code: calls that did not succeed */
    TALLY_BY_ACTION, /* integration_id, action_id */
};
struct tally_sum {
    enum tally_kind kind;
    int64_t at; /* the start of a step */
    slice integration_id, action_id, error_code;
    int64_t succeeded, failed, blocked, ms_sum;
    int64_t rows;                    /* rows that were added */
    int64_t buckets[TALLY_BUCKETS];  /* calls that were sent, by duration */
    uint32_t steps[TALLY_STEPS_MAX]; /* TALLY_BY_APP: calls, by step of the range */
    slice last;                      /* TALLY_BY_ERROR: tally_last_read */
};

/* Returns the sums of these groups, by key, with the texts of the groups. The list is in the arena,
 * preceded by space for `room` more. Returns NULL if out of memory. Rows of a node with a fast
 * clock count in the last step. */
struct tally_sum *tally_sums_of(struct arena *arena, const struct tally_range *range,
                                const struct tally_group *const *groups, size_t count, size_t room,
                                size_t *sum_count) MUST_CHECK;
/* Merges sums with the same key, in the order of keys. Returns the number left. */
size_t tally_sums_join(struct tally_sum *list, size_t count);
/* Sorts in the order of enum tally_kind. */
void tally_sums_sort(struct tally_sum *list, size_t count);
/* Returns the number of sums of the previous range, which come first in a sorted list. *before gets
 * their total up to the same point as `now` in the range; a row that is partly outside counts by
 * its fraction. */
size_t tally_sums_before(const struct tally_sum *list, size_t count,
                         const struct tally_range *range, int64_t now, struct tally_sum *before);

#endif
