/*
 * A scan of the text finds what the parsed tree has, in every valid text of the suite, and reads no
 * byte outside of an invalid text.
 */
#include <dirent.h>

#include "json/scan.h"
#include "support/json_test.h"

static slice scan(struct arena *arena, const char *text, const char *pointer)
{
    return json_scan_pointer(slice_cstr(text), slice_cstr(pointer), arena);
}

static void values_end_where_they_end(void **state)
{
    static const char *const values[] = {
        "null",
        "-1.5e3",
        "\"\"",
        "\"a\\\"b\"",
        "\"\\\\\"",
        "\"\\\\\\\"\"",
        "[]",
        "{}",
        "[1,[2,{\"]\":\"}\"}]]",
        "{\"a\":\"\\\\\",\"b\":[\"{\"]}",
        "true",
    };
    struct arena *arena = *state;
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        slice text = arena_printf(arena, " \t%s ,{\"x\":1}", values[i]);
        assert_text(json_scan_value(text), values[i]);
        text = arena_printf(arena, "%s]", values[i]);
        assert_text(json_scan_value(text), values[i]);
        assert_text(json_scan_value(slice_cstr(values[i])), values[i]);
    }
    assert_null(json_scan_value(SLICE("")).ptr);
    assert_null(json_scan_value(SLICE(" \n")).ptr);
    assert_null(json_scan_value(SLICE(",1")).ptr);
}

static void members_and_pointers(void **state)
{
    struct arena *arena = *state;
    const char *text = "{ \"foo\" : [\"bar\", \"baz\"] ,\"\":0,\"a/b\":1,\"m~n\":8,\"k\\\"l\":6,"
                       "\"caf\\u00e9\":9,\"nest\":{\"\":{\"x\":10}}}";
    assert_text(scan(arena, text, ""), text);
    assert_text(scan(arena, text, "/foo"), "[\"bar\", \"baz\"]");
    assert_text(scan(arena, text, "/foo/1"), "\"baz\"");
    assert_text(scan(arena, text, "/"), "0");
    assert_text(scan(arena, text, "/a~1b"), "1");
    assert_text(scan(arena, text, "/m~0n"), "8");
    assert_text(scan(arena, text, "/k\"l"), "6");
    assert_text(scan(arena, text, "/caf\xc3\xa9"), "9");
    assert_text(scan(arena, text, "/nest//x"), "10");
    static const char *const nowhere[] = {"foo",   "/foo/2", "/foo/-", "/foo/00",  "/foo/x",
                                          "/foo/", "/m~n",   "/bar",   "/foo/0/x", "/nest/x"};
    for (size_t i = 0; i < ARRAY_LEN(nowhere); i++)
        assert_null(scan(arena, text, nowhere[i]).ptr);
    assert_text(json_scan_get(slice_cstr(text), SLICE("caf\xc3\xa9"), arena), "9");
    assert_null(json_scan_get(SLICE("[1]"), SLICE("a"), arena).ptr);
    assert_int_equal(json_scan_count(slice_cstr(text)), 7);
    assert_int_equal(json_scan_count(SLICE("[ ]")), 0);
    assert_int_equal(json_scan_count(SLICE("3")), 0);
}

static void walk_beside_tree(struct arena *arena, slice text, const struct json *tree)
{
    struct json_scan walk;
    slice key, value;
    json_scan_open(&walk, text);
    if (tree->type == JSON_STRING)
        assert_true(slice_eq(json_scan_str(text, arena), json_str(tree)));
    for (uint32_t i = 0; tree->type >= JSON_ARRAY && i < tree->count; i++) {
        assert_true(json_scan_next(&walk, &key, &value));
        if (tree->type == JSON_OBJECT) {
            assert_true(slice_eq(json_scan_str(key, arena), json_str(&tree->as.members[i].key)));
            walk_beside_tree(arena, value, &tree->as.members[i].value);
        } else {
            walk_beside_tree(arena, value, &tree->as.items[i]);
        }
    }
    assert_false(json_scan_next(&walk, &key, &value));
}

/* Scans every prefix of the text, in a block of memory that ends where the prefix does. */
static void stays_inside(slice text)
{
    struct json_scan walk;
    slice key, value;
    for (size_t len = 1; len <= text.len && len < 300; len++) {
        char *copy = mem_alloc(len);
        assert_non_null(copy);
        memcpy(copy, text.ptr, len);
        json_scan_open(&walk, slice_of(copy, len));
        while (json_scan_next(&walk, &key, &value))
            assert_in_range(value.ptr, copy, copy + len);
        value = json_scan_value(slice_of(copy, len));
        assert_true(value.len <= len);
        mem_free(copy);
    }
}

static void the_suite_is_walked_as_parsed(void **state)
{
    struct arena *arena = *state;
    const char *folder = corpus_path(arena, "json/test_parsing");
    DIR *dir = opendir(folder);
    size_t walked = 0;
    if (!dir)
        skip();
    for (struct dirent *entry; (entry = readdir(dir));) {
        slice text = read_file(arena, arena_printf(arena, "%s/%s", folder, entry->d_name).ptr);
        if (!text.ptr || text.len > 100000)
            continue;
        stays_inside(text);
        /* as for stored text, which sluice wrote and which needs no repair */
        struct json_limits limits = json_limits_provider;
        limits.mend_text = false;
        const struct json *tree = json_parse(arena, text, &limits, NULL);
        if (!tree)
            continue;
        struct buf canonical; /* each name once */
        buf_init(&canonical, 1024 * 1024);
        json_write(&canonical, tree);
        walk_beside_tree(arena, json_scan_value(buf_slice(&canonical)), tree);
        if (tree->type != JSON_OBJECT)
            walk_beside_tree(arena, json_scan_value(text), tree);
        buf_deinit(&canonical);
        walked++;
    }
    (void)closedir(dir);
    assert_true(walked >= 95);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(values_end_where_they_end),
        ARENA_TEST(members_and_pointers),
        ARENA_TEST(the_suite_is_walked_as_parsed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
