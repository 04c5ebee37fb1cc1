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
    /* gets a finished action as a line without its end; may be NULL */
    void (*on_done)(void *owner, slice what);
    void *owner;
};

/* Whether one of sluice's tables is distributed. */
int citus_is_distributed(struct pg_sync *sync, bool *is_distributed, struct err *err) MUST_CHECK;
/* Whether tables can be distributed here. ERR_REFUSED: no Citus, a version that is too old, a
 * node that is not a coordinator, or no node for shards; err says what to do. */
int citus_demand(struct pg_sync *sync, struct err *err) MUST_CHECK;
/* Distributes the tables that are not distributed yet; all migrations have been applied. files: as
 * for pg_migrate, with "citus.sql". shards: number for each table to distribute now; 0: Citus' own
 * setting. Each table is a transaction of its own, so a failed run may be repeated. */
int citus_distribute(struct pg_sync *sync, const struct embed_file *files, size_t file_count,
                     unsigned shards, const struct citus_events *events,
                     struct err *err) MUST_CHECK;
/* A check before `serve`: OK if the tables are distributed as the server is configured.
 * ERR_REFUSED with a sentence that says what to change. */
int citus_check(struct pg_sync *sync, bool is_sharded, struct err *err) MUST_CHECK;

#endif
