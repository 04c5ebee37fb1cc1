/*
 * How often search finds what is meant: the share of the committed intents whose action is first,
 * and in the first five, among integrations and actions of everything compiled in. The tuning set
 * is asserted, the held-out one reported beside it. SLUICE_MISSES=1 prints the tuning set's misses.
 * Also how long a search takes over 2,000 actions: reported, for a machine's speed is no defect.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "catalog/search.h"

enum { SET_BYTES_MAX = 256 * 1024, FIRST_MAX = 5, SYNTHETIC_APPS = 40, SYNTHETIC_ACTIONS = 50 };

struct bench {
    struct catalog_report report;
    struct catalog *catalog;
    struct arena arena;
};

static int setup(void **state)
{
    struct bench *b = mem_zalloc(sizeof(*b));
    catalog_report_init(&b->report);
    arena_init(&b->arena, 64 * 1024 * 1024);
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct bench *b = *state;
    catalog_unref(b->catalog);
    arena_deinit(&b->arena);
    catalog_report_deinit(&b->report);
    mem_free(b);
    return mem_live_blocks() == 0 ? 0 : -1;
}

/* ---- the sets ---- */

struct figure {
    unsigned pairs, not_applicable, first, in_first_five;
};

static slice read_set(struct arena *arena, const char *name)
{
    const char *root = getenv("SLUICE_ROOT");
    slice path = arena_printf(arena, "%s/tests/unit/catalog/%s", root ? root : ".", name);
    char *text = arena_alloc_text(arena, SET_BYTES_MAX);
    FILE *file = fopen(path.ptr, "re");
    assert_non_null(file);
    size_t len = fread(text, 1, SET_BYTES_MAX, file);
    assert_true(len > 0 && len < SET_BYTES_MAX);
    assert_int_equal(fclose(file), 0);
    return slice_of(text, len);
}

/* Whether the hit is one of "tool or tool or tool". */
static bool is_wanted(const struct search_hit *hit, slice wanted)
{
    while (wanted.len > 0) {
        slice word = slice_split(&wanted, ' ');
        if (hit->action && slice_eq(word, hit->action->tool_name))
            return true;
    }
    return false;
}

static bool is_applicable(const struct catalog *catalog, slice wanted)
{
    while (wanted.len > 0)
        if (catalog_find_tool(catalog, slice_split(&wanted, ' ')))
            return true;
    return false;
}

static void judge(struct bench *b, slice intent, slice wanted, bool prints_misses,
                  struct figure *figure)
{
    struct search_request request = {
        .query = intent, .with_integrations = true, .with_actions = true, .limit = FIRST_MAX};
    struct search_hit *hits;
    size_t count, place = 0;
    assert_int_equal(catalog_search(b->catalog, &b->arena, &request, &hits, &count), OK);
    while (place < count && !is_wanted(&hits[place], wanted))
        place++;
    figure->pairs++;
    figure->first += place == 0 && count > 0;
    figure->in_first_five += place < count;
    if (place == 0 && count > 0)
        return;
    if (prints_misses) {
        print_message("%s %.*s -> %.*s, got", place < count ? "  " : "XX", SLICE_ARG(intent),
                      SLICE_ARG(wanted));
        for (size_t i = 0; i < count; i++)
            print_message(" %.*s(%.2f)",
                          SLICE_ARG(hits[i].action ? hits[i].action->tool_name
                                                   : hits[i].integration->integration_id),
                          (double)hits[i].score);
        print_message("\n");
    }
}

static struct figure judge_set(struct bench *b, const char *name, bool prints_misses)
{
    struct figure figure = {0};
    slice text = read_set(&b->arena, name);
    while (text.len > 0) {
        slice line = slice_trim(slice_split(&text, '\n'));
        ptrdiff_t arrow = slice_find(line, SLICE(" -> "));
        if (line.len == 0 || line.ptr[0] == '#')
            continue;
        assert_true(arrow > 0);
        slice wanted = slice_from(line, (size_t)arrow + 4);
        if (is_applicable(b->catalog, wanted))
            judge(b, slice_first(line, (size_t)arrow), wanted, prints_misses, &figure);
        else
            figure.not_applicable++;
    }
    print_message("search: %s: %u pairs: first %.1f %%, in the first five %.1f %%; %u not "
                  "applicable\n",
                  name, figure.pairs, 100.0 * figure.first / figure.pairs,
                  100.0 * figure.in_first_five / figure.pairs, figure.not_applicable);
    return figure;
}

static void intents_find_their_actions(void **state)
{
    struct bench *b = *state;
    b->catalog = catalog_load_all(NULL, &b->report);
    assert_non_null(b->catalog);
    struct figure tuning = judge_set(b, "search_intents.txt", getenv("SLUICE_MISSES") != NULL);
    struct figure held_out = judge_set(b, "search_intents_held_out.txt", false);
    assert_true(tuning.pairs >= 150 && held_out.pairs >= 60);
    assert_true(tuning.first * 100 >= tuning.pairs * 85);
    assert_true(tuning.in_first_five * 100 >= tuning.pairs * 97);
}

/* Nobody's action: a word or two may be somebody's. */
static const char *const nothing[] = {
    "how tall is mount everest",
    "recipe for a chocolate cake",
    "weather in berlin tomorrow",
    "who won the world cup in 1998",
    "what is the meaning of life",
    "book a flight to paris",
    "order a taxi to the airport",
    "turn on the lights in the kitchen",
    "solve the equation x squared equals two",
    "calculate the square root of sixteen",
    "the quick brown fox jumps over the lazy dog",
    "stock market forecast",
    "walk the dog",
    "tell me a joke",
    "translate hello into french",
    "play some jazz music",
    "cancel my gym membership",
    "remove wine stains from a shirt",
    "knit a woolen scarf",
    "distance between earth and moon",
};

static void queries_about_nothing_find_nothing(void **state)
{
    enum { COUNT = sizeof(nothing) / sizeof(*nothing) };
    struct bench *b = *state;
    unsigned empty = 0;
    b->catalog = catalog_load_all(NULL, &b->report);
    assert_non_null(b->catalog);
    for (size_t i = 0; i < COUNT; i++) {
        struct search_request request = {.query = slice_cstr(nothing[i]),
                                         .with_integrations = true,
                                         .with_actions = true,
                                         .limit = 1};
        struct search_hit *hits;
        size_t count;
        assert_int_equal(catalog_search(b->catalog, &b->arena, &request, &hits, &count), OK);
        empty += count == 0;
        if (count > 0)
            print_message("search: \"%s\" found %.*s (%.2f)\n", nothing[i],
                          SLICE_ARG(hits->action ? hits->action->tool_name
                                                 : hits->integration->integration_id),
                          (double)hits->score);
    }
    print_message("search: %u of %d queries about nothing found nothing\n", empty, COUNT);
    assert_true(empty * 100 >= COUNT * 85);
}

/* ---- time ---- */

static const char *const verbs[] = {"create", "list",    "get",     "update", "delete",
                                    "search", "archive", "restore", "move",   "share"};
static const char *const things[] = {"invoice", "customer", "ticket", "branch", "channel"};

static slice synthetic_app(struct arena *arena, unsigned app)
{
    struct buf text;
    buf_init(&text, 1024 * 1024);
    buf_printf(&text,
               "{\"integration_id\":\"app%u\",\"name\":\"App %u\",\"description\":\"Things of app "
               "%u: list, search, create.\",\"category\":\"things\",\"tags\":[\"work\"],"
               "\"base_url\":\"https://api.example.com\",\"auth\":{\"type\":\"bearer\"},"
               "\"actions\":[",
               app, app, app);
    for (unsigned i = 0; i < SYNTHETIC_ACTIONS; i++) {
        const char *verb = verbs[i / 5], *thing = things[i % 5];
        buf_printf(&text,
                   "%s{\"action_id\":\"%s_%s\",\"title\":\"%s a %s\",\"description\":\"Does %s "
                   "for one %s of the account, and gives its id, name, owner and the time of the "
                   "last change. See also the list of %ss.\",\"tags\":[\"%s\",\"office\"],"
                   "\"side_effect_level\":\"write\",\"input_schema\":{\"type\":\"object\","
                   "\"properties\":{\"%sId\":{\"type\":\"string\",\"description\":\"Its id\"}},"
                   "\"required\":[\"%sId\"],\"additionalProperties\":false},"
                   "\"request\":{\"method\":\"POST\",\"path\":\"/%s/${input.%sId}\"},\"display\":"
                   "{\"title\":\"Done\",\"summary\":\"Done\"},\"examples\":[]}",
                   i ? "," : "", verb, thing, verb, thing, verb, thing, thing, thing, thing, thing,
                   thing, thing);
    }
    buf_append_cstr(&text, "]}");
    slice copy = arena_dup(arena, buf_slice(&text));
    buf_deinit(&text);
    return copy;
}

static int64_t cpu_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int compare_times(const void *a, const void *b)
{
    const int64_t *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

static const char *const timed[] = {
    "create an invoice",
    "search for a customer by name in app 7",
    "delet ticket",
    "shw me all chanels of the acount",
    "please list every branch that somebody moved to the archive last week and share the names",
    "app12_update_ticket",
    "volcano eruptions in iceland",
    "inv",
};

static void a_search_over_2000_actions_is_fast(void **state)
{
    enum { ROUNDS = 250, QUERIES = sizeof(timed) / sizeof(*timed), SAMPLES = ROUNDS * QUERIES };
    struct bench *b = *state;
    struct catalog_source sources[SYNTHETIC_APPS];
    int64_t *times = mem_calloc(SAMPLES, sizeof(*times));
    for (unsigned i = 0; i < SYNTHETIC_APPS; i++)
        sources[i] = (struct catalog_source){SLICE("synthetic"), synthetic_app(&b->arena, i)};
    int64_t start = cpu_ns();
    b->catalog = catalog_load(sources, SYNTHETIC_APPS, &b->report);
    int64_t load_ns = cpu_ns() - start;
    assert_non_null(b->catalog);
    assert_int_equal(b->catalog->action_count, 2000);
    for (size_t i = 0; i < SAMPLES; i++) {
        struct search_request request = {.query = slice_cstr(timed[i % QUERIES]),
                                         .with_integrations = true,
                                         .with_actions = true,
                                         .limit = 20};
        struct search_hit *hits;
        size_t count, blocks = mem_live_blocks();
        struct arena arena;
        start = cpu_ns();
        arena_init(&arena, 1024 * 1024);
        assert_int_equal(catalog_search(b->catalog, &arena, &request, &hits, &count), OK);
        arena_deinit(&arena);
        times[i] = cpu_ns() - start;
        assert_int_equal(mem_live_blocks(), blocks);
    }
    qsort(times, SAMPLES, sizeof(*times), compare_times);
    print_message("search: 2,000 actions, %zu kB, loaded in %.1f ms; a search: median %.1f us, p99 "
                  "%.1f us\n",
                  b->catalog->arena.bytes_used / 1024, (double)load_ns / 1e6,
                  (double)times[SAMPLES / 2] / 1e3, (double)times[SAMPLES * 99 / 100] / 1e3);
    assert_true(times[SAMPLES / 2] < 20 * 1000 * 1000); /* a hundred times what is expected */
    mem_free(times);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(intents_find_their_actions, setup, teardown),
        cmocka_unit_test_setup_teardown(queries_about_nothing_find_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_search_over_2000_actions_is_fast, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
