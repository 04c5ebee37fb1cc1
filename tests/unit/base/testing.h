/*
 * Shared by the tests of base: cmocka's headers, repeatable random numbers (not base/id, which is
 * under test), and the check that every test ends with.
 */
#ifndef TESTS_UNIT_BASE_TESTING_H
#define TESTS_UNIT_BASE_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/slice.h"

/* SplitMix64; the same numbers in every run. */
struct chance {
    uint64_t state;
};

static inline uint64_t chance_u64(struct chance *chance)
{
    uint64_t z = (chance->state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static inline size_t chance_below(struct chance *chance, size_t bound)
{
    return (size_t)(chance_u64(chance) % bound);
}

static inline void chance_bytes(struct chance *chance, char *out, size_t len)
{
    for (size_t i = 0; i < len; i++)
        out[i] = (char)chance_u64(chance);
}

static inline void assert_slice(slice got, slice want)
{
    assert_int_equal(got.len, want.len);
    if (want.len)
        assert_memory_equal(got.ptr, want.ptr, want.len);
}

static inline int no_blocks_left(void **state)
{
    (void)state;
    mem_fail_at(0, 0);
    return mem_live_blocks() == 0 ? 0 : -1;
}

#define TEST(function) cmocka_unit_test_teardown(function, no_blocks_left)

#endif
