/*
 * Maps outcomes to HTTP statuses and tool errors; see envelope.h. Each reason has a line
 * (asserted): 409 is blocked, 500 failed, 503 means that nothing was stored and the client may
 * retry. The tool endpoint differs in one status, 412 for a missing confirmation.
 */
#include "api/envelope.h"

/* clang-format off: the table has columns */
static const struct api_verdict verdicts[EXEC_REASONS] = {
    [EXEC_SUCCEEDED] = {200, 200, NULL, NULL},
    [EXEC_INTEGRATION_UNKNOWN] = {409, 409, "not_found", "integration_not_found"},
    [EXEC_ACTION_UNKNOWN] = {409, 409, "not_found", "action_not_found"},
    [EXEC_INPUT_INVALID] = {409, 409, "validation", "invalid_arguments"},
    [EXEC_CONFIRMATION_MISSING] = {409, 412, "confirmation", "confirmation_required"},
    [EXEC_POLICY_DENIED] = {409, 409, "policy", "policy_denied"},
    [EXEC_HELD] = {409, 409, "policy", "approval_required"},
    [EXEC_HOLD_OVER] = {409, 409, "policy", "approval_rejected"},
    [EXEC_NOT_CONNECTED] = {409, 409, "connection", "not_connected"},
    [EXEC_CONNECTION_UNKNOWN] = {409, 409, "connection", "connection_not_found"},
    [EXEC_REAUTH_REQUIRED] = {409, 409, "auth", "reauth_required"},
    [EXEC_KEY_REFUSED] = {409, 409, "auth", "credential_refused"},
    [EXEC_CONNECTION_AMBIGUOUS] = {409, 409, "connection", "connection_ambiguous"},
    [EXEC_SCOPE_MISSING] = {409, 409, "auth", "scope_missing"},
    [EXEC_OWN_RATE_LIMIT] = {409, 409, "rate_limit", "rate_limited"},
    [EXEC_CIRCUIT_OPEN] = {409, 409, "provider", "circuit_open"},
    [EXEC_ADDRESS_REFUSED] = {409, 409, "unsupported", "address_refused"},
    [EXEC_OPERATION_GONE] = {409, 409, "unsupported", "operation_gone"},
    [EXEC_KEY_MISMATCH] = {409, 409, "validation", "idempotency_key_reused"},
    [EXEC_PROVIDER_FORBIDDEN] = {500, 500, "auth", "provider_forbidden"},
    [EXEC_PROVIDER_RATE_LIMITED] = {500, 500, "rate_limit", "rate_limited"},
    [EXEC_PROVIDER_INVALID] = {500, 500, "validation", "provider_refused_arguments"},
    [EXEC_PROVIDER_UNSUPPORTED] = {500, 500, "unsupported", "unsupported_operation"},
    [EXEC_PROVIDER_ERROR] = {500, 500, "provider", "provider_error"},
    [EXEC_TIMED_OUT] = {500, 500, "timeout", "timeout"},
    [EXEC_UNREACHABLE] = {500, 500, "network", "unreachable"},
    [EXEC_BROKEN_OFF] = {500, 500, "network", "connection_lost"},
    [EXEC_REPLY_UNREADABLE] = {500, 500, "provider", "reply_unreadable"},
    [EXEC_REPLY_TOO_LARGE] = {500, 500, "provider", "reply_too_large"},
    [EXEC_PARTLY_DONE] = {500, 500, "provider", "partly_done"},
    [EXEC_OUTCOME_UNKNOWN] = {500, 500, "internal", "outcome_unknown"},
    [EXEC_UNAVAILABLE] = {503, 503, NULL, NULL},
    [EXEC_STILL_RUNNING] = {503, 503, NULL, NULL},
    [EXEC_CANCELLED] = {503, 503, NULL, NULL},
    [EXEC_INTERNAL] = {500, 500, NULL, NULL},
    [EXEC_NOT_IN_SCOPE] = {403, 403, NULL, NULL},
};
/* clang-format on */

const struct api_verdict *api_verdict_of(enum exec_reason reason)
{
    ASSERT(reason < EXEC_REASONS && verdicts[reason].http_status != 0);
    return &verdicts[reason];
}
