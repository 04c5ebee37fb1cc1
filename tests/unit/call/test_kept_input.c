/*
 * The document of a kept input: that it can be opened only for its own run, and what it never has.
 */
#include <stdio.h>

#include "base/mem.h"
#include "call/kept_input.h"
#include "unit.h"

#define ONE_KEY "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define NEW_KEY "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff"

static struct arena arena;
static struct vault_ring *ring;
static struct uuid account, id;
static struct execution_input row;
static struct kept_input got;

static struct vault_ring *ring_of(const char *text)
{
    struct err err;
    struct vault_ring *made = vault_ring_new(slice_cstr(text), &err);
    assert_non_null(made);
    return made;
}

static const struct json *parse(const char *text)
{
    const struct json *value = json_parse(&arena, slice_cstr(text), &json_limits_request, NULL);
    assert_non_null(value);
    return value;
}

static bool seal(const struct kept_input *what, const char *schema)
{
    bool is_whole;
    return kept_input_seal(ring, account, id, what, schema ? parse(schema) : NULL, &arena, &row,
                           &is_whole);
}

static int open_with(const struct vault_ring *with, struct uuid of, struct uuid run)
{
    struct err err;
    return kept_input_open(with, of, run, &row, &arena, &got, &err);
}

static const char *text_of(const struct json *value)
{
    slice text = json_text_of(value, &arena, 1 << 20);
    return arena_printf(&arena, "%.*s", SLICE_ARG(text)).ptr;
}

/* Returns the text with double quotes for its single ones. */
static const char *quoted(const char *text)
{
    char *copy = (char *)(uintptr_t)arena_dup(&arena, slice_cstr(text)).ptr;
    for (char *at = copy; *at; at++)
        if (*at == '\'')
            *at = '"';
    return copy;
}

/* Seals an input of that schema and opens it again. */
static const char *kept(const char *schema, const char *input)
{
    const struct kept_input what = {.input = parse(input)};
    assert_true(seal(&what, schema));
    assert_int_equal(open_with(ring, account, id), OK);
    return got.input ? text_of(got.input) : NULL;
}

static void test_round_trip(void **state)
{
    const char *input = "{\"b\":12345678901234567890123,\"a\":[\"\\u0000\",null,1.5],\"c\":{}}";
    const struct kept_input what = {.input = parse(input),
                                    .connection_id = 7,
                                    .message = SLICE("It was not confirmed."),
                                    .hint = SLICE("Confirm it.")};
    (void)state;
    assert_true(seal(&what, NULL));
    assert_true(slice_find(row.sealed, SLICE("confirmed")) < 0);
    assert_int_equal(open_with(ring, account, id), OK);
    assert_string_equal(text_of(got.input), input); /* order and numbers as they were */
    assert_int_equal(got.connection_id, 7);
    assert_true(slice_eq_cstr(got.message, "It was not confirmed."));
    assert_true(slice_eq_cstr(got.hint, "Confirm it."));
    assert_string_equal(kept(NULL, "{}"), "{}");
    assert_null(got.message.ptr);
    assert_int_equal(got.connection_id, 0);
}

static void test_opened_only_for_its_run(void **state)
{
    (void)state;
    (void)kept(NULL, "{\"a\":1}");
    assert_int_equal(open_with(ring, account, uuid_v7()), ERR_CRYPTO);
    assert_int_equal(open_with(ring, uuid_v7(), id), ERR_CRYPTO);
}

/* After a rotation, what the old key sealed can be opened as long as the ring has that key. */
static void test_after_a_rotation(void **state)
{
    struct vault_ring *both = ring_of(NEW_KEY " " ONE_KEY), *only_new = ring_of(NEW_KEY);
    (void)state;
    (void)kept(NULL, "{\"a\":1}");
    assert_int_equal(open_with(both, account, id), OK);
    assert_string_equal(text_of(got.input), "{\"a\":1}");
    assert_int_equal(open_with(only_new, account, id), ERR_NOTFOUND);
    vault_ring_free(both);
    vault_ring_free(only_new);
}

static void test_write_only_members_are_hidden(void **state)
{
    static const struct {
        const char *schema, *input, *kept;
    } cases[] = {
        {"{'properties':{'p':{'writeOnly':true},'q':{}}}", "{'p':'s','q':1}",
         "{'p':'(hidden)','q':1}"},
        {"{'properties':{'p':{'writeOnly':false}}}", "{'p':'s'}", "{'p':'s'}"},
        {"{'properties':{'p':{'writeOnly':true}}}", "{'p':{'deep':['s']}}", "{'p':'(hidden)'}"},
        {"{'properties':{'list':{'items':{'properties':{'p':{'writeOnly':true}}}}}}",
         "{'list':[{'p':'s'},{'q':2},{'p':3}]}",
         "{'list':[{'p':'(hidden)'},{'q':2},{'p':'(hidden)'}]}"},
        {"{'additionalProperties':{'writeOnly':true}}", "{'p':'s'}", "{'p':'(hidden)'}"},
        {"{'$defs':{'x':{'properties':{'p':{'writeOnly':true}}}},'properties':{'x':{'$ref':"
         "'#/$defs/x'}}}",
         "{'x':{'p':'s'}}", "{'x':{'p':'(hidden)'}}"},
        {"{'anyOf':[{'properties':{'q':{}}},{'allOf':[{'properties':{'p':{'writeOnly':true}}}]}]}",
         "{'p':'s','q':1}", "{'p':'(hidden)','q':1}"},
        /* nothing is kept if a schema cannot be followed to its end */
        {"{'anyOf':[{'$ref':'#'},{'$ref':'#'}]}", "{'p':'s'}", NULL},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *is = kept(quoted(cases[i].schema), quoted(cases[i].input));
        bool is_hidden = !cases[i].kept || strcmp(cases[i].kept, cases[i].input) != 0;
        if (cases[i].kept)
            assert_string_equal(is, quoted(cases[i].kept));
        else
            assert_null(is);
        const struct json *schema = parse(quoted(cases[i].schema));
        const struct json *input = parse(quoted(cases[i].input));
        assert_int_equal(kept_input_has_hidden(schema, input, &arena), is_hidden);
    }
}

/* The input of the caller, which the run itself uses, is unchanged. */
/* Wherever validation applies a schema to a value. */
static void test_write_only_is_found_through_references(void **state)
{
    static const char *const schemas[] = {
        "{\"properties\":{\"p\":{\"$ref\":\"#/$defs/a\",\"writeOnly\":true}},\"$defs\":{\"a\":{}}}",
        "{\"properties\":{\"p\":{\"$ref\":\"#/$defs/a\"}},\"$defs\":{\"a\":{\"$ref\":\"#/$defs/"
        "b\"},"
        "\"b\":{\"writeOnly\":true}}}",
        "{\"patternProperties\":{\"^p\":{\"writeOnly\":true}}}",
        "{\"if\":{},\"then\":{\"properties\":{\"p\":{\"writeOnly\":true}}}}",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(schemas); i++) {
        const struct json *input = parse("{\"p\":\"s\"}");
        const struct kept_input what = {.input = input};
        assert_true(seal(&what, schemas[i]));
        assert_int_equal(open_with(ring, account, id), OK);
        assert_string_equal(text_of(got.input), "{\"p\":\"(hidden)\"}");
    }
    /* a reference that is not found could hide anything */
    const struct kept_input what = {.input = parse("{\"p\":\"s\"}")};
    assert_true(seal(&what, "{\"properties\":{\"p\":{\"$ref\":\"#/$defs/none\"}}}"));
    assert_int_equal(open_with(ring, account, id), OK);
    assert_null(got.input);
}

static void test_the_callers_input_is_unchanged(void **state)
{
    const struct json *input = parse("{\"list\":[{\"p\":\"s\"}]}");
    const struct kept_input what = {.input = input};
    (void)state;
    assert_true(seal(&what, "{\"properties\":{\"list\":{\"items\":{\"properties\":{\"p\":"
                            "{\"writeOnly\":true}}}}}}"));
    assert_string_equal(text_of(input), "{\"list\":[{\"p\":\"s\"}]}");
}

static void test_a_long_input_is_not_kept(void **state)
{
    static char text[VAULT_PLAIN_MAX + 1];
    (void)state;
    memset(text, 'x', sizeof(text));
    const size_t around = sizeof("{\"input\":{\"a\":\"\"}}") - 1;
    struct json_member member = {json_string(SLICE("a")),
                                 json_string(slice_of(text, VAULT_PLAIN_MAX - around))};
    const struct json input = {.type = JSON_OBJECT, .count = 1, .as.members = &member};
    const struct kept_input what = {.input = &input, .hint = SLICE("Shorten it.")};
    struct kept_input bare = {.input = &input};
    assert_true(seal(&bare, NULL));
    assert_int_equal(open_with(ring, account, id), OK);
    assert_non_null(got.input); /* exactly at the limit */
    assert_true(seal(&what, NULL));
    assert_int_equal(open_with(ring, account, id), OK);
    assert_null(got.input);
    assert_true(slice_eq_cstr(got.hint, "Shorten it."));
}

/* A short text may have very many values, and is then as long for a turn of the loop. */
static void test_an_input_of_many_values_is_not_kept(void **state)
{
    static struct json values[8193];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        values[i] = json_i64(1);
    struct json_member member = {json_string(SLICE("a")),
                                 {.type = JSON_ARRAY, .count = 8191, .as.items = values}};
    const struct json input = {.type = JSON_OBJECT, .count = 1, .as.members = &member};
    const struct kept_input what = {.input = &input};
    assert_true(seal(&what, NULL));
    assert_int_equal(open_with(ring, account, id), OK);
    assert_non_null(got.input);
    member.value.count = ARRAY_LEN(values);
    assert_true(seal(&what, NULL));
    assert_int_equal(open_with(ring, account, id), OK);
    assert_null(got.input);
}

/* Without memory nothing is kept, and the row has no part of it. */
static void test_out_of_memory(void **state)
{
    (void)state;
    for (size_t at = 1;; at++) {
        const struct kept_input what = {.input = parse("{\"p\":\"s\"}")};
        const struct json *schema = parse("{\"properties\":{\"p\":{\"writeOnly\":true}}}");
        struct arena small;
        arena_init(&small, 1 << 20);
        mem_fail_at(at, 1);
        bool is_whole,
            is_kept = kept_input_seal(ring, account, id, &what, schema, &small, &row, &is_whole);
        bool is_over = mem_fail_hits() == 0;
        mem_fail_at(0, 0);
        assert_true(is_kept == (row.sealed.ptr != NULL));
        if (is_kept) {
            assert_int_equal(open_with(ring, account, id), OK);
            assert_true(!got.input ||
                        slice_eq_cstr(json_get_str(got.input, SLICE("p")), KEPT_INPUT_HIDDEN));
        }
        arena_deinit(&small);
        if (is_over)
            break;
    }
}

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 16 << 20);
    ring = ring_of(ONE_KEY);
    account = uuid_v7();
    id = uuid_v7();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_deinit(&arena);
    vault_ring_free(ring);
    return unit_end();
}

#define INPUT_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        INPUT_TEST(test_round_trip),
        INPUT_TEST(test_opened_only_for_its_run),
        INPUT_TEST(test_after_a_rotation),
        INPUT_TEST(test_write_only_members_are_hidden),
        INPUT_TEST(test_write_only_is_found_through_references),
        INPUT_TEST(test_the_callers_input_is_unchanged),
        INPUT_TEST(test_a_long_input_is_not_kept),
        INPUT_TEST(test_an_input_of_many_values_is_not_kept),
        INPUT_TEST(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
