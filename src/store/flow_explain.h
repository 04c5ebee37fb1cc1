/*
 * Where a flow stands, and which node is to move it: for an operator, when it does not.
 */
#ifndef STORE_FLOW_EXPLAIN_H
#define STORE_FLOW_EXPLAIN_H

#include "store/flow.h"

struct flow_explained {
    struct flow flow;
    slice account_name;
    slice node_name;     /* of its owner; SLICE_NONE: that row is gone, or there is no owner */
    int64_t lease_until; /* of its owner; 0 likewise */
    int64_t nodes_alive;
    int64_t now;         /* the database's clock, by which leases count */
    slice template_body; /* of its version */
    slice last_error;    /* JSON, of the attempt that failed last; SLICE_NONE: none has */
};

/* By its id alone, of whatever account. ERR_NOTFOUND. Slices lie in the arena. */
int store_flow_explain_sync(struct pg_sync *sync, struct arena *arena, struct uuid id,
                            struct flow_explained *explained, struct err *err) MUST_CHECK;

#endif
