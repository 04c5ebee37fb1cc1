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

bool serve_gives_event(struct serve_request *request, const struct catalog *catalog,
                       const struct audit_event *event, bool *is_bare)
{
    *is_bare = false;
    if (!request->policy || !slice_eq(event->kind, audit_kind_name(AUDIT_EXECUTION_BLOCKED)))
        return true;
    const struct json *details =
        json_parse(&request->op.arena, event->details, &json_limits_provider, NULL);
    const struct catalog_integration *app =
        catalog_find_integration(catalog, json_get_str(details, SLICE("integration_id")), NULL);
    const struct catalog_action *action =
        app ? catalog_find_head(app, json_get_str(details, SLICE("action_id"))) : NULL;
    *is_bare = action && policy_hides(request->policy, action);
    return !*is_bare || slice_eq_cstr(event->reason, "action_unknown");
}
