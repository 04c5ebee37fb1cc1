/*
 * exec: one action, from gate to stored summary (src/README.md "An execution"). The sequence is the
 * table in exec.c; the steps' decisions are in gate.c and check.c (whether it may run), admit.c
 * (limits and circuit), claim.c (idempotency), attempt.c (the call and its retries) and record.c
 * (the result).
 *
 * An execution is in the arena of its caller's op. Its starter keeps what struct exec_request
 * borrows until it has ended; an execution that a provider may have seen always runs to its record,
 * even if its client has closed (exec_client_gone).
 */
#ifndef EXEC_EXEC_H
#define EXEC_EXEC_H

#include "catalog/catalog.h"
#include "connect/connect.h"
#include "limit/breaker.h"
#include "call/files.h"
#include "node/node.h"
#include "call/outcome.h"
#include "exec/stored.h"
#include "exec/tally.h"
#include "http/client.h"
#include "loop/op.h"
#include "store/api_key.h"
#include "trace/trace.h"

struct exec;
struct exec_service;

enum {
    EXEC_CONNECTION_NONE = -1,
    EXEC_RETRY_AFTER_MS_DEFAULT = 30000, /* after a rate limit without a known end */
};

struct exec_config {
    struct loop *loop;
    struct pg_pool *pool;
    struct http_client *http;
    struct connect_service *connect;
    struct catalog **catalog; /* the current snapshot; a swap keeps the pointer valid */
    struct node *node;
    struct budget_queue *work; /* the memory of executions counts there; NULL: nowhere */
    struct tracer *tracer;     /* NULL: no traces */
    uint64_t timeout_ms, idempotency_ttl_ms;
    uint64_t limit_wait_ms; /* longest wait for a connection's own limits */
    bool is_limits_off;
    struct leases *leases; /* connections' limits (limit/lease.h); NULL: limits per process */
    struct breaker_config breaker;
    /* A circuit has changed its state: the payload (borrowed) is for exec_service_hear of other
     * processes. NULL: there are none. */
    void (*on_circuit)(void *owner, slice payload);
    void *owner;
    size_t response_bytes_max, executions_max;
    size_t account_executions_max; /* per account (limit/concurrency.h); 0: the default */
    size_t file_bytes_max;         /* per file, decoded; an action may take less */
    size_t output_bytes;           /* per output, if the caller names no limit; 0: no limit */
    size_t output_bytes_max;       /* and the most that a caller can ask for, if that is not 0 */
};

/* NULL: out of memory. Everything in config outlives it. */
struct exec_service *exec_service_new(const struct exec_config *config) MUST_CHECK;
/* No execution may be under way (asserted). */
void exec_service_free(struct exec_service *service);
/* Whether writes may begin: not after the database was unreachable for longer than the node's
 * lease, until the node has a new one. */
bool exec_service_may_write(const struct exec_service *service);
/* Runs under way, and results of ended ones that are not stored yet. */
size_t exec_service_active(const struct exec_service *service);
/* What the node's runs know of their claims. */
struct node_claims exec_service_claims(const struct exec_service *service);
/* A notification from another process. false: it is about something else. */
bool exec_service_hear(struct exec_service *service, slice payload);
/* For readers of a stored summary by its id. */
/* Bytes of an output if a request names no limit; 0: all. */
size_t exec_service_output_bytes(const struct exec_service *service);
struct exec_stored_table *exec_service_stored(struct exec_service *service);
/* Its counts for charts. */
struct tallies *exec_service_tallies(struct exec_service *service);
/* The charts' cached sums of them (store/tally_cache.h). */
struct tally_cache *exec_service_sums(struct exec_service *service);
/* The last resort of a shutdown: cuts all runs under way. Their claims stay, and another process
 * recovers them. */
void exec_service_cancel_all(struct exec_service *service);

/*
 * Proof that a flow still belongs to this process: its row has that revision and that owning
 * incarnation. Anything that ends this ownership changes the revision, and a process that cancels
 * it waits for longer than EXEC_PROOF_MS before the cancel is acknowledged. So a statement's proof
 * is valid for that long, measured from before the statement was sent, on a clock that also runs
 * while the process is suspended. An older proof is renewed by a query.
 */
struct exec_proof {
    struct uuid flow_id, owner;
    int64_t rev;
    uint64_t sent_boot_ns; /* when the last statement that proved it was sent */
};
enum { EXEC_PROOF_MS = 1000 };

/* The time in which a request equal to a write whose client disconnected gets the write's result
 * (lost.c). */
enum { EXEC_LOST_MS = 5 * 60 * 1000 };

/* All borrowed until the execution has ended. */
struct exec_request {
    struct uuid account_id;
    struct audit_by by;              /* for the audit trail; its request_id is logged, too */
    uint32_t scopes;                 /* the scopes of the caller's API key */
    slice integration_id, action_id; /* action_id: short or full tool name */
    const struct json *input;
    slice input_pointer;      /* JSON Pointer of it in the caller's request; SLICE_NONE: "/input" */
    const char *confirm_name; /* the caller's name for is_confirmed; NULL: "confirm" */
    bool is_confirmed;
    /* The caller refuses writes that no person agreed to, and this is the hint what to do instead;
     * SLICE_NONE: is_confirmed decides. */
    slice refusal_hint;
    bool is_dry_run;       /* everything but the call: summary_json is the request */
    slice idempotency_key; /* SLICE_NONE: none; else 1 to 255 printable characters */
    /* Writes without a key only: the API key, if its client may by itself repeat a call whose
     * reply it did not get (lost.c); nil: a repetition runs. */
    struct uuid lost_by;
    int64_t key_guards_until;  /* struct claim; 0: the key has the usual lifetime */
    uint64_t output_bytes_max; /* call/fit.h; 0: the service's */
    bool is_resource;          /* likewise */
    size_t *replay_room; /* bytes for stored summaries in the reply, which others share; NULL: any
                            number. Without room it is not read: out.is_left_out */
    unsigned pages_max;  /* exec/page.c; 0, 1: one */
    /* This many pages were read, and another page follows; NULL: the caller only waits for the
     * end */
    void (*on_page)(struct op *parent, unsigned pages_read);
    /* A person has connected the app for this call, maybe through another process: cached
     * connections are not valid for it. */
    bool has_connected;
    int64_t connection_id;   /* 0: the default; EXEC_CONNECTION_NONE: a connection that cannot
                              * exist */
    struct call_file *files; /* their bytes are filled in */
    size_t file_count;
    /* The caller's own rows are intent and record (a step of a flow): no key is loaded and nothing
     * is claimed, stored, audited or rendered; only out is the result. */
    bool is_recorded_by_caller;
    /* With it: the proof that lets it send, which the caller updates; nothing is sent without a
     * proof. */
    struct exec_proof *proof;
    /* An earlier run of the same call may have acted, and nothing has settled it since: a refusal
     * of this one does not mean that nothing was done. */
    bool is_in_doubt;
    /* The provider's idempotency key, if the action has one: this name in that space (RFC 9562
     * 5.5), made when it is needed. Empty: made from idempotency_key and the request, or the run's
     * own. */
    slice provider_name;
    struct uuid provider_space;
    uint64_t timeout_ms;  /* 0: the action's own, else the setting execution-timeout */
    uint64_t deadline_ns; /* the caller's deadline, in loop time: an upper bound; 0: none */
    const struct trace_context *trace; /* the trace that the run is part of; NULL: none */
};

/* A person did not agree: the request's key is bound to no run for as long as the request could be
 * accepted, so that none begins with it. Holds op as a statement does; then store_claim_result.
 * false: no memory. Reads account_id, key, the call and its end. */
bool exec_claim_spend(struct pg_pool *pool, struct pg_query *query, struct op *op,
                      const struct exec_request *request) MUST_CHECK;

/* SCOPE_EXECUTE_READ or SCOPE_EXECUTE_WRITE. A dry run calls no app and needs neither. */
uint32_t exec_scope_of(const struct catalog_action *action);

/* Starts one in parent's arena; parent is held until its end. request is copied, its pointers are
 * borrowed until then. NULL: out of memory. */
struct exec *exec_start(struct exec_service *service, const struct exec_request *request,
                        struct op *parent) MUST_CHECK;
/* From its end until the turn after parent has run, like everything in its memory. */
const struct exec_outcome *exec_outcome_of(const struct exec *exec);
/* JSON text; SLICE_NONE: a guard error, or recorded by its caller. */
slice exec_summary_of(const struct exec *exec);
/* The op in whose memory the two are. */
struct op *exec_op_of(struct exec *exec);
/* As op_cancel: at any time until the end, any number of times. */
void exec_cancel(struct exec *exec);
/* The client has closed: a run that no provider can have seen is cancelled, any other runs on to
 * its record. */
void exec_client_gone(struct exec *exec);

#endif
