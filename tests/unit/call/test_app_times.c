/*
 * Histograms by app: which executions share one, and the maximum number of histograms.
 */
#include "call/app_times.h"
#include "unit.h"

static struct app_times_table table;

static int begin(void **state)
{
    (void)state;
    table = (struct app_times_table){0};
    return app_times_init(&table);
}

static int end(void **state)
{
    (void)state;
    app_times_deinit(&table);
    return unit_end();
}

static struct app_times *of(const char *id, size_t position)
{
    struct catalog_integration app = {.integration_id = slice_cstr(id), .position = position};
    return app_times_of(&table, &app);
}

/* Whether the metrics page has the line. */
static bool has(const char *line)
{
    struct buf page;
    buf_init(&page, 16 * 1024 * 1024);
    metric_render(&page);
    buf_append_char(&page, '\0');
    bool is_there = !page.is_failed && strstr(page.ptr, line) != NULL;
    buf_deinit(&page);
    return is_there;
}

static void counts_by_app_and_phase(void **state)
{
    (void)state;
    const struct exec_times spent = {.gate_ns = 40000, .limits_ns = 3000000000, .record_ns = 60000};
    app_times_count(of("gmail", 0), &spent, 3000100000);
    app_times_count(of("notion", 1), &(struct exec_times){0}, 1);
    app_times_count(app_times_of(&table, NULL), &(struct exec_times){0}, 1);
    app_times_count_call(of("gmail", 0), 1000000000);
    assert_true(has("\nsluice_execution_seconds_count{integration=\"gmail\"} 1\n"));
    assert_true(has("\nsluice_execution_seconds_sum{integration=\"gmail\"} 3.0001\n"));
    assert_true(has("\nsluice_execution_seconds_count{integration=\"notion\"} 1\n"));
    assert_true(has("\nsluice_execution_seconds_count{integration=\"(other)\"} 1\n"));
    (void)of("slack", 2);
    assert_false(has("slack"));
    assert_true(has("_phase_seconds_sum{integration=\"gmail\",phase=\"gate\"} 0.00004\n"));
    assert_true(has("_phase_seconds_sum{integration=\"gmail\",phase=\"limits\"} 3\n"));
    assert_true(has("_phase_seconds_sum{integration=\"gmail\",phase=\"provider\"} 0\n"));
    assert_true(has("_phase_seconds_sum{integration=\"gmail\",phase=\"record\"} 0.00006\n"));
    assert_true(has("_phase_seconds_sum{integration=\"notion\",phase=\"limits\"} 0\n"));
    assert_true(has("\nsluice_provider_seconds_sum{integration=\"gmail\"} 1\n"));
}

/* A reloaded catalog may have apps at other positions. */
static void an_app_is_found_in_any_place(void **state)
{
    (void)state;
    struct app_times *a = of("a", 0), *b = of("b", 1);
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(of("b", 0), b);
    assert_ptr_equal(of("a", 0), a);
    assert_ptr_equal(of("a", EXEC_APP_HINTS), a);
    assert_ptr_equal(of("b", SIZE_MAX), b);
    size_t blocks = mem_live_blocks();
    for (size_t i = 0; i < 1000; i++)
        assert_ptr_equal(of(i % 2 ? "a" : "b", i / 4), i % 2 ? a : b);
    assert_int_equal(mem_live_blocks(), blocks);
}

static void apps_are_bounded(void **state)
{
    (void)state;
    struct app_times *first[EXEC_APPS_MAX], *other = app_times_of(&table, NULL);
    for (size_t i = 0; i < EXEC_APPS_MAX + 100; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "app%zu", i);
        struct app_times *times = of(id, i);
        app_times_count(times, &(struct exec_times){0}, 1);
        assert_int_equal(times == other, i >= EXEC_APPS_MAX);
        if (i < EXEC_APPS_MAX)
            first[i] = times;
    }
    assert_ptr_equal(of("app0", 0), first[0]);
    assert_ptr_equal(of("app199", 199), first[199]);
    /* all apps with their phases: no app exceeded the family's own limit */
    assert_true(has("_phase_seconds_count{integration=\"app199\",phase=\"record\"} 1\n"));
    assert_true(has("_phase_seconds_count{integration=\"(other)\",phase=\"record\"} 100\n"));
    assert_false(has("other=\"true\""));
}

static void survives_failing_memory(void **state)
{
    (void)state;
    struct app_times *other = app_times_of(&table, NULL);
    mem_fail_at(1, 1);
    assert_ptr_equal(of("a", 0), other);
    mem_fail_at(0, 0);
    assert_ptr_not_equal(of("a", 0), other); /* requested again */
    uint64_t hits = 1;
    for (uint64_t n = 1; hits > 0; n++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "app%u", (unsigned)n);
        mem_fail_at(n, 1);
        app_times_count(of(id, n), &(struct exec_times){0}, 1);
        hits = mem_fail_hits();
    }
    mem_fail_at(0, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(counts_by_app_and_phase),
        TEST(an_app_is_found_in_any_place),
        TEST(apps_are_bounded),
        TEST(survives_failing_memory),
    };
    return cmocka_run_group_tests_name("call/app_times", tests, NULL, NULL);
}
