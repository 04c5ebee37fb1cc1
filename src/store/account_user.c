/*
 * End users of an account: found with each request that names one, unless they are cached, and
 * created by their first request that may change something (vault/user.h).
 */
#include "store/account_user.h"

#include "store/internal.h"

static const struct pg_column user_columns[] = {
    PG_ARG("account_id", PG_UUID), PG_ARG("external_id", PG_TEXT), PG_ARG("user_id", PG_UUID)};
enum { USER_ID_COLUMN = 2 };

static const struct pg_stmt account_user_find = {
    .name = "account_user_find",
    .sql = "select :ord, t.account_id, t.external_id, t.user_id @read(sluice.account_user)",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("external_id", PG_TEXT)),
    PG_COLUMNS(user_columns),
    .key_count = 2,
};

/* This statement goes alone, since the inserts of a set would not count one another. The count
 * reads the index of one account up to the limit: some ms for 10,000 users, once in the life of
 * each. "do update" changes nothing; it makes the statement return the row of a request that was
 * first. */
static const struct pg_stmt account_user_create = {
    .name = "account_user_create",
    .sql = "insert into sluice.account_user as t (account_id, external_id, user_id, created_at) "
           "select :account_id, :external_id, :user_id, now() @from "
           "where (select count(*) from (select from sluice.account_user o "
           "where o.account_id = :account_id and o.external_id <> :external_id "
           "limit :users_max) few) < :users_max "
           "on conflict (account_id, external_id) do update set created_at = t.created_at "
           "returning t.account_id, t.external_id, t.user_id",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("external_id", PG_TEXT),
             PG_ARG("user_id", PG_UUID), PG_ARG("users_max", PG_I64)),
    PG_COLUMNS(user_columns),
    .key_count = 2,
    .match = PG_MATCH_KEY,
    .access = PG_WRITE,
    .goes_alone = true,
};

const struct pg_stmt *const account_user_stmts[] = {&account_user_find, &account_user_create, NULL};

STORE_CALL_ID(store_account_user_find, account_user_find, slice, pg_text)

void store_account_user_create(struct pg_pool *pool, struct pg_query *query, struct op *op,
                               struct uuid account_id, slice external_id, struct uuid user_id,
                               size_t users_max)
{
    ASSERT(external_id.len > 0 && !uuid_is_nil(user_id) && users_max > 0);
    store_ask(pool, query, op, &account_user_create,
              PG_VALUES(pg_uuid(account_id), pg_text(external_id), pg_uuid(user_id),
                        pg_i64((int64_t)users_max)));
}

int store_account_user_result(const struct pg_query *query, struct uuid *user_id)
{
    int status = store_hit_result(query);
    *user_id = status == OK ? pg_get_uuid(&query->rows, 0, USER_ID_COLUMN) : (struct uuid){{0}};
    return status;
}
