/*
 * Takes flows without a running owner, ends flows on request, and scans for both. A scan reads
 * without locks; each flow that it finds is then taken by a separate statement with a fence, so any
 * number of nodes may scan at the same time, and only one of them gets the flow.
 */
#include "store/flow.h"
#include "store/internal.h"
#include "store/node.h"

/* The result of a statement here: the row as it made it, or as an earlier attempt of the same
 * statement did (recognized by its token). The second half reads the snapshot from before the
 * statement, so at most one of the halves has the row. */
#define ROW_NOW_OF(now, before)                                   \
    "select t.ord, " STORE_FLOW_ROW now                           \
    " from moved t union all select :ord, " STORE_FLOW_ROW before \
    " @read(sluice.flow) and t.op_token = :op_token"
#define ROW_NOW ROW_NOW_OF("", "")
/* With the column has_event. */
#define ROW_NOW_EVENT ROW_NOW_OF(", " STORE_HAS_EVENT("t.event_id"), ", false")
#define EVENT_COLUMNS ", t.title, " STORE_FLOW_EVENT_TEXTS
static const struct pg_column event_row_columns[] = {STORE_FLOW_ROW_COLUMNS,
                                                     STORE_HAS_EVENT_COLUMN};

/* rev = 0 means any revision. A waiting flow is recognized by waiting_for, a running one by owner,
 * not by the status: otherwise the planner would consider the partial indexes on it for a walk
 * (pg/stmt.c). */
#define FENCED "and (:rev = 0 or t.rev = :rev) "

/* wake_at has two meanings (flow.h): the time for timers, and the fence of a decision. */
#define DUE              "t.wake_at <= now()"
#define APPROVAL_IS_OPEN "(t.wake_at is null or t.wake_at > now())"

#define RUNS_AGAIN                                                                \
    "status = 'running', owner = :owner, rev = t.rev + 1, op_token = :op_token, " \
    "waiting_for = null, updated_at = :now"

#define TAKE_OF(name, type) PG_OF(#name, type, struct flow_take, name)

/* A failed flow's deadline may be why it failed. With that deadline a resumed flow would fail
 * again at once, so a passed deadline is removed. */
static const struct pg_stmt flow_take_resume = {
    .name = "flow_take_resume",
    .sql = "with moved as (update sluice.flow t set " RUNS_AGAIN ", is_begun = false, "
           "adoptions = 0, "
           "deadline = case when t.status = 'failed' and t.deadline <= now() then null "
           "else t.deadline end "
           "@update(sluice.flow) " FENCED "and (t.status = 'failed' "
           "or (t.waiting_for is not null and " DUE ")) "
           "returning :ord as ord, " STORE_FLOW_ROW ") " ROW_NOW,
    PG_TAKES(TAKE_OF(account_id, PG_UUID), TAKE_OF(id, PG_UUID), TAKE_OF(owner, PG_UUID),
             TAKE_OF(op_token, PG_UUID), TAKE_OF(rev, PG_I64), TAKE_OF(now, PG_TIME)),
    PG_COLUMNS(store_flow_columns),
    .key_count = 2,
    .access = PG_WRITE,
};

/* The state before this statement: `t` is the new row, while a subquery sees the old row. */
#define BEFORE(column)                         \
    "(select o." column " from sluice.flow o " \
    "where o.account_id = t.account_id and o.id = t.id)"

#define WAITING_INPUT                                 \
    "(select d.waiting_input from sluice.flow_doc d " \
    "where d.account_id = m.account_id and d.flow_id = m.id)"

/* Inserts the row of the approval's attempt. The attempt began when the flow was parked, which is
 * the row's previous updated_at. "do nothing" is for the replay; then `moved` is empty anyway. */
#define END_APPROVAL(status, output, error)                                              \
    "ended as (insert into sluice.flow_step (account_id, flow_id, step_index, attempt, " \
    "status, started_at, finished_at, input, output, error, integration_id, action_id) " \
    "select m.account_id, m.id, m.step_index, m.attempt, " status ", m.parked_at, "      \
    "m.updated_at, " WAITING_INPUT ", " output ", " error                                \
    ", '', '' from moved m on conflict do nothing) "

#define WAITS_FOR_APPROVAL                                         \
    FENCED "and t.waiting_for = 'approval' "                       \
           "and (:step_index = -1 or t.step_index = :step_index) " \
           "and " APPROVAL_IS_OPEN " "

static const struct pg_stmt flow_take_approve = {
    .name = "flow_take_approve",
    .sql = "with moved as (update sluice.flow t set " RUNS_AGAIN ", adoptions = 0 "
           "@update(sluice.flow) " WAITS_FOR_APPROVAL
           "returning :ord as ord, " STORE_FLOW_ROW EVENT_COLUMNS
           ", " BEFORE("updated_at") " as parked_at, :output as output), " END_APPROVAL(
               "'completed'", "m.output",
               "null::json") ", " STORE_FLOW_OUTBOX_OF("'flow.approved'", "moved") ROW_NOW_EVENT,
    PG_TAKES(TAKE_OF(account_id, PG_UUID), TAKE_OF(id, PG_UUID), TAKE_OF(owner, PG_UUID),
             TAKE_OF(op_token, PG_UUID), TAKE_OF(rev, PG_I64), TAKE_OF(now, PG_TIME),
             TAKE_OF(step_index, PG_I64), TAKE_OF(output, PG_JSON),
             STORE_FLOW_EVENT_OF(flow_take, event)),
    PG_COLUMNS(event_row_columns),
    .key_count = 2,
    .access = PG_WRITE,
};

#define REJECT_OF(name, type) PG_OF(#name, type, struct flow_reject, name)
static const struct pg_stmt flow_reject = {
    .name = "flow_reject",
    .sql = "with moved as (update sluice.flow t set status = 'cancelled', rev = t.rev + 1, "
           "op_token = :op_token, waiting_for = null, updated_at = :now "
           "@update(sluice.flow) " WAITS_FOR_APPROVAL
           "returning :ord as ord, " STORE_FLOW_ROW EVENT_COLUMNS
           ", " BEFORE("updated_at") " as parked_at, :error as error), " END_APPROVAL(
               "'failed'", "null::json",
               "m.error") ", " STORE_FLOW_OUTBOX_OF("'flow.cancelled'", "moved") ROW_NOW_EVENT,
    PG_TAKES(REJECT_OF(account_id, PG_UUID), REJECT_OF(id, PG_UUID), REJECT_OF(op_token, PG_UUID),
             REJECT_OF(rev, PG_I64), REJECT_OF(now, PG_TIME), REJECT_OF(step_index, PG_I64),
             REJECT_OF(error, PG_JSON), STORE_FLOW_EVENT_OF(flow_reject, event)),
    PG_COLUMNS(event_row_columns),
    .key_count = 2,
    .access = PG_WRITE,
};

/* The dead owner is the fence: a node whose lease has run out never renews it (store/node.c), so no
 * other node can have taken a flow that still has this owner. is_begun stays: the new owner has to
 * know that the call may have reached the provider. */
static const struct pg_stmt flow_take_adopt = {
    .name = "flow_take_adopt",
    .sql = "with moved as (update sluice.flow t set " RUNS_AGAIN ", adoptions = t.adoptions + "
           "(case when :has_left then 0 else 1 end) "
           "@update(sluice.flow) " FENCED "and t.owner is not distinct from :dead_owner "
           "returning :ord as ord, " STORE_FLOW_ROW ") " ROW_NOW,
    PG_TAKES(TAKE_OF(account_id, PG_UUID), TAKE_OF(id, PG_UUID), TAKE_OF(owner, PG_UUID),
             TAKE_OF(op_token, PG_UUID), TAKE_OF(rev, PG_I64), TAKE_OF(now, PG_TIME),
             TAKE_OF(dead_owner, PG_UUID), TAKE_OF(has_left, PG_BOOL)),
    PG_COLUMNS(store_flow_columns),
    .key_count = 2,
    .access = PG_WRITE,
};

void store_flow_take(STORE_ARGS, const struct flow_take *take)
{
    static const struct pg_stmt *const stmts[] = {
        [FLOW_TAKE_RESUME] = &flow_take_resume,
        [FLOW_TAKE_APPROVE] = &flow_take_approve,
        [FLOW_TAKE_ADOPT] = &flow_take_adopt,
    };
    store_ask_of(pool, query, op, stmts[take->kind], take, PG_NO_VALUES);
}

STORE_CALL_OF(store_flow_reject, flow_reject, flow_reject)

/* ---- cancel ---- */

/* NULL means "was cancelled already" in that column, so "had no owner" is the nil uuid. */
#define NO_OWNER "'00000000-0000-0000-0000-000000000000'::uuid"
/* The status is the only fence: a person's cancel wins over the owner, whose next transition then
 * fails its own fence. The second half returns a flow that was cancelled before, by an earlier
 * attempt or by another request. coalesce keeps the planner from using the partial indexes on
 * status. */
#define NO_TEXTS                                                                                  \
    ", null::text as event_step, null::text as event_error, null::text as event_url, null::text " \
    "as event_by"
static const struct pg_stmt flow_cancel = {
    .name = "flow_cancel",
    .sql = "with moved as (update sluice.flow t set status = 'cancelled', rev = t.rev + 1, "
           "op_token = :op_token, owner = null, waiting_for = null, updated_at = :now "
           "@update(sluice.flow) and t.status <> 'cancelled' "
           "returning :ord as ord, " STORE_FLOW_ROW ", coalesce(" BEFORE(
               "owner") ", " NO_OWNER
                        ") as was_owned_by, t.title, :event_id as event_id), " STORE_FLOW_OUTBOX(
                            "'flow.cancelled'", "c.event_id" NO_TEXTS,
                            "moved c where c.event_id is not null",
                            " on conflict do nothing") "select t.ord, " STORE_FLOW_ROW
                                                       ", t.was_owned_by, " STORE_HAS_EVENT(
                                                           "t.event_id") " from moved t union all "
                                                                         "select "
                                                                         ":ord, " STORE_FLOW_ROW
                                                                         ", null::uuid, false "
                                                                         "@read(sluice.flow) and "
                                                                         "coalesce(t.status, '') = "
                                                                         "'cancelled'",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_UUID), PG_ARG("op_token", PG_UUID),
             PG_ARG("now", PG_TIME), PG_ARG("event_id", PG_UUID)),
    PG_GIVES(STORE_FLOW_ROW_COLUMNS, PG_ARG("was_owned_by", PG_UUID), STORE_HAS_EVENT_COLUMN),
    .key_count = 2,
    .access = PG_WRITE,
};

void store_flow_cancel(STORE_ARGS, struct uuid account_id, struct uuid id, struct uuid op_token,
                       int64_t now, struct uuid event_id)
{
    store_ask(pool, query, op, &flow_cancel,
              PG_VALUES(pg_uuid(account_id), pg_uuid(id), pg_uuid(op_token), pg_time(now),
                        pg_uuid(event_id)));
}

int store_flow_cancel_result(const struct pg_query *query, struct flow *flow,
                             struct uuid *was_owned_by, bool *was_cancelled)
{
    int status = store_flow_take_result(query, flow);
    if (status != OK)
        return status;
    *was_owned_by = pg_get_uuid(&query->rows, 0, STORE_FLOW_COLUMNS);
    *was_cancelled = pg_is_null(&query->rows, 0, STORE_FLOW_COLUMNS);
    return OK;
}

/* ---- scans ---- */

#define REF_OF(name, type) PG_OF(#name, type, struct flow_ref, name)
#define REF_COLUMNS                                                                                \
    REF_OF(account_id, PG_UUID), REF_OF(id, PG_UUID), REF_OF(owner, PG_UUID), REF_OF(rev, PG_I64), \
        REF_OF(wake_at, PG_TIME), REF_OF(adoptions, PG_I64), REF_OF(parent_id, PG_UUID)
const struct pg_column store_flow_ref_columns[STORE_FLOW_REF_COLUMNS] = {REF_COLUMNS};

/* Few nodes are dead at a time; the flows of each are found by the partial index flow_owner.
 * Both limits are 500, so one node with many flows does not make the scan long. */
static const struct pg_stmt flow_orphans = {
    .name = "flow_orphans",
    .sql = "select :ord, " STORE_FLOW_REF
           ", f.has_left from @input lateral (select r.*, n.has_left "
           "from unnest((:nodes)::uuid[], (:lefts)::boolean[]) n (node_id, has_left) "
           "cross join lateral (select * from sluice.flow o where o.status = 'running' "
           "and o.owner = n.node_id limit 500) r limit 500) f",
    PG_TAKES(PG_ARG("nodes", PG_TEXT), PG_ARG("lefts", PG_TEXT)),
    PG_GIVES(REF_COLUMNS, REF_OF(has_left, PG_BOOL)),
    .no_account = "a read-only scan for what dead nodes left, over all accounts",
    .is_spread = true,
    .spread_max = FLOW_SCAN_MAX,
};

/* Uses the index flow_owner; updated_at is a filter on a node's own flows. */
static const struct pg_stmt flow_owned = {
    .name = "flow_owned",
    .sql = "select :ord, " STORE_FLOW_REF "from @input lateral (select * from sluice.flow o "
           "where o.status = 'running' and o.owner = :owner and o.updated_at < :before offset 0) f",
    PG_TAKES(PG_ARG("owner", PG_UUID), PG_ARG("before", PG_TIME)),
    PG_COLUMNS(store_flow_ref_columns),
    .no_account = "a read-only scan of a node's own flows, over all accounts",
    .is_spread = true,
};

/* Uses the index flow_due alone, which has flows with a time and flows without. The limits keep the
 * scan short however many have accumulated (on each shard, if there are shards). */
static const struct pg_stmt flow_waiting = {
    .name = "flow_waiting",
    .sql = "select :ord, count(*) from ((select w.id from sluice.flow w where w.status = 'waiting' "
           "and w.wake_at > '-infinity' order by w.wake_at, w.id limit 10000) union all "
           "(select w.id from sluice.flow w where w.status = 'waiting' and w.wake_at is null "
           "order by w.wake_at, w.id limit 10000)) f",
    PG_GIVES(PG_ARG("count", PG_I64)),
    .no_account = "a number for operators, over all accounts",
    .is_spread = true,
};

const struct pg_stmt *const flow_take_stmts[] = {
    &flow_take_resume, &flow_take_approve, &flow_take_adopt, &flow_reject, &flow_cancel,
    &flow_orphans,     &flow_owned,        &flow_waiting,    NULL};

void store_flow_orphans(STORE_ARGS, const struct node_dead *dead)
{
    store_ask(pool, query, op, &flow_orphans, PG_VALUES(pg_text(dead->ids), pg_text(dead->left)));
}

STORE_CALL_ID(store_flow_owned, flow_owned, int64_t, pg_time)
STORE_CALL(store_flow_waiting, flow_waiting)

int store_flow_waiting_result(const struct pg_query *query, size_t *count)
{
    *count = 0;
    for (size_t i = 0; query->status == OK && i < query->rows.count; i++)
        *count += (size_t)pg_get_i64(&query->rows, i, 0);
    return query->status;
}
