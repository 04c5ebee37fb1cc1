/*
 * Documents of policies: every fault is reported with its place, and nothing faulty is compiled.
 */
#include "policy/policy.h"
#include "support/catalog_test.h"

static struct policy *compile(struct bench *b, const char *quoted)
{
    bench_forget(b);
    return policy_compile_text(SLICE_NONE, slice_cstr(unit_quoted(&b->arena, quoted)), SLICE_NONE,
                               &b->report);
}

/* wanted: "pointer: part of the text" for each fault, separated by line breaks */
static void refuse(struct bench *b, const char *quoted, const char *wanted)
{
    slice rest = slice_cstr(wanted);
    assert_null(compile(b, quoted));
    for (size_t i = 0; rest.len > 0; i++) {
        slice text = slice_split(&rest, '\n'), pointer = slice_split(&text, ':');
        if (i >= b->report.count)
            fail_msg("%s: %zu faults, not \"%.*s\"", quoted, i, SLICE_ARG(text));
        const struct catalog_problem *problem = &b->report.problems[i];
        assert_slice(problem->pointer, pointer);
        if (slice_find(problem->text, slice_trim(text)) < 0)
            fail_msg("%.*s: [%.*s], not [%.*s]", SLICE_ARG(pointer), SLICE_ARG(problem->text),
                     SLICE_ARG(text));
        if (rest.len == 0 && b->report.count != i + 1)
            fail_msg("%s: another fault: %.*s", quoted, SLICE_ARG(b->report.problems[i + 1].text));
    }
}

static void accept(struct bench *b, const char *quoted)
{
    struct policy *policy = compile(b, quoted);
    if (!policy)
        fail_msg("%s: %.*s", quoted, SLICE_ARG(b->report.problems[0].text));
    policy_unref(policy);
}

#define RULE(members) "{'default':'deny','rules':[{'decision':'deny'," members "}]}"

static void documents(void **state)
{
    accept(*state, "{'default':'allow'}");
    accept(*state, "{'default':'confirm','rules':[]}");
    accept(*state, "{'default':'allow','rules':[{'tools':['gmail_*','!gmail_delete_*'],"
                   "'side_effect':['write','delete'],'recipients_outside':['Acme.com','b\xC3\xBC"
                   "cher.example'],'when':'input.amount > `100` && !user && tool != `\\'x\\'`',"
                   "'decision':'confirm','reason':'m\xC3\xBCssen Menschen tun'}]}");
    accept(*state, RULE("'hidden':true"));
    accept(*state, RULE("'recipients_outside':[]"));
    refuse(*state, "", ":");
    refuse(*state, "[]", ": must be an object");
    refuse(*state, "{'default':'allow','default':'deny'}", ": default");
    refuse(*state, "{}", ": member \"default\" is missing");
    refuse(*state, "{'default':'Allow'}", "/default: must be one of \"allow\"");
    refuse(*state, "{'default':null}", "/default: must be one of");
    accept(*state, "{'default':'hold'}");
    refuse(*state, "{'default':'allow','rule':[]}", ": did you mean \"rules\"");
    refuse(*state, "{'default':'allow','rules':{}}", "/rules: must be an array");
    refuse(*state, "{'default':'allow','rules':[1,{}]}",
           "/rules/0: must be an object\n/rules/1: \"decision\" is missing");
}

static void rules(void **state)
{
    refuse(*state, RULE("'tool':['x']"), "/rules/0: did you mean \"tools\"");
    refuse(*state, RULE("'tools':'gmail_*'"), "/rules/0/tools: array of strings");
    refuse(*state, RULE("'tools':[]"), "/rules/0/tools: 1 to 50 items; leave it out");
    refuse(*state,
           RULE("'tools':['ok_*','Gmail_*','gmail_?','','!','gmail.send','gm\xD0\xB0il_*']"),
           "/rules/0/tools/1: \"Gmail_*\" is not a pattern\n/rules/0/tools/2: not a pattern\n"
           "/rules/0/tools/3: not a pattern\n/rules/0/tools/4: not a pattern\n"
           "/rules/0/tools/5: not a pattern\n/rules/0/tools/6: not a pattern");
    refuse(*state, RULE("'side_effect':['write','Read']"), "/rules/0/side_effect/1: must be read");
    refuse(*state, RULE("'side_effect':[]"), "/rules/0/side_effect: 1 to 50");
    refuse(*state, RULE("'recipients_outside':['acme.com','@acme.com','*.acme.com','a b']"),
           "/rules/0/recipients_outside/1: \"@acme.com\" is not a domain\n"
           "/rules/0/recipients_outside/2: not a domain\n"
           "/rules/0/recipients_outside/3: not a domain");
    refuse(*state, RULE("'when':'input.'"), "/rules/0/when: syntax");
    refuse(*state, RULE("'when':true"), "/rules/0/when: JMESPath");
    refuse(*state, RULE("'when':null"), "/rules/0/when: in a string, got null");
    refuse(*state, RULE("'when':'user == null'"), "/rules/0/when: in backquotes: `null`");
    refuse(*state, RULE("'tools':null"), "/rules/0/tools: array of strings");
    refuse(*state, RULE("'side_effect':null"), "/rules/0/side_effect: array of strings");
    refuse(*state, RULE("'recipients_outside':null"),
           "/rules/0/recipients_outside: array of strings");
    refuse(*state, RULE("'reason':null"), "/rules/0/reason: must be a string");
    refuse(*state, RULE("'hidden':null"), "/rules/0/hidden: true or false");
    refuse(*state, RULE("'\\u0000\\u001b[31m':1"),
           "/rules/0: unknown member \"\\u0000\\u001b[31m\"");
    refuse(*state, RULE("'when':'amount > `1`'"), "/rules/0/when: is input.amount meant?");
    refuse(*state, RULE("'when':'input.a && length(inputs.b) > `1`'"),
           "/rules/0/when: no \"inputs\"");
    refuse(*state, RULE("'reason':''"), "/rules/0/reason: one line");
    refuse(*state, RULE("'reason':'a\\nb'"), "/rules/0/reason: one line");
    refuse(*state, RULE("'hidden':1"), "/rules/0/hidden: true or false");
    refuse(*state, RULE("'hidden':true,'when':'input.x'"), "/rules/0/hidden: cannot be combined");
    refuse(*state, RULE("'hidden':true,'recipients_outside':['a.b']"),
           "/rules/0/hidden: cannot be combined");
    refuse(*state, "{'default':'allow','rules':[{'decision':'confirm','hidden':true}]}",
           "/rules/0/hidden: rules that deny");
#define EXPIRES(text) "{'default':'allow','rules':[{'decision':'hold','expires_in':" text "}]}"
    accept(*state, EXPIRES("60"));
    accept(*state, EXPIRES("2592000"));
    refuse(*state, EXPIRES("59"), "/rules/0/expires_in: seconds from 60 to 2592000");
    refuse(*state, EXPIRES("2592001"), "/rules/0/expires_in: seconds from 60");
    refuse(*state, EXPIRES("null"), "/rules/0/expires_in: seconds from 60");
    refuse(*state, EXPIRES("'1 h'"), "/rules/0/expires_in: seconds from 60");
    refuse(*state, RULE("'expires_in':60"), "/rules/0/expires_in: rules that hold");
}

/* A document of `count` copies of a text between two others. */
static char *repeated(struct bench *b, const char *before, const char *text, size_t count,
                      const char *after)
{
    struct arena_text out;
    arena_text_init(&out, &b->arena, 1024 * 1024);
    arena_text_add(&out, slice_cstr(before));
    for (size_t i = 0; i < count; i++) {
        arena_text_add(&out, i > 0 ? SLICE(",") : SLICE(""));
        arena_text_add(&out, slice_cstr(text));
    }
    arena_text_add(&out, slice_cstr(after));
    arena_text_add(&out, slice_of("", 1));
    assert_int_equal(out.status, OK);
    return out.ptr;
}

static void limits(void **state)
{
    struct bench *b = *state;
    static const char rule[] = "{'decision':'deny','tools':['a']}";
    accept(b, repeated(b, "{'default':'deny','rules':[", rule, POLICY_RULES_MAX, "]}"));
    refuse(b, repeated(b, "{'default':'deny','rules':[", rule, POLICY_RULES_MAX + 1, "]}"),
           "/rules: at most 100");
    accept(b, repeated(b, "{'default':'deny','rules':[{'decision':'deny','tools':[", "'a'",
                       POLICY_GLOBS_MAX, "]}]}"));
    refuse(b,
           repeated(b, "{'default':'deny','rules':[{'decision':'deny','tools':[", "'a'",
                    POLICY_GLOBS_MAX + 1, "]}]}"),
           "/rules/0/tools: 1 to 50");
    const char *many = repeated(b, "{'decision':'deny','tools':[", "'a'", POLICY_GLOBS_MAX, "]}");
    size_t rules = POLICY_GLOBS_ALL_MAX / POLICY_GLOBS_MAX;
    accept(b, repeated(b, "{'default':'deny','rules':[", many, rules, "]}"));
    refuse(b, repeated(b, "{'default':'deny','rules':[", many, rules + 2, "]}"),
           "/rules/10/tools: all rules together may have 500");
    refuse(b, repeated(b, "{'default':'deny','rules':[", "         ", 7000, "]}"),
           ": larger than 65536 bytes");
    /* conditions that take much memory, in a document of the right size */
    const char *member = repeated(b, "{'decision':'deny','when':'input.[", "a[0].b[0]", 55, "]'}");
    assert_null(compile(b, repeated(b, "{'default':'deny','rules':[", member, 100, "]}")));
    assert_contains(b->report.problems[b->report.count - 1].text.ptr, "more than 1024 KiB");
}

static void names(void **state)
{
    (void)state;
    assert_true(policy_is_name(SLICE("default")));
    assert_true(policy_is_name(SLICE("a-2")));
    assert_false(policy_is_name(SLICE("")));
    assert_false(policy_is_name(SLICE("2a")));
    assert_false(policy_is_name(SLICE("-a")));
    assert_false(policy_is_name(SLICE("a_b")));
    assert_false(policy_is_name(SLICE("A")));
    assert_false(policy_is_name(SLICE("test"))); /* the endpoint's */
    char name[POLICY_NAME_MAX + 1];
    memset(name, 'a', sizeof(name));
    assert_true(policy_is_name(slice_of(name, POLICY_NAME_MAX)));
    assert_false(policy_is_name(slice_of(name, POLICY_NAME_MAX + 1)));
}

/* Each allocation fails in turn: there is a fault in the report, and no memory is left. */
static void memory(void **state)
{
    struct bench *b = *state;
    const char *text = unit_quoted(&b->arena, RULE("'tools':['a*'],'when':'input.a > `1`',"
                                                   "'recipients_outside':['a.b'],'reason':'x'"));
    for (uint64_t n = 1;; n++) {
        struct catalog_report report;
        catalog_report_init(&report);
        mem_fail_at(n, 1);
        struct policy *policy =
            policy_compile_text(SLICE_NONE, slice_cstr(text), SLICE("a@1"), &report);
        bool is_hit = mem_fail_hits() > 0;
        mem_fail_at(0, 0);
        assert_true(policy || report.error_count > 0);
        policy_unref(policy);
        catalog_report_deinit(&report);
        if (!is_hit)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(documents), BENCH_TEST(rules),  BENCH_TEST(limits),
        UNIT_TEST(names),      BENCH_TEST(memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
