/*
 * Equality, order and hash: across number types, for any order of members, and at sizes where a
 * naive comparison would be quadratic.
 */
#include "support/json_test.h"

static const char *const distinct[] = {
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "1.5",
    "0.1",
    "1e400",
    "1e-400",
    "\"\"",
    "\"a\"",
    "\"1\"",
    "[]",
    "[1]",
    "[1,2]",
    "[2,1]",
    "{}",
    "{\"a\":1}",
    "{\"a\":2}",
    "{\"b\":1}",
    "{\"a\":1,\"b\":2}",
    "9007199254740992",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "[null]",
    "[[]]",
    "0.30000000000000004",
    "0.3",
};

static void test_distinct(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(distinct); i++) {
        const struct json *a = parse(*state, distinct[i]);
        for (size_t k = 0; k < ARRAY_LEN(distinct); k++) {
            const struct json *b = parse(*state, distinct[k]);
            if (json_equal(a, b) != (i == k))
                fail_msg("%s and %s", distinct[i], distinct[k]);
            bool is_tiny = i == 9 || k == 9; /* 1e-400: as a double it is 0 */
            if ((json_hash(a) == json_hash(b)) != (i == k) && !is_tiny && strlen(distinct[i]) < 16)
                fail_msg("hashes of %s and %s", distinct[i], distinct[k]);
        }
    }
}

static void test_same(void **state)
{
    static const char *const pairs[][2] = {
        {"1", "1.0"},
        {"1000", "1e3"},
        {"0", "-0.0"},
        {"0", "0e5"},
        {"1e400", "10e399"},
        {"1e400", "0.001e403"},
        {"18446744073709551616", "18446744073709551616.000"},
        {"18446744073709551615", "18446744073709551615.0"},
        {"9007199254740993", "9007199254740993.0"},
        {"10000000000000000000000", "1e22"},
        {"{\"a\":1,\"b\":[true]}", "{\"b\":[true],\"a\":1.0}"},
        {"\"\\u00e9\"", "\"\xC3\xA9\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        const struct json *a = parse(*state, pairs[i][0]);
        const struct json *b = parse(*state, pairs[i][1]);
        if (!json_equal(a, b) || !json_equal(b, a) || json_hash(a) != json_hash(b))
            fail_msg("%s is not %s", pairs[i][0], pairs[i][1]);
    }
}

static void test_order(void **state)
{
    static const char *const rising[] = {
        "-1e400",
        "-1e300",
        "-18446744073709551616",
        "-9223372036854775809",
        "-9223372036854775808",
        "-1.5",
        "-1",
        "-1e-400",
        "0",
        "1e-400",
        "5e-324",
        "0.1",
        "0.10000000000000000001",
        "1",
        "1.000000000000000005",
        "1.5",
        "9007199254740992",
        "9007199254740993",
        "9007199254740993.5",
        "9007199254740994",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551615.5",
        "18446744073709551616",
        "1e300",
        "1e400",
        "1.1e400",
    };
    for (size_t i = 0; i < ARRAY_LEN(rising); i++) {
        for (size_t k = 0; k < ARRAY_LEN(rising); k++) {
            int order = json_number_cmp(parse(*state, rising[i]), parse(*state, rising[k]));
            if ((order > 0) - (order < 0) != (i > k) - (i < k))
                fail_msg("%s <=> %s is %d", rising[i], rising[k], order);
        }
    }
}

/* Members in opposite orders: comparing 100,000 members one by one would take 10^10 comparisons. */
static void test_wide_objects(void **state)
{
    enum { COUNT = 100 * 1000 };
    struct json a = json_object();
    struct json b = json_object();
    for (int i = 0; i < COUNT; i++) {
        slice up = arena_printf(*state, "k%d", i);
        slice down = arena_printf(*state, "k%d", COUNT - 1 - i);
        json_object_set(*state, &a, up, json_i64(i));
        json_object_set(*state, &b, down, json_i64(COUNT - 1 - i));
    }
    assert_true(json_equal(&a, &b));
    assert_true(json_hash(&a) == json_hash(&b));
    b.as.members[COUNT / 2].value = json_bool(true);
    assert_false(json_equal(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(test_distinct),
        ARENA_TEST(test_same),
        ARENA_TEST(test_order),
        ARENA_TEST(test_wide_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
