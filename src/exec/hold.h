/*
 * hold: a call that waits for a person's approval, as the policy of its caller's key wants
 * (src/policy/README.md "Holds"). exec finds that a request is held; the room flow makes the hold
 * (struct exec_holder): a flow of an approval and the call, and a row that binds the request's key
 * to that flow. A request with the key of a hold gets that hold, whatever has become of it.
 */
#ifndef EXEC_HOLD_H
#define EXEC_HOLD_H

#include "call/outcome.h"
#include "catalog/catalog.h"
#include "loop/op.h"
#include "store/audit.h"
#include "store/idempotency.h"
#include "trace/trace.h"

struct policy; /* policy/policy.h */

enum exec_hold_answer {
    /* no answer. With a message there is no hold; else it may exist */
    EXEC_HOLD_UNAVAILABLE,
    EXEC_HOLD_OPEN, /* it waits for a decision, or its call is under way */
    EXEC_HOLD_RUN,  /* its call has a record: execution_id */
    /* it was rejected or cancelled, has expired, or ended without a call: message and hint */
    EXEC_HOLD_ENDED,
    EXEC_HOLD_MISMATCH, /* the key is that of a hold of another request */
    /* none can be made, as the account has too many, or as no approval can show the call: message
     * and hint */
    EXEC_HOLD_FULL,
};

struct exec_hold {
    /* The request; borrowed. action lives until the answer has arrived, or until op is cancelled;
     * the rest lives as long as op's memory. */
    struct uuid account_id; /* whose rows: the account's or the user's */
    struct audit_by by;
    struct uuid asker; /* the line of the key that asks (struct api_key) */
    uint32_t scopes;
    struct policy *policy;    /* NULL: there is none, and is_unattended */
    slice user;               /* the account's id of the end user; SLICE_NONE: none */
    slice key;                /* printable; made by exec_hold_key if the request came without one */
    const char *key_name;     /* how the caller names a key, as in struct exec_request */
    int64_t key_guards_until; /* as in struct exec_request */
    uint8_t fingerprint[IDEMPOTENCY_FINGERPRINT_LEN];
    const struct catalog_action *action;
    const struct json *input; /* without the nulls that mean that a member is absent */
    unsigned pages_max;
    int64_t connection_id; /* the one that was found; 0: the app needs none */
    slice connection_name; /* its label; may be empty */
    slice decider;         /* "name@rev"; SLICE_NONE without a policy */
    int rule;              /* as in struct policy_verdict */
    slice reason;          /* the rule's text; SLICE_NONE: none */
    uint32_t expires_s;    /* how long it waits for a decision */
    /* It is held by unattended_writes, not by a rule: of the key, or of the server's setting. The
     * call's request has holds_writes while that is so. */
    bool is_unattended, is_by_setting;
    const struct trace_context *trace; /* NULL: none */

    /* the answer; texts are in the arena of the op that began it, or constant */
    enum exec_hold_answer answer;
    bool is_new;         /* OPEN: this request has made it */
    struct uuid flow_id; /* OPEN, RUN, ENDED */
    slice status;        /* of the flow: "waiting", "running", "failed" ... */
    slice url;           /* of the flow's page; SLICE_NONE: it is not known */
    int64_t expires_at;  /* of the approval, in microseconds; 0: it was decided */
    int64_t again_at;    /* OPEN: the approved call could not be made yet, and is made then; or 0 */
    struct uuid execution_id;
    slice message, hint; /* sentences; hint may be empty. UNAVAILABLE: the cause, if it is known */
    enum exec_effect effect; /* ENDED: what the call has done, or may have done */
};

/* How the key of a request that came without one begins; a client may send it, too. */
#define EXEC_HOLD_KEY_START "hold-"

/* Returns the key of a request that came without one: printable, and the same for all keys of the
 * asker's line. SLICE_NONE if out of memory. */
slice exec_hold_key(const uint8_t *fingerprint, struct uuid asker, struct arena *arena) MUST_CHECK;

struct exec_holder {
    /* Makes the hold, or finds the one that exists. Holds op until the answer is in *hold, which is
     * in op's memory; never answers before it returns. After a cancel of op nothing is answered,
     * and the hold may exist. Returns false, and holds nothing, if out of memory. */
    bool (*begin)(void *owner, struct exec_hold *hold, struct op *op);
    void *owner;
};

#endif
