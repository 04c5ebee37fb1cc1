/*
 * account_user: the end users of an account. All rows that a user owns have account_id = user_id;
 * those that a server continues by itself (connections, flows, links) have parent_id = the account.
 */
#ifndef STORE_ACCOUNT_USER_H
#define STORE_ACCOUNT_USER_H

#include "store/audit.h"

enum {
    ACCOUNT_USER_ID_MAX = 255,
    ACCOUNT_USER_LABEL_MAX = 200,     /* characters */
    ACCOUNT_USER_REQUEST_S = 60 * 60, /* between two updates of last_request_at */
};

struct account_user {
    struct uuid account_id, user_id;
    slice external_id, label;            /* label: SLICE_NONE if it has none */
    int64_t created_at, last_request_at; /* the latter: to the hour; created_at if it had none */
    /* 0: the user is not being erased. Else the time after which no call for it is under way. */
    int64_t erase_at;
};

/* Finds a user by the id that the account gave it, compared byte for byte. */
void store_account_user_find(STORE_ARGS, struct uuid account_id, slice external_id);
/* Lists users whose ids begin with prefix, in the order of the bytes of their ids, after the id
 * `after`. Either may be SLICE_NONE. */
void store_account_user_page(STORE_ARGS, struct uuid account_id, slice prefix, slice after,
                             size_t count_max);
/* Finds the external_id of users by their user_id. user_ids: as text, separated by spaces. The
 * result has no other members, and no user that the account does not have. */
void store_account_user_names(STORE_ARGS, struct uuid account_id, slice user_ids);
STORE_LIST_RESULT(store_account_user_list_result, account_user)
/* Sets the label; SLICE_NONE removes it. Result: that of store_account_user_find. */
void store_account_user_label(STORE_ARGS, struct uuid account_id, slice external_id, slice label);
/* Sets last_request_at to now, unless it is less than ACCOUNT_USER_REQUEST_S ago. */
void store_account_user_request(STORE_ARGS, struct uuid account_id, slice external_id);

/* Marks the user as being erased: its erase_at becomes a time many years ahead. Nothing changes if
 * it has one. Result: that of store_account_user_find. The event of the first change has the
 * user_id alone. */
struct account_user_change {
    struct uuid account_id;
    slice external_id;
    struct audit_by by;
};
void store_account_user_erase(STORE_ARGS, const struct account_user_change *change);
/* Lists users of all accounts that are being erased, in the order of their user_ids, after that
 * user_id: those whose keys, links and flows may not have ended (is_far), or the others. Fewer than
 * count_max: there are no more. */
struct account_user_erasing {
    struct uuid account_id, user_id;
    slice external_id;
    bool is_due; /* erase_at has passed */
};
void store_account_user_erasing(STORE_ARGS, bool is_far, struct uuid after, size_t count_max);
int store_account_user_erasing_result(const struct pg_query *query,
                                      struct account_user_erasing **list, size_t *count) MUST_CHECK;
/* Deletes rows of these users (ids: "{uuid,uuid}"), about rows_max at most: what continues by
 * itself (keys, links, flows), or all but the claims of runs under way, which so end as ever, or
 * all. *count: their number; 0: there are none left. ERR_BUSY: another process does so. */
enum account_user_depth { ACCOUNT_USER_RUNNING, ACCOUNT_USER_ROWS, ACCOUNT_USER_ALL };
enum { ACCOUNT_USER_ERASE_MAX = 1000 };
void store_account_user_rows_erase(STORE_ARGS, slice ids, size_t rows_max,
                                   enum account_user_depth depth);
int store_account_user_rows_erase_result(const struct pg_query *query, size_t *count) MUST_CHECK;
/* The user's keys, links and flows have ended: its erase_at becomes the present time and wait_ms,
 * in which the calls under way for it end. */
void store_account_user_ended(STORE_ARGS, const struct account_user_erasing *user, int64_t wait_ms);
/* Deletes the user itself, whose erase_at has passed. */
void store_account_user_remove(STORE_ARGS, const struct account_user_erasing *user);

/* Creates the user as user_id, unless the account has it already. Replayable. */
void store_account_user_create(STORE_ARGS, struct uuid account_id, slice external_id,
                               struct uuid user_id);
/* The same for an account that is nearly full: it counts the account's users first, which takes
 * long if they are many. */
void store_account_user_create_last(STORE_ARGS, struct uuid account_id, slice external_id,
                                    struct uuid user_id, size_t users_max);
/* The user found, labelled, marked or created. Returns ERR_NOTFOUND if the account has no such
 * user, or if none was created: it has users_max users already, or no longer exists. */
STORE_ROW_RESULT(store_account_user_result, account_user)

/* Counts the account's users up to count_max. Read the result with store_count_result. */
void store_account_user_count(STORE_ARGS, struct uuid account_id, size_t count_max);

#endif
