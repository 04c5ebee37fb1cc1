/* The load generator's histogram: three digits from a microsecond to a minute. The test is here
 * since the histogram needs only libc. */
#include "../../../bench/load/histogram.c"
#include "unit.h"

static struct histogram histogram, other;

static void check_within_a_thousandth(uint64_t got, uint64_t want)
{
    if (got < want || (double)got > (double)want * 1.001)
        fail_msg("%llu is not %llu to three digits", (unsigned long long)got,
                 (unsigned long long)want);
}

static void each_value_has_three_digits(void **state)
{
    (void)state;
    for (uint64_t us = 1; us < HISTOGRAM_US_MAX; us += us / 999 + 1) {
        histogram_clear(&histogram);
        histogram_record(&histogram, us);
        histogram_record(&histogram, HISTOGRAM_US_MAX); /* otherwise the greatest value is
                                                         * reported exactly */
        check_within_a_thousandth(histogram_percentile(&histogram, 50), us);
        assert_int_equal(histogram_percentile(&histogram, 100), HISTOGRAM_US_MAX);
        assert_int_equal(histogram.min_us, us);
    }
}

static uint64_t count_below(uint64_t us)
{
    uint64_t count = 0;
    for (size_t i = 0; i < HISTOGRAM_COUNTS; i++)
        if (histogram.counts[i] > 0 && histogram_last_us(&histogram, i) < us)
            count += histogram.counts[i];
    return count;
}

static void percentiles_are_those_of_all_values(void **state)
{
    (void)state;
    static const double percents[] = {1, 50, 75, 90, 99, 99.9, 99.99};
    enum { COUNT = 200000 };
    histogram_clear(&histogram);
    histogram_clear(&other);
    for (uint64_t i = 1; i <= COUNT; i++) /* two merged halves, from 10 us to 2 s */
        histogram_record(i % 2 ? &histogram : &other, 10 * i);
    histogram_merge(&histogram, &other);
    assert_int_equal(histogram.total, COUNT);
    for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++)
        check_within_a_thousandth(histogram_percentile(&histogram, percents[i]),
                                  10 * (uint64_t)(COUNT * percents[i] / 100 + 0.5));
    assert_true(histogram_mean(&histogram) == 10 * (COUNT + 1) / 2.0);
    assert_int_equal(histogram_percentile(&histogram, 0), 10);
    assert_int_equal(count_below(HISTOGRAM_US_MAX), COUNT);
    assert_int_equal(count_below(1000), 99);
    assert_int_equal(count_below(2000), 199);
}

static void what_is_longer_than_a_minute_is_kept_as_the_greatest(void **state)
{
    (void)state;
    histogram_clear(&histogram);
    histogram_record(&histogram, 0);
    histogram_record(&histogram, 10 * HISTOGRAM_US_MAX);
    assert_int_equal(histogram.max_us, 10 * HISTOGRAM_US_MAX);
    assert_in_range(histogram_percentile(&histogram, 100), HISTOGRAM_US_MAX,
                    HISTOGRAM_US_MAX + HISTOGRAM_US_MAX / 1000);
    histogram_clear(&histogram);
    assert_int_equal(histogram_percentile(&histogram, 99), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_value_has_three_digits),
        cmocka_unit_test(percentiles_are_those_of_all_values),
        cmocka_unit_test(what_is_longer_than_a_minute_is_kept_as_the_greatest),
    };
    return cmocka_run_group_tests_name("load/histogram", tests, NULL, NULL);
}
