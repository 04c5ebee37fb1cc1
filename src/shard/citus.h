/*
 * A database that Citus distributes: the tables are distributed once (sql/citus.sql), and then a
 * server is configured for it. Blocking; for `sluice migrate` and before the loop.
 */
#ifndef SHARD_CITUS_H
#define SHARD_CITUS_H

#include "base/embed.h"
#include "pg/sync.h"

enum { CITUS_SHARDS_MAX = 1024 };

struct citus_events {
    /* receives each finished action as a line without a newline; may be NULL */
    void (*on_done)(void *owner, slice what);
    void *owner;
};

/* Sets *is_distributed to whether one of sluice's tables is distributed. */
int citus_is_distributed(struct pg_sync *sync, bool *is_distributed, struct err *err) MUST_CHECK;
/* Checks that tables can be distributed here. Returns ERR_REFUSED if Citus is missing or too old,
 * the node is not a coordinator, or there is no node for shards; err says what to do. */
int citus_demand(struct pg_sync *sync, struct err *err) MUST_CHECK;
/* Distributes the tables that are not distributed yet; all migrations have been applied. files: as
 * for pg_migrate, with "citus.sql". shards: number for each table to distribute now; 0: Citus' own
 * setting. Each table is a transaction of its own, so a failed run may be repeated. */
int citus_distribute(struct pg_sync *sync, const struct embed_file *files, size_t file_count,
                     unsigned shards, const struct citus_events *events,
                     struct err *err) MUST_CHECK;
/* Checks before `serve` that the tables are distributed as the server is configured. If not,
 * returns ERR_REFUSED; err says what to change. */
int citus_check(struct pg_sync *sync, bool is_sharded, struct err *err) MUST_CHECK;

#endif
