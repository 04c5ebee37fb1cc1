/*
 * One app: what it is, its connections, and the form that connects it.
 */
#include "web/app.h"

#include <stdio.h>

#include "base/clock.h"
#include "http/url.h"

struct app {
    struct catalog *catalog;
    const struct catalog_integration *integration;
    struct pg_query own, shared; /* OAuth clients; request->query: connections */
    bool has_asked_clients;
};

/* ---- what the files of the app's pages share ---- */

bool app_is_allowed(const struct web_request *request, slice integration_id)
{
    slice limit = request->session.limit_integration;
    return !limit.ptr || slice_eq(limit, integration_id);
}

const struct catalog_integration *app_of_path(struct web_request *request, struct catalog **catalog)
{
    slice id = request->match.params[0];
    if (!app_is_allowed(request, id)) {
        (void)web_reply_problem(request, 403, SLICE("Not part of this link"),
                                SLICE("The link that you followed lets you connect another app."));
        return NULL;
    }
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, id);
    if (!app) {
        (void)web_reply_problem(request, 404, SLICE("Not found"),
                                SLICE("There is no app of this name here."));
        return NULL;
    }
    *catalog = catalog_ref(*request->web->config.catalog);
    return app;
}

slice app_path(struct web_request *request, slice integration_id)
{
    return arena_printf(&request->op.arena, "/integrations/%.*s", SLICE_ARG(integration_id));
}

bool app_is_label(slice text)
{
    size_t characters = 0;
    if (slice_trim(text).len == 0 || !slice_is_utf8(text, NULL))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c < 0x20 || c == 0x7F)
            return false;
        characters += (c & 0xC0) != 0x80;
    }
    return characters <= CONNECTION_LABEL_MAX;
}

void app_audit(struct web_request *request, struct pg_query *query, slice kind,
               int64_t connection_id, slice integration_id)
{
    const struct audit_event event = {
        .account_id = request->session.account_id,
        .id = uuid_v7(),
        .kind = kind,
        .actor = web_actor(request),
        .request_id = request->exchange->request_id,
        .address = web_client_address(request),
        .details = arena_printf(&request->op.arena,
                                "{\"connection_id\":\"%lld\",\"integration_id\":\"%.*s\","
                                "\"by\":\"dashboard\"}",
                                (long long)connection_id, SLICE_ARG(integration_id)),
    };
    store_audit_insert(request->web->config.pool, query, &request->op, &event);
}

void app_audited(struct web_request *request, const struct pg_query *query)
{
    if (store_done_result(query) != OK)
        op_log(&request->op, LOG_ERROR, "a change of a connection is not in the audit trail",
               LOG_STR("cause", query->message));
}

/* Authorization servers send on to further hosts of theirs (a company's own sign-in), and browsers
 * hold form-action against each of those redirects: any https then. */
void app_allow_forms(struct web_request *request, const struct catalog_integration *app)
{
    struct url url;
    char *origin = arena_alloc_text(&request->op.arena, URL_ORIGIN_MAX + 1);
    if (app->auth.kind != AUTH_OAUTH2 || !origin ||
        url_parse(app->auth.authorize_url, &url, NULL) != OK)
        return;
    web_allow_form_to(request, url.is_https ? SLICE("https:") : url_origin(&url, origin));
}

/* ---- the connect form ---- */

struct place {
    struct web_request *request;
    struct buf *out;
    char suffix[24]; /* tells the ids of several forms of a page apart */
};

static void write_field(const struct place *place, const char *name, const char *label,
                        const char *type, bool is_required)
{
    bool is_secret = strcmp(type, "password") == 0;
    slice id = slice_cstr(place->suffix), field = slice_cstr(name);
    HTML(place->out, "<label for=\"{}-{}\">{}", field, id, slice_cstr(label));
    buf_append(place->out, is_required
                               ? SLICE("</label>")
                               : SLICE(" <span class=\"soft\">(may be empty)</span></label>"));
    HTML(place->out,
         "<input id=\"{}-{}\" name=\"{}\" type=\"{}\" value=\"{}\" autocomplete=\"off\" "
         "spellcheck=\"false\"",
         field, id, field, slice_cstr(type),
         is_secret ? SLICE("") : web_field(place->request, name));
    buf_append(place->out, is_required ? SLICE(" required>") : SLICE(">"));
}

static void write_credential(const struct place *place, enum catalog_auth_kind kind)
{
    switch (kind) {
    case AUTH_API_KEY:
        write_field(place, "api_key", "API key", "password", true);
        return;
    case AUTH_BEARER:
        write_field(place, "token", "Token", "password", true);
        return;
    case AUTH_BASIC:
        write_field(place, "username", "User name", "text", true);
        write_field(place, "password", "Password or token", "password", false);
        return;
    case AUTH_OAUTH2_CLIENT_CREDENTIALS:
        write_field(place, "client_id", "Client id", "text", true);
        write_field(place, "client_secret", "Client secret", "password", true);
        return;
    case AUTH_OAUTH2:
    case AUTH_NONE:
        return;
    }
}

static bool is_required(const struct json *schema, slice name)
{
    const struct json *required = JSON_GET(schema, "required");
    for (size_t i = 0; json_is(required, JSON_ARRAY) && i < required->count; i++)
        if (slice_eq(json_str(&required->as.items[i]), name))
            return true;
    return false;
}

static void write_params(const struct place *place, const struct json *schema)
{
    const struct json *properties = JSON_GET(schema, "properties");
    for (size_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++) {
        slice name = json_str(&properties->as.members[i].key);
        char field[160];
        (void)snprintf(field, sizeof(field), "param.%.*s", SLICE_ARG(name));
        slice text = slice_cstr(field), id = slice_cstr(place->suffix);
        HTML(place->out, "<label for=\"{}-{}\">{}</label>", text, id, name);
        HTML(place->out,
             "<input id=\"{}-{}\" name=\"{}\" value=\"{}\" aria-describedby=\"hint-{}-{}\"", text,
             id, text, web_field(place->request, field), text, id);
        buf_append(place->out, is_required(schema, name) ? SLICE(" required>") : SLICE(">"));
        HTML(place->out, "<p class=\"hint\" id=\"hint-{}-{}\">{}</p>", text, id,
             json_get_str(&properties->as.members[i].value, SLICE("description")));
    }
}

void app_write_connect(struct web_request *request, const struct catalog_integration *app,
                       const struct connection *again, struct buf *out)
{
    struct place place = {.request = request, .out = out, .suffix = "new"};
    HTML(out, "<form method=\"post\" action=\"/integrations/{}/connect\">", app->integration_id);
    web_csrf_field(request, out);
    if (again) {
        (void)snprintf(place.suffix, sizeof(place.suffix), "%lld", (long long)again->id);
        HTML(out, "<input type=\"hidden\" name=\"connection\" value=\"{}\">",
             slice_cstr(place.suffix));
    }
    write_credential(&place, app->auth.kind);
    if (!again) {
        write_params(&place, app->connection_params);
        write_field(&place, "label", "Label for this connection", "text", false);
    }
    HTML(out,
         again ? "<p class=\"actions\"><button aria-label=\"Reconnect {}\">Reconnect</button></p>"
                 "</form>"
               : "<p class=\"actions\"><button class=\"primary\">Connect {}</button></p></form>",
         again ? again->label : app->name);
}

enum op_result app_reply_connect(struct web_request *request, unsigned status,
                                 const struct catalog_integration *app,
                                 const struct connection *again, slice problem)
{
    struct buf body;
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    HTML(&body, "<p class=\"problem\" role=\"alert\">{}</p><div class=\"card\">", problem);
    app_write_connect(request, app, again, &body);
    HTML(&body,
         "</div><p class=\"actions\"><a class=\"button\" href=\"/integrations/{}\">Back to {}</a>"
         "</p>",
         app->integration_id, app->name);
    app_allow_forms(request, app);
    return web_reply_page(request, status,
                          arena_printf(&request->op.arena, "Connect %.*s", SLICE_ARG(app->name)),
                          &body);
}

/* ---- connections ---- */

static void write_when(struct buf *out, const char *label, int64_t at)
{
    if (at == 0)
        return;
    HTML(out, "<dt>{}</dt><dd>", slice_cstr(label));
    html_time(out, at);
    buf_append(out, SLICE("</dd>"));
}

static void write_facts(struct web_request *request, const struct catalog_integration *app,
                        const struct connection *row, struct buf *out)
{
    bool is_grant = app->auth.kind == AUTH_OAUTH2;
    slice missing = is_grant && row->scopes.ptr
                        ? oauth_scopes_missing(app->auth.scopes, row->scopes, &request->op.arena)
                        : SLICE_NONE;
    buf_append(out, SLICE("<dl>"));
    if (row->error.len > 0)
        HTML(out, "<dt>Last error</dt><dd>{}</dd>", row->error);
    if (is_grant)
        HTML(out, "<dt>Granted</dt><dd>{}</dd>",
             row->scopes.ptr ? row->scopes : SLICE("not known"));
    if (missing.ptr)
        HTML(out,
             "<dt>Not granted</dt><dd>{}. What needs it will be refused; reconnect and allow "
             "it.</dd>",
             missing);
    write_when(out, "Token ends", row->expires_at);
    write_when(out, "Connected", row->created_at);
    write_when(out, "Changed", row->updated_at);
    buf_append(out, SLICE("</dl>"));
}

static void write_action(struct web_request *request, const struct connection *row,
                         const char *verb, const char *label, const char *style, struct buf *out)
{
    char id[24];
    (void)snprintf(id, sizeof(id), "%lld", (long long)row->id);
    HTML(out, "<form method=\"post\" action=\"/connections/{}/{}\">", slice_cstr(id),
         slice_cstr(verb));
    web_csrf_field(request, out);
    HTML(out, "<button class=\"{}\" aria-label=\"{} {}\">{}</button></form>", slice_cstr(style),
         slice_cstr(label), row->label, slice_cstr(label));
}

static void write_rename(struct web_request *request, const struct connection *row, struct buf *out)
{
    char id[24];
    (void)snprintf(id, sizeof(id), "%lld", (long long)row->id);
    slice text = slice_cstr(id);
    HTML(out,
         "<details id=\"rename-{}\"><summary>Change the label</summary><form class=\"inline\" "
         "method=\"post\" action=\"/connections/{}/label\">",
         text, text);
    web_csrf_field(request, out);
    HTML(out,
         "<div><label for=\"label-{}\">Label</label><input id=\"label-{}\" name=\"label\" "
         "value=\"{}\" required maxlength=\"200\"></div><button aria-label=\"Save the label of "
         "{}\">Save</button></form></details>",
         text, text, row->label, row->label);
}

static void write_actions(struct web_request *request, const struct catalog_integration *app,
                          const struct connection *row, struct buf *out)
{
    bool is_limited = request->session.limit_integration.ptr != NULL;
    bool may_change = !is_limited && web_may(request, SCOPE_ADMIN);
    if (web_may(request, SCOPE_EXECUTE) && app->auth.kind == AUTH_OAUTH2)
        app_write_connect(request, app, row, out);
    buf_append(out, SLICE("<div class=\"actions\">"));
    if (!is_limited && web_may(request, SCOPE_EXECUTE) && app->auth.test_path.len > 0)
        write_action(request, row, "test", "Test", "", out);
    if (may_change && !row->is_default)
        write_action(request, row, "default", "Make default", "", out);
    if (may_change)
        write_action(request, row, "delete", "Disconnect", "danger", out);
    buf_append(out, SLICE("</div>"));
    if (may_change)
        write_rename(request, row, out);
    if (web_may(request, SCOPE_EXECUTE) && app->auth.kind != AUTH_OAUTH2 &&
        app->auth.kind != AUTH_NONE) {
        buf_append(out, SLICE("<details><summary>Reconnect with a new credential</summary>"));
        app_write_connect(request, app, row, out);
        buf_append(out, SLICE("</details>"));
    }
}

static void write_connection(struct web_request *request, const struct catalog_integration *app,
                             const struct connection *row, struct buf *out)
{
    HTML(out, "<li><h3>{} ", row->label);
    web_badge(out, slice_cstr(connection_status_name(row->status)));
    if (row->is_default)
        buf_append(out, SLICE(" <span class=\"badge\">default</span>"));
    buf_append(out, SLICE("</h3>"));
    write_facts(request, app, row, out);
    write_actions(request, app, row, out);
    buf_append(out, SLICE("</li>"));
}

/* ---- the OAuth client ---- */

static void write_client_form(struct web_request *request, const struct app *app,
                              const struct oauth_client *own, struct buf *out)
{
    slice id = app->integration->integration_id;
    HTML(out,
         "<details id=\"client\"><summary>Use an OAuth client of your own</summary>"
         "<form method=\"post\" action=\"/integrations/{}/client\">",
         id);
    web_csrf_field(request, out);
    HTML(out,
         "<label for=\"client-id\">Client id</label><input id=\"client-id\" name=\"client_id\" "
         "value=\"{}\" required maxlength=\"1000\" autocomplete=\"off\" spellcheck=\"false\">"
         "<label for=\"client-secret\">Client secret <span class=\"soft\">(empty for a public "
         "client)</span></label><input id=\"client-secret\" name=\"client_secret\" "
         "type=\"password\" autocomplete=\"off\">"
         "<p class=\"actions\"><button>Save the client</button></p></form>",
         own ? own->client_id : SLICE(""));
    if (own)
        web_button(
            request, out,
            arena_printf(&request->op.arena, "/integrations/%.*s/client/delete", SLICE_ARG(id)),
            SLICE("Delete the client"), "danger");
    buf_append(out, SLICE("</details>"));
}

static int write_client(struct web_request *request, const struct app *app, struct buf *out)
{
    struct oauth_client own, shared;
    int has_own = store_oauth_client_get_result(&app->own, &own);
    int has_shared = store_oauth_client_get_result(&app->shared, &shared);
    if (has_own != OK && has_own != ERR_NOTFOUND)
        return has_own;
    if (has_shared != OK && has_shared != ERR_NOTFOUND)
        return has_shared;
    HTML(out, "<h2>OAuth client</h2><p>{}</p>",
         has_own == OK      ? SLICE("Your account's own client is used.")
         : has_shared == OK ? SLICE("The client that your operator registered is used.")
                            : SLICE("There is none yet: the app cannot be connected. Register a "
                                    "client with the app, and enter it here."));
    if (!web_may(request, SCOPE_ADMIN))
        return OK;
    HTML(out, "<p>The redirect URI to register with the app: <code>{}/connect/callback</code></p>",
         request->web->config.public_url);
    write_client_form(request, app, has_own == OK ? &own : NULL, out);
    return OK;
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
    if (!request->session.limit_integration.ptr && !web_may(request, SCOPE_READ))
        return web_reply_problem(request, 403, SLICE("Not allowed"),
                                 SLICE("The API key of this session lacks the scope read."));
    app->integration = app_of_path(request, &app->catalog);
    if (!app->integration)
        return OP_DONE;
    request->state = app;
    request->on_end = on_end;
    slice id = app->integration->integration_id;
    store_connection_list(pool, &request->query, &request->op, account_id, id);
    app->has_asked_clients = app->integration->auth.kind == AUTH_OAUTH2 &&
                             !request->session.limit_integration.ptr;
    if (app->has_asked_clients) {
        store_oauth_client_get(pool, &app->own, &request->op, account_id, id);
        store_oauth_client_get(pool, &app->shared, &request->op, (struct uuid){{0}}, id);
    }
    return OP_WAIT;
}

static void write_about(const struct catalog_integration *app, struct buf *out)
{
    HTML(out, "<p>{}</p><p class=\"soft\">{}", app->description, app->category);
    buf_printf(out, ", %zu actions", app->action_count);
    if (app->docs_url.len > 0 && slice_starts_with(app->docs_url, SLICE("https://")))
        HTML(out, ", <a href=\"{}\" rel=\"noreferrer\">its documentation</a>", app->docs_url);
    buf_append(out, SLICE("</p>"));
}

static void write_connect_section(struct web_request *request,
                                  const struct catalog_integration *app, size_t count,
                                  struct buf *out)
{
    if (app->auth.kind == AUTH_NONE) {
        buf_append(out, SLICE("<p>It needs no connection: it works as it is.</p>"));
        return;
    }
    HTML(out, "<section class=\"card\" aria-labelledby=\"connect\"><h2 id=\"connect\">{}</h2>",
         count > 0 ? SLICE("Connect another account") : SLICE("Connect"));
    if (web_may(request, SCOPE_EXECUTE))
        app_write_connect(request, app, NULL, out);
    else
        buf_append(out, SLICE("<p>The API key of this session may not connect apps; sign in with "
                              "one that has the scope execute.</p>"));
    buf_append(out, SLICE("</section>"));
}

/* Nobody is sent away unasked: the address is told first. */
static void write_way_back(struct web_request *request, struct buf *out)
{
    slice url = request->session.return_url;
    if (!request->session.limit_integration.ptr || !url.ptr)
        return;
    HTML(out,
         "<p class=\"card\">Once you are done here: <a class=\"button\" href=\"{}\" "
         "rel=\"noreferrer\">Go back</a> <span class=\"soft\">to {}</span></p>",
         url, url);
}

static enum op_result finish_app(struct web_request *request)
{
    struct app *app = request->state;
    struct connection *rows;
    size_t count;
    struct buf body;
    int status = store_connection_list_result(&request->query, &rows, &count);
    if (status != OK)
        return web_reply_database(request, status);
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    write_about(app->integration, &body);
    write_way_back(request, &body);
    if (count > 0)
        buf_append(&body, SLICE("<h2>Connections</h2><ul class=\"list\">"));
    for (size_t i = 0; i < count; i++)
        write_connection(request, app->integration, &rows[i], &body);
    if (count > 0)
        buf_append(&body, SLICE("</ul>"));
    write_connect_section(request, app->integration, count, &body);
    status = app->has_asked_clients ? write_client(request, app, &body) : OK;
    if (status == OK) {
        app_allow_forms(request, app->integration);
        return web_reply_page(request, 200, app->integration->name, &body);
    }
    buf_deinit(&body);
    return web_reply_database(request, status);
}

const struct web_page web_app = {
    .route = "/integrations/{id}", .access = WEB_LIMITED, .begin = begin_app, .finish = finish_app};
