/*
 * The page of a key, over GET /api/keys/{id}: what it may do, the settings of programs that use it,
 * whether its first call has arrived, and its runs by day. Right after the key was created the page
 * also has its text (keys.c).
 */
#include "base/clock.h"
#include "store/usage.h"
#include "web/app.h"
#include "web/call_stats.h"
#include "web/chart.h"

enum { USE_DAYS = 30 };

struct key_page {
    struct pg_query usage;
    struct usage_range range;
};

/* How long a browser waits until it asks again whether the key was used. */
#define ASK_AGAIN "retry: 2000\n"

/* ---- its runs ---- */

static struct tally_sum sum_of_usage(const struct usage_counts *counts)
{
    struct tally_sum sum = {.succeeded = counts->reads + counts->writes - counts->failed,
                            .failed = counts->failed,
                            .blocked = counts->blocked};
    memcpy(sum.buckets, counts->buckets, sizeof(sum.buckets));
    return sum;
}

static void write_day(struct web_request *request, struct json_writer *w,
                      const struct usage_sum *day)
{
    const struct tally_sum sum = sum_of_usage(&day->counts);
    json_open(w, '{');
    view_time(w, "at", day->day);
    chart_member_number(w, "reads", day->counts.reads);
    chart_member_number(w, "writes", day->counts.writes);
    chart_member_number(w, "bad", sum.failed);
    chart_member_number(w, "warn", sum.blocked);
    json_member_str(w, "failed", call_stats_failed_share(request, &sum));
    call_stats_write_ms(request, w, "p95", &sum, 95);
    json_close(w, '}');
}

/* Writes a member "use", as key_use.html declares it. days: those with runs, the oldest first. */
static void write_use(struct web_request *request, struct json_writer *w,
                      const struct usage_range *range, const struct usage_sum *days, size_t count)
{
    struct chart_column columns[USE_DAYS] = {0};
    struct tally_sum steps[USE_DAYS] = {0};
    for (size_t i = 0; i < USE_DAYS; i++)
        columns[i].at = range->from + (int64_t)i * USAGE_DAY_US;
    for (size_t i = 0; i < count; i++) {
        const struct tally_sum sum = sum_of_usage(&days[i].counts);
        size_t at = (size_t)((days[i].day - range->from) / USAGE_DAY_US);
        ASSERT(at < USE_DAYS);
        columns[at] = (struct chart_column){days[i].day, sum.succeeded, sum.failed, sum.blocked};
        steps[at] = sum;
    }
    json_member_open(w, "use", '{');
    chart_write(w, "chart", columns, USE_DAYS, USAGE_DAY_US / 1000000);
    call_stats_write_lines(request, w, steps, USE_DAYS, SLICE_NONE, SLICE_NONE);
    json_member_open(w, "rows", '[');
    for (size_t i = count; i-- > 0;)
        write_day(request, w, &days[i]);
    json_close(w, ']');
    json_close(w, '}');
}

/* ---- the page ---- */

static enum op_result finish_page(struct web_request *request, unsigned status,
                                  const struct json *reply)
{
    const struct key_page *page = request->state;
    struct usage_sum *days;
    size_t count;
    if (status != 200)
        return web_key_refused(request, status, reply);
    int usage = store_usage_result(&page->usage, &days, &count);
    if (usage != OK)
        return web_reply_database(request, usage);
    struct json_writer *w = view_begin(request);
    view_key_page(request, w, reply, SLICE_NONE);
    write_use(request, w, &page->range, days, count);
    return web_reply_view(request, 200, "key");
}

enum op_result web_key(struct web_request *request)
{
    struct key_page *page = web_state_new(request, sizeof(*page));
    int64_t today = usage_day_of(clock_shared_us());
    if (!page)
        return OP_DONE;
    page->range = (struct usage_range){.account_id = request->session.account_id,
                                       .from = today - (USE_DAYS - 1) * USAGE_DAY_US,
                                       .to = today + USAGE_DAY_US,
                                       .count_max = USE_DAYS};
    if (!web_path_uuid(request, 0, &page->range.key_id))
        return OP_DONE;
    store_usage_by_day(request->web->config.pool, &page->usage, &request->serve.op, &page->range);
    return web_ask(request, &api_keys_get, NULL, finish_page);
}

/* A stream that ends at once: the browser opens it again by itself (WHATWG HTML 9.2.3). The use of
 * a key notifies no process, and few people wait for a first call at the same time. */
static enum op_result finish_events(struct web_request *request, unsigned status,
                                    const struct json *reply)
{
    static const struct http_header headers[] = {
        {SLICE_INIT("Content-Type"), SLICE_INIT("text/event-stream; charset=utf-8")},
        {SLICE_INIT("Cache-Control"), SLICE_INIT("no-store")}};
    if (status != 200)
        return web_key_refused(request, status, reply);
    bool is_settled = json_get_str(reply, SLICE("last_used_at")).ptr ||
                      !slice_eq_cstr(view_key_state(reply), "valid");
    request->serve.is_answered = true;
    http_reply(request->serve.exchange, 200, headers, ARRAY_LEN(headers),
               is_settled ? SLICE(ASK_AGAIN "data: used\n\n") : SLICE(ASK_AGAIN "\n"));
    return OP_DONE;
}

enum op_result web_key_events(struct web_request *request)
{
    return web_ask(request, &api_keys_get, NULL, finish_events);
}
