/*
 * The overview's numbers over a period, which the address contains; see overview_stats.c.
 */
#ifndef WEB_OVERVIEW_STATS_H
#define WEB_OVERVIEW_STATS_H

#include "store/tally_cache.h"
#include "web/request.h"

struct overview_stats {
    struct tally_reading reading;
    struct tally_sum *list;  /* the result, in the op's arena */
    struct tally_sum before; /* calls of the previous period, which is equally long */
    size_t count, period;
};

/* Starts the query, which holds the request's op. */
void overview_stats_begin(struct web_request *request, struct overview_stats *stats);
/* Call once the op is awake. Returns true if another query holds the op; call again after it. */
bool overview_stats_continues(struct overview_stats *stats) MUST_CHECK;
int overview_stats_result(struct overview_stats *stats) MUST_CHECK;
/* Writes members "stats" and "errors", as overview_stats.html and overview_errors.html declare
 * them. */
void overview_stats_write(struct web_request *request, struct json_writer *w,
                          const struct overview_stats *stats);

/* Returns the name of the period, such as "24 h". */
slice overview_period(const struct overview_stats *stats);
/* Returns the number of an app's calls that were blocked because its connection has to be
 * reconnected. */
int64_t overview_refused(const struct overview_stats *stats, slice integration_id);

/* Writes a member "apps" (in overview_apps.c), as overview_apps.html declares it: the apps with
 * most calls, then connected ones. */
struct connection;
void overview_apps_write(struct web_request *request, struct json_writer *w,
                         const struct overview_stats *stats, const struct connection *connections,
                         size_t count);

/* Returns the share of failed calls among those that were tried, such as "0.6 %", or "-" if none
 * were tried. */
slice overview_failed_share(struct web_request *request, const struct tally_sum *sum);
/* Writes a member with the percentile of the duration, for people. */
void overview_write_ms(struct web_request *request, struct json_writer *w, const char *key,
                       const struct tally_sum *sum, unsigned percent);
/* Iterates over the first OVERVIEW_LINES_MAX sums of a kind: returns the next sum from *at on;
 * NULL after the last. */
enum { OVERVIEW_LINES_MAX = 8 };
const struct tally_sum *overview_next_sum(const struct overview_stats *stats, enum tally_kind kind,
                                          size_t *at, size_t *lines);

#endif
