/*
 * Adoption: takes over the running flows of dead nodes, in batches until none is left. In the same
 * way a node takes the flows that it owns itself but does not have in memory, because the answer to
 * a start or a take was lost, or because there was no memory for the run.
 *
 * Scans are read-only and run on every node at about the same time. The take is fenced by the dead
 * owner and the revision, so only one of several nodes gets the flow (take.c). While no slot is
 * free the flows stay in the database: other nodes may have room.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "flow/internal.h"
#include "store/node.h"

enum {
    SCAN_EVERY_MS = 1000, /* so that a flow is adopted within 12 s, including its owner's lease */
    SCAN_JITTER_MS = 500,
    NOT_YET_MS = 100,           /* until this node's row is written, and while it has no lease */
    LOST_AGE_US = 20 * 1000000, /* longer than the answer to any statement may take */
    LOST_EVERY_US = 30 * 1000000,
    ADOPT_ARENA_MAX = 4 * 1024 * 1024,
};

struct flow_adopter {
    struct op op;
    struct flow_service *service;
    struct pg_query query;
    struct op_timer sleep;
    struct node_scan scan;
    int64_t lost_at; /* when to scan for this node's flows that are not in memory; 0: no scan */
};

enum adopt_step {
    ADOPT_SLEEP,
    ADOPT_FIND_DEAD,
    ADOPT_SCAN,
    ADOPT_ORPHANS,
    ADOPT_SCAN_OURS,
    ADOPT_LOST
};

OP_OF(adopter_of, flow_adopter)

/* The jitter keeps nodes that started together from scanning together. */
static enum op_result step_sleep(struct op *op)
{
    struct flow_adopter *adopter = adopter_of(op);
    arena_reset(&op->arena); /* the op never ends, so its memory is freed here */
    bool is_up = node_may_write(adopter->service->config.node);
    op_sleep(op, &adopter->sleep, is_up ? SCAN_EVERY_MS + random_below(SCAN_JITTER_MS) : NOT_YET_MS,
             "time for the next scan");
    return OP_WAIT;
}

/* A node without a lease may not adopt: its flows would become orphans again at once. */
static enum op_result step_find_dead(struct op *op)
{
    struct flow_adopter *adopter = adopter_of(op);
    struct flow_service *service = adopter->service;
    if (!flow_service_has_room(service) || !node_may_write(service->config.node))
        return op_jump(op, ADOPT_SLEEP);
    store_node_dead(service->config.pool, &adopter->query, op);
    return OP_WAIT;
}

static enum op_result step_scan(struct op *op)
{
    struct flow_adopter *adopter = adopter_of(op);
    struct node_dead dead;
    if (store_node_dead_result(&adopter->query, &dead) != OK ||
        !node_scan_is_due(&adopter->scan, &dead, loop_now_ns(op->loop)))
        return op_jump(op, ADOPT_SCAN_OURS);
    store_flow_orphans(adopter->service->config.pool, &adopter->query, op, &dead);
    return OP_WAIT;
}

/* The takes of one scan share batches. The next scan waits until all of them are done; otherwise
 * it would find the same flows. If no flow was found, the flows of this node are next. */
static enum op_result step_orphans(struct op *op)
{
    struct flow_adopter *adopter = adopter_of(op);
    struct flow_service *service = adopter->service;
    struct flow_ref *refs = NULL;
    size_t count = 0;
    int status = store_flow_scan_result(&adopter->query, &refs, &count);
    node_scan_end(&adopter->scan, &adopter->query, count, loop_now_ns(op->loop));
    if (status != OK || count == 0)
        return OP_NEXT;
    op_log(op, LOG_WARN, "taking over flows of dead nodes", LOG_INT("count", count));
    for (size_t i = 0; i < count && flow_service_has_room(service); i++)
        (void)flow_take_start(service, &refs[i], op);
    return op->holds > 0 ? op_wait_then(op, ADOPT_FIND_DEAD) : op_jump(op, ADOPT_FIND_DEAD);
}

/* Runs LOST_AGE_US after has_lost was set, when no statement can still be answered. Also runs every
 * LOST_EVERY_US, because a stalled PostgreSQL backend may commit a start or a take at any time
 * after its connection was closed here. */
static enum op_result step_scan_ours(struct op *op)
{
    struct flow_adopter *adopter = adopter_of(op);
    struct flow_service *service = adopter->service;
    int64_t now = clock_shared_us();
    int64_t due = now + (service->has_lost ? LOST_AGE_US : LOST_EVERY_US);
    if (adopter->lost_at == 0 || due < adopter->lost_at)
        adopter->lost_at = due;
    if (now < adopter->lost_at)
        return op_jump(op, ADOPT_SLEEP);
    adopter->lost_at = 0;
    /* cleared before the scan: flows lost from now on are left to the next scan */
    service->has_lost = false;
    store_flow_owned(service->config.pool, &adopter->query, op, node_id(service->config.node),
                     now - LOST_AGE_US);
    return OP_WAIT;
}

static enum op_result step_lost(struct op *op)
{
    struct flow_adopter *adopter = adopter_of(op);
    struct flow_service *service = adopter->service;
    struct flow_ref *refs = NULL;
    size_t count = 0;
    if (store_flow_scan_result(&adopter->query, &refs, &count) != OK)
        service->has_lost = true;
    /* Takes all of these flows, even if no slot is free: only this node can run the flows that it
     * owns. */
    for (size_t i = 0; i < count; i++)
        if (!flow_run_is_known(service, refs[i].id))
            (void)flow_take_start(service, &refs[i], op);
    return op->holds > 0 ? op_wait_then(op, ADOPT_SLEEP) : op_jump(op, ADOPT_SLEEP);
}

static const struct op_step steps[] = {
    [ADOPT_SLEEP] = {"sleep", step_sleep, 0},
    [ADOPT_FIND_DEAD] = {"find_dead", step_find_dead, OP_TO(ADOPT_SLEEP)},
    [ADOPT_SCAN] = {"scan", step_scan, OP_TO(ADOPT_SCAN_OURS)},
    [ADOPT_ORPHANS] = {"orphans", step_orphans, OP_TO(ADOPT_FIND_DEAD)},
    [ADOPT_SCAN_OURS] = {"scan_ours", step_scan_ours, OP_TO(ADOPT_SLEEP)},
    [ADOPT_LOST] = {"lost", step_lost, OP_TO(ADOPT_SLEEP)},
};

static const struct op_class adopter_class = {
    .name = "flow_adopter",
    .is_background = true,
    OP_STEPS(steps),
    .free = op_free_struct,
};

struct flow_adopter *flow_adopter_new(struct flow_service *service)
{
    struct flow_adopter *adopter = mem_zalloc(sizeof(*adopter));
    if (!adopter)
        return NULL;
    adopter->service = service;
    op_start(&adopter->op, &adopter_class, service->config.loop, NULL, ADOPT_ARENA_MAX);
    return adopter;
}

void flow_adopter_stop(struct flow_adopter *adopter)
{
    if (adopter)
        op_cancel(&adopter->op);
}
