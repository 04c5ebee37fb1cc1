/*
 * The time for which an execution waits before it calls again, and the time that an app needs.
 */
#include "exec/internal.h"
#include "exec/steps.h"
#include "seam/seam.h"

enum { DRAWS = 2000, PLENTY_MS = 1000000 };

static void jitter_is_full_under_a_ceiling_that_doubles(void **state)
{
    (void)state;
    for (unsigned attempts = 1; attempts < 40; attempts++) {
        uint64_t ceiling = attempts < 6 ? (uint64_t)EXEC_BACKOFF_MS_MIN << attempts
                                        : EXEC_BACKOFF_MS_MAX;
        uint64_t least = UINT64_MAX, most = 0;
        for (unsigned i = 0; i < DRAWS; i++) {
            uint64_t wait = exec_backoff_ms(attempts, PLENTY_MS, -1);
            least = wait < least ? wait : least;
            most = wait > most ? wait : most;
        }
        /* the whole range is used: the probability of missing either outer tenth is 0.9 ^ 2000 */
        assert_in_range(least, 1, ceiling / 10);
        assert_in_range(most, ceiling * 9 / 10, ceiling);
    }
}

static void what_the_provider_asks_for_comes_first(void **state)
{
    (void)state;
    for (unsigned i = 0; i < DRAWS; i++) {
        assert_in_range(exec_backoff_ms(1, PLENTY_MS, 3000), 3001,
                        3000 + (EXEC_BACKOFF_MS_MIN << 1));
        assert_in_range(exec_backoff_ms(1, PLENTY_MS, 0), 1, EXEC_BACKOFF_MS_MIN << 1);
    }
    assert_true(exec_backoff_ms(1, PLENTY_MS, EXEC_BACKOFF_MS_MAX) > EXEC_BACKOFF_MS_MAX);
    assert_int_equal(exec_backoff_ms(1, PLENTY_MS, EXEC_BACKOFF_MS_MAX + 1), 0); /* fails fast */
}

static void it_stays_within_the_deadline(void **state)
{
    (void)state;
    for (unsigned i = 0; i < DRAWS; i++) {
        uint64_t wait = exec_backoff_ms(6, 600, -1);
        assert_true(wait == 0 || wait < 300); /* this much is left for the call */
    }
    assert_int_equal(exec_backoff_ms(1, 4000, 2000), 0);
    assert_int_equal(exec_backoff_ms(1, 0, -1), 0);
}

/* The app has replied before the wait, so the wait is not a time that it needs. */
static void a_wait_for_memory_is_not_a_time_of_the_app(void **state)
{
    enum { WAITED_MS = 1500 };
    struct bench *b = *state;
    struct budget_use other = {0};
    want_plain(b, "get", NULL);
    seam_run_start(&b->run);
    (void)call(b);
    assert_int_equal(budget_use_begin(&other, &b->node.work.budget, uuid_v7()), OK);
    assert_true(budget_use_overdraw(&other, (size_t)4 * LARGE));
    reply(b, 200, large_body());
    seam_pass_ms(b->node.loop, WAITED_MS);
    budget_use_end(&other);
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    assert_in_range(b->run.out.times.provider_ns, 0, UINT64_C(1000000));
    assert_in_range(b->run.out.times.gate_ns, WAITED_MS * UINT64_C(1000000), UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jitter_is_full_under_a_ceiling_that_doubles),
        cmocka_unit_test(what_the_provider_asks_for_comes_first),
        cmocka_unit_test(it_stays_within_the_deadline),
        cmocka_unit_test_setup_teardown(a_wait_for_memory_is_not_a_time_of_the_app, set_up_bounded,
                                        tear_down),
    };
    return cmocka_run_group_tests_name("exec/attempt", tests, NULL, NULL);
}
