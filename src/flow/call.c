/*
 * One call of a tool_call step through the exec engine, which makes no claim and stores no
 * execution here: the flow's own rows are the intent and the result. Also evaluates the call's
 * outcome.
 */
#include "base/clock.h"
#include "call/summary.h"
#include "flow/hint.h"
#include "flow/internal.h"

enum {
    /* after this many consecutive unsent calls, a minute or more, the attempt fails */
    UNSENT_MAX = 200,
    RETRY_MS_MAX = 3600 * 1000,
    NEXT_BYTES_MAX = 4096,
    /* default numbers of attempts */
    TRIES_PASSING = 10,
    TRIES_SAFE = 3,
};

static const struct catalog_action *find_action(const struct flow_run *run, size_t step)
{
    return catalog_find_tool(*run->service->config.catalog, run->tmpl->steps[step].tool);
}

/* A call of an unknown action is safe: the execution refuses it before anything is sent. */
bool flow_call_is_safe(const struct flow_run *run, size_t step)
{
    const struct catalog_action *action = find_action(run, step);
    return !action || action->level == LEVEL_READ || action->is_idempotent ||
           catalog_has_provider_key(action);
}

bool flow_call_is_read(const struct flow_run *run, size_t step)
{
    const struct catalog_action *action = find_action(run, step);
    return action && action->level == LEVEL_READ; /* a removed action may have been a write */
}

/* Whether the call was confirmed at the start, or by a person's approval. */
static bool is_confirmed(const struct flow_run *run, const struct flow_step_def *step)
{
    switch (step->confirm) {
    case FLOW_CONFIRM_START:
        return true;
    case FLOW_CONFIRM_APPROVAL:
        return run->outputs[step->confirm_step].is_there;
    case FLOW_CONFIRM_NONE:
        break;
    }
    return false;
}

/* Makes a name from step and item. With the flow's id it makes the provider's idempotency key,
 * which is therefore the same each time the call is repeated, on any node. */
static slice provider_name(const struct flow_call *call, slice step_key, struct arena *arena)
{
    char room[160], digits[SLICE_U64_MAX];
    if (call->item == SIZE_MAX)
        return step_key;
    return arena_dup(arena,
                     SLICE_JOIN(room, step_key, SLICE("/"), slice_of_u64(call->item, digits)));
}

/* Returns the flow's deadline in loop time; 0 if there is none. A deadline is at least a
 * millisecond ahead, so that it is never 0. A call past the deadline is refused earlier
 * (flow_run_is_overdue). */
static uint64_t deadline_ns(const struct flow_run *run)
{
    int64_t left_us = run->flow.deadline - clock_shared_us();
    if (run->flow.deadline == 0)
        return 0;
    return loop_now_ns(run->op.loop) + (left_us > 1000 ? (uint64_t)left_us : 1000) * 1000;
}

/* The proof contains the row as it is now, after the transition that led to this call. Lanes of
 * a fan-out share it, which is safe because the row does not change while they run. */
struct exec *flow_call_start(const struct flow_call *call, struct op *parent)
{
    struct flow_run *run = call->run;
    const struct flow_step_def *step = flow_run_step(run);
    const struct catalog_action *action = find_action(run, run->plan.step);
    struct arena *arena = &parent->arena;
    slice integration = action ? arena_dup(arena, action->integration->integration_id) : step->tool;
    run->proof.flow_id = run->flow.id;
    run->proof.owner = run->flow.owner;
    run->proof.rev = run->flow.rev;
    struct exec_request request = {
        .account_id = run->flow.account_id,
        .by = {.actor = run->whole.actor,
               .request_id = run->op.request_id,
               .parent_id = run->flow.parent_id},
        .scopes = SCOPE_ALL, /* the scopes of the key were checked when the flow was started */
        .policy = run->policy.policy,
        .user = run->policy.user,
        .integration_id = integration,
        .action_id = step->tool,
        .input = call->input,
        .is_confirmed = is_confirmed(run, step),
        .is_approved = flow_policy_is_approved(run),
        .connection_id = call->connection_id,
        .is_recorded_by_caller = true,
        .proof = &run->proof,
        .is_in_doubt = call->is_in_doubt && !flow_call_is_read(run, run->plan.step),
        .provider_name = provider_name(call, step->key, arena),
        .provider_space = run->flow.id,
        .timeout_ms = step->timeout_ms,
        .deadline_ns = deadline_ns(run),
        .trace = flow_trace_of_call(run, arena),
    };
    if (!integration.ptr || !request.provider_name.ptr)
        return NULL;
    if (run->tmpl->is_held)
        flow_held_request(run, &request);
    return exec_start(run->service->config.exec, &request, parent);
}

/* Whether the same call will probably succeed later. A write that timed out without an effect
 * could not be sent; a read may just be slow. */
static bool is_passing(const struct exec_outcome *out, bool is_read)
{
    switch (out->reason) {
    case EXEC_PROVIDER_RATE_LIMITED:
    case EXEC_OWN_RATE_LIMIT:
    case EXEC_CIRCUIT_OPEN:
    case EXEC_UNREACHABLE:
        return true;
    case EXEC_TIMED_OUT:
        return !is_read;
    default:
        return slice_eq_cstr(exec_outcome_error_code(out), "rate_limited");
    }
}

/* Makes the error to store for a failed call. If the call is in doubt, not sending it this time
 * does not resolve the doubt. */
static struct flow_error error_of(const struct flow_call *call, const struct exec_outcome *out,
                                  struct arena *arena)
{
    bool is_read = flow_call_is_read(call->run, call->run->plan.step);
    bool is_unknown = call->is_in_doubt && !is_read && out->effect == EXEC_EFFECT_NONE;
    slice code = exec_outcome_error_code(out);
    slice tried =
        is_unknown
            ? SLICE("An earlier attempt of this call may have been carried out. Tried again: ")
            : SLICE("");
    struct flow_error error = {
        .code = code.len > 0 ? arena_dup(arena, code) : SLICE("execution_failed"),
        .message = arena_printf(arena, "%.*s%.*s", SLICE_ARG(tried), SLICE_ARG(out->message)),
        .is_retryable = exec_outcome_is_retryable(out),
        .retry_after_ms = out->retry_after_ms,
        .effect = is_unknown ? EXEC_EFFECT_UNKNOWN : out->effect,
    };
    if (is_unknown) /* automatic retries are limited to harmless ones */
        error.is_retryable &= flow_call_is_safe(call->run, call->run->plan.step);
    error.hint = flow_hint_of(out, error.effect, call->run->tmpl->is_held, arena);
    if (out->reason == EXEC_POLICY_DENIED && error.effect == EXEC_EFFECT_NONE &&
        flow_policy_is_own_approval(call->run))
        error.hint = flow_hint_own_approval();
    error.next_json = exec_next_action_render(out, arena);
    error.is_passing = error.effect == EXEC_EFFECT_NONE && is_passing(out, is_read);
    return error;
}

/* EXEC_UNAVAILABLE and EXEC_STILL_RUNNING do not concern the provider: the same attempt may call
 * again. A success that is too large fails without a retry, as the provider would send the same
 * answer. */
enum flow_call_end flow_call_result(const struct flow_call *call, const struct exec *exec,
                                    struct arena *arena, struct flow_error *error)
{
    const struct flow_run *run = call->run;
    const struct exec_outcome *out = exec_outcome_of(exec);
    switch (out->reason) {
    case EXEC_SUCCEEDED:
        if (out->output_json.len <= FLOW_OUTPUT_BYTES_MAX)
            return FLOW_CALL_SUCCEEDED;
        *error = flow_error_make(
            "execution_failed",
            arena_printf(
                arena,
                "The call succeeded, but its output has %zu bytes. A step stores at most 1 MB.",
                out->output_json.len),
            SLICE("Ask for less, for example for fewer items or fields."));
        error->effect = out->effect;
        return FLOW_CALL_FAILED;
    case EXEC_UNAVAILABLE:
    case EXEC_STILL_RUNNING:
        if (run->progress.unsent < UNSENT_MAX)
            return FLOW_CALL_UNSENT;
        break;
    case EXEC_CANCELLED:
    case EXEC_INTERNAL:
        return FLOW_CALL_CANCELLED;
    default:
        break;
    }
    *error = error_of(call, out, arena);
    return FLOW_CALL_FAILED;
}

/* Exponential back-off with full jitter. A provider's Retry-After replaces it; up to half a
 * second is added so that flows that received it together do not retry together. */
uint64_t flow_call_retry_ms(const struct flow_run *run, const struct flow_error *error,
                            int64_t tries)
{
    const struct flow_retry *retry = &flow_run_step(run)->retry;
    unsigned tries_max = retry->attempts_max;
    if (tries_max == 0)
        tries_max = error->is_passing                        ? TRIES_PASSING
                    : flow_call_is_safe(run, run->plan.step) ? TRIES_SAFE
                                                             : 1;
    if (!error->is_retryable || error->is_final || tries >= tries_max)
        return 0;
    uint64_t ceiling = retry->backoff_ms ? retry->backoff_ms : 1000;
    uint64_t most = retry->backoff_ms_max ? retry->backoff_ms_max : 60000;
    for (int64_t i = 1; i < tries && ceiling < most; i++)
        ceiling *= 2;
    uint64_t wait = 1 + random_below(ceiling < most ? ceiling : most);
    if (error->retry_after_ms > 0)
        wait = (uint64_t)error->retry_after_ms + random_below(500);
    return wait < RETRY_MS_MAX ? wait : RETRY_MS_MAX;
}

bool flow_run_is_overdue(const struct flow_run *run)
{
    return run->flow.deadline != 0 && clock_shared_us() >= run->flow.deadline;
}

struct flow_error flow_error_make(const char *code, slice message, slice hint)
{
    return (struct flow_error){
        .code = slice_cstr(code), .message = message, .hint = hint, .retry_after_ms = -1};
}

struct flow_error flow_error_memory(void)
{
    return flow_error_make("execution_failed",
                           SLICE("The server is out of memory. Nothing was sent."), SLICE_NONE);
}

struct flow_error flow_error_deadline(void)
{
    return flow_error_make("timeout", SLICE("The flow's deadline has passed."),
                           SLICE("Resume continues without a deadline."));
}

struct flow_error flow_error_unknown(void)
{
    struct flow_error error = flow_error_make(
        "execution_failed", SLICE("The server stopped while this write was under way."),
        flow_hint_unknown());
    error.effect = EXEC_EFFECT_UNKNOWN;
    return error;
}

slice flow_error_text(const struct flow_error *error, struct arena *arena)
{
    struct json_text text;
    bool is_said = slice_starts_with(error->hint, SLICE("The outcome is unknown"));
    slice hint = error->effect == EXEC_EFFECT_UNKNOWN && !is_said ? flow_hint_unknown()
                                                                  : error->hint;
    struct json_writer *w = json_text_begin(&text, 256 * 1024);
    json_open(w, '{');
    json_member_str(w, "code", error->code);
    json_member_str(w, "message", error->message.ptr ? error->message : SLICE(""));
    json_member_bool(w, "retryable", error->is_retryable);
    if (slice_eq_cstr(error->code, "rate_limited")) {
        int64_t ms = error->retry_after_ms < 0 ? EXEC_RETRY_AFTER_MS_DEFAULT
                                               : error->retry_after_ms;
        json_member_i64(w, "retry_after", ms > 1000 ? (ms + 999) / 1000 : 1);
    }
    json_member_str(w, "outcome", slice_cstr(exec_effect_name(error->effect)));
    if (error->is_closed)
        json_member_bool(w, "resumable", false);
    if (error->tries > 0)
        json_member_i64(w, "tries", error->tries);
    if (hint.len > 0)
        json_member_str(w, "hint", hint);
    if (error->next_json.ptr)
        json_member_raw(w, "recommended_next_action", error->next_json);
    json_close(w, '}');
    slice copy = json_text_take(&text, arena);
    if (copy.ptr)
        return copy;
    /* Out of memory or too large: a failed attempt must have an error. */
    return SLICE("{\"code\":\"execution_failed\",\"message\":\"\",\"retryable\":false,"
                 "\"outcome\":\"unknown\"}");
}

/* The previous version of the program did not store the effect; for a lost reply it used one of
 * these codes. */
enum exec_effect flow_error_effect(const struct json *error, slice code)
{
    slice name = json_get_str(error, SLICE("outcome"));
    for (enum exec_effect effect = EXEC_EFFECT_NONE; effect <= EXEC_EFFECT_UNKNOWN; effect++)
        if (slice_eq_cstr(name, exec_effect_name(effect)))
            return effect;
    bool is_lost = slice_eq_cstr(code, "timeout") || slice_eq_cstr(code, "execution_failed");
    return is_lost ? EXEC_EFFECT_UNKNOWN : EXEC_EFFECT_NONE;
}

struct flow_error flow_error_read(slice text, struct arena *arena)
{
    const struct json *error = json_parse(arena, text, &json_limits_provider, NULL);
    const struct json *next = JSON_GET(error, "recommended_next_action");
    slice code = json_get_str(error, SLICE("code"));
    int64_t wait_s = -1, tries = 0;
    if (!json_to_i64(JSON_GET(error, "retry_after"), &wait_s))
        wait_s = -1;
    if (!json_to_i64(JSON_GET(error, "tries"), &tries))
        tries = 0;
    if (!code.ptr)
        code = SLICE("execution_failed");
    return (struct flow_error){
        .code = code,
        .message = json_get_str(error, SLICE("message")),
        .hint = json_get_str(error, SLICE("hint")),
        .next_json = next ? json_text_of(next, arena, NEXT_BYTES_MAX) : SLICE_NONE,
        .retry_after_ms = wait_s < 0 ? -1 : wait_s * 1000,
        .effect = flow_error_effect(error, code),
        .tries = tries,
    };
}
