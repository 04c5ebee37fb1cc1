/*
 * Slips of a model: which are mended, which stay as they are, and that the work is limited.
 */
#include "support/json_test.h"

#include "schema/schema.h"

#define TEXT       "{\"type\":\"string\"}"
#define LIST       "{\"type\":\"array\",\"items\":" TEXT "}"
#define OBJECT     "{\"properties\":{\"a\":" TEXT "},\"type\":\"object\",\"required\":[\"a\"]}"
#define OF(schema) "{\"type\":\"object\",\"properties\":{\"x\":" schema "}}"

static const struct schema *compile(struct arena *arena, const char *text)
{
    struct err err = {0};
    const struct schema *schema = schema_compile(arena, parse(arena, text), true, &err);
    if (!schema)
        fail_msg("%s: %s", text, err.text);
    return schema;
}

static const char *text_of(struct arena *arena, const struct json *value)
{
    struct buf out;
    buf_init(&out, 256 * 1024);
    json_write(&out, value);
    const char *text = arena_cstr(arena, buf_slice(&out));
    buf_deinit(&out);
    return text;
}

/* Each entry: schema, instance, the mended instance, the places joined by blanks. */
static const char *const mended[][4] = {
    /* one text where only a list fits */
    {OF(LIST), "{\"x\":\"a@b.example\"}", "{\"x\":[\"a@b.example\"]}", "/x"},
    {OF("{\"type\":\"array\"}"), "{\"x\":\"12\"}", "{\"x\":[\"12\"]}", "/x"},
    {OF("{\"type\":[\"array\",\"null\"]}"), "{\"x\":\"a\"}", "{\"x\":[\"a\"]}", "/x"},
    /* JSON text where only a list or an object fits */
    {OF(LIST), "{\"x\":\"[\\\"a\\\",\\\"b\\\"]\"}", "{\"x\":[\"a\",\"b\"]}", "/x"},
    {OF(OBJECT), "{\"x\":\"{\\\"a\\\":\\\"b\\\"}\"}", "{\"x\":{\"a\":\"b\"}}", "/x"},
    {"{\"type\":\"object\"}", "\"{\\\"a\\\":1}\"", "{\"a\":1}", ""},
    /* a number as text where only a number fits */
    {OF("{\"type\":\"integer\",\"maximum\":20}"), "{\"x\":\"12\"}", "{\"x\":12}", "/x"},
    {OF("{\"type\":\"number\"}"), "{\"x\":\"-1.5e3\"}", "{\"x\":-1500.0}", "/x"},
    {OF("{\"type\":[\"array\",\"number\"]}"), "{\"x\":\"12\"}", "{\"x\":12}", "/x"},
    /* several, in lists, by references, and next to faults that stay */
    {"{\"properties\":{\"x\":" LIST ",\"y\":{\"items\":{\"type\":\"integer\"}}},"
     "\"required\":[\"z\"]}",
     "{\"w\":\"1\",\"x\":\"a\",\"y\":[1,\"2\",3]}", "{\"w\":\"1\",\"x\":[\"a\"],\"y\":[1,2,3]}",
     "/x /y/1"},
    {"{\"properties\":{\"x/~\":{\"$ref\":\"#/$defs/t\"}},\"$defs\":{\"t\":" LIST "}}",
     "{\"x/~\":\"a\"}", "{\"x/~\":[\"a\"]}", "/x~1~0"},
};

static void slips_are_mended(void **state)
{
    struct arena *arena = *state;
    for (size_t i = 0; i < ARRAY_LEN(mended); i++) {
        const struct schema *schema = compile(arena, mended[i][0]);
        const struct json *before = parse(arena, mended[i][1]);
        struct schema_slips slips;
        const struct json *after = schema_mend(schema, before, 0, arena, &slips);
        slice places = SLICE("");
        for (size_t k = 0; k < slips.count; k++)
            places = arena_printf(arena, "%.*s%s%.*s", SLICE_ARG(places), k > 0 ? " " : "",
                                  SLICE_ARG(slips.pointers[k]));
        assert_string_equal(text_of(arena, before), mended[i][1]); /* not changed */
        assert_string_equal(text_of(arena, after), mended[i][2]);
        assert_int_not_equal(slips.count, 0);
        assert_string_equal(arena_cstr(arena, places), mended[i][3]);
    }
}

/* Each entry: schema, instance. */
static const char *const kept[][2] = {
    /* valid */
    {OF(TEXT), "{\"x\":\"12\"}"},
    {OF("{\"type\":[\"string\",\"array\"]}"), "{\"x\":\"[1]\"}"},
    {OF("{}"), "{\"x\":\"{}\"}"},
    /* another schema of the value wants the text, or a choice does not say which is meant */
    {OF("{\"allOf\":[" TEXT "," LIST "]}"), "{\"x\":\"a\"}"},
    {OF("{\"anyOf\":[" LIST ",{\"type\":\"string\",\"maxLength\":1}]}"), "{\"x\":\"ab\"}"},
    /* the mended value would not fit */
    {OF(LIST), "{\"x\":\"[1]\"}"},
    {OF("{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}"), "{\"x\":\"a\"}"},
    {OF("{\"type\":\"array\",\"minItems\":2}"), "{\"x\":\"a\"}"},
    {OF(OBJECT), "{\"x\":\"{\\\"a\\\":1}\"}"},
    {OF("{\"type\":\"integer\",\"maximum\":20}"), "{\"x\":\"21\"}"},
    {OF("{\"type\":\"integer\"}"), "{\"x\":\"1.5\"}"},
    /* text that begins like a list or an object does not become the only item of a list */
    {OF(LIST), "{\"x\":\"[\\\"a\\\",]\"}"},
    {OF(LIST), "{\"x\":\" [a, b]\"}"},
    {OF(LIST), "{\"x\":\"{\\\"a\\\":1}\"}"},
    /* not the text of a number or of an object */
    {OF("{\"type\":\"number\"}"), "{\"x\":\"12 apples\"}"},
    {OF("{\"type\":\"number\"}"), "{\"x\":\"0x10\"}"},
    {OF("{\"type\":\"number\"}"), "{\"x\":\"\"}"},
    {OF("{\"type\":\"boolean\"}"), "{\"x\":\"true\"}"},
    {OF("{\"type\":\"object\"}"), "{\"x\":\"{\\\"a\\\":1,\\\"a\\\":2}\"}"},
    /* a number or an object in place of a text */
    {OF(TEXT), "{\"x\":12}"},
    {OF(LIST), "{\"x\":{}}"},
};

static void the_rest_stays_as_it_is(void **state)
{
    struct arena *arena = *state;
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        const struct json *before = parse(arena, kept[i][1]);
        struct schema_slips slips;
        assert_ptr_equal(schema_mend(compile(arena, kept[i][0]), before, 0, arena, &slips), before);
        assert_int_equal(slips.count, 0);
    }
}

/* A JSON text may not nest deeper at its place than a request may, and may not be longer than a
 * form can show. */
static void limits_hold(void **state)
{
    struct arena *arena = *state;
    const struct schema *schema = compile(arena, OF("{\"type\":\"object\"}"));
    static const struct {
        size_t around, depth, blanks;
        bool is_mended;
    } rows[] = {{0, 63, 0, true},         {0, 64, 0, false},      {3, 60, 0, true},
                {3, 61, 0, false},        {62, 1, 0, true},       {63, 1, 0, false},
                {0, 1, 32 * 1024, false}, {0, 1, 31 * 1024, true}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf text;
        struct schema_slips slips;
        buf_init(&text, 64 * 1024);
        for (size_t k = 0; k < rows[i].depth; k++)
            buf_append(&text, SLICE("{\"a\":"));
        buf_append(&text, SLICE("1"));
        for (size_t k = 0; k < rows[i].blanks; k++)
            buf_append_char(&text, ' ');
        for (size_t k = 0; k < rows[i].depth; k++)
            buf_append_char(&text, '}');
        struct json instance = json_object();
        json_object_set(arena, &instance, SLICE("x"), json_string(arena_take(arena, &text)));
        const struct json *after = schema_mend(schema, &instance, rows[i].around, arena, &slips);
        assert_int_equal(after != &instance, rows[i].is_mended);
        assert_int_equal(slips.count, rows[i].is_mended);
    }
}

/* An item that becomes a list nests one deeper. */
static void a_list_counts_as_depth(void **state)
{
    const struct schema *schema = compile(*state, OF(LIST));
    const struct json *instance = parse(*state, "{\"x\":\"a\"}");
    struct schema_slips slips;
    assert_ptr_not_equal(schema_mend(schema, instance, 62, *state, &slips), instance);
    assert_ptr_equal(schema_mend(schema, instance, 63, *state, &slips), instance);
}

static void without_memory_nothing_is_mended(void **state)
{
    const struct schema *schema = compile(*state, OF(LIST));
    const struct json *instance = parse(*state, "{\"x\":\"a\"}");
    for (size_t size = 64; size < 4096; size += 64) {
        struct arena small;
        struct schema_slips slips;
        arena_init(&small, size);
        const struct json *after = schema_mend(schema, instance, 0, &small, &slips);
        assert_int_equal(after == instance, slips.count == 0);
        arena_deinit(&small);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(slips_are_mended),
        ARENA_TEST(the_rest_stays_as_it_is),
        ARENA_TEST(limits_hold),
        ARENA_TEST(a_list_counts_as_depth),
        ARENA_TEST(without_memory_nothing_is_mended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
