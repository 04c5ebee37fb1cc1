/*
 * The page of one app: its description, its connections in brief (connection.c has each in full),
 * and the form that connects it (app_form.c).
 */
#include "web/app.h"

#include "web/call_stats.h"

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
    struct app *app = web_state_new(request, sizeof(*app));
    struct pg_pool *pool = request->web->config.pool;
    struct uuid account_id = request->session.account_id;
    if (!app)
        return OP_DONE;
    app->integration = app_of_path(request, &app->catalog);
    if (!app->integration)
        return OP_DONE;
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
