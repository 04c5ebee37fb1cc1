/*
 * node: one row a process. Its id is an incarnation: drawn at start, never used again. The lease
 * counts by the database's clock; once it has run out it cannot be renewed, so dead stays dead and
 * what it owned may be taken over (src/README.md "A flow").
 */
#ifndef STORE_NODE_H
#define STORE_NODE_H

#include "store/store.h"

enum { NODE_LEASE_MS = 10000, NODE_HEARTBEAT_MS = 2000 };

/* Replayable. store_done_result. name: host and pid, for people. */
void store_node_register(struct pg_pool *pool, struct pg_query *query, struct op *op,
                         struct uuid node_id, slice name);
/* Renews the lease for NODE_LEASE_MS. store_hit_result: ERR_NOTFOUND when it had run out: register
 * again, under a new id, and drop what the old one owned. The caller counts its lease on
 * CLOCK_BOOTTIME from before this call. */
void store_node_heartbeat(struct pg_pool *pool, struct pg_query *query, struct op *op,
                          struct uuid node_id);
/* A clean end: the lease runs out now, so that what may be left is recovered at once. */
void store_node_leave(struct pg_pool *pool, struct pg_query *query, struct op *op,
                      struct uuid node_id);
/* Removes nodes that have been dead for an hour and own nothing. store_done_result. */
void store_node_sweep(struct pg_pool *pool, struct pg_query *query, struct op *op);

#endif
