/*
 * What the sources of this room share: a compiled policy.
 */
#ifndef POLICY_INTERNAL_H
#define POLICY_INTERNAL_H

#include "base/arena.h"
#include "catalog/catalog.h"
#include "expr/expr.h"
#include "json/json.h"
#include "policy/policy.h"

/* Patterns of tool names, with `*` for any text. A name matches if one of `any` does (or if there
 * is none of them) and none of `none` does. */
struct policy_globs {
    const slice *any, *none;
    size_t any_count, none_count;
};

struct policy_rule {
    struct policy_globs tools;
    unsigned levels; /* set of 1 << enum catalog_level */
    /* The condition recipients_outside: its domains, made by recipient_domain */
    bool has_homes;
    const slice *homes;
    size_t home_count;
    const struct expr *when; /* NULL: none */
    enum policy_decision decision;
    slice reason;
    bool is_hidden;
};

struct policy {
    struct arena arena; /* holds the rules and their texts */
    const struct policy_rule *rules;
    size_t rule_count;
    enum policy_decision fallback; /* `default` */
    /* What is known of each action of the catalog with this serial; see decide.c. NULL: nothing */
    uint16_t *memo;
    size_t memo_count;
    uint64_t memo_serial;
};

/* Whether the rule's conditions on the action alone hold: its name and its side effect. */
bool policy_rule_matches(const struct policy_rule *rule, const struct catalog_action *action);
/* Both are for a rule that matches. The first: whether it decides about no call of the action,
 * because it would allow calls by their recipients, which the manifest does not name. The second:
 * whether it depends on a call's input whether the rule decides about it. */
bool policy_rule_never_holds(const struct policy_rule *rule, const struct catalog_action *action);
bool policy_rule_depends(const struct policy_rule *rule, const struct catalog_action *action);

/* One call, for the conditions of rules. The struct must not be copied. */
struct policy_facts {
    const struct catalog_action *action;
    struct json_member members[3];
    struct json root; /* {input, tool, user} */
    struct arena scratch;
    struct expr_budget budget; /* of all conditions together */
};
enum policy_truth { POLICY_FALSE, POLICY_TRUE, POLICY_UNSURE };

void policy_facts_init(struct policy_facts *facts, const struct catalog_action *action,
                       const struct json *input, slice user);
void policy_facts_deinit(struct policy_facts *facts);
/* Evaluates the rule's `when`. If the result is POLICY_UNSURE, err (may be NULL) says why. */
enum policy_truth policy_when(const struct policy_rule *rule, struct policy_facts *facts,
                              struct err *err);

#endif
