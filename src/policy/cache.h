/*
 * cache: compiled policies by account, name and revision (loop/cache.h). A revision never changes,
 * so an entry is never stale: a change of a policy gives its keys another revision (vault/auth.h).
 */
#ifndef POLICY_CACHE_H
#define POLICY_CACHE_H

#include "loop/cache.h"
#include "policy/policy.h"
#include "store/policy.h"

struct policy_cache;

struct policy_find {
    /* out */
    /* OK; ERR_BUSY if out of memory; ERR_CLOSED while it waits; else the query's status, and
     * nothing is known about the policy */
    int status;
    /* A reference of the caller's, also if its op is cancelled before it takes it; NULL: none */
    struct policy *policy;
    /* private */
    bool is_named;
    struct cache_wait wait;
};

/* pool outlives it. Returns NULL if out of memory. */
struct policy_cache *policy_cache_new(struct loop *loop, struct pg_pool *pool) MUST_CHECK;
/* No find may be waiting (asserted). */
void policy_cache_free(struct policy_cache *cache);
/* Finds the policy that a key of the account has. If its row has changed since the key was read, it
 * is the policy as it is now; one that a key names and that no longer exists denies everything, and
 * so does one that this version cannot compile. Returns true if find is filled in and op is not
 * held; else op is held until the answer arrives. Nothing is loaded for a key that has no policy.
 */
bool policy_cache_find(struct policy_cache *cache, struct policy_find *find, struct uuid account_id,
                       const struct key_policy *key, struct op *op) MUST_CHECK;

#endif
