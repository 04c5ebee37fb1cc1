/*
 * flow: the state of a flow, and the facts about its steps (sql/0002_flows.sql). Every change is
 * one statement, fenced by rev and, while the flow runs, by its owner. If no row is returned, the
 * flow was changed elsewhere (cancelled, adopted), and a node that has it in memory drops it.
 * Writes are here and in flow_take.c; reads are in store/flow_read.h.
 */
#ifndef STORE_FLOW_H
#define STORE_FLOW_H

#include "store/idempotency.h"
#include "store/policy.h"

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
    struct uuid owner; /* nil unless the flow runs */
    int64_t step_index;
    int64_t attempt; /* started attempts of this step; a parked attempt (wait, approval) counts */
    bool is_begun;   /* this attempt may have reached a provider */
    int64_t adoptions;
    enum flow_waiting waiting_for;
    int64_t wake_at; /* the column wake_at; the functions below interpret it */
    int64_t deadline;
    int64_t created_at, updated_at, completed_at;
    struct uuid parent_id; /* of a user's flow: the account; else nil */
};

/*
 * The column wake_at means the time when a pause ends by itself, for any kind of pause (a wait's or
 * a retry's time, an approval's expiry, the flow's deadline if that is sooner). It keeps its value
 * when the flow continues, since it is indexed.
 */
/* For timers: returns when a waiting flow is to run again, or 0 if it does not wait or does not
 * continue by itself. */
static inline int64_t flow_due_at(const struct flow *flow)
{
    return flow->status == FLOW_WAITING ? flow->wake_at : 0;
}

/* For a flow that has continued since its pause: returns when the pause was to end. */
static inline int64_t flow_was_due_at(const struct flow *flow)
{
    return flow->wake_at;
}

/* Returns the fence of a decision: an approval can be given before this moment, or at any time if
 * it is 0. */
static inline int64_t flow_approval_ends_at(const struct flow *flow)
{
    return flow->waiting_for == FLOW_WAITS_APPROVAL ? flow_due_at(flow) : 0;
}

/* For people: returns when a wait or a retry continues. For an approval, flow_approval_ends_at is
 * more precise. */
static inline int64_t flow_continues_at(const struct flow *flow)
{
    return flow->waiting_for == FLOW_WAITS_APPROVAL ? 0 : flow_due_at(flow);
}

const char *flow_status_name(enum flow_status status);

/* A finished attempt of a step: one row, written once. */
struct flow_step {
    int64_t step_index, attempt;
    bool is_completed; /* false: it failed */
    int64_t started_at, finished_at;
    /* JSON texts; SLICE_NONE for none. error is set if and only if the attempt failed. */
    slice input, output, error;
    /* These are only written: a call's action, or its tool if the catalog does not have the action,
     * and the key that started the flow. The texts are empty if the step is not a call. If they are
     * SLICE_NONE, housekeeping fills them in. */
    slice integration_id, action_id;
    struct uuid api_key_id;
};

/* The event of a change: the statement writes it for each endpoint that hears the kind, which
 * follows from the change. Texts are borrowed until the query has ended. */
struct flow_event {
    struct uuid id;    /* UUIDv7; nil: the change makes no event */
    slice step_key;    /* of the step that waits, was decided on or has failed; SLICE_NONE: none */
    slice error_code;  /* of a failed flow */
    slice url;         /* where a person decides; SLICE_NONE: not known, or nothing to decide */
    slice rejected_by; /* an actor (store/audit.h) */
};

/* ---- start ---- */

struct hold; /* store/hold.h */

/* A flow to start. Replayable: id and time of creation are the operation token. Slices are borrowed
 * until the query has ended. */
struct flow_start {
    /* With rev 1 the flow is running, owned and has the intent of its first step. With rev 2
     * everything before the first call is done, so the flow waits or is completed. */
    const struct flow *flow;
    slice input, actor;
    slice waiting_input; /* the document that the step shows if the flow waits; else SLICE_NONE */
    slice trace;         /* a traceparent, which a tracestate may follow; SLICE_NONE: none */
    slice title;         /* SLICE_NONE: the template's name is used */
    /* NULL if there is no idempotency key. Otherwise the same statement binds the key: execution_id
     * is the flow's id. With an owner the key is in flight instead, until it is bound or released;
     * if that node dies, it is released (is_write is false). */
    const struct claim *claim;
    /* Likewise of a hold, whose flow this is: the members from `key` on, except execution_id. NULL:
     * none. Not together with a claim. */
    const struct hold *hold;
    struct flow_event event;
};
/* Inserts the flow and its document. The result is ERR_INVALID if another request has made a flow
 * with this id. With a claim, read the result with store_claim_result instead: the flow was made
 * only if it is CLAIM_WON; with a hold use store_hold_start_result. */
void store_flow_start(STORE_ARGS, const struct flow_start *start);
int store_flow_start_result(const struct pg_query *query) MUST_CHECK;

/* ---- the owner's transitions ---- */

/*
 * Moves a flow from the state that was loaded or written last to `next`, and inserts the row of the
 * attempt that ends with this transition (NULL if none ends, and only an intent is written).
 * Nothing is done unless account, id, rev = next->rev - 1, owner and status running still match.
 * next->status:
 *   running    the next step's intent, or its next attempt; next->owner stays
 *   waiting    parks; waiting_input is the document that the step shows (JSON text)
 *   completed, failed
 * Replayable: op_token identifies the transition. Slices are borrowed until the query has ended.
 */
struct flow_move {
    const struct flow *next;
    struct uuid owner; /* the node that may move it: the fence */
    struct uuid op_token;
    /* For a flow that waits (or waited, at that rev) and whose time has come by the database's
     * clock: the same statement makes it running, owned by `owner`, and moves it from there to
     * `next`. */
    bool is_wake;
    const struct flow_step *finished;
    slice waiting_input; /* if waiting */
    struct flow_event event;
    /* Whether the statement writes the event for the endpoints of the account that pays. Without
     * this it costs less, and is fenced: if that account has an endpoint, no flow with an event is
     * moved. */
    bool has_outbox;
};
void store_flow_move(STORE_ARGS, const struct flow_move *move);
/* Returns the policy of a key from the text of struct flow_whole. A key that no longer exists has
 * one that no longer exists. */
struct key_policy store_flow_policy(slice text);

enum flow_item_fact { FLOW_ITEM_BEGUN, FLOW_ITEM_COMPLETED, FLOW_ITEM_FAILED };

/* Stores a fact about one item of a fan-out, if the flow is still owned and at this rev (the
 * flow's row does not change). Replayable. */
struct flow_item {
    struct uuid account_id, flow_id;
    int64_t step_index, item, attempt;
    enum flow_item_fact fact;
    int64_t at;
    slice output, error; /* JSON texts */
};
void store_flow_item_insert(STORE_ARGS, const struct flow_item *item, struct uuid owner,
                            int64_t rev);

/*
 * The ways to take a flow that has no running owner. Each kind makes it running, owned by `owner`,
 * not begun. step_index, attempt and wake_at stay. A parked attempt (a wait, an approval) without a
 * row of its own in flow_step has reached its time; an approved attempt has its row.
 */

enum flow_take_kind {
    /* takes a waiting flow whose wake_at has passed (by the database's clock), or, for a person, a
     * failed flow from its failed step: a passed deadline is then removed */
    FLOW_TAKE_RESUME,
    /* takes a flow that waits for an approval which has not expired, and writes the approval's
     * completed row */
    FLOW_TAKE_APPROVE,
    /* takes a running flow whose owner is dead_owner: is_begun stays, and adoptions grows unless
     * that node had left in order */
    FLOW_TAKE_ADOPT,
};

struct flow_take {
    enum flow_take_kind kind;
    struct uuid account_id, id;
    struct uuid owner, op_token;
    int64_t rev; /* the fence; 0: any revision (to approve or resume without a fence) */
    int64_t now;
    struct uuid dead_owner;  /* ADOPT */
    bool has_left;           /* ADOPT: that node left in order */
    int64_t step_index;      /* APPROVE: the approval step; -1: the step that waits */
    slice output;            /* APPROVE: {approvedBy, approvedAt, note?} */
    struct flow_event event; /* APPROVE */
};
/* Replayable. */
void store_flow_take(STORE_ARGS, const struct flow_take *take);
/* Returns OK and the row as it is now. Returns ERR_NOTFOUND if nothing was changed; load the row to
 * find out why. */
STORE_ROW_RESULT(store_flow_take_result, flow)

/* ---- endings from outside ---- */

/* Cancels a flow in any state; a flow that is already cancelled does not change. The result is that
 * of store_flow_take_result, with the row as it is now. *was_owned_by gets the previous owner (nil:
 * none). *was_cancelled is set if the flow was cancelled before this statement, possibly by an
 * earlier attempt of the statement. The result is ERR_NOTFOUND if the account has no such flow. */
void store_flow_cancel(STORE_ARGS, struct uuid account_id, struct uuid id, struct uuid op_token,
                       int64_t now, struct uuid event_id);
int store_flow_cancel_result(const struct pg_query *query, struct flow *flow,
                             struct uuid *was_owned_by, bool *was_cancelled) MUST_CHECK;

/* Cancels a flow that waits for an approval, and writes a failed row of the approval (error: JSON
 * text). rev and step_index: as in flow_take. The result is that of store_flow_take_result. */
struct flow_reject {
    struct uuid account_id, id, op_token;
    int64_t rev, step_index, now;
    slice error;
    struct flow_event event;
};
void store_flow_reject(STORE_ARGS, const struct flow_reject *reject);

/* When a node stops after a clean drain, store_node_leave releases its running flows, so that
 * others can adopt them at once: store_flow_orphans finds them, and their adoption does not
 * count. */

/* ---- scans over all accounts: read-only, bounded; each hit is then taken, fenced. That for
 * waiting flows is in store/due.h ---- */

enum { FLOW_SCAN_MAX = 500 };

struct flow_ref {
    struct uuid account_id, id, owner;
    struct uuid parent_id; /* as in struct flow */
    int64_t rev, wake_at, adoptions;
    bool has_left; /* from store_flow_orphans: the owner left in order */
};
struct node_dead; /* store/node.h */
/* Lists running flows of these nodes, whose leases have run out. */
void store_flow_orphans(STORE_ARGS, const struct node_dead *dead);
/* Lists the running flows of this owner that have not changed since `before`, to find flows that
 * the owner has lost track of. The list has no limit, since a node's own flows are in its memory
 * anyway. */
void store_flow_owned(STORE_ARGS, struct uuid owner, int64_t before);
STORE_LIST_RESULT(store_flow_scan_result, flow_ref)
/* Counts the waiting flows of all accounts: up to 10,000 with a time, and as many without a
 * time. */
void store_flow_waiting(STORE_ARGS);
int store_flow_waiting_result(const struct pg_query *query, size_t *count) MUST_CHECK;

/* ---- templates ---- */

/* Lists the stored versions, newest first, at most 1,000; each row is one PG_UUID. */
int store_flow_template_versions_sync(struct pg_sync *sync, struct arena *arena,
                                      struct pg_rows *rows, struct err *err) MUST_CHECK;
/* Stores a version permanently; flows may refer to it afterwards. Blocks, so it is used only at the
 * start. */
int store_flow_template_insert_sync(struct pg_sync *sync, struct uuid version, slice key,
                                    slice body, int64_t now, struct err *err) MUST_CHECK;
/* Stores a version while the loop runs. The texts are borrowed until the query has ended. Read the
 * result with store_done_result. */
void store_flow_template_insert(STORE_ARGS, struct uuid version, slice key, slice body,
                                int64_t now);
/* Reads a version. The result is ERR_NOTFOUND if it does not exist. */
void store_flow_template_get(STORE_ARGS, struct uuid version);
int store_flow_template_get_result(const struct pg_query *query, slice *key,
                                   slice *body) MUST_CHECK;

/* ---- retention ---- */

/* Removes up to FLOW_SCAN_MAX flows that ended before `before` (their documents are dropped with
 * their partitions). The result is the number of removed flows. */
void store_flow_ended(STORE_ARGS, int64_t before);
void store_flow_remove(STORE_ARGS, const struct flow_ref *ref, int64_t before);

/* An attempt whose row does not name its call yet: written by an earlier version. The scan
 * returns at most FLOW_SCAN_MAX, the youngest first. */
struct flow_step_unfilled {
    struct uuid account_id, flow_id;
    int64_t step_index, attempt;
    /* SLICE_NONE if the step is not a call, or if its flow no longer exists */
    slice tool;
    slice integration_id, action_id; /* to be filled in; empty if the step is not a call */
};
void store_flow_steps_unfilled(STORE_ARGS);
STORE_LIST_RESULT(store_flow_steps_unfilled_result, flow_step_unfilled)
/* Fills in one such attempt, with the key that started its flow; many go into one batch.
 * Replayable. Read the result with store_done_result. */
void store_flow_step_fill(STORE_ARGS, const struct flow_step_unfilled *step);

#endif
