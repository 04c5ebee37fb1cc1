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

/* The condition on the key is that of the index (hold_call.c). */
static const struct pg_stmt hold_of_flow = {
    .name = "hold_of_flow",
    .sql = "select :ord, h.execution_id, e.is_stored is not null "
           "from @input lateral (select * from sluice.hold x where x.account_id = :account_id "
           "and x.flow_id = :flow_id and x.key <> '' offset 0) h "
           "left join lateral (select true as is_stored from sluice.execution x "
           "where x.account_id = h.account_id and x.id = h.execution_id offset 0) e on true",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("flow_id", PG_UUID)),
    PG_GIVES(PG_OF("execution_id", PG_UUID, struct hold_of_flow, execution_id),
             PG_OF("has_record", PG_BOOL, struct hold_of_flow, has_record)),
    .key_count = 2,
};

#define OF(name, type) PG_OF(#name, type, struct hold_ended, name)
#define ENDED_COLUMNS  OF(account_id, PG_UUID), OF(key, PG_TEXT), OF(flow_id, PG_UUID)
/* Walks hold_age. Open holds are passed over, at most 10,000 at a time. */
/* clang-format off */
#define MADE "created_at at time zone 'UTC'"
static const struct pg_stmt holds_ended = {
    .name = "holds_ended",
    .sql = "select :ord, c.* from @input lateral (with walked as materialized (select * from "
           "sluice.hold o where o." MADE " >= coalesce(:after, '-infinity') at time zone 'UTC' "
           "order by o." MADE " limit 10000), ended as materialized (select * from walked h where not "
           STORE_HOLD_IS_KEPT("h") " limit 500), counts as (select (select count(*) from walked) = "
           "10000 as is_cut, (select count(*) from ended) = 500 as is_full) "
           "select e.account_id, e.key, e.flow_id, null::timestamptz from ended e union all "
           "(select s.account_id, s.key, s.flow_id, case when n.is_full then :after "
           "else s.created_at end from walked s, counts n where n.is_cut or n.is_full "
           "order by s.created_at desc limit 1)) c",
    PG_TAKES(PG_ARG("after", PG_TIME)),
    PG_GIVES(ENDED_COLUMNS, OF(passed_until, PG_TIME)),
    .no_account = "a read-only scan for what is due, over all accounts",
    .is_spread = true,
};
/* clang-format on */

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

const struct pg_stmt *const hold_stmts[] = {&hold_find, &hold_of_flow, &holds_ended, &hold_remove,
                                            NULL};

STORE_CALL_ID(store_hold_find, hold_find, slice, pg_text)
STORE_CALL_ID(store_hold_of_flow, hold_of_flow, struct uuid, pg_uuid)
STORE_CALL_ONE(store_holds_ended, holds_ended, int64_t, pg_time)

STORE_CALL_OF(store_hold_remove, hold_remove, hold_ended)
