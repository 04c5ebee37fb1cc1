/*
 * GET /api/integrations, GET /api/actions, GET /api/actions/{integration_id}/{action_id},
 * GET /api/search (src/api/README.md "Catalog"). Texts were rendered when the catalog was loaded.
 */
#include "api/request.h"
#include "catalog/search.h"
#include "json/scan.h"
#include "serve/foresee.h"

enum {
    PAGE_SIZE_DEFAULT = 20,
    PAGE_SIZE_MAX = 100,
    FOUND_ITEMS_DEFAULT = 20, /* number of items of a search without `limit` */
    FOUND_ITEMS_MAX = 100,
    LIST_BYTES_MAX = 16 * 1024 * 1024,
    DETAIL_BYTES_MAX = 4 * 1024 * 1024,
};

/* ---- common ---- */

/* Reports an unknown action, or, if integration is NULL, an unknown integration. */
static enum op_result reply_not_found(struct api_request *request,
                                      const struct catalog_integration *integration,
                                      slice integration_id, slice action_id)
{
    const struct catalog *catalog = *request->api->config.catalog;
    struct arena *arena = &request->serve.op.arena;
    const bool *unlisted;
    if (serve_unlisted(&request->serve, catalog, &unlisted) != OK)
        return api_reply_no_memory(request);
    struct exec_outcome outcome = {
        .reason = integration ? EXEC_ACTION_UNKNOWN : EXEC_INTEGRATION_UNKNOWN,
        .integration_id = integration_id,
        .action_id = action_id,
        .display_title = SLICE("Not found"),
        .retry_after_ms = -1,
    };
    if (!integration) {
        outcome.message = catalog_say_no_integration(catalog, integration_id, arena);
        outcome.hint = SLICE("GET /api/integrations lists them.");
    } else {
        outcome.message = catalog_say_no_action(integration, action_id, unlisted, arena);
        outcome.hint = arena_printf(arena, "GET /api/actions?integration_id=%.*s lists them.",
                                    SLICE_ARG(integration_id));
    }
    outcome.display_summary = outcome.message;
    return api_reply_outcome(request, &outcome);
}

/* Returns true if the client already has this catalog, as its key's policy shows it, and was
 * answered (304). Texts that also depend on the account's connections have their own tag, since
 * this one does not change with them. */
static bool has_catalog(struct api_request *request)
{
    slice tag = slice_cstr((*request->api->config.catalog)->etag);
    slice label = policy_label(serve_policy(&request->serve));
    if (label.len > 0)
        tag = arena_printf(&request->serve.op.arena, "\"%.*s.%.*s\"", (int)(tag.len - 2),
                           tag.ptr + 1, SLICE_ARG(label));
    return tag.ptr && api_reply_not_modified(request, tag);
}

/* Reads the `limit` of an intent or a search. */
static bool read_limit(struct api_request *request, size_t default_limit, size_t *limit)
{
    uint64_t value;
    bool is_good = api_query_clamped(request, "limit", default_limit, FOUND_ITEMS_MAX, &value);
    *limit = (size_t)value;
    return is_good;
}

/* ---- integrations ---- */

static void load_apps(struct api_request *request, struct connect_apps *apps)
{
    const struct vault_grant *grant = &request->serve.grant;
    connect_apps_load(request->api->config.pool, apps, &request->serve.op, grant->account_id,
                      grant->parent_id);
}

struct filter {
    struct connect_apps apps;
    slice query, category, supports_action;
    bool connected_only;
    uint64_t page, page_size;
};

/* wanted is an action's id, or a tool's name, which includes its integration. */
static bool supports(const struct api_request *request,
                     const struct catalog_integration *integration, slice wanted)
{
    const struct catalog_action *action =
        serve_known(&request->serve, catalog_find_tool(*request->api->config.catalog, wanted));
    if (!action)
        action = catalog_find_head(integration, wanted);
    return action && action->integration == integration && serve_lists(&request->serve, action);
}

static bool is_match(const struct api_request *request,
                     const struct catalog_integration *integration, const struct filter *filter,
                     enum connect_state state)
{
    return (!filter->connected_only || connect_state_is_live(state)) &&
           (!filter->category.ptr || slice_eq_nocase(filter->category, integration->category)) &&
           (!filter->supports_action.ptr ||
            supports(request, integration, filter->supports_action));
}

/* Without a policy the text is copied: it was rendered when the catalog was packed. */
static void put_capabilities(const struct api_request *request, struct json_writer *w,
                             const struct catalog_integration *integration)
{
    if (!serve_policy(&request->serve)) {
        json_member_raw(w, "capabilities", integration->capabilities_json);
        return;
    }
    json_member_open(w, "capabilities", '[');
    for (size_t i = 0; i < integration->action_count; i++)
        if (serve_lists(&request->serve, &integration->actions[i]))
            json_put_str(w, integration->actions[i].action_id);
    json_close(w, ']');
}

static void put_integration_state(const struct api_request *request, struct json_writer *w,
                                  const struct catalog_integration *integration,
                                  enum connect_state state, const struct connection_app *app)
{
    json_open(w, '{');
    json_member_str(w, "integration_id", integration->integration_id);
    json_member_str(w, "name", integration->name);
    json_member_bool(w, "connected", connect_state_is_live(state));
    json_member_str(w, "connection_state", slice_cstr(connect_state_name(state)));
    json_member_i64(w, "connections", app ? (int64_t)app->count : 0);
    if (app && app->is_shared)
        json_member_bool(w, "shared", true);
    put_capabilities(request, w, integration);
    json_close(w, '}');
}

/* Returns the matches of the query, best first; without a query, all integrations in their order.
 * Returns NULL if out of memory. */
static const struct catalog_integration **order(struct api_request *request,
                                                const struct filter *filter, size_t *count)
{
    const struct catalog *catalog = *request->api->config.catalog;
    struct arena *arena = &request->serve.op.arena;
    /* actions are compared by name or listed below, and have no heads until one is looked up */
    bool needs_heads = filter->supports_action.ptr || serve_policy(&request->serve);
    slice query = filter->query;
    struct search_request search = {
        .query = query, .with_integrations = true, .limit = catalog->integration_count};
    struct catalog_hit *hits = NULL;
    const struct catalog_integration **list =
        ARENA_ARRAY(arena, const struct catalog_integration *, catalog->integration_count + 1);
    *count = catalog->integration_count;
    if (!list || (needs_heads && catalog_open_heads(catalog) != OK) ||
        (query.ptr && catalog_search(catalog, arena, &search, &hits, count) != OK))
        return NULL;
    if (query.ptr)
        *count = catalog_hits_keep_fitting(hits, *count);
    for (size_t i = 0; i < *count; i++)
        list[i] = query.ptr ? hits[i].integration : catalog->integrations[i];
    return list;
}

static void put_integrations(const struct api_request *request, struct json_writer *w,
                             const struct filter *filter,
                             const struct catalog_integration *const *list, size_t count,
                             const struct connection_app *apps, size_t app_count)
{
    /* page is at least 1 and below 2^32 (begin_integrations) */
    uint64_t total = 0, first = (filter->page - 1) * filter->page_size;
    json_member_open(w, "items", '[');
    for (size_t i = 0; i < count; i++) {
        enum connect_state state = connect_state_for(list[i], apps, app_count);
        if (!is_match(request, list[i], filter, state))
            continue;
        const struct connection_app *app = connect_app_of(apps, app_count, list[i]->integration_id);
        if (total >= first && total < first + filter->page_size)
            put_integration_state(request, w, list[i], state, app);
        total++;
    }
    json_close(w, ']');
    json_member_i64(w, "page", (int64_t)filter->page);
    json_member_i64(w, "page_size", (int64_t)filter->page_size);
    json_member_i64(w, "total", (int64_t)total);
}

/* The current catalog is used: it may have been replaced during the query, and the filter points
 * only into the request. */
static enum op_result finish_integrations(struct api_request *request)
{
    const struct filter *filter = request->state;
    ASSERT(filter);
    struct connection_app *apps = NULL;
    size_t app_count = 0, count = 0;
    int status = connect_apps_result(&filter->apps, &request->serve.op.arena, &apps, &app_count);
    if (status != OK)
        return api_reply_database(request, status);
    const struct catalog_integration **list = order(request, filter, &count);
    if (!list)
        return api_reply_no_memory(request);
    put_integrations(request, api_reply_open(request, LIST_BYTES_MAX), filter, list, count, apps,
                     app_count);
    return api_reply_close_tagged(request);
}

static enum op_result begin_integrations(struct api_request *request)
{
    struct filter *filter = request->state;
    filter->query = api_query_text(request, "query");
    filter->category = api_query_text(request, "category");
    filter->supports_action = api_query_text(request, "supports_action");
    if (!api_query_bool(request, "connected_only", &filter->connected_only) ||
        !api_query_clamped(request, "page", 1, UINT32_MAX, &filter->page) ||
        !api_query_clamped(request, "page_size", PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX,
                           &filter->page_size))
        return OP_DONE;
    load_apps(request, &filter->apps);
    return api_wait(request, finish_integrations);
}

const struct api_endpoint api_integrations_list = {
    .scope = SCOPE_READ,
    .query = &(const struct api_names){.own = {"query", "category", "connected_only",
                                               "supports_action", "page", "page_size"}},
    .begin = begin_integrations,
    .state_bytes = sizeof(struct filter),
};

/* ---- actions ---- */

/* Writes the first `limit` actions in the order of the manifest, or the `count` hits, sorted by how
 * well they match the intent. */
static void put_actions(const struct api_request *request, struct json_writer *w,
                        const struct catalog_integration *integration,
                        const struct catalog_hit *ranked, size_t count, size_t limit)
{
    json_member_str(w, "integration_id", integration->integration_id);
    json_member_open(w, "items", '[');
    for (size_t i = 0; i < count && limit > 0; i++) {
        const struct catalog_action *action = ranked ? ranked[i].action : &integration->actions[i];
        if (!serve_lists(&request->serve, action))
            continue;
        json_put_raw(w, action->item_json);
        limit--;
    }
    json_close(w, ']');
}

static enum op_result begin_actions(struct api_request *request)
{
    const struct catalog *catalog = *request->api->config.catalog;
    slice id = api_query_text(request, "integration_id");
    struct search_request search = {
        .query = api_query_text(request, "intent"), .with_actions = true, .keeps_all = true};
    struct catalog_hit *ranked = NULL;
    if (!id.ptr)
        return api_reply_error(request, 400, "The query parameter integration_id is required");
    const struct catalog_integration *within = catalog_find_integration(catalog, id, NULL);
    if (!within)
        return reply_not_found(request, NULL, id, SLICE_NONE);
    catalog_search_within(&search, within);
    if (!read_limit(request, within->action_count, &search.limit))
        return OP_DONE;
    if (has_catalog(request))
        return OP_DONE;
    size_t count = within->action_count;
    if (search.query.ptr &&
        (serve_unlisted(&request->serve, catalog, &search.unlisted) != OK ||
         catalog_search(catalog, &request->serve.op.arena, &search, &ranked, &count) != OK))
        return api_reply_no_memory(request);
    put_actions(request, api_reply_open(request, LIST_BYTES_MAX), within, ranked, count,
                search.limit);
    return api_reply_close(request, 200);
}

const struct api_endpoint api_actions_list = {
    .scope = SCOPE_READ,
    .query = &(const struct api_names){.own = {"integration_id", "intent", "limit"}},
    .begin = begin_actions,
};

/* Returns the action's detail as the policy changes it: the member "policy" is added, a call may
 * need a confirmation, and an action that undoes it is not named if the caller cannot use it.
 * SLICE_NONE: out of memory. */
static slice detail_by_policy(struct api_request *request, const struct catalog_action *action)
{
    struct arena *arena = &request->serve.op.arena;
    const struct catalog_action *undo =
        action->undo.len > 0 ? catalog_find_head(action->integration, action->undo) : NULL;
    struct policy_verdict verdict;
    struct json_text text;
    struct json_scan scan;
    slice key, value;
    serve_foresee(&request->serve, action, &verdict);
    struct json_writer *w = json_text_begin(&text, DETAIL_BYTES_MAX);
    json_open(w, '{');
    json_scan_open(&scan, action->detail_json);
    while (json_scan_next(&scan, &key, &value)) {
        slice name = json_scan_str(key, arena);
        json_key_slice(w, name);
        if (slice_eq_cstr(name, "requires_confirmation"))
            json_put_bool(w, action->requires_confirmation || verdict.may_confirm);
        else if (slice_eq_cstr(name, "undo") && undo && !serve_lists(&request->serve, undo))
            json_put_null(w);
        else
            json_put_raw(w, value);
    }
    json_member_open(w, "policy", '{');
    policy_put_decision(w, &verdict);
    json_close(w, '}');
    json_close(w, '}');
    return json_text_take(&text, arena);
}

static enum op_result begin_action(struct api_request *request)
{
    const struct catalog *catalog = *request->api->config.catalog;
    slice integration_id = request->serve.match.params[0],
          action_id = request->serve.match.params[1];
    const struct catalog_integration *integration =
        catalog_find_integration(catalog, integration_id, NULL);
    if (!integration)
        return reply_not_found(request, NULL, integration_id, action_id);
    const struct catalog_action *action =
        serve_known(&request->serve, catalog_find_action(integration, action_id, NULL));
    if (!action)
        return reply_not_found(request, integration, integration_id, action_id);
    if (has_catalog(request))
        return OP_DONE;
    /* The text is copied, because a reload may drop the catalog before the reply is sent. */
    slice detail = serve_policy(&request->serve)
                       ? detail_by_policy(request, action)
                       : arena_dup(&request->serve.op.arena, action->detail_json);
    return detail.ptr ? api_reply(request, 200, detail) : api_reply_no_memory(request);
}

const struct api_endpoint api_actions_get = {.scope = SCOPE_READ, .begin = begin_action};

/* ---- search ---- */

struct search_state {
    struct connect_apps apps;
    struct search_request search;
    bool connected_only;
};

static void put_hit(struct json_writer *w, const struct catalog_hit *hit,
                    const struct connection_app *apps, size_t app_count)
{
    const struct catalog_integration *integration = hit->integration;
    const struct connection_app *app = connect_app_of(apps, app_count, integration->integration_id);
    enum connect_state state = connect_state_for(integration, apps, app_count);
    const struct catalog_action *action = hit->action;
    json_open(w, '{');
    json_member_str(w, "kind", action ? SLICE("action") : SLICE("integration"));
    json_member_str(w, "integration_id", integration->integration_id);
    json_member_str(w, "action_id", action ? action->action_id : SLICE_NONE);
    json_member_str(w, "title", action ? action->title : integration->name);
    json_member_str(w, "summary",
                    catalog_summary(action ? action->description : integration->description));
    json_member_bool(w, "connected", connect_state_is_live(state));
    json_member_str(w, "connection_state", slice_cstr(connect_state_name(state)));
    if (app && app->is_shared)
        json_member_bool(w, "shared", true);
    json_member_str(w, "relevance", catalog_relevance_name(hit));
    json_close(w, '}');
}

static enum op_result finish_search(struct api_request *request)
{
    struct search_state *state = request->state;
    ASSERT(state);
    const struct catalog *catalog = *request->api->config.catalog;
    struct arena *arena = &request->serve.op.arena;
    struct connection_app *apps = NULL;
    struct catalog_hit *hits = NULL;
    size_t app_count = 0, count = 0;
    int status = connect_apps_result(&state->apps, arena, &apps, &app_count);
    if (status != OK)
        return api_reply_database(request, status);
    /* Among equal matches, connected apps come first; connected_only allows no others. */
    state->search.connected = connect_connected_flags(arena, catalog, apps, app_count);
    if (state->connected_only)
        state->search.allowed = state->search.connected;
    if (!state->search.connected ||
        serve_unlisted(&request->serve, catalog, &state->search.unlisted) != OK ||
        catalog_search(catalog, arena, &state->search, &hits, &count) != OK)
        return api_reply_no_memory(request);
    struct json_writer *w = api_reply_open(request, LIST_BYTES_MAX);
    json_member_open(w, "items", '[');
    for (size_t i = 0; i < count; i++)
        put_hit(w, &hits[i], apps, app_count);
    json_close(w, ']');
    return api_reply_close_tagged(request);
}

static enum op_result begin_search(struct api_request *request)
{
    struct search_state *state = request->state;
    state->search = (struct search_request){
        .query = api_query_text(request, "query"), .with_integrations = true, .with_actions = true};
    if (!state->search.query.ptr)
        return api_reply_error(request, 400, "The query parameter query is required");
    if (!api_query_bool(request, "connected_only", &state->connected_only) ||
        !read_limit(request, FOUND_ITEMS_DEFAULT, &state->search.limit))
        return OP_DONE;
    load_apps(request, &state->apps);
    return api_wait(request, finish_search);
}

const struct api_endpoint api_search = {
    .scope = SCOPE_READ,
    .query = &(const struct api_names){.own = {"query", "connected_only", "limit"}},
    .begin = begin_search,
    .state_bytes = sizeof(struct search_state),
};
