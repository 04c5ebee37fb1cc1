/*
 * The states of a flow's row and the transitions between them. Each row that a flow's owner writes
 * is made here; people's decisions, takes and cancels are statements of their own
 * (store/flow_take.c).
 *
 *   running -> running, waiting, completed, failed
 *   waiting -> the same, once it is due: the statement takes the flow as well
 */
#ifndef FLOW_STATE_H
#define FLOW_STATE_H

#include "store/flow.h"

/* The changes of a transition; the other columns stay unchanged. */
struct flow_change {
    enum flow_status to;
    struct uuid owner;             /* nil unless to is FLOW_RUNNING */
    int64_t step_index, attempt;   /* after the change */
    bool is_begun;                 /* running: the attempt may reach a provider */
    enum flow_waiting waiting_for; /* waiting */
    int64_t wake_at;               /* waiting: when it ends; 0: an approval that does not expire */
    bool has_ended_attempt;        /* resets adoptions, since the attempt did not crash its node */
    int64_t at;
};

/* Fills in a flow that begins: revision 1, running at this step. If is_begun, the row contains the
 * intent of the first call. The caller has set the ids, template, owner, deadline and times of
 * flow. */
void flow_state_begin(struct flow *flow, size_t step, bool is_begun);
/* Sets *next to *now after the change, one revision later. */
void flow_state_move(struct flow *next, const struct flow *now, const struct flow_change *change);
/* Asserts the constraints of sql/0002_flows.sql on rows of flow_step and flow_item. */
void flow_state_check_step(const struct flow_step *step);
void flow_state_check_item(const struct flow_item *item);

#endif
