/*
 * What flows have called, as a list by time: the steps of all the account's flows that have ended,
 * but for those that took no input, for lists that have them among executions. An attempt is a row,
 * and so is a whole fan-out. Only the template knows which step is a call (flow/calls.h).
 */
#ifndef STORE_FLOW_PAST_H
#define STORE_FLOW_PAST_H

#include "store/store.h"

struct flow_past {
    struct uuid flow_id, template_version;
    int64_t step_index, attempt;
    bool is_completed; /* else failed */
    int64_t started_at, finished_at;
    slice title;        /* of the flow; SLICE_NONE: its template's name is it */
    slice error;        /* as that of a flow_step */
    slice actor;        /* who started the flow */
    slice api_key_name; /* of the actor; SLICE_NONE: it is no key, or its key is gone */
    bool is_cut;        /* the last that was read, though more may follow; whatever it is */
};

enum flow_past_outcome { FLOW_PAST_ALL, FLOW_PAST_FAILED, FLOW_PAST_COMPLETED };

/* From since on, and before `before`; the youngest count_max (1 to 200) among the 1,000
 * youngest steps of the range. app_id, action_id (SLICE_NONE: any): for a list of the calls of
 * these: no steps where no template has such a call, else steps of all. */
struct flow_past_range {
    int64_t since, before, count_max;
    enum flow_past_outcome outcome;
    slice app_id, action_id; /* borrowed until the query has ended */
};

/* Youngest first. With as many as count_max, or a last one that is_cut, more may follow. */
void store_flow_past_list(struct pg_pool *pool, struct pg_query *query, struct op *op,
                          struct uuid account_id, const struct flow_past_range *range);
STORE_LIST_RESULT(store_flow_past_list_result, flow_past)

#endif
