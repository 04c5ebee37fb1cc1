/* mcp/action_tools: the tools that a pattern names. */
#include "mcp/method.h"
#include "unit.h"

static void expect(const char *name, const char *pattern, bool wanted)
{
    if (mcp_name_is_like(slice_cstr(name), slice_cstr(pattern)) != wanted)
        fail_msg("\"%s\" %s like \"%s\"", name, wanted ? "is not" : "is", pattern);
}

static void a_star_matches_any_characters(void **state)
{
    (void)state;
    expect("gmail", "gmail", true);
    expect("gmail", "gmai", false);
    expect("gmail", "gmails", false);
    expect("gmail_send_message", "gmail*", true);
    expect("gmail_send_message", "*_message", true);
    expect("gmail_send_message", "gmail*message", true);
    expect("gmail_send_message", "gmail_send_mess*_message", false);
    expect("gmail_send_message", "*sent", false);
    expect("aabab", "*ab", true);
    expect("aaba", "*ab", false);
    expect("anything", "*", true);
    expect("", "*", true);
    expect("", "", true);
    expect("a", "", false);
    expect("", "a", false);
}

/* A list compares each item with each name in one turn, so the number of items is limited. */
static void a_list_is_short(void **state)
{
    char list[3 * MCP_TOOLS_ITEMS_MAX + 3];
    (void)state;
    assert_true(mcp_action_tools_are_few(SLICE_NONE));
    assert_true(mcp_action_tools_are_few(SLICE("gmail,slack_*_x")));
    assert_false(mcp_action_tools_are_few(SLICE("gmail,*a*")));
    for (size_t i = 0; i <= MCP_TOOLS_ITEMS_MAX; i++)
        memcpy(list + 3 * i, "ab,", 3);
    assert_true(mcp_action_tools_are_few(slice_of(list, 3 * MCP_TOOLS_ITEMS_MAX)));
    assert_false(mcp_action_tools_are_few(slice_of(list, sizeof(list))));
}

static void versions(void **state)
{
    (void)state;
    assert_true(mcp_version_is_legacy(SLICE("2025-11-25")));
    assert_true(mcp_version_is_legacy(SLICE("2025-06-18")));
    assert_true(mcp_version_is_legacy(SLICE("2025-03-26")));
    assert_false(mcp_version_is_legacy(SLICE("2026-07-28")));
    assert_false(mcp_version_is_legacy(SLICE("2024-11-05")));
    assert_false(mcp_version_is_legacy(SLICE_NONE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_star_matches_any_characters),
        cmocka_unit_test(a_list_is_short),
        cmocka_unit_test(versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
