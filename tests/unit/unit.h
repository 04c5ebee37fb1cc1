/*
 * Included by every unit test: cmocka's headers, comparisons of texts, an arena for each test, and
 * the end of a test and of a program, which checks that no memory is left in this room or the rooms
 * below.
 */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/slice.h"

enum { UNIT_ARENA_BYTES_MAX = 256 * 1024 * 1024 };

/* The result of a teardown, after it has freed what the test held. */
static inline int unit_end(void)
{
    mem_fail_at(0, 0);
    metric_deinit();
    return mem_live_blocks() == 0 ? 0 : -1;
}

/* A teardown for tests that free all their memory themselves. */
static inline int unit_teardown(void **state)
{
    (void)state;
    return unit_end();
}

/* The exit status of a main whose groups held memory. failed: the number of failed tests. */
static inline int unit_result(int failed)
{
    int end = unit_end();
    return failed ? failed : end != 0;
}

static inline int unit_arena_setup(void **state)
{
    struct arena *arena = mem_zalloc(sizeof(*arena));
    if (!arena)
        return -1;
    arena_init(arena, UNIT_ARENA_BYTES_MAX);
    *state = arena;
    return 0;
}

static inline int unit_arena_teardown(void **state)
{
    arena_deinit(*state);
    mem_free(*state);
    return unit_end();
}

#define UNIT_TEST(function) cmocka_unit_test_teardown(function, unit_teardown)
/* *state is a struct arena *. */
#define ARENA_TEST(function) \
    cmocka_unit_test_setup_teardown(function, unit_arena_setup, unit_arena_teardown)

static inline void assert_slice(slice got, slice want)
{
    if (!slice_eq(got, want))
        fail_msg("got [%.*s], want [%.*s]", SLICE_ARG(got), SLICE_ARG(want));
}

static inline void assert_text(slice got, const char *want)
{
    assert_slice(got, slice_cstr(want));
}

#define assert_contains(text, part)                                          \
    do {                                                                     \
        if (!strstr((text), (part)))                                         \
            fail_msg("\"%s\" is not in:\n%s", (part), (const char *)(text)); \
    } while (0)

/* The text with " in place of each ', which needs no escape in C; in the arena. */
static inline char *unit_quoted(struct arena *arena, const char *text)
{
    char *copy = arena_cstr(arena, slice_cstr(text));
    assert_non_null(copy);
    for (char *c = copy; *c; c++)
        if (*c == '\'')
            *c = '"';
    return copy;
}

#endif
