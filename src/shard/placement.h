/*
 * Where a database that Citus distributes has the rows of an account: on which node, and in the
 * tables of which shard. An immutable snapshot of Citus' catalogs.
 *
 * All tables are distributed by account_id and colocated, so an account's rows are in the shards of
 * one index, on one node. A shard is named by the id of its part of sluice.connection, which stays
 * the same when it moves. Reference tables, of which each node has a copy, have one shard, whose id
 * is the same everywhere.
 */
#ifndef SHARD_PLACEMENT_H
#define SHARD_PLACEMENT_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "pg/pg.h"

enum { PLACEMENT_SHARDS_MAX = 1024, PLACEMENT_NODES_MAX = 64 };

struct shard {
    int64_t id;
    int64_t group; /* the group of the node that has it (pg_dist_node.groupid) */
    int32_t hash_min, hash_max;
    size_t index;
};

struct placement_node {
    int64_t group;
    slice host;
    int64_t port;
};

struct placement {
    struct arena arena;
    struct shard *shards; /* by hash_min */
    size_t shard_count;
    struct placement_node *nodes;
    size_t node_count;
    struct map tables; /* name -> struct shard_table */
};

/* The queries that a placement is built from, sent to the coordinator. */
extern const struct pg_stmt placement_nodes, placement_shards;

/* Builds a placement from the results of both. Returns NULL on failure: err says what is wrong with
 * the results (ERR_INVALID: `sluice migrate --citus` has not distributed this database) or has
 * ERR_NOMEM. */
struct placement *placement_new(const struct pg_rows *nodes, const struct pg_rows *shards,
                                struct err *err) MUST_CHECK;
void placement_free(struct placement *placement);
const struct shard *placement_of(const struct placement *placement, struct uuid account);
/* Returns NULL if the shard no longer exists. */
const struct shard *placement_by_id(const struct placement *placement, int64_t id);
/* Appends the SQL with the tables' names replaced by those of the shard's tables. */
void placement_rename(const struct placement *placement, const struct shard *shard, slice sql,
                      struct buf *out);
/* Returns the hash by which PostgreSQL distributes a uuid: hash_bytes() of its 16 bytes. */
int32_t placement_hash(struct uuid id);

#endif
