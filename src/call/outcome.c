/*
 * Names, codes and advice of each reason; see outcome.h.
 */
#include "call/outcome.h"

/* Whether the same request could succeed. RETRY_REPEATABLE and RETRY_SERVER_FAULT apply only if
 * there is no second effect and no key is bound, RETRY_SERVER_FAULT only to a provider's 5xx. */
enum retry { RETRY_NEVER, RETRY_ALWAYS, RETRY_REPEATABLE, RETRY_SERVER_FAULT };

struct fact {
    const char *name;       /* stored and counted under it */
    const char *error_code; /* NULL: succeeded, or without a summary */
    enum exec_next next;    /* if the outcome's advice is EXEC_ADVICE_OF_REASON */
    enum retry retry;
};

/* clang-format off: the table has columns */
static const struct fact facts[EXEC_REASONS] = {
    [EXEC_SUCCEEDED] = {"succeeded", NULL, .retry = RETRY_NEVER},
    [EXEC_INTEGRATION_UNKNOWN] = {"integration_unknown", "integration_not_found",
                                  .retry = RETRY_NEVER},
    [EXEC_ACTION_UNKNOWN] = {"action_unknown", "action_not_found", .retry = RETRY_NEVER},
    [EXEC_INPUT_INVALID] = {"input_invalid", "validation_error", .retry = RETRY_NEVER},
    [EXEC_CONFIRMATION_MISSING] = {"confirmation_missing", "policy_blocked", .retry = RETRY_NEVER},
    [EXEC_POLICY_DENIED] = {"policy_denied", "policy_blocked", .retry = RETRY_NEVER},
    [EXEC_HELD] = {"held", "policy_blocked", .retry = RETRY_ALWAYS},
    [EXEC_HOLD_OVER] = {"hold_over", "policy_blocked", .retry = RETRY_NEVER},
    [EXEC_NOT_CONNECTED] = {"not_connected", "integration_not_connected",
                            .next = EXEC_NEXT_CONNECT},
    [EXEC_CONNECTION_UNKNOWN] = {"connection_unknown", "integration_not_connected",
                                 .retry = RETRY_NEVER},
    [EXEC_REAUTH_REQUIRED] = {"reauth_required", "reauth_required", .next = EXEC_NEXT_RECONNECT},
    [EXEC_KEY_REFUSED] = {"key_refused", "unauthorized", .next = EXEC_NEXT_RECONNECT},
    [EXEC_CONNECTION_AMBIGUOUS] = {"connection_ambiguous", "policy_blocked", .retry = RETRY_NEVER},
    [EXEC_SCOPE_MISSING] = {"scope_missing", "forbidden", .next = EXEC_NEXT_RECONNECT},
    [EXEC_OWN_RATE_LIMIT] = {"own_rate_limit", "rate_limited", .retry = RETRY_ALWAYS},
    [EXEC_CIRCUIT_OPEN] = {"circuit_open", "execution_failed", .retry = RETRY_ALWAYS},
    [EXEC_ADDRESS_REFUSED] = {"address_refused", "unsupported_operation", .retry = RETRY_NEVER},
    [EXEC_OPERATION_GONE] = {"operation_gone", "unsupported_operation", .retry = RETRY_NEVER},
    [EXEC_KEY_MISMATCH] = {"key_mismatch", "validation_error", .retry = RETRY_NEVER},
    [EXEC_PROVIDER_FORBIDDEN] = {"provider_forbidden", "forbidden", .retry = RETRY_NEVER},
    [EXEC_PROVIDER_RATE_LIMITED] = {"provider_rate_limited", "rate_limited", .retry = RETRY_ALWAYS},
    [EXEC_PROVIDER_INVALID] = {"provider_invalid", "validation_error", .retry = RETRY_NEVER},
    [EXEC_PROVIDER_UNSUPPORTED] = {"provider_unsupported", "unsupported_operation",
                                   .retry = RETRY_NEVER},
    [EXEC_PROVIDER_ERROR] = {"provider_error", "execution_failed", .retry = RETRY_SERVER_FAULT},
    [EXEC_TIMED_OUT] = {"timed_out", "timeout", .retry = RETRY_REPEATABLE},
    [EXEC_UNREACHABLE] = {"unreachable", "execution_failed", .retry = RETRY_REPEATABLE},
    [EXEC_BROKEN_OFF] = {"broken_off", "execution_failed", .retry = RETRY_REPEATABLE},
    [EXEC_REPLY_UNREADABLE] = {"reply_unreadable", "execution_failed", .retry = RETRY_REPEATABLE},
    [EXEC_REPLY_TOO_LARGE] = {"reply_too_large", "execution_failed", .retry = RETRY_NEVER},
    [EXEC_PARTLY_DONE] = {"partly_done", "execution_failed", .retry = RETRY_REPEATABLE},
    [EXEC_OUTCOME_UNKNOWN] = {"outcome_unknown", "execution_failed", .retry = RETRY_REPEATABLE},
    [EXEC_UNAVAILABLE] = {"unavailable", NULL, .retry = RETRY_NEVER},
    [EXEC_STILL_RUNNING] = {"still_running", NULL, .retry = RETRY_NEVER},
    [EXEC_CANCELLED] = {"cancelled", NULL, .retry = RETRY_NEVER},
    [EXEC_INTERNAL] = {"internal", NULL, .retry = RETRY_NEVER},
    [EXEC_NOT_IN_SCOPE] = {"not_in_scope", NULL, .retry = RETRY_NEVER},
};
/* clang-format on */

static const struct fact *fact_of(enum exec_reason reason)
{
    ASSERT(reason < EXEC_REASONS);
    return &facts[reason];
}

const char *exec_reason_name(enum exec_reason reason)
{
    return fact_of(reason)->name;
}

enum exec_reason exec_reason_parse(slice name)
{
    for (unsigned i = 0; i < EXEC_REASONS; i++)
        if (slice_eq_cstr(name, facts[i].name))
            return (enum exec_reason)i;
    return EXEC_REASONS;
}

bool exec_reason_is_blocked(enum exec_reason reason)
{
    return reason >= EXEC_INTEGRATION_UNKNOWN && reason <= EXEC_KEY_MISMATCH;
}

bool exec_reason_is_failed(enum exec_reason reason)
{
    return reason >= EXEC_PROVIDER_FORBIDDEN && reason <= EXEC_OUTCOME_UNKNOWN;
}

const char *exec_reason_status(enum exec_reason reason)
{
    if (reason == EXEC_SUCCEEDED)
        return "succeeded";
    return exec_reason_is_blocked(reason)  ? "blocked"
           : exec_reason_is_failed(reason) ? "failed"
                                           : NULL;
}

const char *exec_effect_name(enum exec_effect effect)
{
    static const char *const names[] = {"not_done", "done", "partly", "unknown"};
    ASSERT(effect < ARRAY_LEN(names));
    return names[effect];
}

slice exec_outcome_error_code(const struct exec_outcome *outcome)
{
    return outcome->error_code.len > 0 ? outcome->error_code
                                       : slice_cstr(fact_of(outcome->reason)->error_code);
}

slice exec_reason_code(slice name)
{
    enum exec_reason reason = exec_reason_parse(name);
    return reason == EXEC_REASONS ? name : slice_cstr(fact_of(reason)->error_code);
}

/* Whether the request, sent again unchanged, could end differently and without a second effect. */
bool exec_outcome_is_retryable(const struct exec_outcome *outcome)
{
    if (outcome->is_replayed) /* the key is bound, so the answer would be the same */
        return false;
    switch (fact_of(outcome->reason)->retry) {
    case RETRY_ALWAYS:
        return true;
    case RETRY_REPEATABLE:
        return outcome->is_repeatable;
    case RETRY_SERVER_FAULT:
        return outcome->is_repeatable && outcome->provider_status >= 500;
    case RETRY_NEVER:
        break;
    }
    return false;
}

/* Whether the outcome has a time to wait before a retry. */
static bool has_retry_time(const struct exec_outcome *outcome)
{
    switch (outcome->reason) {
    case EXEC_UNAVAILABLE:
    case EXEC_STILL_RUNNING:
    case EXEC_CANCELLED:
        return true;
    case EXEC_INTERNAL:
    case EXEC_NOT_IN_SCOPE:
        return false;
    case EXEC_HELD:
    case EXEC_CIRCUIT_OPEN:
    case EXEC_PROVIDER_ERROR: /* a 503 that says when the outage ends */
        return outcome->retry_after_ms >= 0;
    default:
        return outcome->retry_after_ms >= 0 &&
               slice_eq_cstr(exec_outcome_error_code(outcome), "rate_limited");
    }
}

int64_t exec_outcome_retry_after_s(const struct exec_outcome *outcome)
{
    ASSERT(outcome->retry_after_ms >= -1);
    /* A time to retry would invite a second effect. */
    if (outcome->effect == EXEC_EFFECT_UNKNOWN || !has_retry_time(outcome))
        return 0;
    return outcome->retry_after_ms <= 1000 ? 1 : (outcome->retry_after_ms + 999) / 1000;
}

enum exec_next exec_outcome_next(const struct exec_outcome *outcome)
{
    switch (outcome->advice) {
    case EXEC_ADVICE_OF_REASON:
        return fact_of(outcome->reason)->next;
    case EXEC_ADVICE_RECONNECT:
        return EXEC_NEXT_RECONNECT;
    case EXEC_ADVICE_NONE:
        break;
    }
    return EXEC_NEXT_NONE;
}
