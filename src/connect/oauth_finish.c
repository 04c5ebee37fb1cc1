/*
 * Handles the redirect from an app's authorization server; see oauth.h.
 *
 * The statement that reads the state deletes it, before the answer is checked: a state is valid
 * once, whatever the answer is. Everything that can fail without the code is checked before the
 * code is sent, because a code is valid only once, too (RFC 6749 4.1.2).
 */
#include "base/clock.h"
#include "base/mem.h"
#include "connect/internal.h"
#include "connect/oauth.h"
#include "http/url.h"
#include "vault/key.h"

enum {
    FINISH_ARENA_BYTES_MAX = 4 * 1024 * 1024,
    ERROR_MAX = 64,
};

OP_OF(finish_of, oauth_finish)

static enum op_result stop_finish(struct oauth_finish *finish, enum oauth_outcome outcome,
                                  slice message)
{
    finish->outcome = outcome;
    finish->message = message;
    return OP_FAIL;
}

static enum op_result stop_finish_database(struct oauth_finish *finish)
{
    return stop_finish(finish, OAUTH_UNAVAILABLE, SLICE("The database cannot be reached."));
}

/* Returns the account whose OAuth client is used. */
static struct uuid payer_of(const struct oauth_finish *finish)
{
    return uuid_or(finish->in.parent_id, finish->in.account_id);
}

/* ---- the state ---- */

static enum op_result step_take(struct op *op)
{
    struct oauth_finish *finish = finish_of(op);
    uint8_t *session_hash = arena_alloc(&op->arena, OAUTH_HASH_LEN);
    if (!session_hash)
        return stop_finish(finish, OAUTH_UNAVAILABLE, SLICE("The server is out of memory."));
    vault_sha256(finish->in.state, finish->state_hash);
    vault_sha256(finish->in.session_id, session_hash);
    store_oauth_begun_take(finish->service->config.pool, &finish->query, op, finish->in.account_id,
                           finish->state_hash, session_hash);
    return OP_WAIT;
}

/* Returns the stored request; NULL if it cannot be opened (its master key was removed). */
static const struct json *open_pending(struct oauth_finish *finish, const struct oauth_begun *begun)
{
    struct vault_binding binding = oauth_begun_binding(finish->in.account_id, finish->state_hash);
    struct secret *pending;
    struct err err;
    if (vault_open(finish->service->config.ring, &binding, begun->key_id, begun->sealed, &pending,
                   &err) != OK)
        return NULL;
    const struct json *asked =
        json_parse(&finish->op.arena, secret_reveal(pending), &json_limits_request, NULL);
    secret_unref(pending);
    return asked;
}

/* Checks the issuer (RFC 9207), against the mix-up of authorization servers. A manifest has no
 * issuer, so origins are compared: that of the answer's issuer and that of the URL to which the
 * browser was sent. */
static bool is_issuer(slice iss, slice authorize_url)
{
    struct url theirs, ours;
    char a[URL_ORIGIN_MAX + 1], b[URL_ORIGIN_MAX + 1];
    return url_parse(iss, &theirs, NULL) == OK && url_parse(authorize_url, &ours, NULL) == OK &&
           slice_eq(url_origin(&theirs, a), url_origin(&ours, b));
}

/* Returns OP_NEXT if the answer contains a code of the expected server. The issuer is checked
 * first: an error of another server does not count. Many servers send no issuer, so it may be
 * absent. The error code comes from the browser's URL, so a person sees it only if it is a short
 * word of visible characters. */
static enum op_result check_answer(struct oauth_finish *finish)
{
    const struct oauth_finish_request *in = &finish->in;
    slice app = finish->integration->name;
    bool is_word = in->error.len > 0 && in->error.len <= ERROR_MAX && http_is_visible(in->error);
    slice sent_to = json_get_str(finish->asked, SLICE("authorize_url"));
    if (in->iss.ptr && !is_issuer(in->iss, sent_to.len > 0 ? sent_to : finish->auth->authorize_url))
        return stop_finish(finish, OAUTH_ISSUER_WRONG,
                           arena_printf(&finish->op.arena,
                                        "The answer in your browser did not come from %.*s. It was "
                                        "not used, and nothing was connected. Start again on the "
                                        "app's page. If it happens again, tell your operator.",
                                        SLICE_ARG(app)));
    if (in->error.ptr && slice_eq_cstr(in->error, "access_denied"))
        return stop_finish(
            finish, OAUTH_DENIED,
            arena_printf(&finish->op.arena,
                         "%.*s was not connected, because the permission was refused there "
                         "(access_denied). To connect it, try again and allow it.",
                         SLICE_ARG(app)));
    if (in->error.ptr)
        return stop_finish(finish, OAUTH_DENIED,
                           arena_printf(&finish->op.arena,
                                        "%.*s was not connected: it answered %.*s.", SLICE_ARG(app),
                                        SLICE_ARG(is_word ? in->error : SLICE("an error"))));
    if (in->code.len == 0 || in->code.len > OAUTH_TOKEN_BYTES_MAX)
        return stop_finish(finish, OAUTH_DENIED,
                           arena_printf(&finish->op.arena,
                                        "%.*s was not connected: its answer has no code.",
                                        SLICE_ARG(app)));
    return OP_NEXT;
}

static enum op_result step_taken(struct op *op)
{
    struct oauth_finish *finish = finish_of(op);
    struct oauth_begun begun;
    int status = store_oauth_begun_take_result(&finish->query, &begun);
    if (status == OK &&
        begun.expires_at > clock_shared_us()) /* old rows are removed later by housekeeping */
        finish->asked = open_pending(finish, &begun);
    if (status != OK && status != ERR_NOTFOUND)
        return stop_finish_database(finish);
    if (!finish->asked)
        return stop_finish(finish, OAUTH_STATE_UNKNOWN,
                           SLICE("This was not started here, was already finished, or took longer "
                                 "than ten minutes. Connect the app again."));
    finish->integration_id = begun.integration_id;
    finish->integration = catalog_find_integration(finish->catalog, begun.integration_id, NULL);
    if (finish->integration)
        finish->auth = catalog_auth_by(finish->integration, AUTH_OAUTH2);
    if (!finish->integration || !finish->auth)
        return stop_finish(finish, OAUTH_UNSUPPORTED, SLICE("The app is no longer available."));
    enum op_result result = check_answer(finish);
    if (result != OP_NEXT)
        return result;
    finish->connection_id = json_get_i64(finish->asked, SLICE("connection_id"), 0);
    finish->may_change_identity = json_get_bool(finish->asked, SLICE("may_change_identity"), false);
    finish->label = json_get_str(finish->asked, SLICE("label"));
    finish->params = json_get_str(finish->asked, SLICE("params"));
    oauth_client_find(finish->service, &finish->lookup, op, payer_of(finish),
                      finish->integration_id);
    if (finish->connection_id != 0)
        store_connection_get(finish->service->config.pool, &finish->query, op,
                             finish->in.account_id, finish->connection_id);
    return OP_WAIT;
}

/* ---- the exchange ---- */

static enum op_result send_code(struct oauth_finish *finish, slice client_id, slice secret)
{
    const struct catalog_auth *auth = finish->auth;
    struct connect_config *config = &finish->service->config;
    struct oauth_ask ask = {
        .auth = auth,
        .grant = OAUTH_GRANT_CODE,
        .client_id = client_id,
        .client_secret = secret,
        .code = finish->in.code,
        .redirect_uri = json_get_str(finish->asked, SLICE("redirect_uri")),
        .token_url = json_get_str(finish->asked, SLICE("token_url")),
    };
    if (auth->uses_pkce)
        ask.verifier = json_get_str(finish->asked, SLICE("verifier"));
    finish->call = (struct http_call){
        .tenant = payer_of(finish),
        .deadline_ns = loop_now_ns(finish->op.loop) + (uint64_t)config->token_timeout_ms * 1000000,
    };
    finish->asked_us = clock_shared_us();
    if (oauth_request_make(&ask, &finish->request, &finish->call) == OK &&
        http_call_start(config->http, &finish->call, &finish->op) == OK)
        return OP_WAIT;
    return stop_finish(finish, OAUTH_EXCHANGE_REFUSED,
                       SLICE("The request to the app's authorization server cannot be made."));
}

static enum op_result step_ask(struct op *op)
{
    struct oauth_finish *finish = finish_of(op);
    struct connection row;
    struct secret *secret = NULL;
    slice client_id;
    int status = finish->connection_id != 0 ? store_connection_get_result(&finish->query, &row)
                                            : OK;
    if (status == ERR_NOTFOUND)
        return stop_finish(finish, OAUTH_CONNECTION_UNKNOWN,
                           SLICE("The connection was removed in the meantime."));
    if (status != OK)
        return stop_finish_database(finish);
    status = oauth_client_result(finish->service, &finish->lookup, finish->integration_id,
                                 &client_id, &secret);
    enum op_result result;
    if (status == OK)
        result = send_code(finish, client_id, secret_reveal(secret));
    else if (status == ERR_NOTFOUND || status == ERR_CRYPTO)
        result = stop_finish(finish, OAUTH_NO_CLIENT,
                             SLICE("This server no longer has a usable OAuth client for the app."));
    else
        result = stop_finish_database(finish);
    secret_unref(secret);
    return result;
}

/* The token's life is counted from the time before the request, so expires_at is never later than
 * the provider's own. */
static void read_grant(struct oauth_finish *finish)
{
    slice asked = json_get_str(finish->asked, SLICE("scopes"));
    int64_t life_s = finish->reply.expires_in_s;
    /* if absent, the requested scopes were granted (RFC 6749 5.1) */
    finish->scopes = finish->reply.scopes.ptr ? finish->reply.scopes : asked;
    if (finish->reply.scopes.ptr)
        finish->scopes_missing =
            oauth_scopes_missing(finish->auth->scopes, finish->scopes, &finish->op.arena);
    finish->is_refresh_token_missing = life_s > 0 && !finish->reply.refresh_token.ptr;
    finish->expires_at = life_s > 0 ? finish->asked_us + life_s * 1000000 : 0;
    finish->id_token = finish->reply.id_token;
}

static bool make_credential(struct oauth_finish *finish)
{
    struct buf text;
    buf_init(&text, VAULT_PLAIN_MAX);
    if (oauth_credential_write(NULL, &finish->reply, &text) == OK)
        finish->credential = secret_new(buf_slice(&text));
    mem_wipe(text.ptr, text.cap);
    buf_deinit(&text);
    return finish->credential != NULL;
}

static enum op_result step_read(struct op *op)
{
    struct oauth_finish *finish = finish_of(op);
    struct oauth_reply *reply = &finish->reply;
    ASSERT(finish->asked && !finish->credential);
    oauth_reply_read(finish->auth, &finish->request, &finish->call, &op->arena, reply);
    oauth_request_deinit(&finish->request); /* the request contains unencrypted secrets */
    bool is_outage = reply->verdict == OAUTH_OUTAGE || reply->verdict == OAUTH_TIMEOUT;
    if (reply->verdict != OAUTH_GRANTED)
        return stop_finish(finish, is_outage ? OAUTH_EXCHANGE_OUTAGE : OAUTH_EXCHANGE_REFUSED,
                           arena_printf(&op->arena, "%.*s could not be connected: %.*s.",
                                        SLICE_ARG(finish->integration->name),
                                        SLICE_ARG(reply->message)));
    read_grant(finish);
    if (!make_credential(finish))
        return stop_finish(finish, OAUTH_EXCHANGE_REFUSED,
                           SLICE("The app's tokens are too large."));
    finish->outcome = OAUTH_DONE;
    finish->message = SLICE_NONE;
    return OP_DONE;
}

static void on_cancel(struct op *op)
{
    struct oauth_finish *finish = finish_of(op);
    http_call_cancel(&finish->call);
}

static void on_end(struct op *op, enum op_end end)
{
    struct oauth_finish *finish = finish_of(op);
    (void)end;
    oauth_request_deinit(&finish->request);
    if (finish->outcome != OAUTH_DONE) { /* if OAUTH_DONE, the caller has the reference */
        secret_unref(finish->credential);
        finish->credential = NULL;
    }
    catalog_unref(finish->catalog);
    finish->catalog = NULL;
    finish->integration = NULL;
}

static const struct op_step steps[] = {
    {"take", step_take, 0},
    {"taken", step_taken, 0},
    {"ask", step_ask, 0},
    {"read", step_read, 0},
};
static const struct op_class finish_class = {
    .name = "oauth_finish",
    OP_STEPS(steps),
    .on_cancel = on_cancel,
    .on_end = on_end,
};

void oauth_finish_start(struct connect_service *service, struct oauth_finish *finish,
                        const struct oauth_finish_request *request, struct op *parent)
{
    ASSERT(request->session_id.len > 0 && service->config.catalog && service->config.http);
    *finish = (struct oauth_finish){
        .outcome = OAUTH_UNAVAILABLE,
        .message = SLICE("This server is shutting down."),
        .service = service,
        .in = *request,
        .catalog = catalog_ref(*service->config.catalog),
    };
    if (!finish->in.state.ptr)
        finish->in.state = SLICE("");
    op_start(&finish->op, &finish_class, service->loop, parent, FINISH_ARENA_BYTES_MAX);
}
