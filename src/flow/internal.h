/*
 * Shared by the files of this room: the service, and a running flow.
 */
#ifndef FLOW_INTERNAL_H
#define FLOW_INTERNAL_H

#include "base/keyed.h"
#include "base/map.h"
#include "base/metric.h"
#include "flow/flow.h"
#include "store/hold_call.h"
#include "store/later.h"

struct flow_run;
struct flow_adopter;
struct flow_watches;

enum {
    FLOW_RUNS_MAX = 2000, /* default of flow_config.runs_max */
    FLOW_RUN_ARENA_MAX = 128 * 1024 * 1024,
    FLOW_OUTPUT_BYTES_MAX = 1024 * 1024, /* per step */
    FLOW_URL_MAX = 512,
    /* after this many adoptions in a row without an ended attempt, the flow seems to crash its
     * servers */
    FLOW_POISON_ADOPTIONS = 5,
    FLOW_HEARD_SLOTS = 1024,
};

struct flow_service {
    struct flow_config config;
    struct map by_id; /* flow id -> struct flow_run, the last one registered */
    struct list runs; /* struct flow_run.link: all, including those that have lost their flow */
    size_t run_count;
    struct store_laters takes;  /* takes under way, each of which may become a run */
    struct store_laters losses; /* lost.c */
    struct list holdings;       /* struct holding.link (hold.c): holds that are being made */
    size_t holding_count;
    struct exec_holder holder;
    struct cache pinned; /* of templates, by version (pinned.c) */
    struct flow_adopter *adopter;
    struct flow_watches *watches;
    struct cache views;            /* view_cache.h */
    char public_url[FLOW_URL_MAX]; /* "" until it is known */
    /* Accounts that had an endpoint of events when a flow of theirs had an event (run_end.c), each
     * in the slot of its last bits. Only a hint: the next one in a slot replaces it, which costs
     * each event of the two a further statement. */
    struct uuid heard[FLOW_HEARD_SLOTS];
    uint64_t policies_changed_ns; /* when keys or policies of any account last changed */
    bool is_draining;
    bool has_lost; /* this node may own a flow that is not in memory, so adopt.c scans for it */
};

/* ---- a running flow (run.c) ---- */

/* The next action, found before the transition to it is written (plan.c). */
enum flow_plan_kind {
    FLOW_PLAN_END, /* no step is left */
    FLOW_PLAN_CALL,
    FLOW_PLAN_FAN_OUT,
    FLOW_PLAN_TRANSFORM,
    FLOW_PLAN_PASS,  /* a wait that is over */
    FLOW_PLAN_PARK,  /* a wait or an approval */
    FLOW_PLAN_FAULT, /* the step fails with plan.error before anything is done */
};

/* The error of a failed step. Texts are constant or live as long as the plan. */
struct flow_error {
    slice code, message, hint; /* hint may be SLICE_NONE */
    slice next_json;           /* recommended_next_action; SLICE_NONE if there is none */
    bool is_retryable;
    bool is_passing; /* a temporary refusal: nothing was done, and further retries make sense */
    bool is_closed;  /* of a held call: a resume does not make it again, either */
    bool is_final;   /* all attempts have been made, even if is_retryable is set for the caller */
    int64_t retry_after_ms;  /* -1: unknown */
    enum exec_effect effect; /* the certain or possible effect of this and earlier attempts */
    int64_t tries;           /* for items only: attempts so far, including this one; 0 if unknown */
};

struct flow_fan;

/* The output of a completed step. Few steps refer to an output, so it stays text until one does. */
struct flow_output {
    bool is_there;
    slice text;               /* SLICE_NONE: null */
    const struct json *value; /* NULL: not parsed yet */
};

/* What ids in the calls of an approval mean (shows.c), and before such a call whether it is still
 * what the approval has shown (compare.c). */
enum { FLOW_READS_MAX = 3 };
struct flow_show {
    slice integration_id, action_id;
    const struct json *input, *sources; /* sources: what the texts are made from */
    int64_t connection_id;
    struct exec *exec; /* the dry run that reads; NULL: none */
    /* {member: text}, and {member: digest} of what may not change besides; NULL: none */
    const struct json *texts, *versions;
    bool is_passing; /* a text is missing that may be read later */
    /* before a call: the approval's item, which has `shows` and `versions`, and whether the flow
     * itself may have changed what they are about */
    const struct json *approved;
    bool is_changed;
};
struct flow_shows {
    bool is_read;
    unsigned reads_left;
    size_t count;
    struct flow_show items[FLOW_READS_MAX];
    /* before a call: `items` are those of its approval; a text was shown that cannot be read; when
     * they were last found to be the same, 0: never */
    bool is_noted, is_lost;
    uint64_t compared_ns;
};

/* The next attempt. Its documents are in the current scratch arena. */
struct flow_plan {
    enum flow_plan_kind kind;
    size_t step;
    int64_t attempt;
    int64_t started_us;
    struct json value;       /* CALL: the input; FAN_OUT: the items */
    slice input_json;        /* the input in the step's row; may be a summary of the items */
    int64_t connection_id;   /* CALL */
    int64_t wake_at;         /* PARK: when the pause ends; 0 if only a person ends it */
    struct flow_shows shows; /* PARK, of an approval; CALL and FAN_OUT, of the one that confirms */
    struct flow_error error; /* FAULT */
};

/* The progress of the plan's execution. */
struct flow_progress {
    int64_t attempt_base; /* number of attempts before a person resumed the flow */
    bool is_interrupted;  /* a node that has died began this attempt */
    /* An earlier attempt may have had an effect (in a fan-out each item has its own flag).
     * Derived from the rows: a failed attempt's error has its outcome, or an intent has no row. */
    bool is_in_doubt;
    unsigned unsent;      /* number of consecutive calls that could not be made */
    struct exec *exec;    /* the call under way, or NULL */
    struct flow_fan *fan; /* the fan-out of the current step, even after its attempt has failed */
};

/* The transition that is being recorded. */
struct flow_transition {
    struct flow next;
    struct uuid op_token;
    struct flow_step finished; /* the attempt that ends with this transition; attempt 0: none */
    uint64_t retry_ms;         /* pause before the next attempt; 0 if it begins at once */
    slice error_code;          /* of the ended attempt, if it failed */
    struct flow_event event;
    bool has_outbox; /* the statement writes the event (struct flow_move) */
};

/* The data for watches at each transition: run->whole. */
struct flow_published {
    /* run->whole matches the database; remains false once memory was short */
    bool is_whole;
    size_t step_cap;   /* capacity of whole.steps */
    size_t bytes_left; /* bytes left for inputs and errors that are kept only for views */
};

/* What is asked for before a call, one after the other (policy.c): the key's policy, its text, the
 * end user's name, and whether the call's approval satisfies a policy that may hold it. */
enum flow_policy_part {
    FLOW_POLICY_KNOWN,
    FLOW_POLICY_KEY,
    FLOW_POLICY_TEXT,
    FLOW_POLICY_USER,
    FLOW_POLICY_APPROVER,
};
struct flow_policy_asking {
    enum flow_policy_part part;
    size_t approval;       /* APPROVER: the approval's step */
    unsigned changes;      /* those of the run when it was asked */
    struct key_policy key; /* whose text is asked for */
    struct policy_find find;
    struct pg_query query;
    char user_id[UUID_TEXT_LEN + 1];
};

/* The policy of the key that started the flow, which decides about each call. */
struct flow_policy {
    struct key_policy key; /* as the last statement found it */
    struct policy *policy; /* a reference; NULL: none, or not found yet */
    bool is_found;         /* `policy` is that of `key` */
    bool is_user_known;
    slice user; /* the account's id of the end user; SLICE_NONE: none, or not known */
    /* number of changes of the account's keys and policies: so far, and those that `key` is known
     * to include */
    unsigned changes, changes_known;
    unsigned changes_sent; /* so far when the load of the run was sent */
    uint64_t learnt_ns;    /* when `key` was found */
    unsigned unreadable;   /* how often a text could not be read */
    /* Whether the key that gave an approval may decide about held calls. That never changes. */
    struct {
        bool is_known, may_decide;
        size_t step; /* of the approval */
    } approver;
    struct flow_policy_asking asking; /* the run's own; a lane of a fan-out has another */
};

/* The call of a hold (held.c). */
struct flow_held {
    struct hold_state state;
    struct hold_intent intent;
    struct uuid execution_id; /* the one to be stored in the hold */
    bool is_followed;         /* it is that of another run of the request, whose end counts */
};

struct flow_run {
    /* its arena holds the documents while the flow runs; its request_id is that of the flow */
    struct op op;
    struct flow_service *service;
    struct list link;
    struct budget_use use; /* accounts for the memory of its arenas and calls */
    struct pg_query query;
    struct op_timer timer;
    bool is_waking; /* the pause is over, but the first transition has not taken the flow yet */
    /* loaded, or known from its start */
    struct flow flow;         /* as in the database */
    struct exec_proof proof;  /* when the last statement that proved ownership was sent */
    struct flow_whole whole;  /* the loaded flow, with the record as of the last view */
    const struct json *input; /* whole.input, parsed */
    struct flow_template_find find;
    struct flow_template *tmpl;        /* reference-counted; NULL until it is found */
    const struct trace_context *trace; /* the trace context of the flow's start; NULL: not traced */
    struct flow_output outputs[FLOW_STEPS_MAX];
    /* one round of plan, execute, record */
    struct flow_plan plan;
    struct flow_progress progress;
    struct flow_transition transition;
    struct flow_published published;
    struct flow_policy policy;
    struct flow_held held;
    /* Two arenas that alternate: one for the step that is being recorded, one for the plan of
     * the next step. */
    struct arena scratch[2];
    unsigned scratch_current;
};

OP_OF(flow_run_of, flow_run)

/* Runs a flow that this process has just taken. If is_resumed, a person has resumed the flow, which
 * gets a new set of attempts. Returns false if out of memory; the caller then sets has_lost. */
bool flow_run_start(struct flow_service *service, const struct flow *flow, bool is_resumed);
/* Runs a waiting flow that is due, unless it runs here already. The flow is loaded and planned
 * while it still waits, and the run's first transition takes it. On all nodes but one that
 * transition finds no row, and the run ends without effect. */
void flow_run_wake(struct flow_service *service, const struct due_ref *ref);
/* Makes a new run, planned up to its first step and held. Call flow_run_launch once transition.next
 * is durable (with its waiting input), or flow_run_drop. If the first step is a pause, or if there
 * is no step to run, the start includes this: transition.next is then revision 2, while run->flow
 * is revision 1, which a start returns. input is JSON text, copied like flow, and like the
 * request's actor and user; its policy is the run's. Returns NULL if out of memory. */
struct flow_run *flow_run_new(struct flow_service *service, const struct flow *flow,
                              struct flow_template *tmpl, slice input,
                              const struct flow_request *request) MUST_CHECK;
void flow_run_launch(struct flow_run *run);
void flow_run_drop(struct flow_run *run);
/* Cancels this process's run of the flow, if any, because the flow's row has changed. */
void flow_run_cancel(struct flow_service *service, struct uuid id);
/* Returns the view of this account's flow, as a reference for the caller, if this process runs the
 * flow at this revision; else NULL. */
struct flow_view *flow_run_view(const struct flow_service *service, struct uuid account_id,
                                struct uuid id, int64_t rev) MUST_CHECK;
/* Whether a run of this flow is in memory, in any state. */
bool flow_run_is_known(const struct flow_service *service, struct uuid id);
/* Whether the flow runs here or is about to; false if it has just been parked and its run is about
 * to end. */
bool flow_run_is_moving(const struct flow_service *service, struct uuid id);
/* Whether there is a slot for one more run; false while draining. */
bool flow_service_has_room(const struct flow_service *service);
/* Returns where a person sees the flow, with the account's id of the end user if it is a user's;
 * SLICE_NONE if that is not known, or if out of memory. */
slice flow_service_url(const struct flow_service *service, struct uuid id, slice user,
                       struct arena *arena);
/* Called when a run or a take has ended: fires due timers that waited for a slot. */
void flow_service_fire_timers(struct flow_service *service);

/* Whether nothing new may begin: the service is draining, or the row's owner is a former
 * incarnation of this node. */
bool flow_run_is_leaving(const struct flow_run *run);
static inline bool flow_run_is_ours(const struct flow_run *run)
{
    return uuid_eq(run->flow.owner, node_id(run->service->config.node));
}
/* Returns the planned step. Must not be called with FLOW_PLAN_END. */
static inline const struct flow_step_def *flow_run_step(const struct flow_run *run)
{
    ASSERT(run->plan.step < run->tmpl->step_count);
    return &run->tmpl->steps[run->plan.step];
}
/* Returns the input that a view shows if the flow waits after the transition; else SLICE_NONE. */
static inline slice flow_run_waiting_input(const struct flow_run *run)
{
    return run->transition.next.status == FLOW_WAITING ? run->plan.input_json : SLICE_NONE;
}
/* Whether an attempt ends with this transition. */
static inline bool flow_run_has_finished(const struct flow_run *run)
{
    return run->transition.finished.attempt > 0;
}
static inline struct arena *flow_run_scratch(struct flow_run *run)
{
    return &run->scratch[run->scratch_current];
}

/* plan.c: plans the first step at or after `at` whose `when` is true, or the end. attempt is the
 * number of the attempt if step `at` is planned; is_decided means that the `when` of this step was
 * checked before. Uses the current scratch arena. */
void flow_plan_make(struct flow_run *run, size_t at, int64_t attempt, bool is_decided);
/* Makes a plan without an action, for an attempt that fails right after the load. */
void flow_plan_none(struct flow_run *run, size_t step, int64_t attempt);
/* Evaluates the input of one item of the plan's fan-out, in arena. Returns false with *error set if
 * that fails. */
bool flow_plan_item(struct flow_run *run, size_t index, struct arena *arena, struct json *input,
                    int64_t *connection_id, struct flow_error *error);
/* A transform's value. */
bool flow_plan_transform(struct flow_run *run, struct json *value);
/* plan_park.c: plans for waits and approvals. */
void flow_plan_wait(struct flow_run *run, const struct flow_step_def *step);
void flow_plan_approval(struct flow_run *run, const struct flow_step_def *step);
/* Returns the root value of this step's expressions, or NULL if out of memory. item is NULL if the
 * step has no item. */
struct json *flow_plan_root(struct flow_run *run, const struct flow_step_def *step,
                            struct arena *arena, const struct json *item, size_t index) MUST_CHECK;
/* Evaluates one expression or template of the step. Returns false if that fails; the plan is then a
 * fault. */
bool flow_plan_evaluate(struct flow_run *run, const struct expr *expr,
                        const struct expr_template *tmpl, const char *what, struct json *value);
/* flow_plan_log logs why an expression failed. The second function makes the plan a fault,
 * validation_error with this message. */
void flow_plan_log(const struct flow_run *run, const char *what, const struct err *err);
void flow_plan_fault(struct flow_run *run, const char *what, const char *why);
/* Reads a connection's id from a value: a number or a decimal string, or null for the default
 * connection. */
int64_t flow_connection_id(const struct json *value);

/* call.c: one call of a step, on behalf of the run or of a lane of its fan-out. */
struct flow_call {
    struct flow_run *run;
    const struct json *input;
    int64_t connection_id;
    size_t item;      /* index of the item; SIZE_MAX without a fan-out */
    bool is_in_doubt; /* an earlier attempt at the call may have had an effect */
};
/* The exec and everything that it borrows, except the input, are in parent's arena. Returns NULL if
 * out of memory. */
struct exec *flow_call_start(const struct flow_call *call, struct op *parent);
enum flow_call_end {
    FLOW_CALL_SUCCEEDED,
    FLOW_CALL_FAILED,    /* *error */
    FLOW_CALL_UNSENT,    /* nothing was sent for a local reason, so the call is retried */
    FLOW_CALL_CANCELLED, /* a shutdown, a lost flow, or a bug; the run ends */
};
enum flow_call_end flow_call_result(const struct flow_call *call, const struct exec *exec,
                                    struct arena *arena, struct flow_error *error);
/* Whether the call may be repeated, because a second call has no further effect. */
bool flow_call_is_safe(const struct flow_run *run, size_t step);
/* Whether the call only reads; it then needs no intent and leaves no doubt. */
bool flow_call_is_read(const struct flow_run *run, size_t step);
/* Returns how long to wait before the next attempt, after `tries` attempts; 0 if no attempt is
 * left. */
uint64_t flow_call_retry_ms(const struct flow_run *run, const struct flow_error *error,
                            int64_t tries);
/* Whether the flow's deadline has passed; then no further call is begun. */
bool flow_run_is_overdue(const struct flow_run *run);
/* Makes an error that is not retryable and has no Retry-After. code is constant; message and
 * hint are borrowed. */
struct flow_error flow_error_make(const char *code, slice message, slice hint);
struct flow_error flow_error_memory(void);
struct flow_error flow_error_deadline(void);
struct flow_error flow_error_unknown(void);
slice flow_error_text(const struct flow_error *error, struct arena *arena);
/* Parses the text of flow_error_text, for a step or an item. The error's texts are valid as long as
 * text and arena. */
struct flow_error flow_error_read(slice text, struct arena *arena);

/* Returns what the text of an error, or of an execution's summary, says about the effect. */
enum exec_effect flow_error_effect(const struct json *error, slice code);

/* held.c: the steps of a hold's call before and after its execution. The statements hold run. */
void flow_held_check(struct flow_run *run);
enum flow_held_next {
    FLOW_HELD_CALL,      /* the execution's id is to be stored now */
    FLOW_HELD_WAIT,      /* an earlier attempt is under way, or the database did not answer */
    FLOW_HELD_COMPLETED, /* *output */
    FLOW_HELD_FAILED,    /* *error */
    FLOW_HELD_LOST,      /* the flow is not this process's any more */
};
enum flow_held_next flow_held_checked(struct flow_run *run, slice *output,
                                      struct flow_error *error);
void flow_held_intend(struct flow_run *run);
/* Returns whether the id is stored. */
bool flow_held_intended(struct flow_run *run);
/* Fills in what distinguishes the execution from another call of a flow. */
void flow_held_request(struct flow_run *run, struct exec_request *request);
/* Whether the step's result is to be read from the record, or from that of another run of the
 * request (held.is_followed). */
bool flow_held_is_recorded(struct flow_run *run, const struct exec *exec);
/* Makes the error of a failed execution one that suits a hold. */
void flow_held_fail(enum exec_reason reason, struct flow_error *error);
/* For a cancel of the run: what was sent continues, and nothing else is sent. */
void flow_held_leave(struct flow_run *run);

/* fan_out.c */
/* Starts lanes, which hold run; returns false if out of memory. */
bool flow_fan_start(struct flow_run *run);
void flow_fan_cancel(struct flow_run *run);
enum flow_fan_end {
    FLOW_FAN_COMPLETED, /* *output_json */
    FLOW_FAN_FAILED,    /* *error */
    FLOW_FAN_LEFT,      /* the flow is lost, or this process is shutting down; the run ends */
};
enum flow_fan_end flow_fan_join(struct flow_run *run, slice *output_json, struct flow_error *error);
/* Whether an earlier attempt of the planned fan-out has completed the item, or may have done it and
 * is repeated, since that is safe. */
bool flow_fan_has_done(struct flow_run *run, size_t item);
/* Whether an item of this attempt has failed, or is in doubt and must not be repeated: then no
 * further call is made. */
bool flow_fan_is_stopped(struct flow_run *run);

/* adopt.c */
struct flow_adopter *flow_adopter_new(struct flow_service *service) MUST_CHECK;
void flow_adopter_stop(struct flow_adopter *adopter);
/* take.c: takes the flow of a dead owner in a separate op and runs it. */
bool flow_take_start(struct flow_service *service, const struct flow_ref *ref, struct op *parent);

/* lost.c, for the claim of a start's key. begin: before the statement is sent that makes the claim.
 * drop: the statement did not make it. end: binds or releases the key, once it is known which. */
void flow_lost_begin(struct flow_command *command);
void flow_lost_drop(struct flow_command *command);
void flow_lost_end(struct flow_command *command);

/* policy.c */
/* Called by a start: the policy is that of the request, which is not asked for again before the
 * first call. Returns false if out of memory. */
bool flow_policy_start(struct flow_run *run, struct policy *policy, slice user) MUST_CHECK;
/* Called after flow_policy_start: the policy was found after this time. If keys or policies have
 * changed since then, the run asks for it again. */
void flow_policy_found_at(struct flow_run *run, uint64_t time_ns);
/* Called after each statement that has found the policy of the key. changes: those of the run when
 * it was sent. */
void flow_policy_learn(struct flow_run *run, const struct key_policy *key, unsigned changes);
/* Returns the key that started the flow; nil if no policy decides about it. */
struct uuid flow_policy_key(const struct flow_run *run);
/* Whether the run knows what decides about its next call. Else flow_policy_ask asks for one part of
 * that: op is held until the answer arrives, unless it returns true. Then flow_policy_take takes
 * it; false: it failed, and is to be asked for again. */
bool flow_policy_is_known(const struct flow_run *run);
bool flow_policy_ask(struct flow_run *run, struct flow_policy_asking *asking,
                     struct op *op) MUST_CHECK;
bool flow_policy_take(struct flow_run *run, struct flow_policy_asking *asking) MUST_CHECK;
/* Whether the planned call is confirmed by an approval that satisfies a policy which holds it. It
 * is known once flow_policy_is_known. */
bool flow_policy_is_approved(const struct flow_run *run);
/* Whether it is confirmed by one that is known not to. */
bool flow_policy_is_own_approval(const struct flow_run *run);
void flow_policy_asking_free(struct flow_policy_asking *asking);
void flow_policy_free(struct flow_run *run);

/* shows.c: what ids in the calls of the planned approval mean. flow_shows_are_due returns whether
 * they are to be read before the approval begins. */
bool flow_shows_are_due(const struct flow_run *run);
void flow_shows_begin(struct flow_run *run);
/* Returns what is known of the call; NULL: there is nothing. It is called for each call, in order,
 * while the approval is written: before the reads it notes the first ones that are needed. */
struct flow_show *flow_shows_find(struct flow_run *run, const struct catalog_action *action,
                                  const struct json *input, int64_t connection_id);
/* Starts the reads, which hold run; then takes their texts. */
void flow_shows_read(struct flow_run *run);
void flow_shows_take(struct flow_run *run);
void flow_shows_cancel(struct flow_run *run);

/* compare.c: whether the planned calls have texts that a person has approved, and that have to be
 * compared before the calls are made. Then flow_shows_read reads them again, and flow_compare_take
 * compares. */
bool flow_compare_is_due(struct flow_run *run);
enum flow_compared {
    FLOW_COMPARED_SAME,
    FLOW_COMPARED_DIFFERS, /* *error */
    FLOW_COMPARED_REFUSED, /* *refused: a dry run of the call, which is refused before its reads */
};
enum flow_compared flow_compare_take(struct flow_run *run, const struct exec **refused,
                                     struct flow_error *error) MUST_CHECK;

/* trace.c: none of these functions does anything if the flow is not traced. flow_trace_begin
 * prepares a new run before its statement is made. run->whole.trace is the text to store; parent
 * may be NULL. */
void flow_trace_begin(struct flow_run *run, const struct trace_context *parent);
/* Like flow_trace_begin, but for a loaded run. */
void flow_trace_load(struct flow_run *run);
/* Call it once the start is durable; the start began at loop time began_ns. */
void flow_trace_started(const struct flow_run *run, const struct trace_context *parent,
                        uint64_t began_ns);
/* Returns the planned attempt's trace context, for its calls, in arena; NULL if there is none. */
const struct trace_context *flow_trace_of_call(const struct flow_run *run, struct arena *arena);
/* Call it once an attempt's row is durable. tmpl may be NULL. */
void flow_trace_ended(struct tracer *tracer, const struct trace_context *trace,
                      const struct flow *flow, const struct flow_template *tmpl,
                      const struct flow_step *step);
/* Like flow_trace_ended, for an approval that a person has decided. */
void flow_trace_decided(struct flow_command *command);

/* title.c: sets run->whole.title of a new run before its statement is made. It is SLICE_NONE if the
 * template has no title, or if the title cannot be made. */
void flow_title_begin(struct flow_run *run);

/* pinned.c: returns the version of a template if it is in memory, borrowed; else NULL. */
struct flow_template *flow_template_known(struct flow_service *service,
                                          struct uuid version) MUST_CHECK;
/* Keeps a stored version, which is not in memory yet, for later searches. */
void flow_pinned_keep(struct flow_service *service, struct flow_template *tmpl);
void flow_pinned_init(struct flow_service *service);

/* start.c: how long a key is kept that guards something until then (0: nothing). */
int64_t flow_key_lifetime_ms(const struct flow_service *service, int64_t guards_until);

/* hold.c: sets this service as the maker of holds of its exec service. */
void flow_holds_init(struct flow_service *service);
void flow_holds_cancel(struct flow_service *service);

/* watch.c: flow_watches_new returns NULL if out of memory; flow_watches_free asserts that no watch
 * is left. */
struct flow_watches *flow_watches_new(struct flow_service *service) MUST_CHECK;
void flow_watches_free(struct flow_watches *watches);
/* Called at a shutdown: ends the op of the watches. */
void flow_watches_stop(struct flow_watches *watches);

#endif
