/*
 * Nodes and their leases. A heartbeat is a HOT update of one narrow row.
 *
 * now() is the time at which the transaction began, by the database's clock. All leases are
 * compared with that clock, so the clocks of the nodes do not matter; a node counts its own lease
 * from before it sent the heartbeat, so it always believes to have less than it has.
 */
#include "store/node.h"

#include "store/internal.h"

#define NO_ACCOUNT "a process, not a tenant's; a reference table where sharded"

/* The id is new with each start, so a conflict is this statement's own first sending. */
static const struct pg_stmt node_register = {
    .name = "node_register",
    .sql = "insert into sluice.node (node_id, name, started_at, lease_until) "
           "@row :node_id, :name, now(), now() + :lease_ms * interval '1 millisecond' @end "
           "on conflict do nothing",
    PG_TAKES(PG_ARG("node_id", PG_UUID), PG_ARG("name", PG_TEXT), PG_ARG("lease_ms", PG_I64)),
    .key_count = 1,
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
    .no_account = NO_ACCOUNT,
};

/* "lease_until > now()" makes death final: a node that was late is not revived, because others may
 * have taken its flows. A replay prolongs the lease once more, which harms nothing. */
static const struct pg_stmt node_heartbeat = {
    .name = "node_heartbeat",
    .sql = "update sluice.node t set lease_until = now() + :lease_ms * interval '1 millisecond' "
           "@update(sluice.node) and t.lease_until > now() returning :ord",
    PG_TAKES(PG_ARG("node_id", PG_UUID), PG_ARG("lease_ms", PG_I64)),
    .key_count = 1,
    .is_write = true,
    .is_replayable = true,
    .no_account = NO_ACCOUNT,
};

/* least(): a lease that has run out is not moved to now. left_at records that the node gave up its
 * flows in order; adoptions after that do not count as crashes. */
static const struct pg_stmt node_leave = {
    .name = "node_leave",
    .sql = "update sluice.node t set lease_until = least(t.lease_until, now()), left_at = now() "
           "@update(sluice.node)",
    PG_TAKES(PG_ARG("node_id", PG_UUID)),
    .key_count = 1,
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
    .no_account = NO_ACCOUNT,
};

/* A row is kept while claims or flows name it: recovery finds them through it. Both checks stop at
 * the first entry of a partial index (idempotency_key_owner, flow_owner). The hour is only for
 * people who read the table. */
static const struct pg_stmt node_sweep = {
    .name = "node_sweep",
    .sql = "delete from sluice.node n where n.lease_until < now() - interval '1 hour' "
           "and (select k.owner from sluice.idempotency_key k "
           "where k.owner = n.node_id and k.state = 'in_flight' limit 1) is null "
           "and (select f.owner from sluice.flow f "
           "where f.owner = n.node_id and f.status = 'running' limit 1) is null",
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
    .no_account = NO_ACCOUNT,
};

const struct pg_stmt *const node_stmts[] = {&node_register, &node_heartbeat, &node_leave,
                                            &node_sweep, NULL};

void store_node_register(struct pg_pool *pool, struct pg_query *query, struct op *op,
                         struct uuid node_id, slice name)
{
    store_ask(pool, query, op, &node_register,
              PG_VALUES(pg_uuid(node_id), pg_text_or_empty(name), pg_i64(NODE_LEASE_MS)));
}

void store_node_heartbeat(struct pg_pool *pool, struct pg_query *query, struct op *op,
                          struct uuid node_id)
{
    store_ask(pool, query, op, &node_heartbeat, PG_VALUES(pg_uuid(node_id), pg_i64(NODE_LEASE_MS)));
}

void store_node_leave(struct pg_pool *pool, struct pg_query *query, struct op *op,
                      struct uuid node_id)
{
    store_ask(pool, query, op, &node_leave, PG_VALUES(pg_uuid(node_id)));
}

void store_node_sweep(struct pg_pool *pool, struct pg_query *query, struct op *op)
{
    store_submit(pool, query, op, &node_sweep);
}
