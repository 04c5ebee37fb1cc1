/*
 * call_stats: an account's calls over a period, which the address contains, as charts with their
 * numbers: of all apps for the overview, or of one app.
 */
#ifndef WEB_CALL_STATS_H
#define WEB_CALL_STATS_H

#include "store/tally_cache.h"
#include "web/request.h"

struct call_stats {
    struct tally_reading reading;
    struct tally_sum *list;  /* the result, in the op's arena */
    struct tally_sum before; /* calls of the previous period, which is equally long */
    size_t count, period;
};

/* Starts the query, which holds the request's op. integration_id: the only app; SLICE_NONE: all. It
 * has to live as long as the request. */
void call_stats_begin(struct web_request *request, struct call_stats *stats, slice integration_id);
/* Call once the op is awake. Returns true if another query holds the op; call again after it. */
bool call_stats_continues(struct call_stats *stats) MUST_CHECK;
int call_stats_result(struct call_stats *stats) MUST_CHECK;
/* Writes a member "stats", as call_stats.html declares it. path: the page's, "/". The numbers of an
 * app have a table, too. */
void call_stats_write(struct web_request *request, struct json_writer *w,
                      const struct call_stats *stats, slice path);

/* Returns the name of the period, such as "24 h". */
slice call_stats_period(const struct call_stats *stats);
/* Returns the name of the period on the page of executions, such as "24h". */
slice call_stats_period_key(const struct call_stats *stats);
/* Returns the share of failed calls among those that were tried, such as "0.6 %", or "-" if none
 * were tried. */
slice call_stats_failed_share(struct web_request *request, const struct tally_sum *sum);
/* Writes a member with the percentile of the duration, for people. */
void call_stats_write_ms(struct web_request *request, struct json_writer *w, const char *key,
                         const struct tally_sum *sum, unsigned percent);

/* Adds the calls of a sum, by outcome and duration, to another one. */
void call_stats_add(struct tally_sum *to, const struct tally_sum *sum);
/* Writes a member "lines", as call_lines.html declares it: over the steps of a chart (at most
 * CHART_COLUMNS_MAX), the share of failed calls and the durations, with those of all steps.
 * failed_url: a page with the failed calls; before: the share in the previous period, in words.
 * SLICE_NONE: there is none. */
void call_stats_write_lines(struct web_request *request, struct json_writer *w,
                            const struct tally_sum *steps, size_t count, slice failed_url,
                            slice before);

#endif
