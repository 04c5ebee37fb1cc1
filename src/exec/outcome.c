/*
 * Names of the reasons: they are stored and counted under them.
 */
#include "exec/outcome.h"

static const char *const names[EXEC_REASONS] = {
    [EXEC_SUCCEEDED] = "succeeded",
    [EXEC_INTEGRATION_UNKNOWN] = "integration_unknown",
    [EXEC_ACTION_UNKNOWN] = "action_unknown",
    [EXEC_INPUT_INVALID] = "input_invalid",
    [EXEC_CONFIRMATION_MISSING] = "confirmation_missing",
    [EXEC_NOT_CONNECTED] = "not_connected",
    [EXEC_CONNECTION_UNKNOWN] = "connection_unknown",
    [EXEC_REAUTH_REQUIRED] = "reauth_required",
    [EXEC_KEY_REFUSED] = "key_refused",
    [EXEC_CONNECTION_AMBIGUOUS] = "connection_ambiguous",
    [EXEC_SCOPE_MISSING] = "scope_missing",
    [EXEC_OWN_RATE_LIMIT] = "own_rate_limit",
    [EXEC_CIRCUIT_OPEN] = "circuit_open",
    [EXEC_ADDRESS_REFUSED] = "address_refused",
    [EXEC_OPERATION_GONE] = "operation_gone",
    [EXEC_KEY_MISMATCH] = "key_mismatch",
    [EXEC_PROVIDER_FORBIDDEN] = "provider_forbidden",
    [EXEC_PROVIDER_RATE_LIMITED] = "provider_rate_limited",
    [EXEC_PROVIDER_INVALID] = "provider_invalid",
    [EXEC_PROVIDER_UNSUPPORTED] = "provider_unsupported",
    [EXEC_PROVIDER_ERROR] = "provider_error",
    [EXEC_TIMED_OUT] = "timed_out",
    [EXEC_UNREACHABLE] = "unreachable",
    [EXEC_BROKEN_OFF] = "broken_off",
    [EXEC_REPLY_UNREADABLE] = "reply_unreadable",
    [EXEC_REPLY_TOO_LARGE] = "reply_too_large",
    [EXEC_PARTLY_DONE] = "partly_done",
    [EXEC_OUTCOME_UNKNOWN] = "outcome_unknown",
    [EXEC_UNAVAILABLE] = "unavailable",
    [EXEC_STILL_RUNNING] = "still_running",
    [EXEC_CANCELLED] = "cancelled",
    [EXEC_INTERNAL] = "internal",
};

const char *exec_reason_name(enum exec_reason reason)
{
    ASSERT(reason < EXEC_REASONS);
    return names[reason];
}

enum exec_reason exec_reason_parse(slice name)
{
    for (unsigned i = 0; i < EXEC_REASONS; i++)
        if (slice_eq_cstr(name, names[i]))
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
