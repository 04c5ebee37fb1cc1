/*
 * Warnings about rules that do not do what they seem to.
 */
#include "policy/policy.h"
#include "support/catalog_test.h"

/* wanted: "pointer: part of the text" for each warning, separated by line breaks */
static void expect(struct bench *b, const char *quoted, const char *wanted)
{
    slice rest = slice_cstr(wanted);
    size_t count = 0;
    bench_forget(b);
    struct policy *policy = policy_compile_text(
        SLICE("f"), slice_cstr(unit_quoted(&b->arena, quoted)), SLICE_NONE, &b->report);
    assert_non_null(policy);
    assert_int_equal(policy_lint(policy, b->catalog, SLICE("f"), &b->report), OK);
    policy_unref(policy);
    while (rest.len > 0) {
        slice text = slice_split(&rest, '\n'), pointer = slice_split(&text, ':');
        if (count == b->report.count)
            fail_msg("%s: no warning \"%.*s\"", quoted, SLICE_ARG(text));
        const struct catalog_problem *problem = &b->report.problems[count++];
        assert_slice(problem->pointer, pointer);
        assert_text(problem->source, "f");
        assert_true(problem->is_warning);
        if (slice_find(problem->text, slice_trim(text)) < 0)
            fail_msg("%.*s: [%.*s], not [%.*s]", SLICE_ARG(pointer), SLICE_ARG(problem->text),
                     SLICE_ARG(text));
    }
    if (b->report.count > count)
        fail_msg("%s: another warning: %.*s", quoted, SLICE_ARG(b->report.problems[count].text));
}

static void warnings(void **state)
{
    expect(*state, "{'default':'allow'}", "");
    expect(*state,
           "{'default':'allow','rules':[{'tools':['gmail_send_message'],'recipients_outside':["
           "'acme.com'],'when':'input.to && tool','decision':'deny'},{'decision':'confirm'}]}",
           "");
    expect(*state,
           "{'default':'allow','rules':[{'tools':['gmial_*'],'decision':'deny'},{'tools':['gmail_"
           "list_*'],'side_effect':['delete'],'decision':'deny'}]}",
           "/rules/0: matches no action\n/rules/1: matches no action");
    expect(*state,
           "{'default':'allow','rules':[{'tools':['gmail_*'],'when':'input.x','decision':'allow'},"
           "{'tools':['gmail_*'],'decision':'allow'},{'tools':['gmail_send_*'],'decision':'deny'},"
           "{'tools':['gmail_send_*','notion_*'],'decision':'deny'}]}",
           "/rules/2: decides nothing");
    expect(*state,
           "{'default':'allow','rules':[{'tools':['gmail_send_message','notion_create_page'],"
           "'recipients_outside':['acme.com'],'decision':'deny'}]}",
           "/rules/0: counts as true for actions whose recipients are not known: "
           "notion_create_page");
    expect(*state,
           "{'default':'deny','rules':[{'tools':['notion_*'],'recipients_outside':['acme.com'],"
           "'decision':'allow'}]}",
           "/rules/0: counts as false for actions");
    expect(*state,
           "{'default':'allow','rules':[{'tools':['gmail_send_message'],'when':'abs(input.to) > "
           "`1`','decision':'deny'}]}",
           "/rules/0: \"when\" counts as true for examples of gmail_send_message, because it "
           "fails: ");
}

/* Names of tools are cut, not the warning. */
static void many(void **state)
{
    expect(*state,
           "{'default':'allow','rules':[{'side_effect':['read'],'recipients_outside':['acme.com'],"
           "'decision':'deny'}]}",
           "/rules/0: and others");
}

int main(void)
{
    const struct CMUnitTest tests[] = {CATALOG_TEST(warnings), CATALOG_TEST(many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
