/*
 * OpenAPI documents to manifests: levels, ids, security, servers, overrides. Each fault gives a
 * message.
 */
#include "import_test.h"

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
       "'${input.limit}'}},'response':{'kind':'array'},'display':{'title':'List "
       "pets','summary':'List pets: answered with "
       "${status}'},'examples':[{'title':'List pets','input':{}}]}");
    assert_int_equal(b->result.total, 1);
    assert_int_equal(b->result.imported, 1);
    assert_int_equal(b->result.weakened, 0);
    SAYS(NOTE, "no usable security scheme");
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
    SAYS(SKIPPED, "an action cannot use the method HEAD");
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
    SAYS(NOTE, "are not https");
    import(b, SCHEMES("'s':{'type':'oauth2','flows':{'clientCredentials':{'tokenUrl':"
                      "'http://x.example.com/t','scopes':{}}}}"));
    AT("/auth", "{'type':'bearer'}");
    SAYS(NOTE, "are not https");
    import(b, SCHEMES("'s':{'type':'apiKey','in':'header','name':'Api Key'}"));
    AT("/auth", "{'type':'none'}");
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
                    "'https://x.example.com/t','scopes':{'r':'','w':'Change it'}}}}}}"));
    AT("/auth", "{'type':'oauth2','authorize_url':'https://x.example.com/a','token_url':"
                "'https://x.example.com/t','scopes':['r','w']}");
    AT("/scope_words", "{'w':'Change it'}");
    AT("/actions/0/scopes", "['r']");
    AT("/actions/1/scopes", "['r','w']");
    ABSENT("/actions/2/scopes");
    ABSENT("/actions/3/scopes");
    SAYS(WEAKENED, "it needs several scopes at once");
    SAYS(WEAKENED, "it needs a credential that the connection does not have");
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
    AT("/base_url", "'https://${connection.params.region || \\u0027eu\\u0027}.example.com/v2'");
    AT("/connection_params",
       "{'type':'object','properties':{'region':{'type':'string','minLength':1,'description':"
       "'Where.','enum':['eu','us'],'default':'eu'}},'required':[],"
       "'additionalProperties':false}");
    SAYS(NOTE, "2 servers are described; the first is used");
    AT("/not_done_statuses", "[401,403,404,405,413,415,429]");
    /* The person is not asked for the scheme or for empty values, but for variables without a
     * default, or with a default that cannot be part of an address. */
    import(b, SERVERS("[{'url':'{scheme}://{shop}.example.com/{path}','variables':{'scheme':{"
                      "'default':'https','enum':['https','http']},'shop':{'default':'your shop'},"
                      "'path':{'default':''}}}]"));
    AT("/base_url", "'https://${connection.params.shop}.example.com'");
    AT("/connection_params/required", "['shop']");
    import(b, SERVERS("[{'url':'/api'}]"));
    AT("/base_url", "'https://${connection.params.host}/api'");
    SAYS(NOTE, "no server with a host");
    import(b, SERVERS("[{'url':'http://api.example.com/v1'}]"));
    AT("/base_url", "'https://api.example.com/v1'");
    SAYS(NOTE, "is plain http, so https is written");
    FAULT(SERVERS("[{'url':'ftp://x'}]"), ERR_INVALID, "is not an http address");
    FAULT(SERVERS("[{'url':'https://{x'}]"), ERR_INVALID, "a brace without its end");
}

/* A path cannot be appended to a query, and "..", in any form, leads to another path. */
static void a_server_has_a_plain_path(void **state)
{
    static const char *const dots[] = {
        "https://a.example/x/../y",
        "https://a.example/..;v/",
        "https://a.example/%2e%2E/y",
        "https://a.example/.",
        "https://a.example/x%2f..%2f",
        "../v1",
        "./",
        "/v1/../v2",
        "https://a.example/{x}/..",
    };
    static const char *const queries[] = {"https://a.example/v1?key=1", "https://a.example?",
                                          "/v1?x=/..", "https://a.example/v1#y", "/{x}?"};
    struct bench *b = *state;
    char document[1024];
    for (size_t i = 0; i < ARRAY_LEN(dots) + ARRAY_LEN(queries); i++) {
        bool is_query = i >= ARRAY_LEN(dots);
        (void)snprintf(document, sizeof(document), SERVERS("[{'url':'%s'}]"),
                       is_query ? queries[i - ARRAY_LEN(dots)] : dots[i]);
        FAULT(document, ERR_INVALID,
              is_query ? "has a query or a fragment; give base_url in the overrides"
                       : "has \".\" or \"..\" as a part of its path");
    }
    static const char *const none[] = {"https://kr}.example.com/v1", "https:///v1",
                                       "https://a b.example",        "https://a.example/x y",
                                       "https://me@a.example",       "https://a.example/$",
                                       "https://a.example/${x}",     "https://a.example/%2",
                                       "https://a!b.example/",       "/x\\\\y"};
    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        (void)snprintf(document, sizeof(document), SERVERS("[{'url':'%s'}]"), none[i]);
        FAULT(document, ERR_INVALID, "does not make an address that can be called");
    }
    FAULT(SERVERS("[{'url':'{s}://a.example','variables':{'s':{'default':'ftp'}}}]"), ERR_INVALID,
          "does not make an address that can be called");
    FAULT(SERVERS("[{'url':'https://{h}/x','variables':{'h':{'default':''}}}]"), ERR_INVALID,
          "does not make an address that can be called");
    import(b, SERVERS("[{'url':'https://a.example/x%20y'}]"));
    AT("/base_url", "'https://a.example/x%20y'");
    /* a variable whose value cannot be part of the address becomes a parameter */
    import(b,
           SERVERS("[{'url':'https://a.example/{v}','variables':{'v':{'default':'v1/../v2'}}}]"));
    AT("/base_url", "'https://a.example/${connection.params.v}'");
    import(b, SERVERS("[{'url':'https://a.example/{v}','variables':{'v':{'enum':['..;x']}}}]"));
    AT("/base_url", "'https://a.example/${connection.params.v}'");
    import(b, SERVERS("[{'url':'https://a.example/{v}','variables':{'v':{'enum':['x?y=']}}}]"));
    AT("/base_url", "'https://a.example/${connection.params.v}'");
}

static void a_path_has_no_dot_segment(void **state)
{
    struct bench *b = *state;
    import(b, DOCUMENT("3.0.0",
                       "'/ok':{'get':{}},'/a/../b':{'get':{}},'/a/..;x/b':{'get':{}},'/%2e%2E':{"
                       "'get':{}},'/a\\\\..':{'get':{}},'/{id}/..':{'get':{}},'/p':{'get':{"
                       "'servers':[{'url':'https://api.example.com/v1/../v2'}]}},'/q':{'get':{"
                       "'servers':[{'url':'https://api.example.com/v1/x?y='}]}}",
                       ""));
    assert_int_equal(b->result.imported, 1);
    assert_int_equal(b->result.skipped, 7);
    SAYS(SKIPPED, "its path has \".\" or \"..\" as a part");
    SAYS(SKIPPED, "its path has a query or a fragment");
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

/* ---- replies ---- */

#define REPLIES(method, responses) \
    DOCUMENT("3.0.0", "'/pets':{'" method "':{'responses':{" responses "}}}", "")
#define JSON_OF(schema) "'content':{'application/json':{'schema':" schema "}}"

static void replies_are_declared(void **state)
{
    static const struct {
        const char *method, *responses, *wanted;
    } table[] = {
        {"delete", "'204':{'description':'gone'}", "{'body':'none'}"},
        {"post", "'201':{'content':{}},'400':{" JSON_OF("{'type':'object'}") "}",
         "{'body':'none'}"},
        {"post",
         "'202':{" JSON_OF("{'type':'object','properties':{},'additionalProperties':false}") "}",
         "{'body':'none'}"},
        {"get", "'200':{'content':{'text/csv':{}}}", "{'body':'text'}"},
        {"get", "'200':{'content':{'application/atom+xml':{}}}", "{'body':'text'}"},
        {"get", "'200':{'content':{'application/x-ndjson':{}}}", "{'body':'text'}"},
        {"get", "'200':{'content':{'application/YAML; charset=utf-8':{}}}", "{'body':'text'}"},
        {"get", "'200':{'content':{'application/vnd.oai.openapi+yaml':{}}}", "{'body':'text'}"},
        {"get", "'200':{'content':{'image/svg+xml':{},'application/javascript':{}}}",
         "{'body':'text'}"},
        {"get", "'200':{'content':{'application/x-ndjson':{},'application/zip':{}}}",
         "{'body':'bytes'}"},
        {"get", "'200':{'content':{'application/octet-stream':{}}}", "{'body':'bytes'}"},
        {"get", "'200':{'content':{'text/csv':{},'application/pdf':{}}}", "{'body':'bytes'}"},
        {"get", "'200':{'content':{'text/csv':{},'application/json':{}}}", "{'kind':'any'}"},
        {"get", "'200':{'content':{'application/problem+json':{'schema':{'type':'array'}}}}",
         "{'kind':'array'}"},
        {"get", "'200':{" JSON_OF("{'type':'object','required':['id'],'properties':{'id':{}}}") "}",
         "{'kind':'object'}"},
        {"get", "'200':{" JSON_OF("{'oneOf':[{'type':'object'},{'type':'array'}]}") "}",
         "{'kind':'any'}"},
        {"get", "'200':{" JSON_OF("{'type':'object','nullable':true}") "}", "{'kind':'any'}"},
        {"get", "'200':{" JSON_OF("{}") "},'204':{}", "{'body':'any'}"},
        {"get", "'404':{}", "{'body':'any'}"},
        {"post", "'200':{" JSON_OF("{'properties':{'name':{}},'required':['name']}") "}",
         "{'kind':'object','required':['body.name']}"},
        {"put",
         "'200':{" JSON_OF("{'type':'object','required':['a','@id','id'],'properties':{'a':{},"
                           "'@id':{},'id':{'type':'string'}}}") "}",
         "{'kind':'object','required':['body.id']}"},
        {"patch",
         "'200':{" JSON_OF("{'allOf':[{'type':'object'},{'required':['none','a','@b'],"
                           "'properties':{'a':{'nullable':true},'@b':{}}}]}") "}",
         "{'kind':'object','required':['body.\\'@b\\'']}"},
        {"post",
         "'200':{" JSON_OF("{'type':'object','required':['a','b'],'properties':{'a':{},'b':{}}"
                           "}") "},'202':{" JSON_OF("{'type':'object','required':['b'],'properties'"
                                                    ":{'a':{},'b':{}}}") "}",
         "{'kind':'object','required':['body.b']}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char document[1000];
        (void)snprintf(document, sizeof(document), REPLIES("%s", "%s"), table[i].method,
                       table[i].responses);
        import(*state, document);
        check_at(*state, "/actions/0/response", table[i].wanted, (int)i);
    }
    struct bench *b = *state;
    import(b, REPLIES("post", "'200':{" JSON_OF("{'type':'object'}") "}"));
    AT("/actions/0/response", "{'kind':'object'}");
    SAYS(WEAKENED, "names no member that its reply always has");
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

/* Many titles contain "API" or similar words, so the id is built from the rest. */
static void a_title_becomes_an_id(void **state)
{
    static const struct {
        const char *title, *id;
    } cases[] = {
        {"GitHub v3 REST API", "github"},
        {"GitHub's official OpenAPI spec + Octokit extension", "github_octokit"},
        {"Notion API", "notion"},
        {"The Slack Web API v1.7.0", "slack"},
        {"Swagger Petstore - OpenAPI 3.0", "petstore"},
        {"42 Widgets", "widgets"},
        {"A Very Long Title Of Some Service Nobody Knows", "very_long_title_some"},
        {"API", "api"},
        {"The REST API", "the_rest_api"},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        slice text = arena_printf(&b->arena,
                                  "{\"openapi\":\"3.0.0\",\"info\":{\"title\":\"%s\"},"
                                  "\"paths\":{\"/a\":{\"get\":{}}}}",
                                  cases[i].title);
        struct import_options options = {.document = text};
        forget(b);
        b->is_imported = true;
        assert_int_equal(openapi_import(&options, &b->result, &b->err), OK);
        if (!slice_eq_cstr(b->result.integration_id, cases[i].id))
            fail_msg("%s: %.*s", cases[i].title, SLICE_ARG(b->result.integration_id));
    }
}

static void faulty_documents(void **state)
{
    struct bench *b = *state;
    FAULT("openapi: 3.0.0\npaths: {}\n", ERR_INVALID, "no title");
    FAULT("openapi: 3.0.0\npaths: [", ERR_SYNTAX, "the document: not valid YAML at line 3");
    FAULT("[1]", ERR_SYNTAX, "must be an object");
    FAULT("", ERR_SYNTAX, "it is empty");
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
    assert_int_equal(openapi_import(&options, &b->result, &b->err), ERR_LIMIT);
    b->is_imported = true;
}

/* Wrong types at every position: there is never a crash, and the result loads. */
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

/* The n-th allocation fails, for every n: there is an error, but never a crash or a leak. */
static void memory_runs_out(void **state)
{
    struct bench *b = *state;
    slice document = quoted(b, DOCUMENT("3.0.0",
                                        BODY("{'type':'object','properties':{'a':{'$ref':"
                                             "'#/components/schemas/S'},'b':{'nullable':true,"
                                             "'type':'string','pattern':'^a'}}}"),
                                        ",'components':{'schemas':{'S':{'type':'string'}}}"));
    struct import_options options = {.document = document};
    assert_int_equal(openapi_import(&options, &b->result, &b->err), OK);
    b->is_imported = true;
    for (uint64_t n = 1;; n++) {
        struct import_result result;
        mem_fail_at(n, 1);
        int code = openapi_import(&options, &result, &b->err);
        uint64_t hits = mem_fail_hits();
        mem_fail_at(0, 0);
        if (code == OK && !slice_eq(result.manifest, b->result.manifest))
            print_error("allocation %d\n%.*s\n", (int)n, SLICE_ARG(result.manifest));
        if (code == OK)
            assert_true(slice_eq(result.manifest, b->result.manifest));
        openapi_import_free(&result);
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
        TEST(a_plain_operation),
        TEST(levels_follow_the_method),
        TEST(ids_are_short_unique_and_stable),
        TEST(schemes_become_auth),
        TEST(scopes_of_operations),
        TEST(servers_become_base_url),
        TEST(servers_of_a_path),
        TEST(a_server_has_a_plain_path),
        TEST(a_path_has_no_dot_segment),
        TEST(replies_are_declared),
        TEST(examples_need_every_required_input),
        TEST(overrides_say_what_is_not_described),
        TEST(faulty_overrides),
        TEST(a_title_becomes_an_id),
        TEST(faulty_documents),
        TEST(nonsense_inside),
        TEST(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
