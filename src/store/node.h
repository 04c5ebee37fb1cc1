/*
 * node: one row per process. Its id is an incarnation: it is generated at the start and never used
 * again. The lease is measured by the database's clock; once it has run out it cannot be renewed,
 * so a dead node stays dead and its claims and flows may be taken over (src/README.md "A flow").
 */
#ifndef STORE_NODE_H
#define STORE_NODE_H

#include "store/store.h"

enum { NODE_LEASE_MS = 10000, NODE_HEARTBEAT_MS = 2000 };

/* Registers a node. name: host and pid, for people. Replayable. Read the result with
 * store_done_result. */
void store_node_register(STORE_ARGS, struct uuid node_id, slice name);
/* Renews the lease for NODE_LEASE_MS. The caller measures its lease on CLOCK_BOOTTIME from
 * before this call. */
void store_node_heartbeat(STORE_ARGS, struct uuid node_id);
/* *database_us is the database's time of the renewal. Returns ERR_NOTFOUND if the lease had run
 * out: register again under a new id, and drop everything that the old id owned. */
int store_node_heartbeat_result(const struct pg_query *query, int64_t *database_us) MUST_CHECK;
/* Ends the lease now, in a clean shutdown, so that other nodes recover remaining work at once. */
void store_node_leave(STORE_ARGS, struct uuid node_id);

/* Nodes whose lease has run out, as two PostgreSQL arrays in text: their ids, and which of them
 * left in order. In the op's arena. */
struct node_dead {
    slice ids, left;
};
/* Reads the dead nodes, for store_claim_recover and store_flow_orphans. The result is ERR_NOTFOUND
 * if no node is dead. */
void store_node_dead(STORE_ARGS);
STORE_ROW_RESULT(store_node_dead_result, node_dead)

/* Dead nodes stay in the table for an hour, and usually leave nothing after the first scans. But a
 * suspended backend may commit late, so a list of nodes whose scan found nothing is scanned again
 * after NODE_CLEAN_MS, any other list at once. Begins zeroed. */
enum { NODE_CLEAN_MS = 10 * 1000 };
struct node_scan {
    uint64_t asked, clean; /* hashes of lists; clean: of a list for which nothing was found */
    uint64_t until_ns;
};
bool node_scan_is_due(struct node_scan *scan, const struct node_dead *dead, uint64_t now_ns);
/* Reports how many rows the due scan returned. */
void node_scan_end(struct node_scan *scan, const struct pg_query *query, size_t count,
                   uint64_t now_ns);

/* Three steps remove nodes that have been dead for an hour and own nothing. The first finds their
 * ids, as text (store_text_result; ERR_NOTFOUND if there are none). The second finds which of them
 * own something (ERR_BUSY if not all shards answered). The third removes the rest
 * (store_done_result). */
void store_node_old(STORE_ARGS);
void store_node_owning(STORE_ARGS, slice ids);
int store_node_owning_result(const struct pg_query *query, slice *ids) MUST_CHECK;
void store_node_remove(STORE_ARGS, slice ids, slice owning);

#endif
