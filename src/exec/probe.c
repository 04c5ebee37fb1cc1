/*
 * The test request; see probe.h. It is built and read as an action's is, so that the manifest's
 * error rules and its headers hold here, too.
 */
#include "exec/probe.h"

#include "exec/reply.h"

enum {
    PROBE_ARENA_BYTES_MAX = 8 * 1024 * 1024,
    PROBE_REPLY_BYTES_MAX = 1024 * 1024,
    PROBE_MS = 15 * 1000,
};

enum step { STEP_BEGIN, STEP_TOKEN, STEP_ASK, STEP_READ };

static struct exec_probe *probe_of(struct op *op)
{
    return CONTAINER_OF(op, struct exec_probe, op);
}

static enum op_result stop(struct exec_probe *probe, enum exec_probe_verdict verdict, slice message)
{
    probe->verdict = verdict;
    probe->message = message;
    return OP_DONE;
}

static uint64_t deadline_ns(const struct exec_probe *probe)
{
    return loop_now_ns(probe->op.loop) + PROBE_MS * 1000000ULL;
}

/* ---- a token first ---- */

static enum op_result ask_for_token(struct exec_probe *probe)
{
    const struct oauth_ask ask = {
        .auth = &probe->integration->auth,
        .grant = OAUTH_GRANT_CLIENT,
        .client_id = json_get_str(probe->credential, SLICE("client_id")),
        .client_secret = json_get_str(probe->credential, SLICE("client_secret")),
    };
    probe->call =
        (struct http_call){.tenant = probe->in.account_id, .deadline_ns = deadline_ns(probe)};
    if (oauth_request_make(&ask, &probe->token_request, &probe->call) == OK &&
        http_call_start(probe->http, &probe->call, &probe->op) == OK)
        return OP_WAIT;
    return stop(probe, EXEC_PROBE_REFUSED, SLICE("The request for a token cannot be made of it."));
}

static enum op_result step_begin(struct op *op)
{
    struct exec_probe *probe = probe_of(op);
    if (!probe->integration)
        return stop(probe, EXEC_PROBE_REFUSED, SLICE("There is no such app any more."));
    probe->credential = json_parse(&op->arena, probe->in.credential, &json_limits_request, NULL);
    if (!probe->credential)
        return stop(probe, EXEC_PROBE_REFUSED, SLICE("The credential is not readable."));
    bool has_token = json_get_str(probe->credential, SLICE("access_token")).len > 0;
    if (probe->integration->auth.kind == AUTH_OAUTH2_CLIENT_CREDENTIALS && !has_token)
        return ask_for_token(probe);
    op_goto(op, STEP_ASK);
    return OP_NEXT;
}

static enum op_result step_token(struct op *op)
{
    struct exec_probe *probe = probe_of(op);
    struct oauth_reply reply;
    struct json *credential = ARENA_NEW(&op->arena, struct json);
    oauth_request_deinit(&probe->token_request);
    oauth_reply_read(&probe->call, &op->arena, &reply);
    if (reply.verdict == OAUTH_GRANTED && credential) {
        *credential = json_object();
        json_object_set(&op->arena, credential, SLICE("access_token"),
                        json_string(reply.access_token));
        probe->credential = credential;
        return OP_NEXT;
    }
    bool is_outage = reply.verdict == OAUTH_OUTAGE || reply.verdict == OAUTH_TIMEOUT;
    return stop(probe, is_outage ? EXEC_PROBE_OUTAGE : EXEC_PROBE_REFUSED,
                arena_printf(&op->arena, "%.*s gave no token: %.*s.",
                             SLICE_ARG(probe->integration->name), SLICE_ARG(reply.message)));
}

/* ---- the request ---- */

static bool make_query(struct exec_probe *probe, struct err *err)
{
    const struct json *query = probe->integration->auth.test_query;
    struct arena *arena = &probe->op.arena;
    struct catalog_parts *parts = &probe->action.request.query;
    if (!json_is(query, JSON_OBJECT))
        return true;
    parts->items = ARENA_ARRAY(arena, struct catalog_part, query->count + 1);
    for (uint32_t i = 0; parts->items && i < query->count; i++) {
        struct expr_template *value =
            expr_template_compile(arena, &query->as.members[i].value, err);
        if (!value)
            return false;
        parts->items[parts->count++] =
            (struct catalog_part){json_str(&query->as.members[i].key), value};
    }
    return parts->items != NULL;
}

static bool make_action(struct exec_probe *probe, struct err *err)
{
    const struct catalog_auth *auth = &probe->integration->auth;
    probe->action = (struct catalog_action){
        .integration = probe->integration,
        .action_id = SLICE("test"),
        .level = LEVEL_READ,
        .is_idempotent = true,
        .request = {.method = auth->test_method.len ? auth->test_method : SLICE("GET"),
                    .path = expr_template_compile_text(&probe->op.arena, auth->test_path, err)},
        .output = auth->test_label,
        .reply = {.body = auth->test_label ? REPLY_JSON : REPLY_ANY},
    };
    return probe->action.request.path && make_query(probe, err);
}

static enum op_result step_ask(struct op *op)
{
    struct exec_probe *probe = probe_of(op);
    struct err err = {0};
    if (probe->integration->auth.test_path.len == 0)
        return stop(probe, EXEC_PROBE_UNTESTED,
                    arena_printf(&op->arena, "%.*s has no request that could test it.",
                                 SLICE_ARG(probe->integration->name)));
    probe->scope = (struct exec_scope){.connection_params = probe->in.params};
    if (!make_action(probe, &err) || exec_build(&probe->action, &probe->scope, probe->credential,
                                                &op->arena, &probe->built, &err) != OK)
        return stop(probe, EXEC_PROBE_REFUSED,
                    arena_printf(&op->arena, "The test request cannot be made: %s.", err.text));
    probe->call = (struct http_call){
        .tenant = probe->in.account_id,
        .method = probe->action.request.method,
        .url = probe->built.url,
        .headers = probe->built.headers,
        .header_count = probe->built.header_count,
        .is_idempotent = slice_eq_cstr(probe->action.request.method, "GET"),
        .deadline_ns = deadline_ns(probe),
        .response_bytes_max = PROBE_REPLY_BYTES_MAX,
    };
    if (http_call_start(probe->http, &probe->call, op) == OK)
        return OP_WAIT;
    return stop(probe, EXEC_PROBE_REFUSED,
                SLICE("The test request cannot be sent: what it is made of is not fit for it."));
}

/* ---- the reply ---- */

static bool is_outage(enum exec_reason reason)
{
    switch (reason) {
    case EXEC_PROVIDER_RATE_LIMITED:
    case EXEC_PROVIDER_ERROR:
    case EXEC_PROVIDER_UNSUPPORTED:
    case EXEC_TIMED_OUT:
    case EXEC_UNREACHABLE:
    case EXEC_BROKEN_OFF:
    case EXEC_REPLY_UNREADABLE:
    case EXEC_REPLY_TOO_LARGE:
    case EXEC_UNAVAILABLE:
    case EXEC_CANCELLED:
    case EXEC_INTERNAL:
        return true;
    default:
        return false;
    }
}

static enum op_result step_read(struct op *op)
{
    struct exec_probe *probe = probe_of(op);
    struct exec_outcome outcome = {.retry_after_ms = -1};
    exec_reply_read(&probe->action, &probe->call, &probe->scope, &probe->built, &op->arena,
                    &outcome);
    if (outcome.reason == EXEC_SUCCEEDED) {
        const struct json *label =
            json_parse(&op->arena, outcome.output_json, &json_limits_provider, NULL);
        slice text = probe->action.output ? json_str(label) : SLICE_NONE;
        probe->label = slice_first_utf8(text, EXEC_PROBE_LABEL_MAX);
        return stop(probe, EXEC_PROBE_WORKS, SLICE_NONE);
    }
    slice message = outcome.message.len > 0 ? outcome.message : SLICE("The app refused it.");
    return stop(probe, is_outage(outcome.reason) ? EXEC_PROBE_OUTAGE : EXEC_PROBE_REFUSED, message);
}

static void on_cancel(struct op *op)
{
    http_call_cancel(&probe_of(op)->call);
}

static void on_end(struct op *op, enum op_end end)
{
    struct exec_probe *probe = probe_of(op);
    (void)end;
    oauth_request_deinit(&probe->token_request);
    catalog_unref(probe->catalog);
    probe->catalog = NULL;
    probe->integration = NULL;
}

static const struct op_step steps[] = {
    [STEP_BEGIN] = {"begin", step_begin},
    [STEP_TOKEN] = {"token", step_token},
    [STEP_ASK] = {"ask", step_ask},
    [STEP_READ] = {"read", step_read},
};
static const struct op_class probe_class = {
    .name = "probe",
    .steps = steps,
    .step_count = ARRAY_LEN(steps),
    .on_cancel = on_cancel,
    .on_end = on_end,
};

void exec_probe_start(struct http_client *http, struct catalog *catalog, struct exec_probe *probe,
                      const struct exec_probe_request *request, struct op *parent)
{
    *probe = (struct exec_probe){
        .verdict = EXEC_PROBE_OUTAGE,
        .message = SLICE("This server is going down."),
        .http = http,
        .catalog = catalog_ref(catalog),
        .in = *request,
    };
    probe->integration = catalog_find_integration(catalog, request->integration_id);
    op_start(&probe->op, &probe_class, parent->loop, parent, PROBE_ARENA_BYTES_MAX);
}
