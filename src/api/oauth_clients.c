/*
 * GET, PUT and DELETE /api/oauth-clients/{integration_id} (admin scope): the account's own OAuth
 * client at an app's authorization server, which is used instead of the operator's, for the account
 * and its users. The secret is in no reply, log or error.
 */
#include "api/request.h"
#include "base/mem.h"
#include "connect/command.h"
#include "connect/oauth_client.h"

struct client_change {
    struct connect_command command;
    struct connect_command_request in;
};

#define NO_CLIENT "OAuth client not found"

static enum op_result finish_client_get(struct api_request *request)
{
    struct oauth_client client;
    int status = store_oauth_client_get_result(&request->query, &client);
    if (status != OK)
        return api_reply_no_row(request, status, NO_CLIENT);
    struct json_writer *w = api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX);
    json_member_str(w, "integration_id", client.integration_id);
    json_member_str(w, "client_id", client.client_id);
    json_member_bool(w, "has_secret", client.sealed.len > 0);
    json_member_time(w, "created_at", client.created_at);
    json_member_time(w, "updated_at", client.updated_at);
    return api_reply_close(request, 200);
}

static enum op_result begin_client_get(struct api_request *request)
{
    store_oauth_client_get(request->api->config.pool, &request->query, &request->serve.op,
                           request->serve.grant.account_id, request->serve.match.params[0]);
    return api_wait(request, finish_client_get);
}

const struct api_endpoint api_oauth_clients_get = {
    .scope = SCOPE_ADMIN,
    .begin = begin_client_get,
    .is_of_account = true,
};

/* ---- changes ---- */

static enum op_result on_client_changed(struct api_request *request)
{
    struct client_change *it = request->state;
    int status = it->command.status;
    mem_wipe((char *)(uintptr_t)it->in.client_secret.ptr, it->in.client_secret.len);
    if (status != OK)
        return api_reply_no_row(request, status, NO_CLIENT);
    return it->in.kind == CONNECT_CLIENT_REMOVE
               ? api_reply(request, 200, SLICE("{\"success\":true}"))
               : begin_client_get(request);
}

/* client_id and secret: for CONNECT_CLIENT_SET. */
static enum op_result change_client(struct api_request *request, enum connect_command_kind kind,
                                    slice client_id, slice secret)
{
    struct client_change *it = request->state;
    it->in = (struct connect_command_request){
        .kind = kind,
        .by = serve_by(&request->serve),
        .client.client = {.account_id = request->serve.grant.account_id,
                          .integration_id = request->serve.match.params[0],
                          .client_id = client_id},
        .client_secret = secret,
    };
    request->on_gone = api_continue;
    connect_command_start(request->api->config.connect, &it->command, &it->in, &request->serve.op);
    return api_wait(request, on_client_changed);
}

static enum op_result begin_client_set(struct api_request *request)
{
    const struct catalog *catalog = *request->api->config.catalog;
    slice id = request->serve.match.params[0];
    const struct json *given = json_given(request->body, SLICE("client_secret"));
    slice client_id = json_get_str(request->body, SLICE("client_id")), secret = json_str(given);
    const struct catalog_integration *app = catalog_find_integration(catalog, id, NULL);
    if (!app)
        return api_reply_error(
            request, 404, "%.*s",
            SLICE_ARG(catalog_say_no_integration(catalog, id, &request->serve.op.arena)));
    if (!oauth_client_is_used(app))
        return api_reply_error(request, 400, "%.*s does not use OAuth: its auth is %s",
                               SLICE_ARG(app->name), catalog_auth_name(app->auth.kind));
    if (!oauth_client_is_id(client_id))
        return api_reply_error(request, 400,
                               "client_id must be a string of 1 to %d printable ASCII characters "
                               "without spaces, as the app issued it",
                               OAUTH_CLIENT_ID_MAX);
    if (given && (!secret.ptr || !oauth_client_is_secret(secret)))
        return api_reply_error(request, 400,
                               "client_secret must be a string of at most %d printable ASCII "
                               "characters without spaces; leave it out for a public client",
                               OAUTH_CLIENT_SECRET_MAX);
    return change_client(request, CONNECT_CLIENT_SET, client_id, secret);
}

const struct api_endpoint api_oauth_clients_set = {
    .scope = SCOPE_ADMIN,
    .body = API_BODY_REQUIRED,
    .members = &(const struct api_names){.own = {"client_id", "client_secret"}},
    .begin = begin_client_set,
    .is_of_account = true,
    .state_bytes = sizeof(struct client_change),
};

static enum op_result begin_client_remove(struct api_request *request)
{
    return change_client(request, CONNECT_CLIENT_REMOVE, SLICE_NONE, SLICE_NONE);
}

const struct api_endpoint api_oauth_clients_remove = {
    .scope = SCOPE_ADMIN,
    .begin = begin_client_remove,
    .is_of_account = true,
    .state_bytes = sizeof(struct client_change),
};
