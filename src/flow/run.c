/*
 * A flow that runs: the table of its op. The durable state is the row (struct flow); this op only
 * advances it and may end at any time without harm: the next owner begins with "load".
 *
 * The op repeats plan, execute, record: the result of one step of the flow and the intent of the
 * next are written by one statement. Before a call that must not be repeated unnoticed, its intent
 * is durable: it is written by the transition before the call or, after a pause, by a separate
 * transition (step_call).
 *
 * Invariants: run->flow is the row as this process last read or wrote it. Every write is fenced by
 * rev and owner, so if two processes believe that they own the flow, one of them finds no row and
 * stops. Before a call is sent its execution checks once more, against run->proof and the node's
 * lease.
 */

#include "base/clock.h"
#include "base/mem.h"
#include "flow/run_end.h"
#include "flow/state.h"

enum {
    LOAD_RETRY_MS = 500,
    RECORD_RETRY_MS = 200,
    UNSENT_RETRY_MS = 300,
};

enum run_step {
    RUN_BEGIN,
    RUN_LOAD,
    RUN_LOADED,
    RUN_TEMPLATE,
    RUN_PLAN,
    RUN_EXECUTE,
    RUN_POLICY,
    RUN_POLICED,
    RUN_CALL,
    RUN_CALLED,
    RUN_CHECK,
    RUN_CHECKED,
    RUN_INTEND,
    RUN_INTENDED,
    RUN_COMPARE,
    RUN_FAN_OUT,
    RUN_JOINED,
    RUN_TRANSFORM,
    RUN_PARK,
    RUN_PARK_NAMED,
    RUN_PASS,
    RUN_COMPLETE,
    RUN_FAIL,
    RUN_RECORD,
    RUN_RECORDED,
    RUN_REPLAN,
};

/* ---- loading ---- */

/* A run begins in one of three ways: adopted, resumed or woken, when only the flow's row is known;
 * started, with a plan from flow_run_new; or started by a statement after which it already waits or
 * has completed. */
static enum op_result step_begin(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    if (!run->tmpl)
        return OP_NEXT; /* only the flow's row is known */
    if (run->flow.status != FLOW_RUNNING)
        return OP_DONE; /* the flow already waits or has completed */
    return op_jump(op, RUN_EXECUTE);
}

/* The items of a fan-out are loaded, too: those with a final fact are not called again. */
static enum op_result step_load(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    ASSERT(!run->tmpl); /* the flow is loaded once */
    if (flow_run_is_leaving(run))
        return OP_DONE;
    /* The time is taken before the snapshot, so that it is never too late. */
    run->proof.sent_boot_ns = clock_boot_ns();
    run->policy.changes_sent = run->policy.changes;
    store_flow_load(run->service->config.pool, &run->query, op, run->flow.account_id, run->flow.id,
                    true);
    return OP_WAIT;
}

/* Retries without a limit: step_load ends the run once this node no longer owns the flow. The
 * row is read again each time, even if only the template could not be loaded, since it may have
 * changed. */
static enum op_result load_again(struct flow_run *run, const char *what)
{
    op_sleep(&run->op, &run->timer, LOAD_RETRY_MS, what);
    return op_wait_then(&run->op, RUN_LOAD);
}

static enum op_result step_loaded(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    int status = store_flow_load_result(&run->query, &run->whole);
    if (status == ERR_NOTFOUND)
        return OP_DONE;
    if (status != OK)
        return load_again(run, "the database, to load a flow");
    const struct flow *now = &run->whole.flow;
    /* A run that was woken does not own the flow yet, and was woken for one revision only. */
    bool is_there = run->is_waking
                        ? now->status == FLOW_WAITING && now->rev == run->flow.rev
                        : now->status == FLOW_RUNNING && uuid_eq(now->owner, run->flow.owner);
    if (!is_there)
        return OP_DONE; /* another node was faster */
    run->flow = *now;
    if (!uuid_is_nil(flow_policy_key(run))) {
        const struct key_policy policy = store_flow_policy(run->whole.policy);
        flow_policy_learn(run, &policy, run->policy.changes_sent);
    }
    flow_trace_load(run);
    if (flow_template_find(run->service, &run->find, now->template_version, op))
        return OP_NEXT;
    return OP_WAIT;
}

/* A template that is missing or does not compile is a permanent error: the flow fails instead of
 * being loaded forever. */
static enum op_result step_template(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    if (run->find.status == OK) {
        run->tmpl = run->find.tmpl;
        run->find.tmpl = NULL; /* the run has the reference now */
        return OP_NEXT;
    }
    if (run->find.status == ERR_NOTFOUND || run->find.status == ERR_INVALID) {
        flow_plan_unread(run);
        return OP_STOP;
    }
    return load_again(run, "the database, to load a template");
}

/* Makes the plan from the row, the documents and the template. If that fails, the flow's failure is
 * prepared instead. */
static enum op_result step_plan(struct op *op)
{
    return flow_plan_loaded(flow_run_of(op)) ? OP_NEXT : OP_STOP;
}

/* ---- executing the plan: a step with a prepared transition returns OP_STOP, which leads to
 * RUN_RECORD ---- */

/* Whether the intent of the planned attempt is durable: the row then names this step and
 * attempt. */
static bool is_begun(const struct flow_run *run)
{
    return run->flow.is_begun && run->flow.step_index == (int64_t)run->plan.step &&
           run->flow.attempt == run->plan.attempt;
}

/* Moves to the plan if no attempt has ended: records an intent, a pause or the end. */
static enum op_result move_on(struct flow_run *run)
{
    flow_run_next(run);
    return OP_STOP;
}

static enum op_result complete_step(struct flow_run *run, slice output)
{
    flow_run_finish_completed(run, output);
    return OP_STOP;
}

static enum op_result fail_step(struct flow_run *run, struct flow_error error)
{
    flow_run_finish_failed(run, &error);
    return OP_STOP;
}

/* Whether the plan makes calls. */
static bool is_decided(struct flow_run *run)
{
    enum flow_plan_kind kind = run->plan.kind;
    return kind == FLOW_PLAN_CALL || kind == FLOW_PLAN_FAN_OUT ||
           (kind == FLOW_PLAN_PARK && flow_shows_are_due(run));
}

/*
 * Every plan passes through here each time it is executed, so a drain and the deadline stop the
 * flow here. A process that shuts down begins nothing, with one exception: a write whose intent it
 * has made durable but which it has not sent yet. If it were dropped, the next owner would find the
 * intent and have to report an unknown outcome. Of a hold's call it finds that nothing was sent.
 */
static enum op_result step_execute(struct op *op)
{
    static const enum run_step steps_of_plans[] = {
        [FLOW_PLAN_END] = RUN_COMPLETE,    [FLOW_PLAN_CALL] = RUN_CALL,
        [FLOW_PLAN_FAN_OUT] = RUN_FAN_OUT, [FLOW_PLAN_TRANSFORM] = RUN_TRANSFORM,
        [FLOW_PLAN_PASS] = RUN_PASS,       [FLOW_PLAN_PARK] = RUN_PARK,
        [FLOW_PLAN_FAULT] = RUN_FAIL,
    };
    struct flow_run *run = flow_run_of(op);
    ASSERT(run->tmpl && !run->progress.exec);
    bool has_intent = run->plan.kind == FLOW_PLAN_CALL && is_begun(run) && flow_run_is_ours(run) &&
                      !run->progress.is_interrupted && !flow_call_is_read(run, run->plan.step);
    if (flow_run_is_leaving(run) && has_intent && run->progress.unsent > 0)
        return move_on(run); /* nothing was sent, so the intent is removed */
    if (flow_run_is_leaving(run) && (!has_intent || run->tmpl->is_held))
        return OP_DONE;
    /* The deadline does not matter for an end, which begins nothing, or for a fault, which has a
     * more specific error. */
    if (run->plan.kind != FLOW_PLAN_END && run->plan.kind != FLOW_PLAN_FAULT &&
        flow_run_is_overdue(run))
        return fail_step(run, flow_error_deadline());
    if (is_decided(run) && !flow_policy_is_known(run))
        return op_jump(op, RUN_POLICY);
    return op_jump(op, steps_of_plans[run->plan.kind]);
}

static enum op_result step_policy(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    return flow_policy_ask(run, &run->policy.asking, op) ? OP_NEXT : OP_WAIT;
}

/* Without the policy no call is made: this is tried for as long as the flow is this process's. */
static enum op_result step_policed(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    if (flow_policy_take(run, &run->policy.asking))
        return op_jump(op, RUN_EXECUTE);
    op_sleep(op, &run->timer, LOAD_RETRY_MS, "the database, to read a policy");
    return op_wait_then(op, RUN_EXECUTE);
}

static struct flow_call call_of(struct flow_run *run)
{
    return (struct flow_call){.run = run,
                              .input = &run->plan.value,
                              .connection_id = run->plan.connection_id,
                              .item = SIZE_MAX,
                              .is_in_doubt = run->progress.is_in_doubt};
}

/* Returns false if out of memory. */
static bool begin_call(struct flow_run *run)
{
    struct flow_call call = call_of(run);
    run->progress.exec = flow_call_start(&call, &run->op);
    return run->progress.exec != NULL;
}

/* Reads again what the approval of the calls has shown. */
static enum op_result read_approved(struct flow_run *run)
{
    flow_shows_read(run);
    op_keep_children(&run->op);
    return run->op.holds > 0 ? op_wait_then(&run->op, RUN_COMPARE) : op_jump(&run->op, RUN_COMPARE);
}

static enum op_result make_call(struct flow_run *run)
{
    return begin_call(run) ? op_wait_then(&run->op, RUN_CALLED)
                           : fail_step(run, flow_error_memory());
}

/* Makes the call, unless its intent has to be durable first: then the same plan is executed again
 * once the intent is recorded. A read has no intent, which saves a commit. A write has one even if
 * it may be repeated; otherwise the doubt after a crash would be forgotten. The call of a hold has
 * rows of its own, which say what became of an interrupted attempt. */
static enum op_result step_call(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    ASSERT(flow_run_step(run)->type == FLOW_TOOL_CALL && !flow_run_step(run)->for_each);
    bool is_safe = run->tmpl->is_held || flow_call_is_safe(run, run->plan.step);
    if (run->progress.is_interrupted && !is_safe)
        return fail_step(run, flow_error_unknown());
    /* before the intent, so that a process that dies during the reads leaves no doubt */
    if (!run->tmpl->is_held && !run->is_waking && flow_compare_is_due(run))
        return read_approved(run);
    if ((run->is_waking || !flow_call_is_read(run, run->plan.step)) && !is_begun(run))
        return move_on(run); /* a waking run does not own the row before this transition */
    if (run->tmpl->is_held)
        return op_jump(op, RUN_CHECK);
    return make_call(run);
}

/* Waits a moment; then the drain and the deadline are checked again. */
static enum op_result execute_again(struct flow_run *run, const char *what)
{
    op_sleep(&run->op, &run->timer, UNSENT_RETRY_MS, what);
    return op_wait_then(&run->op, RUN_EXECUTE);
}

/* The outcome is in the execution's memory, which is freed soon after this step. So complete_step
 * copies the output, and flow_call_result the texts of the error. */
static enum op_result take_outcome(struct flow_run *run, const struct exec *exec)
{
    struct flow_error error;
    struct flow_call call = call_of(run);
    switch (flow_call_result(&call, exec, flow_run_scratch(run), &error)) {
    case FLOW_CALL_SUCCEEDED:
        run->progress.unsent = 0;
        return complete_step(run, exec_outcome_of(exec)->output_json);
    case FLOW_CALL_FAILED:
        run->progress.unsent = 0;
        if (run->tmpl->is_held)
            flow_held_fail(exec_outcome_of(exec)->reason, &error);
        return fail_step(run, error);
    case FLOW_CALL_UNSENT:
        run->progress.unsent++;
        return execute_again(run, "a call that could not be made");
    case FLOW_CALL_CANCELLED:
        break; /* the row stays unchanged; the next owner decides by is_begun */
    }
    return OP_DONE;
}

static enum op_result step_called(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    struct exec *exec = run->progress.exec;
    ASSERT(exec);
    run->progress.exec = NULL;
    if (run->tmpl->is_held && exec_outcome_of(exec)->reason == EXEC_KEY_MISMATCH)
        return execute_again(run, "the key of the hold");
    if (run->tmpl->is_held && flow_held_is_recorded(run, exec))
        return op_jump(op, run->held.is_followed ? RUN_INTEND : RUN_CHECK);
    return take_outcome(run, exec);
}

static enum op_result step_check(struct op *op)
{
    flow_held_check(flow_run_of(op));
    return OP_WAIT;
}

static enum op_result step_checked(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    struct flow_error error;
    slice output;
    switch (flow_held_checked(run, &output, &error)) {
    case FLOW_HELD_CALL:
        return !run->held.is_followed && flow_compare_is_due(run) ? read_approved(run) : OP_NEXT;
    case FLOW_HELD_WAIT:
        return execute_again(run, "the end of an earlier attempt");
    case FLOW_HELD_COMPLETED:
        return complete_step(run, output);
    case FLOW_HELD_FAILED:
        return fail_step(run, error);
    case FLOW_HELD_LOST:
        break;
    }
    return OP_DONE;
}

static enum op_result step_intend(struct op *op)
{
    flow_held_intend(flow_run_of(op));
    return OP_WAIT;
}

/* The execution's id is stored; or the hold has that of another run of the request, whose end is
 * then looked up. */
static enum op_result step_intended(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    bool is_stored = flow_held_intended(run);
    if (is_stored && run->held.is_followed)
        return op_jump(op, RUN_CHECK);
    if (is_stored && begin_call(run))
        return op_wait_then(op, RUN_CALLED);
    return execute_again(run, "another try");
}

static enum op_result make_calls(struct flow_run *run)
{
    if (!flow_fan_start(run))
        return fail_step(run, flow_error_memory());
    /* no lane runs if no item is left */
    return run->op.holds > 0 ? op_wait_then(&run->op, RUN_JOINED) : op_jump(&run->op, RUN_JOINED);
}

/* Whether something that step_execute checks may have changed during the reads, or an intent has to
 * be recorded. */
static bool is_to_be_executed_again(struct flow_run *run)
{
    return flow_run_is_leaving(run) || flow_run_is_overdue(run) || !flow_policy_is_known(run) ||
           (!run->tmpl->is_held && !is_begun(run));
}

/* A call that is refused before its reads has the outcome that it would have without them. */
static enum op_result step_compare(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    const struct exec *refused;
    struct flow_error error;
    switch (flow_compare_take(run, &refused, &error)) {
    case FLOW_COMPARED_SAME:
        break;
    case FLOW_COMPARED_DIFFERS:
        return fail_step(run, error);
    case FLOW_COMPARED_REFUSED:
        return take_outcome(run, refused);
    }
    if (is_to_be_executed_again(run))
        return op_jump(op, RUN_EXECUTE);
    if (run->tmpl->is_held)
        return op_jump(op, RUN_INTEND);
    return run->plan.kind == FLOW_PLAN_FAN_OUT ? make_calls(run) : make_call(run);
}

/* Facts about items belong to the row's step and attempt, and a load reads only these facts. So the
 * intent is written first even if all calls are safe. */
static enum op_result step_fan_out(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    ASSERT(flow_run_step(run)->for_each);
    if (!is_begun(run))
        return move_on(run);
    /* A failed comparison ends the attempt. So an attempt that an item has stopped is not compared:
     * it makes no call, and the next attempt would not know that the item is in doubt. */
    if (!flow_fan_is_stopped(run) && flow_compare_is_due(run))
        return read_approved(run);
    return make_calls(run);
}

/* The last lane has released its hold. */
static enum op_result step_joined(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    struct flow_error error;
    slice output;
    switch (flow_fan_join(run, &output, &error)) {
    case FLOW_FAN_COMPLETED:
        return complete_step(run, output);
    case FLOW_FAN_FAILED:
        return fail_step(run, error);
    case FLOW_FAN_LEFT:
        break;
    }
    return OP_DONE;
}

/* Unlike a call's input the value is computed here, not with the plan, because a transform has
 * no intent that must be recorded first. */
static enum op_result step_transform(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    struct json value;
    struct flow_error too_large = flow_error_make(
        "validation_error", SLICE("The step's value is larger than 1 MB."), SLICE_NONE);
    if (!flow_plan_transform(run, &value))
        return fail_step(run, run->plan.error);
    slice text = json_text_of(&value, flow_run_scratch(run), FLOW_OUTPUT_BYTES_MAX);
    return text.ptr ? complete_step(run, text) : fail_step(run, too_large);
}

/* Records a wait or an approval, after the reads that say what its ids mean. Once it is durable the
 * run ends, and the flow costs no memory. */
static enum op_result step_park(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    ASSERT(flow_run_step(run)->type == FLOW_WAIT || flow_run_step(run)->type == FLOW_APPROVAL);
    if (!flow_shows_are_due(run))
        return move_on(run);
    flow_shows_read(run);
    op_keep_children(op);
    return op->holds > 0 ? OP_WAIT : OP_NEXT; /* no memory: no read has begun */
}

/* The approval is written again, with what its ids mean. If that does not fit, the first text
 * stays. */
static enum op_result step_park_named(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    ASSERT(flow_shows_are_due(run));
    flow_shows_take(run);
    const struct flow_plan unnamed = run->plan;
    flow_plan_approval(run, flow_run_step(run));
    if (run->plan.kind == FLOW_PLAN_FAULT)
        run->plan = unnamed;
    return move_on(run);
}

/* Completes a wait that is over, or was already over when it was planned. Its output is {"until":
 * time}. */
static enum op_result step_pass(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    ASSERT(flow_run_step(run)->type == FLOW_WAIT);
    return complete_step(run, run->plan.input_json);
}

static enum op_result step_complete(struct op *op)
{
    return move_on(flow_run_of(op));
}

static enum op_result step_fail(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    return fail_step(run, run->plan.error);
}

/* ---- the transition ---- */

/* Each attempt sends the same transition and token, so an attempt that finds the token in the
 * row counts as done. */
static enum op_result step_record(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    ASSERT(run->transition.next.rev == run->flow.rev + 1);
    ASSERT(!uuid_is_nil(run->transition.op_token));
    /* Taking a flow needs a valid lease; otherwise others would adopt it at once. Writing an
     * owned flow does not need it: the owner in the fence is enough. */
    if (run->is_waking && !node_may_write(run->service->config.node))
        return OP_DONE;                        /* the next scan of any node finds the flow */
    run->proof.sent_boot_ns = clock_boot_ns(); /* the proof is valid if the statement succeeds */
    const struct flow_move move = {
        .next = &run->transition.next,
        .owner = run->is_waking ? node_id(run->service->config.node) : run->flow.owner,
        .op_token = run->transition.op_token,
        .is_wake = run->is_waking,
        .finished = flow_run_has_finished(run) ? &run->transition.finished : NULL,
        .waiting_input = flow_run_waiting_input(run),
        .event = run->transition.event,
        .has_outbox = run->transition.has_outbox,
    };
    store_flow_move(run->service->config.pool, &run->query, op, &move);
    return OP_WAIT;
}

/* If the database is unreachable, the statement is retried until there is an answer, even if the
 * answer is only that another node owns the flow. A value that the database refuses would be
 * refused again, so the step fails instead. */
static enum op_result record_again(struct flow_run *run, int status)
{
    bool is_refused = status == ERR_INVALID || status == ERR_LIMIT;
    op_log(&run->op, LOG_WARN, "a transition could not be stored", LOG_INT("status", status),
           LOG_CSTR("sqlstate", run->query.sqlstate), LOG_STR("cause", run->query.message));
    if (is_refused && (!flow_run_has_finished(run) || run->transition.finished.is_completed)) {
        flow_run_finish_refused(run);
        return OP_STOP;
    }
    op_sleep(&run->op, &run->timer, RECORD_RETRY_MS, "the database, to record a transition");
    return op_wait_then(&run->op, RUN_RECORD);
}

/* run->flow becomes the new row only now: memory is never ahead of the database. */
static enum op_result step_recorded(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    int status = store_hit_result(&run->query);
    if (status == ERR_NOTFOUND && flow_run_may_be_heard(run))
        return op_jump(op, RUN_RECORD);
    if (status == ERR_NOTFOUND)
        return OP_DONE; /* cancelled, or adopted */
    if (status != OK)
        return record_again(run, status);
    if (store_has_event(&run->query))
        event_written(run->service->config.events, run->flow.account_id, run->transition.event.id);
    flow_run_recorded(run);
    if (run->flow.status != FLOW_RUNNING)
        return OP_DONE; /* parked, or ended */
    if (run->transition.retry_ms == 0)
        return op_jump(op, RUN_EXECUTE);
    op_sleep(op, &run->timer, run->transition.retry_ms, "back-off before the next attempt");
    return OP_WAIT;
}

/* The back-off is over. The same step's next attempt is planned from the same outputs, and its
 * `when` is not evaluated a second time. */
static enum op_result step_replan(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    ASSERT(run->flow.status == FLOW_RUNNING && run->plan.attempt == run->flow.attempt);
    flow_plan_make(run, run->plan.step, run->flow.attempt + 1, true);
    return op_jump(op, RUN_EXECUTE);
}

#define TO_RECORD OP_TO(RUN_RECORD)
#define TO_A_PLAN                                                                    \
    (OP_TO(RUN_CALL) | OP_TO(RUN_FAN_OUT) | OP_TO(RUN_TRANSFORM) | OP_TO(RUN_PARK) | \
     OP_TO(RUN_PASS) | OP_TO(RUN_COMPLETE) | OP_TO(RUN_FAIL))
static const struct op_step steps[] = {
    /* loads the row and the template and makes the plan; a flow that starts here has them
     * already */
    [RUN_BEGIN] = {"begin", step_begin, OP_TO(RUN_EXECUTE)},
    [RUN_LOAD] = {"load", step_load, 0},
    [RUN_LOADED] = {"loaded", step_loaded, OP_TO(RUN_LOAD)},
    [RUN_TEMPLATE] = {"template", step_template, OP_TO(RUN_LOAD) | TO_RECORD},
    [RUN_PLAN] = {"plan", step_plan, TO_RECORD},
    /* one step for each kind of plan; each prepares a transition, unless the plan is dropped */
    [RUN_EXECUTE] = {"execute", step_execute, TO_A_PLAN | TO_RECORD | OP_TO(RUN_POLICY)},
    /* before a call, if the policy of the flow's key has changed or was not loaded yet */
    [RUN_POLICY] = {"policy", step_policy, 0},
    [RUN_POLICED] = {"policed", step_policed, OP_TO(RUN_EXECUTE)},
    [RUN_CALL] = {"call", step_call,
                  OP_TO(RUN_CALLED) | OP_TO(RUN_CHECK) | OP_TO(RUN_COMPARE) | TO_RECORD},
    [RUN_CALLED] = {"called", step_called,
                    OP_TO(RUN_EXECUTE) | OP_TO(RUN_CHECK) | OP_TO(RUN_INTEND) | TO_RECORD},
    /* the call of a hold: what earlier attempts have left, and the id of the next (held.c) */
    [RUN_CHECK] = {"check", step_check, 0},
    [RUN_CHECKED] = {"checked", step_checked, OP_TO(RUN_EXECUTE) | OP_TO(RUN_COMPARE) | TO_RECORD},
    [RUN_INTEND] = {"intend", step_intend, 0},
    [RUN_INTENDED] = {"intended", step_intended,
                      OP_TO(RUN_EXECUTE) | OP_TO(RUN_CALLED) | OP_TO(RUN_CHECK)},
    /* what the approval has shown was read again (compare.c), and is compared */
    [RUN_COMPARE] = {"compare", step_compare,
                     OP_TO(RUN_EXECUTE) | OP_TO(RUN_CALLED) | OP_TO(RUN_INTEND) |
                         OP_TO(RUN_JOINED) | TO_RECORD},
    [RUN_FAN_OUT] = {"fan_out", step_fan_out, OP_TO(RUN_JOINED) | OP_TO(RUN_COMPARE) | TO_RECORD},
    [RUN_JOINED] = {"joined", step_joined, TO_RECORD},
    [RUN_TRANSFORM] = {"transform", step_transform, TO_RECORD},
    [RUN_PARK] = {"park", step_park, TO_RECORD},
    [RUN_PARK_NAMED] = {"park_named", step_park_named, TO_RECORD},
    [RUN_PASS] = {"pass", step_pass, TO_RECORD},
    [RUN_COMPLETE] = {"complete", step_complete, TO_RECORD},
    [RUN_FAIL] = {"fail", step_fail, TO_RECORD},
    /* writes the transition; a flow that now waits or has ended leaves memory here */
    [RUN_RECORD] = {"record", step_record, 0},
    [RUN_RECORDED] = {"recorded", step_recorded, OP_TO(RUN_EXECUTE) | TO_RECORD},
    [RUN_REPLAN] = {"replan", step_replan, OP_TO(RUN_EXECUTE)},
};

/* ---- beginning and ending ---- */

static void on_cancel(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    if (run->progress.exec && run->tmpl->is_held)
        flow_held_leave(run);
    else if (run->progress.exec)
        exec_cancel(run->progress.exec);
    flow_shows_cancel(run);
    flow_fan_cancel(run);
}

/* This is not left to free_run: the flow's next run may begin before this one's memory is freed. */
static void on_end(struct op *op, enum op_end end)
{
    struct flow_run *run = flow_run_of(op);
    (void)end;
    flow_run_unregister(run);
}

static void free_run(struct op *op)
{
    struct flow_run *run = flow_run_of(op);
    arena_deinit(&run->scratch[0]);
    arena_deinit(&run->scratch[1]);
    flow_template_unref(run->tmpl);
    flow_template_unref(run->find.tmpl); /* a run that was cancelled before step_template */
    flow_policy_free(run);
    budget_use_end(&run->use); /* comes last, since the arenas charge their memory to this use */
    mem_free(run);
}

static const struct op_class run_class = {
    .name = "flow",
    OP_STEPS(steps),
    .stop = RUN_RECORD,
    .on_cancel = on_cancel,
    .on_end = on_end,
    .free = free_run,
};

/* Counts the run's arenas in its account's share. If memory is short, the run continues
 * uncounted. */
static void count_memory(struct flow_run *run, struct uuid account_id)
{
    struct budget_queue *work = run->service->config.work;
    if (!work || budget_use_begin(&run->use, &work->budget, account_id) != OK)
        return;
    arena_count_in(&run->op.arena, &run->use);
    arena_count_in(&run->scratch[0], &run->use);
    arena_count_in(&run->scratch[1], &run->use);
}

/* The op is started first, because the arena that holds the copies is the op's; its first step runs
 * at the next drain of the run queue, so the fields may be set after that. flow is copied. */
static struct flow_run *make_run(struct flow_service *service, const struct flow *flow)
{
    char text[UUID_TEXT_LEN + 1];
    struct flow_run *run = mem_zalloc(sizeof(*run));
    if (!run)
        return NULL;
    run->service = service;
    list_init(&run->link);
    op_start(&run->op, &run_class, service->config.loop, NULL, FLOW_RUN_ARENA_MAX);
    arena_init(&run->scratch[0], FLOW_RUN_ARENA_MAX);
    arena_init(&run->scratch[1], FLOW_RUN_ARENA_MAX);
    struct uuid payer_id = uuid_or(flow->parent_id, flow->account_id);
    count_memory(run, payer_id);
    uuid_format(flow->id, text);
    run->op.request_id = arena_dup(&run->op.arena, slice_of(text, UUID_TEXT_LEN));
    op_account_set(&run->op, payer_id);
    run->flow = *flow;
    run->proof.sent_boot_ns = clock_boot_ns(); /* a start's statement is sent after this */
    run->flow.template_key = arena_dup(&run->op.arena, flow->template_key);
    run->flow.trigger_type = arena_dup(&run->op.arena, flow->trigger_type);
    flow_run_register(run);
    return run;
}

bool flow_run_start(struct flow_service *service, const struct flow *flow, bool is_resumed)
{
    ASSERT(flow->status == FLOW_RUNNING);
    struct flow_run *run = make_run(service, flow);
    if (run && is_resumed)
        run->progress.attempt_base = flow->attempt; /* a person grants a new set of attempts */
    return run != NULL;
}

void flow_run_wake(struct flow_service *service, const struct due_ref *ref)
{
    const struct flow flow = {.account_id = ref->account_id,
                              .id = ref->id,
                              .parent_id = ref->parent_id,
                              .status = FLOW_WAITING,
                              .rev = ref->rev,
                              .wake_at = ref->at};
    ASSERT(ref->kind == DUE_FLOW && ref->rev > 0 && ref->at != 0);
    if (flow_run_is_moving(service, ref->id))
        /* the flow was woken twice, by the timer and by a scan */
        return;
    struct flow_run *run = make_run(service, &flow); /* out of memory: the next scan finds it */
    if (run)
        run->is_waking = true;
}

struct flow_run *flow_run_new(struct flow_service *service, const struct flow *flow,
                              struct flow_template *tmpl, slice input,
                              const struct flow_request *request)
{
    struct err err;
    struct flow_run *run = make_run(service, flow);
    if (!run)
        return NULL;
    op_hold(&run->op, "its start"); /* no step runs before the start is durable */
    run->tmpl = flow_template_ref(tmpl);
    run->whole.actor = arena_dup(&run->op.arena, request->by.actor);
    run->input = json_parse(&run->op.arena, input, &json_limits_provider, &err);
    run->whole.input = arena_dup(&run->op.arena, input);
    if (!run->input || !run->whole.input.ptr ||
        !flow_policy_start(run, request->policy, request->user)) {
        flow_run_drop(run);
        return NULL;
    }
    flow_plan_make(run, 0, 1, false);
    bool is_call = run->plan.kind == FLOW_PLAN_CALL || run->plan.kind == FLOW_PLAN_FAN_OUT;
    flow_state_begin(&run->flow, run->plan.kind == FLOW_PLAN_END ? 0 : run->plan.step, is_call);
    run->transition.next = run->flow;
    /* Revision 2 is written by the statement of revision 1: one commit for a flow that begins
     * with a pause. */
    bool is_pause = run->plan.kind == FLOW_PLAN_PARK && !flow_shows_are_due(run);
    if (is_pause || run->plan.kind == FLOW_PLAN_END)
        flow_run_next(run);
    return run;
}

void flow_run_launch(struct flow_run *run)
{
    ASSERT(run->op.holds > 0); /* flow_run_new's hold */
    flow_run_begin_publishing(run);
    if (run->transition.next.rev != run->flow.rev)
        flow_run_recorded(run);
    op_release(&run->op);
}

void flow_run_drop(struct flow_run *run)
{
    ASSERT(run->op.holds > 0);
    op_cancel(&run->op);
    op_release(&run->op);
}
