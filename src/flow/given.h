/*
 * given: which of the flows that wait for a decision a policy lets its key see, or the number of
 * flows in each state that it lets it see. As everywhere (flow_is_hidden), the version of the
 * template that a flow runs decides. So this is known by version, and lists of waiting flows are
 * asked for with the versions that may be seen.
 */
#ifndef FLOW_GIVEN_H
#define FLOW_GIVEN_H

#include "flow/flow.h"
#include "store/flow_inbox.h"

struct flow_given {
    struct op op;
    /* out, valid once the op has ended; before that nothing is given */
    int status;
    /* as store_flow_near wants them, in the parent's arena */
    slice versions;
    int64_t count; /* of the newest FLOW_INBOX_MAX waiting flows those that are given */
    /* with `since`, instead of `count`: its counts of flows, up to FLOW_COUNT_MAX before those that
     * are not given were left out */
    struct flow_counts counts;
    /* private */
    struct flow_service *service;
    struct uuid account_id, since;
    struct policy *policy;
    struct flow_version_count *list;
    struct flow_template_find *finds; /* of each version in the list */
    size_t listed;
    struct pg_query query;
};

/* Starts it in the parent's arena, and holds parent until it is done. Costs one statement, and one
 * more for all versions that are not in memory. since: nil for the flows that wait for a decision,
 * else for the counts (store_flow_counts). policy: of the reader's key, borrowed until then.
 * Returns NULL, with nothing started, if out of memory. */
struct flow_given *flow_given_start(struct flow_service *service, struct uuid account_id,
                                    struct uuid since, struct policy *policy,
                                    struct op *parent) MUST_CHECK;

#endif
