/*
 * The list of executions, newest first: what was tried, or what was blocked, which the audit trail
 * has. The filters are in the address. The database filters by app and outcome, this file by action
 * and code; a page ends after SCANS_MAX scans, and "Older" continues there.
 */
#include "base/clock.h"
#include "store/audit.h"
#include "store/execution.h"
#include "web/pages.h"

enum {
    ROWS_MAX = 25,
    SCANS_MAX = 3, /* of 1,000 rows each: what a page may cost that finds little */
    CLOCK_MARGIN_MS = 24 * 60 * 60 * 1000,
    TRAIL_BYTES_MAX = 1000, /* of the pages before this one, for "Newer" */
};

static const struct {
    const char *value, *label;
    int64_t hours;
} periods[] = {{"1h", "the last hour", 1},
               {"24h", "the last 24 hours", 24},
               {"7d", "the last 7 days", 7 * 24},
               {"30d", "the last 30 days", 30 * 24}};

static const char *const states[] = {"succeeded", "failed", "blocked"};

struct row {
    struct uuid id; /* nil: blocked, which has no page */
    slice app_id, action_id, status, code, message;
    struct uuid key_id; /* nil: not known */
    slice key_name;
    int64_t at, took_us; /* 0: blocked */
};

struct runs {
    struct store_page page;
    struct execution_filter filter;
    slice state, action_id, code, period;
    size_t scans;
    struct row rows[ROWS_MAX];
    size_t count;
    struct uuid next; /* of the page behind this one; nil: none */
};

/* ---- rows ---- */

/* false: the page is full. last: where the page behind it begins. */
static bool add_row(struct runs *runs, struct uuid last, const struct row *row)
{
    slice app_id = runs->filter.integration_id;
    if (runs->count == ROWS_MAX)
        return false;
    runs->next = last;
    if ((app_id.ptr && !slice_eq(app_id, row->app_id)) ||
        (runs->action_id.ptr && !slice_eq(runs->action_id, row->action_id)) ||
        (runs->code.ptr && !slice_eq(runs->code, row->code)) ||
        (!uuid_is_nil(runs->filter.api_key_id) && !uuid_eq(runs->filter.api_key_id, row->key_id)))
        return true;
    runs->rows[runs->count++] = *row;
    return true;
}

/* The summary has the failure's code and message, as the interface answers them; NULL: a successful
 * row, which needs no parsing. */
static const struct json *failure_of(struct web_request *request, const struct execution *execution)
{
    return execution->is_succeeded
               ? NULL
               : json_parse(&request->op.arena, execution->summary, &json_limits_provider, NULL);
}

/* The same for a blocked run, of whose reason the audit trail has the name. */
static slice code_of_blocked(slice reason)
{
    const struct exec_outcome outcome = {.reason = exec_reason_parse(reason)};
    return outcome.reason == EXEC_REASONS ? reason : exec_outcome_error_code(&outcome);
}

/* As the two below: the query's status; is_whole: all that it returned is on the page. */
static int take_executions(struct web_request *request, struct uuid *next, bool *is_whole)
{
    struct runs *runs = request->state;
    struct execution *found;
    size_t count;
    int status = store_execution_list_result(&request->query, &found, &count, next);
    for (size_t i = 0; status == OK && i < count && *is_whole; i++) {
        const struct execution *one = &found[i];
        const struct json *failure = failure_of(request, one);
        *is_whole =
            add_row(runs, one->id,
                    &(const struct row){.id = one->id,
                                        .app_id = one->integration_id,
                                        .action_id = one->action_id,
                                        .status = slice_cstr(states[one->is_succeeded ? 0 : 1]),
                                        .code = json_get_str(failure, SLICE("error_code")),
                                        .message = json_get_str(failure, SLICE("message")),
                                        .key_id = one->api_key_id,
                                        .key_name = one->api_key_name,
                                        .at = one->started_at,
                                        .took_us = one->finished_at - one->started_at});
    }
    return status;
}

/* "key:<id>"; the id's begin is its name here. */
static void read_actor(struct row *row, slice actor)
{
    if (!slice_eq_cstr(slice_split(&actor, ':'), "key") || !uuid_parse(actor, &row->key_id))
        return;
    row->key_name = slice_first(actor, 8);
}

static int take_blocked(struct web_request *request, struct uuid *next, bool *is_whole)
{
    struct runs *runs = request->state;
    struct audit_event *found;
    size_t count;
    int status = store_audit_list_result(&request->query, &found, &count, next);
    for (size_t i = 0; status == OK && i < count && *is_whole; i++) {
        const struct json *details =
            json_parse(&request->op.arena, found[i].details, &json_limits_provider, NULL);
        struct row row = {.app_id = json_get_str(details, SLICE("integration_id")),
                          .action_id = json_get_str(details, SLICE("action_id")),
                          .status = SLICE("blocked"),
                          .code = code_of_blocked(found[i].reason),
                          .at = uuid_v7_wall_ms(found[i].id) * 1000};
        read_actor(&row, found[i].actor);
        *is_whole = add_row(runs, found[i].id, &row);
    }
    return status;
}

/* ---- writing ---- */

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

slice view_read_period(struct web_request *request, int64_t now_ms, struct uuid *since)
{
    slice period = web_query(request, "period");
    for (size_t i = 0; i < ARRAY_LEN(periods); i++)
        if (slice_eq_cstr(period, periods[i].value)) {
            *since = uuid_v7_floor(now_ms - periods[i].hours * 3600 * 1000);
            return period;
        }
    return SLICE_NONE;
}

/* All apps of the catalog, and the one that is filtered by if the catalog no longer has it; so for
 * that app's actions. */
static void write_choices(const struct web_request *request, struct json_writer *w)
{
    const struct runs *runs = request->state;
    const struct catalog *catalog = *request->web->config.catalog;
    slice app_id = runs->filter.integration_id;
    const struct catalog_integration *app =
        app_id.ptr ? catalog_find_integration(catalog, app_id, NULL) : NULL;
    json_member_open(w, "apps", '[');
    if (app_id.ptr && !app)
        view_choice(w, app_id, app_id);
    for (size_t i = 0; i < catalog->integration_count; i++)
        view_choice(w, catalog->integrations[i]->integration_id, catalog->integrations[i]->name);
    json_close(w, ']');
    json_member_open(w, "actions", '[');
    if (runs->action_id.ptr && !(app && catalog_find_action(app, runs->action_id, NULL)))
        view_choice(w, runs->action_id, runs->action_id);
    for (size_t i = 0; app && app->actions && i < app->action_count; i++)
        view_choice(w, app->actions[i].action_id, app->actions[i].title);
    json_close(w, ']');
    view_periods(w);
    json_member_open(w, "states", '[');
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        json_put_str(w, slice_cstr(states[i]));
    json_close(w, ']');
}

/* Where the catalog has the app or the action no more, the ids are their names. */
void view_names(struct web_request *request, struct json_writer *w, slice app_id, slice action_id)
{
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, app_id, NULL);
    const struct catalog_action *action = app ? catalog_find_action(app, action_id, NULL) : NULL;
    json_member_str(w, "app", app ? app->name : app_id);
    json_member_str(w, "action", action ? action->title : action_id);
}

static void write_row(struct web_request *request, struct json_writer *w, const struct row *row)
{
    json_open(w, '{');
    if (uuid_is_nil(row->id))
        json_member_str(w, "execution_id", SLICE_NONE);
    else
        view_id(w, "execution_id", row->id);
    view_names(request, w, row->app_id, row->action_id);
    json_member_str(w, "status", row->status);
    json_member_str(w, "code", row->code);
    json_member_str(w, "message", row->message);
    view_key(w, row->key_id, row->key_name);
    if (uuid_is_nil(row->id))
        json_member_str(w, "took", SLICE_NONE);
    else
        view_took(request, w, "took", row->took_us);
    view_time(w, "started_at", row->at);
    json_close(w, '}');
}

/* "Newer" leads to the page that "Older" was pressed on: the address has where each page before
 * this one began, with a point between two, "0" for the first. */
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
                    arena_printf(&request->op.arena, "%.*s%s%.*s", SLICE_ARG(trail),
                                 trail.len > 0 ? "." : "", SLICE_ARG(first)));
    json_close(w, '}');
}

static enum op_result reply_list(struct web_request *request)
{
    const struct runs *runs = request->state;
    struct json_writer *w = view_begin(request);
    write_choices(request, w);
    json_member_str(w, "app", runs->filter.integration_id);
    json_member_str(w, "action", runs->action_id);
    json_member_str(w, "status", runs->state);
    json_member_str(w, "code", runs->code);
    json_member_str(w, "period", runs->period);
    json_member_str(w, "key", web_query(request, "key"));
    json_member_open(w, "rows", '[');
    for (size_t i = 0; i < runs->count; i++)
        write_row(request, w, &runs->rows[i]);
    json_close(w, ']');
    view_pager(request, w, runs->next);
    return web_reply_view(request, 200, "executions");
}

/* ---- reading ---- */

static bool is_blocked(const struct runs *runs)
{
    return slice_eq_cstr(runs->state, "blocked");
}

static web_step on_rows;

static enum op_result load_rows(struct web_request *request)
{
    struct runs *runs = request->state;
    struct pg_pool *pool = request->web->config.pool;
    ASSERT(runs->scans < SCANS_MAX);
    if (is_blocked(runs))
        store_audit_list(pool, &request->query, &request->op, request->session.account_id,
                         &runs->page, SLICE("execution.blocked"));
    else
        store_execution_list(pool, &request->query, &request->op, request->session.account_id,
                             &runs->page, &runs->filter);
    return web_wait(request, on_rows);
}

static enum op_result on_rows(struct web_request *request)
{
    struct runs *runs = request->state;
    struct uuid next;
    bool is_whole = true;
    int status = is_blocked(runs) ? take_blocked(request, &next, &is_whole)
                                  : take_executions(request, &next, &is_whole);
    if (status != OK)
        return web_reply_database(request, status);
    if (is_whole)
        runs->next = next;
    if (!is_whole || uuid_is_nil(next) || runs->count == ROWS_MAX || ++runs->scans == SCANS_MAX)
        return reply_list(request);
    runs->page.before = next;
    return load_rows(request);
}

/* A value that is none of the choices is ignored, and the page shows all. */
static void read_filters(struct web_request *request, struct runs *runs, int64_t now_ms)
{
    slice state = web_query(request, "status");
    runs->filter.integration_id = web_query(request, "app");
    /* What is no key's id is no filter. */
    (void)!uuid_parse(web_query(request, "key"), &runs->filter.api_key_id);
    runs->action_id = web_query(request, "action");
    runs->code = web_query(request, "code");
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        if (slice_eq_cstr(state, states[i]))
            runs->state = state;
    if (!is_blocked(runs))
        runs->filter.status = runs->state;
    runs->period = view_read_period(request, now_ms, &runs->page.since);
}

enum op_result web_executions(struct web_request *request)
{
    struct runs *runs = ARENA_NEW(&request->op.arena, struct runs);
    slice before = web_query(request, "before");
    int64_t now_ms = clock_wall_us() / 1000;
    if (!runs)
        return web_reply_database(request, ERR_NOMEM);
    /* A margin for nodes whose clocks are ahead, so that their newest rows are on the first page.
     */
    runs->page.before = uuid_v7_floor(now_ms + CLOCK_MARGIN_MS);
    if (before.ptr && !uuid_parse(before, &runs->page.before))
        return web_reply_missing(request, "There is no page at this address.");
    read_filters(request, runs, now_ms);
    bool is_filtered = runs->action_id.ptr || runs->code.ptr || is_blocked(runs);
    runs->page.count_max = is_filtered ? STORE_PAGE_COUNT_MAX : ROWS_MAX;
    request->state = runs;
    return load_rows(request);
}
