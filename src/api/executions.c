/*
 * POST /api/executions and GET /api/executions/{id} (INTERFACE.md 4.1, 4.2).
 */
#include "api/envelope.h"
#include "api/request.h"

struct create {
    struct exec exec;
    char actor[4 + UUID_TEXT_LEN + 1];
};

/* The key of the body, or of the header. false: answered. */
static bool read_key(struct api_request *request, slice *key)
{
    const struct json *member = JSON_GET(request->body, "idempotency_key");
    slice header = http_request_header(request->exchange, SLICE("Idempotency-Key"));
    *key = SLICE_NONE;
    if (member && member->type != JSON_NULL) {
        if (member->type != JSON_STRING) {
            (void)api_reply_error(request, 400, "idempotency_key must be a string, got %s",
                                  json_type_name(member));
            return false;
        }
        *key = json_str(member);
    }
    if (key->ptr && header.ptr && !slice_eq(*key, header)) {
        (void)api_reply_error(request, 400,
                              "idempotency_key and the header Idempotency-Key differ");
        return false;
    }
    if (!key->ptr && header.ptr)
        *key = header;
    return api_check_key(request, *key);
}

static enum op_result begin_create(struct api_request *request)
{
    const struct json *body = request->body, *confirm = JSON_GET(body, "confirm");
    const struct json *dry_run = JSON_GET(body, "dry_run");
    slice integration_id = json_get_str(body, SLICE("integration_id"));
    slice action_id = json_get_str(body, SLICE("action_id")), key;
    const struct json *input = JSON_GET(body, "input");
    if (integration_id.len == 0 || action_id.len == 0 || !json_is(input, JSON_OBJECT))
        return api_reply_error(request, 400,
                               "integration_id, action_id and an object input are required");
    if (confirm && confirm->type != JSON_BOOL && confirm->type != JSON_NULL)
        return api_reply_error(request, 400, "confirm must be true or false, got %s",
                               json_type_name(confirm));
    if (dry_run && dry_run->type != JSON_BOOL && dry_run->type != JSON_NULL)
        return api_reply_error(request, 400, "dry_run must be true or false, got %s",
                               json_type_name(dry_run));
    if (!read_key(request, &key))
        return OP_DONE;
    struct create *create = ARENA_NEW(&request->op.arena, struct create);
    if (!create)
        return api_reply_database(request, ERR_BUSY);
    memcpy(create->actor, "key:", 4);
    uuid_format(request->grant.key_id, create->actor + 4);
    request->state = create;
    struct exec_request wanted = {
        .account_id = request->grant.account_id,
        .actor = slice_cstr(create->actor),
        .request_id = request->exchange->request_id,
        .integration_id = integration_id,
        .action_id = action_id,
        .input = input,
        .is_confirmed = json_get_bool(body, SLICE("confirm"), false),
        .is_dry_run = json_get_bool(body, SLICE("dry_run"), false),
        .idempotency_key = key,
    };
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

static enum op_result begin_get(struct api_request *request)
{
    struct uuid id;
    if (!uuid_parse(request->match.params[0], &id))
        return reply_unknown(request);
    store_execution_get(request->api->config.pool, &request->query, &request->op,
                        request->grant.account_id, id);
    return OP_WAIT;
}

static enum op_result finish_get(struct api_request *request)
{
    struct execution execution;
    int status = store_execution_get_result(&request->query, &execution);
    if (status == ERR_NOTFOUND)
        return reply_unknown(request);
    if (status != OK)
        return api_reply_database(request, status);
    return api_reply(request, 200, execution.summary);
}

const struct api_endpoint api_executions_get = {
    .route = "/api/executions/{id}",
    .scope = SCOPE_READ,
    .begin = begin_get,
    .finish = finish_get,
};
