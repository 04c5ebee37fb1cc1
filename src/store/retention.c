/*
 * Retention. The DDL is in functions of the schema (sql/0001_base.sql), called from here.
 *
 * Calls come from the housekeeping of each process (server/janitor.c), maybe from several at the
 * same time: each statement is harmless then.
 */
#include "store/retention.h"

#include "store/internal.h"

static const struct pg_column make_params[] = {{"days", PG_I64}};
static const struct pg_column count_columns[] = {{"count", PG_I64}};
/* DDL goes alone: it locks tables until the commit, which nothing else should share. The function
 * serializes itself by an advisory lock and skips what exists, so a replay makes nothing twice. */
static const struct pg_stmt partitions_make = {
    .name = "partitions_make",
    .sql = "select :ord, sluice.partitions_make(:days) @from",
    PG_PARAMS(make_params),
    PG_COLUMNS(count_columns),
    .is_write = true,
    .is_replayable = true,
    .goes_alone = true,
    .no_account = "makes tables",
};

static const struct pg_column drop_params[] = {{"days", PG_I64}, {"audit_days", PG_I64}};
/* At most one partition, with a lock_timeout of its own (200 ms), which ends as ERR_TIMEOUT. A
 * replay may drop the next one, which is due, too. */
static const struct pg_stmt partitions_drop = {
    .name = "partitions_drop",
    .sql = "select :ord, sluice.partitions_drop(:days, :audit_days) @from",
    PG_PARAMS(drop_params),
    PG_COLUMNS(count_columns),
    .is_write = true,
    .is_replayable = true,
    .goes_alone = true,
    .no_account = "drops tables",
};

static const struct pg_column expired_columns[] = {
    {"account_id", PG_UUID}, {"key", PG_TEXT}, {"expires_at", PG_TIME}};
/* By the partial index idempotency_key_expiry, in its order; rows are then removed by key_expire,
 * in batches by their keys. */
static const struct pg_stmt keys_expired = {
    .name = "keys_expired",
    .sql = "select :ord, account_id, key, expires_at from sluice.idempotency_key "
           "where state = 'bound' and expires_at < now() order by expires_at limit 500",
    PG_COLUMNS(expired_columns),
    .no_account = "a read-only scan for what is due, over all accounts",
};

/* "owner is null" is "state = 'bound'" (a CHECK). Written so, and not as equalities, since the
 * planner would then consider the expiry index for a walk (pg/stmt.c). The time is the fence: a key
 * that was claimed again since the scan has a later one. */
static const struct pg_stmt key_expire = {
    .name = "key_expire",
    .sql = "delete from sluice.idempotency_key t @delete(sluice.idempotency_key) "
           "and t.owner is null and t.expires_at <= :expires_at",
    PG_PARAMS(expired_columns),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
};

static const struct pg_column version_columns[] = {{"version", PG_I64}};
static const struct pg_stmt schema_version = {
    .name = "schema_version",
    .sql = "select :ord, coalesce(max(version), 0)::bigint from sluice.migration",
    PG_COLUMNS(version_columns),
    .no_account = "the schema's own history",
};

const struct pg_stmt *const retention_stmts[] = {&partitions_make, &partitions_drop, &keys_expired,
                                                 &key_expire,      &schema_version,  NULL};

void store_partitions_make(struct pg_pool *pool, struct pg_query *query, struct op *op)
{
    query->params[0] = pg_i64(RETENTION_DAYS_AHEAD);
    store_submit(pool, query, op, &partitions_make);
}

void store_partitions_drop(struct pg_pool *pool, struct pg_query *query, struct op *op,
                           unsigned keep_days, unsigned audit_days)
{
    ASSERT(keep_days >= 1 && audit_days >= 1);
    query->params[0] = pg_i64(keep_days);
    query->params[1] = pg_i64(audit_days);
    store_submit(pool, query, op, &partitions_drop);
}

int store_partitions_result(const struct pg_query *query, int64_t *count)
{
    if (query->status != OK)
        return query->status;
    *count = pg_get_i64(&query->rows, 0, 0);
    return OK;
}

void store_keys_expired(struct pg_pool *pool, struct pg_query *query, struct op *op)
{
    store_submit(pool, query, op, &keys_expired);
}

int store_keys_expired_result(const struct pg_query *query, struct expired_key **list,
                              size_t *count)
{
    if (query->status != OK)
        return query->status;
    *list = ARENA_ARRAY(&query->op->arena, struct expired_key, query->rows.count + 1);
    if (!*list)
        return ERR_NOMEM;
    *count = query->rows.count;
    for (size_t i = 0; i < *count; i++)
        (*list)[i] = (struct expired_key){
            .account_id = pg_get_uuid(&query->rows, i, 0),
            .key = pg_get_bytes(&query->rows, i, 1),
            .expires_at = pg_get_time(&query->rows, i, 2),
        };
    return OK;
}

void store_key_expire(struct pg_pool *pool, struct pg_query *query, struct op *op,
                      const struct expired_key *key)
{
    query->params[0] = pg_uuid(key->account_id);
    query->params[1] = pg_text(key->key);
    query->params[2] = pg_time(key->expires_at);
    store_submit(pool, query, op, &key_expire);
}

void store_schema_version(struct pg_pool *pool, struct pg_query *query, struct op *op)
{
    store_submit(pool, query, op, &schema_version);
}

int store_schema_version_result(const struct pg_query *query, unsigned *version)
{
    if (query->status != OK)
        return query->status;
    *version = (unsigned)pg_get_i64(&query->rows, 0, 0);
    return OK;
}
