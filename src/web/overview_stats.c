/*
 * The overview's numbers: calls over a period as a chart, what fails by action and code, and the
 * apps, all of one statement over tallies.
 */
#include "web/overview_stats.h"

#include "base/clock.h"
#include "web/chart.h"
#include "web/flow_decision.h"

enum {
    LINES_MAX = 8,
    WIDTH_MAX = 100,
    PERIOD_DEFAULT = 1,
};

static const struct {
    uint64_t hours;
    const char *text, *name, *period; /* period: as the page of executions names it */
} periods[] = {{1, "1", "1 h", "1h"},
               {24, "24", "24 h", "24h"},
               {168, "168", "7 days", "7d"},
               {720, "720", "30 days", "30d"}};

void overview_stats_begin(struct web_request *request, struct overview_stats *stats)
{
    slice hours = web_query(request, "hours");
    stats->period = PERIOD_DEFAULT; /* also for what is none of them */
    for (size_t i = 0; i < ARRAY_LEN(periods); i++)
        if (slice_eq_cstr(hours, periods[i].text))
            stats->period = i;
    struct tally_reading *reading = &stats->reading;
    int64_t now = clock_wall_us();
    bool is_range = tally_range_of(periods[stats->period].hours, now, &reading->range);
    ASSERT(is_range);
    reading->account_id = request->session.account_id;
    tally_kept_read(exec_service_sums(request->web->config.exec), request->web->config.pool,
                    reading, &request->op, now);
}

int overview_stats_result(struct overview_stats *stats)
{
    return tally_kept_result(&stats->reading, &stats->list, &stats->count);
}

/* ---- writing ---- */

static int64_t tried(const struct tally_sum *sum)
{
    return sum->succeeded + sum->failed;
}

static void write_failed(struct web_request *request, struct json_writer *w,
                         const struct tally_sum *sum)
{
    slice text = SLICE("-");
    if (tried(sum) > 0)
        text = arena_printf(&request->op.arena, "%.1f %%",
                            (double)sum->failed * 100 / (double)tried(sum));
    json_member_str(w, "failed", text);
}

static void write_ms(struct web_request *request, struct json_writer *w, const char *key,
                     const struct tally_sum *sum, unsigned percent)
{
    int64_t ms = tally_percentile(sum->buckets, percent);
    if (ms < 0)
        json_member_str(w, key, SLICE("-"));
    else
        view_took(request, w, key, ms * 1000);
}

static void add_up(struct tally_sum *to, const struct tally_sum *sum)
{
    to->succeeded += sum->succeeded;
    to->failed += sum->failed;
    to->blocked += sum->blocked;
    for (size_t i = 0; i < TALLY_BUCKETS; i++)
        to->buckets[i] += sum->buckets[i];
}

/* The share of those that failed, in tenths of a percent, and how long they took. */
static void write_lines(struct json_writer *w, const struct tally_sum *steps, size_t count)
{
    struct chart_line share = {.kind = "bad"}, times[] = {{.kind = "ok"}, {.kind = ""}};
    for (size_t i = 0; i < count; i++) {
        int64_t calls = tried(&steps[i]);
        share.values[i] = calls > 0 ? (int64_t)((double)steps[i].failed * 1000 / (double)calls)
                                    : CHART_GAP;
        times[0].values[i] = tally_percentile(steps[i].buckets, 50);
        times[1].values[i] = tally_percentile(steps[i].buckets, 95);
    }
    chart_write_lines(w, "shares", &(const struct chart_scale){"%", 10}, &share, 1, count);
    chart_write_lines(w, "times", &(const struct chart_scale){"ms", 1}, times, ARRAY_LEN(times),
                      count);
}

/* The charts, and what holds for the period as a whole. */
static void write_calls(struct web_request *request, struct json_writer *w,
                        const struct overview_stats *stats)
{
    struct chart_column columns[CHART_COLUMNS_MAX] = {0};
    struct tally_sum all = {0}, steps[CHART_COLUMNS_MAX] = {0};
    int64_t step_us = stats->reading.range.step_s * 1000000;
    size_t count =
        (size_t)(periods[stats->period].hours * 3600 / (uint64_t)stats->reading.range.step_s);
    ASSERT(count <= CHART_COLUMNS_MAX);
    for (size_t i = 0; i < count; i++)
        columns[i].at = stats->reading.range.since + (int64_t)i * step_us;
    for (size_t i = 0; i < stats->count && stats->list[i].kind == TALLY_BY_TIME; i++) {
        const struct tally_sum *sum = &stats->list[i];
        int64_t at = (sum->at - stats->reading.range.since) / step_us;
        /* Rows of a node whose clock is ahead belong to the last column. */
        size_t column = at < 0 ? 0 : at < (int64_t)count ? (size_t)at : count - 1;
        add_up(&steps[column], sum);
        add_up(&all, sum);
    }
    for (size_t i = 0; i < count; i++)
        columns[i] = (struct chart_column){columns[i].at, steps[i].succeeded, steps[i].failed,
                                           steps[i].blocked};
    chart_write(w, "chart", columns, count, stats->reading.range.step_s);
    write_lines(w, steps, count);
    write_failed(request, w, &all);
    write_ms(request, w, "p50", &all, 50);
    write_ms(request, w, "p95", &all, 95);
}

/* Those of a kind, the first LINES_MAX: *sum; NULL behind the last. */
static const struct tally_sum *next_of(const struct overview_stats *stats, enum tally_kind kind,
                                       size_t *at, size_t *lines)
{
    while (*at < stats->count && stats->list[*at].kind != (int64_t)kind)
        (*at)++;
    return *at < stats->count && (*lines)++ < LINES_MAX ? &stats->list[(*at)++] : NULL;
}

static void write_errors(struct web_request *request, struct json_writer *w,
                         const struct overview_stats *stats)
{
    const struct tally_sum *sum;
    size_t at = 0, lines = 0;
    json_member_open(w, "errors", '[');
    while ((sum = next_of(stats, TALLY_BY_ERROR, &at, &lines)) != NULL) {
        json_open(w, '{');
        json_member_str(w, "app_id", sum->integration_id);
        json_member_str(w, "action_id", sum->action_id);
        view_names(request, w, sum->integration_id, sum->action_id);
        json_member_str(w, "code", sum->error_code);
        json_member_str(w, "state", sum->failed > 0 ? SLICE("failed") : SLICE("blocked"));
        json_member_str(w, "period", slice_cstr(periods[stats->period].period));
        chart_member_number(w, "calls", sum->failed + sum->blocked);
        json_close(w, '}');
    }
    json_close(w, ']');
}

static void write_apps(struct web_request *request, struct json_writer *w,
                       const struct overview_stats *stats)
{
    const struct catalog *catalog = *request->web->config.catalog;
    const struct tally_sum *sum;
    size_t at = 0, lines = 0;
    int64_t most = 1; /* the first app's */
    json_member_open(w, "apps", '[');
    while ((sum = next_of(stats, TALLY_BY_APP, &at, &lines)) != NULL) {
        const struct catalog_integration *app =
            catalog_find_integration(catalog, sum->integration_id, NULL);
        int64_t calls = tried(sum) + sum->blocked;
        most = calls > most ? calls : most;
        json_open(w, '{');
        json_member_str(w, "app_id", sum->integration_id);
        json_member_str(w, "app", app ? app->name : sum->integration_id);
        view_app_mark(w, sum->integration_id, app ? app->name : sum->integration_id);
        chart_member_number(w, "calls", calls);
        json_member_i64(w, "width", (int64_t)((double)calls / (double)most * (WIDTH_MAX - 1)) + 1);
        write_failed(request, w, sum);
        write_ms(request, w, "p95", sum, 95);
        json_close(w, '}');
    }
    json_close(w, ']');
}

void overview_stats_write(struct web_request *request, struct json_writer *w,
                          const struct overview_stats *stats)
{
    json_member_open(w, "stats", '{');
    json_member_str(w, "hours", slice_cstr(periods[stats->period].text));
    json_member_str(w, "period", slice_cstr(periods[stats->period].period));
    json_member_open(w, "periods", '[');
    for (size_t i = 0; i < ARRAY_LEN(periods); i++) {
        json_open(w, '{');
        json_member_str(w, "hours", slice_cstr(periods[i].text));
        json_member_str(w, "name", slice_cstr(periods[i].name));
        json_member_bool(w, "is_current", i == stats->period);
        json_close(w, '}');
    }
    json_close(w, ']');
    write_calls(request, w, stats);
    write_errors(request, w, stats);
    write_apps(request, w, stats);
    json_close(w, '}');
}
