/*
 * Makes the plan of a loaded flow: what is done already, and what to do now. The plan follows from
 * the row, the rows of the attempts and the template.
 */
#include "flow/run_end.h"

/* Outputs stay text until an expression refers to them. Returns false if the input cannot be
 * parsed; it was validated at the start, so memory is short. */
static bool read_documents(struct flow_run *run)
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

/* Whether the attempt has its row. The scan is linear: there are at most FLOW_STEPS_MAX steps of
 * FLOW_ATTEMPTS_MAX attempts, more only if people resumed the flow. */
static bool has_ended(const struct flow_run *run, int64_t step, int64_t attempt)
{
    for (size_t i = 0; i < run->whole.step_count; i++)
        if (run->whole.steps[i].step_index == step && run->whole.steps[i].attempt == attempt)
            return true;
    return false;
}

/* Whether an attempt of this step may have had an effect: its row says so, or an intent has no row.
 * For a fan-out, the facts of its items count instead of its own intent. */
static bool has_doubt(struct flow_run *run, int64_t step)
{
    const struct flow *flow = &run->flow;
    bool is_known = run->tmpl && step < (int64_t)run->tmpl->step_count;
    bool is_call = !is_known || run->tmpl->steps[step].type == FLOW_TOOL_CALL;
    if (!is_call || (is_known && flow_call_is_read(run, (size_t)step)))
        return false;
    bool is_open = flow->is_begun && flow->step_index == step &&
                   !has_ended(run, step, flow->attempt);
    if (is_open && is_known && run->tmpl->steps[step].for_each)
        is_open = run->whole.item_count > 0;
    for (size_t i = 0; i < run->whole.step_count && !is_open; i++) {
        const struct flow_step *row = &run->whole.steps[i];
        is_open = row->step_index == step && !row->is_completed &&
                  flow_error_read(row->error, flow_run_scratch(run)).effect != EXEC_EFFECT_NONE;
    }
    return is_open;
}

/* Plans what follows a wait or an approval that is over. flow_plan_make fills in the plan's fields;
 * its kind, times and input come from the stored pause, since evaluating them now would give
 * different values. A pause is shortened to the deadline (park_until), so a pause that ends at the
 * deadline has been ended by the deadline. */
static void plan_woken(struct flow_run *run, size_t at)
{
    const struct flow *flow = &run->flow;
    enum flow_step_type type = run->tmpl->steps[at].type;
    flow_plan_make(run, at, flow->attempt, true);
    run->plan.started_us = flow->updated_at;
    if (run->whole.waiting_input.ptr)
        run->plan.input_json = run->whole.waiting_input;
    if (flow->deadline != 0 && flow_was_due_at(flow) >= flow->deadline) {
        run->plan.kind = FLOW_PLAN_FAULT;
        run->plan.error = flow_error_deadline();
    } else if (type == FLOW_APPROVAL) {
        run->plan.kind = FLOW_PLAN_FAULT;
        run->plan.error = flow_error_make("timeout",
                                          SLICE("This step was not approved before it expired."),
                                          SLICE("Resume asks again."));
    } else {
        run->plan.kind = FLOW_PLAN_PASS;
    }
}

/*
 * The checks, in this order:
 *   the step has its output            it has ended, or was approved: the next step
 *   the attempt has its failed row     the next attempt: after a back-off, or a person's resume
 *   is_begun                           interrupted: the same attempt, as far as that is safe
 *   a pause with an attempt            its time has come
 *   else                               the attempt that was not begun; with attempt > 0 the step's
 *                                      `when` was true before
 * attempt_base counts only if a failed step was resumed; its attempt then has a failed row.
 */
static void plan_standing(struct flow_run *run)
{
    const struct flow *flow = &run->flow;
    size_t at = (size_t)flow->step_index;
    ASSERT(flow->status == (run->is_waking ? FLOW_WAITING : FLOW_RUNNING));
    bool is_over = at >= run->tmpl->step_count || run->outputs[at].is_there;
    if (is_over || !has_ended(run, flow->step_index, flow->attempt))
        run->progress.attempt_base = 0;
    if (is_over) {
        flow_plan_make(run, at + 1, 1, false);
        return;
    }
    run->progress.is_in_doubt = has_doubt(run, flow->step_index);
    enum flow_step_type type = run->tmpl->steps[at].type;
    bool is_pause = type == FLOW_WAIT || type == FLOW_APPROVAL;
    if (has_ended(run, flow->step_index, flow->attempt)) {
        flow_plan_make(run, at, flow->attempt + 1, true);
    } else if (flow->is_begun) {
        run->progress.is_interrupted = true;
        flow_plan_make(run, at, flow->attempt, true);
    } else if (flow->attempt > 0 && is_pause) {
        plan_woken(run, at);
    } else {
        flow_plan_make(run, at, flow->attempt + 1, flow->attempt > 0);
    }
}

/* Fails the flow without a plan. If the row is still at an approval that was given, its attempt
 * already has a row, so the next step fails. */
static void end_at_once(struct flow_run *run, const struct flow_error *error)
{
    const struct flow *flow = &run->flow;
    size_t step = (size_t)flow->step_index;
    bool is_last = !run->tmpl || step + 1 >= run->tmpl->step_count;
    for (size_t i = 0; i < run->whole.step_count && !is_last; i++)
        if (run->whole.steps[i].is_completed &&
            run->whole.steps[i].step_index == flow->step_index) {
            flow_run_fail(run, step + 1, 1, error);
            return;
        }
    run->progress.is_in_doubt = has_doubt(run, flow->step_index);
    flow_run_fail(run, step, flow->attempt + (flow->is_begun ? 0 : 1), error);
}

void flow_plan_unread(struct flow_run *run)
{
    struct flow_error error = flow_error_make(
        "execution_failed", SLICE("The flow's template cannot be read."), SLICE_NONE);
    ASSERT(!run->tmpl);
    end_at_once(run, &error);
}

/* Adoptions are checked first: parsing the documents may be what crashed the previous nodes. */
bool flow_plan_loaded(struct flow_run *run)
{
    struct flow_error error = {.code = SLICE("execution_failed"), .retry_after_ms = -1};
    if (run->flow.adoptions >= FLOW_POISON_ADOPTIONS) {
        error.message = SLICE("The servers that ran this flow died repeatedly in this step.");
        error.hint = SLICE("Resume the flow to try this step again.");
    } else if (!read_documents(run)) {
        error.message = SLICE("The flow's documents cannot be held in memory.");
    } else {
        flow_run_begin_publishing(run);
        plan_standing(run);
        return true;
    }
    end_at_once(run, &error);
    return false;
}
