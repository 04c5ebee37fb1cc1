/*
 * sluice connections: an account's connections to apps, for operators and scripts. People connect
 * their apps in the dashboard.
 */
#include "base/mem.h"
#include "cli/authorize.h"
#include "cli/catalog_show.h"
#include "cli/change.h"
#include "cli/commands.h"
#include "cli/credential.h"
#include "cli/output.h"

/* ---- add ---- */

static int print_added(struct session *session, const struct command_call *call, int64_t id)
{
    if (!command_has(call, "json")) {
        (void)printf("connection %lld\n", (long long)id);
        return OK;
    }
    struct json_text json;
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)id);
    struct json_writer *w = output_json_begin(&json, '{');
    json_member_str(w, "id", slice_cstr(text));
    json_member_str(w, "integration_id", slice_cstr(call->argv[1]));
    return output_json_end(&json, '{', &session->err);
}

/* Checks that do not need the database come first, so that mistakes are reported without one. */
static int add_credential(struct session *session, const struct command_call *call,
                          struct call_order *order, int64_t *id)
{
    struct account account;
    struct call_enrol_request request;
    slice label = command_option(call, "label");
    order->params = command_option(call, "params");
    if (credential_order_read(session, order, label.ptr ? label : order->integration->name,
                              &request) != OK ||
        session_open_ring(session) != OK || session_open_account(session, call, &account) != OK)
        return (int)session->err.code;
    request.save.account_id = account.account_id;
    request.save.is_default = command_has(call, "default");
    return change_save(session, &request.save, id);
}

static int add_connection(struct session *session, struct command_call *call)
{
    struct call_order order = {
        .auth = command_option(call, "auth"),
        .auth_name = "--auth",
        .scopes = command_option(call, "scopes"),
    };
    slice path = command_option(call, "credential-file");
    struct buf text;
    int64_t id = 0;
    if (session_open_catalog(session) != OK ||
        catalog_find_or_suggest(session, slice_cstr(call->argv[1]), &order.integration) != OK)
        return (int)session->err.code;
    ASSERT(order.integration);
    if (call_order_check(&order, &session->arena, &session->err) != OK)
        return (int)session->err.code;
    const struct catalog_auth *auth = catalog_auth_of(order.integration, order.auth);
    if (!path.ptr)
        return err_set(&session->err, ERR_INVALID,
                       "--credential-file is missing: a file, or - for stdin, with a JSON object "
                       "of %s",
                       catalog_credential_of(auth->kind)->form);
    buf_init(&text, CALL_CREDENTIAL_BYTES_MAX + 1);
    int result = credential_read(path.ptr, "a credential as JSON", &text, &session->err);
    order.credential = buf_slice(&text);
    if (result == OK)
        result = add_credential(session, call, &order, &id);
    /* The buffer has the credential in clear text. */
    mem_wipe(text.ptr, text.cap);
    buf_deinit(&text);
    return result == OK ? print_added(session, call, id) : result;
}

/* ---- list ---- */

static void put_connection_cells(struct output_table *table, const void *row)
{
    const struct connection *connection = row;
    char id[SLICE_U64_MAX];
    output_table_cell(table, slice_of_u64((uint64_t)connection->id, id));
    output_table_cell(table, connection->integration_id);
    output_table_cell(table, connection->is_default ? SLICE("yes") : SLICE("no"));
    output_table_cell(table, slice_cstr(connection_status_name(connection->status)));
    output_table_time(table, connection->created_at);
    output_table_time(table, connection->last_used_at);
    output_table_time(table, connection->expires_at);
    output_table_cell(table, connection->key_id);
    output_table_cell(table, connection_identity_is_known(&connection->identity)
                                 ? connection_identity_text(&connection->identity)
                                 : SLICE("-"));
    output_table_cell(table, connection->label);
}

static void put_connection(struct json_writer *w, const void *row)
{
    const struct connection *connection = row;
    connect_write(w, connection);
    /* Writes the members of the API's answer, then the members that only an operator needs. */
    json_member_raw(w, "params", connection->params);
    json_member_str(w, "master_key_id", connection->key_id);
}

static const struct output_list connection_list = {
    .row_size = sizeof(struct connection),
    .headings = "CONNECTION|INTEGRATION|DEFAULT|STATE|CREATED|LAST USED|EXPIRES|MASTER KEY|ACTS AS|"
                "LABEL",
    .none = "the account has no connections; `sluice connections add` creates one",
    .put_cells = put_connection_cells,
    .put_json = put_connection,
    .load = store_connection_list_sync,
};

/* ---- default, remove ---- */

static int change_one(struct session *session, const struct command_call *call,
                      enum connect_command_kind kind, const char *done)
{
    struct account account;
    struct connect_command_request request = {.kind = kind};
    int64_t *id = &request.connection.id;
    if (!slice_to_i64(slice_cstr(call->argv[1]), id) || *id <= 0)
        return err_set(
            &session->err, ERR_INVALID,
            "CONNECTION must be a number, got \"%s\"; `sluice connections list` shows the ids",
            call->argv[1]);
    if (session_open_account(session, call, &account) != OK)
        return (int)session->err.code;
    request.connection.account_id = account.account_id;
    if (change_connect(session, &request) != OK)
        return (int)session->err.code;
    (void)printf("connection %lld %s\n", (long long)*id, done);
    return OK;
}

static int set_default_connection(struct session *session, struct command_call *call)
{
    return change_one(session, call, CONNECT_MAKE_DEFAULT, "is the default now");
}

static int remove_connection(struct session *session, struct command_call *call)
{
    return change_one(session, call, CONNECT_REMOVE, "removed");
}

/* ---- authorize ---- */

static int authorize(struct session *session, struct command_call *call)
{
    struct account account;
    struct oauth_begin_request request = {.redirect_uri = command_option(call, "redirect-uri"),
                                          .label = command_option(call, "label"),
                                          .params = command_option(call, "params")};
    const struct catalog_integration *integration;
    slice former = command_option(call, "reconnect");
    request.optional_scopes = command_option(call, "optional-scopes");
    request.may_change_identity = command_has(call, "any-identity");
    if (session_open_catalog(session) != OK ||
        catalog_find_or_suggest(session, slice_cstr(call->argv[1]), &integration) != OK)
        return (int)session->err.code;
    ASSERT(integration);
    /* The address cannot be derived: the app compares it character by character with the registered
     * address. */
    if (!request.redirect_uri.ptr)
        return err_set(&session->err, ERR_INVALID,
                       "--redirect-uri is missing: give the URI that is registered with the app");
    if (former.ptr && (!slice_to_i64(former, &request.connection_id) || request.connection_id <= 0))
        return err_set(&session->err, ERR_INVALID,
                       "--reconnect must be the number of a connection");
    if (request.label.ptr &&
        output_name_check(request.label, "a label", CONNECTION_LABEL_MAX, &session->err) != OK)
        return (int)session->err.code;
    /* A reconnected connection keeps its params. */
    if ((!former.ptr &&
         call_params_check(integration, request.params, &session->arena, &session->err) != OK) ||
        session_open_ring(session) != OK || session_open_account(session, call, &account) != OK)
        return (int)session->err.code;
    request.account_id = account.account_id;
    request.integration_id = integration->integration_id;
    return authorize_run(session, &request);
}

/* ---- the table ---- */

static const struct config_option add_options[] = {
    {"credential-file", "FILE",
     "a JSON object, or - for stdin; oauth2: access_token, refresh_token, expires_at or "
     "expires_in, "
     "as a token endpoint answers; oauth2_client_credentials: client_id, client_secret; bearer: "
     "token; api_key: api_key; basic: username, password"},
    {"label", "TEXT", "distinguishes connections of one app; the app's name by default"},
    {"default", NULL,
     "use it for calls that name no connection; an app's first connection is always the default"},
    {"auth", "TYPE",
     "oauth2, basic, ... if the app has several ways to connect; the first one by default"},
    {"params", "JSON", "what the integration needs besides the credential"},
    {"scopes", "LIST", "the scopes that were granted, separated by spaces"},
    {"json", NULL, "print JSON, for scripts"},
};
static const struct config_option authorize_options[] = {
    {"redirect-uri", "URI", "as it is registered with the app; no server has to listen there"},
    {"label", "TEXT", "distinguishes connections of one app; the app's name by default"},
    {"params", "JSON", "what the integration needs besides the grant"},
    {"optional-scopes", "LIST", "the app's optional scopes to request, separated by spaces"},
    {"reconnect", "CONNECTION", "give this connection a new grant instead of adding another"},
    {"any-identity", NULL, "allow the connection to act as another login from now on"},
};

static const struct command_verb verbs[] = {
    {"add", "ACCOUNT INTEGRATION",
     "Connect an app with an existing credential. It is stored encrypted.", add_connection,
     COMMAND_OPTIONS(add_options), .needs = "credential-file"},
    {"authorize", "ACCOUNT INTEGRATION",
     "Connect an app with OAuth. Prints the address to open in a browser, and reads from stdin the "
     "address that the browser ends at.",
     authorize, COMMAND_OPTIONS(authorize_options), .needs = "redirect-uri"},
    {"list", "ACCOUNT", "List the connections of an account.", session_list, COMMAND_JSON,
     .list = &connection_list},
    {"default", "ACCOUNT CONNECTION",
     "Make this connection the default one for calls that name none.", set_default_connection,
     COMMAND_NO_OPTIONS},
    {"remove", "ACCOUNT CONNECTION",
     "Delete a connection and its credential. The app is not notified.", remove_connection,
     COMMAND_NO_OPTIONS},
};

const struct command connections_command = {
    .name = "connections",
    .summary = "connected apps: add, authorize, list, default, remove",
    .help = "ACCOUNT is an account's id, or its name if that is unique. Running servers apply a "
            "change at once.",
    .scopes = CONFIG_DATABASE | CONFIG_KEYRING | CONFIG_CATALOG | CONFIG_OUTBOUND,
    COMMAND_VERBS(verbs),
};
