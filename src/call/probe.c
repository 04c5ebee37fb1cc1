/*
 * The test request and the identity request; see probe.h. They are built and read like an action's,
 * so that the manifest's error rules and headers apply here, too.
 *
 * At most three calls are made, in this order: for a token, the test, the identity. None is
 * repeated, and neither the limits of a connection nor circuits are consulted: a person waits and
 * can retry. PROBE_MS limits each call separately.
 */
#include "call/probe.h"

#include "base/encode.h"
#include "call/reply.h"

enum {
    PROBE_ARENA_BYTES_MAX = 16 * 1024 * 1024,
    PROBE_REPLY_BYTES_MAX = 1024 * 1024,
    PROBE_CLAIMS_BYTES_MAX = 64 * 1024,
    PROBE_MS = 15 * 1000,
};

enum step { STEP_BEGIN, STEP_TOKEN, STEP_TEST, STEP_TESTED, STEP_IDENTIFY, STEP_IDENTIFIED };

OP_OF(probe_of, call_probe)

static enum op_result stop_probe(struct call_probe *probe, enum call_probe_verdict verdict,
                                 slice message)
{
    probe->verdict = verdict;
    probe->message = message;
    return OP_DONE;
}

/* Ends the probe because a request cannot be made. status is the error; ERR_NOMEM does not concern
 * the credential. */
static enum op_result stop_unmade(struct call_probe *probe, int status, slice message)
{
    if (status == ERR_NOMEM || probe->op.arena.is_exhausted)
        return stop_probe(probe, CALL_PROBE_OUTAGE,
                          SLICE("This server is out of memory. Try again."));
    return stop_probe(probe, CALL_PROBE_REFUSED, message);
}

static uint64_t deadline_ns(const struct call_probe *probe)
{
    return loop_now_ns(probe->op.loop) + PROBE_MS * 1000000ULL;
}

/* ---- a token first ---- */

/* Requests a token with the stored secret. A refusal ends the test: the credential is wrong. */
static enum op_result ask_for_token(struct call_probe *probe)
{
    ASSERT(probe->auth->kind == AUTH_OAUTH2_CLIENT_CREDENTIALS);
    const struct oauth_ask ask = {
        .auth = probe->auth,
        .grant = OAUTH_GRANT_CLIENT,
        .client_id = json_get_str(probe->credential, SLICE("client_id")),
        .client_secret = json_get_str(probe->credential, SLICE("client_secret")),
        .token_url = oauth_url_make(probe->auth->token_url, probe->in.params, &probe->op.arena),
    };
    probe->call = (struct http_call){.tenant = probe->in.tenant, .deadline_ns = deadline_ns(probe)};
    int status = oauth_request_make(&ask, &probe->token_request, &probe->call);
    if (status == OK)
        status = http_call_start(probe->http, &probe->call, &probe->op);
    if (status == OK)
        return OP_WAIT;
    return stop_unmade(probe, status, SLICE("A token cannot be requested with this credential."));
}

/* With client credentials the test needs a token first. A stored connection may have one
 * already, which is then tested unchanged. */
static enum op_result step_begin(struct op *op)
{
    struct call_probe *probe = probe_of(op);
    if (!probe->integration)
        return stop_unmade(probe, probe->find_status, SLICE("The app is no longer available."));
    struct err err = {0};
    probe->credential = json_parse(&op->arena, probe->in.credential, &json_limits_request, &err);
    if (!probe->credential)
        return stop_unmade(probe, (int)err.code, SLICE("The credential cannot be read."));
    bool has_token = json_get_str(probe->credential, SLICE("access_token")).len > 0;
    if (probe->auth->kind == AUTH_OAUTH2_CLIENT_CREDENTIALS && !has_token)
        return ask_for_token(probe);
    return op_jump(op, STEP_TEST);
}

/* The token replaces the credential for the following requests and is not returned: the
 * connection gets its own token when it is first used (exec_needs_first_token). */
static enum op_result step_token(struct op *op)
{
    struct call_probe *probe = probe_of(op);
    struct oauth_reply reply;
    struct json *credential = ARENA_NEW(&op->arena, struct json);
    oauth_reply_read(probe->auth, &probe->token_request, &probe->call, &op->arena, &reply);
    oauth_request_deinit(&probe->token_request);
    if (reply.verdict == OAUTH_GRANTED && credential) {
        *credential = json_object();
        json_object_set(&op->arena, credential, SLICE("access_token"),
                        json_string(reply.access_token));
        probe->credential = credential;
        return OP_NEXT;
    }
    slice message = arena_printf(&op->arena, "%.*s issued no token: %.*s.",
                                 SLICE_ARG(probe->integration->name), SLICE_ARG(reply.message));
    if (op->arena.is_exhausted)
        return stop_unmade(probe, ERR_NOMEM, message);
    bool is_outage = reply.verdict == OAUTH_OUTAGE || reply.verdict == OAUTH_TIMEOUT;
    return stop_probe(probe, is_outage ? CALL_PROBE_OUTAGE : CALL_PROBE_REFUSED, message);
}

/* ---- a request ---- */

static bool make_query(struct call_probe *probe, struct err *err)
{
    const struct json *query = probe->auth->test_query;
    struct arena *arena = &probe->op.arena;
    struct catalog_pairs *pairs = &probe->action.request.query;
    if (!json_is(query, JSON_OBJECT))
        return true;
    pairs->items = ARENA_ARRAY(arena, struct catalog_pair, query->count + 1);
    for (uint32_t i = 0; pairs->items && i < query->count; i++) {
        struct expr_template *value =
            expr_template_compile(arena, &query->as.members[i].value, err);
        if (!value)
            return false;
        pairs->items[pairs->count++] =
            (struct catalog_pair){json_str(&query->as.members[i].key), value};
    }
    return pairs->items != NULL;
}

/* The body's kind matters only if a value is read from it: a test endpoint may answer with 204
 * or a text. */
static bool make_test(struct call_probe *probe, struct err *err)
{
    const struct catalog_auth *auth = probe->auth;
    bool is_identity = probe->integration->identity.from == IDENTITY_TEST;
    probe->action.request = (struct catalog_request){
        .method = auth->test_method.len ? auth->test_method : SLICE("GET"),
        .path = expr_template_compile_text(&probe->op.arena, auth->test_path, err),
    };
    probe->action.output = is_identity ? probe->integration->identity.output : auth->test_label;
    probe->action.reply.body = probe->action.output ? REPLY_JSON : REPLY_ANY;
    return probe->action.request.path && make_query(probe, err);
}

/* Sends probe->action. Returns false, with the reason in err, if the request cannot be built. */
static bool send_action(struct call_probe *probe, struct err *err)
{
    ASSERT(probe->credential && probe->action.integration);
    const struct call_scope scope = {.connection_params = probe->in.params, .auth = probe->auth};
    slice method = probe->action.request.method;
    probe->scope = scope;
    if (call_build(&probe->action, &probe->scope, probe->credential, &probe->op.arena,
                   &probe->built, err) != OK)
        return false;
    probe->call = (struct http_call){
        .tenant = probe->in.tenant,
        .method = method,
        .url = probe->built.url,
        .is_host_given = probe->built.is_host_given || probe->integration->is_host_given,
        .headers = probe->built.headers,
        .header_count = probe->built.header_count,
        .body_parts = probe->built.body,
        .body_part_count = probe->built.body_count,
        .is_idempotent = slice_eq_cstr(method, "GET"),
        .deadline_ns = deadline_ns(probe),
        .response_bytes_max = PROBE_REPLY_BYTES_MAX,
    };
    int status = http_call_start(probe->http, &probe->call, &probe->op);
    if (status != OK)
        (void)err_set(err, status == ERR_NOMEM ? ERR_NOMEM : ERR_INVALID,
                      "the values in it do not fit");
    return status == OK;
}

static void begin_action(struct call_probe *probe)
{
    probe->action = (struct catalog_action){
        .integration = probe->integration,
        .action_id = SLICE("test"),
        .level = LEVEL_READ,
        .is_idempotent = true,
    };
}

/* UNTESTED is set before the identity request, so that a failure there does not change it. A new
 * grant was issued by the app a moment ago, so a test would add nothing. */
static enum op_result step_test(struct op *op)
{
    struct call_probe *probe = probe_of(op);
    struct err err = {0};
    bool is_untested = probe->auth->test_path.len == 0;
    if (is_untested || probe->in.is_identity_only) {
        (void)stop_probe(probe, CALL_PROBE_UNTESTED,
                         arena_printf(&op->arena, "%.*s has no request that tests a connection.",
                                      SLICE_ARG(probe->integration->name)));
        return op_jump(op, STEP_IDENTIFY);
    }
    begin_action(probe);
    if (make_test(probe, &err) && send_action(probe, &err))
        return OP_WAIT;
    return stop_unmade(probe, (int)err.code,
                       arena_printf(&op->arena, "The test request cannot be made: %s.", err.text));
}

/* ---- a reply ---- */

/* Reasons that do not concern the credential. All others refuse it, including reasons that are
 * added later, so that an unknown failure is not retried forever as an outage. */
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

/* Returns a string, or the digits of a number; SLICE_NONE if the value is neither or too long. */
static slice identity_text(struct call_probe *probe, const struct json *value,
                           size_t characters_max)
{
    struct secret_mask secrets = {.count = 0};
    slice text = json_str(value);
    if (value && (value->type == JSON_INT || value->type == JSON_UINT))
        text = json_text_of(value, &probe->op.arena, CALL_PROBE_LABEL_MAX);
    /* The credential's secrets are masked here, too, because no call has been built if the identity
     * comes from an ID token. */
    call_mask_credential(probe->credential, &secrets);
    text = slice_trim(secret_mask_text(&secrets, text, &probe->op.arena));
    return slice_is_name(text, characters_max) ? text : SLICE_NONE;
}

/* An identity without address, subject and label does not fail the probe; identity_message says
 * that it is unknown. */
static void read_identity(struct call_probe *probe, const struct json *found)
{
    struct connection_identity *identity = &probe->identity;
    slice email = identity_text(probe, JSON_GET(found, "email"), CONNECTION_EMAIL_MAX);
    identity->email = slice_find_char(email, '@') > 0 ? email : SLICE_NONE;
    identity->subject = identity_text(probe, JSON_GET(found, "subject"), CONNECTION_SUBJECT_MAX);
    identity->label = identity_text(probe, JSON_GET(found, "label"), CONNECTION_IDENTITY_LABEL_MAX);
    if (connection_identity_is_known(identity)) {
        probe->label = connection_identity_text(identity);
        probe->identity_message = SLICE_NONE;
        return;
    }
    *identity = (struct connection_identity){.label = SLICE_NONE};
    probe->identity_message = arena_printf(&probe->op.arena, "%.*s did not say which login it is.",
                                           SLICE_ARG(probe->integration->name));
}

/* Returns the output that the action's expression makes of the reply; NULL if the call failed. */
static const struct json *output_of(struct call_probe *probe, const struct exec_outcome *outcome)
{
    if (!probe->action.output)
        return NULL;
    if (outcome->manifest_fault.len == 0)
        return json_parse(&probe->op.arena, outcome->output_json, &json_limits_provider, NULL);
    op_log(&probe->op, LOG_WARN, "a manifest's expression failed",
           LOG_STR("integration_id", probe->integration->integration_id),
           LOG_STR("cause", outcome->manifest_fault));
    return NULL;
}

static void read_probe_reply(struct call_probe *probe, struct exec_outcome *outcome)
{
    *outcome = (struct exec_outcome){.retry_after_ms = -1};
    call_reply_read(&probe->action, &probe->call, &probe->scope, &probe->built, &probe->op.arena,
                    outcome);
    if (outcome->reason != EXEC_SUCCEEDED && outcome->message.len == 0)
        outcome->message = SLICE("The app refused it.");
}

/* A refused credential ends the probe here: the identity request would be refused with it. If
 * the test's reply contains the identity as well, there is no second request. */
static enum op_result step_tested(struct op *op)
{
    struct call_probe *probe = probe_of(op);
    struct exec_outcome outcome;
    ASSERT(probe->built.url.len > 0);
    read_probe_reply(probe, &outcome);
    if (outcome.reason != EXEC_SUCCEEDED)
        return stop_probe(probe, is_outage(outcome.reason) ? CALL_PROBE_OUTAGE : CALL_PROBE_REFUSED,
                          outcome.message);
    (void)stop_probe(probe, CALL_PROBE_WORKS, SLICE_NONE);
    const struct json *output = output_of(probe, &outcome);
    if (probe->integration->identity.from == IDENTITY_TEST) {
        read_identity(probe, output);
        return OP_DONE;
    }
    probe->label = slice_first_utf8(json_str(output), CALL_PROBE_LABEL_MAX);
    return OP_NEXT;
}

/* ---- the identity ---- */

/* Reads the claims of the ID token. It came from the authorization server itself, over TLS, so
 * its signature need not be checked (OpenID Connect Core 3.1.3.7). */
static const struct json *read_claims(struct call_probe *probe)
{
    struct arena *arena = &probe->op.arena;
    slice rest = probe->in.id_token;
    struct buf text;
    struct json claims;
    struct err err;
    struct expr_budget budget;
    (void)slice_split(&rest, '.');
    slice payload = slice_split(&rest, '.');
    const struct json *parsed = NULL;
    buf_init(&text, PROBE_CLAIMS_BYTES_MAX);
    if (payload.len > 0 && decode_base64url(&text, payload) == OK && buf_is_ok(&text))
        parsed = json_parse(arena, buf_slice(&text), &json_limits_provider, NULL);
    buf_deinit(&text);
    if (!parsed)
        return NULL;
    struct json root = json_object(), *result = ARENA_NEW(arena, struct json);
    claims = *parsed;
    json_object_set(arena, &root, SLICE("claims"), claims);
    expr_budget_init(&budget);
    return result && expr_eval(probe->integration->identity.output, &root, &root, &budget, arena,
                               result, &err) == OK
               ? result
               : NULL;
}

static bool make_identity(struct call_probe *probe, struct err *err)
{
    const struct catalog_identity *identity = &probe->integration->identity;
    begin_action(probe);
    if (identity->from == IDENTITY_TEST)
        return make_test(probe, err);
    probe->action.request = identity->request;
    probe->action.output = identity->output;
    probe->action.reply.body = REPLY_JSON;
    return true;
}

/* With an ID token no request is sent. IDENTITY_TEST reaches this point only if the test was
 * skipped; otherwise step_tested has read the identity already. */
static enum op_result step_identify(struct op *op)
{
    struct call_probe *probe = probe_of(op);
    struct err err = {0};
    switch (probe->integration->identity.from) {
    case IDENTITY_NONE:
        probe->identity_message = arena_printf(&op->arena,
                                               "%.*s has no request that tells which login it is.",
                                               SLICE_ARG(probe->integration->name));
        return OP_DONE;
    case IDENTITY_ID_TOKEN:
        read_identity(probe, read_claims(probe));
        return OP_DONE;
    case IDENTITY_TEST:
    case IDENTITY_REQUEST:
        break;
    }
    if (make_identity(probe, &err) && send_action(probe, &err))
        return OP_WAIT;
    probe->identity_message = arena_printf(&op->arena,
                                           "%.*s cannot be asked which login it is: %s.",
                                           SLICE_ARG(probe->integration->name), err.text);
    probe->is_identity_outage = err.code == ERR_NOMEM || op->arena.is_exhausted;
    return OP_DONE;
}

/* The verdict of the test does not change: a failed identity request does not refuse a
 * credential. */
static enum op_result step_identified(struct op *op)
{
    struct call_probe *probe = probe_of(op);
    struct exec_outcome outcome;
    ASSERT(probe->verdict == CALL_PROBE_WORKS || probe->verdict == CALL_PROBE_UNTESTED);
    read_probe_reply(probe, &outcome);
    if (outcome.reason == EXEC_SUCCEEDED)
        read_identity(probe, output_of(probe, &outcome));
    else
        probe->identity_message = outcome.message;
    probe->is_identity_outage = is_outage(outcome.reason) || op->arena.is_exhausted;
    return OP_DONE;
}

static void on_cancel(struct op *op)
{
    http_call_cancel(&probe_of(op)->call);
}

static void on_end(struct op *op, enum op_end end)
{
    struct call_probe *probe = probe_of(op);
    (void)end;
    oauth_request_deinit(&probe->token_request);
    catalog_unref(probe->catalog);
    probe->catalog = NULL;
    probe->integration = NULL;
}

static const struct op_step steps[] = {
    [STEP_BEGIN] = {"begin", step_begin, OP_TO(STEP_TEST)},
    [STEP_TOKEN] = {"token", step_token, 0},
    [STEP_TEST] = {"test", step_test, OP_TO(STEP_IDENTIFY)},
    [STEP_TESTED] = {"tested", step_tested, 0},
    [STEP_IDENTIFY] = {"identify", step_identify, 0},
    [STEP_IDENTIFIED] = {"identified", step_identified, 0},
};
static const struct op_class probe_class = {
    .name = "probe",
    OP_STEPS(steps),
    .on_cancel = on_cancel,
    .on_end = on_end,
};

void call_probe_start(struct http_client *http, struct catalog *catalog, struct call_probe *probe,
                      const struct call_probe_request *request, struct op *parent)
{
    *probe = (struct call_probe){
        .verdict = CALL_PROBE_OUTAGE,
        .message = SLICE("This server is shutting down."),
        .http = http,
        .catalog = catalog_ref(catalog),
        .in = *request,
    };
    probe->identity_message = probe->message;
    probe->integration =
        catalog_find_integration(catalog, request->integration_id, &probe->find_status);
    if (probe->integration)
        probe->auth = catalog_auth_of(probe->integration, request->auth_kind);
    op_start(&probe->op, &probe_class, parent->loop, parent, PROBE_ARENA_BYTES_MAX);
}
