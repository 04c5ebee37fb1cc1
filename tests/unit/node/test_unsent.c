/*
 * Claims that were abandoned before anything was sent: the latest of them are remembered.
 */
#include "node/unsent.h"
#include "unit.h"

static void it_has_what_was_noted(void **state)
{
    struct unsent unsent = {0};
    struct uuid id = uuid_v7();
    (void)state;
    assert_false(unsent_has(&unsent, id));
    unsent_note(&unsent, id);
    assert_true(unsent_has(&unsent, id));
    assert_false(unsent_has(&unsent, uuid_v7()));
    assert_false(unsent_has(&unsent, (struct uuid){{0}})); /* an empty slot contains no id */
    unsent_deinit(&unsent);
    assert_int_equal(mem_live_blocks(), 0);
}

static void the_oldest_makes_room(void **state)
{
    struct unsent unsent = {0};
    struct uuid first = uuid_v7(), second = uuid_v7();
    (void)state;
    unsent_note(&unsent, first);
    unsent_note(&unsent, second);
    for (size_t i = 2; i < UNSENT_IDS_MAX; i++)
        unsent_note(&unsent, uuid_v7());
    assert_true(unsent_has(&unsent, first));
    struct uuid last = uuid_v7();
    unsent_note(&unsent, last);
    assert_false(unsent_has(&unsent, first));
    assert_true(unsent_has(&unsent, second));
    assert_true(unsent_has(&unsent, last));
    unsent_deinit(&unsent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_what_was_noted),
        cmocka_unit_test(the_oldest_makes_room),
    };
    return cmocka_run_group_tests_name("node/unsent", tests, NULL, NULL);
}
