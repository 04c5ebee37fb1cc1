/*
 * Decides about calls; see policy.h. What depends on the action alone is found once for an action
 * and kept in the memo: the first rule that can decide, and what all inputs have in common. A call
 * evaluates conditions on its input only if that rule has some.
 */
#include "base/mem.h"
#include "catalog/recipient.h"
#include "policy/internal.h"
#include "schema/schema.h"

enum { SCRATCH_BYTES_MAX = 4 * 1024 * 1024 };

/* ---- what depends on the action alone ---- */

/* Matches as if each `*` took as little as possible; if the rest does not fit, only the last one
 * can help by taking more. */
static bool glob_matches(slice glob, slice name)
{
    size_t g = 0, n = 0, star = SIZE_MAX, resume = 0;
    while (n < name.len) {
        if (g < glob.len && glob.ptr[g] == '*') {
            star = g++;
            resume = n;
        } else if (g < glob.len && glob.ptr[g] == name.ptr[n]) {
            g++;
            n++;
        } else if (star != SIZE_MAX) {
            g = star + 1;
            n = ++resume;
        } else {
            return false;
        }
    }
    while (g < glob.len && glob.ptr[g] == '*')
        g++;
    return g == glob.len;
}

static bool has_match(const slice *globs, size_t count, slice name)
{
    for (size_t i = 0; i < count; i++)
        if (glob_matches(globs[i], name))
            return true;
    return false;
}

bool policy_rule_matches(const struct policy_rule *rule, const struct catalog_action *action)
{
    const struct policy_globs *tools = &rule->tools;
    return (rule->levels & 1u << action->level) &&
           (tools->any_count == 0 || has_match(tools->any, tools->any_count, action->tool_name)) &&
           !has_match(tools->none, tools->none_count, action->tool_name);
}

/* Whether recipients_outside cannot be evaluated for any call of the action. */
static bool lacks_recipients(const struct policy_rule *rule, const struct catalog_action *action)
{
    return rule->has_homes && !action->has_recipients;
}

bool policy_rule_never_holds(const struct policy_rule *rule, const struct catalog_action *action)
{
    return rule->decision == POLICY_ALLOW && lacks_recipients(rule, action);
}

bool policy_rule_depends(const struct policy_rule *rule, const struct catalog_action *action)
{
    return rule->when || (rule->has_homes && action->has_recipients);
}

/* ---- the memo ---- */

/* A word of the memo. 0: nothing is known. */
enum {
    FIRST_MASK = 0x7F, /* the first rule that can decide; FIRST_NONE: the default */
    FIRST_NONE = POLICY_RULES_MAX,
    DECISION_SHIFT = 7, /* what all inputs have in common; 2 bits */
    DECISION_MASK = 3,
    MAY_CONFIRM = 1 << 9,
    IS_HIDDEN = 1 << 10,
    IS_ALONE = 1 << 11, /* the first rule (or the default) decides about all inputs */
    IS_KNOWN = 1 << 15,
};
_Static_assert(FIRST_NONE <= FIRST_MASK, "its bits are enough");
_Static_assert((int)POLICY_DEPENDS <= DECISION_MASK, "its bits are enough");

/* Walks over the rules that can decide, up to the first that decides about every input. */
static uint16_t study(const struct policy *policy, const struct catalog_action *action)
{
    unsigned first = FIRST_NONE, deciders = 0, decisions = 0;
    bool is_decided = false, is_hidden = false;
    for (size_t i = 0; i < policy->rule_count && !is_decided; i++) {
        const struct policy_rule *rule = &policy->rules[i];
        if (!policy_rule_matches(rule, action) || policy_rule_never_holds(rule, action))
            continue;
        if (deciders++ == 0)
            first = (unsigned)i;
        decisions |= 1u << rule->decision;
        is_hidden |= rule->is_hidden;
        is_decided = !policy_rule_depends(rule, action);
    }
    if (!is_decided) {
        deciders++;
        decisions |= 1u << policy->fallback;
    }
    unsigned common = POLICY_DEPENDS;
    for (unsigned decision = POLICY_ALLOW; decision < POLICY_DEPENDS; decision++)
        if (decisions == 1u << decision)
            common = decision;
    unsigned word = IS_KNOWN | first | common << DECISION_SHIFT;
    word |= decisions & 1u << POLICY_CONFIRM ? MAY_CONFIRM : 0;
    word |= is_hidden && common == POLICY_DENY ? IS_HIDDEN : 0;
    word |= deciders == 1 ? IS_ALONE : 0;
    return (uint16_t)word;
}

/* Returns the memo's word for the action, NULL if out of memory. Another snapshot of the catalog
 * empties the memo. */
static uint16_t *find_word(struct policy *policy, const struct catalog_action *action)
{
    const struct catalog *catalog = action->integration->catalog;
    if (policy->memo_serial != catalog->serial) {
        mem_free(policy->memo);
        policy->memo = mem_calloc(catalog->action_count, sizeof(*policy->memo));
        policy->memo_count = policy->memo ? catalog->action_count : 0;
        policy->memo_serial = policy->memo ? catalog->serial : 0;
    }
    size_t position = catalog_position(action);
    ASSERT(!policy->memo || position < policy->memo_count);
    return policy->memo ? &policy->memo[position] : NULL;
}

/* Without memory for a memo each question costs a walk over the rules. A policy without rules needs
 * no memo. */
static unsigned recall_action(struct policy *policy, const struct catalog_action *action)
{
    uint16_t *word = policy->rule_count > 0 ? find_word(policy, action) : NULL;
    uint16_t known = word ? *word : 0;
    if (!known)
        known = study(policy, action);
    if (word)
        *word = known;
    return known;
}

/* ---- verdicts ---- */

/* No rule can hide what the default denies. */
static void decide_by_default(const struct policy *policy, struct policy_verdict *verdict)
{
    verdict->decision = policy->fallback;
    verdict->rule = POLICY_RULE_DEFAULT;
}

/* Only a deny is answered later because it rests on a condition that failed: a confirmation does no
 * harm to a call that is not valid. */
static void decide_by_rule(const struct policy *policy, size_t index, bool is_unsure,
                           struct policy_verdict *verdict)
{
    const struct policy_rule *rule = &policy->rules[index];
    verdict->decision = rule->decision;
    verdict->rule = (int)index;
    verdict->reason = rule->reason;
    verdict->is_unsure = is_unsure && rule->decision == POLICY_DENY;
}

/* The same for every input, so it needs none. */
static void decide_alone(const struct policy *policy, const struct catalog_action *action,
                         unsigned word, struct policy_verdict *verdict)
{
    unsigned first = word & FIRST_MASK;
    if (first == FIRST_NONE)
        decide_by_default(policy, verdict);
    else
        decide_by_rule(policy, first, lacks_recipients(&policy->rules[first], action), verdict);
    verdict->is_hidden = word & IS_HIDDEN;
    verdict->may_confirm = word & MAY_CONFIRM;
}

void policy_foresee_by(struct policy *policy, const struct catalog_action *action,
                       struct policy_verdict *verdict)
{
    unsigned word = recall_action(policy, action);
    if (word & IS_ALONE) {
        decide_alone(policy, action, word, verdict);
        return;
    }
    verdict->decision = (enum policy_decision)(word >> DECISION_SHIFT & DECISION_MASK);
    verdict->rule = POLICY_RULE_SEVERAL;
    verdict->is_hidden = word & IS_HIDDEN;
    verdict->may_confirm = word & MAY_CONFIRM;
}

/* ---- conditions on the input ---- */

void policy_facts_init(struct policy_facts *facts, const struct catalog_action *action,
                       const struct json *input, slice user)
{
    /* members and root are in facts, so most conditions are evaluated without an allocation */
    facts->action = action;
    facts->members[0] =
        (struct json_member){json_string(SLICE("input")), input ? *input : json_object()};
    facts->members[1] =
        (struct json_member){json_string(SLICE("tool")), json_string(action->tool_name)};
    facts->members[2] =
        (struct json_member){json_string(SLICE("user")), user.ptr ? json_string(user) : json_null};
    facts->root = (struct json){.type = JSON_OBJECT, .count = 3, .as.members = facts->members};
    arena_init(&facts->scratch, SCRATCH_BYTES_MAX);
    expr_budget_init(&facts->budget);
    facts->budget.visits_max = POLICY_VISITS_MAX;
}

void policy_facts_deinit(struct policy_facts *facts)
{
    arena_deinit(&facts->scratch);
}

enum policy_truth policy_when(const struct policy_rule *rule, struct policy_facts *facts,
                              struct err *err)
{
    struct json value;
    if (expr_eval(rule->when, &facts->root, &facts->root, &facts->budget, &facts->scratch, &value,
                  err) != OK)
        return POLICY_UNSURE;
    return expr_is_true(&value) ? POLICY_TRUE : POLICY_FALSE;
}

/* A text that is not an address is outside of every domain, since its recipient is not known. */
struct outside {
    const struct policy_rule *rule;
    bool is_found;
};

static void note_outside(void *user, slice field, const struct recipient *recipient)
{
    struct outside *outside = user;
    (void)field;
    outside->is_found =
        outside->is_found ||
        !recipient_is_home(recipient->domain, outside->rule->homes, outside->rule->home_count);
}

static enum policy_truth recipients_outside(const struct policy_rule *rule,
                                            struct policy_facts *facts)
{
    struct outside outside = {.rule = rule};
    if (!facts->action->has_recipients)
        return POLICY_UNSURE;
    bool is_whole = recipient_each_within(facts->action, &facts->members[0].value, &facts->budget,
                                          &facts->scratch, note_outside, &outside);
    return !is_whole ? POLICY_UNSURE : outside.is_found ? POLICY_TRUE : POLICY_FALSE;
}

/* The cheaper condition is evaluated first; one that is false decides whatever the other is. */
static enum policy_truth evaluate_conditions(const struct policy_rule *rule,
                                             struct policy_facts *facts)
{
    enum policy_truth outside = rule->has_homes ? recipients_outside(rule, facts) : POLICY_TRUE;
    if (outside == POLICY_FALSE || !rule->when)
        return outside;
    enum policy_truth when = policy_when(rule, facts, NULL);
    return when == POLICY_TRUE ? outside : when;
}

/* A condition that cannot be evaluated counts as true in a rule that restricts, as false in one
 * that allows. */
static void decide_by_input(const struct policy *policy, size_t first, struct policy_facts *facts,
                            struct policy_verdict *verdict)
{
    for (size_t i = first; i < policy->rule_count; i++) {
        const struct policy_rule *rule = &policy->rules[i];
        if (!policy_rule_matches(rule, facts->action))
            continue;
        enum policy_truth truth = evaluate_conditions(rule, facts);
        if (truth == POLICY_TRUE || (truth == POLICY_UNSURE && rule->decision != POLICY_ALLOW)) {
            decide_by_rule(policy, i, truth == POLICY_UNSURE, verdict);
            return;
        }
    }
    decide_by_default(policy, verdict);
}

void policy_decide_by(struct policy *policy, const struct catalog_action *action,
                      const struct json *input, slice user, struct policy_verdict *verdict)
{
    struct policy_facts facts;
    unsigned word = recall_action(policy, action);
    if (word & IS_ALONE) {
        decide_alone(policy, action, word, verdict);
        return;
    }
    ASSERT(action->is_open); /* its recipients are known */
    policy_facts_init(&facts, action, input, user);
    decide_by_input(policy, word & FIRST_MASK, &facts, verdict);
    policy_facts_deinit(&facts);
    verdict->is_hidden = word & IS_HIDDEN;
    verdict->may_confirm = verdict->decision == POLICY_CONFIRM;
}

int policy_test(struct policy *policy, const struct catalog *catalog, slice tool,
                const struct json *input, slice user, struct arena *scratch,
                struct policy_verdict *verdict, struct err *err)
{
    const struct catalog_action *action = catalog_find_tool(catalog, tool);
    if (!action) {
        slice text = catalog_say_no_tool(catalog, tool, scratch);
        return err_set(err, text.ptr ? ERR_NOTFOUND : ERR_NOMEM, "%.*s", SLICE_ARG(text));
    }
    if (input)
        policy_decide(policy, action, schema_drop_nulls(action->schema, input, scratch), user,
                      verdict);
    else
        policy_foresee(policy, action, verdict);
    return OK;
}
