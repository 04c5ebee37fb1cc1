/*
 * The overview's lists over a period (call_stats.h): failures, and apps with their state.
 */
#ifndef WEB_OVERVIEW_STATS_H
#define WEB_OVERVIEW_STATS_H

#include "web/call_stats.h"

/* Returns the number of an app's calls that were blocked because its connection has to be
 * reconnected. */
int64_t overview_refused(const struct call_stats *stats, slice integration_id);

/* Writes a member "errors", as overview_errors.html declares it. */
void overview_errors_write(struct web_request *request, struct json_writer *w,
                           const struct call_stats *stats);

/* Writes a member "apps" (in overview_apps.c), as overview_apps.html declares it: the apps with
 * most calls, then connected ones. */
struct connection;
void overview_apps_write(struct web_request *request, struct json_writer *w,
                         const struct call_stats *stats, const struct connection *connections,
                         size_t count);

/* Iterates over the first OVERVIEW_LINES_MAX sums of a kind: returns the next sum from *at on;
 * NULL after the last. */
enum { OVERVIEW_LINES_MAX = 8 };
const struct tally_sum *overview_next_sum(const struct web_request *request,
                                          const struct call_stats *stats, enum tally_kind kind,
                                          size_t *at, size_t *lines);

#endif
