/*
 * What the policy of the caller's key says of the run (src/policy/README.md): decided once, when
 * the action is known and before anything is revealed about it or about the idempotency key. A
 * hidden action is an unknown one from here on.
 */
#include "exec/internal.h"
#include "json/json.h"

void exec_decide(struct exec *exec)
{
    ASSERT(exec->action && exec->in.policy);
    policy_decide(exec->in.policy, exec->action, exec->in.input, exec->in.user, &exec->verdict);
    exec_turn_used(exec);
    if (!exec->verdict.is_hidden)
        return;
    exec->action = NULL;
    exec->find_status = ERR_NOTFOUND;
}

slice exec_policy_reason(const struct exec *exec)
{
    slice reason = exec->verdict.reason;
    bool has_stop = slice_ends_with(reason, SLICE("."));
    return has_stop ? slice_first(reason, reason.len - 1) : reason;
}

enum op_result exec_stop_denied(struct exec *exec)
{
    struct arena *arena = &exec->op.arena;
    struct policy_verdict all;
    ASSERT(exec_is_denied(exec) && exec->action);
    policy_foresee(exec->in.policy, exec->action, &all);
    slice reason = exec_policy_reason(exec);
    return exec_stop(
        exec, EXEC_POLICY_DENIED,
        arena_printf(arena,
                     "The policy of this API key does not allow %.*s%s%.*s. Nothing was done.",
                     SLICE_ARG(exec->action->title), reason.len > 0 ? ": " : "", SLICE_ARG(reason)),
        all.decision == POLICY_DENY
            ? SLICE("Sending it again does not help. The account's administrator sets the policy.")
            : SLICE("Do not send it again unchanged. The policy decides by the input; the "
                    "account's administrator sets it."));
}

void exec_put_decider(const struct exec *exec, struct json_writer *w)
{
    if (!exec->in.policy)
        return;
    json_member_str(w, "policy", policy_label(exec->in.policy));
    if (exec->verdict.rule >= 0)
        json_member_i64(w, "rule", exec->verdict.rule);
    else
        json_member_raw(w, "rule", SLICE("null"));
}

bool exec_hides(const struct exec *exec, slice action_id)
{
    const struct catalog_action *action =
        exec->in.policy ? catalog_find_head(exec->integration, action_id) : NULL;
    return action && policy_hides(exec->in.policy, action);
}
