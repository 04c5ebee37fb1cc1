/*
 * Calls over a period as charts, compared with the previous period, from one statement over
 * tallies.
 */
#include "web/call_stats.h"

#include "base/clock.h"
#include "web/chart.h"
#include "web/view.h"

enum { PERIOD_DEFAULT = 1, TIMES_MAX = 10 };

static const struct {
    uint64_t hours;
    const char *text, *name, *period; /* period: the name on the page of executions */
    const char *before;               /* NULL: not stored */
} periods[] = {{1, "1", "1 h", "1h", "the hour before"},
               {24, "24", "24 h", "24h", "the day before"},
               {168, "168", "7 days", "7d", "the week before"},
               {720, "720", "30 days", "30d", NULL}};

void call_stats_begin(struct web_request *request, struct call_stats *stats, slice integration_id)
{
    slice hours = web_query(request, "hours");
    stats->period = PERIOD_DEFAULT; /* also for an unknown value */
    for (size_t i = 0; i < ARRAY_LEN(periods); i++)
        if (slice_eq_cstr(hours, periods[i].text))
            stats->period = i;
    struct tally_reading *reading = &stats->reading;
    int64_t now = clock_shared_us();
    bool is_range = tally_range_of(periods[stats->period].hours, now, &reading->range);
    ASSERT(is_range);
    reading->account_id = request->session.account_id;
    reading->integration_id = integration_id;
    tally_cache_read(exec_service_sums(request->web->config.exec), request->web->config.pool,
                     reading, &request->serve.op, now);
}

bool call_stats_continues(struct call_stats *stats)
{
    return tally_cache_continue(&stats->reading);
}

int call_stats_result(struct call_stats *stats)
{
    return tally_cache_result(&stats->reading, &stats->list, &stats->count, &stats->before);
}

slice call_stats_period(const struct call_stats *stats)
{
    return slice_cstr(periods[stats->period].name);
}

slice call_stats_period_key(const struct call_stats *stats)
{
    return slice_cstr(periods[stats->period].period);
}

/* ---- writing ---- */

static int64_t tried(const struct tally_sum *sum)
{
    return sum->succeeded + sum->failed;
}

slice call_stats_failed_share(struct web_request *request, const struct tally_sum *sum)
{
    if (tried(sum) == 0)
        return SLICE("-");
    return arena_printf(&request->serve.op.arena, "%.1f %%",
                        (double)sum->failed * 100 / (double)tried(sum));
}

void call_stats_write_ms(struct web_request *request, struct json_writer *w, const char *key,
                         const struct tally_sum *sum, unsigned percent)
{
    int64_t ms = tally_percentile(sum->buckets, percent);
    if (ms < 0)
        json_member_str(w, key, SLICE("-"));
    else
        view_took(request, w, key, ms * 1000);
}

/* Returns, for example, "4 % more than the day before". */
static slice change_text(struct arena *arena, double calls, double before, const char *when)
{
    double percent = before > 0 ? (calls - before) * 100 / before : 0;
    if (before <= 0)
        return arena_printf(arena, "none %s", when);
    if (calls >= TIMES_MAX * before)
        return arena_printf(arena, "%.0f times as many as %s", calls / before, when);
    if (percent > -0.5 && percent < 0.5)
        return arena_printf(arena, "as many as %s", when);
    return arena_printf(arena, "%.0f %% %s than %s", percent > 0 ? percent : -percent,
                        percent > 0 ? "more" : "fewer", when);
}

/* Compares with the previous period, if its number is known. */
static void write_change(struct web_request *request, struct json_writer *w,
                         const struct call_stats *stats, const struct tally_sum *all)
{
    const struct tally_sum *before = &stats->before;
    const char *when = periods[stats->period].before;
    slice change = SLICE_NONE;
    if (when)
        change = change_text(&request->serve.op.arena, (double)(tried(all) + all->blocked),
                             (double)(tried(before) + before->blocked), when);
    json_member_str(w, "change", change);
}

/* Returns the share of failed calls in the previous period; SLICE_NONE if it is not known. */
static slice failed_before(struct web_request *request, const struct call_stats *stats)
{
    const char *when = periods[stats->period].before;
    if (!when || tried(&stats->before) == 0)
        return SLICE_NONE;
    return arena_printf(&request->serve.op.arena, "%.*s %s",
                        SLICE_ARG(call_stats_failed_share(request, &stats->before)), when);
}

void call_stats_add(struct tally_sum *to, const struct tally_sum *sum)
{
    to->succeeded += sum->succeeded;
    to->failed += sum->failed;
    to->blocked += sum->blocked;
    for (size_t i = 0; i < TALLY_BUCKETS; i++)
        to->buckets[i] += sum->buckets[i];
}

/* Shares are in tenths of a percent. */
void call_stats_write_lines(struct web_request *request, struct json_writer *w,
                            const struct tally_sum *steps, size_t count, slice failed_url,
                            slice before)
{
    struct chart_line share = {.kind = "bad"}, times[] = {{.kind = "ok"}, {.kind = ""}};
    struct tally_sum all = {0};
    for (size_t i = 0; i < count; i++) {
        call_stats_add(&all, &steps[i]);
        int64_t calls = tried(&steps[i]);
        share.values[i] = calls > 0 ? (int64_t)((double)steps[i].failed * 1000 / (double)calls)
                                    : CHART_GAP;
        times[0].values[i] = tally_percentile(steps[i].buckets, 50);
        times[1].values[i] = tally_percentile(steps[i].buckets, 95);
    }
    json_member_open(w, "lines", '{');
    chart_write_lines(w, "shares", &(const struct chart_scale){"%", 10}, &share, 1, count);
    chart_write_lines(w, "times", &(const struct chart_scale){"ms", 1}, times, ARRAY_LEN(times),
                      count);
    json_member_str(w, "failed", call_stats_failed_share(request, &all));
    json_member_str(w, "failed_url", failed_url);
    json_member_str(w, "failed_before", before);
    call_stats_write_ms(request, w, "p50", &all, 50);
    call_stats_write_ms(request, w, "p95", &all, 95);
    json_close(w, '}');
}

/* Writes the numbers of each step that has calls, the newest first. The overview has no room for
 * them: there the list is empty. */
static void write_rows(struct web_request *request, struct json_writer *w,
                       const struct call_stats *stats, const struct tally_sum *steps, size_t count)
{
    json_member_open(w, "rows", '[');
    for (size_t i = count; stats->reading.integration_id.ptr && i-- > 0;) {
        const struct tally_sum *sum = &steps[i];
        if (tried(sum) + sum->blocked == 0)
            continue;
        json_open(w, '{');
        view_time(w, "at",
                  stats->reading.range.since + (int64_t)i * stats->reading.range.step_s * 1000000);
        chart_member_number(w, "ok", sum->succeeded);
        chart_member_number(w, "bad", sum->failed);
        chart_member_number(w, "warn", sum->blocked);
        json_member_str(w, "failed", call_stats_failed_share(request, sum));
        call_stats_write_ms(request, w, "p95", sum, 95);
        json_close(w, '}');
    }
    json_close(w, ']');
}

/* Writes the charts, and the numbers for the whole period. */
static void write_calls(struct web_request *request, struct json_writer *w,
                        const struct call_stats *stats, slice failed_url)
{
    struct chart_column columns[CHART_COLUMNS_MAX] = {0};
    struct tally_sum all = {0}, steps[CHART_COLUMNS_MAX] = {0};
    int64_t step_us = stats->reading.range.step_s * 1000000;
    size_t count = stats->reading.range.steps;
    ASSERT(count <= CHART_COLUMNS_MAX);
    for (size_t i = 0; i < count; i++)
        columns[i].at = stats->reading.range.since + (int64_t)i * step_us;
    for (size_t i = 0; i < stats->count && stats->list[i].kind == TALLY_BY_TIME; i++) {
        const struct tally_sum *sum = &stats->list[i];
        int64_t at = (sum->at - stats->reading.range.since) / step_us;
        /* Rows of a node with a fast clock belong to the last column. */
        size_t column = at < 0 ? 0 : at < (int64_t)count ? (size_t)at : count - 1;
        call_stats_add(&steps[column], sum);
        call_stats_add(&all, sum);
    }
    for (size_t i = 0; i < count; i++)
        columns[i] = (struct chart_column){columns[i].at, steps[i].succeeded, steps[i].failed,
                                           steps[i].blocked};
    chart_write(w, "chart", columns, count, stats->reading.range.step_s);
    call_stats_write_lines(request, w, steps, count, failed_url, failed_before(request, stats));
    write_rows(request, w, stats, steps, count);
    write_change(request, w, stats, &all);
}

void call_stats_write(struct web_request *request, struct json_writer *w,
                      const struct call_stats *stats, slice path)
{
    struct arena *arena = &request->serve.op.arena;
    slice app_id = stats->reading.integration_id;
    json_member_open(w, "stats", '{');
    json_member_str(w, "hours", slice_cstr(periods[stats->period].text));
    json_member_open(w, "periods", '[');
    for (size_t i = 0; i < ARRAY_LEN(periods); i++) {
        json_open(w, '{');
        json_member_str(w, "url",
                        arena_printf(arena, "%.*s?hours=%s", SLICE_ARG(path), periods[i].text));
        json_member_str(w, "name", slice_cstr(periods[i].name));
        json_member_bool(w, "is_current", i == stats->period);
        json_close(w, '}');
    }
    json_close(w, ']');
    write_calls(request, w, stats,
                arena_printf(arena, "/executions?status=failed&period=%s%s%.*s",
                             periods[stats->period].period, app_id.ptr ? "&app=" : "",
                             SLICE_ARG(app_id)));
    json_close(w, '}');
}
