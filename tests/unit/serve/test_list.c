/* serve/list: the arguments that a list accepts, the errors for other arguments, and where pages
 * end. */
#include "base/clock.h"
#include "serve/list.h"
#include "unit.h"

enum { STATUS, APP, KEY, NOTE, SINCE, UNTIL, Q, BEFORE };
static const struct serve_filter filters[SERVE_FILTERS_MAX] = {
    [STATUS] = {.name = "status", .words = "done key.made key.lost"},
    [APP] = {.name = "app", SERVE_A_WORD},
    [KEY] = {.name = "key", .kind = SERVE_ID, .wanted = "an id"},
    [NOTE] = {.name = "note", .wanted = "a text"},
    [SINCE] = {.name = "since", SERVE_A_SINCE},
    [UNTIL] = {.name = "until", SERVE_A_UNTIL},
    [Q] = {.name = "q", SERVE_A_SEARCH},
    [BEFORE] = {.name = "before", .kind = SERVE_CURSOR, .wanted = "an id", .is_quoted = true}};

#define ID "019a1b2c-3d4e-7f50-8a61-72839405a6bd"
static const struct uuid nil;

static struct uuid at(int64_t ms)
{
    return uuid_v7_floor(ms);
}

static int read_one(struct serve_list *list, int place, slice value)
{
    *list = (struct serve_list){0};
    list->values[place] = value;
    return serve_list_read(list, filters);
}

static void an_argument_is_of_its_kind(void **state)
{
    static const struct {
        int place;
        const char *value;
        int choice; /* -2: refused */
    } cases[] = {{STATUS, "done", 0},
                 {STATUS, "key.made", 1},
                 {STATUS, "key.lost", 2},
                 {STATUS, "key", 1},
                 {STATUS, "key.", -2},
                 {STATUS, "ke", -2},
                 {STATUS, "made", -2},
                 {STATUS, "done key.made", -2},
                 {STATUS, "DONE", -2},
                 {APP, "gmail", -1},
                 {APP, "a b", -2},
                 {APP, "\xc3\xa9", -2},
                 {KEY, ID, -1},
                 {KEY, "x", -2},
                 {KEY, "00000000-0000-0000-0000-000000000000", -2},
                 {NOTE, "a b \xc3\xa9", -1},
                 {NOTE, "\xff", -2},
                 {SINCE, "2026-01-31T09:00:00+01:00", -1},
                 {SINCE, "2026-01-31", -1},
                 {SINCE, "90m", -1},
                 {SINCE, "1000000d", -1},
                 {SINCE, "1000001d", -2},
                 {SINCE, "2026-02-30", -2},
                 {SINCE, "24", -2},
                 {SINCE, "h", -2},
                 {SINCE, "-1h", -2},
                 {SINCE, "1.5h", -2},
                 {SINCE, "1w", -2},
                 {UNTIL, "2026-01-31", -1},
                 {UNTIL, "1.5h", -2},
                 {Q, "ada@example.com, \"Hello\"", -1},
                 {Q, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", -1},
                 {Q, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17", -2},
                 {Q, ID, -1},
                 {Q, "!?", -2},
                 {Q, "a\tb", -2},
                 {Q,
                  "a\x7f"
                  "b",
                  -2},
                 {Q, "\xff", -2},
                 {BEFORE, ID, -1},
                 {BEFORE, "7", -2}};
    struct serve_list list;
    char longest[201];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int wrong = read_one(&list, cases[i].place, slice_cstr(cases[i].value));
        if (wrong != (cases[i].choice == -2 ? cases[i].place : -1))
            fail_msg("%s: %d", cases[i].value, wrong);
        if (wrong < 0)
            assert_int_equal(list.choices[cases[i].place], cases[i].choice);
    }
    assert_int_equal(read_one(&list, NOTE, SLICE("a\0b")), NOTE);
    assert_int_equal(read_one(&list, Q, SLICE("a\0b")), Q);
    memset(longest, 'x', sizeof(longest));
    assert_int_equal(read_one(&list, Q, slice_of(longest, 200)), -1);
    assert_int_equal(read_one(&list, Q, slice_of(longest, 201)), Q);
    assert_int_equal(read_one(&list, APP, slice_of(longest, 200)), -1);
    assert_int_equal(read_one(&list, APP, slice_of(longest, 201)), APP);
    assert_int_equal(read_one(&list, APP, SLICE_NONE), -1);
    assert_int_equal(list.choices[STATUS], -1);
}

static void a_list_begins_at_a_time_a_date_or_an_age(void **state)
{
    struct serve_list list;
    (void)state;
    assert_int_equal(read_one(&list, SINCE, SLICE("2026-01-31T09:00:00+01:00")), -1);
    assert_int_equal(uuid_v7_wall_ms(list.page.since), INT64_C(1769846400000));
    assert_int_equal(read_one(&list, SINCE, SLICE("2026-01-31")), -1);
    assert_int_equal(uuid_v7_wall_ms(list.page.since), INT64_C(1769817600000));
    int64_t now_ms = clock_shared_us() / 1000;
    assert_int_equal(read_one(&list, SINCE, SLICE("2d")), -1);
    int64_t age_ms = now_ms - uuid_v7_wall_ms(list.page.since);
    assert_in_range(age_ms, 2 * 24 * 3600 * 1000 - 60 * 1000, 2 * 24 * 3600 * 1000);
    assert_int_equal(read_one(&list, SINCE, SLICE("1000000d")), -1); /* before 1970 */
    assert_int_equal(uuid_v7_wall_ms(list.page.since), 0);
    assert_true(uuid_is_nil(list.page.before));
}

/* A date ends with its day. A cursor beyond the end does not extend the list. */
static void a_list_ends_at_a_time_or_with_a_day(void **state)
{
    struct serve_list list;
    (void)state;
    assert_int_equal(read_one(&list, UNTIL, SLICE("2026-01-31")), -1);
    assert_int_equal(uuid_v7_wall_ms(list.until), INT64_C(1769904000000));
    list.limit = 25;
    assert_true(uuid_eq(serve_list_scan(&list)->before, list.until));
    assert_int_equal(read_one(&list, UNTIL, SLICE("2026-01-31T09:00:00Z")), -1);
    assert_int_equal(uuid_v7_wall_ms(list.until), INT64_C(1769850000000));
    list.limit = 25;
    list.page.before = at(INT64_C(1769850000001));
    assert_true(uuid_eq(serve_list_scan(&list)->before, list.until));
    list.scan.count_max = 0;
    list.page.before = at(INT64_C(1769849999999));
    assert_true(uuid_eq(serve_list_scan(&list)->before, at(INT64_C(1769849999999))));
}

/* An id has no words: the list's range is the row with that id, within the range that was given. */
static void a_search_is_for_words_or_an_id(void **state)
{
    struct arena *arena = *state;
    struct vault_ring *ring;
    struct serve_list list;
    struct err err;
    struct buf key;
    buf_init(&key, 100);
    vault_master_key_new(&key);
    ring = vault_ring_new(buf_slice(&key), &err);
    assert_non_null(ring);
    assert_int_equal(read_one(&list, Q, SLICE("Hello")), -1);
    assert_true(serve_list_words(&list, Q, ring, nil, arena).len > 2);
    assert_int_equal(read_one(&list, Q, SLICE_NONE), -1);
    assert_null(serve_list_words(&list, Q, ring, nil, arena).ptr);
    assert_int_equal(read_one(&list, Q, SLICE(ID)), -1);
    assert_null(serve_list_words(&list, Q, ring, nil, arena).ptr);
    list.limit = 25;
    list.scans_left = 3;
    struct store_page scan = *serve_list_scan(&list);
    assert_true(uuid_eq(scan.since, list.id) && uuid_eq(list.id, scan.since));
    assert_int_equal(scan.before.bytes[15], list.id.bytes[15] + 1);
    assert_memory_equal(scan.before.bytes, list.id.bytes, 15);
    /* if no row has it, it is a word, within the range before */
    assert_true(serve_list_continues(&list, nil));
    assert_true(serve_list_words(&list, Q, ring, nil, arena).len > 2);
    assert_int_equal(uuid_v7_wall_ms(serve_list_scan(&list)->before) -
                         uuid_v7_wall_ms(list.scan.since),
                     SERVE_RECENT_MS);
    assert_int_equal(read_one(&list, Q, SLICE("019a1b2c-3d4e-7f50-8a61-7283ffffffff")), -1);
    list.limit = 25;
    assert_int_equal(serve_list_scan(&list)->before.bytes[11], list.id.bytes[11] + 1);
    assert_int_equal(list.page.before.bytes[12], 0);
    vault_ring_free(ring);
    buf_deinit(&key);
}

static void expect(struct arena *arena, int place, slice value, const char *wanted)
{
    slice text = serve_filter_refusal(&filters[place], value, arena);
    if (!slice_eq_cstr(text, wanted))
        fail_msg("%.*s, not %s", SLICE_ARG(text), wanted);
}

static void a_refusal_says_what_is_wanted(void **state)
{
    struct arena *arena = *state;
    expect(arena, STATUS, SLICE("x"), "status must be one of: done key.made key.lost");
    expect(arena, APP, SLICE("x%s"), "app must be a word of at most 200 characters");
    expect(arena, BEFORE, SLICE("%s\""), "before must be an id, got \"%s\\\"\"");
}

/* The first scan ends where the rest begins, for any bounds. */
static void a_page_begins_with_what_is_recent(void **state)
{
    enum { DAY_MS = SERVE_RECENT_MS / 2 };
    const int64_t now_ms = clock_shared_us() / 1000;
    struct serve_list list = {.limit = 25, .scans_left = 3};
    (void)state;
    struct store_page scan = *serve_list_scan(&list);
    /* a margin for ids from clocks that are ahead */
    assert_in_range(uuid_v7_wall_ms(scan.before), now_ms + DAY_MS, now_ms + DAY_MS + 60000);
    assert_int_equal(uuid_v7_wall_ms(scan.before) - uuid_v7_wall_ms(scan.since), SERVE_RECENT_MS);
    assert_int_equal(scan.count_max, 26);
    assert_true(serve_list_continues(&list, nil));
    assert_true(uuid_eq(serve_list_scan(&list)->before, scan.since));
    assert_true(uuid_is_nil(list.scan.since));
    assert_false(serve_list_continues(&list, nil));
    assert_true(uuid_is_nil(list.next));
    /* the scan does not begin earlier than requested */
    list = (struct serve_list){.limit = 25, .scans_left = 3, .page.since = at(now_ms)};
    assert_true(uuid_eq(serve_list_scan(&list)->since, at(now_ms)));
    assert_false(serve_list_continues(&list, nil));
    /* a page that continues at a cursor */
    list = (struct serve_list){.limit = 25, .scans_left = 3, .page.before = at(1)};
    assert_true(uuid_cmp(serve_list_scan(&list)->since, at(1)) <= 0);
}

static void a_full_page_ends_at_its_last_row(void **state)
{
    struct serve_list list = {.limit = 2, .scans_left = 3};
    (void)state;
    (void)serve_list_scan(&list);
    assert_true(serve_list_take(&list, at(9000)));
    assert_true(serve_list_continues(&list, at(8000))); /* the scan was cut there */
    assert_int_equal(serve_list_scan(&list)->count_max, 2);
    assert_true(uuid_eq(list.scan.before, at(8000)) && uuid_is_nil(list.scan.since));
    assert_true(serve_list_take(&list, at(7000)));
    assert_false(serve_list_take(&list, at(6000)));
    assert_false(serve_list_continues(&list, at(6000)));
    assert_true(uuid_eq(list.next, at(7000)));
    assert_int_equal(list.count, 2);
}

/* As many rows as allowed and none after them: there is no next page. */
static void a_page_that_just_fits_is_the_last(void **state)
{
    struct serve_list list = {.limit = 1, .scans_left = 2};
    (void)state;
    (void)serve_list_scan(&list);
    assert_true(serve_list_take(&list, at(9000)));
    assert_true(serve_list_continues(&list, nil));
    (void)serve_list_scan(&list);
    assert_false(serve_list_continues(&list, nil));
    assert_true(uuid_is_nil(list.next));
}

static void a_page_reads_in_few_scans(void **state)
{
    struct serve_list list = {.limit = 1000, .scans_left = 2, .page.before = at(1LL << 40)};
    (void)state;
    assert_int_equal(serve_list_scan(&list)->count_max, STORE_PAGE_COUNT_MAX);
    assert_true(serve_list_continues(&list, at(5000)));
    (void)serve_list_scan(&list);
    assert_false(serve_list_continues(&list, at(4000)));
    assert_true(uuid_eq(list.next, at(4000)));
    list = (struct serve_list){.limit = 1, .scans_left = 1, .is_sieved = true};
    assert_int_equal(serve_list_scan(&list)->count_max, STORE_PAGE_COUNT_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(an_argument_is_of_its_kind),
        ARENA_TEST(a_search_is_for_words_or_an_id),
        ARENA_TEST(a_refusal_says_what_is_wanted),
        UNIT_TEST(a_page_begins_with_what_is_recent),
        UNIT_TEST(a_full_page_ends_at_its_last_row),
        UNIT_TEST(a_page_that_just_fits_is_the_last),
        UNIT_TEST(a_page_reads_in_few_scans),
        UNIT_TEST(a_list_begins_at_a_time_a_date_or_an_age),
        UNIT_TEST(a_list_ends_at_a_time_or_with_a_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
