/*
 * The way back from an app's authorization server.
 */
#include "connect/oauth.h"
#include "web/app.h"

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
