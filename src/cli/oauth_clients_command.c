/*
 * sluice oauth-clients: manages the OAuth clients that are registered with the apps' authorization
 * servers, for all accounts or for a single account.
 */
#include "base/mem.h"
#include "cli/catalog_show.h"
#include "cli/change.h"
#include "cli/commands.h"
#include "cli/credential.h"
#include "cli/output.h"
#include "connect/oauth_client.h"

/* Finds the account of --account. Without --account it is the nil UUID: the client is for all
 * accounts. */
static int find_owner(struct session *session, const struct command_call *call,
                      struct uuid *account_id)
{
    struct account account;
    slice name = command_option(call, "account");
    *account_id = (struct uuid){{0}};
    if (!name.ptr)
        return OK;
    int result = session_find_account(session, name, &account);
    *account_id = account.account_id;
    return result;
}

/* ---- set ---- */

/* Reads the secret from a file or stdin that has nothing else; one newline at its end is
 * removed. */
static int read_secret(const char *path, struct buf *out, struct err *err)
{
    int result = credential_read(path, "a client secret", out, err);
    if (out->len > 0 && out->ptr[out->len - 1] == '\n')
        out->len--;
    if (out->len > 0 && out->ptr[out->len - 1] == '\r')
        out->len--;
    if (result == OK && (out->len == 0 || !oauth_client_is_secret(buf_slice(out))))
        result = err_set(err, ERR_INVALID,
                         "a client secret is a line of printable characters without spaces");
    return result;
}

static int check_client(struct session *session, const struct command_call *call,
                        struct oauth_client *client)
{
    const struct catalog_integration *integration;
    if (session_open_catalog(session) != OK ||
        catalog_find_or_suggest(session, slice_cstr(call->argv[0]), &integration) != OK)
        return (int)session->err.code;
    ASSERT(integration);
    if (!oauth_client_is_used(integration))
        return err_set(&session->err, ERR_INVALID, "%.*s does not use OAuth: its auth is %s",
                       SLICE_ARG(integration->name), catalog_auth_name(integration->auth.kind));
    client->integration_id = integration->integration_id;
    client->client_id = command_option(call, "client-id");
    if (!client->client_id.ptr)
        return err_set(&session->err, ERR_INVALID,
                       "--client-id is missing: the client id that the app issued");
    if (!oauth_client_is_id(client->client_id))
        return err_set(&session->err, ERR_INVALID,
                       "--client-id must be the client id that the app issued");
    return OK;
}

static int set_oauth_client(struct session *session, struct command_call *call)
{
    struct connect_command_request request = {.kind = CONNECT_CLIENT_SET};
    struct oauth_client *client = &request.client.client;
    slice path = command_option(call, "client-secret-file");
    struct buf secret;
    if (check_client(session, call, client) != OK || session_open_ring(session) != OK ||
        session_open_database(session) != OK ||
        find_owner(session, call, &client->account_id) != OK)
        return (int)session->err.code;
    buf_init(&secret, OAUTH_CLIENT_SECRET_MAX + 1);
    int result = path.ptr ? read_secret(path.ptr, &secret, &session->err) : OK;
    /* A public client has no secret. */
    request.client_secret = buf_slice(&secret);
    if (result == OK)
        result = change_connect(session, &request);
    mem_wipe(secret.ptr, secret.cap);
    buf_deinit(&secret);
    if (result == OK)
        (void)printf("OAuth client of %s set for %s\n", call->argv[0],
                     command_has(call, "account") ? "the account" : "all accounts");
    return result;
}

/* ---- list ---- */

static void put_client_cells(struct output_table *table, const void *row)
{
    const struct oauth_client *client = row;
    output_table_cell(table, client->integration_id);
    output_table_cell(table, client->client_id);
    output_table_cell(table, client->sealed.len > 0 ? SLICE("sealed") : SLICE("none"));
    output_table_cell(table, client->key_id);
    output_table_time(table, client->created_at);
    output_table_time(table, client->updated_at);
}

static void put_client(struct json_writer *w, const void *row)
{
    const struct oauth_client *client = row;
    json_member_str(w, "integration_id", client->integration_id);
    json_member_str(w, "client_id", client->client_id);
    json_member_bool(w, "has_secret", client->sealed.len > 0);
    json_member_str(w, "master_key_id", client->key_id);
    json_member_time(w, "created_at", client->created_at);
    json_member_time(w, "updated_at", client->updated_at);
}

static const struct output_list client_list = {
    .row_size = sizeof(struct oauth_client),
    .headings = "INTEGRATION|CLIENT ID|SECRET|MASTER KEY|CREATED|CHANGED",
    .none = "there are no OAuth clients; `sluice oauth-clients set` adds one",
    .put_cells = put_client_cells,
    .put_json = put_client,
    .load = store_oauth_client_list_sync,
};

static int list_oauth_clients(struct session *session, struct command_call *call)
{
    struct uuid account_id;
    if (session_open_database(session) != OK || find_owner(session, call, &account_id) != OK)
        return (int)session->err.code;
    return session_print_list(session, call, &client_list, account_id);
}

/* ---- delete ---- */

static int delete_one(struct session *session, struct command_call *call)
{
    struct connect_command_request request = {.kind = CONNECT_CLIENT_REMOVE};
    struct oauth_client *client = &request.client.client;
    client->integration_id = slice_cstr(call->argv[0]);
    if (session_open_database(session) != OK ||
        find_owner(session, call, &client->account_id) != OK)
        return (int)session->err.code;
    int result = change_connect(session, &request);
    if (result == OK)
        (void)printf("OAuth client of %s deleted\n", call->argv[0]);
    return result;
}

/* ---- the table ---- */

static const struct config_option set_options[] = {
    {"client-id", "ID", "as the app's developer pages show it"},
    {"client-secret-file", "FILE", "a file, or - for stdin; left out for a public client"},
    {"account", "ACCOUNT",
     "only for this account, instead of all accounts without one of their own"},
};
static const struct config_option list_options[] = {
    {"account", "ACCOUNT", "this account's own, instead of those for all accounts"},
    {"json", NULL, "print JSON, for scripts"},
};
static const struct config_option delete_options[] = {
    {"account", "ACCOUNT", "this account's own, instead of the one for all accounts"},
};

static const struct command_verb verbs[] = {
    {"set", "INTEGRATION",
     "Set the OAuth client that is registered with an app. The secret is stored sealed.",
     set_oauth_client, COMMAND_OPTIONS(set_options), .needs = "client-id"},
    {"list", "", "List the OAuth clients for all accounts, or one account's own.",
     list_oauth_clients, COMMAND_OPTIONS(list_options)},
    {"delete", "INTEGRATION",
     "Delete an OAuth client. The tokens that it issued can then no longer be renewed.", delete_one,
     COMMAND_OPTIONS(delete_options)},
};

const struct command oauth_clients_command = {
    .name = "oauth-clients",
    .summary = "OAuth clients registered with apps: set, list, delete",
    .help = "People connect an app with OAuth through a client that you register with the app's "
            "vendor. Set it once for all accounts, or for one account with a client of its own. "
            "Running servers use it from then on.",
    .scopes = CONFIG_DATABASE | CONFIG_KEYRING | CONFIG_CATALOG,
    COMMAND_VERBS(verbs),
};
