/*
 * Templates: where placeholders end, which types they keep, which templates are refused with which
 * message, sharing, one budget for a tree, and what lint can list.
 */
#include "expr_test.h"

static const char root_text[] =
    "{\"input\":{\"to\":\"a@b.c\",\"n\":3,\"real\":1.5,\"yes\":true,\"none\":null,"
    "\"list\":[1,2],\"deep\":{\"x\":\"X\"}}}";

static const char *run(struct bench *b, const char *tree, unsigned flags)
{
    struct json result = json_null;
    b->err = (struct err){OK, ""};
    b->fault = EXPR_FAULT_NONE;
    struct expr_template *tmpl = expr_template_compile(&b->arena, bench_json(b, tree), &b->err);
    assert_int_equal(tmpl == NULL, b->err.code != OK);
    if (!tmpl)
        return NULL;
    expr_budget_init(&b->budget);
    int rc = expr_template_eval(tmpl, bench_json(b, root_text), flags, &b->budget, &b->arena,
                                &result, &b->err);
    b->fault = b->budget.fault;
    assert_int_equal(rc, b->err.code);
    return rc == OK ? bench_text(b, &result) : NULL;
}

static void check_fills(struct bench *b, const char *tree, const char *wanted, int line)
{
    const char *got = run(b, tree, 0);
    _assert_string_equal(got ? got : b->err.text, wanted, __FILE__, line);
}

#define assert_fills(b, tree, wanted) check_fills((b), (tree), (wanted), __LINE__)

static void check_refused(struct bench *b, const char *tree, enum err_code code, const char *phrase,
                          int line)
{
    const char *got = run(b, tree, 0);
    _assert_string_equal(got ? got : "", "", __FILE__, line);
    _assert_int_equal((uint64_t)b->err.code, (uint64_t)code, __FILE__, line);
    if (!strstr(b->err.text, phrase))
        _assert_string_equal(b->err.text, phrase, __FILE__, line);
}

#define assert_refused(b, tree, code, phrase) check_refused((b), (tree), (code), (phrase), __LINE__)

static void a_lone_placeholder_keeps_its_type(void **state)
{
    assert_fills(*state, "\"${input.n}\"", "3");
    assert_fills(*state, "\"${ input.list }\"", "[1,2]");
    assert_fills(*state, "\"${input.deep}\"", "{\"x\":\"X\"}");
    assert_fills(*state, "\"${input.none}\"", "null");
    assert_fills(*state, "\"${input.yes}\"", "true");
    assert_fills(*state, "{\"a\":[\"${input.n}\",\"x\"],\"b\":{\"c\":\"${input.to}\"}}",
                 "{\"a\":[3,\"x\"],\"b\":{\"c\":\"a@b.c\"}}");
    assert_fills(*state, "\"${$.input.list[?@ > $.input.n] | length(@)}\"", "0");
}

static void inside_text_scalars_are_written(void **state)
{
    assert_fills(*state, "\"to ${input.to}!\"", "\"to a@b.c!\"");
    assert_fills(*state, "\"${input.n}${input.real} ${input.yes}\"", "\"31.5 true\"");
    assert_fills(*state, "\"n=${`2.0`} ${`1e3`} ${`1.5`}\"", "\"n=2 1000 1.5\"");
    assert_fills(*state, "\"${`2.0`}\"", "2.0"); /* a value without a placeholder is not copied */
    assert_fills(*state, "\"/v1/${input.deep.x}/${to_string(input.list)}\"", "\"/v1/X/[1,2]\"");
    assert_refused(*state, "{\"q\":{\"s\":\"a ${input.none}\"}}", ERR_INVALID,
                   "/q/s: ${input.none} is null, which cannot be part of a longer text");
    assert_refused(*state, "\"a ${input.list}\"", ERR_INVALID, "${input.list} is array, which");
    assert_refused(*state, "\"a ${input.deep}\"", ERR_INVALID, "${input.deep} is object, which");
    assert_int_equal(((struct bench *)*state)->fault, EXPR_FAULT_TYPE);
}

static void the_lexer_finds_the_brace(void **state)
{
    assert_fills(*state, "\"${ {a: input.n} }\"", "{\"a\":3}");
    assert_fills(*state, "\"${input.{a: n, b: {c: to}}}\"", "{\"a\":3,\"b\":{\"c\":\"a@b.c\"}}");
    assert_fills(*state, "\"${'}'}\"", "\"}\"");
    assert_fills(*state, "\"${'it\\\\'s }'}\"", "\"it's }\"");
    assert_fills(*state, "\"${`{\\\"a\\\":\\\"}\\\"}`}\"", "{\"a\":\"}\"}");
    assert_fills(*state, "\"${input.\\\"}\\\"}\"", "null");
    assert_fills(*state, "\"a${'}'}}\"", "\"a}}\"");
}

static void escapes_are_literal(void **state)
{
    assert_fills(*state, "\"$${input.n}\"", "\"${input.n}\"");
    assert_fills(*state, "\"a $${x} ${input.n} $${y}\"", "\"a ${x} 3 ${y}\"");
    assert_fills(*state, "\"$$${input.n}\"", "\"$${input.n}\"");
    assert_fills(*state, "\"$ {x} $x 5$ }{\"", "\"$ {x} $x 5$ }{\"");
    assert_fills(*state, "[\"$${x}\"]", "[\"${x}\"]");
    assert_fills(*state, "\"\"", "\"\"");
}

static void bad_templates_say_where(void **state)
{
    assert_refused(*state, "{\"a\":[1,\"${input.\"]}", ERR_SYNTAX,
                   "at /a/1: syntax: a ${ without its closing brace");
    assert_refused(*state, "{\"a/b~\":\"${}\"}", ERR_SYNTAX, "at /a~1b~0: syntax: the expression");
    assert_refused(*state, "\"${input.a b}\"", ERR_SYNTAX, "found b where an operator");
    assert_refused(*state, "\"${'x}\"", ERR_SYNTAX, "never closed");
    assert_refused(*state, "\"${a # b}\"", ERR_SYNTAX, "unexpected character");
    assert_refused(*state, "{\"${input.n}\":1}", ERR_SYNTAX, "at /${input.n}: syntax: a member");
    assert_refused(*state, "{\"x\":\"${nope(@)}\"}", ERR_NOTFOUND, "at /x: unknown-function");
    assert_refused(*state, "{\"x\":[\"${abs(input.to)}\"]}", ERR_INVALID, "at /x/0: invalid-type");
    struct bench *b = *state;
    char deep[400] = "";
    for (size_t i = 0; i < 65; i++)
        strncat(deep, "[", sizeof deep - strlen(deep) - 1);
    strncat(deep, "\"${a}\"", sizeof deep - strlen(deep) - 1);
    for (size_t i = 0; i < 65; i++)
        strncat(deep, "]", sizeof deep - strlen(deep) - 1);
    assert_refused(b, deep, ERR_LIMIT, "nested more than 64 levels deep");
}

static void null_members_may_be_dropped(void **state)
{
    const char *tree = "{\"a\":\"${input.none}\",\"b\":null,\"c\":\"${input.n}\","
                       "\"d\":[\"${input.none}\"],\"e\":{\"f\":\"${nothing}\"}}";
    assert_string_equal(run(*state, tree, 0),
                        "{\"a\":null,\"b\":null,\"c\":3,\"d\":[null],\"e\":{\"f\":null}}");
    assert_string_equal(run(*state, tree, EXPR_DROP_NULL_MEMBERS),
                        "{\"b\":null,\"c\":3,\"d\":[],\"e\":{}}");
}

/* Only for a chain of names is it known whether a null was in the input. */
static void given_nulls_may_be_kept(void **state)
{
    const char *tree = "{\"a\":\"${input.none}\",\"b\":\"${input.gone}\",\"c\":\"${input.gone || "
                       "input.none}\",\"d\":[\"${input.none}\"],\"e\":\"${input.none.x}\","
                       "\"f\":\"${nothing}\",\"g\":\"${input.n}\",\"h\":\"${input.none[0]}\"}";
    assert_string_equal(run(*state, tree, EXPR_DROP_NULL_MEMBERS | EXPR_KEEP_GIVEN_NULLS),
                        "{\"a\":null,\"d\":[null],\"g\":3}");
}

static void path_segments_are_encoded(void **state)
{
    struct bench *b = *state;
    assert_string_equal(run(b, "\"/v1/${input.to}/${input.n}\"", EXPR_PATH_SEGMENTS),
                        "\"/v1/a%40b.c/3\"");
    assert_string_equal(run(b, "\"/${'../x?y#z%2e'}/a b\"", EXPR_PATH_SEGMENTS),
                        "\"/..%2Fx%3Fy%23z%252e/a b\"");
    static const char *const bad[] = {"\"/${''}\"", "\"/${'.'}/x\"", "\"/${'..'}\""};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_null(run(b, bad[i], EXPR_PATH_SEGMENTS));
        assert_int_equal(b->fault, EXPR_FAULT_VALUE);
        assert_non_null(strstr(b->err.text, "cannot be part of a URL's path"));
        assert_non_null(run(b, bad[i], 0));
    }
}

static void constant_parts_are_shared(void **state)
{
    struct bench *b = *state;
    struct json result;
    const struct json *tree = bench_json(b, "{\"a\":[1,{\"b\":\"c\"}],\"d\":\"${input.list}\"}");
    const struct json *root = bench_json(b, root_text);
    struct expr_template *tmpl = expr_template_compile(&b->arena, tree, &b->err);
    expr_budget_init(&b->budget);
    assert_int_equal(expr_template_eval(tmpl, root, 0, &b->budget, &b->arena, &result, &b->err),
                     OK);
    assert_ptr_equal(JSON_GET(&result, "a")->as.items, JSON_GET(tree, "a")->as.items);
    assert_ptr_equal(JSON_GET(&result, "d")->as.items,
                     json_pointer(root, SLICE("/input/list"))->as.items);
    assert_false(expr_template_is_constant(tmpl));

    static const char *const constant[] = {"{\"a\":[1,{\"b\":\"c\"}]}", "\"$${a}\"", "5", "[]"};
    for (size_t i = 0; i < ARRAY_LEN(constant); i++) {
        size_t before = b->arena.bytes_used;
        tmpl = expr_template_compile(&b->arena, bench_json(b, constant[i]), &b->err);
        assert_true(expr_template_is_constant(tmpl));
        assert_true(b->arena.bytes_used > before);
        before = b->arena.bytes_used;
        assert_int_equal(expr_template_eval(tmpl, root, 0, &b->budget, &b->arena, &result, &b->err),
                         OK);
        assert_int_equal(b->arena.bytes_used, before);
    }
    tmpl = expr_template_compile_text(&b->arena, SLICE("n=${input.n}"), &b->err);
    assert_int_equal(expr_template_eval(tmpl, root, 0, &b->budget, &b->arena, &result, &b->err),
                     OK);
    assert_true(slice_eq_cstr(json_str(&result), "n=3"));
}

static void one_budget_bounds_a_tree(void **state)
{
    struct bench *b = *state;
    struct json result, tree = json_array(), list = json_array();
    for (int i = 0; i < 100; i++)
        json_array_push(&b->arena, &tree, json_string(SLICE("${[].[@]}")));
    for (int i = 0; i < 2000; i++)
        json_array_push(&b->arena, &list, json_i64(i));
    struct expr_template *tmpl = expr_template_compile(&b->arena, &tree, &b->err);
    expr_budget_init(&b->budget);
    assert_int_equal(expr_template_eval(tmpl, &list, 0, &b->budget, &b->arena, &result, &b->err),
                     ERR_LIMIT);
    assert_int_equal(b->budget.fault, EXPR_FAULT_LIMIT);
    assert_non_null(strstr(b->err.text, "budget"));
    assert_non_null(strstr(b->err.text, "at /"));
    assert_int_equal(result.type, JSON_NULL);

    /* The size of texts also counts: 40 times 40,000 bytes. */
    char *big = arena_alloc_text(&b->arena, 40000);
    memset(big, 'x', 40000);
    struct json text = json_string(slice_of(big, 40000));
    tree = json_array();
    for (int i = 0; i < 40; i++)
        json_array_push(&b->arena, &tree, json_string(SLICE("a${@}")));
    tmpl = expr_template_compile(&b->arena, &tree, &b->err);
    expr_budget_init(&b->budget);
    assert_int_equal(expr_template_eval(tmpl, &text, 0, &b->budget, &b->arena, &result, &b->err),
                     ERR_LIMIT);
    assert_non_null(strstr(b->err.text, "output budget"));
}

static void a_full_arena_is_an_error(void **state)
{
    struct bench *b = *state;
    const struct json *tree =
        bench_json(b, "{\"a\":[\"x ${input.to} ${input.n}\"],\"b\":\"${[input]}\"}");
    const struct json *root = bench_json(b, root_text);
    struct expr_template *whole = expr_template_compile(&b->arena, tree, &b->err);
    size_t compiled = 0, evaluated = 0;
    for (size_t bytes = 0; bytes < 8192 && (!compiled || !evaluated); bytes += 16) {
        struct arena small;
        struct json result;
        arena_init(&small, bytes);
        if (expr_template_compile(&small, tree, &b->err))
            compiled = compiled ? compiled : bytes;
        else
            assert_int_equal(b->err.code, ERR_NOMEM);
        arena_reset(&small);
        expr_budget_init(&b->budget);
        if (expr_template_eval(whole, root, 0, &b->budget, &small, &result, &b->err) == OK)
            evaluated = evaluated ? evaluated : bytes;
        else
            assert_int_equal(b->err.code, ERR_NOMEM);
        arena_deinit(&small);
    }
    assert_true(compiled > 0 && evaluated > 0);
}

struct seen {
    char text[512];
    size_t count, stop_at;
};

static bool on_expr(void *user, const struct expr *expr, slice where)
{
    struct seen *seen = user;
    size_t len = strlen(seen->text);
    snprintf(seen->text + len, sizeof seen->text - len, "%.*s=%.*s;", SLICE_ARG(where),
             SLICE_ARG(expr_source(expr)));
    return ++seen->count != seen->stop_at;
}

static void every_expression_is_listed(void **state)
{
    struct bench *b = *state;
    struct seen seen = {.stop_at = 0}, two = {.stop_at = 2};
    const struct json *tree = bench_json(
        b, "{\"path\":\"/x/${input.id}/${a}\",\"query\":{\"q\":\"${ b || c }\",\"k\":\"$${d}\"},"
           "\"list\":[1,\"${e}\"]}");
    struct expr_template *tmpl = expr_template_compile(&b->arena, tree, &b->err);
    expr_template_each_expr(tmpl, on_expr, &seen);
    assert_string_equal(seen.text, "/path=input.id;/path=a;/query/q=b || c;/list/1=e;");
    expr_template_each_expr(tmpl, on_expr, &two);
    assert_int_equal(two.count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        bench_test(a_lone_placeholder_keeps_its_type), bench_test(inside_text_scalars_are_written),
        bench_test(the_lexer_finds_the_brace),         bench_test(escapes_are_literal),
        bench_test(bad_templates_say_where),           bench_test(null_members_may_be_dropped),
        bench_test(given_nulls_may_be_kept),           bench_test(path_segments_are_encoded),
        bench_test(constant_parts_are_shared),         bench_test(one_budget_bounds_a_tree),
        bench_test(a_full_arena_is_an_error),          bench_test(every_expression_is_listed),
    };
    return cmocka_run_group_tests_name("expr templates", tests, NULL, NULL);
}
