/*
 * A pool for each node of a database that Citus distributes: each query goes to the node that has
 * its account's rows, and names the account's shard tables there, which are ordinary tables of that
 * node. So it is planned, batched and committed as on a single PostgreSQL.
 *
 * Citus may move a shard at any time. Each batch therefore begins as in Citus' own executor: it
 * locks the metadata of its shards (lock_shard_metadata, share mode), which a move waits for before
 * it switches over, and then checks that they are still on this node. If not, nothing was done, and
 * its queries go to the shards' new nodes. Internal to src/shard.
 */
#ifndef SHARD_SHARDS_H
#define SHARD_SHARDS_H

#include "pg/lane.h"
#include "shard/placement.h"
#include "shard/shard.h"

struct shards {
    struct pg_router router; /* router of the coordinator's pool */
    struct pg_pool *coordinator;
    struct pg_pool_config config;
    char *conninfo, *application_name;
    struct placement *placement; /* NULL: unknown */
    struct shards_node {
        int64_t group;
        struct pg_pool *pool;
    } nodes[PLACEMENT_NODES_MAX];
    size_t node_count;
    struct shards_load *load; /* NULL if no load is under way */
    bool is_outdated;         /* another reading was requested while one is under way */
    struct list spreads;      /* the spreads under way (struct spread) */
};

static inline struct shards *shards_of(const struct pg_router *router)
{
    return CONTAINER_OF((struct pg_router *)router, struct shards, router);
}

/* Returns the pool of a shard's node, or NULL if the node is unknown (moved then keeps the
 * query). */
struct pg_pool *shards_pool(const struct shards *shards, const struct shard *shard);
/* Reports that the placement differs from the database, so that it is read again. */
void shards_refresh(struct shards *shards);

/* Defined in route.c, for the router. */
struct pg_queue *shard_query_route(struct pg_query *query);
void shard_query_moved(struct pg_query *query);
/* The placement was read: queries that waited for it go to their nodes. */
void shard_route_homeless(struct pg_pool *coordinator);

/* Defined in spread.c, for the router. */
bool spread_start(struct pg_router *router, struct pg_query *query, struct op *op) MUST_CHECK;
/* Ends all queries under way with ERR_BUSY. */
void spread_end_all(struct shards *shards);

#endif
