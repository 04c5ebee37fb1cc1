/*
 * Shared by the tests of the expr room: one arena for each test, JSON from text, an evaluation in
 * one call, and a comparison that prints both sides when it fails.
 */
#ifndef TESTS_EXPR_TEST_H
#define TESTS_EXPR_TEST_H

#include <stdlib.h>

#include "expr/expr.h"
#include "unit.h"

struct bench {
    struct arena arena;
    struct expr_budget budget;
    struct err err;
    enum expr_fault fault; /* the result of the last compilation or evaluation */
};

static inline int bench_setup(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    arena_init(&b->arena, 256u << 20);
    *state = b;
    return b ? 0 : -1;
}

static inline int bench_teardown(void **state)
{
    struct bench *b = *state;
    arena_deinit(&b->arena);
    free(b);
    return unit_end();
}

static inline const struct json *bench_json(struct bench *b, const char *text)
{
    struct json *value = json_parse(&b->arena, slice_cstr(text), &json_limits_provider, &b->err);
    if (!value)
        fail_msg("%s in %s", b->err.text, text);
    return value;
}

/* JSON text of a value; NUL-terminated, in the arena. */
static inline const char *bench_text(struct bench *b, const struct json *value)
{
    struct buf buf;
    buf_init(&buf, 64u << 20);
    json_write(&buf, value);
    assert_true(buf_is_ok(&buf));
    const char *text = arena_cstr(&b->arena, buf_slice(&buf));
    buf_deinit(&buf);
    return text;
}

/* Compiles and evaluates with a fresh budget. Returns the result's JSON text, or NULL if either
 * failed, with b->fault and b->err. */
static inline const char *bench_eval(struct bench *b, const char *source, const char *given)
{
    b->err = (struct err){OK, ""};
    struct expr *expr = expr_compile_fault(&b->arena, slice_cstr(source), &b->fault, &b->err);
    assert_int_equal(expr == NULL, b->err.code != OK);
    if (!expr)
        return NULL;
    const struct json *root = bench_json(b, given);
    struct json result = json_null;
    expr_budget_init(&b->budget);
    int rc = expr_eval(expr, root, root, &b->budget, &b->arena, &result, &b->err);
    b->fault = b->budget.fault;
    assert_int_equal(rc, b->err.code);
    assert_int_equal(rc == OK, b->fault == EXPR_FAULT_NONE);
    return rc == OK ? bench_text(b, &result) : NULL;
}

static inline void check_gives(struct bench *b, const char *source, const char *given,
                               const char *wanted, const char *file, int line)
{
    const char *got = bench_eval(b, source, given);
    if (!got)
        print_error("%s: %s\n", source, b->err.text);
    _assert_true(got != NULL ? 1 : 0, source, file, line);
    _assert_string_equal(got, wanted, file, line);
}

static inline void check_fault(struct bench *b, const char *source, const char *given,
                               enum expr_fault fault, const char *phrase, const char *file,
                               int line)
{
    const char *got = bench_eval(b, source, given);
    if (got)
        print_error("%s gave %s\n", source, got);
    _assert_true(got == NULL ? 1 : 0, source, file, line);
    _assert_string_equal(expr_fault_name(b->fault), expr_fault_name(fault), file, line);
    if (!strstr(b->err.text, phrase))
        _assert_string_equal(b->err.text, phrase, file, line);
}

#define assert_gives(b, source, given, wanted) \
    check_gives((b), (source), (given), (wanted), __FILE__, __LINE__)
/* The evaluation fails with that category, and the message contains that phrase. */
#define assert_fault(b, source, given, fault, phrase) \
    check_fault((b), (source), (given), (fault), (phrase), __FILE__, __LINE__)

#define bench_test(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)

#endif
