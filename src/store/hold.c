/*
 * Holds: rows of sluice.hold, by the primary key (account_id, key). They are made in store/flow.c,
 * together with their flows.
 */
#include "store/hold.h"

#include "store/internal.h"

/* OFFSET 0 pins the plan, a look-up of each table by its key (pg/stmt.c). */
/* clang-format off */
static const struct pg_stmt hold_find = {
    .name = "hold_find",
    .sql = "select :ord, " STORE_HOLD_ROW("t") ", f.is_open, e.status is not null, e.failure "
           "from @input lateral (select * from sluice.hold k "
           "where k.account_id = :account_id and k.key = :key offset 0) t "
           "join lateral (select x.owner is not null or x.waiting_for is not null as is_open "
           "from sluice.flow x "
           "where x.account_id = t.account_id and x.id = t.flow_id offset 0) f on true "
           "left join lateral (select x.status, case when x.status = 'failed' then "
           STORE_SUMMARY_INLINE("x") " end as failure from sluice.execution x "
           "where x.account_id = t.account_id and x.id = t.execution_id offset 0) e on true "
           "where " STORE_HOLD_IS_KEPT("t"),
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("key", PG_TEXT)),
    PG_GIVES(STORE_HOLD_OF(hold_found, hold.),
             PG_OF("is_open", PG_BOOL, struct hold_found, is_open),
             PG_OF("has_record", PG_BOOL, struct hold_found, has_record),
             PG_OF("failure", PG_TEXT, struct hold_found, failure)),
    .key_count = 2,
};
/* clang-format on */

#define OF(name, type) PG_OF(#name, type, struct hold_ended, name)
#define ENDED_COLUMNS  OF(account_id, PG_UUID), OF(key, PG_TEXT), OF(flow_id, PG_UUID)
/* The oldest come first, through hold_age. Open holds among them may hide ended ones for some time,
 * which does no harm: their keys are free. */
static const struct pg_stmt holds_ended = {
    .name = "holds_ended",
    .sql = "select :ord, h.account_id, h.key, h.flow_id from (select * from sluice.hold o "
           "order by o.created_at at time zone 'UTC' limit 10000) h where not " STORE_HOLD_IS_KEPT(
               "h") " limit 500",
    PG_GIVES(ENDED_COLUMNS),
    .no_account = "a read-only scan for what is due, over all accounts",
    .is_spread = true,
    .spread_max = HOLDS_ENDED_MAX,
};

/* The flow is the fence: a key that was taken since the scan has another. A flow that a person has
 * resumed is not in the scan's snapshot, hence the condition. */
static const struct pg_stmt hold_remove = {
    .name = "hold_remove",
    .sql = "delete from sluice.hold t @delete(sluice.hold) and t.flow_id = :flow_id "
           "and not " STORE_HOLD_IS_KEPT("t"),
    PG_TAKES(ENDED_COLUMNS),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

const struct pg_stmt *const hold_stmts[] = {&hold_find, &holds_ended, &hold_remove, NULL};

STORE_CALL_ID(store_hold_find, hold_find, slice, pg_text)

STORE_CALL(store_holds_ended, holds_ended)

STORE_CALL_OF(store_hold_remove, hold_remove, hold_ended)
