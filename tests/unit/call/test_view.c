/*
 * What a reader sees of an output: its own select or the action's view, what a view leaves out, and
 * what remains if either fails.
 */
#include "call/fit.h"
#include "call/view.h"

#include "support/action_test.h"

#define ID "01020304-0506-7708-890a-0b0c0d0e0f10"

static const struct uuid id = {{1, 2, 3, 4, 5, 6, 0x77, 8, 0x89, 10, 11, 12, 13, 14, 15, 16}};

static const char mails[] =
    "{\"messages\":[{\"id\":\"a\",\"payload\":{\"x\":1},\"cc\":null,\"size\":0},"
    "{\"id\":\"b\",\"payload\":{\"x\":2},\"@odata.etag\":\"e\",\"cc\":\"c\",\"labels\":[]}],"
    "\"next\":null,\"estimate\":7}";

static const struct json *fit(struct bench *b, const char *output, struct call_fit wanted)
{
    slice fitted;
    slice summary = arena_printf(&b->arena, "{\"output\":%s,\"display\":{}}", output);
    wanted.execution_id = id;
    assert_int_equal(call_fit_summary(summary, &wanted, &b->arena, &fitted, NULL), OK);
    const struct json *got = json_parse(&b->arena, fitted, &json_limits_request, &b->err);
    assert_non_null(got);
    return got;
}

static void assert_is(struct bench *b, const struct json *got, const char *text)
{
    slice found = got ? json_text_of(got, &b->arena, 1024 * 1024) : SLICE("(none)");
    if (!got || !json_equal(got, bench_json(b, text)))
        fail_msg("%.*s", SLICE_ARG(found));
}

static void a_view_says_what_it_leaves_out(void **state)
{
    struct bench *b = *state;
    struct call_fit wanted = {.view = SLICE("{messages: messages[].{id: id, cc: cc}, next: next}")};
    const struct json *got = fit(b, mails, wanted);
    assert_is(b, JSON_GET(got, "output"),
              "{\"messages\":[{\"id\":\"a\"},{\"id\":\"b\",\"cc\":\"c\"}]}");
    assert_is(b, JSON_GET(got, "left_out"),
              "[\"messages[].payload\",\"messages[].size\",\"messages[].\\\"@odata.etag\\\"\","
              "\"estimate\"]");
    assert_non_null(JSON_GET(got, "display"));
    wanted.view = SLICE("@"); /* nothing is left out */
    assert_null(JSON_GET(fit(b, mails, wanted), "left_out"));
    wanted.view = SLICE("{messages: messages[?id=='b'].{id: id}, estimate: estimate}");
    assert_is(b, JSON_GET(fit(b, mails, wanted), "left_out"),
              "[\"messages[].payload\",\"messages[].size\",\"messages[].\\\"@odata.etag\\\"\","
              "\"messages[].cc\"]");
}

static void names_are_limited(void **state)
{
    struct bench *b = *state;
    const struct json *names = JSON_GET(
        fit(b,
            "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1,"
            "\"k\":1,\"l\":1,\"m\":1,\"n\":1}",
            (struct call_fit){.view = SLICE("{n: n}")}),
        "left_out");
    assert_int_equal(names->count, CALL_VIEW_NAMES_MAX + 1);
    assert_true(slice_eq_cstr(json_str(json_at(names, CALL_VIEW_NAMES_MAX)), "..."));
}

static void parts_are_those_of_what_is_shown(void **state)
{
    struct bench *b = *state;
    struct call_fit wanted = {.view = SLICE("{ids: messages[].id}"), .pointer = SLICE("/ids/1")};
    const struct json *got = fit(b, mails, wanted);
    assert_is(b, JSON_GET(got, "output"), "\"b\"");
    assert_null(JSON_GET(got, "left_out"));
    wanted = (struct call_fit){.select = SLICE("messages[].id"), .offset = 1};
    assert_is(b, JSON_GET(fit(b, mails, wanted), "output"), "[\"b\"]");
    wanted = (struct call_fit){.select = SLICE("messages[].cc"), .pointer = SLICE("/0")};
    assert_is(b, JSON_GET(fit(b, mails, wanted), "output"), "\"c\"");
}

static void the_address_of_a_cut_has_the_select(void **state)
{
    struct bench *b = *state;
    struct call_fit wanted = {.select = SLICE("messages[].[id, payload]"), .bytes_max = 20};
    const struct json *cut =
        json_at(JSON_GET(JSON_GET(fit(b, mails, wanted), "output"), "cuts"), 0);
    assert_true(slice_eq_cstr(json_get_str(cut, SLICE("more")),
                              "/api/executions/" ID
                              "?pointer=&offset=1&select=messages%5B%5D.%5Bid%2C%20payload%5D"));
    wanted = (struct call_fit){.is_full = true, .is_resource = true, .bytes_max = 20};
    cut = json_at(JSON_GET(JSON_GET(fit(b, mails, wanted), "output"), "cuts"), 0);
    assert_true(slice_ends_with(json_get_str(cut, SLICE("more")), SLICE("&view=full")));
}

/* The action has run, so its record has to stay reachable. */
static void a_select_that_fails_leaves_the_output_out(void **state)
{
    static const char *const bad[] = {
        "join(',', messages)",
        /* over the budget of visits */
        "map(&map(&map(&@, $.l), $.l), $.l)",
    };
    struct bench *b = *state;
    struct buf list;
    buf_init(&list, 1024 * 1024);
    buf_append_cstr(&list, "{\"messages\":[1],\"l\":[1");
    for (int i = 0; i < 400; i++)
        buf_append_cstr(&list, ",1");
    buf_append_cstr(&list, "]}");
    const char *output = arena_cstr(&b->arena, buf_slice(&list));
    buf_deinit(&list);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct call_fit wanted = {.select = slice_cstr(bad[i]), .bytes_max = 100};
        const struct json *got = fit(b, output, wanted);
        const struct json *cut = json_at(JSON_GET(JSON_GET(got, "output"), "cuts"), 0);
        assert_true(json_get_str(got, SLICE("select_error")).len > 0);
        assert_true(slice_eq_cstr(json_get_str(cut, SLICE("more")),
                                  "/api/executions/" ID "?pointer=&offset=0"));
    }
    assert_non_null(call_select_fault(SLICE("a["), &b->arena).ptr);
    assert_null(call_select_fault(SLICE("a[0]"), &b->arena).ptr);
}

static void a_view_that_fails_shows_all(void **state)
{
    struct bench *b = *state;
    const struct json *got =
        fit(b, "{\"a\":1}", (struct call_fit){.view = SLICE("{a: join(',', a)}")});
    assert_is(b, got, "{\"output\":{\"a\":1},\"display\":{}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(a_view_says_what_it_leaves_out),
        BENCH_TEST(names_are_limited),
        BENCH_TEST(parts_are_those_of_what_is_shown),
        BENCH_TEST(the_address_of_a_cut_has_the_select),
        BENCH_TEST(a_select_that_fails_leaves_the_output_out),
        BENCH_TEST(a_view_that_fails_shows_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
