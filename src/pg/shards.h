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
#ifndef PG_SHARDS_H
#define PG_SHARDS_H

#include "pg/lane.h"
#include "pg/placement.h"

struct pg_shards;

/* The coordinator's pool outlives it; config is copied. NULL: out of memory. */
struct pg_shards *pg_shards_new(struct pg_pool *coordinator,
                                const struct pg_pool_config *config) MUST_CHECK;
/* Ends what waits; ends with the pools of the nodes. */
void pg_shards_free(struct pg_shards *shards);
/* NULL: the placement is not known yet. */
const struct pg_placement *pg_shards_placement(const struct pg_shards *shards);
/* The pool of a shard's node; NULL: none is known (pg_shards_moved keeps the query then). */
struct pg_pool *pg_shards_pool(const struct pg_shards *shards, const struct pg_shard *shard);
/* The placement is not what the database has: it is read again. */
void pg_shards_refresh(struct pg_shards *shards);
/* Whether the placement is known and a node can be asked: one that is down concerns its accounts.
 */
bool pg_shards_is_ready(const struct pg_shards *shards);

/* Queries of all nodes, waiting and in flight. */
size_t pg_shards_pending(const struct pg_shards *shards);
/* Those that wait. */
size_t pg_shards_waiting(const struct pg_shards *shards);

/* The commands that a batch on a node begins with. */
enum { PG_GUARD_COUNT = 2 };
extern const struct pg_stmt pg_guard_lock, pg_guard_check;

#endif
