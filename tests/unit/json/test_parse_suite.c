/*
 * JSONTestSuite: every y_ file parses and survives a round trip, and every n_ file is refused. Of
 * the i_ files (left to the implementation), 32 of 35 are parsed as a browser parses a provider's
 * reply; only UTF-16 is not. The files are in the corpora; without them the test is skipped.
 */
#include "support/json_test.h"

#include <dirent.h>

struct tally {
    size_t y, n, i;
    size_t i_accepted;
};

static void check_round_trip(struct arena *arena, const char *name, const struct json *value)
{
    struct buf out;
    buf_init(&out, 1024 * 1024);
    void (*const writers[])(struct buf *, const struct json *) = {json_write, json_write_pretty,
                                                                  json_write_sorted};
    for (size_t i = 0; i < ARRAY_LEN(writers); i++) {
        buf_clear(&out);
        writers[i](&out, value);
        assert_true(buf_is_ok(&out));
        struct err err = {0};
        struct json *again = json_parse(arena, buf_slice(&out), &json_limits_provider, &err);
        if (!again || !json_equal(value, again))
            fail_msg("%s: does not survive writer %zu: %s", name, i, err.text);
    }
    buf_deinit(&out);
}

static void check_file(struct arena *arena, const char *name, slice text, struct tally *tally)
{
    struct err err = {0};
    struct json *value = json_parse(arena, text, &json_limits_provider, &err);
    switch (name[0]) {
    case 'y':
        if (!value)
            fail_msg("%s must parse: %s", name, err.text);
        check_round_trip(arena, name, value);
        tally->y++;
        break;
    case 'n':
        if (value)
            fail_msg("%s must not parse", name);
        assert_true(err.code == ERR_SYNTAX || err.code == ERR_LIMIT);
        assert_non_null(strstr(err.text, "at byte "));
        tally->n++;
        break;
    default:
        if (value)
            check_round_trip(arena, name, value);
        tally->i++;
        tally->i_accepted += value != NULL;
        break;
    }
}

static void test_suite(void **state)
{
    struct arena *arena = *state;
    const char *folder = corpus_path(arena, "json/test_parsing");
    DIR *dir = opendir(folder);
    if (!dir) {
        print_message("no corpora at %s\n", folder);
        skip();
    }
    struct tally tally = {0};
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (!slice_ends_with(slice_cstr(entry->d_name), SLICE(".json")))
            continue;
        struct arena scratch;
        arena_init(&scratch, UNIT_ARENA_BYTES_MAX);
        slice path = arena_printf(&scratch, "%s/%s", folder, entry->d_name);
        slice text = read_file(&scratch, path.ptr);
        assert_non_null(text.ptr);
        check_file(&scratch, entry->d_name, text, &tally);
        arena_deinit(&scratch);
    }
    closedir(dir);
    print_message("JSONTestSuite: y_ %zu, n_ %zu, i_ %zu (%zu accepted)\n", tally.y, tally.n,
                  tally.i, tally.i_accepted);
    assert_int_equal(tally.y, 95);
    assert_int_equal(tally.n, 188);
    assert_int_equal(tally.i, 35);
    assert_int_equal(tally.i_accepted, 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {ARENA_TEST(test_suite)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
