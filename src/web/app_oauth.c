/*
 * The callback of OAuth: the authorization server's answer becomes a grant, and the grant a
 * connection, for a signed-in person or the user of a connect link.
 */
#include "connect/oauth.h"
#include "web/app.h"

struct callback {
    struct catalog *catalog;
    bool is_link;
    struct pg_query link_query;
    struct connect_session link;
    struct oauth_finish finish;
    struct call_enrol enrol;
    slice integration_id, scopes_missing;
};

static void on_cancel(struct web_request *request)
{
    struct callback *it = request->state;
    /* Cancelling a query that is not in flight has no effect; an op has to be active. */
    op_cancel(&it->finish.op);
    op_cancel(&it->enrol.op);
}

static void on_end(struct web_request *request)
{
    struct callback *it = request->state;
    /* The grant's tokens are in this secret until they are stored. */
    secret_unref(it->finish.credential);
    catalog_unref(it->catalog);
}

/* ---- replies ---- */

static enum op_result reply_incomplete(struct web_request *request, slice path)
{
    const struct callback *it = request->state;
    const struct catalog_integration *app =
        catalog_find_integration(it->catalog, it->integration_id, NULL);
    struct json_writer *w = view_begin(request);
    json_member_str(w, "missing",
                    app ? app_scope_texts(request, app, it->scopes_missing) : it->scopes_missing);
    json_member_bool(w, "no_refresh_token", it->finish.is_refresh_token_missing);
    json_member_str(w, "next", path);
    return web_reply_view(request, 200, "connect_in_part");
}

/* Returns the path of the page where the authorization was started. */
static slice try_again_path(struct web_request *request)
{
    const struct callback *it = request->state;
    if (it->is_link)
        return app_link_path(request);
    /* The state was unknown or has expired, so the app is unknown, too. */
    if (!it->integration_id.ptr)
        return SLICE("/integrations");
    return app_path_after(request, it->integration_id, it->finish.connection_id,
                          it->finish.connection_id != 0);
}

static enum op_result reply_failed(struct web_request *request, unsigned status, slice message,
                                   slice advice)
{
    struct json_writer *w = view_begin(request);
    json_member_str(w, "message", message);
    json_member_str(w, "advice", advice);
    json_member_str(w, "back", try_again_path(request));
    return web_reply_view(request, status, "connect_failed");
}

static enum op_result on_enrolled(struct web_request *request)
{
    const struct callback *it = request->state;
    const struct call_enrol *done = &it->enrol;
    bool is_again = it->finish.connection_id != 0;
    /* A link's user may not change the identity that the account expects. */
    bool may_insist = done->result == CALL_ENROL_OTHER_IDENTITY && !it->is_link;
    if (done->result == CALL_ENROL_LINK_USED)
        return web_reply_redirect(request, app_link_path(request), "");
    if (done->result != CALL_ENROLLED)
        return reply_failed(request, app_enrol_status(done->result), done->message,
                            may_insist
                                ? SLICE("To let this connection act as another login, reconnect it "
                                        "and tick the box that allows another login.")
                                : SLICE_NONE);
    /* The person should know this before they rely on the connection, so these cases get a page
     * instead of a redirect. */
    bool is_incomplete = it->scopes_missing.ptr || it->finish.is_refresh_token_missing;
    slice path =
        app_path_after(request, it->integration_id, done->connection_id, is_again || is_incomplete);
    if (is_incomplete)
        return reply_incomplete(request, path);
    const char *notice = is_again ? "reconnected" : "connected";
    return web_reply_redirect(request, path, it->is_link ? "" : notice);
}

/* ---- from the answer to the connection ---- */

static slice copy_finish_text(struct web_request *request, slice text)
{
    /* The texts are in the arena of oauth_finish's op, which ends before enrolling does. */
    return text.ptr ? arena_dup(&request->serve.op.arena, text) : SLICE_NONE;
}

static enum op_result enrol_grant(struct web_request *request)
{
    struct callback *it = request->state;
    const struct api_config *config = &request->web->config;
    const struct oauth_finish *finish = &it->finish;
    ASSERT(finish->outcome == OAUTH_DONE && finish->credential);
    const struct call_enrol_request in = {
        .save.account_id = request->session.account_id,
        .save.integration_id = it->integration_id,
        .save.auth_kind = slice_cstr(catalog_auth_name(AUTH_OAUTH2)),
        /* A connection id of 0 makes a new connection. */
        .save.connection_id = finish->connection_id,
        .save.label = copy_finish_text(request, finish->label),
        .save.params = copy_finish_text(request, finish->params),
        .save.credential = secret_reveal(finish->credential),
        .id_token = copy_finish_text(request, finish->id_token),
        .save.scopes = copy_finish_text(request, finish->scopes),
        .save.expires_at = finish->expires_at,
        .is_grant = true,
        .may_change_identity = finish->may_change_identity,
        .save.link = it->is_link ? &it->link : NULL,
        .save.by = it->is_link ? app_link_by(request, &it->link) : serve_by(&request->serve),
    };
    it->scopes_missing = copy_finish_text(request, finish->scopes_missing);
    call_enrol_start(config->connect, config->pool, config->http, it->catalog, &it->enrol, &in,
                     &request->serve.op);
    return web_wait(request, on_enrolled);
}

/* A link is for one app, and for one connection if it was made to reconnect one. Its session
 * cannot start any other authorization; this check enforces that where the connection is made. */
static bool is_of_link(const struct callback *it)
{
    return slice_eq(it->link.integration_id, it->finish.integration_id) &&
           it->link.connection_id == it->finish.connection_id;
}

static enum op_result on_finished(struct web_request *request)
{
    struct callback *it = request->state;
    const struct oauth_finish *finish = &it->finish;
    ASSERT(!it->is_link || it->link_query.stmt);
    int status = it->is_link ? app_link_result(&it->link_query, &request->link, &it->link) : OK;
    it->integration_id = copy_finish_text(request, finish->integration_id);
    /* The status for an unreachable app is not 502, since proxies in front would replace the page
     * with their own. */
    if (finish->outcome != OAUTH_DONE)
        return reply_failed(request, finish->outcome == OAUTH_UNAVAILABLE ? 503 : 400,
                            finish->message, SLICE_NONE);
    if (status != OK && status != ERR_NOTFOUND)
        return web_reply_database(request, status);
    if (status == ERR_NOTFOUND || (it->is_link && !is_of_link(it)))
        return web_reply_redirect(request, app_link_path(request), "");
    return enrol_grant(request);
}

enum op_result web_connect_callback(struct web_request *request)
{
    struct callback *it = web_state_new(request, sizeof(*it));
    const struct web_session *session = &request->session;
    if (!it)
        return OP_DONE;
    const struct oauth_finish_request in = {
        .account_id = session->account_id,
        .parent_id = session->parent_id,
        .session_id = slice_of(session->csrf, SESSION_CSRF_LEN),
        .state = web_query(request, "state"),
        .code = web_query(request, "code"),
        .iss = web_query(request, "iss"),
        .error = web_query(request, "error"),
    };
    /* The state's prefix selected the link's cookie, so the session shows whether a link is
     * used. */
    it->is_link = session->link_token.ptr && web_link_read(session->link_token, &request->link);
    it->catalog = catalog_ref(*request->web->config.catalog);
    request->on_cancel = on_cancel;
    request->on_end = on_end;
    /* The link is loaded while the code is exchanged: neither needs the other's result. */
    if (it->is_link)
        store_connect_session_get(request->web->config.pool, &it->link_query, &request->serve.op,
                                  request->link.account_id, request->link.hash);
    oauth_finish_start(request->web->config.connect, &it->finish, &in, &request->serve.op);
    return web_wait(request, on_finished);
}
