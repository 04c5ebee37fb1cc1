/*
 * json_parse: values, error positions, depth, duplicate keys, hostile sizes, failing allocations.
 */
#include "support/json_test.h"

static struct json *try_parse(struct arena *arena, slice text, const struct json_limits *limits,
                              struct err *err)
{
    *err = (struct err){0};
    struct json *value = json_parse(arena, text, limits, err);
    assert_int_equal(value == NULL, err->code != OK);
    return value;
}

static void assert_refused(struct arena *arena, const char *text, enum err_code code,
                           const char *sentence)
{
    struct err err;
    assert_null(try_parse(arena, slice_cstr(text), &json_limits_request, &err));
    assert_int_equal(err.code, code);
    if (!strstr(err.text, sentence))
        fail_msg("%s: got [%s], want [%s]", text, err.text, sentence);
}

static void test_values(void **state)
{
    struct arena *arena = *state;
    const struct json *root =
        parse(arena, " {\"a\":[1,-2,true,false,null,\"x\\u0000y\",{}],\"b\":{\"c\":\"\"}} ");
    const struct json *a = JSON_GET(root, "a");
    assert_int_equal(a->count, 7);
    assert_int_equal(json_at(a, 0)->as.i64, 1);
    assert_int_equal(json_at(a, 1)->as.i64, -2);
    assert_true(json_at(a, 2)->as.boolean);
    assert_false(json_at(a, 3)->as.boolean);
    assert_true(json_is(json_at(a, 4), JSON_NULL));
    assert_true(slice_eq(json_str(json_at(a, 5)), SLICE("x\0y")));
    assert_true(json_is(json_at(a, 6), JSON_OBJECT));
    assert_null(json_at(a, 7));
    assert_true(json_str(JSON_GET(JSON_GET(root, "b"), "c")).ptr != NULL);
    assert_null(JSON_GET(JSON_GET(root, "a"), "c"));
}

static void test_number_types(void **state)
{
    static const struct {
        const char *text;
        enum json_type type;
    } cases[] = {
        {"0", JSON_INT},
        {"-0", JSON_INT},
        {"9007199254740993", JSON_INT},
        {"9223372036854775807", JSON_INT},
        {"-9223372036854775808", JSON_INT},
        {"9223372036854775808", JSON_UINT},
        {"18446744073709551615", JSON_UINT},
        {"18446744073709551616", JSON_BIGNUM},
        {"-9223372036854775809", JSON_BIGNUM},
        {"1.0", JSON_REAL},
        {"1e3", JSON_REAL},
        {"0.1", JSON_REAL},
        {"1.7976931348623157e308", JSON_REAL},
        {"4.9e-324", JSON_BIGNUM}, /* a double would say 5e-324 */
        {"5e-324", JSON_REAL},
        {"1e400", JSON_BIGNUM},
        {"1e-400", JSON_BIGNUM},
        {"0e-400", JSON_REAL},
        {"9007199254740993.0", JSON_BIGNUM},
        {"9007199254740992.0", JSON_REAL},
        {"1.000000000000000005", JSON_BIGNUM},
        {"0.8444218515250481", JSON_REAL},
        {"1.00000000000000000000000", JSON_REAL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct json *value = parse(*state, cases[i].text);
        if (value->type != cases[i].type)
            fail_msg("%s: type %d, want %d", cases[i].text, value->type, cases[i].type);
        if (value->type == JSON_BIGNUM)
            assert_text((slice){value->as.text, value->count}, cases[i].text);
    }
}

static void test_syntax_errors(void **state)
{
    assert_refused(*state, "", ERR_SYNTAX, "not valid JSON at byte 0: ");
    assert_refused(*state, "{\"a\":1,}", ERR_SYNTAX, "not valid JSON at byte 6: ");
    assert_refused(*state, "[1,2", ERR_SYNTAX, "not valid JSON at byte 4: ");
    assert_refused(*state, "\xEF\xBB\xBF{}", ERR_SYNTAX, "at byte 0: ");
    assert_refused(*state, "[\"\xFF\"]", ERR_SYNTAX, "at byte 2: ");
    assert_refused(*state, "{} x", ERR_SYNTAX, "at byte 3: ");
    assert_refused(*state, "[NaN]", ERR_SYNTAX, "at byte 1: ");
    assert_refused(*state, "[01]", ERR_SYNTAX, "at byte ");
    assert_refused(*state, "\"\\ud800\"", ERR_SYNTAX, "at byte ");
}

static slice repeated(struct arena *arena, const char *head, char c, size_t count, const char *tail)
{
    size_t head_len = strlen(head);
    size_t tail_len = strlen(tail);
    char *text = arena_alloc_text(arena, head_len + count + tail_len);
    assert_non_null(text);
    memcpy(text, head, head_len);
    memset(text + head_len, c, count);
    memcpy(text + head_len + count, tail, tail_len);
    return (slice){text, head_len + count + tail_len};
}

static slice nested(struct arena *arena, size_t depth)
{
    char *text = arena_alloc_text(arena, depth * 2);
    assert_non_null(text);
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    return (slice){text, depth * 2};
}

static void test_depth(void **state)
{
    struct err err;
    assert_non_null(try_parse(*state, nested(*state, 64), &json_limits_request, &err));
    assert_null(try_parse(*state, nested(*state, 65), &json_limits_request, &err));
    assert_int_equal(err.code, ERR_LIMIT);
    assert_string_equal(err.text, "not accepted: nested deeper than 64 levels at byte 64");
    assert_non_null(try_parse(*state, nested(*state, 512), &json_limits_provider, &err));
    assert_null(try_parse(*state, nested(*state, 513), &json_limits_provider, &err));
    const struct json_limits greedy = {.depth_max = 1000000, .refuse_dup_keys = true};
    assert_null(try_parse(*state, nested(*state, 513), &greedy, &err));
    /* A bracket in a string does not count. */
    assert_non_null(
        try_parse(*state, repeated(*state, "[\"", '[', 100, "\"]"), &json_limits_request, &err));
    assert_refused(*state,
                   "{\"a\\\"\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
                   "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}",
                   ERR_LIMIT, "at byte 70");
}

static void test_hostile_nesting(void **state)
{
    struct err err;
    const size_t sizes[] = {100 * 1000, 8 * 1024 * 1024};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct arena small;
        arena_init(&small, 64 * 1024);
        assert_null(try_parse(&small, nested(*state, sizes[i] / 2), &json_limits_provider, &err));
        assert_int_equal(err.code, ERR_LIMIT);
        assert_int_equal(small.bytes_used, 0); /* refused before anything was allocated */
        arena_deinit(&small);
    }
}

/* The scan of a large text skips strings 8 bytes at a time: brackets in strings do not count,
 * and brackets after them do, wherever quotes and escapes are. */
static void test_depth_after_strings(void **state)
{
    static const char *const endings[] = {"",         "\\\"",    "\\\\",     "\\\"[",
                                          "\\\\\\\"", "\\u005b", "\xc3\xa4", "[\\\\"};
    slice filler = repeated(*state, "", ' ', 20000, "");
    struct err err;
    for (size_t at = 0; at < ARRAY_LEN(endings) * 24; at++) {
        const char *ending = endings[at / 24];
        slice inside = repeated(*state, "[[\"", '[', at % 24, ending);
        slice deep = nested(*state, 62);
        slice text = arena_printf(*state, "%.*s\",%.*s%.*s]]", SLICE_ARG(inside), SLICE_ARG(filler),
                                  SLICE_ARG(deep));
        assert_true(text.len > 20000);
        assert_non_null(try_parse(*state, text, &json_limits_request, &err));
        deep = nested(*state, 63);
        text = arena_printf(*state, "%.*s\",%.*s%.*s]]", SLICE_ARG(inside), SLICE_ARG(filler),
                            SLICE_ARG(deep));
        assert_null(try_parse(*state, text, &json_limits_request, &err));
        assert_int_equal(err.code, ERR_LIMIT);
        char place[40];
        (void)snprintf(place, sizeof(place), "at byte %zu", text.len - 2 - 64);
        assert_non_null(strstr(err.text, place));
    }
    /* an unterminated string hides nothing, and is read only to the end of the text */
    for (size_t len = 20000; len < 20016; len++)
        assert_null(
            try_parse(*state, repeated(*state, "[\"", 'x', len, ""), &json_limits_request, &err));
    assert_null(
        try_parse(*state, repeated(*state, "[\"", 'x', 20000, "\\"), &json_limits_request, &err));
    assert_int_equal(err.code, ERR_SYNTAX);
}

static void test_duplicate_keys(void **state)
{
    struct err err;
    assert_refused(*state, "{\"a\":{\"x/y\":[{\"k\":1,\"b\":2,\"k\":3}]}}", ERR_INVALID,
                   "the member \"k\" occurs twice in the object at /a/x~1y/0");
    assert_refused(*state, "{\"\":1,\"\":1}", ERR_INVALID,
                   "the member \"\" occurs twice in the object at the top level");
    assert_refused(*state, "{\"a\":1,\"\\u0061\":1}", ERR_INVALID, "\"a\" occurs twice");
    const struct json *lenient =
        try_parse(*state, SLICE("{\"k\":1,\"b\":2,\"k\":{\"z\":3}}"), &json_limits_provider, &err);
    assert_int_equal(lenient->count, 2);
    assert_int_equal(json_get_i64(JSON_GET(lenient, "k"), SLICE("z"), 0), 3);
    assert_text(json_str(&lenient->as.members[0].key), "k");
}

/* count members "k<i>". The last member repeats number `twin`, unless that is past the end. */
static slice wide_object(struct arena *arena, size_t count, size_t twin)
{
    struct buf text;
    buf_init(&text, (size_t)32 * 1024 * 1024);
    for (size_t i = 0; i < count; i++)
        buf_printf(&text, "%s\"k%zu\":%zu", i ? "," : "{", i, i);
    if (twin < count)
        buf_printf(&text, ",\"k%zu\":-1", twin);
    buf_append_char(&text, '}');
    slice copy = arena_dup(arena, buf_slice(&text));
    buf_deinit(&text);
    assert_non_null(copy.ptr);
    return copy;
}

static void test_wide_objects(void **state)
{
    struct err err;
    const size_t counts[] = {2, 24, 25, 26, 1000, 200 * 1000};
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        size_t count = counts[i];
        assert_non_null(
            try_parse(*state, wide_object(*state, count, count), &json_limits_request, &err));
        slice twins = wide_object(*state, count, count / 2);
        assert_null(try_parse(*state, twins, &json_limits_request, &err));
        assert_int_equal(err.code, ERR_INVALID);
        const struct json *folded = try_parse(*state, twins, &json_limits_provider, &err);
        assert_int_equal(folded->count, count);
        char key[32];
        snprintf(key, sizeof(key), "k%zu", count / 2);
        assert_int_equal(json_get_i64(folded, slice_cstr(key), 0), -1);
    }
}

static void test_wide_array(void **state)
{
    const size_t count = 1000 * 1000;
    slice text = repeated(*state, "[", '1', count * 2 - 1, "]");
    char *bytes = (char *)text.ptr;
    for (size_t i = 0; i < count - 1; i++)
        bytes[2 + 2 * i] = ',';
    struct err err;
    const struct json *array = try_parse(*state, text, &json_limits_request, &err);
    assert_int_equal(array->count, count);
    assert_int_equal(json_at(array, count - 1)->as.i64, 1);
    /* If the arena is too small, this is reported before the values are created. */
    struct arena small;
    arena_init(&small, 4 * 1024 * 1024);
    assert_null(try_parse(&small, text, &json_limits_request, &err));
    assert_int_equal(err.code, ERR_NOMEM);
    assert_int_equal(small.bytes_used, 0);
    arena_deinit(&small);
}

static void test_large_body(void **state)
{
    struct err err;
    slice text = repeated(*state, "{\"a\":\"", 'x', 8 * 1024 * 1024, "\"}");
    const struct json *value = try_parse(*state, text, &json_limits_request, &err);
    assert_int_equal(json_get_str(value, SLICE("a")).len, 8 * 1024 * 1024);
    text = repeated(*state, "", '7', 1024 * 1024, "");
    value = try_parse(*state, text, &json_limits_request, &err);
    assert_int_equal(value->type, JSON_BIGNUM);
    assert_int_equal(value->count, 1024 * 1024);
}

/* Each allocation in turn fails once: the error is correct, and nothing leaks. */
static void test_failing_allocations(void **state)
{
    slice text = wide_object(*state, 60, 60);
    bool has_passed = false;
    for (uint64_t n = 1; n < 50 && !has_passed; n++) {
        struct arena arena;
        arena_init(&arena, UNIT_ARENA_BYTES_MAX);
        struct err err = {0};
        mem_fail_at(n, 1);
        const struct json *value = json_parse(&arena, text, &json_limits_request, &err);
        mem_fail_at(0, 0);
        has_passed = value != NULL;
        if (!has_passed)
            assert_int_equal(err.code, ERR_NOMEM);
        arena_deinit(&arena);
    }
    assert_true(has_passed);
}

/* Faults that a provider's reply may have, read as a browser's TextDecoder and JSON.parse read
 * them. A request with any of them is refused. */
static void test_provider_text_is_mended(void **state)
{
    static const struct {
        slice text;
        const char *as; /* the same document in clean JSON, or NULL if it is not a document */
    } cases[] = {
        {SLICE_INIT("[\"a\xFF"
                    "b\"]"),
         "[\"a\xEF\xBF\xBD"
         "b\"]"},
        {SLICE_INIT("{\"k\xC3\":\"\xC3\xA4\xC3\"}"), "{\"k\\ufffd\":\"\xC3\xA4\\ufffd\"}"},
        {SLICE_INIT("[\"\xE2\x82\"]"), "[\"\\ufffd\"]"}, /* a truncated sequence gives one U+FFFD */
        {SLICE_INIT("[\"\xE2\x82"
                    "A\xF0\x9F\x98\"]"),
         "[\"\\ufffdA\\ufffd\"]"},
        {SLICE_INIT("[\"\xED\xA0\xBD\"]"),
         "[\"\\ufffd\\ufffd\\ufffd\"]"}, /* no sequence begins like this */
        {SLICE_INIT("[\"\xC0\xAF\xF5\x80\"]"), "[\"\\ufffd\\ufffd\\ufffd\\ufffd\"]"},
        {SLICE_INIT("[\"caf\xE9\",1]"), "[\"caf\\ufffd\",1]"}, /* Latin-1 */
        {SLICE_INIT("[\"\\ud83d\"]"), "[\"\\ufffd\"]"},
        {SLICE_INIT("[\"\\uDE00!\"]"), "[\"\\ufffd!\"]"},
        {SLICE_INIT("[\"\\ud83dx\\ude00\"]"), "[\"\\ufffdx\\ufffd\"]"},
        {SLICE_INIT("[\"\\ud83d\\ud83d\\ude00\"]"), "[\"\\ufffd\\ud83d\\ude00\"]"},
        {SLICE_INIT("[\"\\ud83d\\n\"]"), "[\"\\ufffd\\n\"]"},
        {SLICE_INIT("[\"\\\\ud83d \\ud83d\"]"), "[\"\\\\ud83d \\ufffd\"]"}, /* not an escape */
        {SLICE_INIT("{\"\\ud83d\":1}"), "{\"\\ufffd\":1}"},
        {SLICE_INIT("\xEF\xBB\xBF{\"a\":1}"), "{\"a\":1}"},
        {SLICE_INIT("\xEF\xBB\xBF[\"\xFF\\ud800\"]"), "[\"\\ufffd\\ufffd\"]"},
        {SLICE_INIT("\xEF\xBB\xBF"), NULL},
        {SLICE_INIT("\xEF\xBB\xBF\xEF\xBB\xBF{}"), NULL}, /* only the first mark is skipped */
        {SLICE_INIT("\xEF\xBB{}"), NULL},
        {SLICE_INIT("[\"\xFF\"}"), NULL},
        {SLICE_INIT("[\xFF]"), NULL},
        {SLICE_INIT("[\"\\\xFF\"]"), NULL},
        {SLICE_INIT("[\"\\u12\xFF\"]"), NULL},
        {SLICE_INIT("[\"\\ud8"), NULL},
        {SLICE_INIT("[\"\\ud83d\\u"), NULL},
        {SLICE_INIT("[\"\\"), NULL},
    };
    struct err err;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_null(try_parse(*state, cases[i].text, &json_limits_request, &err));
        const struct json *value = try_parse(*state, cases[i].text, &json_limits_provider, &err);
        const struct json *wanted = cases[i].as ? parse(*state, cases[i].as) : NULL;
        if (!value != !wanted || (value && !json_equal(value, wanted)))
            fail_msg("case %zu: not read as %s: %s", i, cases[i].as ? cases[i].as : "nothing",
                     err.text);
    }
}

/* Each byte of a hostile text becomes three bytes, which are also counted in advance. */
static void test_bytes_of_a_mended_text(void **state)
{
    (void)state;
    struct arena arena;
    struct buf text;
    buf_init(&text, 8 << 20);
    buf_append_cstr(&text, "[\"");
    for (size_t n = 0; n < 100000; n++)
        buf_append_cstr(&text, n % 2 ? "\xFF" : "\\ud800");
    buf_append_cstr(&text, "\"]");
    arena_init(&arena, 64 << 20);
    struct err err = {0};
    const struct json *value = json_parse(&arena, buf_slice(&text), &json_limits_provider, &err);
    assert_int_equal(json_str(json_at(value, 0)).len, 300000);
    assert_true(arena.bytes_used <= json_parse_bytes(buf_slice(&text)));
    arena_deinit(&arena);
    arena_init(&arena, text.len + 1000); /* memory for the text, but not for its decoded form */
    assert_null(json_parse(&arena, buf_slice(&text), &json_limits_provider, &err));
    assert_int_equal(err.code, ERR_NOMEM);
    arena_deinit(&arena);
    buf_deinit(&text);
}

/* The memory that is reserved in advance from an account's share: never less than the parser
 * uses. */
static void test_bytes_of_a_parse(void **state)
{
    (void)state;
    static const char *const items[] = {"{\"a\":1}", "1", "\"text that is long enough\"", "[[],{}]",
                                        "{\"k\":{\"k\":[null,true]}}"};
    for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
        struct arena arena;
        struct buf text;
        buf_init(&text, 8 << 20);
        buf_append_char(&text, '[');
        for (size_t n = 0; n < 20000; n++)
            buf_printf(&text, "%s%s", n ? "," : "", items[i]);
        buf_append_char(&text, ']');
        arena_init(&arena, 64 << 20);
        struct err err = {0};
        assert_non_null(json_parse(&arena, buf_slice(&text), &json_limits_request, &err));
        assert_true(arena.bytes_used <= json_parse_bytes(buf_slice(&text)));
        assert_true(json_parse_bytes(buf_slice(&text)) <= 8 * arena.bytes_used);
        arena_deinit(&arena);
        buf_deinit(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(test_values),
        ARENA_TEST(test_number_types),
        ARENA_TEST(test_depth_after_strings),
        ARENA_TEST(test_syntax_errors),
        ARENA_TEST(test_provider_text_is_mended),
        ARENA_TEST(test_bytes_of_a_mended_text),
        ARENA_TEST(test_depth),
        ARENA_TEST(test_hostile_nesting),
        ARENA_TEST(test_duplicate_keys),
        ARENA_TEST(test_wide_objects),
        ARENA_TEST(test_wide_array),
        ARENA_TEST(test_large_body),
        ARENA_TEST(test_bytes_of_a_parse),
        ARENA_TEST(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
