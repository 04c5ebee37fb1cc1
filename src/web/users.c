/*
 * The account's end users: the list, one user with its connections, and erasing it. What else a
 * user owns is read with the API.
 */
#include "store/connection.h"
#include "vault/user.h"
#include "web/pages.h"

enum { CONNECTIONS_MAX = 50 };

struct one {
    slice id; /* the user's, by the account's name for it */
    bool is_asking;
    struct account_user user;
    struct pg_query connections;
};

const struct web_view web_users = {
    .file = "users",
    .endpoint = &api_users_list,
    .arguments = {{"query", .from = "q"}, {"cursor", .from = "after"}, {"limit", .value = "50"}},
};

static enum op_result reply_missing(struct web_request *request)
{
    return web_reply_missing(request, "There is no such user.");
}

static enum op_result reply_one(struct web_request *request)
{
    const struct one *one = request->state;
    struct connection *rows;
    size_t count;
    int status = store_connection_list_result(&one->connections, &rows, &count);
    if (status != OK)
        return web_reply_database(request, status);
    bool is_more = count > CONNECTIONS_MAX;
    struct json_writer *w = view_begin(request);
    json_member_str(w, "id", one->user.external_id);
    json_member_str(w, "label", one->user.label);
    view_time(w, "created_at", one->user.created_at);
    view_time(w, "last_seen_at", one->user.last_request_at);
    json_member_bool(w, "erasing", one->user.erase_at != 0);
    json_member_open(w, "connections", '[');
    for (size_t i = 0; i < count - is_more; i++) {
        json_open(w, '{');
        view_connection_members(request, w, &rows[i]);
        json_close(w, '}');
    }
    json_close(w, ']');
    json_member_bool(w, "has_more", is_more);
    return web_reply_view(request, 200, one->is_asking ? "user_erase" : "user");
}

/* The user's connections may be on another node of the database than the user's row. */
static enum op_result on_user(struct web_request *request)
{
    struct one *one = request->state;
    const struct connection_page page = {.count_max = CONNECTIONS_MAX + 1};
    int status = store_account_user_result(&request->query, &one->user);
    if (status == ERR_NOTFOUND)
        return reply_missing(request);
    if (status != OK)
        return web_reply_database(request, status);
    store_connection_page(request->web->config.pool, &one->connections, &request->serve.op,
                          one->user.user_id, &page);
    return web_wait(request, reply_one);
}

/* Returns NULL if the request was answered. */
static struct one *begin_one(struct web_request *request)
{
    struct one *one = web_state_new(request, sizeof(*one));
    if (!one)
        return NULL;
    one->id = request->serve.match.params[0];
    if (vault_user_is_id(one->id))
        return one;
    (void)reply_missing(request);
    return NULL;
}

static enum op_result load_one(struct web_request *request, bool is_asking)
{
    struct one *one = begin_one(request);
    if (!one)
        return OP_DONE;
    one->is_asking = is_asking;
    store_account_user_find(request->web->config.pool, &request->query, &request->serve.op,
                            request->session.account_id, one->id);
    return web_wait(request, on_user);
}

static enum op_result on_erase_answer(struct web_request *request, unsigned status,
                                      const struct json *reply)
{
    if (status == 404)
        return reply_missing(request);
    return status == 202 ? web_reply_redirect(request, SLICE("/users"), "user_erased")
                         : web_reply_refused(request, status, reply);
}

enum op_result web_user(struct web_request *request)
{
    return load_one(request, false);
}
enum op_result web_user_erase_ask(struct web_request *request)
{
    return load_one(request, true);
}
enum op_result web_user_erase(struct web_request *request)
{
    return web_ask(request, &api_users_erase, NULL, on_erase_answer);
}
