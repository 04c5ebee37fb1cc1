/*
 * The effects, certain or possible, of a run before the failed request: of an attempt whose reply
 * was lost, or of an earlier request of the action. Once a request may have had an effect, only a
 * reply to a later equal request settles it; a refusal of the later request does not
 * (src/api/README.md "Executions").
 */
#include "exec/internal.h"
#include "call/reply_words.h"

/* ---- doubt ---- */

/* The reply to an idempotent delete that an earlier attempt has already done. */
static bool finds_it_gone(const struct exec *exec)
{
    unsigned status = exec->out.provider_status;
    bool is_repeated = exec_is_in_doubt(exec) || exec->attempt.call.is_resent;
    return is_repeated && exec->action->level == LEVEL_DELETE && exec->action->is_idempotent &&
           exec->action->then_count == 0 && exec->attempt.call.result == HTTP_CALL_OK &&
           (status == 404 || status == 410);
}

static void succeed_as_gone(struct exec *exec)
{
    struct exec_outcome *out = &exec->out;
    out->reason = EXEC_SUCCEEDED;
    out->effect = EXEC_EFFECT_DONE;
    out->output_json = SLICE("null");
    out->message = out->hint = out->error_code = SLICE_NONE;
    out->retry_after_ms = -1;
    out->display_title = exec->action->title;
    out->display_summary = SLICE("It is deleted. The reply to an earlier request was lost.");
}

/* The client itself sends a request again if a kept connection ended before any reply: the reply
 * belongs to the second request. */
static bool is_first_sending_open(const struct exec *exec)
{
    return exec->attempt.call.is_resent && exec->out.effect == EXEC_EFFECT_NONE &&
           catalog_request_acts(exec->action, exec->attempt.request.at);
}

/* Uses request.at, since a success has advanced the position. */
void exec_doubt_learn(struct exec *exec)
{
    static const struct exec_outcome lost = {
        .reason = EXEC_BROKEN_OFF, .message = SLICE_INIT("The connection ended before a reply.")};
    struct exec_attempt *attempt = &exec->attempt;
    /* this is checked first: such a reply is a success and leaves no doubt */
    if (finds_it_gone(exec))
        succeed_as_gone(exec);
    bool is_unknown = exec->out.effect == EXEC_EFFECT_UNKNOWN;
    if (is_unknown || is_first_sending_open(exec)) {
        struct exec_outcome *kept = is_unknown ? ARENA_NEW(&exec->op.arena, struct exec_outcome)
                                               : NULL;
        if (kept)
            *kept = exec->out;
        bool is_later = !attempt->doubt || attempt->request.at > attempt->doubt_at;
        attempt->doubt = kept ? kept : &lost;
        attempt->doubt_at = is_later ? attempt->request.at : attempt->doubt_at;
    }
    if (exec->out.reason == EXEC_SUCCEEDED && attempt->request.at >= attempt->doubt_at)
        attempt->doubt = NULL;
}

/* Returns a reason after which clients do not repeat the request or send another one, as they might
 * after the reason of the last reply. */
static enum exec_reason reason_of_doubt(const struct exec_outcome *doubt)
{
    if (!doubt)
        return EXEC_OUTCOME_UNKNOWN;
    switch (doubt->reason) {
    case EXEC_TIMED_OUT:
    case EXEC_BROKEN_OFF:
    case EXEC_REPLY_UNREADABLE:
    case EXEC_REPLY_TOO_LARGE:
        return doubt->reason;
    default:
        return EXEC_PROVIDER_ERROR;
    }
}

/* Whether repeating the whole action later could end differently. */
static bool is_passing(enum exec_reason reason)
{
    return reason == EXEC_PROVIDER_RATE_LIMITED || reason == EXEC_OWN_RATE_LIMIT ||
           reason == EXEC_CIRCUIT_OPEN || reason == EXEC_UNREACHABLE || reason == EXEC_TIMED_OUT ||
           reason == EXEC_UNAVAILABLE;
}

/* Why the last request failed, without the sentence "Nothing was done." at the end of our own
 * messages, which is not true of the whole run. */
static slice last_cause(const struct exec *exec)
{
    slice message = exec->out.message;
    ptrdiff_t at = slice_find(message, SLICE(" Nothing was "));
    return at < 0 || message.ptr[message.len - 1] != '.' ? message
                                                         : slice_first(message, (size_t)at);
}

static void settle_doubt(struct exec *exec)
{
    const struct exec_outcome *doubt = exec->attempt.doubt;
    struct exec_outcome *out = &exec->out;
    slice first = doubt ? doubt->message
                        : SLICE("An earlier attempt of this call may have been carried out.");
    slice last = last_cause(exec);
    slice message =
        arena_printf(&exec->op.arena, "%.*s Tried again: %.*s", SLICE_ARG(first), SLICE_ARG(last));
    out->message = out->display_summary = message.ptr ? message : first;
    out->is_repeatable = exec->in.is_recorded_by_caller && exec_is_repeat_safe(exec) &&
                         is_passing(out->reason);
    out->reason = reason_of_doubt(doubt);
    out->effect = EXEC_EFFECT_UNKNOWN;
    out->hint = reply_call_hint(out->reason, HTTP_CALL_RESULTS, out->effect, true, true);
    out->error_code = SLICE_NONE;
    out->retry_after_ms = -1;
    out->advice = EXEC_ADVICE_NONE;
}

/* ---- several requests ---- */

static slice partly_hint(struct exec *exec)
{
    slice stays = SLICE("What was done stays done. The same request sent again would do it once "
                        "more. Do the rest in another way. The idempotency_key keeps this answer.");
    if (!exec->out.is_hint_given)
        return stays;
    return arena_printf(&exec->op.arena, "%.*s %.*s", SLICE_ARG(exec->out.hint), SLICE_ARG(stays));
}

/* The outcome does not get the error code of the cause: "rate_limited" or "reauth_required" would
 * make clients repeat the whole action. */
static void settle_partly(struct exec *exec)
{
    struct exec_outcome *out = &exec->out;
    ASSERT(exec->progress.done.len > 0 && out->reason != EXEC_SUCCEEDED);
    if (exec->record.refusal != EXEC_SUCCEEDED && out->advice == EXEC_ADVICE_OF_REASON)
        out->advice = EXEC_ADVICE_RECONNECT;
    out->is_repeatable = exec->in.is_recorded_by_caller && exec->action->is_idempotent &&
                         is_passing(out->reason);
    out->hint = partly_hint(exec);
    out->reason = EXEC_PARTLY_DONE;
    out->effect = EXEC_EFFECT_PARTLY;
    out->error_code = SLICE_NONE;
    out->retry_after_ms = -1;
}

/* If the failed request may have had an effect, the rest may be done, so the outcome does not
 * become EXEC_PARTLY_DONE. */
static void say_done(struct exec *exec)
{
    struct exec_outcome *out = &exec->out;
    const struct call_progress *progress = &exec->progress;
    bool is_open = out->effect != EXEC_EFFECT_NONE;
    slice last = last_cause(exec);
    slice message =
        is_open
            ? arena_printf(&exec->op.arena, "%.*s. It is not known whether the rest was done. %.*s",
                           SLICE_ARG(progress->done), SLICE_ARG(last))
            : arena_printf(&exec->op.arena, "%.*s, but %.*s. %.*s", SLICE_ARG(progress->done),
                           SLICE_ARG(progress->not_done), SLICE_ARG(last));
    if (message.ptr)
        out->message = out->display_summary = message;
    if (!is_open)
        settle_partly(exec);
}

void exec_settle(struct exec *exec)
{
    enum exec_reason reason = exec->out.reason;
    bool is_in_doubt = exec_is_in_doubt(exec), has_done = exec->progress.done.len > 0;
    bool is_refused = reason == EXEC_REAUTH_REQUIRED || reason == EXEC_KEY_REFUSED;
    bool is_foreign = is_refused && exec_is_shared(exec);
    if (exec->record.is_settled || reason == EXEC_SUCCEEDED ||
        !(is_in_doubt || has_done || is_foreign))
        return;
    exec->record.is_settled = true;
    if (is_refused)
        exec->record.refusal = reason;
    if (is_foreign && !is_in_doubt && !has_done) { /* the user cannot reconnect it */
        exec_end_not_connected(exec);
        exec->out.error_code = SLICE_NONE;
        return;
    }
    if (is_in_doubt && exec->out.effect == EXEC_EFFECT_NONE)
        settle_doubt(exec);
    if (has_done)
        say_done(exec);
}
