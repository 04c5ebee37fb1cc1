/*
 * The list of executions, newest first: those that were tried, including calls of flows, or those
 * that were blocked, from the audit trail. The filters are in the address. The database applies the
 * filters that it can, and this file applies all of them to the rows. A page ends after SCANS_MAX
 * scans, or after a scan that read many rows and found few, and "Older" continues from there.
 */
#include "flow/template.h"
#include "store/audit.h"
#include "store/execution.h"
#include "web/pages.h"

enum {
    ROWS_MAX = 25,
    SCANS_MAX = 3,
    KEYS_MAX = 100, /* keys offered by the filter */
};

static const char *const states[] = {"succeeded", "failed", "blocked"}; /* the filter's words */
enum { APP, ACTION, STATUS, CODE, KEY, PERIOD };
static const struct serve_filter filters[SERVE_FILTERS_MAX] = {
    [APP] = {.name = "app", SERVE_A_WORD},
    [ACTION] = {.name = "action", SERVE_A_WORD},
    [STATUS] = {.name = "status", .words = "succeeded failed blocked"},
    [CODE] = {.name = "code", SERVE_A_WORD},
    [KEY] = {.name = "key", .kind = SERVE_ID, .wanted = "the id of a key"},
    [PERIOD] = VIEW_PERIOD,
    {.name = "before", .kind = SERVE_CURSOR}};

struct row {
    struct uuid position; /* position in the list; except for a flow's call the run's id */
    enum { BLOCKED, EXECUTION, FLOW_CALL } kind; /* a flow's call has no page of its own */
    struct uuid flow_id;
    slice flow_title, step_key, step_title;
    bool is_fan_out;
    slice app_id, action_id, status, code; /* code: empty if succeeded */
    slice message;                         /* a sentence if succeeded; may be empty */
    struct uuid key_id;                    /* nil: unknown */
    slice key_name;
    int64_t at, took_us; /* 0: blocked */
};

struct runs {
    struct serve_list list;
    struct execution_filter filter;
    bool is_blocked;            /* blocked runs are listed */
    struct pg_query keys_query; /* for the choice of a key; events of blocked runs have no names */
    struct api_key *keys;
    size_t key_count;
};

/* ---- rows ---- */

/* Returns the text of a run: the message of a failed run, else the sentence of its display; a
 * succeeded call has no text. */
static slice said_of(const struct execution *execution, const struct json *summary)
{
    return execution->is_succeeded ? json_get_str(JSON_GET(summary, "display"), SLICE("summary"))
                                   : json_get_str(summary, SLICE("message"));
}

slice view_blocked_code(slice reason)
{
    const struct exec_outcome outcome = {.reason = exec_reason_parse(reason)};
    return outcome.reason == EXEC_REASONS ? reason : exec_outcome_error_code(&outcome);
}

/* Returns the step's title in the present template of that key, or SLICE_NONE if there is none. */
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

/* ---- writing ---- */

/* Lists all apps of the catalog, and the app in the filter even if it is no longer in the
 * catalog; likewise that app's actions. */
static void write_choices(const struct web_request *request, struct json_writer *w)
{
    const struct runs *runs = request->state;
    const struct catalog *catalog = *request->web->config.catalog;
    slice app_id = runs->list.values[APP], action_id = runs->list.values[ACTION];
    const struct catalog_integration *app =
        app_id.ptr ? catalog_find_integration(catalog, app_id, NULL) : NULL;
    json_member_open(w, "apps", '[');
    if (app_id.ptr && !app)
        view_choice(w, app_id, app_id);
    for (size_t i = 0; i < catalog->integration_count; i++)
        view_choice(w, catalog->integrations[i]->integration_id, catalog->integrations[i]->name);
    json_close(w, ']');
    json_member_open(w, "actions", '[');
    if (action_id.ptr && !(app && catalog_find_action(app, action_id, NULL)))
        view_choice(w, action_id, action_id);
    for (size_t i = 0; app && app->actions && i < app->action_count; i++)
        view_choice(w, app->actions[i].action_id, app->actions[i].title);
    json_close(w, ']');
    view_periods(w);
    json_member_open(w, "states", '[');
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        json_put_str(w, slice_cstr(states[i]));
    json_close(w, ']');
}

/* If the catalog no longer has the app or the action, the ids are their names. */
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
    view_id_of(w, "execution_id", row->kind == FLOW_CALL ? none : row->position);
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

/* Writes the keys that are not revoked, and the chosen one. */
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
    struct json_writer *w = &request->view;
    json_close(w, ']');
    write_choices(request, w);
    for (int i = APP; i <= PERIOD; i++)
        json_member_str(w, filters[i].name, runs->list.values[i]);
    write_keys(request, w, runs);
    view_pager(request, w, runs->list.next);
    return web_reply_view(request, 200, "executions");
}

/* ---- reading ---- */

/* The database filters blocked runs only by kind, and others by everything except some of the
 * codes. */
static void add_row(struct web_request *request, const struct row *row)
{
    struct runs *runs = request->state;
    const slice *values = runs->list.values;
    struct uuid key_id = runs->filter.api_key_id;
    if ((!values[APP].ptr || slice_eq(values[APP], row->app_id)) &&
        (!values[ACTION].ptr || slice_eq(values[ACTION], row->action_id)) &&
        (!values[STATUS].ptr || slice_eq(values[STATUS], row->status)) &&
        (!values[CODE].ptr || slice_eq(values[CODE], row->code)) &&
        (uuid_is_nil(key_id) || uuid_eq(key_id, row->key_id)) &&
        serve_list_take(&runs->list, row->position))
        write_row(request, &request->view, row);
}

/* Like add_blocked below, this returns the query's status. */
static int add_executions(struct web_request *request, struct uuid *end)
{
    struct runs *runs = request->state;
    struct execution *list;
    size_t count;
    int status = store_execution_list_result(&request->query, &list, &count, end);
    for (size_t i = 0; status == OK && i < count; i++) {
        struct row row = row_of(request, &list[i]);
        add_row(request, &row);
    }
    /* The scan read many rows and found few, so it is the last: this limits the cost of a page. */
    if (status == OK && !uuid_is_nil(*end) && count < runs->list.scan.count_max)
        runs->list.scans_left = 1;
    return status;
}

static int add_blocked(struct web_request *request, struct uuid *end)
{
    struct runs *runs = request->state;
    struct audit_event *list;
    size_t count;
    int status = store_audit_list_result(&request->query, &list, &count, end);
    for (size_t i = 0; status == OK && i < count; i++) {
        const struct json *details =
            json_parse(&request->serve.op.arena, list[i].details, &json_limits_provider, NULL);
        struct row row = {.position = list[i].id,
                          .app_id = json_get_str(details, SLICE("integration_id")),
                          .action_id = json_get_str(details, SLICE("action_id")),
                          .status = SLICE("blocked"),
                          .code = view_blocked_code(list[i].reason),
                          .key_id = audit_actor_key(list[i].by.actor),
                          .at = uuid_v7_wall_ms(list[i].id) * 1000};
        row.key_name =
            view_key_label(&request->serve.op.arena, runs->keys, runs->key_count, row.key_id);
        add_row(request, &row);
    }
    return status;
}

static web_step on_rows;

static enum op_result load_rows(struct web_request *request)
{
    struct runs *runs = request->state;
    struct pg_pool *pool = request->web->config.pool;
    struct uuid account_id = request->session.account_id;
    const struct store_page *scan = serve_list_scan(&runs->list);
    if (!runs->keys_query.stmt)
        store_api_key_list(pool, &runs->keys_query, &request->serve.op, account_id);
    if (runs->is_blocked)
        store_audit_list(pool, &request->query, &request->serve.op, account_id, scan,
                         audit_kind_name(AUDIT_EXECUTION_BLOCKED), SLICE_NONE);
    else
        store_execution_list(pool, &request->query, &request->serve.op, account_id, scan,
                             &runs->filter);
    return web_wait(request, on_rows);
}

static enum op_result on_rows(struct web_request *request)
{
    struct runs *runs = request->state;
    struct uuid end;
    int status = OK;
    if (!runs->keys)
        status = store_api_key_list_result(&runs->keys_query, &runs->keys, &runs->key_count);
    if (status == OK)
        status = runs->is_blocked ? add_blocked(request, &end) : add_executions(request, &end);
    if (status != OK)
        return web_reply_database(request, status);
    return serve_list_continues(&runs->list, end) ? load_rows(request) : reply_list(request);
}

enum op_result web_executions(struct web_request *request)
{
    struct runs *runs = ARENA_NEW(&request->serve.op.arena, struct runs);
    if (!runs)
        return web_reply_database(request, ERR_NOMEM);
    if (!web_list_read(request, &runs->list, filters, ROWS_MAX))
        return OP_DONE;
    const slice *values = runs->list.values;
    bool has_code = values[CODE].ptr != NULL; /* only failed runs have a code */
    runs->is_blocked = slice_eq_cstr(values[STATUS], states[2]);
    runs->filter = (struct execution_filter){
        .integration_id = values[APP],
        .action_id = values[ACTION],
        .status = has_code ? slice_cstr(states[1]) : values[STATUS],
        .error_code = values[CODE],
        .with_summary = true,
        .with_calls = true,
    };
    (void)!uuid_parse(values[KEY], &runs->filter.api_key_id);
    runs->list.page.since = view_period_since(runs->list.choices[PERIOD]);
    runs->list.is_sieved = runs->is_blocked &&
                           (values[APP].ptr || values[ACTION].ptr || has_code || values[KEY].ptr);
    runs->list.scans_left = SCANS_MAX;
    request->state = runs;
    json_member_open(view_begin(request), "rows", '[');
    return load_rows(request);
}
