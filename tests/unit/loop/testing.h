/*
 * Shared by the tests of loop: cmocka's headers, a loop for each test, and the check that every
 * test ends with: the loop closes clean (loop_free asserts it) and no block is left.
 */
#ifndef TESTS_UNIT_LOOP_TESTING_H
#define TESTS_UNIT_LOOP_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "loop/loop.h"
#include "loop/op.h"
#include "support/wait.h"

static inline int begin_loop(void **state)
{
    struct err err;
    *state = loop_new(&err);
    return *state ? 0 : -1;
}

static inline int end_loop(void **state)
{
    mem_fail_at(0, 0);
    loop_free(*state);
    metric_deinit();
    return mem_live_blocks() == 0 ? 0 : -1;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin_loop, end_loop)

#endif
