/*
 * Any expression over any value: it is refused with a category and a message, or it compiles and
 * every evaluation ends within its budget with a result that can be written. The input is an
 * expression and, after a NUL or a line "---", a JSON document. The whole input is also used as a
 * template.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "expr/expr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VISITS_MAX = 20000, OUT_MAX = 8 * EXPR_BYTES_MAX };

static const char sample[] =
    "{\"input\":{\"a\":[1,2.5,-3,\"x\",null,true],\"to\":\"a@b.c\",\"n\":3},"
    "\"list\":[{\"id\":\"1\",\"v\":[1,[2,[3]]]},{\"id\":\"2\",\"v\":[]},{\"id\":\"3\"}]}";

static void check(bool is_fine)
{
    if (!is_fine)
        abort();
}

static bool on_path(void *user, const slice *names, size_t count)
{
    size_t *seen = user;
    for (size_t i = 0; i < count; i++)
        check(names[i].ptr != NULL || names[i].len == 0);
    return ++*seen < 1000;
}

/* Checks that the result is within the limits: not too large, not too deep, no NaN, valid JSON. */
static void check_result(struct arena *arena, const struct json *result)
{
    struct buf out;
    struct err err = {OK, ""};
    buf_init(&out, OUT_MAX);
    json_write(&out, result);
    check(buf_is_ok(&out));
    const struct json *again = json_parse(arena, buf_slice(&out), &json_limits_provider, &err);
    check(again != NULL);
    buf_deinit(&out);
}

static void check_fault(enum expr_fault fault, const struct err *err)
{
    check(fault != EXPR_FAULT_NONE && err->code != OK && err->text[0]);
}

static void run_expr(struct arena *arena, slice source, const struct json *root)
{
    struct err err = {OK, ""};
    struct expr_budget budget;
    enum expr_fault fault = EXPR_FAULT_NONE;
    struct json result;
    size_t paths = 0;
    struct expr *expr = expr_compile_fault(arena, source, &fault, &err);
    if (!expr) {
        check_fault(fault, &err);
        return;
    }
    check(slice_eq(expr_source(expr), source));
    expr_root_names(expr, on_path, &paths);
    expr_budget_init(&budget);
    budget.visits_max = VISITS_MAX;
    if (expr_eval(expr, root, root, &budget, arena, &result, &err) == OK)
        check_result(arena, &result);
    else
        check_fault(budget.fault, &err);
    check(budget.bytes_built <= budget.bytes_max);
}

static void run_template(struct arena *arena, slice text, const struct json *root)
{
    struct err err = {OK, ""};
    struct expr_budget budget;
    struct json result;
    struct expr_template *tmpl = expr_template_compile_text(arena, text, &err);
    if (!tmpl) {
        check(err.code != OK && err.text[0]);
        return;
    }
    expr_budget_init(&budget);
    budget.visits_max = VISITS_MAX;
    if (expr_template_eval(tmpl, root, EXPR_DROP_NULL_MEMBERS, &budget, arena, &result, &err) != OK)
        check_fault(budget.fault, &err);
}

/* Splits the document off the input. Returns SLICE_NONE if there is none. */
static slice take_document(slice *source)
{
    ptrdiff_t at = slice_find(*source, SLICE("\n---\n"));
    size_t gap = 5;
    if (at < 0) {
        at = slice_find_char(*source, '\0');
        gap = 1;
    }
    if (at < 0)
        return SLICE_NONE;
    slice document = slice_from(*source, (size_t)at + gap);
    *source = slice_first(*source, (size_t)at);
    return document;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct err err = {OK, ""};
    slice source = slice_of(data, size);
    slice document = take_document(&source);
    arena_init(&arena, (size_t)256 * 1024 * 1024);
    const struct json *root = json_parse(&arena, document.ptr ? document : slice_cstr(sample),
                                         &json_limits_provider, &err);
    if (!root)
        root = json_parse(&arena, slice_cstr(sample), &json_limits_provider, &err);
    check(root != NULL);
    run_expr(&arena, source, root);
    if (slice_is_utf8(source, &(size_t){0}))
        run_template(&arena, source, root);
    arena_deinit(&arena);
    check(mem_live_blocks() == 0);
    return 0;
}
