/*
 * Members whose null means that they are absent: which are dropped, which stay, and that the work
 * is limited.
 */
#include "support/json_test.h"

#include "schema/schema.h"

static const struct schema *compile(struct arena *arena, const char *text)
{
    struct err err = {0};
    const struct schema *schema = schema_compile(arena, parse(arena, text), true, &err);
    if (!schema)
        fail_msg("%s: %s", text, err.text);
    return schema;
}

static const char *dropped(struct arena *arena, const char *schema, const char *instance)
{
    const struct json *before = parse(arena, instance);
    const struct json *after = schema_drop_nulls(compile(arena, schema), before, arena);
    struct buf out;
    buf_init(&out, 64 * 1024);
    json_write(&out, before); /* the input itself is not changed */
    assert_string_equal(arena_cstr(arena, buf_slice(&out)), instance);
    buf_clear(&out);
    json_write(&out, after);
    const char *text = arena_cstr(arena, buf_slice(&out));
    buf_deinit(&out);
    return text;
}

#define TEXT   "{\"type\":\"string\"}"
#define CLOSED ",\"additionalProperties\":false}"

/* Each entry: schema, instance, the instance after the removal. */
static const char *const cases[][3] = {
    /* an optional member that does not accept null */
    {"{\"properties\":{\"a\":" TEXT ",\"b\":" TEXT "}" CLOSED, "{\"a\":null,\"b\":\"x\"}",
     "{\"b\":\"x\"}"},
    {"{\"properties\":{\"a\":" TEXT "}" CLOSED, "{\"a\":null}", "{}"},
    {"{\"properties\":{\"a\":{\"enum\":[\"x\",\"y\"]}}}", "{\"a\":null}", "{}"},
    {"{\"properties\":{\"a\":{\"$ref\":\"#/$defs/t\"}},\"$defs\":{\"t\":" TEXT "}}", "{\"a\":null}",
     "{}"},
    {"{\"$ref\":\"#/$defs/o\",\"$defs\":{\"o\":{\"properties\":{\"a\":" TEXT "}}}}", "{\"a\":null}",
     "{}"},
    /* a member that accepts null, in any way */
    {"{\"properties\":{\"a\":{\"type\":[\"string\",\"null\"]}}}", "{\"a\":null}", "{\"a\":null}"},
    {"{\"properties\":{\"a\":{}}}", "{\"a\":null}", "{\"a\":null}"},
    {"{\"properties\":{\"a\":{\"enum\":[\"x\",null]}}}", "{\"a\":null}", "{\"a\":null}"},
    {"{\"properties\":{\"a\":{\"anyOf\":[" TEXT ",{\"type\":\"null\"}]}}}", "{\"a\":null}",
     "{\"a\":null}"},
    {"{\"anyOf\":[{\"properties\":{\"a\":" TEXT "}},{\"properties\":{\"a\":{\"const\":null}}}]}",
     "{\"a\":null}", "{\"a\":null}"},
    {"{\"additionalProperties\":true}", "{\"a\":null}", "{\"a\":null}"},
    {"{\"properties\":{\"a\":" TEXT "},\"patternProperties\":{\"^a\":{}}}", "{\"a\":null}",
     "{\"a\":null}"},
    /* an entry of a map, which is always optional: its null is a mistake, or intended */
    {"{\"patternProperties\":{\"^x\":" TEXT "}" CLOSED, "{\"x1\":null}", "{\"x1\":null}"},
    {"{\"additionalProperties\":" TEXT "}", "{\"a\":null}", "{\"a\":null}"},
    {"{\"unevaluatedProperties\":" TEXT "}", "{\"a\":null}", "{\"a\":null}"},
    /* an undeclared member: its sender has to get an error */
    {"{\"properties\":{\"a\":" TEXT "}" CLOSED, "{\"A\":null}", "{\"A\":null}"},
    {"{\"properties\":{\"a\":" TEXT "}}", "{\"b\":null}", "{\"b\":null}"},
    {"{\"properties\":{\"a\":false}}", "{\"a\":null}", "{\"a\":null}"},
    {"{}", "{\"a\":null}", "{\"a\":null}"},
    {"true", "{\"a\":null}", "{\"a\":null}"},
    /* a required member: the message is about its type */
    {"{\"required\":[\"a\"],\"properties\":{\"a\":" TEXT "}}", "{\"a\":null}", "{\"a\":null}"},
    {"{\"allOf\":[{\"required\":[\"a\"]}],\"properties\":{\"a\":" TEXT "}}", "{\"a\":null}",
     "{\"a\":null}"},
    /* a member that only an alternative requires is not required */
    {"{\"properties\":{\"a\":" TEXT ",\"b\":" TEXT "},\"oneOf\":[{\"required\":[\"a\"]},"
     "{\"required\":[\"b\"]}]}",
     "{\"a\":null,\"b\":\"x\"}", "{\"b\":\"x\"}"},
    {"{\"oneOf\":[{\"properties\":{\"a\":" TEXT "},\"required\":[\"a\"]" CLOSED
     ",{\"properties\":{\"b\":" TEXT "},\"required\":[\"b\"]" CLOSED "]}",
     "{\"a\":null,\"b\":\"x\"}", "{\"b\":\"x\"}"},
    {"{\"if\":{\"properties\":{\"k\":{\"const\":1}}},\"then\":{\"properties\":{\"a\":" TEXT "}},"
     "\"else\":{\"properties\":{\"b\":" TEXT "}}}",
     "{\"k\":1,\"a\":null,\"b\":null}", "{\"k\":1}"},
    {"{\"dependentSchemas\":{\"k\":{\"properties\":{\"a\":" TEXT "}}}}", "{\"k\":1,\"a\":null}",
     "{\"k\":1}"},
    /* nested */
    {"{\"properties\":{\"o\":{\"properties\":{\"a\":" TEXT "}}}}", "{\"o\":{\"a\":null},\"p\":1}",
     "{\"o\":{},\"p\":1}"},
    {"{\"properties\":{\"l\":{\"items\":{\"properties\":{\"a\":" TEXT "}}}}}",
     "{\"l\":[{\"a\":\"x\"},{\"a\":null},3]}", "{\"l\":[{\"a\":\"x\"},{},3]}"},
    {"{\"prefixItems\":[{\"properties\":{\"a\":" TEXT "}}]}", "[{\"a\":null},{\"a\":null}]",
     "[{},{\"a\":null}]"},
    {"{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":" TEXT
     ",\"n\":{\"$ref\":\"#/$defs/n\"}}}}}",
     "{\"n\":{\"n\":{\"v\":null,\"n\":null}}}", "{\"n\":{\"n\":{}}}"},
    /* an item is not a member */
    {"{\"items\":" TEXT "}", "[null,\"a\"]", "[null,\"a\"]"},
    {"{\"properties\":{\"o\":{}}}", "{\"o\":{\"a\":null}}", "{\"o\":{\"a\":null}}"},
    /* a schema that refers to itself */
    {"{\"allOf\":[{\"$ref\":\"#\"}],\"properties\":{\"a\":" TEXT "}}", "{\"a\":null}", "{}"},
};

static void test_cases(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *left = dropped(*state, cases[i][0], cases[i][1]);
        if (strcmp(left, cases[i][2]) != 0)
            fail_msg("%s with %s: %s, not %s", cases[i][0], cases[i][1], left, cases[i][2]);
    }
}

/* If nothing is dropped, the result is the same value and takes no memory. */
static void test_nothing_to_drop(void **state)
{
    const struct schema *schema =
        compile(*state, "{\"properties\":{\"a\":" TEXT ",\"b\":{\"type\":\"null\"}}}");
    static const char *const instances[] = {"{}", "{\"a\":\"x\"}", "{\"b\":null}", "[null]",
                                            "null"};
    for (size_t i = 0; i < ARRAY_LEN(instances); i++) {
        const struct json *instance = parse(*state, instances[i]);
        struct arena arena;
        arena_init(&arena, 1024 * 1024);
        assert_ptr_equal(schema_drop_nulls(schema, instance, &arena), instance);
        assert_int_equal(arena.bytes_used, 0);
        arena_deinit(&arena);
    }
}

/* Without memory, or out of steps, it returns the value unchanged. Validation then refuses it.
 */
static void test_bounds(void **state)
{
    const struct schema *schema = compile(*state, "{\"properties\":{\"a\":" TEXT "}}");
    const struct json *instance = parse(*state, "{\"a\":null}");
    struct arena arena;
    arena_init(&arena, 1);
    assert_ptr_equal(schema_drop_nulls(schema, instance, &arena), instance);
    assert_true(arena.is_exhausted);
    arena_deinit(&arena);

    struct json wide = json_object(), deep = json_object();
    for (int i = 0; i < 2000 * 1000; i++)
        json_object_set(*state, &wide, SLICE("a"), json_null);
    assert_ptr_equal(schema_drop_nulls(schema, &wide, *state), &wide);
    const struct schema *nested =
        compile(*state, "{\"properties\":{\"o\":{\"$ref\":\"#\"},\"a\":" TEXT "}}");
    json_object_set(*state, &deep, SLICE("a"), json_null);
    for (int i = 0; i < JSON_DEPTH_MAX; i++) {
        struct json outer = json_object();
        json_object_set(*state, &outer, SLICE("o"), deep);
        deep = outer;
    }
    assert_ptr_equal(schema_drop_nulls(nested, &deep, *state), &deep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(test_cases),
        ARENA_TEST(test_nothing_to_drop),
        ARENA_TEST(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
