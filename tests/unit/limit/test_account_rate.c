/*
 * The request rate of accounts, with a clock that the test sets.
 */
#include "limit/account_rate.h"
#include "unit.h"

static const uint64_t SECOND = 1000000000;
static struct account_rate *rate;

static int end(void **state)
{
    (void)state;
    account_rate_free(rate);
    rate = NULL;
    return unit_end();
}

static struct uuid account(uint32_t number)
{
    struct uuid id = {{0}};
    memcpy(id.bytes, &number, sizeof(number));
    return id;
}

/* The number of served requests out of `count`. */
static unsigned served(uint32_t number, unsigned count, uint64_t now_ns)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += account_rate_take(rate, account(number), now_ns) == 0 ? 1 : 0;
    return sum;
}

static void a_burst_and_then_the_rate(void **state)
{
    (void)state;
    rate = account_rate_new(10, 25, NULL);
    assert_int_equal(served(1, 100, SECOND), 25);
    assert_int_equal(account_rate_take(rate, account(1), SECOND), 101); /* rounded up */
    assert_int_equal(served(2, 100, SECOND), 25); /* another account has its own limit */
    assert_int_equal(served(1, 100, SECOND + SECOND / 2), 5);
    assert_int_equal(served(1, 100, 1000 * SECOND), 25);
}

static void without_a_burst_it_is_two_seconds_worth(void **state)
{
    (void)state;
    rate = account_rate_new(3, 0, NULL);
    assert_int_equal(served(1, 100, SECOND), 6);
}

static void accounts_are_bounded(void **state)
{
    (void)state;
    rate = account_rate_new(1, 1, NULL);
    assert_int_equal(served(0, 2, SECOND), 1);
    for (uint32_t i = 1; i < ACCOUNT_RATE_ACCOUNTS_MAX; i++)
        assert_int_equal(served(i, 1, SECOND), 1);
    assert_int_equal(served(0, 1, SECOND), 0); /* still cached, and now the most recent one */
    size_t blocks = mem_live_blocks();
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(served(ACCOUNT_RATE_ACCOUNTS_MAX + i, 1, SECOND), 1);
    assert_int_equal(mem_live_blocks(), blocks);
    assert_int_equal(served(0, 1, SECOND), 0);
    assert_int_equal(served(1, 1, SECOND), 1); /* no longer cached, so it may make more requests */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_burst_and_then_the_rate, end),
        cmocka_unit_test_teardown(without_a_burst_it_is_two_seconds_worth, end),
        cmocka_unit_test_teardown(accounts_are_bounded, end),
    };
    return cmocka_run_group_tests_name("limit/account_rate", tests, NULL, NULL);
}
