/*
 * Executions in flight: those of one account leave slots for the others.
 */
#include "limit/concurrency.h"
#include "base/share.h"
#include "unit.h"

enum { SIZE = 64 };

static struct concurrency concurrency;
static struct concurrency_account *inside[SIZE];
static size_t count;

static struct uuid account_of(unsigned number)
{
    struct uuid id = {{5}};
    memcpy(id.bytes + 8, &number, sizeof(number));
    return id;
}

static bool enter(unsigned number)
{
    struct concurrency_account *account = concurrency_enter(&concurrency, account_of(number));
    if (account)
        inside[count++] = account;
    return account != NULL;
}

static int end(void **state)
{
    (void)state;
    while (count > 0)
        concurrency_leave(&concurrency, inside[--count]);
    concurrency_deinit(&concurrency);
    return unit_end();
}

static void one_alone_gets_its_share(void **state)
{
    (void)state;
    concurrency_init(&concurrency, SIZE, 0);
    for (unsigned i = 0; i < 56; i++)
        assert_true(enter(1));
    assert_false(enter(1));
    assert_true(enter(2));
    concurrency_leave(&concurrency, inside[--count]);
    concurrency_leave(&concurrency, inside[--count]);
    assert_true(enter(1)); /* in one of the slots that account 1 returned */
    assert_false(enter(1));
}

static void several_that_take_all_they_get_leave_some(void **state)
{
    (void)state;
    concurrency_init(&concurrency, SIZE, 0);
    for (unsigned i = 0; i < SIZE; i++)
        for (unsigned number = 0; number < 3; number++)
            (void)enter(number);
    assert_in_range(count, 57, 63);
    assert_true(enter(3));
}

static void a_share_of_all_does_not_limit(void **state)
{
    (void)state;
    concurrency_init(&concurrency, 4, 4);
    for (unsigned i = 0; i < 4; i++)
        assert_true(enter(1));
    assert_false(enter(1));
    assert_false(enter(2));
}

static void an_execution_costs_no_allocation(void **state)
{
    (void)state;
    concurrency_init(&concurrency, SIZE, 0);
    assert_true(enter(1));
    assert_true(enter(2));
    concurrency_leave(&concurrency, inside[--count]);
    mem_fail_at(1, UINT64_MAX);
    assert_true(enter(3)); /* in the slots that account 2 left */
    assert_false(enter(4));
    mem_fail_at(0, 0);
    assert_true(enter(4));
}

static void many_accounts_come_and_go(void **state)
{
    (void)state;
    concurrency_init(&concurrency, SIZE, 0);
    for (unsigned round = 0; round < 1000; round++) {
        for (unsigned i = 0; i < SIZE; i++)
            assert_true(enter(round * SIZE + i));
        while (count > 0)
            concurrency_leave(&concurrency, inside[--count]);
    }
    assert_true(mem_live_blocks() <= SIZE + 1);
}

#define TEST(function) cmocka_unit_test_teardown(function, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_alone_gets_its_share),      TEST(several_that_take_all_they_get_leave_some),
        TEST(a_share_of_all_does_not_limit), TEST(an_execution_costs_no_allocation),
        TEST(many_accounts_come_and_go),
    };
    return cmocka_run_group_tests_name("limit/concurrency", tests, NULL, NULL);
}
