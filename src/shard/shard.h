/*
 * shard: a database that Citus distributes, used as one pool (src/README.md "The database").
 */
#ifndef SHARD_SHARD_H
#define SHARD_SHARD_H

#include "pg/pg.h"

/* As pg_pool_new, for the cluster whose coordinator is in config (is_sharded): queries of an
 * account go to the node that has its rows. Ended by pg_pool_free, like any pool. */
struct pg_pool *shard_pool_new(struct loop *loop, const struct pg_pool_config *config,
                               struct err *err) MUST_CHECK;

#endif
