/*
 * How an execution can end. The reason is the domain's enum (src/api/README.md "Executions"); its
 * error code, the recommendation and whether it may be repeated follow from it here, in the one
 * table of outcome.c. HTTP statuses are the api's (api/envelope.c).
 */
#ifndef CALL_OUTCOME_H
#define CALL_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/slice.h"
#include "json/json.h"

/* Stored by name (exec_reason_name): order may change, names may not. */
enum exec_reason {
    EXEC_SUCCEEDED,
    /* blocked: sluice did not try, or the provider refused the credentials */
    EXEC_INTEGRATION_UNKNOWN,
    EXEC_ACTION_UNKNOWN,
    EXEC_INPUT_INVALID,
    EXEC_CONFIRMATION_MISSING,
    EXEC_NOT_CONNECTED,
    EXEC_CONNECTION_UNKNOWN, /* the tool endpoint named a connection that is not the account's */
    EXEC_REAUTH_REQUIRED,
    EXEC_KEY_REFUSED, /* a provider's 401 for an app with a key: unauthorized */
    EXEC_CONNECTION_AMBIGUOUS,
    EXEC_SCOPE_MISSING,
    EXEC_OWN_RATE_LIMIT,
    EXEC_CIRCUIT_OPEN,
    EXEC_ADDRESS_REFUSED,
    EXEC_OPERATION_GONE, /* the manifest says that the provider no longer has it */
    EXEC_KEY_MISMATCH,   /* the idempotency key was used for another request */
    /* failed: it was tried */
    EXEC_PROVIDER_FORBIDDEN,
    EXEC_PROVIDER_RATE_LIMITED,
    EXEC_PROVIDER_INVALID,     /* 400, 422 */
    EXEC_PROVIDER_UNSUPPORTED, /* 501 */
    EXEC_PROVIDER_ERROR,       /* 5xx and other 4xx */
    EXEC_TIMED_OUT,
    EXEC_UNREACHABLE,      /* DNS, connect, TLS: no byte was sent */
    EXEC_BROKEN_OFF,       /* reset after bytes were sent, or not HTTP */
    EXEC_REPLY_UNREADABLE, /* a 2xx that does not match the action's response */
    EXEC_REPLY_TOO_LARGE,
    EXEC_PARTLY_DONE,     /* of several requests, an earlier one acted and a later one did not */
    EXEC_OUTCOME_UNKNOWN, /* a process died with the write under way */
    /* neither: nothing was stored, the client may retry */
    EXEC_UNAVAILABLE,   /* database unreachable or queue full: 503 */
    EXEC_STILL_RUNNING, /* the same key is in flight past the deadline: 503 */
    EXEC_CANCELLED,     /* the client closed before anything was sent */
    EXEC_INTERNAL,      /* an internal fault: 500, "Internal error" */
    EXEC_NOT_IN_SCOPE,  /* the caller's API key may not run such an action: 403 */
    EXEC_REASONS
};

/* "succeeded", "input_invalid" ...; constant text. */
const char *exec_reason_name(enum exec_reason reason);
/* EXEC_REASONS if there is none of that name. */
enum exec_reason exec_reason_parse(slice name);
bool exec_reason_is_blocked(enum exec_reason reason);
bool exec_reason_is_failed(enum exec_reason reason);
/* "succeeded", "blocked", "failed"; NULL: neither, so that there is no summary. */
const char *exec_reason_status(enum exec_reason reason);

/* What a run did, or may have done; for a read only whether it succeeded. "done", "not_done",
 * "partly" and "unknown" in the summary. */
enum exec_effect {
    EXEC_EFFECT_NONE, /* with proof (call/effect.h): an idempotency key is free again */
    EXEC_EFFECT_DONE,
    EXEC_EFFECT_PARTLY,
    EXEC_EFFECT_UNKNOWN,
};
const char *exec_effect_name(enum exec_effect effect);

/* recommended_next_action: none, connect, or connect with force_reconnect */
enum exec_next { EXEC_NEXT_NONE, EXEC_NEXT_CONNECT, EXEC_NEXT_RECONNECT };

/* The recommendation if the reason alone does not decide it. */
enum exec_advice {
    EXEC_ADVICE_OF_REASON,
    EXEC_ADVICE_RECONNECT, /* the grant lacks scopes */
    EXEC_ADVICE_NONE,      /* the app needs no connection */
};

/* Everything an envelope needs. Texts live in the arena of its maker. */
/* Where the time of a run went. The rest, gate_ns, is everything before the call and between the
 * others: key, input, connection, token, claim, pauses between attempts. */
struct exec_times {
    uint64_t gate_ns, limits_ns, provider_ns, record_ns;
};

struct exec_outcome {
    enum exec_reason reason;
    enum exec_effect effect;
    bool is_in_progress;      /* an earlier request under the provider's key is still running */
    struct uuid execution_id; /* nil: none */
    slice integration_id, action_id;
    int64_t started_us, finished_us;
    slice output_json; /* JSON text; empty unless it succeeded */
    slice display_title, display_summary;
    slice message, hint; /* hint may be empty */
    enum exec_advice advice;
    int64_t reconnect_id;   /* the used connection, if it is not the default one; else 0 */
    bool is_hint_given;     /* by the manifest */
    slice error_code;       /* set by a manifest's rule, overrides the table's; usually empty */
    int64_t retry_after_ms; /* -1: unknown */
    int64_t quota_remaining, quota_reset_ms; /* the reply's information on later calls; -1: none */
    /* of an action with pages (exec/page.c): how many were read, the input for the next (null:
     * there is none; else an object of inputs), and why it ended before the last wanted one;
     * else 0 */
    unsigned pages_read;
    struct json page_next;
    slice pages_stopped;
    slice
        manifest_fault; /* an expression of the manifest that failed, for the log; usually empty */
    unsigned attempts, provider_status;
    slice provider_request_id;
    bool is_replayed;
    bool is_left_out;      /* a replay whose summary did not fit in the reply: fetch it by its id */
    bool is_dry_run;       /* with EXEC_SUCCEEDED: it could have run; the summary is the request */
    int64_t connection_id; /* of a dry run, or if the app has several; else 0 */
    slice connection_label; /* likewise */
    /* The same request may be sent again: nothing was done, so no key is bound to this outcome, or
     * it is a flow's, which repeats it under the same provider's key. */
    bool is_repeatable;
    struct exec_times times; /* set at its end */
};

/* error_code of src/api/README.md "Executions": a manifest's own, or the reason's; SLICE_NONE:
 * none. */
slice exec_outcome_error_code(const struct exec_outcome *outcome);
/* Whether the same request, sent again, could succeed. */
bool exec_outcome_is_retryable(const struct exec_outcome *outcome);
/* Seconds to wait before that, at least 1; 0: unknown. */
int64_t exec_outcome_retry_after_s(const struct exec_outcome *outcome);
enum exec_next exec_outcome_next(const struct exec_outcome *outcome);

#endif
