/*
 * Reading: members, pointers (the examples of RFC 6901 5), numbers as C types, type names.
 */
#include "support/json_test.h"

static void test_get(void **state)
{
    const struct json *root =
        parse(*state, "{\"s\":\"x\",\"b\":true,\"i\":3.0,\"big\":1e30,\"n\":null,\"a\":[1]}");
    assert_text(json_get_str(root, SLICE("s")), "x");
    assert_null(json_get_str(root, SLICE("i")).ptr);
    assert_null(json_get_str(root, SLICE("absent")).ptr);
    assert_true(json_get_bool(root, SLICE("b"), false));
    assert_true(json_get_bool(root, SLICE("s"), true));
    assert_int_equal(json_get_i64(root, SLICE("i"), -1), 3);
    assert_int_equal(json_get_i64(root, SLICE("big"), -1), -1);
    assert_int_equal(json_get_i64(root, SLICE("n"), -1), -1);
    assert_null(json_get(NULL, SLICE("a")));
    assert_null(json_get(JSON_GET(root, "a"), SLICE("a")));
    assert_null(json_at(root, 0));
}

static void test_pointer(void **state)
{
    const struct json *root = parse(
        *state, "{\"foo\":[\"bar\",\"baz\"],\"\":0,\"a/b\":1,\"c%d\":2,\"e^f\":3,\"g|h\":4,"
                "\"i\\\\j\":5,\"k\\\"l\":6,\" \":7,\"m~n\":8,\"~1\":9,\"nest\":{\"\":{\"x\":10}}}");
    assert_ptr_equal(json_pointer(root, SLICE("")), root);
    assert_text(json_str(json_pointer(root, SLICE("/foo/0"))), "bar");
    static const char *const pointers[] = {"/",     "/a~1b", "/c%d",  "/e^f", "/g|h",    "/i\\j",
                                           "/k\"l", "/ ",    "/m~0n", "/~01", "/nest//x"};
    for (size_t i = 0; i < ARRAY_LEN(pointers); i++) {
        const struct json *value = json_pointer(root, slice_cstr(pointers[i]));
        assert_non_null(value);
        assert_int_equal(value->as.i64, i);
    }
    static const char *const nowhere[] = {"foo",   "/foo/2",   "/foo/-", "/foo/00", "/foo/x",
                                          "/foo/", "/m~n",     "/m~2n",  "/m~",     "/foo/0/x",
                                          "/bar",  "/foo/1e0", "/foo/+1"};
    for (size_t i = 0; i < ARRAY_LEN(nowhere); i++)
        assert_null(json_pointer(root, slice_cstr(nowhere[i])));
    assert_null(json_pointer(NULL, SLICE("/x")));
}

static void test_pointer_append(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 100);
    json_pointer_append_key(&out, SLICE("a/b~"));
    json_pointer_append_index(&out, 12);
    json_pointer_append_key(&out, SLICE(""));
    json_pointer_append_key(&out, SLICE("~1"));
    assert_text(buf_slice(&out), "/a~1b~0/12//~01");
    buf_deinit(&out);
}

static void test_to_i64(void **state)
{
    static const struct {
        const char *text;
        bool is_whole;
        int64_t value;
    } cases[] = {
        {"7", true, 7},
        {"7.0", true, 7},
        {"1e3", true, 1000},
        {"-0.0", true, 0},
        {"1.5", false, 0},
        {"9223372036854775807", true, INT64_MAX},
        {"9223372036854775807.0", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"-9223372036854775808.0", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"9007199254740993.00", true, INT64_C(9007199254740993)},
        {"922337203685477580.7e1", true, INT64_MAX},
        {"1e19", false, 0},
        {"1e-400", false, 0},
        {"\"7\"", false, 0},
        {"null", false, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t value = 0;
        if (json_to_i64(parse(*state, cases[i].text), &value) != cases[i].is_whole ||
            value != cases[i].value)
            fail_msg("%s became %lld", cases[i].text, (long long)value);
    }
    int64_t untouched = 5;
    assert_false(json_to_i64(NULL, &untouched));
    assert_int_equal(untouched, 5);
}

static void test_plain_numbers(void **state)
{
    static const char *const cases[][2] = {
        {"1.0", "1"},       {"-0.0", "0"},
        {"1e3", "1000"},    {"7", "7"},
        {"1.5", "1.5"},     {"1e300", "1e300"},
        {"true", "true"},   {"\"1.0\"", "\"1.0\""},
        {"[1.0]", "[1.0]"}, {"18446744073709551615", "18446744073709551615"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct json plain = json_plain_number(parse(*state, cases[i][0]));
        struct buf out;
        buf_init(&out, 100);
        json_write(&out, &plain);
        assert_true(slice_eq_cstr(buf_slice(&out), cases[i][1]));
        buf_deinit(&out);
    }
}

static void test_to_double(void **state)
{
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"7", 7},
        {"18446744073709551615", 18446744073709551615.0},
        {"-0.25", -0.25},
        {"1e400", 1.7976931348623157e308},
        {"-1e400", -1.7976931348623157e308},
        {"1e-999", 0},
        {"123456789012345678901234567890", 123456789012345678901234567890.0},
        {"1.000000000000000005", 1.000000000000000005},
        {"-0.30000000000000004441", -0.30000000000000004441},
        {"1e99999999999999999999", 1.7976931348623157e308},
        {"\"1\"", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        double got = json_to_double(parse(*state, cases[i].text));
        if (got != cases[i].value)
            fail_msg("%s became %.17g", cases[i].text, got);
    }
}

static void test_type_name(void **state)
{
    static const char *const cases[][2] = {
        {"null", "null"},     {"true", "boolean"},  {"1", "integer"},
        {"1.0", "integer"},   {"1.5", "number"},    {"18446744073709551615", "integer"},
        {"1e400", "integer"}, {"1e-400", "number"}, {"\"\"", "string"},
        {"[]", "array"},      {"{}", "object"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_string_equal(json_type_name(parse(*state, cases[i][0])), cases[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(test_get),       ARENA_TEST(test_pointer),       ARENA_TEST(test_pointer_append),
        ARENA_TEST(test_to_i64),    ARENA_TEST(test_plain_numbers), ARENA_TEST(test_to_double),
        ARENA_TEST(test_type_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
