/*
 * The parts of an expression that are checked before all of its data is known: those that every
 * evaluation reaches, and no others.
 */
#include "expr/expr_test.h"

struct known_case {
    const char *expr, *root;
    const char *words; /* of the fault; NULL: none is certain */
};

static void only_certain_faults_are_found(void **state)
{
    static const struct known_case cases[] = {
        /* parts that read only known data */
        {"join(',', in)", "{\"in\":\"x\"}", "part of it is missing"},
        {"join(',', in)", "{\"in\":[\"x\"]}", NULL},
        {"[join(',', in), first.id]", "{\"in\":\"x\"}", "part of it is missing"},
        {"{a: first.id, b: join(',', in)}", "{\"in\":\"x\"}", "part of it is missing"},
        {"!(first.id == join(',', in))", "{\"in\":\"x\"}", "part of it is missing"},
        {"join(',', in) | [@, $.first]", "{\"in\":\"x\"}", "part of it is missing"},
        {"contains(first.ids, join(',', in))", "{\"in\":\"x\"}", "part of it is missing"},
        /* parts that may not be reached */
        {"first && join(',', in)", "{\"in\":\"x\"}", NULL},
        {"first.id || join(',', in)", "{\"in\":\"x\"}", NULL},
        {"in || join(',', in) || first.id", "{\"in\":\"x\"}", NULL},
        {"{a: first} || join(',', in)", "{\"in\":\"x\"}", NULL},
        {"first[?join(',', $.in)]", "{\"in\":\"x\"}", NULL},
        {"map(&join(',', $.in), first)", "{\"in\":\"x\"}", NULL},
        {"first | join(',', in)", "{\"in\":\"x\"}", NULL},
        /* the whole root is not known */
        {"join(',', @)", "{\"in\":\"x\"}", NULL},
        {"join(',', $.first)", "{\"in\":\"x\"}", NULL},
        {"!in && join(',', in) || first", "{\"in\":\"\"}", "part of it is missing"},
        /* the known members of a message */
        {"base64(mime_message({to: first.to, cc: in}))", "{\"in\":\"x\"}",
         "cc: x is not an email address"},
        {"mime_message({to: in || first.to, text: first.text})", "{\"in\":\"x\"}",
         "to: x is not an email address"},
        {"mime_message({to: in && first.to})", "{\"in\":\"x\"}", NULL},
        {"mime_message({to: first.to, cc: in})", "{\"in\":\"x@y.example\"}", NULL},
        {"mime_message(first.mail)", "{\"in\":\"x\"}", NULL},
        {"items({to: first.to, cc: in})", "{\"in\":\"x\"}", NULL},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct known_case *it = &cases[i];
        const struct json *root = bench_json(b, it->root);
        struct expr *expr = expr_compile(&b->arena, slice_cstr(it->expr), &b->err);
        if (!expr)
            fail_msg("%s: %s", it->expr, b->err.text);
        expr_budget_init(&b->budget);
        int rc = expr_check_known(expr, root, &b->budget, &b->arena, &b->err);
        if ((rc != OK) != (it->words != NULL) || (it->words && !strstr(b->budget.words, it->words)))
            fail_msg("%s: %s", it->expr, rc == OK ? "no fault" : b->budget.words);
    }
}

static void a_check_is_bounded(void **state)
{
    struct bench *b = *state;
    const struct json *root = bench_json(b, "{\"in\":[1,2,3]}");
    struct expr *expr = expr_compile(&b->arena, SLICE("[in[*], in[*], first]"), &b->err);
    expr_budget_init(&b->budget);
    b->budget.visits_max = 5;
    assert_int_equal(expr_check_known(expr, root, &b->budget, &b->arena, &b->err), ERR_LIMIT);
    assert_int_equal(b->budget.fault, EXPR_FAULT_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        bench_test(only_certain_faults_are_found),
        bench_test(a_check_is_bounded),
    };
    return cmocka_run_group_tests_name("known", tests, NULL, NULL);
}
