/*
 * GET /api/usage (admin scope): how many runs the account made between two dates, by day, by key or
 * by user (store/usage.h).
 */
#include <stdio.h>

#include "api/listing.h"
#include "base/clock.h"
#include "store/usage.h"

enum { PAGE_MAX = 100, DAYS_DEFAULT = 30, DATE_LEN = 10 };
enum { BY, FROM, TO, KEY, CURSOR };
enum { BY_USER, BY_KEY, BY_DAY };

#define A_DATE .wanted = "a date (UTC) such as 2026-01-31", .is_quoted = true
static const struct serve_filter filters[SERVE_FILTERS_MAX] = {
    [BY] = {.name = "by", .words = "user key day"},
    [FROM] = {.name = "from", A_DATE},
    [TO] = {.name = "to", A_DATE},
    [KEY] = {.name = "key_id", .kind = SERVE_ID, .wanted = "the id of a key", .is_quoted = true},
    [CURSOR] = {.name = "cursor", .wanted = "the next_cursor of another page", .is_quoted = true}};

struct usage_page {
    struct serve_list list;
    struct usage_range range;
    int by;
};

/* ---- the reply ---- */

/* A member with the date of a day; the time is midnight UTC. */
static void put_date(struct json_writer *w, const char *name, int64_t day)
{
    char text[TIME_TEXT_LEN + 1];
    time_format(day, text);
    json_member_str(w, name, slice_of(text, DATE_LEN));
}

/* One item of the list: what is summed over (the account's own runs have the user null), and the
 * counts. */
static void put_usage_sum(struct json_writer *w, int by, const struct usage_sum *sum)
{
    json_open(w, '{');
    if (by == BY_DAY)
        put_date(w, "day", sum->day);
    if (by == BY_USER)
        json_member_str(w, "user", sum->external_id);
    if (by == BY_KEY) {
        listing_put_id(w, "key_id", sum->key_id);
        json_member_str(w, "key_name", sum->key_name);
    }
    json_member_i64(w, "reads", sum->counts.reads);
    json_member_i64(w, "writes", sum->counts.writes);
    json_member_i64(w, "failed", sum->counts.failed);
    json_member_i64(w, "blocked", sum->counts.blocked);
    json_member_i64(w, "flow_calls", sum->counts.flow_calls);
    if (by != BY_USER)
        listing_put_times(w, sum->counts.buckets);
    json_close(w, '}');
}

/* The cursor names the first day or key of the next page, or the last user of this one. */
static void put_cursor(struct json_writer *w, int by, const struct usage_sum *next,
                       const struct usage_sum *last)
{
    static const char name[] = "next_cursor";
    if (by == BY_USER)
        json_member_str(w, name, last ? last->external_id : SLICE_NONE);
    else if (!next)
        json_member_str(w, name, SLICE_NONE);
    else if (by == BY_DAY)
        put_date(w, name, next->day);
    else
        json_member_uuid(w, name, next->key_id);
}

/* A sum without runs is left out of the items, so a page may have fewer than `limit` and still a
 * next one. Of days and keys, the first one after the page is the cursor. */
static enum op_result finish_usage(struct api_request *request)
{
    const struct usage_page *page = request->state;
    const struct usage_sum *next = NULL, *last = NULL;
    struct usage_sum *rows;
    size_t count, items = 0;
    int status = store_usage_result(&request->query, &rows, &count);
    if (status != OK)
        return api_reply_database(request, status);
    struct json_writer *w = api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX);
    put_date(w, "from", page->range.from);
    put_date(w, "to", page->range.to - USAGE_DAY_US);
    json_member_open(w, "items", '[');
    for (size_t i = 0; i < count && !last; i++) {
        if (items == page->list.limit) {
            next = &rows[i];
            last = &rows[i - 1];
            break;
        }
        if (!rows[i].is_empty)
            put_usage_sum(w, page->by, &rows[i]);
        items += !rows[i].is_empty;
        if (rows[i].is_scan_end) /* the account's own row comes after all users */
            last = &rows[i];
    }
    json_close(w, ']');
    put_cursor(w, page->by, next, last);
    return api_reply_close(request, 200);
}

/* ---- the request ---- */

static bool read_date(slice text, int64_t *day)
{
    char time[DATE_LEN + sizeof("T00:00:00Z")];
    if (text.len != DATE_LEN)
        return false;
    (void)snprintf(time, sizeof(time), "%.*sT00:00:00Z", SLICE_ARG(text));
    return time_parse(slice_cstr(time), day);
}

/* Answers with 400 and returns false if a date is not one. */
static bool read_usage_date(struct api_request *request, const struct usage_page *page, int at,
                            int64_t *day)
{
    slice value = page->list.values[at];
    if (!value.ptr || read_date(value, day))
        return true;
    (void)listing_refuse(request, &filters[at], value);
    return false;
}

/* Reads from and to, both included, into a range of whole days whose end is excluded. Answers with
 * 400 and returns false if they are wrong. */
static bool read_usage_range(struct api_request *request, struct usage_page *page)
{
    struct usage_range *range = &page->range;
    int64_t last = usage_day_of(clock_shared_us());
    if (!read_usage_date(request, page, TO, &last))
        return false;
    range->from = last - (DAYS_DEFAULT - 1) * USAGE_DAY_US;
    range->to = last + USAGE_DAY_US;
    if (!read_usage_date(request, page, FROM, &range->from))
        return false;
    if (range->from < range->to && range->to - range->from <= USAGE_DAYS_MAX * USAGE_DAY_US)
        return true;
    (void)api_reply_error(request, 400,
                          "from must be a date up to `to`, which is today by default, and at most "
                          "%d days before it",
                          USAGE_DAYS_MAX - 1);
    return false;
}

static enum op_result ask_usage(struct api_request *request, struct usage_page *page)
{
    struct pg_pool *pool = request->api->config.pool;
    struct op *op = &request->serve.op;
    slice cursor = page->list.values[CURSOR];
    struct usage_range range = page->range;
    struct uuid first = {{0}};
    bool is_right = true;
    if (cursor.ptr && page->by == BY_DAY)
        is_right = read_date(cursor, &range.from) && range.from >= page->range.from;
    else if (cursor.ptr && page->by == BY_KEY)
        is_right = uuid_parse(cursor, &first);
    else if (cursor.ptr)
        is_right = vault_user_is_id(cursor);
    if (!is_right)
        return listing_refuse(request, &filters[CURSOR], cursor);
    if (page->by == BY_DAY)
        store_usage_by_day(pool, &request->query, op, &range);
    else if (page->by == BY_KEY)
        store_usage_by_key(pool, &request->query, op, &range, first);
    else
        store_usage_by_user(pool, &request->query, op, &range, cursor);
    return api_wait(request, finish_usage);
}

static enum op_result begin_usage(struct api_request *request)
{
    struct usage_page *page = request->state;
    if (!listing_read(request, &page->list, filters, PAGE_MAX) || !read_usage_range(request, page))
        return OP_DONE;
    page->by = page->list.choices[BY] < 0 ? BY_DAY : page->list.choices[BY];
    page->range.account_id = request->serve.grant.account_id;
    if (page->list.values[KEY].ptr && page->by != BY_DAY)
        return api_reply_error(request, 400, "key_id goes with by=day alone");
    (void)!uuid_parse(page->list.values[KEY], &page->range.key_id);
    if (page->list.values[KEY].ptr && uuid_is_nil(page->range.key_id)) /* which means all keys */
        return listing_refuse(request, &filters[KEY], page->list.values[KEY]);
    /* one row more than requested shows whether there is another page */
    page->range.count_max = page->list.limit + 1;
    return ask_usage(request, page);
}

const struct api_endpoint api_usage_get = {
    .scope = SCOPE_ADMIN,
    .query = &(const struct api_names){.own = {"by", "from", "to", "key_id", "limit", "cursor"}},
    .begin = begin_usage,
    .is_of_account = true,
    .state_bytes = sizeof(struct usage_page),
};
