/*
 * foresee: what the caller's policy says about an action before its input is known. All faces use
 * it: lists, searches, details and suggestions. Calls are decided in exec, with their input.
 *
 * An action that is denied for every input is not listed; its detail and a call by its name say
 * that it is denied. A hidden one is unknown: the reply is that of a server whose catalog does not
 * have it (src/policy/README.md). Actions may be heads (catalog/catalog.h).
 */
#ifndef SERVE_FORESEE_H
#define SERVE_FORESEE_H

#include "catalog/catalog.h"
#include "policy/unlisted.h"
#include "serve/request.h"

/* The policy of the caller's key; NULL: none. */
static inline struct policy *serve_policy(const struct serve_request *request)
{
    return request->policy;
}

static inline void serve_foresee(const struct serve_request *request,
                                 const struct catalog_action *action,
                                 struct policy_verdict *verdict)
{
    policy_foresee(serve_policy(request), action, verdict);
}

/* Whether the caller may know that the action exists. */
static inline bool serve_knows(const struct serve_request *request,
                               const struct catalog_action *action)
{
    return !policy_hides(serve_policy(request), action);
}

/* Returns the action, or NULL if it is NULL or hidden from the caller. */
static inline const struct catalog_action *serve_known(const struct serve_request *request,
                                                       const struct catalog_action *action)
{
    return action && serve_knows(request, action) ? action : NULL;
}

/* Whether the action is in the caller's lists. */
static inline bool serve_lists(const struct serve_request *request,
                               const struct catalog_action *action)
{
    return !policy_denies(serve_policy(request), action);
}

/* Whether a call of the action needs a confirmation, by its manifest or, for some inputs at least,
 * by the caller's policy. */
static inline bool serve_confirms(const struct serve_request *request,
                                  const struct catalog_action *action)
{
    struct policy_verdict verdict;
    serve_foresee(request, action, &verdict);
    return action->requires_confirmation || verdict.may_confirm;
}

/* For searches and suggestions: sets *unlisted as policy_unlisted does, valid until the next turn.
 * Returns OK or ERR_NOMEM. */
static inline int MUST_CHECK serve_unlisted(struct serve_request *request,
                                            const struct catalog *catalog, const bool **unlisted)
{
    return policy_unlisted(serve_policy(request), catalog, &request->op.arena, unlisted);
}

#endif
