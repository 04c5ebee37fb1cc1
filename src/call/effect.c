/*
 * The table; see effect.h.
 */
#include "call/effect.h"

/* A 4xx is a refusal, and so are a redirect that keeps the method (RFC 9110 15.4) and 501. The
 * following statuses can answer a write that was executed: 303 follows one by definition, 302 by
 * convention; 402 means that a payment was attempted; 408 and 460 come from a proxy that stopped
 * waiting; 499 means that its client closed the connection. */
static bool is_usual_proof(unsigned status)
{
    switch (status) {
    case 301:
    case 307:
    case 308:
    case 501:
        return true;
    case 402:
    case 408:
    case 460:
    case 499:
        return false;
    default:
        return status >= 400 && status < 500;
    }
}

static const struct json *statuses_of(const struct catalog_action *action)
{
    return action->not_done_statuses ? action->not_done_statuses
                                     : action->integration->not_done_statuses;
}

static bool has_status(const struct json *statuses, unsigned status)
{
    int64_t item;
    for (uint32_t i = 0; i < statuses->count; i++)
        if (json_to_i64(&statuses->as.items[i], &item) && item == (int64_t)status)
            return true;
    return false;
}

/* Codes by which an app refuses a request. Other codes mean that an error occurred. */
static bool is_refusal(slice error_code)
{
    return error_code.len > 0 &&
           slice_has_word(SLICE("unauthorized reauth_required forbidden rate_limited "
                                "validation_error unsupported_operation"),
                          error_code);
}

static enum exec_effect effect_of_rule(enum catalog_rule_outcome outcome)
{
    switch (outcome) {
    case RULE_NOT_DONE:
        return EXEC_EFFECT_NONE;
    case RULE_PARTLY:
        return EXEC_EFFECT_PARTLY;
    default:
        return EXEC_EFFECT_UNKNOWN;
    }
}

/* If the manifest has its own list of 4xx statuses that prove that nothing was done, only the list
 * counts: a code that the rules treat as a refusal then proves nothing. */
enum exec_effect exec_effect_of_reply(const struct catalog_action *action, unsigned status,
                                      const struct catalog_error_rule *rule, bool is_too_fast)
{
    const struct json *statuses = statuses_of(action);
    if (is_too_fast)
        return EXEC_EFFECT_NONE;
    if (rule && rule->outcome != RULE_SAYS_NOTHING)
        return effect_of_rule(rule->outcome);
    bool is_listed = !statuses || status < 400 || status >= 500 || has_status(statuses, status);
    bool is_proof = (is_usual_proof(status) && is_listed) ||
                    (!statuses && rule && is_refusal(rule->error_code));
    return is_proof ? EXEC_EFFECT_NONE : EXEC_EFFECT_UNKNOWN;
}
