/*
 * GET /api/stats: calls over time, by app, action and error, of the last hour, day, week or 30 days
 * (store/tally.h), of all apps or of one.
 */
#include "api/listing.h"
#include "base/clock.h"
#include "serve/stored.h"
#include "store/tally_cache.h"

enum { STATS_HOURS_DEFAULT = 24, REPLY_BYTES_MAX = 1024 * 1024 };

static void put_sum(struct json_writer *w, const struct tally_sum *sum)
{
    json_open(w, '{');
    if (sum->kind == TALLY_BY_TIME)
        json_member_time(w, "at", sum->at);
    else
        json_member_str(w, "integration_id", sum->integration_id);
    if (sum->kind == TALLY_BY_ERROR || sum->kind == TALLY_BY_ACTION)
        json_member_str(w, "action_id", sum->action_id);
    if (sum->kind == TALLY_BY_ERROR)
        json_member_str(w, "error_code", sum->error_code);
    json_member_i64(w, "succeeded", sum->succeeded);
    json_member_i64(w, "failed", sum->failed);
    json_member_i64(w, "blocked", sum->blocked);
    listing_put_times(w, sum->buckets);
    json_close(w, '}');
}

struct stats {
    uint64_t hours;
    struct tally_reading reading;
};

/* Writes the members of the reply; the sums are sorted by kind. */
static void put_stats(struct api_request *request, struct json_writer *w,
                      const struct tally_sum *list, size_t count)
{
    const struct stats *stats = request->state;
    const struct catalog *catalog = *request->api->config.catalog;
    static const char *const names[] = {
        [TALLY_BY_TIME] = "by_time",
        [TALLY_BY_APP] = "by_app",
        [TALLY_BY_ERROR] = "by_error",
        [TALLY_BY_ACTION] = "by_action",
    };
    size_t at = 0;
    json_member_i64(w, "hours", (int64_t)stats->hours);
    json_member_time(w, "since", stats->reading.range.since);
    json_member_i64(w, "step_s", stats->reading.range.step_s);
    for (size_t kind = 0; kind < ARRAY_LEN(names); kind++) {
        json_member_open(w, names[kind], '[');
        bool has_action = kind == TALLY_BY_ERROR || kind == TALLY_BY_ACTION;
        for (; at < count && list[at].kind == kind; at++)
            if (!has_action ||
                serve_gives(&request->serve, catalog, list[at].integration_id, list[at].action_id))
                put_sum(w, &list[at]);
        json_close(w, ']');
    }
}

static enum op_result reply_stats(struct api_request *request)
{
    struct tally_sum *list, before;
    size_t count;
    struct stats *stats = request->state;
    if (tally_cache_continue(&stats->reading))
        return api_wait(request, reply_stats);
    int status = tally_cache_result(&stats->reading, &list, &count, &before);
    if (status != OK)
        return api_reply_database(request, status);
    put_stats(request, api_reply_open(request, REPLY_BYTES_MAX), list, count);
    return api_reply_close(request, 200);
}

static enum op_result begin_stats(struct api_request *request)
{
    struct stats *stats = request->state;
    int64_t now = clock_shared_us();
    if (!api_query_positive(request, "hours", STATS_HOURS_DEFAULT, UINT32_MAX, &stats->hours))
        return OP_DONE;
    if (!tally_range_of(stats->hours, now, &stats->reading.range))
        return api_reply_error(request, 400, "hours must be 1, 24, 168 or 720");
    slice app_id = api_query_text(request, "integration_id");
    if (!serve_is_word(app_id))
        return api_reply_error(request, 400, "integration_id must be " SERVE_WORD_WANTED);
    stats->reading.account_id = request->serve.grant.account_id;
    stats->reading.integration_id = app_id;
    tally_cache_read(exec_service_sums(request->api->config.exec), request->api->config.pool,
                     &stats->reading, &request->serve.op, now);
    return api_wait(request, reply_stats);
}

const struct api_endpoint api_stats_get = {
    .scope = SCOPE_READ,
    .is_of_account = true,
    .query = &(const struct api_names){.own = {"hours", "integration_id"}},
    .begin = begin_stats,
    .state_bytes = sizeof(struct stats),
};
