/*
 * The public JMESPath compliance suite: every case that is not a benchmark returns its result, or
 * fails with the category that it names. Each case runs again with an arena that fails at some
 * allocation, and must end in the same way or with a correct "memory".
 */
#include "expr_test.h"

static const char *const files[] = {"basic",     "boolean",     "current", "escape",  "filters",
                                    "functions", "identifiers", "indices", "literal", "multiselect",
                                    "pipe",      "slice",       "syntax",  "unicode", "wildcard"};

enum { CASES = 892 };

static struct json *read_file(struct arena *arena, const char *name)
{
    const char *folder = getenv("SLUICE_CORPORA");
    char path[512];
    snprintf(path, sizeof path, "%s/jmespath/%s.json", folder ? folder : "../shared/corpora", name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    static char text[1 << 20];
    size_t len = fread(text, 1, sizeof text, file);
    fclose(file);
    assert_true(len > 0 && len < sizeof text);
    struct err err = {OK, ""};
    struct json *value = json_parse(arena, slice_of(text, len), &json_limits_provider, &err);
    if (!value)
        fail_msg("%s: %s", path, err.text);
    return value;
}

/* "" if the case passed, otherwise a description of what happened. */
static const char *run_case(struct bench *b, const struct json *given, const struct json *one)
{
    const struct json *wanted = JSON_GET(one, "result");
    slice error = json_get_str(one, SLICE("error")),
          source = json_get_str(one, SLICE("expression"));
    enum expr_fault fault = EXPR_FAULT_NONE;
    struct json result = json_null;
    struct expr *expr = expr_compile_fault(&b->arena, source, &fault, &b->err);
    if (expr) {
        expr_budget_init(&b->budget);
        int rc = expr_eval(expr, given, given, &b->budget, &b->arena, &result, &b->err);
        fault = b->budget.fault;
        assert_int_equal(rc == OK, fault == EXPR_FAULT_NONE);
    }
    if (fault != EXPR_FAULT_NONE)
        return slice_eq_cstr(error, expr_fault_name(fault)) ? "" : b->err.text;
    return wanted && json_equal(&result, wanted) ? "" : bench_text(b, &result);
}

/* In an arena that fills up, an evaluation may only end with the same result or with "memory". */
static void run_starved(const struct json *given, const struct json *one, size_t bytes_max)
{
    struct arena arena;
    struct err err = {OK, ""};
    struct json result;
    struct expr_budget budget;
    enum expr_fault fault;
    arena_init(&arena, bytes_max);
    expr_budget_init(&budget);
    slice error = json_get_str(one, SLICE("error"));
    struct expr *expr =
        expr_compile_fault(&arena, json_get_str(one, SLICE("expression")), &fault, &err);
    if (expr && expr_eval(expr, given, given, &budget, &arena, &result, &err) == OK)
        assert_true(json_equal(&result, JSON_GET(one, "result")));
    else if (expr)
        fault = budget.fault;
    if (fault != EXPR_FAULT_NONE && fault != EXPR_FAULT_MEMORY)
        assert_true(slice_eq_cstr(error, expr_fault_name(fault)));
    arena_deinit(&arena);
}

static void each_case(void **state)
{
    struct bench *b = *state;
    size_t cases = 0, failed = 0;
    for (size_t f = 0; f < ARRAY_LEN(files); f++) {
        const struct json *groups = read_file(&b->arena, files[f]);
        if (!groups) {
            skip();
            return;
        }
        for (size_t g = 0; g < groups->count; g++) {
            const struct json *given = JSON_GET(json_at(groups, g), "given");
            const struct json *list = JSON_GET(json_at(groups, g), "cases");
            for (size_t i = 0; i < list->count; i++, cases++) {
                const struct json *one = json_at(list, i);
                assert_null(JSON_GET(one, "bench"));
                const char *wrong = run_case(b, given, one);
                failed += *wrong != '\0';
                if (*wrong)
                    print_error("%s: %s\n  wanted %s\n  got %s\n", files[f],
                                bench_text(b, JSON_GET(one, "expression")),
                                bench_text(b, JSON_GET(one, "result") ? JSON_GET(one, "result")
                                                                      : JSON_GET(one, "error")),
                                wrong);
                run_starved(given, one, 256 + cases % 64 * 32);
            }
        }
    }
    assert_int_equal(failed, 0);
    assert_int_equal(cases, CASES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {bench_test(each_case)};
    return cmocka_run_group_tests_name("expr compliance", tests, NULL, NULL);
}
