/*
 * The list of executions, newest first: those that were tried, including calls of flows, and those
 * that were blocked, from the audit trail. The filters are in the address. The database applies all
 * of them, except the codes of blocked runs, of which it knows the reasons. A page ends after
 * SCANS_MAX scans, or after a scan that read many rows and found few, and "Older" continues from
 * there.
 */
#include "flow/template.h"
#include "serve/foresee.h"
#include "serve/stored.h"
#include "store/audit.h"
#include "store/execution.h"
#include "web/pages.h"

enum {
    ROWS_MAX = 25,
    SCANS_MAX = 3,
    KEYS_MAX = 100, /* keys offered by the filter */
};

#define STATES "succeeded failed blocked everything" /* the filter's words */
enum { SUCCEEDED, FAILED, BLOCKED, EVERYTHING };
enum { APP, ACTION, STATUS, CODE, KEY, PERIOD, FROM, TO, Q };
static const struct serve_filter filters[SERVE_FILTERS_MAX] = {
    [APP] = {.name = "app", SERVE_A_WORD},
    [ACTION] = {.name = "action", SERVE_A_WORD},
    [STATUS] = {.name = "status", .words = STATES},
    [CODE] = {.name = "code", SERVE_A_WORD},
    [KEY] = {.name = "key", .kind = SERVE_ID, .wanted = "the id of a key"},
    [PERIOD] = VIEW_PERIOD,
    [FROM] = {.name = "from", SERVE_A_SINCE},
    [TO] = {.name = "to", SERVE_A_UNTIL},
    [Q] = {.name = "q", SERVE_A_SEARCH},
    {.name = "before", .kind = SERVE_CURSOR}};

struct row {
    const struct execution *of;
    slice step_title, status, code; /* code: empty if succeeded */
    slice message;                  /* a sentence if succeeded; may be empty */
};

struct runs {
    struct serve_list list;
    struct execution_filter filter;
    struct pg_query keys_query; /* for the choice of a key */
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
    return (struct row){
        .of = one,
        .step_title = is_call ? title_of_step(request, one) : SLICE_NONE,
        .status = one->is_blocked     ? SLICE("blocked")
                  : one->is_succeeded ? SLICE("succeeded")
                                      : SLICE("failed"),
        .code = one->is_blocked ? view_blocked_code(one->error_code)
                                : json_get_str(said, is_call ? SLICE("code") : SLICE("error_code")),
        .message = said_of(one, said)};
}

/* ---- writing ---- */

/* Lists the codes that are reported, and the one in the filter. */
static void write_codes(struct json_writer *w, slice chosen)
{
    slice codes[EXEC_REASONS + 1];
    size_t count = 0;
    for (int i = 0; i <= EXEC_REASONS; i++) {
        const struct exec_outcome outcome = {.reason = (enum exec_reason)i};
        bool is_reason = i < EXEC_REASONS && exec_reason_status(outcome.reason);
        slice code = is_reason           ? exec_outcome_error_code(&outcome)
                     : i == EXEC_REASONS ? chosen
                                         : SLICE_NONE;
        size_t at = 0;
        while (at < count && !slice_eq(codes[at], code))
            at++;
        if (code.len > 0 && at == count)
            codes[count++] = code;
    }
    json_member_open(w, "codes", '[');
    for (size_t i = 0; i < count; i++)
        json_put_str(w, codes[i]);
    json_close(w, ']');
}

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
    if (action_id.ptr &&
        !(app && serve_known(&request->serve, catalog_find_action(app, action_id, NULL))))
        view_choice(w, action_id, action_id);
    for (size_t i = 0; app && app->actions && i < app->action_count; i++)
        if (serve_lists(&request->serve, &app->actions[i]))
            view_choice(w, app->actions[i].action_id, app->actions[i].title);
    json_close(w, ']');
    view_periods(w);
    write_codes(w, runs->list.values[CODE]);
    json_member_words(w, "states", SLICE(STATES));
}

/* If the catalog no longer has the app or the action, the ids are their names. */
void view_names(struct web_request *request, struct json_writer *w, slice app_id, slice action_id)
{
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, app_id, NULL);
    const struct catalog_action *action =
        serve_known(&request->serve, app ? catalog_find_action(app, action_id, NULL) : NULL);
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
    const struct execution *one = row->of;
    const struct uuid none = {{0}};
    json_open(w, '{');
    /* a flow's call has no page of its own */
    view_id_of(w, "execution_id", uuid_is_nil(one->flow_id) ? one->id : none);
    view_id_of(w, "flow_id", one->flow_id);
    json_member_str(w, "flow", one->flow_title);
    json_member_str(w, "step", one->step_key);
    json_member_str(w, "step_title", row->step_title);
    json_member_bool(w, "is_fan_out", one->is_fan_out);
    json_member_i64(w, "calls", one->calls);
    json_member_i64(w, "failed_calls", one->failed_calls);
    view_names(request, w, one->integration_id, one->action_id);
    json_member_str(w, "status", row->status);
    json_member_str(w, "code", row->code);
    json_member_str(w, "message", row->message);
    view_key(w, one->api_key_id, one->api_key_name);
    if (one->is_blocked)
        json_member_str(w, "took", SLICE_NONE);
    else
        view_took(request, w, "took", one->finished_at - one->started_at);
    view_time(w, "started_at", one->started_at);
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
    for (int i = APP; i <= Q; i++)
        json_member_str(w, filters[i].name, runs->list.values[i]);
    write_keys(request, w, runs);
    view_pager(request, w, runs->list.next);
    return web_reply_view(request, 200, "executions");
}

/* ---- reading ---- */

/* Whether the policy of the session's key lets it be shown: of a flow's call also the flow. */
static bool is_given(struct web_request *request, const struct execution *row)
{
    const struct catalog *catalog = *request->web->config.catalog;
    return serve_gives(&request->serve, catalog, row->integration_id, row->action_id) &&
           (uuid_is_nil(row->flow_id) ||
            serve_gives_tools(&request->serve, catalog, row->flow_tools));
}

/* Returns the query's status. */
static int add_rows(struct web_request *request, struct uuid *end)
{
    struct runs *runs = request->state;
    slice code = runs->list.values[CODE];
    struct execution *list;
    size_t count;
    int status = store_execution_list_result(&request->query, &list, &count, end);
    for (size_t i = 0; status == OK && i < count; i++) {
        struct row row = row_of(request, &list[i]);
        if (!is_given(request, &list[i]))
            continue;
        if ((!code.ptr || slice_eq(code, row.code)) && serve_list_take(&runs->list, list[i].id))
            write_row(request, &request->view, &row);
    }
    /* The scan read many rows and found few, so it is the last: this limits the cost of a page. */
    if (status == OK && !uuid_is_nil(*end) && count < runs->list.scan.count_max)
        runs->list.scans_left = 1;
    return status;
}

static web_step on_rows;

static enum op_result load_rows(struct web_request *request)
{
    struct runs *runs = request->state;
    struct pg_pool *pool = request->web->config.pool;
    struct uuid account_id = request->session.account_id;
    runs->filter.words = serve_list_words(&runs->list, Q, request->web->config.ring, account_id,
                                          &request->serve.op.arena);
    if (!runs->keys_query.stmt)
        store_api_key_list(pool, &runs->keys_query, &request->serve.op,
                           serve_payer(&request->serve));
    store_execution_list(pool, &request->query, &request->serve.op, account_id,
                         serve_list_scan(&runs->list), &runs->filter);
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
        status = add_rows(request, &end);
    if (status != OK)
        return web_reply_database(request, status);
    return serve_list_continues(&runs->list, end) ? load_rows(request) : reply_list(request);
}

/* Only runs that failed or were blocked have a code. */
static slice status_of(const struct serve_list *list)
{
    int choice = list->choices[STATUS];
    if (list->values[CODE].ptr && choice != BLOCKED && choice != EVERYTHING)
        return SLICE("failed");
    return choice == EVERYTHING ? SLICE_NONE : list->values[STATUS];
}

enum op_result web_executions(struct web_request *request)
{
    struct runs *runs = web_state_new(request, sizeof(*runs));
    if (!runs)
        return OP_DONE;
    if (!web_list_read(request, &runs->list, filters, ROWS_MAX))
        return OP_DONE;
    const slice *values = runs->list.values;
    int choice = runs->list.choices[STATUS];
    runs->filter = (struct execution_filter){
        .integration_id = values[APP],
        .action_id = values[ACTION],
        .status = status_of(&runs->list),
        .error_code = values[CODE],
        .parent_id = request->session.parent_id,
        .with_summary = true,
        .with_calls = !values[Q].ptr,
        .with_tools = request->serve.policy != NULL,
        .with_blocked = choice == BLOCKED || choice == EVERYTHING,
    };
    (void)!uuid_parse(values[KEY], &runs->filter.api_key_id);
    view_period_narrow(&runs->list, PERIOD);
    runs->list.is_sieved = request->serve.policy || (runs->filter.with_blocked && values[CODE].ptr);
    runs->list.scans_left = SCANS_MAX;
    json_member_open(view_begin(request), "rows", '[');
    return load_rows(request);
}
