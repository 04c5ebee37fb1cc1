/*
 * How an execution can end. The reason is the domain's enum (src/api/README.md "Executions"). Its
 * error code, the recommendation and whether it may be repeated are derived from it in the table of
 * outcome.c. The HTTP statuses are in api/envelope.c.
 */
#ifndef CALL_OUTCOME_H
#define CALL_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/slice.h"
#include "json/json.h"

/* Stored by name (exec_reason_name): the order may change, the names may not. */
enum exec_reason {
    EXEC_SUCCEEDED,
    /* blocked: sluice did not try, or the provider refused the credentials */
    EXEC_INTEGRATION_UNKNOWN,
    EXEC_ACTION_UNKNOWN,
    EXEC_INPUT_INVALID,
    EXEC_CONFIRMATION_MISSING,
    EXEC_POLICY_DENIED, /* by the policy of the caller's key */
    EXEC_HELD,      /* it waits for the approval of a person, or the approved call is under way */
    EXEC_HOLD_OVER, /* the approval was refused, or has ended without a call */
    EXEC_NOT_CONNECTED,
    EXEC_CONNECTION_UNKNOWN, /* the tool endpoint named a connection that is not the account's */
    EXEC_REAUTH_REQUIRED,
    EXEC_KEY_REFUSED, /* a provider's 401 for an app with a key: unauthorized */
    EXEC_CONNECTION_AMBIGUOUS,
    EXEC_SCOPE_MISSING,
    EXEC_OWN_RATE_LIMIT,
    EXEC_CIRCUIT_OPEN,
    EXEC_ADDRESS_REFUSED,
    EXEC_OPERATION_GONE, /* the manifest says that the provider has removed the operation */
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
    EXEC_REPLY_UNREADABLE, /* a 2xx that does not match the response of the action */
    EXEC_REPLY_TOO_LARGE,
    EXEC_PARTLY_DONE,     /* of several requests, an earlier one had an effect and a later one
                           * did not */
    EXEC_OUTCOME_UNKNOWN, /* a process died while the write was under way */
    /* neither blocked nor failed: nothing was stored, the client may retry */
    EXEC_UNAVAILABLE,   /* database unreachable or queue full: 503 */
    EXEC_STILL_RUNNING, /* the same key is in flight past the deadline: 503 */
    EXEC_CANCELLED,     /* the client closed before anything was sent */
    EXEC_INTERNAL,      /* an internal fault: 500, "Internal error" */
    EXEC_NOT_IN_SCOPE,  /* the scopes of the caller's API key do not include the action: 403 */
    EXEC_REASONS
};

/* "succeeded", "input_invalid" ...; constant text. */
const char *exec_reason_name(enum exec_reason reason);
/* Returns EXEC_REASONS if no reason has this name. */
enum exec_reason exec_reason_parse(slice name);
bool exec_reason_is_blocked(enum exec_reason reason);
bool exec_reason_is_failed(enum exec_reason reason);
/* Returns "succeeded", "blocked" or "failed"; NULL for any other reason, which has no summary. */
const char *exec_reason_status(enum exec_reason reason);

/* The certain or possible effect of a run; for a read, only whether it succeeded. In the summary:
 * "done", "not_done", "partly" and "unknown". */
enum exec_effect {
    EXEC_EFFECT_NONE, /* proven (call/effect.h): an idempotency key is free again */
    EXEC_EFFECT_DONE,
    EXEC_EFFECT_PARTLY,
    EXEC_EFFECT_UNKNOWN,
};
const char *exec_effect_name(enum exec_effect effect);

/* recommended_next_action: none, connect, or connect with force_reconnect */
enum exec_next { EXEC_NEXT_NONE, EXEC_NEXT_CONNECT, EXEC_NEXT_RECONNECT };

/* The recommendation, if it is not determined by the reason alone. */
enum exec_advice {
    EXEC_ADVICE_OF_REASON,
    EXEC_ADVICE_RECONNECT, /* the grant lacks scopes */
    EXEC_ADVICE_NONE,      /* the app needs no connection */
};

/* The approval that a held call waits for, or waited for. */
struct exec_approval {
    struct uuid flow_id;
    slice status;       /* of the flow */
    slice url;          /* of its page; SLICE_NONE: it is not known */
    int64_t expires_at; /* in microseconds; 0: it was decided */
    slice key;          /* the idempotency key that the call is bound to */
};

/* How the time of a run is divided among its phases. gate_ns is the rest, before the call and
 * between the other phases: key, input, connection, token, claim, pauses between attempts. */
struct exec_times {
    uint64_t gate_ns, limits_ns, provider_ns, record_ns;
};

/* Everything that an envelope needs. The texts are in the arena of the caller that fills in the
 * struct. */
struct exec_outcome {
    enum exec_reason reason;
    enum exec_effect effect;
    bool is_in_progress;      /* an earlier request with the provider's key is still running */
    struct uuid execution_id; /* nil: none */
    slice integration_id, action_id;
    int64_t started_us, finished_us;
    slice output_json; /* JSON text; empty unless it succeeded */
    slice display_title, display_summary;
    slice message, hint;                  /* hint may be empty */
    const struct exec_approval *approval; /* NULL: it needs none */
    struct uuid approval_flow_id;         /* the flow in which a held call was approved; nil: it was
                                           * not held */
    enum exec_advice advice;
    int64_t reconnect_id; /* the connection used, if it is not the default; else 0 */
    bool is_hint_given;   /* the manifest has given the hint */
    /* set by a manifest's rule; overrides the code of the table; usually empty */
    slice error_code;
    int64_t retry_after_ms;                  /* -1: unknown */
    int64_t quota_remaining, quota_reset_ms; /* the reply's information on later calls; -1: none */
    /* For an action with pages (exec/page.c): the number of pages read, the input for the next
     * page (null: there is none; else an object of inputs), and why reading ended before the
     * last wanted page; else 0 */
    unsigned pages_read;
    struct json page_next;
    slice pages_stopped;
    slice
        manifest_fault; /* an expression of the manifest that failed, for the log; usually empty */
    unsigned attempts, provider_status;
    slice provider_request_id;
    bool is_replayed;
    bool is_unheld;   /* the call of a hold: the policy does not hold it any more */
    bool is_left_out; /* a replay whose summary did not fit in the reply: fetch it by its id */
    /* with EXEC_SUCCEEDED: the call was possible; the summary is the request */
    bool is_dry_run;
    bool wants_confirmation; /* of a dry run: the call needs one */
    bool is_unread_passing;  /* of a dry run: a read of `shows` failed that may succeed later */
    int64_t connection_id;   /* set for a dry run, or if the app has several connections; else 0 */
    slice connection_label;  /* the label of that connection */
    /* The same request may be sent again: nothing was done, so no key is bound to this outcome,
     * or the request belongs to a flow, which repeats it with the same provider key. */
    bool is_repeatable;
    struct exec_times times; /* set at the end of the run */
};

/* error_code of src/api/README.md "Executions": a manifest's own code, or the reason's;
 * SLICE_NONE: none. */
slice exec_outcome_error_code(const struct exec_outcome *outcome);
/* Returns the error code of a stored reason, or the reason itself if no reason has this name. */
slice exec_reason_code(slice name);
/* Whether the same request could succeed if it is sent again. */
bool exec_outcome_is_retryable(const struct exec_outcome *outcome);
/* Returns the seconds to wait before the request is sent again, at least 1; 0 if unknown. */
int64_t exec_outcome_retry_after_s(const struct exec_outcome *outcome);
enum exec_next exec_outcome_next(const struct exec_outcome *outcome);

#endif
