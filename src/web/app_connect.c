/*
 * Connecting an app: with a credential that was typed, which the app has to take before it is
 * stored; or by OAuth, where the browser is sent to the app's authorization server.
 */
#include "base/mem.h"
#include "connect/oauth.h"
#include "web/app.h"

enum {
    CREDENTIAL_BYTES_MAX = 48 * 1024,
    REPORT_BYTES_MAX = 400,
    STORE_TRIES_MAX = 3, /* a first one that is not the first any more; a row changed meanwhile */
};

enum phase { PHASE_LOADED, PHASE_TESTED, PHASE_STORED, PHASE_RELOADED, PHASE_AUDITED, PHASE_SENT };

struct connecting {
    enum phase phase; /* what is waited for */
    struct catalog *catalog;
    const struct catalog_integration *app;
    int64_t again; /* the connection to reconnect; 0: a new one */
    slice label;
    const struct json *params;
    slice params_text;
    struct secret *credential;
    struct exec_probe probe;
    struct oauth_begin begin;
    struct connection row; /* as it is stored, or is to be */
    struct buf sealed;
    unsigned tries;
};

static void on_cancel(struct web_request *request)
{
    struct connecting *it = request->state;
    if (op_is_active(&it->probe.op))
        op_cancel(&it->probe.op);
    if (op_is_active(&it->begin.op))
        op_cancel(&it->begin.op);
}

static void on_end(struct web_request *request)
{
    struct connecting *it = request->state;
    for (size_t i = 0; i < request->field_count; i++) /* what was typed is a secret, too */
        mem_wipe((char *)(uintptr_t)request->fields[i].value.ptr, request->fields[i].value.len);
    secret_unref(it->credential);
    buf_deinit(&it->sealed);
    catalog_unref(it->catalog);
}

/* ---- what was typed ---- */

static const char *const *members_of(enum catalog_auth_kind kind)
{
    static const char *const api_key[] = {"api_key", NULL}, *const bearer[] = {"token", NULL},
                             *const basic[] = {"username", "password", NULL},
                             *const client[] = {"client_id", "client_secret", NULL};
    switch (kind) {
    case AUTH_API_KEY:
        return api_key;
    case AUTH_BEARER:
        return bearer;
    case AUTH_BASIC:
        return basic;
    case AUTH_OAUTH2_CLIENT_CREDENTIALS:
        return client;
    case AUTH_OAUTH2:
    case AUTH_NONE:
        break;
    }
    return NULL;
}

/* A header's value in the end. */
static bool is_sendable(slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] < 0x20 || text.ptr[i] == 0x7F)
            return false;
    return slice_is_utf8(text, NULL);
}

/* false: something is missing or not fit to be sent. */
static bool read_credential(struct web_request *request, struct connecting *it)
{
    struct json_writer w;
    struct buf text;
    bool is_whole = true;
    buf_init(&text, CREDENTIAL_BYTES_MAX);
    json_begin(&w, &text);
    json_open(&w, '{');
    for (const char *const *name = members_of(it->app->auth.kind); *name && is_whole; name++) {
        slice value = web_field(request, *name);
        bool may_be_empty = strcmp(*name, "password") == 0;
        is_whole = (value.len > 0 || may_be_empty) && is_sendable(value);
        json_key(&w, *name);
        json_put_str(&w, value.ptr ? value : SLICE(""));
    }
    json_close(&w, '}');
    if (is_whole && buf_is_ok(&text))
        it->credential = secret_new(buf_slice(&text));
    mem_wipe(text.ptr, text.cap);
    buf_deinit(&text);
    return it->credential != NULL;
}

/* As the schema wants it: text where it may be a string, else JSON where it reads as such. */
static struct json typed(struct arena *arena, const struct json *property, slice text)
{
    slice type = json_get_str(property, SLICE("type"));
    const struct json *parsed =
        slice_eq_cstr(type, "string") ? NULL : json_parse(arena, text, &json_limits_request, NULL);
    return parsed ? *parsed : json_string(text);
}

static void write_params(struct web_request *request, struct connecting *it)
{
    struct buf text;
    buf_init(&text, CREDENTIAL_BYTES_MAX);
    json_write(&text, it->params);
    it->params_text = buf_is_ok(&text) ? arena_dup(&request->op.arena, buf_slice(&text))
                                       : SLICE_NONE;
    buf_deinit(&text);
}

/* SLICE_NONE: params are filled; else what is wrong. */
static slice read_params(struct web_request *request, struct connecting *it)
{
    struct arena *arena = &request->op.arena;
    const struct json *properties = JSON_GET(it->app->connection_params, "properties");
    struct json *params = ARENA_NEW(arena, struct json);
    if (!params)
        return SLICE("Out of memory.");
    *params = json_object();
    for (size_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++) {
        const struct json_member *member = &properties->as.members[i];
        slice field = arena_printf(arena, "param.%.*s", SLICE_ARG(json_str(&member->key)));
        slice value = field.ptr ? web_field(request, field.ptr) : SLICE_NONE;
        if (value.len > 0)
            json_object_set(arena, params, json_str(&member->key),
                            typed(arena, &member->value, value));
    }
    struct schema_report report;
    schema_report_init(&report, arena, SLICE(""));
    it->params = params;
    write_params(request, it);
    if (!it->app->connection_schema || schema_validate(it->app->connection_schema, params, &report))
        return it->params_text.ptr ? SLICE_NONE : SLICE("The fields are too long.");
    struct buf words;
    buf_init(&words, REPORT_BYTES_MAX + 64 * 1024);
    schema_report_write(&report, &words);
    slice problem = arena_dup(arena, slice_first_utf8(buf_slice(&words), REPORT_BYTES_MAX));
    buf_deinit(&words);
    return problem.ptr ? problem : SLICE("A field is not as the app wants it.");
}

static enum op_result refuse(struct web_request *request, unsigned status, slice problem)
{
    struct connecting *it = request->state;
    return app_reply_connect(request, status, it->app, it->again ? &it->row : NULL, problem);
}

/* ---- begin ---- */

static enum op_result begin_oauth(struct web_request *request)
{
    struct connecting *it = request->state;
    const struct web_session *session = &request->session;
    const struct oauth_begin_request in = {
        .account_id = session->account_id,
        .integration_id = it->app->integration_id,
        .session_id = slice_of(session->csrf, SESSION_CSRF_LEN),
        .redirect_uri = arena_printf(&request->op.arena, "%.*s/connect/callback",
                                     SLICE_ARG(request->web->config.public_url)),
        .label = it->label,
        .params = it->params_text,
        .connection_id = it->again,
    };
    if (!in.redirect_uri.ptr)
        return web_reply_database(request, ERR_NOMEM);
    it->phase = PHASE_SENT;
    oauth_begin_start(request->web->config.connect, &it->begin, &in, &request->op);
    return OP_WAIT;
}

static enum op_result test(struct web_request *request)
{
    struct connecting *it = request->state;
    const struct exec_probe_request in = {
        .account_id = request->session.account_id,
        .integration_id = it->app->integration_id,
        .credential = secret_reveal(it->credential),
        .params = it->params,
    };
    it->phase = PHASE_TESTED;
    exec_probe_start(request->web->config.http, it->catalog, &it->probe, &in, &request->op);
    return OP_WAIT;
}

static enum op_result load(struct web_request *request, enum phase phase)
{
    struct connecting *it = request->state;
    it->phase = phase;
    store_connection_get(request->web->config.pool, &request->query, &request->op,
                         request->session.account_id, it->again);
    return OP_WAIT;
}

static enum op_result begin_connect(struct web_request *request)
{
    struct connecting *it = ARENA_NEW(&request->op.arena, struct connecting);
    slice again = web_field(request, "connection");
    if (!it)
        return web_reply_database(request, ERR_BUSY);
    it->app = app_of_path(request, &it->catalog);
    if (!it->app)
        return OP_DONE;
    buf_init(&it->sealed, VAULT_PLAIN_MAX + VAULT_SEAL_OVERHEAD);
    request->state = it;
    request->on_end = on_end;
    request->on_cancel = on_cancel;
    if (again.len > 0 && (!slice_to_i64(again, &it->again) || it->again <= 0))
        return web_reply_problem(request, 400, SLICE("Not done"),
                                 SLICE("The form is not complete; load the app's page again."));
    if (it->app->auth.kind == AUTH_NONE)
        return web_reply_problem(request, 400, SLICE("Nothing to do"),
                                 SLICE("This app needs no connection."));
    it->label = web_field(request, "label");
    it->label = it->label.len > 0 ? it->label : SLICE_NONE;
    if (it->label.ptr && !slice_is_name(it->label, CONNECTION_LABEL_MAX)) {
        it->again = 0;
        return refuse(request, 400, SLICE("A label has at most 200 characters, on one line."));
    }
    if (it->again)
        return load(request, PHASE_LOADED);
    slice problem = read_params(request, it);
    if (problem.ptr)
        return refuse(request, 400, problem);
    if (it->app->auth.kind == AUTH_OAUTH2)
        return begin_oauth(request);
    if (!read_credential(request, it))
        return refuse(request, 400, SLICE("Fill in the whole form; each field on one line."));
    return test(request);
}

/* ---- a connection to reconnect ---- */

static enum op_result on_loaded(struct web_request *request)
{
    struct connecting *it = request->state;
    int status = store_connection_get_result(&request->query, &it->row);
    if (status != OK && status != ERR_NOTFOUND)
        return web_reply_database(request, status);
    if (status == ERR_NOTFOUND || !slice_eq(it->row.integration_id, it->app->integration_id))
        return web_reply_problem(request, 404, SLICE("Not found"),
                                 SLICE("There is no such connection; it may have been removed."));
    if (it->app->auth.kind == AUTH_OAUTH2)
        return begin_oauth(request);
    if (it->row.params.len > 0)
        it->params = json_parse(&request->op.arena, it->row.params, &json_limits_provider, NULL);
    if (!read_credential(request, it))
        return refuse(request, 400, SLICE("Fill in the whole form; each field on one line."));
    return test(request);
}

/* ---- storing ---- */

static bool seal(struct web_request *request)
{
    struct connecting *it = request->state;
    const struct vault_place place = {request->session.account_id, it->row.id};
    buf_clear(&it->sealed);
    bool is_ok = vault_seal(request->web->config.ring, &place, secret_reveal(it->credential),
                            &it->sealed) == OK;
    it->row.sealed = buf_slice(&it->sealed);
    it->row.key_id = vault_ring_key_id(request->web->config.ring);
    return is_ok;
}

static enum op_result store(struct web_request *request)
{
    struct connecting *it = request->state;
    struct pg_pool *pool = request->web->config.pool;
    const struct connection_credentials credentials = {.sealed = it->row.sealed,
                                                       .key_id = it->row.key_id};
    it->phase = PHASE_STORED;
    if (it->again)
        store_connection_credentials_set(pool, &request->query, &request->op,
                                         request->session.account_id, it->again, it->row.rev,
                                         &credentials);
    else
        store_connection_insert(pool, &request->query, &request->op, &it->row);
    return OP_WAIT;
}

static enum op_result on_tested(struct web_request *request)
{
    struct connecting *it = request->state;
    const struct exec_probe *probe = &it->probe;
    if (probe->verdict == EXEC_PROBE_REFUSED || probe->verdict == EXEC_PROBE_OUTAGE)
        return refuse(request, probe->verdict == EXEC_PROBE_REFUSED ? 400 : 503,
                      arena_printf(&request->op.arena, "Nothing was stored. %.*s",
                                   SLICE_ARG(probe->message)));
    slice label = slice_is_name(probe->label, CONNECTION_LABEL_MAX)
                      ? arena_dup(&request->op.arena, probe->label)
                      : it->app->name;
    if (!it->again)
        it->row = (struct connection){
            .account_id = request->session.account_id,
            .id = short_id_new(),
            .integration_id = it->app->integration_id,
            .label = it->label.ptr ? it->label : label,
            .is_default = true, /* where there is none yet */
            .auth_kind = slice_cstr(catalog_auth_name(it->app->auth.kind)),
            .params = it->params_text,
            .status = CONNECTION_LIVE,
        };
    if (!seal(request))
        return refuse(request, 400, SLICE("Nothing was stored: the credential is too large."));
    return store(request);
}

static enum op_result on_stored(struct web_request *request)
{
    struct connecting *it = request->state;
    int64_t rev;
    int status = it->again ? store_connection_set_result(&request->query, &rev)
                           : store_done_result(&request->query);
    bool may_repeat = it->tries++ < STORE_TRIES_MAX;
    if (it->again && status == ERR_NOTFOUND && may_repeat)
        return load(request, PHASE_RELOADED);
    if (!it->again && status == ERR_INVALID && it->row.is_default && may_repeat) {
        it->row.is_default = false; /* the app has a default connection already */
        return store(request);
    }
    if (status != OK)
        return web_reply_database(request, status);
    connect_changed(request->web->config.connect, request->session.account_id,
                    it->app->integration_id);
    it->phase = PHASE_AUDITED;
    app_audit(request, it->again ? SLICE("connection.reconnected") : SLICE("connection.added"),
              it->row.id, it->app->integration_id);
    return OP_WAIT;
}

static enum op_result on_reloaded(struct web_request *request)
{
    struct connecting *it = request->state;
    struct connection row;
    int status = store_connection_get_result(&request->query, &row);
    if (status == ERR_NOTFOUND)
        return web_reply_problem(request, 404, SLICE("Not found"),
                                 SLICE("The connection was removed meanwhile."));
    if (status != OK)
        return web_reply_database(request, status);
    it->row.rev = row.rev;
    return store(request);
}

static enum op_result on_audited(struct web_request *request)
{
    struct connecting *it = request->state;
    bool is_tested = it->probe.verdict == EXEC_PROBE_WORKS;
    web_audited(request);
    return web_reply_redirect(
        request, app_path_after(request, it->app->integration_id, it->row.id, it->again != 0),
        it->again   ? "reconnected"
        : is_tested ? "connected"
                    : "connection_untested");
}

/* It was removed since the form was shown, or its secret does not open: one can be entered here. */
static enum op_result reply_no_client(struct web_request *request)
{
    struct connecting *it = request->state;
    bool is_to_app = !it->again || request->session.limit_integration.ptr;
    struct buf body;
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    HTML(&body,
         "<p class=\"problem\" role=\"alert\">Nothing was changed: this server has no OAuth client "
         "for {} that works, and {} lets nobody in whom it does not know.</p><div class=\"card\">",
         it->app->name, it->app->name);
    app_write_client_wanted(request, it->app, it->again, &body);
    HTML(&body, "</div><p class=\"actions\"><a class=\"button\" href=\"{}\">Back to {}</a></p>",
         app_path_after(request, it->app->integration_id, it->again, it->again != 0),
         is_to_app ? it->app->name : it->row.label);
    return web_reply_page(
        request, 400, arena_printf(&request->op.arena, "Connect %.*s", SLICE_ARG(it->app->name)),
        &body);
}

static enum op_result on_sent(struct web_request *request)
{
    struct connecting *it = request->state;
    const struct oauth_begin *begin = &it->begin;
    if (begin->outcome == OAUTH_DONE)
        return web_reply_away(request, begin->url);
    if (begin->outcome == OAUTH_NO_CLIENT)
        return reply_no_client(request);
    return refuse(request, begin->outcome == OAUTH_UNAVAILABLE ? 503 : 400, begin->message);
}

static enum op_result finish_connect(struct web_request *request)
{
    const struct connecting *it = request->state;
    switch (it->phase) {
    case PHASE_LOADED:
        return on_loaded(request);
    case PHASE_TESTED:
        return on_tested(request);
    case PHASE_STORED:
        return on_stored(request);
    case PHASE_RELOADED:
        return on_reloaded(request);
    case PHASE_AUDITED:
        return on_audited(request);
    case PHASE_SENT:
        return on_sent(request);
    }
    UNREACHABLE("a phase has its end");
}

const struct web_page web_app_connect = {.route = "/integrations/{id}/connect",
                                         .access = WEB_LIMITED,
                                         .scope = SCOPE_EXECUTE,
                                         .begin = begin_connect,
                                         .finish = finish_connect};
