/*
 * POST /api/executions and GET /api/executions/{id} (src/api/README.md "Executions").
 */
#include "api/envelope.h"
#include "api/request.h"
#include "exec/fit.h"
#include "json/number.h"

/* A positive integer, the highest where it is above any; 0 where it is absent. */
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
            "max_output_bytes", "max_pages"},
    .other = {{"confirmed", "confirm"},
              {"arguments", "input"},
              {"connectionId", ONLY_TOOLS},
              {"files", ONLY_TOOLS}},
};
/* The tool endpoint takes dry_run in the query. Here it would be ignored, and what was meant as a
 * dry run would be a run: it is refused. */
const struct api_names api_execution_query = {
    .other = {{"dry_run", "the member dry_run of the body"}}};

/* Texts are borrowed from the body, which lives as long as the request's op. */
slice api_execution_read(struct api_request *request, const struct json *body,
                         struct exec_request *wanted)
{
    const struct json *confirm = JSON_GET(body, "confirm"), *dry_run = JSON_GET(body, "dry_run");
    const struct json *input = JSON_GET(body, "input"), *key = JSON_GET(body, "idempotency_key");
    int64_t output_bytes_max, pages_max;
    slice integration_id = json_get_str(body, SLICE("integration_id"));
    slice action_id = json_get_str(body, SLICE("action_id"));
    if (integration_id.len == 0 || action_id.len == 0 || !json_is(input, JSON_OBJECT))
        return SLICE("integration_id, action_id and an object input are required");
    if (!is_flag(confirm))
        return api_sentence(request, "confirm must be true or false, got %s",
                            json_type_name(confirm));
    if (!is_flag(dry_run))
        return api_sentence(request, "dry_run must be true or false, got %s",
                            json_type_name(dry_run));
    if (key && key->type != JSON_STRING && key->type != JSON_NULL)
        return api_sentence(request, "idempotency_key must be a string, got %s",
                            json_type_name(key));
    if (!is_limit(JSON_GET(body, "max_output_bytes"), &output_bytes_max))
        return SLICE("max_output_bytes must be a positive integer");
    if (!is_limit(JSON_GET(body, "max_pages"), &pages_max))
        return SLICE("max_pages must be a positive integer");
    *wanted = (struct exec_request){
        .account_id = request->grant.account_id,
        .actor = api_actor(request),
        .request_id = request->exchange->request_id,
        .address = api_client_address(request),
        .integration_id = integration_id,
        .action_id = action_id,
        .input = input,
        .is_confirmed = json_get_bool(body, SLICE("confirm"), false),
        .is_dry_run = json_get_bool(body, SLICE("dry_run"), false),
        .idempotency_key = json_str(key),
        .output_bytes_max = (uint64_t)output_bytes_max,
        .pages_max = pages_max > CATALOG_PAGES_MAX ? CATALOG_PAGES_MAX : (unsigned)pages_max,
    };
    return wanted->idempotency_key.ptr ? api_key_fault(wanted->idempotency_key) : SLICE_NONE;
}

/* The key of the body, or of the header. SLICE_NONE: they go together. */
static slice read_header_key(struct api_request *request, struct exec_request *wanted)
{
    slice header, fault = api_key_header(request, &header);
    if (fault.ptr || !header.ptr)
        return fault;
    if (wanted->idempotency_key.ptr && !slice_eq(wanted->idempotency_key, header))
        return SLICE("idempotency_key and the header Idempotency-Key differ");
    wanted->idempotency_key = header;
    return SLICE_NONE;
}

static enum op_result begin_create(struct api_request *request)
{
    struct exec_request wanted;
    slice problem = api_execution_read(request, request->body, &wanted);
    if (!problem.ptr)
        problem = read_header_key(request, &wanted);
    if (problem.ptr)
        return api_reply_error(request, 400, "%.*s", SLICE_ARG(problem));
    request->state = exec_start(request->api->config.exec, &wanted, &request->op);
    return request->state ? OP_WAIT : api_reply_database(request, ERR_BUSY);
}

static enum op_result finish_create(struct api_request *request)
{
    struct exec *exec = request->state;
    ASSERT(exec);
    const struct exec_outcome *out = exec_outcome_of(exec);
    slice summary = exec_summary_of(exec);
    if (api_reply_guard(request, out))
        return OP_DONE;
    if (summary.len == 0)
        return api_reply_error(request, 500, "Internal error");
    /* the summary lies in the execution's memory, which a slow client may need for longer */
    return api_reply_from(request, api_verdict_of(out->reason)->http_status, summary,
                          exec_op_of(exec));
}

/* Not a cancel: what a provider may have seen is recorded (exec/exec.h). */
static void gone_create(struct api_request *request)
{
    if (request->state)
        exec_client_gone(request->state);
}

const struct api_endpoint api_executions_create = {
    .route = "/api/executions",
    .scope = SCOPE_EXECUTE,
    .body = API_BODY_REQUIRED,
    .query = &api_execution_query,
    .members = &api_execution_members,
    .begin = begin_create,
    .finish = finish_create,
    .on_gone = gone_create,
};

/* ---- GET /api/executions/{id} ---- */

static enum op_result reply_unknown(struct api_request *request)
{
    return api_reply_error(request, 404, "Execution not found");
}

/* What of the output is wanted: ?pointer= &offset= &max_output_bytes= (exec/fit.h). */
struct get {
    struct exec_fit wanted;
    struct exec_stored_read stored;
    slice summary;
    int status;
    bool is_row_read, is_found;
};

static enum op_result begin_execution_get(struct api_request *request)
{
    struct get *get = ARENA_NEW(&request->op.arena, struct get);
    struct uuid id;
    uint64_t bytes_max;
    if (!uuid_parse(request->match.params[0], &id))
        return reply_unknown(request);
    if (!get)
        return api_reply_database(request, ERR_BUSY);
    if (!api_query_positive(request, "max_output_bytes", 0, INT64_MAX, &bytes_max) ||
        !api_query_count(request, "offset", 0, UINT32_MAX, &get->wanted.offset))
        return OP_DONE;
    get->wanted.execution_id = id;
    get->wanted.bytes_max = bytes_max;
    get->wanted.pointer = api_query_text(request, "pointer");
    request->state = get;
    store_execution_get(request->api->config.pool, &request->query, &request->op,
                        request->grant.account_id, id);
    return OP_WAIT;
}

/* The row has its summary, or none because it is large: then a read of its own follows
 * (exec/stored.h), which is why finish_execution_get runs twice. */
static enum op_result take_row(struct api_request *request, struct get *get)
{
    struct execution execution;
    ASSERT(!get->is_row_read);
    get->status = store_execution_get_result(&request->query, &execution);
    get->is_row_read = true;
    if (get->status != OK)
        return OP_NEXT;
    get->is_found = true;
    get->summary = execution.summary;
    if (get->summary.ptr) {
        get->status =
            exec_fit_summary(get->summary, &get->wanted, &request->op.arena, &get->summary, NULL);
        return OP_NEXT;
    }
    exec_stored_begin(exec_service_stored(request->api->config.exec), &get->stored, &request->op,
                      request->grant.account_id, &get->wanted, execution.summary_bytes);
    return OP_WAIT;
}

static void take_stored(struct get *get)
{
    ASSERT(get->is_row_read && !get->stored.op);
    get->status = get->stored.status;
    get->is_found = get->stored.is_found;
    get->summary = get->stored.summary;
}

static enum op_result finish_execution_get(struct api_request *request)
{
    struct get *get = request->state;
    ASSERT(get);
    if (get->is_row_read)
        take_stored(get);
    else if (take_row(request, get) == OP_WAIT)
        return OP_WAIT;
    if (get->status == ERR_NOTFOUND && !get->is_found)
        return reply_unknown(request);
    if (get->status == ERR_NOTFOUND) /* the execution is there; the pointer leads nowhere */
        return api_reply_error(request, 404, "The output of this execution has nothing at \"%.*s\"",
                               SLICE_ARG(json_excerpt(get->wanted.pointer, &request->op.arena)));
    if (get->status != OK)
        return api_reply_database(request, get->status == ERR_NOMEM ? ERR_BUSY : get->status);
    return api_reply(request, 200, get->summary);
}

static void gone_get(struct api_request *request)
{
    struct get *get = request->state;
    if (get)
        exec_stored_cancel(&get->stored);
    op_cancel(&request->op);
}

const struct api_endpoint api_executions_get = {
    .route = "/api/executions/{id}",
    .scope = SCOPE_READ,
    .query = &(const struct api_names){.own = {"pointer", "offset", "max_output_bytes"}},
    .begin = begin_execution_get,
    .finish = finish_execution_get,
    .on_gone = gone_get,
};
