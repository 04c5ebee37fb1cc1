/*
 * Endings of steps, and the transitions that follow from them.
 */
#include "flow/run_end.h"

#include "base/clock.h"

enum {
    SLEEP_MS_MAX = 5000, /* a longer wait for another attempt parks the flow */
    SHOWN_BYTES_MAX = 1024 * 1024,
};

static struct metric transitions_total =
    METRIC_INIT("sluice_flow_transitions_total", "Transitions of flows by the status they led to.",
                METRIC_COUNTER);
static struct metric lateness_seconds =
    METRIC_INIT("sluice_flow_lateness_seconds", "How long after its time a waiting flow went on.",
                METRIC_HISTOGRAM);
static struct metric steps_total = METRIC_INIT(
    "sluice_flow_attempts_total", "Ended attempts of steps by how they ended.", METRIC_COUNTER);

/* ---- the next state ---- */

static void begin_next(struct flow_run *run)
{
    run->next = run->flow;
    run->next.rev++;
    run->next.updated_at = clock_wall_us();
    run->op_token = uuid_v7();
    if (run->has_finished)
        run->next.adoptions = 0;
    if (run->is_waking) { /* taken by the same statement */
        run->next.status = FLOW_RUNNING;
        run->next.owner = exec_node_id(run->service->config.node);
        run->next.waiting_for = FLOW_WAITS_NOT;
    }
}

/* The state that the plan is carried out from. */
static void fill_next(struct flow_run *run)
{
    struct flow *next = &run->next;
    bool is_intent = (run->plan == FLOW_PLAN_CALL || run->plan == FLOW_PLAN_FAN_OUT) &&
                     !flow_run_is_leaving(run);
    next->is_begun = false;
    if (run->plan == FLOW_PLAN_END) {
        next->status = FLOW_COMPLETED;
        next->completed_at = next->updated_at;
        next->owner = (struct uuid){{0}};
        return;
    }
    next->step_index = (int64_t)run->step;
    next->attempt = run->attempt - 1;
    if (run->plan == FLOW_PLAN_PARK) {
        next->status = FLOW_WAITING;
        next->owner = (struct uuid){{0}};
        next->attempt = run->attempt;
        next->waiting_for = run->tmpl->steps[run->step].type == FLOW_APPROVAL ? FLOW_WAITS_APPROVAL
                                                                              : FLOW_WAITS_TIME;
        next->wake_at = run->wake_at;
    } else if (is_intent) {
        next->attempt = run->attempt;
        next->is_begun = true;
    }
}

void flow_run_next(struct flow_run *run)
{
    run->has_finished = false;
    begin_next(run);
    fill_next(run);
}

/* ---- ended attempts ---- */

static void fill_finished(struct flow_run *run, bool is_completed)
{
    run->has_finished = true;
    run->finished = (struct flow_step){
        .step_index = (int64_t)run->step,
        .attempt = run->attempt,
        .is_completed = is_completed,
        .started_at = run->started_us,
        .finished_at = clock_wall_us(),
        .input = run->input_json,
    };
    metric_add(metric_series(&steps_total,
                             is_completed ? SLICE("as=\"completed\"") : SLICE("as=\"failed\"")),
               1);
}

static void fail_flow(struct flow_run *run)
{
    begin_next(run);
    run->next.status = FLOW_FAILED;
    run->next.owner = (struct uuid){{0}};
    run->next.step_index = run->finished.step_index;
    run->next.attempt = run->finished.attempt;
    run->next.is_begun = false;
}

static void fail_finished(struct flow_run *run, const struct flow_error *error)
{
    fill_finished(run, false);
    run->finished.error = flow_error_text(error, flow_run_scratch(run));
}

void flow_run_finish_completed(struct flow_run *run, slice output)
{
    struct flow_output *kept = &run->outputs[run->step];
    slice text = arena_dup(&run->op.arena, output);
    if (!text.ptr) {
        struct flow_error error = {.code = SLICE("execution_failed"),
                                   .message = SLICE("The step's output cannot be held in memory."),
                                   .retry_after_ms = -1};
        fail_finished(run, &error);
        fail_flow(run);
        return;
    }
    fill_finished(run, true);
    run->finished.output = text;
    *kept = (struct flow_output){.is_there = true, .text = text};
    run->fan = NULL;
    run->attempt_base = 0;
    run->is_interrupted = false;
    run->turn ^= 1; /* what has ended stays where it is until it is durable */
    flow_plan_make(run, run->step + 1, 1, false);
    begin_next(run);
    fill_next(run);
}

/* A wait for another attempt: in memory where it is short, else parked. */
static void plan_retry(struct flow_run *run, uint64_t wait_ms)
{
    struct flow *next = &run->next;
    int64_t wake_at = clock_wall_us() + (int64_t)wait_ms * 1000;
    begin_next(run);
    next->step_index = (int64_t)run->step;
    next->attempt = run->attempt;
    next->is_begun = false;
    if (wait_ms <= SLEEP_MS_MAX) {
        run->retry_ms = wait_ms;
        return;
    }
    next->status = FLOW_WAITING;
    next->owner = (struct uuid){{0}};
    next->waiting_for = FLOW_WAITS_RETRY;
    next->wake_at = next->deadline != 0 && wake_at > next->deadline ? next->deadline : wake_at;
    run->shown = run->input_json;
}

void flow_run_finish_failed(struct flow_run *run, const struct flow_error *error)
{
    uint64_t wait_ms = 0;
    fail_finished(run, error);
    run->retry_ms = 0;
    run->is_interrupted = false;
    if (run->tmpl->steps[run->step].type == FLOW_TOOL_CALL)
        wait_ms = flow_call_retry_ms(run, error, run->attempt - run->attempt_base);
    if (wait_ms > 0)
        plan_retry(run, wait_ms);
    else
        fail_flow(run);
}

void flow_run_finish_refused(struct flow_run *run)
{
    struct flow_error error = {
        .code = SLICE("execution_failed"),
        .message = SLICE("The step's output cannot be stored."),
        .retry_after_ms = -1,
    };
    run->finished.is_completed = false;
    run->finished.output = SLICE_NONE;
    run->finished.error = flow_error_text(&error, flow_run_scratch(run));
    fail_flow(run);
}

/* The row may still be at an approval that was given: it is the step behind it that ends. */
void flow_run_end_at_once(struct flow_run *run, const struct flow_error *error)
{
    run->step = (size_t)run->flow.step_index;
    run->attempt = run->flow.attempt + (run->flow.is_begun ? 0 : 1);
    for (size_t i = 0; i < run->whole.step_count; i++)
        if (run->whole.steps[i].is_completed &&
            run->whole.steps[i].step_index == run->flow.step_index && run->tmpl &&
            run->step + 1 < run->tmpl->step_count) {
            run->step++;
            run->attempt = 1;
            break;
        }
    run->started_us = run->flow.updated_at;
    run->input_json = SLICE_NONE;
    fail_finished(run, error);
    fail_flow(run);
}

static void count_wake(const struct flow_run *run)
{
    int64_t late = run->next.updated_at - flow_due_at(&run->flow);
    metric_observe_ns(metric_series(&lateness_seconds, SLICE_NONE),
                      late > 0 ? (uint64_t)late * 1000 : 0);
}

/* ---- what those who watch are shown ---- */

static bool keep_text(struct flow_run *run, slice *text)
{
    if (!text->ptr)
        return true;
    if (text->len > run->shown_left)
        return false;
    run->shown_left -= text->len;
    *text = arena_dup(&run->op.arena, *text);
    return text->ptr != NULL;
}

/* The attempt that has ended joins the others. Its output lives as long as the run anyway. */
static bool keep_finished(struct flow_run *run)
{
    struct flow_whole *whole = &run->whole;
    if (whole->step_count == run->step_cap) {
        size_t cap = run->step_cap * 2 + 4;
        struct flow_step *steps = ARENA_ARRAY(&run->op.arena, struct flow_step, cap);
        if (!steps)
            return false;
        for (size_t i = 0; i < whole->step_count; i++)
            steps[i] = whole->steps[i];
        whole->steps = steps;
        run->step_cap = cap;
    }
    struct flow_step step = run->finished;
    if (!keep_text(run, &step.input) || !keep_text(run, &step.error))
        return false;
    whole->steps[whole->step_count++] = step;
    return true;
}

void flow_run_show_from(struct flow_run *run)
{
    run->whole.flow = run->flow;
    run->step_cap = run->whole.step_count;
    run->shown_left = SHOWN_BYTES_MAX;
    run->has_view = true;
}

static void tell(struct flow_run *run)
{
    if (run->has_view && run->has_finished)
        run->has_view = keep_finished(run);
    run->whole.flow = run->flow;
    if (run->flow.status == FLOW_WAITING)
        run->whole.waiting_input = run->shown;
    flow_watch_poke(run->service, &run->flow, run->has_view ? &run->whole : NULL, run->tmpl);
}

void flow_run_recorded(struct flow_run *run)
{
    char labels[32];
    slice key = run->flow.template_key, trigger = run->flow.trigger_type;
    if (run->is_waking)
        count_wake(run);
    run->is_waking = false;
    run->flow = run->next;
    run->flow.template_key = key;
    run->flow.trigger_type = trigger;
    slice to = SLICE_JOIN(labels, SLICE("to=\""), slice_cstr(flow_status_name(run->flow.status)),
                          SLICE("\""));
    metric_add(metric_series(&transitions_total, to), 1);
    tell(run);
    run->has_finished = false;
    if (flow_due_at(&run->flow) != 0 && run->service->timers)
        flow_timers_arm(run->service->timers, &run->flow);
    arena_reset(&run->scratch[run->turn ^ 1]);
}

/* ---- where a flow stands that was loaded ---- */

static bool take_documents(struct flow_run *run)
{
    struct err err;
    run->input = json_parse(&run->op.arena, run->whole.input, &json_limits_provider, &err);
    if (!run->input)
        return false;
    for (size_t i = 0; i < run->whole.step_count; i++) {
        const struct flow_step *step = &run->whole.steps[i];
        if (!step->is_completed || step->step_index >= (int64_t)run->tmpl->step_count)
            continue;
        run->outputs[step->step_index] =
            (struct flow_output){.is_there = true, .text = step->output};
    }
    return true;
}

static bool has_ended(const struct flow_run *run, int64_t step, int64_t attempt)
{
    for (size_t i = 0; i < run->whole.step_count; i++)
        if (run->whole.steps[i].step_index == step && run->whole.steps[i].attempt == attempt)
            return true;
    return false;
}

/* A wait or an approval that has come to its time: only then does a parked flow run again. */
static void place_woken(struct flow_run *run, size_t at)
{
    const struct flow *flow = &run->flow;
    enum flow_step_type type = run->tmpl->steps[at].type;
    flow_plan_make(run, at, flow->attempt, true);
    run->started_us = flow->updated_at;
    if (run->whole.waiting_input.ptr)
        run->input_json = run->whole.waiting_input;
    if (flow->deadline != 0 && flow_was_due_at(flow) >= flow->deadline) {
        run->plan = FLOW_PLAN_FAULT;
        run->error = flow_error_deadline();
    } else if (type == FLOW_APPROVAL) {
        run->plan = FLOW_PLAN_FAULT;
        run->error = (struct flow_error){
            .code = SLICE("timeout"),
            .message = SLICE("Nobody approved this step before it expired."),
            .hint = SLICE("Resume asks again."),
            .retry_after_ms = -1,
        };
    } else {
        run->plan = FLOW_PLAN_PASS;
    }
}

static void place(struct flow_run *run)
{
    const struct flow *flow = &run->flow;
    size_t at = (size_t)flow->step_index;
    if (at >= run->tmpl->step_count || run->outputs[at].is_there) {
        flow_plan_make(run, at + 1, 1, false);
        return;
    }
    enum flow_step_type type = run->tmpl->steps[at].type;
    bool is_pause = type == FLOW_WAIT || type == FLOW_APPROVAL;
    if (has_ended(run, flow->step_index, flow->attempt)) {
        run->attempt_base = run->is_resumed ? flow->attempt : 0;
        flow_plan_make(run, at, flow->attempt + 1, true);
    } else if (flow->is_begun) {
        run->is_interrupted = true;
        flow_plan_make(run, at, flow->attempt, true);
    } else if (flow->attempt > 0 && is_pause) {
        place_woken(run, at);
    } else {
        flow_plan_make(run, at, flow->attempt + 1, flow->attempt > 0);
    }
}

bool flow_run_place(struct flow_run *run)
{
    struct flow_error error = {.code = SLICE("execution_failed"), .retry_after_ms = -1};
    if (run->flow.adoptions >= FLOW_POISON_ADOPTIONS) {
        error.message = SLICE("The servers that ran this flow died again and again in this step.");
        error.hint = SLICE("Resume tries it once more.");
    } else if (!take_documents(run)) {
        error.message = SLICE("The flow's documents cannot be held in memory.");
    } else {
        flow_run_show_from(run);
        place(run);
        return true;
    }
    flow_run_end_at_once(run, &error);
    return false;
}
