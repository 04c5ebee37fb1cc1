/*
 * The life of a policy, and its names. compile.c makes it.
 */
#include "base/ascii.h"
#include "base/mem.h"
#include "policy/internal.h"

/* They have no memo, because they have no rules: nothing in them ever changes. */
struct policy *policy_denies_all(void)
{
    static struct policy gone = {
        .is_static = true,
        .label = SLICE_INIT("gone"),
        .fallback = POLICY_DENY,
        .fallback_reason = SLICE_INIT("the policy of this API key does not exist any more"),
    };
    return &gone;
}

struct policy *policy_unreadable(void)
{
    static struct policy unreadable = {
        .is_static = true,
        .label = SLICE_INIT("unreadable"),
        .fallback = POLICY_DENY,
        .fallback_reason = SLICE_INIT("this server cannot read the policy of this API key"),
    };
    return &unreadable;
}

size_t policy_bytes(const struct policy *policy)
{
    return sizeof(*policy) + policy->arena.bytes_used;
}

struct policy *policy_ref(struct policy *policy)
{
    ASSERT(!policy || policy->is_static || policy->refs > 0);
    if (policy && !policy->is_static)
        policy->refs++;
    return policy;
}

void policy_unref(struct policy *policy)
{
    if (!policy || policy->is_static)
        return;
    ASSERT(policy->refs > 0);
    if (--policy->refs > 0)
        return;
    arena_deinit(&policy->arena);
    mem_free(policy->memo);
    mem_free(policy->unlisted);
    mem_free(policy);
}

slice policy_label(const struct policy *policy)
{
    return policy ? policy->label : SLICE_NONE;
}

bool policy_is_name(slice text)
{
    if (text.len == 0 || text.len > POLICY_NAME_MAX || !ascii_is_lower(text.ptr[0]) ||
        slice_eq_cstr(text, "test")) /* POST /api/policies/test has that path */
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!ascii_is_lower(c) && !ascii_is_digit(c) && c != '-')
            return false;
    }
    return true;
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
