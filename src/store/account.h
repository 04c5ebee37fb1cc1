/*
 * account: a tenant. All other rows belong to an account by its id.
 */
#ifndef STORE_ACCOUNT_H
#define STORE_ACCOUNT_H

#include "store/audit.h"

enum { ACCOUNT_NAME_MAX = 200 };

struct account {
    struct uuid account_id;
    slice name;
    /* one or two letters or digits; SLICE_NONE: the first two letters of the name */
    slice mark;
    slice external_id;   /* the id that the operator's program gave it; SLICE_NONE: none */
    slice colour;        /* "#0b6478", in lower case; SLICE_NONE: the pages choose a colour */
    int64_t created_at;  /* microseconds of the wall clock, like all times here */
    int64_t disabled_at; /* 0: live. A disabled account's keys are refused */
};

/* A change of an account, with its audit event. */
struct account_change {
    struct audit_by by;
    struct account account;
    bool is_again;   /* create the account even if another account has the name */
    bool is_renamed; /* AUDIT_ACCOUNT_CHANGED is of the name */
};
/* Creates an account from account_id, name, external_id and created_at. Not replayed. *other is
 * nil, or the account that already has the external id or, if it has none, the name; then nothing
 * was created. */
void store_account_create(struct pg_pool *pool, struct pg_query *query, struct op *op,
                          const struct account_change *change);
int store_account_create_result(const struct pg_query *query, struct uuid *other) MUST_CHECK;
/* Changes an account. kind: AUDIT_ACCOUNT_DISABLED refuses the account's keys from now on,
 * AUDIT_ACCOUNT_ENABLED accepts them again, AUDIT_ACCOUNT_CHANGED gives it another mark and colour
 * or, with is_renamed, its name.
 * An account that is disabled or enabled already gets no event. Replayable. Read the result with
 * store_hit_result. */
void store_account_change(struct pg_pool *pool, struct pg_query *query, struct op *op,
                          const struct account_change *change, enum audit_kind kind);

/* Reads one account. */
void store_account_get(struct pg_pool *pool, struct pg_query *query, struct op *op,
                       struct uuid account_id);
STORE_ROW_RESULT(store_account_get_result, account)
/* Lists all accounts, the newest first, from those with an id below `before`; nil: from the
 * newest. */
void store_account_page(struct pg_pool *pool, struct pg_query *query, struct op *op,
                        struct uuid before, size_t count_max);
STORE_LIST_RESULT(store_account_page_result, account)

/* Operator commands: */

/* Lists all accounts in the arena, oldest first; at most ACCOUNT_LIST_MAX. */
enum { ACCOUNT_LIST_MAX = 10000 };
int store_account_list_sync(struct pg_sync *sync, struct arena *arena, struct account **accounts,
                            size_t *count, struct err *err) MUST_CHECK;
/* Lists the accounts of this name in the arena, oldest first; at most two. */
int store_account_named_sync(struct pg_sync *sync, struct arena *arena, slice name,
                             struct account **accounts, size_t *count, struct err *err) MUST_CHECK;
/* Returns ERR_NOTFOUND, with a message in err, if there is no such account. */
int store_account_get_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                           struct account *account, struct err *err) MUST_CHECK;

/* Reads the data for the frame of every dashboard page: name and key of the account payer_id, and
 * what waits in the rows of account_id, which is the account itself or one of its users. Counts end
 * at ACCOUNT_BRIEF_MAX; at most ACCOUNT_BRIEF_CONNECTIONS connections are read. The result is
 * ERR_NOTFOUND if the account no longer exists. */
enum { ACCOUNT_BRIEF_MAX = 100, ACCOUNT_BRIEF_CONNECTIONS = 1000 };
struct account_brief {
    slice name, mark, colour; /* as in struct account */
    slice key_name;
    int64_t approvals; /* flows that wait for an approval */
    int64_t broken;    /* connections that have to be reconnected */
};
void store_account_brief(struct pg_pool *pool, struct pg_query *query, struct op *op,
                         struct uuid account_id, struct uuid payer_id, struct uuid key_id);
STORE_ROW_RESULT(store_account_brief_result, account_brief)

#endif
