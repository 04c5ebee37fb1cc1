/*
 * Writers: compact, pretty, canonical, strings, doubles, the streaming writer, and building.
 */
#include "support/json_test.h"

#include <math.h>
#include <stdlib.h>

typedef void write_fn(struct buf *, const struct json *);

static void assert_written(write_fn *write, const struct json *value, const char *want)
{
    struct buf out;
    buf_init(&out, 4096);
    write(&out, value);
    assert_true(buf_is_ok(&out));
    assert_text(buf_slice(&out), want);
    buf_deinit(&out);
}

static void test_compact(void **state)
{
    static const char *const same[] = {
        "null",
        "true",
        "-12",
        "18446744073709551615",
        "1.5",
        "1e400",
        "\"\\u0000\\b\\t\\n\\f\\r\\u001f\"",
        "\"\\\"\\\\/\"",
        "\"\xC3\xA9\xF0\x9F\x98\x80\"",
        "[]",
        "{}",
        "[1,[2,{\"a\":[]}]]",
        "{\"b\":1,\"a\":{\"\":null}}",
        "123456789012345678901234567890",
        "1.000000000000000005",
    };
    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        assert_written(json_write, parse(*state, same[i]), same[i]);
    assert_written(json_write, parse(*state, " [ 1 , \"\\u00e9\\/\" ] "), "[1,\"\xC3\xA9/\"]");
}

static void test_pretty(void **state)
{
    assert_written(
        json_write_pretty, parse(*state, "{\"a\":[1,{}],\"b\":[],\"c\":{\"d\":\"\"}}"),
        "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": [],\n  \"c\": {\n    \"d\": \"\"\n"
        "  }\n}");
}

static void test_shown(void **state)
{
    struct arena arena;
    char wide[JSON_EXCERPT_BYTES_MAX + 2];
    (void)state;
    arena_init(&arena, 64 * 1024);
    assert_text(json_excerpt(SLICE("plain"), &arena), "plain");
    assert_text(json_excerpt(SLICE(""), &arena), "");
    assert_text(json_excerpt(slice_of("a\0b\033[2J\"", 8), &arena), "a\\u0000b\\u001b[2J\\\"");
    memset(wide, 0xC3, sizeof(wide));
    for (size_t i = 2; i < sizeof(wide); i += 2) /* the limit would split an e with an accent */
        wide[i] = (char)0xA9;
    wide[0] = 0x61;
    slice cut = json_excerpt(slice_of(wide, sizeof(wide)), &arena);
    assert_int_equal(cut.len, JSON_EXCERPT_BYTES_MAX - 1 + 3);
    assert_true(slice_is_utf8(cut, NULL) && slice_ends_with(cut, SLICE("...")));
    arena_deinit(&arena);
}

static void test_sorted(void **state)
{
    static const char *const cases[][2] = {
        {"{\"b\":1.0,\"a\":{\"z\":1,\"y\":[3,2]},\"\":0}",
         "{\"\":0,\"a\":{\"y\":[3,2],\"z\":1},\"b\":1}"},
        {"{\"ab\":1,\"a\":2,\"B\":3}", "{\"B\":3,\"a\":2,\"ab\":1}"},
        {"1e3", "1000"},
        {"-0.0", "0"},
        {"0.1", "1e-1"},
        {"-12.50", "-1.25e1"},
        {"100000000000000000000", "1e20"},
        {"1e20", "1e20"},
        {"10000000000000000000", "10000000000000000000"},
        {"1e400", "1e400"},
        {"12.5e399", "1.25e400"},
        {"18446744073709551615.0", "18446744073709551615"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_written(json_write_sorted, parse(*state, cases[i][0]), cases[i][1]);
    struct json wide = json_object();
    for (int i = 99; i >= 10; i--)
        json_object_set(*state, &wide, arena_printf(*state, "%d", i), json_i64(i));
    struct buf out;
    buf_init(&out, 4096);
    json_write_sorted(&out, &wide);
    assert_true(slice_starts_with(buf_slice(&out), SLICE("{\"10\":10,\"11\":11,")));
    assert_true(slice_ends_with(buf_slice(&out), SLICE(",\"98\":98,\"99\":99}")));
    buf_deinit(&out);
}

static void test_invalid_utf8(void **state)
{
    (void)state;
    static const struct {
        slice bytes;
        const char *want;
    } cases[] = {
        {SLICE_INIT("a\xFFz"), "\"a\xEF\xBF\xBDz\""},
        {SLICE_INIT("\xC3"), "\"\xEF\xBF\xBD\""},
        {SLICE_INIT("\xC0\xAF"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {SLICE_INIT("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {SLICE_INIT("\xF4\x8F\xBF\xBF"), "\"\xF4\x8F\xBF\xBF\""},
        {SLICE_INIT("\xE2\x82"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
    };
    struct buf out;
    buf_init(&out, 100);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        buf_clear(&out);
        json_write_str(&out, cases[i].bytes);
        assert_text(buf_slice(&out), cases[i].want);
    }
    buf_deinit(&out);
}

/* Writes as in RFC 8259 7, byte by byte, texts with at most one character outside of ASCII. */
static void write_naive(struct buf *out, slice text)
{
    buf_append_char(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c >= 0x80)
            buf_append(out, SLICE("\xEF\xBF\xBD"));
        else if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c < 0x20)
            buf_printf(out, "\\u%04x", c);
        else
            buf_append_char(out, (char)c);
    }
    buf_append_char(out, '"');
}

/* Every length around the size of the words that are copied, with every kind of byte at every
 * position, in a block of exactly that size, so that ASan detects a byte too many. */
static void test_every_length(void **state)
{
    (void)state;
    static const char odd[] = {'a', ' ', '!', '"', '\\', '\x01', '\x1f', '\x7f', '\x80', '\xff'};
    struct buf out, want;
    buf_init(&out, 1024);
    buf_init(&want, 1024);
    for (size_t len = 0; len <= 26; len++) {
        char *text = malloc(len ? len : 1);
        assert_non_null(text);
        for (size_t at = 0; at < (len ? len : 1); at++) {
            for (size_t k = 0; k < sizeof(odd); k++) {
                memset(text, 'x', len);
                if (len > 0)
                    text[at] = odd[k];
                buf_clear(&out);
                buf_clear(&want);
                json_write_str(&out, slice_of(text, len));
                write_naive(&want, slice_of(text, len));
                assert_true(slice_eq(buf_slice(&out), buf_slice(&want)));
            }
        }
        free(text);
    }
    buf_deinit(&out);
    buf_deinit(&want);
}

static void test_doubles(void **state)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.1, "0.1"},
        {1.0, "1.0"},
        {1.0 / 3, "0.3333333333333333"},
        {5e-324, "5e-324"},
        {1e22, "1e22"},
        {-2.5, "-2.5"},
        {1.7976931348623157e308, "1.7976931348623157e308"},
        {123456.0, "123456.0"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct json value = json_real(cases[i].value);
        assert_written(json_write, &value, cases[i].text);
        assert_true(parse(*state, cases[i].text)->as.real == cases[i].value);
    }
    assert_int_equal(json_real(NAN).type, JSON_NULL);
    assert_int_equal(json_real(-INFINITY).type, JSON_NULL);
}

static void test_stream(void **state)
{
    struct buf out;
    buf_init(&out, 4096);
    struct json_writer w;
    json_begin(&w, &out);
    json_open(&w, '{');
    json_key(&w, "a\"");
    json_open(&w, '[');
    json_put_i64(&w, -1);
    json_put_bool(&w, true);
    json_put_null(&w);
    json_open(&w, '[');
    json_close(&w, ']');
    json_put_str(&w, SLICE_NONE);
    json_put_str(&w, SLICE("x"));
    json_close(&w, ']');
    json_key_slice(&w, SLICE("b"));
    json_put(&w, parse(*state, "{\"c\":1}"));
    json_key(&w, "d");
    json_put(&w, NULL);
    json_key(&w, "e");
    json_put_raw(&w, SLICE("[1]"));
    json_key(&w, "f");
    json_put_raw(&w, SLICE_NONE);
    json_close(&w, '}');
    assert_text(buf_slice(&out), "{\"a\\\"\":[-1,true,null,[],null,\"x\"],\"b\":{\"c\":1},"
                                 "\"d\":null,\"e\":[1],\"f\":null}");
    buf_deinit(&out);
}

static void test_words(void **state)
{
    struct buf out;
    struct json_writer w;
    (void)state;
    buf_init(&out, 4096);
    json_begin(&w, &out);
    json_open(&w, '{');
    json_member_words(&w, "a", SLICE("one two"));
    json_member_words(&w, "b", SLICE(""));
    json_member_words(&w, "c", SLICE_NONE);
    json_close(&w, '}');
    assert_text(buf_slice(&out), "{\"a\":[\"one\",\"two\"],\"b\":[],\"c\":null}");
    buf_deinit(&out);
}

static void test_full_buffer(void **state)
{
    const struct json *value = parse(*state, "{\"a\":[1,2,3,\"some text\",{\"b\":null}],\"z\":1}");
    write_fn *const writers[] = {json_write, json_write_pretty, json_write_sorted};
    for (size_t max = 0; max < 40; max++) {
        struct buf out;
        buf_init(&out, max);
        writers[max % 3](&out, value);
        assert_false(buf_is_ok(&out));
        buf_deinit(&out);
    }
}

static void test_build(void **state)
{
    struct json object = json_object();
    for (int i = 0; i < 9; i++) {
        struct json array = json_array();
        for (int k = 0; k < i; k++)
            json_array_push(*state, &array, json_i64(k));
        json_object_put(*state, &object, arena_printf(*state, "%d", i % 5), array);
    }
    json_object_put(*state, &object, SLICE("str"), json_string_dup(*state, SLICE("s")));
    json_object_put(*state, &object, SLICE("u"), json_u64(UINT64_MAX));
    json_object_put(*state, &object, SLICE("0"), json_bool(false));
    assert_written(json_write, &object,
                   "{\"0\":false,\"1\":[0,1,2,3,4,5],\"2\":[0,1,2,3,4,5,6],\"3\":[0,1,2,3,4,5,6,7],"
                   "\"4\":[0,1,2,3],\"str\":\"s\",\"u\":18446744073709551615}");
}

/* A parsed container has no spare capacity: growing it must not write past it. */
static void test_grow_parsed(void **state)
{
    struct json *root = parse(*state, "{\"a\":[1,2,3,4],\"b\":5}");
    struct json *a = &root->as.members[0].value;
    json_array_push(*state, a, json_i64(9));
    json_object_put(*state, root, SLICE("c"), json_null);
    assert_written(json_write, root, "{\"a\":[1,2,3,4,9],\"b\":5,\"c\":null}");
    struct json *copy = json_dup(*state, root);
    json_array_push(*state, &copy->as.members[0].value, json_i64(10));
    assert_written(json_write, copy, "{\"a\":[1,2,3,4,9,10],\"b\":5,\"c\":null}");
    assert_written(json_write, root, "{\"a\":[1,2,3,4,9],\"b\":5,\"c\":null}");
}

static void test_exhausted_arena(void **state)
{
    const struct json *value = parse(*state, "{\"a\":[1,\"text\",[[]]],\"b\":{\"c\":1e400}}");
    struct arena small;
    bool has_copied = false;
    for (size_t max = 0; max < 4096 && !has_copied; max += 16) {
        arena_init(&small, max);
        const struct json *copy = json_dup(&small, value);
        assert_int_equal(copy == NULL, small.is_exhausted);
        has_copied = copy && json_equal(copy, value);
        arena_deinit(&small);
    }
    assert_true(has_copied);
    arena_init(&small, 256);
    struct json array = json_array();
    for (int i = 0; i < 100; i++)
        json_array_push(&small, &array, json_i64(i));
    assert_true(small.is_exhausted && array.count < 20);
    arena_deinit(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(test_compact),         ARENA_TEST(test_pretty),
        ARENA_TEST(test_shown),           ARENA_TEST(test_sorted),
        ARENA_TEST(test_invalid_utf8),    ARENA_TEST(test_doubles),
        ARENA_TEST(test_stream),          ARENA_TEST(test_full_buffer),
        ARENA_TEST(test_build),           ARENA_TEST(test_grow_parsed),
        ARENA_TEST(test_exhausted_arena), ARENA_TEST(test_every_length),
        ARENA_TEST(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
