/*
 * OpenAPI operations to actions: parameters, bodies and schemas, and the report of what is lost.
 */
#include "import_test.h"

enum { DEEP = 300, MANY_OPTIONALS = 40 };

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
    import(
        b,
        DOCUMENT(
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
                     "'open','in':'query','schema':{'type':'object'}},{'name':'open2','in':'query',"
                     "'schema':{'type':'object'}},{'name':'c','in':"
                     "'cookie','schema':{'type':'string'}}]"),
            ""));
    AT("/actions/0/request/query",
       "{'ids':'${input.ids}','csv':'${input.csv && join(\\u0027,\\u0027, "
       "input.csv[*].to_string(@)) || `null`}','pipes':'${input.pipes && join(\\u0027|\\u0027, "
       "input.pipes[*].to_string(@)) || `null`}','either':'${type(input.either) == "
       "\\u0027array\\u0027 && join(\\u0027,\\u0027, input.either[*].to_string(@)) || "
       "input.either}','filter[name]':'${input.filter_name}','deep':"
       "'${input.deep}','json':'${input.json && to_string(input.json) || `null`}',"
       "'':'${input.open}'}");
    AT("/actions/0/request/nesting", "'deep'");
    SAYS(WEAKENED, "\"open2\" is omitted: is one object of several");
    SAYS(WEAKENED, "the cookie parameter \"c\" is omitted");
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
    SAYS(WEAKENED, "\"bad name\" is omitted: is not a valid header name");
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
    SAYS(SKIPPED, "its path has a query");
    SAYS(SKIPPED, "it is deprecated");
    SAYS(SKIPPED, "on a server of its own: https://other.example.com");
    SAYS(SKIPPED, "a reference to a parameter does not lead to anything");
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
    AT("/actions/0/request/body", "{'json':{'id':'${input.body_id}','name':'${input.name}'},"
                                  "'others':true}");
    ABSENT(INPUT "properties/made");
    SAYS(WEAKENED, "\"id\" occurs twice: the one in the query is called \"query_id\"");
    SAYS(WEAKENED, "the one in the body is called \"body_id\"");
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
                           "'https://x.example.com'}],'paths':{" /* the beginning of BODY() */
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
    AT("/actions/1/request/body", "{'form':{'a':'${input.a}','l':'${input.l}'},'others':true}");
    SAYS(WEAKENED, "the form's member \"o\" is omitted");
    import(b, CONTENT("multipart/form-data",
                      "{'type':'object','properties':{'a':{'type':'string'}}}", "true"));
    AT("/actions/1/request/body",
       "{'multipart':[{'name':'a','value':'${input.a}'}],'others':true}");
    import(b, CONTENT("text/plain", "{'type':'string'}", "false"));
    AT("/actions/1/request/body", "{'raw':'${input.body}','content_type':'text/plain'}");
    SAYS(WEAKENED, "the body may not be omitted");
    import(b, CONTENT("application/octet-stream", "{'type':'string','format':'binary'}", "true"));
    AT("/actions/1/request/body/encoding", "'base64'");
    import(b, CONTENT("application/merge-patch+json", "{'type':'object','properties':{'a':{}}}",
                      "true"));
    AT("/actions/1/request/body",
       "{'json':{'a':'${input.a}'},'others':true,'content_type':'application/merge-patch+json'}");
    import(b, CONTENT("multipart/form-data",
                      "{'type':'object','required':['f'],'properties':{'f':{'type':'string',"
                      "'format':'binary'}}}",
                      "true"));
    SAYS(SKIPPED, "the form's member \"f\" is required and a file");
    import(b, CONTENT("application/xml", "{}", "true"));
    SAYS(SKIPPED, "none of its content types is known");
    import(b, CONTENT("application/xml", "{}", "false"));
    SAYS(WEAKENED, "its body is omitted");
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
    AT("/actions/0/request/body", "{'json':{'a':'${input.a}'},'others':true}");
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
    SAYS(WEAKENED, "other.json#/x does not lead to anything");
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

/* Everything that the document allows is accepted, and clients of models get a type. */
static void an_array_says_what_its_items_are(void **state)
{
    struct bench *b = *state;
    import(b, DOCUMENT("3.1.0",
                       BODY("{'type':'object','properties':{'a':{'type':'array'},'b':{'type':"
                            "'array','items':{}},'c':{'type':'array','items':{'title':'C'}},'d':{"
                            "'type':'array','items':{'$ref':'#/components/schemas/D'}},'e':{'type':"
                            "'array','items':{'$ref':'#/components/schemas/E'}}}}"),
                       ",'components':{'schemas':{'D':{'type':'string'},'E':{'title':'E'}}}"));
    AT(INPUT "properties/a/items", "{'$ref':'#/$defs/any_json'}");
    AT(INPUT "properties/b/items", "{'$ref':'#/$defs/any_json'}");
    AT(INPUT "properties/c/items",
       "{'title':'C','type':['null','boolean','integer','number','string','array','object'],"
       "'items':{'$ref':'#/$defs/any_json'}}");
    AT(INPUT "properties/d/items", "{'$ref':'#/$defs/D'}");
    AT(INPUT "properties/e/items/type",
       "['null','boolean','integer','number','string','array','object']");
    AT(INPUT "$defs/any_json",
       "{'type':['null','boolean','integer','number','string','array','object'],"
       "'items':{'$ref':'#/$defs/any_json'}}");
}

/* Open unless the document closes it, so that everything that the vendor accepts is accepted. */
static void a_body_is_closed_where_the_document_says_so(void **state)
{
    struct bench *b = *state;
    import(b,
           DOCUMENT("3.1.0", BODY("{'type':'object','properties':{'a':{'type':'string'}}}"), ""));
    AT(INPUT "additionalProperties", "true");
    AT("/actions/0/request/body/others", "true");
    import(b, DOCUMENT("3.1.0",
                       BODY("{'type':'object','additionalProperties':false,'properties':{'a':{"
                            "'type':'string'}}}"),
                       ""));
    AT(INPUT "additionalProperties", "false");
    ABSENT("/actions/0/request/body/others");
    /* a schema that describes its other members is complete as it is */
    import(b, DOCUMENT("3.1.0",
                       BODY("{'type':'object','additionalProperties':{'type':'integer'},"
                            "'properties':{'a':{'type':'string'}}}"),
                       ""));
    AT(INPUT "properties/body/additionalProperties", "{'type':'integer'}");
    AT(INPUT "additionalProperties", "false");
    import(b, DOCUMENT("3.1.0", GET_PETS(""), ""));
    AT(INPUT "additionalProperties", "false");
}

static void a_discriminator_names_its_branches(void **state)
{
    struct bench *b = *state;
    import(b,
           DOCUMENT("3.0.0",
                    BODY("{'oneOf':[{'$ref':'#/components/schemas/Cat'},{'$ref':"
                         "'#/components/schemas/Dog'},{'$ref':'#/components/schemas/Cow'},{'$ref':"
                         "'#/components/schemas/Own'}],'discriminator':{'propertyName':'kind',"
                         "'mapping':{'cat':'#/components/schemas/Cat','puppy':'Dog','hound':"
                         "'#/components/schemas/Dog'}}}"),
                    ",'components':{'schemas':{'Cat':{'type':'object','properties':{'kind':{"
                    "'type':'string'}}},'Dog':{'type':'object'},'Cow':{'type':'object'},'Own':{"
                    "'type':'object','properties':{'kind':{'enum':['mine']}}}}}"));
    AT(INPUT "properties/body/oneOf",
       "[{'$ref':'#/$defs/Cat','properties':{'kind':{'const':'cat'}},'required':['kind']},"
       "{'$ref':'#/$defs/Dog','properties':{'kind':{'enum':['puppy','hound']}},'required':['kind']"
       "},{'$ref':'#/$defs/Cow','properties':{'kind':{'const':'Cow'}},'required':['kind']},"
       "{'$ref':'#/$defs/Own'}]");
}

static void literal_parts_of_a_path_are_encoded(void **state)
{
    struct bench *b = *state;
    import(b, DOCUMENT("3.0.0",
                       "'/a b/caf\u00e9/%2f%zz/{id}$metadata/${x}':{'get':{'operationId':'a'}},"
                       "'/v1:search/(x),~y':{'get':{'operationId':'b'}}",
                       ""));
    AT("/actions/0/request/path", "'/a%20b/caf%C3%A9/%2f%25zz/${input.id}$metadata/%24${input.x}'");
    AT("/actions/1/request/path", "'/v1:search/(x),~y'");
}

static void replies_of_a_type_of_json_are_asked_for(void **state)
{
    struct bench *b = *state;
#define REPLY(types) GET_PETS(",'responses':{'200':{'content':{" types "}}}")
    import(b, DOCUMENT("3.0.0", REPLY("'application/vnd.api+json':{}"), ""));
    AT("/actions/0/request/headers", "{'Accept':'application/vnd.api+json'}");
    import(b, DOCUMENT("3.0.0", REPLY("'application/hal+json':{},'application/json':{}"), ""));
    ABSENT("/actions/0/request/headers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
        TEST(an_array_says_what_its_items_are),
        TEST(a_body_is_closed_where_the_document_says_so),
        TEST(a_discriminator_names_its_branches),
        TEST(literal_parts_of_a_path_are_encoded),
        TEST(replies_of_a_type_of_json_are_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
