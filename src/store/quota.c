/*
 * Rows beyond an account's quota: found by walking each account's part of the primary key, or of
 * its endpoints' index, from the newest row, and removed or ended beginning with the oldest. Ids
 * are UUIDv7, so they are ordered by time.
 */
#include "store/quota.h"

#include "store/internal.h"

/* The minimum size of a row. If a table is smaller than count_max rows of this size, no account can
 * be over its quota, and the walk is skipped. The size of a table is the size of its files on
 * disk. */
#define ROW_BYTES_MIN "100"

static const struct pg_column find_params[] = {
    PG_ARG("after", PG_UUID), PG_ARG("count", PG_I64), PG_ARG("count_max", PG_I64),
    PG_ARG(PG_HASH_MIN, PG_I64), PG_ARG(PG_HASH_MAX, PG_I64)};
#define OF(name, type) PG_OF(#name, type, struct quota_cut, name)
static const struct pg_column find_columns[] = {OF(account_id, PG_UUID), OF(last, PG_UUID)};

/* `newest` finds the newest row beyond the quota: "offset :count_max limit 1" reads as many index
 * entries as are kept. The LEFT JOIN lets an account without such a row still advance the page. */
#define FIND_BY(kind, size, newest)                                                            \
    {                                                                                          \
        .name = "quota_find_" kind,                                                            \
        .sql = "select :ord, c.* from @input lateral (select a.account_id, k.id from (select " \
               "x.account_id from sluice.account x where x.account_id > :after and "           \
               "uuid_hash(x.account_id) between :hash_min and :hash_max and (select " size     \
               ") > :count_max * " ROW_BYTES_MIN " order by x.account_id limit :count) a "     \
               "left join lateral (" newest " offset :count_max limit 1) k on true "           \
               "order by a.account_id) c",                                                     \
        PG_PARAMS(find_params), PG_COLUMNS(find_columns),                                      \
        .no_account = "what is beyond, over all accounts", .is_spread = true,                  \
        .spread_order = "account_id",                                                          \
    }
#define FIND(table, kind, only)                                                                 \
    FIND_BY(kind,                                                                               \
            "coalesce(sum(pg_relation_size(p.relid)), 0) from pg_partition_tree('sluice." table \
            "') p",                                                                             \
            "select e.id from sluice." table " e where e.account_id = a.account_id" only        \
            " order by e.id desc")
/* Rows of users are under their own ids, so those of each endpoint are merged. */
#define FIND_DELIVERIES                                                                            \
    FIND_BY("delivery", "pg_relation_size('sluice.delivery')",                                     \
            "select d.event_id as id from sluice.webhook h cross join lateral (select "            \
            "e.event_id from sluice.delivery e where e.webhook_id = h.id and e.status = "          \
            "'pending' and e.attempt >= 0 order by e.event_id desc limit :count_max + 1) d where " \
            "h.account_id = "                                                                      \
            "a.account_id order by d.event_id desc")

static const struct pg_column trim_params[] = {OF(account_id, PG_UUID), OF(last, PG_UUID),
                                               PG_ARG("age_ms", PG_I64)};

/* This statement goes alone: its rows have no ordinal, so the rows of two queries in a set would be
 * counted together. A replay removes the next rows, which are over the limit, too. */
#define TRIM(stmt_name, before, table, condition, after)                                      \
    {                                                                                         \
        .name = stmt_name,                                                                    \
        .sql = before "delete from sluice." table " t where (t.account_id, t.id) in (select " \
                      "e.account_id, e.id from @input lateral (select x.account_id, x.id "    \
                      "from sluice." table " x where x.account_id = :account_id and "         \
                      "x.id <= :last" condition                                               \
                      " order by x.id limit " STORE_TEXT_OF(QUOTA_TRIM_ROWS) ") e) " after,   \
        PG_PARAMS(trim_params), .access = PG_WRITE, .goes_alone = true,                       \
    }
/* Removes the inputs of the rows, too. */
#define TRIM_WITH_INPUTS(table, condition)                                                 \
    TRIM("quota_trim_" table, "with cut as (", table, condition,                           \
         "returning t.account_id, t.id), inputs as (delete from sluice.execution_input d " \
         "using cut c where d.account_id = c.account_id and d.id = c.id) "                 \
         "select 1::bigint from cut")
/* Ends the rows as failed. One that is being sent ends only once. */
#define TRIM_DELIVERIES                                                                            \
    {                                                                                              \
        .name = "quota_trim_delivery",                                                             \
        .sql = "update sluice.delivery t set status = 'failed', due_at = null, ended_at = now(), " \
               "problem = 'too many events of the account were pending' where (t.account_id, "     \
               "t.event_id, t.webhook_id) in (select e.account_id, e.event_id, e.webhook_id "      \
               "from @input lateral (select d.* from sluice.webhook h cross join lateral "         \
               "(select x.account_id, x.event_id, x.webhook_id from sluice.delivery x where "      \
               "x.webhook_id = h.id and x.status = 'pending' and x.attempt >= 0 and x.event_id "   \
               "<= :last order by "                                                                \
               "x.event_id limit " STORE_TEXT_OF(                                                  \
                   QUOTA_TRIM_ROWS) ") d where h.account_id = "                                    \
                                    ":account_id order by d.event_id limit " STORE_TEXT_OF(        \
                                        QUOTA_TRIM_ROWS) ") e) "                                   \
                                                         "and t.due_at is not null returning "     \
                                                         "1::bigint",                              \
        PG_PARAMS(trim_params), .access = PG_WRITE, .goes_alone = true,                            \
    }
#define QUOTA_TRIM_ROWS 2000
_Static_assert(QUOTA_TRIM_ROWS == QUOTA_ROWS_MAX, "as the header says");

static const struct pg_stmt finds[QUOTA_KINDS] = {
    [QUOTA_EXECUTIONS] = FIND("execution", "execution", ""),
    [QUOTA_AUDIT] = FIND("audit_event", "audit_event", ""),
    [QUOTA_BLOCKED_INPUTS] = FIND("execution_input", "blocked_input", " and e.is_blocked"),
    [QUOTA_DELIVERIES] = FIND_DELIVERIES};
static const struct pg_stmt trims[QUOTA_KINDS] = {
    [QUOTA_EXECUTIONS] = TRIM_WITH_INPUTS(
        "execution", " and x.finished_at < now() - :age_ms * interval '1 millisecond'"),
    [QUOTA_AUDIT] = TRIM_WITH_INPUTS("audit_event", ""),
    [QUOTA_BLOCKED_INPUTS] = TRIM("quota_trim_blocked_input", "", "execution_input",
                                  " and x.is_blocked", "returning 1::bigint"),
    [QUOTA_DELIVERIES] = TRIM_DELIVERIES};

const struct pg_stmt *const quota_stmts[] = {&finds[0], &finds[1], &finds[2], &finds[3], &trims[0],
                                             &trims[1], &trims[2], &trims[3], NULL};

void store_quota_find(STORE_ARGS, enum quota_kind kind, struct uuid after, size_t count,
                      size_t count_max)
{
    ASSERT(count >= 1 && count <= QUOTA_ACCOUNTS_MAX && count_max >= 1);
    store_ask(pool, query, op, &finds[kind],
              PG_VALUES(pg_uuid(after), pg_i64((int64_t)count), pg_i64((int64_t)count_max),
                        pg_i64(INT32_MIN), pg_i64(INT32_MAX)));
}

int store_quota_find_result(const struct pg_query *query, struct quota_cut **list, size_t *count)
{
    int status;
    *list = store_list_result(query, sizeof(**list), count, &status);
    /* Each shard has returned up to `wanted` accounts. Beyond that many accounts, the list may lack
     * accounts that no shard has returned. */
    size_t wanted = (size_t)query->params[1].as.i64;
    *count = *count < wanted ? *count : wanted;
    return status;
}

void store_quota_trim(STORE_ARGS, enum quota_kind kind, const struct quota_cut *cut, int64_t age_ms)
{
    store_ask_of(pool, query, op, &trims[kind], cut, PG_VALUES(pg_i64(age_ms)));
}

int store_quota_trim_result(const struct pg_query *query, size_t *count)
{
    if (query->status != OK)
        return query->status;
    *count = query->rows.count;
    return OK;
}
