/*
 * The list of executions, newest first, over the API's: those that were tried, including calls of
 * flows, and those that were blocked. The filters are in the address.
 */
#include "base/clock.h"
#include "call/outcome.h"
#include "flow/template.h"
#include "serve/foresee.h"
#include "web/pages.h"

enum { ROWS_MAX = 25, KEYS_MAX = 100 /* keys offered by the filter */ };

#define STATES "succeeded failed blocked everything" /* the filter's words */
enum { APP, ACTION, STATUS, CODE, KEY, PERIOD, FROM, TO, Q, BEFORE };
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
    [BEFORE] = {.name = "before", .kind = SERVE_CURSOR}};

struct runs {
    struct serve_list list;
    struct json arguments;      /* of the endpoint */
    struct pg_query keys_query; /* for the choice of a key */
    struct api_key *keys;
    size_t key_count;
};

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

/* Returns the step's title in the present template; SLICE_NONE: it has none, or a policy hides it,
 * though not the version that the flow runs. */
static slice title_of_step(struct web_request *request, const struct json *flow)
{
    slice key = json_get_str(flow, SLICE("templateKey"));
    const struct flow_template *tmpl =
        web_gives_flow(request, key) ? flow_template_set_find(*request->web->config.templates, key)
                                     : NULL;
    for (size_t i = 0; tmpl && i < tmpl->step_count; i++)
        if (slice_eq(tmpl->steps[i].key, json_get_str(flow, SLICE("stepKey"))))
            return tmpl->steps[i].label;
    return SLICE_NONE;
}

/* A flow's call has no page of its own. That of a blocked run is at the id of its event. A run has
 * the message of its failure, or the sentence of its display. */
static void write_row(struct web_request *request, struct json_writer *w, const struct json *row)
{
    const struct json *flow = JSON_GET(row, "flow"), *key = JSON_GET(row, "api_key");
    const struct json *event = JSON_GET(row, "event_id"), *message = JSON_GET(row, "message");
    json_open(w, '{');
    json_member(w, "execution_id", event ? event : JSON_GET(row, "execution_id"));
    json_member(w, "flow_id", JSON_GET(flow, "id"));
    json_member(w, "flow", JSON_GET(flow, "title"));
    json_member(w, "step", JSON_GET(flow, "stepKey"));
    json_member_str(w, "step_title", title_of_step(request, flow));
    json_member_bool(w, "is_fan_out", JSON_GET(flow, "calls") != NULL);
    json_member_i64(w, "calls", json_get_i64(flow, SLICE("calls"), 0));
    json_member_i64(w, "failed_calls", json_get_i64(flow, SLICE("failedCalls"), 0));
    view_names(request, w, json_get_str(row, SLICE("integration_id")),
               json_get_str(row, SLICE("action_id")));
    json_member(w, "status", JSON_GET(row, "status"));
    json_member(w, "code", JSON_GET(row, "error_code"));
    json_member(w, "message", message ? message : JSON_GET(JSON_GET(row, "display"), "summary"));
    json_member(w, "key_id", JSON_GET(key, "id"));
    json_member(w, "key_name", JSON_GET(key, "name"));
    if (event)
        json_member_str(w, "took", SLICE_NONE);
    else
        view_took(request, w, "took", json_get_i64(row, SLICE("duration_ms"), 0) * 1000);
    json_member(w, "started_at", JSON_GET(row, "started_at"));
    json_close(w, '}');
}

/* Writes the keys that are not revoked, and the chosen one. */
static void write_keys(struct web_request *request, struct json_writer *w, const struct runs *runs)
{
    struct uuid chosen = {{0}};
    (void)!uuid_parse(runs->list.values[KEY], &chosen);
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

static enum op_result reply_list(struct web_request *request, unsigned status,
                                 const struct json *reply)
{
    struct runs *runs = request->state;
    const struct json *rows = JSON_GET(reply, "executions");
    struct uuid next = {{0}};
    if (status != 200)
        return web_reply_refused(request, status, reply);
    int read = store_api_key_list_result(&runs->keys_query, &runs->keys, &runs->key_count);
    if (read != OK)
        return web_reply_database(request, read);
    struct json_writer *w = view_begin(request);
    json_member_open(w, "rows", '[');
    for (uint32_t i = 0; i < rows->count; i++)
        write_row(request, w, &rows->as.items[i]);
    json_close(w, ']');
    write_choices(request, w);
    for (int i = APP; i <= Q; i++)
        json_member_str(w, filters[i].name, runs->list.values[i]);
    write_keys(request, w, runs);
    (void)!uuid_parse(json_get_str(reply, SLICE("next_cursor")), &next);
    view_pager(request, w, next);
    return web_reply_view(request, 200, "executions");
}

/* ---- asking ---- */

/* Of the page's times, the endpoint gets the range in which all of them are. */
static struct json time_of(struct web_request *request, struct uuid floor)
{
    char text[TIME_TEXT_LEN + 1];
    if (uuid_is_nil(floor))
        return json_null;
    time_format(uuid_v7_wall_ms(floor) * 1000, text);
    return json_string(arena_dup(&request->serve.op.arena, slice_of(text, TIME_TEXT_LEN)));
}

enum op_result web_executions(struct web_request *request)
{
    static const char *const names[] = {
        [APP] = "integration_id", [ACTION] = "action_id", [STATUS] = "status",
        [CODE] = "error_code",    [KEY] = "key_id",       [Q] = "q",
        [BEFORE] = "cursor"};
    struct runs *runs = web_state_new(request, sizeof(*runs));
    struct arena *arena = &request->serve.op.arena;
    if (!runs)
        return OP_DONE;
    if (!web_list_read(request, &runs->list, filters, ROWS_MAX))
        return OP_DONE;
    view_period_narrow(&runs->list, PERIOD);
    struct json *arguments = &runs->arguments;
    *arguments = json_object();
    json_object_set(arena, arguments, SLICE("limit"), json_i64(ROWS_MAX));
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (names[i] && runs->list.values[i].ptr)
            json_object_set(arena, arguments, slice_cstr(names[i]),
                            json_string(runs->list.values[i]));
    json_object_set(arena, arguments, SLICE("since"), time_of(request, runs->list.page.since));
    json_object_set(arena, arguments, SLICE("until"), time_of(request, runs->list.until));
    json_object_set(arena, arguments, SLICE("display"), json_bool(true));
    json_object_set(arena, arguments, SLICE("flow_calls"), json_bool(true));
    store_api_key_list(request->web->config.pool, &runs->keys_query, &request->serve.op,
                       serve_payer(&request->serve));
    return web_ask(request, &api_executions_list, arguments, reply_list);
}
