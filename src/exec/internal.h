/*
 * The internals of an execution: its steps, its state by phase, and functions that the room's files
 * share. Private to the room.
 */
#ifndef EXEC_INTERNAL_H
#define EXEC_INTERNAL_H

#include "base/map.h"
#include "call/app_times.h"
#include "call/build.h"
#include "limit/circuit_news.h"
#include "limit/concurrency.h"
#include "exec/exec.h"
#include "limit/limits.h"
#include "call/reply.h"
#include "policy/policy.h"
#include "exec/tally.h"
#include "node/unsent.h"
#include "store/audit.h"
#include "store/execution.h"
#include "store/idempotency.h"
#include "store/later.h"
#include "store/tally_cache.h"

enum {
    EXEC_ARENA_BYTES_MAX = 64 * 1024 * 1024,
    EXEC_ATTEMPTS_MAX = 4,
    EXEC_BACKOFF_MS_MIN = 100,
    EXEC_BACKOFF_MS_MAX = 5000,
};

/* Runs that wait before they ask a policy (turns.c). */
struct exec_turns {
    struct loop *loop;
    struct list ring; /* struct concurrency_account.keyed: accounts with such runs */
    struct loop_task task;
    uint64_t at, visits; /* the last turn of the loop with decisions, and their work */
};

struct exec_service {
    struct exec_config config;
    struct exec_holder holder;
    struct uuid self; /* identifies this process to others */
    struct limits *limits;
    struct breaker *breaker;
    struct map in_flight;                /* runs of this process: account and key -> struct exec */
    struct list all;                     /* struct exec.all_link */
    struct list carried;                 /* struct exec_carried.link */
    struct store_laters endings, audits; /* ending.c, audit.c */
    struct unsent unsent;
    struct concurrency concurrency; /* runs under way, by account */
    struct exec_summaries summaries;
    struct counts tallies, usage;
    struct app_times_table app_times;
    struct tally_cache *sums;
    struct exec_turns turns;
    size_t blocked_input_bytes; /* inputs of blocked runs that are being stored (input.c) */
};

/* Faults of input and files (check.c), as sentences without a full stop; SLICE_NONE: none. */
struct exec_faults {
    slice input, input_hints, files;
    uint32_t files_broken; /* one bit per file that is not valid base64 */
    int files_status;
};

/* For a list that is read page by page (page.c). */
struct exec_pages {
    unsigned read, attempts; /* attempts: made for earlier pages or requests */
    size_t bytes;
    struct json all;
    struct exec_outcome kept; /* the outcome after the previous page */
    const struct json *input; /* input of the current page; NULL: the first page */
    slice stopped;
    bool is_taken, is_ended; /* the last reply was appended; no page follows */
};

/* The state of a run's intent, a row in flight; changed only by exec_claim_move. */
enum exec_claim {
    /* there is no intent: it is not needed, was refused, or another run has the key */
    EXEC_CLAIM_NONE,
    EXEC_CLAIM_ASKED, /* sent, its answer has not arrived */
    EXEC_CLAIM_OURS,  /* durable: a record or a release must follow */
    EXEC_CLAIM_ENDED, /* bound or released, or another op will do this */
};

/* Idempotency (claim.c): the key, and the intent that is recorded under it or under the run's
 * own key. */
struct exec_key {
    /* account and key, as in the service's table of keys in flight; empty: not made yet */
    slice name;
    bool is_holder;        /* this run has the name's entry in that table */
    slice lost;            /* the key of equal requests without one (lost.c); else SLICE_NONE */
    bool is_client_gone;   /* before it had the result */
    bool is_kept;          /* the record binds the key */
    bool has_waited;       /* for another run with the key */
    bool is_taken;         /* a hold or another run of this request has the key */
    enum exec_claim state; /* the state of claim */
    unsigned waits;        /* number of waits for a run of another process */
    struct list waiters;   /* key.waiter_link of runs that wait for this one */
    struct list waiter_link;
    struct claim claim;                    /* has the request's fingerprint once name is made */
    struct claim_outcome found;            /* the key's row */
    struct exec_summary_read summary_read; /* reads a large result */
};

/* The connection (gate.c) and its token (renew.c). */
struct exec_connection {
    struct connect_lookup lookup;
    const struct connect_item
        *item; /* an item of lookup; NULL: the app needs no connection, or none is chosen yet */
    bool wants_shared; /* the next lookup is for those that the account shares with the user */
    struct connect_renewal renewal;
    int64_t renewed_id;    /* the connection whose token was renewed */
    bool is_renewed_after; /* a renewal was attempted after the provider had refused the token */
};

/* Limits and circuit (admit.c). */
struct exec_gate {
    struct limits_slot slot;
    struct breaker_pass pass;
};

/* The current request, and its attempts (attempt.c). */
struct exec_attempt {
    struct http_call call;
    uint64_t started_ns;
    uint64_t proof_boot_ns; /* when the query for a newer proof was sent */
    /* The outcome of the last request that may have had an effect, and its position in the
     * action, until a later reply settles it. NULL: none. */
    const struct exec_outcome *doubt;
    unsigned doubt_at;
    /* the provider's idempotency key of the run, set with the first request; empty: none */
    slice provider_key;
    struct budget_wait memory; /* to read a large reply */
    size_t reading_bytes;      /* the amount of memory that the run waits for; 0: none */
    uint64_t waits_since_ns;   /* when that wait began */
    uint64_t memory_ns;        /* how long the current call's reply waited for memory */
    struct call_built request; /* the last member: struct exec */
};

/* The record (record.c). */
struct exec_record {
    struct execution row;
    struct execution_input input; /* sealed once, for all attempts to record */
    bool is_input_made;
    struct uuid event_id;     /* of the event that the outcome is unknown; nil: none is made */
    bool is_settled;          /* the outcome includes the effects, certain or possible, of
                               * earlier requests */
    enum exec_reason refusal; /* why the connection is marked; EXEC_SUCCEEDED: not marked */
};

struct exec {
    struct op op;
    struct exec_service *service;
    struct exec_request in;
    struct exec_outcome out;
    slice summary_json;
    int fit_status; /* result of truncating the output to the wanted size */
    struct catalog *catalog;
    const struct catalog_integration *integration;
    const struct catalog_action *action;
    int find_status;               /* result of the lookup of integration and action */
    struct policy_verdict verdict; /* of the key's policy; zeroed without one */
    bool is_held_unattended;       /* held by a setting, not by the policy */
    struct {
        struct op_wait wait;
        struct list link; /* in concurrency_account.keyed.waiting */
        bool is_given;    /* it may decide now */
    } turn;               /* turns.c */
    uint64_t deadline_ns;
    uint64_t phase_began_ns;             /* start of the wait for limits, or of the record */
    struct concurrency_account *counted; /* NULL: no slot was free */
    struct budget_use use;               /* the run's memory, charged to its account */
    struct list all_link;                /* in the service's list `all` */
    /* what the run waits for, one at a time */
    struct pg_query query;
    struct op_timer timer;
    struct op_job job;
    /* the state of each phase */
    struct exec_key key;
    struct exec_faults faults;
    struct exec_connection connection;
    struct exec_gate gate;
    struct exec_hold *hold;        /* the call's hold; NULL: it was not asked for */
    struct exec_shows *shows;      /* belongs to shows.c; NULL: none */
    struct call_progress progress; /* only if the action has several requests (sequence.c) */
    struct exec_pages pages;
    struct exec_each *each; /* belongs to each.c; NULL: no item was read */
    struct exec_record record;
    struct exec_trace *trace; /* belongs to trace.c; NULL: not traced */
    /* The last member, because exec_start does not clear the arrays of its request, a third of the
     * struct. */
    struct exec_attempt attempt;
};

enum { EXEC_CLEARED = offsetof(struct exec, attempt.request) + CALL_BUILT_CLEARED };

enum exec_step {
    EXEC_STEP_FIND_ACTION,
    EXEC_STEP_TAKE_FILES,
    EXEC_STEP_LOAD_KEY,
    EXEC_STEP_CHECK_KEY,
    EXEC_STEP_READ_REPLAY,
    EXEC_STEP_TAKE_STORED,
    EXEC_STEP_CHECK_INPUT,
    EXEC_STEP_FIND_CONNECTION,
    EXEC_STEP_CHECK_CONNECTION,
    EXEC_STEP_RENEW_TOKEN,
    EXEC_STEP_RELOAD_CONNECTION,
    EXEC_STEP_REBUILD_REQUEST,
    EXEC_STEP_SHOW,
    EXEC_STEP_TAKE_TEXTS,
    EXEC_STEP_HOLD,
    EXEC_STEP_HELD,
    EXEC_STEP_ENTER_LIMITS,
    EXEC_STEP_ADMIT,
    EXEC_STEP_CLAIM,
    EXEC_STEP_CHECK_CLAIM,
    EXEC_STEP_PROVE,
    EXEC_STEP_PROVEN,
    EXEC_STEP_CALL,
    EXEC_STEP_READ_REPLY,
    EXEC_STEP_CHECK_REPLY,
    EXEC_STEP_NEXT,
    EXEC_STEP_RECORD,
    EXEC_STEP_CHECK_RECORD,
    EXEC_STEP_MARK_CONNECTION,
    EXEC_STEP_NOTIFY_CONNECTION,
    EXEC_STEP_FIT_OUTPUT,
    EXEC_STEP_ANSWER,
    EXEC_STEPS,
};

OP_OF(exec_of, exec)

op_step_fn exec_step_find_action, exec_step_take_files, exec_step_load_key, exec_step_check_key,
    exec_step_read_replay, exec_step_take_stored, exec_step_check_input, exec_step_find_connection,
    exec_step_check_connection, exec_step_renew_token, exec_step_reload_connection,
    exec_step_rebuild_request, exec_step_enter_limits, exec_step_admit, exec_step_claim,
    exec_step_check_claim, exec_step_prove, exec_step_proven, exec_step_call, exec_step_read_reply,
    exec_step_check_reply, exec_step_next, exec_step_record, exec_step_check_record,
    exec_step_mark_connection, exec_step_notify_connection, exec_step_fit_output, exec_step_answer;

op_step_fn exec_step_show, exec_step_take_texts, exec_step_hold, exec_step_held;

/* answer.c: which part of the output the caller gets. */
struct call_fit exec_wanted_fit(const struct exec *exec);
/* Sets the outcome to a reason other than success. message and hint are constant or in the op's
 * arena. */
void exec_end_with(struct exec *exec, enum exec_reason reason, slice message, slice hint);
/* Like exec_end_with, for a run that needs no record: returns OP_STOP, which leads to the
 * answer. */
enum op_result exec_stop(struct exec *exec, enum exec_reason reason, slice message, slice hint);
/* Like exec_stop with EXEC_UNAVAILABLE, because memory or the database is not available; nothing
 * was done. */
enum op_result exec_stop_unavailable(struct exec *exec, slice message);
enum op_result exec_stop_memory(struct exec *exec);
enum op_result exec_stop_database(struct exec *exec);
/* gate.c: stops the run, because the integration or action does not exist. */
enum op_result exec_stop_unknown(struct exec *exec);
/* check.c: whether a call of the action needs a confirmation: by its manifest, or by the policy.
 * The second function: and does not have one; a dry run needs none. */
bool exec_wants_confirmation(const struct exec *exec);
bool exec_is_unconfirmed(const struct exec *exec);
/* turns.c: whether the run has to wait before it asks its policy; it is then held until it may. */
bool exec_awaits_turn(struct exec *exec) MUST_CHECK;
/* Called after each decision. */
void exec_turn_used(struct exec *exec);
void exec_turns_init(struct exec_turns *turns, struct loop *loop);
/* No run may wait (asserted). */
void exec_turns_deinit(struct exec_turns *turns);
/* decide.c: asks the policy. If it hides the action, the action is unknown from here on. */
void exec_decide(struct exec *exec);
/* Whether the policy denies the run, of an action that is not hidden. */
static inline bool exec_is_denied(const struct exec *exec)
{
    return exec->verdict.decision == POLICY_DENY && !exec->verdict.is_hidden;
}
enum op_result exec_stop_denied(struct exec *exec);
/* Whether the call has to wait for an approval that it does not have. */
static inline bool exec_is_held(const struct exec *exec)
{
    return exec->verdict.decision == POLICY_HOLD && !exec->in.is_approved;
}
/* hold.c: the last word of a decision: what a setting holds, and what cannot be held. */
void exec_decide_hold(struct exec *exec);
/* Whether the run gets the key that is made from its request. */
static inline bool exec_needs_hold_key(const struct exec *exec)
{
    return exec_is_held(exec) && exec->in.idempotency_key.len == 0 && !exec->in.is_dry_run;
}
/* claim.c: the key of the run's row: its caller's, or that of equal requests without one
 * (key.lost). Empty: it has its own. */
slice exec_row_key(const struct exec *exec);
/* claim.c: how the caller names its key, for sentences. */
const char *exec_key_name(const struct exec *exec);
/* claim.c: stops the run, because its key belongs to another request. */
enum op_result exec_stop_mismatch(struct exec *exec);
/* The call of a hold that the policy does not hold any more (is_only_if_held). */
static inline bool exec_is_unheld(const struct exec *exec)
{
    return exec->in.is_only_if_held && exec->verdict.decision < POLICY_HOLD;
}
enum op_result exec_stop_unheld(struct exec *exec);
/* Returns what the policy says to people about its decision, without a full stop at the end. */
slice exec_policy_reason(const struct exec *exec);
/* Whether the policy hides this action of the run's integration: it is not read for parts. */
bool exec_hides(const struct exec *exec, slice action_id);
/* Writes "policy" and "rule" as members of the open object, or "unattended" if a setting decided;
 * else nothing. */
void exec_put_decider(const struct exec *exec, struct json_writer *w);
/* Whether a stored or running result of an equal request is not given to the run. */
static inline bool exec_is_kept_from_results(const struct exec *exec)
{
    return exec_is_denied(exec) || exec_is_unconfirmed(exec);
}
/* page.c: the input of the current page; in.input belongs to the whole run. */
const struct json *exec_input(const struct exec *exec);
/* each.c: whether the action reads the items of its list, with this input and for this caller. */
bool exec_has_each(struct exec *exec);
/* Once the list of an action with `each` was read: reads its items in addition. Returns
 * OP_NEXT when the output has them; else it waits, and NEXT calls it again. */
enum op_result exec_read_each(struct exec *exec);
/* Cancels the reads of items when the run is cancelled. */
void exec_cancel_each(struct exec *exec);
/* gate.c: uses the connection with that id. Returns OP_NEXT, or OP_STOP with the outcome set. */
enum op_result exec_use_connection(struct exec *exec, int64_t id);
enum op_result exec_build_request(struct exec *exec);
enum op_result exec_dry_run(struct exec *exec);
enum op_result exec_end_dry_run(struct exec *exec);
/* renew.c: the manifest's auth with which its connection was made. */
const struct catalog_auth *exec_auth(const struct exec *exec);
/* renew.c: whether a new token may solve the provider's refusal. */
bool exec_renews_after(const struct exec *exec);
/* For a refusal after which the token is not renewed again: if the token has expired since, the
 * outcome becomes a time-out, so that the connection is not marked. */
void exec_excuse_token(struct exec *exec);
/* Whether the connection has no token: client credentials before their first use. */
bool exec_needs_first_token(const struct exec *exec);
/* Before the first call: continues with the limits, or with RENEW_TOKEN if the token has
 * expired. */
enum op_result exec_check_token(struct exec *exec);
/* sequence.c: called once a request needs no further attempt. Returns OP_NEXT if the action has no
 * other request; else its call follows. */
enum op_result exec_next_request(struct exec *exec);
/* attempt.c: whether all requests of the action may be sent again without a second effect. */
bool exec_is_repeat_safe(const struct exec *exec);
/* attempt.c: how long to wait before the next attempt, after `attempts` attempts: full jitter
 * under an exponential maximum, after the wait that the provider asked for (-1: none). 0: do not
 * retry, since it asked for more than EXEC_BACKOFF_MS_MAX, or too little of left_ms would
 * remain. */
uint64_t exec_backoff_ms(unsigned attempts, uint64_t left_ms, int64_t retry_after_ms);
/* attempt.c: milliseconds until the run's deadline. */
uint64_t exec_left_ms(const struct exec *exec);
/* admit.c: updates the limits from a reply. */
void exec_limits_learn(struct exec *exec);
/* admit.c: returns the slot and the pass, with a vote on the origin if it was called. Does nothing
 * if neither was taken. */
void exec_leave(struct exec *exec);
/* claim.c: the only function that changes the claim's state; asserts the schema's constraints on
 * its row. */
void exec_claim_move(struct exec *exec, enum exec_claim to);
/* Returns the account that pays: for a user's run, the account of that user. Memory, slots,
 * circuits and tallies count for it; rows, and the limits of a connection, belong to in.account_id.
 */
static inline struct uuid exec_payer(const struct exec *exec)
{
    return uuid_or(exec->in.by.parent_id, exec->in.account_id);
}

/* Returns the owner of the connection: the account, if it shares it with the user. */
static inline struct uuid exec_connection_owner(const struct exec *exec)
{
    const struct connect_set *set = exec->connection.lookup.set;
    return set ? set->account_id : exec->in.account_id;
}
/* Whether the user acts through a connection of the account. */
static inline bool exec_is_shared(const struct exec *exec)
{
    return !uuid_eq(exec_connection_owner(exec), exec->in.account_id);
}
/* Ends the run with EXEC_NOT_CONNECTED. */
void exec_end_not_connected(struct exec *exec);

/* Whether the run is a request that is sent again while its hold is open: it asks for the state of
 * the hold, and is not a further run. */
static inline bool exec_is_known_hold(const struct exec *exec)
{
    return exec->out.reason == EXEC_HELD && !exec->hold->is_new;
}

static inline bool exec_is_claimed(const struct exec *exec)
{
    return exec->key.state == EXEC_CLAIM_OURS;
}
/* gate.c: releases the connection that was found, and its set. */
void exec_connection_drop(struct exec *exec);
/* claim.c: removes the key from the table; wakes the waiters with the outcome. */
void exec_key_release(struct exec *exec);
/* ending.c: releases the claim, or records the result under it, in a separate op, so that the
 * client need not wait for an unreachable database. The row is record.row. */
void exec_claim_release_later(struct exec *exec);
void exec_claim_record_later(struct exec *exec, enum claim_end end);
bool exec_endings_have(const struct exec_service *service, struct uuid execution_id);
/* lost.c. The first function returns whether a repeated call gets this run's result if the client
 * disconnects before it has the result. The second returns whether this process is writing the note
 * that the run looks for. The third is called at the end of a run, and when a client disconnects
 * afterwards: if it does not have the result, and the record did not bind the key, it is noted. */
bool exec_is_lost_watched(const struct exec *exec);
bool exec_lost_is_being_noted(const struct exec *exec);
void exec_lost_note(struct exec *exec);
/* admit.c: the current request goes to another origin than the previous one: leaves the previous
 * origin's circuit with a vote and enters the circuit of the new origin. Returns OP_STOP, like
 * exec_stop, if that circuit is open. */
enum op_result exec_change_origin(struct exec *exec);
/* sequence.c: goes back to the action's first request and builds it. Returns false, and keeps the
 * outcome, if it cannot be built. */
bool exec_start_over(struct exec *exec);
/* redirect.c: changes the request to follow the reply's redirect, if allowed. Returns whether to
 * send it. */
bool exec_follow_redirect(struct exec *exec);
/* settle.c: called when a reply was read, or when none arrived. Records the doubt about the
 * request's effect, or settles it. */
void exec_doubt_learn(struct exec *exec);
/* Whether a request of the run may have had an effect and nothing has settled this since. */
static inline bool exec_is_in_doubt(const struct exec *exec)
{
    return exec->in.is_in_doubt || exec->attempt.doubt;
}
/* Called before an outcome is recorded: adds the certain or possible effects of earlier
 * requests. */
void exec_settle(struct exec *exec);
/* preview.c: writes the later requests, as far as they do not depend on a reply, into *later (an
 * array; may be NULL). Returns an ERR_* if a request cannot be made from this input; err is then a
 * sentence about it. */
int exec_preview(struct exec *exec, struct json *later, struct err *err) MUST_CHECK;
/* shows.c: returns {member: text}, and the list of members that could not be read; SLICE_NONE if
 * there is none. The third function ends the reads, for the op's on_cancel. */
slice exec_shows_json(const struct exec *exec);
slice exec_shows_unread_json(const struct exec *exec);
/* Returns {member: digest}, of what may not change until the call, for a flow; SLICE_NONE: none. */
slice exec_shows_versions_json(const struct exec *exec);
void exec_shows_cancel(struct exec *exec);
/* dry_run.c: returns {dry_run, request, policy, shows, unread, versions}, in the op's arena;
 * SLICE_NONE if out of memory. */
slice exec_render_dry_run(struct exec *exec);
/* trace.c. These are called, in this order, when the run begins, when the current call is about to
 * start (which may add headers), when its reply was read, and when the run has ended. All are
 * harmless if the run is not traced. */
void exec_trace_begin(struct exec *exec);
void exec_trace_call(struct exec *exec);
void exec_trace_called(struct exec *exec, uint64_t took_ns);
void exec_trace_end(struct exec *exec, uint64_t took_ns);
/* audit.c: writes the event of a blocked run, with its input, in a separate op, which nothing waits
 * for. */
void exec_audit_blocked(struct exec *exec);
/* input.c: seals the input of a run, if it is kept. The first is for the row of an execution, which
 * it completes. The second is for the event of a blocked run, with its message and hint; the texts
 * are in the run's memory. Without memory for it, the run is recorded without its input. */
void exec_input_keep(struct exec *exec, struct execution *row);
void exec_input_keep_blocked(struct exec *exec, struct audit_event *event);

#endif
