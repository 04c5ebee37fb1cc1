/*
 * The cost of the catalog: a search over 2,000 actions, and 10,000 actions in memory. The release
 * build of this program prints the figures (`make bench-micro`, and a part of `make test`).
 */
#include <malloc.h>
#include <stdlib.h>

#include "base/clock.h"
#include "catalog/search.h"
#include "support/slowness.h"
#include "synthetic.h"
#include "unit.h"

enum {
    SEARCHED_APPS = 40,
    LOADED_APPS = 200,
    INTENTS_BYTES_MAX = 256 * 1024,
    INTENTS_MAX = 1000,
    ROUNDS = BUILD_SLOWNESS == 1 ? 20 : 1,
    /* The limits. The limit for loading leaves room for a machine that is busy with other work. */
    BUSY_ROOM = 3,
    SEARCH_US_MAX = 300 * BUILD_SLOWNESS,
    LOAD_MS_MAX = 1000 * BUSY_ROOM * BUILD_SLOWNESS,
    LOADED_BYTES_MAX = 60 * 1024 * 1024,
};

struct bench {
    struct catalog_report report;
    struct arena arena;
    struct catalog_source sources[LOADED_APPS];
    slice intents[INTENTS_MAX];
    size_t intent_count;
};

static int setup(void **state)
{
    struct bench *b = mem_zalloc(sizeof(*b));
    catalog_report_init(&b->report);
    arena_init(&b->arena, 64 * 1024 * 1024);
    for (unsigned i = 0; i < LOADED_APPS; i++)
        b->sources[i] = (struct catalog_source){SLICE("synthetic"), synthetic_app(&b->arena, i)};
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct bench *b = *state;
    arena_deinit(&b->arena);
    catalog_report_deinit(&b->report);
    mem_free(b);
    return unit_end();
}

static int compare_times(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

/* ---- search ---- */

/* Reads the words before each arrow of a committed set. */
static void read_set(struct bench *b, const char *name)
{
    const char *root = getenv("SLUICE_ROOT");
    slice path = arena_printf(&b->arena, "%s/tests/unit/search/%s", root ? root : ".", name);
    char *text = arena_alloc_text(&b->arena, INTENTS_BYTES_MAX);
    FILE *file = fopen(path.ptr, "re");
    assert_non_null(file);
    slice rest = slice_of(text, fread(text, 1, INTENTS_BYTES_MAX, file));
    assert_int_equal(fclose(file), 0);
    while (rest.len > 0 && b->intent_count < INTENTS_MAX) {
        slice line = slice_split(&rest, '\n');
        ptrdiff_t arrow = slice_find(line, SLICE(" -> "));
        if (arrow > 0 && line.ptr[0] != '#')
            b->intents[b->intent_count++] = slice_first(line, (size_t)arrow);
    }
}

/* Reads queries that people send, in words and in sentences, with typing mistakes, and queries of
 * other kinds. */
static void read_intents(struct bench *b)
{
    static const char *const others[] = {
        "delet ticket",
        "shw me all chanels of the acount",
        "app12_update_ticket",
        "volcano eruptions in iceland",
        "inv",
        "search for a customer by name in app 7",
        "please list every branch that a colleague moved to the archive last week and share the "
        "names",
        /* of the maximum parsed length, with every word known and in the core */
        "create list get update delete search archive restore move share invoice customer "
        "ticket "
        "branch channel create list get update delete search archive restore move share "
        "invoice "
        "customer ticket branch channel create list get update delete search archive restore "
        "move "
        "share invoice customer ticket branch channel create list get update delete search "
        "archive "
        "restore move share invoice customer ticket branch channel create list get update "
        "delete",
    };
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        b->intents[b->intent_count++] = slice_cstr(others[i]);
    read_set(b, "search_intents.txt");
    read_set(b, "search_sentences.txt");
    assert_true(b->intent_count > 500);
}

static uint64_t search_ns(const struct catalog *catalog, slice query)
{
    struct search_request request = {
        .query = query, .with_integrations = true, .with_actions = true, .limit = 20};
    struct catalog_hit *hits;
    struct arena arena;
    size_t count;
    uint64_t start = clock_thread_cpu_ns();
    arena_init(&arena, 1024 * 1024);
    assert_int_equal(catalog_search(catalog, &arena, &request, &hits, &count), OK);
    arena_deinit(&arena);
    return clock_thread_cpu_ns() - start;
}

static uint64_t least_search_ns(const struct catalog *catalog, slice query)
{
    uint64_t least_ns = UINT64_MAX;
    for (unsigned i = 0; i < MEASURED_TIMES_MAX && least_ns >= UINT64_C(1000) * SEARCH_US_MAX;
         i++) {
        uint64_t took_ns = search_ns(catalog, query);
        least_ns = took_ns < least_ns ? took_ns : least_ns;
    }
    return least_ns;
}

static void a_search_over_2000_actions_is_fast(void **state)
{
    struct bench *b = *state;
    struct catalog *catalog = catalog_load(b->sources, SEARCHED_APPS, &b->report);
    assert_non_null(catalog);
    assert_int_equal(catalog->action_count, 2000);
    read_intents(b);
    size_t count = 0;
    uint64_t *times = mem_calloc(ROUNDS * b->intent_count, sizeof(*times));
    for (size_t round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < b->intent_count; i++)
            times[count++] = least_search_ns(catalog, b->intents[i]);
    qsort(times, count, sizeof(*times), compare_times);
    uint64_t median = times[count / 2], p99 = times[count * 99 / 100];
    if (BUILD_SLOWNESS == 1)
        print_message("figure: searching 2,000 actions: median %.0f us, p99 %.0f us of CPU (bar "
                      "300)\n",
                      (double)median / 1e3, (double)p99 / 1e3);
    assert_true(p99 < UINT64_C(1000) * SEARCH_US_MAX);
    mem_free(times);
    catalog_unref(catalog);
}

/* ---- loading ---- */

static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void ten_thousand_actions_are_loaded_fast_and_small(void **state)
{
    struct bench *b = *state;
    size_t before = heap_bytes();
    uint64_t start = clock_thread_cpu_ns();
    struct catalog *catalog = catalog_load(b->sources, LOADED_APPS, &b->report);
    uint64_t spent = clock_thread_cpu_ns() - start;
    assert_non_null(catalog);
    assert_int_equal(catalog->action_count, 10000);
    /* With a sanitizer's heap, only the arena's use is known. */
    size_t bytes = BUILD_SLOWNESS == 1 ? heap_bytes() - before : catalog->arena.bytes_used;
    if (BUILD_SLOWNESS == 1)
        print_message("figure: loading 10,000 actions: %.0f ms of CPU (bar 1000), %.1f MB (bar "
                      "60)\n",
                      (double)spent / 1e6, (double)bytes / 1e6);
    assert_true(spent < UINT64_C(1000000) * LOAD_MS_MAX);
    assert_true(bytes < LOADED_BYTES_MAX);
    catalog_unref(catalog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_search_over_2000_actions_is_fast, setup, teardown),
        cmocka_unit_test_setup_teardown(ten_thousand_actions_are_loaded_fast_and_small, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
