/*
 * OpenAPI documents to manifests: each feature in a small document, each loss in its line, each
 * fault in a sentence.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "catalog/catalog.h"
#include "catalog/import.h"

enum { DEEP = 300, MANY_OPTIONALS = 40 };

/* A document around the text of `paths` and more top-level members. ' stands for ". */
#define DOCUMENT(version, paths, more)                                    \
    "{'openapi':'" version "','info':{'title':'Pet Shop','version':'1'}," \
    "'servers':[{'url':'https://api.example.com/v1/'}],'paths':{" paths "}" more "}"
#define GET_PETS(members) "'/pets':{'get':{'operationId':'listPets'" members "}}"
#define BODY(schema)                                                                     \
    "'/pets':{'post':{'operationId':'addPet','requestBody':{'required':true,'content':{" \
    "'application/json':{'schema':" schema "}}}}}"

static const struct json_limits limits = {.depth_max = 128, .refuse_dup_keys = true};

struct bench {
    struct arena arena;
    struct import_result result;
    struct err err;
    const struct json *manifest;
    bool is_imported;
};

static int setup(void **state)
{
    struct bench *b = mem_zalloc(sizeof(*b));
    arena_init(&b->arena, 64 * 1024 * 1024);
    *state = b;
    return 0;
}

static void forget(struct bench *b)
{
    if (b->is_imported)
        catalog_import_free(&b->result);
    b->is_imported = false;
}

static int teardown(void **state)
{
    struct bench *b = *state;
    forget(b);
    arena_deinit(&b->arena);
    mem_free(b);
    return mem_live_blocks() == 0 ? 0 : -1;
}

/* text with ' for ". */
static slice quoted(struct bench *b, const char *text)
{
    char *copy = arena_cstr(&b->arena, slice_cstr(text));
    for (char *c = copy; *c; c++)
        if (*c == '\'')
            *c = '"';
    return slice_cstr(copy);
}

static int run(struct bench *b, const char *document, const char *overrides, const char *id)
{
    struct import_options options = {.document = quoted(b, document),
                                     .overrides = quoted(b, overrides),
                                     .integration_id = slice_cstr(id)};
    forget(b);
    int code = catalog_import_openapi(&options, &b->result, &b->err);
    b->is_imported = true;
    b->manifest = code == OK ? json_parse(&b->arena, b->result.manifest, &limits, NULL) : NULL;
    return code;
}

static void import_with(struct bench *b, const char *document, const char *overrides)
{
    if (run(b, document, overrides, "") != OK)
        print_error("%s\n", b->err.text);
    assert_non_null(b->manifest);
    assert_int_equal(b->result.total, b->result.imported + b->result.skipped);
}

static void import(struct bench *b, const char *document)
{
    import_with(b, document, "");
}

/* What stands at the pointer, compared with JSON whose " are '. */
static void check_at(struct bench *b, const char *pointer, const char *expected, int line)
{
    const struct json *value = json_pointer(b->manifest, slice_cstr(pointer));
    struct err err;
    const struct json *wanted = json_parse(&b->arena, quoted(b, expected), &limits, &err);
    assert_non_null(wanted);
    if (!value || !json_equal(value, wanted)) {
        struct buf text;
        buf_init(&text, 1024 * 1024);
        json_write(&text, value ? value : b->manifest);
        print_error("line %d: %s is %.*s, not %s\n", line, pointer, SLICE_ARG(buf_slice(&text)),
                    expected);
        buf_deinit(&text);
        fail();
    }
}
#define AT(pointer, expected) check_at(b, pointer, expected, __LINE__)
#define INPUT                 "/actions/0/input_schema/"

static void check_absent(struct bench *b, const char *pointer, int line)
{
    if (json_pointer(b->manifest, slice_cstr(pointer)))
        print_error("line %d: %s is there\n", line, pointer);
    assert_null(json_pointer(b->manifest, slice_cstr(pointer)));
}
#define ABSENT(pointer) check_absent(b, pointer, __LINE__)

/* Some line of that kind holds the phrase. */
static void check_line(struct bench *b, enum import_kind kind, const char *phrase, int line)
{
    for (size_t i = 0; i < b->result.line_count; i++)
        if (b->result.lines[i].kind == kind &&
            slice_find(b->result.lines[i].text, slice_cstr(phrase)) >= 0)
            return;
    print_error("line %d: no line says \"%s\"; there are:\n", line, phrase);
    for (size_t i = 0; i < b->result.line_count; i++)
        print_error("  %s %.*s: %.*s\n", import_kind_name(b->result.lines[i].kind),
                    SLICE_ARG(b->result.lines[i].operation), SLICE_ARG(b->result.lines[i].text));
    fail();
}
#define SAYS(kind, phrase) check_line(b, IMPORT_##kind, phrase, __LINE__)

static void check_fault(struct bench *b, const char *document, const char *overrides, int code,
                        const char *phrase, int line)
{
    int got = run(b, document, overrides, "");
    if (got != code || !strstr(b->err.text, phrase))
        print_error("line %d: %d \"%s\"\n", line, got, b->err.text);
    assert_int_equal(got, code);
    assert_non_null(strstr(b->err.text, phrase));
}
#define FAULT(document, code, phrase) check_fault(b, document, "", code, phrase, __LINE__)

/* ---- the whole ---- */

static void a_plain_operation(void **state)
{
    struct bench *b = *state;
    import(b, DOCUMENT("3.0.3",
                       GET_PETS(",'summary':'List pets','description':'All of ${them}.','tags':["
                                "'pets'],'externalDocs':{'url':'https://example.com/d'},"
                                "'parameters':[{'name':'limit','in':'query','description':'How "
                                "many.','schema':{'type':'integer','maximum':10}}],'responses':{"
                                "'200':{'content':{'application/json':{'schema':{'type':'array',"
                                "'items':{'type':'string'}}}}}}"),
                       ""));
    AT("/integration_id", "'pet_shop'");
    AT("/name", "'Pet Shop'");
    AT("/base_url", "'https://api.example.com/v1'");
    AT("/auth", "{'type':'none'}");
    AT("/actions/0",
       "{'action_id':'list_pets','title':'List pets','description':'All of ${them}.',"
       "'docs_url':'https://example.com/d','tags':['pets'],'side_effect_level':'read',"
       "'input_schema':{'type':'object','properties':{'limit':{'type':'integer','maximum':10,"
       "'description':'How many.'}},'additionalProperties':false},'output_schema':{'type':'array',"
       "'items':{'type':'string'}},'request':{'method':'GET','path':'/pets','query':{'limit':"
       "'${input.limit}'}},'display':{'title':'List pets','summary':'List pets: answered with "
       "${status}'},'examples':[{'title':'List pets','input':{}}]}");
    assert_int_equal(b->result.total, 1);
    assert_int_equal(b->result.imported, 1);
    assert_int_equal(b->result.weakened, 0);
    SAYS(NOTE, "no security scheme");
}

static void levels_follow_the_method(void **state)
{
    struct bench *b = *state;
    import(b, DOCUMENT("3.1.0",
                       "'/p':{'get':{},'put':{},'post':{},'patch':{},'delete':{},'head':{},"
                       "'options':{},'trace':{},'summary':'x','x-more':{}}",
                       ""));
    AT("/actions/0/side_effect_level", "'read'");
    AT("/actions/1/side_effect_level", "'write'");
    AT("/actions/2/side_effect_level", "'write'");
    AT("/actions/3/side_effect_level", "'write'");
    AT("/actions/4/side_effect_level", "'delete'");
    AT("/actions/0/action_id", "'get_p'");
    AT("/actions/0/title", "'GET /p'");
    assert_int_equal(b->result.total, 8);
    assert_int_equal(b->result.skipped, 3);
    SAYS(SKIPPED, "HEAD is not a method of actions");
    SAYS(SKIPPED, "TRACE");
}

/* ---- ids ---- */

#define LONG "aVeryLongOperationNameThatGoesOnAndOnAndOnUntilItIsFarOverTheLimitOfNames"

static void ids_are_short_unique_and_stable(void **state)
{
    struct bench *b = *state;
    const char *document =
        DOCUMENT("3.0.0",
                 "'/a':{'get':{'operationId':'" LONG "One'},'put':{'operationId':'" LONG "Two'}},"
                 "'/b':{'get':{'operationId':'get-it'},'put':{'operationId':'get_it'},"
                 "'post':{'operationId':'get-it'}},"
                 "'/c':{'get':{'operationId':'HTMLPage2Text'},'put':{'operationId':'2fast'},"
                 "'post':{'operationId':'\\u00e4'}}",
                 "");
    import(b, document);
    slice ids[8];
    for (unsigned i = 0; i < ARRAY_LEN(ids); i++) {
        slice id = json_get_str(json_at(JSON_GET(b->manifest, "actions"), i), SLICE("action_id"));
        assert_true(strlen("pet_shop_") + id.len <= CATALOG_TOOL_NAME_MAX);
        ids[i] = arena_dup(&b->arena, id);
        for (unsigned j = 0; j < i; j++)
            assert_false(slice_eq(ids[i], ids[j]));
    }
    assert_true(slice_starts_with(ids[0], SLICE("a_very_long_operation_name_that_goes_on")));
    assert_true(slice_eq_cstr(ids[2], "get_it"));
    assert_true(slice_starts_with(ids[3], SLICE("get_it_")));
    assert_true(slice_starts_with(ids[4], SLICE("get_it_")));
    assert_true(slice_eq_cstr(ids[5], "html_page2_text"));
    assert_true(slice_eq_cstr(ids[6], "n2fast"));
    assert_true(slice_eq_cstr(ids[7], "operation"));
    import(b, document);
    for (unsigned i = 0; i < ARRAY_LEN(ids); i++)
        assert_true(slice_eq(ids[i], json_get_str(json_at(JSON_GET(b->manifest, "actions"), i),
                                                  SLICE("action_id"))));
}

/* ---- parameters ---- */

#define PARAMETER(members) GET_PETS(",'parameters':[{" members "}]")

static void path_parameters(void **state)
{
    struct bench *b = *state;
    import(b, DOCUMENT("3.0.0",
                       "'/pets/{pet-id}/{kinds}/x.{ext}':{'parameters':[{'name':'pet-id','in':"
                       "'path','required':true,'schema':{'type':'integer'},'example':7},{'$ref':"
                       "'#/components/parameters/Ext'}],'get':{'parameters':[{'name':'pet-id','in':"
                       "'path','required':true,'schema':{'type':'string'},'example':'p1'}]}}",
                       ",'components':{'parameters':{'Ext':{'name':'ext','in':'path','required':"
                       "true,'schema':{'type':'string','enum':['png','gif']}}}}"));
    AT("/actions/0/request/path", "'/pets/${input.\\\"pet-id\\\"}/${input.kinds}/x.${input.ext}'");
    AT(INPUT "properties/pet-id/type", "'string'");
    AT(INPUT "required", "['ext','pet-id','kinds']");
    SAYS(WEAKENED, "the path's \"kinds\" is not described");
}

static void query_styles(void **state)
{
    struct bench *b = *state;
    import(b, DOCUMENT(
                  "3.0.0",
                  GET_PETS(",'parameters':[{'name':'ids','in':'query','schema':{'type':'array',"
                           "'items':{'type':'integer'}}},{'name':'csv','in':'query','explode':"
                           "false,'schema':{'type':'array','items':{'type':'string'}}},{'name':"
                           "'pipes','in':'query','style':'pipeDelimited','schema':{'type':'array',"
                           "'items':{}}},{'name':'either','in':'query','explode':false,'schema':{"
                           "'oneOf':[{'type':'string'},{'type':'array','items':{}}]}},{'name':"
                           "'filter[name]','in':'query','schema':{'type':'string'}},{'name':'deep',"
                           "'in':'query','style':'deepObject','schema':{'type':'object',"
                           "'properties':{'from':{'type':'string'}}}},{'name':'json','in':'query',"
                           "'content':{'application/json':{'schema':{'type':'object'}}}},{'name':"
                           "'open','in':'query','schema':{'type':'object'}},{'name':'c','in':"
                           "'cookie','schema':{'type':'string'}}]"),
                  ""));
    AT("/actions/0/request/query",
       "{'ids':'${input.ids}','csv':'${input.csv && join(\\u0027,\\u0027, "
       "input.csv[*].to_string(@)) || `null`}','pipes':'${input.pipes && join(\\u0027|\\u0027, "
       "input.pipes[*].to_string(@)) || `null`}','either':'${type(input.either) == "
       "\\u0027array\\u0027 && join(\\u0027,\\u0027, input.either[*].to_string(@)) || "
       "input.either}','filter[name]':'${input.filter_name}','deep[from]':"
       "'${input.deep.\\\"from\\\"}','json':'${input.json && to_string(input.json) || `null`}'}");
    ABSENT(INPUT "properties/open");
    SAYS(WEAKENED, "\"open\" is left out: is an object whose members are not described");
    SAYS(WEAKENED, "the cookie parameter \"c\" is left out");
}

static void header_parameters(void **state)
{
    struct bench *b = *state;
    import(b, DOCUMENT("3.0.0",
                       "'/p':{'post':{'parameters':[{'name':'X-Trace','in':'header','schema':{"
                       "'type':'string'}},{'name':'Accept','in':'header','schema':{'type':"
                       "'string'}},{'name':'Idempotency-Key','in':'header','required':true,"
                       "'schema':{'type':'string'}},{'name':'bad name','in':'header','schema':{"
                       "'type':'string'}}]}}",
                       ""));
    AT("/actions/0/request/headers", "{'X-Trace':'${input.\\\"X-Trace\\\"}'}");
    AT("/actions/0/idempotency_header", "'Idempotency-Key'");
    SAYS(WEAKENED, "\"bad name\" is left out: is no header's name");
}

static void what_is_required_and_cannot_be_sent_skips(void **state)
{
    struct bench *b = *state;
    import(b, DOCUMENT("3.0.0",
                       "'/ok':{'get':{}},'/c':{'get':{'parameters':[{'name':'c','in':'cookie',"
                       "'required':true,'schema':{}}]}},'/m/{x}':{'get':{'parameters':[{'name':'x',"
                       "'in':'path','style':'matrix','required':true,'schema':{}}]}},'/q?a=1':{"
                       "'get':{}},'/d':{'get':{'deprecated':true}},'/o':{'get':{'servers':[{'url':"
                       "'https://other.example.com'}]}},'/r':{'get':{'parameters':[{'$ref':"
                       "'#/nowhere'}]}},'/{':{'get':{}}",
                       ""));
    assert_int_equal(b->result.imported, 1);
    assert_int_equal(b->result.skipped, 7);
    SAYS(SKIPPED, "the cookie parameter \"c\" is required");
    SAYS(SKIPPED, "in a style that cannot be written");
    SAYS(SKIPPED, "its path holds a query");
    SAYS(SKIPPED, "it is deprecated");
    SAYS(SKIPPED, "on a server of its own: https://other.example.com");
    SAYS(SKIPPED, "a reference to a parameter leads nowhere");
    SAYS(SKIPPED, "a brace without a name");
}

/* ---- bodies ---- */

static void a_body_joins_the_parameters(void **state)
{
    struct bench *b = *state;
    import(b, DOCUMENT("3.0.0",
                       "'/pets/{id}':{'put':{'parameters':[{'name':'id','in':'path','required':"
                       "true,'schema':{'type':'string'}},{'name':'id','in':'query','schema':{"
                       "'type':'string'}}],'requestBody':{'required':true,'content':{"
                       "'application/json':{'schema':{'$ref':'#/components/schemas/Pet'},"
                       "'example':{'name':'Rex','id':3}}}}}}",
                       ",'components':{'schemas':{'Pet':{'allOf':[{'$ref':"
                       "'#/components/schemas/Base'},{'type':'object','properties':{'name':{'type':"
                       "'string'},'made':{'type':'string','readOnly':true}},'required':['id',"
                       "'made']}]},'Base':{'type':'object','properties':{'id':{'type':'integer'}},"
                       "'required':['name']}}}"));
    AT(INPUT "required", "['id','body_id','name']");
    AT("/actions/0/request/query", "{'id':'${input.query_id}'}");
    AT("/actions/0/request/body", "{'json':{'id':'${input.body_id}','name':'${input.name}'}}");
    ABSENT(INPUT "properties/made");
    SAYS(WEAKENED, "\"id\" occurs twice: that of the query is called \"query_id\"");
    SAYS(WEAKENED, "that of the body is called \"body_id\"");
    ABSENT("/actions/0/examples");
}

static void nulls_are_kept_where_they_mean_something(void **state)
{
    struct bench *b = *state;
    import(b, DOCUMENT("3.0.0",
                       BODY("{'type':'object','required':['a'],'properties':{'a':{'type':"
                            "'string'},'b-c':{'type':'string','nullable':true}}}"),
                       ""));
    AT("/actions/0/request/body/json",
       "'${merge({\\\"a\\\": input.a}, contains(keys(input), \\u0027b-c\\u0027) && "
       "{\\\"b-c\\\": input.\\\"b-c\\\"} || `{}`)}'");
}

static void too_many_members_for_nulls(void **state)
{
    struct bench *b = *state;
    struct buf text;
    buf_init(&text, 64 * 1024);
    buf_append_cstr(&text, "{'openapi':'3.0.0','info':{'title':'x'},'servers':[{'url':"
                           "'https://x.example.com'}],'paths':{" /* BODY(, opened */
                           "'/p':{'patch':{'requestBody':{'content':{'application/json':{'schema':{"
                           "'type':'object','properties':{'n':{'type':'string','nullable':true}");
    for (int i = 0; i < MANY_OPTIONALS; i++)
        buf_printf(&text, ",'p%d':{'type':'string'}", i);
    buf_append_cstr(&text, "}}}}}}}}}");
    buf_append_char(&text, '\0');
    import(b, text.ptr);
    buf_deinit(&text);
    AT("/actions/0/request/body/json/n", "'${input.n}'");
    SAYS(WEAKENED, "a null in the body cannot be sent");
}

static void bodies_in_one_input(void **state)
{
    static const char *const schemas[] = {
        "{'type':'array','items':{'type':'string'}}",
        "{'type':'object','additionalProperties':{'type':'string'}}",
        "{'oneOf':[{'type':'object'},{'type':'string'}]}",
        "{'type':'object','properties':{'a':{}},'anyOf':[{'required':['a']}]}",
        "{'type':'object','properties':{'${a}':{}}}",
    };
    struct bench *b = *state;
    for (size_t i = 0; i < ARRAY_LEN(schemas); i++) {
        char text[2048];
        (void)snprintf(text, sizeof(text), DOCUMENT("3.0.0", BODY("%s"), ""), schemas[i]);
        import(b, text);
        AT("/actions/0/request/body", "{'json':'${input.body}'}");
        AT(INPUT "required", "['body']");
    }
}

#define CONTENT(type, schema, required)                                           \
    DOCUMENT("3.0.0",                                                             \
             "'/ok':{'get':{}},'/p':{'post':{'requestBody':{'required':" required \
             ",'content':{'" type "':{'schema':" schema "}}}}}",                  \
             "")

static void other_content(void **state)
{
    struct bench *b = *state;
    import(b, CONTENT("application/x-www-form-urlencoded",
                      "{'type':'object','properties':{'a':{'type':'string'},'l':{'type':'array',"
                      "'items':{'type':'string'}},'o':{'type':'object'}}}",
                      "true"));
    AT("/actions/1/request/body", "{'form':{'a':'${input.a}','l':'${input.l}'}}");
    SAYS(WEAKENED, "the form's member \"o\" is left out");
    import(b, CONTENT("multipart/form-data",
                      "{'type':'object','properties':{'a':{'type':'string'}}}", "true"));
    AT("/actions/1/request/body", "{'multipart':[{'name':'a','value':'${input.a}'}]}");
    import(b, CONTENT("text/plain", "{'type':'string'}", "false"));
    AT("/actions/1/request/body", "{'raw':'${input.body}','content_type':'text/plain'}");
    SAYS(WEAKENED, "the body may not be left out");
    import(b, CONTENT("application/octet-stream", "{'type':'string','format':'binary'}", "true"));
    AT("/actions/1/request/body/encoding", "'base64'");
    import(b, CONTENT("application/merge-patch+json", "{'type':'object','properties':{'a':{}}}",
                      "true"));
    AT("/actions/1/request/body", "{'json':{'a':'${input.a}'}}");
    SAYS(WEAKENED, "sent as application/json, not application/merge-patch+json");
    import(b, CONTENT("multipart/form-data",
                      "{'type':'object','required':['f'],'properties':{'f':{'type':'string',"
                      "'format':'binary'}}}",
                      "true"));
    SAYS(SKIPPED, "the form's member \"f\" is required and a file");
    import(b, CONTENT("application/xml", "{}", "true"));
    SAYS(SKIPPED, "none of its content types is known");
    import(b, CONTENT("application/xml", "{}", "false"));
    SAYS(WEAKENED, "its body is left out");
    ABSENT("/actions/1/request/body");
    import(b,
           DOCUMENT("3.0.0", GET_PETS(",'requestBody':{'content':{'application/json':{}}}"), ""));
    SAYS(WEAKENED, "a GET has no body");
}

static void a_body_that_may_be_null(void **state)
{
    struct bench *b = *state;
    import(b, DOCUMENT("3.0.0",
                       BODY("{'type':'object','nullable':true,'properties':{'a':{'type':"
                            "'string'}}}"),
                       ""));
    AT("/actions/0/request/body", "{'json':{'a':'${input.a}'}}");
    SAYS(WEAKENED, "the body may not be null");
}

/* ---- schemas ---- */

static void version_3_0_becomes_2020_12(void **state)
{
    struct bench *b = *state;
    import(b, DOCUMENT("3.0.2",
                       BODY("{'type':'object','properties':{'n':{'type':'integer','minimum':1,"
                            "'exclusiveMinimum':true,'maximum':9,'exclusiveMaximum':false,"
                            "'example':5},'e':{'type':'string','nullable':true,'enum':['a']},"
                            "'r':{'nullable':true,'description':'Say.','allOf':[{'$ref':"
                            "'#/components/schemas/S'}]},'x':{'type':'string','xml':{},"
                            "'required':true,'discriminator':{},'x-y':1}}}"),
                       ",'components':{'schemas':{'S':{'type':'string'}}}"));
    AT(INPUT "properties",
       "{'n':{'type':'integer','maximum':9,'exclusiveMinimum':1,'examples':[5],'description':"
       "'n, in the body.'},'e':{'type':['string','null'],'enum':['a',null],'description':"
       "'e, in the body.'},'r':{'description':'Say.','anyOf':[{'allOf':[{'$ref':'#/$defs/S'}]},"
       "{'type':'null'}]},'x':{'type':'string','description':'x, in the body.'}}");
    AT(INPUT "$defs", "{'S':{'type':'string'}}");
}

static void version_3_1_stays(void **state)
{
    struct bench *b = *state;
    import(b, DOCUMENT("3.1.0",
                       BODY("{'type':'object','properties':{'n':{'type':['integer','null'],"
                            "'exclusiveMinimum':1,'description':'N.'},'r':{'$ref':"
                            "'#/components/schemas/a~1b%20c','description':'R.','maxLength':3},"
                            "'t':{'description':'T.','prefixItems':[{'type':'string'}]}}}"),
                       ",'components':{'schemas':{'a/b c':{'type':'string'}}}"));
    AT(INPUT "properties",
       "{'n':{'type':['integer','null'],'description':'N.','exclusiveMinimum':1},'r':{'$ref':"
       "'#/$defs/a_1b_20c','description':'R.','maxLength':3},'t':{'description':'T.',"
       "'prefixItems':[{'type':'string'}]}}");
}

static void cycles_are_kept(void **state)
{
    struct bench *b = *state;
    import(b, DOCUMENT("3.0.0",
                       BODY("{'type':'object','properties':{'tree':{'$ref':"
                            "'#/components/schemas/Node'}}}"),
                       ",'components':{'schemas':{'Node':{'type':'object','properties':{'kids':{"
                       "'type':'array','items':{'$ref':'#/components/schemas/Node'}},'loop':{"
                       "'$ref':'#/components/schemas/Loop'}}},'Loop':{'$ref':"
                       "'#/components/schemas/Node'}}}"));
    AT(INPUT "properties/tree/$ref", "'#/$defs/Node'");
    AT(INPUT "$defs/Node/properties/kids/items", "{'$ref':'#/$defs/Node'}");
    AT(INPUT "$defs/Loop", "{'$ref':'#/$defs/Node'}");
}

static void a_ring_of_references_ends(void **state)
{
    struct bench *b = *state;
    import(b, DOCUMENT("3.0.0", "'/ok':{'get':{}}," BODY("{'$ref':'#/components/schemas/A'}"),
                       ",'components':{'schemas':{'A':{'$ref':'#/components/schemas/B'},'B':{"
                       "'$ref':'#/components/schemas/A'}}}"));
    AT("/actions/1/request/body", "{'json':'${input.body}'}");
}

static void what_our_schemas_refuse_is_dropped(void **state)
{
    struct bench *b = *state;
    import(b, DOCUMENT("3.0.0",
                       BODY("{'type':'object','properties':{'a':{'type':'string','pattern':"
                            "'^(?<!x)[a-'},'b':{'type':'file'},'c':{'minLength':-1},'d':{'$ref':"
                            "'other.json#/x'},'e':{'enum':[]},'f':7}}"),
                       ""));
    AT(INPUT "properties/a", "{'type':'string','description':'a, in the body.'}");
    SAYS(WEAKENED, "the pattern ^(?<!x)[a- is dropped");
    SAYS(WEAKENED, "a schema's \"type\" is dropped");
    SAYS(WEAKENED, "a schema's \"minLength\" is dropped");
    SAYS(WEAKENED, "other.json#/x leads nowhere");
    SAYS(WEAKENED, "a schema's \"enum\" is dropped");
}

static void depth_is_bounded(void **state)
{
    struct bench *b = *state;
    struct buf text;
    buf_init(&text, 64 * 1024);
    buf_append_cstr(&text, "{'openapi':'3.0.0','info':{'title':'x'},'servers':[{'url':"
                           "'https://x.example.com'}],'paths':{'/p':{'post':{'requestBody':{"
                           "'required':true,'content':{'application/json':{'schema':");
    size_t head = text.len;
    for (int depth = 60; depth <= DEEP; depth += DEEP - 60) {
        text.len = head;
        for (int i = 0; i < depth; i++)
            buf_append_cstr(&text, "{'items':");
        buf_append_cstr(&text, "{}");
        for (int i = 0; i < depth; i++)
            buf_append_cstr(&text, "}");
        buf_append_cstr(&text, "}}}}}}}");
        buf_append_char(&text, '\0');
        if (depth == 60) {
            import(b, text.ptr);
            SAYS(WEAKENED, "nested too deep");
        } else {
            FAULT(text.ptr, ERR_LIMIT, "the document");
        }
    }
    buf_deinit(&text);
}

/* ---- security, servers ---- */

#define SCHEMES(schemes)            \
    DOCUMENT("3.0.0", GET_PETS(""), \
             ",'security':[{'s':[]}],'components':{'securitySchemes':{" schemes "}}")

static void schemes_become_auth(void **state)
{
    struct bench *b = *state;
    import(b, SCHEMES("'s':{'type':'http','scheme':'Bearer'}"));
    AT("/auth", "{'type':'bearer'}");
    import(b, SCHEMES("'s':{'type':'http','scheme':'basic'}"));
    AT("/auth", "{'type':'basic'}");
    import(b, SCHEMES("'s':{'type':'apiKey','in':'header','name':'X-Key'}"));
    AT("/auth", "{'type':'api_key','send':{'in':'header','name':'X-Key','value':"
                "'${credential.api_key}'}}");
    import(b, SCHEMES("'s':{'type':'apiKey','in':'query','name':'key'}"));
    AT("/auth/send/in", "'query'");
    import(b, SCHEMES("'s':{'type':'apiKey','in':'cookie','name':'sid'}"));
    AT("/auth/send", "{'in':'header','name':'Cookie','value':'sid=${credential.api_key}'}");
    import(b, SCHEMES("'s':{'type':'oauth2','flows':{'clientCredentials':{'tokenUrl':"
                      "'https://x.example.com/t','scopes':{}}}}"));
    AT("/auth", "{'type':'oauth2_client_credentials','token_url':'https://x.example.com/t',"
                "'scopes':[]}");
    import(b, SCHEMES("'s':{'type':'oauth2','flows':{'authorizationCode':{'authorizationUrl':"
                      "'/a','tokenUrl':'/t','scopes':{}}}}"));
    AT("/auth", "{'type':'bearer'}");
    SAYS(NOTE, "are not absolute");
    import(b, SCHEMES("'s':{'type':'mutualTLS'}"));
    AT("/auth", "{'type':'none'}");
}

static void scopes_of_operations(void **state)
{
    struct bench *b = *state;
    import(b,
           DOCUMENT("3.0.0",
                    "'/one':{'get':{}},'/any':{'get':{'security':[{'o':['r']},{'o':['w']}]}},"
                    "'/both':{'get':{'security':[{'o':['r','w']}]}},'/open':{'get':{'security':["
                    "]}},'/other':{'get':{'security':[{'k':[]}]}}",
                    ",'security':[{'o':['r']},{'k':[]}],'components':{'securitySchemes':{'k':{"
                    "'type':'http','scheme':'basic'},'o':{'type':'oauth2','flows':{"
                    "'authorizationCode':{'authorizationUrl':'https://x.example.com/a','tokenUrl':"
                    "'https://x.example.com/t','scopes':{'r':'','w':''}}}}}}"));
    AT("/auth", "{'type':'oauth2','authorize_url':'https://x.example.com/a','token_url':"
                "'https://x.example.com/t','scopes':['r','w']}");
    AT("/actions/0/scopes", "['r']");
    AT("/actions/1/scopes", "['r','w']");
    ABSENT("/actions/2/scopes");
    ABSENT("/actions/3/scopes");
    SAYS(WEAKENED, "it wants several scopes at once");
    SAYS(WEAKENED, "it wants a credential that the connection does not have");
}

#define SERVERS(servers)                                                \
    "{'openapi':'3.0.0','info':{'title':'Pet Shop'},'servers':" servers \
    ",'paths':{" GET_PETS("") "}}"

static void servers_become_base_url(void **state)
{
    struct bench *b = *state;
    import(b, SERVERS("[{'url':'https://{region}.example.com/{v}/','variables':{'region':{'enum':["
                      "'eu','us'],'default':'eu','description':'Where.'},'v':{'enum':['v2'],"
                      "'default':'v2'}}},{'url':'https://b.example.com'}]"));
    AT("/base_url", "'https://${connection.params.region}.example.com/v2'");
    AT("/connection_params",
       "{'type':'object','properties':{'region':{'type':'string','minLength':1,'description':"
       "'Where.','enum':['eu','us'],'default':'eu'}},'required':['region'],"
       "'additionalProperties':false}");
    SAYS(NOTE, "2 servers are described, the first is used");
    import(b, SERVERS("[{'url':'/api'}]"));
    AT("/base_url", "'https://${connection.params.host}/api'");
    SAYS(NOTE, "no server with a host");
    FAULT(SERVERS("[{'url':'ftp://x'}]"), ERR_INVALID, "is no http address");
    FAULT(SERVERS("[{'url':'https://{x'}]"), ERR_INVALID, "a brace without its end");
}

static void servers_of_a_path(void **state)
{
    struct bench *b = *state;
    import(b,
           DOCUMENT("3.0.0",
                    "'/p':{'servers':[{'url':'https://api.example.com/v1/beta'}],'get':{}}", ""));
    AT("/actions/0/request/path", "'/beta/p'");
}

/* ---- examples ---- */

static void examples_need_every_required_input(void **state)
{
    struct bench *b = *state;
    import(b, DOCUMENT("3.0.0",
                       BODY("{'type':'object','required':['a','b','c'],'properties':{'a':{'type':"
                            "'string','example':'x'},'b':{'type':'integer','default':2},'c':{"
                            "'enum':['k','l']},'d':{'type':'string'}}}"),
                       ""));
    AT("/actions/0/examples/0/input", "{'a':'x','b':2,'c':'k'}");
    import(b, DOCUMENT("3.0.0",
                       BODY("{'type':'object','required':['a'],'properties':{'a':{'type':'integer',"
                            "'example':'not one'}}}"),
                       ""));
    ABSENT("/actions/0/examples");
}

/* ---- overrides ---- */

#define TWO DOCUMENT("3.0.0", "'/a':{'post':{'operationId':'find'},'get':{}}", "")

static void overrides_say_what_is_not_described(void **state)
{
    struct bench *b = *state;
    import_with(b, TWO,
                "{'integration':{'name':'Mine','category':'pets','base_url':"
                "'https://mine.example.com','auth':{'type':'bearer'},'limits':{'rate_per_s':3}},"
                "'operations':{'find':{'side_effect_level':'read','action_id':'search','title':'T',"
                "'description':'D','tags':['t'],'scopes':['s'],'idempotent':true},"
                "'GET /a':{'skip':true}}}");
    AT("/name", "'Mine'");
    AT("/category", "'pets'");
    AT("/base_url", "'https://mine.example.com'");
    AT("/auth", "{'type':'bearer'}");
    AT("/limits", "{'rate_per_s':3}");
    AT("/actions/0/side_effect_level", "'read'");
    AT("/actions/0/action_id", "'search'");
    AT("/actions/0/title", "'T'");
    AT("/actions/0/description", "'D'");
    AT("/actions/0/tags", "['t']");
    AT("/actions/0/scopes", "['s']");
    AT("/actions/0/idempotent", "true");
    SAYS(SKIPPED, "the overrides say so");
}

static void faulty_overrides(void **state)
{
    static const struct {
        const char *text;
        int code;
        const char *phrase;
    } cases[] = {
        {"[", ERR_SYNTAX, "overrides"},
        {"[]", ERR_INVALID, "the file must be an object"},
        {"{'x':1}", ERR_INVALID, "unknown member \"x\""},
        {"{'integration':{'nam':1}}", ERR_INVALID, "unknown member \"nam\""},
        {"{'operations':[]}", ERR_INVALID, "operations must be an object"},
        {"{'operations':{'find':{'level':1}}}", ERR_INVALID, "unknown member \"level\""},
        {"{'operations':{'find':{'tags':1}}}", ERR_INVALID, "tags must be an array"},
        {"{'operations':{'find':{'action_id':'A'}}}", ERR_INVALID, "action_id must match"},
        {"{'operations':{'lost':{}}}", ERR_NOTFOUND, "no operation \"lost\""},
        {"{'operations':{'find':{'side_effect_level':'mild'}}}", ERR_INVALID, "must be one of"},
        {"{'operations':{'GET /a':{'side_effect_level':'write'}}}", ERR_INVALID,
         "a GET does not write"},
        {"{'integration':{'auth':{'type':'magic'}}}", ERR_INVALID, "/auth/type"},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check_fault(b, TWO, cases[i].text, cases[i].code, cases[i].phrase, __LINE__);
}

/* ---- faults of the document ---- */

static void faulty_documents(void **state)
{
    struct bench *b = *state;
    FAULT("openapi: 3.0.0\npaths: {}\n", ERR_SYNTAX, "YAML is not read");
    FAULT("", ERR_SYNTAX, "not a JSON object");
    FAULT("{'openapi':", ERR_SYNTAX, "the document");
    FAULT("{'swagger':'2.0'}", ERR_INVALID, "Swagger 2.0");
    FAULT("{'openapi':'4.0.0','paths':{}}", ERR_INVALID, "got \"4.0.0\"");
    FAULT("{'openapi':'3.0.0'}", ERR_INVALID, "no \"paths\"");
    FAULT("{'openapi':'3.0.0','paths':{}}", ERR_INVALID, "no title");
    FAULT(DOCUMENT("3.0.0", "", ""), ERR_NOTFOUND, "no operation could be imported");
    FAULT(DOCUMENT("3.0.0", "'/a':{'get':{'deprecated':true}}", ""), ERR_NOTFOUND,
          "no operation could be imported");
    SAYS(SKIPPED, "it is deprecated");
    assert_int_equal(run(b, TWO, "", "Bad-Id"), ERR_INVALID);
    assert_int_equal(run(b, TWO, "", "good_id"), OK);
    AT("/integration_id", "'good_id'");
    struct import_options options = {.document = {"", (size_t)IMPORT_DOCUMENT_BYTES_MAX + 1}};
    forget(b);
    assert_int_equal(catalog_import_openapi(&options, &b->result, &b->err), ERR_LIMIT);
    b->is_imported = true;
}

/* Wrong types in every place: never a crash, and what comes out loads. */
static void nonsense_inside(void **state)
{
    static const char *const paths[] = {
        "'/a':7,'/ok':{'get':{}}",
        "'/a':{'get':7},'/ok':{'get':{}}",
        "'/a':{'$ref':'x.json'},'/ok':{'get':{}}",
        "'/ok':{'get':{'parameters':7,'tags':7,'security':7,'responses':7,'operationId':7}}",
        "'/ok':{'get':{'parameters':[]}},'/a':{'get':{'parameters':[7,{}]}}",
        "'/ok':{'get':{'tags':[7,''],'summary':'  ','security':[7,{},{'a':7}]}}",
        "'/ok':{'post':{'requestBody':{'content':7}}}",
        "'/ok':{'get':{}},'/b':{'post':{'requestBody':7}}",
        "'/ok':{'post':{'requestBody':{'content':{'application/json':7}}}}",
        "'/ok':{'get':{'responses':{'200':7,'2':{},'201':{'content':{'application/json':{"
        "'schema':{'type':7}}}}}}}",
    };
    struct bench *b = *state;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        char text[1024];
        (void)snprintf(text, sizeof(text), DOCUMENT("3.0.0", "%s", ""), paths[i]);
        import(b, text);
        assert_true(b->result.imported >= 1);
    }
}

/* The n-th allocation fails, for every n: an error, never a crash or a leak. */
static void memory_runs_out(void **state)
{
    struct bench *b = *state;
    slice document = quoted(b, DOCUMENT("3.0.0",
                                        BODY("{'type':'object','properties':{'a':{'$ref':"
                                             "'#/components/schemas/S'},'b':{'nullable':true,"
                                             "'type':'string','pattern':'^a'}}}"),
                                        ",'components':{'schemas':{'S':{'type':'string'}}}"));
    struct import_options options = {.document = document};
    assert_int_equal(catalog_import_openapi(&options, &b->result, &b->err), OK);
    b->is_imported = true;
    for (uint64_t n = 1;; n++) {
        struct import_result result;
        mem_fail_at(n, 1);
        int code = catalog_import_openapi(&options, &result, &b->err);
        uint64_t hits = mem_fail_hits();
        mem_fail_at(0, 0);
        if (code == OK && !slice_eq(result.manifest, b->result.manifest))
            print_error("allocation %d\n%.*s\n", (int)n, SLICE_ARG(result.manifest));
        if (code == OK)
            assert_true(slice_eq(result.manifest, b->result.manifest));
        catalog_import_free(&result);
        if (hits == 0) {
            assert_int_equal(code, OK);
            break;
        }
        assert_true(n < 10000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(a_plain_operation),
        TEST(levels_follow_the_method),
        TEST(ids_are_short_unique_and_stable),
        TEST(path_parameters),
        TEST(query_styles),
        TEST(header_parameters),
        TEST(what_is_required_and_cannot_be_sent_skips),
        TEST(a_body_joins_the_parameters),
        TEST(nulls_are_kept_where_they_mean_something),
        TEST(too_many_members_for_nulls),
        TEST(bodies_in_one_input),
        TEST(other_content),
        TEST(a_body_that_may_be_null),
        TEST(version_3_0_becomes_2020_12),
        TEST(version_3_1_stays),
        TEST(cycles_are_kept),
        TEST(a_ring_of_references_ends),
        TEST(what_our_schemas_refuse_is_dropped),
        TEST(depth_is_bounded),
        TEST(schemes_become_auth),
        TEST(scopes_of_operations),
        TEST(servers_become_base_url),
        TEST(servers_of_a_path),
        TEST(examples_need_every_required_input),
        TEST(overrides_say_what_is_not_described),
        TEST(faulty_overrides),
        TEST(faulty_documents),
        TEST(nonsense_inside),
        TEST(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
