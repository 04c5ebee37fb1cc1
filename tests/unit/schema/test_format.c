/*
 * Formats, one by one. The suite has many more if the corpora are present.
 */
#include "support/json_test.h"

#include "schema/format.h"
#include "schema/schema.h"

struct sample {
    const char *format;
    slice text;
};

static const struct sample good[] = {
    {"date-time", SLICE_INIT("2024-02-29T23:59:60z")},
    {"date-time", SLICE_INIT("2026-01-31t00:00:00.000001-23:59")},
    {"date", SLICE_INIT("2000-02-29")},
    {"time", SLICE_INIT("01:29:60+01:30")},
    {"duration", SLICE_INIT("P1Y2M3DT4H5M6S")},
    {"duration", SLICE_INIT("P3W")},
    {"email", SLICE_INIT("a.b+c@x-y.example")},
    {"email", SLICE_INIT("\"a b\"@[IPv6:::1]")},
    {"idn-email", SLICE_INIT("\xC3\xA9@\xC3\xA9.example")},
    {"hostname", SLICE_INIT("a-1.b")},
    {"hostname", SLICE_INIT("xn--9n2bp8q.com")},
    {"idn-hostname", SLICE_INIT("caf\xC3\xA9\xE3\x80\x82"
                                "com")},
    {"ipv4", SLICE_INIT("255.0.10.1")},
    {"ipv6", SLICE_INIT("::ffff:192.0.2.1")},
    {"ipv6", SLICE_INIT("1:2:3:4:5:6:7::")},
    {"uri", SLICE_INIT("https://u:p@[::1]:80/a%20b?c#d")},
    {"uri", SLICE_INIT("mailto:a@b.c")},
    {"uri-reference", SLICE_INIT("")},
    {"uri-reference", SLICE_INIT("//h:1/x")},
    {"iri", SLICE_INIT("http://\xC3\xA9/\xF0\x9F\x98\x80")},
    {"iri-reference", SLICE_INIT("/\xC3\xA9")},
    {"uri-template", SLICE_INIT("/a/{+b,c:3}{?d*}")},
    {"uuid", SLICE_INIT("00000000-0000-0000-0000-00000000000F")},
    {"json-pointer", SLICE_INIT("/a~1b/~0/0")},
    {"relative-json-pointer", SLICE_INIT("10#")},
    {"regex", SLICE_INIT("^(?<y>\\d{4})-\\k<y>$")},
    {"phone", SLICE_INIT("whatever: not known")},
};

static const struct sample bad[] = {
    {"date-time", SLICE_INIT("2026-01-31 00:00:00Z")},
    {"date-time", SLICE_INIT("2026-01-31T00:00:00")},
    {"date-time", SLICE_INIT("")},
    {"date", SLICE_INIT("2100-02-29")},
    {"date", SLICE_INIT("2026-00-10")},
    {"date", SLICE_INIT("2026-01-31\0")},
    {"time", SLICE_INIT("23:59:60+01:00")},
    {"time", SLICE_INIT("12:00:00.Z")},
    {"duration", SLICE_INIT("P")},
    {"duration", SLICE_INIT("PT1H2S")},
    {"duration", SLICE_INIT("P1\0")},
    {"email", SLICE_INIT("a@b@c")},
    {"email", SLICE_INIT("a..b@c.d")},
    {"email", SLICE_INIT("\xC3\xA9@c.d")},
    {"email", SLICE_INIT("\"a@c.d")},
    {"email", SLICE_INIT("a\0b@c.d")},
    {"hostname", SLICE_INIT("a..b")},
    {"hostname", SLICE_INIT("-a")},
    {"hostname", SLICE_INIT("ab--c")},
    {"hostname", SLICE_INIT("a\0")},
    {"idn-hostname", SLICE_INIT("\xC3\xA9-")},
    {"idn-hostname", SLICE_INIT("\xFF")},
    {"ipv4", SLICE_INIT("1.2.3")},
    {"ipv4", SLICE_INIT("1.2.3.04")},
    {"ipv4", SLICE_INIT("1.2.3.4.5")},
    {"ipv6", SLICE_INIT("1::2::3")},
    {"ipv6", SLICE_INIT("1:2:3:4:5:6:7:8::")},
    {"ipv6", SLICE_INIT(":::")},
    {"ipv6", SLICE_INIT("")},
    {"uri", SLICE_INIT("/relative")},
    {"uri", SLICE_INIT("http://a b")},
    {"uri", SLICE_INIT("http://[::1")},
    {"uri", SLICE_INIT("http://h:8x/")},
    {"uri", SLICE_INIT("http://h/%f")},
    {"uri", SLICE_INIT("http://h/\0")},
    {"uri", SLICE_INIT("http://\xC3\xA9/")},
    {"uri-reference", SLICE_INIT("a:b c")},
    {"iri", SLICE_INIT("http://\xFF/")},
    {"iri", SLICE_INIT("http://h/\xEF\xBF\xBF")},
    {"uri-template", SLICE_INIT("{")},
    {"uri-template", SLICE_INIT("{a")},
    {"uri-template", SLICE_INIT("}")},
    {"uri-template", SLICE_INIT("{a:0}")},
    {"uuid", SLICE_INIT("00000000-0000-0000-0000-0000000000000")},
    {"json-pointer", SLICE_INIT("a")},
    {"json-pointer", SLICE_INIT("/~")},
    {"relative-json-pointer", SLICE_INIT("01")},
    {"relative-json-pointer", SLICE_INIT("-1/a")},
    {"regex", SLICE_INIT("(")},
};

/* Checks a text as a schema does. */
static bool is_of(struct arena *arena, const char *format, slice text)
{
    struct json schema = json_object(), value = json_string(text);
    struct err err = {0};
    json_object_set(arena, &schema, SLICE("format"), json_string(slice_cstr(format)));
    const struct schema *compiled = schema_compile(arena, &schema, true, &err);
    if (!compiled)
        fail_msg("%s: %s", format, err.text);
    return schema_validate(compiled, &value, NULL);
}

static void check(struct arena *arena, const struct sample *samples, size_t count, bool is_valid)
{
    for (size_t i = 0; i < count; i++) {
        /* A copy without any bytes after it, so that ASan detects a read past the end. */
        char *copy = mem_alloc(samples[i].text.len + 1);
        assert_non_null(copy);
        char *text = copy + 1;
        memcpy(text, samples[i].text.ptr, samples[i].text.len);
        bool got = is_of(arena, samples[i].format, (slice){text, samples[i].text.len});
        mem_free(copy);
        if (got != is_valid)
            fail_msg("%s %zu: [%.*s]", samples[i].format, i, SLICE_ARG(samples[i].text));
    }
}

static void test_good(void **state)
{
    check(*state, good, ARRAY_LEN(good), true);
}

static void test_bad(void **state)
{
    check(*state, bad, ARRAY_LEN(bad), false);
}

/* Any prefix of a valid text is checked without a read past its end, and some prefix is invalid. */
static void test_prefixes(void **state)
{
    size_t refused = 0;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        for (size_t len = 0; len < good[i].text.len; len++) {
            char *copy = mem_alloc(len + 1);
            assert_non_null(copy);
            memcpy(copy + 1, good[i].text.ptr, len);
            refused += !is_of(*state, good[i].format, (slice){copy + 1, len});
            mem_free(copy);
        }
    }
    assert_true(refused > 250);
}

static void test_known(void **state)
{
    (void)state;
    for (size_t i = 0; i + 1 < ARRAY_LEN(good); i++)
        assert_non_null(schema_format_find(slice_cstr(good[i].format)));
    assert_null(schema_format_find(SLICE("phone")));
    assert_null(schema_format_find(SLICE("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(test_good),
        ARENA_TEST(test_bad),
        ARENA_TEST(test_prefixes),
        ARENA_TEST(test_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
