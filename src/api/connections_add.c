/*
 * POST /api/connections (admin scope): connects an app with a credential that the account has
 * already, for the account or for one of its users. It takes what `sluice connections add` takes
 * (call/credential.h). The app is asked whether it accepts the credential; if not, nothing is
 * stored. A connection of the same owner that acts as the same user of the app gets the credential,
 * so the request may be repeated. That user is not known for an expired token, which only a renewal
 * could use: such a request names the connection when it is repeated.
 *
 * No reply, log or error contains the credential.
 */
#include "base/mem.h"
#include "call/credential.h"
#include "api/request.h"
#include "serve/stored.h"

enum { ADD_TRIES_MAX = 5 }; /* each tests the credential again */

struct adding {
    slice integration_id, auth, scopes, label;
    slice credential, params; /* JSON text; the credential is wiped after its use */
    bool is_default;
    int64_t connection_id; /* 0: a new connection */
    unsigned tries;        /* further ones */
    struct call_enrol enrol;
};

/* Returns a member as JSON text in the op's arena; SLICE_NONE if it is absent, or if it was refused
 * (*is_ok is then false). */
static slice read_object(struct api_request *request, const char *name, bool *is_ok)
{
    const struct json *value = json_given(request->body, slice_cstr(name));
    slice text = SLICE_NONE;
    if (!value || !*is_ok)
        return text;
    *is_ok = json_is(value, JSON_OBJECT);
    if (*is_ok)
        text = json_text_of(value, &request->serve.op.arena, CALL_CREDENTIAL_BYTES_MAX);
    if (!*is_ok)
        (void)api_reply_error(request, 400, "%s must be an object", name);
    else if (!text.ptr)
        (void)api_reply_error(request, 400, "%s must have at most %d bytes", name,
                              CALL_CREDENTIAL_BYTES_MAX);
    *is_ok = text.ptr != NULL;
    return text;
}

static slice read_text(struct api_request *request, const char *name, bool *is_ok)
{
    const struct json *value = json_given(request->body, slice_cstr(name));
    if (value && value->type != JSON_STRING && *is_ok) {
        (void)api_reply_error(request, 400, "%s must be a string", name);
        *is_ok = false;
    }
    return json_str(value);
}

/* Returns false if the request was answered with 400. */
static bool read_adding(struct api_request *request, struct adding *it)
{
    bool is_ok = true;
    const struct json *is_default = json_given(request->body, SLICE("default"));
    it->integration_id = read_text(request, "integration_id", &is_ok);
    it->auth = read_text(request, "auth", &is_ok);
    it->scopes = read_text(request, "scopes", &is_ok);
    it->label = read_text(request, "label", &is_ok);
    it->credential = read_object(request, "credential", &is_ok);
    it->params = read_object(request, "params", &is_ok);
    if (!is_ok)
        return false;
    slice fault = api_connection_read(request, request->body, "connection_id", &it->connection_id);
    it->is_default = json_is(is_default, JSON_BOOL) && is_default->as.boolean;
    if (!it->integration_id.ptr || !it->credential.ptr)
        fault = SLICE("integration_id and an object credential are required");
    else if (is_default && !it->is_default)
        fault = SLICE("default can only be true");
    else if (it->label.ptr && !slice_is_name(it->label, CONNECTION_LABEL_MAX))
        fault = api_sentence(request, "label must be a string of 1 to %d characters on one line",
                             CONNECTION_LABEL_MAX);
    else if (it->connection_id && (it->label.ptr || it->params.ptr))
        fault = SLICE("label and params are for a new connection: leave them out, or leave out "
                      "connection_id");
    if (fault.ptr)
        (void)api_reply_error(request, 400, "%.*s", SLICE_ARG(fault));
    return !fault.ptr;
}

/* ---- the result ---- */

static enum op_result reply_no_connection(struct api_request *request)
{
    return api_reply_error(request, 404, "Connection not found");
}

static void wipe_text(slice text)
{
    mem_wipe((char *)(uintptr_t)text.ptr, text.len);
}

/* The body's values and the text that was made of them. Copies that others made are secrets of
 * their own (base/secret.h). */
static void wipe_credential(const struct api_request *request, const struct adding *it)
{
    const struct json *credential = JSON_GET(request->body, "credential");
    wipe_text(it->credential);
    for (uint32_t i = 0; i < credential->count; i++)
        wipe_text(json_str(&credential->as.members[i].value));
}

static enum op_result enrol_adding(struct api_request *request, slice auth_kind);

static enum op_result finish_added(struct api_request *request)
{
    struct adding *it = request->state;
    struct connection row;
    int status = store_connection_get_result(&request->query, &row);
    /* Of several requests for one login at the same moment, another one has removed the connection
     * for a third one, which then has the credential's place. */
    if (status == ERR_NOTFOUND && !it->connection_id && it->tries++ < ADD_TRIES_MAX)
        return enrol_adding(request, SLICE_NONE);
    wipe_credential(request, it);
    if (status == ERR_NOTFOUND) /* removed in the meantime */
        return it->connection_id ? reply_no_connection(request)
                                 : api_reply_later(request, SLICE("The connection was removed at "
                                                                  "the same moment. Try again."));
    if (status != OK) /* not 503, which means that nothing was done */
        return api_reply_error(request, 500,
                               "The credential was stored as connection %lld, which could not be "
                               "read. GET /api/connections/%lld shows it.",
                               (long long)it->enrol.connection_id,
                               (long long)it->enrol.connection_id);
    const struct connection known =
        serve_connection(&request->serve, *request->api->config.catalog, &row);
    connect_write(api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX), &known);
    return api_reply_close(request, 201);
}

static enum op_result on_enrolled(struct api_request *request)
{
    struct adding *it = request->state;
    const struct call_enrol *enrol = &it->enrol;
    if (enrol->result != CALL_ENROLLED)
        wipe_credential(request, it);
    switch (enrol->result) {
    case CALL_ENROLLED:
        store_connection_get(request->api->config.pool, &request->query, &request->serve.op,
                             request->serve.grant.account_id, enrol->connection_id);
        return api_wait(request, finish_added);
    case CALL_ENROL_GONE:
        return reply_no_connection(request);
    case CALL_ENROL_REFUSED:
        return api_reply_error(request, 409, "Nothing was stored. %.*s", SLICE_ARG(enrol->message));
    case CALL_ENROL_FULL:
    case CALL_ENROL_LINK_USED:
    case CALL_ENROL_OTHER_IDENTITY:
    case CALL_ENROL_UNKNOWN_IDENTITY:
        return api_reply_error(request, 409, "%.*s", SLICE_ARG(enrol->message));
    case CALL_ENROL_OUTAGE:
        return api_reply_later(
            request, api_sentence(request, "Nothing was stored. %.*s", SLICE_ARG(enrol->message)));
    case CALL_ENROL_UNAVAILABLE:
        return api_reply_later(request, enrol->message);
    }
    UNREACHABLE("every result of an enrolment has a case");
}

/* ---- the request ---- */

/* auth_kind: of the connection that gets the credential; SLICE_NONE: a new one. */
static enum op_result enrol_adding(struct api_request *request, slice auth_kind)
{
    const struct api_config *config = &request->api->config;
    struct adding *it = request->state;
    struct arena *arena = &request->serve.op.arena;
    struct err err;
    const struct catalog_integration *app =
        catalog_find_integration(*config->catalog, it->integration_id, NULL);
    if (!app)
        return api_reply_error(
            request, 404, "%.*s",
            SLICE_ARG(catalog_say_no_integration(*config->catalog, it->integration_id, arena)));
    if (app->auth.kind == AUTH_NONE)
        return api_reply_error(request, 400, "This integration needs no connection");
    struct call_enrol_request in = {
        .save = {.account_id = request->serve.grant.account_id,
                 .connection_id = it->connection_id,
                 .label = it->label,
                 .is_default = it->is_default,
                 .by = serve_by(&request->serve)},
        .is_single = true,
    };
    const struct call_order order = {
        .integration = app,
        .auth = it->auth.ptr ? it->auth : auth_kind,
        .credential = it->credential,
        .params = it->params,
        .scopes = it->scopes,
    };
    if (call_order_read(&order, arena, &in, &err) != OK)
        return err.code == ERR_NOMEM ? api_reply_no_memory(request)
                                     : api_reply_error(request, 400, "%s", err.text);
    call_enrol_start(config->connect, config->pool, config->http, *config->catalog, &it->enrol, &in,
                     &request->serve.op);
    return api_wait(request, on_enrolled);
}

/* The connection that is named decides how the credential is used, unless the request says it. */
static enum op_result on_former(struct api_request *request)
{
    const struct adding *it = request->state;
    struct connection row;
    int status = store_connection_get_result(&request->query, &row);
    if (status == ERR_NOTFOUND ||
        (status == OK && !slice_eq(row.integration_id, it->integration_id)))
        return reply_no_connection(request);
    return status == OK ? enrol_adding(request, row.auth_kind)
                        : api_reply_database(request, status);
}

static enum op_result begin_add(struct api_request *request)
{
    struct adding *it = request->state;
    request->on_gone = api_continue;
    if (!read_adding(request, it))
        return OP_DONE;
    if (!it->connection_id)
        return enrol_adding(request, SLICE_NONE);
    if (it->connection_id == EXEC_CONNECTION_NONE)
        return reply_no_connection(request);
    store_connection_get(request->api->config.pool, &request->query, &request->serve.op,
                         request->serve.grant.account_id, it->connection_id);
    return api_wait(request, on_former);
}

const struct api_endpoint api_connections_add = {
    .scope = SCOPE_ADMIN,
    .body = API_BODY_REQUIRED,
    .members = &(const struct api_names){.own = {"integration_id", "auth", "credential", "label",
                                                 "default", "scopes", "params", "connection_id"},
                                         .other = {{"connectionId", "connection_id"}}},
    .begin = begin_add,
    .state_bytes = sizeof(struct adding),
};
