/*
 * Unknown ids of integrations, actions and tools: the nearest known one, and the sentence that
 * suggests it. Read from the pack, so a mistyped id opens and compiles nothing. Linear in the ids;
 * base/suggest.h bounds the cost of each comparison.
 */
#include "base/suggest.h"
#include "catalog/pack.h"

static const struct pack_action *actions_of(const struct catalog *catalog)
{
    return pack_table_of(catalog->pack, PACK_ACTIONS);
}

slice catalog_nearest_integration(const struct catalog *catalog, slice id)
{
    struct suggest suggest;
    suggest_begin(&suggest, id);
    for (size_t i = 0; i < catalog->integration_count; i++)
        suggest_offer(&suggest, catalog->integrations[i]->integration_id);
    return suggest.best;
}

slice catalog_nearest_action(const struct catalog_integration *integration, slice action)
{
    const struct catalog *catalog = integration->catalog;
    const struct pack_action *actions = actions_of(catalog) + integration->action_first;
    struct suggest by_id, by_tool;
    suggest_begin(&by_id, action);
    suggest_begin(&by_tool, action);
    for (size_t i = 0; i < integration->action_count; i++) {
        suggest_offer(&by_id, pack_text_of(catalog->pack, actions[i].action_id));
        suggest_offer(&by_tool, pack_text_of(catalog->pack, actions[i].tool_name));
    }
    if (by_id.best.len > 0 || by_tool.best.len == 0)
        return by_id.best;
    ASSERT(slice_starts_with(by_tool.best, integration->integration_id));
    /* The answer is an action id in any case: without the prefix and its "_". */
    return slice_from(by_tool.best, integration->integration_id.len + 1);
}

slice catalog_nearest_tool(const struct catalog *catalog, slice tool_name)
{
    const struct pack_action *actions = actions_of(catalog);
    struct suggest suggest;
    suggest_begin(&suggest, tool_name);
    for (size_t i = 0; i < catalog->pack->tables[PACK_ACTIONS].count; i++)
        suggest_offer(&suggest, pack_text_of(catalog->pack, actions[i].tool_name));
    return suggest.best;
}

/* what: the sentence up to the name. The name is the caller's text, so it is shortened and
 * escaped. */
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
                            struct arena *arena)
{
    slice what = arena_printf(arena, "%.*s has no action", SLICE_ARG(integration->name));
    return make_unknown_text(arena, what, action, catalog_nearest_action(integration, action));
}

slice catalog_say_no_tool(const struct catalog *catalog, slice tool_name, struct arena *arena)
{
    return make_unknown_text(arena, SLICE("There is no tool"), tool_name,
                             catalog_nearest_tool(catalog, tool_name));
}
