/*
 * Selects the pool that a query of a sharded database goes to: the coordinator's pool, the pool of
 * the node that has the account's shard, or none while that node is unknown. A query keeps its
 * deadline on the way.
 */
#include "shard/shards.h"

static void query_change_pool(struct pg_query *query, struct pg_pool *pool)
{
    ASSERT(query->pool->pending > 0);
    query->pool->pending--;
    query->pool = pool;
    pool->pending++;
    pg_pool_arm_sweep(pool);
}

/* Statements without an account, and those on tables that are copied everywhere, go to the
 * coordinator. */
struct pg_queue *shard_query_route(struct pg_query *query)
{
    struct pg_pool *pool = query->pool;
    const struct pg_stmt *stmt = query->stmt;
    unsigned at = pg_stmt_account_at(stmt);
    if (stmt->is_copied || at == PG_PARAMS_MAX)
        return pg_queue_of(pool, stmt);
    ASSERT(!query->params[at].is_null);
    struct shards *shards = shards_of(pool->router);
    const struct placement *placement = shards->placement;
    const struct shard *shard = placement ? placement_of(placement, query->params[at].as.uuid)
                                          : NULL;
    struct pg_pool *node = shard ? shards_pool(shards, shard) : NULL;
    if (!node) {
        shards_refresh(shards);
        return &pool->homeless;
    }
    query->shard_id = shard->id;
    query_change_pool(query, node);
    return pg_queue_of(node, stmt);
}

void shard_route_homeless(struct pg_pool *coordinator)
{
    /* Only as many as wait now: without a placement each goes back to the end of the queue. */
    for (size_t left = coordinator->homeless.count; left > 0; left--) {
        struct list *link = coordinator->homeless.queries.next;
        struct pg_query *query = LIST_ITEM(link, struct pg_query, link);
        pg_queue_unlink(query);
        struct pg_queue *queue = shard_query_route(query);
        if (pg_query_choose(query))
            pg_queue_push(queue, query);
        else
            pg_query_end(query, ERR_NOMEM);
    }
}

/* The number of attempts is limited: a shard that moves repeatedly must not hold its queries
 * forever. */
void shard_query_moved(struct pg_query *query)
{
    struct pg_pool *coordinator = query->pool->coordinator;
    /* The query is for a shard, not for an account; the scan that it belongs to is repeated
     * anyway. */
    bool is_part = pg_stmt_account_at(query->stmt) == PG_PARAMS_MAX;
    if (!coordinator->is_closing)
        shards_refresh(shards_of(coordinator->router));
    if (is_part || query->is_abandoned || query->attempts >= PG_ATTEMPTS_MAX ||
        coordinator->is_closing) {
        pg_query_end(query, ERR_BUSY);
        return;
    }
    query->attempts++;
    query->is_single = false;
    query->shard_id = 0;
    query_change_pool(query, coordinator);
    pg_queue_push_front(&coordinator->homeless, query);
}
