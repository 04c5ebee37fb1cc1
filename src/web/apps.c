/*
 * Apps: all apps of the catalog, connected ones first, or the hits of a search, in the order of
 * /api/search.
 */
#include "catalog/search.h"
#include "serve/foresee.h"
#include "web/app.h"
#include "web/flow_decision.h"

enum { CATEGORIES_MAX = 64, HITS_MAX = 200, TITLES_MAX = 3 };

struct apps {
    struct catalog *catalog;
    struct connect_apps connected;
    const struct catalog_integration **list; /* apps on the page, of any category */
    size_t count;
    struct catalog_hit *hits; /* the hits of a search */
    size_t hit_count;
};

static void on_end(struct web_request *request)
{
    struct apps *apps = request->state;
    catalog_unref(apps->catalog);
}

/* ---- selection ---- */

static bool is_listed(const struct apps *apps, const struct catalog_integration *app)
{
    /* A search has at most HITS_MAX hits, so this stays cheap. */
    for (size_t i = 0; i < apps->count; i++)
        if (apps->list[i] == app)
            return true;
    return false;
}

/* An app is listed at its first hit, whether the hit is the app or one of its actions. */
static bool search_apps(struct web_request *request, struct apps *apps, slice query,
                        const struct connection_app *own, size_t own_count)
{
    struct arena *arena = &request->serve.op.arena;
    struct search_request search = {
        .query = query,
        .with_integrations = true,
        .with_actions = true,
        .connected = connect_connected_flags(arena, apps->catalog, own, own_count),
        .limit = HITS_MAX};
    size_t count;
    if (!search.connected ||
        serve_unlisted(&request->serve, apps->catalog, &search.unlisted) != OK ||
        catalog_search(apps->catalog, arena, &search, &apps->hits, &count) != OK)
        return false;
    /* Hits that match only part of the query are dropped if others match all of it. */
    apps->hit_count = catalog_hits_keep_fitting(apps->hits, count);
    for (size_t i = 0; i < apps->hit_count; i++) {
        if (is_listed(apps, apps->hits[i].integration))
            continue;
        ASSERT(apps->count < apps->catalog->integration_count);
        apps->list[apps->count++] = apps->hits[i].integration;
    }
    return true;
}

static void list_all(struct apps *apps, const struct connection_app *own, size_t count)
{
    size_t connected_count = 0;
    /* Two passes keep the catalog's order among connected apps, and among the other apps of each
     * category. */
    for (int connected = 1; connected >= 0; connected--)
        for (size_t i = 0; i < apps->catalog->integration_count; i++) {
            const struct catalog_integration *app = apps->catalog->integrations[i];
            bool is_connected = connect_app_of(own, count, app->integration_id) != NULL;
            size_t at = apps->count;
            if (is_connected != (connected == 1))
                continue;
            for (; !is_connected && at > connected_count &&
                   slice_cmp(apps->list[at - 1]->category, app->category) > 0;
                 at--)
                apps->list[at] = apps->list[at - 1];
            apps->list[at] = app;
            apps->count++;
            connected_count += is_connected;
        }
    ASSERT(apps->count == apps->catalog->integration_count);
}

/* ---- writing ---- */

static void write_categories(const struct catalog *catalog, struct json_writer *w)
{
    slice categories[CATEGORIES_MAX];
    size_t count = 0;
    json_member_open(w, "categories", '[');
    for (size_t i = 0; i < catalog->integration_count; i++) {
        slice category = catalog->integrations[i]->category;
        /* Further categories are left out of the filter; their apps are still listed. */
        bool is_new = category.len > 0 && count < CATEGORIES_MAX;
        for (size_t j = 0; is_new && j < count; j++)
            is_new = !slice_eq(categories[j], category);
        if (!is_new)
            continue;
        categories[count++] = category;
        json_put_str(w, category);
    }
    json_close(w, ']');
}

/* Writes the first few of the app's actions among the hits. */
static void write_hits(const struct apps *apps, const struct catalog_integration *app,
                       struct json_writer *w)
{
    json_member_open(w, "hits", '[');
    for (size_t i = 0, listed = 0; i < apps->hit_count && listed < TITLES_MAX; i++) {
        const struct catalog_action *action = apps->hits[i].action;
        if (apps->hits[i].integration != app || !action)
            continue;
        json_open(w, '{');
        json_member_str(w, "app_id", app->integration_id);
        json_member_str(w, "action_id", action->action_id);
        json_member_str(w, "title", action->title);
        json_close(w, '}');
        listed++;
    }
    json_close(w, ']');
}

static void write_app(const struct web_request *request, const struct catalog_integration *app,
                      const struct connection_app *own, struct json_writer *w)
{
    json_open(w, '{');
    json_member_str(w, "integration_id", app->integration_id);
    json_member_str(w, "name", app->name);
    view_app_icon(w, app->integration_id, app);
    json_member_str(w, "category", app->category);
    json_member_str(w, "description", catalog_summary(app->description));
    json_member_str(w, "status",
                    own ? slice_cstr(connect_state_name(connect_state_of(own))) : SLICE_NONE);
    /* An app without authentication works without a connection, and never has one. */
    json_member_bool(w, "needs_no_sign_in", app->auth.kind == AUTH_NONE);
    json_member_i64(w, "connections", own ? (int64_t)own->count : 0);
    json_member_i64(w, "action_count", app_count_actions(request, app));
    write_hits(request->state, app, w);
    json_close(w, '}');
}

static void write_list(const struct web_request *request, slice category,
                       const struct connection_app *own, size_t count, struct json_writer *w)
{
    const struct apps *apps = request->state;
    json_member_open(w, "apps", '[');
    for (size_t i = 0; i < apps->count; i++) {
        const struct catalog_integration *app = apps->list[i];
        /* The category filters hits, too. */
        if (!category.ptr || slice_eq(app->category, category))
            write_app(request, app, connect_app_of(own, count, app->integration_id), w);
    }
    json_close(w, ']');
}

static enum op_result finish_apps(struct web_request *request)
{
    struct apps *apps = request->state;
    slice query = web_query(request, "q");
    struct connection_app *own;
    size_t count;
    int status = connect_apps_result(&apps->connected, &request->serve.op.arena, &own, &count);
    if (status != OK)
        return web_reply_database(request, status);
    /* The list has one entry more than there are apps: with an empty catalog its size would be zero
     * bytes. */
    apps->list = ARENA_ARRAY(&request->serve.op.arena, const struct catalog_integration *,
                             apps->catalog->integration_count + 1);
    if (!apps->list || (query.ptr && !search_apps(request, apps, query, own, count)))
        return web_reply_database(request, ERR_NOMEM);
    if (!query.ptr)
        list_all(apps, own, count);
    struct json_writer *w = view_begin(request);
    json_member_str(w, "q", query);
    json_member_str(w, "category", web_query(request, "category"));
    write_categories(apps->catalog, w);
    write_list(request, web_query(request, "category"), own, count, w);
    return web_reply_view(request, 200, "apps");
}

enum op_result web_apps(struct web_request *request)
{
    struct apps *apps = web_state_new(request, sizeof(*apps));
    if (!apps)
        return OP_DONE;
    /* The snapshot is held until the request ends; hits and list point into it. */
    apps->catalog = catalog_ref(*request->web->config.catalog);
    request->on_end = on_end;
    connect_apps_load(request->web->config.pool, &apps->connected, &request->serve.op,
                      request->session.account_id, request->session.parent_id);
    return web_wait(request, finish_apps);
}
