/*
 * Taking over one flow of a dead node, on an op of its own, so that many share a batch. Several
 * nodes may try at the same time; where no row comes back another was faster, which is no error.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "flow/internal.h"

enum { TAKE_ARENA_MAX = 64 * 1024 };

static struct metric adoptions_total = METRIC_INIT(
    "sluice_flow_adoptions_total", "Flows taken over from a node that is gone.", METRIC_COUNTER);

struct taking {
    struct op op;
    struct flow_service *service;
    struct pg_query query;
    struct flow_take take;
};

OP_OF(taking_of, taking)

/* The owner is read here and not when the op was started: the node may have begun a new incarnation
 * in between. */
static enum op_result step_take(struct op *op)
{
    struct taking *taking = taking_of(op);
    taking->take.owner = node_id(taking->service->config.node);
    taking->take.now = clock_shared_us();
    if (!node_may_write(taking->service->config.node))
        return OP_FAIL;
    store_flow_take(taking->service->config.pool, &taking->query, op, &taking->take);
    return OP_WAIT;
}

/* The flow is ours once the statement has succeeded. Where it then cannot run, or where the answer
 * was lost, the adopter's scan of this node's own flows finds it. */
static enum op_result step_taken(struct op *op)
{
    struct taking *taking = taking_of(op);
    struct flow flow;
    int status = store_flow_take_result(&taking->query, &flow);
    if (status == OK) {
        ASSERT(flow.status == FLOW_RUNNING && uuid_eq(flow.owner, taking->take.owner));
        metric_inc(&adoptions_total);
        flow_watch_notify(taking->service, &flow, NULL, NULL);
        if (!flow_run_start(taking->service, &flow, false))
            taking->service->has_lost = true;
    } else if (status == ERR_CLOSED) {
        taking->service->has_lost = true; /* it may be ours */
    }
    return OP_DONE;
}

/* The statement may be with the database and still be committed. */
static void cancel_taking(struct op *op)
{
    struct taking *taking = taking_of(op);
    taking->service->has_lost = true;
}

static void end_taking(struct op *op, enum op_end end)
{
    struct flow_service *service = taking_of(op)->service;
    (void)end;
    ASSERT(service->taking > 0);
    service->taking--;
    flow_service_fire_timers(service); /* where it did not become a run, a slot is free */
}

static const struct op_step steps[] = {{"take", step_take, 0}, {"taken", step_taken, 0}};
static const struct op_class taking_class = {
    .name = "flow_take",
    OP_STEPS(steps),
    .on_cancel = cancel_taking,
    .on_end = end_taking,
    .free = op_free_struct,
};

bool flow_take_start(struct flow_service *service, const struct flow_ref *ref, struct op *parent)
{
    struct taking *taking = mem_zalloc(sizeof(*taking));
    if (!taking)
        return false;
    ASSERT(ref->rev > 0 && !uuid_is_nil(ref->owner));
    taking->service = service;
    taking->take = (struct flow_take){
        .kind = FLOW_TAKE_ADOPT,
        .account_id = ref->account_id,
        .id = ref->id,
        .op_token = uuid_v7(),
        .rev = ref->rev,
        .dead_owner = ref->owner,
        .has_left = ref->has_left,
        .step_index = -1,
    };
    service->taking++; /* reserves the slot of the run that it may become */
    op_start(&taking->op, &taking_class, service->config.loop, parent, TAKE_ARENA_MAX);
    return true;
}
