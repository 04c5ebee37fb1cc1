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

/* A pattern with the set of its characters, so that a name that lacks one is refused at once. */
struct policy_glob {
    slice text;
    uint64_t characters;
};

/* Returns the set of the text's characters a-z, 0-9 and _. */
uint64_t policy_characters(slice text);

/* Patterns of tool names, with `*` for any text. A name matches if one of `any` does (or if there
 * is none of them) and none of `none` does. */
struct policy_globs {
    const struct policy_glob *any, *none;
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
    unsigned refs;
    bool is_static; /* references are not counted */
    slice label;
    const struct policy_rule *rules;
    size_t rule_count;
    enum policy_decision fallback; /* `default` */
    slice fallback_reason;
    /* What is known of each action of the catalog with this serial; see decide.c. NULL: nothing */
    uint16_t *memo;
    size_t memo_count;
    uint64_t memo_serial;
    /* What it leaves out of lists of the catalog with this serial; see unlisted.c */
    bool *unlisted;
    uint64_t unlisted_serial;
};

/* Whether the rule's conditions on the action alone hold: its name and its side effect. */
bool policy_rule_matches(const struct policy_rule *rule, const struct catalog_action *action);

/* Whether conditions hold. */
enum policy_truth { POLICY_FALSE, POLICY_TRUE, POLICY_UNSURE };
enum { POLICY_ANY_TRUTH = 1 << POLICY_FALSE | 1 << POLICY_TRUE | 1 << POLICY_UNSURE };
/* Returns whether the conditions of a rule that matches hold for calls of the action: a set of
 * 1 << enum policy_truth. The recipients of an action whose manifest does not name them are never
 * known. */
unsigned policy_rule_truths(const struct policy_rule *rule, const struct catalog_action *action);

/* One call, for the conditions of rules. The struct must not be copied. */
struct policy_facts {
    const struct catalog_action *action;
    const struct json *input; /* as it was given */
    struct json_member members[3];
    bool is_filled;   /* the input in members has the defaults of the action's schema */
    struct json root; /* {input, tool, user} */
    struct arena scratch;
    struct expr_budget budget; /* of all conditions together */
};

void policy_facts_init(struct policy_facts *facts, const struct catalog_action *action,
                       const struct json *input, slice user);
void policy_facts_deinit(struct policy_facts *facts);
/* Evaluates the rule's `when`. If the result is POLICY_UNSURE, err (may be NULL) says why. */
enum policy_truth policy_when(const struct policy_rule *rule, struct policy_facts *facts,
                              struct err *err);

#endif
