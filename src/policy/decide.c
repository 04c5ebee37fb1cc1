/*
 * Decides about calls; see policy.h. What depends on the action alone is found once for an action
 * and kept in the memo: the first rule that can decide, and what all inputs have in common. A call
 * evaluates conditions on its input only if that rule has some.
 */
#include "base/ascii.h"
#include "base/mem.h"
#include "catalog/recipient.h"
#include "policy/internal.h"
#include "schema/schema.h"

enum { SCRATCH_BYTES_MAX = 4 * 1024 * 1024, MEMBERS_A_VISIT = 8 };

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

uint64_t policy_characters(slice text)
{
    uint64_t set = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (ascii_is_lower(c))
            set |= 1ull << (c - 'a');
        else if (ascii_is_digit(c))
            set |= 1ull << (26 + c - '0');
        else if (c == '_')
            set |= 1ull << 36;
    }
    return set;
}

static bool has_match(const struct policy_glob *globs, size_t count, slice name,
                      uint64_t characters)
{
    for (size_t i = 0; i < count; i++)
        if ((globs[i].characters & ~characters) == 0 && glob_matches(globs[i].text, name))
            return true;
    return false;
}

bool policy_rule_matches(const struct policy_rule *rule, const struct catalog_action *action)
{
    const struct policy_globs *tools = &rule->tools;
    slice name = action->tool_name;
    if (!(rule->levels & 1u << action->level))
        return false;
    if (tools->any_count + tools->none_count == 0)
        return true;
    uint64_t characters = policy_characters(name);
    return (tools->any_count == 0 || has_match(tools->any, tools->any_count, name, characters)) &&
           !has_match(tools->none, tools->none_count, name, characters);
}

/* Whether recipients_outside cannot be evaluated for any call of the action. */
static bool lacks_recipients(const struct policy_rule *rule, const struct catalog_action *action)
{
    return rule->has_homes && !action->has_recipients;
}

unsigned policy_rule_truths(const struct policy_rule *rule, const struct catalog_action *action)
{
    if (lacks_recipients(rule, action))
        return (rule->when ? 1u << POLICY_FALSE : 0) | 1u << POLICY_UNSURE;
    return rule->when || rule->has_homes ? POLICY_ANY_TRUTH : 1u << POLICY_TRUE;
}

/* ---- the memo ---- */

/* A word of the memo. 0: nothing is known. */
enum {
    FIRST_MASK = 0x7F, /* the first rule that matches the action; FIRST_NONE: the default */
    FIRST_NONE = POLICY_RULES_MAX,
    DECISION_SHIFT = 7, /* what all inputs have in common; 3 bits */
    DECISION_MASK = 7,
    MAY_CONFIRM = 1 << 10,
    IS_HIDDEN = 1 << 11,
    IS_ALONE = 1 << 12, /* that rule (or the default) decides about all inputs */
    MAY_HOLD = 1 << 13,
    IS_KNOWN = 1 << 15,
};
_Static_assert(FIRST_NONE <= FIRST_MASK, "its bits are enough");
_Static_assert((int)POLICY_DEPENDS <= DECISION_MASK, "its bits are enough");

/* What can become of calls from some rule on. */
struct outcomes {
    unsigned decisions; /* set of 1 << enum policy_decision */
    int rule;           /* whose decision it is, if there is one; or POLICY_RULE_* */
    bool is_hidden;
};

/* An earlier rule that confirms or holds has a condition that could not be evaluated: its decision
 * is the least that is decided. Outcomes are kept for each of these levels; ALLOW: there is no such
 * rule. RULE_ASKED is that rule as the rule of an outcome. */
enum { RULE_ASKED = -3, LEVELS = POLICY_DENY };

static struct outcomes at_least(unsigned level, struct outcomes own, enum policy_decision decision)
{
    const struct outcomes asked = {1u << level, RULE_ASKED, false};
    return level == POLICY_ALLOW || decision > level ? own : asked;
}

static void add_outcomes(struct outcomes *all, struct outcomes more)
{
    bool is_first = all->decisions == 0;
    all->rule = is_first || all->rule == more.rule ? more.rule : POLICY_RULE_SEVERAL;
    all->decisions |= more.decisions;
    all->is_hidden |= more.is_hidden;
}

/* Goes from what follows a rule to what begins with it, as decide_by_input does with one input. */
static void precede(const struct policy *policy, size_t index, unsigned truths,
                    struct outcomes outcomes[LEVELS])
{
    const struct policy_rule *rule = &policy->rules[index];
    const struct outcomes own = {1u << rule->decision, (int)index, rule->is_hidden};
    struct outcomes all[LEVELS] = {{.decisions = 0}};
    for (unsigned level = 0; level < LEVELS; level++) {
        bool is_raised = rule->decision > level && rule->decision != POLICY_DENY;
        struct outcomes unsure = outcomes[is_raised ? rule->decision : level];
        if (is_raised && unsure.rule == RULE_ASKED)
            unsure.rule = (int)index;
        if (truths & 1u << POLICY_TRUE)
            add_outcomes(&all[level], at_least(level, own, rule->decision));
        if (truths & 1u << POLICY_FALSE)
            add_outcomes(&all[level], outcomes[level]);
        if (truths & 1u << POLICY_UNSURE)
            add_outcomes(&all[level], rule->decision == POLICY_DENY ? own : unsure);
    }
    for (unsigned level = 0; level < LEVELS; level++)
        outcomes[level] = all[level];
}

static uint16_t make_word(struct outcomes outcomes, unsigned first)
{
    unsigned common = POLICY_DEPENDS, word = IS_KNOWN;
    for (unsigned decision = POLICY_ALLOW; decision < POLICY_DEPENDS; decision++)
        if (outcomes.decisions == 1u << decision)
            common = decision;
    if (common != POLICY_DEPENDS && outcomes.rule != POLICY_RULE_SEVERAL) {
        first = outcomes.rule >= 0 ? (unsigned)outcomes.rule : FIRST_NONE;
        word |= IS_ALONE;
    }
    word |= first | common << DECISION_SHIFT;
    word |= outcomes.decisions & 1u << POLICY_CONFIRM ? MAY_CONFIRM : 0;
    word |= outcomes.decisions & 1u << POLICY_HOLD ? MAY_HOLD : 0;
    word |= outcomes.is_hidden && common == POLICY_DENY ? IS_HIDDEN : 0;
    return (uint16_t)word;
}

/* Walks over the rules from the last to the first. */
static uint16_t study(const struct policy *policy, const struct catalog_action *action)
{
    const struct outcomes fallback = {1u << policy->fallback, POLICY_RULE_DEFAULT, false};
    struct outcomes outcomes[LEVELS];
    unsigned first = FIRST_NONE;
    for (unsigned level = 0; level < LEVELS; level++)
        outcomes[level] = at_least(level, fallback, policy->fallback);
    for (size_t i = policy->rule_count; i-- > 0;) {
        if (!policy_rule_matches(&policy->rules[i], action))
            continue;
        first = (unsigned)i;
        precede(policy, i, policy_rule_truths(&policy->rules[i], action), outcomes);
    }
    return make_word(outcomes[0], first);
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
    verdict->reason = policy->fallback_reason;
    verdict->expires_s = policy->fallback == POLICY_HOLD ? POLICY_EXPIRES_S : 0;
}

/* Only a deny is answered later because it rests on a condition that failed: a confirmation does no
 * harm to a call that is not valid, which is not held either. */
static void decide_by_rule(const struct policy *policy, size_t index, bool is_unsure,
                           struct policy_verdict *verdict)
{
    const struct policy_rule *rule = &policy->rules[index];
    verdict->decision = rule->decision;
    verdict->rule = (int)index;
    verdict->reason = rule->reason;
    verdict->expires_s = rule->expires_s;
    verdict->is_unsure = is_unsure && rule->decision == POLICY_DENY;
}

static void take_facts(unsigned word, struct policy_verdict *verdict)
{
    verdict->is_hidden = word & IS_HIDDEN;
    verdict->may_confirm = word & MAY_CONFIRM;
    verdict->may_hold = word & MAY_HOLD;
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
    take_facts(word, verdict);
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
    take_facts(word, verdict);
}

/* ---- conditions on the input ---- */

static const struct json no_input = {.type = JSON_OBJECT};

void policy_facts_init(struct policy_facts *facts, const struct catalog_action *action,
                       const struct json *input, slice user)
{
    /* members and root are in facts, so most conditions are evaluated without an allocation */
    facts->action = action;
    facts->input = input && input->type == JSON_OBJECT ? input : &no_input;
    facts->is_filled = false;
    facts->members[0] = (struct json_member){json_string(SLICE("input")), *facts->input};
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

/* An absent member means the schema's default, so a condition on that value must hold without the
 * member, too. Returns false if out of memory, or if the input has too many members. */
static bool fill_defaults(struct policy_facts *facts)
{
    const struct json *properties = JSON_GET(facts->action->input_schema, "properties");
    const struct json *given = facts->input;
    struct json *filled = &facts->members[0].value;
    uint32_t count = json_is(properties, JSON_OBJECT) ? properties->count : 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct json_member *property = &properties->as.members[i];
        const struct json *value = JSON_GET(&property->value, "default");
        if (!value)
            continue;
        facts->budget.visits += given->count / MEMBERS_A_VISIT;
        if (facts->budget.visits > facts->budget.visits_max)
            return false;
        if (json_get(given, json_str(&property->key)))
            continue;
        if (filled->count == given->count) { /* the first one: a block that has room for all */
            size_t size = sizeof(struct json_member) * given->count;
            filled->as.members =
                arena_alloc(&facts->scratch, size + sizeof(struct json_member) * count);
            if (!filled->as.members)
                return false;
            if (given->count > 0)
                memcpy(filled->as.members, given->as.members, size);
        }
        filled->as.members[filled->count++] = (struct json_member){property->key, *value};
    }
    return true;
}

enum policy_truth policy_when(const struct policy_rule *rule, struct policy_facts *facts,
                              struct err *err)
{
    struct json value;
    if (!facts->is_filled && !fill_defaults(facts))
        return POLICY_UNSURE;
    facts->is_filled = true;
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
    bool is_whole = recipient_each_within(facts->action, facts->input, &facts->budget,
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
 * that allows. But a caller must not get around a later, stricter decision by making an earlier
 * condition fail: such a rule that confirms or holds is the least that is decided, and the search
 * goes on. */
static void decide_by_input(const struct policy *policy, size_t first, struct policy_facts *facts,
                            struct policy_verdict *verdict)
{
    size_t count = policy->rule_count, asks = count, i;
    enum policy_truth truth = POLICY_TRUE;
    enum policy_decision least = POLICY_ALLOW;
    for (i = first; i < count; i++) {
        const struct policy_rule *rule = &policy->rules[i];
        truth = policy_rule_matches(rule, facts->action) ? evaluate_conditions(rule, facts)
                                                         : POLICY_FALSE;
        if (truth == POLICY_TRUE || (truth == POLICY_UNSURE && rule->decision == POLICY_DENY))
            break;
        if (truth == POLICY_UNSURE && rule->decision > least) {
            least = rule->decision;
            asks = i;
        }
    }
    enum policy_decision found = i < count ? policy->rules[i].decision : policy->fallback;
    if (asks < count && found <= least)
        decide_by_rule(policy, asks, false, verdict);
    else if (i < count)
        decide_by_rule(policy, i, truth == POLICY_UNSURE, verdict);
    else
        decide_by_default(policy, verdict);
    /* another input might have been asked about, instead of denied */
    verdict->is_unsure |= found == POLICY_DENY && asks < count &&
                          policy_rule_truths(&policy->rules[asks], facts->action) !=
                              1u << POLICY_UNSURE;
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
    verdict->visits = (uint32_t)facts.budget.visits;
    policy_facts_deinit(&facts);
    verdict->is_hidden = word & IS_HIDDEN;
    verdict->may_confirm = verdict->decision == POLICY_CONFIRM;
    verdict->may_hold = verdict->decision == POLICY_HOLD;
}

int policy_test(struct policy *policy, const struct catalog *catalog, slice tool,
                const struct json *input, slice user, struct arena *scratch,
                struct policy_verdict *verdict, struct err *err)
{
    const struct catalog_action *action = catalog_find_tool(catalog, tool);
    if (!action) {
        slice text = catalog_say_no_tool(catalog, tool, NULL, scratch);
        return err_set(err, text.ptr ? ERR_NOTFOUND : ERR_NOMEM, "%.*s", SLICE_ARG(text));
    }
    if (input)
        policy_decide(policy, action, schema_drop_nulls(action->schema, input, scratch), user,
                      verdict);
    else
        policy_foresee(policy, action, verdict);
    return OK;
}
