/*
 * The expr room's results, for comparison with another implementation (differ_expr.py): each line
 * of standard input is a JSON array of an expression and a document, and each line of output is
 * {"value": ...} or {"fault": "syntax" | "type" | ...}.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "expr/expr.h"

enum { ARENA_BYTES_MAX = 256 * 1024 * 1024, LINE_BYTES_MAX = 64 * 1024 * 1024 };

static void write_answer(struct buf *out, const struct json *value, enum expr_fault fault)
{
    struct json_writer w;
    json_begin(&w, out);
    json_open(&w, '{');
    json_key(&w, value ? "value" : "fault");
    if (value)
        json_put(&w, value);
    else
        json_put_str(&w, slice_cstr(expr_fault_name(fault)));
    json_close(&w, '}');
    buf_append_char(out, '\n');
}

static void answer(slice line, struct buf *out)
{
    struct arena arena;
    struct expr_budget budget;
    struct err err;
    struct json value;
    enum expr_fault fault = EXPR_FAULT_NONE;
    arena_init(&arena, ARENA_BYTES_MAX);
    expr_budget_init(&budget);
    const struct json *pair = json_parse(&arena, line, &json_limits_provider, &err);
    const struct json *source = json_at(pair, 0), *root = json_at(pair, 1);
    if (!json_is(source, JSON_STRING) || !root) {
        (void)fprintf(stderr, "a line is not [expression, document]\n");
        exit(2);
    }
    const struct expr *expr = expr_compile_fault(&arena, json_str(source), &fault, &err);
    if (!expr)
        write_answer(out, NULL, fault);
    else if (expr_eval(expr, root, root, &budget, &arena, &value, &err) != OK)
        write_answer(out, NULL, budget.fault);
    else
        write_answer(out, &value, fault);
    arena_deinit(&arena);
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    struct buf out;
    buf_init(&out, LINE_BYTES_MAX);
    for (ssize_t len; (len = getline(&line, &cap, stdin)) > 0;) {
        buf_clear(&out);
        answer(slice_of(line, (size_t)len), &out);
        if (!buf_is_ok(&out) || fwrite(out.ptr, 1, out.len, stdout) != out.len)
            return 1;
    }
    free(line);
    buf_deinit(&out);
    return mem_live_blocks() == 0 && fflush(stdout) == 0 ? 0 : 1;
}
