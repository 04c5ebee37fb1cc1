/*
 * The life of a node: register, then heartbeat and recovery in turn, until it leaves.
 */
#include "exec/node.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "exec/summary.h"
#include "store/node.h"

enum {
    LEASE_MARGIN_MS = 1000, /* we stop writing that much before others may take over */
    RETRY_MS = 500,
    QUERY_TIMEOUT_MS = 3000,
    NODE_ARENA_BYTES_MAX = 4 * 1024 * 1024,
    RECOVERY_ARENA_BYTES_MAX = 256 * 1024,
};

struct exec_node {
    struct op op;
    struct pg_pool *pool;
    struct uuid id;
    char name[128];
    uint64_t lease_until_boot_ns, sent_boot_ns;
    struct pg_query query;
    struct op_timer timer;
    struct op *leaver; /* held until we have left */
    bool is_leaving, is_parked;
};

static struct metric recovered_total = METRIC_INIT("sluice_recovered_total",
                                                   "Runs that a dead process left behind, by how "
                                                   "they were ended.",
                                                   METRIC_COUNTER);

enum node_step {
    NODE_REGISTER,
    NODE_REGISTERED,
    NODE_REST,
    NODE_HEARTBEAT,
    NODE_RENEWED,
    NODE_RECOVER,
    NODE_RECOVERED,
    NODE_LEAVE,
    NODE_LEFT
};

static struct exec_node *node_of(struct op *op)
{
    return CONTAINER_OF(op, struct exec_node, op);
}

/* ---- recovery of one claim ---- */

struct recovery {
    struct op op;
    struct pg_pool *pool;
    struct pg_query query;
    struct claim claim;
    struct execution record;
};

static struct recovery *recovery_of(struct op *op)
{
    return CONTAINER_OF(op, struct recovery, op);
}

/* A read did nothing: its key is free again, and sending it again runs it. A write may have
 * happened: it ends as failed, outcome unknown, and its key stays bound to that answer. */
static enum op_result step_end_claim(struct op *op)
{
    struct recovery *recovery = recovery_of(op);
    const struct claim *claim = &recovery->claim;
    if (claim->is_write)
        store_execution_finish(recovery->pool, &recovery->query, op, &recovery->record, claim->key,
                               claim->key.len > 0 ? CLAIM_KEEP : CLAIM_RELEASE);
    else
        store_claim_release(recovery->pool, &recovery->query, op, claim);
    return OP_WAIT;
}

static enum op_result step_count(struct op *op)
{
    struct recovery *recovery = recovery_of(op);
    bool is_write = recovery->claim.is_write;
    int status = is_write ? store_execution_finish_result(&recovery->query)
                          : store_done_result(&recovery->query);
    if (status != OK)
        return OP_FAIL; /* somebody else was first, or the next sweep tries again */
    metric_add(metric_series(&recovered_total,
                             is_write ? SLICE("as=\"outcome_unknown\"") : SLICE("as=\"released\"")),
               1);
    op_log(op, LOG_WARN, "a run of a dead process was ended", LOG_BOOL("is_write", is_write),
           LOG_STR("integration_id", recovery->claim.integration_id),
           LOG_STR("action_id", recovery->claim.action_id));
    return OP_DONE;
}

static void cancel_recovery(struct op *op)
{
    pg_cancel(&recovery_of(op)->query);
}

static void free_recovery(struct op *op)
{
    mem_free(recovery_of(op));
}

static const struct op_step recovery_steps[] = {{"end_claim", step_end_claim, 0},
                                                {"count", step_count, 0}};
static const struct op_class recovery_class = {
    .name = "recovery",
    .steps = recovery_steps,
    .step_count = ARRAY_LEN(recovery_steps),
    .on_cancel = cancel_recovery,
    .free = free_recovery,
};

static void fill_record(struct recovery *recovery)
{
    const struct claim *claim = &recovery->claim;
    struct exec_outcome outcome = {
        .reason = EXEC_OUTCOME_UNKNOWN,
        .execution_id = claim->execution_id,
        .integration_id = claim->integration_id,
        .action_id = claim->action_id,
        .started_us = claim->started_at,
        .finished_us = clock_wall_us(),
        .display_title = SLICE("Outcome unknown"),
        .display_summary = SLICE("The server stopped while this write was under way."),
        .message = SLICE("The server stopped while this write was under way."),
        .hint = SLICE("The outcome is unknown: the write may or may not have happened. Check "
                      "before sending it again, then use a new idempotency_key."),
        .retry_after_ms = -1,
        .attempts = 1,
    };
    recovery->record = (struct execution){
        .account_id = claim->account_id,
        .id = claim->execution_id,
        .integration_id = claim->integration_id,
        .action_id = claim->action_id,
        .connection_id = claim->connection_id,
        .error_code = slice_cstr(exec_reason_name(outcome.reason)),
        .started_at = claim->started_at,
        .finished_at = outcome.finished_us,
        .owner = claim->owner,
        .summary = exec_summary_render(&outcome, &recovery->op.arena),
    };
}

static void start_recovery(struct exec_node *node, const struct claim *claim)
{
    struct recovery *recovery = mem_zalloc(sizeof(*recovery));
    if (!recovery)
        return;
    recovery->pool = node->pool;
    op_start(&recovery->op, &recovery_class, node->op.loop, &node->op, RECOVERY_ARENA_BYTES_MAX);
    struct arena *arena = &recovery->op.arena;
    recovery->claim = *claim;
    recovery->claim.integration_id = arena_dup(arena, claim->integration_id);
    recovery->claim.action_id = arena_dup(arena, claim->action_id);
    recovery->claim.key = claim->key.len > 0 ? arena_dup(arena, claim->key) : SLICE_NONE;
    if (claim->is_write)
        fill_record(recovery);
}

/* ---- steps of the node ---- */

static uint64_t query_deadline(const struct exec_node *node)
{
    return loop_now_ns(node->op.loop) + QUERY_TIMEOUT_MS * 1000000ULL;
}

static void renew(struct exec_node *node)
{
    node->lease_until_boot_ns =
        node->sent_boot_ns + (uint64_t)(NODE_LEASE_MS - LEASE_MARGIN_MS) * 1000000;
}

static void sleep_for(struct exec_node *node, uint64_t ms)
{
    op_sleep(&node->op, &node->timer, node->is_leaving ? 0 : ms, "rest between heartbeats");
}

static enum op_result retry_at(struct exec_node *node, enum node_step step)
{
    sleep_for(node, RETRY_MS);
    return op_wait_then(&node->op, step);
}

static enum op_result step_register(struct op *op)
{
    struct exec_node *node = node_of(op);
    if (node->is_leaving)
        return op_jump(op, NODE_LEAVE);
    arena_reset(&op->arena);
    node->id = uuid_v7();
    node->sent_boot_ns = clock_boot_ns();
    node->query.deadline_ns = query_deadline(node);
    store_node_register(node->pool, &node->query, op, node->id, slice_cstr(node->name));
    return OP_WAIT;
}

static enum op_result step_registered(struct op *op)
{
    struct exec_node *node = node_of(op);
    if (store_done_result(&node->query) != OK)
        return retry_at(node, NODE_REGISTER);
    renew(node);
    return op_jump(op, NODE_RECOVER);
}

static enum op_result step_rest(struct op *op)
{
    struct exec_node *node = node_of(op);
    sleep_for(node, NODE_HEARTBEAT_MS);
    return OP_WAIT;
}

static enum op_result step_heartbeat(struct op *op)
{
    struct exec_node *node = node_of(op);
    if (node->is_leaving)
        return op_jump(op, NODE_LEAVE);
    arena_reset(&op->arena);
    node->sent_boot_ns = clock_boot_ns();
    node->query.deadline_ns = query_deadline(node);
    store_node_heartbeat(node->pool, &node->query, op, node->id);
    return OP_WAIT;
}

static enum op_result step_renewed(struct op *op)
{
    struct exec_node *node = node_of(op);
    switch (store_node_heartbeat_result(&node->query)) {
    case OK:
        renew(node);
        return OP_NEXT;
    case ERR_NOTFOUND:
        log_event(LOG_ERROR, "this server's lease had run out; it goes on as a new one",
                  LOG_CSTR("node", node->name));
        node->lease_until_boot_ns = 0;
        return op_jump(op, NODE_REGISTER);
    default:
        return retry_at(node, NODE_HEARTBEAT);
    }
}

static enum op_result step_recover(struct op *op)
{
    struct exec_node *node = node_of(op);
    node->query.deadline_ns = query_deadline(node);
    store_claim_recover(node->pool, &node->query, op);
    return OP_WAIT;
}

/* The recoveries run side by side and share batches; the node waits for all of them. */
static enum op_result step_recovered(struct op *op)
{
    struct exec_node *node = node_of(op);
    struct claim *claims = NULL;
    size_t count = 0;
    if (store_claim_recover_result(&node->query, &claims, &count) != OK)
        return op_jump(op, NODE_REST);
    for (size_t i = 0; i < count; i++)
        start_recovery(node, &claims[i]);
    size_t next = count == CLAIM_RECOVER_MAX ? NODE_RECOVER : NODE_REST;
    return op->holds > 0 ? op_wait_then(op, next) : op_jump(op, next);
}

static enum op_result step_leave(struct op *op)
{
    struct exec_node *node = node_of(op);
    node->lease_until_boot_ns = 0;
    node->query.deadline_ns = query_deadline(node);
    store_node_leave(node->pool, &node->query, op, node->id);
    return OP_WAIT;
}

/* Stays until exec_node_free: others still ask for our id. */
static enum op_result step_left(struct op *op)
{
    struct exec_node *node = node_of(op);
    struct op *leaver = node->leaver;
    node->leaver = NULL;
    node->is_parked = true;
    op_hold(op, "exec_node_free");
    if (leaver)
        op_release(leaver);
    return OP_WAIT;
}

static const struct op_step node_steps[] = {
    [NODE_REGISTER] = {"register", step_register, OP_TO(NODE_LEAVE)},
    [NODE_REGISTERED] = {"registered", step_registered, OP_TO(NODE_REGISTER) | OP_TO(NODE_RECOVER)},
    [NODE_REST] = {"rest", step_rest, 0},
    [NODE_HEARTBEAT] = {"heartbeat", step_heartbeat, OP_TO(NODE_LEAVE)},
    [NODE_RENEWED] = {"renewed", step_renewed, OP_TO(NODE_REGISTER) | OP_TO(NODE_HEARTBEAT)},
    [NODE_RECOVER] = {"recover", step_recover, 0},
    [NODE_RECOVERED] = {"recovered", step_recovered, OP_TO(NODE_REST) | OP_TO(NODE_RECOVER)},
    [NODE_LEAVE] = {"leave", step_leave, 0},
    [NODE_LEFT] = {"left", step_left, 0},
};

static void cancel_node(struct op *op)
{
    struct exec_node *node = node_of(op);
    pg_cancel(&node->query);
    op_sleep_stop(&node->timer);
    if (node->is_parked)
        op_release(op);
    node->is_parked = false;
}

static void end_node(struct op *op, enum op_end end)
{
    struct exec_node *node = node_of(op);
    (void)end;
    if (node->leaver)
        op_release(node->leaver);
    node->leaver = NULL;
}

static void free_node(struct op *op)
{
    mem_free(node_of(op));
}

static const struct op_class node_class = {
    .name = "node",
    .steps = node_steps,
    .step_count = ARRAY_LEN(node_steps),
    .on_cancel = cancel_node,
    .on_end = end_node,
    .free = free_node,
};

struct exec_node *exec_node_new(struct loop *loop, struct pg_pool *pool)
{
    struct exec_node *node = mem_zalloc(sizeof(*node));
    char host[64] = "";
    if (!node)
        return NULL;
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(node->name, sizeof(node->name), "%s:%d", host, (int)getpid());
    node->pool = pool;
    op_start(&node->op, &node_class, loop, NULL, NODE_ARENA_BYTES_MAX);
    return node;
}

struct uuid exec_node_id(const struct exec_node *node)
{
    return node->id;
}

bool exec_node_may_write(const struct exec_node *node)
{
    return clock_boot_ns() < node->lease_until_boot_ns;
}

void exec_node_leave(struct exec_node *node, struct op *parent)
{
    ASSERT(!node->is_leaving);
    node->is_leaving = true;
    node->leaver = parent;
    if (parent)
        op_hold(parent, "node leave");
    op_sleep_stop(&node->timer);
}

void exec_node_free(struct exec_node *node)
{
    op_cancel(&node->op);
}
