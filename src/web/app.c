/*
 * The page of one app: what it is, its connections in brief (connection.c has all of each), and the
 * form that connects it.
 */
#include "web/app.h"

#include <stdio.h>

#include "base/clock.h"
#include "http/url.h"
#include "web/once.h"

enum { CONNECTIONS_MAX = 50 };

struct app {
    struct catalog *catalog;
    const struct catalog_integration *integration;
    struct pg_query own, shared; /* OAuth clients; request->query: connections, oldest first */
    struct pg_query choice;      /* the default one first */
    struct oauth_client own_client;
    bool has_own, has_shared;
};

/* true also for an app that needs no OAuth client. */
static bool has_client(const struct app *app)
{
    return !catalog_auth_by(app->integration, AUTH_OAUTH2) || app->has_own || app->has_shared;
}

/* ---- what the files of the app's pages share ---- */

const struct catalog_integration *app_of_path(struct web_request *request, struct catalog **catalog)
{
    slice id = request->match.params[0];
    ASSERT(request->match.param_count > 0 && !*catalog);
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, id);
    if (!app) {
        (void)web_reply_problem(request, 404, SLICE("Not found"),
                                SLICE("There is no app of this name here."));
        return NULL;
    }
    /* The caller's on_end releases this reference. The app stays valid until then, also when the
     * catalog is replaced meanwhile. */
    *catalog = catalog_ref(*request->web->config.catalog);
    return app;
}

slice app_path(struct web_request *request, slice integration_id)
{
    return arena_printf(&request->op.arena, "/integrations/%.*s", SLICE_ARG(integration_id));
}

void app_audit(struct web_request *request, slice kind, int64_t connection_id, slice integration_id)
{
    ASSERT(connection_id > 0 && integration_id.ptr);
    web_audit(request, kind,
              arena_printf(&request->op.arena,
                           "\"connection_id\":\"%lld\",\"integration_id\":\"%.*s\"",
                           (long long)connection_id, SLICE_ARG(integration_id)));
}

/* Authorization servers redirect to further hosts of theirs (a company's own sign-in), and browsers
 * apply form-action to each of those redirects. Any https host is allowed then. */
void app_allow_forms(struct web_request *request, const struct catalog_integration *app)
{
    struct url url;
    char *origin = arena_alloc_text(&request->op.arena, URL_ORIGIN_MAX + 1);
    const struct catalog_auth *auth = catalog_auth_by(app, AUTH_OAUTH2);
    if (auth && slice_starts_with(auth->authorize_url, SLICE("https://")))
        web_allow_form_to(request, SLICE("https:"));
    else if (auth && origin && url_parse(auth->authorize_url, &url, NULL) == OK)
        web_allow_form_to(request, url_origin(&url, origin));
}

/* ---- the connect form ---- */

struct form {
    struct web_request *request;
    struct buf *out;
    char suffix[48]; /* makes the ids of several forms of a page distinct */
};

/* A secret's value is never written back into the page, not even after an error. */
static void write_field(const struct form *form, const struct catalog_field *field)
{
    slice id = slice_cstr(form->suffix), name = field->name;
    HTML(form->out, "<label for=\"{}-{}\">{}", name, id, field->label);
    buf_append(form->out, field->may_be_empty
                              ? SLICE(" <span class=\"soft\">(may be empty)</span></label>")
                              : SLICE("</label>"));
    HTML(form->out,
         "<input id=\"{}-{}\" name=\"{}\" type=\"{}\" value=\"{}\" autocomplete=\"off\" "
         "spellcheck=\"false\"",
         name, id, name, field->is_secret ? SLICE("password") : SLICE("text"),
         field->is_secret ? SLICE("") : web_field(form->request, name.ptr));
    if (field->placeholder.len > 0)
        HTML(form->out, " placeholder=\"{}\"", field->placeholder);
    bool is_explained = field->help.len > 0 || field->docs_url.len > 0;
    if (is_explained)
        HTML(form->out, " aria-describedby=\"hint-{}-{}\"", name, id);
    buf_append(form->out, field->may_be_empty ? SLICE(">") : SLICE(" required>"));
    if (is_explained)
        HTML(form->out, "<p class=\"hint\" id=\"hint-{}-{}\">{} ", name, id, field->help);
    if (field->docs_url.len > 0)
        HTML(form->out, "<a href=\"{}\" rel=\"noopener noreferrer\">Where to find it</a>",
             field->docs_url);
    if (is_explained)
        buf_append(form->out, SLICE("</p>"));
}

static void write_params(const struct form *form, const struct json *schema)
{
    const struct json *properties = JSON_GET(schema, "properties");
    for (size_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++) {
        slice name = json_str(&properties->as.members[i].key);
        /* The prefix keeps a parameter of the app from being taken for a field of the form. */
        char field[160];
        (void)snprintf(field, sizeof(field), "param.%.*s", SLICE_ARG(name));
        slice text = slice_cstr(field), id = slice_cstr(form->suffix);
        HTML(form->out, "<label for=\"{}-{}\">", text, id);
        value_write_name(form->out, name);
        buf_append(form->out, SLICE("</label>"));
        HTML(form->out,
             "<input id=\"{}-{}\" name=\"{}\" value=\"{}\" aria-describedby=\"hint-{}-{}\"", text,
             id, text, web_field(form->request, field), text, id);
        buf_append(form->out, json_has_text(JSON_GET(schema, "required"), name)
                                  ? SLICE(" required>")
                                  : SLICE(">"));
        HTML(form->out, "<p class=\"hint\" id=\"hint-{}-{}\">{}</p>", text, id,
             json_get_str(&properties->as.members[i].value, SLICE("description")));
    }
}

/* Optional scopes are requested only where a person ticks them. Those that the connection already
 * has are ticked. */
static void write_optional(const struct form *form, const struct catalog_auth *auth,
                           const struct connection *again)
{
    const struct json *scopes = auth->optional_scopes;
    for (uint32_t i = 0; scopes && i < scopes->count; i++) {
        slice scope = json_str(&scopes->as.members[i].key), id = slice_cstr(form->suffix);
        bool is_granted = again && slice_has_word(again->scopes, scope);
        char number[SLICE_U64_MAX];
        slice at = slice_of_u64(i, number);
        HTML(form->out,
             "<p class=\"choice\"><input type=\"checkbox\" id=\"scope-{}-{}\" name=\"scope\" "
             "value=\"{}\"",
             at, id, scope);
        buf_append(form->out, is_granted ? SLICE(" checked>") : SLICE(">"));
        HTML(form->out, "<label for=\"scope-{}-{}\">Also: {} <code>{}</code></label></p>", at, id,
             json_str(&scopes->as.members[i].value), scope);
    }
}

static void write_choice(const struct form *form, const struct catalog_integration *app,
                         const struct catalog_auth *auth)
{
    /* With one way to connect there is nothing to choose, and the form needs no heading. */
    if (app->auth_count < 2)
        return;
    HTML(form->out, "<h3>{}</h3><input type=\"hidden\" name=\"auth\" value=\"{}\">", auth->name,
         slice_cstr(catalog_auth_name(auth->kind)));
}

static void write_connect_form(struct web_request *request, const struct catalog_integration *app,
                               const struct catalog_auth *auth, const struct connection *again,
                               struct buf *out)
{
    static const struct catalog_field label = {.name = SLICE_INIT("label"),
                                               .label = SLICE_INIT("Label for this connection"),
                                               .may_be_empty = true};
    struct form form = {.request = request, .out = out, .suffix = "new"};
    bool is_link = request->session.link_token.ptr != NULL;
    ASSERT(auth >= app->auths && auth < app->auths + app->auth_count);
    HTML(out, "<form method=\"post\" action=\"{}\">",
         is_link ? arena_printf(&request->op.arena, "%.*s/go", SLICE_ARG(app_link_path(request)))
                 : arena_printf(&request->op.arena, "/integrations/%.*s/connect",
                                SLICE_ARG(app->integration_id)));
    web_csrf_field(request, out);
    if (again)
        (void)snprintf(form.suffix, sizeof(form.suffix), "%lld", (long long)again->id);
    /* A link's row names the connection; a field could name another one. */
    if (again && !is_link)
        HTML(out, "<input type=\"hidden\" name=\"connection\" value=\"{}\">",
             slice_cstr(form.suffix));
    /* The first way keeps the plain suffix; each further one gets its kind, so that ids stay
     * unique. */
    if (auth != &app->auths[0]) {
        size_t len = strlen(form.suffix);
        (void)snprintf(form.suffix + len, sizeof(form.suffix) - len, "-%s",
                       catalog_auth_name(auth->kind));
    }
    /* The id of the new connection is drawn now: a form that is sent twice then makes one
     * connection. */
    if (!again && !is_link && auth->kind != AUTH_OAUTH2) {
        slice once =
            arena_printf(&request->op.arena, "%c%lld", ONCE_CONNECTION, (long long)short_id_new());
        if (once.ptr)
            once_write_field(request, once, out);
    }
    write_choice(&form, app, auth);
    for (size_t i = 0; i < auth->field_count; i++)
        write_field(&form, &auth->fields[i]);
    write_optional(&form, auth, again);
    if (!again)
        write_params(&form, app->connection_params);
    if (!again && !is_link)
        write_field(&form, &label);
    /* Offered only where the identity is known: without one there is nothing to compare with. */
    if (again && !is_link && connection_identity_is_known(&again->identity))
        HTML(out,
             "<p class=\"choice\"><input type=\"checkbox\" id=\"other-{}\" name=\"other\" "
             "value=\"yes\"><label for=\"other-{}\">Allow a login other than {}"
             "</label></p>",
             slice_cstr(form.suffix), slice_cstr(form.suffix),
             connection_identity_text(&again->identity));
    slice how = app->auth_count > 1
                    ? arena_printf(&request->op.arena, " (%.*s)", SLICE_ARG(auth->name))
                    : SLICE("");
    HTML(out,
         again ? "<p class=\"actions\"><button aria-label=\"Reconnect {}{}\">Reconnect</button></p>"
                 "</form>"
               : "<p class=\"actions\"><button class=\"primary\">Connect {}{}</button></p></form>",
         again ? again->label : app->name, how);
}

/* For a reconnect the way that the connection has comes first; the others would change how it
 * authenticates. */
void app_write_connect(struct web_request *request, const struct catalog_integration *app,
                       const struct connection *again, bool has_client, struct buf *out)
{
    const struct catalog_auth *first = again ? catalog_auth_of(app, again->auth_kind)
                                             : &app->auths[0];
    /* Without a client the OAuth form could only fail; the caller says what to do about that. */
    if (has_client || first->kind != AUTH_OAUTH2)
        write_connect_form(request, app, first, again, out);
    for (size_t i = 0; i < app->auth_count; i++)
        if (&app->auths[i] != first && (has_client || app->auths[i].kind != AUTH_OAUTH2))
            write_connect_form(request, app, &app->auths[i], again, out);
}

enum op_result app_reply_connect(struct web_request *request, unsigned status,
                                 const struct catalog_integration *app,
                                 const struct connection *again, slice problem)
{
    struct buf body;
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    HTML(&body, "<p class=\"problem\" role=\"alert\">{}</p><div class=\"card\">", problem);
    /* has_client is true: the form was sent, so there was a client, or none was needed. */
    app_write_connect(request, app, again, true, &body);
    HTML(&body, "</div><p class=\"actions\"><a class=\"button\" href=\"{}\">Back to {}</a></p>",
         request->session.link_token.ptr ? app_link_path(request)
                                         : app_path(request, app->integration_id),
         app->name);
    app_allow_forms(request, app);
    return web_reply_page(request, status,
                          arena_printf(&request->op.arena, "Connect %.*s", SLICE_ARG(app->name)),
                          &body);
}

/* ---- connections ---- */

static void write_connection(struct web_request *request, const struct catalog_integration *app,
                             const struct connection *row, struct buf *out)
{
    slice missing = app_scopes_missing(request, app, row);
    buf_append(out, SLICE("<li><div class=\"row\"><div>"));
    HTML(out, "<h3><a href=\"{}\">{}</a></h3>", app_connection_path(request, row->id), row->label);
    app_write_identity(row, out);
    app_write_last_use(row, out);
    buf_append(out, SLICE("</div><p>"));
    app_write_badges(row, out);
    buf_append(out, SLICE("</p></div>"));
    if (row->error.len > 0)
        HTML(out, "<p class=\"problem\">{}</p>", row->error);
    if (missing.ptr)
        HTML(out,
             "<p><strong>Not granted: {}</strong>. Actions that need it will be refused; "
             "reconnect to allow it.</p>",
             missing);
    /* A live connection is reconnected on its own page; here only those that need it have a form.
     */
    if (row->status != CONNECTION_LIVE)
        app_write_reconnect(request, app, row, out);
    buf_append(out, SLICE("</li>"));
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

static enum op_result begin_app(struct web_request *request)
{
    struct app *app = ARENA_NEW(&request->op.arena, struct app);
    struct pg_pool *pool = request->web->config.pool;
    struct uuid account_id = request->session.account_id;
    if (!app)
        return web_reply_database(request, ERR_BUSY);
    app->integration = app_of_path(request, &app->catalog);
    if (!app->integration)
        return OP_DONE;
    request->state = app;
    request->on_end = on_end;
    slice id = app->integration->integration_id;
    /* One more row than the page shows says whether there are others. */
    const struct connection_page page = {.integration_id = id, .count_max = CONNECTIONS_MAX + 1};
    /* The queries go to the database in one batch; finish_app runs once all have their results. */
    store_connection_page(pool, &request->query, &request->op, account_id, &page);
    store_connection_choice(pool, &app->choice, &request->op, account_id, id);
    if (catalog_auth_by(app->integration, AUTH_OAUTH2)) {
        store_oauth_client_get(pool, &app->own, &request->op, account_id, id);
        store_oauth_client_get(pool, &app->shared, &request->op, (struct uuid){{0}}, id);
    }
    return OP_WAIT;
}

static void write_app_about(const struct catalog_integration *app, struct buf *out)
{
    HTML(out, "<p>{}</p><p class=\"soft\">{}", app->description, app->category);
    buf_printf(out, ", %zu actions", app->action_count);
    if (app->docs_url.len > 0 && slice_starts_with(app->docs_url, SLICE("https://")))
        HTML(out, ", <a href=\"{}\" rel=\"noreferrer\">its documentation</a>", app->docs_url);
    buf_append(out, SLICE("</p>"));
}

/* Replaces the connect button where there is no OAuth client: the button could only fail. */
static void write_no_client(struct web_request *request, const struct app *app, struct buf *out)
{
    HTML(out,
         "<p>{} accepts registered clients only, and this server has no OAuth client there yet."
         "</p>",
         app->integration->name);
    app_write_client_wanted(request, app->integration, 0, out);
}

static void write_connect_section(struct web_request *request, const struct app *app, size_t count,
                                  struct buf *out)
{
    const struct catalog_integration *integration = app->integration;
    if (integration->auth.kind == AUTH_NONE) {
        buf_append(out, SLICE("<p>It needs no connection: it works as it is.</p>"));
        return;
    }
    HTML(out, "<section class=\"card\" aria-labelledby=\"connect\"><h2 id=\"connect\">{}</h2>",
         count > 0 ? SLICE("Connect another account") : SLICE("Connect"));
    if (!web_may(request, SCOPE_EXECUTE))
        buf_append(out, SLICE("<p>The API key of this session may not connect apps; sign in with "
                              "one that has the scope execute.</p>"));
    else
        app_write_connect(request, integration, NULL, has_client(app), out);
    if (web_may(request, SCOPE_EXECUTE) && !has_client(app))
        write_no_client(request, app, out);
    buf_append(out, SLICE("</section>"));
}

/* The default connection comes first, wherever it is in the list. */
static void write_connections(struct web_request *request, const struct app *app,
                              const struct connection *rows, size_t count,
                              const struct connection *first, struct buf *out)
{
    size_t listed = count > CONNECTIONS_MAX ? CONNECTIONS_MAX : count;
    ASSERT(count <= CONNECTIONS_MAX + 1);
    if (count == 0)
        return;
    buf_append(out, SLICE("<h2>Connections</h2><ul class=\"list\">"));
    if (first && first->is_default)
        write_connection(request, app->integration, first, out);
    for (size_t i = 0; i < listed; i++)
        if (!first || !first->is_default || rows[i].id != first->id)
            write_connection(request, app->integration, &rows[i], out);
    buf_append(out, SLICE("</ul>"));
    if (count > listed)
        web_write_more_connections(request, app->integration->integration_id, &rows[listed - 1],
                                   out);
}

static enum op_result finish_app(struct web_request *request)
{
    struct app *app = request->state;
    struct connection *rows, *choice;
    size_t count, choice_count;
    struct buf body;
    int status = store_connection_list_result(&request->query, &rows, &count);
    if (status == OK)
        status = store_connection_list_result(&app->choice, &choice, &choice_count);
    if (status == OK)
        status = read_clients(app);
    if (status != OK)
        return web_reply_database(request, status);
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    write_app_about(app->integration, &body);
    write_connections(request, app, rows, count, choice_count > 0 ? &choice[0] : NULL, &body);
    write_connect_section(request, app, count, &body);
    /* Not offered where there is no client: write_no_client has that form already. */
    if (catalog_auth_by(app->integration, AUTH_OAUTH2) && has_client(app))
        app_write_client(request, app->integration, app->has_own ? &app->own_client : NULL, &body);
    app_allow_forms(request, app->integration);
    return web_reply_page(request, 200, app->integration->name, &body);
}

const struct web_page web_app = {.route = "/integrations/{id}",
                                 .access = WEB_SESSION,
                                 .scope = SCOPE_READ,
                                 .begin = begin_app,
                                 .finish = finish_app};
