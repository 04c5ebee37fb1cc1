/*
 * A database that Citus distributes: its tables are made so once (sql/citus.sql), and a server is
 * set for it. Blocking; for `sluice migrate` and before the loop.
 */
#ifndef SHARD_CITUS_H
#define SHARD_CITUS_H

#include "base/embed.h"
#include "pg/sync.h"

enum { CITUS_SHARDS_MAX = 1024 };

struct citus_events {
    /* one thing that was done, a line without its end; may be NULL */
    void (*on_done)(void *owner, slice what);
    void *owner;
};

/* Whether one of our tables is distributed. */
int citus_is_distributed(struct pg_sync *sync, bool *is_distributed, struct err *err) MUST_CHECK;
/* Whether tables can be distributed here. ERR_REFUSED: no Citus, too old a version, a node that is
 * no coordinator, no node for shards; err says what to do. */
int citus_demand(struct pg_sync *sync, struct err *err) MUST_CHECK;
/* Distributes what is not distributed yet; all migrations have been applied. files: as for
 * pg_migrate, "citus.sql" among them. shards: of each table that is to be distributed now; 0: as
 * Citus is set. Each table is a transaction of its own, so a run that fails may be repeated. */
int citus_distribute(struct pg_sync *sync, const struct embed_file *files, size_t file_count,
                     unsigned shards, const struct citus_events *events,
                     struct err *err) MUST_CHECK;
/* Before `serve`: OK where the tables are distributed as the server is set. ERR_REFUSED with a
 * sentence that says what to change. */
int citus_check(struct pg_sync *sync, bool is_sharded, struct err *err) MUST_CHECK;

#endif
