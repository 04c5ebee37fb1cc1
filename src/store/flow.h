/*
 * flow: where a flow stands, and the facts of what it did (sql/0002_flows.sql). Every change is
 * one statement, fenced by rev and, while it runs, by its owner: no row back means that it
 * was changed elsewhere (cancelled, adopted), and a node that has it in memory drops it.
 *
 * Writes are here and in flow_take.c; what only reads is in store/flow_read.h.
 */
#ifndef STORE_FLOW_H
#define STORE_FLOW_H

#include "store/idempotency.h"

enum flow_status {
    FLOW_RUNNING,
    FLOW_WAITING,
    FLOW_COMPLETED,
    FLOW_FAILED,
    FLOW_CANCELLED,
};

enum flow_waiting {
    FLOW_WAITS_NOT,
    FLOW_WAITS_TIME,
    FLOW_WAITS_APPROVAL,
    FLOW_WAITS_RETRY, /* a provider's long Retry-After */
};

/* The row. Times are microseconds of the wall clock, 0 where absent. */
struct flow {
    struct uuid account_id, id;
    slice template_key;
    struct uuid template_version;
    slice trigger_type;
    enum flow_status status;
    int64_t rev;
    struct uuid owner; /* nil unless it runs */
    int64_t step_index;
    int64_t attempt; /* begun attempts of this step, a parked one (wait, approval) counts */
    bool is_begun;   /* this attempt may have reached a provider */
    int64_t adoptions;
    enum flow_waiting waiting_for;
    int64_t wake_at; /* the column: read by its meanings below */
    int64_t deadline;
    int64_t created_at, updated_at, completed_at;
};

/*
 * What the column wake_at means: when a pause ends by itself, whatever it is a pause for (a wait's
 * or a retry's time, an approval's expiry, the flow's deadline where that is sooner). It stays
 * behind when the flow goes on, since it is in an index.
 */
/* The timers' view: when a waiting flow is to run again; 0: not by itself, or it does not wait. */
static inline int64_t flow_due_at(const struct flow *flow)
{
    return flow->status == FLOW_WAITING ? flow->wake_at : 0;
}

/* Of a flow that has gone on since: when the pause was to end. */
static inline int64_t flow_was_due_at(const struct flow *flow)
{
    return flow->wake_at;
}

/* The fence of a decision: an approval can be given before this moment; 0: at any time. */
static inline int64_t flow_approval_ends_at(const struct flow *flow)
{
    return flow->waiting_for == FLOW_WAITS_APPROVAL ? flow_due_at(flow) : 0;
}

/* For people: when a wait or a retry goes on. Of an approval flow_approval_ends_at says more. */
static inline int64_t flow_goes_on_at(const struct flow *flow)
{
    return flow->waiting_for == FLOW_WAITS_APPROVAL ? 0 : flow_due_at(flow);
}

const char *flow_status_name(enum flow_status status);

/* A finished attempt of a step: one row, written once. */
struct flow_step {
    int64_t step_index, attempt;
    bool is_completed; /* else failed */
    int64_t started_at, finished_at;
    slice input, output, error; /* JSON texts; SLICE_NONE for none; error exactly when failed */
    /* Only written: of a call its action, or its tool where the catalog has none of it, and the key
     * that started the flow; empty texts of another step. SLICE_NONE: housekeeping fills it in. */
    slice integration_id, action_id;
    struct uuid api_key_id;
};

/* ---- start ---- */

/* Replayable: id and time of creation are the operation token. Slices are borrowed until then. */
struct flow_start {
    /* rev 1: running, owned and with the intent of its first step. rev 2: what would follow at once
     * without a call, has: it waits, or is completed. */
    const struct flow *flow;
    slice input, actor;
    slice waiting_input; /* while it waits: what the step shows; else SLICE_NONE */
    slice trace;         /* SLICE_NONE: none; a traceparent, and perhaps a tracestate */
    slice title;         /* SLICE_NONE: its template's name is its title */
    /* NULL: without an idempotency key. Else the same statement binds the key: execution_id is the
     * flow's id; of what is in flight it has nothing. */
    const struct claim *claim;
};
/* Inserts flow and document. Result: ERR_INVALID where there is one of this id that another request
 * has made; with a claim that of store_claim_result instead: the flow was made with CLAIM_WON
 * alone. */
void store_flow_start(struct pg_pool *pool, struct pg_query *query, struct op *op,
                      const struct flow_start *start);
int store_flow_start_result(const struct pg_query *query) MUST_CHECK;

/* ---- the owner's transitions ---- */

/*
 * From the state that was loaded or written last to `next`, and the row of the attempt that has
 * ended with it (NULL: none, an intent alone). Where account, id, rev = next->rev - 1, owner and
 * status running still match. next->status:
 *   running    the next step's intent, or its next attempt; next->owner stays
 *   waiting    parks; waiting_input is what the step shows (JSON text)
 *   completed, failed
 * Replayable: op_token knows it again. Slices are borrowed until it has ended.
 */
struct flow_move {
    const struct flow *next;
    struct uuid owner; /* the node that may move it: the fence */
    struct uuid op_token;
    /* It waits (or did, at that rev) and its time has come by the database's clock: the same
     * statement makes it run, owned by `owner`, and takes it from there to `next`. */
    bool is_wake;
    const struct flow_step *finished;
    slice waiting_input; /* with waiting */
};
void store_flow_move(struct pg_pool *pool, struct pg_query *query, struct op *op,
                     const struct flow_move *move);

enum flow_item_fact { FLOW_ITEM_BEGUN, FLOW_ITEM_COMPLETED, FLOW_ITEM_FAILED };

/* A fact about one item of a fan-out, where the flow is still owned and at this rev (the flow's
 * row does not change). Replayable. */
struct flow_item {
    struct uuid account_id, flow_id;
    int64_t step_index, item, attempt;
    enum flow_item_fact fact;
    int64_t at;
    slice output, error; /* JSON texts */
};
void store_flow_item_insert(struct pg_pool *pool, struct pg_query *query, struct op *op,
                            const struct flow_item *item, struct uuid owner, int64_t rev);

/*
 * Taking a flow without a running owner: each makes it running, owned by `owner`, not begun.
 * step_index, attempt and wake_at stay: a parked attempt (a wait, an approval) without a row of its
 * own in flow_step has come to its time; an approved one has its row.
 */

enum flow_take_kind {
    FLOW_TAKE_RESUME,  /* waiting, wake_at has passed (by the database's clock), or failed: again
                          from the failed step, by a person. A deadline that has passed is lifted */
    FLOW_TAKE_APPROVE, /* waiting for an approval that has not expired: writes its completed row */
    FLOW_TAKE_ADOPT,   /* running, its owner is dead_owner: is_begun stays, adoptions grows unless
                          that node had left by itself */
};

struct flow_take {
    enum flow_take_kind kind;
    struct uuid account_id, id;
    struct uuid owner, op_token;
    int64_t rev; /* the fence; 0: any (approve and resume without one) */
    int64_t now;
    struct uuid dead_owner; /* ADOPT */
    bool has_left;          /* ADOPT: that node left by itself */
    int64_t step_index;     /* APPROVE: which approval step; -1: the waiting one */
    slice output;           /* APPROVE: {approvedBy, approvedAt, note?} */
};
/* Replayable. */
void store_flow_take(struct pg_pool *pool, struct pg_query *query, struct op *op,
                     const struct flow_take *take);
/* OK and the row as it is now, or ERR_NOTFOUND: nothing was changed; load the row to say why. */
STORE_ROW_RESULT(store_flow_take_result, flow)

/* ---- endings from outside ---- */

/* Any state -> cancelled; of a cancelled one nothing changes. Result as store_flow_take_result:
 * the row as it is now, its owner before in *was_owned_by (nil: no owner), or *was_cancelled: it
 * was before this statement, or by an earlier sending of it; which of the two is not known.
 * ERR_NOTFOUND: no such flow of this account. */
void store_flow_cancel(struct pg_pool *pool, struct pg_query *query, struct op *op,
                       struct uuid account_id, struct uuid id, struct uuid op_token, int64_t now);
int store_flow_cancel_result(const struct pg_query *query, struct flow *flow,
                             struct uuid *was_owned_by, bool *was_cancelled) MUST_CHECK;

/* Waiting for an approval -> cancelled, with the approval's row failed (error: JSON text). rev and
 * step_index as in flow_take. Result as store_flow_take_result. */
struct flow_reject {
    struct uuid account_id, id, op_token;
    int64_t rev, step_index, now;
    slice error;
};
void store_flow_reject(struct pg_pool *pool, struct pg_query *query, struct op *op,
                       const struct flow_reject *reject);

/* After a clean drain, store_node_leave makes a node's running flows free to be adopted at once:
 * they are found by store_flow_orphans, and their adoption does not count. */

/* ---- scans over all accounts: read-only, bounded; each hit is then taken, fenced ---- */

enum { FLOW_SCAN_MAX = 500, FLOW_DUE_MAX = 2000 };

struct flow_ref {
    struct uuid account_id, id, owner;
    int64_t rev, wake_at, adoptions;
    bool has_left; /* of store_flow_orphans: the owner left by itself */
};
/* FLOW_DUE_MAX waiting flows with wake_at up to `until`, soonest first; after (wake_at, id) of the
 * last page (0 and nil: from the first). */
void store_flow_due(struct pg_pool *pool, struct pg_query *query, struct op *op, int64_t until,
                    int64_t after_wake_at, struct uuid after_id);
struct node_dead; /* store/node.h */
/* Running flows of these nodes, whose leases have run out. */
void store_flow_orphans(struct pg_pool *pool, struct pg_query *query, struct op *op,
                        const struct node_dead *dead);
/* Running flows of this owner that have not changed since `before`: all of them (a node's own are
 * in its memory anyway), for what it has lost track of. */
void store_flow_owned(struct pg_pool *pool, struct pg_query *query, struct op *op,
                      struct uuid owner, int64_t before);
STORE_LIST_RESULT(store_flow_scan_result, flow_ref)
/* How many flows wait, of all accounts: up to 10,000 for a time, and as many without one. */
void store_flow_waiting(struct pg_pool *pool, struct pg_query *query, struct op *op);
int store_flow_waiting_result(const struct pg_query *query, size_t *count) MUST_CHECK;

/* ---- templates ---- */

/* Makes a version known for good; flows may refer to it afterwards. Blocks: at start only. */
/* The versions that are stored, newest first, at most 1,000: a row of one PG_UUID each. */
int store_flow_template_versions_sync(struct pg_sync *sync, struct arena *arena,
                                      struct pg_rows *rows, struct err *err) MUST_CHECK;
int store_flow_template_insert_sync(struct pg_sync *sync, struct uuid version, slice key,
                                    slice body, int64_t now, struct err *err) MUST_CHECK;
/* The same while the loop turns; texts are borrowed until the end. Result: store_done_result. */
void store_flow_template_insert(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                struct uuid version, slice key, slice body, int64_t now);
/* ERR_NOTFOUND. */
void store_flow_template_get(struct pg_pool *pool, struct pg_query *query, struct op *op,
                             struct uuid version);
int store_flow_template_get_result(const struct pg_query *query, slice *key,
                                   slice *body) MUST_CHECK;

/* ---- retention ---- */

/* Removes up to FLOW_SCAN_MAX flows that ended before `before` (their documents go with their
 * partitions). Result: how many. */
void store_flow_ended(struct pg_pool *pool, struct pg_query *query, struct op *op, int64_t before);
void store_flow_remove(struct pg_pool *pool, struct pg_query *query, struct op *op,
                       const struct flow_ref *ref, int64_t before);

/* An attempt whose row does not say yet what it called: written before rows said so, or by the
 * version before. At most FLOW_SCAN_MAX, the youngest first. */
struct flow_step_unfilled {
    struct uuid account_id, flow_id;
    int64_t step_index, attempt;
    slice tool;                      /* SLICE_NONE: no call, or its flow is gone */
    slice integration_id, action_id; /* to be filled in; empty: no call */
};
void store_flow_steps_unfilled(struct pg_pool *pool, struct pg_query *query, struct op *op);
STORE_LIST_RESULT(store_flow_steps_unfilled_result, flow_step_unfilled)
/* Fills one of them in, with the key that started its flow; many go into one batch. Replayable.
 * store_done_result. */
void store_flow_step_fill(struct pg_pool *pool, struct pg_query *query, struct op *op,
                          const struct flow_step_unfilled *step);

#endif
