/*
 * How often search finds what is meant: the share of the committed intents whose action is first,
 * and in the first five, among integrations and actions of everything compiled in, and of that
 * beside GitHub's own description imported (npm's @octokit/openapi, over 1,000 operations). The
 * tuning set is asserted, the held-out one reported beside it. SLUICE_MISSES=1 prints the tuning
 * set's misses.
 *
 * The import describes our own GitHub actions a second time. Which of two descriptions of one
 * operation (the same method and path) is found first is no matter of right or wrong: either
 * counts. An operation that merely does nearly the same does not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/embed.h"
#include "base/mem.h"
#include "catalog/import.h"
#include "catalog/search.h"

enum { SET_BYTES_MAX = 256 * 1024, FIRST_MAX = 5 };

/* Two names for one operation. */
struct twin {
    slice ours, imported;
};

struct bench {
    struct catalog_report report;
    struct catalog *catalog;
    struct arena arena;
    struct twin *twins;
    size_t twin_count;
};

static int setup(void **state)
{
    struct bench *b = mem_zalloc(sizeof(*b));
    catalog_report_init(&b->report);
    arena_init(&b->arena, 256 * 1024 * 1024);
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

/* The name that our own manifest has for the operation, or the name itself. */
static slice own_name(const struct bench *b, slice tool_name)
{
    for (size_t i = 0; i < b->twin_count; i++)
        if (slice_eq(b->twins[i].imported, tool_name))
            return b->twins[i].ours;
    return tool_name;
}

/* Whether the hit is one of "tool or tool or tool". */
static bool is_wanted(const struct bench *b, const struct search_hit *hit, slice wanted)
{
    while (wanted.len > 0) {
        slice word = slice_split(&wanted, ' ');
        if (hit->action && slice_eq(word, own_name(b, hit->action->tool_name)))
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
    while (place < count && !is_wanted(b, &hits[place], wanted))
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
    assert_int_equal(figure.not_applicable, 0);
    return figure;
}

/* Asserts the tuning set's bar over the catalog and prints both figures. */
static void judge_sets(struct bench *b, const char *over)
{
    struct figure tuning = judge_set(b, "search_intents.txt", getenv("SLUICE_MISSES") != NULL);
    struct figure held_out = judge_set(b, "search_intents_held_out.txt", false);
    print_message("figure: search over %s (%zu actions): tuning set of %u: first %.1f %%, in five "
                  "%.1f %%; held-out set of %u: %.1f %%, %.1f %%\n",
                  over, b->catalog->action_count, tuning.pairs, 100.0 * tuning.first / tuning.pairs,
                  100.0 * tuning.in_first_five / tuning.pairs, held_out.pairs,
                  100.0 * held_out.first / held_out.pairs,
                  100.0 * held_out.in_first_five / held_out.pairs);
    assert_true(tuning.pairs >= 150 && held_out.pairs >= 60);
    assert_true(tuning.first * 100 >= tuning.pairs * 85);
    assert_true(tuning.in_first_five * 100 >= tuning.pairs * 97);
}

static void intents_find_their_actions(void **state)
{
    struct bench *b = *state;
    b->catalog = catalog_load_all(NULL, &b->report);
    assert_non_null(b->catalog);
    judge_sets(b, "what is compiled in");
}

/* ---- beside GitHub's own description ---- */

static const char github_document[] =
    "tests/e2e/node_modules/@octokit/openapi/generated/api.github.com.json";

/* SLICE_NONE where npm has not brought it: `make test` does. */
static slice read_github(struct arena *arena)
{
    const char *root = getenv("SLUICE_ROOT");
    slice path = arena_printf(arena, "%s/%s", root ? root : ".", github_document);
    FILE *file = fopen(path.ptr, "re");
    if (!file)
        return SLICE_NONE;
    char *text = arena_alloc_text(arena, IMPORT_DOCUMENT_BYTES_MAX);
    assert_non_null(text);
    size_t len = fread(text, 1, IMPORT_DOCUMENT_BYTES_MAX, file);
    assert_true(len > 0 && len < IMPORT_DOCUMENT_BYTES_MAX);
    assert_int_equal(fclose(file), 0);
    return slice_of(text, len);
}

/* "GET /repos/{}/{}": what two descriptions of one operation have in common. */
static slice operation_of(struct arena *arena, const struct json *action)
{
    const struct json *request = JSON_GET(action, "request");
    slice path = json_get_str(request, SLICE("path"));
    struct buf out;
    buf_init(&out, 4096);
    buf_append(&out, json_get_str(request, SLICE("method")));
    buf_append_char(&out, ' ');
    for (ptrdiff_t open = slice_find(path, SLICE("${")); open >= 0;
         open = slice_find(path, SLICE("${"))) {
        buf_append(&out, slice_first(path, (size_t)open));
        buf_append_cstr(&out, "{}");
        path = slice_from(
            path, (size_t)(open + slice_find_char(slice_from(path, (size_t)open), '}')) + 1);
    }
    buf_append(&out, path);
    slice text = arena_dup(arena, buf_slice(&out));
    buf_deinit(&out);
    return text;
}

static slice tool_name(struct arena *arena, const struct json *manifest, const struct json *action)
{
    return arena_printf(arena, "%.*s_%.*s",
                        SLICE_ARG(json_get_str(manifest, SLICE("integration_id"))),
                        SLICE_ARG(json_get_str(action, SLICE("action_id"))));
}

static void find_twins(struct bench *b, slice ours, slice imported)
{
    struct err err;
    const struct json *left = json_parse(&b->arena, ours, &json_limits_provider, &err);
    const struct json *right = json_parse(&b->arena, imported, &json_limits_provider, &err);
    const struct json *a = JSON_GET(left, "actions"), *i = JSON_GET(right, "actions");
    assert_true(json_is(a, JSON_ARRAY) && json_is(i, JSON_ARRAY));
    slice *operations = ARENA_ARRAY(&b->arena, slice, a->count);
    b->twins = ARENA_ARRAY(&b->arena, struct twin, a->count);
    for (uint32_t j = 0; j < a->count; j++)
        operations[j] = operation_of(&b->arena, json_at(a, j));
    for (uint32_t k = 0; k < i->count; k++) {
        slice operation = operation_of(&b->arena, json_at(i, k));
        for (uint32_t j = 0; j < a->count; j++)
            if (slice_eq(operations[j], operation) && b->twin_count < a->count)
                b->twins[b->twin_count++] =
                    (struct twin){tool_name(&b->arena, left, json_at(a, j)),
                                  tool_name(&b->arena, right, json_at(i, k))};
    }
}

/* Everything compiled in and the imported manifest. */
static void load_beside(struct bench *b, slice imported)
{
    struct catalog_source *sources =
        ARENA_ARRAY(&b->arena, struct catalog_source, embed_integrations_count + 1);
    size_t count = 0;
    for (size_t i = 0; i < embed_integrations_count; i++) {
        const slice text = slice_of(embed_integrations[i].data, embed_integrations[i].len);
        sources[count++] = (struct catalog_source){slice_cstr(embed_integrations[i].name), text};
        if (strcmp(embed_integrations[i].name, "github.json") == 0)
            find_twins(b, text, imported);
    }
    sources[count++] = (struct catalog_source){SLICE("imported.json"), imported};
    b->catalog = catalog_load(sources, count, &b->report);
    assert_non_null(b->catalog);
}

static void intents_find_their_actions_beside_a_large_import(void **state)
{
    struct bench *b = *state;
    struct import_options options = {.document = read_github(&b->arena)};
    struct import_result result;
    struct err err;
    if (options.document.len == 0) {
        print_message("%s is not there: npm ci in tests/e2e, or make test\n", github_document);
        skip();
    }
    assert_int_equal(catalog_import_openapi(&options, &result, &err), OK);
    load_beside(b, result.manifest);
    assert_true(result.imported > 1000 && b->twin_count > 20);
    judge_sets(b, "that and GitHub's description");
    catalog_import_free(&result);
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

/* The same, written after the floors were set, and reported only. */
static const char *const nothing_held_out[] = {
    "how long does an egg boil",
    "capital of mongolia",
    "repair a bicycle tyre",
    "lyrics of a christmas carol",
    "symptoms of the flu",
    "who painted the mona lisa",
    "grow tomatoes on a balcony",
    "convert miles to kilometres",
    "best pizza in naples",
    "teach my parrot to whistle",
    "phase of the moon tonight",
    "sharpen a kitchen knife",
    "roll two dice",
    "history of the roman empire",
    "is it raining outside",
    "wash a woollen jumper",
};

static unsigned count_empty(struct bench *b, const char *const *queries, size_t count)
{
    unsigned empty = 0;
    for (size_t i = 0; i < count; i++) {
        struct search_request request = {.query = slice_cstr(queries[i]),
                                         .with_integrations = true,
                                         .with_actions = true,
                                         .limit = 1};
        struct search_hit *hits;
        size_t found;
        assert_int_equal(catalog_search(b->catalog, &b->arena, &request, &hits, &found), OK);
        empty += found == 0;
        if (found > 0)
            print_message("search: \"%s\" found %.*s (%.2f)\n", queries[i],
                          SLICE_ARG(hits->action ? hits->action->tool_name
                                                 : hits->integration->integration_id),
                          (double)hits->score);
    }
    return empty;
}

static void queries_about_nothing_find_nothing(void **state)
{
    struct bench *b = *state;
    b->catalog = catalog_load_all(NULL, &b->report);
    assert_non_null(b->catalog);
    unsigned tuned = count_empty(b, nothing, ARRAY_LEN(nothing));
    unsigned held_out = count_empty(b, nothing_held_out, ARRAY_LEN(nothing_held_out));
    print_message("figure: of queries about nothing, %u of %zu find nothing; held out, %u of %zu\n",
                  tuned, ARRAY_LEN(nothing), held_out, ARRAY_LEN(nothing_held_out));
    assert_true(tuned * 100 >= ARRAY_LEN(nothing) * 95);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(intents_find_their_actions, setup, teardown),
        cmocka_unit_test_setup_teardown(intents_find_their_actions_beside_a_large_import, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(queries_about_nothing_find_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
