/*
 * execution: the record of a run that was tried. Insert-only: a row is inserted when the run has
 * ended, with its summary, and never changes; so the big partitions never contain a dead tuple, and
 * plain reads cost one insert. A run under way is a claim (store/idempotency.h) until
 * `store_execution_finish` moves it here, in one statement. sql/0001_base.sql explains why.
 */
#ifndef STORE_EXECUTION_H
#define STORE_EXECUTION_H

#include "store/store.h"

struct execution {
    struct uuid account_id, id;
    slice integration_id, action_id;
    int64_t connection_id; /* 0: none (auth none) */
    bool is_succeeded;     /* false: it failed */
    slice error_code;      /* SLICE_NONE if succeeded */
    int64_t started_at, finished_at;
    struct uuid owner; /* the node that wrote it */
    slice summary; /* the stored JSON text, returned byte for byte; SLICE_NONE if it was not read
                      because it is larger than STORE_SUMMARY_INLINE_BYTES */
    size_t summary_bytes;   /* set when one execution is read */
    struct uuid api_key_id; /* the caller; nil: unknown, as in rows of the previous version */
    slice api_key_name;     /* set when one execution is read */
    int64_t attempts;       /* requests sent to the app; 0: unknown */
    /* For a list with calls of flows. flow_id nil: an execution. The id of a call is only its
     * position in the list, and its summary is its error, as in a flow_step. */
    struct uuid flow_id;
    slice template_key, flow_title, step_key;
    bool is_fan_out; /* one row, with one call for each item */
};

/* A larger summary is read separately from its row, so that queries for small ones do not wait
 * for it, and its reader knows the size in advance. */
#define STORE_SUMMARY_INLINE_BYTES 65536
/* Lists contain only small summaries of succeeded executions, because these hold the output. */
#define STORE_SUMMARY_LISTED_BYTES 4096

/* Records the finished run of a plain read: no claim, one commit. Replayable. store_done_result. */
void store_execution_insert(struct pg_pool *pool, struct pg_query *query, struct op *op,
                            const struct execution *execution);

/* What happens to the claim's key when the run ends (src/api/README.md "Executions"). */
enum claim_end {
    CLAIM_KEEP,    /* bound to this execution until it expires */
    CLAIM_RELEASE, /* free again; also used for claims without a client's key */
};

/* Ends a claim with a result. If the claim (account, key, execution id, owner) is still this
 * node's, one statement binds or deletes the claim row and inserts the execution. key: as in
 * store_claim. Replayable. store_hit_result: ERR_NOTFOUND if the claim is no longer this node's
 * (another node recovered it after the lease had run out); nothing was written then. */
void store_execution_finish(struct pg_pool *pool, struct pg_query *query, struct op *op,
                            const struct execution *execution, slice key, enum claim_end end);

/* Reads one execution, with its summary unless that is large. Result: ERR_NOTFOUND. */
void store_execution_get(struct pg_pool *pool, struct pg_query *query, struct op *op,
                         struct uuid account_id, struct uuid id);
STORE_ROW_RESULT(store_execution_get_result, execution)

/* Reads only the summary, whatever its size, on the lane of large reads. store_text_result. */
void store_execution_get_summary(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                 struct uuid account_id, struct uuid id);

/* Lists the account's executions, newest first. Failed ones have their summary, which has no
 * output; the others have it only if with_summary is set and it is at most
 * STORE_SUMMARY_LISTED_BYTES, else SLICE_NONE. next: where the next page continues, as `before`;
 * nil at the end of the range. */
struct execution_filter {
    slice integration_id;   /* SLICE_NONE: any */
    slice action_id;        /* SLICE_NONE: any, as for the next */
    slice status;           /* "succeeded", "failed" */
    struct uuid api_key_id; /* nil: any */
    slice error_code; /* selects failures by the code that the API reports; others may be returned,
                         too */
    bool with_summary;
    bool with_calls; /* calls of flows that are filled in (flow_step_fill), by their time */
};
void store_execution_list(struct pg_pool *pool, struct pg_query *query, struct op *op,
                          struct uuid account_id, const struct store_page *page,
                          const struct execution_filter *filter);
int store_execution_list_result(const struct pg_query *query, struct execution **list,
                                size_t *count, struct uuid *next) MUST_CHECK;

#endif
