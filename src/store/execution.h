/*
 * execution: the record of a run that was tried. Insert-only: a row appears when the run has
 * ended, with its stored summary, and never changes; so the big partitions never hold a dead
 * tuple, and plain reads cost one insert. What is under way lives as a claim (store/idempotency.h)
 * until `store_execution_finish` moves it here, in one statement. sql/0001_base.sql says why.
 */
#ifndef STORE_EXECUTION_H
#define STORE_EXECUTION_H

#include "store/store.h"

struct execution {
    struct uuid account_id, id;
    slice integration_id, action_id;
    int64_t connection_id; /* 0: none (auth none) */
    bool is_succeeded;     /* else failed */
    slice error_code;      /* SLICE_NONE when succeeded */
    int64_t started_at, finished_at;
    struct uuid owner; /* the node that wrote it */
    slice summary;     /* the stored document, a JSON text returned byte for byte; SLICE_NONE where
                          it was read without, being larger than STORE_SUMMARY_INLINE_BYTES */
    size_t summary_bytes;   /* set where one execution is read */
    struct uuid api_key_id; /* who asked; nil: not known, as of what the version before recorded */
    slice api_key_name;     /* read alone */
    int64_t attempts;       /* requests of the app that were made; 0: not known */
    /* Of a list that has calls of flows, too; flow_id nil: it is an execution. Of a call the id is
     * its place in the list alone, and the summary its error, as that of a flow_step. */
    struct uuid flow_id;
    slice template_key, flow_title, step_key;
    bool is_fan_out; /* one row, and a call an item */
};

/* A larger summary is not read with its row but by itself, so that queries for small ones do
 * not wait for it, and its reader knows the size beforehand. */
#define STORE_SUMMARY_INLINE_BYTES 65536
/* Of what succeeded, a list has those summaries alone that are small: they hold the output. */
#define STORE_SUMMARY_LISTED_BYTES 4096

/* Records the finished run of a plain read: no claim, one commit. Replayable. store_done_result. */
void store_execution_insert(struct pg_pool *pool, struct pg_query *query, struct op *op,
                            const struct execution *execution);

/* What happens to the claim's key when the run ends (src/api/README.md "Executions"). */
enum claim_end {
    CLAIM_KEEP,    /* bound to this execution until it expires */
    CLAIM_RELEASE, /* free again; also for claims without a client's key */
};

/* Ends a claim with a result: the claim row is bound or deleted and the execution inserted, in one
 * statement, where the claim (account, key, execution id, owner) is still ours. key as in
 * store_claim. Replayable. store_hit_result: ERR_NOTFOUND, not ours any more (recovered by another
 * node after our lease had run out); nothing was written then. */
void store_execution_finish(struct pg_pool *pool, struct pg_query *query, struct op *op,
                            const struct execution *execution, slice key, enum claim_end end);

/* Its row, with its summary unless that is large. Result: ERR_NOTFOUND. */
void store_execution_get(struct pg_pool *pool, struct pg_query *query, struct op *op,
                         struct uuid account_id, struct uuid id);
STORE_ROW_RESULT(store_execution_get_result, execution)

/* The summary alone, whatever its size, on the lane of large reads.
 * store_text_result. */
void store_execution_get_summary(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                 struct uuid account_id, struct uuid id);

/* The account's executions, newest first; of those that failed with their summary, which has no
 * output, of the others without (SLICE_NONE) unless with_summary is set and it has at most
 * STORE_SUMMARY_LISTED_BYTES. next: where the next page goes on, as `before`; nil when the range is
 * through. */
struct execution_filter {
    slice integration_id;   /* SLICE_NONE: of all */
    slice action_id;        /* likewise, as the next */
    slice status;           /* "succeeded", "failed" */
    struct uuid api_key_id; /* nil: of all */
    slice error_code; /* of those that failed, as the interface says it; others may come, too */
    bool with_summary;
    bool with_calls; /* of flows, those that are filled in (flow_step_fill), by their time */
};
void store_execution_list(struct pg_pool *pool, struct pg_query *query, struct op *op,
                          struct uuid account_id, const struct store_page *page,
                          const struct execution_filter *filter);
int store_execution_list_result(const struct pg_query *query, struct execution **list,
                                size_t *count, struct uuid *next) MUST_CHECK;

#endif
