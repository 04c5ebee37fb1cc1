/*
 * The requests of one action, one behind the other (contrib/integrations/README.md "then"): at most
 * CATALOG_REQUESTS_MAX, each made of the input and the replies before it. The intent is recorded
 * before the first, the result behind the last; a process that dies between them leaves an unknown
 * outcome, as in a call. All of them share the deadline, the slot of the limits and the bound of
 * attempts.
 *
 * Where a later request fails after an earlier one has acted, the run is failed, says what was
 * done, and its idempotency key stays bound.
 */
#include "exec/internal.h"

/* ---- from one to the next ---- */

/* Its limits count it, but where it goes to another server without the credential. */
static uint64_t wait_of_limits(struct exec *exec)
{
    uint64_t wait_ms = exec->attempt.request.is_bare ? 0 : limits_repeat(&exec->gate.slot);
    return wait_ms * 2 > exec_left_ms(exec) ? 0 : wait_ms;
}

/* After a reply that stands. The request that was answered is the one that was built. */
enum op_result exec_step_next_request(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(exec->progress.at <= exec->action->then_count);
    bool has_moved = exec->attempt.request.at < exec->progress.at;
    if (exec->out.reason != EXEC_SUCCEEDED || !has_moved)
        return OP_NEXT;
    exec->attempt.is_any_byte_sent = exec->attempt.call.is_any_byte_sent = false;
    if (exec_build_request(exec) == OP_STOP || exec_change_origin(exec) == OP_STOP)
        return OP_NEXT; /* former pages are the result */
    exec->pages.attempts += exec->out.attempts;
    exec->out.attempts = 0;
    uint64_t wait_ms = wait_of_limits(exec);
    if (wait_ms == 0)
        return op_jump(op, EXEC_STEP_CALL);
    op_sleep(op, &exec->timer, wait_ms, "its connection's limits");
    return op_wait_then(op, EXEC_STEP_CALL);
}

/* For an action whose whole run can be repeated but whose later request cannot. The outcome is put
 * back after the build, which may set one: the failure that led here is the run's if no retry
 * follows. */
bool exec_start_over(struct exec *exec)
{
    ASSERT(exec->progress.at > 0 && exec->out.reason != EXEC_SUCCEEDED);
    struct exec_outcome kept = exec->out;
    exec->progress.former_url = exec->attempt.request.url;
    exec->progress.at = 0;
    bool is_ready = exec_build_request(exec) == OP_NEXT && exec_change_origin(exec) == OP_NEXT;
    exec->out = kept;
    return is_ready;
}

/* ---- what was done ---- */

/* Whether the request that failed may have done its part all the same. */
static bool is_unknown(const struct exec *exec)
{
    unsigned status = exec->out.provider_status;
    switch (exec->out.reason) {
    case EXEC_TIMED_OUT:
    case EXEC_BROKEN_OFF:
    case EXEC_REPLY_UNREADABLE:
    case EXEC_REPLY_TOO_LARGE:
        return exec->attempt.call.is_any_byte_sent;
    case EXEC_PROVIDER_ERROR:
        return exec->attempt.call.is_any_byte_sent && status >= 500;
    default:
        return false;
    }
}

/* Whether a later try of all could end otherwise. */
static bool is_passing(enum exec_reason reason)
{
    return reason == EXEC_PROVIDER_RATE_LIMITED || reason == EXEC_OWN_RATE_LIMIT ||
           reason == EXEC_CIRCUIT_OPEN || reason == EXEC_UNREACHABLE || reason == EXEC_TIMED_OUT ||
           reason == EXEC_UNAVAILABLE;
}

static slice partly_hint(struct exec *exec)
{
    slice stays = SLICE("What was done stays done: the same request sent again would do it once "
                        "more. Do what is left in another way; the idempotency_key keeps this "
                        "answer.");
    if (!exec->out.is_hint_given)
        return stays;
    return arena_printf(&exec->op.arena, "%.*s %.*s", SLICE_ARG(exec->out.hint), SLICE_ARG(stays));
}

/* No code of the cause: "rate_limited" or "reauth_required" would have the whole sent again. */
static void settle_partly(struct exec *exec)
{
    struct exec_outcome *out = &exec->out;
    ASSERT(exec->progress.done.len > 0 && out->reason != EXEC_SUCCEEDED);
    bool is_refused = out->reason == EXEC_REAUTH_REQUIRED || out->reason == EXEC_KEY_REFUSED;
    if (is_refused)
        exec->record.refusal = out->reason;
    if (is_refused && out->advice == EXEC_ADVICE_OF_REASON)
        out->advice = EXEC_ADVICE_RECONNECT;
    out->is_repeatable = exec->in.is_recorded_by_caller && exec->action->is_idempotent &&
                         is_passing(out->reason);
    out->hint = partly_hint(exec);
    out->reason = EXEC_PARTLY_DONE;
    out->error_code = SLICE_NONE;
    out->retry_after_ms = -1;
}

void exec_settle(struct exec *exec)
{
    struct exec_outcome *out = &exec->out;
    const struct exec_progress *progress = &exec->progress;
    if (exec->record.is_settled || out->reason == EXEC_SUCCEEDED || progress->done.len == 0)
        return;
    exec->record.is_settled = true;
    bool is_open = is_unknown(exec);
    slice message =
        is_open
            ? arena_printf(&exec->op.arena, "%.*s; whether the rest was done is not known. %.*s",
                           SLICE_ARG(progress->done), SLICE_ARG(out->message))
            : arena_printf(&exec->op.arena, "%.*s, but %.*s. %.*s", SLICE_ARG(progress->done),
                           SLICE_ARG(progress->not_done), SLICE_ARG(out->message));
    if (message.ptr)
        out->message = out->display_summary = message;
    if (!is_open)
        settle_partly(exec);
}
