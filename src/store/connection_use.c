/*
 * Connections: the last use, and the last failure.
 */
#include "store/connection_internal.h"
#include "store/internal.h"

/* rev stays: it fences credentials and health, which this does not touch. Several servers report
 * the same connection, in any order: the latest time wins. greatest() ignores NULL. If no call
 * failed, :failed_at is NULL, the condition is not true, and the former failure stays. */
#define OF(name, type, ...) PG_OF(#name, type, struct connection_use, name, __VA_ARGS__)
static const struct pg_stmt connection_use = {
    .name = "connection_use",
    .sql = "update sluice.connection t set last_used_at = greatest(t.last_used_at, :used_at), "
           "failed_at = greatest(t.failed_at, :failed_at), "
           "failure = case when :failed_at >= coalesce(t.failed_at, :failed_at) then :failure "
           "else t.failure end @update(sluice.connection)",
    PG_TAKES(OF(account_id, PG_UUID), OF(id, PG_I64), OF(used_at, PG_TIME), OF(failed_at, PG_TIME),
             OF(failure, PG_TEXT)),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

const struct pg_stmt *const connection_use_stmts[] = {&connection_use, NULL};

void store_connection_use(STORE_ARGS, const struct connection_use *use)
{
    ASSERT((use->failed_at != 0) == (use->failure.ptr != NULL));
    store_ask_of(pool, query, op, &connection_use, use, PG_NO_VALUES);
}
