/*
 * Handles unknown ids of integrations, actions and tools: finds the id that was probably meant, by
 * spelling or by meaning, and makes the sentence that suggests it. The cost is linear in the number
 * of ids; base/suggest.h limits the cost of a comparison, search/search.h the cost of a search.
 */
#include "base/suggest.h"
#include "catalog/pack.h"
#include "catalog/search.h"
#include "search/index.h"

static const struct pack_action *actions_of(const struct catalog *catalog)
{
    return pack_table_of(catalog->pack, PACK_ACTIONS);
}

enum {
    SEARCH_ARENA_BYTES_MAX = 64 * 1024 * 1024,
    MISTYPED = 2, /* with at most this many edits the name is mistyped; with more, another name
                   * may be meant */
};

/* Returns the document whose meaning matches the name, among those that the request allows, or
 * NULL. */
static const struct search_doc *by_meaning(const struct catalog *catalog, slice name,
                                           struct search_request *request)
{
    struct arena arena;
    struct search_found *found;
    size_t count = 0;
    request->query = name;
    request->limit = 1;
    arena_init(&arena, SEARCH_ARENA_BYTES_MAX);
    int status = search_run(catalog->search, &arena, request, &found, &count);
    bool is_fit = status == OK && count > 0 && found[0].is_high;
    const struct search_doc *doc = is_fit ? &catalog->search->docs[found[0].doc] : NULL;
    arena_deinit(&arena);
    return doc;
}

static slice found_text(const struct catalog *catalog, struct buf_span span)
{
    return slice_of(catalog->search->texts + span.at, span.len);
}

/* Whether the name has only a few letters wrong. Any other name may be a synonym, so its meaning is
 * compared first, and its spelling only if no meaning matches. */
static bool is_mistyped(const struct suggest *suggest)
{
    return suggest->best.len > 0 && suggest->limit < MISTYPED;
}

slice catalog_nearest_integration(const struct catalog *catalog, slice id)
{
    struct suggest suggest;
    struct search_request request = {.with_integrations = true};
    suggest_begin(&suggest, id);
    for (size_t i = 0; i < catalog->integration_count; i++)
        suggest_offer(&suggest, catalog->integrations[i]->integration_id);
    const struct search_doc *doc = is_mistyped(&suggest) ? NULL : by_meaning(catalog, id, &request);
    return doc ? found_text(catalog, doc->id) : suggest.best;
}

slice catalog_nearest_action(const struct catalog_integration *integration, slice action,
                             const bool *unlisted)
{
    const struct catalog *catalog = integration->catalog;
    const struct pack_action *actions = actions_of(catalog) + integration->action_first;
    struct search_request request = {.with_actions = true, .unlisted = unlisted};
    struct suggest by_id, by_tool;
    suggest_begin(&by_id, action);
    suggest_begin(&by_tool, action);
    for (size_t i = 0; i < integration->action_count; i++) {
        if (unlisted && unlisted[integration->search_first + 1 + i])
            continue;
        suggest_offer(&by_id, pack_text_of(catalog->pack, actions[i].action_id));
        suggest_offer(&by_tool, pack_text_of(catalog->pack, actions[i].tool_name));
    }
    catalog_search_within(&request, integration);
    const struct search_doc *doc =
        is_mistyped(&by_id) || is_mistyped(&by_tool)
            ? NULL
            : by_meaning(catalog, catalog_short_id(integration->integration_id, action), &request);
    if (doc)
        return found_text(catalog, doc->id);
    if (by_id.best.len > 0 || by_tool.best.len == 0)
        return by_id.best;
    ASSERT(slice_starts_with(by_tool.best, integration->integration_id));
    /* The result is always an action id, so the prefix and its "_" are removed. */
    return slice_from(by_tool.best, integration->integration_id.len + 1);
}

/* The beginning of a tool's name selects the app, if there is such an app. */
static const struct search_doc *tool_by_meaning(const struct catalog *catalog, slice tool_name,
                                                const bool *unlisted)
{
    struct search_request request = {.with_actions = true, .unlisted = unlisted};
    for (size_t len = tool_name.len; len > 0; len--) {
        const struct catalog_integration *app =
            len < tool_name.len && tool_name.ptr[len] == '_'
                ? catalog_find_integration(catalog, slice_first(tool_name, len), NULL)
                : NULL;
        if (!app)
            continue;
        catalog_search_within(&request, app);
        return by_meaning(catalog, slice_from(tool_name, len + 1), &request);
    }
    return by_meaning(catalog, tool_name, &request);
}

slice catalog_nearest_tool(const struct catalog *catalog, slice tool_name, const bool *unlisted)
{
    const struct pack_action *actions = actions_of(catalog);
    struct suggest suggest;
    suggest_begin(&suggest, tool_name);
    for (size_t i = 0; i < catalog->pack->tables[PACK_ACTIONS].count; i++)
        /* each integration has a document before those of its actions */
        if (!unlisted || !unlisted[i + 1 + actions[i].integration])
            suggest_offer(&suggest, pack_text_of(catalog->pack, actions[i].tool_name));
    const struct search_doc *doc =
        is_mistyped(&suggest) ? NULL : tool_by_meaning(catalog, tool_name, unlisted);
    return doc ? found_text(catalog, doc->tool_name) : suggest.best;
}

/* what is the beginning of the sentence, up to the name. The name is the caller's text, so it is
 * shortened and escaped. */
static slice make_unknown_text(struct arena *arena, slice what, slice name, slice nearest)
{
    slice excerpt = json_excerpt(name, arena);
    if (nearest.len == 0)
        return arena_printf(arena, "%.*s \"%.*s\".", SLICE_ARG(what), SLICE_ARG(excerpt));
    return arena_printf(arena, "%.*s \"%.*s\"; did you mean \"%.*s\"?", SLICE_ARG(what),
                        SLICE_ARG(excerpt), SLICE_ARG(nearest));
}

slice catalog_say_no_integration(const struct catalog *catalog, slice id, struct arena *arena)
{
    return make_unknown_text(arena, SLICE("There is no integration"), id,
                             catalog_nearest_integration(catalog, id));
}

slice catalog_say_no_action(const struct catalog_integration *integration, slice action,
                            const bool *unlisted, struct arena *arena)
{
    slice what = arena_printf(arena, "%.*s has no action", SLICE_ARG(integration->name));
    return make_unknown_text(arena, what, action,
                             catalog_nearest_action(integration, action, unlisted));
}

slice catalog_say_no_tool(const struct catalog *catalog, slice tool_name, const bool *unlisted,
                          struct arena *arena)
{
    return make_unknown_text(arena, SLICE("There is no tool"), tool_name,
                             catalog_nearest_tool(catalog, tool_name, unlisted));
}
