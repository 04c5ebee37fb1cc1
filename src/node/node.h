/*
 * This process among others: its incarnation, its lease, and the recovery of claims that dead
 * processes left (src/api/README.md "Executions").
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include "base/id.h"
#include "loop/op.h"

struct node;
struct pg_pool;

/* What this process knows about claims with its incarnation. Both are called rarely. */
struct node_claims {
    /* Whether a run under way, or the release of its claim, knows the claim of that execution.
     * False: it is an orphan. */
    bool (*is_carried)(const void *owner, struct uuid execution_id);
    /* It was given up before anything was sent. */
    bool (*is_unsent)(const void *owner, struct uuid execution_id);
    const void *owner;
};

/* Registers, renews the lease and recovers, until it is freed. NULL: out of memory. */
struct node *node_new(struct loop *loop, struct pg_pool *pool) MUST_CHECK;
/* Claims of this incarnation that no run carries are ended from now on. The owner outlives the
 * node. */
void node_serve(struct node *node, struct node_claims claims);
/* The incarnation that owns new claims. */
struct uuid node_id(const struct node *node);
/* Whether the lease, counted from before the last heartbeat was sent, is still valid: call right
 * before the first byte of every call that a provider may act on. */
bool node_may_write(const struct node *node);
/* Gives the lease up, so that others need not wait for it to run out; parent (may be NULL) is held
 * until that is durable or failed. No recovery follows. */
void node_leave(struct node *node, struct op *parent);
/* After node_leave, or when the database is given up: ends all ops of the node. The pointer must
 * not be used afterwards; the memory is freed later. */
void node_free(struct node *node);

#endif
