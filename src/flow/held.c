/*
 * The call of a hold (exec/hold.h), in a flow of the template FLOW_HELD_KEY. Unlike the call of any
 * other step it is an execution: it has the key of the hold, a claim and a record. The record is
 * the truth about it, and the step only follows.
 *
 * Before each attempt, be it a retry, or after an adoption or a resume, one statement looks up what
 * earlier attempts have left: the execution's id in the hold, the record of that id, and the claim
 * of the key. The call is made only if there is neither, or if the record proves that nothing was
 * done, and always under a new id, which is stored first. So it does not matter how soon the key is
 * forgotten (idempotency-ttl), or which node ends the claim of a dead one.
 */
#include "base/clock.h"
#include "flow/hint.h"
#include "flow/internal.h"
#include "json/scan.h"

enum {
    /* Housekeeping keeps a record for longer than this. After it, a missing record proves
     * nothing. */
    RECORD_MS_MIN = 12 * 3600 * 1000,
};

#define NOT_AGAIN \
    "Resume does not make the call again: a new request with another idempotency_key does."

void flow_held_check(struct flow_run *run)
{
    ASSERT(run->tmpl->is_held && run->flow.status == FLOW_RUNNING);
    store_hold_check(run->service->config.pool, &run->query, &run->op, run->flow.account_id,
                     run->flow.id, run->flow.rev, run->flow.owner);
}

/* The call may have had an effect, or has had one: it is never made again. */
static void close_error(struct flow_error *error)
{
    ASSERT(error->effect != EXEC_EFFECT_NONE);
    error->is_retryable = error->is_passing = false;
    error->is_final = error->is_closed = true;
    error->hint = error->effect == EXEC_EFFECT_UNKNOWN
                      ? SLICE("The outcome is unknown: the write may or may not have happened. "
                              "Check first. " NOT_AGAIN)
                      : SLICE("What was done stays done. " NOT_AGAIN);
}

static struct flow_error unknown_end(slice message)
{
    struct flow_error error = flow_error_make("execution_failed", message, SLICE_NONE);
    error.effect = EXEC_EFFECT_UNKNOWN;
    close_error(&error);
    return error;
}

/* The hold was removed: its flow had ended for longer than the hold's lifetime. Another request may
 * have its key by now. */
static struct flow_error hold_gone(const struct flow_run *run)
{
    struct flow_error error = flow_error_make(
        "policy_blocked", SLICE("This hold ended long ago, so its call is not made any more."),
        SLICE("Send the request again: it waits for a new approval."));
    error.is_final = error.is_closed = true;
    if (run->progress.is_in_doubt) {
        error.effect = EXEC_EFFECT_UNKNOWN;
        close_error(&error);
    }
    return error;
}

/* Stored in place of an execution's id when the policy did not hold the call any more: it may have
 * been made by the same request since, which needs no key, so a resume does not make it. */
static const struct uuid closed = {{0xff}};

bool flow_hold_is_made(struct uuid execution_id)
{
    return !uuid_is_nil(execution_id) && !uuid_eq(execution_id, closed);
}

static struct flow_error closed_error(void)
{
    struct flow_error error = flow_error_make(
        "policy_blocked", SLICE("The policy did not hold this call any more, so it was not made."),
        SLICE("The same request may have been made without an approval since. "
              "Check the executions before it is sent again."));
    error.is_final = error.is_closed = true;
    return error;
}

static struct flow_error taken_error(void)
{
    struct flow_error error = flow_error_make(
        "validation_error",
        SLICE("Another request was made with the idempotency_key of this call. Nothing was done."),
        SLICE("Send the request with a new idempotency_key. Resume works once the key is free."));
    error.is_final = true;
    return error;
}

/* A record that says that nothing was done is not a result: the call may be made again. */
static enum flow_held_next take_record(struct flow_run *run, slice *output,
                                       struct flow_error *error)
{
    const struct hold_state *state = &run->held.state;
    struct arena *arena = flow_run_scratch(run);
    if (state->is_succeeded) {
        slice found = json_scan_get(state->summary, SLICE("output"), arena);
        bool fits = found.ptr && found.len <= FLOW_OUTPUT_BYTES_MAX;
        *output = fits ? found : SLICE("null"); /* the execution has it */
        return FLOW_HELD_COMPLETED;
    }
    const struct json *summary = json_parse(arena, state->summary, &json_limits_provider, NULL);
    slice code = json_get_str(summary, SLICE("error_code"));
    *error = unknown_end(json_get_str(summary, SLICE("message")));
    if (code.ptr)
        error->code = code;
    if (!summary)
        return FLOW_HELD_FAILED;
    error->effect = flow_error_effect(summary, error->code);
    if (error->effect == EXEC_EFFECT_NONE)
        return FLOW_HELD_CALL;
    close_error(error);
    return FLOW_HELD_FAILED;
}

/* Whether a record of the last attempt may have been removed, and the flow's own rows do not say
 * how that attempt ended. */
static bool may_be_forgotten(const struct flow_run *run)
{
    const struct uuid id = run->held.state.execution_id;
    return run->progress.is_in_doubt && !uuid_is_nil(id) &&
           clock_shared_us() / 1000 - uuid_v7_wall_ms(id) > RECORD_MS_MIN;
}

/* Neither a record nor a claim of the last attempt: nothing was sent, or nothing was done. */
static enum flow_held_next call_again(struct flow_run *run)
{
    run->progress.is_in_doubt = false;
    run->held.execution_id = uuid_v7();
    run->held.is_followed = false;
    return FLOW_HELD_CALL;
}

void flow_held_follow(struct flow_run *run, struct uuid execution_id)
{
    ASSERT(!uuid_is_nil(execution_id));
    run->held.execution_id = execution_id;
    run->held.is_followed = true;
}

static enum flow_held_next take_state(struct flow_run *run, slice *output, struct flow_error *error)
{
    const struct hold_state *state = &run->held.state;
    bool is_taken = !uuid_is_nil(state->holder_id);
    bool has_holder = is_taken && state->is_same;
    if (uuid_eq(state->execution_id, closed)) {
        *error = closed_error();
        return FLOW_HELD_FAILED;
    }
    if (state->has_record) {
        enum flow_held_next next = take_record(run, output, error);
        return next == FLOW_HELD_CALL ? call_again(run) : next;
    }
    if (has_holder && !uuid_eq(state->holder_id, state->execution_id)) {
        /* the same request, sent again with its key, when the policy did not hold it */
        flow_held_follow(run, state->holder_id);
        return FLOW_HELD_CALL;
    }
    if (is_taken && !state->is_bound)
        return FLOW_HELD_WAIT; /* it ends, or the recovery of claims ends it */
    if (is_taken && !has_holder) {
        *error = taken_error();
        return FLOW_HELD_FAILED;
    }
    if (has_holder || may_be_forgotten(run)) {
        *error = unknown_end(SLICE("The record of this call is no longer stored."));
        return FLOW_HELD_FAILED;
    }
    return call_again(run);
}

enum flow_held_next flow_held_checked(struct flow_run *run, slice *output, struct flow_error *error)
{
    int status = store_hold_check_result(&run->query, &run->held.state);
    if (status == ERR_NOTFOUND) {
        *error = hold_gone(run);
        return FLOW_HELD_FAILED;
    }
    if (status != OK)
        return FLOW_HELD_WAIT;
    return run->held.state.is_ours ? take_state(run, output, error) : FLOW_HELD_LOST;
}

void flow_held_intend(struct flow_run *run)
{
    run->held.intent = (struct hold_intent){
        .account_id = run->flow.account_id,
        .key = run->held.state.key,
        .flow_id = run->flow.id,
        .execution_id = run->held.execution_id,
        .was = run->held.state.execution_id,
        .rev = run->flow.rev,
        .owner = run->flow.owner,
    };
    store_hold_intend(run->service->config.pool, &run->query, &run->op, &run->held.intent);
}

/* After any failure the hold is looked up again: the intent may be stored. */
bool flow_held_intended(struct flow_run *run)
{
    if (store_hit_result(&run->query) != OK)
        return false;
    run->held.state.execution_id = run->held.execution_id;
    return true;
}

/* Whether what held a call without a rule would hold it now: a key's own limit never changes, a
 * setting may have been changed. */
static bool holds_writes(const struct flow_run *run)
{
    slice by = json_get_str(run->input, SLICE("unattended"));
    return slice_eq_cstr(by, "key") ||
           (slice_eq_cstr(by, "setting") && run->service->config.holds_unattended);
}

/* The key is made of the request if the caller gave none: then an equal request that is not held
 * runs without it. And a run under the caller's key is forgotten after some time. So the call is
 * made only if it is still held, unless such a run would be found. */
void flow_held_request(struct flow_run *run, struct exec_request *request)
{
    const struct hold_state *state = &run->held.state;
    /* until then the claim of a run that is younger than the hold is there */
    int64_t remembered_until = run->flow.created_at + state->lifetime_ms * 1000;
    bool is_forgotten = clock_shared_us() > remembered_until;
    slice made = exec_hold_key(state->fingerprint, state->asker, &run->op.arena);
    int64_t pages = 1;
    ASSERT(!run->held.is_followed && !uuid_is_nil(state->execution_id));
    (void)json_to_i64(JSON_GET(run->input, "pages"), &pages);
    request->is_recorded_by_caller = false;
    request->is_approved = request->is_confirmed;
    request->is_only_if_held = is_forgotten || !made.ptr || slice_eq(made, state->key);
    request->key_guards_until = remembered_until;
    request->holds_writes = holds_writes(run);
    request->idempotency_key = state->key;
    request->fingerprint = state->fingerprint;
    request->execution_id = state->execution_id;
    request->approval_flow_id = run->flow.id;
    request->provider_name = SLICE_NONE; /* it is made of the key, as in any execution */
    request->pages_max = pages > 1 ? (unsigned)pages : 1;
}

bool flow_held_is_recorded(struct flow_run *run, const struct exec *exec)
{
    const struct exec_outcome *out = exec_outcome_of(exec);
    if (out->is_unheld)
        flow_held_follow(run, closed);
    else if (out->is_replayed && !uuid_eq(out->execution_id, run->held.state.execution_id))
        flow_held_follow(run, out->execution_id);
    return out->is_unheld || out->is_replayed || out->reason == EXEC_SUCCEEDED ||
           out->reason == EXEC_OUTCOME_UNKNOWN;
}

/* The call is made with the connection that was shown, so without that one it is never made. */
void flow_held_fail(enum exec_reason reason, struct flow_error *error)
{
    if (error->effect != EXEC_EFFECT_NONE)
        close_error(error);
    else if (reason == EXEC_CONNECTION_UNKNOWN)
        error->is_final = error->is_closed = true;
}

/* Nothing is sent any more, since the flow may belong to another process or to none. A request that
 * was sent continues until it is recorded. */
void flow_held_leave(struct flow_run *run)
{
    run->proof.sent_boot_ns = 0;
    run->proof.rev = 0; /* which no row has: a proof that is on its way does not count */
    exec_client_gone(run->progress.exec);
}
