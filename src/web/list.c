/*
 * Common parts of list pages: arguments, the choices of a filter, "Newer" and "Older".
 */
#include "base/clock.h"
#include "web/pages.h"

enum { TRAIL_BYTES_MAX = 1000 /* the earlier pages, for "Newer" */ };

/* In the order of VIEW_PERIOD's words. The server does not know the reader's zone, so days are
 * those of UTC. */
static const struct {
    const char *value, *label;
    int64_t hours; /* until now; 0: a day */
    int days_ago;
} periods[] = {{"1h", "the last hour", 1, 0},        {"24h", "the last 24 hours", 24, 0},
               {"7d", "the last 7 days", 7 * 24, 0}, {"30d", "the last 30 days", 30 * 24, 0},
               {"today", "today (UTC)", 0, 0},       {"yesterday", "yesterday (UTC)", 0, 1}};

bool web_list_read(struct web_request *request, struct serve_list *list,
                   const struct serve_filter *filters, size_t limit)
{
    for (size_t i = 0; filters[i].name; i++)
        list->values[i] = web_query(request, filters[i].name);
    int wrong = serve_list_read(list, filters);
    list->limit = limit;
    if (wrong >= 0 && filters[wrong].kind == SERVE_CURSOR)
        (void)web_reply_missing(request, "There is no page at this address.");
    else if (wrong >= 0)
        (void)web_reply_problem(request, 400,
                                filters[wrong].kind == SERVE_SEARCH ? "This cannot be found"
                                                                    : "Unknown filter",
                                "%.*s.",
                                SLICE_ARG(serve_filter_refusal(&filters[wrong], list->values[wrong],
                                                               &request->serve.op.arena)));
    return wrong < 0;
}

void view_choice(struct json_writer *w, slice id, slice name)
{
    json_open(w, '{');
    json_member_str(w, "id", id);
    json_member_str(w, "name", name);
    json_close(w, '}');
}

void view_periods(struct json_writer *w)
{
    json_member_open(w, "periods", '[');
    for (size_t i = 0; i < ARRAY_LEN(periods); i++)
        view_choice(w, slice_cstr(periods[i].value), slice_cstr(periods[i].label));
    json_close(w, ']');
}

void view_period_narrow(struct serve_list *list, int at)
{
    const int64_t hour_ms = 3600 * 1000, day_ms = 24 * hour_ms;
    int choice = list->choices[at];
    int64_t ms = clock_shared_us() / 1000;
    if (choice < 0)
        return;
    int64_t begin_ms = ms - periods[choice].hours * hour_ms;
    if (periods[choice].hours == 0) {
        begin_ms = ms - ms % day_ms - periods[choice].days_ago * day_ms;
        struct uuid end = uuid_v7_floor(begin_ms + day_ms);
        if (uuid_is_nil(list->until) || uuid_cmp(end, list->until) < 0)
            list->until = end;
    }
    struct uuid begin = uuid_v7_floor(begin_ms);
    if (uuid_cmp(begin, list->page.since) > 0)
        list->page.since = begin;
}

/* "Newer" leads to the page on which "Older" was pressed: the address contains the start of each
 * earlier page, separated by dots; "0" is the first page. */
void view_pager(struct web_request *request, struct json_writer *w, struct uuid next)
{
    slice trail = web_query(request, "newer"), before = web_query(request, "before");
    slice first = before.ptr ? before : SLICE("0"), last = trail, rest = SLICE_NONE;
    ptrdiff_t at;
    while (trail.len > TRAIL_BYTES_MAX && (at = slice_find_char(trail, '.')) >= 0)
        last = trail = slice_from(trail, (size_t)at + 1);
    while ((at = slice_find_char(last, '.')) >= 0) {
        last = slice_from(last, (size_t)at + 1);
        rest = slice_first(trail, trail.len - last.len - 1);
    }
    json_member_open(w, "newer", '{');
    json_member_bool(w, "is_there", last.len > 0);
    json_member_str(w, "before", slice_eq_cstr(last, "0") ? SLICE("") : last);
    json_member_str(w, "trail", rest);
    json_close(w, '}');
    json_member_open(w, "older", '{');
    json_member_bool(w, "is_there", !uuid_is_nil(next));
    view_id(w, "before", next);
    json_member_str(w, "trail",
                    arena_printf(&request->serve.op.arena, "%.*s%s%.*s", SLICE_ARG(trail),
                                 trail.len > 0 ? "." : "", SLICE_ARG(first)));
    json_close(w, '}');
}
