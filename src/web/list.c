/*
 * Common parts of list pages: arguments, the choices of a filter, "Newer" and "Older".
 */
#include "base/clock.h"
#include "web/pages.h"

enum { TRAIL_BYTES_MAX = 1000 /* the earlier pages, for "Newer" */ };

/* In the order of VIEW_PERIOD's words. */
static const struct {
    const char *value, *label;
    int64_t hours;
} periods[] = {{"1h", "the last hour", 1},
               {"24h", "the last 24 hours", 24},
               {"7d", "the last 7 days", 7 * 24},
               {"30d", "the last 30 days", 30 * 24}};

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

struct uuid view_period_since(int choice)
{
    int64_t ms = clock_shared_us() / 1000;
    return uuid_v7_floor(choice < 0 ? 0 : ms - periods[choice].hours * 3600 * 1000);
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
