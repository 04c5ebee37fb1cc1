/*
 * The start of a flow, or of a call that is held: the steps of a flow_command until the flow is
 * stored.
 */
#include "base/clock.h"
#include "flow/command.h"
#include "vault/key.h"

enum {
    INPUT_BYTES_MAX = 64 * 1024 * 1024,
    REPORT_BYTES_MAX = 16 * 1024,
    FINGERPRINT_BYTES_MAX = INPUT_BYTES_MAX + 1024,
    SEND_MS_MAX = 20000, /* for this long a start is sent again, after the pool's own retries */
    /* A start waits for the reply to an equal one 50 ms, 100 ms ...: 6.4 s in all. */
    LOST_WAIT_MS = 50,
    LOST_WAITS_MAX = 7,
};

/* ---- a start's key ---- */

/* Makes the fingerprint of the request. Its first line distinguishes it from an execution's
 * fingerprint, and its format from others. */
static int make_fingerprint(struct flow_command *command)
{
    struct buf text;
    buf_init(&text, FINGERPRINT_BYTES_MAX);
    buf_append(&text, SLICE("flow 1\n"));
    buf_append(&text, command->in.template_key);
    buf_append_char(&text, '\n');
    buf_append(&text, command->in.trigger_type);
    buf_append_char(&text, '\n');
    json_write_sorted(&text, command->in.input);
    bool is_ok = buf_is_ok(&text);
    vault_sha256(buf_slice(&text), command->claim.fingerprint);
    buf_deinit(&text);
    return is_ok ? OK : ERR_NOMEM;
}

/* The key is loaded before the checks: a flow that was started is returned whatever has changed
 * since then. The key of a hold is free until its call is made, but is not given to a start. */
static enum op_result load_key(struct flow_command *command)
{
    ASSERT(uuid_is_nil(command->in.flow_id));
    if (make_fingerprint(command) != OK)
        return flow_command_unavailable(command);
    command->claim.key = command->in.idempotency_key;
    if (!command->claim.key.ptr)
        command->claim.key = command->lost_key = exec_lost_key(
            command->in.lost_by, command->claim.fingerprint, 0, flow_command_arena(command));
    if (!command->claim.key.ptr)
        return flow_command_unavailable(command);
    store_claim_find_held(command->service->config.pool, &command->query, &command->op,
                          command->in.account_id, command->claim.key);
    return OP_WAIT;
}

/* Whether no flow of the template can be carried out; the command is then answered. A template with
 * a hidden action is unknown. */
static bool refuse_start(struct flow_command *command, const struct flow_template *tmpl)
{
    struct policy_verdict verdict;
    flow_template_foresee(tmpl, *command->service->config.catalog, command->in.policy, &verdict);
    const char *what = verdict.decision == POLICY_HOLD
                           ? "holds a call that this flow makes without an approval"
                           : "does not allow a call that this flow makes";
    if (!flow_template_is_refused(&verdict))
        return false;
    if (verdict.is_hidden)
        (void)flow_command_answer(command, FLOW_ANSWER_NO_TEMPLATE, SLICE_NONE);
    else
        (void)flow_command_conflict(
            command, arena_printf(flow_command_arena(command),
                                  "The policy of this API key %s%s%.*s. Nothing was started.", what,
                                  verdict.reason.len > 0 ? ": " : "", SLICE_ARG(verdict.reason)));
    return true;
}

enum op_result flow_start_begin(struct flow_command *command)
{
    if (command->in.hold)
        return op_jump(&command->op, COMMAND_START);
    const struct flow_template *tmpl =
        flow_template_set_find(*command->service->config.templates, command->in.template_key);
    if (tmpl && command->in.policy && refuse_start(command, tmpl))
        return OP_DONE;
    if (tmpl && !(command->in.scopes & flow_start_scope(tmpl)))
        return flow_command_answer(command, FLOW_ANSWER_NOT_IN_SCOPE, SLICE_NONE);
    if (tmpl && tmpl->schema)
        command->in.input = schema_drop_nulls(tmpl->schema, command->in.input, &command->op.arena);
    bool may_be_lost = !uuid_is_nil(command->in.lost_by) && tmpl && tmpl->writes;
    return command->in.idempotency_key.ptr || may_be_lost ? load_key(command)
                                                          : op_jump(&command->op, COMMAND_START);
}

static enum op_result refuse_key(struct flow_command *command)
{
    return flow_command_answer(
        command, FLOW_ANSWER_KEY_MISMATCH,
        SLICE("This idempotency_key was used for a different request. Nothing was started. Use a "
              "new key for a new request, or send the first request again unchanged."));
}

/* The reply to an equal start without a key is not delivered yet. If its client has left, the key
 * is bound within milliseconds. */
static enum op_result wait_for_reply(struct flow_command *command)
{
    if (command->waits < LOST_WAITS_MAX)
        command->waits++;
    op_sleep(&command->op, &command->timer, (uint64_t)LOST_WAIT_MS << (command->waits - 1),
             "the reply to an equal start");
    return op_wait_then(&command->op, COMMAND_BEGIN);
}

/* The key is already bound. Only a flow can have the same fingerprint, and it became durable
 * together with its key. */
static enum op_result follow_key(struct flow_command *command)
{
    if (store_claim_is_spent(&command->found))
        return flow_command_answer(
            command, FLOW_ANSWER_KEY_GONE,
            SLICE("A person did not agree to this start. Nothing was started. Do not try again "
                  "unless they ask for it."));
    if (memcmp(command->claim.fingerprint, command->found.fingerprint,
               sizeof(command->claim.fingerprint)) != 0)
        return refuse_key(command);
    if (command->found.state == CLAIM_IN_FLIGHT)
        return wait_for_reply(command);
    command->is_replayed = true;
    command->flow_id = command->in.flow_id = command->found.execution_id;
    return op_jump(&command->op, COMMAND_LOAD);
}

enum op_result flow_start_check_key(struct op *op)
{
    struct flow_command *command = command_of(op);
    command->found.has_hold = false;
    int status = store_claim_result(&command->query, &command->found);
    if (status == ERR_NOTFOUND)
        /* the hold is that of an execution, which waits for an approval */
        return command->found.has_hold ? refuse_key(command) : OP_NEXT;
    if (status == OK && command->waits >= LOST_WAITS_MAX &&
        command->found.state == CLAIM_IN_FLIGHT) { /* both are meant */
        if (command->is_client_gone)               /* it may ask again */
            return flow_command_unavailable(command);
        command->claim.key = SLICE_NONE;
        return OP_NEXT;
    }
    return status == OK ? follow_key(command) : flow_command_unavailable(command);
}

/* ---- start ---- */

/* Validated a second time, now with a report: valid inputs are the usual case and need none. */
static enum op_result refuse_input(struct flow_command *command, const struct flow_template *tmpl)
{
    struct schema_report report;
    struct buf text;
    schema_report_init(&report, &command->op.arena, SLICE("/input"));
    if (schema_validate(tmpl->schema, command->in.input, &report))
        UNREACHABLE("it was refused a moment ago");
    buf_init(&text, REPORT_BYTES_MAX);
    schema_report_write(&report, &text);
    buf_append_char(&text, '.');
    return flow_command_answer(command, FLOW_ANSWER_INVALID,
                               arena_take(flow_command_arena(command), &text));
}

static struct flow new_flow(const struct flow_command *command, const struct flow_template *tmpl)
{
    int64_t now = clock_shared_us();
    return (struct flow){
        .account_id = command->in.account_id,
        .id = uuid_is_nil(command->in.flow_id) ? uuid_v7() : command->in.flow_id,
        .template_key = tmpl->key,
        .template_version = tmpl->version,
        .trigger_type = command->in.trigger_type,
        .owner = node_id(command->service->config.node),
        .deadline = tmpl->deadline_s > 0 ? now + (int64_t)tmpl->deadline_s * 1000000 : 0,
        .created_at = now,
        .updated_at = now,
        .parent_id = command->in.by.parent_id,
    };
}

/* A run with this id is in memory, so the first start may not be stored yet and may still fail.
 * This command waits for it once before it reports a repetition. */
static enum op_result repeated(struct flow_command *command)
{
    if (command->tries == 0)
        return flow_command_retry(command, COMMAND_START);
    return flow_command_answer(command, FLOW_ANSWER_REPEATED, SLICE_NONE);
}

/* The key outlives key_guards_until by at least 30 s: that is the largest difference of clocks that
 * is not reported (CLOCK_OFF_S_MAX in node/node.c). */
int64_t flow_key_lifetime_ms(const struct flow_service *service, int64_t guards_until)
{
    int64_t usual = (int64_t)service->config.idempotency_ttl_ms;
    int64_t least = (guards_until - clock_shared_us()) / 1000 + 30 * 1000;
    return usual > least ? usual : least;
}

/* Returns when the request began, whose policy the command has. */
static uint64_t request_began_ns(const struct flow_command *command)
{
    const struct op *op = &command->op;
    while (op->parent)
        op = op->parent;
    return op->started_ns;
}

/* A call that an approval cannot show is not held. */
static enum op_result refuse_hold(struct flow_command *command)
{
    bool is_short = flow_run_scratch(command->run)->is_exhausted;
    slice message = is_short
                        ? SLICE_NONE
                        : arena_dup(flow_command_arena(command), command->run->plan.error.message);
    flow_run_drop(command->run);
    command->run = NULL;
    return message.ptr ? flow_command_answer(command, FLOW_ANSWER_INVALID, message)
                       : flow_command_unavailable(command);
}

enum op_result flow_start_plan(struct op *op)
{
    struct flow_command *command = command_of(op);
    struct flow_service *service = command->service;
    struct flow_template *tmpl = command->in.tmpl;
    if (!tmpl)
        tmpl = flow_template_set_find(*service->config.templates, command->in.template_key);
    if (!tmpl)
        return flow_command_answer(command, FLOW_ANSWER_NO_TEMPLATE, SLICE_NONE);
    if (!uuid_is_nil(command->in.template_whole) &&
        !uuid_eq(command->in.template_whole, tmpl->whole))
        return flow_command_conflict(
            command, SLICE("The template was changed after a person had agreed to it. "
                           "Nothing was started. Start it again."));
    if (tmpl->schema && !schema_validate(tmpl->schema, command->in.input, NULL))
        return refuse_input(command, tmpl);
    command->input_json = json_text_of(command->in.input, &command->op.arena, INPUT_BYTES_MAX);
    if (!command->input_json.ptr)
        return flow_command_unavailable(command);
    if (!flow_command_can_run(command))
        return OP_DONE;
    struct flow flow = new_flow(command, tmpl);
    /* If the first start was sent by another node, the statement itself finds the repetition
     * (flow_start_sent). */
    if (flow_run_is_known(service, flow.id))
        return repeated(command);
    command->run = flow_run_new(service, &flow, tmpl, command->input_json, &command->in);
    if (!command->run)
        return flow_command_unavailable(command);
    if (command->in.hold && command->run->plan.kind == FLOW_PLAN_FAULT)
        return refuse_hold(command);
    flow_policy_found_at(command->run, request_began_ns(command));
    command->flow_id = flow.id;
    command->claim.execution_id = flow.id;
    command->claim.lifetime_ms = command->lost_key.ptr
                                     ? EXEC_LOST_MS
                                     : flow_key_lifetime_ms(service, command->in.key_guards_until);
    if (command->lost_key.ptr && command->claim.key.ptr)
        command->claim.owner = node_id(service->config.node);
    flow_trace_begin(command->run, command->in.trace);
    flow_title_begin(command->run);
    return OP_NEXT;
}

enum op_result flow_start_send(struct op *op)
{
    struct flow_command *command = command_of(op);
    struct flow_start start = {
        .flow = &command->run->transition.next,
        .input = command->input_json,
        .actor = command->in.by.actor,
        .waiting_input = flow_run_waiting_input(command->run),
        .trace = command->run->whole.trace,
        .title = command->run->whole.title,
        .claim = command->claim.key.ptr ? &command->claim : NULL,
        .hold = command->in.hold,
        .event = command->run->transition.event,
    };
    command->is_sent = true;
    flow_lost_begin(command);
    store_flow_start(command->service->config.pool, &command->query, op, &start);
    return OP_WAIT;
}

/* The start may have been stored. The statement is sent again until it is answered. After
 * SEND_MS_MAX it is left to the adopter, which finds the flow if there is one. */
static enum op_result send_again(struct flow_command *command)
{
    struct op *op = &command->op;
    command->query.is_unknown = true; /* even after ERR_NOMEM */
    if (loop_now_ns(op->loop) - op->started_ns < SEND_MS_MAX * UINT64_C(1000000)) {
        op_sleep(op, &command->timer, FLOW_COMMAND_AGAIN_MS,
                 "the database, to learn whether the flow began");
        return op_wait_then(op, COMMAND_SEND);
    }
    command->service->has_lost = true;
    flow_run_drop(command->run);
    command->run = NULL;
    return flow_command_unavailable(command);
}

/* Nothing was stored. */
static enum op_result start_failed(struct flow_command *command, int status)
{
    flow_run_drop(command->run);
    command->run = NULL;
    command->is_sent = false;
    flow_lost_drop(command);
    if (status == OK && command->in.hold) {
        command->flow_id = command->held.flow_id;
        return flow_command_answer(command, FLOW_ANSWER_REPEATED, SLICE_NONE);
    }
    if (status == OK)
        return follow_key(command); /* another request was faster */
    if (status == ERR_NOTFOUND && command->in.hold)
        return flow_command_conflict(
            command, uuid_is_nil(command->in.by.parent_id)
                         ? SLICE("This account has 10,000 calls that wait for an approval. "
                                 "Nothing was done.")
                         : SLICE("This user has 10,000 calls that wait for an approval. "
                                 "Nothing was done."));
    /* the flow's id exists already */
    if (status == ERR_INVALID && !uuid_is_nil(command->in.flow_id))
        return flow_command_answer(command, FLOW_ANSWER_REPEATED, SLICE_NONE);
    op_log(&command->op, LOG_WARN, "a flow could not be started", LOG_INT("status", status),
           LOG_STR("cause", command->query.message));
    return flow_command_unavailable(command);
}

/* Reads the result of the start. *is_made: whether it was this request that made a flow. */
static int start_result(struct flow_command *command, bool *is_made)
{
    int status;
    if (command->in.hold) {
        status = store_hold_start_result(&command->query, &command->held);
        *is_made = status == OK && uuid_eq(command->held.flow_id, command->flow_id);
    } else if (command->claim.key.ptr) {
        status = store_claim_result(&command->query, &command->found);
        *is_made = status == OK && command->found.state == CLAIM_WON;
    } else {
        status = store_flow_start_result(&command->query);
        *is_made = status == OK;
    }
    return status;
}

enum op_result flow_start_sent(struct op *op)
{
    struct flow_command *command = command_of(op);
    struct flow_run *run = command->run;
    bool is_made;
    ASSERT(run && uuid_eq(run->flow.id, command->flow_id));
    int status = start_result(command, &is_made);
    if (flow_command_is_lost(status))
        return send_again(command);
    if (!is_made)
        return start_failed(command, status);
    if (store_has_event(&command->query))
        event_written(command->service->config.events, run->flow.account_id,
                      run->transition.event.id);
    command->run = NULL;
    command->is_sent = false;
    command->is_started = true;
    flow_lost_end(command);
    command->flow = run->transition.next;
    command->flow.template_key = command->flow.trigger_type = SLICE_NONE; /* the run's */
    command->whole = (struct flow_whole){
        .flow = run->flow,
        .input = command->input_json,
        .actor = command->in.by.actor,
        .title = run->whole.title,
    };
    enum op_result result = flow_command_view(command, &command->whole, run->tmpl);
    flow_trace_started(run, command->in.trace, op->started_ns);
    flow_run_launch(run);
    return result;
}
