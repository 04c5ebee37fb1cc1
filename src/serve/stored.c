/*
 * Stored results that a policy hides; see stored.h.
 */
#include "serve/stored.h"

#include "json/json.h"

enum { DETAILS_BYTES_MAX = 1024 * 1024 };

bool serve_gives_by(const struct serve_request *request, const struct catalog *catalog,
                    slice integration_id, slice action_id)
{
    const struct catalog_integration *app = catalog_find_integration(catalog, integration_id, NULL);
    const struct catalog_action *action = app ? catalog_find_head(app, action_id) : NULL;
    return action && !policy_denies(request->policy, action);
}

bool serve_gives_tools(const struct serve_request *request, const struct catalog *catalog,
                       slice tools)
{
    bool is_given = tools.len > 0;
    while (request->policy && is_given && tools.len > 0) {
        const struct catalog_action *action = catalog_find_tool(catalog, slice_split(&tools, ' '));
        is_given = action && !policy_denies(request->policy, action);
    }
    return is_given || !request->policy;
}

/* Whether the caller may have results of all actions of the app. */
static bool gives_all(const struct serve_request *request, const struct catalog *catalog,
                      slice integration_id)
{
    const struct catalog_integration *app = catalog_find_integration(catalog, integration_id, NULL);
    bool is_all = app != NULL;
    for (size_t i = 0; is_all && i < app->action_count; i++)
        is_all = !policy_denies(request->policy, &app->actions[i]);
    return is_all;
}

struct connection serve_connection(const struct serve_request *request,
                                   const struct catalog *catalog, const struct connection *row)
{
    struct connection given = *row;
    if (request->policy && row->failed_at != 0 &&
        !gives_all(request, catalog, row->integration_id)) {
        given.failed_at = 0;
        given.failure = SLICE_NONE;
    }
    return given;
}

/* The details without the members of these names, which are separated by blanks. SLICE_NONE: out of
 * memory. */
static slice details_without(struct arena *arena, const struct json *details, const char *names)
{
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, DETAILS_BYTES_MAX);
    json_open(w, '{');
    for (uint32_t i = 0; json_is(details, JSON_OBJECT) && i < details->count; i++) {
        slice name = json_str(&details->as.members[i].key);
        if (slice_has_word(slice_cstr(names), name))
            continue;
        json_key_slice(w, name);
        json_put(w, &details->as.members[i].value);
    }
    json_close(w, '}');
    return json_text_take(&text, arena);
}

bool serve_gives_event(struct serve_request *request, const struct catalog *catalog,
                       struct audit_event *event)
{
    struct arena *arena = &request->op.arena;
    bool is_of_flow = slice_starts_with(event->kind, SLICE("flow."));
    if (!request->policy ||
        (!is_of_flow && !slice_eq(event->kind, audit_kind_name(AUDIT_EXECUTION_BLOCKED))))
        return true;
    const struct json *details = json_parse(arena, event->details, &json_limits_provider, NULL);
    if (is_of_flow) { /* title and note are texts of the flow; its template is not in the event
                       */
        event->details = details_without(arena, details, "title note");
        return event->details.ptr != NULL;
    }
    const struct catalog_integration *app =
        catalog_find_integration(catalog, json_get_str(details, SLICE("integration_id")), NULL);
    const struct catalog_action *action =
        app ? catalog_find_head(app, json_get_str(details, SLICE("action_id"))) : NULL;
    if (!action || !policy_hides(request->policy, action))
        return true;
    event->details = details_without(arena, details, "policy rule");
    return event->details.ptr && slice_eq_cstr(event->reason, "action_unknown");
}
