/*
 * Housekeeping of flows. Flows that ended long ago are removed; their documents and steps are
 * dropped with their partitions, once no flow is left in their range (sql/0002_flows.sql). Steps
 * that do not name their call are filled in.
 */
#include "store/flow.h"
#include "store/internal.h"

/* An id begins with the time of its creation, and a flow ends after that. So a flow that ended
 * before a time has an id below the smallest id of that time, which limits the walk of the
 * flow_ended index. updated_at decides; it is not indexed, so that transitions stay HOT. */
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

/* Removes by primary key, one row per flow, many in a batch. The scan took no lock, so the
 * conditions are repeated: a failed flow may have been resumed since. The status is not compared by
 * equality, which would bring the index flow_ended into the plan. */
static const struct pg_stmt flow_remove = {
    .name = "flow_remove",
    .sql = "delete from sluice.flow t @delete(sluice.flow) "
           "and t.owner is null and t.status <> 'waiting' and t.updated_at < :before",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_UUID), PG_ARG("before", PG_TIME)),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

/* Uses the index flow_step_unfilled; the youngest steps come first. */
#define OF_STEP(name, type, ...) PG_OF(#name, type, struct flow_step_unfilled, name, __VA_ARGS__)
static const struct pg_stmt flow_steps_unfilled = {
    .name = "flow_steps_unfilled",
    .sql = "select :ord, s.account_id, s.flow_id, s.step_index, s.attempt, "
           "(select v.body->'steps'->s.step_index::integer->>'tool' from sluice.flow f join "
           "sluice.flow_template v on v.version = f.template_version where "
           "f.account_id = s.account_id and f.id = s.flow_id) as tool from "
           "(select x.account_id, x.flow_id, x.step_index, x.attempt from sluice.flow_step x "
           "where x.integration_id is null order by x.flow_id desc limit 500) s",
    PG_GIVES(OF_STEP(account_id, PG_UUID), OF_STEP(flow_id, PG_UUID), OF_STEP(step_index, PG_I64),
             OF_STEP(attempt, PG_I64), OF_STEP(tool, PG_TEXT)),
    .no_account = "a read-only scan for what is to be filled in, over all accounts",
    .is_spread = true,
    .spread_max = FLOW_SCAN_MAX,
};

/* Another process may have filled in the step first. The condition is not "is null", which would
 * bring the index flow_step_unfilled into the plan. */
static const struct pg_stmt flow_step_fill = {
    .name = "flow_step_fill",
    .sql = "update sluice.flow_step t set integration_id = :integration_id, "
           "action_id = :action_id, api_key_id = (select case when d.actor ~ "
           "'^key:[0-9a-f-]{36}$' then substr(d.actor, 5)::uuid end from sluice.flow_doc d "
           "where d.account_id = :account_id and d.flow_id = :flow_id) "
           "@update(sluice.flow_step) and coalesce(t.integration_id, '-') = '-'",
    PG_TAKES(OF_STEP(account_id, PG_UUID), OF_STEP(flow_id, PG_UUID), OF_STEP(step_index, PG_I64),
             OF_STEP(attempt, PG_I64), OF_STEP(integration_id, PG_TEXT),
             OF_STEP(action_id, PG_TEXT)),
    .key_count = 4,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

const struct pg_stmt *const flow_retention_stmts[] = {&flows_ended, &flow_remove,
                                                      &flow_steps_unfilled, &flow_step_fill, NULL};

STORE_CALL(store_flow_steps_unfilled, flow_steps_unfilled)
STORE_CALL_OF(store_flow_step_fill, flow_step_fill, flow_step_unfilled)

void store_flow_ended(STORE_ARGS, int64_t before)
{
    store_ask(pool, query, op, &flows_ended,
              PG_VALUES(pg_time(before), pg_uuid(uuid_v7_floor(before / 1000))));
}

void store_flow_remove(STORE_ARGS, const struct flow_ref *ref, int64_t before)
{
    store_ask(pool, query, op, &flow_remove,
              PG_VALUES(pg_uuid(ref->account_id), pg_uuid(ref->id), pg_time(before)));
}
