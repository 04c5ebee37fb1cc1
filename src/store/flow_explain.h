/*
 * The state of a flow and the node that has to move it, so that an operator can see why a flow does
 * not move.
 */
#ifndef STORE_FLOW_EXPLAIN_H
#define STORE_FLOW_EXPLAIN_H

#include "store/flow.h"

struct flow_explained {
    struct flow flow;
    slice account_name;
    /* the owner's name; SLICE_NONE if its row no longer exists, or if there is no owner */
    slice node_name;
    int64_t lease_until; /* the owner's lease; 0 if node_name is SLICE_NONE */
    int64_t nodes_alive;
    int64_t now;         /* the database's clock, by which leases are measured */
    slice template_body; /* the body of the template's version */
    /* the error of the attempt that failed last, as JSON; SLICE_NONE if none failed */
    slice last_error;
};

/* Finds a flow by its id alone, in any account. Returns ERR_NOTFOUND if it does not exist. Slices
 * are in the arena. */
int store_flow_explain_sync(struct pg_sync *sync, struct arena *arena, struct uuid id,
                            struct flow_explained *explained, struct err *err) MUST_CHECK;

#endif
