/*
 * Shared by the tests of base: repeatable random numbers (not from base/id, which is under test).
 */
#ifndef TESTS_UNIT_BASE_TESTING_H
#define TESTS_UNIT_BASE_TESTING_H

#include "unit.h"

/* SplitMix64, with the same numbers in every run. */
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

#endif
