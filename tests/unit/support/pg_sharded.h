/*
 * A plain database with as much of Citus' catalogs as the pool reads, so that sharded mode can be
 * tested without Citus: its nodes are this server, each part of a table lies in this database, and
 * a shard moves when its placement is changed. What Citus itself does is tested by tests/citus.
 */
#ifndef SUPPORT_PG_SHARDED_H
#define SUPPORT_PG_SHARDED_H

#include "base/id.h"

enum { SHARDED_COUNT = 4, SHARDED_GROUPS = 2, SHARDED_ANCHOR = 100, SHARDED_NOTE = 200 };

/* Tables: sluice.connection and sluice.note (account_id, id, body), in SHARDED_COUNT parts each,
 * of which the even ones are on node 1 and the odd ones on node 2; sluice.kind, with a copy on
 * each. Part i of sluice.connection is shard SHARDED_ANCHOR + i. Conninfo, as
 * pg_cluster_database's. */
const char *pg_sharded_database(void);
/* The shards of that index are on this node from now on. */
void pg_sharded_move(const char *conninfo, unsigned index, unsigned group);
/* The n-th account that lies in the shards of that index. */
struct uuid pg_sharded_account(unsigned index, unsigned n);

#endif
