/*
 * doer: a person's change of a flow whose rows do not have the person: a resume or a cancel.
 * The person is read from the audit trail, which is searched by time. If an account has very many
 * events at that time, the person may not be found.
 */
#ifndef FLOW_DOER_H
#define FLOW_DOER_H

#include "store/audit.h"
#include "store/store.h"

struct flow_doer {
    enum audit_kind kind;
    int64_t at;    /* about when, in microseconds, from the flow's rows */
    int64_t after; /* it was not done before this time; 0: unknown */
    size_t index;  /* for the caller */
    struct pg_query query;
};

/* The query holds op. */
void flow_doer_ask(struct pg_pool *pool, struct op *op, struct uuid account_id,
                   struct flow_doer *doer);
/* Sets *by to the actor of the flow's event that is nearest to `at` (SLICE_NONE: there is none),
 * and *done_at to the event's time. Both are unchanged after an error. */
int flow_doer_result(const struct flow_doer *doer, struct uuid flow_id, slice *by,
                     int64_t *done_at) MUST_CHECK;

#endif
