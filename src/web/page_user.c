/*
 * The end user whose rows a page shows: `?user=ID` in the address, by the id that the account gave
 * it. It is to pages what Sluice-User is to the API: the session's key decides what may be done,
 * the rows are that user's alone (grant.account_id), and the account pays (grant.parent_id). But a
 * page makes no user, and shows nothing for one that the account does not have. The links of such a
 * page name the user, too (markup.h).
 */
#include "base/encode.h"
#include "store/connection.h"
#include "web/request.h"
#include "web/view.h"

static struct web_request *page_request_of(struct serve_request *serve)
{
    return CONTAINER_OF(serve, struct web_request, serve);
}

/* Sets *user to SLICE_NONE if the address names none. Returns false if it names two, or one that
 * cannot be an id. */
static bool read_user(const struct web_request *request, slice *user)
{
    size_t count;
    const struct http_header *params = http_query_all(request->serve.exchange, &count);
    *user = SLICE_NONE;
    for (size_t i = 0; i < count; i++) {
        if (!slice_eq_cstr(params[i].name, "user"))
            continue;
        if (user->ptr || !vault_user_is_id(params[i].value))
            return false;
        *user = params[i].value;
    }
    return true;
}

slice web_user_path(struct web_request *request, slice path)
{
    struct buf url;
    slice user;
    if (request->session.is_open)
        user = request->user;
    else if (!read_user(request, &user))
        return SLICE("/");
    if (!user.ptr)
        return path;
    buf_init(&url, 8 * 1024);
    markup_append_url(&url, path, user);
    return arena_take(&request->serve.op.arena, &url);
}

/* ---- the callback of OAuth, whose address is the same for all ---- */

/* An authorization that a user's page has begun: "<user's id>.<random>". Nothing is taken from the
 * state alone: it must have been begun by this session (oauth.h). */
static bool read_state(struct web_request *request, slice *id)
{
    struct uuid ignored;
    slice state = web_query(request, "state");
    *id = slice_first(state, UUID_TEXT_LEN);
    return !request->session.link_token.ptr && state.len > UUID_TEXT_LEN &&
           state.ptr[UUID_TEXT_LEN] == '.' && uuid_parse(*id, &ignored);
}

static enum op_result find_user_of_state(struct web_request *request)
{
    slice id;
    if (!read_state(request, &id))
        return serve_no_user(&request->serve);
    store_account_user_names(request->web->config.pool, &request->query, &request->serve.op,
                             request->session.account_id, id);
    return OP_WAIT;
}

slice web_user_state(struct web_request *request)
{
    char id[UUID_TEXT_LEN + 1];
    uuid_format(request->session.account_id, id);
    return request->user.ptr ? arena_printf(&request->serve.op.arena, "%s.", id) : SLICE_NONE;
}

/* ---- the steps ---- */

static enum op_result act_for(struct web_request *request, slice user, struct uuid user_id)
{
    struct web_session *session = &request->session;
    struct vault_grant *grant = &request->serve.grant;
    ASSERT(uuid_is_nil(session->parent_id) && uuid_is_nil(grant->parent_id));
    request->user = request->serve.user = user;
    session->parent_id = grant->parent_id = session->account_id;
    session->account_id = grant->account_id = user_id;
    return OP_NEXT;
}

static enum op_result take_user_of_state(struct web_request *request)
{
    struct account_user *users;
    size_t count;
    int status = store_account_user_list_result(&request->query, &users, &count);
    if (status != OK)
        return web_reply_database(request, status);
    /* without the user, the state is unknown, which the page reports */
    return count == 1 ? act_for(request, users[0].external_id, users[0].user_id) : OP_NEXT;
}

enum op_result web_user_find(struct serve_request *serve)
{
    struct web_request *request = page_request_of(serve);
    const struct web_page *page = request->page;
    slice user;
    if (page && page->access == WEB_CALLBACK)
        return find_user_of_state(request);
    if (!page || (page->access != WEB_SESSION && page->access != WEB_ACCOUNT))
        return serve_no_user(serve);
    if (!read_user(request, &user))
        return web_reply_problem(request, 400, "Not an end user",
                                 "The address names an end user by an id that cannot be one, or "
                                 "more than one. An id has 1 to %d characters from ! to ~.",
                                 ACCOUNT_USER_ID_MAX);
    if (!user.ptr)
        return serve_no_user(serve);
    if (page->access == WEB_ACCOUNT)
        return web_reply_problem(request, 400, "Not an end user's page",
                                 "This page is of the account alone. Leave the end user out of its "
                                 "address.");
    /* A key that may not open the page does not learn which users exist. */
    enum op_result result = web_check_scope(request);
    if (result != OP_NEXT)
        return result;
    request->asked_user = user;
    return vault_user_find(request->web->config.users, &request->user_check,
                           request->session.account_id, user, false, &serve->op)
               ? OP_NEXT
               : OP_WAIT;
}

enum op_result web_user_take(struct serve_request *serve)
{
    struct web_request *request = page_request_of(serve);
    const struct vault_user_check *check = &request->user_check;
    if (request->page->access == WEB_CALLBACK)
        return take_user_of_state(request);
    if (check->status == ERR_NOTFOUND)
        return web_reply_problem(request, 404, "Unknown end user",
                                 "The account has no end user with the id %.*s.",
                                 SLICE_ARG(request->asked_user));
    if (check->status != OK)
        return web_reply_database(request, check->status);
    if (check->erase_at)
        return web_reply_problem(request, 503, "Being erased",
                                 "The end user %.*s is being erased. Its id can be used again "
                                 "after that.",
                                 SLICE_ARG(request->asked_user));
    return act_for(request, request->asked_user, check->user_id);
}

/* ---- the user's connections, and those that the account shares ---- */

void web_connection_load(struct web_request *request, struct web_connection *read, int64_t id)
{
    struct pg_pool *pool = request->web->config.pool;
    const struct web_session *session = &request->session;
    store_connection_get(pool, &read->own, &request->serve.op, session->account_id, id);
    if (!uuid_is_nil(session->parent_id))
        store_connection_get(pool, &read->shared, &request->serve.op, session->parent_id, id);
}

int web_connection_result(const struct web_request *request, const struct web_connection *read,
                          struct connection *row)
{
    int status = store_connection_get_result(&read->own, row);
    if (status != ERR_NOTFOUND || uuid_is_nil(request->session.parent_id))
        return status;
    status = store_connection_get_result(&read->shared, row);
    return status == OK && !row->is_shared ? ERR_NOTFOUND : status;
}

bool web_connection_is_lent(const struct web_request *request, const struct connection *row)
{
    return !uuid_eq(row->account_id, request->session.account_id);
}

/* ---- a form that is shown again after signing in ---- */

static enum op_result on_followed(struct web_request *request)
{
    enum op_result result = web_user_take(&request->serve);
    return result == OP_NEXT ? op_jump(&request->serve.op, SERVE_BEGIN) : result;
}

enum op_result web_user_follow(struct web_request *request, slice query)
{
    slice name = slice_split(&query, '=');
    slice user = decode_percent_in(&request->serve.op.arena, query, true);
    if (!slice_eq_cstr(name, "user") || !user.ptr || !vault_user_is_id(user) ||
        request->page->access != WEB_SESSION)
        return web_reply_redirect(request, SLICE("/"), "");
    request->asked_user = user;
    return vault_user_find(request->web->config.users, &request->user_check,
                           request->session.account_id, user, false, &request->serve.op)
               ? on_followed(request)
               : web_wait(request, on_followed);
}
