/*
 * Takes over one flow of a dead node. Meanwhile it reserves a slot for the run that may follow.
 * Several nodes may try at the same time; if no row is returned, another node was faster, which is
 * not an error.
 */
#include "base/clock.h"
#include "flow/internal.h"

static struct metric adoptions_total = METRIC_INIT(
    "sluice_flow_adoptions_total", "Flows taken over from a dead node.", METRIC_COUNTER);

struct taking {
    struct store_later later;
    struct flow_take take;
};

static struct flow_service *service_of(const struct store_later *later)
{
    return CONTAINER_OF(later->laters, struct flow_service, takes);
}

/* The owner is read here, not when the op was started: the node may have begun a new incarnation
 * since then. */
static void send_take(struct store_later *later)
{
    struct flow_take *take = &CONTAINER_OF(later, struct taking, later)->take;
    struct node *node = service_of(later)->config.node;
    take->owner = node_id(node);
    take->now = clock_shared_us();
    if (node_may_write(node))
        store_flow_take(later->laters->pool, &later->query, &later->op, take);
    else
        op_cancel(&later->op);
}

/* The statement has succeeded, so this node owns the flow. If the node cannot run the flow, or if
 * the answer was lost, the adopter's scan of this node's own flows finds it. */
static bool on_taken(struct store_later *later)
{
    const struct taking *taking = CONTAINER_OF(later, struct taking, later);
    struct flow_service *service = service_of(later);
    struct flow flow;
    int status = store_flow_take_result(&later->query, &flow);
    if (status == OK) {
        ASSERT(flow.status == FLOW_RUNNING && uuid_eq(flow.owner, taking->take.owner));
        metric_inc(&adoptions_total);
        flow_watch_notify(service, &flow, NULL, NULL);
        if (!flow_run_start(service, &flow, false))
            service->has_lost = true;
    } else if (status == ERR_CLOSED) {
        service->has_lost = true; /* this node may own the flow now */
    }
    return false;
}

/* After a cancel the statement may still be committed. If the take did not become a run, its
 * slot is free. */
static void end_taking(struct store_later *later, enum op_end end)
{
    struct flow_service *service = service_of(later);
    service->has_lost |= end == OP_ENDED_CANCELLED;
    flow_service_fire_timers(service);
}

static const struct store_later_class taking_class = {
    STORE_LATER(store_later_once, "flow_take", struct taking),
    .send = send_take,
    .on_sent = on_taken,
    .on_end = end_taking,
};

bool flow_take_start(struct flow_service *service, const struct flow_ref *ref, struct op *parent)
{
    struct taking *taking = store_later(&service->takes, &taking_class, parent, 0);
    if (!taking)
        return false;
    ASSERT(ref->rev > 0 && !uuid_is_nil(ref->owner));
    op_account_set(&taking->later.op, uuid_or(ref->parent_id, ref->account_id));
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
    return true;
}
