/*
 * End users of an account: found with each request that names one, unless they are cached, and
 * created by their first request that may change something (vault/user.h).
 */
#include "store/account_user.h"

#include "store/internal.h"

#define OF(name, type, ...) PG_OF(#name, type, struct account_user, name, __VA_ARGS__)
/* The result of each statement that returns users. */
#define ROW                                                           \
    "t.account_id, t.external_id, t.user_id, t.label, t.created_at, " \
    "coalesce(t.last_seen_at, t.created_at) as last_seen_at, t.erase_at"
static const struct pg_column user_columns[] = {
    OF(account_id, PG_UUID), OF(external_id, PG_TEXT),
    OF(user_id, PG_UUID),    OF(label, PG_TEXT),
    OF(created_at, PG_TIME), PG_OF("last_seen_at", PG_TIME, struct account_user, last_request_at),
    OF(erase_at, PG_TIME)};

static const struct pg_stmt account_user_find = {
    .name = "account_user_find",
    .sql = "select :ord, " ROW " @read(sluice.account_user)",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("external_id", PG_TEXT)),
    PG_COLUMNS(user_columns),
    .key_count = 2,
};

/* Ids contain no character above '~', so the ids with a prefix are those from the prefix to the
 * prefix with one character more. Reads the primary key from there, without a sort. */
static const struct pg_stmt account_user_page = {
    .name = "account_user_page",
    .sql = "select :ord, c.* from @input lateral (select " ROW
           " from sluice.account_user t where t.account_id = :account_id and t.external_id >= "
           ":prefix and t.external_id < :prefix || chr(127) and t.external_id > :after "
           "order by t.external_id limit :count_max) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("prefix", PG_TEXT), PG_ARG("after", PG_TEXT),
             PG_ARG("count_max", PG_I64)),
    PG_COLUMNS(user_columns),
};

/* OFFSET 0 keeps it a lookup in the index of user_id for each of the ids (pg/stmt.c). */
static const struct pg_stmt account_user_names = {
    .name = "account_user_names",
    .sql = "select :ord, c.* from @input unnest(string_to_array(:user_ids, ' ')) w(id), lateral "
           "(select t.user_id, t.external_id from sluice.account_user t where "
           "t.account_id = :account_id and t.user_id = w.id::uuid offset 0) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("user_ids", PG_TEXT)),
    PG_GIVES(OF(user_id, PG_UUID), OF(external_id, PG_TEXT)),
};

static const struct pg_stmt account_user_label = {
    .name = "account_user_label",
    .sql = "update sluice.account_user t set label = :label @update(sluice.account_user) "
           "returning :ord, " ROW,
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("external_id", PG_TEXT),
             PG_ARG("label", PG_TEXT)),
    PG_COLUMNS(user_columns),
    .key_count = 2,
    .access = PG_WRITE,
};

/* Another process may have written it in the meantime. */
static const struct pg_stmt account_user_request = {
    .name = "account_user_request",
    .sql = "update sluice.account_user t set last_seen_at = now() @update(sluice.account_user) "
           "and coalesce(t.last_seen_at, t.created_at) <= now() - interval '1 hour'",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("external_id", PG_TEXT)),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

/* Where the user is being erased already, nothing changes and there is no second event. */
#define OF_CHANGE(name, type) PG_OF(#name, type, struct account_user_change, name)
static const struct pg_stmt account_user_erase = {
    .name = "account_user_erase",
    .sql = "with changed as (update sluice.account_user t set erase_at = "
           "coalesce(t.erase_at, " STORE_ERASE_AT
           ") @update(sluice.account_user) returning :ord as ord, " ROW
           ", t.erase_at = " STORE_ERASE_AT " as is_new), " STORE_AUDITED(
               "'user_id', c.user_id",
               " and c.is_new") "select c.ord, c.account_id, "
                                "c.external_id, c.user_id, c.label, c.created_at, c.last_seen_at, "
                                "c.erase_at from "
                                "changed c",
    PG_TAKES(OF_CHANGE(account_id, PG_UUID), OF_CHANGE(external_id, PG_TEXT),
             STORE_EVENT_PARAMS(account_user_change)),
    PG_COLUMNS(user_columns),
    .key_count = 2,
    .access = PG_WRITE,
};

#define OF_ERASING(name, type) PG_OF(#name, type, struct account_user_erasing, name)
static const struct pg_column erasing_columns[] = {
    OF_ERASING(account_id, PG_UUID), OF_ERASING(external_id, PG_TEXT), OF_ERASING(user_id, PG_UUID),
    OF_ERASING(is_due, PG_BOOL)};
/* By the indexes account_user_erasing and account_user_far: users of the other kind may be very
 * many. */
#define ERASING(stmt_name, where)                                                             \
    {                                                                                         \
        .name = stmt_name,                                                                    \
        .sql = "select :ord, c.* from @input lateral (select t.account_id, t.external_id, "   \
               "t.user_id, t.erase_at <= now() from sluice.account_user t where " where       \
               " and t.user_id > :after order by t.user_id limit :count_max) c",              \
        PG_TAKES(PG_ARG("after", PG_UUID), PG_ARG("count_max", PG_I64)),                      \
        PG_COLUMNS(erasing_columns), .no_account = "what is to be erased, over all accounts", \
        .is_spread = true, .spread_order = "user_id",                                         \
    }
static const struct pg_stmt account_user_erasing =
    ERASING("account_user_erasing", "t.erase_at is not null and t.erase_at <= " STORE_FAR);
static const struct pg_stmt account_user_far =
    ERASING("account_user_far", "t.erase_at > " STORE_FAR);

static const struct pg_stmt account_user_rows_erase = {
    .name = "account_user_rows_erase",
    .sql = "select :ord, sluice.rows_erase((:ids)::uuid[], :rows_max, :depth) @from",
    PG_TAKES(PG_ARG("ids", PG_TEXT), PG_ARG("rows_max", PG_I64), PG_ARG("depth", PG_I64)),
    PG_GIVES(PG_ARG("count", PG_I64)),
    .access = PG_WRITE,
    .goes_alone = true,
    .no_account = "erases rows of users of any account",
};

static const struct pg_stmt account_user_ended = {
    .name = "account_user_ended",
    .sql = "update sluice.account_user t set erase_at = now() + :wait_ms * interval '1 "
           "millisecond' @update(sluice.account_user) and t.user_id = :user_id",
    PG_TAKES(OF_ERASING(account_id, PG_UUID), OF_ERASING(external_id, PG_TEXT),
             OF_ERASING(user_id, PG_UUID), PG_ARG("wait_ms", PG_I64)),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

/* Another user may have the name by now. A condition on erase_at would bring the index
 * account_user_erasing into the plan (pg/stmt.c). */
static const struct pg_stmt account_user_remove = {
    .name = "account_user_remove",
    .sql = "delete from sluice.account_user t @delete(sluice.account_user) "
           "and t.user_id = :user_id",
    PG_TAKES(OF_ERASING(account_id, PG_UUID), OF_ERASING(external_id, PG_TEXT),
             OF_ERASING(user_id, PG_UUID)),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

/* A user that is created for an account that is being erased is being erased, too: its request
 * began before the account was disabled. "do update" changes nothing; it makes the statement return
 * the row of a request that was first. The statements go alone: a set may have one new user twice,
 * which "do update" refuses. */
#define CREATE(guard)                                                                           \
    "insert into sluice.account_user as t (account_id, external_id, user_id, created_at, "      \
    "erase_at) select :account_id, :external_id, :user_id, now(), (select " STORE_ERASE_AT " "  \
    "from sluice.account a where a.account_id = :account_id and a.erase_at is not null) @from " \
    "where " STORE_ACCOUNT_EXISTS(":account_id") guard                                          \
        " on conflict (account_id, external_id) do update set created_at = t.created_at "       \
        "returning " ROW
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
    .sql = CREATE(" and (select count(*) from (select 1 from sluice.account_user o "
                  "where o.account_id = :account_id and o.external_id <> :external_id "
                  "limit :users_max) few) < :users_max"),
    PG_TAKES(CREATE_PARAMS, PG_ARG("users_max", PG_I64)),
    PG_COLUMNS(user_columns),
    .key_count = 2,
    .match = PG_MATCH_KEY,
    .access = PG_WRITE,
    .goes_alone = true,
};

static const struct pg_stmt account_user_count = {
    .name = "account_user_count",
    .sql = "select :ord, c.n from @input lateral (select count(*) as n from (select 1 from "
           "sluice.account_user t where t.account_id = :account_id limit :count_max) few) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("count_max", PG_I64)),
    PG_GIVES(PG_ARG("count", PG_I64)),
};

const struct pg_stmt *const account_user_stmts[] = {
    &account_user_find,        &account_user_page,    &account_user_names,
    &account_user_label,       &account_user_request, &account_user_erase,
    &account_user_erasing,     &account_user_far,     &account_user_rows_erase,
    &account_user_remove,      &account_user_ended,   &account_user_create,
    &account_user_create_last, &account_user_count,   NULL};

STORE_CALL_ID(store_account_user_find, account_user_find, slice, pg_text)
STORE_CALL_ID(store_account_user_names, account_user_names, slice, pg_text)
STORE_CALL_ID(store_account_user_request, account_user_request, slice, pg_text)

void store_account_user_page(STORE_ARGS, struct uuid account_id, slice prefix, slice after,
                             size_t count_max)
{
    ASSERT(count_max > 0);
    store_ask(pool, query, op, &account_user_page,
              PG_VALUES(pg_uuid(account_id), pg_text_or_empty(prefix), pg_text_or_empty(after),
                        pg_i64((int64_t)count_max)));
}

void store_account_user_label(STORE_ARGS, struct uuid account_id, slice external_id, slice label)
{
    store_ask(pool, query, op, &account_user_label,
              PG_VALUES(pg_uuid(account_id), pg_text(external_id), pg_text(label)));
}

STORE_CALL_CHANGE(store_account_user_erase, account_user_erase, account_user_change,
                  AUDIT_USER_ERASED)

void store_account_user_erasing(STORE_ARGS, bool is_far, struct uuid after, size_t count_max)
{
    ASSERT(count_max > 0);
    store_ask(pool, query, op, is_far ? &account_user_far : &account_user_erasing,
              PG_VALUES(pg_uuid(after), pg_i64((int64_t)count_max)));
}

int store_account_user_erasing_result(const struct pg_query *query,
                                      struct account_user_erasing **list, size_t *count)
{
    int status;
    *list = store_list_result(query, sizeof(**list), count, &status);
    /* Each shard has returned up to count_max users. Those beyond it may follow users that no shard
     * has returned. */
    size_t count_max = (size_t)query->params[1].as.i64;
    *count = *count < count_max ? *count : count_max;
    return status;
}

void store_account_user_rows_erase(STORE_ARGS, slice ids, size_t rows_max,
                                   enum account_user_depth depth)
{
    store_ask(pool, query, op, &account_user_rows_erase,
              PG_VALUES(pg_text(ids), pg_i64((int64_t)rows_max), pg_i64(depth)));
}

int store_account_user_rows_erase_result(const struct pg_query *query, size_t *count)
{
    if (query->status != OK)
        return query->status;
    int64_t rows = pg_get_i64(&query->rows, 0, 0);
    *count = rows > 0 ? (size_t)rows : 0;
    return rows < 0 ? ERR_BUSY : OK;
}

void store_account_user_ended(STORE_ARGS, const struct account_user_erasing *user, int64_t wait_ms)
{
    store_ask_of(pool, query, op, &account_user_ended, user, PG_VALUES(pg_i64(wait_ms)));
}

STORE_CALL_OF(store_account_user_remove, account_user_remove, account_user_erasing)

void store_account_user_create(STORE_ARGS, struct uuid account_id, slice external_id,
                               struct uuid user_id)
{
    ASSERT(external_id.len > 0 && !uuid_is_nil(user_id));
    store_ask(pool, query, op, &account_user_create,
              PG_VALUES(pg_uuid(account_id), pg_text(external_id), pg_uuid(user_id)));
}

void store_account_user_create_last(STORE_ARGS, struct uuid account_id, slice external_id,
                                    struct uuid user_id, size_t users_max)
{
    ASSERT(external_id.len > 0 && !uuid_is_nil(user_id) && users_max > 0);
    store_ask(pool, query, op, &account_user_create_last,
              PG_VALUES(pg_uuid(account_id), pg_text(external_id), pg_uuid(user_id),
                        pg_i64((int64_t)users_max)));
}

void store_account_user_count(STORE_ARGS, struct uuid account_id, size_t count_max)
{
    store_ask(pool, query, op, &account_user_count,
              PG_VALUES(pg_uuid(account_id), pg_i64((int64_t)count_max)));
}
