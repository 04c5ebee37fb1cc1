/*
 * YAML to JSON: the core schema, styles, aliases, and refused documents, with the line of the
 * fault.
 */
#include "json/yaml.h"
#include "unit.h"

enum { DEPTH_MAX = 20, NODES_MAX = 1000 };

static struct arena arena;

static int begin(void **state)
{
    (void)state;
    arena_init(&arena, 16 << 20);
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_deinit(&arena);
    return unit_end();
}

/* wanted: JSON, with ' for ". */
static void reads(const char *text, const char *wanted)
{
    struct err err = {0};
    struct buf out;
    const struct json *value = yaml_parse(&arena, slice_cstr(text), DEPTH_MAX, NODES_MAX, &err);
    if (!value)
        fail_msg("%s: %s", text, err.text);
    buf_init(&out, 65536);
    json_write(&out, value);
    buf_append_char(&out, '\0');
    assert_string_equal(out.ptr, unit_quoted(&arena, wanted));
    buf_deinit(&out);
}

static void refuses(const char *text, enum err_code code, const char *part)
{
    struct err err = {0};
    assert_null(yaml_parse(&arena, slice_cstr(text), DEPTH_MAX, NODES_MAX, &err));
    assert_int_equal(err.code, code);
    if (!strstr(err.text, part))
        fail_msg("\"%s\" does not hold \"%s\"", err.text, part);
}

static void containers_and_styles(void **state)
{
    (void)state;
    reads("a: 1\nb:\n  - x\n  - {c: d, 'e': \"f\\n\"}\n", "{'a':1,'b':['x',{'c':'d','e':'f\\n'}]}");
    reads("text: |\n  one\n  two\nfolded: >-\n  three\n  four\n",
          "{'text':'one\\ntwo\\n','folded':'three four'}");
    reads("[]", "[]");
    reads("{}", "{}");
    reads("# comment\n---\nx", "'x'");
    reads("{\"a\": [1, true, null]}", "{'a':[1,true,null]}");
}

static void plain_scalars_by_the_core_schema(void **state)
{
    (void)state;
    reads("[null, Null, NULL, ~, ]", "[null,null,null,null]");
    reads("a:\nb: \"\"", "{'a':null,'b':''}");
    reads("[true, True, TRUE, false, False, FALSE, yes, no, on, off]",
          "[true,true,true,false,false,false,'yes','no','on','off']");
    reads("[0, -1, +1, 007, 0x1F, 0o17, 9223372036854775808]",
          "[0,-1,1,7,31,15,9223372036854775808]");
    reads("[1.5, -.5, 1., 1e3, 3.0.0, 2020-01-01, 1_000, 12e, .inf, .]",
          "[1.5,-0.5,1.0,1000.0,'3.0.0','2020-01-01','1_000','12e','.inf','.']");
    reads("['1', \"true\", !!str 1, ! x]", "['1','true','1','x']");
    reads("200: ok\ntrue: yes\n", "{'200':'ok','true':'yes'}");
}

static void aliases_are_values_of_their_own(void **state)
{
    (void)state;
    reads("a: &x {b: [1, 2]}\nc: *x\nd: [&y t, *y]",
          "{'a':{'b':[1,2]},'c':{'b':[1,2]},'d':['t','t']}");
    reads("a: &k name\n*k : 1", "{'a':'name','name':1}");
    refuses("a: *none", ERR_SYNTAX, "line 1, column 4: an alias of an anchor that does not occur");
    refuses("a: &x [*x]", ERR_SYNTAX, "an alias of an anchor that does not occur");
    refuses("- &a [x,x,x,x,x,x,x,x,x]\n- &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
            "- &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n- [*c,*c,*c,*c,*c,*c,*c,*c,*c]",
            ERR_LIMIT, "expands to more than 1000 values");
}

/* Code that walks the result is recursive, so an alias adds the depth of its target. */
static void aliases_nest_no_deeper_than_text(void **state)
{
    (void)state;
    reads("- &a [[[[[[[[1]]]]]]]]\n- &b [[[[[[[[*a]]]]]]]]\n- [[[*b]]]",
          "[[[[[[[[[1]]]]]]]],[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]],"
          "[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]");
    refuses("- &a [[[[[[[[1]]]]]]]]\n- &b [[[[[[[[*a]]]]]]]]\n- [[[[*b]]]]", ERR_LIMIT,
            "deeper than 20");
    refuses("- &a {b: [{c: [{d: [{e: [x]}]}]}]}\n- &b {b: {c: {d: {e: {f: {g: *a}}}}}}\n"
            "- {h: {i: {j: {k: {l: {m: *b}}}}}}",
            ERR_LIMIT, "deeper than 20");
}

static void what_is_refused_says_where(void **state)
{
    (void)state;
    refuses("a: [1", ERR_SYNTAX, "not valid YAML at line");
    refuses("a: 1\n\tb: 2", ERR_SYNTAX, "line 2");
    refuses("", ERR_SYNTAX, "empty");
    refuses("a\n---\nb", ERR_SYNTAX, "line 2, column 1: a second document");
    refuses("a: 1\na: 2", ERR_SYNTAX, "\"a\" occurs twice");
    refuses("? [x]\n: 1", ERR_SYNTAX, "a key must be a scalar");
    refuses("a: !!int 1", ERR_SYNTAX, "the only supported tag is !!str");
    refuses("a: !mine {}", ERR_SYNTAX, "a mapping or a sequence cannot have a tag");
    refuses("a: &x {b: 1}\nc:\n  <<: *x", ERR_SYNTAX, "line 3, column 3: merge keys");
    refuses("[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]", ERR_LIMIT, "deeper than 20");
    refuses("a: \"\xff\"", ERR_SYNTAX, "not valid YAML");
}

static void little_memory_is_an_error(void **state)
{
    (void)state;
    struct arena small;
    struct err err = {0};
    arena_init(&small, 300);
    assert_null(yaml_parse(&small,
                           SLICE("[aaaaaaaaaaaa, bbbbbbbbbbbbbbbb, ccccccccccc, d, e, f, g, h, "
                                 "i, j, k, l, m]"),
                           DEPTH_MAX, NODES_MAX, &err));
    assert_int_equal(err.code, ERR_NOMEM);
    arena_deinit(&small);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(containers_and_styles),           TEST(plain_scalars_by_the_core_schema),
        TEST(aliases_are_values_of_their_own), TEST(aliases_nest_no_deeper_than_text),
        TEST(what_is_refused_says_where),      TEST(little_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
