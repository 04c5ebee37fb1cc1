/*
 * exec: runs one action, from the first check to the stored summary (src/README.md "An execution").
 * The sequence is the table in exec.c. The steps' decisions are in gate.c and check.c (whether it
 * may run), admit.c (limits and circuit), claim.c (idempotency), attempt.c (the call and its
 * retries) and record.c (the result).
 *
 * An execution is in the arena of its caller's op. The caller keeps what struct exec_request
 * borrows until the execution has ended. An execution that may have reached the provider always
 * runs until it is recorded, even if its client has closed (exec_client_gone).
 */
#ifndef EXEC_EXEC_H
#define EXEC_EXEC_H

#include "catalog/catalog.h"
#include "connect/connect.h"
#include "limit/breaker.h"
#include "call/files.h"
#include "node/node.h"
#include "call/outcome.h"
#include "exec/hold.h"
#include "exec/summary_read.h"
#include "exec/tally.h"
#include "exec/usage.h"
#include "http/client.h"
#include "loop/op.h"
#include "store/api_key.h"
#include "trace/trace.h"

struct exec;
struct exec_service;
struct policy; /* policy/policy.h */

enum {
    EXEC_CONNECTION_NONE = -1,
    /* after a rate-limit reply that does not say how long to wait */
    EXEC_RETRY_AFTER_MS_DEFAULT = 30000,
};

struct exec_config {
    struct loop *loop;
    struct pg_pool *pool;
    struct http_client *http;
    struct connect_service *connect;
    struct catalog **catalog; /* the current snapshot; a swap keeps the pointer valid */
    struct node *node;
    struct budget_queue *work;    /* charged for the memory of executions; NULL: not charged */
    struct tracer *tracer;        /* NULL: no traces */
    struct event_service *events; /* sends the events of runs; NULL: another process does */
    uint64_t timeout_ms, idempotency_ttl_ms;
    uint64_t limit_wait_ms; /* longest wait for a connection's own limits */
    bool is_limits_off;
    struct leases *leases; /* connections' limits (limit/lease.h); NULL: limits per process */
    struct breaker_config breaker;
    /* Called when a circuit has changed its state; the payload (borrowed) is for exec_service_hear
     * of other processes. NULL if there are no other processes. */
    void (*on_circuit)(void *owner, slice payload);
    void *owner;
    size_t response_bytes_max, executions_max;
    size_t account_executions_max; /* per account (limit/concurrency.h); 0: the default */
    size_t file_bytes_max;         /* per file, decoded; an action may take less */
    size_t output_bytes;           /* per output, if the caller names no limit; 0: no limit */
    size_t output_bytes_max;       /* the maximum that a caller can ask for; ignored if
                                    * output_bytes is 0 */
    /* Inputs of writes, and of runs that fail or are blocked, are kept for this many days, sealed
     * with the ring. 0: no input is kept, and the ring may be NULL. */
    unsigned input_days;
    const struct vault_ring *ring;
};

/* Returns NULL if out of memory. Everything in config must outlive the service. */
struct exec_service *exec_service_new(const struct exec_config *config) MUST_CHECK;
/* Sets what makes holds; it outlives the executions. Without it no hold can be made. */
void exec_service_holder_set(struct exec_service *service, const struct exec_holder *holder);
/* Asserts that no execution is under way. */
void exec_service_free(struct exec_service *service);
/* Whether writes may begin: not if the database was unreachable for longer than the node's
 * lease, until the node has a new lease. */
bool exec_service_may_write(const struct exec_service *service);
/* Number of runs under way, and of results of ended runs that are not stored yet. */
size_t exec_service_active(const struct exec_service *service);
/* Answers the node's questions about claims of its runs. */
struct node_claims exec_service_claims(const struct exec_service *service);
/* A claim in flight of this node that does not belong to a run. The scan for orphans spares it
 * until its owner, which ends the claim, unlinks it. */
struct exec_carried {
    struct list link;
    struct uuid execution_id;
};
void exec_claim_carry(struct exec_service *service, struct exec_carried *carried);
/* Handles a notification from another process. Returns false if it is about something else. */
bool exec_service_hear(struct exec_service *service, slice payload);
/* Bytes of an output if a request names no limit; 0: all. */
size_t exec_service_output_bytes(const struct exec_service *service);
/* Returns the table for readers of a stored summary by its id. */
struct exec_summaries *exec_service_summaries(struct exec_service *service);
/* For tests. */
struct counts *exec_service_tallies(struct exec_service *service);
/* Writes all that is counted in memory. Returns whether that has been done. */
bool exec_service_write_counts(struct exec_service *service);
/* Returns the cached sums of tallies for charts (store/tally_cache.h). */
struct tally_cache *exec_service_sums(struct exec_service *service);
/* The last resort of a shutdown: cancels all runs under way. Their claims stay, and another
 * process recovers them. */
void exec_service_cancel_all(struct exec_service *service);

/*
 * Proof that a flow still belongs to this process: its row has that revision and that owning
 * incarnation. Anything that ends this ownership changes the revision, and a process that cancels
 * the flow waits for longer than EXEC_PROOF_MS before it acknowledges the cancel. So a statement's
 * proof is valid for EXEC_PROOF_MS from the time before the statement was sent, on a clock that
 * also runs while the process is suspended. An older proof is renewed by a query.
 */
struct exec_proof {
    struct uuid flow_id, owner;
    int64_t rev;
    uint64_t sent_boot_ns; /* when the last statement that proved ownership was sent */
};
enum { EXEC_PROOF_MS = 1000 };

/* For this long after a client disconnected during a write, an equal request gets the write's
 * result (lost.c). */
enum { EXEC_LOST_MS = 5 * 60 * 1000 };
/* Returns the key of such a write's claim, or of a start's (flow/lost.c). It is made from the API
 * key, the request's fingerprint (IDEMPOTENCY_FINGERPRINT_LEN bytes) and the number of equal
 * requests before it in the caller's call. SLICE_NONE: out of memory. */
slice exec_lost_key(struct uuid lost_by, const uint8_t *fingerprint, unsigned number,
                    struct arena *arena);

/* All pointers are borrowed until the execution has ended. */
struct exec_request {
    struct uuid account_id;
    struct audit_by by;    /* for the audit trail; its request_id is logged, too */
    uint32_t scopes;       /* the scopes of the caller's API key */
    struct policy *policy; /* that key's; the run takes a reference. NULL: none */
    slice user;            /* for the policy: the account's id of the end user; SLICE_NONE: none */
    slice integration_id, action_id; /* action_id: short or full tool name */
    const struct json *input;
    slice input_pointer;      /* JSON Pointer to input in the caller's request; SLICE_NONE:
                               * "/input" */
    const char *confirm_name; /* the caller's name for is_confirmed; NULL: "confirm" */
    bool is_confirmed;
    /* Set if the caller refuses writes without a person's consent: a hint on what to do instead.
     * SLICE_NONE: is_confirmed decides. */
    slice refusal_hint;
    bool is_dry_run;       /* does everything but the call: summary_json is the request */
    bool wants_shows;      /* for a dry run: reads what the ids in the input mean (shows.c) */
    slice idempotency_key; /* SLICE_NONE: none; else 1 to 255 printable characters */
    /* The caller's name for it in sentences ("send it with a new ..."); NULL: "idempotency_key" */
    const char *key_name;
    /* Holds (exec/hold.h). The line of the caller's key (struct api_key). Nil: no hold can be made,
     * and a call that the policy holds is refused. */
    struct uuid asker;
    /* A held call needs its confirmation, too; else the approval is the confirmation. */
    bool confirms_held;
    /* unattended_writes is hold: a call that needs a confirmation is held as if a rule said so. The
     * key says so, or the server's setting, which may change. */
    bool holds_writes, is_set_to_hold;
    /* A person has approved exactly this call, who may do so: the policy's hold is satisfied. */
    bool is_approved;
    /* With is_approved: the call is made only if the policy still holds it. */
    bool is_only_if_held;
    /* For the call of a hold. The fingerprint of the held request, which may have named the default
     * connection; NULL: made from this request. */
    const uint8_t *fingerprint;
    struct uuid execution_id;     /* the id of the run; nil: a new one */
    struct uuid approval_flow_id; /* as in struct exec_outcome */
    /* For writes without an idempotency key: the API key, if its client may automatically repeat a
     * call whose reply it did not get (lost.c). Nil: an equal call runs at any time. */
    struct uuid lost_by;
    /* The number of equal requests before this one in the caller's call: each has its own claim. */
    unsigned lost_number;
    int64_t key_guards_until;  /* see struct claim; 0: the key has the usual lifetime */
    uint64_t output_bytes_max; /* see call/fit.h; 0: the limit of the service */
    slice select;              /* an expression over the output (call/view.h); SLICE_NONE: none */
    bool wants_view;           /* the action's view of the output, if there is no select */
    bool is_resource;          /* see call/fit.h */
    /* bytes left for stored summaries in a reply that has several; NULL: unlimited. A summary that
     * does not fit is not read, and out.is_left_out is set */
    size_t *replay_room;
    unsigned pages_max; /* pages to read (exec/page.c); 0 or 1: one page */
    /* Called when pages_read pages were read and another page follows; NULL: the caller only
     * waits for the end */
    void (*on_page)(struct op *parent, unsigned pages_read);
    /* A person has connected the app for this call, possibly through another process: cached
     * connections are not valid for it. */
    bool has_connected;
    int64_t connection_id;   /* 0: the default; EXEC_CONNECTION_NONE: a connection that cannot
                              * exist */
    struct call_file *files; /* the execution fills in their bytes */
    size_t file_count;
    /* The caller's own rows are the intent and the record, as for a step of a flow: no key is
     * loaded and nothing is claimed, stored, audited or rendered; the only result is out. */
    bool is_recorded_by_caller;
    /* For a flow's call: nothing is sent without this proof, which the caller updates. If it is
     * NULL with is_recorded_by_caller, only reads are sent, without a proof. */
    struct exec_proof *proof;
    /* A read for another run: of an item of its list (each.c), or of what an id means (shows.c). It
     * is not counted as a run. */
    bool is_part;
    /* An earlier run of the same call may have had an effect, and nothing has settled this
     * since: a refusal of this run does not mean that nothing was done. */
    bool is_in_doubt;
    /* If the action has an idempotency key of the provider, that key is made from this name and
     * space (RFC 9562 5.5). Empty: it is made from idempotency_key and the request, or from the
     * run's own key. */
    slice provider_name;
    struct uuid provider_space;
    uint64_t timeout_ms;  /* 0: the action's own, else the setting execution-timeout */
    uint64_t deadline_ns; /* the caller's deadline in loop time, an upper limit; 0: none */
    const struct trace_context *trace; /* the trace that the run is part of; NULL: none */
};

/* Call it after a person's refusal: it blocks the request's key for as long as the request could be
 * accepted, so that no run begins with the key. It holds op as a statement does; then call
 * store_claim_result. Reads account_id, the key, the call and key_guards_until of the request.
 * Returns false if out of memory. */
bool exec_claim_spend(struct pg_pool *pool, struct pg_query *query, struct op *op,
                      const struct exec_request *request) MUST_CHECK;

/* Makes the fingerprint (IDEMPOTENCY_FINGERPRINT_LEN bytes) of a request from its integration, this
 * short action id, its connection, sorted input, pages and files. Returns OK or ERR_NOMEM. */
int exec_fingerprint(const struct exec_request *request, slice action_id,
                     uint8_t *fingerprint) MUST_CHECK;

/* Returns SCOPE_EXECUTE_READ or SCOPE_EXECUTE_WRITE. A dry run calls no app and needs neither. */
uint32_t exec_scope_of(const struct catalog_action *action);

/* Starts an execution in parent's arena; parent is held until its end. request is copied, its
 * pointers are borrowed until then. Returns NULL if out of memory. */
struct exec *exec_start(struct exec_service *service, const struct exec_request *request,
                        struct op *parent) MUST_CHECK;
/* Valid from the execution's end until the turn after parent has run, like everything in its
 * memory. */
const struct exec_outcome *exec_outcome_of(const struct exec *exec);
/* Returns JSON text; SLICE_NONE after a guard error, or if the caller records the run. */
slice exec_summary_of(const struct exec *exec);
/* Returns the op whose arena holds the outcome and the summary. */
struct op *exec_op_of(struct exec *exec);
/* Like op_cancel: may be called at any time until the end, any number of times. */
void exec_cancel(struct exec *exec);
/* Called when the client has closed: a run that cannot have reached the provider is cancelled, any
 * other run continues until it is recorded. A run that has ended may be part of a call that still
 * runs. */
void exec_client_gone(struct exec *exec);

#endif
