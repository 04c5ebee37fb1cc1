/*
 * Flows that ended long ago. Their documents and steps go with their partitions, which are dropped
 * once no flow is left in their range (sql/0002_flows.sql).
 */
#include "store/flow.h"
#include "store/internal.h"

/* An id begins with the time of its creation, and a flow ends after that: so a flow that ended
 * before a time has an id below that time's smallest, which bounds the walk of the index
 * flow_ended. updated_at decides; it is in no index, so that transitions stay HOT. */
static const struct pg_column ended_params[] = {{"before", PG_TIME}, {"below", PG_UUID}};
static const struct pg_column ref_columns[] = {
    {"account_id", PG_UUID}, {"id", PG_UUID},      {"owner", PG_UUID},
    {"rev", PG_I64},         {"wake_at", PG_TIME}, {"adoptions", PG_I64},
};
static const struct pg_stmt flows_ended = {
    .name = "flows_ended",
    .sql = "select :ord, f.account_id, f.id, f.owner, f.rev, f.wake_at, f.adoptions "
           "from @input lateral (select * from sluice.flow e "
           "where e.status in ('completed', 'failed', 'cancelled') and e.id < :below "
           "and e.updated_at < :before order by e.id limit 500) f",
    PG_PARAMS(ended_params),
    PG_COLUMNS(ref_columns),
    .no_account = "a read-only scan for what may go, over all accounts",
};

static const struct pg_column remove_params[] = {
    {"account_id", PG_UUID}, {"id", PG_UUID}, {"before", PG_TIME}};
/* By primary key, one row a flow, many in a batch. The scan was without a lock, so the conditions
 * are repeated: a failed flow may have been resumed since. Not as an equality of the status, which
 * would bring the index flow_ended into the plan. */
static const struct pg_stmt flow_remove = {
    .name = "flow_remove",
    .sql = "delete from sluice.flow t @delete(sluice.flow) "
           "and t.owner is null and t.status <> 'waiting' and t.updated_at < :before",
    PG_PARAMS(remove_params),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
};

const struct pg_stmt *const flow_retention_stmts[] = {&flows_ended, &flow_remove, NULL};

void store_flow_ended(struct pg_pool *pool, struct pg_query *query, struct op *op, int64_t before)
{
    query->params[0] = pg_time(before);
    query->params[1] = pg_uuid(uuid_v7_floor(before / 1000));
    store_submit(pool, query, op, &flows_ended);
}

int store_flow_ended_result(const struct pg_query *query, struct flow_ref **list, size_t *count)
{
    return store_flow_scan_result(query, list, count);
}

void store_flow_remove(struct pg_pool *pool, struct pg_query *query, struct op *op,
                       const struct flow_ref *ref, int64_t before)
{
    query->params[0] = pg_uuid(ref->account_id);
    query->params[1] = pg_uuid(ref->id);
    query->params[2] = pg_time(before);
    store_submit(pool, query, op, &flow_remove);
}
