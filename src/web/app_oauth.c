/*
 * The way back from an app's authorization server, and the account's own OAuth clients.
 */
#include "base/mem.h"
#include "connect/oauth.h"
#include "web/app.h"

/* ---- GET /connect/callback ---- */

struct callback {
    struct oauth_finish finish;
};

static void on_callback_cancel(struct web_request *request)
{
    struct callback *it = request->state;
    if (op_is_active(&it->finish.op))
        op_cancel(&it->finish.op);
}

static enum op_result begin_callback(struct web_request *request)
{
    struct callback *it = ARENA_NEW(&request->op.arena, struct callback);
    const struct web_session *session = &request->session;
    if (!it)
        return web_reply_database(request, ERR_BUSY);
    const struct oauth_finish_request in = {
        .account_id = session->account_id,
        .session_id = slice_of(session->csrf, SESSION_CSRF_LEN),
        .state = web_query(request, "state"),
        .code = web_query(request, "code"),
        .iss = web_query(request, "iss"),
        .error = web_query(request, "error"),
        .actor = web_actor(request),
        .request_id = request->exchange->request_id,
        .address = web_client_address(request),
    };
    request->state = it;
    request->on_cancel = on_callback_cancel;
    oauth_finish_start(request->web->config.connect, &it->finish, &in, &request->op);
    return OP_WAIT;
}

static enum op_result reply_incomplete(struct web_request *request,
                                       const struct oauth_finish *finish, slice path)
{
    struct buf body;
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    if (finish->scopes_missing.ptr)
        HTML(&body,
             "<p>Not everything that was asked for was granted; missing: <strong>{}</strong>. What "
             "needs it will be refused. To allow it, reconnect and leave all boxes ticked.</p>",
             finish->scopes_missing);
    if (finish->is_refresh_token_missing)
        buf_append(&body, SLICE("<p>The app gave no refresh token: once its access token has ended "
                                "you will be asked to connect it again.</p>"));
    HTML(&body, "<p class=\"actions\"><a class=\"button primary\" href=\"{}\">Go on</a></p>", path);
    return web_reply_page(request, 200, SLICE("Connected, with less than was asked for"), &body);
}

static enum op_result reply_failed(struct web_request *request, const struct oauth_finish *finish)
{
    struct buf body;
    bool is_known = finish->integration_id.ptr && app_is_allowed(request, finish->integration_id);
    /* no 502 for an app that is away: proxies in front put a page of their own in its place */
    unsigned status = finish->outcome == OAUTH_UNAVAILABLE ? 503 : 400;
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    HTML(&body, "<p class=\"problem\" role=\"alert\">{}</p>", finish->message);
    HTML(&body, "<p class=\"actions\"><a class=\"button primary\" href=\"{}\">Try again</a></p>",
         is_known ? app_path(request, finish->integration_id) : SLICE("/integrations"));
    return web_reply_page(request, status, SLICE("Not connected"), &body);
}

static enum op_result finish_callback(struct web_request *request)
{
    const struct oauth_finish *finish = &((struct callback *)request->state)->finish;
    if (finish->outcome != OAUTH_DONE)
        return reply_failed(request, finish);
    bool is_incomplete = finish->scopes_missing.ptr || finish->is_refresh_token_missing;
    slice path = app_path_after(request, finish->integration_id, finish->connection_id,
                                finish->is_reconnected || is_incomplete);
    if (is_incomplete)
        return reply_incomplete(request, finish, path);
    return web_reply_redirect(request, path, finish->is_reconnected ? "reconnected" : "connected");
}

/* What the app's server was told is finished though the browser has gone: the code is good once. */
const struct web_page web_connect_callback = {.route = "/connect/callback",
                                              .access = WEB_LIMITED,
                                              .scope = SCOPE_EXECUTE,
                                              .begin = begin_callback,
                                              .finish = finish_callback,
                                              .is_detached = true};

/* ---- the account's own client ---- */

struct client {
    struct catalog *catalog;
    const struct catalog_integration *app;
    struct buf sealed;
    bool is_stored;
};

static void on_client_end(struct web_request *request)
{
    struct client *it = request->state;
    for (size_t i = 0; i < request->field_count; i++)
        mem_wipe((char *)(uintptr_t)request->fields[i].value.ptr, request->fields[i].value.len);
    buf_deinit(&it->sealed);
    catalog_unref(it->catalog);
}

static struct client *client_new(struct web_request *request)
{
    struct client *it = ARENA_NEW(&request->op.arena, struct client);
    if (!it) {
        (void)web_reply_database(request, ERR_BUSY);
        return NULL;
    }
    it->app = app_of_path(request, &it->catalog);
    if (!it->app)
        return NULL;
    buf_init(&it->sealed, VAULT_PLAIN_MAX + VAULT_SEAL_OVERHEAD);
    request->state = it;
    request->on_end = on_client_end;
    if (it->app->auth.kind == AUTH_OAUTH2)
        return it;
    (void)web_reply_problem(request, 400, SLICE("Nothing to do"),
                            SLICE("This app is not connected by OAuth."));
    return NULL;
}

static bool is_fit(slice text, size_t bytes_max)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] <= 0x20 || (unsigned char)text.ptr[i] >= 0x7F)
            return false;
    return text.len <= bytes_max;
}

static enum op_result begin_client(struct web_request *request)
{
    struct client *it = client_new(request);
    slice client_id = web_field(request, "client_id"), secret = web_field(request, "client_secret");
    if (!it)
        return OP_DONE;
    slice app_id = it->app->integration_id;
    struct vault_place place = oauth_client_place(request->session.account_id, app_id);
    if (client_id.len == 0 || !is_fit(client_id, OAUTH_CLIENT_ID_MAX) || !is_fit(secret, 4096))
        return web_reply_problem(request, 400, SLICE("Not saved"),
                                 SLICE("A client id and a client secret are printable ASCII "
                                       "without spaces."));
    if (secret.len > 0 && vault_seal(request->web->config.ring, &place, secret, &it->sealed) != OK)
        return web_reply_database(request, ERR_NOMEM);
    const struct oauth_client client = {
        .account_id = request->session.account_id,
        .integration_id = app_id,
        .client_id = client_id,
        .sealed = buf_slice(&it->sealed),
        .key_id = vault_ring_key_id(request->web->config.ring),
    };
    store_oauth_client_set(request->web->config.pool, &request->query, &request->op, &client);
    return OP_WAIT;
}

static void audit_client(struct web_request *request, const struct client *it, slice kind)
{
    const struct audit_event event = {
        .account_id = request->session.account_id,
        .id = uuid_v7(),
        .kind = kind,
        .actor = web_actor(request),
        .request_id = request->exchange->request_id,
        .address = web_client_address(request),
        .details = arena_printf(&request->op.arena,
                                "{\"integration_id\":\"%.*s\",\"by\":\"dashboard\"}",
                                SLICE_ARG(it->app->integration_id)),
    };
    store_audit_insert(request->web->config.pool, &request->query, &request->op, &event);
}

static enum op_result finish_client(struct web_request *request)
{
    struct client *it = request->state;
    if (it->is_stored) {
        app_audited(request, &request->query);
        return web_reply_redirect(request, app_path(request, it->app->integration_id),
                                  "client_saved");
    }
    if (store_done_result(&request->query) != OK)
        return web_reply_database(request, request->query.status);
    it->is_stored = true;
    audit_client(request, it, SLICE("oauth_client.set"));
    return OP_WAIT;
}

const struct web_page web_app_client = {.route = "/integrations/{id}/client",
                                        .access = WEB_SESSION,
                                        .scope = SCOPE_ADMIN,
                                        .begin = begin_client,
                                        .finish = finish_client};

static enum op_result begin_delete(struct web_request *request)
{
    const struct client *it = client_new(request);
    if (!it)
        return OP_DONE;
    store_oauth_client_delete(request->web->config.pool, &request->query, &request->op,
                              request->session.account_id, it->app->integration_id);
    return OP_WAIT;
}

static enum op_result finish_delete(struct web_request *request)
{
    struct client *it = request->state;
    if (it->is_stored) {
        app_audited(request, &request->query);
        return web_reply_redirect(request, app_path(request, it->app->integration_id),
                                  "client_deleted");
    }
    int status = store_oauth_client_delete_result(&request->query);
    if (status == ERR_NOTFOUND)
        return web_reply_redirect(request, app_path(request, it->app->integration_id),
                                  "client_deleted");
    if (status != OK)
        return web_reply_database(request, status);
    it->is_stored = true;
    audit_client(request, it, SLICE("oauth_client.removed"));
    return OP_WAIT;
}

const struct web_page web_app_client_delete = {.route = "/integrations/{id}/client/delete",
                                               .access = WEB_SESSION,
                                               .scope = SCOPE_ADMIN,
                                               .begin = begin_delete,
                                               .finish = finish_delete};
