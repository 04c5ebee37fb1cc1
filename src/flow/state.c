/*
 * Rows of flows: their states and transitions. The database refuses a row that violates its
 * constraints, but the call that the row describes may have been made by then. So the same
 * constraints are asserted here, where the row is made.
 */
#include "flow/state.h"

/* Asserts what the constraints of sql/0002_flows.sql demand of a row of flow. */
static void check_flow(const struct flow *flow)
{
    bool is_running = flow->status == FLOW_RUNNING;
    bool is_waiting = flow->status == FLOW_WAITING;
    ASSERT(!uuid_is_nil(flow->account_id) && !uuid_is_nil(flow->id));
    ASSERT(flow->rev > 0);
    ASSERT(flow->step_index >= 0 && flow->attempt >= 0 && flow->adoptions >= 0);
    ASSERT(is_running == !uuid_is_nil(flow->owner));
    ASSERT(is_waiting == (flow->waiting_for != FLOW_WAITS_NOT));
    ASSERT(!is_waiting || flow->wake_at != 0 || flow->waiting_for == FLOW_WAITS_APPROVAL);
    ASSERT(!flow->is_begun || flow->attempt > 0);
    ASSERT(flow->status != FLOW_COMPLETED || flow->completed_at != 0);
    ASSERT(flow->created_at != 0 && flow->updated_at != 0);
}

void flow_state_check_step(const struct flow_step *step)
{
    ASSERT(step->step_index >= 0 && step->attempt > 0);
    ASSERT(step->started_at != 0 && step->finished_at != 0);
    ASSERT(step->is_completed == !step->error.ptr);
    ASSERT(step->is_completed || !step->output.ptr);
}

void flow_state_check_item(const struct flow_item *item)
{
    ASSERT(item->step_index >= 0 && item->item >= 0 && item->attempt > 0);
    ASSERT((item->fact == FLOW_ITEM_FAILED) == (item->error.ptr != NULL));
    ASSERT((item->fact == FLOW_ITEM_COMPLETED) == (item->output.ptr != NULL));
}

void flow_state_begin(struct flow *flow, size_t step, bool is_begun)
{
    ASSERT(flow->rev == 0); /* the flow has no row yet */
    flow->status = FLOW_RUNNING;
    flow->rev = 1;
    flow->step_index = (int64_t)step;
    flow->attempt = is_begun ? 1 : 0;
    flow->is_begun = is_begun;
    check_flow(flow);
}

/* The owner continues from a running row, or from a pause with an end. The position never moves to
 * an earlier step, and a flow fails only together with an attempt that contains the reason. */
static void check_way(const struct flow *now, const struct flow_change *change)
{
    bool is_waiting = change->to == FLOW_WAITING;
    ASSERT(now->status == FLOW_RUNNING || now->status == FLOW_WAITING);
    ASSERT(now->status == FLOW_RUNNING || flow_due_at(now) != 0);
    ASSERT(change->to != FLOW_CANCELLED);
    ASSERT(change->to == FLOW_RUNNING || !change->is_begun);
    ASSERT(is_waiting || (change->waiting_for == FLOW_WAITS_NOT && change->wake_at == 0));
    ASSERT(change->to != FLOW_FAILED || change->has_ended_attempt);
    ASSERT(change->step_index >= now->step_index);
}

void flow_state_move(struct flow *next, const struct flow *now, const struct flow_change *change)
{
    check_way(now, change);
    *next = *now;
    next->rev++;
    next->status = change->to;
    next->owner = change->owner;
    next->step_index = change->step_index;
    next->attempt = change->attempt;
    next->is_begun = change->is_begun;
    next->waiting_for = change->waiting_for;
    if (change->to == FLOW_WAITING)
        next->wake_at = change->wake_at;
    if (change->to == FLOW_COMPLETED)
        next->completed_at = change->at;
    if (change->has_ended_attempt)
        next->adoptions = 0;
    next->updated_at = change->at;
    check_flow(next);
}
