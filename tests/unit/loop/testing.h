/*
 * Shared by the tests of loop: cmocka's headers, a loop for each test, and the check at the end of
 * every test: the loop closes cleanly (loop_free asserts it) and no block is left.
 */
#ifndef TESTS_UNIT_LOOP_TESTING_H
#define TESTS_UNIT_LOOP_TESTING_H

#include "base/clock.h"
#include "loop/loop.h"
#include "loop/op.h"
#include "support/wait.h"
#include "unit.h"

static inline int begin_loop(void **state)
{
    struct err err;
    *state = loop_new(&err);
    return *state ? 0 : -1;
}

static inline int end_loop(void **state)
{
    loop_free(*state);
    return unit_end();
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin_loop, end_loop)

#endif
