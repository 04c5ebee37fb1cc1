/*
 * GET /api/executions: executions, newest first, with filters. An item is the record without the
 * provider's data. GET /api/executions/{id} has the output, and the display unless `display`
 * requests it here. `flow_calls` adds the calls of flows, and two words of `status` list blocked
 * runs, from the audit trail. The database applies the filters, except the codes of blocked runs,
 * of which it knows the reasons.
 */
#include "api/listing.h"
#include "call/outcome.h"
#include "serve/stored.h"
#include "store/execution.h"

enum { INTEGRATION, ACTION, STATUS, CODE, KEY, SINCE, UNTIL, Q, CURSOR };
#define STATUSES "succeeded failed blocked everything"
enum { SUCCEEDED, FAILED, BLOCKED, EVERYTHING };

/* Reads `display` and `flow_calls`, which add to the list. Returns false if the request was
 * answered with 400. */
static bool read_additions(struct api_request *request, bool *display, bool *flow_calls)
{
    return api_query_bool(request, "display", display) &&
           api_query_bool(request, "flow_calls", flow_calls);
}

/* Only runs that failed or were blocked have a code. */
static slice status_of(const struct serve_list *list)
{
    int choice = list->choices[STATUS];
    if (list->values[CODE].ptr && choice < 0)
        return SLICE("failed");
    return choice == EVERYTHING ? SLICE_NONE : list->values[STATUS];
}

static void load_executions(struct api_request *request, struct serve_list *list)
{
    /* A user's own key reads no names of the account's keys. */
    const struct vault_grant *grant = &request->serve.grant;
    bool names_keys = !grant->is_of_user;
    struct execution_filter filter = {.integration_id = list->values[INTEGRATION],
                                      .action_id = list->values[ACTION],
                                      .status = status_of(list),
                                      .error_code = list->values[CODE],
                                      .parent_id = names_keys ? grant->parent_id
                                                              : (struct uuid){{0}},
                                      .with_blocked = list->choices[STATUS] >= BLOCKED};
    bool is_valid = read_additions(request, &filter.with_summary, &filter.with_calls);
    ASSERT(is_valid); /* begin_execution_list has checked them */
    filter.words = serve_list_words(list, Q, request->api->config.ring,
                                    request->serve.grant.account_id, &request->serve.op.arena);
    filter.with_calls &= !list->values[Q].ptr;
    filter.with_tools = request->serve.policy != NULL;
    (void)!uuid_parse(list->values[KEY], &filter.api_key_id);
    list->is_sieved = request->serve.policy || (filter.with_blocked && filter.error_code.ptr);
    store_execution_list(request->api->config.pool, &request->query, &request->serve.op,
                         request->serve.grant.account_id, serve_list_scan(list), &filter);
}

/* Whether the caller may see the run; of a call of a flow, whether it may see the flow, too. */
static bool gives_execution(struct api_request *request, struct serve_list *list, void *item)
{
    const struct execution *row = item;
    const struct catalog *catalog = *request->api->config.catalog;
    slice code = list->values[CODE];
    if (row->is_blocked && code.ptr && !slice_eq(exec_reason_code(row->error_code), code))
        return false;
    return serve_gives(&request->serve, catalog, row->integration_id, row->action_id) &&
           (uuid_is_nil(row->flow_id) ||
            serve_gives_tools(&request->serve, catalog, row->flow_tools));
}

static int read_executions(struct api_request *request, void **items, size_t *count,
                           struct uuid *next)
{
    struct execution *list;
    int status = store_execution_list_result(&request->query, &list, count, next);
    *items = list;
    return status;
}

/* Writes the reason of a failure, from a failed execution's summary or the error of a flow's call.
 * Neither has an output, so the text is short enough to parse. If parsing fails, the members are
 * null. The event of a blocked run has only the reason. */
static void put_failure(struct json_writer *w, const struct execution *execution,
                        const struct json *summary)
{
    bool is_call = !uuid_is_nil(execution->flow_id);
    json_member_str(w, "error_code",
                    execution->is_blocked
                        ? exec_reason_code(execution->error_code)
                        : json_get_str(summary, is_call ? SLICE("code") : SLICE("error_code")));
    json_member_str(w, "message", json_get_str(summary, SLICE("message")));
    if (JSON_GET(summary, "hint"))
        json_member_str(w, "hint", json_get_str(summary, SLICE("hint")));
}

/* Writes the caller, or null if the previous version wrote the row or another process has ended the
 * execution. */
static void put_caller(struct json_writer *w, const struct execution *execution)
{
    json_key(w, "api_key");
    if (uuid_is_nil(execution->api_key_id)) {
        json_put_null(w);
    } else {
        json_open(w, '{');
        json_member_uuid(w, "id", execution->api_key_id);
        json_member_str(w, "name", execution->api_key_name);
        json_close(w, '}');
    }
    json_key(w, "attempts");
    if (execution->attempts > 0)
        json_put_i64(w, execution->attempts);
    else
        json_put_null(w);
}

/* Writes the display, if the summary was loaded; large summaries are not. */
static void put_display(struct json_writer *w, const struct json *summary)
{
    const struct json *display = JSON_GET(summary, "display");
    if (!json_is(display, JSON_OBJECT))
        return;
    json_member_open(w, "display", '{');
    json_member_str(w, "title", json_get_str(display, SLICE("title")));
    json_member_str(w, "summary", json_get_str(display, SLICE("summary")));
    json_close(w, '}');
}

static void put_flow(struct json_writer *w, const struct execution *call)
{
    json_member_open(w, "flow", '{');
    json_member_uuid(w, "id", call->flow_id);
    json_member_str(w, "title", call->flow_title);
    json_member_str(w, "templateKey", call->template_key);
    json_member_str(w, "stepKey", call->step_key);
    if (call->is_fan_out) {
        json_member_i64(w, "calls", call->calls);
        json_member_i64(w, "failedCalls", call->failed_calls);
    }
    json_close(w, '}');
}

static void put_execution(struct json_writer *w, const void *item, slice user, struct arena *arena)
{
    const struct execution *execution = item;
    bool is_call = !uuid_is_nil(execution->flow_id);
    const struct json *summary = json_parse(arena, execution->summary, &json_limits_provider, NULL);
    slice connection_id = SLICE_NONE;
    int64_t took_us = execution->finished_at - execution->started_at;
    (void)user;
    if (execution->connection_id)
        connection_id = arena_printf(arena, "%lld", (long long)execution->connection_id);
    json_member_str(w, "status",
                    execution->is_blocked     ? SLICE("blocked")
                    : execution->is_succeeded ? SLICE("succeeded")
                                              : SLICE("failed"));
    if (is_call || execution->is_blocked)
        json_member_str(w, "execution_id", SLICE_NONE);
    else
        json_member_uuid(w, "execution_id", execution->id);
    if (execution->is_blocked)
        json_member_uuid(w, "event_id", execution->id);
    json_member_str(w, "integration_id", execution->integration_id);
    json_member_str(w, "action_id", execution->action_id);
    json_member_str(w, "connection_id", connection_id);
    json_member_time(w, "started_at", execution->started_at);
    json_member_time(w, "finished_at", execution->finished_at);
    json_member_i64(w, "duration_ms", took_us > 0 ? (took_us + 500) / 1000 : 0);
    put_caller(w, execution);
    if (is_call)
        put_flow(w, execution);
    if (!execution->is_succeeded)
        put_failure(w, execution, summary);
    else
        put_display(w, summary);
}

static const struct serve_filter filters[SERVE_FILTERS_MAX] = {
    [INTEGRATION] = {.name = "integration_id", SERVE_A_WORD},
    [ACTION] = {.name = "action_id", SERVE_A_WORD},
    [STATUS] = {.name = "status", .words = STATUSES},
    [CODE] = {.name = "error_code", SERVE_A_WORD},
    [KEY] = {.name = "key_id", .kind = SERVE_ID, .wanted = "the id of a key"},
    [SINCE] = {.name = "since", SERVE_A_SINCE},
    [UNTIL] = {.name = "until", SERVE_A_UNTIL},
    [Q] = {.name = "q", SERVE_A_SEARCH},
    [CURSOR] = LISTING_CURSOR};

static const struct listing_kind kind = {
    .filters = filters,
    .key = "executions",
    .ask = load_executions,
    .read = read_executions,
    .gives = gives_execution,
    .put = put_execution,
    .item = {.size = sizeof(struct execution), .id_at = offsetof(struct execution, id)},
};

static enum op_result begin_execution_list(struct api_request *request)
{
    bool display, flow_calls;
    return read_additions(request, &display, &flow_calls) ? listing_begin(request, &kind) : OP_DONE;
}

const struct api_endpoint api_executions_list = {
    .scope = SCOPE_READ,
    .query = &(const struct api_names){.own = {"limit", "cursor", "integration_id", "action_id",
                                               "status", "error_code", "key_id", "since", "until",
                                               "q", "display", "flow_calls"}},
    .begin = begin_execution_list,
};
