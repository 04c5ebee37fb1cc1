/*
 * An execution from the inside: its steps, its state by phase, and what the files of the room give
 * one another. Private to the room.
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
#include "exec/tally.h"
#include "node/unsent.h"
#include "store/execution.h"
#include "store/idempotency.h"
#include "store/later.h"
#include "store/tally_kept.h"

enum {
    EXEC_ARENA_BYTES_MAX = 64 * 1024 * 1024,
    EXEC_ATTEMPTS_MAX = 4,
    EXEC_BACKOFF_MS_MIN = 100,
    EXEC_BACKOFF_MS_MAX = 5000,
};

struct exec_service {
    struct exec_config config;
    struct uuid self; /* what others hear of it by */
    struct limits *limits;
    struct breaker *breaker;
    struct map in_flight;                /* account and key -> struct exec, of this process */
    struct list all;                     /* struct exec.all_link */
    struct store_laters endings, audits; /* ending.c, record.c */
    struct unsent unsent;
    struct concurrency concurrency; /* all under way, by account */
    struct exec_stored_table stored;
    struct tallies tallies;
    struct app_times_table app_times;
    struct tally_kept *sums;
};

/* What is wrong with input and files (check.c), sentences without their end; SLICE_NONE: nothing.
 */
struct exec_faults {
    slice input, input_hints, files;
    uint32_t files_broken; /* a bit for each that is no base64 */
    int files_status;
};

/* Of a list that is read page by page (page.c). */
struct exec_pages {
    unsigned read, attempts; /* attempts: at the pages, or requests, before this one */
    size_t bytes;
    struct json all;
    struct exec_outcome kept; /* after the page before this one */
    const struct json *input; /* of this page; NULL: the first */
    slice stopped;
    bool is_taken, is_ended; /* the last reply was appended; no page follows */
};

/* What this run knows of its intent, a row in flight; moved by exec_claim_move alone. */
enum exec_claim {
    EXEC_CLAIM_NONE,  /* there is none: not asked for, refused, or another run has the key */
    EXEC_CLAIM_ASKED, /* sent, and its answer is not here */
    EXEC_CLAIM_OURS,  /* durable: a record or a release must follow */
    EXEC_CLAIM_ENDED, /* bound or released, or another op does that */
};

/* Has it run under its key (claim.c): the key, and the intent that is recorded under it or under
 * one of the run's own. */
struct exec_key {
    slice name;     /* account and key, in the service's table of keys in flight; empty: not made */
    bool is_holder; /* it is in that table */
    enum exec_claim state; /* of claim */
    unsigned waits;        /* for a run of another process */
    struct list waiters;   /* key.waiter_link of runs that wait for this one */
    struct list waiter_link;
    struct claim claim;             /* its fingerprint is of the request, as soon as name is made */
    struct claim_outcome found;     /* what the key has */
    struct exec_stored_read stored; /* of a result that is large */
};

/* With which connection (gate.c), and with which token (renew.c). */
struct exec_connection {
    struct connect_lookup lookup;
    const struct connect_item *item; /* one of lookup's; NULL: the app needs none, or not chosen */
    struct connect_renewal renewal;
    int64_t renewed_id;    /* of the connection whose token was renewed */
    bool is_renewed_after; /* after the provider refused the token, or it was tried */
};

/* May it go out now (admit.c). */
struct exec_gate {
    struct limits_slot slot;
    struct breaker_pass pass;
};

/* The request that is made now, and its attempts (attempt.c). */
struct exec_attempt {
    struct call_built request;
    struct http_call call;
    uint64_t started_ns;
    uint64_t proof_boot_ns; /* when the query for a newer proof was sent */
    /* What the last request ended with that may have acted, and which of the action's it was; until
     * a later reply settles it. NULL: none. */
    const struct exec_outcome *doubt;
    unsigned doubt_at;
    slice provider_key;        /* the run's, once the first request is built; empty: none */
    struct budget_wait memory; /* to read a large reply */
    size_t reading_bytes;      /* what that waits for; 0: nothing */
};

/* What is kept (record.c). */
struct exec_record {
    struct execution row;
    bool is_settled;          /* what earlier requests did, or may have done, is in the outcome */
    enum exec_reason refusal; /* why the connection is marked; EXEC_SUCCEEDED: it is not */
};

struct exec {
    struct op op;
    struct exec_service *service;
    struct exec_request in;
    struct exec_outcome out;
    slice summary_json;
    int fit_status; /* of cutting it to the size that is wanted */
    struct catalog *catalog;
    const struct catalog_integration *integration;
    const struct catalog_action *action;
    int find_status; /* of the look-up of these two */
    uint64_t deadline_ns;
    uint64_t phase_began_ns;             /* the wait for limits, or the record */
    struct concurrency_account *counted; /* NULL: no slot was free */
    struct budget_use use;               /* what it takes, with its account */
    struct list all_link;                /* in the service */
    /* what it waits for, one at a time */
    struct pg_query query;
    struct op_timer timer;
    struct op_job job;
    /* by phase; each is written by the files it names */
    struct exec_key key;
    struct exec_faults faults;
    struct exec_connection connection;
    struct exec_gate gate;
    struct exec_attempt attempt;
    struct call_progress progress; /* of an action of several requests (sequence.c) */
    struct exec_pages pages;
    struct exec_record record;
    struct exec_trace *trace; /* trace.c's; NULL: the run is in no trace */
};

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

/* answer.c: the largest output that its caller gets in full. */
size_t exec_output_bytes_max(const struct exec *exec);
/* Sets out to a reason other than success. message and hint are in the op's arena or constant. */
void exec_end_with(struct exec *exec, enum exec_reason reason, slice message, slice hint);
/* The same where no record is needed: OP_STOP, which goes to the answer. */
enum op_result exec_stop(struct exec *exec, enum exec_reason reason, slice message, slice hint);
/* The same with EXEC_UNAVAILABLE, and its usual causes: no memory, no database; nothing was done.
 */
enum op_result exec_stop_unavailable(struct exec *exec, slice message);
enum op_result exec_stop_memory(struct exec *exec);
enum op_result exec_stop_database(struct exec *exec);
/* gate.c: there is no such integration or action. */
enum op_result exec_stop_unknown(struct exec *exec);
/* check.c: it needs a confirmation and has none; a dry run needs none. */
bool exec_is_unconfirmed(const struct exec *exec);
/* page.c: of the page that is being read; in.input is what the run is about. */
const struct json *exec_input(const struct exec *exec);
/* gate.c: OP_NEXT, or OP_STOP with the outcome set. */
enum op_result exec_use_connection(struct exec *exec, int64_t id);
enum op_result exec_build_request(struct exec *exec);
enum op_result exec_end_dry_run(struct exec *exec);
/* renew.c: the way in which its connection was made. */
const struct catalog_auth *exec_auth(const struct exec *exec);
/* renew.c: whether a new token may mend what the provider said. */
bool exec_renews_after(const struct exec *exec);
/* Where it may not any more: what a token that ran out met is not held against its connection. */
void exec_excuse_token(struct exec *exec);
/* The connection has no token at all: client credentials before their first use. */
bool exec_needs_first_token(const struct exec *exec);
/* Ahead of the first call: goes on to the limits, or to RENEW_TOKEN where the token has run out. */
enum op_result exec_check_token(struct exec *exec);
/* sequence.c: once a request needs no further attempt. OP_NEXT: the action has no other request;
 * else its call follows. */
enum op_result exec_next_request(struct exec *exec);
/* attempt.c: all that the action sends may be sent again without doing anything twice. */
bool exec_is_repeat_safe(const struct exec *exec);
/* attempt.c: how long to wait before the next attempt, `attempts` having been made: full jitter
 * under an exponential ceiling, behind what the provider asked for (-1: nothing). 0: do not, since
 * it asked for more than EXEC_BACKOFF_MS_MAX, or too little of left_ms would remain. */
uint64_t exec_backoff_ms(unsigned attempts, uint64_t left_ms, int64_t retry_after_ms);
/* attempt.c: until its deadline. */
uint64_t exec_left_ms(const struct exec *exec);
/* admit.c: what a reply says about the calls to come. */
void exec_limits_learn(struct exec *exec);
/* admit.c: gives back what admit took, with a vote on the origin where it was called; harmless
 * where nothing was taken. */
void exec_leave(struct exec *exec);
/* claim.c: the one mover of the claim's state; asserts what the schema demands of its row. */
void exec_claim_move(struct exec *exec, enum exec_claim to);
static inline bool exec_is_claimed(const struct exec *exec)
{
    return exec->key.state == EXEC_CLAIM_OURS;
}
/* gate.c: lets go of the connection that was found, and of the set it is in. */
void exec_connection_drop(struct exec *exec);
/* claim.c: takes the key out of the table; wakes the waiters with the outcome. */
void exec_key_release(struct exec *exec);
/* ending.c: releases the claim, or records the result under it, on an op of its own, so that the
 * client need not wait for an unreachable database. The row is record.row. */
void exec_claim_release_later(struct exec *exec);
void exec_claim_record_later(struct exec *exec, enum claim_end end);
bool exec_endings_have(const struct exec_service *service, struct uuid execution_id);
/* admit.c: the current request goes to another origin than the one before: leaves that one's
 * circuit with a vote and enters the new one's. OP_STOP, as exec_stop, where it is open. */
enum op_result exec_change_origin(struct exec *exec);
/* sequence.c: back to the action's first request, which is built. false: it cannot be; the outcome
 * stands. */
bool exec_start_over(struct exec *exec);
/* redirect.c: the request goes to where the reply has led, if it may; true: it has to be sent. */
bool exec_follow_redirect(struct exec *exec);
/* settle.c. A reply was read, or none came: keeps what it leaves in doubt, or settles that. */
void exec_doubt_learn(struct exec *exec);
/* Whether some request of the run may have acted and nothing has said so since. */
static inline bool exec_is_in_doubt(const struct exec *exec)
{
    return exec->in.is_in_doubt || exec->attempt.doubt;
}
/* Before an outcome is recorded: says what was done, or may have been, by requests before the one
 * that failed. */
void exec_settle(struct exec *exec);
/* preview.c: the requests behind the first as far as they depend on no reply, into *later (an
 * array; may be NULL). ERR_*: one cannot be made of this input; err is a sentence about it. */
int exec_preview(struct exec *exec, struct json *later, struct err *err) MUST_CHECK;
/* dry_run.c: {dry_run, request}, in the op's arena; SLICE_NONE: out of memory. */
slice exec_render_dry_run(struct exec *exec);
/* trace.c, all harmless where the run is in no trace: the run begins; the current call is about to
 * start, and may be given headers; its reply was read; the run has ended. */
void exec_trace_begin(struct exec *exec);
void exec_trace_call(struct exec *exec);
void exec_trace_called(struct exec *exec, uint64_t took_ns);
void exec_trace_end(struct exec *exec, uint64_t took_ns);
/* record.c: an audit event on an op of its own, which no other op waits for. */
void exec_audit_blocked(struct exec *exec);

#endif
