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

/* "do update" changes nothing; it makes the statement return the row of a request that was first.
 * The statements go alone: a set may have one new user twice, which "do update" refuses. */
#define CREATE(guard)                                                                      \
    "insert into sluice.account_user as t (account_id, external_id, user_id, created_at) " \
    "select :account_id, :external_id, :user_id, now() @from " guard                       \
    "on conflict (account_id, external_id) do update set created_at = t.created_at "       \
    "returning t.account_id, t.external_id, t.user_id"
#define CREATE_PARAMS \
    PG_ARG("account_id", PG_UUID), PG_ARG("external_id", PG_TEXT), PG_ARG("user_id", PG_UUID)
static const struct pg_stmt account_user_create = {
    .name = "account_user_create",
    .sql = CREATE(""),
    PG_TAKES(CREATE_PARAMS),
    PG_COLUMNS(user_columns),
    .key_count = 2,
    .match = PG_MATCH_KEY,
    .access = PG_WRITE,
    .goes_alone = true,
};

/* The count reads the index of one account up to the limit: some ms for 10,000 users. So does
 * account_user_count. */
static const struct pg_stmt account_user_create_last = {
    .name = "account_user_create_last",
    .sql = CREATE("where (select count(*) from (select from sluice.account_user o "
                  "where o.account_id = :account_id and o.external_id <> :external_id "
                  "limit :users_max) few) < :users_max "),
    PG_TAKES(CREATE_PARAMS, PG_ARG("users_max", PG_I64)),
    PG_COLUMNS(user_columns),
    .key_count = 2,
    .match = PG_MATCH_KEY,
    .access = PG_WRITE,
    .goes_alone = true,
};

static const struct pg_stmt account_user_count = {
    .name = "account_user_count",
    .sql = "select :ord, c.n from @input lateral (select count(*) as n from (select from "
           "sluice.account_user t where t.account_id = :account_id limit :count_max) few) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("count_max", PG_I64)),
    PG_GIVES(PG_ARG("count", PG_I64)),
};

const struct pg_stmt *const account_user_stmts[] = {
    &account_user_find, &account_user_create, &account_user_create_last, &account_user_count, NULL};

STORE_CALL_ID(store_account_user_find, account_user_find, slice, pg_text)

void store_account_user_create(struct pg_pool *pool, struct pg_query *query, struct op *op,
                               struct uuid account_id, slice external_id, struct uuid user_id)
{
    ASSERT(external_id.len > 0 && !uuid_is_nil(user_id));
    store_ask(pool, query, op, &account_user_create,
              PG_VALUES(pg_uuid(account_id), pg_text(external_id), pg_uuid(user_id)));
}

void store_account_user_create_last(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                    struct uuid account_id, slice external_id, struct uuid user_id,
                                    size_t users_max)
{
    ASSERT(external_id.len > 0 && !uuid_is_nil(user_id) && users_max > 0);
    store_ask(pool, query, op, &account_user_create_last,
              PG_VALUES(pg_uuid(account_id), pg_text(external_id), pg_uuid(user_id),
                        pg_i64((int64_t)users_max)));
}

int store_account_user_result(const struct pg_query *query, struct uuid *user_id)
{
    int status = store_hit_result(query);
    *user_id = status == OK ? pg_get_uuid(&query->rows, 0, USER_ID_COLUMN) : (struct uuid){{0}};
    return status;
}

void store_account_user_count(struct pg_pool *pool, struct pg_query *query, struct op *op,
                              struct uuid account_id, size_t count_max)
{
    store_ask(pool, query, op, &account_user_count,
              PG_VALUES(pg_uuid(account_id), pg_i64((int64_t)count_max)));
}

int store_account_user_count_result(const struct pg_query *query, size_t *count)
{
    int status = store_hit_result(query);
    *count = status == OK ? (size_t)pg_get_i64(&query->rows, 0, 0) : 0;
    return status;
}
