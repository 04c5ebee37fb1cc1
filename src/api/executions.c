/*
 * POST /api/executions and GET /api/executions/{id} (src/api/README.md "Executions").
 */
#include "api/envelope.h"
#include "api/request.h"
#include "call/fit.h"
#include "call/kept_input.h"
#include "call/view.h"
#include "json/number.h"
#include "serve/foresee.h"
#include "serve/stored.h"

/* A kept input, with escapes. */
enum { INPUT_BYTES_MAX = 8 * VAULT_PLAIN_MAX };

/* Whether value is a positive integer or absent. Sets *limit to the integer, clamped to the
 * maximum, or to 0 if it is absent. */
static bool is_limit(const struct json *value, int64_t *limit)
{
    struct json_decimal decimal;
    *limit = 0;
    if (!value || value->type == JSON_NULL)
        return true;
    if (!json_is_number(value) || !json_number_is_integer(value))
        return false;
    json_decimal_of(&decimal, value);
    if (!json_to_i64(value, limit) && !decimal.is_negative)
        *limit = INT64_MAX;
    return *limit > 0;
}

static bool is_flag(const struct json *value)
{
    return !value || value->type == JSON_BOOL || value->type == JSON_NULL;
}

#define ONLY_TOOLS "POST /api/tools/{tool_name}/execute"

const struct api_names api_execution_members = {
    .own = {"integration_id", "action_id", "input", "confirm", "idempotency_key", "dry_run",
            "shows", "max_output_bytes", "max_pages", "select"},
    .other = {{"confirmed", "confirm"},
              {"arguments", "input"},
              {"connectionId", ONLY_TOOLS},
              {"files", ONLY_TOOLS}},
};
/* Query parameters with these names are refused, not ignored: otherwise an intended dry run would
 * be a real run, and an idempotency key would have no effect. */
const struct api_names api_execution_query = {
    .other = {{"dry_run", "the member dry_run of the body"},
              {"idempotency_key", "the member idempotency_key of the body"},
              {"shows", "the member shows of the body"},
              {"confirm", "the member confirm of the body"},
              {"max_output_bytes", "the member max_output_bytes of the body"},
              {"max_pages", "the member max_pages of the body"},
              {"select", "the member select of the body"},
              {"connection_id", ONLY_TOOLS}}};

/* This compiles the action, so it is done only if a name is unknown. */
static slice find_misplaced(struct api_request *request, const struct api_names *names,
                            const struct json *body, slice integration_id, slice action_id)
{
    bool is_known = true;
    for (uint32_t i = 0; is_known && i < body->count; i++)
        is_known = api_names_has(names, json_str(&body->as.members[i].key));
    const struct catalog_integration *app =
        is_known ? NULL
                 : catalog_find_integration(*request->api->config.catalog, integration_id, NULL);
    const struct catalog_action *action =
        serve_known(&request->serve, app ? catalog_find_action(app, action_id, NULL) : NULL);
    return action ? api_misplaced_fault(request, names, body, action->input_schema) : SLICE_NONE;
}

/* Texts are borrowed from the body, which lives as long as the request's op. */
slice api_execution_read(struct api_request *request, const struct api_names *names,
                         const struct json *body, struct exec_request *wanted)
{
    const struct json *confirm = JSON_GET(body, "confirm"), *dry_run = JSON_GET(body, "dry_run");
    const struct json *shows = JSON_GET(body, "shows");
    const struct json *input = JSON_GET(body, "input"), *key = JSON_GET(body, "idempotency_key");
    int64_t output_bytes_max, pages_max;
    slice integration_id = json_get_str(body, SLICE("integration_id"));
    slice action_id = json_get_str(body, SLICE("action_id"));
    if (input && input->type != JSON_OBJECT && input->type != JSON_NULL)
        return api_sentence(request,
                            "integration_id, action_id and an object input are required: input "
                            "must be an object, got %s",
                            input->type == JSON_STRING ? "text" : json_type_name(input));
    if (integration_id.len == 0 || action_id.len == 0 || !json_is(input, JSON_OBJECT))
        return SLICE("integration_id, action_id and an object input are required");
    if (!is_flag(confirm))
        return api_sentence(request, "confirm must be true or false, got %s",
                            json_type_name(confirm));
    if (!is_flag(dry_run))
        return api_sentence(request, "dry_run must be true or false, got %s",
                            json_type_name(dry_run));
    if (!is_flag(shows))
        return api_sentence(request, "shows must be true or false, got %s", json_type_name(shows));
    if (json_get_bool(body, SLICE("shows"), false) && !json_get_bool(body, SLICE("dry_run"), false))
        return SLICE("shows is only for a dry run: dry_run must be true, too");
    if (key && key->type != JSON_STRING && key->type != JSON_NULL)
        return api_sentence(request, "idempotency_key must be a string, got %s",
                            json_type_name(key));
    if (!is_limit(JSON_GET(body, "max_output_bytes"), &output_bytes_max))
        return SLICE("max_output_bytes must be a positive integer");
    if (!is_limit(JSON_GET(body, "max_pages"), &pages_max))
        return SLICE("max_pages must be a positive integer");
    const struct json *select = json_given(body, SLICE("select"));
    if (select && select->type != JSON_STRING)
        return api_sentence(request, "select must be a string, got %s", json_type_name(select));
    slice fault = select ? call_select_fault(json_str(select), &request->serve.op.arena)
                         : SLICE_NONE;
    if (!fault.ptr)
        fault = find_misplaced(request, names, body, integration_id, action_id);
    if (fault.ptr)
        return fault;
    *wanted = (struct exec_request){
        .account_id = request->serve.grant.account_id,
        .by = serve_by(&request->serve),
        .scopes = request->serve.grant.scopes,
        .policy = request->serve.policy,
        .user = request->serve.user,
        .asker = request->serve.grant.line,
        .integration_id = integration_id,
        .action_id = action_id,
        .input = input,
        .is_confirmed = json_get_bool(body, SLICE("confirm"), false),
        .is_dry_run = json_get_bool(body, SLICE("dry_run"), false),
        .wants_shows = json_get_bool(body, SLICE("shows"), false),
        .idempotency_key = json_str(key),
        .output_bytes_max = (uint64_t)output_bytes_max,
        .select = json_str(select),
        .pages_max = pages_max > CATALOG_PAGES_MAX ? CATALOG_PAGES_MAX : (unsigned)pages_max,
    };
    return wanted->idempotency_key.ptr ? api_key_fault(wanted->idempotency_key) : SLICE_NONE;
}

enum op_result api_execution_reply(struct api_request *request)
{
    struct exec *exec = request->state;
    ASSERT(exec);
    const struct exec_outcome *out = exec_outcome_of(exec);
    slice summary = exec_summary_of(exec);
    if (api_reply_guard(request, out))
        return OP_DONE;
    if (summary.len == 0)
        return api_reply_error(request, 500, "Internal error");
    /* The summary is in the execution's memory, which a slow client may still need after the op has
     * ended. */
    return api_reply_from(request, api_verdict_of(out->reason)->http_status, summary,
                          exec_op_of(exec));
}

/* A run that may have reached a provider continues until it is recorded (exec/exec.h). */
static void gone_create(struct api_request *request)
{
    exec_client_gone(request->state);
}

enum op_result api_execution_wait(struct api_request *request, api_step *then)
{
    ASSERT(request->state);
    request->on_gone = gone_create;
    return api_wait_keyed(request, then);
}

static enum op_result begin_create(struct api_request *request)
{
    struct exec_request wanted;
    slice problem = api_execution_read(request, &api_execution_members, request->body, &wanted);
    if (!problem.ptr)
        problem = api_key_join(request, &wanted.idempotency_key);
    if (problem.ptr)
        return api_reply_error(request, 400, "%.*s", SLICE_ARG(problem));
    wanted.trace = api_trace(request);
    request->state = exec_start(request->api->config.exec, &wanted, &request->serve.op);
    return request->state ? api_execution_wait(request, api_execution_reply)
                          : api_reply_no_memory(request);
}

const struct api_endpoint api_executions_create = {
    .scope = SCOPE_EXECUTE,
    .body = API_BODY_REQUIRED,
    .query = &api_execution_query,
    .members = &api_execution_members,
    .begin = begin_create,
};

/* ---- GET /api/executions/{id} ---- */

static enum op_result reply_unknown(struct api_request *request)
{
    return api_reply_error(request, 404, "Execution not found");
}

/* A request for an execution, with the wanted part of the output: ?select= &pointer= &offset=
 * &max_output_bytes= (call/fit.h), and ?include=input. */
struct get {
    struct call_fit wanted;
    bool wants_view, wants_input;
    slice summary; /* while the input is read */
    struct exec_summary_read summary_read;
};

/* The summary is an object that the server has written itself: it is continued before its last
 * bracket. */
static enum op_result reply_with_input(struct api_request *request)
{
    const struct get *get = request->state;
    struct kept_input kept;
    struct json_text text;
    int status = kept_input_result(&request->query, request->api->config.ring,
                                   request->serve.grant.account_id, get->wanted.execution_id,
                                   &request->serve.op.arena, &kept);
    if (status != OK)
        return status == ERR_NOMEM ? api_reply_no_memory(request)
                                   : api_reply_database(request, status);
    struct json_writer *w = json_text_begin(&text, INPUT_BYTES_MAX);
    json_open(w, '{');
    json_member(w, "input", kept.input);
    if (!kept.input)
        json_member_str(w, "input_missing", kept.missing);
    json_close(w, '}');
    slice input = json_text_take(&text, &request->serve.op.arena);
    ASSERT(get->summary.len > 2 && get->summary.ptr[get->summary.len - 1] == '}');
    slice whole = input.ptr
                      ? arena_printf(&request->serve.op.arena, "%.*s,%.*s",
                                     SLICE_ARG(slice_first(get->summary, get->summary.len - 1)),
                                     SLICE_ARG(slice_from(input, 1)))
                      : SLICE_NONE;
    return whole.ptr ? api_reply(request, 200, whole) : api_reply_no_memory(request);
}

static enum op_result load_input(struct api_request *request, slice summary)
{
    struct get *get = request->state;
    get->summary = summary;
    store_execution_input_get(request->api->config.pool, &request->query, &request->serve.op,
                              request->serve.grant.account_id, get->wanted.execution_id);
    return api_wait(request, reply_with_input);
}

static enum op_result reply_fit(struct api_request *request, int status, bool is_found,
                                slice summary)
{
    const struct get *get = request->state;
    if (status == ERR_NOTFOUND && !is_found)
        return reply_unknown(request);
    if (status == ERR_NOTFOUND) /* the execution exists, but the pointer does not lead to a value */
        return api_reply_error(
            request, 404, "The output of this execution has no value at \"%.*s\"",
            SLICE_ARG(json_excerpt(get->wanted.pointer, &request->serve.op.arena)));
    if (status != OK)
        return status == ERR_NOMEM ? api_reply_no_memory(request)
                                   : api_reply_database(request, status);
    return get->wants_input ? load_input(request, summary) : api_reply(request, 200, summary);
}

static enum op_result reply_summary(struct api_request *request)
{
    const struct exec_summary_read *taken = &((const struct get *)request->state)->summary_read;
    ASSERT(!taken->op);
    return reply_fit(request, taken->status, taken->is_found, taken->summary);
}

/* Finds the view of the action that has run, in the present catalog. */
static void find_view(struct api_request *request, struct get *get, const struct execution *row)
{
    const struct catalog *catalog = *request->api->config.catalog;
    const struct catalog_integration *app =
        get->wanted.is_resource && !get->wanted.select.ptr
            ? catalog_find_integration(catalog, row->integration_id, NULL)
            : NULL;
    const struct catalog_action *action = app ? catalog_find_action(app, row->action_id, NULL)
                                              : NULL;
    if (!action || !action->view)
        return;
    if (get->wants_view)
        get->wanted.view = arena_dup(&request->serve.op.arena, expr_source(action->view));
    else
        get->wanted.is_full = true;
}

/* The row contains the summary, unless the summary is large; it is then read separately
 * (exec/summary_read.h). The caller's `select` expression is evaluated there, too, on a pool
 * thread. */
static enum op_result on_row(struct api_request *request)
{
    struct get *get = request->state;
    struct execution execution;
    slice summary = SLICE_NONE;
    int status = store_execution_get_result(&request->query, &execution);
    if (status != OK)
        return reply_fit(request, status, false, summary);
    if (!serve_gives(&request->serve, *request->api->config.catalog, execution.integration_id,
                     execution.action_id))
        return reply_unknown(request);
    find_view(request, get, &execution);
    if (execution.summary.ptr && !get->wanted.select.ptr) {
        status = call_fit_summary(execution.summary, &get->wanted, &request->serve.op.arena,
                                  &summary, NULL);
        return reply_fit(request, status, true, summary);
    }
    exec_summary_read_begin(exec_service_summaries(request->api->config.exec), &get->summary_read,
                            &request->serve.op, request->serve.grant.account_id,
                            serve_payer(&request->serve), &get->wanted, execution.summary_bytes);
    return api_wait(request, reply_summary);
}

static void gone_get(struct api_request *request)
{
    struct get *get = request->state;
    exec_summary_read_cancel(&get->summary_read);
    op_cancel(&request->serve.op);
}

static enum op_result begin_execution_get(struct api_request *request)
{
    struct get *get = request->state;
    struct uuid id;
    uint64_t bytes_max;
    if (!uuid_parse(request->serve.match.params[0], &id))
        return reply_unknown(request);
    if (!api_query_positive(request, "max_output_bytes", 0, INT64_MAX, &bytes_max) ||
        !api_query_count(request, "offset", 0, UINT32_MAX, &get->wanted.offset))
        return OP_DONE;
    slice include = api_query_text(request, "include");
    if (include.len > 0 && !slice_eq_cstr(include, "input"))
        return api_reply_error(request, 400, "include must be input");
    get->wants_input = include.len > 0;
    get->wanted.select = api_query_text(request, "select");
    slice fault = get->wanted.select.ptr
                      ? call_select_fault(get->wanted.select, &request->serve.op.arena)
                      : SLICE_NONE;
    if (fault.ptr)
        return api_reply_error(request, 400, "%.*s", SLICE_ARG(fault));
    get->wanted.execution_id = id;
    get->wanted.bytes_max = bytes_max;
    get->wanted.pointer = api_query_text(request, "pointer");
    get->wanted.is_resource = request->arguments != NULL;
    get->wants_view = !slice_eq_cstr(json_get_str(request->arguments, SLICE("view")), "full");
    request->on_gone = gone_get;
    store_execution_get(request->api->config.pool, &request->query, &request->serve.op,
                        request->serve.grant.account_id, id, request->serve.grant.account_id);
    return api_wait(request, on_row);
}

const struct api_endpoint api_executions_get = {
    .scope = SCOPE_READ,
    .query = &(const struct api_names){.own = {"pointer", "offset", "max_output_bytes", "select",
                                               "include"}},
    .begin = begin_execution_get,
    .state_bytes = sizeof(struct get),
};
