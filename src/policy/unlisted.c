/*
 * The actions that a policy leaves out; see unlisted.h.
 */
#include "policy/unlisted.h"

int policy_unlisted_by(struct policy *policy, const struct catalog *catalog, struct arena *arena,
                       const bool **unlisted)
{
    bool *all = ARENA_ARRAY(arena, bool, catalog_doc_count(catalog) + 1);
    bool is_any = false;
    if (!all || catalog_open_heads(catalog) != OK)
        return ERR_NOMEM;
    for (size_t i = 0; i < catalog->integration_count; i++) {
        const struct catalog_integration *integration = catalog->integrations[i];
        for (size_t k = 0; k < integration->action_count; k++) {
            const struct catalog_action *action = &integration->actions[k];
            bool is_denied = policy_denies(policy, action);
            all[catalog_doc(action)] = is_denied;
            is_any = is_any || is_denied;
        }
    }
    *unlisted = is_any ? all : NULL;
    return OK;
}
