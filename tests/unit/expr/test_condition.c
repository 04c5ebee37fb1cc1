/*
 * What is known about a condition before there is a reply: its result for a status, and mistakes
 * that change its meaning.
 */
#include "expr/condition.h"
#include "unit.h"

static struct arena arena;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 1024 * 1024);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_deinit(&arena);
    return unit_end();
}

static const struct expr *compile(const char *text)
{
    struct err err;
    const struct expr *expr = expr_compile(&arena, slice_cstr(text), &err);
    if (!expr)
        fail_msg("%s: %s", text, err.text);
    return expr;
}

static enum expr_truth foresee(const char *text, int64_t status, const char *denied)
{
    struct json known = json_object();
    json_object_set(&arena, &known, SLICE("status"), json_i64(status));
    return expr_foresee(compile(text), &known, denied ? compile(denied) : NULL);
}

static void what_reads_only_what_is_known_is_evaluated(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t status;
        enum expr_truth truth;
    } cases[] = {
        {"`true`", 404, EXPR_TRUE},
        {"status", 404, EXPR_TRUE},
        {"body.x", 404, EXPR_EITHER},
        {"status == `404`", 404, EXPR_TRUE},
        {"status == `404`", 403, EXPR_FALSE},
        {"status>=`400`", 404, EXPR_TRUE},
        {"$.status != `404`", 404, EXPR_FALSE},
        {"contains(`[401, 403]`, status)", 403, EXPR_TRUE},
        {"status == `404` && body.x", 404, EXPR_EITHER},
        {"status == `404` && body.x", 403, EXPR_FALSE},
        {"body.x && status == `404`", 403, EXPR_FALSE},
        {"status == `404` || body.x", 404, EXPR_TRUE},
        {"body.x || status == `404`", 403, EXPR_EITHER},
        {"!(status == `404` || body.x)", 404, EXPR_FALSE},
        {"!body.x", 404, EXPR_EITHER},
        {"status == `404` && `null`", 404, EXPR_FALSE},
        {"body[?status == `404`]", 404, EXPR_EITHER},
        {"[status, body]", 404, EXPR_EITHER},
        {"length(status)", 404, EXPR_EITHER}, /* fails to evaluate, so the result is unknown */
        {"@", 404, EXPR_EITHER},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (foresee(cases[i].text, cases[i].status, NULL) != cases[i].truth)
            fail_msg("%s for %d", cases[i].text, (int)cases[i].status);
}

static void what_was_denied_before_is_false(void **state)
{
    (void)state;
    static const struct {
        const char *denied, *text;
        enum expr_truth truth;
    } cases[] = {
        {"body.x", "body.x", EXPR_FALSE},
        {"body . x", "body.x && body.y", EXPR_FALSE},
        {"body.x", "body.y && body.x", EXPR_FALSE},
        {"body.x || body.y", "body.y && status", EXPR_FALSE},
        {"body.x", "body.x || body.y", EXPR_EITHER},
        {"body.x && body.y", "body.x", EXPR_EITHER},
        {"body.x", "body.x.z", EXPR_EITHER},
        {"body.x == 'a'", "body.x == 'b'", EXPR_EITHER},
        {"body.x == 'a'", "body.x != 'a'", EXPR_EITHER},
        {"body[0]", "body[1]", EXPR_EITHER},
        {"body[:1]", "body[:2]", EXPR_EITHER},
        {"body[?a == `1`].b", "body[?a == `1`].b && body.y", EXPR_FALSE},
        {"body[?a == `1`].b", "body[?a == `2`].b", EXPR_EITHER},
        {"body[*].b", "body[*].c", EXPR_EITHER},
        {"contains(body.x, 'a')", "contains(body.x, 'a') && body.y", EXPR_FALSE},
        {"contains(body.x, 'a')", "starts_with(body.x, 'a')", EXPR_EITHER},
        {"map(&a, body)", "map(&b, body)", EXPR_EITHER},
        {"{a: body.x}", "{b: body.x}", EXPR_EITHER},
        {"body.x && body.y || body.z", "body.z", EXPR_FALSE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (foresee(cases[i].text, 404, cases[i].denied) != cases[i].truth)
            fail_msg("%s after %s", cases[i].text, cases[i].denied);
}

static void slips_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *text, *advice;
    } cases[] = {
        {"status == '401'", "write `401`"},
        {"'401' == status", "write `401`"},
        {"body.x && (status != '401' || body.y)", "write `401`"},
        {"$.status == '401'", "write `401`"},
        {"status == 'open'", "a number in backticks"},
        {"status == `\"401\"`", "write `401`"},
        {"status == \"401\"", "write `401`"},
        {"body.n == \"401\"", "write `401`"},
        {"body.ok == true", "write `true`"},
        {"body.ok == \"false\"", "write `false`"},
        {"null != body.ok", "write `null`"},
        {"body.items[?archived == true]", "write `true`"},
        {"length(body.items[?archived == true]) > `0`", "write `true`"},
        {"not_null(body.a, body.b == false)", "write `false`"},
        {"{a: body.b == false}", "write `false`"},
        {"map(&(a == false), body)", "write `false`"},
        {"body | x == false", "write `false`"},
        {"body[*].[a == false]", "write `false`"},
        {"status == `401`", NULL},
        {"body.status == '401'", NULL},
        {"body.items[?status == 'open']", NULL},
        {"body | status == 'open'", NULL},
        {"headers.\"x-left\" == '0'", NULL},
        {"body.true", NULL},
        {"body.ok == `true`", NULL},
        {"to_string(status) == '401'", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err err = {0};
        bool has_slip = expr_find_slip(compile(cases[i].text), &err);
        if (has_slip != (cases[i].advice != NULL) ||
            (has_slip && !strstr(err.text, cases[i].advice)))
            fail_msg("%s: %s", cases[i].text, has_slip ? err.text : "nothing was found");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_reads_only_what_is_known_is_evaluated, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_was_denied_before_is_false, set_up, tear_down),
        cmocka_unit_test_setup_teardown(slips_are_found, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
