/*
 * Nodes and their leases. A heartbeat is a HOT update of one narrow row.
 *
 * now() is the time at which the transaction began, by the database's clock. All leases are
 * compared with that clock, so the clocks of the nodes do not matter. A node counts its own lease
 * from before it sent the heartbeat, so its estimate is always too short.
 */
#include "store/node.h"

#include "base/map.h"
#include "store/internal.h"

#define NO_ACCOUNT "a process, not a tenant's; a table of the coordinator where sharded"

/* The id is new at each start, so a conflict can only be with this statement's own first
 * attempt. */
static const struct pg_stmt node_register = {
    .name = "node_register",
    .sql = "insert into sluice.node (node_id, name, started_at, lease_until) "
           "@row :node_id, :name, now(), now() + :lease_ms * interval '1 millisecond' @end "
           "on conflict do nothing",
    PG_TAKES(PG_ARG("node_id", PG_UUID), PG_ARG("name", PG_TEXT), PG_ARG("lease_ms", PG_I64)),
    .key_count = 1,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
    .no_account = NO_ACCOUNT,
};

/* "lease_until > now()" makes death final: a late node is not revived, because others may have
 * taken its flows. A replay extends the lease once more, which is harmless. */
static const struct pg_stmt node_heartbeat = {
    .name = "node_heartbeat",
    .sql = "update sluice.node t set lease_until = now() + :lease_ms * interval '1 millisecond' "
           "@update(sluice.node) and t.lease_until > now() returning :ord, now()",
    PG_TAKES(PG_ARG("node_id", PG_UUID), PG_ARG("lease_ms", PG_I64)),
    PG_GIVES(PG_ARG("now", PG_TIME)),
    .key_count = 1,
    .access = PG_WRITE,
    .no_account = NO_ACCOUNT,
};

/* least(): a lease that has already run out keeps its time. left_at records that the node
 * released its flows in order; later adoptions do not count as crashes. */
static const struct pg_stmt node_leave = {
    .name = "node_leave",
    .sql = "update sluice.node t set lease_until = least(t.lease_until, now()), left_at = now() "
           "@update(sluice.node)",
    PG_TAKES(PG_ARG("node_id", PG_UUID)),
    .key_count = 1,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
    .no_account = NO_ACCOUNT,
};

/* Returns an array, as text, of the nodes whose lease ran out before a time, or no row if there are
 * none. The oldest are first: a row without claims and flows is removed after an hour, so the limit
 * does not hide any row for a long time. */
#define NODES_BEFORE(columns, time)                                                            \
    "select :ord, " columns " from (select t.node_id, t.left_at is not null as has_left "      \
    "from sluice.node t where t.lease_until <= " time " order by t.lease_until limit 1000) n " \
    "having count(*) > 0"

/* Rows of other tables are found in a separate step, since those tables are spread over the
 * nodes of a sharded database and this table is not. Death is final, so nothing changes between
 * the two steps. */
#define DEAD_OF(name) PG_OF(#name, PG_TEXT, struct node_dead, name)
static const struct pg_stmt node_dead = {
    .name = "node_dead",
    .sql = NODES_BEFORE("array_agg(n.node_id order by n.node_id)::text, "
                        "array_agg(n.has_left order by n.node_id)::text",
                        "now()"),
    PG_GIVES(DEAD_OF(ids), DEAD_OF(left)),
    .no_account = NO_ACCOUNT,
};

/* A row is kept while claims or flows refer to it, because recovery finds them through it. The
 * hour is only for people who read the table. */
static const struct pg_stmt node_old = {
    .name = "node_old",
    .sql =
        NODES_BEFORE("array_agg(n.node_id order by n.node_id)::text", "now() - interval '1 hour'"),
    PG_GIVES(PG_ARG("ids", PG_TEXT)),
    .no_account = NO_ACCOUNT,
};

/* Both checks stop at the first entry of a partial index (idempotency_key_owner, flow_owner). */
static const struct pg_stmt node_owning = {
    .name = "node_owning",
    .sql = "select :ord, n.node_id from @input unnest((:ids)::uuid[]) n (node_id) "
           "where (select k.owner from sluice.idempotency_key k "
           "where k.owner = n.node_id and k.state = 'in_flight' limit 1) is not null "
           "or (select f.owner from sluice.flow f "
           "where f.owner = n.node_id and f.status = 'running' limit 1) is not null",
    PG_TAKES(PG_ARG("ids", PG_TEXT)),
    PG_GIVES(PG_ARG("node_id", PG_UUID)),
    .no_account = "a read-only scan for what old nodes own, over all accounts",
    .is_spread = true,
};

static const struct pg_stmt node_remove = {
    .name = "node_remove",
    .sql = "with gone as (select n.node_id from @input lateral (select unnest((:ids)::uuid[]) "
           "except select unnest((:owning)::uuid[])) n (node_id)) "
           "delete from sluice.node t where t.node_id in (select g.node_id from gone g)",
    PG_TAKES(PG_ARG("ids", PG_TEXT), PG_ARG("owning", PG_TEXT)),
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
    .no_account = NO_ACCOUNT,
};

const struct pg_stmt *const node_stmts[] = {
    &node_register, &node_heartbeat, &node_leave,  &node_dead,
    &node_old,      &node_owning,    &node_remove, NULL};

void store_node_register(STORE_ARGS, struct uuid node_id, slice name)
{
    store_ask(pool, query, op, &node_register,
              PG_VALUES(pg_uuid(node_id), pg_text_or_empty(name), pg_i64(NODE_LEASE_MS)));
}

void store_node_heartbeat(STORE_ARGS, struct uuid node_id)
{
    store_ask(pool, query, op, &node_heartbeat, PG_VALUES(pg_uuid(node_id), pg_i64(NODE_LEASE_MS)));
}

int store_node_heartbeat_result(const struct pg_query *query, int64_t *database_us)
{
    int status = store_hit_result(query);
    if (status == OK)
        *database_us = pg_get_time(&query->rows, 0, 0);
    return status;
}

STORE_CALL_ONE(store_node_leave, node_leave, struct uuid, pg_uuid)
STORE_CALL(store_node_dead, node_dead)

bool node_scan_is_due(struct node_scan *scan, const struct node_dead *dead, uint64_t now_ns)
{
    scan->asked =
        hash_bytes(dead->ids.ptr, dead->ids.len) + 3 * hash_bytes(dead->left.ptr, dead->left.len);
    return scan->asked != scan->clean || now_ns >= scan->until_ns;
}

void node_scan_end(struct node_scan *scan, const struct pg_query *query, size_t count,
                   uint64_t now_ns)
{
    bool is_clean = query->status == OK && !query->is_partial && count == 0;
    scan->clean = is_clean ? scan->asked : 0;
    scan->until_ns = now_ns + NODE_CLEAN_MS * 1000000ULL;
}

STORE_CALL(store_node_old, node_old)
STORE_CALL_ONE(store_node_owning, node_owning, slice, pg_text)

int store_node_owning_result(const struct pg_query *query, slice *ids)
{
    enum { ID_LEN = UUID_TEXT_LEN + 1 };
    /* A shard that did not answer may have rows of any of these nodes. */
    if (query->status != OK || query->is_partial)
        return query->status != OK ? query->status : ERR_BUSY;
    size_t count = query->rows.count;
    char *text = arena_alloc(&query->wait.op->arena, count * ID_LEN + 3);
    if (!text)
        return ERR_NOMEM;
    text[0] = '{';
    for (size_t i = 0; i < count; i++) {
        uuid_format(pg_get_uuid(&query->rows, i, 0), text + 1 + i * ID_LEN);
        text[(i + 1) * ID_LEN] = ',';
    }
    size_t len = count ? count * ID_LEN : 1;
    text[len] = '}';
    *ids = slice_of(text, len + 1);
    return OK;
}

void store_node_remove(STORE_ARGS, slice ids, slice owning)
{
    store_ask(pool, query, op, &node_remove, PG_VALUES(pg_text(ids), pg_text(owning)));
}
