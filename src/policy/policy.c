/*
 * The life of a policy, and its names. compile.c makes it.
 */
#include "base/mem.h"
#include "policy/internal.h"

void policy_unref(struct policy *policy)
{
    if (!policy)
        return;
    arena_deinit(&policy->arena);
    mem_free(policy->memo);
    mem_free(policy);
}

const char *policy_decision_name(enum policy_decision decision)
{
    static const char *const names[] = {
        [POLICY_ALLOW] = "allow",
        [POLICY_CONFIRM] = "confirm",
        [POLICY_DENY] = "deny",
        [POLICY_DEPENDS] = "depends",
    };
    return names[decision];
}

void policy_put_decision(struct json_writer *w, const struct policy_verdict *verdict)
{
    json_member_str(w, "decision", slice_cstr(policy_decision_name(verdict->decision)));
    if (verdict->rule >= 0)
        json_member_i64(w, "rule", verdict->rule);
    else
        json_member_str(w, "rule", SLICE_NONE);
}

void policy_put_verdict(struct json_writer *w, const struct policy_verdict *verdict)
{
    policy_put_decision(w, verdict);
    json_member_str(w, "reason", verdict->reason);
    json_member_bool(w, "unsure", verdict->is_unsure);
}
