/*
 * What the files of this room share: the service, and a flow that runs.
 */
#ifndef FLOW_INTERNAL_H
#define FLOW_INTERNAL_H

#include "base/map.h"
#include "base/metric.h"
#include "flow/flow.h"

struct flow_run;
struct flow_timers;
struct flow_adopter;
struct flow_watches;

enum {
    FLOW_RUNS_MAX = 2000, /* default of flow_config.runs_max */
    FLOW_RUN_ARENA_MAX = 128 * 1024 * 1024,
    FLOW_OUTPUT_BYTES_MAX = 1024 * 1024, /* of a step */
    FLOW_POISON_ADOPTIONS = 5,
};

struct flow_service {
    struct flow_config config;
    struct map by_id; /* flow id -> struct flow_run, the one that may go on */
    struct list runs; /* struct flow_run.link: all, also those that were lost */
    size_t run_count;
    size_t taking;     /* takes under way, which may become runs */
    struct map pinned; /* version -> struct flow_template, those in use (pinned.c) */
    struct flow_timers *timers;
    struct flow_adopter *adopter;
    struct flow_watches *watches;
    struct flow_view_cache *views;
    bool is_draining;
    bool has_lost; /* a row of ours may be in no memory: adopt.c scans for it */
};

/* ---- a flow that runs (run.c) ---- */

/* What is to be done next, found before the transition that leads there is written (plan.c). */
enum flow_plan_kind {
    FLOW_PLAN_END, /* no step is left */
    FLOW_PLAN_CALL,
    FLOW_PLAN_FAN_OUT,
    FLOW_PLAN_TRANSFORM,
    FLOW_PLAN_PASS,  /* a wait whose time has come */
    FLOW_PLAN_PARK,  /* a wait or an approval */
    FLOW_PLAN_FAULT, /* the step fails with plan.error before anything is done */
};

/* What a failed step shows. Texts are constant or live as long as the plan. */
struct flow_error {
    slice code, message, hint; /* hint may be SLICE_NONE */
    bool is_retryable;
    bool is_final; /* all attempts have been made, whatever is_retryable tells the caller */
    int64_t retry_after_ms; /* -1: not known */
};

struct flow_fan;

/* Of a completed step. Most outputs are asked for by few steps or by none: they stay text until
 * then. */
struct flow_output {
    bool is_there;
    slice text;               /* SLICE_NONE: null */
    const struct json *value; /* NULL: not parsed yet */
};

/* The attempt that comes next. Its documents live in the scratch arena. */
struct flow_plan {
    enum flow_plan_kind kind;
    size_t step;
    int64_t attempt;
    int64_t started_us;
    struct json value;       /* CALL: the input; FAN_OUT: the items */
    slice input_json;        /* what the step's row shows as its input */
    int64_t connection_id;   /* CALL */
    int64_t wake_at;         /* PARK; 0: not by itself */
    struct flow_error error; /* FAULT */
};

/* Carrying the plan out. */
struct flow_progress {
    int64_t attempt_base; /* attempts before a person resumed it */
    bool is_interrupted;  /* this attempt was begun by a node that has died */
    unsigned unsent;      /* calls that could not be made in a row */
    struct exec *exec;    /* under way; NULL: none */
    struct flow_fan *fan; /* of the step at hand, also of its former attempts */
};

/* The transition that is being recorded. */
struct flow_transition {
    struct flow next;
    struct uuid op_token;
    struct flow_step finished; /* the attempt that has ended with it; its attempt 0: none has */
    uint64_t retry_ms;         /* before the next attempt; 0: what follows begins at once */
};

/* What those who watch are shown: run->whole with each transition. */
struct flow_published {
    bool is_whole;     /* all of it is as it is in the database */
    size_t step_cap;   /* of whole.steps */
    size_t bytes_left; /* of inputs and errors that may yet be held for them alone */
};

struct flow_run {
    struct op op; /* its arena: documents, for as long as it runs; its request_id is the flow's */
    struct flow_service *service;
    struct list link;
    struct budget_use use; /* what its arenas and its calls take, with its account */
    struct pg_query query;
    struct op_timer timer;
    bool is_waking; /* a pause whose time has come, until the first transition has made it ours */
    /* loaded, or known from its start */
    struct flow flow;         /* as it is in the database */
    struct exec_proof proof;  /* since when: the last statement that has found it so */
    struct flow_whole whole;  /* what was loaded; its flow is that of the last time it was shown */
    const struct json *input; /* of whole.input */
    struct flow_template_find find;
    struct flow_template *tmpl; /* counted; NULL until it is found */
    struct flow_output outputs[FLOW_STEPS_MAX];
    /* a turn of the wheel */
    struct flow_plan plan;
    struct flow_progress progress;
    struct flow_transition transition;
    struct flow_published published;
    /* Two arenas in turn: the step that is being recorded, and the plan of the next. */
    struct arena scratch[2];
    unsigned scratch_current;
};

static inline struct flow_run *flow_run_of(struct op *op)
{
    return CONTAINER_OF(op, struct flow_run, op);
}

/* A flow that this process has just taken. false: out of memory (it is found again later). */
bool flow_run_start(struct flow_service *service, const struct flow *flow, bool is_resumed);
/* One whose time has come, unless it is on its way already. It is read and planned as it waits;
 * the transition that comes of it takes it, and who loses the race has nothing to do. */
void flow_run_wake(struct flow_service *service, const struct flow_ref *ref);
/* A new one, planned up to its first step and held: flow_run_launch once its transition.next is
 * durable (and what it shows with it), or flow_run_drop. A first step that needs nobody's answer
 * but a person's or the clock's is part of the start: transition.next is behind it already, while
 * run->flow is what a start answers. input is JSON text. NULL: out of memory. */
struct flow_run *flow_run_new(struct flow_service *service, const struct flow *flow,
                              struct flow_template *tmpl, slice input, slice actor) MUST_CHECK;
void flow_run_launch(struct flow_run *run);
void flow_run_drop(struct flow_run *run);
/* Stops the run of this flow in this process, if there is one: its row says something else now. */
void flow_run_cancel(struct flow_service *service, struct uuid id);
/* The view of this account's flow at this revision, where this process runs it and is there. NULL.
 */
struct flow_view *flow_run_view(const struct flow_service *service, struct uuid account_id,
                                struct uuid id, int64_t rev) MUST_CHECK;
bool flow_run_is_known(const struct flow_service *service, struct uuid id);
/* It runs here, or is about to; one that has just been parked, and will end, is not counted. */
bool flow_run_is_moving(const struct flow_service *service, struct uuid id);
/* Whether there is room for `count` more runs. */
bool flow_service_has_room(const struct flow_service *service);
/* A run ended: whoever waits for room may go on. */
void flow_service_fire_timers(struct flow_service *service);

/* No longer to begin anything: draining, or the row's owner is a former incarnation of ours. */
bool flow_run_is_leaving(const struct flow_run *run);
static inline bool flow_run_is_ours(const struct flow_run *run)
{
    return uuid_eq(run->flow.owner, exec_node_id(run->service->config.node));
}
/* The step that is planned; not with FLOW_PLAN_END. */
static inline const struct flow_step_def *flow_run_step(const struct flow_run *run)
{
    ASSERT(run->plan.step < run->tmpl->step_count);
    return &run->tmpl->steps[run->plan.step];
}
/* What the row shows while the flow waits after the transition; else SLICE_NONE. */
static inline slice flow_run_waiting_input(const struct flow_run *run)
{
    return run->transition.next.status == FLOW_WAITING ? run->plan.input_json : SLICE_NONE;
}
/* Whether an attempt ends with the transition. */
static inline bool flow_run_has_finished(const struct flow_run *run)
{
    return run->transition.finished.attempt > 0;
}
static inline struct arena *flow_run_scratch(struct flow_run *run)
{
    return &run->scratch[run->scratch_current];
}

/* plan.c: from step `at` on, whose attempt it would be; is_decided: its `when` was checked
 * before. Into the current scratch arena. */
void flow_plan_make(struct flow_run *run, size_t at, int64_t attempt, bool is_decided);
/* Nothing is to be done: for an attempt that fails as it is loaded. */
void flow_plan_none(struct flow_run *run, size_t step, int64_t attempt);
/* The input of one item of the plan's fan-out. false: why not is in *error. */
bool flow_plan_item(struct flow_run *run, size_t index, struct arena *arena, struct json *input,
                    int64_t *connection_id, struct flow_error *error);
/* A transform's value. */
bool flow_plan_transform(struct flow_run *run, struct json *value);
/* plan_park.c: the parts of it for waits and approvals. */
void flow_plan_wait(struct flow_run *run, const struct flow_step_def *step);
void flow_plan_approval(struct flow_run *run, const struct flow_step_def *step);
/* For both: the root that this step's expressions see; item NULL for none. NULL: out of memory. */
struct json *flow_plan_root(struct flow_run *run, const struct flow_step_def *step,
                            struct arena *arena, const struct json *item, size_t index) MUST_CHECK;
/* The plan is a fault: validation_error with this message. */
void flow_plan_fault(struct flow_run *run, const char *what, const char *why);
/* JSON text of a value in the arena; SLICE_NONE past bytes_max. */
slice flow_json_text(const struct json *value, struct arena *arena, size_t bytes_max);
/* A connection's id from a value: a number or a decimal string; null: the default one. */
int64_t flow_connection_id(const struct json *value);

/* call.c: one call of a step, on behalf of the run or of a lane of its fan-out. */
struct flow_call {
    struct flow_run *run;
    const struct json *input;
    int64_t connection_id;
    size_t item; /* SIZE_MAX: no fan-out */
};
/* The exec lives in parent's arena, as does what it borrows besides the input. NULL: no memory. */
struct exec *flow_call_start(const struct flow_call *call, struct op *parent);
enum flow_call_end {
    FLOW_CALL_SUCCEEDED,
    FLOW_CALL_FAILED,    /* *error */
    FLOW_CALL_UNSENT,    /* nothing was sent for reasons of ours: again later */
    FLOW_CALL_CANCELLED, /* on the way down: nobody knows */
};
enum flow_call_end flow_call_result(const struct flow_run *run, const struct exec *exec,
                                    struct arena *arena, struct flow_error *error);
/* Whether making the call a second time does nothing twice. */
bool flow_call_is_safe(const struct flow_run *run, size_t step);
/* How long to wait before the next attempt, `tries` having been made; 0: none is left. */
uint64_t flow_call_retry_ms(const struct flow_run *run, const struct flow_error *error,
                            int64_t tries);
/* The flow's deadline has passed: no call is begun any more. */
bool flow_run_is_overdue(const struct flow_run *run);
struct flow_error flow_error_deadline(void);
struct flow_error flow_error_unknown(void);
slice flow_error_text(const struct flow_error *error, struct arena *arena);

/* fan_out.c */
/* Lanes are started, run is held; false: out of memory. */
bool flow_fan_start(struct flow_run *run);
void flow_fan_cancel(struct flow_run *run);
enum flow_fan_end {
    FLOW_FAN_COMPLETED, /* *output_json */
    FLOW_FAN_FAILED,    /* *error */
    FLOW_FAN_LEFT,      /* lost or leaving: drop */
};
enum flow_fan_end flow_fan_join(struct flow_run *run, slice *output_json, struct flow_error *error);

/* timers.c */
struct flow_timers *flow_timers_new(struct flow_service *service) MUST_CHECK;
void flow_timers_stop(struct flow_timers *timers);
void flow_timers_free(struct flow_timers *timers);
/* A flow that was parked by this process. */
void flow_timers_arm(struct flow_timers *timers, const struct flow *flow);
/* There is room for runs again. */
void flow_timers_fire(struct flow_timers *timers);

/* adopt.c */
struct flow_adopter *flow_adopter_new(struct flow_service *service) MUST_CHECK;
void flow_adopter_stop(struct flow_adopter *adopter);
/* take.c: takes the flow of a dead owner on an op of its own and runs it. */
bool flow_take_start(struct flow_service *service, const struct flow_ref *ref, struct op *parent);

/* pinned.c: versions that nobody uses, or all. */
void flow_pinned_drop(struct flow_service *service, bool even_used);

/* watch.c. NULL: out of memory. Free: nobody may be watching (asserted). */
struct flow_watches *flow_watches_new(struct flow_service *service) MUST_CHECK;
void flow_watches_free(struct flow_watches *watches);
/* On the way down: its op ends. */
void flow_watches_stop(struct flow_watches *watches);

#endif
