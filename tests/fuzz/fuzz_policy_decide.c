/*
 * Any text as a policy and an input, with a line break between them: the policy is refused with a
 * message, or it decides. What is foreseen is true of every decision. No memory is left allocated.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "catalog/catalog.h"
#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARENA_BYTES_MAX = 64 * 1024 * 1024 };

static void check(bool is_fine)
{
    if (!is_fine)
        abort();
}

static void decide(struct policy *policy, const struct catalog *catalog, slice tool,
                   const struct json *input)
{
    const struct catalog_action *action = catalog_find_tool(catalog, tool);
    struct policy_verdict foreseen, verdict;
    check(action != NULL);
    policy_foresee(policy, action, &foreseen);
    policy_decide(policy, action, input, SLICE("user"), &verdict);
    check(verdict.decision != POLICY_DEPENDS);
    check(foreseen.decision == POLICY_DEPENDS || foreseen.decision == verdict.decision);
    check(foreseen.may_confirm || verdict.decision != POLICY_CONFIRM);
    check(foreseen.is_hidden == verdict.is_hidden);
    check(foreseen.rule == POLICY_RULE_SEVERAL || foreseen.rule == verdict.rule);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct catalog_report report;
    struct arena arena;
    slice rest = slice_of(data, size), text = slice_split(&rest, '\n');
    catalog_report_init(&report);
    arena_init(&arena, ARENA_BYTES_MAX);
    struct policy *policy = policy_compile_text(SLICE_NONE, text, SLICE_NONE, &report);
    check((policy == NULL) == (report.error_count > 0));
    for (size_t i = 0; i < report.count; i++)
        check(report.problems[i].text.len > 0);
    const struct json *input = json_parse(&arena, rest, &json_limits_request, NULL);
    struct catalog *catalog = policy ? catalog_load_all(NULL, &report) : NULL;
    if (catalog) {
        decide(policy, catalog, SLICE("gmail_send_message"), input);
        decide(policy, catalog, SLICE("gmail_list_threads"), input);
    }
    catalog_unref(catalog);
    policy_unref(policy);
    arena_deinit(&arena);
    catalog_report_deinit(&report);
    check(mem_live_blocks() == 0);
    return 0;
}
