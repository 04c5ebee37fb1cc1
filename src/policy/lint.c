/*
 * Warns of rules that do not do what they seem to. Nothing here is a fault: an app may be added
 * later, for which a rule is meant.
 */
#include <stdio.h>

#include "policy/internal.h"

enum { NAMED_MAX = 3, NAMES_BYTES_MAX = 256 };

/* Tools that have the same problem: the first of them are named. */
struct named {
    size_t count;
    char text[NAMES_BYTES_MAX];
};

/* What was found about a rule. */
struct findings {
    size_t matches, decides;
    struct named without_recipients, failing;
    struct err failure; /* of the first example in `failing` */
};

static void name_tool(struct named *named, slice tool)
{
    size_t len = strlen(named->text);
    if (named->count++ < NAMED_MAX && len + tool.len + 3 <= NAMES_BYTES_MAX)
        (void)snprintf(named->text + len, NAMES_BYTES_MAX - len, "%s%.*s", len > 0 ? ", " : "",
                       SLICE_ARG(tool));
}

/* An action counts once, for the first of its examples for which the condition fails. */
static void lint_examples(const struct policy_rule *rule, const struct catalog_action *action,
                          struct findings *found)
{
    for (size_t i = 0; action->examples && i < action->examples->count; i++) {
        const struct json *input = JSON_GET(&action->examples->as.items[i], "input");
        struct policy_facts facts;
        struct err err;
        policy_facts_init(&facts, action, input, SLICE_NONE);
        enum policy_truth truth = policy_when(rule, &facts, &err);
        policy_facts_deinit(&facts);
        if (truth != POLICY_UNSURE)
            continue;
        if (found->failing.count == 0)
            found->failure = err;
        name_tool(&found->failing, action->tool_name);
        return;
    }
}

/* Follows the rules that may decide about the action's calls, as policy_foresee does. */
static void lint_action(const struct policy *policy, const struct catalog_action *action,
                        struct findings *found)
{
    bool is_decided = false;
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct policy_rule *rule = &policy->rules[i];
        if (!policy_rule_matches(rule, action))
            continue;
        found[i].matches++;
        /* A rule that nothing reaches has no other problem that matters. */
        if (is_decided)
            continue;
        if (rule->has_homes && !action->has_recipients)
            name_tool(&found[i].without_recipients, action->tool_name);
        if (rule->when)
            lint_examples(rule, action, &found[i]);
        found[i].decides++;
        unsigned truths = policy_rule_truths(rule, action);
        is_decided = truths == 1u << POLICY_TRUE ||
                     (truths == 1u << POLICY_UNSURE && rule->decision == POLICY_DENY);
    }
}

/* Names that did not fit. */
static const char *more(const struct named *named)
{
    return named->count > NAMED_MAX ? " and others" : "";
}

static void report_rule(const struct policy *policy, size_t index, const struct findings *found,
                        slice source, struct catalog_report *report)
{
    const struct policy_rule *rule = &policy->rules[index];
    slice at = arena_printf(&report->arena, "/rules/%zu", index);
    if (found->matches == 0)
        catalog_report_add(report, true, source, at, "matches no action of the catalog");
    else if (found->decides == 0)
        catalog_report_add(report, true, source, at,
                           "decides nothing: earlier rules decide about every call that it "
                           "matches");
    if (found->without_recipients.count > 0)
        catalog_report_add(report, true, source, at,
                           "\"recipients_outside\" counts as %s for actions whose recipients are "
                           "not known: %s%s",
                           rule->decision == POLICY_ALLOW ? "false" : "true",
                           found->without_recipients.text, more(&found->without_recipients));
    if (found->failing.count > 0)
        catalog_report_add(report, true, source, at,
                           "\"when\" counts as %s for examples of %s%s, because it fails: %s",
                           rule->decision == POLICY_ALLOW ? "false" : "true", found->failing.text,
                           more(&found->failing), found->failure.text);
}

int policy_lint(const struct policy *policy, const struct catalog *catalog, slice source,
                struct catalog_report *report)
{
    struct findings *found = ARENA_ARRAY(&report->arena, struct findings, policy->rule_count);
    if (!found || catalog_open_heads(catalog) != OK)
        return ERR_NOMEM;
    for (size_t i = 0; i < catalog->integration_count; i++) {
        const struct catalog_integration *integration = catalog->integrations[i];
        for (size_t j = 0; j < integration->action_count; j++) {
            const struct catalog_action *head = &integration->actions[j];
            const struct catalog_action *action =
                catalog_find_action(integration, head->action_id, NULL);
            if (!action)
                return ERR_NOMEM;
            lint_action(policy, action, found);
        }
    }
    for (size_t i = 0; i < policy->rule_count; i++)
        report_rule(policy, i, &found[i], source, report);
    return OK;
}
