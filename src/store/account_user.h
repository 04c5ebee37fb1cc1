/*
 * account_user: the end users of an account. All rows that a user owns have account_id = user_id;
 * those that a server continues by itself (connections, flows, links) have parent_id = the account.
 */
#ifndef STORE_ACCOUNT_USER_H
#define STORE_ACCOUNT_USER_H

#include "store/store.h"

enum { ACCOUNT_USER_ID_MAX = 255 };

/* Finds a user by the id that the account gave it, compared byte for byte. */
void store_account_user_find(struct pg_pool *pool, struct pg_query *query, struct op *op,
                             struct uuid account_id, slice external_id);
/* Creates the user as user_id, unless the account has it already. Replayable. */
void store_account_user_create(struct pg_pool *pool, struct pg_query *query, struct op *op,
                               struct uuid account_id, slice external_id, struct uuid user_id);
/* The same for an account that is nearly full: it counts the account's users first, which takes
 * long if they are many. */
void store_account_user_create_last(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                    struct uuid account_id, slice external_id, struct uuid user_id,
                                    size_t users_max);
/* For all three: sets *user_id. Returns ERR_NOTFOUND if the account has no such user, or if it has
 * users_max users already. */
int store_account_user_result(const struct pg_query *query, struct uuid *user_id) MUST_CHECK;

/* Counts the account's users up to count_max. */
void store_account_user_count(struct pg_pool *pool, struct pg_query *query, struct op *op,
                              struct uuid account_id, size_t count_max);
int store_account_user_count_result(const struct pg_query *query, size_t *count) MUST_CHECK;

#endif
