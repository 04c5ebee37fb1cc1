/*
 * The overview's numbers over a period, which the address names; see overview_stats.c.
 */
#ifndef WEB_OVERVIEW_STATS_H
#define WEB_OVERVIEW_STATS_H

#include "store/tally.h"
#include "web/request.h"

/* Of accounts whose numbers are dear to add up: as they were displayed within the last seconds. */
struct stats_kept;
/* NULL: out of memory. */
struct stats_kept *stats_kept_new(void) MUST_CHECK;
/* NULL is fine. */
void stats_kept_free(struct stats_kept *kept);

struct overview_stats {
    struct pg_query query; /* without a kept text */
    slice kept;            /* the member's text, in the op's arena; SLICE_NONE: none */
    struct tally_range range;
    struct tally_sum *list; /* of the result, in the op's arena */
    size_t count, period;
};

/* Starts the query, which holds the request's op, unless a text was kept. */
void overview_stats_begin(struct web_request *request, struct overview_stats *stats);
int overview_stats_result(struct overview_stats *stats) MUST_CHECK;
/* A member "stats", as overview_stats.html declares it. */
void overview_stats_write(struct web_request *request, struct json_writer *w,
                          const struct overview_stats *stats);

#endif
