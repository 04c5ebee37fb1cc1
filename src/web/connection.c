/*
 * One connection: whether it works, what the app granted it and what that allows, when it was last
 * used, what failed last; and what a person can do about it.
 */
#include "connect/oauth.h"
#include "web/app.h"

enum { REFUSED_MAX = 12 };

struct page {
    bool is_found; /* request->query has the row; the request waits for lookup */
    struct connection row;
    struct catalog *catalog;
    const struct catalog_integration *app; /* NULL: it is not in the catalog any more */
    struct connect_lookup lookup;
};

/* ---- parts that an app's page has, too ---- */

slice app_connection_path(struct web_request *request, int64_t id)
{
    return arena_printf(&request->op.arena, "/connections/%lld", (long long)id);
}

slice app_path_after(struct web_request *request, slice integration_id, int64_t connection_id,
                     bool again)
{
    ASSERT(!again || connection_id != 0);
    if (request->session.link_token.ptr)
        return app_link_path(request);
    return again ? app_connection_path(request, connection_id) : app_path(request, integration_id);
}

slice app_scopes_missing(struct web_request *request, const struct catalog_integration *app,
                         const struct connection *row)
{
    const struct catalog_auth *auth = catalog_auth_of(app, row->auth_kind);
    /* Without a list of granted scopes the app's refusals are the only source. */
    if (auth->kind != AUTH_OAUTH2 || !row->scopes.ptr)
        return SLICE_NONE;
    return oauth_scopes_missing(auth->scopes, row->scopes, &request->op.arena);
}

void app_write_badges(const struct connection *row, struct buf *out)
{
    if (row->is_default)
        buf_append(out, SLICE("<span class=\"badge\">default</span> "));
    web_badge(out, slice_cstr(connection_status_name(row->status)));
}

void app_write_identity(const struct connection *row, struct buf *out)
{
    slice text = connection_identity_text(&row->identity);
    /* The label is often the identity itself; it is not repeated. */
    if (connection_identity_is_known(&row->identity) && !slice_eq(text, row->label))
        HTML(out, "<p>acts as {}</p>", text);
}

void app_write_last_use(const struct connection *row, struct buf *out)
{
    if (row->last_used_at == 0) {
        buf_append(out, SLICE("<p class=\"soft\">not used yet</p>"));
        return;
    }
    buf_append(out, SLICE("<p class=\"soft\">last used "));
    html_time(out, row->last_used_at);
    buf_append(out, SLICE("</p>"));
}

void app_write_reconnect(struct web_request *request, const struct catalog_integration *app,
                         const struct connection *row, struct buf *out)
{
    if (!web_may(request, SCOPE_EXECUTE) || app->auth.kind == AUTH_NONE)
        return;
    /* OAuth needs a button only; a credential needs fields, which stay folded. */
    if (catalog_auth_of(app, row->auth_kind)->kind == AUTH_OAUTH2) {
        app_write_connect(request, app, row, true, out);
        return;
    }
    buf_append(out, SLICE("<details><summary>Reconnect with a new credential</summary>"));
    app_write_connect(request, app, row, true, out);
    buf_append(out, SLICE("</details>"));
}

/* ---- loading ---- */

static void on_cancel(struct web_request *request)
{
    struct page *page = request->state;
    connect_find_cancel(&page->lookup);
}

static void on_end(struct web_request *request)
{
    struct page *page = request->state;
    connect_set_unref(page->lookup.set);
    catalog_unref(page->catalog);
}

static enum op_result not_found(struct web_request *request)
{
    return web_reply_problem(request, 404, SLICE("Not found"),
                             SLICE("There is no such connection; it may have been removed."));
}

static enum op_result begin_connection(struct web_request *request)
{
    struct page *page = ARENA_NEW(&request->op.arena, struct page);
    int64_t id;
    if (!page)
        return web_reply_database(request, ERR_BUSY);
    if (!slice_to_i64(request->match.params[0], &id) || id <= 0)
        return not_found(request);
    /* connect_find_cancel needs an initialized link, also before the lookup has begun. */
    list_init(&page->lookup.link);
    page->catalog = catalog_ref(*request->web->config.catalog);
    request->state = page;
    request->on_cancel = on_cancel;
    request->on_end = on_end;
    store_connection_get(request->web->config.pool, &request->query, &request->op,
                         request->session.account_id, id);
    return OP_WAIT;
}

/* ---- facts ---- */

static void write_connection_time(struct buf *out, const char *label, int64_t at, const char *none)
{
    HTML(out, "<dt>{}</dt><dd>", slice_cstr(label));
    if (at != 0)
        html_time(out, at);
    else
        buf_append_cstr(out, none);
    buf_append(out, SLICE("</dd>"));
}

/* NULL: unknown, for example because the database was unreachable. */
static const struct connect_item *item_of(const struct page *page)
{
    const struct connect_set *set = page->lookup.set;
    ASSERT(!set || set->count <= 1); /* it was looked up by its id */
    return set && set->count > 0 ? &set->items[0] : NULL;
}

static const struct catalog_auth *auth_of(const struct page *page)
{
    ASSERT(page->app);
    return catalog_auth_of(page->app, page->row.auth_kind);
}

static void write_expiry(const struct page *page, struct buf *out)
{
    const struct connect_item *item = item_of(page);
    /* 0 means that the app did not say when the token expires. */
    if (page->row.expires_at == 0) {
        write_connection_time(out, "Token expires", 0, "not known, or never");
        return;
    }
    write_connection_time(out, "Token expires", page->row.expires_at, "");
    if (!item || page->row.status != CONNECTION_LIVE)
        return;
    HTML(out, "<dt>Renewal</dt><dd>{}</dd>",
         item->has_refresh_token || auth_of(page)->kind == AUTH_OAUTH2_CLIENT_CREDENTIALS
             ? SLICE("automatic, before the token expires")
             : SLICE("none: the app gave no refresh token. Reconnect when the token has expired."));
}

static void write_identity(const struct page *page, struct buf *out)
{
    const struct connection_identity *identity = &page->row.identity;
    bool is_asked = page->app && page->app->identity.from != IDENTITY_NONE;
    buf_append(out, SLICE("<dt>Acts as</dt><dd>"));
    if (!connection_identity_is_known(identity)) {
        HTML(out, "{}</dd>",
             is_asked ? SLICE("not known; test or reconnect it to find out")
                      : SLICE("not known: the app does not report it"));
        return;
    }
    slice text = connection_identity_text(identity);
    HTML(out, "{}", text);
    if (identity->label.ptr && !slice_eq(identity->label, text))
        HTML(out, " <span class=\"soft\">{}</span>", identity->label);
    if (identity->subject.ptr && !slice_eq(identity->subject, text))
        HTML(out, "<br><code>{}</code>", identity->subject);
    buf_append(out, SLICE("</dd>"));
}

static void write_facts(const struct page *page, struct buf *out)
{
    const struct connection *row = &page->row;
    buf_append(out, SLICE("<dl class=\"card\">"));
    write_identity(page, out);
    write_connection_time(out, "Last use", row->last_used_at, "not used yet");
    HTML(out, "<dt>Last error</dt><dd>{}", row->failure.len > 0 ? row->failure : SLICE("none"));
    if (row->failed_at != 0) {
        buf_append(out, SLICE("<br><span class=\"soft\">"));
        html_time(out, row->failed_at);
        buf_append(out, SLICE("</span>"));
    }
    buf_append(out, SLICE("</dd>"));
    /* Other kinds of credential have no expiry that is known here. */
    if (page->app && (auth_of(page)->kind == AUTH_OAUTH2 ||
                      auth_of(page)->kind == AUTH_OAUTH2_CLIENT_CREDENTIALS))
        write_expiry(page, out);
    write_connection_time(out, "Connected", row->created_at, "");
    write_connection_time(out, "Changed", row->updated_at, "");
    buf_printf(out, "<dt>Id</dt><dd><code>%lld</code></dd></dl>", (long long)row->id);
}

/* ---- scopes ---- */

/* Any one of an action's scopes suffices (exec/gate.c). */
static bool is_refused(const struct catalog_action *action, slice granted)
{
    slice rest = action->scope_words;
    while (rest.len > 0)
        if (slice_has_word(granted, slice_split(&rest, ' ')))
            /* An action without scopes is never refused for want of one. */
            return false;
    return action->scope_words.len > 0;
}

static void write_scope_row(slice scope, bool is_granted, struct buf *out)
{
    HTML(out, "<li class=\"row\"><code>{}</code>", scope);
    buf_append(out, is_granted ? SLICE("<span class=\"badge ok\">granted</span></li>")
                               : SLICE("<span class=\"badge warn\">not granted</span></li>"));
}

static void write_refused(const struct page *page, struct buf *out)
{
    const struct catalog_integration *app = page->app;
    size_t count = 0;
    for (size_t i = 0; i < app->action_count; i++)
        count += is_refused(&app->actions[i], page->row.scopes);
    if (count == 0)
        return;
    buf_printf(out, "<p>Actions refused without them (%zu of %zu): ", count, app->action_count);
    size_t listed = 0;
    for (size_t i = 0; i < app->action_count && listed < REFUSED_MAX; i++)
        if (is_refused(&app->actions[i], page->row.scopes))
            HTML(out, listed++ > 0 ? "; {}" : "{}", app->actions[i].title);
    buf_append(out, listed < count ? SLICE("; and more.</p>") : SLICE(".</p>"));
}

static void write_scopes(struct web_request *request, const struct page *page, struct buf *out)
{
    const struct json *wanted = auth_of(page)->scopes;
    slice granted = page->row.scopes;
    if (auth_of(page)->kind != AUTH_OAUTH2)
        return;
    buf_append(out, SLICE("<h2>What the app granted</h2>"));
    if (!granted.ptr) {
        buf_append(out,
                   SLICE("<p>The app did not report it; it refuses what it does not allow.</p>"));
        return;
    }
    buf_append(out, SLICE("<ul class=\"list\">"));
    for (size_t i = 0; wanted && i < wanted->count; i++) {
        slice scope = json_str(&wanted->as.items[i]);
        write_scope_row(scope, slice_has_word(granted, scope), out);
    }
    /* The app may have granted more than was requested, by an earlier grant. */
    while (granted.len > 0) {
        slice scope = slice_split(&granted, ' ');
        if (scope.len > 0 && !json_has_text(wanted, scope))
            write_scope_row(scope, true, out);
    }
    buf_append(out, SLICE("</ul>"));
    if (!app_scopes_missing(request, page->app, &page->row).ptr)
        /* Nothing is missing, so nothing is refused. */
        return;
    buf_append(out,
               SLICE("<p>The app did not grant everything that was requested. To allow the rest, "
                     "reconnect and leave all boxes ticked.</p>"));
    write_refused(page, out);
}

/* ---- what may be done ---- */

static void write_button(struct web_request *request, const struct page *page, const char *verb,
                         slice label, const char *style, struct buf *out)
{
    slice path = app_connection_path(request, page->row.id);
    web_button(request, out, arena_printf(&request->op.arena, "%.*s/%s", SLICE_ARG(path), verb),
               label, style);
}

static void write_rename(struct web_request *request, const struct page *page, struct buf *out)
{
    slice typed = web_field(request, "label"); /* when the form comes back with an error */
    HTML(out, "<h2>Rename</h2><form class=\"inline card\" method=\"post\" action=\"{}/label\">",
         app_connection_path(request, page->row.id));
    web_csrf_field(request, out);
    HTML(out,
         "<div><label for=\"label\">Label</label><input id=\"label\" name=\"label\" value=\"{}\" "
         "required maxlength=\"200\"></div><button>Save the label</button></form>",
         typed.ptr ? typed : page->row.label);
}

static void write_reconnect(struct web_request *request, const struct page *page, struct buf *out)
{
    buf_append(
        out, SLICE("<section class=\"card\" aria-labelledby=\"reconnect\">"
                   "<h2 id=\"reconnect\">Reconnect</h2><p>Gives this connection a new grant "
                   "or credential. Whatever uses the connection continues with the new one.</p>"));
    app_write_connect(request, page->app, &page->row, true, out);
    buf_append(out, SLICE("</section>"));
}

static void write_actions(struct web_request *request, const struct page *page, struct buf *out)
{
    const struct catalog_integration *app = page->app;
    buf_append(out, SLICE("<div class=\"actions\">"));
    /* Only an app with a request to test by can be tested. */
    if (web_may(request, SCOPE_EXECUTE) && app && auth_of(page)->test_path.len > 0)
        write_button(request, page, "test", SLICE("Test it"), "", out);
    if (web_may(request, SCOPE_ADMIN) && !page->row.is_default)
        write_button(request, page, "default", SLICE("Make it the default"), "", out);
    buf_append(out, SLICE("</div>"));
}

static void write_changes(struct web_request *request, const struct page *page, struct buf *out)
{
    if (web_may(request, SCOPE_EXECUTE) && page->app && page->app->auth.kind != AUTH_NONE)
        write_reconnect(request, page, out);
    if (!web_may(request, SCOPE_ADMIN))
        return;
    write_rename(request, page, out);
    buf_append(out, SLICE("<h2>Disconnect</h2><p>Deletes the credential from this server. Flows "
                          "and agents that use this connection are refused from then on.</p>"));
    HTML(out,
         "<p class=\"actions\"><a class=\"button danger\" href=\"{}/delete\">Disconnect</a></p>",
         app_connection_path(request, page->row.id));
}

/* ---- the page ---- */

static enum op_result reply_connection(struct web_request *request)
{
    const struct page *page = request->state;
    const struct connection *row = &page->row;
    struct buf body;
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    HTML(&body,
         "<p class=\"row\"><span class=\"soft\">Connection to <a href=\"{}\">{}</a></span><span>",
         app_path(request, row->integration_id), page->app ? page->app->name : row->integration_id);
    app_write_badges(row, &body);
    buf_append(&body, SLICE("</span></p>"));
    if (row->error.len > 0)
        HTML(&body, "<p class=\"problem\">It no longer works: {}. Reconnect it.</p>", row->error);
    if (!page->app)
        buf_append(&body, SLICE("<p>This app is no longer in the catalog.</p>"));
    write_facts(page, &body);
    write_actions(request, page, &body);
    if (page->app) {
        write_scopes(request, page, &body);
        app_allow_forms(request, page->app);
    }
    write_changes(request, page, &body);
    return web_reply_page(request, 200, row->label, &body);
}

static enum op_result finish_connection(struct web_request *request)
{
    struct page *page = request->state;
    /* The second call: the lookup has ended, and its set is held until on_end. */
    if (page->is_found)
        return reply_connection(request);
    int status = store_connection_get_result(&request->query, &page->row);
    if (status == ERR_NOTFOUND)
        return not_found(request);
    if (status != OK)
        return web_reply_database(request, status);
    page->is_found = true;
    page->app = catalog_find_integration(page->catalog, page->row.integration_id);
    /* The lookup adds what the row does not have: whether the sealed credential has a refresh
     * token. */
    return connect_find(request->web->config.connect, &page->lookup, request->session.account_id,
                        page->row.integration_id, page->row.id, &request->op)
               ? reply_connection(request)
               : OP_WAIT;
}

const struct web_page web_connection = {.route = "/connections/{id}",
                                        .access = WEB_SESSION,
                                        .scope = SCOPE_READ,
                                        .begin = begin_connection,
                                        .finish = finish_connection};
