/*
 * flow_deed: a person's change of a flow whose rows do not have the person: a resume or a cancel.
 * The person is read from the audit trail, which is searched by time. If an account has very many
 * events at that time, the person may not be found.
 */
#ifndef WEB_FLOW_DEED_H
#define WEB_FLOW_DEED_H

#include "store/audit.h"
#include "web/pages.h"

struct flow_deed {
    enum audit_kind kind;
    int64_t at;    /* about when, in microseconds, from the flow's rows */
    int64_t after; /* it was not done before this time; 0: unknown */
    size_t place;  /* for the caller */
    struct pg_query query;
};

/* The query holds the request's op. */
void flow_deed_ask(struct web_request *request, struct flow_deed *deed);
/* Sets *by to the actor of the flow's event that is nearest to `at` (SLICE_NONE: there is none),
 * and *done_at to the event's time. Both are unchanged after an error. */
int flow_deed_result(struct web_request *request, const struct flow_deed *deed, struct uuid flow_id,
                     slice *by, int64_t *done_at) MUST_CHECK;

#endif
