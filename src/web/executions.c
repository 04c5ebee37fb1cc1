/*
 * The list of executions, newest first: what was tried, calls of flows among it, or what was
 * blocked, which the audit trail has. The filters are in the address. The database filters what it
 * can, this file all rows by everything; a page ends after SCANS_MAX scans, or one that has read
 * much and found little, and "Older" continues there.
 */
#include "base/clock.h"
#include "flow/template.h"
#include "store/audit.h"
#include "store/execution.h"
#include "web/pages.h"

enum {
    ROWS_MAX = 25,
    SCANS_MAX = 3, /* of 1,000 rows each at most; the first is of recent ones */
    CLOCK_MARGIN_MS = 24 * 60 * 60 * 1000,
    KEYS_MAX = 100,         /* to choose from */
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
    struct uuid position;                        /* in the list; an execution's is its id */
    enum { BLOCKED, EXECUTION, FLOW_CALL } kind; /* the first has no page */
    struct uuid flow_id;
    slice flow_title, step_key, step_title;
    bool is_fan_out;
    slice app_id, action_id, status, code; /* the last is empty of what succeeded */
    slice message;                         /* of what succeeded a sentence; may be empty */
    struct uuid key_id;                    /* nil: not known */
    slice key_name;
    int64_t at, took_us; /* 0: blocked */
};

struct runs {
    struct store_page page, scanned; /* the latter: by the scan that runs */
    struct execution_filter filter;
    slice state, action_id, code, period;
    int64_t now_ms;
    size_t scans;
    bool is_long;               /* the last scan has read much: a page costs no more than that */
    struct pg_query keys_query; /* to choose one; and events of blocked runs have no names */
    struct api_key *keys;
    size_t key_count;
    struct row rows[ROWS_MAX];
    size_t count;
    struct uuid next; /* of the page behind this one; nil: none */
};

/* ---- rows ---- */

/* false: the page is full. */
static bool add_row(struct runs *runs, const struct row *row)
{
    slice app_id = runs->filter.integration_id;
    if (runs->count == ROWS_MAX)
        return false;
    runs->next = row->position;
    if ((app_id.ptr && !slice_eq(app_id, row->app_id)) ||
        (runs->action_id.ptr && !slice_eq(runs->action_id, row->action_id)) ||
        (runs->state.ptr && !slice_eq(runs->state, row->status)) ||
        (runs->code.ptr && !slice_eq(runs->code, row->code)) ||
        (!uuid_is_nil(runs->filter.api_key_id) && !uuid_eq(runs->filter.api_key_id, row->key_id)))
        return true;
    runs->rows[runs->count++] = *row;
    return true;
}

/* What is said of a run: of one that failed its message, of another the sentence of its display; of
 * a call that succeeded nothing. */
static slice said_of(const struct execution *execution, const struct json *summary)
{
    return execution->is_succeeded ? json_get_str(JSON_GET(summary, "display"), SLICE("summary"))
                                   : json_get_str(summary, SLICE("message"));
}

/* The same for a blocked run, of whose reason the audit trail has the name. */
static slice code_of_blocked(slice reason)
{
    const struct exec_outcome outcome = {.reason = exec_reason_parse(reason)};
    return outcome.reason == EXEC_REASONS ? reason : exec_outcome_error_code(&outcome);
}

/* As the template of its key calls it now; SLICE_NONE: it gives it no title. */
static slice title_of_step(const struct web_request *request, const struct execution *call)
{
    const struct flow_template *tmpl =
        flow_template_set_find(*request->web->config.templates, call->template_key);
    for (size_t i = 0; tmpl && i < tmpl->step_count; i++)
        if (slice_eq(tmpl->steps[i].key, call->step_key))
            return tmpl->steps[i].label;
    return SLICE_NONE;
}

static struct row row_of(struct web_request *request, const struct execution *one)
{
    bool is_call = !uuid_is_nil(one->flow_id);
    const struct json *said =
        json_parse(&request->serve.op.arena, one->summary, &json_limits_provider, NULL);
    return (struct row){.position = one->id,
                        .kind = is_call ? FLOW_CALL : EXECUTION,
                        .flow_id = one->flow_id,
                        .flow_title = one->flow_title,
                        .step_key = one->step_key,
                        .step_title = is_call ? title_of_step(request, one) : SLICE_NONE,
                        .is_fan_out = one->is_fan_out,
                        .app_id = one->integration_id,
                        .action_id = one->action_id,
                        .status = slice_cstr(states[one->is_succeeded ? 0 : 1]),
                        .code = json_get_str(said, is_call ? SLICE("code") : SLICE("error_code")),
                        .message = said_of(one, said),
                        .key_id = one->api_key_id,
                        .key_name = one->api_key_name,
                        .at = one->started_at,
                        .took_us = one->finished_at - one->started_at};
}

/* As the one below: the query's status. The rows join the page until it is full; what follows the
 * last that was read is the next one's. */
static int add_executions(struct web_request *request)
{
    struct runs *runs = request->state;
    struct execution *list;
    struct uuid end;
    size_t count, i = 0;
    int status = store_execution_list_result(&request->query, &list, &count, &end);
    if (status != OK)
        return status;
    for (struct row row; i < count; i++) {
        row = row_of(request, &list[i]);
        if (!add_row(runs, &row))
            return OK;
    }
    runs->is_long = !uuid_is_nil(end) && count < runs->page.count_max;
    runs->next = store_page_next(&runs->page, &runs->scanned, end);
    return OK;
}

static int add_blocked(struct web_request *request)
{
    struct runs *runs = request->state;
    struct audit_event *list;
    struct uuid end;
    size_t count;
    int status = store_audit_list_result(&request->query, &list, &count, &end);
    for (size_t i = 0; status == OK && i < count; i++) {
        const struct json *details =
            json_parse(&request->serve.op.arena, list[i].details, &json_limits_provider, NULL);
        struct row row = {.position = list[i].id,
                          .app_id = json_get_str(details, SLICE("integration_id")),
                          .action_id = json_get_str(details, SLICE("action_id")),
                          .status = SLICE("blocked"),
                          .code = code_of_blocked(list[i].reason),
                          .key_id = audit_actor_key(list[i].by.actor),
                          .at = uuid_v7_wall_ms(list[i].id) * 1000};
        row.key_name =
            view_key_label(&request->serve.op.arena, runs->keys, runs->key_count, row.key_id);
        if (!add_row(runs, &row))
            return OK;
    }
    runs->next = store_page_next(&runs->page, &runs->scanned, end);
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

static void view_id_of(struct json_writer *w, const char *key, struct uuid id)
{
    if (uuid_is_nil(id))
        json_member_str(w, key, SLICE_NONE);
    else
        view_id(w, key, id);
}

static void write_row(struct web_request *request, struct json_writer *w, const struct row *row)
{
    const struct uuid none = {{0}};
    json_open(w, '{');
    view_id_of(w, "execution_id", row->kind == EXECUTION ? row->position : none);
    view_id_of(w, "flow_id", row->flow_id);
    json_member_str(w, "flow", row->flow_title);
    json_member_str(w, "step", row->step_key);
    json_member_str(w, "step_title", row->step_title);
    json_member_bool(w, "is_fan_out", row->is_fan_out);
    view_names(request, w, row->app_id, row->action_id);
    json_member_str(w, "status", row->status);
    json_member_str(w, "code", row->code);
    json_member_str(w, "message", row->message);
    view_key(w, row->key_id, row->key_name);
    if (row->kind == BLOCKED)
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
                    arena_printf(&request->serve.op.arena, "%.*s%s%.*s", SLICE_ARG(trail),
                                 trail.len > 0 ? "." : "", SLICE_ARG(first)));
    json_close(w, '}');
}

/* Those that are not revoked, and the one that is chosen. */
static void write_keys(struct web_request *request, struct json_writer *w, const struct runs *runs)
{
    struct uuid chosen = runs->filter.api_key_id;
    json_member_open(w, "keys", '[');
    for (size_t i = 0, listed = 0; i < runs->key_count; i++) {
        const struct api_key *key = &runs->keys[i];
        bool is_chosen = uuid_eq(key->id, chosen);
        char id[UUID_TEXT_LEN + 1];
        if (!is_chosen && (key->revoked_at != 0 || listed++ >= KEYS_MAX))
            continue;
        uuid_format(key->id, id);
        view_choice(w, slice_cstr(id),
                    view_key_label(&request->serve.op.arena, runs->keys, runs->key_count, key->id));
    }
    json_close(w, ']');
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
    write_keys(request, w, runs);
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
    struct uuid account_id = request->session.account_id;
    ASSERT(runs->scans < SCANS_MAX);
    runs->scanned = runs->scans == 0 ? store_page_recent(&runs->page) : runs->page;
    if (!runs->keys_query.stmt)
        store_api_key_list(pool, &runs->keys_query, &request->serve.op, account_id);
    if (is_blocked(runs)) {
        store_audit_list(pool, &request->query, &request->serve.op, account_id, &runs->scanned,
                         audit_kind_name(AUDIT_EXECUTION_BLOCKED), SLICE_NONE);
        return web_wait(request, on_rows);
    }
    store_execution_list(pool, &request->query, &request->serve.op, account_id, &runs->scanned,
                         &runs->filter);
    return web_wait(request, on_rows);
}

static enum op_result on_rows(struct web_request *request)
{
    struct runs *runs = request->state;
    int status = OK;
    if (runs->scans == 0)
        status = store_api_key_list_result(&runs->keys_query, &runs->keys, &runs->key_count);
    if (status == OK)
        status = is_blocked(runs) ? add_blocked(request) : add_executions(request);
    if (status != OK)
        return web_reply_database(request, status);
    if (uuid_is_nil(runs->next) || runs->count == ROWS_MAX || runs->is_long ||
        ++runs->scans == SCANS_MAX)
        return reply_list(request);
    runs->page.before = runs->next;
    return load_rows(request);
}

/* A value that is none of the choices is ignored, and the page shows all. */
static void read_filters(struct web_request *request, struct runs *runs)
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
    runs->filter.action_id = runs->action_id;
    runs->filter.with_summary = runs->filter.with_calls = true;
    /* Only what has failed has a code. */
    if (!is_blocked(runs)) {
        runs->filter.status = runs->code.ptr ? slice_cstr(states[1]) : runs->state;
        runs->filter.error_code = runs->code;
    }
    runs->period = view_read_period(request, runs->now_ms, &runs->page.since);
}

enum op_result web_executions(struct web_request *request)
{
    struct runs *runs = ARENA_NEW(&request->serve.op.arena, struct runs);
    slice before = web_query(request, "before");
    if (!runs)
        return web_reply_database(request, ERR_NOMEM);
    runs->now_ms = clock_shared_us() / 1000;
    /* A margin for nodes whose clocks are ahead, so that their newest rows are on the first page.
     */
    runs->page.before = uuid_v7_floor(runs->now_ms + CLOCK_MARGIN_MS);
    if (before.ptr && !uuid_parse(before, &runs->page.before))
        return web_reply_missing(request, "There is no page at this address.");
    read_filters(request, runs);
    /* Of blocked runs the database filters by kind alone. */
    bool is_sieved = runs->filter.integration_id.ptr || runs->action_id.ptr || runs->code.ptr ||
                     !uuid_is_nil(runs->filter.api_key_id);
    runs->page.count_max = is_blocked(runs) && is_sieved ? STORE_PAGE_COUNT_MAX : ROWS_MAX;
    request->state = runs;
    return load_rows(request);
}
