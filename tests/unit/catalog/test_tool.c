/* catalog/tool: schemas in the form that clients of models accept, and the constraints that are
 * described in words instead. */
#include "catalog/tool.h"
#include "support/json_test.h"

static const struct json *shown(struct arena *arena, const struct json *root,
                                const struct json *schema)
{
    struct catalog_tool tool;
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, 1024 * 1024);
    catalog_tool_begin(&tool, root);
    catalog_tool_put_schema(&tool, w, schema);
    slice out = json_text_take(&text, arena);
    const struct json *value = json_parse(arena, out, &json_limits_provider, NULL);
    assert_non_null(value);
    return value;
}

/* Checks the form of the root's property `p`. */
static void expect(struct arena *arena, const char *root_text, const char *wanted)
{
    const struct json *root = parse_quoted(arena, root_text);
    const struct json *got = shown(arena, root, json_pointer(root, SLICE("/properties/p")));
    if (!json_equal(got, parse_quoted(arena, wanted)))
        fail_msg("%.*s, not %s", SLICE_ARG(json_text_of(got, arena, 1024 * 1024)), wanted);
}

#define ANY "'type':['string','number','boolean','object','null']"

static void references_are_replaced(void **state)
{
    expect(*state,
           "{'properties':{'p':{'$ref':'#/$defs/a','description':'here'}},'$defs':{'a':{'type':"
           "'object','description':'there','properties':{'b':{'$ref':'#/$defs/b'}}},'b':{'enum':"
           "['$ref'],'$comment':'x'}}}",
           "{'description':'here','type':'object','properties':{'b':{'enum':['$ref']}}}");
    /* a chain, and references that lead nowhere */
    expect(*state,
           "{'properties':{'p':{'$ref':'#/$defs/a'}},'$defs':{'a':{'$ref':'#/$defs/b'},"
           "'b':{'type':'string'}}}",
           "{'type':'string'}");
    expect(*state, "{'properties':{'p':{'$ref':'#/$defs/a'}}}", "{}");
    expect(*state, "{'properties':{'p':{'$ref':'http://x/y','type':'string'}}}",
           "{'type':'string'}");
    expect(*state, "{'properties':{'p':{'$ref':'#/properties/p','minimum':1}}}", "{'minimum':1}");
    /* If both schemas have a constraint, both apply. The annotations of the nearer schema are
     * used. */
    expect(
        *state,
        "{'properties':{'p':{'$ref':'#/$defs/a','required':['k']}},'$defs':{'a':{'type':'object',"
        "'required':['b'],'description':'there'}}}",
        "{'required':['k'],'allOf':[{'type':'object','required':['b'],'description':'there'}]}");
    /* A recursive schema is cut inside itself, and is complete at its next position. */
    expect(*state,
           "{'properties':{'p':{'properties':{'a':{'$ref':'#/$defs/n'},'b':{'$ref':'#/$defs/n'}}}},"
           "'$defs':{'n':{'type':'object','description':'node','properties':{'n':{'$ref':"
           "'#/$defs/n'}}}}}",
           "{'properties':{'a':{'type':'object','description':'node','properties':{'n':{"
           "'description':'node','type':'object'}}},'b':{'type':'object','description':'node',"
           "'properties':{'n':{'description':'node','type':'object'}}}}}");
}

static void arrays_have_typed_items(void **state)
{
    expect(*state, "{'properties':{'p':{'type':'array'}}}", "{'type':'array','items':{" ANY "}}");
    expect(*state, "{'properties':{'p':{'type':['null','array'],'items':{}}}}",
           "{'type':['null','array'],'items':{" ANY "}}");
    expect(*state, "{'properties':{'p':{'type':'array','items':{'description':'x'}}}}",
           "{'type':'array','items':{'description':'x'," ANY "}}");
    expect(*state, "{'properties':{'p':{'type':'array','items':{'enum':[1]}}}}",
           "{'type':'array','items':{'enum':[1]}}");
    expect(*state,
           "{'properties':{'p':{'$ref':'#/$defs/any'}},'$defs':{'any':{'type':['array','string'],"
           "'items':{'$ref':'#/$defs/any'}}}}",
           "{'type':['array','string'],'items':{" ANY "}}");
}

/* Each level refers to the next one twice: 2^30 nodes without a limit. */
static void what_grows_without_end_is_cut(void **state)
{
    char text[8192];
    size_t len = (size_t)snprintf(text, sizeof(text),
                                  "{'properties':{'p':{'$ref':'#/$defs/n0'}},"
                                  "'$defs':{");
    for (int i = 0; i < 30; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len,
                                "'n%d':{'type':'object','properties':{'a':{'$ref':'#/$defs/n%d'},"
                                "'b':{'$ref':'#/$defs/n%d'}}},",
                                i, i + 1, i + 1);
    (void)snprintf(text + len, sizeof(text) - len, "'n30':{'type':'string'}}}");
    const struct json *root = parse_quoted(*state, text);
    const struct json *got = shown(*state, root, json_pointer(root, SLICE("/properties/p")));
    assert_true(json_text_of(got, *state, 1024 * 1024).len < 100 * 1024);
    assert_true(json_text_of(got, *state, 1024 * 1024).len > 1000);
}

static void rule(struct arena *arena, const char *schema, const char *words)
{
    struct catalog_action action = {.description = SLICE("Does it."),
                                    .input_schema = parse_quoted(arena, schema)};
    slice got = catalog_tool_description(&action, arena);
    slice wanted = arena_printf(arena, "Does it.%s", words);
    if (!slice_eq(got, wanted))
        fail_msg("%.*s, not %.*s", SLICE_ARG(got), SLICE_ARG(wanted));
}

static void what_the_top_demands_is_said(void **state)
{
    rule(*state, "{'type':'object','title':'T','properties':{},'required':['a'],'$defs':{}}", "");
    rule(*state, "{'anyOf':[{'required':['a']},{'required':['b','c']}]}",
         " Needs at least one of: a; b and c.");
    rule(*state,
         "{'anyOf':[{'properties':{'e':{'const':'X'}}},{'properties':{'e':{'enum':[1,2]}},"
         "'required':['b']}]}",
         " Needs at least one of: e = \"X\"; e = 1 or 2, with b.");
    rule(*state,
         "{'oneOf':[{'required':['a'],'not':{'anyOf':[{'required':['b']},{'required':['c']}]}}]}",
         " Needs exactly one of: a, but not b or c.");
    rule(*state, "{'not':{'required':['a','b']}}", " Does not take: a and b.");
    rule(*state, "{'not':{'required':['a','b'],'properties':{'a':{'type':'string'}}}}",
         " Does not take: a and b, a as string.");
    rule(*state, "{'minProperties':2}", " Needs at least 2 arguments.");
    rule(*state, "{'maxProperties':1}", " Needs at most 1 argument.");
    rule(*state, "{'allOf':[{'anyOf':[{'required':['a']}]},{'required':['b']}]}",
         " Needs at least one of: a. Needs b.");
    rule(*state, "{'dependentRequired':{'a':['b']}}",
         " Also, by JSON Schema, \"dependentRequired\": {\"a\":[\"b\"]}.");
    rule(*state, "{'anyOf':[{'minProperties':3}]}",
         " Needs at least one of: \"minProperties\": 3.");
}

static void the_whole_fits(void **state)
{
    char about[3001] = "", names[2001];
    struct arena *arena = *state;
    for (size_t i = 0; i < 300; i++)
        memcpy(about + 9 * i, "A few w. ", 9);
    struct catalog_action action = {
        .description = slice_cstr(about),
        .input_schema = parse_quoted(arena, "{'anyOf':[{'required':['a']},{'required':['b']}]}")};
    slice got = catalog_tool_description(&action, arena);
    assert_true(got.len <= CATALOG_TOOL_TEXT_MAX && got.len > CATALOG_TOOL_TEXT_MAX - 20);
    assert_true(slice_ends_with(got, SLICE("A few w. Needs at least one of: a; b.")));
    memset(names, 'x', 2000);
    names[2000] = '\0';
    slice large = arena_printf(arena, "{'not':{'required':['%s']}}", names);
    action.input_schema = parse_quoted(arena, arena_cstr(arena, large));
    got = catalog_tool_description(&action, arena);
    assert_true(got.len <= CATALOG_TOOL_TEXT_MAX);
    assert_true(slice_find(got, SLICE("describe_action has the whole")) > 0);
    /* the description of a property is cut, too */
    const struct json *property =
        parse_quoted(arena, arena_cstr(arena, arena_printf(arena, "{'description':'%s'}", about)));
    const struct json *cut = JSON_GET(shown(arena, property, property), "description");
    assert_true(cut->count <= CATALOG_TOOL_TEXT_MAX && cut->count > CATALOG_TOOL_TEXT_MAX - 20);
}

static void signs_with(struct arena *arena, const char *schema, const char *examples,
                       const char *wanted)
{
    slice got = catalog_tool_signature(SLICE("f"), parse_quoted(arena, schema),
                                       parse_quoted(arena, examples), arena);
    if (!slice_eq_cstr(got, wanted))
        fail_msg("%.*s, not %s", SLICE_ARG(got), wanted);
}

static void signs(struct arena *arena, const char *schema, const char *wanted)
{
    signs_with(arena, schema, "[]", wanted);
}

static void a_signature_names_the_members_of_an_object(void **state)
{
    signs(*state,
          "{'properties':{'start':{'type':'object','properties':{'date':{},'dateTime':{}}}}}",
          "f(start{date, dateTime})");
    /* one of several forms; a constant only says which */
    signs(*state,
          "{'required':['parent'],'properties':{'parent':{'anyOf':[{'type':'string'},"
          "{'type':'object','properties':{'type':{'const':'page'},'page':{}}},{'$ref':'#/$defs/d'}"
          "]}},'$defs':{'d':{'type':'object','properties':{'database':{},'view':{}}}}}",
          "f(parent{page | database, view}!)");
    char schema[400], name[121];
    memset(name, 'x', 120);
    name[120] = '\0';
    (void)snprintf(schema, sizeof(schema),
                   "{'properties':{'a':{'type':'object','properties':{'%s':{}}},'b':{}}}", name);
    signs(*state, schema, "f(a{}, b)");
}

static void an_example_shows_an_open_object(void **state)
{
    const char *schema = "{'properties':{'filter':{'type':'object'},'id':{}}}";
    signs_with(*state, schema,
               "[{'input':{'id':'x'}},{'input':{'filter':{'is':1}}},{'input':{'filter':{}}}]",
               "f(filter{}, id) e.g. {\"filter\":{\"is\":1}}");
    signs_with(*state, schema, "[{'input':{'id':'x'}}]", "f(filter{}, id)");
    signs_with(*state, "{'properties':{'id':{}}}", "[{'input':{'id':{}}}]", "f(id)");
    /* one that is too long is not shown, and the next one may be */
    char examples[500], text[301];
    memset(text, 'x', 300);
    text[300] = '\0';
    (void)snprintf(examples, sizeof(examples),
                   "[{'input':{'filter':{'a':'%s'}}},{'input':{'filter':{'b':1}}}]", text);
    signs_with(*state, schema, examples, "f(filter{}, id) e.g. {\"filter\":{\"b\":1}}");
}

static void a_signature_has_what_a_call_needs(void **state)
{
    signs(*state,
          "{'properties':{'cc':{'type':'array'},'to':{'type':'string'},'text':{},'html':{},"
          "'at':{'$ref':'#/$defs/at'}},'required':['to'],'anyOf':[{'required':['text']},"
          "{'required':['html']}],'$defs':{'at':{'type':['object','null']}}}",
          "f(to!, text | html, cc[], at{})");
    signs(*state, "{'properties':{}}", "f()");
    signs(*state, "{}", "f()");
    signs(*state,
          "{'properties':{'a':{},'b':{},'c':{},'d':{}},'allOf':[{'required':['d']},{'oneOf':"
          "[{'required':['a','b']},{'required':['c']}]}]}",
          "f(d!, a + b | c)");
    /* a branch without a requirement makes the others optional, and a required input is not a
     * choice
     */
    signs(*state, "{'properties':{'a':{},'b':{}},'anyOf':[{'required':['b']},{'minProperties':2}]}",
          "f(a, b)");
    signs(*state,
          "{'properties':{'a':{},'b':{}},'required':['a'],'anyOf':[{'required':['a']},"
          "{'required':['b']}]}",
          "f(a!, b)");
    signs(*state, "{'properties':{'a':{},'b':{},'c':{},'d':{},'e':{},'f':{},'g':{},'h':{},'i':{}}}",
          "f(a, b, c, d, e, f, g, h, ...)");
    char schema[600], name[351];
    memset(name, 'x', 350);
    name[350] = '\0';
    (void)snprintf(schema, sizeof(schema), "{'properties':{'%s':{},'b':{}}}", name);
    signs(*state, schema, "f(b, ...)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(references_are_replaced),
        ARENA_TEST(arrays_have_typed_items),
        ARENA_TEST(what_grows_without_end_is_cut),
        ARENA_TEST(what_the_top_demands_is_said),
        ARENA_TEST(the_whole_fits),
        ARENA_TEST(a_signature_has_what_a_call_needs),
        ARENA_TEST(a_signature_names_the_members_of_an_object),
        ARENA_TEST(an_example_shows_an_open_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
