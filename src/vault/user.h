/*
 * user: the end users of accounts, by the ids that the accounts gave them. Users are cached for
 * ttl_ms; an unknown user is not, since its first request creates it, perhaps in another process. A
 * user's id never changes, and an erased account's keys are refused before a user is looked up. So
 * only the erasure of a user notifies the caches (store/change.h); a user that is being erased is
 * not cached. The row has the time of the last request, written in the background once an hour.
 */
#ifndef VAULT_USER_H
#define VAULT_USER_H

#include "loop/cache.h"
#include "store/account_user.h"
#include "store/later.h"

/* A process counts an account's users before the first creation, each ttl_ms, and after this many
 * creations, or fewer if a sixteenth of the room is less. So each process may exceed users_max by
 * at most this many, and only if others fill the room within ttl_ms. Within the last 16 each
 * creation counts, and only those that run at the same moment may exceed it. An account that was
 * full is taken for full for up to ttl_ms. */
enum { VAULT_USERS_UNCOUNTED_MAX = 256 };

struct vault_users;

struct vault_users_config {
    struct pg_pool *pool; /* outlives it */
    size_t users_max;     /* users that an account may have; 0: 1,000,000 */
    size_t cache_max;     /* 0: 50,000 */
    unsigned ttl_ms;      /* 0: 30 s */
    /* how long a call for a user that is being erased may be under way */
    uint64_t erase_wait_ms;
    /* Called when a user begins to be erased, to notify all processes, which then erase it; may be
     * NULL. */
    void (*on_erasing)(void *owner, const struct account_user *user);
    void *owner;
};

struct vault_users *vault_users_new(struct loop *loop,
                                    const struct vault_users_config *config) MUST_CHECK;
/* No check may be waiting (asserted). Accepts NULL. */
void vault_users_free(struct vault_users *users);
size_t vault_users_max(const struct vault_users *users);
uint64_t vault_users_erase_wait_ms(const struct vault_users *users);
/* Drops a user from the cache; SLICE_NONE: all users. */
void vault_users_forget(struct vault_users *users, struct uuid account_id, slice external_id);

/* Whether it can be a user's id: 1 to ACCOUNT_USER_ID_MAX characters from ! to ~. */
bool vault_user_is_id(slice id);

struct vault_user_check {
    /* out */
    int status; /* OK; ERR_NOTFOUND: the account has no such user; or an error of pg_query */
    struct uuid user_id;
    int64_t erase_at; /* 0, or the user is being erased (struct account_user) */
    /* private */
    struct cache_wait wait;
    struct vault_users *noting; /* NULL: the user does not make a request */
};
/* external_id: 1 to ACCOUNT_USER_ID_MAX bytes. is_request: a request acts for the user, so the time
 * of its last request is written; an operator who looks at the user's pages only finds it. Returns
 * true if the result is known; op is then not held. Returns false if op is held until the answer
 * arrives. */
bool vault_user_find(struct vault_users *users, struct vault_user_check *check,
                     struct uuid account_id, slice external_id, bool is_request,
                     struct op *op) MUST_CHECK;

/* Writes the time of the user's last request in the background, once, if laters has room for it.
 * external_id is copied. */
void vault_user_note(struct store_laters *laters, struct uuid account_id, slice external_id);

/* An op that creates a user, unless the account has it already. */
struct vault_user_create {
    struct op op;
    /* out, valid once the op has ended */
    int status; /* OK; ERR_LIMIT: the account has its maximum of users; or an error of pg_query */
    struct uuid user_id; /* the id that was proposed, or that of a request that was first */
    int64_t erase_at;    /* as in vault_user_check */
    /* private */
    struct vault_users *users;
    struct uuid account_id;
    slice external_id;
    struct cache_wait wait;
    struct pg_query query;
};
/* proposed: the id of the user if it is new. external_id is borrowed until the end. parent is held.
 */
void vault_user_create_start(struct vault_users *users, struct vault_user_create *create,
                             struct uuid account_id, slice external_id, struct uuid proposed,
                             struct op *parent);

/* An op that gives a user a label. */
struct vault_user_label {
    struct op op;
    /* out, valid once the op has ended */
    int status; /* OK; ERR_NOTFOUND: the account has no such user; or an error of pg_query */
    struct account_user user; /* as it is now, in the op's arena */
    /* private */
    struct vault_users *users;
    struct uuid account_id;
    slice external_id, label;
    struct pg_query query;
};
/* text: SLICE_NONE removes the label. It and external_id are borrowed until the end. parent is
 * held.
 */
void vault_user_label_start(struct vault_users *users, struct vault_user_label *label,
                            struct uuid account_id, slice external_id, slice text,
                            struct op *parent);

/* An op that begins to erase a user: from its end on, requests for the user are refused, and the
 * keys that act for it are unknown. Servers then delete its rows (server/eraser.h), and at last the
 * user. */
struct vault_user_erase {
    struct op op;
    /* out, valid once the op has ended */
    int status; /* OK, also if the user was being erased already; else as in vault_user_label */
    struct account_user user; /* as it is now, in the op's arena */
    /* private */
    struct vault_users *users;
    struct account_user_change change;
    struct pg_query query;
};
/* external_id and the texts of `by` are borrowed until the end. parent is held. */
void vault_user_erase_start(struct vault_users *users, struct vault_user_erase *erase,
                            struct uuid account_id, slice external_id, const struct audit_by *by,
                            struct op *parent);

#endif
