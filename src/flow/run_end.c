/*
 * How attempts end, and the transitions that follow. A finish function prepares one transition
 * (run->transition): the row after it and the attempt's own row. None of it takes effect before
 * flow_run_recorded, which is called once the statement has succeeded.
 */
#include "flow/run_end.h"

#include "base/clock.h"
#include "flow/state.h"
#include "store/audit.h"

enum {
    SLEEP_MS_MAX = 5000, /* if the wait before another attempt is longer, the flow is parked */
    PUBLISHED_BYTES_MAX = 1024 * 1024,
};

static struct metric transitions_total =
    METRIC_INIT("sluice_flow_transitions_total",
                "Transitions of flows, by the status that they led to.", METRIC_COUNTER);
static struct metric lateness_seconds =
    METRIC_INIT("sluice_flow_lateness_seconds",
                "How long after it was due a waiting flow continued.", METRIC_HISTOGRAM);
static struct metric steps_total = METRIC_INIT(
    "sluice_flow_attempts_total", "Attempts of steps that ended, by result.", METRIC_COUNTER);

/* ---- the next state ---- */

/* Returns the event of the prepared transition: a flow asks a person, or has ended. */
static struct flow_event event_of(struct flow_run *run)
{
    const struct flow *next = &run->transition.next;
    struct flow_event event = {0};
    bool asks = next->waiting_for == FLOW_WAITS_APPROVAL;
    bool is_over = next->status == FLOW_COMPLETED || next->status == FLOW_FAILED;
    if (!asks && !is_over)
        return event;
    event.id = uuid_v7();
    if (next->status == FLOW_COMPLETED)
        return event;
    size_t step = (size_t)next->step_index;
    if (run->tmpl && step < run->tmpl->step_count)
        event.step_key = run->tmpl->steps[step].key;
    /* The user may not be known here, as after a wait: event/deliver.c adds one that is missing. */
    if (asks)
        event.url =
            flow_service_url(run->service, next->id, run->policy.user, flow_run_scratch(run));
    if (!asks)
        event.error_code = run->transition.error_code;
    return event;
}

/* The account that pays for the flow has its endpoints. */
static struct uuid endpoints_of(const struct flow_run *run)
{
    return uuid_or(run->flow.parent_id, run->flow.account_id);
}

static struct uuid *heard_slot(const struct flow_run *run, struct uuid payer_id)
{
    unsigned bits = (unsigned)payer_id.bytes[14] << 8 | payer_id.bytes[15]; /* random ones */
    return &run->service->heard[bits % FLOW_HEARD_SLOTS];
}

bool flow_run_may_be_heard(struct flow_run *run)
{
    if (run->transition.has_outbox || uuid_is_nil(run->transition.event.id))
        return false;
    run->transition.has_outbox = true;
    return true;
}

/* Prepares the transition: run->flow after the change, with a token that all attempts to write it
 * share. */
static void move_to(struct flow_run *run, struct flow_change change)
{
    change.at = clock_shared_us();
    change.has_ended_attempt = flow_run_has_finished(run);
    if (change.to == FLOW_RUNNING) /* the same statement takes a flow that was woken */
        change.owner = run->is_waking ? node_id(run->service->config.node) : run->flow.owner;
    run->transition.op_token = uuid_v7();
    flow_state_move(&run->transition.next, &run->flow, &change);
    run->transition.event = event_of(run);
    run->transition.has_outbox = !uuid_is_nil(run->transition.event.id) &&
                                 uuid_eq(*heard_slot(run, endpoints_of(run)), endpoints_of(run));
}

/* The state in which the plan is executed; the reads before an approval are made by the flow's
 * owner, before the attempt begins, and so is what an approval has shown: a process that dies
 * during these reads leaves no doubt. A process that shuts down records no intent: the next owner
 * finds an attempt that was not begun, and may begin it. */
static void move_to_plan(struct flow_run *run)
{
    const struct flow_plan *plan = &run->plan;
    bool is_call = plan->kind == FLOW_PLAN_CALL || plan->kind == FLOW_PLAN_FAN_OUT;
    bool is_compared_first = plan->kind == FLOW_PLAN_CALL && !run->tmpl->is_held &&
                             flow_compare_is_due(run);
    bool is_intent = is_call && !is_compared_first && !flow_run_is_leaving(run);
    struct flow_change change = {
        .to = FLOW_RUNNING,
        .step_index = (int64_t)plan->step,
        .attempt = is_intent ? plan->attempt : plan->attempt - 1,
        .is_begun = is_intent,
    };
    if (plan->kind == FLOW_PLAN_END) {
        /* The position stays at the last step that was executed; later steps were skipped. */
        change.to = FLOW_COMPLETED;
        change.step_index = run->flow.step_index;
        change.attempt = run->flow.attempt;
    } else if (plan->kind == FLOW_PLAN_PARK && !flow_shows_are_due(run)) {
        change.to = FLOW_WAITING;
        change.attempt = plan->attempt;
        change.waiting_for = flow_run_step(run)->type == FLOW_APPROVAL ? FLOW_WAITS_APPROVAL
                                                                       : FLOW_WAITS_TIME;
        change.wake_at = plan->wake_at;
    }
    move_to(run, change);
}

void flow_run_next(struct flow_run *run)
{
    ASSERT(run->plan.kind != FLOW_PLAN_PASS && run->plan.kind != FLOW_PLAN_FAULT);
    run->transition.finished = (struct flow_step){0};
    move_to_plan(run);
}

/* ---- ended attempts ---- */

/* Sets the names that lists of calls show. They are copied: the catalog may have changed before the
 * row is stored. Without a readable template these members are unknown: housekeeping fills in the
 * row later. */
static void name_call(struct flow_run *run, struct flow_step *finished)
{
    struct arena *arena = flow_run_scratch(run);
    if (!run->tmpl)
        return;
    const struct flow_step_def *step = flow_run_step(run);
    finished->integration_id = finished->action_id = SLICE("");
    if (step->type != FLOW_TOOL_CALL || run->tmpl->is_held)
        return; /* the call of a hold is an execution, and is listed as such */
    const struct catalog_action *action =
        catalog_find_tool(*run->service->config.catalog, step->tool);
    finished->integration_id =
        arena_dup(arena, action ? action->integration->integration_id : step->tool);
    finished->action_id = arena_dup(arena, action ? action->action_id : step->tool);
    finished->api_key_id = audit_actor_key(run->whole.actor);
}

/* error is JSON text, or SLICE_NONE if the attempt has completed with this output. */
static void end_attempt(struct flow_run *run, slice output, slice error)
{
    run->transition.finished = (struct flow_step){
        .step_index = (int64_t)run->plan.step,
        .attempt = run->plan.attempt,
        .is_completed = !error.ptr,
        .started_at = run->plan.started_us,
        .finished_at = clock_shared_us(),
        .input = run->plan.input_json,
        .output = output,
        .error = error,
    };
    name_call(run, &run->transition.finished);
    run->transition.retry_ms = 0;
    run->progress.is_interrupted = false;
    flow_state_check_step(&run->transition.finished);
    metric_add(
        metric_series(&steps_total, error.ptr ? SLICE("as=\"failed\"") : SLICE("as=\"completed\"")),
        1);
}

/* The doubt about an earlier attempt remains, however this attempt failed: a missed deadline or a
 * lack of memory proves nothing. */
static void fail_attempt(struct flow_run *run, const struct flow_error *error)
{
    struct flow_error kept = *error;
    ASSERT(error->code.len > 0);
    run->transition.error_code = error->code;
    if (run->progress.is_in_doubt && kept.effect == EXEC_EFFECT_NONE)
        kept.effect = EXEC_EFFECT_UNKNOWN;
    run->progress.is_in_doubt = run->progress.is_in_doubt || kept.effect != EXEC_EFFECT_NONE;
    end_attempt(run, SLICE_NONE, flow_error_text(&kept, flow_run_scratch(run)));
}

static void fail_flow(struct flow_run *run)
{
    const struct flow_step *finished = &run->transition.finished;
    ASSERT(flow_run_has_finished(run) && !finished->is_completed);
    move_to(run, (struct flow_change){.to = FLOW_FAILED,
                                      .step_index = finished->step_index,
                                      .attempt = finished->attempt});
}

/* Makes the error of a call that has succeeded, but whose output is lost. */
static struct flow_error lost_output(const struct flow_run *run, slice message)
{
    struct flow_error error = flow_error_make("execution_failed", message, SLICE_NONE);
    if (flow_run_step(run)->type == FLOW_TOOL_CALL && !flow_call_is_read(run, run->plan.step))
        error.effect = EXEC_EFFECT_DONE;
    return error;
}

/* The order matters: the output is added to the others before the next step is planned, because its
 * expressions may refer to it. The plan is made before the transition, because the transition
 * contains the plan's intent. */
void flow_run_finish_completed(struct flow_run *run, slice output)
{
    struct flow_output *kept = &run->outputs[run->plan.step];
    ASSERT(!kept->is_there && !run->progress.exec);
    slice text = arena_dup(&run->op.arena, output);
    if (!text.ptr) {
        struct flow_error error =
            lost_output(run, SLICE("The step's output cannot be held in memory."));
        fail_attempt(run, &error);
        fail_flow(run);
        return;
    }
    end_attempt(run, text, SLICE_NONE);
    *kept = (struct flow_output){.is_there = true, .text = text};
    run->progress.fan = NULL;
    run->progress.attempt_base = 0;
    run->progress.is_in_doubt = false;
    run->scratch_current ^= 1; /* the texts of the ended attempt stay until its row is durable */
    flow_plan_make(run, run->plan.step + 1, 1, false);
    move_to_plan(run);
}

/* Prepares a wait before another attempt. If it is short, the run waits in memory, which costs no
 * timer and no second transition; else the flow is parked. The wait ends at the flow's deadline at
 * the latest; the flow then fails when it wakes. */
static void move_to_retry(struct flow_run *run, uint64_t wait_ms)
{
    int64_t deadline = run->flow.deadline;
    struct flow_change change = {
        .to = FLOW_RUNNING,
        .step_index = (int64_t)run->plan.step,
        .attempt = run->plan.attempt,
    };
    if (wait_ms <= SLEEP_MS_MAX) {
        run->transition.retry_ms = wait_ms;
    } else {
        change.to = FLOW_WAITING;
        change.waiting_for = FLOW_WAITS_RETRY;
        change.wake_at = clock_shared_us() + (int64_t)wait_ms * 1000;
        if (deadline != 0 && change.wake_at > deadline)
            change.wake_at = deadline;
    }
    move_to(run, change);
}

/* Only calls are retried: a transform or a pause would fail in the same way. */
void flow_run_finish_failed(struct flow_run *run, const struct flow_error *error)
{
    uint64_t wait_ms = 0;
    ASSERT(!run->progress.exec);
    fail_attempt(run, error);
    if (flow_run_step(run)->type == FLOW_TOOL_CALL)
        wait_ms = flow_call_retry_ms(run, error, run->plan.attempt - run->progress.attempt_base);
    if (wait_ms > 0)
        move_to_retry(run, wait_ms);
    else
        fail_flow(run);
}

/* Replaces a transition that the database refused: the flow fails, and the plan of the next step
 * is not used. The error contains no external text, so that it is not refused as well. */
void flow_run_finish_refused(struct flow_run *run)
{
    struct flow_step *finished = &run->transition.finished;
    struct flow_error error = flow_error_make(
        "execution_failed", SLICE("The step's output cannot be stored."), SLICE_NONE);
    if (!flow_run_has_finished(run)) { /* what an approval shows, before anybody was asked */
        error.message = SLICE("The step's input cannot be stored.");
        flow_run_fail(run, run->plan.step, run->plan.attempt, &error);
        return;
    }
    bool has_called = run->tmpl->steps[finished->step_index].type == FLOW_TOOL_CALL &&
                      !flow_call_is_read(run, (size_t)finished->step_index);
    error.effect = has_called ? EXEC_EFFECT_DONE : EXEC_EFFECT_NONE;
    ASSERT(finished->is_completed);
    finished->is_completed = false;
    finished->output = SLICE_NONE;
    finished->error = flow_error_text(&error, flow_run_scratch(run));
    run->transition.error_code = error.code;
    flow_state_check_step(finished);
    fail_flow(run);
}

void flow_run_fail(struct flow_run *run, size_t step, int64_t attempt,
                   const struct flow_error *error)
{
    flow_plan_none(run, step, attempt);
    fail_attempt(run, error);
    fail_flow(run);
}

/* ---- durable ---- */

static void count_wake(const struct flow_run *run)
{
    ASSERT(run->flow.status == FLOW_WAITING);
    int64_t late = run->transition.next.updated_at - flow_due_at(&run->flow);
    metric_observe_ns(metric_series(&lateness_seconds, SLICE_NONE),
                      late > 0 ? (uint64_t)late * 1000 : 0);
}

/* ---- views for watches ---- */

/* Inputs and errors are in scratch arenas and would be lost, so they are copied for views, at most
 * PUBLISHED_BYTES_MAX per run. Returns false beyond this limit, or if out of memory. */
static bool keep_step_text(struct flow_run *run, slice *text)
{
    if (!text->ptr)
        return true;
    if (text->len > run->published.bytes_left)
        return false;
    run->published.bytes_left -= text->len;
    *text = arena_dup(&run->op.arena, *text);
    return text->ptr != NULL;
}

/* Adds the ended attempt to the others. Its output lives as long as the run in any case. */
static bool keep_finished(struct flow_run *run)
{
    struct flow_whole *whole = &run->whole;
    ASSERT(whole->step_count <= run->published.step_cap);
    if (whole->step_count == run->published.step_cap) {
        size_t cap = run->published.step_cap * 2 + 4;
        struct flow_step *steps = ARENA_ARRAY(&run->op.arena, struct flow_step, cap);
        if (!steps)
            return false;
        for (size_t i = 0; i < whole->step_count; i++)
            steps[i] = whole->steps[i];
        whole->steps = steps;
        run->published.step_cap = cap;
    }
    struct flow_step step = run->transition.finished;
    step.integration_id = step.action_id = SLICE_NONE; /* only the row has these */
    if (!keep_step_text(run, &step.input) || !keep_step_text(run, &step.error))
        return false;
    whole->steps[whole->step_count++] = step;
    return true;
}

void flow_run_begin_publishing(struct flow_run *run)
{
    run->whole.flow = run->flow;
    run->published.step_cap = run->whole.step_count;
    run->published.bytes_left = PUBLISHED_BYTES_MAX;
    run->published.is_whole = true;
}

/* Once run->whole is incomplete, watches get only the revision and have to load the flow. */
static void publish_run(struct flow_run *run)
{
    if (run->published.is_whole && flow_run_has_finished(run))
        run->published.is_whole = keep_finished(run);
    run->whole.flow = run->flow;
    if (run->flow.status == FLOW_WAITING)
        run->whole.waiting_input = flow_run_waiting_input(run);
    flow_watch_notify(run->service, &run->flow, run->published.is_whole ? &run->whole : NULL,
                      run->tmpl);
}

static void arm_timer(const struct flow_run *run)
{
    due_arm(run->service->config.due, &(struct due_ref){.kind = DUE_FLOW,
                                                        .account_id = run->flow.account_id,
                                                        .parent_id = run->flow.parent_id,
                                                        .id = run->flow.id,
                                                        .rev = run->flow.rev,
                                                        .at = flow_due_at(&run->flow)});
}

/* The row is durable: first memory is updated, then watches and timers. The scratch arena is reset
 * last, because the view still reads the ended attempt from it. */
void flow_run_recorded(struct flow_run *run)
{
    char labels[32];
    ASSERT(run->transition.next.rev == run->flow.rev + 1);
    if (run->is_waking)
        count_wake(run);
    if (run->transition.has_outbox)
        *heard_slot(run, endpoints_of(run)) = endpoints_of(run);
    run->is_waking = false;
    run->flow = run->transition.next;
    if (flow_run_has_finished(run))
        flow_trace_ended(run->service->config.tracer, run->trace, &run->flow, run->tmpl,
                         &run->transition.finished);
    slice to = SLICE_JOIN(labels, SLICE("to=\""), slice_cstr(flow_status_name(run->flow.status)),
                          SLICE("\""));
    metric_add(metric_series(&transitions_total, to), 1);
    publish_run(run);
    run->transition.finished = (struct flow_step){0};
    if (flow_due_at(&run->flow) != 0)
        arm_timer(run);
    arena_reset(&run->scratch[run->scratch_current ^ 1]);
}
