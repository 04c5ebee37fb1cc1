/*
 * The life of a node: it registers, then alternates between heartbeat and recovery until it leaves.
 *
 * One rule decides whether this process may write: a lease is measured from the time before its
 * heartbeat was sent, on a clock that also runs while the machine sleeps, and ends LEASE_MARGIN_MS
 * before the database lets others take over. So this process has stopped writing before another one
 * takes over, however long a packet was delayed or the process was suspended.
 */
#include "node/node.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "node/recover.h"
#include "store/node.h"

enum {
    LEASE_MARGIN_MS = 1000, /* writing stops this long before others may take over */
    RETRY_MS = 500,
    QUERY_TIMEOUT_MS = 3000,
    ORPHAN_AGE_MS = 10 * 1000, /* by then most claims have ended, so few are read */
    ORPHANS_EVERY_MS = 10 * 1000,
    CLOCK_OFF_S_MAX = 30,
    NODE_ARENA_BYTES_MAX = 4 * 1024 * 1024,
};

static struct metric clock_off = METRIC_INIT(
    "sluice_clock_offset_seconds",
    "How far this machine's wall clock is ahead of the database's; negative if it is late.",
    METRIC_GAUGE);

struct node {
    struct op op;
    struct pg_pool *pool;
    struct node_claims claims; /* owner is NULL before node_serve */
    struct uuid id;
    char name[128];
    uint64_t lease_until_boot_ns, sent_boot_ns;
    uint64_t orphans_due_ns;
    struct node_scan scan;
    struct store_laters recoveries;
    struct pg_query query;
    struct op_timer timer;
    struct op *leaver; /* held until this node has left */
    bool is_leaving, is_parked;
    bool is_clock_off;
};

enum node_step {
    NODE_REGISTER,
    NODE_REGISTERED,
    NODE_REST,
    NODE_HEARTBEAT,
    NODE_RENEWED,
    NODE_FIND_DEAD,
    NODE_RECOVER,
    NODE_RECOVERED,
    NODE_FIND_ORPHANS,
    NODE_END_ORPHANS,
    NODE_LEAVE,
    NODE_LEFT
};

OP_OF(node_of, node)

/* ---- steps of the node ---- */

static uint64_t query_deadline(const struct node *node)
{
    return loop_now_ns(node->op.loop) + QUERY_TIMEOUT_MS * 1000000ULL;
}

static void renew(struct node *node)
{
    node->lease_until_boot_ns =
        node->sent_boot_ns + (uint64_t)(NODE_LEASE_MS - LEASE_MARGIN_MS) * 1000000;
}

static void sleep_for(struct node *node, uint64_t ms)
{
    op_sleep(&node->op, &node->timer, node->is_leaving ? 0 : ms, "rest between heartbeats");
}

static enum op_result retry_at(struct node *node, enum node_step step)
{
    sleep_for(node, RETRY_MS);
    return op_wait_then(&node->op, step);
}

static enum op_result step_register(struct op *op)
{
    struct node *node = node_of(op);
    if (node->is_leaving)
        return op_jump(op, NODE_LEAVE);
    /* The arena holds the claims that the last recovery read; its child ops have copied them and
     * have ended. Each registration has a new id: claims of the former incarnation are recovered by
     * whichever node finds them, including this node. */
    arena_reset(&op->arena);
    node->id = uuid_v7();
    node->sent_boot_ns = clock_boot_ns();
    node->query.deadline_ns = query_deadline(node);
    store_node_register(node->pool, &node->query, op, node->id, slice_cstr(node->name));
    return OP_WAIT;
}

/* The first recovery begins without a pause, since most claims are left by a restart. */
static enum op_result step_registered(struct op *op)
{
    struct node *node = node_of(op);
    if (store_done_result(&node->query) != OK)
        return retry_at(node, NODE_REGISTER);
    renew(node);
    return op_jump(op, NODE_FIND_DEAD);
}

/* NODE_HEARTBEAT_MS is a fifth of the lease, so that a few lost heartbeats do no harm.
 * node_leave ends the sleep, and the heartbeat's step then leaves. */
static enum op_result step_rest(struct op *op)
{
    struct node *node = node_of(op);
    sleep_for(node, NODE_HEARTBEAT_MS);
    return OP_WAIT;
}

static enum op_result step_heartbeat(struct op *op)
{
    struct node *node = node_of(op);
    ASSERT(!uuid_is_nil(node->id));
    if (node->is_leaving)
        return op_jump(op, NODE_LEAVE);
    arena_reset(&op->arena);
    node->sent_boot_ns = clock_boot_ns();
    node->query.deadline_ns = query_deadline(node);
    store_node_heartbeat(node->pool, &node->query, op, node->id);
    return OP_WAIT;
}

/* Shared times use the database's clock, so a wrong wall clock does not affect them. But a wrong
 * clock makes logs and traces hard to read, and makes signed calls that contain a time fail. */
static void compare_clocks(struct node *node, int64_t database_us)
{
    clock_share(database_us, node->sent_boot_ns, clock_boot_ns());
    double off_s = (double)(clock_wall_us() - clock_shared_us()) / 1e6;
    metric_set(metric_series(&clock_off, SLICE("")), off_s);
    bool is_off = off_s > CLOCK_OFF_S_MAX || off_s < -CLOCK_OFF_S_MAX;
    if (is_off && !node->is_clock_off)
        log_event(LOG_ERROR, "this machine's clock differs from the database's: run a time daemon",
                  LOG_CSTR("node", node->name), LOG_INT("ahead_seconds", (int64_t)off_s));
    else if (!is_off && node->is_clock_off)
        log_event(LOG_INFO, "this machine's clock agrees with the database's again",
                  LOG_CSTR("node", node->name));
    node->is_clock_off = is_off;
}

/* Only the database's answer extends the lease. Without an answer it expires while heartbeats are
 * retried, and node_may_write refuses from then on. */
static enum op_result step_renewed(struct op *op)
{
    struct node *node = node_of(op);
    int64_t database_us;
    switch (store_node_heartbeat_result(&node->query, &database_us)) {
    case OK:
        renew(node);
        compare_clocks(node, database_us);
        return OP_NEXT;
    case ERR_NOTFOUND:
        /* Runs under way notice this, because is_ours in attempt.c compares the incarnation. */
        log_event(LOG_ERROR, "this server's lease had expired; it continues as a new node",
                  LOG_CSTR("node", node->name));
        node->lease_until_boot_ns = 0;
        return op_jump(op, NODE_REGISTER);
    default:
        return retry_at(node, NODE_HEARTBEAT);
    }
}

static enum op_result step_find_dead(struct op *op)
{
    struct node *node = node_of(op);
    node->query.deadline_ns = query_deadline(node);
    store_node_dead(node->pool, &node->query, op);
    return OP_WAIT;
}

/* Every node scans for claims of dead owners. If two nodes find the same claim, the owner that
 * the claim names lets only one of them end it (node/recover.h). */
static enum op_result step_recover(struct op *op)
{
    struct node *node = node_of(op);
    struct node_dead dead;
    int status = store_node_dead_result(&node->query, &dead);
    if (status != OK)
        return op_jump(op, status == ERR_NOTFOUND ? NODE_FIND_ORPHANS : NODE_REST);
    if (!node_scan_is_due(&node->scan, &dead, loop_now_ns(op->loop)))
        return op_jump(op, NODE_FIND_ORPHANS);
    node->query.deadline_ns = query_deadline(node);
    store_claim_recover(node->pool, &node->query, op, &dead);
    return OP_WAIT;
}

/* This process knows which of its runs were abandoned unsent, even under an earlier lease; the row
 * does not. */
static void recover(struct node *node, const struct claim *claim, enum recover_as as)
{
    const struct node_claims *claims = &node->claims;
    bool is_unsent = claims->owner && claims->is_unsent(claims->owner, claim->execution_id);
    recover_start(&node->recoveries, claim, is_unsent ? RECOVER_UNSENT : as, &node->op);
}

/* Waits for ops started below the node, if any. */
static enum op_result wait_if_held(struct op *op, enum node_step next)
{
    return op->holds > 0 ? op_wait_then(op, next) : op_jump(op, next);
}

/* The recoveries run concurrently and share batches; the node waits for all of them. */
static enum op_result step_recovered(struct op *op)
{
    struct node *node = node_of(op);
    struct claim *claims = NULL;
    size_t count = 0;
    int status = store_claim_recover_result(&node->query, &claims, &count);
    node_scan_end(&node->scan, &node->query, count, loop_now_ns(op->loop));
    if (status != OK)
        return op_jump(op, NODE_REST);
    for (size_t i = 0; i < count; i++)
        recover(node, &claims[i], RECOVER_DEAD);
    /* If the list was full, there may be more. */
    if (count == CLAIM_RECOVER_MAX)
        return wait_if_held(op, NODE_FIND_DEAD);
    return wait_if_held(op, NODE_FIND_ORPHANS);
}

/* Reads the claims of this incarnation. A run knows its claim before the claim is sent and until it
 * is deleted or bound, so a claim that no run here knows is an orphan, whatever its age. This
 * happens only every ORPHANS_EVERY_MS, by the index of claims in flight: orphans are rare, and only
 * a client that sends its key again waits for one. */
static enum op_result step_find_orphans(struct op *op)
{
    struct node *node = node_of(op);
    uint64_t now = loop_now_ns(op->loop);
    if (!node->claims.owner || now < node->orphans_due_ns)
        return op_jump(op, NODE_REST);
    node->orphans_due_ns = now + ORPHANS_EVERY_MS * 1000000ULL;
    node->query.deadline_ns = query_deadline(node);
    store_claim_owned(node->pool, &node->query, op, node->id, ORPHAN_AGE_MS);
    return OP_WAIT;
}

/* The list may include a claim that its run is just ending: the fence of the recovery does not
 * match such a claim. */
static enum op_result step_end_orphans(struct op *op)
{
    struct node *node = node_of(op);
    struct claim *claims = NULL;
    size_t count = 0;
    if (store_claim_recover_result(&node->query, &claims, &count) != OK)
        return op_jump(op, NODE_REST);
    for (size_t i = 0; i < count; i++)
        if (!node->claims.is_carried(node->claims.owner, claims[i].execution_id))
            recover(node, &claims[i], RECOVER_ORPHAN);
    return wait_if_held(op, NODE_REST);
}

/* This node's own lease ends before the row is updated, because others may take over after that.
 * A failed query is not repeated; the row's lease expires by itself. */
static enum op_result step_leave(struct op *op)
{
    struct node *node = node_of(op);
    ASSERT(node->is_leaving);
    node->lease_until_boot_ns = 0;
    node->query.deadline_ns = query_deadline(node);
    store_node_leave(node->pool, &node->query, op, node->id);
    return OP_WAIT;
}

/* The op stays until node_stop. Only cancel_node releases the hold that it waits on. */
static enum op_result step_left(struct op *op)
{
    struct node *node = node_of(op);
    ASSERT(node->is_leaving && !node->is_parked);
    struct op *leaver = node->leaver;
    node->leaver = NULL;
    node->is_parked = true;
    op_hold(op, "node_stop");
    if (leaver)
        op_release(leaver);
    return OP_WAIT;
}

static const struct op_step node_steps[] = {
    [NODE_REGISTER] = {"register", step_register, OP_TO(NODE_LEAVE)},
    [NODE_REGISTERED] = {"registered", step_registered,
                         OP_TO(NODE_REGISTER) | OP_TO(NODE_FIND_DEAD)},
    [NODE_REST] = {"rest", step_rest, 0},
    [NODE_HEARTBEAT] = {"heartbeat", step_heartbeat, OP_TO(NODE_LEAVE)},
    [NODE_RENEWED] = {"renewed", step_renewed, OP_TO(NODE_REGISTER) | OP_TO(NODE_HEARTBEAT)},
    [NODE_FIND_DEAD] = {"find_dead", step_find_dead, 0},
    [NODE_RECOVER] = {"recover", step_recover, OP_TO(NODE_FIND_ORPHANS) | OP_TO(NODE_REST)},
    [NODE_RECOVERED] = {"recovered", step_recovered,
                        OP_TO(NODE_FIND_DEAD) | OP_TO(NODE_FIND_ORPHANS) | OP_TO(NODE_REST)},
    [NODE_FIND_ORPHANS] = {"find_orphans", step_find_orphans, OP_TO(NODE_REST)},
    [NODE_END_ORPHANS] = {"end_orphans", step_end_orphans, OP_TO(NODE_REST)},
    [NODE_LEAVE] = {"leave", step_leave, 0},
    [NODE_LEFT] = {"left", step_left, 0},
};

static void cancel_node(struct op *op)
{
    struct node *node = node_of(op);
    if (node->is_parked)
        op_release(op);
    node->is_parked = false;
}

static void end_node(struct op *op, enum op_end end)
{
    struct node *node = node_of(op);
    (void)end;
    if (node->leaver)
        op_release(node->leaver);
    node->leaver = NULL;
}

static const struct op_class node_class = {
    .name = "node",
    .is_background = true,
    OP_STEPS(node_steps),
    .on_cancel = cancel_node,
    .on_end = end_node,
};

struct node *node_new(struct loop *loop, struct pg_pool *pool)
{
    struct node *node = mem_zalloc(sizeof(*node));
    char host[64] = "";
    if (!node)
        return NULL;
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(node->name, sizeof(node->name), "%s:%d", host, (int)getpid());
    node->pool = pool;
    store_laters_init(&node->recoveries, loop, pool, CLAIM_RECOVER_MAX);
    op_start(&node->op, &node_class, loop, NULL, NODE_ARENA_BYTES_MAX);
    return node;
}

void node_serve(struct node *node, struct node_claims claims)
{
    ASSERT(!node->claims.owner && claims.owner);
    node->claims = claims;
}

struct uuid node_id(const struct node *node)
{
    return node->id;
}

bool node_may_write(const struct node *node)
{
    return clock_boot_ns() < node->lease_until_boot_ns;
}

void node_leave(struct node *node, struct op *parent)
{
    ASSERT(!node->is_leaving);
    node->is_leaving = true;
    node->leaver = parent;
    if (parent)
        op_hold(parent, "node leave");
    op_sleep_stop(&node->timer);
}

void node_stop(struct node *node)
{
    op_cancel(&node->op);
}

/* Not at the end of the op: a turn has little time, so runs that were cancelled with it may end in
 * later turns. */
void node_free(struct node *node)
{
    ASSERT(!op_is_active(&node->op) && node->recoveries.count == 0);
    mem_free(node);
}
