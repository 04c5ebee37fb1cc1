/* base/slice: compared with naive versions on random inputs, and UTF-8 with every code point and
 * the cases of Markus Kuhn's decoder stress test. */
#include "testing.h"

#include <stdio.h>

/* A random slice over a small alphabet, so that there are matches. */
static slice random_slice(struct chance *chance, char *room, size_t len_max)
{
    size_t len = chance_below(chance, len_max + 1);
    for (size_t i = 0; i < len; i++)
        room[i] = "aAbB\t ,\xC3"[chance_below(chance, 8)];
    return slice_of(len ? room : NULL, len);
}

static ptrdiff_t find_naive(slice s, slice needle)
{
    for (size_t i = 0; i + needle.len <= s.len; i++) {
        size_t same = 0;
        while (same < needle.len && s.ptr[i + same] == needle.ptr[same])
            same++;
        if (same == needle.len)
            return (ptrdiff_t)i;
    }
    return -1;
}

static void finds_as_the_naive_does(void **state)
{
    (void)state;
    struct chance chance = {1};
    char a_room[24], b_room[4];
    for (int i = 0; i < 50000; i++) {
        slice a = random_slice(&chance, a_room, sizeof(a_room));
        slice b = random_slice(&chance, b_room, sizeof(b_room));
        ptrdiff_t at = find_naive(a, b);
        assert_int_equal(slice_find(a, b), at);
        assert_int_equal(slice_starts_with(a, b), at == 0);
        bool is_end = b.len <= a.len && slice_eq(slice_from(a, a.len - b.len), b);
        assert_int_equal(slice_ends_with(a, b), is_end);
        if (b.len == 1)
            assert_int_equal(slice_find_char(a, b.ptr[0]), at);
        assert_int_equal(slice_eq_secret(a, b), slice_eq(a, b));
        assert_true(slice_eq_secret(a, a) && slice_eq(a, a) && slice_eq_nocase(a, a));
    }
    assert_int_equal(slice_find(SLICE_NONE, SLICE_NONE), 0);
    assert_int_equal(slice_find(SLICE_NONE, SLICE("a")), -1);
}

static void counts_what_is_printable(void **state)
{
    (void)state;
    char room[40];
    /* Each byte at each position among printable bytes, before and after eight-byte words. */
    for (size_t len = 0; len < sizeof(room); len++) {
        for (size_t i = 0; i < len * 256; i++) {
            unsigned char c = (unsigned char)(i % 256);
            memset(room, '~', sizeof(room));
            room[i / 256] = (char)c;
            size_t before = i / 256;
            assert_int_equal(slice_printable(slice_of(room, len), ' '),
                             c >= ' ' && c <= '~' ? len : before);
            assert_int_equal(slice_printable(slice_of(room, len), '!'),
                             c >= '!' && c <= '~' ? len : before);
        }
    }
    assert_int_equal(slice_printable(SLICE_NONE, ' '), 0);
}

static void orders(void **state)
{
    (void)state;
    const slice sorted[] = {SLICE_NONE,         SLICE_INIT("\0"),   SLICE_INIT("A"),
                            SLICE_INIT("AA"),   SLICE_INIT("B"),    SLICE_INIT("a"),
                            SLICE_INIT("\x7f"), SLICE_INIT("\x80"), SLICE_INIT("\xff")};
    for (size_t i = 0; i < ARRAY_LEN(sorted); i++) {
        for (size_t k = 0; k < ARRAY_LEN(sorted); k++) {
            int order = slice_cmp(sorted[i], sorted[k]);
            assert_int_equal((order > 0) - (order < 0), (i > k) - (i < k));
        }
    }
}

static void ignores_case_of_ascii_only(void **state)
{
    (void)state;
    for (int a = 0; a < 256; a++) {
        for (int b = 0; b < 256; b++) {
            char x = (char)a, y = (char)b;
            bool is_letter_pair = (a ^ b) == 0x20 && (a | 0x20) >= 'a' && (a | 0x20) <= 'z';
            bool is_same = slice_eq_nocase(slice_of(&x, 1), slice_of(&y, 1));
            assert_int_equal(is_same, a == b || is_letter_pair);
        }
    }
    assert_false(slice_eq_nocase(SLICE("Host"), SLICE("Hos")));
}

static void cuts(void **state)
{
    (void)state;
    slice s = SLICE("abc");
    assert_slice(slice_from(s, 1), SLICE("bc"));
    assert_slice(slice_from(s, 3), SLICE(""));
    assert_slice(slice_from(s, 99), SLICE(""));
    assert_slice(slice_from(SLICE_NONE, 0), SLICE(""));
    assert_null(slice_from(SLICE_NONE, 5).ptr);
    assert_slice(slice_first(s, 2), SLICE("ab"));
    assert_slice(slice_first(s, 9), s);
    assert_slice(slice_trim(SLICE(" \t a b\t ")), SLICE("a b"));
    assert_slice(slice_trim(SLICE(" \t ")), SLICE(""));
    assert_slice(slice_trim(SLICE("\na\r")), SLICE("\na\r"));
    assert_null(slice_cstr(NULL).ptr);
}

static void splits(void **state)
{
    (void)state;
    slice rest = SLICE("a,,b,");
    const slice parts[] = {SLICE_INIT("a"), SLICE_INIT(""), SLICE_INIT("b"), SLICE_INIT("")};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        assert_non_null(rest.ptr);
        assert_slice(slice_split(&rest, ','), parts[i]);
    }
    assert_null(rest.ptr);
    assert_slice(slice_split(&rest, ','), SLICE(""));
}

static void finds_words(void **state)
{
    (void)state;
    slice words = SLICE("id idea an_id a id2");
    static const char *const listed[] = {"id", "idea", "an_id", "a", "id2"};
    for (size_t i = 0; i < ARRAY_LEN(listed); i++)
        assert_true(slice_has_word(words, slice_cstr(listed[i])));
    static const char *const others[] = {"", " ", "i", "d", "ide", "_id", "an", "2", "a id2", "a "};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_false(slice_has_word(words, slice_cstr(others[i])));
    assert_false(slice_has_word(SLICE_NONE, SLICE("a")));
    assert_true(slice_has_word(SLICE("aa a"), SLICE("a")));
}

static void reads_unsigned(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "+1",
                                      "-1",
                                      " 1",
                                      "1 ",
                                      "0x1",
                                      "1.0",
                                      "18446744073709551616",
                                      "99999999999999999999",
                                      "1a",
                                      "\xEF\xBC\x91"};
    uint64_t value = 77;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(slice_to_u64(slice_cstr(bad[i]), UINT64_MAX, &value));
    assert_int_equal(value, 77);
    assert_true(slice_to_u64(SLICE("18446744073709551615"), UINT64_MAX, &value));
    assert_true(value == UINT64_MAX);
    assert_true(slice_to_u64(SLICE("007"), 7, &value) && value == 7);
    assert_false(slice_to_u64(SLICE("8"), 7, &value));
    assert_false(slice_to_u64(slice_of("1\0", 2), 99, &value));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        bool is_number = bad[i][0] && !bad[i][strspn(bad[i], "0123456789")];
        assert_int_equal(slice_to_u64_capped(slice_cstr(bad[i]), 7, &value), is_number);
        assert_true(!is_number || value == 7);
    }
    assert_true(slice_to_u64_capped(SLICE("007"), 7, &value) && value == 7);
    assert_true(slice_to_u64_capped(SLICE("8"), 7, &value) && value == 7);
    assert_true(slice_to_u64_capped(SLICE("0"), 7, &value) && value == 0);
    assert_true(slice_to_u64_capped(SLICE("99999999999999999999999"), UINT64_MAX, &value));
    assert_true(value == UINT64_MAX);
    assert_true(slice_to_u64_capped(SLICE("00000000000000000000000000006"), 7, &value));
    assert_int_equal(value, 6);
}

static void reads_signed(void **state)
{
    (void)state;
    struct chance chance = {2};
    int64_t value;
    assert_true(slice_to_i64(SLICE("-9223372036854775808"), &value) && value == INT64_MIN);
    assert_true(slice_to_i64(SLICE("9223372036854775807"), &value) && value == INT64_MAX);
    assert_true(slice_to_i64(SLICE("-0"), &value) && value == 0);
    assert_false(slice_to_i64(SLICE("-9223372036854775809"), &value));
    assert_false(slice_to_i64(SLICE("9223372036854775808"), &value));
    assert_false(slice_to_i64(SLICE("-"), &value));
    assert_false(slice_to_i64(SLICE("--1"), &value));
    assert_false(slice_to_i64(SLICE_NONE, &value));
    for (int i = 0; i < 10000; i++) {
        char text[32];
        int64_t want = (int64_t)(chance_u64(&chance) >> chance_below(&chance, 64));
        if (chance_below(&chance, 2) && want != INT64_MIN)
            want = -want;
        snprintf(text, sizeof(text), "%lld", (long long)want);
        assert_true(slice_to_i64(slice_cstr(text), &value));
        assert_true(value == want);
    }
}

static void reads_booleans(void **state)
{
    (void)state;
    bool value = false;
    static const char *const yes[] = {"true", "True", "TRUE", "1", "yes", "Yes"};
    static const char *const no[] = {"false", "False", "FALSE", "0", "no", "NO"};
    static const char *const bad[] = {"", "10", "on", "y", "true ", "truee", "2", "-1"};
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        assert_true(slice_to_bool(slice_cstr(yes[i]), &value) && value);
        assert_true(slice_to_bool(slice_cstr(no[i]), &value) && !value);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(slice_to_bool(slice_cstr(bad[i]), &value));
    assert_false(slice_to_bool(SLICE_NONE, &value));
}

/* One to four bytes as in RFC 3629 3, for any value. */
static size_t utf8_encode(uint32_t c, size_t len, char out[4])
{
    static const unsigned char lead[] = {0, 0x00, 0xC0, 0xE0, 0xF0};
    for (size_t i = len; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(lead[len] | c);
    return len;
}

static void knows_every_code_point(void **state)
{
    (void)state;
    static const uint32_t last[] = {0, 0x7F, 0x7FF, 0xFFFF, 0x1FFFFF};
    for (size_t len = 1; len <= 4; len++) {
        for (uint32_t c = 0; c <= last[len]; c += len == 4 ? 7 : 1) {
            char text[4];
            slice s = slice_of(text, utf8_encode(c, len, text));
            bool is_overlong = len > 1 && c <= last[len - 1];
            bool is_surrogate = c >= 0xD800 && c <= 0xDFFF;
            bool is_right = !is_overlong && !is_surrogate && c <= 0x10FFFF;
            assert_int_equal(slice_utf8_first(s), is_right ? len : 0);
            assert_int_equal(slice_is_utf8(s, NULL), is_right);
            for (size_t part = 1; part < len; part++)
                assert_int_equal(slice_utf8_first(slice_first(s, part)), 0);
        }
    }
}

struct utf8_case {
    slice text;
    ptrdiff_t bad_at; /* -1: well-formed */
};

/* https://www.cl.cam.ac.uk/~mgk25/ucs/examples/UTF-8-test.txt, by section */
static const struct utf8_case kuhn[] = {
    {SLICE_INIT("\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5"), -1}, /* 1 */
    {SLICE_INIT("\0"), -1},                                           /* 2.1 first of a length */
    {SLICE_INIT("\xc2\x80"), -1},
    {SLICE_INIT("\xe0\xa0\x80"), -1},
    {SLICE_INIT("\xf0\x90\x80\x80"), -1},
    {SLICE_INIT("\xf8\x88\x80\x80\x80"), 0},
    {SLICE_INIT("\xfc\x84\x80\x80\x80\x80"), 0},
    {SLICE_INIT("\x7f"), -1}, /* 2.2 last of a length */
    {SLICE_INIT("\xdf\xbf"), -1},
    {SLICE_INIT("\xef\xbf\xbf"), -1},
    {SLICE_INIT("\xf7\xbf\xbf\xbf"), 0},
    {SLICE_INIT("\xfb\xbf\xbf\xbf\xbf"), 0},
    {SLICE_INIT("\xfd\xbf\xbf\xbf\xbf\xbf"), 0},
    {SLICE_INIT("\xed\x9f\xbf"), -1}, /* 2.3 other boundaries */
    {SLICE_INIT("\xee\x80\x80"), -1},
    {SLICE_INIT("\xef\xbf\xbd"), -1},
    {SLICE_INIT("\xf4\x8f\xbf\xbf"), -1},
    {SLICE_INIT("\xf4\x90\x80\x80"), 0},
    {SLICE_INIT("a\x80"), 1}, /* 3.1 continuation bytes */
    {SLICE_INIT("ab\xbf"), 2},
    {SLICE_INIT("\x80\xbf\x80\xbf\x80\xbf\x80"), 0},
    {SLICE_INIT("\xc0 "), 0}, /* 3.2 lonely start */
    {SLICE_INIT("abcdefgh\xdf "), 8},
    {SLICE_INIT("\xe0 "), 0},
    {SLICE_INIT("\xf0 "), 0},
    {SLICE_INIT("\xfe"), 0},
    {SLICE_INIT("\xe2\x82"), 0}, /* 3.3 last byte missing */
    {SLICE_INIT("\xe0\x80"), 0},
    {SLICE_INIT("\xf0\x80\x80"), 0},
    {SLICE_INIT("x\xef\xbf"), 1},
    {SLICE_INIT("\xf4\x8f\xbf"), 0},
    {SLICE_INIT("\xfe\xfe\xff\xff"), 0}, /* 3.5 impossible */
    {SLICE_INIT("\xc0\xaf"), 0},         /* 4.1 overlong */
    {SLICE_INIT("\xe0\x80\xaf"), 0},
    {SLICE_INIT("\xf0\x80\x80\xaf"), 0},
    {SLICE_INIT("\xc1\xbf"), 0}, /* 4.2 highest overlong */
    {SLICE_INIT("\xe0\x9f\xbf"), 0},
    {SLICE_INIT("\xf0\x8f\xbf\xbf"), 0},
    {SLICE_INIT("\xc0\x80"), 0},     /* 4.3 overlong NUL */
    {SLICE_INIT("\xed\xa0\x80"), 0}, /* 5.1 surrogates */
    {SLICE_INIT("\xed\xad\xbf"), 0},
    {SLICE_INIT("\xed\xbf\xbf"), 0},
    {SLICE_INIT("\xed\xa0\x80\xed\xb0\x80"), 0},              /* 5.2 in pairs */
    {SLICE_INIT("\xef\xb7\x90\xef\xb7\xaf\xef\xbf\xbe"), -1}, /* 5.3 noncharacters */
};

static void judges_kuhns_cases(void **state)
{
    (void)state;
    char room[64];
    for (size_t i = 0; i < ARRAY_LEN(kuhn); i++) {
        /* after 0 to 16 plain bytes, so that the eight-byte path meets the sequence at every
         * position */
        for (size_t lead = 0; lead <= 16; lead++) {
            size_t bad_at = 999;
            memset(room, 'a', lead);
            memcpy(room + lead, kuhn[i].text.ptr, kuhn[i].text.len);
            bool is_right = slice_is_utf8(slice_of(room, lead + kuhn[i].text.len), &bad_at);
            assert_int_equal(is_right, kuhn[i].bad_at < 0);
            assert_int_equal(bad_at, is_right ? 999 : lead + (size_t)kuhn[i].bad_at);
        }
    }
}

static void cuts_between_characters(void **state)
{
    (void)state;
    slice text = SLICE("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z");
    static const unsigned char kept[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
    for (size_t len = 0; len < sizeof(kept); len++)
        assert_int_equal(slice_first_utf8(text, len).len, kept[len]);
    /* continuation bytes without a start */
    assert_int_equal(slice_first_utf8(SLICE("\x80\x80\x80\x80\x80\x80"), 5).len, 5);
}

static void names_are_of_one_line(void **state)
{
    static const slice good[] = {SLICE_INIT("a"), SLICE_INIT(" a b "), SLICE_INIT("a\xC3\xA9z"),
                                 SLICE_INIT("\xF0\x9F\x98\x80"), SLICE_INIT("a\xE2\x80\x8F")};
    static const slice bad[] = {SLICE_INIT(""),
                                SLICE_INIT(" \t "),
                                SLICE_INIT("a\nb"),
                                SLICE_INIT("a\tb"),
                                SLICE_INIT("a\x7F"),
                                SLICE_INIT("a\xC3"),
                                SLICE_INIT("abcdefg"),
                                SLICE_INIT("a\0b"),
                                {NULL, 0},
                                /* only blanks: U+00A0, U+3000, U+2800, U+200B; U+0085 */
                                SLICE_INIT("\xC2\xA0 "),
                                SLICE_INIT("\xE3\x80\x80"),
                                SLICE_INIT("\xE2\xA0\x80"),
                                SLICE_INIT("\xE2\x80\x8B"),
                                SLICE_INIT("a\xC2\x85")};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(slice_is_name(good[i], 5));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(slice_is_name(bad[i], 6));
    assert_true(slice_is_name(SLICE("a\xC3\xA9z"), 3)); /* characters, not bytes */
    assert_false(slice_is_name(SLICE("a\xC3\xA9z"), 2));
}

static void joins(void **state)
{
    (void)state;
    char room[8];
    assert_slice(SLICE_JOIN(room, SLICE("ab"), SLICE_NONE, SLICE("c")), SLICE("abc"));
    assert_slice(SLICE_JOIN(room, SLICE("abcd"), SLICE("efgh")), SLICE("abcdefgh"));
    assert_slice(SLICE_JOIN(room, SLICE("abcd"), SLICE("efghi"), SLICE("j")), SLICE("abcdefgh"));
    assert_int_equal(SLICE_JOIN(room, SLICE_NONE).len, 0);
}

static void writes_unsigned(void **state)
{
    (void)state;
    static const uint64_t values[] = {0, 7, 10, 99, 100, 65535, UINT64_C(999999999999), UINT64_MAX};
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        char room[SLICE_U64_MAX], want[32];
        (void)snprintf(want, sizeof(want), "%llu", (unsigned long long)values[i]);
        assert_slice(slice_of_u64(values[i], room), slice_cstr(want));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(finds_as_the_naive_does),
        UNIT_TEST(counts_what_is_printable),
        UNIT_TEST(orders),
        UNIT_TEST(ignores_case_of_ascii_only),
        UNIT_TEST(cuts),
        UNIT_TEST(splits),
        UNIT_TEST(finds_words),
        UNIT_TEST(reads_unsigned),
        UNIT_TEST(reads_signed),
        UNIT_TEST(reads_booleans),
        UNIT_TEST(knows_every_code_point),
        UNIT_TEST(judges_kuhns_cases),
        UNIT_TEST(cuts_between_characters),
        UNIT_TEST(names_are_of_one_line),
        UNIT_TEST(joins),
        UNIT_TEST(writes_unsigned),
    };
    return cmocka_run_group_tests_name("base/slice", tests, NULL, NULL);
}
