/*
 * auth: finds the account and scopes of a bearer key, through a small cache: a known hash is cached
 * for ttl_ms, an unknown one for 500 ms; concurrent checks of one hash share a query. Notifications
 * of changes (store/change.h) drop entries sooner. A reply that stays open for long has a guard. A
 * dashboard session is checked with its key, in the same query: if it was ended, it is refused as a
 * revoked key is. A key may be bound to client addresses; they are cached with it.
 */
#ifndef VAULT_AUTH_H
#define VAULT_AUTH_H

#include "loop/cache.h"
#include "store/account_user.h"
#include "store/api_key.h"
#include "store/policy.h"
#include "vault/key.h"

struct vault_auth;

struct vault_auth_config {
    struct pg_pool *pool; /* outlives it */
    /* maximum number of cached keys; 0: 10000. The least recently used is dropped */
    size_t cache_max;
    unsigned ttl_ms;          /* 0: 2000 */
    unsigned negative_ttl_ms; /* 0: 500 */
    /* Notifies the other processes; may be NULL. */
    void (*on_changed)(void *owner, struct uuid account_id, slice integration_id);
    /* Called when an account begins to be erased, as vault_users_config.on_erasing; may be NULL:
     * servers find it within a minute. */
    void (*on_erasing)(void *owner, const struct account_user *account);
    void *owner;
};

struct vault_grant {
    struct uuid account_id; /* whose rows: the account's, or those of one of its users */
    struct uuid parent_id;  /* for a user: the account, which pays; else nil */
    struct uuid key_id;
    struct uuid line; /* the first key that it was rolled from */
    uint32_t scopes;  /* set of SCOPE_* */
    bool is_bound;    /* the key is bound to client addresses */
    bool is_of_user;  /* the key acts for one user of its account */
    bool is_formless; /* there is no one to answer its client's forms */
    enum vault_unattended unattended;
    struct key_policy policy; /* of the account that pays */
};

/* Returns the account that pays, which has the key: the grant's account, or that of its user. */
static inline struct uuid vault_grant_payer(const struct vault_grant *grant)
{
    return uuid_or(grant->parent_id, grant->account_id);
}

/* The caller to check: a key, or a session that it opened. */
struct vault_caller {
    uint8_t key_hash[API_KEY_HASH_LEN];
    uint8_t session_hash[SESSION_HASH_LEN]; /* zeros: no session */
    int64_t begun_at;                       /* when the session began */
};

struct vault_check {
    /* out */
    /* OK; ERR_REFUSED if the key is missing, malformed, unknown, expired or revoked, its account is
     * disabled, or the session has ended (401, one text for all); ERR_BUSY and other errors of
     * pg_query: 503 */
    int status;
    bool is_elsewhere; /* with ERR_REFUSED: a valid key, but not from this address (403) */
    bool is_disabled;  /* with ERR_REFUSED: a valid key of a disabled account */
    struct vault_grant grant;
    char user[ACCOUNT_USER_ID_MAX + 1]; /* of a user's key: the account's id for that user */
    struct vault_caller caller;         /* set for a well-formed key; for vault_guard_start */
    /* private */
    slice address;
    struct cache_wait wait;
};

struct vault_auth *vault_auth_new(struct loop *loop,
                                  const struct vault_auth_config *config) MUST_CHECK;
/* No check may be waiting (asserted). Its queries in flight are detached and free themselves. */
void vault_auth_free(struct vault_auth *auth);
struct pg_pool *vault_auth_pool(const struct vault_auth *auth);
/* text: the key as it was sent, or SLICE_NONE. address: the client's, which must live as long as
 * the check; SLICE_NONE if the request is not from the key's holder. Returns true if it was
 * answered from the cache: check is filled in and op is not held. Returns false if op is held until
 * the answer arrives. */
bool vault_auth_check(struct vault_auth *auth, struct vault_check *check, slice text, slice address,
                      struct op *op) MUST_CHECK;
/* As vault_auth_check, for a key that is known by its hash, or for a session (web/session.h). */
bool vault_auth_check_caller(struct vault_auth *auth, struct vault_check *check,
                             const struct vault_caller *caller, slice address,
                             struct op *op) MUST_CHECK;
/* A reply that stays open for a key (an event stream, a long poll) is notified once if the key
 * or the session is refused, or if the key gets another policy: within GUARD_EVERY_MS of the
 * notification of the change, or, if that is lost, within GUARD_TTL_MS. */
struct vault_guard {
    void (*on_refused)(struct vault_guard *guard); /* called from a timer; the guard has stopped */
    bool has_other_policy; /* then: the key is not refused, but has another policy */
    /* private */
    struct vault_caller caller;
    int64_t policy_rev;
    struct vault_auth *auth; /* NULL: stopped */
    struct list link;
};
/* guard->on_refused must be set. The caller of the check is guarded, and the policy that its key
 * had then. The guard is stopped before its memory, or auth, is freed. */
void vault_guard_start(struct vault_auth *auth, struct vault_guard *guard,
                       const struct vault_check *check);
/* Does no harm if the guard was not started (zeroed) or has stopped. */
void vault_guard_stop(struct vault_guard *guard);

/* Drops the cached keys of an account, or those that act for a user, and all refused keys. */
void vault_auth_forget(struct vault_auth *auth, struct uuid account_id);
/* To be called after this process has changed a key or an account (the commit is durable): drops
 * the account's cached keys, and notifies the other processes. */
void vault_auth_changed(struct vault_auth *auth, struct uuid account_id);
/* The same for an account that is being erased: all processes then erase it. */
void vault_auth_erasing(struct vault_auth *auth, struct uuid account_id);
/* Drops all cached keys, so that the next check queries the database. */
void vault_auth_flush(struct vault_auth *auth);

#endif
