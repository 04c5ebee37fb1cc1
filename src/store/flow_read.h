/*
 * Reads of flows: one whole flow for a view or to run it, and lists.
 */
#ifndef STORE_FLOW_READ_H
#define STORE_FLOW_READ_H

#include "store/flow.h"

/* Everything about one flow, from one snapshot of the database (one statement). */
struct flow_whole {
    struct flow flow;
    slice input, actor;
    slice waiting_input; /* SLICE_NONE for none */
    /* SLICE_NONE if there is none; without a title the template's name is used */
    slice trace, title;
    slice policy;            /* with items: that of the key that started it (store_flow_policy) */
    struct flow_step *steps; /* by step_index, attempt */
    size_t step_count;
    struct flow_item *items; /* of the current step only, sorted by item, attempt and fact */
    size_t item_count;
};
/* Loads a flow. with_items: set by the node that runs the flow. The result is in the op's arena, or
 * ERR_NOTFOUND if the flow does not exist. */
void store_flow_load(STORE_ARGS, struct uuid account_id, struct uuid id, bool with_items);
int store_flow_load_result(const struct pg_query *query, struct flow_whole *whole) MUST_CHECK;

/* How the message of a rejected approval begins; the actor follows. Lists recognize it, too. */
#define FLOW_REJECTED_BY "Rejected by "

/* Selects flows, most recent first, with their inputs; `context` needs the outputs of completed
 * steps. */
struct flow_filter {
    struct uuid account_id;
    struct uuid payer_id; /* with_asker: the account whose keys are named; nil: account_id */
    int status;           /* enum flow_status; -1: any */
    bool is_for_approval; /* with FLOW_WAITING and with_asker: only flows that wait for a person */
    slice template_key;   /* SLICE_NONE: any */
    slice state;          /* of cancelled flows: only "rejected" or "cancelled"; SLICE_NONE: any */
    slice words;    /* only flows whose titles have all of them (vault_words_patterns); SLICE_NONE:
                     * any */
    struct uuid id; /* only this one; nil: any. `before` is above it */
    struct uuid before; /* the last flow of the previous page; nil: from the newest */
    int64_t limit;      /* 1 to 100 */
    bool is_rows_alone; /* reads rows without input and outputs */
    bool with_input;    /* reads the input but no outputs; needs a status */
    bool with_asker;    /* reads only the requester with each row */
};
void store_flow_list(STORE_ARGS, const struct flow_filter *filter);
/* A flow of a list. outputs has the completed steps (step_index and output only), in order. */
struct flow_listed {
    struct flow flow;
    slice title; /* as in struct flow_whole */
    slice input;
    slice asker;      /* the name of the key that started it, or the actor as stored */
    bool is_rejected; /* with asker: cancelled because a person rejected its approval */
    struct flow_step *outputs;
    size_t output_count;
};
/* *next is the `before` of the next page (store.h), or nil if there are no older flows. A page
 * filtered by template reads STORE_PAGE_ROWS flows (of the given status, if any), and may be
 * empty. */
int store_flow_list_result(const struct pg_query *query, struct flow_listed **list, size_t *count,
                           struct uuid *next) MUST_CHECK;

/* Reads the name of a flow: one query per flow, batched as below. The result is ERR_NOTFOUND if the
 * flow does not exist. */
struct flow_title {
    slice title, template_key; /* title is SLICE_NONE if the template's name is used */
};
void store_flow_title(STORE_ARGS, struct uuid account_id, struct uuid id);
STORE_ROW_RESULT(store_flow_title_result, flow_title)

/* Reads the policy of a key, for store_flow_policy. Read the result with store_text_result. */
void store_flow_key_policy(STORE_ARGS, struct uuid account_id, struct uuid key_id);

/* Reads the rev of a watched flow, for long polls and event streams on other nodes: one query per
 * flow, batched into one statement per turn. The result is ERR_NOTFOUND if the flow does not
 * exist. */
void store_flow_rev(STORE_ARGS, struct uuid account_id, struct uuid id);
/* Reads a positive number that changes when an account's waiting flows or the newest flows of
 * another status change. It is 1 without flows. Read the result with store_rev_result. */
void store_flow_stamp(STORE_ARGS, struct uuid account_id);

#endif
