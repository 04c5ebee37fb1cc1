/*
 * flow: durable runs of templates (src/README.md "A flow"). A flow's state is its row in the
 * database; this process holds only the flows that it runs now, each an op (run.c), and the timers
 * of the next minute (due/due.h). A flow that ends, is parked or is lost is dropped from memory.
 *
 * Files in reading order: template.c; run.c (the table of a running flow), plan.c (what comes
 * next), call.c, held.c and fan_out.c (calls), run_end.c (how an attempt ends), state.c (the rows
 * that follow from it); command.c (start, approve, reject, resume, cancel), hold.c, adopt.c;
 * watch.c, view.c (src/api/README.md "Flows"), load.c (rows and templates, for a request),
 * view_cache.c (views as text, cached).
 */
#ifndef FLOW_FLOW_H
#define FLOW_FLOW_H

#include "due/due.h"
#include "event/outbox.h"
#include "exec/exec.h"
#include "loop/cache.h"
#include "node/node.h"
#include "flow/view_cache.h"
#include "flow/template.h"
#include "policy/cache.h"
#include "store/api_key.h"
#include "store/flow.h"
#include "store/flow_read.h"
#include "store/hold.h"
#include "trace/trace.h"

struct flow_service;
struct flow_run;

struct flow_config {
    struct loop *loop;
    struct pg_pool *pool;
    struct exec_service *exec;
    struct node *node;
    struct due_timers *due; /* the service owns the flows in it */
    struct catalog **catalog;
    struct flow_template_set **templates; /* the current set; all its versions are stored */
    /* maximum number of flows in memory; 0: 2000. Further due flows wait */
    size_t runs_max;
    uint64_t idempotency_ttl_ms;   /* lifetime of the idempotency key of a start */
    struct budget_queue *work;     /* counts the memory of runs, by account; NULL: not counted */
    struct tracer *tracer;         /* NULL: no traces */
    struct event_service *events;  /* sends the events of flows; NULL: the next process does */
    struct policy_cache *policies; /* of the keys that started flows; NULL: no key has one */
    bool holds_unattended;         /* the setting unattended-writes is hold */
};

/* config is copied, its pointers are borrowed. Returns NULL if out of memory. The service begins to
 * adopt and to fire timers at once. */
struct flow_service *flow_service_new(const struct flow_config *config) MUST_CHECK;
/* Sets the URL at which people reach the server, without a slash at its end. Events have the page
 * of the flow under it. Copied. */
void flow_service_public_url_set(struct flow_service *service, slice url);
/* Begins a clean drain: takes no more flows and lets running ones reach their next durable
 * state. The caller limits the time (then flow_service_cancel_all). Flows that are still owned
 * are adopted by other nodes once this node has left, which does not count as an adoption. */
void flow_service_drain(struct flow_service *service);
size_t flow_service_active(const struct flow_service *service);
void flow_service_cancel_all(struct flow_service *service);
/* No flow may be running (asserted). */
void flow_service_free(struct flow_service *service);

/* ---- the template of a flow ---- */

/* Finds the template that a flow is pinned to: in memory, or by loading and compiling it. status:
 * OK, with a reference for the caller in tmpl; ERR_NOTFOUND; ERR_INVALID if the template does not
 * compile; else the status of the query. Returns true if status and tmpl are set; else op is held
 * until they are. */
struct flow_template_find {
    int status;
    struct flow_template *tmpl;
    struct cache_wait wait;
};
bool flow_template_find(struct flow_service *service, struct flow_template_find *find,
                        struct uuid version, struct op *op) MUST_CHECK;

/* ---- commands: one op each, embedded in the caller's ---- */

enum flow_command_kind {
    FLOW_COMMAND_START,
    FLOW_COMMAND_APPROVE,
    FLOW_COMMAND_REJECT,
    FLOW_COMMAND_RESUME,
    FLOW_COMMAND_CANCEL,
};

enum flow_answer {
    FLOW_ANSWER_DONE,
    FLOW_ANSWER_NOT_FOUND,   /* the account has no such flow */
    FLOW_ANSWER_NO_TEMPLATE, /* start */
    /* start: the template writes, and the key does not have execute:write */
    FLOW_ANSWER_NOT_IN_SCOPE,
    FLOW_ANSWER_INVALID, /* start: the input is not valid; message has all violations */
    /* nothing to approve, another step, or not resumable, or too many holds; message has the
     * reason */
    FLOW_ANSWER_CONFLICT,
    FLOW_ANSWER_NOT_APPROVER, /* this key does not decide about the held call; message says so */
    /* start: a flow with this id was started before, or the hold's key has another flow, flow_id */
    FLOW_ANSWER_REPEATED,
    /* start: the idempotency key was used for another request, or for a flow that no longer exists;
     * message says which */
    FLOW_ANSWER_KEY_MISMATCH,
    FLOW_ANSWER_KEY_GONE,
    /* the database is unreachable, or out of memory; message has the cause. Nothing was done */
    FLOW_ANSWER_UNAVAILABLE,
    FLOW_ANSWER_UNKNOWN, /* the change may have been made: load the flow flow_id */
};

/* All pointers are borrowed until the command has ended. */
struct flow_request {
    enum flow_command_kind kind;
    struct uuid account_id;
    struct audit_by by;
    uint32_t scopes; /* of the caller's API key; without SCOPE_READ the view is a FLOW_VIEW_BARE */
    /* The policy of that key, and the account's id of the end user; NULL and SLICE_NONE: none. A
     * flow whose stored outputs it hides (flow_is_hidden) is not found. */
    struct policy *policy;
    slice user;
    /* START: the id for the flow, made by uuid_v7 in this deployment and used only by this request
     * and its repetitions; nil: a new id is made */
    struct uuid flow_id;
    /* START, of a held call, whose policy has decided: the row that is made with the flow, and the
     * template, whose version is stored. NULL: none; template_key names the template */
    const struct hold *hold;
    struct flow_template *tmpl;
    slice template_key;         /* START */
    struct uuid template_whole; /* START: the `whole` hash of the template that a person was
                                 * shown; nil: any */
    const struct json *input;   /* START; an object */
    slice trigger_type;         /* START */
    slice idempotency_key;      /* START, without a flow_id; SLICE_NONE if there is none */
    /* START: the key is valid at least until this time (clock_shared_us); 0: for the usual
     * lifetime */
    int64_t key_guards_until;
    /* START, without a key and of a template that writes: the API key, if its client may repeat a
     * start whose reply it did not get; nil: an equal start is another one (lost.c) */
    struct uuid lost_by;
    slice step_key; /* APPROVE, REJECT; SLICE_NONE: the waiting step */
    slice note;     /* APPROVE, REJECT; SLICE_NONE: none */
    int64_t rev;    /* APPROVE, REJECT: the revision that was decided on; 0: any */
    const struct trace_context *trace; /* START: the trace that the flow is part of; NULL: none */
};

/* What ended the wait of an approval step, when a decision on it comes too late. */
enum flow_earlier {
    FLOW_EARLIER_NONE, /* it waits, or it is not known */
    FLOW_EARLIER_APPROVED,
    FLOW_EARLIER_REJECTED,
    FLOW_EARLIER_EXPIRED,
    FLOW_EARLIER_CANCELLED, /* the flow, before a decision */
};

struct flow_command {
    struct op op;
    struct flow_service *service;
    struct flow_request in;
    /* out, valid once the op has ended; texts are in the parent's arena */
    enum flow_answer answer;
    slice message;
    struct uuid flow_id;
    struct flow flow; /* the row after the change, without texts after a start; with DONE */
    slice view_json;  /* {flow, steps} after the change; with DONE. SLICE_NONE: too large */
    int64_t rev;      /* the revision that view_json shows */
    /* START: an earlier request with the key has started the flow; the view shows its present
     * state */
    bool is_replayed;
    struct {
        enum flow_earlier what;
        slice by; /* the actor of a decision; else SLICE_NONE: the rows do not have the person */
        int64_t at;
    } earlier; /* with CONFLICT: why the named approval step does not wait any more */
    /* private */
    struct flow_run *run; /* START, until it is launched */
    struct flow_template_find find;
    struct flow_whole whole;
    struct pg_query query;
    struct op_timer timer;
    struct flow_take take;
    struct flow_step decided; /* for an approval: the attempt that the decision ended */
    slice input_json;
    struct claim claim;         /* START, with a key: the claim that binds the key to the flow */
    struct claim_outcome found; /* the key's row */
    struct hold held;           /* START, with a hold: that of the key */
    struct uuid op_token, event_id;
    unsigned tries;
    bool is_sent;             /* a change was sent, and its result is unknown */
    struct uuid was_owned_by; /* CANCEL: the owner before the cancel */
    bool was_cancelled;       /* CANCEL: the flow may have been cancelled before this command */
    bool is_changed;          /* the change is durable; the rest only makes the answer */
    /* START, whose client may repeat it (lost.c) */
    slice lost_key;              /* in the parent's arena; SLICE_NONE: none */
    struct exec_carried carried; /* linked while the claim of lost_key may be in flight */
    unsigned waits;              /* for the reply of an equal start */
    bool is_started, is_client_gone, is_replied;
};
/* Starts a command. parent must not be NULL; it is held until the end. */
void flow_command_start(struct flow_service *service, struct flow_command *command,
                        const struct flow_request *request, struct op *parent);
/* Called for a start, also after its end, when its client has left without the reply. */
void flow_command_client_gone(struct flow_command *command);
/* Called for a start when its request ends; the command may still run. */
void flow_command_replied(struct flow_command *command);

/* decision.c */
enum { FLOW_NOTE_CHARS_MAX = 2000 };
/* Whether the note is short enough, counted as in a browser: characters, not bytes, and each line
 * break (sent as CR LF) as one character. */
bool flow_note_fits(slice note) MUST_CHECK;
/* Returns the message for the error of a rejected approval. note may be SLICE_NONE. */
slice flow_rejection_message(slice actor, slice note, struct arena *arena);
/* Returns the person who decided an approval, and sets *note (SLICE_NONE if there is none). An
 * approval is read from its output, a rejection from its error; either may be NULL. Returns
 * SLICE_NONE if no person decided, because the approval expired. The slices are borrowed from
 * output and error. */
slice flow_decider_of(const struct json *output, const struct json *error, slice *note);
/* Called by the command: submits the audit event of a durable change, which holds op. */
void flow_decision_audit(struct pg_pool *pool, struct pg_query *query, struct op *op,
                         const struct flow_command *command);
/* Called in the next step: logs a failure, which does not undo the decision. */
void flow_decision_audited(struct op *op, const struct pg_query *query);

/* Whether a hold with this execution_id (store/hold.h) has begun its call. */
bool flow_hold_is_made(struct uuid execution_id);

/* Returns the scope that a key needs to start a flow of the template. */
static inline uint32_t flow_start_scope(const struct flow_template *tmpl)
{
    return tmpl->writes ? SCOPE_EXECUTE_WRITE : SCOPE_EXECUTE;
}

/* Called when keys or policies of the account (NULL: of any) may have changed: its running flows
 * ask for their policies again before the next call. */
void flow_policies_changed(struct flow_service *service, const struct uuid *account_id);
/* Whether the policy (NULL: none) hides what flows of the template have stored: it denies one of
 * their calls for every input. A call of an action that the catalog no longer has counts as denied.
 */
bool flow_is_hidden(const struct flow_template *tmpl, const struct catalog *catalog,
                    struct policy *policy);

/* ---- views and watches ---- */

/* The documents in a view: all (WHOLE), or without input, context and output (SUMMARY). BARE is for
 * a key that may not read: it also omits texts that come from an app or from the start's input. */
enum flow_view_kind { FLOW_VIEW_WHOLE, FLOW_VIEW_SUMMARY, FLOW_VIEW_BARE };
/* These append {flow, steps}, or only the flow's record (src/api/README.md "Flows"). Everything is
 * derived from the row, the document and the finished attempts. */
void flow_view_write(struct buf *out, const struct flow_whole *whole,
                     const struct flow_template *tmpl, enum flow_view_kind kind);
void flow_record_write(struct buf *out, const struct flow_listed *listed,
                       const struct flow_template *tmpl, bool is_summary);
static inline slice flow_whole_title(const struct flow_whole *whole,
                                     const struct flow_template *tmpl)
{
    return whole->title.ptr ? whole->title : tmpl->name;
}
/* Returns the index of the step that is reported as the current step. If the flow has completed,
 * this is its last step. */
size_t flow_current_index(const struct flow *flow, const struct flow_template *tmpl);

/* A watch is notified when a flow has changed: at once if this process changed it, otherwise within
 * about a second (one poll of all watched revisions). The callback only stores a fact or wakes an
 * op. The caller zeroes the struct first.
 *
 * With the nil flow_id it watches an account as a whole: its revision is a stamp, read by the
 * same poll, which changes with waiting flows, with the newest flows, with webhooks that fail, and
 * with the account's connections and keys. */
struct flow_watch {
    struct uuid account_id, flow_id;
    /* the last known revision or stamp: on_change is called for a later revision or a different
     * stamp */
    int64_t rev;
    /* set before on_change is called: the new revision; INT64_MAX if the flow no longer exists, or
     * if the server is shutting down */
    int64_t news_rev;
    /* The watch is notified only once the flow no longer runs, because it waits or has ended.
     * Changes by other nodes are always reported, since a poll knows only the revision; the caller
     * then loads the flow. */
    bool is_until_settled;
    bool wants_view;
    void (*on_change)(struct flow_watch *watch);
    struct list link;
    /* If wants_view is set, the view at the last reported change, if this process has it; see
     * flow_watch_take_view. */
    struct flow_view *view;
};
void flow_watch_add(struct flow_service *service, struct flow_watch *watch);
void flow_watch_remove(struct flow_watch *watch); /* does nothing if the watch was not added */
/* Returns the account's stamp at the last poll; 0 if the account is not watched here or not polled
 * yet. Data that is read from the database after this call is at least as new as the stamp. */
int64_t flow_watch_stamp(const struct flow_service *service, struct uuid account_id);
/* Call it when something of the account other than a flow has changed, so that its next stamp
 * differs. */
void flow_watch_touch(struct flow_service *service, struct uuid account_id);
/* Returns a reference for the caller; NULL if the caller has to load the flow. */
struct flow_view *flow_watch_take_view(struct flow_watch *watch) MUST_CHECK;
/* Called after each durable change of a flow in this process. whole and tmpl are for views of the
 * flow after the change; both are NULL if they are unknown here. */
void flow_watch_notify(struct flow_service *service, const struct flow *flow,
                       const struct flow_whole *whole, const struct flow_template *tmpl);
/* Whether this process runs this flow of this account, and the policy (NULL: none) does not hide
 * it. Sets *rev to the flow's last revision here. For changes by other nodes use a watch. */
bool flow_is_running_here(const struct flow_service *service, struct uuid account_id,
                          struct uuid id, struct policy *policy, int64_t *rev) MUST_CHECK;
/* Called at a shutdown: notifies every watch, so that long polls and event streams end. */
void flow_watch_wake_all(struct flow_service *service);

#endif
