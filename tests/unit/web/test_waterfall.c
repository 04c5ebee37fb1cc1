/*
 * Bars of a waterfall: on one scale, with shortened pauses, always within the picture.
 */
#include "base/id.h"
#include "unit.h"
#include "web/waterfall.h"

#define SECOND INT64_C(1000000)
#define DAY    (24 * 3600 * SECOND)

static struct waterfall_bar bars[WATERFALL_SPANS_MAX];

static void check(size_t i, int64_t x, int64_t width)
{
    if (bars[i].x != x || bars[i].width != width)
        fail_msg("bar %zu is at %lld, %lld wide, not at %lld, %lld wide", i, (long long)bars[i].x,
                 (long long)bars[i].width, (long long)x, (long long)width);
}

static void test_work_has_its_length(void **state)
{
    const struct waterfall_span spans[] = {
        {10 * SECOND, 11 * SECOND, false, false},
        {11 * SECOND, 14 * SECOND, false, false},
        {14 * SECOND, 20 * SECOND, false, false},
    };
    (void)state;
    waterfall_fit(spans, 3, bars);
    check(0, 0, 100);
    check(1, 100, 300);
    check(2, 400, 600);
}

/* Eight seconds of work with a pause of two days in between, which takes a fifth of the width. */
static void test_a_pause_is_shortened_and_a_short_one_is_not(void **state)
{
    const struct waterfall_span spans[] = {
        {0, 4 * SECOND, false, false},
        {4 * SECOND, 2 * DAY, true, false},
        {2 * DAY, 2 * DAY + 4 * SECOND, false, false},
    };
    const struct waterfall_span brief[] = {
        {0, 4 * SECOND, false, false},
        {4 * SECOND, 5 * SECOND, true, false},
        {5 * SECOND, 10 * SECOND, false, false},
    };
    (void)state;
    waterfall_fit(spans, 3, bars);
    check(0, 0, 416);
    check(1, 416, 167);
    check(2, 583, 417);
    waterfall_fit(brief, 3, bars);
    check(1, 400, 100);
}

/* A gap is, for example, the time between two steps during which the flow had no owner. */
static void test_a_gap_is_a_pause(void **state)
{
    const struct waterfall_span spans[] = {
        {0, 5 * SECOND, false, false},
        {DAY, DAY + 5 * SECOND, false, false},
    };
    (void)state;
    waterfall_fit(spans, 2, bars);
    check(0, 0, 416);
    check(1, 583, 417);
}

static void test_what_waits_has_no_end(void **state)
{
    const struct waterfall_span spans[] = {
        {0, 5 * SECOND, false, false},
        {5 * SECOND, 0, true, true},
    };
    (void)state;
    waterfall_fit(spans, 2, bars);
    check(0, 0, 833);
    check(1, 833, 167);
}

/* Nothing took any time, or a clock went back: everything is still visible. */
static void test_empty_ones_are_seen(void **state)
{
    const struct waterfall_span spans[] = {
        {SECOND, SECOND, false, false},
        {SECOND, SECOND, true, false},
        {SECOND, 0, false, false},
    };
    const struct waterfall_span last[] = {
        {0, SECOND, false, false},
        {SECOND, SECOND, false, false},
    };
    (void)state;
    waterfall_fit(spans, 3, bars);
    for (size_t i = 0; i < 3; i++)
        check(i, 0, 6);
    waterfall_fit(last, 2, bars);
    check(1, 994, 6);
    waterfall_fit(NULL, 0, NULL);
}

static void test_any_spans_stay_inside_and_in_order(void **state)
{
    struct waterfall_span spans[WATERFALL_SPANS_MAX];
    (void)state;
    for (unsigned round = 0; round < 2000; round++) {
        size_t count = 1 + (size_t)random_below(WATERFALL_SPANS_MAX);
        int64_t at = (int64_t)random_below(1u << 20);
        for (size_t i = 0; i < count; i++) {
            int64_t length = (int64_t)random_below((uint64_t)1 << random_below(45));
            spans[i] = (struct waterfall_span){at, at + length, random_below(3) == 0, false};
            at += random_below(4) == 0 ? (int64_t)random_below(1u << 30) : length;
        }
        spans[count - 1].is_open = spans[count - 1].is_pause;
        waterfall_fit(spans, count, bars);
        for (size_t i = 0; i < count; i++) {
            assert_true(bars[i].x >= 0 && bars[i].width > 0);
            assert_true(bars[i].x + bars[i].width <= WATERFALL_WIDTH);
            assert_true(i == 0 || spans[i].begin < spans[i - 1].begin ||
                        bars[i].x + 6 >= bars[i - 1].x);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_work_has_its_length),
        cmocka_unit_test(test_a_pause_is_shortened_and_a_short_one_is_not),
        cmocka_unit_test(test_a_gap_is_a_pause),
        cmocka_unit_test(test_what_waits_has_no_end),
        cmocka_unit_test(test_empty_ones_are_seen),
        cmocka_unit_test(test_any_spans_stay_inside_and_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
