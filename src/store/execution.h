/*
 * execution: the record of a run that was tried. Insert-only: a row is inserted when the run has
 * ended, with its summary, and never changes; so the big partitions never contain a dead tuple, and
 * plain reads cost one insert. A run under way is a claim (store/idempotency.h) until
 * `store_execution_finish` moves it here, in one statement. sql/0001_base.sql explains why.
 */
#ifndef STORE_EXECUTION_H
#define STORE_EXECUTION_H

#include "store/execution_input.h"

struct execution {
    struct uuid account_id, id;
    slice integration_id, action_id;
    int64_t connection_id; /* 0: none (auth none) */
    bool is_succeeded;     /* false: it failed */
    slice error_code;      /* SLICE_NONE if the run succeeded */
    int64_t started_at, finished_at;
    struct uuid owner; /* the node that wrote it */
    slice summary; /* the stored JSON text, returned byte for byte; SLICE_NONE if it was not read
                      because it is larger than STORE_SUMMARY_INLINE_BYTES */
    size_t summary_bytes;   /* set when one execution is read */
    struct uuid api_key_id; /* the caller; nil if unknown, as in rows of the previous version */
    slice api_key_name;     /* set when one execution is read */
    int64_t attempts;       /* requests sent to the app; 0: unknown */
    slice policy;           /* "name@rev" of the policy that allowed it; SLICE_NONE: none; only
                             * written */
    struct execution_input input; /* stored with the row unless it is empty; not read with it */
    /* Of a run whose outcome is unknown, only written: the id of that event (nil: none is made),
     * and of a user's run the account. */
    struct uuid event_id, parent_id;
    /* For a list with flow calls. If flow_id is nil, this is an execution. The id of a flow call is
     * only its position in the list, and its summary is its error, as in a flow_step. */
    struct uuid flow_id;
    slice template_key, flow_title, step_key;
    /* the tools that the flow's version of the template calls, separated by blanks; SLICE_NONE if
     * they were not requested */
    slice flow_tools;
    /* A fan-out: this row represents several calls, one for each item that this attempt of the
     * step began; failed_calls: those that it did not complete. */
    bool is_fan_out;
    int64_t calls, failed_calls;
    /* For a list with blocked runs: this is the event of one. Its error_code is the reason. */
    bool is_blocked;
};

/* A larger summary is read separately from its row, so that queries for small ones do not wait
 * for it, and its reader knows the size in advance. */
#define STORE_SUMMARY_INLINE_BYTES 65536
/* Lists contain only small summaries of succeeded executions, because these summaries include the
 * output. */
#define STORE_SUMMARY_LISTED_BYTES 4096

/* Records the finished run of a plain read, without a claim, in one commit, and its input if it is
 * set. Replayable. Read the result with store_done_result. */
void store_execution_insert(STORE_ARGS, const struct execution *execution);

/* What happens to the claim's key when the run ends (src/api/README.md "Executions"). */
enum claim_end {
    CLAIM_KEEP,    /* bound to this execution until it expires */
    CLAIM_RELEASE, /* free again; also used for claims without a client's key */
};

/* Ends a claim with a result. If the claim (account, key, execution id, owner) is still this
 * node's, one statement binds or deletes the claim row and inserts the execution, and its input if
 * it is set. key: as in store_claim. Replayable. Read the result with store_hit_result:
 * ERR_NOTFOUND if the claim is no longer this node's (another node recovered it after the lease had
 * run out); nothing was written then. */
void store_execution_finish(STORE_ARGS, const struct execution *execution, slice key,
                            enum claim_end end);

/* Reads one execution, with its summary unless that is large. payer_id: the account, also for a
 * user's execution: its key is named. The result is ERR_NOTFOUND if there is no such execution. */
void store_execution_get(STORE_ARGS, struct uuid account_id, struct uuid id, struct uuid payer_id);
STORE_ROW_RESULT(store_execution_get_result, execution)

/* Reads only the summary, whatever its size, on the lane of large reads. Read the result with
 * store_text_result. */
void store_execution_get_summary(STORE_ARGS, struct uuid account_id, struct uuid id);

/* Lists the account's executions, newest first. Failed executions have their summary, which has no
 * output. Other executions have it only if with_summary is set and the summary has at most
 * STORE_SUMMARY_LISTED_BYTES; otherwise it is SLICE_NONE. next: where the next page continues, as
 * `before`; nil at the end of the range. */
struct execution_filter {
    slice integration_id;   /* SLICE_NONE: any */
    slice action_id;        /* SLICE_NONE: any; also for status */
    slice status;           /* "succeeded", "failed", "blocked" (only with_blocked) */
    struct uuid api_key_id; /* nil: any */
    struct uuid parent_id;  /* for a user's list: the account, whose keys the rows name; else nil */
    /* selects failures by the code that the API reports; blocked runs are returned, too */
    slice error_code;
    bool with_summary;
    /* also list flow calls that name their call (store_flow_step_fill), by their time */
    bool with_calls;
    bool with_tools;   /* of flow calls: for a reader with a policy (serve_gives_tools) */
    bool with_blocked; /* also list blocked runs, from the audit trail */
    /* only runs that have all words of a search (vault_words_search), of those that have words:
     * with their input (exec/input.c); no flow calls. SLICE_NONE: any */
    slice words;
};
void store_execution_list(STORE_ARGS, struct uuid account_id, const struct store_page *page,
                          const struct execution_filter *filter);
int store_execution_list_result(const struct pg_query *query, struct execution **list,
                                size_t *count, struct uuid *next) MUST_CHECK;

#endif
