/*
 * The part of a large output that is returned to its reader, and how to read the rest.
 */
#include "call/fit.h"

#include "support/action_test.h"

static slice fitted, output;

static struct call_fit wanted = {
    .execution_id = {{1, 2, 3, 4, 5, 6, 0x77, 8, 0x89, 10, 11, 12, 13, 14, 15, 16}}};

static slice summary_of(struct bench *b, const char *text)
{
    return arena_printf(
        &b->arena, "{\"status\":\"succeeded\",\"output\":%s,\"display\":{\"title\":\"t\"}}", text);
}

static const struct json *fit(struct bench *b, const char *text, size_t bytes_max,
                              const char *pointer, uint64_t offset)
{
    wanted.bytes_max = bytes_max;
    wanted.pointer = slice_cstr(pointer);
    wanted.offset = offset;
    assert_int_equal(call_fit_summary(summary_of(b, text), &wanted, &b->arena, &fitted, &output),
                     OK);
    const struct json *summary = json_parse(&b->arena, fitted, &json_limits_request, &b->err);
    assert_non_null(summary);
    const struct json *got = JSON_GET(summary, "output");
    assert_true(slice_eq_cstr(json_get_str(summary, SLICE("status")), "succeeded"));
    assert_non_null(JSON_GET(summary, "display"));
    if (output.ptr)
        assert_true(json_equal(json_parse(&b->arena, output, &json_limits_request, &b->err), got));
    return got;
}

static void assert_json(struct bench *b, const struct json *got, const char *text)
{
    struct buf shown;
    if (got && json_equal(got, bench_json(b, text)))
        return;
    buf_init(&shown, 1024 * 1024);
    json_write(&shown, got ? got : &json_null);
    print_error("%.*s\n", SLICE_ARG(buf_slice(&shown)));
    buf_deinit(&shown);
    fail();
}

/* Every truncated value is listed with its position, and the preview stays within the budget. */
static const struct json *preview(struct bench *b, const struct json *cut, size_t bytes_max)
{
    struct buf text;
    assert_true(json_get_bool(cut, SLICE("truncated"), false));
    assert_int_equal(json_get_i64(cut, SLICE("max_output_bytes"), 0), bytes_max);
    assert_true(json_get_i64(cut, SLICE("bytes"), 0) > (int64_t)bytes_max);
    assert_true(JSON_GET(cut, "cuts")->count > 0);
    const struct json *shown = JSON_GET(cut, "preview");
    buf_init(&text, 64 * 1024 * 1024);
    json_write(&text, shown);
    assert_in_range(text.len, 1, bytes_max);
    buf_deinit(&text);
    (void)b;
    return shown;
}

static void what_fits_is_left_alone(void **state)
{
    struct bench *b = *state;
    const char *text = "{\"a\":[1,2,\"\\u0000\\n\\\"\"],\"n\":123456789012345678901234567890}";
    slice summary = summary_of(b, text);
    for (size_t bytes_max = strlen(text); bytes_max < 200; bytes_max++) {
        (void)fit(b, text, bytes_max, NULL, 0);
        assert_true(slice_eq(fitted, summary));
        assert_null(output.ptr);
    }
    (void)fit(b, text, 0, NULL, 0);
    assert_true(slice_eq(fitted, summary));
    /* one byte less does not fit: sizes are exact */
    assert_true(json_get_bool(fit(b, text, strlen(text) - 1, NULL, 0), SLICE("truncated"), false));
}

static void arrays_keep_their_first_items(void **state)
{
    struct bench *b = *state;
    const struct json *cut =
        fit(b,
            "{\"next\":\"n\",\"list\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,"
            "24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,"
            "52,53,54]}",
            120, NULL, 0);
    const struct json *shown = preview(b, cut, 120);
    assert_true(slice_eq_cstr(json_get_str(shown, SLICE("next")), "n"));
    uint32_t kept = JSON_GET(shown, "list")->count;
    assert_in_range(kept, 20, 45);
    char wanted_text[300];
    (void)snprintf(wanted_text, sizeof(wanted_text),
                   "[{\"pointer\":\"/list\",\"kept\":%u,\"of\":54,\"more\":\"/api/executions/"
                   "01020304-0506-7708-890a-0b0c0d0e0f10?pointer=%%2Flist&offset=%u\"}]",
                   kept, kept);
    assert_json(b, JSON_GET(cut, "cuts"), wanted_text);
    /* the part that the hint says to fetch is the rest */
    char rest[400] = "[";
    for (uint32_t i = kept; i < 54; i++)
        (void)snprintf(rest + strlen(rest), sizeof(rest) - strlen(rest), "%s%u",
                       i > kept ? "," : "", i + 1);
    (void)strncat(rest, "]", sizeof(rest) - strlen(rest) - 1);
    struct buf text;
    buf_init(&text, 4096);
    buf_append_cstr(&text, "{\"next\":\"n\",\"list\":[1");
    for (int i = 2; i <= 54; i++)
        buf_printf(&text, ",%d", i);
    buf_append_cstr(&text, "]}");
    assert_json(b, fit(b, arena_cstr(&b->arena, buf_slice(&text)), 4096, "/list", kept), rest);
    buf_deinit(&text);
}

static void a_long_member_does_not_push_out_the_others(void **state)
{
    struct bench *b = *state;
    char text[3000];
    (void)snprintf(text, sizeof(text),
                   "{\"a\":\"%0900d\",\"id\":7,\"b\":\"%0900d\",\"to\":[\"x\",\"y\"]}", 1, 2);
    const struct json *cut = fit(b, text, 600, NULL, 0), *shown = preview(b, cut, 600);
    assert_int_equal(shown->count, 4);
    assert_int_equal(json_get_i64(shown, SLICE("id"), 0), 7);
    assert_in_range(json_get_str(shown, SLICE("a")).len, 200, 300);
    assert_in_range(json_get_str(shown, SLICE("b")).len, 200, 300);
    assert_int_equal(JSON_GET(cut, "cuts")->count, 2);
}

static void rows_are_cut_before_texts(void **state)
{
    struct bench *b = *state;
    struct buf text;
    buf_init(&text, 65536);
    buf_append_cstr(&text, "{\"note\":\"");
    for (int i = 0; i < 600; i++)
        buf_append_char(&text, 'n');
    buf_append_cstr(&text, "\",\"rows\":[0");
    for (int i = 1; i < 400; i++)
        buf_printf(&text, ",%d", i);
    buf_append_cstr(&text, "]}");
    const char *whole = arena_cstr(&b->arena, buf_slice(&text));
    buf_deinit(&text);
    const struct json *cut = fit(b, whole, 1000, NULL, 0), *shown = preview(b, cut, 1000);
    assert_int_equal(json_str(JSON_GET(shown, "note")).len, 600);
    assert_in_range(JSON_GET(shown, "rows")->count, 50, 150);
    assert_int_equal(JSON_GET(cut, "cuts")->count, 1);
    /* the text leaves too little for rows, so both are cut */
    cut = fit(b, whole, 700, NULL, 0);
    shown = preview(b, cut, 700);
    assert_in_range(json_str(JSON_GET(shown, "note")).len, 300, 400);
    assert_in_range(JSON_GET(shown, "rows")->count, 50, 150);
    assert_int_equal(JSON_GET(cut, "cuts")->count, 2);
}

static void strings_are_cut_at_characters(void **state)
{
    struct bench *b = *state;
    for (size_t bytes_max = 80; bytes_max < 100; bytes_max++) {
        char text[1000] = "\"";
        for (int i = 0; i < 60; i++)
            (void)strncat(text, "\xf0\x9f\x98\x80\\n", sizeof(text) - strlen(text) - 1);
        (void)strncat(text, "\"", sizeof(text) - strlen(text) - 1);
        const struct json *cut = fit(b, text, bytes_max, NULL, 0);
        const struct json *shown = preview(b, cut, bytes_max);
        uint64_t kept = (uint64_t)json_get_i64(json_at(JSON_GET(cut, "cuts"), 0), SLICE("kept"), 0);
        assert_int_equal(kept, shown->count);
        assert_in_range(shown->count, bytes_max / 2, bytes_max);
        const struct json *rest = fit(b, text, 0, NULL, kept);
        assert_int_equal(rest->count + shown->count, 60 * 5);
    }
}

static void hostile_values_are_cut_in_bounds(void **state)
{
    struct bench *b = *state;
    struct buf text;
    buf_init(&text, 8 * 1024 * 1024);
    for (int i = 0; i < 300; i++) /* deeply nested */
        buf_append_cstr(&text, "[");
    for (int i = 0; i < 300; i++)
        buf_append_cstr(&text, "]");
    (void)preview(b, fit(b, arena_cstr(&b->arena, buf_slice(&text)), 100, NULL, 0), 100);
    buf_clear(&text);
    buf_append_cstr(&text, "{\"x\":0"); /* many members, none of which is large */
    for (int i = 0; i < 20000; i++)
        buf_printf(&text, ",\"key%d\":{\"v\":\"some text\"}", i);
    buf_append_cstr(&text, "}");
    const struct json *cut = fit(b, arena_cstr(&b->arena, buf_slice(&text)), 5000, NULL, 0);
    assert_in_range(preview(b, cut, 5000)->count, 100, 250);
    buf_clear(&text);
    buf_append_cstr(&text, "[\""); /* an array with one text of escapes */
    for (int i = 0; i < 20000; i++)
        buf_append_cstr(&text, "\\u0001");
    buf_append_cstr(&text, "\"]");
    cut = fit(b, arena_cstr(&b->arena, buf_slice(&text)), 1000, NULL, 0);
    assert_in_range(json_at(preview(b, cut, 1000), 0)->count, 100, 170);
    buf_clear(&text);
    buf_append_cstr(&text, "[");
    for (int i = 0; i < 400; i++) /* a truncated value in each item, too many to list */
        buf_printf(&text, "%s{\"a\":%d}", i ? "," : "", i);
    buf_append_cstr(&text, "]");
    for (size_t bytes_max = 1; bytes_max < 40; bytes_max++) {
        cut = fit(b, arena_cstr(&b->arena, buf_slice(&text)), bytes_max, NULL, 0);
        assert_true(JSON_GET(cut, "cuts")->count <= CALL_FIT_CUTS_MAX);
    }
    buf_deinit(&text);
}

static void a_part_is_given_alone(void **state)
{
    struct bench *b = *state;
    const char *text = "{\"a/b\":[{\"x\":\"abc\\u00e9f\"},2,3],\"o\":{\"p\":1,\"q\":2}}";
    assert_json(b, fit(b, text, 0, "/a~1b/0/x", 0), "\"abc\\u00e9f\"");
    assert_json(b, fit(b, text, 0, "/a~1b/0/x", 4), "\"f\"");
    assert_json(b, fit(b, text, 0, "/a~1b/0/x", 99), "\"\"");
    assert_json(b, fit(b, text, 0, "/a~1b", 1), "[2,3]");
    assert_json(b, fit(b, text, 0, "/a~1b", 99), "[]");
    assert_json(b, fit(b, text, 0, "/o", 1), "{\"q\":2}");
    assert_json(b, fit(b, text, 0, "/o/q", 5), "2");
    assert_json(b, fit(b, text, 1000, "/o", 0), "{\"p\":1,\"q\":2}");
    static const char *const nowhere[] = {"/x", "o", "/a~1b/3", "/o/p/q"};
    for (size_t i = 0; i < ARRAY_LEN(nowhere); i++) {
        wanted.pointer = slice_cstr(nowhere[i]);
        assert_int_equal(
            call_fit_summary(summary_of(b, text), &wanted, &b->arena, &fitted, &output),
            ERR_NOTFOUND);
    }
    wanted.pointer = SLICE("/a");
    assert_int_equal(
        call_fit_summary(SLICE("{\"status\":\"failed\"}"), &wanted, &b->arena, &fitted, NULL),
        ERR_NOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(what_fits_is_left_alone),
        BENCH_TEST(arrays_keep_their_first_items),
        BENCH_TEST(a_long_member_does_not_push_out_the_others),
        BENCH_TEST(rows_are_cut_before_texts),
        BENCH_TEST(strings_are_cut_at_characters),
        BENCH_TEST(hostile_values_are_cut_in_bounds),
        BENCH_TEST(a_part_is_given_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
