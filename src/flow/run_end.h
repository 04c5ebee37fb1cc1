/*
 * How an attempt of a running flow ends and what follows (run_end.c), for run.c.
 */
#ifndef FLOW_RUN_END_H
#define FLOW_RUN_END_H

#include "flow/internal.h"

/* plan_loaded.c: plans the next step of a loaded flow. Returns false if the flow fails instead;
 * that transition is then prepared. */
bool flow_plan_loaded(struct flow_run *run);
/* Prepares the flow's failure if the template is missing or does not compile. */
void flow_plan_unread(struct flow_run *run);
/* Called when the current attempt has ended; prepares the next transition. output is JSON text that
 * lives as long as the plan. */
void flow_run_finish_completed(struct flow_run *run, slice output);
void flow_run_finish_failed(struct flow_run *run, const struct flow_error *error);
/* Called if the database refused the value; the same attempt then fails. */
void flow_run_finish_refused(struct flow_run *run);
/* Fails the flow in this attempt of this step, for which there is no plan. */
void flow_run_fail(struct flow_run *run, size_t step, int64_t attempt,
                   const struct flow_error *error);
/* Prepares the transition to the plan if no attempt has ended: to an intent, a pause or the end. */
void flow_run_next(struct flow_run *run);
/* Called once run->whole is complete, except for its `flow`: from now on views may be made from
 * it. */
void flow_run_begin_publishing(struct flow_run *run);
/* Called if the statement of the transition found no row. Returns true if that may be because an
 * endpoint hears its event, which a statement without an outbox cannot write: the next one has
 * one. */
bool flow_run_may_be_heard(struct flow_run *run);
/* Called once the transition is durable. */
void flow_run_recorded(struct flow_run *run);
/* service.c: adds runs to and removes them from the service's list and map. */
void flow_run_register(struct flow_run *run);
void flow_run_unregister(struct flow_run *run);

#endif
