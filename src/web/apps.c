/*
 * Apps: all that the catalog has, connected ones first; or what a search finds, in the order of
 * /api/search.
 */
#include "catalog/search.h"
#include "web/app.h"

enum { CATEGORIES_MAX = 64, HITS_MAX = 200 };

struct apps {
    struct catalog *catalog;
    const struct catalog_integration **list; /* those on the page, of any category */
    size_t count;
};

static void on_end(struct web_request *request)
{
    struct apps *apps = request->state;
    catalog_unref(apps->catalog);
}

static enum op_result begin_apps(struct web_request *request)
{
    struct apps *apps = ARENA_NEW(&request->op.arena, struct apps);
    if (!apps)
        return web_reply_database(request, ERR_BUSY);
    /* The snapshot is held until the request ends; hits and list point into it. */
    apps->catalog = catalog_ref(*request->web->config.catalog);
    request->state = apps;
    request->on_end = on_end;
    store_connection_apps(request->web->config.pool, &request->query, &request->op,
                          request->session.account_id);
    return OP_WAIT;
}

/* ---- which ones ---- */

static bool is_listed(const struct apps *apps, const struct catalog_integration *app)
{
    /* A search has at most HITS_MAX hits, so that this stays cheap. */
    for (size_t i = 0; i < apps->count; i++)
        if (apps->list[i] == app)
            return true;
    return false;
}

/* An app is listed where its first hit stands, whether the hit is the app or one of its actions. */
static bool search_apps(struct web_request *request, struct apps *apps, slice query,
                        const struct connection_app *own, size_t own_count)
{
    struct arena *arena = &request->op.arena;
    const struct search_request search = {
        .query = query,
        .with_integrations = true,
        .with_actions = true,
        .connected = connect_connected_flags(arena, apps->catalog, own, own_count),
        .limit = HITS_MAX};
    struct search_hit *hits;
    size_t count;
    if (!search.connected || catalog_search(apps->catalog, arena, &search, &hits, &count) != OK)
        return false;
    /* Hits that match only part of the query are dropped if others match all of it. */
    count = search_hits_keep_fitting(hits, count);
    for (size_t i = 0; i < count; i++) {
        if (is_listed(apps, hits[i].integration))
            continue;
        ASSERT(apps->count < apps->catalog->integration_count);
        apps->list[apps->count++] = hits[i].integration;
    }
    return true;
}

static void list_all(struct apps *apps, const struct connection_app *own, size_t count)
{
    /* Two passes keep the catalog's order within each group. */
    for (int connected = 1; connected >= 0; connected--)
        for (size_t i = 0; i < apps->catalog->integration_count; i++) {
            const struct catalog_integration *app = apps->catalog->integrations[i];
            bool is_connected = connect_app_of(own, count, app->integration_id) != NULL;
            if (is_connected == (connected == 1))
                apps->list[apps->count++] = app;
        }
    ASSERT(apps->count == apps->catalog->integration_count);
}

/* ---- writing ---- */

static void write_categories(const struct catalog *catalog, slice chosen, struct buf *out)
{
    slice categories[CATEGORIES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < catalog->integration_count; i++) {
        slice category = catalog->integrations[i]->category;
        /* Further categories are left out of the filter; their apps are still listed. */
        bool is_new = category.len > 0 && count < CATEGORIES_MAX;
        for (size_t j = 0; is_new && j < count; j++)
            is_new = !slice_eq(categories[j], category);
        if (!is_new)
            continue;
        categories[count++] = category;
        HTML(out,
             slice_eq(category, chosen) ? "<option selected>{}</option>" : "<option>{}</option>",
             category);
    }
}

static void write_app_filter(struct web_request *request, const struct catalog *catalog,
                             struct buf *out)
{
    HTML(out,
         "<form class=\"inline card\" method=\"get\" action=\"/integrations\" role=\"search\"><div>"
         "<label for=\"q\">Search</label><input id=\"q\" name=\"q\" type=\"search\" value=\"{}\" "
         "maxlength=\"200\"></div><div><label for=\"category\">Category</label>"
         "<select id=\"category\" name=\"category\"><option value=\"\">any</option>",
         web_query(request, "q"));
    write_categories(catalog, web_query(request, "category"), out);
    buf_append(out, SLICE("</select></div><button>Show</button></form>"));
}

static void write_app(const struct catalog_integration *app, const struct connection_app *own,
                      struct buf *out)
{
    HTML(out, "<li><h3><a href=\"/integrations/{}\">{}</a> ", app->integration_id, app->name);
    if (own)
        /* An app without authentication works without a connection, and never has one. */
        web_badge(out, slice_cstr(connect_state_name(connect_state_of(own))));
    else if (app->auth.kind == AUTH_NONE)
        web_badge(out, SLICE("no sign-in needed"));
    HTML(out, "</h3><p class=\"soft\">{}</p><p>{}</p></li>", app->category,
         catalog_summary(app->description));
}

static size_t write_list(const struct apps *apps, slice category, const struct connection_app *own,
                         size_t count, struct buf *out)
{
    size_t listed = 0;
    buf_append(out, SLICE("<ul class=\"list grid\">"));
    for (size_t i = 0; i < apps->count; i++) {
        const struct catalog_integration *app = apps->list[i];
        /* The category filters what a search found, too. */
        if (category.ptr && !slice_eq(app->category, category))
            continue;
        write_app(app, connect_app_of(own, count, app->integration_id), out);
        listed++;
    }
    buf_append(out, SLICE("</ul>"));
    return listed;
}

static enum op_result finish_apps(struct web_request *request)
{
    struct apps *apps = request->state;
    slice query = web_query(request, "q");
    struct connection_app *own;
    size_t count;
    struct buf body;
    int status = store_connection_apps_result(&request->query, &own, &count);
    if (status != OK)
        return web_reply_database(request, status);
    /* One more than there are apps: an empty catalog is no allocation of zero bytes. */
    apps->list = ARENA_ARRAY(&request->op.arena, const struct catalog_integration *,
                             apps->catalog->integration_count + 1);
    if (!apps->list || (query.ptr && !search_apps(request, apps, query, own, count)))
        return web_reply_database(request, ERR_NOMEM);
    if (!query.ptr)
        list_all(apps, own, count);
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    write_app_filter(request, apps->catalog, &body);
    if (write_list(apps, web_query(request, "category"), own, count, &body) == 0)
        buf_append(&body, SLICE("<p>No app. Search for something else, or ask your operator to "
                                "add one.</p>"));
    return web_reply_page(request, 200, SLICE("Apps"), &body);
}

const struct web_page web_apps = {.route = "/integrations",
                                  .access = WEB_SESSION,
                                  .scope = SCOPE_READ,
                                  .begin = begin_apps,
                                  .finish = finish_apps};
