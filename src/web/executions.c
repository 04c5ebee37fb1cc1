/*
 * The list of executions, newest first: what was tried, calls of flows among it, or what was
 * blocked, which the audit trail has. The filters are in the address. The database filters what it
 * can, this file all rows by everything; a page ends after SCANS_MAX scans, or one that has read
 * much and found little, and "Older" continues there.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "flow/calls.h"
#include "store/audit.h"
#include "store/execution.h"
#include "web/pages.h"

enum {
    ROWS_MAX = 25,
    SCANS_MAX = 3,     /* of 1,000 rows each at most; the first is of recent ones */
    CALLS_A_SCAN = 50, /* steps of flows, more than half of them calls; later scans read more */
    CALLS_A_SCAN_MAX = 200,
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

/* What one scan has found, until the page has it. */
struct found {
    struct row *rows;
    size_t count, count_max;
    struct uuid end; /* all before it in the list was read; nil: all there is */
    bool is_long;    /* a page costs no more than this one */
};

struct runs {
    struct store_page page, scanned; /* the latter: by the scan that runs */
    struct execution_filter filter;
    slice state, action_id, code, period;
    int64_t now_ms;
    size_t scans;
    bool is_crowded; /* more calls of one microsecond were met than a scan usually has */
    struct flow_calls *calls;
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

/* Room for count rows of a scan, beside those that it has. */
static int make_room(struct web_request *request, struct found *found, size_t count)
{
    size_t more = found->count + count;
    struct row *rows = ARENA_ARRAY(&request->op.arena, struct row, more + 1);
    if (!rows)
        return ERR_NOMEM;
    if (found->count > 0)
        memcpy(rows, found->rows, found->count * sizeof(*rows));
    found->rows = rows;
    found->count_max = more;
    return OK;
}

static void put_found(struct found *found, const struct row *row)
{
    ASSERT(found->count < found->count_max);
    found->rows[found->count++] = *row;
}

/* What is said of a run: of one that failed its message, of another the sentence of its display. */
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

/* As the two below: the query's status. */
static int find_executions(struct web_request *request, struct found *found)
{
    struct execution *list;
    size_t count;
    const struct runs *runs = request->state;
    int status = store_execution_list_result(&request->query, &list, &count, &found->end);
    if (status != OK)
        return status;
    found->is_long = !uuid_is_nil(found->end) && count < runs->page.count_max;
    found->end = store_page_next(&runs->page, &runs->scanned, found->end);
    status = make_room(request, found, count);
    for (size_t i = 0; status == OK && i < count; i++) {
        const struct execution *one = &list[i];
        const struct json *summary =
            json_parse(&request->op.arena, one->summary, &json_limits_provider, NULL);
        put_found(found,
                  &(const struct row){.position = one->id,
                                      .kind = EXECUTION,
                                      .app_id = one->integration_id,
                                      .action_id = one->action_id,
                                      .status = slice_cstr(states[one->is_succeeded ? 0 : 1]),
                                      .code = json_get_str(summary, SLICE("error_code")),
                                      .message = said_of(one, summary),
                                      .key_id = one->api_key_id,
                                      .key_name = one->api_key_name,
                                      .at = one->started_at,
                                      .took_us = one->finished_at - one->started_at});
    }
    return status;
}

/* "key:<id>" */
static struct uuid key_of_actor(slice actor)
{
    struct uuid id = {{0}};
    bool is_key = slice_eq_cstr(slice_split(&actor, ':'), "key") && uuid_parse(actor, &id);
    return is_key ? id : (struct uuid){{0}};
}

static int find_blocked(struct web_request *request, struct found *found)
{
    struct runs *runs = request->state;
    struct audit_event *list;
    size_t count;
    int status = store_audit_list_result(&request->query, &list, &count, &found->end);
    found->end = store_page_next(&runs->page, &runs->scanned, found->end);
    if (status == OK)
        status = make_room(request, found, count);
    for (size_t i = 0; status == OK && i < count; i++) {
        const struct json *details =
            json_parse(&request->op.arena, list[i].details, &json_limits_provider, NULL);
        struct row row = {.position = list[i].id,
                          .app_id = json_get_str(details, SLICE("integration_id")),
                          .action_id = json_get_str(details, SLICE("action_id")),
                          .status = SLICE("blocked"),
                          .code = code_of_blocked(list[i].reason),
                          .key_id = key_of_actor(list[i].actor),
                          .at = uuid_v7_wall_ms(list[i].id) * 1000};
        row.key_name = view_key_label(&request->op.arena, runs->keys, runs->key_count, row.key_id);
        put_found(found, &row);
    }
    return status;
}

/* ---- calls of flows ---- */

/* The first position of that microsecond in a list of ids: a UUIDv7 with the microsecond in the 12
 * bits behind its version. */
static struct uuid position_of_time(int64_t at_us)
{
    struct uuid position = uuid_v7_floor(at_us / 1000);
    int64_t us = at_us % 1000;
    position.bytes[6] = (uint8_t)(0x70 | us >> 8);
    position.bytes[7] = (uint8_t)(us & 0xff);
    return position;
}

/* What begins before it may stand behind this position; the opposite of position_of_time. Ids of
 * executions have other bits there, so it may be too late by less than a millisecond. */
static int64_t time_of_position(struct uuid position, int64_t now_ms)
{
    int64_t ms = uuid_v7_wall_ms(position),
            us = (position.bytes[6] & 0x0f) << 8 | position.bytes[7];
    if (ms > now_ms + CLOCK_MARGIN_MS)
        ms = now_ms + CLOCK_MARGIN_MS;
    return ms * 1000 + (us < 1000 ? us : 999) + 1;
}

/* A call has no id: its time, and behind it what no other call of that microsecond has. */
static struct uuid position_of_call(const struct flow_past *call)
{
    struct uuid position = position_of_time(call->started_at);
    memcpy(&position.bytes[8], &call->flow_id.bytes[8], 8);
    position.bytes[14] ^= (uint8_t)call->step_index;
    position.bytes[15] ^= (uint8_t)call->attempt;
    return position;
}

static struct row row_of_call(struct web_request *request, const struct flow_calls_row *found)
{
    const struct flow_past *call = &found->call;
    const struct catalog_action *action =
        catalog_find_tool(*request->web->config.catalog, found->tool);
    const struct json *error =
        json_parse(&request->op.arena, call->error, &json_limits_provider, NULL);
    return (struct row){.position = position_of_call(call),
                        .kind = FLOW_CALL,
                        .flow_id = call->flow_id,
                        .flow_title = found->flow_title,
                        .step_key = found->step_key,
                        .step_title = found->step_title,
                        .is_fan_out = found->is_fan_out,
                        .app_id = action ? action->integration->integration_id : found->tool,
                        .action_id = action ? action->action_id : found->tool,
                        .status = slice_cstr(states[call->is_completed ? 0 : 1]),
                        .code = json_get_str(error, SLICE("code")),
                        .message = json_get_str(error, SLICE("message")),
                        .key_id = key_of_actor(call->actor),
                        .key_name = call->api_key_name,
                        .at = call->started_at,
                        .took_us = call->finished_at - call->started_at};
}

/* Where the scan of calls ended: behind that there may be more of the last one's microsecond, so
 * that one is read again, unless there was no other in it. nil: it has read all. */
static struct uuid end_of_calls(const struct flow_calls *calls)
{
    const struct flow_past *last = &calls->rows[calls->count - (calls->count > 0)].call;
    if (calls->count == 0 || (!last->is_cut && (int64_t)calls->count < calls->range.count_max))
        return (struct uuid){{0}};
    bool is_one = last->started_at == calls->rows[0].call.started_at;
    return is_one ? position_of_call(last) : position_of_time(last->started_at + 1);
}

/* What is wanted may be few of many calls. */
static bool is_wide(const struct runs *runs)
{
    const struct execution_filter *filter = &runs->filter;
    return filter->integration_id.ptr || filter->action_id.ptr || filter->status.ptr ||
           !uuid_is_nil(filter->api_key_id);
}

static int find_calls(struct web_request *request, struct found *found)
{
    const struct runs *runs = request->state;
    const struct flow_calls *calls = runs->calls;
    int status = calls ? calls->status : ERR_NOMEM;
    if (status == OK)
        status = make_room(request, found, calls->count);
    if (status != OK)
        return status;
    for (size_t i = 0; i < calls->count; i++) {
        struct row row = row_of_call(request, &calls->rows[i]);
        if (calls->rows[i].tool.ptr && uuid_cmp(row.position, runs->page.before) < 0)
            put_found(found, &row);
    }
    struct uuid end = end_of_calls(calls);
    found->is_long |= is_wide(runs) && !uuid_is_nil(end);
    if (uuid_cmp(end, found->end) > 0)
        found->end = end;
    return OK;
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
                    arena_printf(&request->op.arena, "%.*s%s%.*s", SLICE_ARG(trail),
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
                    view_key_label(&request->op.arena, runs->keys, runs->key_count, key->id));
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
        store_api_key_list(pool, &runs->keys_query, &request->op, account_id);
    if (is_blocked(runs)) {
        store_audit_list(pool, &request->query, &request->op, account_id, &runs->scanned,
                         audit_kind_name(AUDIT_EXECUTION_BLOCKED), SLICE_NONE);
        return web_wait(request, on_rows);
    }
    const struct execution_filter *filter = &runs->filter;
    int64_t since = uuid_v7_wall_ms(runs->scanned.since) * 1000;
    const struct flow_past_range range = {
        .since = since > 0 ? since : 1,
        .before = time_of_position(runs->page.before, runs->now_ms),
        .count_max = runs->scans > 0 || is_wide(runs) || runs->is_crowded ? CALLS_A_SCAN_MAX
                                                                          : CALLS_A_SCAN,
        .outcome = !filter->status.ptr                        ? FLOW_PAST_ALL
                   : slice_eq_cstr(filter->status, states[1]) ? FLOW_PAST_FAILED
                                                              : FLOW_PAST_COMPLETED,
        .app_id = filter->integration_id,
        .action_id = filter->action_id,
    };
    store_execution_list(pool, &request->query, &request->op, account_id, &runs->scanned,
                         &runs->filter);
    runs->calls = flow_calls_start(request->web->config.flow, account_id, &range, &request->op);
    return web_wait(request, on_rows);
}

/* Newest first. */
static int compare_rows(const void *a, const void *b)
{
    return uuid_cmp(((const struct row *)b)->position, ((const struct row *)a)->position);
}

/* false: the page is full. Rows behind the end of the scan are left to the next one. */
static bool add_found(struct runs *runs, struct found *found)
{
    if (found->count > 0)
        qsort(found->rows, found->count, sizeof(*found->rows), compare_rows);
    for (size_t i = 0; i < found->count; i++) {
        if (uuid_cmp(found->rows[i].position, found->end) < 0)
            break;
        if (!add_row(runs, &found->rows[i]))
            return false;
    }
    runs->next = found->end;
    return true;
}

/* Where all of a scan began in one microsecond there is no place between them to go on from
 * (end_of_calls): the same is read again with more of them. */
static bool is_crowded(const struct flow_calls *calls)
{
    return calls && calls->status == OK && calls->count == CALLS_A_SCAN &&
           calls->range.count_max == CALLS_A_SCAN &&
           calls->rows[0].call.started_at == calls->rows[calls->count - 1].call.started_at;
}

/* The memory of a scan's calls goes when the next scan waits (an ended child's, loop/op.h): copies
 * the texts of the page's rows. */
static void keep_texts(struct web_request *request)
{
    struct runs *runs = request->state;
    for (size_t i = 0; i < runs->count; i++) {
        struct row *row = &runs->rows[i];
        slice *texts[] = {&row->flow_title, &row->step_key, &row->step_title, &row->app_id,
                          &row->action_id,  &row->code,     &row->message,    &row->key_name};
        for (size_t n = 0; n < ARRAY_LEN(texts); n++)
            if (texts[n]->ptr)
                *texts[n] = arena_dup(&request->op.arena, *texts[n]);
    }
}

static enum op_result on_rows(struct web_request *request)
{
    struct runs *runs = request->state;
    struct found found = {0};
    if (!is_blocked(runs) && is_crowded(runs->calls)) {
        runs->is_crowded = true;
        return load_rows(request);
    }
    int status = OK;
    if (runs->scans == 0)
        status = store_api_key_list_result(&runs->keys_query, &runs->keys, &runs->key_count);
    if (status == OK)
        status = is_blocked(runs) ? find_blocked(request, &found)
                                  : find_executions(request, &found);
    if (status == OK && !is_blocked(runs))
        status = find_calls(request, &found);
    if (status != OK)
        return web_reply_database(request, status);
    if (!add_found(runs, &found) || uuid_is_nil(runs->next) || runs->count == ROWS_MAX ||
        found.is_long || ++runs->scans == SCANS_MAX)
        return reply_list(request);
    runs->page.before = runs->next;
    keep_texts(request);
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
    runs->filter.with_summary = true;
    /* Only what has failed has a code. */
    if (!is_blocked(runs)) {
        runs->filter.status = runs->code.ptr ? slice_cstr(states[1]) : runs->state;
        runs->filter.error_code = runs->code;
    }
    runs->period = view_read_period(request, runs->now_ms, &runs->page.since);
}

enum op_result web_executions(struct web_request *request)
{
    struct runs *runs = ARENA_NEW(&request->op.arena, struct runs);
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
    bool is_sieved = is_wide(runs) || runs->code.ptr;
    runs->page.count_max = is_blocked(runs) && is_sieved ? STORE_PAGE_COUNT_MAX : ROWS_MAX;
    request->state = runs;
    return load_rows(request);
}
