/*
 * Compiling: errors with their positions, references across documents, limits and memory. Also the
 * parts: keywords, URI resolution and the meta-schemas.
 */
#include "support/json_test.h"

#include "schema/schema.h"
#include "schema/keyword.h"
#include "schema/meta.h"
#include "schema/uri.h"

static const struct schema *try_compile(struct arena *arena, const char *text, struct err *err)
{
    *err = (struct err){0};
    const struct schema *schema = schema_compile(arena, parse(arena, text), true, err);
    assert_int_equal(schema == NULL, err->code != OK);
    return schema;
}

static void test_errors(void **state)
{
    static const struct {
        const char *schema;
        enum err_code code;
        const char *text;
    } cases[] = {
        {"5", ERR_INVALID, "schema #: a schema is an object or a boolean, not integer"},
        {"{\"properties\":{\"to\":{\"minLength\":-1}}}", ERR_INVALID,
         "schema #/properties/to/minLength: must be a non-negative integer"},
        {"{\"maxItems\":1.5}", ERR_INVALID, "schema #/maxItems: must be a non-negative integer"},
        {"{\"type\":\"strnig\"}", ERR_INVALID, "schema #/type: must be null, boolean, integer"},
        {"{\"type\":[\"string\",1]}", ERR_INVALID, "schema #/type: must be null"},
        {"{\"minimum\":\"1\"}", ERR_INVALID, "schema #/minimum: must be a number"},
        {"{\"multipleOf\":0}", ERR_INVALID, "schema #/multipleOf: must be greater than 0"},
        {"{\"multipleOf\":-2}", ERR_INVALID, "schema #/multipleOf: must be greater than 0"},
        {"{\"multipleOf\":1.00000000000000000001}", ERR_LIMIT,
         "schema #/multipleOf: more than 19 digits are not supported"},
        {"{\"enum\":1}", ERR_INVALID, "schema #/enum: must be an array"},
        {"{\"uniqueItems\":1}", ERR_INVALID, "schema #/uniqueItems: must be true or false"},
        {"{\"format\":1}", ERR_INVALID, "schema #/format: must be a string"},
        {"{\"required\":\"a\"}", ERR_INVALID, "schema #/required: must be an array of names"},
        {"{\"required\":[1]}", ERR_INVALID, "schema #/required: must be an array of names"},
        {"{\"properties\":[]}", ERR_INVALID, "schema #/properties: must be an object"},
        {"{\"properties\":{\"a/b\":1}}", ERR_INVALID,
         "schema #/properties/a~1b: a schema is an object or a boolean, not integer"},
        {"{\"items\":[{}]}", ERR_INVALID, "schema #/items: must be one schema; a list"},
        {"{\"allOf\":[]}", ERR_INVALID, "schema #/allOf: must be a non-empty array"},
        {"{\"dependentRequired\":{\"a\":[1]}}", ERR_INVALID,
         "schema #/dependentRequired: must be an object of arrays of names"},
        {"{\"contains\":true,\"minContains\":-1}", ERR_INVALID,
         "schema #/minContains: must be a non-negative integer"},
        {"{\"pattern\":\"(\"}", ERR_SYNTAX, "schema #/pattern: pattern at byte 1: a ( without"},
        {"{\"patternProperties\":{\"[\":true}}", ERR_SYNTAX,
         "schema #/patternProperties: pattern at byte 0: a [ without its ]"},
        {"{\"$defs\":{\"a\":{\"$id\":\"x#y\"}}}", ERR_INVALID,
         "schema #/$defs/a/$id: must not have a fragment"},
        {"{\"$schema\":1}", ERR_INVALID, "schema #/$schema: must be a URI"},
        {"{\"$anchor\":1}", ERR_INVALID, "schema #/$anchor: must be a name"},
        {"{\"$ref\":1}", ERR_INVALID, "schema #/$ref: must be a URI reference"},
        {"{\"$ref\":\"#/$defs/x\"}", ERR_NOTFOUND, "schema #/$ref: does not lead to anything"},
        {"{\"$ref\":\"#/%zz\"}", ERR_INVALID, "schema #/$ref: has an invalid percent-encoding"},
        {"{\"$ref\":\"#x\"}", ERR_NOTFOUND, "schema #/$ref: there is no anchor \"x\""},
        {"{\"$ref\":\"other.json\"}", ERR_NOTFOUND,
         "schema #/$ref: there is no schema \"other.json\" (nothing is fetched from the network)"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err err;
        assert_null(try_compile(*state, cases[i].schema, &err));
        if (err.code != cases[i].code || !strstr(err.text, cases[i].text))
            fail_msg("%s: %d [%s]", cases[i].schema, err.code, err.text);
    }
}

/* ---- documents ---- */

/* A schema that is bundled under its $id is found by references that are relative to another
 * $id. */
static void test_bundled_documents(void **state)
{
    struct err err;
    const struct schema *schema = try_compile(
        *state,
        "{\"$id\":\"https://example.com/dir/main.json\",\"$ref\":\"./x/../a.json\",\"$defs\":{"
        "\"a\":{\"$id\":\"https://example.com/dir/a.json\",\"$ref\":\"b.json#/$defs/n\"},"
        "\"b\":{\"$id\":\"b.json\",\"$defs\":{\"n\":{\"maximum\":5}}}}}",
        &err);
    assert_non_null(schema);
    struct schema_report report;
    schema_report_init(&report, *state, SLICE_NONE);
    assert_true(schema_validate(schema, parse(*state, "5"), &report));
    assert_false(schema_validate(schema, parse(*state, "6"), &report));
    assert_text(report.violations[0].location, "#/$defs/b/$defs/n/maximum");
    assert_null(
        try_compile(*state, "{\"$ref\":\"https://json-schema.org/draft/2020-12/none\"}", &err));
    assert_int_equal(err.code, ERR_NOTFOUND);
    /* A keyword of another document is named with that document's URI. */
    schema = try_compile(*state, "{\"$ref\":\"" SCHEMA_META_URI "\"}", &err);
    assert_non_null(schema);
    schema_report_init(&report, *state, SLICE_NONE);
    assert_false(schema_validate(schema, parse(*state, "{\"minLength\":-1}"), &report));
    assert_text(report.violations[0].location,
                "https://json-schema.org/draft/2020-12/meta/validation#/$defs/nonNegativeInteger/"
                "minimum");
}

/* The meta-schemas describe themselves, and refuse a value that is not a schema. */
static void test_meta_schemas(void **state)
{
    struct err err;
    const struct schema *meta = try_compile(*state, "{\"$ref\":\"" SCHEMA_META_URI "\"}", &err);
    assert_non_null(meta);
    static const char *const names[] = {"schema",
                                        "meta/core",
                                        "meta/applicator",
                                        "meta/unevaluated",
                                        "meta/validation",
                                        "meta/meta-data",
                                        "meta/content",
                                        "meta/format-annotation",
                                        "meta/format-assertion"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        slice uri = arena_printf(*state, "https://json-schema.org/draft/2020-12/%s", names[i]);
        slice text = schema_meta_find(uri);
        assert_non_null(text.ptr);
        const struct json *document = parse(*state, text.ptr);
        assert_true(slice_eq(json_get_str(document, SLICE("$id")), uri));
        assert_true(schema_validate(meta, document, NULL));
    }
    assert_null(schema_meta_find(SLICE("https://json-schema.org/draft-07/schema")).ptr);
    assert_false(schema_validate(meta, parse(*state, "{\"items\":{\"minLength\":-1}}"), NULL));
    assert_false(
        schema_validate(meta, parse(*state, "{\"$defs\":{\"a\":{\"type\":\"x\"}}}"), NULL));
    assert_true(schema_validate(meta, parse(*state, "{\"items\":{\"minLength\":1}}"), NULL));
}

/* ---- limits ---- */

static void test_deep_chains(void **state)
{
    struct err err;
    struct buf text;
    buf_init(&text, 4 * 1024 * 1024);
    buf_append_cstr(&text, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{");
    for (int i = 0; i < 20000; i++)
        buf_printf(&text, "\"d%d\":{\"$ref\":\"#/$defs/d%d\"},", i, i + 1);
    buf_append_cstr(&text, "\"d20000\":{\"type\":\"null\"}}}");
    const char *chain = arena_cstr(*state, buf_slice(&text));
    buf_deinit(&text);
    /* Compiled without recursion. Validation recurses to the allowed depth, and no deeper. */
    const struct schema *schema = try_compile(*state, chain, &err);
    assert_non_null(schema);
    assert_false(schema_validate(schema, &json_null, NULL));
}

static void test_too_many_nodes(void **state)
{
    struct err err;
    struct json list = json_array();
    for (int i = 0; i < SCHEMA_NODES_MAX; i++)
        json_array_push(*state, &list, json_object());
    struct json root = json_object();
    json_object_set(*state, &root, SLICE("anyOf"), list);
    assert_null(schema_compile(*state, &root, false, &err));
    assert_int_equal(err.code, ERR_LIMIT);
    struct json deep = json_object();
    for (int i = 0; i < 2000; i++) {
        struct json outer = json_object();
        json_object_set(*state, &outer, SLICE("not"), deep);
        deep = outer;
    }
    assert_null(schema_compile(*state, &deep, false, &err));
    assert_int_equal(err.code, ERR_LIMIT);
}

static void test_failing_memory(void **state)
{
    const char *text =
        "{\"$id\":\"http://x/\",\"properties\":{\"a\":{\"pattern\":\"^a+$\",\"minimum\":1}},"
        "\"patternProperties\":{\"b\":{}},\"required\":[\"c\"],\"dependentRequired\":{\"a\":[\"b\"]"
        "},\"items\":{\"$dynamicRef\":\"#n\"},\"$defs\":{\"n\":{\"$dynamicAnchor\":\"n\"}},"
        "\"prefixItems\":[{}],\"contains\":{},\"allOf\":[{}],\"if\":{},\"multipleOf\":2}";
    const struct json *document = parse(*state, text);
    bool has_passed = false;
    for (size_t max = 0; max < 64 * 1024 && !has_passed; max += 64) {
        struct arena small;
        arena_init(&small, max);
        struct err err = {0};
        has_passed = schema_compile(&small, document, false, &err) != NULL;
        assert_true(has_passed || err.code == ERR_NOMEM);
        arena_deinit(&small);
    }
    assert_true(has_passed);
    has_passed = false;
    for (uint64_t n = 1; n < 100 && !has_passed; n++) {
        struct arena arena;
        arena_init(&arena, UNIT_ARENA_BYTES_MAX);
        struct err err = {0};
        mem_fail_at(n, 1);
        has_passed = schema_compile(&arena, document, false, &err) != NULL;
        mem_fail_at(0, 0);
        assert_true(has_passed || err.code == ERR_NOMEM);
        arena_deinit(&arena);
    }
    assert_true(has_passed);
}

/* ---- parts ---- */

static void test_keywords(void **state)
{
    (void)state;
    for (unsigned i = 0; i < KW_COUNT; i++)
        assert_int_equal(keyword_find(keyword_name(i)), i);
    static const char *const strangers[] = {"", "$", "title", "zzz", "Type", "items ", "maxitems"};
    for (size_t i = 0; i < ARRAY_LEN(strangers); i++)
        assert_int_equal(keyword_find(slice_cstr(strangers[i])), KW_COUNT);
}

/* RFC 3986 5.4, with the base http://a/b/c/d;p?q */
static void test_uri_resolution(void **state)
{
    static const char *const cases[][2] = {
        {"g:h", "g:h"},
        {"g", "http://a/b/c/g"},
        {"./g", "http://a/b/c/g"},
        {"g/", "http://a/b/c/g/"},
        {"/g", "http://a/g"},
        {"//g", "http://g"},
        {"?y", "http://a/b/c/d;p?y"},
        {"g?y", "http://a/b/c/g?y"},
        {"#s", "http://a/b/c/d;p?q"},
        {"g;x=1/../y", "http://a/b/c/y"},
        {"", "http://a/b/c/d;p?q"},
        {".", "http://a/b/c/"},
        {"./", "http://a/b/c/"},
        {"..", "http://a/b/"},
        {"../g", "http://a/b/g"},
        {"../..", "http://a/"},
        {"../../g", "http://a/g"},
        {"../../../g", "http://a/g"},
        {"/./g", "http://a/g"},
        {"/../g", "http://a/g"},
        {"g.", "http://a/b/c/g."},
        {"..g", "http://a/b/c/..g"},
        {"./../g", "http://a/b/g"},
        {"g/./h", "http://a/b/c/g/h"},
        {"g/../h", "http://a/b/c/h"},
        {"g?y/../x", "http://a/b/c/g?y/../x"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_text(
            schema_uri_resolve(*state, SLICE("http://a/b/c/d;p?q"), slice_cstr(cases[i][0])),
            cases[i][1]);
    assert_text(schema_uri_resolve(*state, SLICE(""), SLICE("a.json#x")), "a.json");
    assert_text(schema_uri_resolve(*state, SLICE("http://a"), SLICE("b")), "http://a/b");
    assert_text(schema_uri_resolve(*state, SLICE("urn:x:y"), SLICE("#z")), "urn:x:y");
    slice huge = arena_printf(*state, "%*d", SCHEMA_URI_BYTES_MAX + 1, 1);
    assert_null(schema_uri_resolve(*state, SLICE(""), huge).ptr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(test_errors),         ARENA_TEST(test_bundled_documents),
        ARENA_TEST(test_meta_schemas),   ARENA_TEST(test_deep_chains),
        ARENA_TEST(test_too_many_nodes), ARENA_TEST(test_failing_memory),
        ARENA_TEST(test_keywords),       ARENA_TEST(test_uri_resolution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
