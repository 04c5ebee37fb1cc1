/*
 * Decisions: globs, conditions on the input, what cannot be evaluated, what all calls of an action
 * have in common, hostile inputs; and all pairs of rules against a model.
 */
#include "policy/policy.h"
#include "support/catalog_test.h"

static struct policy *compile(struct bench *b, const char *quoted)
{
    bench_forget(b);
    struct policy *policy = policy_compile_text(
        SLICE_NONE, slice_cstr(unit_quoted(&b->arena, quoted)), SLICE("p@7"), &b->report);
    if (!policy)
        fail_msg("%s: %.*s", quoted, SLICE_ARG(b->report.problems[0].text));
    return policy;
}

/* "deny 0 hidden unsure": the decision, its rule (default and several by name) and the facts. */
static const char *say(const struct policy_verdict *verdict)
{
    static char text[100];
    char rule[20];
    (void)snprintf(rule, sizeof(rule), "%d", verdict->rule);
    (void)snprintf(text, sizeof(text), "%s %s%s%s%s%s", policy_decision_name(verdict->decision),
                   verdict->rule == POLICY_RULE_DEFAULT   ? "default"
                   : verdict->rule == POLICY_RULE_SEVERAL ? "several"
                                                          : rule,
                   verdict->is_hidden ? " hidden" : "", verdict->is_unsure ? " unsure" : "",
                   verdict->may_confirm ? " confirms" : "", verdict->may_hold ? " holds" : "");
    return text;
}

static const struct catalog_action *tool(struct bench *b, const char *name)
{
    const struct catalog_action *action = catalog_find_tool(b->catalog, slice_cstr(name));
    if (!action)
        fail_msg("there is no %s", name);
    return action;
}

/* input: NULL foresees */
static void expect_of(struct bench *b, struct policy *policy, const char *name, const char *input,
                      const char *wanted)
{
    struct policy_verdict verdict;
    const struct json *value = NULL;
    if (input) {
        value = json_parse(&b->arena, slice_cstr(unit_quoted(&b->arena, input)),
                           &json_limits_request, NULL);
        assert_non_null(value);
    }
    int status = policy_test(policy, b->catalog, slice_cstr(name), value, SLICE("u1"), &b->arena,
                             &verdict, &b->err);
    if (status != OK)
        fail_msg("%s: %s", name, b->err.text);
    if (strcmp(say(&verdict), wanted) != 0)
        fail_msg("%s(%s): %s, not %s", name, input ? input : "", say(&verdict), wanted);
}

static void expect(struct bench *b, const char *document, const char *name, const char *input,
                   const char *wanted)
{
    struct policy *policy = compile(b, document);
    expect_of(b, policy, name, input, wanted);
    policy_unref(policy);
}

#define SEND            "gmail_send_message"
#define LIST            "gmail_list_threads"
#define PAGE            "notion_create_page"
#define ALLOW_BUT(rule) "{'default':'allow','rules':[{'decision':'deny'," rule "}]}"
#define DENY_BUT(rule)  "{'default':'deny','rules':[{'decision':'allow'," rule "}]}"

static void none(void **state)
{
    struct bench *b = *state;
    expect_of(b, NULL, SEND, "{}", "allow default");
    expect_of(b, NULL, SEND, NULL, "allow default");
    assert_false(policy_hides(NULL, tool(b, SEND)));
    assert_false(policy_denies(NULL, tool(b, SEND)));
    assert_null(policy_ref(NULL));
    policy_unref(NULL);
    assert_null(policy_label(NULL).ptr);
    expect(b, "{'default':'confirm'}", LIST, "{}", "confirm default confirms");
    expect_of(b, policy_denies_all(), LIST, "{}", "deny default");
    assert_true(policy_denies(policy_ref(policy_denies_all()), tool(b, LIST)));
    policy_unref(policy_denies_all());
    struct policy_verdict verdict;
    assert_int_equal(policy_test(NULL, b->catalog, SLICE("gmail_send_mesage"), NULL, SLICE_NONE,
                                 &b->arena, &verdict, &b->err),
                     ERR_NOTFOUND);
    assert_contains(b->err.text, SEND);
}

static void names(void **state)
{
    static const struct {
        const char *tools, *wanted[3]; /* of SEND, LIST and PAGE: whether the rule matches */
    } cases[] = {
        {"'*'", {"y", "y", "y"}},
        {"'gmail_*'", {"y", "y", "n"}},
        {"'gmail_send_message'", {"y", "n", "n"}},
        {"'gmail_send_messag'", {"n", "n", "n"}},
        {"'gmail_send_message_'", {"n", "n", "n"}},
        {"'*_send_*'", {"y", "n", "n"}},
        {"'*s*e*d*'", {"y", "y", "n"}},
        {"'g*l*s*e'", {"y", "n", "n"}},
        {"'**gmail**'", {"y", "y", "n"}},
        {"'*a*a*a*a*a*a*'", {"n", "n", "n"}},
        {"'gmail_*','!*_list_*'", {"y", "n", "n"}},
        {"'!*_list_*','gmail_*'", {"y", "n", "n"}},
        {"'!gmail_*'", {"n", "n", "y"}},
        {"'!gmail_send_*','!notion_*'", {"n", "y", "n"}},
        {"'gmail_*','!gmail_*'", {"n", "n", "n"}},
        {"'gmail_send_message','notion_create_page'", {"y", "n", "y"}},
    };
    static const char *const tools[] = {SEND, LIST, PAGE};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char document[200];
        (void)snprintf(document, sizeof(document),
                       "{'default':'allow','rules':[{'decision':'deny','tools':[%s]}]}",
                       cases[i].tools);
        for (size_t j = 0; j < ARRAY_LEN(tools); j++)
            expect(*state, document, tools[j], j % 2 ? "{}" : NULL,
                   cases[i].wanted[j][0] == 'y' ? "deny 0" : "allow default");
    }
    expect(*state, ALLOW_BUT("'side_effect':['read']"), LIST, "{}", "deny 0");
    expect(*state, ALLOW_BUT("'side_effect':['delete','admin','write']"), LIST, "{}",
           "allow default");
    expect(*state, ALLOW_BUT("'side_effect':['write']"), SEND, NULL, "deny 0");
}

static void recipients(void **state)
{
    static const char outside[] = ALLOW_BUT("'recipients_outside':['acme.com']");
    static const struct {
        const char *input, *wanted;
    } cases[] = {
        {"{'to':'a@acme.com'}", "allow default"},
        {"{'to':'A <a@ACME.com.>'}", "allow default"},
        {"{'to':['a@acme.com','b@mail.acme.com'],'cc':'c@acme.com'}", "allow default"},
        {"{}", "allow default"},
        {"{'to':'a@evil.example'}", "deny 0"},
        {"{'to':'a@acme.com, b@evil.example'}", "deny 0"},
        {"{'to':['a@acme.com',['b@acme.com',['c@evil.example']]]}", "deny 0"},
        {"{'to':'a@acme.com','cc':'b@evil.example'}", "deny 0"},
        {"{'to':'a@acme.com','bcc':['b@evil.example']}", "deny 0"},
        {"{'to':'\\\"a@acme.com\\\" <b@evil.example>'}", "deny 0"},
        {"{'to':'a@acme.com <b@evil.example>'}", "deny 0"},
        {"{'to':'b@evil.example <a@acme.com>'}", "deny 0"},
        {"{'to':'a@acme.com@evil.example'}", "deny 0"},
        {"{'to':'a@evil.example(x@acme.com)'}", "deny 0"},
        {"{'to':'a@notacme.com'}", "deny 0"},
        {"{'to':'a@acme.com.evil.example'}", "deny 0"},
        {"{'to':'a@acm\xD0\xB5.com'}", "deny 0"},
        {"{'to':'a@acme\xEF\xBC\x8E"
         "com'}",
         "deny 0"},
        {"{'to':'a@acme.com\\u0000.evil.example'}", "deny 0"},
        {"{'to':'a@acme.com\\nBcc: b@evil.example'}", "deny 0"},
        {"{'to':'everyone'}", "deny 0"},
        {"{'to':{'email':'a@acme.com'}}", "deny 0"},
        {"{'to':5}", "deny 0"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        expect(*state, outside, SEND, cases[i].input, cases[i].wanted);
    expect(*state, ALLOW_BUT("'recipients_outside':[]"), SEND, "{'to':'a@acme.com'}", "deny 0");
    expect(*state, ALLOW_BUT("'recipients_outside':[]"), SEND, "{}", "allow default");
    expect(*state, outside, SEND, NULL, "depends several");
    /* a manifest without recipients */
    expect(*state, outside, PAGE, "{}", "deny 0 unsure");
    expect(*state, outside, PAGE, NULL, "deny 0 unsure");
    expect(*state, DENY_BUT("'recipients_outside':['acme.com']"), PAGE, "{}", "deny default");
    expect(*state, DENY_BUT("'recipients_outside':['acme.com']"), PAGE, NULL, "deny default");
    expect(*state, "{'default':'allow','rules':[{'decision':'confirm','recipients_outside':[]}]}",
           PAGE, NULL, "confirm 0 confirms");
    /* recipients that cannot be evaluated */
    expect(*state, outside, "google_drive_share_file", "{'type':'domain','domain':5}",
           "deny 0 unsure");
    expect(*state, DENY_BUT("'recipients_outside':['acme.com']"), "google_drive_share_file",
           "{'type':'domain','domain':5}", "deny default");
}

static void expressions(void **state)
{
    expect(*state, ALLOW_BUT("'when':'input.n > `100`'"), SEND, "{'n':101}", "deny 0");
    expect(*state, ALLOW_BUT("'when':'input.n > `100`'"), SEND, "{'n':100}", "allow default");
    expect(*state, ALLOW_BUT("'when':'input.n > `100`'"), SEND, "{}", "allow default");
    expect(*state, ALLOW_BUT("'when':'input.n > `100`'"), SEND, NULL, "depends several");
    expect(*state, ALLOW_BUT("'when':'user == `\\'u1\\'`'"), SEND, "{}", "deny 0");
    expect(*state, ALLOW_BUT("'when':'tool != `\\'gmail_send_message\\'`'"), SEND, "{}",
           "allow default");
    expect(*state, ALLOW_BUT("'when':'@.input.n == $.input.m'"), SEND, "{'n':1,'m':1.0}", "deny 0");
    /* what fails counts as true where it restricts, and as false where it allows */
    expect(*state, ALLOW_BUT("'when':'starts_with(input.to, `\\'a\\'`)'"), SEND, "{'to':['b']}",
           "deny 0 unsure");
    expect(*state, DENY_BUT("'when':'starts_with(input.to, `\\'a\\'`)'"), SEND, "{'to':['a']}",
           "deny default");
    expect(*state,
           "{'default':'allow','rules':[{'decision':'confirm','when':'length(input.to) > `1`'}]}",
           SEND, "{}", "confirm 0 confirms");
    /* a member that is left out has the default of the schema */
    static const char link[] = ALLOW_BUT("'tools':['dropbox_create_shared_link'],'when':"
                                         "'input.audience == `\\'public\\'`'");
    expect(*state, link, "dropbox_create_shared_link", "{'path':'/x','audience':'public'}",
           "deny 0");
    expect(*state, link, "dropbox_create_shared_link", "{'path':'/x'}", "deny 0");
    expect(*state, link, "dropbox_create_shared_link", "{}", "deny 0");
    expect(*state, link, "dropbox_create_shared_link", "{'path':'/x','audience':'team'}",
           "allow default");
    /* no caller gets around a deny by making an earlier condition fail */
    static const char later[] =
        "{'default':'allow','rules':[{'decision':'confirm','when':'length(input.subject) > `1`'},"
        "{'decision':'deny','recipients_outside':['acme.com']},{'decision':'allow'}]}";
    expect(*state, later, SEND, "{'to':'a@evil.example','subject':'xx'}", "confirm 0 confirms");
    expect(*state, later, SEND, "{'to':'a@evil.example'}", "deny 1 unsure");
    expect(*state, later, SEND, "{'to':'a@acme.com'}", "confirm 0 confirms");
    expect(*state, later, SEND, "{'to':'a@acme.com','subject':'x'}", "allow 2");
    expect(*state, later, PAGE, NULL, "depends several confirms");
    expect(*state,
           "{'default':'deny','rules':[{'decision':'confirm','recipients_outside':['a.b']},"
           "{'decision':'deny','tools':['notion_*'],'when':'input.x'}]}",
           PAGE, NULL, "deny several");
    /* nor around one that holds, which a later confirmation does not loosen either */
    static const char holds[] =
        "{'default':'confirm','rules':[{'decision':'confirm','when':'abs(input.a) > `1`'},"
        "{'decision':'hold','when':'abs(input.b) > `1`'},{'decision':'deny','when':'input.c'}]}";
    expect(*state, holds, SEND, "{'a':2,'b':2}", "confirm 0 confirms");
    expect(*state, holds, SEND, "{'b':2}", "hold 1 holds");
    expect(*state, holds, SEND, "{'a':0}", "hold 1 holds");
    expect(*state, holds, SEND, "{'a':0,'c':1}", "deny 2 unsure");
    expect(*state, holds, SEND, "{'a':0,'b':0}", "confirm default confirms");
    expect(*state, holds, SEND, "{'b':0}", "confirm 0 confirms");
    expect(*state, "{'default':'hold'}", LIST, "{}", "hold default holds");
    /* a condition that is false decides, whatever the other one is */
    expect(*state, ALLOW_BUT("'when':'`false`','recipients_outside':['acme.com']"), PAGE, "{}",
           "allow default");
    expect(*state, ALLOW_BUT("'when':'abs(`\\'x\\'`)','recipients_outside':['acme.com']"), SEND,
           "{'to':'a@acme.com'}", "allow default");
    expect(*state, ALLOW_BUT("'when':'abs(input)','recipients_outside':['acme.com']"), SEND,
           "{'to':'a@evil.example'}", "deny 0 unsure");
}

static void foreseen(void **state)
{
    static const char mixed[] =
        "{'default':'allow','rules':[{'tools':['gmail_*'],'decision':'confirm','when':'input.a'},"
        "{'tools':['gmail_send_*'],'decision':'deny'}]}";
    expect(*state, mixed, SEND, NULL, "depends several confirms");
    expect(*state, mixed, LIST, NULL, "depends several confirms");
    expect(*state, mixed, PAGE, NULL, "allow default");
    expect(*state, mixed, SEND, "{'a':1}", "confirm 0 confirms");
    expect(*state, mixed, SEND, "{}", "deny 1");
    expect(*state,
           "{'default':'deny','rules':[{'decision':'deny','when':'input.a'},{'decision':'deny',"
           "'hidden':true,'tools':['gmail_*']}]}",
           SEND, "{'a':1}", "deny 0 hidden");
    expect(*state,
           "{'default':'deny','rules':[{'decision':'deny','when':'input.a'},{'decision':'deny',"
           "'hidden':true,'tools':['gmail_*']}]}",
           SEND, NULL, "deny several hidden");
    /* calls that are visible make the action visible */
    expect(*state,
           "{'default':'deny','rules':[{'decision':'allow','when':'input.a'},{'decision':'deny',"
           "'hidden':true}]}",
           SEND, "{}", "deny 1");
    expect(*state, ALLOW_BUT("'hidden':true"), SEND, "{}", "deny 0 hidden");
    expect(*state, ALLOW_BUT("'hidden':true"), SEND, NULL, "deny 0 hidden");
}

static void expiries(void **state)
{
    struct bench *b = *state;
    struct policy *policy =
        compile(b, "{'default':'hold','rules':[{'tools':['gmail_send_*'],'decision':'hold',"
                   "'expires_in':60},{'tools':['gmail_*'],'decision':'confirm'}]}");
    static const struct {
        const char *name;
        uint32_t expires_s;
    } cases[] = {{SEND, 60}, {LIST, 0}, {PAGE, POLICY_EXPIRES_S}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct policy_verdict verdict;
        policy_decide(policy, tool(b, cases[i].name), NULL, SLICE_NONE, &verdict);
        assert_int_equal(verdict.expires_s, cases[i].expires_s);
        policy_foresee(policy, tool(b, cases[i].name), &verdict);
        assert_int_equal(verdict.expires_s, cases[i].expires_s);
    }
    policy_unref(policy);
}

/* Heads suffice, and another snapshot of the catalog empties what is remembered. */
static void snapshots(void **state)
{
    struct bench *b = *state;
    struct policy *policy = compile(b, ALLOW_BUT("'recipients_outside':['acme.com']"));
    struct policy_verdict verdict;
    assert_int_equal(catalog_open_heads(b->catalog), OK);
    for (int round = 0; round < 3; round++) {
        struct catalog *other = catalog_load_all(NULL, &b->report);
        const struct catalog *catalogs[] = {b->catalog, other};
        assert_int_equal(catalog_open_heads(other), OK);
        for (size_t i = 0; i < ARRAY_LEN(catalogs); i++) {
            const struct catalog_integration *app = catalogs[i]->integrations[0];
            for (size_t j = 0; j < catalogs[i]->integration_count; j++)
                if (slice_eq_cstr(catalogs[i]->integrations[j]->integration_id, "gmail"))
                    app = catalogs[i]->integrations[j];
            const struct catalog_action *head = catalog_find_head(app, SLICE("send_message"));
            assert_false(head->is_open);
            policy_foresee(policy, head, &verdict);
            assert_string_equal(say(&verdict), "depends several");
            head = catalog_find_head(app, SLICE("list_threads"));
            policy_foresee(policy, head, &verdict);
            assert_string_equal(say(&verdict), "deny 0 unsure");
        }
        catalog_unref(other);
    }
    assert_text(policy_label(policy_ref(policy)), "p@7");
    policy_unref(policy);
    policy_unref(policy);
}

/* ---- hostile inputs ---- */

/* Returns an input whose member has `count` copies of a text. */
static const struct json *large(struct bench *b, const char *member, const char *text, size_t count)
{
    size_t len = strlen(text);
    char *all = arena_alloc_text(&b->arena, len * count + 1);
    struct json *input = arena_zalloc(&b->arena, sizeof(*input));
    assert_true(all && input);
    for (size_t i = 0; i < count; i++)
        memcpy(all + i * len, text, len);
    *input = json_object();
    json_object_set(&b->arena, input, slice_cstr(member), json_string(slice_of(all, len * count)));
    return input;
}

static void decide_large(struct bench *b, const char *document, const struct json *input,
                         const char *wanted)
{
    struct policy *policy = compile(b, document);
    struct policy_verdict verdict;
    policy_decide(policy, tool(b, SEND), input, SLICE_NONE, &verdict);
    if (strcmp(say(&verdict), wanted) != 0)
        fail_msg("%s: %s, not %s", document, say(&verdict), wanted);
    policy_unref(policy);
}

static void hostile(void **state)
{
    struct bench *b = *state;
    enum { MB = 1024 * 1024 };
    static const char outside[] = ALLOW_BUT("'recipients_outside':['acme.com']");
    /* what is read within the budget is decided by its value */
    const struct json *text = large(b, "text", "a", 8 * (size_t)MB);
    decide_large(b, outside, text, "allow default");
    decide_large(b, ALLOW_BUT("'when':'input.text == `\\'a\\'`'"), text, "allow default");
    decide_large(b, ALLOW_BUT("'when':'contains(input.text, `\\'b\\'`)'"), text, "deny 0 unsure");
    decide_large(b, DENY_BUT("'when':'contains(input.text, `\\'a\\'`)'"), text, "deny default");
    /* many recipients, few long ones, and a list of lists */
    decide_large(b, outside, large(b, "to", "a@acme.com,", 2000), "allow default");
    decide_large(b, outside, large(b, "to", "a@acme.com,", MB / 11), "deny 0 unsure");
    decide_large(b, DENY_BUT("'recipients_outside':['acme.com']"),
                 large(b, "to", "a@evil.example,", MB / 15), "deny default");
    decide_large(b, outside, large(b, "to", "a", 8 * (size_t)MB), "deny 0 unsure");
    decide_large(b, outside, large(b, "to", "\"", MB), "deny 0 unsure");
    struct json deep = json_string(SLICE("a@acme.com"));
    for (int i = 0; i < 60; i++) {
        struct json array = json_array();
        json_array_push(&b->arena, &array, deep);
        json_array_push(&b->arena, &array, deep);
        deep = array;
    }
    struct json input = json_object(); /* 2^60 recipients */
    json_object_set(&b->arena, &input, SLICE("to"), deep);
    decide_large(b, outside, &input, "deny 0 unsure");
    /* the rules share one budget: it is used up by the first, and the rest cannot be evaluated */
    char rules[8192];
    size_t len = (size_t)snprintf(rules, sizeof(rules), "{'default':'allow','rules':[");
    for (int i = 0; i < 60; i++)
        len += (size_t)snprintf(rules + len, sizeof(rules) - len,
                                "{'decision':'allow','when':'contains(input.text, `\\'b\\'`)'},");
    (void)snprintf(rules + len, sizeof(rules) - len, "{'decision':'confirm','when':'input.x'}]}");
    decide_large(b, rules, text, "confirm 60 confirms");
}

/* ---- all pairs of rules against a model ---- */

enum { TOOLS = 3, INPUTS = 3 };

/* A rule's conditions. For each tool: 'i' if they depend on the input, and for each input whether
 * they hold: yes, no, or unsure. */
struct conditions {
    const char *text, *depends, *holds[TOOLS];
};

static const char *const model_tools[TOOLS] = {SEND, LIST, PAGE};
static const char *const model_inputs[INPUTS] = {
    "{'to':'a@acme.com'}",
    "{'to':'a@evil.example','n':2}",
    "{'to':['a@acme.com','x'],'n':'2'}",
};
static const struct conditions all_conditions[] = {
    {"", "---", {"yyy", "yyy", "yyy"}},
    {",'tools':['gmail_*']", "---", {"yyy", "yyy", "nnn"}},
    {",'tools':['!gmail_list_*']", "---", {"yyy", "nnn", "yyy"}},
    {",'side_effect':['write']", "---", {"yyy", "nnn", "yyy"}},
    {",'recipients_outside':['acme.com']", "i--", {"nyy", "uuu", "uuu"}},
    {",'when':'input.n == `2`'", "iii", {"nyn", "nyn", "nyn"}},
    {",'when':'`true`'", "iii", {"yyy", "yyy", "yyy"}},
    {",'when':'`false`'", "iii", {"nnn", "nnn", "nnn"}},
    {",'when':'abs(input.n) > `1`'", "iii", {"uyu", "uyu", "uyu"}},
    {",'tools':['gmail_send_*'],'recipients_outside':['acme.com'],'when':'input.n'",
     "i--",
     {"nyy", "nnn", "nnn"}},
};
static const char *const decisions[] = {"allow", "confirm", "hold", "deny"};

struct model_rule {
    const struct conditions *conditions;
    enum policy_decision decision;
};

static bool counts(const struct model_rule *rule, char holds)
{
    return holds == 'y' || (holds == 'u' && rule->decision != POLICY_ALLOW);
}

/* Follows the rules in their order. */
static void model_decide(const struct model_rule *rules, enum policy_decision fallback, int tool_at,
                         int input_at, struct policy_verdict *verdict)
{
    int asks = -1, found = POLICY_RULE_DEFAULT;
    enum policy_decision least = POLICY_ALLOW;
    char holds = 'y';
    for (int i = 0; i < 2 && found < 0; i++) {
        holds = rules[i].conditions->holds[tool_at][input_at];
        bool is_asked = holds == 'u' &&
                        (rules[i].decision == POLICY_CONFIRM || rules[i].decision == POLICY_HOLD);
        if (is_asked && rules[i].decision > least) {
            asks = i;
            least = rules[i].decision;
        } else if (!is_asked && counts(&rules[i], holds)) {
            found = i;
        }
    }
    enum policy_decision decision = found < 0 ? fallback : rules[found].decision;
    bool is_denied = decision == POLICY_DENY, is_asked = asks >= 0 && decision <= least;
    bool could_ask = asks >= 0 && rules[asks].conditions->depends[tool_at] == 'i';
    *verdict = (struct policy_verdict){
        .decision = is_asked ? least : decision,
        .rule = is_asked ? asks : found,
        .is_unsure = is_denied && (could_ask || (found >= 0 && holds == 'u')),
    };
    verdict->may_confirm = verdict->decision == POLICY_CONFIRM;
    verdict->may_hold = verdict->decision == POLICY_HOLD;
}

/* Tries every way in which the conditions that depend on the input can hold. */
static void model_foresee(const struct model_rule *rules, enum policy_decision fallback,
                          int tool_at, struct policy_verdict *verdict)
{
    bool is_first = true;
    for (int way = 0; way < 9; way++) {
        char truths[2][2] = {{"nyu"[way % 3], 0}, {"nyu"[way / 3], 0}};
        struct conditions tried[2];
        struct model_rule own[2] = {rules[0], rules[1]};
        struct policy_verdict one;
        bool is_possible = true;
        for (int i = 0; i < 2; i++) {
            const struct conditions *conditions = rules[i].conditions;
            char holds = conditions->holds[tool_at][0];
            bool depends = conditions->depends[tool_at] == 'i';
            is_possible &= depends || truths[i][0] == holds;
            tried[i] = *conditions;
            tried[i].holds[tool_at] = truths[i];
            own[i].conditions = &tried[i];
        }
        if (!is_possible)
            continue;
        model_decide(own, fallback, tool_at, 0, &one);
        bool may_confirm = one.may_confirm || (!is_first && verdict->may_confirm);
        bool may_hold = one.may_hold || (!is_first && verdict->may_hold);
        if (is_first)
            *verdict = one;
        if (one.decision != verdict->decision)
            verdict->decision = POLICY_DEPENDS;
        if (one.rule != verdict->rule)
            verdict->rule = POLICY_RULE_SEVERAL;
        verdict->may_confirm = may_confirm;
        verdict->may_hold = may_hold;
        is_first = false;
    }
    if (verdict->decision == POLICY_DEPENDS)
        verdict->rule = POLICY_RULE_SEVERAL;
    if (verdict->rule == POLICY_RULE_SEVERAL)
        verdict->is_unsure = false;
}

static void compare(const char *document, int tool_at, const char *input,
                    const struct policy_verdict *got, const struct policy_verdict *wanted)
{
    char text[100];
    (void)snprintf(text, sizeof(text), "%s", say(wanted));
    if (strcmp(say(got), text) != 0)
        fail_msg("%s: %s(%s): %s, not %s", document, model_tools[tool_at], input, say(got), text);
}

static void try_pair(struct bench *b, const struct model_rule rules[2],
                     enum policy_decision fallback, const struct json *const inputs[INPUTS])
{
    char document[1024];
    (void)snprintf(document, sizeof(document),
                   "{'default':'%s','rules':[{'decision':'%s'%s},{'decision':'%s'%s}]}",
                   decisions[fallback], decisions[rules[0].decision], rules[0].conditions->text,
                   decisions[rules[1].decision], rules[1].conditions->text);
    struct policy *policy = compile(b, document);
    for (int i = 0; i < TOOLS; i++) {
        const struct catalog_action *action = tool(b, model_tools[i]);
        struct policy_verdict got, wanted;
        for (int j = 0; j < INPUTS; j++) {
            policy_decide(policy, action, inputs[j], SLICE_NONE, &got);
            model_decide(rules, fallback, i, j, &wanted);
            compare(document, i, model_inputs[j], &got, &wanted);
        }
        policy_foresee(policy, action, &got);
        model_foresee(rules, fallback, i, &wanted);
        compare(document, i, "", &got, &wanted);
    }
    policy_unref(policy);
}

static void all_pairs(void **state)
{
    struct bench *b = *state;
    enum { DECISIONS = ARRAY_LEN(decisions), COUNT = ARRAY_LEN(all_conditions) * DECISIONS };
    const struct json *inputs[INPUTS];
    for (int i = 0; i < INPUTS; i++) {
        inputs[i] = json_parse(&b->arena, slice_cstr(unit_quoted(&b->arena, model_inputs[i])),
                               &json_limits_request, NULL);
        assert_non_null(inputs[i]);
    }
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT; j++) {
            const struct model_rule rules[2] = {
                {&all_conditions[i / DECISIONS], (enum policy_decision)(i % DECISIONS)},
                {&all_conditions[j / DECISIONS], (enum policy_decision)(j % DECISIONS)},
            };
            for (int fallback = POLICY_ALLOW; fallback <= POLICY_DENY; fallback++)
                try_pair(b, rules, (enum policy_decision)fallback, inputs);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CATALOG_TEST(none),     CATALOG_TEST(names),     CATALOG_TEST(recipients),
        CATALOG_TEST(foreseen), CATALOG_TEST(snapshots), CATALOG_TEST(expressions),
        CATALOG_TEST(hostile),  CATALOG_TEST(all_pairs), CATALOG_TEST(expiries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
