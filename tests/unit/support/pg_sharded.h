/*
 * A plain database with the part of Citus' catalogs that the pool reads, so that sharded mode can
 * be tested without Citus. All its nodes are this server, all parts of a table are in this
 * database, and a shard moves when its placement is changed. tests/citus tests Citus itself.
 */
#ifndef SUPPORT_PG_SHARDED_H
#define SUPPORT_PG_SHARDED_H

#include "base/id.h"

enum { SHARDED_COUNT = 4, SHARDED_GROUPS = 2, SHARDED_ANCHOR = 100, SHARDED_NOTE = 200 };

/* Tables: sluice.connection and sluice.note (account_id, id, body), in SHARDED_COUNT parts each.
 * The even parts are on node 1 and the odd parts on node 2. sluice.kind has a copy on each. Part i
 * of sluice.connection is shard SHARDED_ANCHOR + i. Returns conninfo like pg_cluster_database. */
const char *pg_sharded_database(void);
/* Moves the shards with that index to this node. */
void pg_sharded_move(const char *conninfo, unsigned index, unsigned group);
/* The n-th account in the shards with that index. */
struct uuid pg_sharded_account(unsigned index, unsigned n);

#endif
