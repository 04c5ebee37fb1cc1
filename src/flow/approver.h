/*
 * approver: who may decide about a held call.
 */
#ifndef FLOW_APPROVER_H
#define FLOW_APPROVER_H

#include "flow/flow.h"

/* Asks whether a decider may approve or reject a held call of a flow that `asker` started. Both are
 * actors ("key:<id>"); payer_id is the account that has their keys. A decider that is not a key may
 * not. Holds op until the answer is there; then call flow_approver_result. */
void flow_approver_ask(struct pg_pool *pool, struct pg_query *query, struct op *op,
                       struct uuid payer_id, slice asker, slice decider);
/* Returns OK or the query's status; *may_decide is false then. */
int flow_approver_result(const struct pg_query *query, bool *may_decide) MUST_CHECK;
/* The answer to a decider that may not. */
slice flow_approver_refusal(void);

#endif
