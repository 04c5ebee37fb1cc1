/*
 * A pool for each node of a database that Citus distributes: each query goes to the node that has
 * its account's rows, and names the tables of the account's shard there, as that node's own tables.
 * So it is planned, batched and committed as on a PostgreSQL that stands alone.
 *
 * Citus may move a shard meanwhile. Each batch therefore begins with what Citus' own executor does:
 * it locks the metadata of its shards (lock_shard_metadata, share mode), which a move waits for
 * before it switches over, and then checks that they are still here. If not, nothing was done, and
 * its queries go where the shards are now. For the files of this room.
 */
#ifndef SHARD_SHARDS_H
#define SHARD_SHARDS_H

#include "pg/lane.h"
#include "shard/placement.h"

struct pg_shards {
    struct pg_router router; /* the coordinator's */
    struct pg_pool *coordinator;
    struct pg_pool_config config;
    char *conninfo, *application_name;
    struct pg_placement *placement; /* NULL: not known yet */
    struct pg_shards_node {
        int64_t group;
        struct pg_pool *pool;
    } nodes[PG_NODES_MAX];
    size_t node_count;
    struct pg_shards_load *load; /* NULL: none is under way */
    bool is_outdated;            /* asked for while one is under way */
    struct list spreads;         /* struct pg_spread, under way */
};

static inline struct pg_shards *pg_shards_of(const struct pg_router *router)
{
    return CONTAINER_OF((struct pg_router *)router, struct pg_shards, router);
}

/* The pool of a cluster whose coordinator config names; as pg_pool_new, which makes its parts. */
struct pg_pool *pg_shards_pool_new(struct loop *loop, const struct pg_pool_config *config,
                                   struct err *err) MUST_CHECK;
/* The pool of a shard's node; NULL: none is known (moved keeps the query then). */
struct pg_pool *pg_shards_pool(const struct pg_shards *shards, const struct pg_shard *shard);
/* The placement is not what the database has: it is read again. */
void pg_shards_refresh(struct pg_shards *shards);

/* route.c, for the router. */
struct pg_queue *pg_query_route(struct pg_query *query);
void pg_query_moved(struct pg_query *query);
/* The placement was read: queries that waited for it go to their nodes. */
void pg_route_homeless(struct pg_pool *coordinator);

/* spread.c, likewise. */
bool pg_spread_start(struct pg_router *router, struct pg_query *query, struct op *op) MUST_CHECK;
/* Ends the queries of all that are under way with ERR_BUSY. */
void pg_spread_end_all(struct pg_shards *shards);

#endif
