/*
 * What the linter refuses because it can never work, and what it warns about because it does less
 * than it claims. Each case is a valid manifest with one fault.
 */
#include "catalog/catalog.h"
#include "unit.h"

static const char good[] =
    "{\"integration_id\":\"demo\",\"name\":\"Demo\",\"description\":\"A demo app.\","
    "\"category\":\"notes\",\"base_url\":\"https://api.example.com\","
    "\"auth\":{\"type\":\"bearer\"},\"actions\":[{\"action_id\":\"get_page\",\"title\":\"Get a "
    "page\",\"description\":\"Reads one page.\",\"side_effect_level\":\"read\",\"input_schema\":{"
    "\"type\":\"object\",\"required\":[\"id\"],\"additionalProperties\":false,\"properties\":{"
    "\"id\":{\"type\":\"string\",\"description\":\"Page id\"},\"full\":{\"type\":\"boolean\","
    "\"description\":\"All of it\"}}},\"request\":{\"method\":\"GET\",\"path\":\"/pages/"
    "${input.id}\",\"query\":{\"full\":\"${input.full}\"}},\"response\":{\"kind\":\"any\"},"
    "\"display\":{\"title\":\"A page\",\"summary\":\"It was read.\"}}]}";

/* The position at which the cases insert the fault. */
#define AUTH     "{\"type\":\"bearer\"}"
#define AT_TOP   "\"category\":"
#define REQUEST  "\"method\":\"GET\","
#define IN_QUERY "\"query\":"
#define ACTION   "\"side_effect_level\":"
#define BASE     "https://api.example.com"

#define SEND(type, value)                                                                      \
    "{\"type\":\"" type "\",\"token_url\":\"https://a.example/t\",\"authorize_url\":\"https:/" \
    "/a.example/a\",\"send\":{\"in\":\"header\",\"name\":\"Authorization\",\"value\":\"" value \
    "\"}}"
#define ERRORS(rules) "\"errors\":[" rules "]," AT_TOP
#define WHEN(text)    "{\"when\":\"" text "\"}"

struct case_of {
    const char *old, *new, *pointer, *phrase;
};

static struct catalog *load(const struct case_of *c, struct catalog_report *report)
{
    char text[8192];
    const char *at = strstr(good, c->old);
    assert_non_null(at);
    int len = snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - good), good, c->new,
                       at + strlen(c->old));
    assert_true(len > 0 && (size_t)len < sizeof(text));
    struct catalog_source source = {SLICE("demo.json"), slice_cstr(text)};
    catalog_report_init(report);
    return catalog_load(&source, 1, report);
}

/* Checks that each problem is reported once, at its position. An error excludes the manifest, and a
 * warning does not. If phrase is NULL, nothing is reported. */
static void check_cases(const struct case_of *cases, size_t count, bool is_error)
{
    size_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        const struct case_of *c = &cases[i];
        struct catalog_report report;
        struct catalog *catalog = load(c, &report);
        const struct catalog_problem *first = &report.problems[0];
        bool is_right = !catalog == is_error && report.count == (c->phrase ? 1 : 0);
        if (is_right && c->phrase)
            is_right = first->is_warning == !is_error &&
                       slice_eq_cstr(first->pointer, c->pointer) &&
                       slice_find(first->text, slice_cstr(c->phrase)) >= 0;
        if (!is_right)
            print_error("case %zu (%s) was %s\n", i, c->new, catalog ? "loaded" : "refused");
        for (size_t j = 0; !is_right && j < report.count; j++)
            print_error("    %.*s: %.*s\n", SLICE_ARG(report.problems[j].pointer),
                        SLICE_ARG(report.problems[j].text));
        bad += !is_right;
        catalog_unref(catalog);
        catalog_report_deinit(&report);
    }
    assert_int_equal(bad, 0);
}

#define assert_refused(cases) check_cases((cases), ARRAY_LEN(cases), true)
#define assert_warned(cases)  check_cases((cases), ARRAY_LEN(cases), false)

static void a_credential_has_the_members_of_its_type(void **state)
{
    (void)state;
    static const struct case_of refused[] = {
        {AUTH, SEND("bearer", "${credential.api_key}"), "/auth/send/value",
         "a credential of type bearer has no \"api_key\": no request could be made; write "
         "${credential.token}"},
        {AUTH, SEND("api_key", "Key ${credential.apikey}"), "/auth/send/value",
         "write ${credential.api_key}"},
        {AUTH, SEND("oauth2", "Bearer ${credential.token}"), "/auth/send/value",
         "write ${credential.access_token}"},
        {AUTH, SEND("basic", "${credential.username}:${credential.token}"), "/auth/send/value",
         "write ${credential.username} and ${credential.password}"},
        {AUTH, SEND("oauth2_client_credentials", "${credential.token || credential.api_key}"),
         "/auth/send/value", "\"token\""},
    };
    static const struct case_of warned[] = {
        /* One of the two is present, so this works. */
        {AUTH, SEND("bearer", "${credential.api_key || credential.token}"), "/auth/send/value",
         "has no \"api_key\""},
        {AUTH, SEND("none", "${credential.token}"), "/auth/send", "type none"},
    };
    static const struct case_of clean[] = {
        {AUTH, SEND("oauth2", "${credential.token_type} ${credential.access_token}"), NULL, NULL},
        {AUTH,
         SEND("basic", "Basic ${base64(join(':', [credential.username, credential.password]))}"),
         NULL, NULL},
        {AUTH, SEND("oauth2_client_credentials", "${credential.access_token}"), NULL, NULL},
        {AUTH, SEND("api_key", "${to_string(credential)}"), NULL, NULL},
        {"\"${input.full}\"", "\"\\\"a\\\" ${quote(input.id)} \\\"b\\\"\"", NULL, NULL},
    };
    assert_refused(refused);
    assert_warned(warned);
    assert_warned(clean);
}

static void a_header_has_a_name_that_can_be_sent(void **state)
{
    (void)state;
    static const struct case_of refused[] = {
        {AT_TOP, "\"headers\":{\"X Version\":\"1\"}," AT_TOP, "/headers",
         "\"X Version\" is not a valid header name"},
        {AT_TOP, "\"headers\":{\"\":\"1\"}," AT_TOP, "/headers", "is not a valid header name"},
        {IN_QUERY, "\"headers\":{\"Prefer\":\"a, b=\\\"${input.id}\\\"\"}," IN_QUERY,
         "/actions/0/request/headers", "${input.id} is between quotes"},
        {"\"${input.full}\"", "\"name eq '${input.id}'\"", "/actions/0/request/query",
         "write ${quote(...)} without quotes, or quote_odata"},
        {AT_TOP, "\"headers\":{\"Host\":\"a\"}," AT_TOP, "/headers", "sluice writes"},
        {REQUEST, REQUEST "\"headers\":{\"X-A:\":\"1\"},", "/actions/0/request/headers",
         "\"X-A:\" is not a valid header name"},
        {REQUEST, REQUEST "\"headers\":{\"content-length\":\"1\"},", "/actions/0/request/headers",
         "sluice writes"},
        {REQUEST,
         REQUEST "\"instead\":[{\"when\":\"input.full\",\"headers\":{\"X/A\":\"${input.id}\"}}],",
         "/actions/0/request/headers", "\"X/A\""},
        {ACTION, "\"idempotency_header\":\"Idempotency Key\"," ACTION,
         "/actions/0/idempotency_header", "\"Idempotency Key\" is not a valid header name"},
        {AUTH,
         "{\"type\":\"api_key\",\"send\":{\"in\":\"header\",\"name\":\"Api Key\",\"value\":\"${"
         "credential.api_key}\"}}",
         "/auth/send/name", "\"Api Key\" is not a valid header name"},
    };
    static const struct case_of clean[] = {
        {AT_TOP, "\"headers\":{\"X-Api_Version.2\":\"1\"}," AT_TOP, NULL, NULL},
        {AUTH,
         "{\"type\":\"api_key\",\"send\":{\"in\":\"query\",\"name\":\"api key\",\"value\":\"${"
         "credential.api_key}\"}}",
         NULL, NULL},
    };
    assert_refused(refused);
    assert_warned(clean);
}

#define OAUTH(authorize, token) \
    "{\"type\":\"oauth2\",\"authorize_url\":\"" authorize "\",\"token_url\":\"" token "\"}"

static void addresses_are_https(void **state)
{
    (void)state;
    static const struct case_of refused[] = {
        {BASE, "", "/base_url", "must begin with https://"},
        {BASE, "ftp://a.example", "/base_url", "must begin with https://"},

        {BASE, "https://a b.example", "/base_url", "https://host[:port][/prefix]"},
        {BASE, "https://me@a.example", "/base_url", "https://host[:port][/prefix]"},
        {REQUEST, REQUEST "\"base_url\":\"https://a.example#x\",", "/actions/0/request/base_url",
         "https://host[:port][/prefix]"},
        {REQUEST, REQUEST "\"base_url\":\"https://${input.id}.example\",",
         "/actions/0/request/base_url", "\"input\" is not known here"},
        {REQUEST, REQUEST "\"base_url\":\"https://${connection.params.x}.example\",",
         "/actions/0/request/base_url", "connection_params has no property \"x\""},
        {REQUEST, REQUEST "\"base_url\":\"https://${connection.id}.example\",",
         "/actions/0/request/base_url", "connection has only \"params\""},
        {AUTH, OAUTH("a.example/a", "https://a.example/t"), "/auth/authorize_url",
         "must begin with https://"},
        {AUTH, OAUTH("https://a.example/a", "${connection.params.url}"), "/auth/token_url",
         "must begin with https://"},
    };
    static const struct case_of warned[] = {
        {BASE, "http://a.example", "/base_url", "write https://"},
        {BASE, "https://a.example?v=1", "/base_url", "has a query"},
        {REQUEST, REQUEST "\"base_url\":\"http://a.example\",", "/actions/0/request/base_url",
         "--allow-host"},
        {AUTH, OAUTH("https://a.example/a", "http://a.example/t"), "/auth/token_url",
         "write https://"},
    };
    static const struct case_of clean[] = {
        {BASE, "https://a.example:8443/v1", NULL, NULL},
    };
    assert_refused(refused);
    assert_warned(warned);
    assert_warned(clean);
}

/* Every call of such a manifest would be refused. */
static void no_path_has_dot_segments(void **state)
{
    (void)state;
    static const struct case_of refused[] = {
        {BASE, "https://a.example/v1/..", "/base_url", "as a part of its path"},
        {BASE, "https://a.example/%2e%2e;x", "/base_url", "as a part of its path"},
        {"/pages/", "/../", "/actions/0/request/path", "as a part of its path"},
        {"/pages/", "/a%2F..%2f", "/actions/0/request/path", "as a part of its path"},
        {"/pages/${input.id}", "/${input.id}/..", "/actions/0/request/path",
         "as a part of its path"},
        {REQUEST, REQUEST "\"base_url\":\"https://a.example/./x\",", "/actions/0/request/base_url",
         "as a part of its path"},
        {AUTH, OAUTH("https://a.example/../a", "https://a.example/t"), "/auth/authorize_url",
         "as a part of its path"},
        {AUTH, OAUTH("https://a.example/a", "https://a.example/..;/t"), "/auth/token_url",
         "as a part of its path"},
        {AUTH,
         "{\"type\":\"api_key\",\"send\":{\"in\":\"path\",\"value\":\"/../${credential.api_key}"
         "\"}}",
         "/auth/send/value", "as a part of its path"},
        {AUTH, "{\"type\":\"bearer\",\"test\":{\"method\":\"GET\",\"path\":\"/a/..\"}}",
         "/auth/test/path", "as a part of its path"},
    };
    static const struct case_of clean[] = {
        {"/pages/${input.id}", "/.x/${input.id && '..' || '/../'}.", NULL, NULL},
        {AUTH, OAUTH("https://a.example/a?back=/../x", "https://a.example/t"), NULL, NULL},
    };
    assert_refused(refused);
    assert_warned(clean);
}

static void a_required_input_exists(void **state)
{
    (void)state;
    static const struct case_of refused[] = {
        {"\"required\":[\"id\"]", "\"required\":[\"idd\"]", "/actions/0/input_schema/required",
         "\"idd\" is not one of the properties"},
    };
    static const struct case_of clean[] = {
        {"\"required\":[\"id\"],\"additionalProperties\":false",
         "\"required\":[\"idd\"],\"additionalProperties\":false,\"patternProperties\":{\"^i\":{}}",
         NULL, NULL},
    };
    static const struct case_of warned[] = {
        {AT_TOP,
         "\"connection_params\":{\"type\":\"object\",\"additionalProperties\":false,\"propertes\":{"
         "}"
         "}," AT_TOP,
         "/connection_params", "did you mean \"properties\"?"},
    };
    assert_refused(refused);
    assert_warned(clean);
    assert_warned(warned);
}

#define NESTED(keyword)                                                                          \
    "\"properties\":{\"of\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{" \
    "\"title\":{" keyword ":3}}}}}"

static void keywords_are_those_of_json_schema_at_any_depth(void **state)
{
    (void)state;
    static const struct case_of warned[] = {
        {"\"type\":\"boolean\"", "\"type\":\"object\"," NESTED("\"maxLenght\""),
         "/actions/0/input_schema/properties/full/properties/of/items/properties/title",
         "did you mean \"maxLength\"?"},
        {ACTION, "\"output_schema\":{\"type\":\"object\",\"propertis\":{}}," ACTION,
         "/actions/0/output_schema", "did you mean \"properties\"?"},
        {ACTION, "\"output_schema\":{" NESTED("\"minimun\"") "}," ACTION,
         "/actions/0/output_schema/properties/of/items/properties/title",
         "did you mean \"minimum\"?"},
        {AT_TOP, "\"connection_params\":{\"type\":\"object\",\"properties\":{}}," AT_TOP,
         "/connection_params", "\"additionalProperties\": false is missing"},
    };
    static const struct case_of clean[] = {
        {ACTION, "\"output_schema\":{" NESTED("\"minimum\"") "}," ACTION, NULL, NULL},
        {ACTION, "\"output_schema\":null," ACTION, NULL, NULL},
        {ACTION,
         "\"output_schema\":{\"properties\":{\"minimun\":{\"default\":{\"maxx\":1}}}}," ACTION,
         NULL, NULL},
    };
    assert_warned(warned);
    assert_warned(clean);
}

#define WRITE(key, body)                                                                    \
    "\"side_effect_level\":\"write\",\"idempotency_member\":\"" key "\",\"input_schema\":{" \
    "\"type\":\"object\",\"additionalProperties\":false,\"properties\":{}},\"request\":{"   \
    "\"method\":\"POST\",\"path\":\"/pages\"" body "},\"response\":{\"kind\":\"object\","   \
    "\"required\":[\"body.id\"]},\"display\":{\"title\":\"T\",\"summary\":\"S\"}}]}"

static void an_idempotency_key_has_its_place(void **state)
{
    (void)state;
    const char *action = strstr(good, ACTION);
    static const char at[] = "/actions/0/idempotency_member";
    const struct case_of refused[] = {
        {action, WRITE("", ",\"body\":{\"json\":{}}"), at, "must name a member"},
        {action, WRITE("a..b", ",\"body\":{\"json\":{}}"), at, "must name a member"},
        {action, WRITE("a.", ",\"body\":{\"json\":{}}"), at, "must name a member"},
        {action, WRITE("key", ""), at, "but the request has none"},
        {action, WRITE("key", ",\"body\":{\"raw\":\"x\",\"content_type\":\"text/plain\"}"), at,
         "but the request has none"},
        {action, WRITE("key", ",\"body\":{\"json\":[]}"), at, "an object"},
        {action, WRITE("key", ",\"body\":{\"json\":{\"key\":1}}"), at, "leave it out"},
        {action, WRITE("a.key", ",\"body\":{\"json\":{\"a\":{\"key\":1}}}"), at, "leave it out"},
        {action, WRITE("a.key", ",\"body\":{\"json\":{\"a\":[]}}"), at, "leave it out"},
        {action, WRITE("key", ",\"body\":{\"form\":{\"key\":\"1\"}}"), at, "leave it out"},
        {action, WRITE("key", ",\"body\":{\"multipart\":[{\"name\":\"key\",\"value\":\"1\"}]}"), at,
         "leave it out"},
        {action,
         WRITE("key",
               ",\"body\":{\"json\":{}},\"instead\":[{\"when\":\"connection\",\"body\":null}]"),
         at, "but the request has none"},
        {action, "\"idempotency_header\":\"Key\"," WRITE("key", ",\"body\":{\"json\":{}}"), at,
         "cannot be combined"},
        {action, "\"files\":{\"travel\":\"raw\"}," WRITE("key", ",\"body\":{\"json\":{}}"), at,
         "the whole body"},
    };
    const struct case_of clean[] = {
        {action, WRITE("key", ",\"body\":{\"json\":{\"a\":1}}"), NULL, NULL},
        {action, WRITE("a.b.key", ",\"body\":{\"json\":{\"a\":{\"c\":1}}}"), NULL, NULL},
        {action, WRITE("a.key", ",\"body\":{\"json\":\"${connection.params}\"}"), NULL, NULL},
        {action, WRITE("key", ",\"body\":{\"form\":{}}"), NULL, NULL},
    };
    assert_refused(refused);
    assert_warned(clean);
}

#define FORM(type, form) "{\"type\":\"" type "\",\"form\":" form "}"

#define ICON(text) "\"icon\":" text "," AT_TOP
static void an_icon_is_one_path(void **state)
{
    (void)state;
    static char longest[512], longer[512];
    (void)snprintf(longest, sizeof(longest), ICON("\"M%0*d\""), 399, 0);
    (void)snprintf(longer, sizeof(longer), ICON("\"M%0*d\""), 400, 0);
    const struct case_of refused[] = {
        {AT_TOP, ICON("\"L2 2\""), "/icon", "M first"},
        {AT_TOP, ICON("\"M2 2\\\"/><script>\""), "/icon", "commands and numbers"},
        {AT_TOP, ICON("\"M2 2 url(x)\""), "/icon", "commands and numbers"},
        {AT_TOP, ICON("[\"M2 2\"]"), "/icon", "string"},
        {AT_TOP, longer, "/icon", "400 characters"},
    };
    const struct case_of clean[] = {
        {AT_TOP, ICON("\"M2 4h12v8.5H2zm.3,.4-5-5\""), NULL, NULL},
        {AT_TOP, longest, NULL, NULL},
    };
    assert_refused(refused);
    assert_warned(clean);
}

static void a_form_has_the_fields_of_its_type(void **state)
{
    (void)state;
    static const struct case_of refused[] = {
        {AUTH, FORM("bearer", "{\"tokn\":{\"label\":\"x\"}}"), "/auth/form", "\"token\""},
        {AUTH, FORM("bearer", "{\"api_key\":{\"label\":\"x\"}}"), "/auth/form",
         "unknown member \"api_key\""},
        {AUTH, FORM("bearer", "{\"token\":\"x\"}"), "/auth/form/token", "object"},
        {AUTH, FORM("bearer", "{\"token\":{\"lable\":\"x\"}}"), "/auth/form/token", "\"label\""},
        {AUTH, FORM("bearer", "{\"token\":{\"docs_url\":\"javascript:x\"}}"),
         "/auth/form/token/docs_url", "https://"},
        {AUTH, FORM("none", "{\"token\":{\"label\":\"x\"}}"), "/auth/form", "types nothing"},
    };
    static const struct case_of clean[] = {
        {AUTH, FORM("bearer", "{\"token\":{\"help\":\"x\"}}"), NULL, NULL},
        {AUTH, FORM("basic", "{\"password\":{\"label\":\"x\"}}"), NULL, NULL},
    };
    assert_refused(refused);
    assert_warned(clean);
}

static void a_rule_is_reached(void **state)
{
    (void)state;
    static const struct case_of warned[] = {
        {AT_TOP, ERRORS(WHEN("status>=`400`") "," WHEN("body.x")), "/errors/1",
         "is never reached: rule 0 before it matches everything that it matches (status>=`400`)"},
        {AT_TOP, ERRORS(WHEN("status < `500`") "," WHEN("status >= `500`") "," WHEN("body.x")),
         "/errors/2", "is never reached: the rules before it"},
        {AT_TOP, ERRORS(WHEN("contains(`[401, 403]`, status)") "," WHEN("status == `403`")),
         "/errors/1", "never reached: rule 0"},
        {AT_TOP, ERRORS(WHEN("body.x") "," WHEN("body.y && body.x")), "/errors/1",
         "never reached: rule 0"},
        {AT_TOP, ERRORS(WHEN("status == `200`")), "/errors/0", "\"on_success\": true"},
        {AT_TOP,
         ERRORS("{\"when\":\"status\",\"on_success\":true},{\"when\":\"body.x\",\"on_success\":"
                "true}"),
         "/errors/1", "never reached: rule 0"},
    };
    static const struct case_of clean[] = {
        {AT_TOP, ERRORS(WHEN("status >= `400`") ",{\"when\":\"body.x\",\"on_success\":true}"), NULL,
         NULL},
        {AT_TOP,
         ERRORS("{\"when\":\"status >= `400`\",\"on_success\":true},{\"when\":\"body.x\","
                "\"on_success\":true}"),
         NULL, NULL},
        {AT_TOP, ERRORS(WHEN("body.x") "," WHEN("body.x && body.y || body.z")), NULL, NULL},
        {AT_TOP, ERRORS(WHEN("status >= `400`") "," WHEN("status == `300`")), NULL, NULL},
        {AT_TOP, ERRORS(WHEN("status >= `500`") "," WHEN("body.x")), NULL, NULL},
    };
    assert_warned(warned);
    assert_warned(clean);
}

static void a_literal_is_written_as_one(void **state)
{
    (void)state;
    static const struct case_of refused[] = {
        {AT_TOP, ERRORS(WHEN("status == '401'")), "/errors/0/when",
         "status is a number and '401' is text, so they are never equal: write `401`"},
        {AT_TOP, ERRORS(WHEN("status == \\\"401\\\"")), "/errors/0/when", "write `401`"},
        {AT_TOP, ERRORS(WHEN("body.ok == true")), "/errors/0/when", "write `true`"},
        {AT_TOP, ERRORS(WHEN("body.errors[?fatal == true]")), "/errors/0/when", "write `true`"},
        {AT_TOP, ERRORS("{\"when\":\"body.x\",\"hint\":\"${body.y == null}\"}"), "/errors/0/hint",
         "write `null`"},
        {AT_TOP, "\"limits\":{\"rate_limited\":[" WHEN("status == '429'") "]}," AT_TOP,
         "/limits/rate_limited/0/when", "write `429`"},
        {"${input.full}", "${input.full == true}", "/actions/0/request/query/full", "write `true`"},
    };
    assert_refused(refused);
}

#define ASKS(words)                                                                                \
    "{\"type\":\"oauth2\",\"token_url\":\"https://a.example/t\",\"authorize_url\":\"https://"      \
    "a.example/a\",\"scopes\":[\"read\"]},\"identity\":{\"from\":\"id_token\",\"email\":\"claims." \
    "email\",\"scopes\":[\"openid\"]}" words

/* A description of a scope that is not requested. An action needs "read". */
#define FIRST_ACTION "\"actions\":[{"
#define WITH_WORDS(scope) \
    "\"scope_words\":{\"" scope "\":\"See it\"}," FIRST_ACTION "\"scopes\":[\"read\"],"

static void a_scope_that_is_asked_for_has_words(void **state)
{
    (void)state;
    static const struct case_of refused[] = {
        {AUTH, ASKS(",\"scope_words\":[\"read\"]"), "/scope_words", "in words"},
        {AUTH, AUTH ",\"scope_words\":{\"read\":\"See it\"}", "/scope_words",
         "the scope \"read\" is not requested"},
        {FIRST_ACTION, WITH_WORDS("rea"), "/scope_words", "no action needs it"},
    };
    static const struct case_of warned[] = {
        {AUTH, ASKS(",\"scope_words\":{\"read\":\"See it\"}"), "/scope_words",
         "the scope \"openid\" allows"},
        {AUTH, ASKS(",\"scope_words\":{\"openid\":\"Know you\"}"), "/scope_words",
         "the scope \"read\" allows"},
    };
    static const struct case_of clean[] = {
        {AUTH, ASKS(",\"scope_words\":{\"openid\":\"Know you\",\"read\":\"See it\"}"), NULL, NULL},
        {FIRST_ACTION, WITH_WORDS("read"), NULL, NULL},
    };
    assert_refused(refused);
    assert_warned(warned);
    assert_warned(clean);
}

#define TEXT_100                                                                                  \
    "0123456789 123456789 123456789 123456789 123456789 123456789 123456789 123456789 123456789 " \
    "123456789 "
#define TEXT_1100                                                                             \
    TEXT_100 TEXT_100 TEXT_100 TEXT_100 TEXT_100 TEXT_100 TEXT_100 TEXT_100 TEXT_100 TEXT_100 \
        TEXT_100

static void clients_of_models_take_the_tool(void **state)
{
    (void)state;
    static const struct case_of warned[] = {
        {"{\"type\":\"boolean\"", "{\"type\":\"array\"", "/actions/0/input_schema/properties/full",
         "an array needs \"items\" with a \"type\""},
        {"{\"type\":\"boolean\"", "{\"type\":[\"null\",\"array\"],\"items\":{}",
         "/actions/0/input_schema/properties/full", "an array needs"},
        {"{\"type\":\"boolean\"",
         "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"array\"}]}",
         "/actions/0/input_schema/properties/full/items/anyOf/0", "an array needs"},
        {"Reads one page.", TEXT_1100, "/actions/0/description", "at most 1000 bytes"},
        {"All of it", TEXT_1100, "/actions/0/input_schema/properties/full/description",
         "at most 1000 bytes"},
        {"\"full\":{\"type\"",
         "\"a[b]\":{\"type\":\"string\",\"description\":\"x\"},\"full\":{\"type\"",
         "/actions/0/input_schema/properties", "property \"a[b]\" needs a name of"},
    };
    static const struct case_of clean[] = {
        {"{\"type\":\"boolean\"", "{\"type\":\"array\",\"items\":{\"enum\":[1]}", NULL, NULL},
        {"{\"type\":\"boolean\"", "{\"type\":\"array\",\"items\":{\"$ref\":\"#/properties/id\"}",
         NULL, NULL},
        {ACTION, "\"output_schema\":{\"type\":\"array\"}," ACTION, NULL, NULL},
    };
    assert_warned(warned);
    assert_warned(clean);
}

/* A write before the action, with these `shows`. */
#define ALL "\"actions\":["
#define SAYS(shows)                                                                                \
    ALL "{\"action_id\":\"set_page\",\"title\":\"Set a page\",\"description\":\"Sets one page.\"," \
        "\"side_effect_level\":\"write\",\"shows\":{" shows "},\"input_schema\":{\"type\":"        \
        "\"object\",\"required\":[\"id\"],\"additionalProperties\":false,\"properties\":{\"id\":"  \
        "{\"type\":\"string\",\"description\":\"Page id\"}}},\"request\":{\"method\":\"POST\","    \
        "\"path\":\"/pages/"                                                                       \
        "${input.id}\"},\"response\":{\"body\":\"none\"},\"display\":{\"title\":"                  \
        "\"A page\",\"summary\":\"It was set.\"}},"
#define FROM(action, input, text) \
    "\"id\":{\"action\":\"" action "\",\"input\":{" input "},\"text\":\"" text "\"}"
#define ITS_ID "\"id\":\"${input.id}\""

static void what_ids_mean_comes_from_a_read_that_can_run(void **state)
{
    (void)state;
    static const struct case_of refused[] = {
        {ALL, SAYS(FROM("nosuch", ITS_ID, "${output.title}")), "/actions/0/shows/id",
         "\"nosuch\" is not a read of this app"},
        {ALL, SAYS(FROM("set_page", ITS_ID, "${output.title}")), "/actions/0/shows/id",
         "\"set_page\" is not a read of this app"},
        {ALL, SAYS(FROM("get_page", "", "${output.title}")), "/actions/0/shows/id",
         "\"input\" lacks \"id\" of get_page"},
        {ALL, SAYS(FROM("get_page", ITS_ID ",\"of\":\"${input.id}\"", "${output.title}")),
         "/actions/0/shows/id", "get_page takes no \"of\""},
        {ALL, SAYS(FROM("get_page", "\"id\":\"${input.no}\"", "${output.title}")),
         "/actions/0/shows/id", "\"no\""},
        {ALL, SAYS(FROM("get_page", "\"id\":\"${output.id}\"", "${output.title}")),
         "/actions/0/shows/id", "\"output\""},
        {ALL, SAYS(FROM("get_page", ITS_ID, "A page")), "/actions/0/shows/id",
         "\"text\" must have a ${...}"},
        {ALL, SAYS("\"no.id\":{\"text\":\"${input.id}\"}"), "/actions/0/shows/no.id",
         "input_schema has no property \"no\""},
        {ALL, SAYS("\"id\":{\"text\":\"${output.title}\"}"), "/actions/0/shows/id", "\"output\""},
        {ALL, SAYS("\"id\":{\"input\":{" ITS_ID "},\"text\":\"${input.id}\"}"),
         "/actions/0/shows/id", "\"input\" is for an \"action\""},
        {ALL, SAYS("\"id\":{\"text\":\"${input.id}\",\"version\":\"${input.id}\"}"),
         "/actions/0/shows/id", "\"version\" is for an \"action\""},
        {ACTION, "\"shows\":{\"id\":{\"text\":\"${input.id}\"}}," ACTION, "/actions/0/shows",
         "is for an action that writes"},
    };
    static const struct case_of clean[] = {
        {ALL, SAYS(FROM("get_page", ITS_ID, "${output.title || input.id}")), NULL, NULL},
        {ALL, SAYS("\"id\":{\"text\":\"${input.id}\"}"), NULL, NULL},
    };
    assert_refused(refused);
    assert_warned(clean);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(a_credential_has_the_members_of_its_type),
        UNIT_TEST(a_header_has_a_name_that_can_be_sent),
        UNIT_TEST(addresses_are_https),
        UNIT_TEST(no_path_has_dot_segments),
        UNIT_TEST(a_required_input_exists),
        UNIT_TEST(keywords_are_those_of_json_schema_at_any_depth),
        UNIT_TEST(an_idempotency_key_has_its_place),
        UNIT_TEST(an_icon_is_one_path),
        UNIT_TEST(a_form_has_the_fields_of_its_type),
        UNIT_TEST(a_rule_is_reached),
        UNIT_TEST(a_scope_that_is_asked_for_has_words),
        UNIT_TEST(clients_of_models_take_the_tool),
        UNIT_TEST(a_literal_is_written_as_one),
        UNIT_TEST(what_ids_mean_comes_from_a_read_that_can_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
