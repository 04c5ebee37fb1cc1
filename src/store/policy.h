/*
 * policy: the documents that say what an account's keys may do (policy/policy.h). Each text of a
 * policy has a revision, a number that the account uses once. The table has few rows, and is copied
 * to every node of a cluster, so changes are functions of the schema, as those of API keys are.
 */
#ifndef STORE_POLICY_H
#define STORE_POLICY_H

#include "store/audit.h"

enum {
    POLICY_NAME_MAX = 63, /* bytes */
    POLICIES_MAX = 100,   /* of an account */
};

/* The name of the policy of keys that name none. */
#define POLICY_DEFAULT_NAME "default"

/* The policy that a key has: the one that it names, else the account's default. */
struct key_policy {
    int64_t rev;                    /* 0: the account has no policy with the name */
    bool is_named;                  /* the key names it */
    char name[POLICY_NAME_MAX + 1]; /* "": the name is of a later version, with rev 0 */
};
/* named: the key's own column; rev: what STORE_KEY_POLICY_REV selects. */
struct key_policy store_key_policy(slice named, int64_t rev);
/* Whether the key is free: it names no policy, and the account has no default. */
static inline bool store_key_policy_is_none(const struct key_policy *policy)
{
    return policy->rev == 0 && !policy->is_named;
}
/* Selects the revision of the policy that the key in a row of sluice.api_key has; NULL: its account
 * has no policy with the name. By the primary key. */
#define STORE_KEY_POLICY_REV(key)                                                              \
    "(select p.rev from sluice.policy p where p.account_id = " key ".account_id and p.name = " \
    "coalesce(" key ".policy, '" POLICY_DEFAULT_NAME "'))"

struct policy_row {
    struct uuid account_id;
    slice name;
    int64_t rev;
    slice body; /* JSON; SLICE_NONE in lists */
    int64_t updated_at;
};

/* Reads one policy. The result is ERR_NOTFOUND if the account does not have it. */
void store_policy_get(STORE_ARGS, struct uuid account_id, slice name);
STORE_ROW_RESULT(store_policy_get_result, policy_row)
/* Reads all policies of the account, in the order of their names. */
void store_policy_list(STORE_ARGS, struct uuid account_id);
STORE_LIST_RESULT(store_policy_list_result, policy_row)

/* A change with its audit event. */
struct policy_change {
    struct audit_by by;
    struct policy_row policy; /* account_id, name; to set it also the body */
    bool has_rev;             /* the change is made only to this revision; 0: to none */
    int64_t rev;
};
enum policy_changed {
    POLICY_CHANGED, /* or the text is the same: its revision is kept, and no event is written */
    POLICY_STALE,   /* it has another revision */
    POLICY_FULL,    /* the account has POLICIES_MAX others */
    POLICY_UNKNOWN,
};
/* What a set did, and the revision that the policy has now (0: there is none). */
struct policy_set {
    enum policy_changed changed;
    int64_t rev;
};
/* Writes the text. Not replayed: ERR_CLOSED if the answer was lost, ERR_INVALID if there is no such
 * account. */
void store_policy_set(STORE_ARGS, const struct policy_change *change);
STORE_ROW_RESULT(store_policy_set_result, policy_set)
/* What a deletion found: the number of valid keys that name the policy, which is then kept, and the
 * quoted labels of the first ten. */
struct policy_users {
    int64_t count;
    slice labels; /* SLICE_NONE: there are none */
};
/* Deletes the policy, unless keys name it. Not replayed. The result is ERR_NOTFOUND if the account
 * does not have it. */
void store_policy_delete(STORE_ARGS, const struct policy_change *change);
STORE_ROW_RESULT(store_policy_delete_result, policy_users)

/* For operator commands. store_policy_get_sync returns ERR_NOTFOUND, with a message in err, if the
 * account does not have the policy. */
int store_policy_get_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                          slice name, struct policy_row *policy, struct err *err) MUST_CHECK;
int store_policy_list_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                           struct policy_row **list, size_t *count, struct err *err) MUST_CHECK;

#endif
