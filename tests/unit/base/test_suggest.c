/*
 * Mistyped names: distances, which names are similar enough, and that no name makes the search
 * expensive.
 */
#include "base/suggest.h"
#include "base/testing.h"
#include "unit.h"

enum { LIMIT = SUGGEST_DISTANCE_MAX + 1 };

static void distances_count_edits(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        unsigned distance;
    } cases[] = {
        {"", "", 0},
        {"abc", "abc", 0},
        {"abc", "ABC", 0},
        {"", "abc", 3},
        {"abc", "", 3},
        {"abc", "abd", 1},
        {"abc", "ab", 1},
        {"abc", "abcd", 1},
        {"prot", "port", 1},
        {"kitten", "sitting", 3},
        {"serve", "srevee", 2},
        {"ab", "ba", 1},
        {"a_b-c", "A.BC", 0},
        {"abcd", "wxyz", 4},
        {"abcdef", "uvwxyz", LIMIT},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        slice a = slice_cstr(cases[i].a), b = slice_cstr(cases[i].b);
        assert_int_equal(suggest_distance(a, b, LIMIT), cases[i].distance);
        assert_int_equal(suggest_distance(b, a, LIMIT), cases[i].distance);
        assert_int_equal(suggest_distance(a, b, 1), cases[i].distance ? 1 : 0);
    }
    char longer[SUGGEST_NAME_MAX + 1];
    memset(longer, 'x', sizeof(longer));
    slice all = slice_of(longer, sizeof(longer));
    assert_int_equal(suggest_distance(all, all, LIMIT), LIMIT);
    all.len--;
    assert_int_equal(suggest_distance(all, all, LIMIT), 0);
}

/* Computes the whole table, as in a textbook. */
static unsigned slow_distance(const char *a, size_t n, const char *b, size_t m)
{
    unsigned d[SUGGEST_NAME_MAX + 1][SUGGEST_NAME_MAX + 1];
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            unsigned best = i == 0 ? (unsigned)j : d[i - 1][j] + 1;
            if (i > 0 && j == 0)
                best = (unsigned)i;
            if (i > 0 && j > 0) {
                unsigned change = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
                best = best < d[i][j - 1] + 1 ? best : d[i][j - 1] + 1;
                best = best < change ? best : change;
                if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                    d[i - 2][j - 2] + 1 < best)
                    best = d[i - 2][j - 2] + 1;
            }
            d[i][j] = best;
        }
    return d[n][m];
}

static void the_band_is_as_good_as_the_table(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (int round = 0; round < 20000; round++) {
        char a[12], b[12];
        size_t lens[2];
        for (size_t side = 0; side < 2; side++) {
            seed = seed * 1664525 + 1013904223;
            lens[side] = (seed >> 16) % 12;
            for (size_t i = 0; i < lens[side]; i++) {
                seed = seed * 1664525 + 1013904223;
                (side ? b : a)[i] = (char)('a' + (seed >> 16) % 3);
            }
        }
        unsigned want = slow_distance(a, lens[0], b, lens[1]);
        for (unsigned limit = 1; limit <= LIMIT; limit++)
            assert_int_equal(suggest_distance(slice_of(a, lens[0]), slice_of(b, lens[1]), limit),
                             want < limit ? want : limit);
    }
}

static slice nearest(const char *typed, const char *const *names, size_t count)
{
    struct suggest suggest;
    suggest_begin(&suggest, slice_cstr(typed));
    for (size_t i = 0; i < count; i++)
        suggest_offer(&suggest, slice_cstr(names[i]));
    return suggest.best;
}

static void the_nearest_wins_and_far_ones_do_not_count(void **state)
{
    static const char *const names[] = {"connections", "accounts", "counts",    "catalog",
                                        "dev",         "gmail",    "google_ads"};
    static const char *const cases[][2] = {
        {"acounts", "accounts"}, {"con", "connections"},       {"GMAIL", "gmail"},
        {"gmial", "gmail"},      {"Google-Ads", "google_ads"}, {"googelads", "google_ads"},
        {"gmale", "gmail"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        slice best = nearest(cases[i][0], names, ARRAY_LEN(names));
        assert_true(slice_eq_cstr(best, cases[i][1]));
    }
    static const char *const none[] = {"zzz", "", "_", "salesforce", "x"};
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        assert_null(nearest(none[i], names, ARRAY_LEN(names)).ptr);
}

/* The client chooses only the typed name: as long as possible, and similar to every name.
 */
static void many_names_cost_no_more_than_the_limit(void **state)
{
    enum { NAMES = 10000 };
    static char names[NAMES][SUGGEST_NAME_MAX + 1];
    char typed[SUGGEST_NAME_MAX + 1];
    struct suggest suggest;
    (void)state;
    for (int i = 0; i < SUGGEST_NAME_MAX; i++)
        typed[i] = (char)('a' + i % 26);
    typed[SUGGEST_NAME_MAX] = '\0';
    for (size_t i = 0; i < NAMES; i++) { /* the names differ only at their ends, but too much */
        memcpy(names[i], typed, sizeof(typed));
        memcpy(names[i] + SUGGEST_NAME_MAX - 10, "zyxwvutsrq", 10);
    }
    suggest_begin(&suggest, slice_cstr(typed));
    for (size_t i = 0; i < NAMES; i++)
        suggest_offer(&suggest, slice_cstr(names[i]));
    assert_null(suggest.best.ptr);
    assert_int_equal(suggest.cells_left, 0);
    /* a name that differs only in case is still found */
    typed[0] = 'A';
    suggest_offer(&suggest, slice_cstr(typed));
    assert_true(slice_eq_cstr(suggest.best, typed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances_count_edits),
        cmocka_unit_test(the_band_is_as_good_as_the_table),
        cmocka_unit_test(the_nearest_wins_and_far_ones_do_not_count),
        cmocka_unit_test(many_names_cost_no_more_than_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
