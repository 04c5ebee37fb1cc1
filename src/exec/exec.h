/*
 * exec: one action, from gate to stored summary (DESIGN.md 5). The sequence is the table in
 * exec.c; what each step decides lies in gate.c and check.c (may it run), admit.c (may it go out
 * now), claim.c (has it run), attempt.c (the call and its retries) and record.c (the result).
 *
 * A struct exec is embedded in its caller's op. Whoever starts it keeps what struct exec_request
 * borrows until it has ended; an execution that a provider may have seen always runs to its record,
 * also when its client has gone (exec_client_gone).
 */
#ifndef EXEC_EXEC_H
#define EXEC_EXEC_H

#include "base/map.h"
#include "catalog/catalog.h"
#include "connect/connect.h"
#include "exec/breaker.h"
#include "exec/build.h"
#include "exec/crowd.h"
#include "exec/files.h"
#include "exec/limits.h"
#include "exec/outcome.h"
#include "exec/reply.h"
#include "exec/stored.h"
#include "exec/unsent.h"
#include "http/client.h"
#include "loop/op.h"
#include "store/audit.h"
#include "store/execution.h"
#include "store/idempotency.h"

struct exec_service;
struct exec_node;

enum {
    EXEC_ARENA_BYTES_MAX = 64 * 1024 * 1024,
    EXEC_ATTEMPTS_MAX = 4,
    EXEC_BACKOFF_MS_MIN = 100,
    EXEC_BACKOFF_MS_MAX = 5000,
    EXEC_RETRY_AFTER_MS_DEFAULT = 30000, /* of a rate limit that nothing says the end of */
    EXEC_CONNECTION_NONE = -1,
};

struct exec_config {
    struct loop *loop;
    struct pg_pool *pool;
    struct http_client *http;
    struct connect_service *connect;
    struct catalog **catalog; /* the current snapshot; whoever swaps it keeps the pointer valid */
    struct exec_node *node;
    struct budget_queue *work; /* what executions take counts there; NULL: nowhere */
    uint64_t timeout_ms, idempotency_ttl_ms;
    uint64_t limit_wait_ms; /* longest wait for a connection's own limits */
    bool is_limits_off;
    struct breaker_config breaker;
    size_t response_bytes_max, executions_max;
    size_t account_executions_max; /* of one account alone (exec/crowd.h); 0: the default */
    size_t file_bytes_max;         /* of one file, decoded; an action may take less */
    size_t output_bytes;           /* answered of an output where the caller names no limit */
    size_t output_bytes_max;       /* and what he can ask for at most */
};

/* NULL: out of memory. Everything in config outlives it. */
struct exec_service *exec_service_new(const struct exec_config *config) MUST_CHECK;
/* No execution may be under way (asserted). */
void exec_service_free(struct exec_service *service);
size_t exec_service_active(const struct exec_service *service);
/* Whether a run that is under way, or what releases its claim, knows the claim of that execution.
 * False: it is in flight for nobody. */
bool exec_service_carries(const struct exec_service *service, struct uuid execution_id);
/* Its claim was given up before anything was sent. */
bool exec_service_gave_up(const struct exec_service *service, struct uuid execution_id);
/* For who reads a stored summary by itself. */
struct exec_stored_table *exec_service_stored(struct exec_service *service);
/* The last resort on the way down: cuts all that are under way. Their claims stay behind and are
 * recovered by another process. */
void exec_service_cancel_all(struct exec_service *service);

/* All borrowed until the execution has ended. */
struct exec_request {
    struct uuid account_id;
    slice actor;                     /* "key:<id>", for the audit trail */
    slice request_id;                /* for the log */
    slice address;                   /* the client's, for the audit trail; SLICE_NONE: none */
    slice integration_id, action_id; /* action_id: short or full tool name */
    const struct json *input;
    slice input_pointer;      /* JSON Pointer of it in what the caller sent; SLICE_NONE: "/input" */
    const char *confirm_name; /* what the caller's is_confirmed is called; NULL: "confirm" */
    bool is_confirmed;
    bool is_dry_run;           /* all but the call: summary_json is the request */
    slice idempotency_key;     /* SLICE_NONE: none; else 1 to 255 printable characters */
    uint64_t output_bytes_max; /* exec/fit.h; 0: the service's */
    size_t *replay_room;   /* bytes that stored summaries may take in the reply, which others share;
                              NULL: any number. One that has no room is not read: out.is_left_out */
    unsigned pages_max;    /* exec/page.c; 0, 1: one */
    int64_t connection_id; /* 0: the default one, EXEC_CONNECTION_NONE: one that cannot be */
    struct exec_file *files; /* their bytes are filled in */
    size_t file_count;
    /* The caller's own rows are intent and record (a step of a flow): no key is looked up, nothing
     * is claimed, stored, audited or rendered; out alone is the result. */
    bool is_recorded_by_caller;
    /* With it: */
    struct uuid owner; /* the incarnation that the caller owns its work as: once this process is
                          another one, nothing is sent */
    /* The provider's idempotency key, where the action has one: this name in that space (RFC 9562
     * 5.5), made when it is needed. Empty: of idempotency_key, or the run's own. */
    slice provider_name;
    struct uuid provider_space;
    uint64_t timeout_ms;  /* 0: the action's own, else the setting execution-timeout */
    uint64_t deadline_ns; /* of the caller, in loop time: never later than it; 0: none */
};

/* What is wrong with input and files (check.c), sentences without their end; SLICE_NONE: nothing.
 */
struct exec_faults {
    slice input, input_hints, files;
};

/* Of a list that is read page by page (page.c). */
struct exec_pages {
    unsigned read, attempts; /* attempts: at the pages, or requests, before this one */
    size_t bytes;
    struct json all;
    struct exec_outcome kept; /* after the page before this one */
    const struct json *input; /* of this page; NULL: the first */
    slice stopped;
    bool is_ended;
};

struct exec {
    struct op op;
    struct exec_service *service;
    struct exec_request in;
    /* out, from the op's end until the caller lets go of its memory */
    struct exec_outcome out;
    slice summary_json;
    /* private */
    struct catalog *catalog;
    const struct catalog_integration *integration;
    const struct catalog_action *action;
    slice action_id; /* short */
    struct connect_lookup lookup;
    struct connect_set *set; /* lookup's reference, once its status was looked at */
    const struct connect_item *connection;
    struct connect_renewal renewal;
    int64_t renewed_id; /* of the connection whose token was renewed */
    struct exec_built request;
    struct pg_query query;
    struct claim claim;
    struct claim_outcome claimed;
    struct execution record;
    struct limits_place place;
    struct breaker_pass pass;
    struct http_call call;
    struct op_job reading;
    struct budget_use use;          /* what it takes, with its account */
    struct budget_wait memory;      /* to read a large reply */
    size_t reading_bytes;           /* what that waits for; 0: nothing */
    struct exec_stored_read stored; /* of a replay that is large */
    struct op_timer timer;
    uint64_t deadline_ns, call_started_ns;
    uint8_t fingerprint[32];
    bool is_claimed;               /* the intent is durable: a record must follow */
    bool is_key_holder;            /* in the service's table of keys in flight */
    struct crowd_account *counted; /* NULL: there was no place for it */
    bool is_any_byte_sent;         /* by any attempt at the current request */
    bool is_renewed_after;         /* after the provider refused the token, or it was tried */
    bool has_provider_key;         /* the request carries the provider's idempotency key */
    struct exec_pages pages;
    struct exec_progress progress; /* of an action of several requests */
    bool is_settled;               /* what was done of them is in the outcome */
    enum exec_reason refusal;      /* why the connection is marked; EXEC_SUCCEEDED: it is not */
    struct exec_faults faults;
    uint32_t files_broken; /* a bit for each that is no base64 */
    int files_status;
    int fit_status;
    unsigned waits;      /* for somebody else's run of the same key */
    struct list waiters; /* struct exec.waiter_link of those who wait for this one */
    struct list waiter_link;
    struct list all_link; /* in the service */
    slice table_key;      /* account and key; empty: not made */
};

/* Starts; parent is held until the end. request is copied, what it points to is borrowed. */
void exec_start(struct exec_service *service, struct exec *exec, const struct exec_request *request,
                struct op *parent);
/* The largest output that its caller gets in full. */
size_t exec_output_bytes_max(const struct exec *exec);
/* The client has gone: what nobody has seen yet is cancelled, the rest runs on to its record. */
void exec_client_gone(struct exec *exec);

/* ---- private to the room: the steps, by file ---- */

struct exec_service {
    struct exec_config config;
    struct limits *limits;
    struct breaker *breaker;
    struct map in_flight; /* account and key -> struct exec, of this process */
    struct list all;      /* struct exec.all_link */
    struct list releases; /* record.c */
    struct unsent unsent;
    struct crowd crowd; /* all under way, by account */
    struct exec_stored_table stored;
};

enum exec_step {
    EXEC_STEP_FIND_ACTION,
    EXEC_STEP_HASH_FILES,
    EXEC_STEP_LOAD_KEY,
    EXEC_STEP_CHECK_KEY,
    EXEC_STEP_READ_REPLAY,
    EXEC_STEP_TAKE_STORED,
    EXEC_STEP_CHECK_INPUT,
    EXEC_STEP_DECODE_FILES,
    EXEC_STEP_ACCEPT_INPUT,
    EXEC_STEP_FIND_CONNECTION,
    EXEC_STEP_CHECK_CONNECTION,
    EXEC_STEP_RENEW_TOKEN,
    EXEC_STEP_RELOAD_CONNECTION,
    EXEC_STEP_REBUILD_REQUEST,
    EXEC_STEP_ENTER_LIMITS,
    EXEC_STEP_ADMIT,
    EXEC_STEP_CLAIM,
    EXEC_STEP_CHECK_CLAIM,
    EXEC_STEP_CALL,
    EXEC_STEP_READ_REPLY,
    EXEC_STEP_CHECK_REPLY,
    EXEC_STEP_NEXT_REQUEST,
    EXEC_STEP_TAKE_PAGE,
    EXEC_STEP_NEXT_PAGE,
    EXEC_STEP_RECORD,
    EXEC_STEP_CHECK_RECORD,
    EXEC_STEP_MARK_CONNECTION,
    EXEC_STEP_NOTIFY_CONNECTION,
    EXEC_STEP_FIT_OUTPUT,
    EXEC_STEP_CHECK_FIT,
    EXEC_STEP_ANSWER,
    EXEC_STEPS,
};

static inline struct exec *exec_of(struct op *op)
{
    return CONTAINER_OF(op, struct exec, op);
}

enum op_result exec_step_find_action(struct op *op);
enum op_result exec_step_hash_files(struct op *op);
enum op_result exec_step_load_key(struct op *op);
enum op_result exec_step_take_stored(struct op *op);
enum op_result exec_step_check_key(struct op *op);
enum op_result exec_step_read_replay(struct op *op);
enum op_result exec_step_check_input(struct op *op);
enum op_result exec_step_decode_files(struct op *op);
enum op_result exec_step_accept_input(struct op *op);
enum op_result exec_step_find_connection(struct op *op);
enum op_result exec_step_check_connection(struct op *op);
enum op_result exec_step_renew_token(struct op *op);
enum op_result exec_step_reload_connection(struct op *op);
enum op_result exec_step_rebuild_request(struct op *op);
enum op_result exec_step_enter_limits(struct op *op);
enum op_result exec_step_admit(struct op *op);
enum op_result exec_step_claim(struct op *op);
enum op_result exec_step_check_claim(struct op *op);
enum op_result exec_step_call(struct op *op);
enum op_result exec_step_read_reply(struct op *op);
enum op_result exec_step_check_reply(struct op *op);
enum op_result exec_step_next_request(struct op *op);
enum op_result exec_step_take_page(struct op *op);
enum op_result exec_step_next_page(struct op *op);
enum op_result exec_step_record(struct op *op);
enum op_result exec_step_check_record(struct op *op);
enum op_result exec_step_mark_connection(struct op *op);
enum op_result exec_step_fit_output(struct op *op);
enum op_result exec_step_check_fit(struct op *op);
enum op_result exec_step_notify_connection(struct op *op);
enum op_result exec_step_answer(struct op *op);

/* Sets out to a reason other than success. message and hint are in the op's arena or constant. */
void exec_end_with(struct exec *exec, enum exec_reason reason, slice message, slice hint);
/* The same where no record is needed: OP_STOP, which goes to the answer. */
enum op_result exec_stop(struct exec *exec, enum exec_reason reason, slice message, slice hint);
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
/* attempt.c: how long to wait before the next attempt, `attempts` having been made: full jitter
 * under an exponential ceiling, behind what the provider asked for (-1: nothing). 0: do not, since
 * it asked for more than EXEC_BACKOFF_MS_MAX, or too little of left_ms would remain. */
uint64_t exec_backoff_ms(unsigned attempts, uint64_t left_ms, int64_t retry_after_ms);
/* attempt.c: until its deadline. */
uint64_t exec_left_ms(const struct exec *exec);
/* admit.c: what a reply says about the calls to come. */
void exec_tell_limits(struct exec *exec);
/* admit.c: gives back what admit took, with a vote on the origin where it was called; harmless
 * where nothing was taken. */
void exec_leave(struct exec *exec);
/* claim.c: lets the next one have the key; wakes those who wait with the outcome. */
void exec_key_let_go(struct exec *exec);
/* record.c: ends the claim on an op of its own that tries until it is gone, so that the client need
 * not wait for a database that is away. */
void exec_claim_release_later(struct exec *exec);
void exec_releases_cancel(struct exec_service *service);
bool exec_releases_have(const struct exec_service *service, struct uuid execution_id);
/* admit.c: the current request goes to another origin than the one before: leaves that one's
 * circuit with a vote and enters the new one's. OP_STOP, as exec_stop, where it is open. */
enum op_result exec_change_origin(struct exec *exec);
/* attempt.c: whether sending the current request again cannot do the thing twice. */
bool exec_is_repeat_safe(const struct exec *exec);
/* sequence.c: back to the action's first request, which is built. false: it cannot be; the outcome
 * stands. */
bool exec_start_over(struct exec *exec);
/* Before an outcome is recorded: says what was done, where a later request of the action failed. */
void exec_settle(struct exec *exec);
/* preview.c: the requests behind the first as far as they depend on no reply, into *later (an
 * array; may be NULL). ERR_*: one cannot be made of this input; err is a sentence about it. */
int exec_preview(struct exec *exec, struct json *later, struct err *err) MUST_CHECK;
/* dry_run.c: {dry_run, request}, in the op's arena; SLICE_NONE: out of memory. */
slice exec_render_dry_run(struct exec *exec);
/* record.c: an audit event on an op of its own, which nobody waits for. */
void exec_audit_blocked(struct exec *exec);

#endif
