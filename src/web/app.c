/*
 * The page of one app: its description, its connections in brief (connection.c has each in full),
 * and the form that connects it.
 */
#include "web/app.h"

#include "http/url.h"
#include "web/call_stats.h"
#include "web/once.h"

enum { CONNECTIONS_MAX = 50 };

struct app {
    struct catalog *catalog;
    const struct catalog_integration *integration;
    struct pg_query own, shared; /* OAuth clients; request->query: connections, oldest first */
    struct pg_query choice;      /* the default one first */
    struct pg_query lent;        /* on a user's page: those that the account shares, oldest first */
    struct oauth_client own_client;
    bool has_own, has_shared;
    struct call_stats stats;
};

/* Also true for an app that needs no OAuth client. */
static bool has_client(const struct app *app)
{
    return !catalog_auth_by(app->integration, AUTH_OAUTH2) || app->has_own || app->has_shared;
}

/* ---- shared by the files of the app's pages ---- */

const struct catalog_integration *app_of_path(struct web_request *request, struct catalog **catalog)
{
    slice id = request->serve.match.params[0];
    ASSERT(request->serve.match.param_count > 0 && !*catalog);
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, id, NULL);
    if (!app) {
        (void)web_reply_missing(request, "There is no such app here.");
        return NULL;
    }
    /* The caller's on_end releases this reference. The app is valid until then, even if the
     * catalog is replaced earlier. */
    *catalog = catalog_ref(*request->web->config.catalog);
    return app;
}

slice app_path(struct web_request *request, slice integration_id)
{
    return arena_printf(&request->serve.op.arena, "/integrations/%.*s", SLICE_ARG(integration_id));
}

/* Authorization servers redirect to further hosts of their own (a company's sign-in), and
 * browsers apply form-action to each of those redirects. Any https host is allowed then. */
void app_allow_forms(struct web_request *request, const struct catalog_integration *app)
{
    struct url url;
    char *origin = arena_alloc_text(&request->serve.op.arena, URL_ORIGIN_MAX + 1);
    const struct catalog_auth *auth = catalog_auth_by(app, AUTH_OAUTH2);
    if (auth && slice_starts_with(auth->authorize_url, SLICE("https://")))
        web_allow_form_to(request, SLICE("https:"));
    else if (auth && origin && url_parse(auth->authorize_url, &url, NULL) == OK)
        web_allow_form_to(request, url_origin(&url, origin));
}

/* ---- the connect form ---- */

#define PARAM "param." /* prefix of the app's parameters */

struct form {
    struct web_request *request;
    struct json_writer *w;
    slice suffix; /* makes the ids of several forms of a page distinct */
    bool is_sent; /* the form with the faults, if there are any */
};

/* Writes an object as connect_field.html declares it. If hint is SLICE_NONE, the object has no
 * hint, not even an empty one. */
static void write_field(const struct form *form, const struct catalog_field *field, slice hint)
{
    struct json_writer *w = form->w;
    struct arena *arena = &form->request->serve.op.arena;
    char *name = arena_cstr(arena, field->name);
    json_open(w, '{');
    json_member_str(
        w, "id", arena_printf(arena, "%.*s-%.*s", SLICE_ARG(field->name), SLICE_ARG(form->suffix)));
    json_member_str(w, "name", field->name);
    /* A parameter of the app has neither a label nor a type. */
    bool is_param = !field->label.ptr;
    if (is_param)
        value_view_name(w, "label", slice_from(field->name, sizeof(PARAM) - 1));
    else
        json_member_str(w, "label", field->label);
    json_member_str(w, "type",
                    is_param           ? SLICE_NONE
                    : field->is_secret ? SLICE("password")
                                       : SLICE("text"));
    /* A secret's value is never written back into the page, not even after an error. */
    json_member_str(w, "value",
                    field->is_secret || !name ? SLICE_NONE : web_field(form->request, name));
    json_member_str(w, "placeholder", field->placeholder.len > 0 ? field->placeholder : SLICE_NONE);
    json_member_bool(w, "required", !field->may_be_empty);
    json_member_str(w, "hint", hint);
    json_member_str(w, "docs_url", field->docs_url);
    json_member_str(w, "fault",
                    form->is_sent ? web_fault_of(form->request, field->name) : SLICE_NONE);
    json_close(w, '}');
}

/* Writes the fields of the credential, as defined by the manifest or by the kind of
 * authentication. */
static void write_credential(const struct form *form, const struct catalog_auth *auth)
{
    json_member_open(form->w, "credential", '[');
    for (size_t i = 0; i < auth->field_count; i++) {
        const struct catalog_field *field = &auth->fields[i];
        bool is_explained = field->help.len > 0 || field->docs_url.len > 0;
        write_field(form, field,
                    !is_explained          ? SLICE_NONE
                    : field->help.len == 0 ? SLICE("")
                                           : field->help);
    }
    json_close(form->w, ']');
}

static void write_params(const struct form *form, const struct json *schema)
{
    const struct json *properties = JSON_GET(schema, "properties");
    for (size_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++) {
        const struct json_member *member = &properties->as.members[i];
        slice name = json_str(&member->key);
        slice hint = json_get_str(&member->value, SLICE("description"));
        /* The prefix keeps a parameter of the app from being taken for a field of the form. */
        const struct catalog_field field = {
            .name = arena_printf(&form->request->serve.op.arena, PARAM "%.*s", SLICE_ARG(name)),
            .may_be_empty = !json_has_text(JSON_GET(schema, "required"), name)};
        write_field(form, &field, hint.ptr ? hint : SLICE(""));
    }
}

/* Optional scopes are requested only if a person ticks them. Those that the connection already
 * has are ticked in advance. */
static void write_optional(const struct form *form, const struct catalog_auth *auth,
                           const struct connection *again)
{
    const struct json *scopes = auth->optional_scopes;
    struct json_writer *w = form->w;
    json_member_open(w, "optional", '[');
    for (uint32_t i = 0; scopes && i < scopes->count; i++) {
        slice scope = json_str(&scopes->as.members[i].key);
        json_open(w, '{');
        json_member_str(w, "id",
                        arena_printf(&form->request->serve.op.arena, "scope-%u-%.*s", i,
                                     SLICE_ARG(form->suffix)));
        json_member_str(w, "scope", scope);
        json_member_str(w, "text", json_str(&scopes->as.members[i].value));
        json_member_bool(w, "granted", again && slice_has_word(again->scopes, scope));
        json_close(w, '}');
    }
    json_close(w, ']');
}

/* The id of the new connection is drawn now, so that a form that is sent twice makes one
 * connection. */
static void write_new_id(struct web_request *request, struct json_writer *w, bool is_wanted)
{
    slice once = is_wanted ? arena_printf(&request->serve.op.arena, "%c%lld", ONCE_CONNECTION,
                                          (long long)short_id_new())
                           : SLICE_NONE;
    if (once.ptr)
        once_view_field(request, once, w);
    else
        json_member_str(w, "once", SLICE_NONE);
}

static void write_connect_form(struct web_request *request, struct json_writer *w,
                               const struct catalog_integration *app,
                               const struct catalog_auth *auth, const struct connection *again)
{
    static const struct catalog_field label = {.name = SLICE_INIT("label"),
                                               .label = SLICE_INIT("Label for this connection"),
                                               .may_be_empty = true};
    struct arena *arena = &request->serve.op.arena;
    bool is_link = request->session.link_token.ptr != NULL;
    slice kind = slice_cstr(catalog_auth_name(auth->kind));
    slice id = again ? arena_printf(arena, "%lld", (long long)again->id) : SLICE("new");
    slice sent = web_field(request, "auth");
    /* The first way to connect keeps the plain suffix; each further way gets its kind, so that
     * ids are unique. */
    const struct form form = {
        request, w,
        auth == &app->auths[0] ? id
                               : arena_printf(arena, "%.*s-%.*s", SLICE_ARG(id), SLICE_ARG(kind)),
        .is_sent = sent.len == 0 || slice_eq(sent, kind)};
    ASSERT(auth >= app->auths && auth < app->auths + app->auth_count);
    json_open(w, '{');
    json_member_str(w, "action",
                    is_link ? arena_printf(arena, "%.*s/go", SLICE_ARG(app_link_path(request)))
                            : arena_printf(arena, "/integrations/%.*s/connect",
                                           SLICE_ARG(app->integration_id)));
    /* A link's row names the connection, so the field is left out: it could name another one. */
    json_member_str(w, "connection", again && !is_link ? id : SLICE_NONE);
    write_new_id(request, w, !again && !is_link && auth->kind != AUTH_OAUTH2);
    /* With one way to connect there is nothing to choose, and the form needs no heading. */
    json_member_str(w, "auth", app->auth_count > 1 ? kind : SLICE_NONE);
    json_member_str(w, "auth_name", auth->name);
    json_member_str(w, "suffix", form.suffix);
    /* A link's page shows the scopes above its form; a connection's page shows the granted
     * scopes. */
    app_view_scopes(w, !again && !is_link && auth->kind == AUTH_OAUTH2 ? app : NULL);
    write_credential(&form, auth);
    write_optional(&form, auth, again);
    json_member_open(w, "fields", '[');
    if (!again)
        write_params(&form, app->connection_params);
    if (!again && !is_link)
        write_field(&form, &label, SLICE_NONE);
    json_close(w, ']');
    /* Offered only if the identity is known: otherwise a new one cannot be compared. */
    json_member_str(w, "other", again && !is_link ? app_acts_as(again) : SLICE_NONE);
    json_member_str(w, "again", again ? again->label : SLICE_NONE);
    json_member_str(w, "app", app->name);
    json_close(w, '}');
}

/* For a reconnect the connection's current way comes first; the others would change how it
 * authenticates. */
void app_view_forms(struct web_request *request, struct json_writer *w,
                    const struct catalog_integration *app, const struct connection *again,
                    bool has_client)
{
    const struct catalog_auth *first = again ? catalog_auth_of(app, again->auth_kind)
                                             : &app->auths[0];
    json_member_open(w, "forms", '[');
    /* Without a client the OAuth form could only fail; the caller explains what to do. */
    if (has_client || first->kind != AUTH_OAUTH2)
        write_connect_form(request, w, app, first, again);
    for (size_t i = 0; i < app->auth_count; i++)
        if (&app->auths[i] != first && (has_client || app->auths[i].kind != AUTH_OAUTH2))
            write_connect_form(request, w, app, &app->auths[i], again);
    json_close(w, ']');
}

void app_view_no_forms(struct json_writer *w)
{
    json_member_open(w, "forms", '[');
    json_close(w, ']');
}

enum op_result app_reply_connect(struct web_request *request, unsigned status,
                                 const struct catalog_integration *app,
                                 const struct connection *again, slice problem)
{
    struct json_writer *w = view_begin(request);
    json_member_str(w, "problem", problem);
    json_member_str(w, "name", app->name);
    json_member_str(w, "back",
                    request->session.link_token.ptr ? app_link_path(request)
                                                    : app_path(request, app->integration_id));
    /* has_client is true: the form was sent, so there was a client, or none was needed. */
    app_view_forms(request, w, app, again, true);
    app_allow_forms(request, app);
    return web_reply_view(request, status, "connect");
}

/* ---- connections ---- */

/* is_lent: the account's, which the page's user acts through but cannot change. */
static void write_connection(struct web_request *request, struct json_writer *w,
                             const struct catalog_integration *app, const struct connection *row,
                             bool is_lent)
{
    json_open(w, '{');
    json_member_bool(w, "lent", is_lent);
    json_member_str(w, "id", arena_printf(&request->serve.op.arena, "%lld", (long long)row->id));
    json_member_str(w, "label", row->label);
    json_member_bool(w, "default", row->is_default);
    json_member_str(w, "status", slice_cstr(connection_status_name(row->status)));
    json_member_str(w, "error", row->error);
    view_time(w, "last_used_at", row->last_used_at);
    json_member_str(w, "acts_as", app_acts_as(row));
    json_member_str(w, "missing",
                    app_scope_texts(request, app, app_scopes_missing(request, app, row)));
    /* OAuth needs only a button; a credential needs fields, which are folded at first. */
    json_member_bool(w, "folds", catalog_auth_of(app, row->auth_kind)->kind != AUTH_OAUTH2);
    /* A live connection is reconnected on its own page; here only connections that need it have
     * a form. */
    if (!is_lent && row->status != CONNECTION_LIVE &&
        serve_may(&request->serve, SCOPE_EXECUTE_WRITE) && app->auth.kind != AUTH_NONE)
        app_view_forms(request, w, app, row, true);
    else
        app_view_no_forms(w);
    json_close(w, '}');
}

/* ---- the OAuth client ---- */

static int read_clients(struct app *app)
{
    struct oauth_client shared;
    /* The queries were submitted only for an app that uses OAuth; without OAuth there are no
     * results. */
    if (!catalog_auth_by(app->integration, AUTH_OAUTH2))
        return OK;
    ASSERT(app->own.stmt && app->shared.stmt);
    int own = store_oauth_client_get_result(&app->own, &app->own_client);
    int operators = store_oauth_client_get_result(&app->shared, &shared);
    app->has_own = own == OK;
    app->has_shared = operators == OK;
    if (own != OK && own != ERR_NOTFOUND)
        return own;
    return operators == ERR_NOTFOUND ? OK : operators;
}

/* ---- the page ---- */

static void on_end(struct web_request *request)
{
    struct app *app = request->state;
    catalog_unref(app->catalog);
}

/* A page of connections; one row more than it lists shows that there are others. */
struct listed {
    const struct connection *rows;
    size_t count;
    bool is_more;
};

static int read_listed(const struct pg_query *query, struct listed *listed)
{
    struct connection *rows;
    int status = store_connection_list_result(query, &rows, &listed->count);
    ASSERT(status != OK || listed->count <= CONNECTIONS_MAX + 1);
    listed->rows = rows;
    listed->is_more = status == OK && listed->count > CONNECTIONS_MAX;
    if (listed->is_more)
        listed->count = CONNECTIONS_MAX;
    return status;
}

/* The default connection comes first, wherever it is in the list. Those of the account come after a
 * user's own. The list of all, which has them first, is then read from its beginning. */
static void write_connections(struct web_request *request, struct json_writer *w,
                              const struct app *app, const struct listed *own,
                              const struct listed *lent, const struct connection *first)
{
    json_member_open(w, "connections", '[');
    if (own->count > 0 && first && first->is_default)
        write_connection(request, w, app->integration, first, false);
    for (size_t i = 0; i < own->count; i++)
        if (!first || !first->is_default || own->rows[i].id != first->id)
            write_connection(request, w, app->integration, &own->rows[i], false);
    for (size_t i = 0; i < lent->count; i++) {
        const struct connection known = connect_as_shared(&lent->rows[i]);
        write_connection(request, w, app->integration, &known, true);
    }
    json_close(w, ']');
    json_member_bool(w, "more", own->is_more || lent->is_more);
    json_member_str(w, "after",
                    own->is_more && lent->count == 0
                        ? connect_cursor(&own->rows[own->count - 1], &request->serve.op.arena)
                        : SLICE(""));
}

static void write_app_facts(struct web_request *request, struct json_writer *w,
                            const struct app *app)
{
    const struct catalog_integration *integration = app->integration;
    bool needs_connection = integration->auth.kind != AUTH_NONE;
    json_member_str(w, "integration_id", integration->integration_id);
    json_member_str(w, "name", integration->name);
    view_app_icon(w, integration->integration_id, integration);
    json_member_str(w, "description", integration->description);
    json_member_str(w, "category", integration->category);
    json_member_i64(w, "action_count", app_count_actions(request, integration));
    json_member_str(w, "docs_url", integration->docs_url);
    json_member_bool(w, "needs_connection", needs_connection);
    if (needs_connection && serve_may(&request->serve, SCOPE_EXECUTE_WRITE))
        app_view_forms(request, w, integration, NULL, has_client(app));
    else
        app_view_no_forms(w);
    json_member_bool(w, "wants_client", !has_client(app));
    app_view_scopes(w, integration);
    /* If there is no client, the connect form already contains this form. */
    if (catalog_auth_by(integration, AUTH_OAUTH2) && has_client(app)) {
        json_member_open(w, "client", '{');
        json_member_bool(w, "own", app->has_own);
        json_close(w, '}');
    } else {
        json_member_str(w, "client", SLICE_NONE);
    }
    slice typed = web_field(request, "client_id"); /* typed values, if the form is rendered again
                                                    * with an error */
    json_member_str(w, "client_id",
                    typed.ptr      ? typed
                    : app->has_own ? app->own_client.client_id
                                   : SLICE_NONE);
}

static enum op_result finish_app(struct web_request *request)
{
    struct app *app = request->state;
    struct connection *choice;
    struct listed own, lent = {0};
    size_t choice_count;
    /* Calls are counted for the account that pays, so a user's page has no numbers. */
    bool has_stats = uuid_is_nil(request->session.parent_id);
    if (has_stats && call_stats_continues(&app->stats))
        return web_wait(request, finish_app);
    int status = read_listed(&request->query, &own);
    if (status == OK && !has_stats)
        status = read_listed(&app->lent, &lent);
    if (status == OK)
        status = store_connection_list_result(&app->choice, &choice, &choice_count);
    if (status == OK)
        status = read_clients(app);
    if (status == OK && has_stats)
        status = call_stats_result(&app->stats);
    if (status != OK)
        return web_reply_database(request, status);
    struct json_writer *w = view_begin(request);
    write_app_facts(request, w, app);
    if (has_stats)
        call_stats_write(request, w, &app->stats,
                         app_path(request, app->integration->integration_id));
    else
        json_member_str(w, "stats", SLICE_NONE);
    write_connections(request, w, app, &own, &lent, choice_count > 0 ? &choice[0] : NULL);
    for (size_t i = 0; i < own.count; i++)
        if (own.rows[i].status == CONNECTION_LIVE)
            request->notice_about = WEB_NOTICE_LIVE;
    app_view_actions(request, w, app->integration,
                     choice_count > 0 ? choice[0].scopes : SLICE_NONE);
    app_allow_forms(request, app->integration);
    return web_reply_view(request, 200, "app");
}

enum op_result web_app(struct web_request *request)
{
    struct app *app = ARENA_NEW(&request->serve.op.arena, struct app);
    struct pg_pool *pool = request->web->config.pool;
    struct uuid account_id = request->session.account_id;
    if (!app)
        return web_reply_database(request, ERR_NOMEM);
    app->integration = app_of_path(request, &app->catalog);
    if (!app->integration)
        return OP_DONE;
    request->state = app;
    request->on_end = on_end;
    slice id = app->integration->integration_id;
    struct connection_page page = {.integration_id = id, .count_max = CONNECTIONS_MAX + 1};
    /* The queries go to the database in one batch; finish_app runs once all have their results. */
    store_connection_page(pool, &request->query, &request->serve.op, account_id, &page);
    store_connection_choice(pool, &app->choice, &request->serve.op, account_id, id);
    if (catalog_auth_by(app->integration, AUTH_OAUTH2)) {
        store_oauth_client_get(pool, &app->own, &request->serve.op, serve_payer(&request->serve),
                               id);
        store_oauth_client_get(pool, &app->shared, &request->serve.op, (struct uuid){{0}}, id);
    }
    page.is_shared = true;
    if (uuid_is_nil(request->session.parent_id))
        call_stats_begin(request, &app->stats, id);
    else
        store_connection_page(pool, &app->lent, &request->serve.op, request->session.parent_id,
                              &page);
    return web_wait(request, finish_app);
}
