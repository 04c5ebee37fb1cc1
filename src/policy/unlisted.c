/*
 * The actions that a policy leaves out; see unlisted.h. They are found once for a snapshot of the
 * catalog and kept with the policy, which never changes.
 */
#include "policy/unlisted.h"

#include "base/mem.h"
#include "policy/internal.h"

/* Returns whether the policy denies any action of the catalog. all: an entry for each document. */
static bool mark_denied(struct policy *policy, const struct catalog *catalog, bool *all)
{
    bool is_any = false;
    for (size_t i = 0; i < catalog->integration_count; i++) {
        const struct catalog_integration *integration = catalog->integrations[i];
        for (size_t k = 0; k < integration->action_count; k++) {
            const struct catalog_action *action = &integration->actions[k];
            bool is_denied = policy_denies(policy, action);
            all[catalog_doc(action)] = is_denied;
            is_any = is_any || is_denied;
        }
    }
    return is_any;
}

/* Replaces what is known of another snapshot. */
static void keep_unlisted(struct policy *policy, const struct catalog *catalog, bool *all)
{
    mem_free(policy->unlisted);
    policy->unlisted = all;
    policy->unlisted_serial = catalog->serial;
}

int policy_unlisted_by(struct policy *policy, const struct catalog *catalog, struct arena *arena,
                       const bool **unlisted)
{
    size_t count = catalog_doc_count(catalog) + 1;
    bool is_kept = !policy->is_static; /* else no reference would free it */
    if (is_kept && policy->unlisted_serial == catalog->serial) {
        *unlisted = policy->unlisted;
        return OK;
    }
    if (catalog_open_heads(catalog) != OK)
        return ERR_NOMEM;
    bool *all = is_kept ? mem_calloc(count, sizeof(*all)) : ARENA_ARRAY(arena, bool, count);
    if (!all)
        return ERR_NOMEM;
    if (!mark_denied(policy, catalog, all)) {
        if (is_kept)
            mem_free(all);
        all = NULL;
    }
    if (is_kept)
        keep_unlisted(policy, catalog, all);
    *unlisted = all;
    return OK;
}
