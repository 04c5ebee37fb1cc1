/*
 * The policy that decides about a flow's calls: that of the key that started the flow, as it is
 * when a call is made. The statements that load a flow or move it on find it, so it costs none of
 * its own. Between such statements, as between the calls of a fan-out, it is asked for after a
 * change of the account's keys or policies, and every ten seconds, since a notification may be
 * lost. Its text may have to be loaded (policy/cache.h), and after an adoption the name of an end
 * user.
 */
#include "flow/internal.h"
#include "store/account_user.h"
#include "store/flow_read.h"

enum {
    /* A key's policy that was found longer ago is asked for again: a notification may be lost. */
    AGE_MS_MAX = 10000,
    /* A text that cannot be read now, as without memory, is asked for this often before it denies.
     */
    UNREADABLE_MAX = 20,
};

static struct uuid policy_owner(const struct flow_run *run)
{
    return uuid_or(run->flow.parent_id, run->flow.account_id);
}

struct uuid flow_policy_key(const struct flow_run *run)
{
    return run->service->config.policies ? audit_actor_key(run->whole.actor) : (struct uuid){{0}};
}

bool flow_policy_start(struct flow_run *run, struct policy *policy, slice user)
{
    struct flow_policy *own = &run->policy;
    ASSERT(!own->policy && !own->is_found);
    own->policy = policy_ref(policy);
    own->is_found = true;
    own->learnt_ns = loop_now_ns(run->op.loop);
    own->is_user_known = user.ptr || uuid_is_nil(run->flow.parent_id);
    if (user.ptr)
        own->user = arena_dup(&run->op.arena, user);
    return !user.ptr || own->user.ptr;
}

static void set_policy(struct flow_policy *own, struct policy *policy)
{
    policy_unref(own->policy);
    own->policy = policy;
}

static bool is_same_key(const struct key_policy *a, const struct key_policy *b)
{
    return a->rev == b->rev && a->is_named == b->is_named && strcmp(a->name, b->name) == 0;
}

void flow_policy_learn(struct flow_run *run, const struct key_policy *key, unsigned changes)
{
    struct flow_policy *own = &run->policy;
    own->changes_known = changes;
    own->learnt_ns = loop_now_ns(run->op.loop);
    if (store_key_policy_is_none(key))
        set_policy(own, NULL); /* whatever the start had */
    else if (!is_same_key(&own->key, key))
        own->is_found = false;
    own->key = *key;
}

void flow_policies_changed(struct flow_service *service, const struct uuid *account_id)
{
    LIST_EACH(&service->runs, struct flow_run, run, link) {
        if (!account_id || uuid_eq(policy_owner(run), *account_id))
            run->policy.changes++;
    }
}

/* ---- what has to be asked before a call ---- */

static enum flow_policy_part missing_part(const struct flow_run *run)
{
    const struct flow_policy *own = &run->policy;
    bool is_old = own->changes != own->changes_known ||
                  loop_now_ns(run->op.loop) - own->learnt_ns > AGE_MS_MAX * UINT64_C(1000000);
    if (is_old && !uuid_is_nil(flow_policy_key(run)))
        return FLOW_POLICY_KEY;
    if (!own->is_found && !store_key_policy_is_none(&own->key))
        return FLOW_POLICY_TEXT;
    if (own->policy && !own->is_user_known && !uuid_is_nil(run->flow.parent_id))
        return FLOW_POLICY_USER;
    return FLOW_POLICY_KNOWN;
}

bool flow_policy_is_known(const struct flow_run *run)
{
    return missing_part(run) == FLOW_POLICY_KNOWN;
}

bool flow_policy_ask(struct flow_run *run, struct flow_policy_asking *asking, struct op *op)
{
    const struct flow_policy *own = &run->policy;
    struct pg_pool *pool = run->service->config.pool;
    policy_unref(asking->find.policy); /* of a find whose answer was not taken */
    *asking = (struct flow_policy_asking){
        .part = missing_part(run), .changes = own->changes, .key = own->key};
    switch (asking->part) {
    case FLOW_POLICY_KEY:
        store_flow_key_policy(pool, &asking->query, op, policy_owner(run), flow_policy_key(run));
        return false;
    case FLOW_POLICY_TEXT:
        return policy_cache_find(run->service->config.policies, &asking->find, policy_owner(run),
                                 &asking->key, op);
    case FLOW_POLICY_USER:
        uuid_format(run->flow.account_id, asking->user_id);
        store_account_user_names(pool, &asking->query, op, policy_owner(run),
                                 slice_cstr(asking->user_id));
        return false;
    case FLOW_POLICY_KNOWN:
        break;
    }
    return true;
}

static bool take_key_policy(struct flow_run *run, const struct flow_policy_asking *asking)
{
    slice text = SLICE_NONE;
    int status = store_text_result(&asking->query, &text);
    if (status != OK && status != ERR_NOTFOUND)
        return false;
    const struct key_policy key = store_flow_policy(text);
    flow_policy_learn(run, &key, asking->changes);
    return true;
}

/* Several lanes of a fan-out may ask for the same text. */
static bool take_policy_text(struct flow_run *run, struct flow_policy_asking *asking)
{
    struct flow_policy *own = &run->policy;
    struct policy *policy = asking->find.policy;
    asking->find.policy = NULL;
    if (asking->find.status != OK)
        return false;
    if (!is_same_key(&own->key, &asking->key)) {
        policy_unref(policy); /* it has changed meanwhile */
        return true;
    }
    if (policy == policy_unreadable() && own->unreadable++ < UNREADABLE_MAX) {
        policy_unref(policy);
        return false;
    }
    set_policy(own, policy);
    own->is_found = true;
    return true;
}

static bool take_user_name(struct flow_run *run, const struct flow_policy_asking *asking)
{
    struct flow_policy *own = &run->policy;
    struct account_user *users;
    size_t count;
    if (store_account_user_list_result(&asking->query, &users, &count) != OK)
        return false;
    if (count > 0)
        own->user = arena_dup(&run->op.arena, users[0].external_id);
    own->is_user_known = count == 0 || own->user.ptr;
    return own->is_user_known;
}

bool flow_policy_take(struct flow_run *run, struct flow_policy_asking *asking)
{
    switch (asking->part) {
    case FLOW_POLICY_KEY:
        return take_key_policy(run, asking);
    case FLOW_POLICY_TEXT:
        return take_policy_text(run, asking);
    case FLOW_POLICY_USER:
        return take_user_name(run, asking);
    case FLOW_POLICY_KNOWN:
        break;
    }
    return true;
}

void flow_policy_asking_free(struct flow_policy_asking *asking)
{
    policy_unref(asking->find.policy);
    asking->find.policy = NULL;
}

void flow_policy_free(struct flow_run *run)
{
    flow_policy_asking_free(&run->policy.asking);
    set_policy(&run->policy, NULL);
}

/* ---- what is stored ---- */

bool flow_is_hidden(const struct flow_template *tmpl, const struct catalog *catalog,
                    struct policy *policy)
{
    for (size_t i = 0; policy && i < tmpl->step_count; i++) {
        const struct catalog_action *action = tmpl->steps[i].type == FLOW_TOOL_CALL
                                                  ? catalog_find_tool(catalog, tmpl->steps[i].tool)
                                                  : NULL;
        if (tmpl->steps[i].type == FLOW_TOOL_CALL && (!action || policy_denies(policy, action)))
            return true;
    }
    return false;
}
