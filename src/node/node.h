/*
 * node: one process of several on the same database: its incarnation, its lease, and the recovery
 * of claims that dead processes left (src/api/README.md "Executions").
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include "base/id.h"
#include "loop/op.h"

struct node;
struct pg_pool;

/* What this process knows about claims with its incarnation. Both functions are called rarely. */
struct node_claims {
    /* Whether a run under way, or the release of its claim, knows the claim of that execution.
     * If not, it is an orphan. */
    bool (*is_carried)(const void *owner, struct uuid execution_id);
    /* Whether the run was abandoned before anything was sent. */
    bool (*is_unsent)(const void *owner, struct uuid execution_id);
    const void *owner;
};

/* The node registers, renews its lease and recovers claims until it is freed. Returns NULL if out
 * of memory. */
struct node *node_new(struct loop *loop, struct pg_pool *pool) MUST_CHECK;
/* After this call, claims of this incarnation that no run carries are ended. The owner must
 * outlive the node. */
void node_serve(struct node *node, struct node_claims claims);
/* Returns the incarnation that owns new claims. */
struct uuid node_id(const struct node *node);
/* Whether the lease, counted from the time before the last heartbeat was sent, is still valid. Call
 * it immediately before the first byte of every call that a provider may act on. */
bool node_may_write(const struct node *node);
/* Ends the lease, so that others need not wait for it to expire. parent (may be NULL) is held
 * until the end is durable or has failed. No recovery follows. */
void node_leave(struct node *node, struct op *parent);
/* Ends all ops of the node: after node_leave, or without it if the server no longer waits for
 * the database. node_id and node_may_write are still called by runs that end. */
void node_stop(struct node *node);
/* Frees a stopped node, once its ops and all runs have ended. */
void node_free(struct node *node);

#endif
