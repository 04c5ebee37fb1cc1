/*
 * Approve, reject, resume, cancel, and the steps of every command; a start's own are in start.c.
 * Each is one conditional statement and works on any node; the node that takes a flow also runs it.
 * The answer is the view after the change.
 *
 * A start is written before it runs. If the start has an idempotency key, the same statement binds
 * it, so a refused start binds nothing and a successful one cannot be repeated; a repeated request
 * loads the key's flow. Approve, reject and resume load the flow, decide by the loaded row, and
 * write fenced by its revision; if it has changed in between they load again. A cancel needs
 * nothing from the row, so it writes first and loads afterwards.
 *
 * All attempts of a statement have the same token: an attempt after a lost answer finds the token
 * in the row and succeeds. A statement without an answer may still have given this node a flow;
 * service->has_lost makes the adopter scan for such flows by their owner. "Unavailable" means that
 * nothing was done: a start is sent again until it is answered, for as long as a client waits; if
 * the result is still unknown then, the answer says so.
 */
#include "base/clock.h"
#include "flow/approver.h"
#include "flow/command.h"

enum {
    /* How long a cancel waits if another node may be about to send a request: longer than the node
     * may rely on its last read of the row, with a margin for clock drift. */
    CANCEL_WAIT_MS = EXEC_PROOF_MS + 100,
    COMMAND_ARENA_MAX = 256 * 1024 * 1024,
    VIEW_BYTES_MAX = 128 * 1024 * 1024,
    TRIES_MAX = 8,
};

struct arena *flow_command_arena(const struct flow_command *command)
{
    return &command->op.parent->arena;
}

enum op_result flow_command_answer(struct flow_command *command, enum flow_answer how,
                                   slice message)
{
    command->answer = how;
    command->message = message;
    return OP_DONE;
}

enum op_result flow_command_unavailable(struct flow_command *command)
{
    bool is_open = command->is_sent || command->is_changed;
    return flow_command_answer(command, is_open ? FLOW_ANSWER_UNKNOWN : FLOW_ANSWER_UNAVAILABLE,
                               SLICE_NONE);
}

bool flow_command_is_lost(int status)
{
    return status == ERR_CLOSED || status == ERR_NOMEM;
}

bool flow_command_can_run(struct flow_command *command)
{
    const struct flow_service *service = command->service;
    bool may_write = node_may_write(service->config.node);
    if (may_write && !service->is_draining &&
        service->run_count + service->takes.count < 2 * service->config.runs_max)
        return true;
    if (!may_write)
        (void)flow_command_unavailable(command); /* the database is the cause */
    else
        (void)flow_command_answer(
            command, FLOW_ANSWER_UNAVAILABLE,
            service->is_draining
                ? SLICE("The server is shutting down. Nothing was done. Try again.")
                : SLICE("The server already runs as many flows as it can. Nothing was done. Try "
                        "again."));
    return false;
}

enum op_result flow_command_conflict(struct flow_command *command, slice message)
{
    if (!message.ptr)
        return flow_command_unavailable(command);
    return flow_command_answer(command, FLOW_ANSWER_CONFLICT, message);
}

enum op_result flow_command_retry(struct flow_command *command, enum command_step step)
{
    if (++command->tries > TRIES_MAX)
        return flow_command_unavailable(command);
    op_sleep(&command->op, &command->timer, FLOW_COMMAND_AGAIN_MS, "another try");
    return op_wait_then(&command->op, step);
}

enum op_result flow_command_view(struct flow_command *command, const struct flow_whole *whole,
                                 const struct flow_template *tmpl)
{
    struct buf text;
    buf_init(&text, VIEW_BYTES_MAX);
    flow_view_write(&text, whole, tmpl,
                    command->in.scopes & SCOPE_READ ? FLOW_VIEW_WHOLE : FLOW_VIEW_BARE);
    command->view_json = arena_take(flow_command_arena(command), &text);
    ASSERT(whole->flow.rev > 0);
    command->rev = whole->flow.rev;
    return flow_command_answer(command, FLOW_ANSWER_DONE, SLICE_NONE);
}

static enum op_result step_begin(struct op *op)
{
    struct flow_command *command = command_of(op);
    command->op_token = uuid_v7();
    command->event_id = uuid_v7();
    command->flow_id = command->in.flow_id;
    switch (command->in.kind) {
    case FLOW_COMMAND_START:
        return flow_start_begin(command);
    case FLOW_COMMAND_CANCEL:
        /* a policy may hide the flow */
        return op_jump(op, command->in.policy ? COMMAND_LOAD : COMMAND_CANCEL);
    case FLOW_COMMAND_APPROVE:
    case FLOW_COMMAND_REJECT:
    case FLOW_COMMAND_RESUME:
        break;
    }
    return op_jump(op, COMMAND_LOAD);
}

/* ---- changes ---- */

/* Works in any state and at any revision: a cancel applies to the flow, whatever it is doing. */
static enum op_result step_cancel(struct op *op)
{
    struct flow_command *command = command_of(op);
    command->is_sent = true;
    store_flow_cancel(command->service->config.pool, &command->query, op, command->in.account_id,
                      command->in.flow_id, command->op_token, clock_shared_us(), command->event_id);
    return OP_WAIT;
}

/* Loads the flow for the decision, or after a cancel only for the view. Neither needs the items of
 * a fan-out. */
static enum op_result step_load(struct op *op)
{
    struct flow_command *command = command_of(op);
    store_flow_load(command->service->config.pool, &command->query, op, command->in.account_id,
                    command->in.flow_id, false);
    return OP_WAIT;
}

static enum op_result step_loaded(struct op *op)
{
    struct flow_command *command = command_of(op);
    int status = store_flow_load_result(&command->query, &command->whole);
    if (status == ERR_NOTFOUND)
        return flow_command_answer(
            command, command->is_replayed ? FLOW_ANSWER_KEY_GONE : FLOW_ANSWER_NOT_FOUND,
            command->is_replayed ? SLICE("The flow that this idempotency_key started is no longer "
                                         "stored. Use a new key to start another.")
                                 : SLICE_NONE);
    if (status != OK)
        return flow_command_unavailable(command);
    flow_template_unref(command->find.tmpl); /* the reference of the previous attempt */
    command->find.tmpl = NULL;
    if (flow_template_find(command->service, &command->find, command->whole.flow.template_version,
                           op))
        return OP_NEXT;
    return OP_WAIT;
}

static enum op_result step_template(struct op *op)
{
    struct flow_command *command = command_of(op);
    if (command->find.status != OK)
        return flow_command_unavailable(command);
    if (command->in.policy && !command->is_changed &&
        flow_is_hidden(command->find.tmpl, *command->service->config.catalog, command->in.policy))
        return flow_command_answer(command, FLOW_ANSWER_NOT_FOUND, SLICE_NONE);
    if (command->in.kind == FLOW_COMMAND_CANCEL && !command->is_changed)
        return op_jump(op, COMMAND_CANCEL);
    if (command->is_changed || command->is_replayed)
        return flow_command_view(command, &command->whole, command->find.tmpl);
    return OP_NEXT;
}

/* Makes the output of the approved step: later steps may refer to it, and flow_decider_of reads
 * it. */
static slice approval_output(struct flow_command *command)
{
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, 64 * 1024);
    json_open(w, '{');
    json_member_str(w, "approvedBy", command->in.by.actor);
    json_member_time(w, "approvedAt", clock_shared_us());
    if (command->in.note.ptr)
        json_member_str(w, "note", command->in.note);
    json_close(w, '}');
    return json_text_take(&text, &command->op.arena);
}

/* Makes the error of the rejected step, as JSON text. */
static slice rejection(struct flow_command *command)
{
    struct flow_error error = flow_error_make(
        "policy_blocked",
        flow_rejection_message(command->in.by.actor, command->in.note, &command->op.arena),
        SLICE_NONE);
    return flow_error_text(&error, &command->op.arena);
}

static slice decided_key(const struct flow_command *command)
{
    size_t step = (size_t)command->whole.flow.step_index;
    ASSERT(step < command->find.tmpl->step_count);
    return command->find.tmpl->steps[step].key;
}

/* For approve and resume: this process takes the flow. The slot is checked before the statement,
 * since a flow that is taken but not run would stop until it is adopted. */
static enum op_result step_take(struct op *op)
{
    struct flow_command *command = command_of(op);
    const struct flow_service *service = command->service;
    bool is_approval = command->in.kind == FLOW_COMMAND_APPROVE;
    ASSERT(is_approval || command->in.kind == FLOW_COMMAND_RESUME);
    ASSERT(command->whole.flow.rev > 0); /* the loaded revision is the fence */
    if (!flow_command_can_run(command))
        return OP_DONE;
    command->take = (struct flow_take){
        .kind = is_approval ? FLOW_TAKE_APPROVE : FLOW_TAKE_RESUME,
        .account_id = command->in.account_id,
        .id = command->in.flow_id,
        .owner = node_id(service->config.node),
        .op_token = command->op_token,
        .rev = command->whole.flow.rev,
        .now = clock_shared_us(),
        .step_index = command->whole.flow.step_index,
    };
    if (is_approval) {
        command->take.output = command->decided.output;
        command->take.event =
            (struct flow_event){.id = command->event_id, .step_key = decided_key(command)};
    }
    command->is_sent = true;
    store_flow_take(service->config.pool, &command->query, op, &command->take);
    return op_wait_then(op, COMMAND_CHANGED);
}

/* A rejection ends the flow as cancelled. No process has to own it, so no slot is needed. */
static enum op_result step_reject(struct op *op)
{
    struct flow_command *command = command_of(op);
    struct flow_reject reject = {
        .account_id = command->in.account_id,
        .id = command->in.flow_id,
        .op_token = command->op_token,
        .rev = command->whole.flow.rev,
        .step_index = command->whole.flow.step_index,
        .now = clock_shared_us(),
        .error = command->decided.error,
        .event = {.id = command->event_id,
                  .step_key = decided_key(command),
                  .rejected_by = command->in.by.actor},
    };
    ASSERT(command->in.kind == FLOW_COMMAND_REJECT && reject.error.ptr);
    command->is_sent = true;
    store_flow_reject(command->service->config.pool, &command->query, op, &reject);
    return op_wait_then(op, COMMAND_CHANGED);
}

/* Returns the attempt's row as the statement of the decision writes it, so that the view can be
 * made without loading the flow again. */
static struct flow_step decided_step(struct flow_command *command)
{
    const struct flow *flow = &command->whole.flow;
    bool is_approved = command->in.kind == FLOW_COMMAND_APPROVE;
    return (struct flow_step){
        .step_index = flow->step_index,
        .attempt = flow->attempt,
        .is_completed = is_approved,
        .started_at = flow->updated_at,
        .input = command->whole.waiting_input,
        .output = is_approved ? approval_output(command) : SLICE_NONE,
        .error = is_approved ? SLICE_NONE : rejection(command),
    };
}

/* Returns the actor that decided; SLICE_NONE if it was not a person. */
static slice decided_by(const struct flow_step *step, struct arena *arena)
{
    slice text = step->is_completed ? step->output : step->error, note;
    const struct json *value = json_parse(arena, text, &json_limits_provider, NULL);
    return step->is_completed ? flow_decider_of(value, NULL, &note)
                              : flow_decider_of(NULL, value, &note);
}

/* It expires by itself or with the flow's deadline. */
static bool has_expired(const struct flow_step *step, struct arena *arena)
{
    const struct json *error = json_parse(arena, step->error, &json_limits_provider, NULL);
    return !step->is_completed && slice_eq_cstr(json_get_str(error, SLICE("code")), "timeout");
}

/* Returns the last attempt of the named approval step, since a resumed approval asks again; NULL:
 * it has none. */
static const struct flow_step *find_asked(const struct flow_command *command)
{
    const struct flow_template *tmpl = command->find.tmpl;
    const struct flow_whole *whole = &command->whole;
    for (size_t i = whole->step_count; i > 0 && command->in.step_key.ptr; i--) {
        const struct flow_step *step = &whole->steps[i - 1];
        const struct flow_step_def *def = &tmpl->steps[step->step_index];
        if (def->type == FLOW_APPROVAL && slice_eq(def->key, command->in.step_key))
            return step;
    }
    return NULL;
}

/* Reports why the named step does not wait any more, for a second click or a second person. */
static void report_earlier(struct flow_command *command)
{
    const struct flow_step *step = find_asked(command);
    const struct flow *flow = &command->whole.flow;
    slice by = step ? decided_by(step, flow_command_arena(command)) : SLICE_NONE;
    if (by.ptr) {
        command->earlier.what = step->is_completed ? FLOW_EARLIER_APPROVED : FLOW_EARLIER_REJECTED;
        command->earlier.by = by;
        command->earlier.at = step->finished_at;
    } else if (flow->status == FLOW_CANCELLED) {
        command->earlier.what = FLOW_EARLIER_CANCELLED;
        command->earlier.at = flow->completed_at ? flow->completed_at : flow->updated_at;
    } else if (step && has_expired(step, flow_command_arena(command))) {
        command->earlier.what = FLOW_EARLIER_EXPIRED;
        command->earlier.at = step->finished_at;
    }
}

/* Describes the state of a flow without a waiting approval: "it is running", "step \"rest\" waits
 * until ...". */
static slice say_state(const struct flow *flow, const struct flow_template *tmpl,
                       struct arena *arena)
{
    char until[TIME_TEXT_LEN + 1];
    if (flow->status != FLOW_WAITING)
        return arena_printf(arena, "it is %s", flow_status_name(flow->status));
    time_format(flow_continues_at(flow), until);
    return arena_printf(arena, "step \"%.*s\" waits until %s%s",
                        SLICE_ARG(tmpl->steps[flow->step_index].key), until,
                        flow->waiting_for == FLOW_WAITS_RETRY ? " to be tried again" : "");
}

static enum op_result carry_out(struct flow_command *command)
{
    return op_jump(&command->op,
                   command->in.kind == FLOW_COMMAND_APPROVE ? COMMAND_TAKE : COMMAND_REJECT);
}

/* The most helpful reason is checked first: another state, another step, another revision, too
 * late. The statement checks all of it again under the row's lock; these checks produce the
 * message. */
static enum op_result decide_approval(struct flow_command *command)
{
    const struct flow *flow = &command->whole.flow;
    const struct flow_template *tmpl = command->find.tmpl;
    struct arena *arena = flow_command_arena(command);
    if (flow->status != FLOW_WAITING || flow->waiting_for != FLOW_WAITS_APPROVAL) {
        report_earlier(command);
        return flow_command_conflict(
            command, arena_printf(arena, "No approval step of this flow is waiting: %.*s.",
                                  SLICE_ARG(say_state(flow, tmpl, arena))));
    }
    slice key = tmpl->steps[flow->step_index].key;
    if (command->in.step_key.ptr && !slice_eq(command->in.step_key, key)) {
        report_earlier(command);
        return flow_command_conflict(
            command,
            arena_printf(arena, "The step that waits for approval is \"%.*s\".", SLICE_ARG(key)));
    }
    if (command->in.rev != 0 && command->in.rev != flow->rev)
        return flow_command_conflict(
            command, SLICE("The flow has changed since it was shown. Load it again."));
    int64_t ends_at = flow_approval_ends_at(flow);
    if (ends_at != 0 && ends_at <= clock_shared_us()) {
        command->earlier.what = FLOW_EARLIER_EXPIRED;
        command->earlier.at = ends_at;
        return flow_command_conflict(command, SLICE("The approval has expired."));
    }
    command->decided = decided_step(command);
    if (!tmpl->is_held)
        return carry_out(command);
    flow_approver_ask(command->service->config.pool, &command->query, &command->op,
                      uuid_or(flow->parent_id, flow->account_id), command->whole.actor,
                      command->in.by.actor);
    return OP_WAIT;
}

/* A flow that waits for a later time or for a person stays unchanged: resuming it is not an
 * error, and has no effect. */
static enum op_result decide_resume(struct flow_command *command)
{
    const struct flow *flow = &command->whole.flow;
    int64_t due_at = flow_due_at(flow);
    bool is_due = due_at != 0 && due_at <= clock_shared_us();
    if (flow->status == FLOW_FAILED || is_due)
        return op_jump(&command->op, COMMAND_TAKE);
    if (flow->status == FLOW_WAITING)
        return flow_command_view(command, &command->whole, command->find.tmpl);
    return flow_command_conflict(
        command, arena_printf(flow_command_arena(command),
                              "Only a waiting or failed flow can be resumed. This flow is %s.",
                              flow_status_name(flow->status)));
}

static enum op_result step_decide(struct op *op)
{
    struct flow_command *command = command_of(op);
    if (command->in.kind == FLOW_COMMAND_RESUME)
        return decide_resume(command);
    return decide_approval(command);
}

/* Keys do not change whose they are, so this holds whatever happens until the decision. */
static enum op_result step_approver(struct op *op)
{
    struct flow_command *command = command_of(op);
    bool may_decide;
    ASSERT(command->decided.attempt > 0);
    if (flow_approver_result(&command->query, &may_decide) != OK)
        return flow_command_unavailable(command);
    return may_decide
               ? carry_out(command)
               : flow_command_answer(command, FLOW_ANSWER_NOT_APPROVER, flow_approver_refusal());
}

static int change_result(struct flow_command *command)
{
    if (command->in.kind == FLOW_COMMAND_CANCEL)
        return store_flow_cancel_result(&command->query, &command->flow, &command->was_owned_by,
                                        &command->was_cancelled);
    return store_flow_take_result(&command->query, &command->flow);
}

/* The row has changed: watches are notified, a cancelled flow's run in this process ends in this
 * turn, and a taken flow begins to run. */
static void apply_change(struct flow_command *command)
{
    struct flow_service *service = command->service;
    const struct flow *flow = &command->flow;
    command->is_changed = true;
    if (command->decided.attempt > 0) {
        command->decided.finished_at = flow->updated_at;
        flow_trace_decided(command);
    }
    flow_watch_notify(service, flow, NULL, NULL);
    if (flow->status == FLOW_CANCELLED)
        flow_run_cancel(service, flow->id);
    else if (!flow_run_start(service, flow, command->in.kind == FLOW_COMMAND_RESUME))
        service->has_lost = true;
}

/* A decision's attempt is added at the end: the steps after the approval have no attempts yet. */
static bool add_decided(struct flow_command *command)
{
    struct flow_whole *whole = &command->whole;
    ASSERT(command->decided.attempt > 0);
    struct flow_step *steps =
        ARENA_ARRAY(&command->op.arena, struct flow_step, whole->step_count + 1);
    if (!steps)
        return false;
    for (size_t i = 0; i < whole->step_count; i++)
        steps[i] = whole->steps[i];
    steps[whole->step_count++] = command->decided;
    whole->steps = steps;
    return true;
}

/* Answers with the view of the loaded flow and applies the change to it: the loaded revision was
 * the fence, so there was no other change in between. After a cancel the flow has not been loaded
 * yet. */
static enum op_result answer_changed(struct flow_command *command)
{
    bool is_loaded = command->in.kind != FLOW_COMMAND_CANCEL;
    if (is_loaded && (command->in.kind == FLOW_COMMAND_RESUME || add_decided(command))) {
        command->whole.flow = command->flow;
        return flow_command_view(command, &command->whole, command->find.tmpl);
    }
    return op_jump(&command->op, COMMAND_LOAD);
}

/* Whether the answer has to wait until no node can rely on the old row, so that after the answer no
 * request of this flow begins anywhere. This is so if another node ran the flow, or if it was
 * cancelled earlier, at an unknown time. A run in this process has been cancelled in this turn. */
static bool must_wait(const struct flow_command *command)
{
    struct uuid owner = command->was_owned_by;
    bool is_others = !uuid_is_nil(owner) && !uuid_eq(owner, node_id(command->service->config.node));
    return command->in.kind == FLOW_COMMAND_CANCEL && (command->was_cancelled || is_others);
}

/* ERR_NOTFOUND means that another change was faster, or that the flow does not exist. The other
 * commands load to find out which. A cancel tries once more: if another request cancels the flow at
 * the same moment, neither half of the statement finds it, since in the statement's snapshot the
 * flow is neither changeable nor cancelled. */
static enum op_result step_changed(struct op *op)
{
    struct flow_command *command = command_of(op);
    ASSERT(command->in.kind != FLOW_COMMAND_START && !command->is_changed);
    int status = change_result(command);
    command->is_sent = flow_command_is_lost(status);
    if (status == OK) {
        if (store_has_event(&command->query))
            event_written(command->service->config.events, command->in.account_id,
                          command->event_id);
        apply_change(command);
        flow_decision_audit(command->service->config.pool, &command->query, op, command);
        return op_wait_then(op, COMMAND_AUDITED);
    }
    if (status == ERR_NOTFOUND && command->in.kind != FLOW_COMMAND_CANCEL)
        return flow_command_retry(command, COMMAND_LOAD); /* reload the row and decide again from
                                                           * its present state */
    if (status == ERR_NOTFOUND) {
        if (command->tries > 0)
            return flow_command_answer(command, FLOW_ANSWER_NOT_FOUND, SLICE_NONE);
        return flow_command_retry(command, COMMAND_CANCEL);
    }
    if (flow_command_is_lost(status) && command->in.kind != FLOW_COMMAND_CANCEL)
        command->service->has_lost = true; /* this node may own the flow now */
    return flow_command_unavailable(command);
}

/* The change is made, and its event is stored or logged; the answer follows. */
static enum op_result step_audited(struct op *op)
{
    struct flow_command *command = command_of(op);
    flow_decision_audited(op, &command->query);
    if (!must_wait(command))
        return answer_changed(command);
    op_sleep(op, &command->timer, CANCEL_WAIT_MS, "other nodes, to send nothing any more");
    return op_wait_then(op, COMMAND_LOAD);
}

#define TO_CHANGED OP_TO(COMMAND_CHANGED)
static const struct op_step steps[] = {
    [COMMAND_BEGIN] = {"begin", step_begin,
                       OP_TO(COMMAND_START) | OP_TO(COMMAND_LOAD) | OP_TO(COMMAND_CANCEL)},
    [COMMAND_CHECK_KEY] = {"check_key", flow_start_check_key,
                           OP_TO(COMMAND_BEGIN) | OP_TO(COMMAND_LOAD)},
    [COMMAND_START] = {"start", flow_start_plan, OP_TO(COMMAND_START)},
    [COMMAND_SEND] = {"send", flow_start_send, 0},
    [COMMAND_STARTED] = {"started", flow_start_sent,
                         OP_TO(COMMAND_BEGIN) | OP_TO(COMMAND_SEND) | OP_TO(COMMAND_LOAD)},
    /* the flow is loaded for approve, reject and resume, after a cancel, and for the key of a
     * start */
    [COMMAND_LOAD] = {"load", step_load, 0},
    [COMMAND_LOADED] = {"loaded", step_loaded, 0},
    [COMMAND_TEMPLATE] = {"template", step_template, OP_TO(COMMAND_CANCEL)},
    [COMMAND_DECIDE] = {"decide", step_decide, OP_TO(COMMAND_TAKE) | OP_TO(COMMAND_REJECT)},
    [COMMAND_APPROVER] = {"approver", step_approver, OP_TO(COMMAND_TAKE) | OP_TO(COMMAND_REJECT)},
    [COMMAND_TAKE] = {"take", step_take, TO_CHANGED},
    [COMMAND_REJECT] = {"reject", step_reject, TO_CHANGED},
    [COMMAND_CANCEL] = {"cancel", step_cancel, 0},
    [COMMAND_CHANGED] = {"changed", step_changed,
                         OP_TO(COMMAND_LOAD) | OP_TO(COMMAND_CANCEL) | OP_TO(COMMAND_AUDITED)},
    [COMMAND_AUDITED] = {"audited", step_audited, OP_TO(COMMAND_LOAD)},
};

/* The template's reference is released here, not with the memory, which belongs to the caller. */
static void on_end(struct op *op, enum op_end end)
{
    struct flow_command *command = command_of(op);
    if (end == OP_ENDED_CANCELLED) {
        (void)flow_command_unavailable(command);
        command->service->has_lost = true; /* the change that was sent may still take effect */
    }
    if (command->run)
        flow_run_drop(command->run);
    command->run = NULL;
    flow_template_unref(command->find.tmpl);
    command->find.tmpl = NULL;
    flow_lost_end(command);
}

static const struct op_class command_class = {
    .name = "flow_command",
    OP_STEPS(steps),
    .on_end = on_end,
};

void flow_command_start(struct flow_service *service, struct flow_command *command,
                        const struct flow_request *request, struct op *parent)
{
    ASSERT(parent && !uuid_is_nil(request->account_id));
    *command = (struct flow_command){.service = service, .in = *request};
    list_init(&command->carried.link);
    op_start(&command->op, &command_class, service->config.loop, parent, COMMAND_ARENA_MAX);
    command->op.request_id = request->by.request_id;
}
