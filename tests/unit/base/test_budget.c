/*
 * The memory budget: what fits, the share of an account when others use memory, what exceeds the
 * budget, and that each byte is returned.
 */
#include <pthread.h>

#include "base/budget.h"
#include "unit.h"

#define MIB ((size_t)1024 * 1024)

enum { USES_MAX = 64, THREADS = 4, ROUNDS = 20000 };

static struct budget budget;
static struct budget_use uses[USES_MAX];

static struct uuid account_of(unsigned number)
{
    struct uuid id = {{7}};
    memcpy(id.bytes + 8, &number, sizeof(number));
    return id;
}

static int begin(void **state)
{
    (void)state;
    memset(uses, 0, sizeof(uses));
    budget_init(&budget, 512 * MIB, 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    mem_fail_at(0, 0);
    for (size_t i = 0; i < USES_MAX; i++)
        budget_use_end(&uses[i]);
    budget_deinit(&budget);
    return unit_end();
}

static struct budget_use *use_of(size_t index, unsigned account)
{
    assert_int_equal(budget_use_begin(&uses[index], &budget, account_of(account)), OK);
    return &uses[index];
}

static void an_account_alone_gets_its_share(void **state)
{
    (void)state;
    size_t got = 0;
    for (size_t i = 0; i < USES_MAX; i++)
        (void)use_of(i, 1);
    for (size_t i = 0; i < USES_MAX && budget_use_take(&uses[i], 8 * MIB); i++)
        got += 8 * MIB;
    assert_true(got > 110 * MIB && got <= 128 * MIB);
    assert_int_equal(budget.used, got);
}

static void the_more_use_it_the_less_each_gets_and_some_stays(void **state)
{
    (void)state;
    size_t got[4] = {0};
    for (unsigned i = 0; i < 4; i++)
        (void)use_of(i, i);
    for (bool is_any = true; is_any;) {
        is_any = false;
        for (unsigned i = 0; i < 4; i++) {
            if (!budget_use_take(&uses[i], MIB))
                continue;
            got[i] += MIB;
            is_any = true;
        }
    }
    for (unsigned i = 0; i < 4; i++)
        assert_true(got[i] >= 64 * MIB && got[i] <= 80 * MIB);
    assert_true(budget.used < 320 * MIB);
    assert_true(budget_use_take(use_of(4, 4), 50 * MIB)); /* a new account */
}

static void what_uses_little_may_begin_something_large(void **state)
{
    (void)state;
    struct budget_use *use = use_of(0, 1);
    assert_true(budget_use_take(use, 300 * MIB)); /* past its share, without others */
    assert_false(budget_use_take(use_of(1, 1), 8 * MIB));
    assert_true(budget_use_take(use_of(2, 2), 8 * MIB));
    assert_true(budget_use_take(use_of(3, 3), 150 * MIB));
    assert_false(budget_use_take(use_of(4, 4), 150 * MIB));
    /* an account without memory gets a small amount */
    assert_true(budget_use_take(&uses[4], BUDGET_SMALL_BYTES));
}

static void what_is_larger_than_all_begins_some_time(void **state)
{
    (void)state;
    assert_true(budget_use_take(use_of(0, 1), 1000 * MIB));
    assert_false(budget_use_take(use_of(1, 2), 1000 * MIB));
    budget_use_end(&uses[0]);
    assert_true(budget_use_take(&uses[1], 1000 * MIB));
}

static void one_use_of_an_account_goes_past_its_share(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++)
        budget_use_add(use_of(i, 1), 40 * MIB);
    assert_false(budget_use_take(&uses[0], 100 * MIB));
    assert_true(budget_use_overdraw(&uses[0], 100 * MIB));
    assert_false(budget_use_overdraw(&uses[1], 100 * MIB));
    assert_true(budget_use_overdraw(&uses[0], 10 * MIB)); /* work under way may continue */
    budget_use_end(&uses[0]);
    assert_true(budget_use_overdraw(&uses[1], 100 * MIB));
    budget_use_settle(&uses[1]); /* within its share again */
    assert_true(budget_use_overdraw(&uses[2], 100 * MIB));
}

static void one_use_of_all_goes_past_the_whole(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++)
        budget_use_add(use_of(i, i), 127 * MIB);
    assert_true(budget_use_overdraw(&uses[0], 100 * MIB));
    assert_false(budget_use_overdraw(&uses[1], 100 * MIB));
    budget_use_remove(&uses[0], 127 * MIB);
    budget_use_settle(&uses[0]);
    assert_true(budget_use_overdraw(&uses[1], 100 * MIB));
}

static void what_was_taken_is_used_up_first(void **state)
{
    (void)state;
    struct budget_use *use = use_of(0, 1);
    assert_true(budget_use_take(use, MIB));
    budget_use_add(use, MIB / 2);
    assert_int_equal(budget.used, MIB);
    budget_use_settle(use);
    assert_int_equal(budget.used, MIB / 2);
    budget_use_add(use, 1);
    assert_int_equal(budget.used, MIB / 2 + BUDGET_STEP_BYTES);
    budget_use_remove(use, MIB / 2 + 1);
    budget_use_settle(use);
    assert_int_equal(budget.used, 0);
}

static void arenas_count_what_they_have(void **state)
{
    (void)state;
    struct budget_use *use = use_of(0, 1);
    struct arena arena;
    arena_init(&arena, 64 * MIB);
    assert_non_null(arena_alloc(&arena, 100));
    arena_count_in(&arena, use);
    assert_int_equal(budget.used, BUDGET_STEP_BYTES);
    assert_non_null(arena_alloc(&arena, 2 * MIB));
    assert_true(budget.used >= 2 * MIB && budget.used < 2 * MIB + 2 * BUDGET_STEP_BYTES);
    arena_reset(&arena);
    budget_use_settle(use);
    assert_int_equal(budget.used, 0);
    assert_non_null(arena_alloc(&arena, MIB)); /* still counted */
    assert_true(budget.used >= MIB);
    arena_deinit(&arena);
}

static void *count_much(void *ctx)
{
    struct budget_use *use = ctx;
    for (size_t i = 0; i < ROUNDS; i++) {
        budget_use_add(use, 1 + i % 50000);
        budget_use_remove(use, 1 + i % 50000);
    }
    return NULL;
}

static void threads_lose_no_byte(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    struct budget_use *use = use_of(0, 1);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_much, use), 0);
    for (size_t i = 0; i < ROUNDS; i++)
        budget_use_settle(use);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    budget_use_settle(use);
    assert_int_equal(budget.used, 0);
    assert_int_equal(use->left, 0);
}

static void without_memory_nothing_is_counted(void **state)
{
    (void)state;
    mem_fail_at(1, 1);
    assert_int_equal(budget_use_begin(&uses[0], &budget, account_of(1)), ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_true(budget_use_take(&uses[0], 1000 * MIB));
    budget_use_add(&uses[0], MIB);
    budget_use_remove(&uses[0], MIB);
    budget_use_settle(&uses[0]);
    assert_int_equal(budget.used, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_account_alone_gets_its_share),
        TEST(the_more_use_it_the_less_each_gets_and_some_stays),
        TEST(what_uses_little_may_begin_something_large),
        TEST(what_is_larger_than_all_begins_some_time),
        TEST(one_use_of_an_account_goes_past_its_share),
        TEST(one_use_of_all_goes_past_the_whole),
        TEST(what_was_taken_is_used_up_first),
        TEST(arenas_count_what_they_have),
        TEST(threads_lose_no_byte),
        TEST(without_memory_nothing_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
