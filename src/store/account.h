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
    /* 0: the account is not being erased. Else the time after which no call for it is under way. */
    int64_t erase_at;
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
void store_account_create(STORE_ARGS, const struct account_change *change);
int store_account_create_result(const struct pg_query *query, struct uuid *other) MUST_CHECK;
/* Changes an account. kind: AUDIT_ACCOUNT_DISABLED refuses the account's keys from now on,
 * AUDIT_ACCOUNT_ENABLED accepts them again, AUDIT_ACCOUNT_CHANGED gives it another mark and colour
 * or, with is_renamed, its name.
 * An account that is disabled or enabled already gets no event. Replayable. The result is
 * ERR_NOTFOUND if there is no such account, ERR_REFUSED if it is being erased and cannot be
 * enabled. */
void store_account_change(STORE_ARGS, const struct account_change *change, enum audit_kind kind);
/* Marks a disabled account as being erased: its erase_at becomes a time many years ahead. Nothing
 * changes if it has one. The event of the first change is the operator's, of the nil account, and
 * has the account_id alone. Replayable. The result is ERR_NOTFOUND as above, ERR_REFUSED if the
 * account is not disabled. */
void store_account_erase(STORE_ARGS, const struct account_change *change);
int store_account_change_result(const struct pg_query *query) MUST_CHECK;

/* Reads one account. */
void store_account_get(STORE_ARGS, struct uuid account_id);
STORE_ROW_RESULT(store_account_get_result, account)
/* Lists all accounts, the newest first, from those with an id below `before`; nil: from the
 * newest. */
void store_account_page(STORE_ARGS, struct uuid before, size_t count_max);
STORE_LIST_RESULT(store_account_page_result, account)

/* The erasure of a marked account, whose rows are deleted as those of users are
 * (store/account_user.h). Lists accounts that are being erased, as store_account_user_erasing lists
 * users, with the same result, where user_id is the account's: those whose users may not be marked,
 * or whose links and flows may not have ended (is_far), or the others. */
void store_account_erasing(STORE_ARGS, bool is_far, struct uuid after, size_t count_max);
/* Marks users of the account as being erased, a number of them in the order of their ids, after the
 * id `after`. The result is the last one's id; SLICE_NONE: there are no more. */
void store_account_users_erase(STORE_ARGS, struct uuid account_id, slice after);
int store_account_users_erase_result(const struct pg_query *query, slice *last) MUST_CHECK;
/* As store_account_user_ended, for an account. */
void store_account_ended(STORE_ARGS, struct uuid account_id, int64_t wait_ms);
/* Deletes the account itself, unless it has users: they are erased first, and it is found again in
 * the next round. A user is not a row of `account`, so connections, OAuth clients, keys and users
 * do not refer to it. The statements that create one therefore check that the account exists, and
 * lock its row until they are committed (STORE_ACCOUNT_EXISTS); those that were made since the last
 * pass are deleted here. Other rows are written by calls under way, which end before erase_at, or
 * expire by themselves. */
void store_account_remove(STORE_ARGS, struct uuid account_id);

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
void store_account_brief(STORE_ARGS, struct uuid account_id, struct uuid payer_id,
                         struct uuid key_id);
STORE_ROW_RESULT(store_account_brief_result, account_brief)

#endif
