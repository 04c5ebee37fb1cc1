/*
 * The overview's numbers over a period, which the address names; see overview_stats.c.
 */
#ifndef WEB_OVERVIEW_STATS_H
#define WEB_OVERVIEW_STATS_H

#include "store/tally_kept.h"
#include "web/request.h"

struct overview_stats {
    struct tally_reading reading;
    struct tally_sum *list; /* of the result, in the op's arena */
    size_t count, period;
};

/* Starts the query, which holds the request's op. */
void overview_stats_begin(struct web_request *request, struct overview_stats *stats);
int overview_stats_result(struct overview_stats *stats) MUST_CHECK;
/* A member "stats", as overview_stats.html declares it. */
void overview_stats_write(struct web_request *request, struct json_writer *w,
                          const struct overview_stats *stats);

#endif
