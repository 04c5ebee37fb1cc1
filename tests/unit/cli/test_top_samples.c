/*
 * Sums, growth and quantiles of two samples in the Prometheus text format.
 */
#include "cli/top_samples.h"
#include "unit.h"

static struct samples now, before;

static void take(struct samples *samples, const char *text)
{
    assert_true(samples_add(samples, slice_cstr(text)));
}

static int begin(void **state)
{
    (void)state;
    samples_init(&now);
    samples_init(&before);
    return 0;
}

static int end(void **state)
{
    (void)state;
    samples_deinit(&now);
    samples_deinit(&before);
    return unit_end();
}

#define assert_near(found, wanted) assert_true((found) > (wanted)-1e-9 && (found) < (wanted) + 1e-9)

static void test_series_are_summed_over_labels_and_processes(void **state)
{
    (void)state;
    take(&now, "# HELP a_total Words, {braces} and all.\n# TYPE a_total counter\n"
               "a_total{app=\"x\",result=\"2xx\"} 3\na_total{app=\"x\",result=\"4xx\"} 2\n"
               "a_total{app=\"xy\",result=\"2xx\"} 100\nb 1.5e3\n");
    take(&now, "a_total{app=\"x\",result=\"2xx\"} 4\nb 1\n");
    assert_near(samples_sum(&now, "a_total", SLICE("app=\"x\"")), 9);
    assert_near(samples_sum(&now, "a_total", SLICE("")), 109);
    assert_near(samples_sum(&now, "b", SLICE("")), 1501);
    assert_near(samples_sum(&now, "a", SLICE("")), 0);
    assert_true(slice_eq_cstr(samples_label(&now.items[1], "result"), "4xx"));
    assert_null(samples_label(&now.items[1], "other").ptr);
    assert_null(samples_label(&now.items[3], "app").ptr);
}

static void test_a_counter_that_restarted_counts_from_0(void **state)
{
    (void)state;
    take(&before, "a_total 10\n");
    take(&now, "a_total 25\n");
    assert_near(samples_growth(&now, &before, "a_total", SLICE("")), 15);
    assert_near(samples_growth(&before, &now, "a_total", SLICE("")), 10);
    assert_near(samples_growth(&now, &before, "new_total", SLICE("")), 0);
}

static void test_what_every_process_knows_is_not_summed(void **state)
{
    (void)state;
    take(&now, "timers 3\n");
    take(&now, "timers 4\n");
    take(&now, "timers 2\n");
    assert_near(samples_max(&now, "timers"), 4);
    assert_near(samples_max(&now, "timer"), 0);
}

/* There are two workers. The sum alone does not show that one of them was restarted. */
static void test_a_process_that_was_started_again_is_noticed(void **state)
{
    (void)state;
    take(&before, "process_cpu_seconds_total 1\nother 9\n");
    take(&before, "process_cpu_seconds_total 2\n");
    assert_true(samples_continue(&before, &before));
    take(&now, "process_cpu_seconds_total 30\n");
    assert_false(samples_continue(&now, &before));
    assert_false(samples_continue(&before, &now));
    take(&now, "process_cpu_seconds_total 1.9\n");
    assert_false(samples_continue(&now, &before));
    samples_deinit(&now);
    samples_init(&now);
    take(&now, "process_cpu_seconds_total 1\n");
    take(&now, "other 1\nprocess_cpu_seconds_total 2.1\n");
    assert_true(samples_continue(&now, &before));
}

/* 10 observations up to 0.1, 30 from there to 0.2, and none above. */
static void test_a_quantile_is_of_what_came_between(void **state)
{
    (void)state;
    take(&before, "t_bucket{app=\"x\",le=\"0.1\"} 5\nt_bucket{app=\"x\",le=\"0.2\"} 5\n"
                  "t_bucket{app=\"x\",le=\"+Inf\"} 5\n");
    take(&now, "t_bucket{app=\"x\",le=\"+Inf\"} 45\nt_bucket{app=\"x\",le=\"0.2\"} 45\n"
               "t_bucket{app=\"x\",le=\"0.1\"} 15\nt_bucket{app=\"y\",le=\"+Inf\"} 9\n");
    slice x = SLICE("app=\"x\"");
    assert_near(samples_quantile(&now, &before, "t", x, 0.25), 0.1);
    assert_near(samples_quantile(&now, &before, "t", x, 0.625), 0.15);
    assert_near(samples_quantile(&now, &before, "t", x, 1), 0.2);
    assert_true(samples_quantile(&now, &now, "t", x, 0.5) < 0);
    assert_true(samples_quantile(&now, &before, "u", SLICE(""), 0.5) < 0);
}

/* The bucket above the last bound has no width. */
static void test_above_the_last_bound_that_bound_is_said(void **state)
{
    (void)state;
    take(&now, "t_bucket{le=\"0.1\"} 0\nt_bucket{le=\"8\"} 1\nt_bucket{le=\"+Inf\"} 10\n");
    assert_near(samples_quantile(&now, &before, "t", SLICE(""), 0.9), 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_series_are_summed_over_labels_and_processes, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_a_counter_that_restarted_counts_from_0, begin, end),
        cmocka_unit_test_setup_teardown(test_what_every_process_knows_is_not_summed, begin, end),
        cmocka_unit_test_setup_teardown(test_a_process_that_was_started_again_is_noticed, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_a_quantile_is_of_what_came_between, begin, end),
        cmocka_unit_test_setup_teardown(test_above_the_last_bound_that_bound_is_said, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
