/*
 * Columns of a chart: the scale, values that are too small or too large to draw, and the drawn
 * shapes.
 */
#include "base/embed.h"
#include "unit.h"
#include "web/chart.h"
#include "web/markup.h"

#define HOUR_US ((int64_t)3600 * 1000000)

static struct arena arena;
static struct buf out;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 8 * 1024 * 1024);
    buf_init(&out, 1024 * 1024);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_deinit(&out);
    arena_deinit(&arena);
    return 0;
}

static const struct json *chart_of(const struct chart_column *columns, size_t count)
{
    struct json_writer w;
    buf_clear(&out);
    json_begin(&w, &out);
    json_open(&w, '{');
    chart_write(&w, "chart", columns, count, 3600);
    json_close(&w, '}');
    assert_true(buf_is_ok(&out));
    const struct json *whole = json_parse(&arena, buf_slice(&out), &json_limits_request, NULL);
    assert_non_null(whole);
    return json_get(whole, SLICE("chart"));
}

static void check_text(const struct json *object, const char *key, const char *want)
{
    slice text = json_get_str(object, slice_cstr(key));
    if (!slice_eq_cstr(text, want))
        fail_msg("%s is \"%.*s\", not \"%s\"", key, SLICE_ARG(text), want);
}

static void check_bar(const struct json *chart, size_t i, const char *kind, const char *path)
{
    const struct json *bar = json_at(json_get(chart, SLICE("bars")), i);
    check_text(bar, "kind", kind);
    check_text(bar, "path", path);
}

static void test_numbers_have_groups_of_three(void **state)
{
    static const struct {
        int64_t number;
        const char *want;
    } cases[] = {{0, "0"},
                 {999, "999"},
                 {1000, "1,000"},
                 {1234567, "1,234,567"},
                 {INT64_MAX, "9,223,372,036,854,775,807"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char room[CHART_NUMBER_MAX];
        assert_true(slice_eq_cstr(chart_number(cases[i].number, room), cases[i].want));
    }
}

/* The upper edge is the next of 2, 4, 6, 8 and 10 times a power of ten, and half of it is a whole
 * number. */
static void test_the_scale_is_round(void **state)
{
    static const struct {
        int64_t most;
        const char *edge, *half;
    } cases[] = {{1, "2", "1"},
                 {2, "2", "1"},
                 {3, "4", "2"},
                 {9, "10", "5"},
                 {10, "10", "5"},
                 {11, "20", "10"},
                 {41, "60", "30"},
                 {838, "1,000", "500"},
                 {1001, "2,000", "1,000"},
                 {INT64_MAX, "9,223,372,036,854,775,807", "5,000,000,000,000,000,000"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct chart_column one = {.at = HOUR_US, .ok = cases[i].most};
        const struct json *chart = chart_of(&one, 1);
        check_text(chart, "edge", cases[i].edge);
        check_text(chart, "half", cases[i].half);
    }
}

static void test_without_data_there_is_no_chart(void **state)
{
    const struct chart_column empty[24] = {{.at = HOUR_US}};
    (void)state;
    assert_int_equal(chart_of(empty, 24)->type, JSON_NULL);
    assert_int_equal(chart_of(empty, 0)->type, JSON_NULL);
}

static void test_one_column(void **state)
{
    const struct chart_column one = {.at = HOUR_US, .ok = 5, .bad = 3, .warn = 2};
    (void)state;
    const struct json *chart = chart_of(&one, 1);
    check_text(chart, "sum", "10");
    check_text(chart, "ok", "5");
    check_text(chart, "at", "1970-01-01T01:00:00.000Z");
    check_bar(chart, 0, "ok", "m2 500h16v500h-16z");
    check_bar(chart, 1, "bad", "m2 200h16v300h-16z");
    check_bar(chart, 2, "warn", "m2 0h16v200h-16z");
}

/* One failure of a million is visible. Huge sums neither wrap nor exceed the picture. */
static void test_small_and_huge_values_stay_in_the_picture(void **state)
{
    const struct chart_column columns[] = {
        {.at = HOUR_US, .ok = 1000000, .bad = 1},
        {.at = 2 * HOUR_US, .ok = INT64_MAX, .bad = INT64_MAX, .warn = INT64_MAX}};
    (void)state;
    const struct json *chart = chart_of(columns, 1);
    check_bar(chart, 0, "ok", "m2 500h16v500h-16z");
    check_bar(chart, 1, "bad", "m2 490h16v10h-16z");
    chart = chart_of(columns, 2);
    check_text(chart, "sum", "9,223,372,036,854,775,807");
    check_text(chart, "at", "1970-01-01T02:00:00.000Z");
    check_bar(chart, 0, "ok", "m2 990h16v10h-16zm20 -912h16v922h-16z");
    check_bar(chart, 1, "bad", "m2 980h16v10h-16zm20 -980h16v78h-16z");
    check_bar(chart, 2, "warn", "m22 0h16v0h-16z");
}

/* The data are those that chart.html declares: test_markup renders the page with hostile data. */
static void test_a_day_as_the_page_has_it(void **state)
{
    struct err err;
    struct chart_column columns[24];
    (void)state;
    for (size_t i = 0; i < 24; i++)
        columns[i] = (struct chart_column){.at = (int64_t)i * HOUR_US, .ok = (int64_t)i * 100};
    columns[7].bad = 3;
    const struct markup_set *set =
        markup_load(&arena, slice_of(embed_markup[0].data, embed_markup[0].len), &err);
    assert_non_null(set);
    const struct json *chart = chart_of(columns, 24);
    assert_int_equal(json_get(chart, SLICE("ticks"))->count, 6);
    assert_int_equal(markup_check(markup_find(set, SLICE("chart"))->data, chart, &err), OK);
}

static const struct json *lines_of(const struct chart_scale *scale, const struct chart_line *lines,
                                   size_t line_count, size_t count)
{
    struct json_writer w;
    buf_clear(&out);
    json_begin(&w, &out);
    json_open(&w, '{');
    chart_write_lines(&w, "lines", scale, lines, line_count, count);
    json_close(&w, '}');
    assert_true(buf_is_ok(&out));
    return json_get(json_parse(&arena, buf_slice(&out), &json_limits_request, NULL),
                    SLICE("lines"));
}

static void test_lines_have_gaps_and_one_scale(void **state)
{
    static const struct chart_scale tenths = {"%", 10}, ms = {"ms", 1};
    const struct chart_line share = {"bad", {0, 15, CHART_GAP, 20, CHART_GAP, 11}};
    const struct chart_line times[] = {{"ok", {500, CHART_GAP}}, {"", {1500, CHART_GAP}}};
    const struct chart_line none = {"ok", {CHART_GAP, CHART_GAP}}, zero = {"ok", {0}};
    const struct chart_line huge = {"ok", {INT64_MAX, 0}};
    struct err err;
    (void)state;
    const struct json *lines = lines_of(&tenths, &share, 1, 6);
    check_text(lines, "edge", "2 %");
    check_text(lines, "half", "1 %");
    const struct json *line = json_at(json_get(lines, SLICE("lines")), 0);
    check_text(line, "kind", "bad");
    check_text(line, "path", "M10 1000h0L30 250M70 0h0M110 450h0");
    const struct markup_set *set =
        markup_load(&arena, slice_of(embed_markup[0].data, embed_markup[0].len), &err);
    assert_non_null(set);
    assert_int_equal(markup_check(markup_find(set, SLICE("chart_lines"))->data, lines, &err), OK);
    lines = lines_of(&ms, times, 2, 2);
    check_text(lines, "edge", "2,000 ms");
    check_text(json_at(json_get(lines, SLICE("lines")), 0), "path", "M10 750h0");
    check_text(json_at(json_get(lines, SLICE("lines")), 1), "path", "M10 250h0");
    assert_int_equal(lines_of(&ms, &none, 1, 2)->type, JSON_NULL);
    check_text(lines_of(&ms, &zero, 1, 1), "edge", "2 ms");
    check_text(json_at(json_get(lines_of(&ms, &huge, 1, 2), SLICE("lines")), 0), "path",
               "M10 0h0L30 1000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_numbers_have_groups_of_three, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_scale_is_round, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_data_there_is_no_chart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_column, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_small_and_huge_values_stay_in_the_picture, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_lines_have_gaps_and_one_scale, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_day_as_the_page_has_it, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
