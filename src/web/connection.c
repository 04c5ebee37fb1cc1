/*
 * One connection: its state, its grant and what that allows, its last use and last failure, and the
 * changes that a person can make.
 */
#include "serve/foresee.h"
#include "web/app.h"
#include "web/connection_users.h"

enum { REFUSED_MAX = 12, FLOWS_EXAMINED = 20 };

struct page {
    struct connection row;
    struct catalog *catalog;
    const struct catalog_integration *app; /* NULL: no longer in the catalog */
    struct connect_lookup lookup;
    struct connection_users use;
};

/* ---- loading ---- */

static void on_end(struct web_request *request)
{
    struct page *page = request->state;
    connect_set_unref(page->lookup.set);
    catalog_unref(page->catalog);
}

/* ---- facts ---- */

/* Returns NULL if the item is unknown, for example because the database was unreachable. */
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

/* Returns whether the token is renewed automatically, or SLICE_NONE if that is not shown. */
static slice renewal_of(const struct page *page, bool has_expiry)
{
    const struct connect_item *item = item_of(page);
    /* 0 means that the app did not say when the token expires. */
    if (!has_expiry || page->row.expires_at == 0 || !item || page->row.status != CONNECTION_LIVE)
        return SLICE_NONE;
    return item->has_refresh_token || auth_of(page)->kind == AUTH_OAUTH2_CLIENT_CREDENTIALS
               ? SLICE("automatic")
               : SLICE("none");
}

/* ---- scopes ---- */

static void write_scope(struct json_writer *w, const struct page *page, slice scope,
                        bool is_granted)
{
    json_open(w, '{');
    json_member_str(w, "scope", scope);
    json_member_str(w, "text", page->app ? catalog_scope_words(page->app, scope) : SLICE_NONE);
    json_member_bool(w, "granted", is_granted);
    json_close(w, '}');
}

/* Writes the requested scopes, then further scopes that the app granted earlier. */
static void write_scopes(struct json_writer *w, const struct page *page, const struct json *wanted)
{
    slice granted = page->row.scopes;
    json_member_open(w, "scopes", '[');
    for (size_t i = 0; wanted && i < wanted->count; i++) {
        slice scope = json_str(&wanted->as.items[i]);
        write_scope(w, page, scope, slice_has_word(granted, scope));
    }
    while (granted.len > 0) {
        slice scope = slice_split(&granted, ' ');
        if (scope.len > 0 && !json_has_text(wanted, scope))
            write_scope(w, page, scope, true);
    }
    json_close(w, ']');
}

/* Writes the titles of the first actions that the app's refusal affects, and their number. */
static void write_refused(const struct web_request *request, struct json_writer *w,
                          const struct page *page)
{
    const struct catalog_integration *app = page->app;
    size_t count = 0;
    json_member_open(w, "refused", '[');
    for (size_t i = 0; app && i < app->action_count; i++)
        if (app_refuses(&app->actions[i], page->row.scopes) &&
            serve_lists(&request->serve, &app->actions[i]) && count++ < REFUSED_MAX)
            json_put_str(w, app->actions[i].title);
    json_close(w, ']');
    json_member_i64(w, "refused_count", (int64_t)count);
    json_member_i64(w, "action_count", app ? app_count_actions(request, app) : 0);
}

/* ---- the page ---- */

/* For an app that is no longer in the catalog only the row is known. */
static void write_page(struct web_request *request, struct json_writer *w)
{
    const struct page *page = request->state;
    const struct connection *row = &page->row;
    const struct catalog_integration *app = page->app;
    const struct catalog_auth *auth = app ? auth_of(page) : NULL;
    bool is_oauth = auth && auth->kind == AUTH_OAUTH2;
    bool has_expiry = is_oauth || (auth && auth->kind == AUTH_OAUTH2_CLIENT_CREDENTIALS);
    slice typed = web_field(request, "label"); /* typed values, if the form is rendered again
                                                * with an error */
    json_member_open(w, "connection", '{');
    view_connection_members(request, w, row);
    json_close(w, '}');
    view_app_icon(w, row->integration_id, app);
    json_member_bool(w, "in_catalog", app != NULL);
    json_member_str(w, "acts_as", app_acts_as(row));
    json_member_bool(w, "asks_identity", app && app->identity.from != IDENTITY_NONE);
    /* Other kinds of credentials have no known expiry. */
    json_member_bool(w, "has_expiry", has_expiry);
    json_member_str(w, "renewal", renewal_of(page, has_expiry));
    /* Only an app with a test request can be tested. */
    json_member_bool(w, "may_test",
                     serve_may(&request->serve, SCOPE_EXECUTE) && auth && auth->test_path.len > 0);
    json_member_bool(w, "is_oauth", is_oauth);
    json_member_bool(w, "scopes_known", row->scopes.ptr != NULL);
    write_scopes(w, page, is_oauth ? auth->scopes : NULL);
    app_view_access(request, w, app, is_oauth ? row->scopes : SLICE_NONE);
    json_member_str(w, "missing", app ? app_scopes_missing(request, app, row) : SLICE_NONE);
    write_refused(request, w, page);
    if (serve_may(&request->serve, SCOPE_EXECUTE_WRITE) && app && app->auth.kind != AUTH_NONE)
        app_view_forms(request, w, app, row, true);
    else
        app_view_no_forms(w);
    json_member_str(w, "label", typed.ptr ? typed : row->label);
}

static enum op_result reply_connection(struct web_request *request)
{
    struct page *page = request->state;
    int status = connection_users_result(&page->use);
    if (status != OK)
        return web_reply_database(request, status);
    struct json_writer *w = view_begin(request);
    write_page(request, w);
    connection_users_view(request, w, &page->use);
    if (page->app)
        app_allow_forms(request, page->app);
    if (page->row.status == CONNECTION_LIVE)
        request->notice_about = WEB_NOTICE_LIVE;
    return web_reply_view(request, 200, "connection");
}

static enum op_result finish_connection(struct web_request *request)
{
    struct page *page = request->state;
    int status = store_connection_get_result(&request->query, &page->row);
    if (status == ERR_NOTFOUND)
        return app_no_connection(request);
    if (status != OK)
        return web_reply_database(request, status);
    page->app = catalog_find_integration(page->catalog, page->row.integration_id, NULL);
    connection_users_begin(request, &page->use, page->catalog, &page->row, FLOWS_EXAMINED);
    /* The lookup adds a fact that is not in the row: whether the sealed credential has a refresh
     * token. The page waits for the queries above even if the lookup completes at once. */
    bool is_known = connect_find(request->web->config.connect, &page->lookup,
                                 request->session.account_id, page->row.integration_id,
                                 page->row.id, &request->serve.op);
    ASSERT(request->serve.op.holds > 0 || !is_known);
    return web_wait(request, reply_connection);
}

enum op_result web_connection(struct web_request *request)
{
    struct page *page = web_state_new(request, sizeof(*page));
    int64_t id;
    if (!page)
        return OP_DONE;
    if (!slice_to_i64(request->serve.match.params[0], &id) || id <= 0)
        return app_no_connection(request);
    page->catalog = catalog_ref(*request->web->config.catalog);
    request->on_end = on_end;
    store_connection_get(request->web->config.pool, &request->query, &request->serve.op,
                         request->session.account_id, id);
    return web_wait(request, finish_connection);
}
