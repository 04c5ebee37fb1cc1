/*
 * What a policy leaves out of lists, searches and suggestions: the actions that it denies for every
 * input, hidden ones included.
 */
#ifndef POLICY_UNLISTED_H
#define POLICY_UNLISTED_H

#include "base/arena.h"
#include "catalog/catalog.h"
#include "policy/policy.h"

/* Sets *unlisted to an entry for each document of the catalog's search index (catalog_doc), whether
 * it is left out; NULL if none is, as without a policy. It is in the arena, or the policy's own:
 * then it is valid until the next turn. Returns OK or ERR_NOMEM. */
int policy_unlisted_by(struct policy *policy, const struct catalog *catalog, struct arena *arena,
                       const bool **unlisted) MUST_CHECK;

static inline int MUST_CHECK policy_unlisted(struct policy *policy, const struct catalog *catalog,
                                             struct arena *arena, const bool **unlisted)
{
    *unlisted = NULL;
    return policy ? policy_unlisted_by(policy, catalog, arena, unlisted) : OK;
}

#endif
