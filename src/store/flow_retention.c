/*
 * Flows that ended long ago. Their documents and steps go with their partitions, which are dropped
 * once no flow is left in their range (sql/0002_flows.sql).
 */
#include "store/flow.h"
#include "store/internal.h"

/* An id begins with the time of its creation, and a flow ends after that: so a flow that ended
 * before a time has an id below that time's smallest, which bounds the walk of the index
 * flow_ended. updated_at decides; it is in no index, so that transitions stay HOT. */
static const struct pg_stmt flows_ended = {
    .name = "flows_ended",
    .sql = "select :ord, " STORE_FLOW_REF "from @input lateral (select * from sluice.flow e "
           "where e.status in ('completed', 'failed', 'cancelled') and e.id < :below "
           "and e.updated_at < :before order by e.id limit 500) f",
    PG_TAKES(PG_ARG("before", PG_TIME), PG_ARG("below", PG_UUID)),
    PG_COLUMNS(store_flow_ref_columns),
    .no_account = "a read-only scan for what may go, over all accounts",
    .is_spread = true,
    .spread_max = FLOW_SCAN_MAX,
    .spread_order = "id",
};

/* By primary key, one row a flow, many in a batch. The scan was without a lock, so the conditions
 * are repeated: a failed flow may have been resumed since. Not as an equality of the status, which
 * would bring the index flow_ended into the plan. */
static const struct pg_stmt flow_remove = {
    .name = "flow_remove",
    .sql = "delete from sluice.flow t @delete(sluice.flow) "
           "and t.owner is null and t.status <> 'waiting' and t.updated_at < :before",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_UUID), PG_ARG("before", PG_TIME)),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

const struct pg_stmt *const flow_retention_stmts[] = {&flows_ended, &flow_remove, NULL};

void store_flow_ended(struct pg_pool *pool, struct pg_query *query, struct op *op, int64_t before)
{
    store_ask(pool, query, op, &flows_ended,
              PG_VALUES(pg_time(before), pg_uuid(uuid_v7_floor(before / 1000))));
}

void store_flow_remove(struct pg_pool *pool, struct pg_query *query, struct op *op,
                       const struct flow_ref *ref, int64_t before)
{
    store_ask(pool, query, op, &flow_remove,
              PG_VALUES(pg_uuid(ref->account_id), pg_uuid(ref->id), pg_time(before)));
}
