/*
 * Shared by tests that need a catalog: an arena, a catalog, and the report of loading it.
 */
#ifndef TESTS_UNIT_SUPPORT_CATALOG_TEST_H
#define TESTS_UNIT_SUPPORT_CATALOG_TEST_H

#include "catalog/catalog.h"
#include "unit.h"

struct bench {
    struct arena arena;
    struct catalog *catalog; /* NULL: none is loaded */
    struct catalog_report report;
    struct err err;
    char text[16384];
};

static inline int bench_setup(void **state)
{
    struct bench *b = mem_zalloc(sizeof(*b));
    arena_init(&b->arena, UNIT_ARENA_BYTES_MAX);
    catalog_report_init(&b->report);
    *state = b;
    return 0;
}

/* With the built-in manifests. */
static inline int bench_setup_all(void **state)
{
    (void)bench_setup(state);
    struct bench *b = *state;
    b->catalog = catalog_load_all(NULL, &b->report);
    return b->catalog ? 0 : -1;
}

static inline int bench_teardown(void **state)
{
    struct bench *b = *state;
    catalog_unref(b->catalog);
    catalog_report_deinit(&b->report);
    arena_deinit(&b->arena);
    mem_free(b);
    return unit_end();
}

/* Makes the report empty, as before a load. */
static inline void bench_forget(struct bench *b)
{
    catalog_report_deinit(&b->report);
    catalog_report_init(&b->report);
}

#define BENCH_TEST(name)   cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)
#define CATALOG_TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup_all, bench_teardown)

#endif
