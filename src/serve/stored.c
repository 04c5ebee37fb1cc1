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

/* The details as they are without a policy. */
static slice bare_details(struct arena *arena, const struct json *details, size_t len)
{
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, len + 64);
    json_open(w, '{');
    for (uint32_t i = 0; i < details->count; i++) {
        slice name = json_str(&details->as.members[i].key);
        if (slice_eq_cstr(name, "policy") || slice_eq_cstr(name, "rule"))
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
    if (!request->policy || !slice_eq(event->kind, audit_kind_name(AUDIT_EXECUTION_BLOCKED)))
        return true;
    const struct json *details = json_parse(arena, event->details, &json_limits_provider, NULL);
    const struct catalog_integration *app =
        catalog_find_integration(catalog, json_get_str(details, SLICE("integration_id")), NULL);
    const struct catalog_action *action =
        app ? catalog_find_head(app, json_get_str(details, SLICE("action_id"))) : NULL;
    if (!action || !policy_hides(request->policy, action))
        return true;
    event->details = bare_details(arena, details, event->details.len);
    return event->details.ptr && slice_eq_cstr(event->reason, "action_unknown");
}
