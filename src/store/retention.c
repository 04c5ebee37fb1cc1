/*
 * Retention. The DDL is in functions of the schema (sql/0001_base.sql), called from here. The
 * housekeeping of each process makes the calls (server/janitor.c). Several processes may do so at
 * the same time, which is harmless for each statement.
 */
#include "store/retention.h"

#include "store/internal.h"

static const struct pg_column count_columns[] = {PG_ARG("count", PG_I64)};
/* DDL goes alone, since it locks tables until the commit. The function serializes itself by an
 * advisory lock and skips existing partitions, so a replay makes no partition twice, but may make
 * one more. */
static const struct pg_stmt partition_make = {
    .name = "partition_make",
    .sql = "select :ord, sluice.partition_make(:days) @from",
    PG_TAKES(PG_ARG("days", PG_I64)),
    PG_COLUMNS(count_columns),
    .access = PG_WRITE,
    .goes_alone = true,
    .no_account = "makes tables",
};

/* Drops at most one partition. The function's lock_timeout (200 ms) gives ERR_TIMEOUT. A replay may
 * also drop the next partition, which is due, too. */
static const struct pg_stmt partitions_drop = {
    .name = "partitions_drop",
    .sql = "select :ord, sluice.partitions_drop(:days, :audit_days, :input_days) @from",
    PG_TAKES(PG_ARG("days", PG_I64), PG_ARG("audit_days", PG_I64), PG_ARG("input_days", PG_I64)),
    PG_COLUMNS(count_columns),
    .access = PG_WRITE,
    .goes_alone = true,
    .no_account = "drops tables",
};

#define OF(name, type) PG_OF(#name, type, struct expired_key, name)
static const struct pg_column expired_columns[] = {OF(account_id, PG_UUID), OF(key, PG_TEXT),
                                                   OF(expires_at, PG_TIME)};
/* Walks the partial index idempotency_key_expiry in its order; key_expire then removes rows, in
 * batches by their keys. */
static const struct pg_stmt keys_expired = {
    .name = "keys_expired",
    .sql = "select :ord, account_id, key, expires_at from sluice.idempotency_key "
           "where state = 'bound' and expires_at < now() order by expires_at limit 500",
    PG_COLUMNS(expired_columns),
    .no_account = "a read-only scan for what is due, over all accounts",
    .is_spread = true,
    .spread_max = RETENTION_KEYS_MAX,
    .spread_order = "expires_at",
};

/* "owner is null" is "state = 'bound'" (a CHECK). The condition is written this way, and not as an
 * equality, since the planner would then consider the expiry index for a walk (pg/stmt.c). The time
 * is the fence: a key that was claimed again since the scan has a later time. */
static const struct pg_stmt key_expire = {
    .name = "key_expire",
    .sql = "delete from sluice.idempotency_key t @delete(sluice.idempotency_key) "
           "and t.owner is null and t.expires_at <= :expires_at",
    PG_PARAMS(expired_columns),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

static const struct pg_stmt schema_version = {
    .name = "schema_version",
    .sql = "select :ord, coalesce(max(version), 0)::bigint from sluice.migration",
    PG_GIVES(PG_ARG("version", PG_I64)),
    .no_account = "the schema's own history",
};

const struct pg_stmt *const retention_stmts[] = {&partition_make, &partitions_drop, &keys_expired,
                                                 &key_expire,     &schema_version,  NULL};

void store_partition_make(STORE_ARGS)
{
    store_ask(pool, query, op, &partition_make, PG_VALUES(pg_i64(RETENTION_DAYS_AHEAD)));
}

int store_partitions_make_sync(struct pg_sync *sync, struct arena *arena, struct err *err)
{
    const struct pg_value days = pg_i64(RETENTION_DAYS_AHEAD);
    struct pg_rows rows;
    int rc;
    do
        rc = pg_sync_exec(sync, &partition_make, &days, arena, &rows, err);
    while (rc == OK && pg_get_i64(&rows, 0, 0) > 0);
    return rc;
}

void store_partitions_drop(STORE_ARGS, unsigned keep_days, unsigned audit_days, unsigned input_days)
{
    ASSERT(keep_days >= 1 && audit_days >= 1);
    store_ask(pool, query, op, &partitions_drop,
              PG_VALUES(pg_i64(keep_days), pg_i64(audit_days), pg_i64(input_days)));
}

STORE_CALL(store_keys_expired, keys_expired)
STORE_CALL_OF(store_key_expire, key_expire, expired_key)

STORE_CALL(store_schema_version, schema_version)

int store_schema_version_result(const struct pg_query *query, unsigned *version)
{
    if (query->status != OK)
        return query->status;
    *version = (unsigned)pg_get_i64(&query->rows, 0, 0);
    return OK;
}
