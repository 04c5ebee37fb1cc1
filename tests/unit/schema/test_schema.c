/*
 * Validation as callers use it: the messages, the limits, and that a valid instance needs no
 * allocation. test_suite.c tests which instances are valid.
 */
#include <sys/resource.h>

#include "support/json_test.h"

#include "base/clock.h"
#include "schema/schema.h"

static const struct schema *compile(struct arena *arena, const char *text)
{
    struct err err = {0};
    const struct schema *schema = schema_compile(arena, parse(arena, text), true, &err);
    if (!schema)
        fail_msg("%s: %s", text, err.text);
    return schema;
}

/* All problems, as one text. It is empty if the instance is valid. */
static const char *violations(struct arena *arena, const char *schema, const char *instance,
                              bool wants_hints)
{
    struct schema_report report;
    schema_report_init(&report, arena, SLICE("/input"));
    bool is_valid = schema_validate(compile(arena, schema), parse(arena, instance), &report);
    assert_int_equal(is_valid, report.count == 0);
    struct buf out;
    buf_init(&out, 64 * 1024);
    if (wants_hints)
        schema_report_write_hints(&report, &out);
    else
        schema_report_write(&report, &out);
    const char *text = arena_cstr(arena, buf_slice(&out));
    buf_deinit(&out);
    return text;
}

/* ---- lengths ---- */

/* Texts of every length modulo 8, and longer than the 255 rounds that a lane can count. */
static void test_character_counts(void **state)
{
    static const char *const letters[] = {"x", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    static const size_t counts[] = {1, 2, 3, 5, 7, 8, 9, 15, 63, 509, 2040, 2041, 4097, 9001};
    for (size_t i = 0; i < ARRAY_LEN(letters) * ARRAY_LEN(counts); i++) {
        const char *letter = letters[i % ARRAY_LEN(letters)];
        size_t count = counts[i / ARRAY_LEN(letters)];
        struct buf text;
        char expected[120];
        buf_init(&text, 64 * 1024);
        buf_append_char(&text, '"');
        for (size_t k = 0; k < count; k++)
            buf_append_cstr(&text, k % 3 ? letter : "y");
        buf_append_cstr(&text, "\"");
        (void)snprintf(expected, sizeof(expected),
                       "/input: must be at least 1000000 characters long (got %zu)", count);
        const char *instance = arena_cstr(*state, buf_slice(&text));
        buf_deinit(&text);
        assert_string_equal(violations(*state, "{\"minLength\":1000000}", instance, false),
                            expected);
    }
}

/* ---- messages ---- */

static void test_sentences(void **state)
{
    static const char *const cases[][3] = {
        {"{\"properties\":{\"maxResults\":{\"maximum\":20}}}", "{\"maxResults\":50}",
         "/input/maxResults: must be at most 20 (got 50)"},
        {"{\"minimum\":1}", "0", "/input: must be at least 1 (got 0)"},
        {"{\"exclusiveMinimum\":0}", "0", "/input: must be greater than 0 (got 0)"},
        {"{\"exclusiveMaximum\":0.5}", "0.5", "/input: must be less than 0.5 (got 0.5)"},
        {"{\"multipleOf\":0.01}", "0.005", "/input: must be a multiple of 0.01 (got 0.005)"},
        {"{\"type\":\"string\"}", "5", "/input: must be string, not integer (got 5)"},
        {"{\"type\":[\"string\",\"null\"]}", "[]", "/input: must be null or string, not array"},
        {"{\"type\":[\"string\",\"null\",\"object\"]}", "true",
         "/input: must be null, string or object, not boolean (got true)"},
        {"{\"type\":\"integer\"}", "1.5", "/input: must be integer, not number (got 1.5)"},
        {"{\"const\":\"x\"}", "\"y\"", "/input: must be \"x\" (got \"y\")"},
        {"{\"const\":{\"a\":[1]}}", "{}", "/input: must be {\"a\":[1]} (got {})"},
        {"{\"enum\":[\"a\",1,null]}", "{\"b\":1}",
         "/input: must be one of \"a\", 1, null (got an object)"},
        {"{\"enum\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14]}", "[0,0]",
         "/input: must be one of 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 2 more (got an array of "
         "2 items)"},
        {"{\"minLength\":3}", "\"\xC3\xA9\xC3\xA9\"",
         "/input: must be at least 3 characters long (got 2)"},
        {"{\"minLength\":1}", "\"\"", "/input: must not be empty"},
        {"{\"maxLength\":1}", "\"ab\"", "/input: must be at most 1 character long (got 2)"},
        {"{\"pattern\":\"^[a-z]+$\"}", "\"A\"",
         "/input: must match the pattern ^[a-z]+$ (got \"A\")"},
        {"{\"format\":\"date\"}", "\"today\"",
         "/input: must have the format date, such as 2026-01-31 (got \"today\")"},
        {"{\"minItems\":2}", "[1]", "/input: must have at least 2 items (got 1)"},
        {"{\"maxItems\":1}", "[1,2]", "/input: must have at most 1 item (got 2)"},
        {"{\"minProperties\":2}", "{\"a\":1}", "/input: must have at least 2 properties (got 1)"},
        {"{\"maxProperties\":0}", "{\"a\":1}", "/input: must have at most 0 properties (got 1)"},
        {"{\"uniqueItems\":true}", "[\"a\",1,\"a\"]",
         "/input: all items must differ, but items 1 and 3 are equal (\"a\")"},
        {"{\"prefixItems\":[true],\"items\":false}", "[1,2,3]",
         "/input: must have at most 1 item (got 3)"},
        {"{\"contains\":{\"type\":\"string\"}}", "[1]",
         "/input: at least 1 of its items must match \"contains\" (0 do)"},
        {"{\"contains\":{\"type\":\"string\"},\"maxContains\":1}", "[\"a\",\"b\"]",
         "/input: at most 1 of its items must match \"contains\" (at least 2 do)"},
        {"{\"required\":[\"a\",\"b\"]}", "{\"b\":1}", "/input: missing required property \"a\""},
        {"{\"dependentRequired\":{\"a\":[\"b\"]}}", "{\"a\":1}",
         "/input: missing property \"b\", which is required where \"a\" is present"},
        {"{\"properties\":{\"a\":false}}", "{\"a\":1}",
         "/input/a: property \"a\" is not allowed here"},
        {"{\"not\":{\"type\":\"string\"}}", "\"x\"",
         "/input: must not match the schema in \"not\""},
        {"{\"propertyNames\":{\"maxLength\":2}}", "{\"abc\":1}",
         "/input: the property name \"abc\" must be at most 2 characters long (got 3)"},
        {"{\"items\":{\"properties\":{\"a/b\":{\"type\":\"null\"}}}}", "[{},{\"a/b\":1}]",
         "/input/1/a~1b: must be null, not integer (got 1)"},
        {"{\"unevaluatedItems\":false,\"prefixItems\":[true]}", "[1,2]",
         "/input: item 2 is not allowed here"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_string_equal(violations(*state, cases[i][0], cases[i][1], false), cases[i][2]);
}

static void test_unknown_properties(void **state)
{
    const char *schema = "{\"properties\":{\"maxResults\":{},\"query\":{},\"cc\":{}},"
                         "\"additionalProperties\":false}";
    static const char *const cases[][3] = {
        {"{\"maxresult\":1}", "unknown property \"maxresult\"; did you mean \"maxResults\"?",
         "rename \"maxresult\" to \"maxResults\""},
        {"{\"max_results\":1}", "unknown property \"max_results\"; did you mean \"maxResults\"?",
         "rename \"max_results\" to \"maxResults\""},
        {"{\"qeury\":1}", "unknown property \"qeury\"; did you mean \"query\"?",
         "rename \"qeury\" to \"query\""},
        {"{\"colour\":1}",
         "unknown property \"colour\"; known here: \"maxResults\", \"query\", "
         "\"cc\"",
         "remove \"colour\""},
        {"{\"to\":1}", "unknown property \"to\"; known here: \"maxResults\", \"query\", \"cc\"",
         "remove \"to\""},
        {"{\"query\":1,\"quary\":1}",
         "unknown property \"quary\"; known here: \"maxResults\", \"query\", \"cc\"",
         "remove \"quary\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *got = violations(*state, schema, cases[i][0], false);
        const char *message = strstr(got, ": ");
        assert_non_null(message);
        assert_string_equal(message + 2, cases[i][1]);
        assert_string_equal(violations(*state, schema, cases[i][0], true), cases[i][2]);
    }
    assert_string_equal(
        violations(*state,
                   "{\"allOf\":[{\"$ref\":\"#/$defs/a\"}],\"unevaluatedProperties\":false,"
                   "\"$defs\":{\"a\":{\"properties\":{\"subject\":true}}}}",
                   "{\"subjetc\":1}", false),
        "/input/subjetc: unknown property \"subjetc\"; did you mean \"subject\"?");
}

static void test_hints(void **state)
{
    static const char *const cases[][3] = {
        {"{\"required\":[\"to\"],\"properties\":{\"to\":{\"type\":\"string\",\"description\":"
         "\"Who gets it. One address.\"}}}",        /* words: ok */
         "{}", "add \"to\" (string: Who gets it)"}, /* words: ok */
        {"{\"required\":[\"subject\"],\"properties\":{\"subject\":true,\"sub\":true}}",
         "{\"Subject\":1}", "rename \"Subject\" to \"subject\""},
        {"{\"required\":[\"subject\"]}", "{}", "add \"subject\""},
        {"{\"enum\":[\"high\",\"low\"]}", "\"HIGH\"", "use \"high\" instead of \"HIGH\""},
        {"{\"enum\":[\"normal\",\"low\"]}", "\"nromal\"", "use \"normal\" instead of \"nromal\""},
        {"{\"enum\":[\"high\",\"low\"]}", "\"middle\"", ""},
        {"{\"required\":[\"a\",\"b\"]}", "{}", "add \"a\"; add \"b\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_string_equal(violations(*state, cases[i][0], cases[i][1], true), cases[i][2]);
}

static void test_alternatives(void **state)
{
    /* Only one form can be meant: its own problems are reported. */
    assert_string_equal(
        violations(*state,
                   "{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#/$defs/o\"}],\"$defs\":{\"o\":"
                   "{\"type\":\"object\",\"required\":[\"id\"]}}}",
                   "{}", false),
        "/input: missing required property \"id\"");
    assert_string_equal(
        violations(*state,
                   "{\"properties\":{\"x\":{\"oneOf\":[{\"type\":\"string\",\"minLength\":5},"
                   "{\"type\":\"string\",\"format\":\"date\"},{\"properties\":{\"k\":{\"const\":1}"
                   "},\"type\":[\"object\",\"string\"],\"maxLength\":1}]}}}",
                   "{\"x\":\"abc\"}", false),
        "/input/x: matches none of the 3 allowed forms: (1) must be at least 5 characters long "
        "(got 3); (2) must have the format date, such as 2026-01-31 (got \"abc\"); (3) must be at "
        "most 1 character long (got 3)");
    assert_string_equal(
        violations(*state,
                   "{\"anyOf\":[{\"properties\":{\"k\":{\"const\":1}}},"
                   "{\"properties\":{\"k\":true},\"required\":[\"z\"]}]}",
                   "{\"k\":2}", false),
        "/input: matches none of the 2 allowed forms: (1) /k: must be 1 (got 2); (2) missing "
        "required property \"z\"");
    /* One form has the member, so the others are not meant. */
    const char *parents =
        "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"object\",\"properties\":{\"type\":{"
        "\"const\":"
        "\"page\"},\"page_id\":{\"type\":\"string\",\"minLength\":3}},\"additionalProperties\":"
        "false},"
        "{\"type\":\"object\",\"properties\":{\"type\":{\"const\":\"base\"},\"base_id\":{\"type\":"
        "\"string\"}},\"required\":[\"base_id\"],\"additionalProperties\":false}]}";
    assert_string_equal(violations(*state, parents, "{\"page_id\":\"x\"}", false),
                        "/input/page_id: must be at least 3 characters long (got 1)");
    assert_string_equal(
        violations(*state, parents, "{\"page_id\":\"xyz\",\"type\":\"base\"}", false),
        "/input/type: must be \"page\" (got \"base\")");
    assert_string_equal(violations(*state, parents, "{\"type\":\"row\"}", false),
                        "/input: matches none of the 3 allowed forms: (1) must be string, not "
                        "object; (2) /type: must be \"page\" (got \"row\"); (3) /type: must be "
                        "\"base\" (got \"row\")");
    assert_string_equal(violations(*state, "{\"oneOf\":[{},{\"type\":\"null\"},true]}", "1", false),
                        "/input: must match exactly one of the allowed forms, but matches both "
                        "(1) and (3)");
}

static void test_report_fields(void **state)
{
    struct arena *arena = *state;
    const struct schema *schema =
        compile(arena, "{\"$ref\":\"#/$defs/a~1b\",\"$defs\":{\"a/b\":{\"properties\":{\"n\":"
                       "{\"maximum\":5}}}},\"allOf\":[{\"properties\":{\"n\":{\"maximum\":5}}}]}");
    struct schema_report report;
    schema_report_init(&report, arena, SLICE_NONE);
    assert_false(schema_validate(schema, parse(arena, "{\"n\":6}"), &report));
    assert_int_equal(report.count, 1); /* both positions give the same message, which is reported
                                        * once */
    assert_false(report.is_cut);
    assert_text(report.violations[0].pointer, "/n");
    assert_text(report.violations[0].keyword, "maximum");
    assert_text(report.violations[0].location, "#/$defs/a~1b/properties/n/maximum");
    assert_null(report.violations[0].hint.ptr);
    struct buf out;
    buf_init(&out, 1000);
    schema_report_init(&report, arena, SLICE_NONE);
    assert_false(schema_validate(compile(arena, "false"), parse(arena, "1"), &report));
    schema_report_write(&report, &out);
    assert_text(buf_slice(&out), "(root): is not allowed here");
    buf_deinit(&out);
}

static void test_many_violations(void **state)
{
    struct arena *arena = *state;
    struct json items = json_array();
    for (int i = 0; i < 100 * 1000; i++)
        json_array_push(arena, &items, json_i64(i));
    struct schema_report report;
    schema_report_init(&report, arena, SLICE_NONE);
    size_t before = arena->bytes_used;
    assert_false(
        schema_validate(compile(arena, "{\"items\":{\"type\":\"string\"}}"), &items, &report));
    assert_int_equal(report.count, SCHEMA_VIOLATIONS_MAX);
    assert_true(report.is_cut);
    assert_text(report.violations[19].pointer, "/19");
    assert_true(arena->bytes_used - before < 64 * 1024);
}

static void test_report_without_memory(void **state)
{
    const struct schema *schema = compile(*state, "{\"required\":[\"a\",\"b\",\"c\"]}");
    for (size_t max = 0; max < 200; max += 8) {
        struct arena small;
        arena_init(&small, max);
        struct schema_report report;
        schema_report_init(&report, &small, SLICE("/input"));
        assert_false(schema_validate(schema, parse(*state, "{}"), &report));
        assert_true(report.is_cut || report.count == 3);
        arena_deinit(&small);
    }
}

/* ---- cost ---- */

/* Each keyword is used once. A valid instance must not cause an allocation. */
static void test_valid_without_allocation(void **state)
{
    const struct schema *schema = compile(
        *state,
        "{\"type\":\"object\",\"required\":[\"s\"],\"minProperties\":1,\"maxProperties\":90,"
        "\"properties\":{\"s\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4000,"
        "\"pattern\":\"^(?:[a-z]+ ?)*$\"},\"d\":{\"format\":\"date-time\"},\"r\":{\"format\":"
        "\"regex\"},\"u\":{\"format\":\"uri\"},\"n\":{\"multipleOf\":0.01,\"minimum\":0,"
        "\"exclusiveMaximum\":1e400},\"a\":{\"uniqueItems\":true,\"minItems\":1,\"prefixItems\":"
        "[true],\"items\":{\"$dynamicRef\":\"#node\"},\"contains\":{\"const\":7},\"maxContains\":1}"
        ",\"e\":{\"enum\":[{\"a\":1},[2]]},\"t\":{\"$ref\":\"#/$defs/tree\"}},"
        "\"patternProperties\":{\"^x-\":{\"not\":{\"type\":\"null\"}}},\"propertyNames\":"
        "{\"maxLength\":9},\"dependentRequired\":{\"d\":[\"n\"]},\"dependentSchemas\":{\"n\":"
        "{\"required\":[\"s\"]}},\"if\":{\"required\":[\"e\"]},\"then\":{\"required\":[\"a\"]},"
        "\"else\":false,\"oneOf\":[{\"required\":[\"s\"]},{\"required\":[\"zz\"]}],\"anyOf\":"
        "[{\"required\":[\"zz\"]},true],\"unevaluatedProperties\":false,\"$defs\":{\"tree\":"
        "{\"type\":\"object\",\"properties\":{\"k\":{\"type\":\"array\",\"items\":{\"$ref\":"
        "\"#/$defs/tree\"}}},\"unevaluatedProperties\":false},\"any\":{\"$dynamicAnchor\":"
        "\"node\"}}}");
    struct buf text;
    buf_init(&text, 64 * 1024);
    buf_append_cstr(&text, "{\"s\":\"");
    for (int i = 0; i < 30; i++)
        buf_append_cstr(&text, "hello there ");
    buf_append_cstr(&text, "\",\"d\":\"2026-01-31T23:59:59Z\",\"r\":\"a+\",\"u\":\"http://x/\","
                           "\"n\":1.25,\"e\":{\"a\":1.0},\"t\":{\"k\":[{\"k\":[{},{}]},{}]},"
                           "\"a\":[0,1,2,3,4,5,6,7,8,9,10]");
    for (int i = 0; i < 80; i++)
        buf_printf(&text, ",\"x-%d\":%d", i, i);
    buf_append_char(&text, '}');
    const struct json *instance = parse(*state, arena_cstr(*state, buf_slice(&text)));
    buf_deinit(&text);
    struct schema_report report;
    schema_report_init(&report, *state, SLICE("/input"));
    size_t used = ((struct arena *)*state)->bytes_used;
    mem_fail_at(1, UINT64_MAX);
    bool is_valid = schema_validate(schema, instance, NULL);
    bool is_valid_too = schema_validate(schema, instance, &report);
    mem_fail_at(0, 0);
    assert_true(is_valid && is_valid_too);
    assert_int_equal(((struct arena *)*state)->bytes_used, used);
}

static struct json letters(struct arena *arena, size_t count)
{
    char *text = arena_alloc_text(arena, count);
    assert_non_null(text);
    memset(text, 'a', count);
    return json_string((slice){text, count});
}

static void test_limit_sentence(void **state)
{
    struct schema_report report;
    schema_report_init(&report, *state, SLICE("/input"));
    const struct schema *schema = compile(*state, "{\"pattern\":\"^(a+)+$.\"}");
    const struct json long_text = letters(*state, 1024 * 1024);
    assert_false(schema_validate(schema, &long_text, NULL));
    assert_false(schema_validate(schema, &long_text, &report));
    assert_int_equal(report.count, 1);
    assert_text(report.violations[0].keyword, "limit");
    assert_text(report.violations[0].message,
                "cannot be checked: a pattern takes too many steps on this text");
    schema_report_init(&report, *state, SLICE("/input"));
    assert_false(schema_validate(compile(*state, "{\"$ref\":\"#\"}"), &json_null, &report));
    assert_non_null(strstr(report.violations[0].message.ptr, "refer to itself endlessly"));
}

static long fresh_pages(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
    return usage.ru_minflt;
}

static size_t resident_pages(void)
{
    size_t all, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu %zu", &all, &resident), 2);
    fclose(file);
    return resident;
}

/* 15,000 letters take two frames each, of 128 bytes in PCRE2 10.42 and 136 in 10.46: 4 MB, the
 * maximum. A match that backtracks far keeps its pages for the next ones, since fresh pages cost
 * more than the match. They are given back after 1,000 matches. */
static void test_far_backtracking(void **state)
{
    enum { KEPT_MATCHES = 1000, PAGES_MIN = 2 * 1024 * 1024 / 4096 };
    const struct schema *schema = compile(*state, "{\"pattern\":\"^(?:a|b)*$\"}");
    const struct json far = letters(*state, 15 * 1000), near = letters(*state, 10);
    size_t live = mem_live_blocks(), before = resident_pages();
    mem_fail_at(1, UINT64_MAX);
    assert_true(schema_validate(schema, &far, NULL));
    assert_true(resident_pages() > before + PAGES_MIN);
    long fresh = fresh_pages();
    for (int i = 0; i < 10; i++)
        assert_true(schema_validate(schema, &far, NULL));
    mem_fail_at(0, 0);
    assert_true(fresh_pages() - fresh < PAGES_MIN);
    assert_int_equal(mem_live_blocks(), live);
    for (int i = 0; i < KEPT_MATCHES; i++)
        assert_true(schema_validate(schema, &near, NULL));
    assert_true(resident_pages() < before + PAGES_MIN);
    assert_true(schema_validate(schema, &far, NULL));
}

/* There is a maximum of memory for backtracking: a text that needs more is not valid. */
static void test_too_far_backtracking(void **state)
{
    const struct schema *schema = compile(*state, "{\"pattern\":\"^(?:a|b)*$\"}");
    const struct json far = letters(*state, 100 * 1000);
    struct schema_report report;
    schema_report_init(&report, *state, SLICE("/input"));
    for (int i = 0; i < 2; i++)
        assert_false(schema_validate(schema, &far, NULL));
    assert_false(schema_validate(schema, &far, &report));
    assert_text(report.violations[0].message,
                "cannot be checked: a pattern takes too many steps on this text");
}

static void test_wide(void **state)
{
    struct json object = json_object();
    struct json array = json_array();
    for (int i = 0; i < 20 * 1000; i++) {
        json_object_set(*state, &object, arena_printf(*state, "k%d", i), json_i64(i));
        json_array_push(*state, &array, json_i64(i));
    }
    const struct schema *evaluated = compile(
        *state, "{\"anyOf\":[{\"patternProperties\":{\"^k\":true}}],\"unevaluatedProperties\":"
                "false}");
    assert_true(schema_validate(evaluated, &object, NULL));
    const struct schema *unique = compile(*state, "{\"uniqueItems\":true}");
    assert_true(schema_validate(unique, &array, NULL));
    json_array_push(*state, &array, json_real(777.0));
    struct schema_report report;
    schema_report_init(&report, *state, SLICE_NONE);
    assert_false(schema_validate(unique, &array, &report));
    assert_non_null(strstr(report.violations[0].message.ptr, "items 778 and 20001 are equal"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(test_character_counts),
        ARENA_TEST(test_sentences),
        ARENA_TEST(test_unknown_properties),
        ARENA_TEST(test_hints),
        ARENA_TEST(test_alternatives),
        ARENA_TEST(test_report_fields),
        ARENA_TEST(test_many_violations),
        ARENA_TEST(test_report_without_memory),
        ARENA_TEST(test_valid_without_allocation),
        ARENA_TEST(test_limit_sentence),
        ARENA_TEST(test_far_backtracking),
        ARENA_TEST(test_too_far_backtracking),
        ARENA_TEST(test_wide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
