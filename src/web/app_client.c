/*
 * The OAuth client that asks an app for a grant: the form that sets the account's own client, and
 * the page that asks before its deletion.
 */
#include "base/mem.h"
#include "connect/command.h"
#include "connect/oauth.h"
#include "web/app.h"

enum { CONNECTIONS_MAX = 50 }; /* connections that the question counts at most */

struct client {
    struct catalog *catalog;
    const struct catalog_integration *app;
    struct pg_query shared,
        connections; /* these two are for the question; request->query loads the account's client */
    struct connect_command command;
    struct connect_command_request in;
    int64_t again; /* the connection whose page to return to; 0: the app's page */
};

static void on_client_end(struct web_request *request)
{
    struct client *it = request->state;
    /* All fields are wiped, since any of them may hold a secret that was pasted into the wrong one.
     */
    for (size_t i = 0; i < request->field_count; i++)
        mem_wipe((char *)(uintptr_t)request->fields[i].value.ptr, request->fields[i].value.len);
    catalog_unref(it->catalog);
}

static struct client *client_new(struct web_request *request)
{
    struct client *it = web_state_new(request, sizeof(*it));
    if (!it)
        return NULL;
    it->app = app_of_path(request, &it->catalog);
    if (!it->app)
        /* app_of_path has sent a 404. */
        return NULL;
    /* on_end runs from here on, so everything that it releases is initialized. */
    request->on_end = on_client_end;
    if (catalog_auth_by(it->app, AUTH_OAUTH2))
        return it;
    (void)web_reply_problem(request, 400, "Nothing to do", "This app does not use OAuth.");
    return NULL;
}

static enum op_result change_client(struct web_request *request, enum connect_command_kind kind,
                                    web_step *then)
{
    struct client *it = request->state;
    it->in.kind = kind;
    it->in.by = serve_by(&request->serve);
    it->in.client.client.account_id = request->session.account_id;
    it->in.client.client.integration_id = it->app->integration_id;
    connect_command_start(request->web->config.connect, &it->command, &it->in, &request->serve.op);
    return web_wait(request, then);
}

static enum op_result finish_client(struct web_request *request)
{
    const struct client *it = request->state;
    if (it->command.status != OK)
        return web_reply_database(request, it->command.status);
    return web_reply_redirect(
        request, app_path_after(request, it->app->integration_id, it->again, it->again != 0),
        "client_saved");
}

enum op_result web_app_client(struct web_request *request)
{
    static const slice rule = SLICE_INIT("Only printable ASCII without spaces is possible here.");
    slice client_id = web_field(request, "client_id"), secret = web_field(request, "client_secret");
    if (!oauth_client_is_id(client_id))
        web_fault_add(request, SLICE("client_id"), rule);
    if (!oauth_client_is_secret(secret))
        web_fault_add(request, SLICE("client_secret"), rule);
    if (request->fault_count > 0)
        return web_again_faulty(request);
    struct client *it = client_new(request);
    if (!it)
        return OP_DONE;
    if (!slice_to_i64(web_field(request, "connection"), &it->again) || it->again < 0)
        it->again = 0;
    it->in.client.client.client_id = client_id;
    it->in.client_secret = secret;
    return change_client(request, CONNECT_CLIENT_SET, finish_client);
}

/* ---- deletion ---- */

static void write_question(struct json_writer *w, const struct client *it,
                           const struct oauth_client *own, const struct connection *rows,
                           size_t count)
{
    size_t signed_in = 0;
    for (size_t i = 0; i < count && i < CONNECTIONS_MAX; i++)
        signed_in += slice_eq_cstr(rows[i].auth_kind, catalog_auth_name(AUTH_OAUTH2));
    json_member_str(w, "integration_id", it->app->integration_id);
    json_member_str(w, "name", it->app->name);
    json_member_str(w, "client_id", own->client_id);
    json_member_i64(w, "count", (int64_t)signed_in);
    json_member_bool(w, "is_more", count > CONNECTIONS_MAX);
}

static enum op_result finish_question(struct web_request *request)
{
    const struct client *it = request->state;
    struct oauth_client own, shared;
    struct connection *rows;
    size_t count;
    int status = store_oauth_client_get_result(&request->query, &own);
    if (status == ERR_NOTFOUND)
        return web_reply_missing(request,
                                 "Your account has no OAuth client of its own for this app.");
    int operators = store_oauth_client_get_result(&it->shared, &shared);
    if (status == OK && operators != ERR_NOTFOUND)
        status = operators;
    if (status == OK)
        status = store_connection_list_result(&it->connections, &rows, &count);
    if (status != OK)
        return web_reply_database(request, status);
    struct json_writer *w = view_begin(request);
    write_question(w, it, &own, rows, count);
    json_member_bool(w, "has_shared", operators == OK);
    return web_reply_view(request, 200, "client_delete");
}

enum op_result web_app_client_delete_ask(struct web_request *request)
{
    struct client *it = client_new(request);
    struct pg_pool *pool = request->web->config.pool;
    struct uuid account_id = request->session.account_id;
    if (!it)
        return OP_DONE;
    slice id = it->app->integration_id;
    /* Requests one row more than the page shows, to know whether there are others. */
    const struct connection_page page = {.integration_id = id, .count_max = CONNECTIONS_MAX + 1};
    store_oauth_client_get(pool, &request->query, &request->serve.op, account_id, id);
    store_oauth_client_get(pool, &it->shared, &request->serve.op, (struct uuid){{0}}, id);
    store_connection_page(pool, &it->connections, &request->serve.op, account_id, &page);
    return web_wait(request, finish_question);
}

/* A client that no longer exists is the desired result: pressing the button again gets the same
 * answer. */
static enum op_result finish_delete(struct web_request *request)
{
    const struct client *it = request->state;
    int status = it->command.status;
    if (status != OK && status != ERR_NOTFOUND)
        return web_reply_database(request, status);
    return web_reply_redirect(request, app_path(request, it->app->integration_id),
                              "client_deleted");
}

enum op_result web_app_client_delete(struct web_request *request)
{
    return client_new(request) ? change_client(request, CONNECT_CLIENT_REMOVE, finish_delete)
                               : OP_DONE;
}
