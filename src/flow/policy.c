/*
 * The policy that decides about a flow's calls: that of the key that started the flow, as it is
 * when a call is made. The statements that load a flow or move it on find it, so it costs none of
 * its own. Only its text may have to be loaded (policy/cache.h), and the name of an end user after
 * an adoption.
 */
#include "flow/internal.h"
#include "store/account_user.h"

bool flow_policy_start(struct flow_run *run, struct policy *policy, slice user)
{
    struct flow_policy *own = &run->policy;
    ASSERT(!own->policy && !own->is_found);
    own->policy = policy_ref(policy);
    own->is_found = own->is_user_known = true;
    if (user.ptr)
        own->user = arena_dup(&run->op.arena, user);
    return !user.ptr || own->user.ptr;
}

static void drop_policy(struct flow_policy *own)
{
    policy_unref(own->policy);
    own->policy = NULL;
}

void flow_policy_learn(struct flow_run *run, const struct key_policy *key)
{
    struct flow_policy *own = &run->policy;
    bool is_same = own->key.rev == key->rev && own->key.is_named == key->is_named &&
                   strcmp(own->key.name, key->name) == 0;
    if (store_key_policy_is_none(key))
        drop_policy(own); /* none, whatever the start had */
    else if (!is_same)
        own->is_found = false;
    own->key = *key;
}

static bool is_found(const struct flow_policy *own)
{
    return own->is_found || store_key_policy_is_none(&own->key);
}

bool flow_policy_is_known(const struct flow_run *run)
{
    const struct flow_policy *own = &run->policy;
    return is_found(own) &&
           (!own->policy || own->is_user_known || uuid_is_nil(run->flow.parent_id));
}

bool flow_policy_ask(struct flow_run *run)
{
    struct flow_policy *own = &run->policy;
    struct uuid payer_id = uuid_or(run->flow.parent_id, run->flow.account_id);
    char user_id[UUID_TEXT_LEN + 1];
    ASSERT(!flow_policy_is_known(run));
    if (!is_found(own))
        return policy_cache_find(run->service->config.policies, &own->find, payer_id, &own->key,
                                 &run->op);
    uuid_format(run->flow.account_id, user_id);
    store_account_user_names(run->service->config.pool, &run->query, &run->op, payer_id,
                             arena_dup(flow_run_scratch(run), slice_cstr(user_id)));
    return false;
}

static bool take_user(struct flow_run *run)
{
    struct flow_policy *own = &run->policy;
    struct account_user *users;
    size_t count;
    if (store_account_user_list_result(&run->query, &users, &count) != OK)
        return false;
    if (count > 0)
        own->user = arena_dup(&run->op.arena, users[0].external_id);
    own->is_user_known = count == 0 || own->user.ptr;
    return own->is_user_known;
}

bool flow_policy_take(struct flow_run *run)
{
    struct flow_policy *own = &run->policy;
    if (is_found(own))
        return take_user(run);
    if (own->find.status != OK)
        return false;
    drop_policy(own);
    own->policy = own->find.policy;
    own->find.policy = NULL;
    own->is_found = true;
    return true;
}

void flow_policy_free(struct flow_run *run)
{
    drop_policy(&run->policy);
    policy_unref(run->policy.find.policy); /* of a run that ended before it was taken */
}

bool flow_is_hidden(const struct flow_template *tmpl, const struct catalog *catalog,
                    struct policy *policy)
{
    for (size_t i = 0; i < tmpl->step_count; i++) {
        const struct catalog_action *action = tmpl->steps[i].type == FLOW_TOOL_CALL
                                                  ? catalog_find_tool(catalog, tmpl->steps[i].tool)
                                                  : NULL;
        if (tmpl->steps[i].type == FLOW_TOOL_CALL && (!action || policy_denies(policy, action)))
            return true;
    }
    return false;
}
