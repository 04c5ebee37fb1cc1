/*
 * Stored results that a policy hides; see stored.h.
 */
#include "serve/stored.h"

#include "json/json.h"

bool serve_gives_by(const struct serve_request *request, const struct catalog *catalog,
                    slice integration_id, slice action_id)
{
    const struct catalog_integration *app = catalog_find_integration(catalog, integration_id, NULL);
    const struct catalog_action *action = app ? catalog_find_head(app, action_id) : NULL;
    return action && !policy_denies(request->policy, action);
}

/* Removes two members from the event's details. Returns false if out of memory. */
static bool remove_details(struct arena *arena, struct audit_event *event,
                           const struct json *details, const char *one, const char *other)
{
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, event->details.len + 64);
    json_open(w, '{');
    for (uint32_t i = 0; json_is(details, JSON_OBJECT) && i < details->count; i++) {
        slice name = json_str(&details->as.members[i].key);
        if (slice_eq_cstr(name, one) || slice_eq_cstr(name, other))
            continue;
        json_key_slice(w, name);
        json_put(w, &details->as.members[i].value);
    }
    json_close(w, '}');
    event->details = json_text_take(&text, arena);
    return event->details.ptr != NULL;
}

bool serve_gives_event(struct serve_request *request, const struct catalog *catalog,
                       struct audit_event *event)
{
    struct arena *arena = &request->op.arena;
    bool is_blocked = slice_eq(event->kind, audit_kind_name(AUDIT_EXECUTION_BLOCKED));
    bool is_of_flow = slice_starts_with(event->kind, SLICE("flow."));
    if (!request->policy || (!is_blocked && !is_of_flow))
        return true;
    const struct json *details = json_parse(arena, event->details, &json_limits_provider, NULL);
    if (is_of_flow) /* it does not say which calls the flow has */
        return remove_details(arena, event, details, "title", "note");
    const struct catalog_integration *app =
        catalog_find_integration(catalog, json_get_str(details, SLICE("integration_id")), NULL);
    const struct catalog_action *action =
        app ? catalog_find_head(app, json_get_str(details, SLICE("action_id"))) : NULL;
    if (!action || !policy_hides(request->policy, action))
        return true;
    return slice_eq_cstr(event->reason, "action_unknown") &&
           remove_details(arena, event, details, "policy", "rule");
}
