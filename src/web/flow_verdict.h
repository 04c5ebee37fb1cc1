/*
 * flow_verdict: what people decided about a flow, and its state in a sentence. Both are read from
 * the flow's steps at the time of display.
 */
#ifndef WEB_FLOW_VERDICT_H
#define WEB_FLOW_VERDICT_H

#include "store/flow.h"
#include "web/flow_decision.h"

/* Returns the person who rejected an approval, and sets *note. Returns SLICE_NONE if no person
 * rejected it. step: its view. */
slice flow_step_rejecter(const struct json *step, slice *note);
bool flow_step_is_rejected(const struct json *step);
/* Whether a person ended the flow by rejecting its approval. steps: their views. */
bool flow_is_rejected(const struct flow *flow, const struct json *steps);
/* Whether `resume` of the flow, which has failed, can go on: not if its held call is closed. */
bool flow_may_go_on(const struct json *steps);
/* Whether the last decision on the flow was made by the caller of this request. */
bool flow_is_own_decision(struct web_request *request, const struct json *steps);

/* Writes a member "state", as flow_state.html declares it. canceller is SLICE_NONE if unknown.
 * failed_step: the title of the current step. */
void view_flow_state(struct web_request *request, struct flow_names *names, const struct flow *flow,
                     const struct json *steps, slice canceller, slice failed_step,
                     struct json_writer *w);

#endif
