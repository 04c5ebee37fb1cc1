/*
 * The overview's numbers: calls over a period as a chart, what fails by action and code, and the
 * apps, all of one statement over tallies. It costs 2.5 microseconds of the database's CPU a row,
 * and an account whose many apps are used all day has 30,000 rows a day: what was added up of many
 * rows is kept, for as long as processes take to write what they have counted.
 */
#include "web/overview_stats.h"

#include "base/clock.h"
#include "base/mem.h"
#include "web/chart.h"
#include "web/flow_decision.h"

enum {
    LINES_MAX = 8,
    WIDTH_MAX = 100,
    PERIOD_DEFAULT = 1,
    KEPT_MAX = 64,
    KEPT_ROWS_MIN = 500, /* what is of fewer is read each time */
    TEXT_BYTES_MAX = 64 * 1024,
};
static const uint64_t kept_ns = 10 * 1000000000ULL;

static const struct {
    uint64_t hours;
    const char *text, *name, *period; /* period: as the page of executions names it */
} periods[] = {{1, "1", "1 h", "1h"},
               {24, "24", "24 h", "24h"},
               {168, "168", "7 days", "7d"},
               {720, "720", "30 days", "30d"}};

/* ---- what is kept ---- */

struct stats_kept {
    struct {
        struct uuid account_id;
        size_t period;
        uint64_t until_ns;
        char *text; /* NULL: empty */
        size_t len;
    } items[KEPT_MAX];
};

struct stats_kept *stats_kept_new(void)
{
    return mem_zalloc(sizeof(struct stats_kept));
}

void stats_kept_free(struct stats_kept *kept)
{
    for (size_t i = 0; kept && i < KEPT_MAX; i++)
        mem_free(kept->items[i].text);
    mem_free(kept);
}

/* The place of an account's period, else the one that is over first. */
static size_t find_kept(const struct stats_kept *kept, struct uuid account_id, size_t period)
{
    size_t oldest = 0;
    for (size_t i = 0; i < KEPT_MAX; i++) {
        if (uuid_eq(kept->items[i].account_id, account_id) && kept->items[i].period == period)
            return i;
        if (kept->items[i].until_ns < kept->items[oldest].until_ns)
            oldest = i;
    }
    return oldest;
}

static slice take_kept(struct web_request *request, size_t period)
{
    const struct stats_kept *kept = request->web->stats;
    struct uuid account_id = request->session.account_id;
    size_t i = find_kept(kept, account_id, period);
    if (!kept->items[i].text || kept->items[i].period != period ||
        !uuid_eq(kept->items[i].account_id, account_id) ||
        kept->items[i].until_ns <= clock_mono_ns())
        return SLICE_NONE;
    return arena_dup(&request->op.arena, slice_of(kept->items[i].text, kept->items[i].len));
}

/* Without memory nothing is kept. */
static void keep(struct web_request *request, size_t period, slice text)
{
    struct stats_kept *kept = request->web->stats;
    size_t i = find_kept(kept, request->session.account_id, period);
    char *copy = mem_alloc(text.len);
    if (!copy)
        return;
    memcpy(copy, text.ptr, text.len);
    mem_free(kept->items[i].text);
    kept->items[i].account_id = request->session.account_id;
    kept->items[i].period = period;
    kept->items[i].until_ns = clock_mono_ns() + kept_ns;
    kept->items[i].text = copy;
    kept->items[i].len = text.len;
}

void overview_stats_begin(struct web_request *request, struct overview_stats *stats)
{
    slice hours = web_query(request, "hours");
    stats->period = PERIOD_DEFAULT; /* also for what is none of them */
    for (size_t i = 0; i < ARRAY_LEN(periods); i++)
        if (slice_eq_cstr(hours, periods[i].text))
            stats->period = i;
    stats->kept = take_kept(request, stats->period);
    if (stats->kept.ptr)
        return;
    bool is_range = tally_range_of(periods[stats->period].hours, clock_wall_us(), &stats->range);
    ASSERT(is_range);
    store_tally_read(request->web->config.pool, &stats->query, &request->op,
                     request->session.account_id, stats->range.since, stats->range.step_s);
}

int overview_stats_result(struct overview_stats *stats)
{
    if (stats->kept.ptr)
        return OK;
    return store_tally_read_result(&stats->query, &stats->list, &stats->count);
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
    int64_t step_us = stats->range.step_s * 1000000;
    size_t count = (size_t)(periods[stats->period].hours * 3600 / (uint64_t)stats->range.step_s);
    ASSERT(count <= CHART_COLUMNS_MAX);
    for (size_t i = 0; i < count; i++)
        columns[i].at = stats->range.since + (int64_t)i * step_us;
    for (size_t i = 0; i < stats->count && stats->list[i].kind == TALLY_BY_TIME; i++) {
        const struct tally_sum *sum = &stats->list[i];
        int64_t at = (sum->at - stats->range.since) / step_us;
        /* Rows of a node whose clock is ahead belong to the last column. */
        size_t column = at < 0 ? 0 : at < (int64_t)count ? (size_t)at : count - 1;
        add_up(&steps[column], sum);
        add_up(&all, sum);
    }
    for (size_t i = 0; i < count; i++)
        columns[i] = (struct chart_column){columns[i].at, steps[i].succeeded, steps[i].failed,
                                           steps[i].blocked};
    chart_write(w, "chart", columns, count, stats->range.step_s);
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

static void write_stats(struct web_request *request, struct json_writer *w,
                        const struct overview_stats *stats)
{
    json_open(w, '{');
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

void overview_stats_write(struct web_request *request, struct json_writer *w,
                          const struct overview_stats *stats)
{
    int64_t rows = 0;
    if (stats->kept.ptr) {
        json_member_raw(w, "stats", stats->kept);
        return;
    }
    json_key(w, "stats");
    size_t from = w->out->len;
    write_stats(request, w, stats);
    for (size_t i = 0; i < stats->count; i++)
        rows += stats->list[i].kind == TALLY_BY_TIME ? stats->list[i].rows : 0;
    if (rows >= KEPT_ROWS_MIN && buf_is_ok(w->out) && w->out->len - from <= TEXT_BYTES_MAX)
        keep(request, stats->period, slice_from(buf_slice(w->out), from));
}
