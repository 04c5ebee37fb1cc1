/*
 * POST /api/executions and GET /api/executions/{id} (INTERFACE.md 4.1, 4.2).
 */
#include "api/envelope.h"
#include "api/request.h"
#include "exec/fit.h"

enum { FIT_ON_LOOP_BYTES_MAX = 64 * 1024 };

struct create {
    struct exec exec;
};

/* A sentence, in the op's arena. */
static slice told(struct api_request *request, const char *fmt, ...) PRINTF_LIKE(2, 3);
static slice told(struct api_request *request, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    slice text = arena_vprintf(&request->op.arena, fmt, args);
    va_end(args);
    return text.ptr ? text : SLICE("Out of memory");
}

/* A positive integer; 0 where it is absent. */
static bool is_limit(const struct json *value, int64_t *limit)
{
    *limit = 0;
    return !value || value->type == JSON_NULL || (json_to_i64(value, limit) && *limit > 0);
}

static bool is_flag(const struct json *value)
{
    return !value || value->type == JSON_BOOL || value->type == JSON_NULL;
}

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
        return told(request, "confirm must be true or false, got %s", json_type_name(confirm));
    if (!is_flag(dry_run))
        return told(request, "dry_run must be true or false, got %s", json_type_name(dry_run));
    if (key && key->type != JSON_STRING && key->type != JSON_NULL)
        return told(request, "idempotency_key must be a string, got %s", json_type_name(key));
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
    if (wanted->idempotency_key.ptr && !api_key_is_acceptable(wanted->idempotency_key))
        return told(request, API_KEY_TEXT, IDEMPOTENCY_KEY_MAX);
    return SLICE_NONE;
}

/* The key of the body, or of the header. false: answered. */
static bool read_header_key(struct api_request *request, struct exec_request *wanted)
{
    slice header = http_request_header(request->exchange, SLICE("Idempotency-Key"));
    slice key = wanted->idempotency_key;
    if (key.ptr && header.ptr && !slice_eq(key, header)) {
        (void)api_reply_error(request, 400,
                              "idempotency_key and the header Idempotency-Key differ");
        return false;
    }
    if (!key.ptr)
        wanted->idempotency_key = header;
    return api_check_key(request, wanted->idempotency_key);
}

static enum op_result begin_create(struct api_request *request)
{
    struct exec_request wanted;
    slice problem = api_execution_read(request, request->body, &wanted);
    if (problem.ptr)
        return api_reply_error(request, 400, "%.*s", SLICE_ARG(problem));
    if (!read_header_key(request, &wanted))
        return OP_DONE;
    struct create *create = arena_alloc(&request->op.arena, sizeof(*create));
    if (!create)
        return api_reply_database(request, ERR_BUSY);
    request->state = create; /* cleared by exec_start */
    exec_start(request->api->config.exec, &create->exec, &wanted, &request->op);
    return OP_WAIT;
}

static enum op_result finish_create(struct api_request *request)
{
    const struct create *create = request->state;
    const struct exec_outcome *out = &create->exec.out;
    if (api_reply_guard(request, out))
        return OP_DONE;
    if (create->exec.summary_json.len == 0)
        return api_reply_error(request, 500, "Internal error");
    return api_reply(request, api_verdict_of(out->reason)->http_status, create->exec.summary_json);
}

static void gone_create(struct api_request *request)
{
    struct create *create = request->state;
    if (create)
        exec_client_gone(&create->exec);
}

const struct api_endpoint api_executions_create = {
    .route = "/api/executions",
    .scope = SCOPE_EXECUTE,
    .body = API_BODY_REQUIRED,
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
    struct op_job fitting;
    slice summary;
    int status;
    bool is_here;
};

static void fit_summary(struct op *op)
{
    struct api_request *request = CONTAINER_OF(op, struct api_request, op);
    struct get *get = request->state;
    get->status = exec_fit_summary(get->summary, &get->wanted, &op->arena, &get->summary, NULL);
}

static enum op_result begin_get(struct api_request *request)
{
    struct get *get = ARENA_NEW(&request->op.arena, struct get);
    struct uuid id;
    uint64_t bytes_max;
    if (!uuid_parse(request->match.params[0], &id))
        return reply_unknown(request);
    if (!get)
        return api_reply_database(request, ERR_BUSY);
    if (!api_query_limit(request, "max_output_bytes", &bytes_max) ||
        !api_query_count(request, "offset", 0, &get->wanted.offset))
        return OP_DONE;
    get->wanted.execution_id = id;
    get->wanted.bytes_max = bytes_max;
    get->wanted.pointer = api_query_text(request, "pointer");
    request->state = get;
    store_execution_get(request->api->config.pool, &request->query, &request->op,
                        request->grant.account_id, id);
    return OP_WAIT;
}

/* A parse of the whole is done on a pool thread where it is large. */
static enum op_result fit_stored(struct api_request *request, struct get *get)
{
    bool is_wanted = get->wanted.bytes_max > 0 || get->wanted.offset > 0 || get->wanted.pointer.ptr;
    get->is_here = true;
    if (is_wanted && get->summary.len > FIT_ON_LOOP_BYTES_MAX &&
        op_offload(&request->op, &get->fitting, fit_summary, "an output to be cut") == OK)
        return OP_WAIT;
    if (is_wanted)
        fit_summary(&request->op);
    return OP_NEXT;
}

static enum op_result finish_get(struct api_request *request)
{
    struct get *get = request->state;
    struct execution execution;
    if (!get->is_here) {
        int status = store_execution_get_result(&request->query, &execution);
        if (status == ERR_NOTFOUND)
            return reply_unknown(request);
        if (status != OK)
            return api_reply_database(request, status);
        get->summary = execution.summary;
        if (fit_stored(request, get) == OP_WAIT)
            return OP_WAIT;
    }
    if (get->status == ERR_NOTFOUND)
        return api_reply_error(request, 404, "The output of this execution has nothing at \"%.*s\"",
                               SLICE_ARG(get->wanted.pointer));
    if (get->status != OK)
        return api_reply_database(request, ERR_BUSY);
    return api_reply(request, 200, get->summary);
}

const struct api_endpoint api_executions_get = {
    .route = "/api/executions/{id}",
    .scope = SCOPE_READ,
    .begin = begin_get,
    .finish = finish_get,
};
