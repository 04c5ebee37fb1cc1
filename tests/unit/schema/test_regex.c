/*
 * Patterns: what ECMA-262 allows, its meaning, and refused patterns, with the position.
 */
#include "support/json_test.h"

#include "schema/pattern.h"
#include "schema/regex.h"

static enum schema_match match(struct arena *arena, const char *source, slice text)
{
    struct err err = {0};
    const struct schema_pattern *pattern = schema_pattern_compile(arena, slice_cstr(source), &err);
    if (!pattern)
        fail_msg("%s: %s", source, err.text);
    uint64_t fuel = 1000 * 1000;
    return schema_pattern_match(pattern, text, &fuel);
}

static void test_meaning(void **state)
{
    static const struct {
        const char *pattern;
        slice text;
        bool matches;
    } cases[] = {
        {"", SLICE_INIT("x"), true},
        {"b", SLICE_INIT("abc"), true},
        {"^b", SLICE_INIT("abc"), false},
        {"^abc$", SLICE_INIT("abc\n"), false},
        {"^a.c$", SLICE_INIT("a\rc"), false},
        {"^a.c$",
         SLICE_INIT("a\xE2\x80\xA8"
                    "c"),
         false},
        {"^a.c$",
         SLICE_INIT("a\xF0\x9F\x98\x80"
                    "c"),
         true},
        {"^\\s$", SLICE_INIT("\xEF\xBB\xBF"), true},
        {"^\\S$", SLICE_INIT("\xC2\xA0"), false},
        {"^[\\s]$", SLICE_INIT("\xC2\xA0"), true},
        {"^[^\\s]$", SLICE_INIT("\xC2\xA0"), false},
        {"^[\\S]$", SLICE_INIT("x"), true},
        {"^[^\\S]$", SLICE_INIT("\t"), true},
        {"^\\d$", SLICE_INIT("\xD9\xA1"), false},
        {"^\\w$", SLICE_INIT("\xC3\xA9"), false},
        {"^\\p{L}$", SLICE_INIT("\xC3\xA9"), true},
        {"^\\p{Lowercase_Letter}$", SLICE_INIT("\xC3\xA9"), true},
        {"^\\P{Letter}$", SLICE_INIT("1"), true},
        {"^\\p{gc=Nd}$", SLICE_INIT("\xD9\xA1"), true},
        {"^\\p{Script=Greek}$", SLICE_INIT("\xCE\xB1"), true},
        {"^[\\p{Lu}-]$", SLICE_INIT("-"), true},
        {"^\\u00e9$", SLICE_INIT("\xC3\xA9"), true},
        {"^\\u{1F600}$", SLICE_INIT("\xF0\x9F\x98\x80"), true},
        {"^\\ud83d\\ude00$", SLICE_INIT("\xF0\x9F\x98\x80"), true},
        {"\\ud83d", SLICE_INIT("\xF0\x9F\x98\x80"), false},
        {"^[\\u0000-\\uffff]$", SLICE_INIT("\xC3\xA9"), true},
        {"^[\\ud800-\\udfff]$", SLICE_INIT("a"), false},
        {"^\\x41\\cA\\0\\t$", SLICE_INIT("A\x01\0\t"), true},
        {"^[\\b]$", SLICE_INIT("\b"), true},
        {"\\bab\\b", SLICE_INIT("x ab y"), true},
        {"\\Bb", SLICE_INIT("ab"), true},
        {"[]", SLICE_INIT("a"), false},
        {"^[^]$", SLICE_INIT("\n"), true},
        {"^[[:alpha:]]$", SLICE_INIT("a]"), true},
        {"^[a-c-e]$", SLICE_INIT("-"), true},
        {"^[\\w-.]+$", SLICE_INIT("a-b.c"), true},
        {"^(a)|b\\1$", SLICE_INIT("b"), true},
        {"^\\1(a)$", SLICE_INIT("a"), true},
        {"^(?<y>a)\\k<y>$", SLICE_INIT("aa"), true},
        {"^(?:ab){2,3}?$", SLICE_INIT("abab"), true},
        {"^a{2}$", SLICE_INIT("aa"), true},
        {"^a{,2}$", SLICE_INIT("a{,2}"), true},
        {"^{x}]$", SLICE_INIT("{x}]"), true},
        {"^\\-\\/\\@\\\"$", SLICE_INIT("-/@\""), true},
        {"^#a b$", SLICE_INIT("#a b"), true},
        {"a(?=b)(?!c)", SLICE_INIT("ab"), true},
        {"(?<=a)b", SLICE_INIT("ab"), true},
        {"(?<!a)b", SLICE_INIT("ab"), false},
        {"^a", SLICE_INIT("\xFF"), false}, /* not UTF-8: no match and no error */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        enum schema_match got = match(*state, cases[i].pattern, cases[i].text);
        if (got != (cases[i].matches ? SCHEMA_MATCH_YES : SCHEMA_MATCH_NO))
            fail_msg("%s on case %zu: %d", cases[i].pattern, i, got);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
    } cases[] = {
        {"a)", "at byte 1: a ) without its ("},
        {"(a", "at byte 2: a ( without its )"},
        {"a[b", "at byte 1: a [ without its ]"},
        {"[b-a]", "at byte 1: this range is out of order"},
        {"*a", "at byte 0: nothing to repeat"},
        {"a**", "at byte 2: nothing to repeat"},
        {"a++", "at byte 2: nothing to repeat"},
        {"a{2}{3}", "at byte 4: nothing to repeat"},
        {"^*", "at byte 1: nothing to repeat"},
        {"(?=a)*", "at byte 5: nothing to repeat"},
        {"a|*", "at byte 2: nothing to repeat"},
        {"a\\", "at byte 1: a \\ at the end"},
        {"\\a", "at byte 0: this escape is not ECMA-262"},
        {"x\\Z", "at byte 1: this escape is not ECMA-262"},
        {"\\A", "not ECMA-262"},
        {"\\Qa\\E", "not ECMA-262"},
        {"\\R", "not ECMA-262"},
        {"\\00", "not ECMA-262"},
        {"\\1", "at byte 0: there is no group with that number"},
        {"(a)\\2", "at byte 3: there is no group with that number"},
        {"\\k<x>", "at byte 0: there is no group with that name"},
        {"\\kx", "\\k needs the <name> of a group"},
        {"(?<a>x)(?<a>y)", "at byte 7: this group's name is already used"},
        {"(?<1>x)", "a group's name is"},
        {"(?P<a>x)", "at byte 0: this kind of group is not ECMA-262"},
        {"(?>a)", "not ECMA-262"},
        {"(?R)", "not ECMA-262"},
        {"(?i)a", "not ECMA-262"},
        {"(*LIMIT_MATCH=1)a", "not ECMA-262"},
        {"(?C1)a", "not ECMA-262"},
        {"(?#a)", "not ECMA-262"},
        {"\\u12", "\\u needs four hex digits"},
        {"\\u{110000}", "\\u needs four hex digits"},
        {"\\xg0", "\\x needs two hex digits"},
        {"\\c1", "\\c needs a letter"},
        {"\\p", "\\p needs a {Property}"},
        {"\\p{}", "\\p needs a {Property}"},
        {"\\pL", "\\p needs a {Property}"},
        {"a{70000}", "repeats over 65535"},
        {"\xFF", "at byte 0: not UTF-8"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct schema_regex_info info;
        struct err err = {0};
        if (schema_regex_translate(slice_cstr(cases[i].pattern), NULL, &info, &err) == OK)
            fail_msg("%s must be refused", cases[i].pattern);
        if (!strstr(err.text, cases[i].text))
            fail_msg("%s: [%s]", cases[i].pattern, err.text);
    }
}

static void test_limits(void **state)
{
    struct schema_regex_info info;
    struct err err = {0};
    char deep[400];
    memset(deep, '(', 200);
    memset(deep + 200, ')', 200);
    assert_int_equal(schema_regex_translate((slice){deep, 400}, NULL, &info, &err), ERR_LIMIT);
    slice names = SLICE("");
    for (int i = 0; i < 40; i++)
        names = arena_printf(*state, "%.*s(?<n%d>)", SLICE_ARG(names), i);
    assert_int_equal(schema_regex_translate(names, NULL, &info, &err), ERR_LIMIT);
    slice huge = arena_printf(*state, "%*d", 9000, 1);
    assert_null(schema_pattern_compile(*state, huge, &err));
    assert_int_equal(err.code, ERR_LIMIT);
    assert_null(schema_pattern_compile(*state, SLICE("(?<=a+)b"), &err)); /* beyond PCRE2 */
    assert_int_equal(err.code, ERR_SYNTAX);
    assert_null(schema_pattern_compile(*state, SLICE("\\p{Nonsense}"), &err));
    assert_int_equal(err.code, ERR_SYNTAX);
}

/* The fuel that a match takes grows with the work, whatever the kind of work. */
static void test_fuel(void **state)
{
    static const char *const patterns[] = {"^(a+)+$.", "^(a*)\\1[^a]", "(?:a{500}|b)c?[^a]",
                                           "a*a*a*[^a]", "(?=(a+))a[^a]"};
    char text[4000];
    memset(text, 'a', sizeof(text));
    struct err err;
    for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
        const struct schema_pattern *pattern =
            schema_pattern_compile(*state, slice_cstr(patterns[i]), &err);
        assert_non_null(pattern);
        uint64_t fuel = 100 * 1000;
        enum schema_match got = schema_pattern_match(pattern, (slice){text, sizeof(text)}, &fuel);
        if (got != SCHEMA_MATCH_FUEL || fuel > 10 * 1000)
            fail_msg("%s: %d, %llu left", patterns[i], got, (unsigned long long)fuel);
        fuel = 10;
        assert_int_equal(schema_pattern_match(pattern, (slice){text, 2}, &fuel), SCHEMA_MATCH_FUEL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(test_meaning),
        ARENA_TEST(test_refused),
        ARENA_TEST(test_limits),
        ARENA_TEST(test_fuel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
