/*
 * Shared by the tests of the json room: an arena per test, parsing of literals, whole files.
 */
#ifndef TEST_JSON_JSON_TEST_H
#define TEST_JSON_JSON_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "json/json.h"

enum { TEST_ARENA_BYTES = 256 * 1024 * 1024 };

static inline int arena_setup(void **state)
{
    struct arena *arena = mem_zalloc(sizeof(*arena));
    if (!arena)
        return -1;
    arena_init(arena, TEST_ARENA_BYTES);
    *state = arena;
    return 0;
}

static inline int arena_teardown(void **state)
{
    arena_deinit(*state);
    mem_free(*state);
    assert_int_equal(mem_live_blocks(), 0);
    return 0;
}

#define JSON_TEST(name) cmocka_unit_test_setup_teardown(name, arena_setup, arena_teardown)

/* The literal's value; fails the test when it does not parse. */
static inline struct json *parse(struct arena *arena, const char *text)
{
    struct err err = {0};
    struct json *value = json_parse(arena, slice_cstr(text), &json_limits_provider, &err);
    if (!value)
        fail_msg("%s: %s", text, err.text);
    return value;
}

static inline void assert_slice(slice got, const char *want)
{
    if (!slice_eq_cstr(got, want))
        fail_msg("got [%.*s], want [%s]", SLICE_ARG(got), want);
}

/* The file's bytes in the arena; SLICE_NONE when it cannot be read. */
static inline slice read_file(struct arena *arena, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return SLICE_NONE;
    char *text = NULL;
    long len = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (len >= 0 && fseek(file, 0, SEEK_SET) == 0)
        text = arena_alloc_text(arena, (size_t)len + 1);
    if (text && fread(text, 1, (size_t)len, file) != (size_t)len)
        text = NULL;
    (void)fclose(file);
    return text ? (slice){text, (size_t)len} : SLICE_NONE;
}

/* $SLUICE_CORPORA or its default, with a path behind it. */
static inline const char *corpus_path(struct arena *arena, const char *path)
{
    const char *root = getenv("SLUICE_CORPORA");
    return arena_printf(arena, "%s/%s", root ? root : "../shared/corpora", path).ptr;
}

#endif
