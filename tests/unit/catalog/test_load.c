/*
 * Loading of manifests: a valid manifest is loaded, and every fault is found and reported with its
 * position.
 */
#include "base/embed.h"
#include "support/catalog_test.h"

static const char good[] =
    "{\"integration_id\":\"demo\",\"name\":\"Demo\",\"description\":\"A demo app.\","
    "\"category\":\"notes\",\"tags\":[\"paper\"],\"base_url\":\"https://api.example.com\","
    "\"auth\":{\"type\":\"bearer\"},\"actions\":[%s]}";

static const char action[] =
    "{\"action_id\":\"get_page\",\"title\":\"Get a page\",\"description\":\"Reads one page.\","
    "\"side_effect_level\":\"read\",\"input_schema\":{\"type\":\"object\",\"required\":[\"id\"],"
    "\"additionalProperties\":false,\"properties\":{\"id\":{\"type\":\"string\",\"description\":"
    "\"Page id\"},\"full\":{\"type\":\"boolean\",\"description\":\"All of it\"}}},"
    "\"request\":{\"method\":\"GET\",\"path\":\"/pages/${input.id}\",\"query\":{\"full\":"
    "\"${input.full}\"}},\"display\":{\"title\":\"Page\",\"summary\":\"Read ${input.id}\"},"
    "\"examples\":[{\"title\":\"One\",\"input\":{\"id\":\"p1\"}}]%s}";

/* The valid manifest with `extra` members in its action, and `old` replaced by `new` everywhere. */
static struct catalog *load(struct bench *b, const char *extra, const char *old, const char *new)
{
    char action_text[8192], whole[16384];
    bench_forget(b);
    (void)snprintf(action_text, sizeof(action_text), action, extra);
    (void)snprintf(whole, sizeof(whole), good, action_text);
    const char *at = old ? strstr(whole, old) : NULL;
    assert_true(!old || at);
    if (at)
        (void)snprintf(b->text, sizeof(b->text), "%.*s%s%s", (int)(at - whole), whole, new,
                       at + strlen(old));
    else
        (void)snprintf(b->text, sizeof(b->text), "%s", whole);
    struct catalog_source source = {SLICE("demo.json"), slice_cstr(b->text)};
    return catalog_load(&source, 1, &b->report);
}

/* Checks that a problem has this pointer and contains this phrase, and that nothing was loaded. */
static void check_fault(struct bench *b, const char *extra, const char *old, const char *new,
                        const char *pointer, const char *phrase, int line)
{
    struct catalog *catalog = load(b, extra, old, new);
    if (catalog)
        print_error("line %d: was loaded\n", line);
    assert_null(catalog);
    for (size_t i = 0; i < b->report.count; i++)
        if (slice_eq_cstr(b->report.problems[i].pointer, pointer) &&
            slice_find(b->report.problems[i].text, slice_cstr(phrase)) >= 0)
            return;
    for (size_t i = 0; i < b->report.count; i++)
        print_error("line %d: got %.*s: %.*s\n", line, SLICE_ARG(b->report.problems[i].pointer),
                    SLICE_ARG(b->report.problems[i].text));
    fail();
}

/* Checks that the manifest was loaded with exactly this problem. If phrase is NULL, it has none. */
static void check_warning(struct bench *b, const char *extra, const char *old, const char *new,
                          const char *pointer, const char *phrase, int line)
{
    struct catalog *catalog = load(b, extra, old, new);
    const struct catalog_problem *first = &b->report.problems[0];
    bool is_right = catalog && b->report.count == (phrase ? 1 : 0) &&
                    (!phrase || (slice_eq_cstr(first->pointer, pointer) &&
                                 slice_find(first->text, slice_cstr(phrase)) >= 0));
    catalog_unref(catalog);
    for (size_t i = 0; !is_right && i < b->report.count; i++)
        print_error("line %d: got %.*s: %.*s\n", line, SLICE_ARG(b->report.problems[i].pointer),
                    SLICE_ARG(b->report.problems[i].text));
    assert_true(is_right);
}

#define assert_warned(b, extra, old, new, pointer, phrase) \
    check_warning((b), (extra), (old), (new), (pointer), (phrase), __LINE__)
#define assert_clean(b, extra, old, new) \
    check_warning((b), (extra), (old), (new), NULL, NULL, __LINE__)

#define assert_fault(b, extra, old, new, pointer, phrase) \
    check_fault((b), (extra), (old), (new), (pointer), (phrase), __LINE__)

static void a_good_manifest_is_found_by_all_its_names(void **state)
{
    struct catalog *catalog = load(*state, "", NULL, NULL);
    assert_non_null(catalog);
    const struct catalog_integration *demo = catalog_find_integration(catalog, SLICE("demo"), NULL);
    assert_non_null(demo);
    const struct catalog_action *found = catalog_find_action(demo, SLICE("get_page"), NULL);
    assert_non_null(found);
    assert_ptr_equal(found, catalog_find_action(demo, SLICE("demo_get_page"), NULL));
    assert_ptr_equal(found, catalog_find_tool(catalog, SLICE("demo_get_page")));
    assert_null(catalog_find_action(demo, SLICE("get_pag"), NULL));
    assert_null(catalog_find_action(demo, SLICE("demo_"), NULL));
    assert_null(catalog_find_tool(catalog, SLICE("get_page")));
    assert_int_equal(found->level, LEVEL_READ);
    assert_false(found->requires_confirmation);
    assert_true(found->is_idempotent);
    catalog_unref(catalog);
}

#define GONE(expression)                                                                        \
    "{\"type\":\"oauth2\",\"authorize_url\":\"https://a.example/a\",\"token_url\":\"https://a." \
    "example/t\",\"gone\":\"" expression "\"}"
#define PATH_AUTH(value) "{\"type\":\"bearer\",\"send\":{\"in\":\"path\",\"value\":\"" value "\"}}"

static void a_credential_may_go_in_the_path(void **state)
{
    struct catalog *catalog =
        load(*state, "", "{\"type\":\"bearer\"}", PATH_AUTH("/v1/bot${credential.token}:x"));
    assert_non_null(catalog);
    const struct catalog_auth *auth = &catalog_find_integration(catalog, SLICE("demo"), NULL)->auth;
    assert_int_equal(auth->send_in, SEND_IN_PATH);
    assert_int_equal(auth->send_name.len, 0);
    catalog_unref(catalog);
}

static void limits_are_read_and_their_faults_named(void **state)
{
    static const char *const auth = "\"auth\":";
    struct catalog *catalog =
        load(*state, "", auth,
             "\"limits\":{\"per\":\"action\",\"rate_per_s\":0.5,\"burst\":3,\"in_flight_max\":2,"
             "\"quota\":{\"remaining\":\"headers.left\",\"reset\":\"body.reset\"}},\"auth\":");
    assert_non_null(catalog);
    const struct catalog_limits *limits =
        &catalog_find_integration(catalog, SLICE("demo"), NULL)->limits;
    assert_true(limits->is_per_action && limits->rate_per_s == 0.5);
    assert_int_equal(limits->burst, 3);
    assert_int_equal(limits->in_flight_max, 2);
    assert_true(limits->quota_remaining && limits->quota_reset);
    assert_int_equal(limits->rate_rule_count, 1); /* a 429, unless a rule says something else */
    catalog_unref(catalog);
    assert_fault(*state, "", auth, "\"limits\":{\"burst\":3},\"auth\":", "/limits/burst",
                 "rate_per_s");
    assert_fault(*state, "", auth, "\"limits\":{\"per\":\"account\"},\"auth\":", "/limits/per",
                 "connection");
    assert_fault(*state, "", auth,
                 "\"limits\":{\"quota\":{\"remaining\":\"headers.left\"}},\"auth\":",
                 "/limits/quota", "reset");
    assert_fault(*state, "", auth,
                 "\"limits\":{\"quota\":{\"remaining\":\"input.left\",\"reset\":\"`1`\"}},"
                 "\"auth\":",
                 "/limits", "input");
}

#define IDENTITY(text) "\"identity\":" text ",\"auth\":"
#define ME             "\"request\":{\"method\":\"GET\",\"path\":\"/me\"}"

static void identities_are_read_and_their_faults_named(void **state)
{
    static const char *const auth = "\"auth\":";
    static const struct {
        const char *text, *pointer, *about;
    } faults[] = {
        {IDENTITY("{\"email\":\"body.email\"}"), "/identity", "test"},
        {IDENTITY("{" ME ",\"label\":\"body.name\"}"), "/identity", "subject"},
        {IDENTITY("{" ME ",\"email\":\"body.\"}"), "/identity/email", ""},
        {IDENTITY("{" ME ",\"email\":\"input.email\"}"), "/identity/email", "input"},
        {IDENTITY("{" ME ",\"email\":\"claims.email\"}"), "/identity/email", "claims"},
        {IDENTITY("{" ME ",\"email\":\"body.e\",\"mail\":\"body.e\"}"), "/identity", "mail"},
        {IDENTITY("{\"from\":\"id_token\",\"subject\":\"claims.sub\"}"), "/identity/from",
         "openid"},
        {IDENTITY("{" ME ",\"subject\":\"body.id\",\"scopes\":[\"openid\"]}"), "/identity/scopes",
         "oauth2"},
        {IDENTITY("{\"request\":{\"method\":\"PUT\",\"path\":\"/me\"},\"email\":\"body.e\"}"),
         "/identity/request/method", "GET"},
        {IDENTITY("{\"request\":{\"method\":\"GET\",\"path\":\"/${input.x}\"},"
                  "\"email\":\"body.e\"}"),
         "/identity/request/path", "input"},
    };
    struct catalog *catalog = load(
        *state, "", auth, IDENTITY("{" ME ",\"email\":\"body.email\",\"subject\":\"body.id\"}"));
    assert_non_null(catalog);
    const struct catalog_identity *identity =
        &catalog_find_integration(catalog, SLICE("demo"), NULL)->identity;
    assert_int_equal(identity->from, IDENTITY_REQUEST);
    assert_true(identity->email && identity->subject && !identity->label && identity->output);
    assert_true(slice_eq_cstr(identity->request.method, "GET"));
    catalog_unref(catalog);
    for (size_t i = 0; i < ARRAY_LEN(faults); i++)
        assert_fault(*state, "", auth, faults[i].text, faults[i].pointer, faults[i].about);
    assert_fault(*state, "", "{\"type\":\"bearer\"}",
                 "{\"type\":\"bearer\",\"login_hint\":{\"hint\":\"name\"}}", "/auth/login_hint",
                 "email");
}

#define RESPONSE ",\"response\":"
/* From the side effect level to the path: a GET does not write. */
#define READS                                                                                   \
    "\"read\",\"input_schema\":{\"type\":\"object\",\"required\":[\"id\"],"                     \
    "\"additionalProperties\":"                                                                 \
    "false,\"properties\":{\"id\":{\"type\":\"string\",\"description\":\"Page id\"},\"full\":{" \
    "\"type\":\"boolean\",\"description\":\"All of it\"}}},\"request\":{\"method\":\"GET\""
#define WRITES                                                                       \
    "\"write\",\"input_schema\":{\"type\":\"object\",\"additionalProperties\":true," \
    "\"properties\":{}},\"request\":{\"method\":\"PUT\""

static enum catalog_reply_kind kind_of(struct bench *b, const char *extra, bool *is_known)
{
    struct catalog *catalog = load(b, extra, NULL, NULL);
    assert_non_null(catalog);
    const struct catalog_reply reply = catalog_find_tool(catalog, SLICE("demo_get_page"))->reply;
    catalog_unref(catalog);
    *is_known = reply.is_kind_known;
    return reply.kind;
}

static void the_kind_of_a_reply_follows_from_what_is_said(void **state)
{
    static const struct {
        const char *extra;
        bool is_known;
        enum catalog_reply_kind kind;
    } table[] = {
        {"", false, REPLY_KIND_ANY},
        {RESPONSE "{\"kind\":\"array\"}", true, REPLY_KIND_ARRAY},
        {RESPONSE "{\"kind\":\"any\",\"required\":[\"body.id\"]}", true, REPLY_KIND_ANY},
        {RESPONSE "{\"required\":[\"body.id\"]}", true, REPLY_KIND_OBJECT},
        {RESPONSE "{\"required\":[\"body.a.b || body.c\"],\"output\":\"body.a\"}", true,
         REPLY_KIND_OBJECT},
        {RESPONSE "{\"required\":[\"body[0]\"]}", false, REPLY_KIND_ANY},
        {",\"output_schema\":{\"type\":\"object\"}", true, REPLY_KIND_OBJECT},
        {",\"output_schema\":{\"type\":\"array\"}", true, REPLY_KIND_ARRAY},
        {",\"output_schema\":{\"type\":\"array\"}" RESPONSE "{\"kind\":\"object\"}", true,
         REPLY_KIND_OBJECT},
        {",\"output_schema\":{\"type\":\"object\"}" RESPONSE "{\"output\":\"body\"}", false,
         REPLY_KIND_ANY},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        bool is_known;
        assert_int_equal(kind_of(*state, table[i].extra, &is_known), table[i].kind);
        assert_int_equal(is_known, table[i].is_known);
    }
}

static void what_would_do_nothing_is_warned_of(void **state)
{
    struct bench *b = *state;
    static const char known[] = ",\"response\":{\"kind\":\"any\"}";
    static const struct {
        const char *old, *new, *pointer, *phrase;
    } table[] = {
        {"\"additionalProperties\":false,", "", "/actions/0/input_schema", "false is missing"},
        {"\"description\":\"Page id\"", "\"description\":\"Page id\",\"maxLenght\":3",
         "/actions/0/input_schema/properties/id", "did you mean \"maxLength\"?"},
        {"\"type\":\"boolean\",", "\"anyOf\":[{\"minumum\":3}],",
         "/actions/0/input_schema/properties/full/anyOf/0", "did you mean \"minimum\"?"},
        {"\"integration_id\":\"demo\"", "\"integration_id\":\"demos\"", "/integration_id",
         "differs from the file's name, \"demo\""},
        {"\"category\":",
         "\"errors\":[{\"when\":\"status == `403`\"},{\"when\":\"status == `403` && body.x\"}],"
         "\"category\":",
         "/errors/1", "never reached: rule 0"},
        {"\"category\":", "\"errors\":[{\"when\":\"`true`\"},{\"when\":\"body.x\"}],\"category\":",
         "/errors/1", "never reached"},
        {"\"category\":",
         "\"errors\":[\"google\",{\"when\":\"status == `404`\",\"hint\":\"h\"}],\"category\":",
         "/errors/1", "never reached"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        assert_warned(b, known, table[i].old, table[i].new, table[i].pointer, table[i].phrase);
    static const char *const clean[] = {
        "\"errors\":[{\"when\":\"status == `403` && body.x\"},{\"when\":\"status == `403`\"}],",
        "\"errors\":[{\"when\":\"status == `404`\"},\"google\"],",
        "\"errors\":[{\"when\":\"status\"},{\"when\":\"body.x\",\"on_success\":true}],",
    };
    for (size_t i = 0; i < ARRAY_LEN(clean); i++) {
        char with[256];
        (void)snprintf(with, sizeof(with), "%s\"category\":", clean[i]);
        assert_clean(b, known, "\"category\":", with);
    }
    assert_fault(b, "", "\"category\":", "\"errors\":[{\"when\":\"status == 401\"}],\"category\":",
                 "/errors/0/when", "a number is written in backticks: `401`");
}

static void a_reply_must_be_known_from_any_other(void **state)
{
    struct bench *b = *state;
    assert_warned(b, "", NULL, NULL, "/actions/0/response", "\"kind\"");
    assert_clean(b, RESPONSE "{\"kind\":\"object\"}", NULL, NULL);
    assert_clean(b, RESPONSE "{\"body\":\"none\"}", NULL, NULL);
    assert_fault(b, RESPONSE "{\"body\":\"xml\"}", NULL, NULL, "/actions/0/response/body",
                 "one of");
    assert_fault(b, RESPONSE "{\"kind\":\"list\"}", NULL, NULL, "/actions/0/response/kind",
                 "one of");
    assert_fault(b, RESPONSE "{\"body\":\"text\",\"kind\":\"object\"}", NULL, NULL,
                 "/actions/0/response/kind", "needs a JSON body");
    assert_fault(b, RESPONSE "{\"kind\":\"array\",\"required\":[\"body.id\"]}", NULL, NULL,
                 "/actions/0/response/required", "member of an object");
    assert_fault(b, RESPONSE "{\"required\":[]}", NULL, NULL, "/actions/0/response/required",
                 "1 to 16 expressions");
    assert_fault(b, RESPONSE "{\"required\":\"body.id\"}", NULL, NULL,
                 "/actions/0/response/required", "array");
    assert_fault(b, RESPONSE "{\"required\":[\"body.id\",7]}", NULL, NULL,
                 "/actions/0/response/required", "item 1");
    assert_fault(b, RESPONSE "{\"required\":[\"body.\"]}", NULL, NULL,
                 "/actions/0/response/required", "item 0");
    assert_fault(b, RESPONSE "{\"required\":[\"input.id\"]}", NULL, NULL,
                 "/actions/0/response/required/0", "not known here");
    assert_fault(b, RESPONSE "{\"required\":[\"`1`\"]}", NULL, NULL,
                 "/actions/0/response/required/0", "reads nothing from the reply");
}

static void a_write_says_what_its_reply_never_lacks(void **state)
{
    static const struct {
        const char *response;
        bool is_clean;
    } table[] = {
        {"{\"kind\":\"object\"}", false}, {"{\"required\":[\"body.id\"]}", true},
        {"{\"body\":\"none\"}", true},    {"{\"body\":\"text\"}", true},
        {"{\"body\":\"bytes\"}", true},   {"{\"body\":\"any\"}", true},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char extra[200];
        (void)snprintf(extra, sizeof(extra), RESPONSE "%s", table[i].response);
        check_warning(b, extra, READS, WRITES, "/actions/0/response",
                      table[i].is_clean ? NULL : "must be recognizable", (int)i);
    }
}

static void missing_scopes_are_a_cause_of_forbidden_alone(void **state)
{
    struct bench *b = *state;
    assert_clean(b,
                 RESPONSE "{\"kind\":\"any\"},\"errors\":[{\"when\":\"body.a\",\"error_code\":"
                          "\"forbidden\",\"missing_scopes\":true}]",
                 NULL, NULL);
    assert_fault(b, ",\"errors\":[{\"when\":\"body.a\",\"missing_scopes\":true}]", NULL, NULL,
                 "/actions/0/errors/0/missing_scopes", "forbidden");
    assert_fault(b,
                 ",\"errors\":[{\"when\":\"body.a\",\"error_code\":\"forbidden\","
                 "\"missing_scopes\":true}]",
                 "{\"type\":\"bearer\"}", "{\"type\":\"none\"}",
                 "/actions/0/errors/0/missing_scopes", "without a credential");
}

static void replies_are_rendered_at_load(void **state)
{
    struct catalog *catalog = load(*state, "", NULL, NULL);
    struct arena arena;
    arena_init(&arena, 1024 * 1024);
    const struct catalog_action *found = catalog_find_tool(catalog, SLICE("demo_get_page"));
    const struct json *item = json_parse(&arena, found->item_json, &json_limits_provider, NULL);
    const struct json *detail = json_parse(&arena, found->detail_json, &json_limits_provider, NULL);
    assert_true(slice_eq_cstr(json_get_str(item, SLICE("action_id")), "get_page"));
    assert_int_equal(item->count, 4);
    assert_true(slice_eq_cstr(json_get_str(detail, SLICE("tool_name")), "demo_get_page"));
    const struct json *summary = JSON_GET(detail, "input_summary");
    assert_true(slice_eq_cstr(json_str(json_at(JSON_GET(summary, "required"), 0)), "id"));
    assert_true(slice_eq_cstr(json_str(json_at(JSON_GET(summary, "optional"), 0)), "full"));
    assert_true(json_is(JSON_GET(detail, "output_schema"), JSON_NULL));
    assert_int_equal(JSON_GET(detail, "scopes")->count, 0);
    arena_deinit(&arena);
    catalog_unref(catalog);
}

static void assert_proof(struct bench *b, const char *extra, const char *note)
{
    struct catalog *catalog = load(b, extra, NULL, NULL);
    assert_non_null(catalog);
    const struct catalog_action *found = catalog_find_tool(catalog, SLICE("demo_get_page"));
    assert_non_null(found);
    char whole[512];
    (void)snprintf(whole, sizeof(whole), "{\"kind\":\"note\",\"description\":\"%s\"}]", note);
    if (slice_find(found->detail_json, slice_cstr(whole)) < 0)
        print_error("not %s in %.*s\n", whole, SLICE_ARG(found->detail_json));
    assert_true(slice_find(found->detail_json, slice_cstr(whole)) >= 0);
    catalog_unref(catalog);
}

static void what_proves_an_action_is_its_last_precondition(void **state)
{
    static const char unproven[] = "Unproven: written from the vendor's documentation. No recorded "
                                   "reply and no machine-readable description proves it.";
    assert_proof(*state, "", unproven);
    assert_proof(*state, ",\"preconditions\":[{\"kind\":\"scope\",\"description\":\"x\"}]",
                 unproven);
    assert_proof(*state, ",\"checked\":\"npm demo\"",
                 "Compared with the vendor's description (npm demo), but not proven by a recorded "
                 "reply.");
    assert_proof(*state,
                 ",\"checked\":\"npm demo\",\"met\":{\"date\":\"2026-04\",\"source\":\"a/b#0\"}",
                 "Proven against a recorded reply of April 2026 (a/b#0).");
    assert_proof(*state, ",\"met\":{\"date\":\"2026-12-03\",\"source\":\"a\"}",
                 "Proven against a recorded reply of 3 December 2026 (a).");
    assert_proof(*state, ",\"met\":{\"date\":\"2026\",\"source\":\"a\"}",
                 "Proven against a recorded reply of 2026 (a).");
}

static void what_proves_an_action_is_dated_and_sourced(void **state)
{
    static const char *const dates[] = {"26",         "2026-13", "2026-00",
                                        "2026-04-32", "2026/04", "2026-4-27",
                                        "2026-04-2",  "04-2026", "2026-04-27T00:00"};
    char extra[128];
    for (size_t i = 0; i < ARRAY_LEN(dates); i++) {
        (void)snprintf(extra, sizeof(extra), ",\"met\":{\"date\":\"%s\",\"source\":\"a\"}",
                       dates[i]);
        assert_fault(*state, extra, NULL, NULL, "/actions/0/met/date", "YYYY-MM");
    }
    assert_fault(*state, ",\"met\":{\"source\":\"a\"}", NULL, NULL, "/actions/0/met",
                 "\"date\" is missing");
    assert_fault(*state, ",\"met\":{\"date\":\"2026\"}", NULL, NULL, "/actions/0/met",
                 "\"source\" is missing");
    assert_fault(*state, ",\"met\":\"2026\"", NULL, NULL, "/actions/0/met", "must be an object");
}

static void writes_need_confirmation(void **state)
{
    struct bench *b = *state;
    const char *post = "\"side_effect_level\":\"write\"";
    struct catalog *catalog;
    assert_fault(b, "", "\"side_effect_level\":\"read\"", post, "/actions/0/request/method",
                 "a GET does not write");
    assert_fault(b, ",\"requires_confirmation\":false", "\"side_effect_level\":\"read\"", post,
                 "/actions/0/requires_confirmation", "stricter");
    catalog = load(b, ",\"requires_confirmation\":true", NULL, NULL);
    assert_non_null(catalog);
    assert_true(catalog_find_tool(catalog, SLICE("demo_get_page"))->requires_confirmation);
    catalog_unref(catalog);
}

static void what_takes_an_action_back_is_one_that_writes(void **state)
{
    struct bench *b = *state;
    const char *post = "\"side_effect_level\":\"write\"", *say = "reverses it";
    assert_fault(b, ",\"undo\":\"never\"", NULL, NULL, "/actions/0/undo", say);
    assert_fault(b, ",\"undo\":\"nosuch\"", "\"side_effect_level\":\"read\"", post,
                 "/actions/0/undo", say);
}

static void the_recipients_are_known_before_a_write(void **state)
{
    struct bench *b = *state;
    const char *get = "\"side_effect_level\":\"read\"", *at = "/actions/0/recipients";
    const char *post = "\"side_effect_level\":\"write\"";
    assert_fault(b, ",\"recipients\":{\"To\":\"${input.id}\"}", NULL, NULL, at, "that writes");
    assert_fault(b, ",\"recipients\":{\"To\":\"${input.nosuch}\"}", get, post, at, "nosuch");
    assert_fault(b, ",\"recipients\":{\"To\":\"${body.id}\"}", get, post, at, "body");
    assert_fault(b, ",\"recipients\":{\"To\":\"${connection.params.id}\"}", get, post, at,
                 "connection");
    assert_fault(b, ",\"recipients\":{\"To\":\"a@example.com\"}", get, post, at, "over the input");
    assert_fault(b, ",\"recipients\":{\" \":\"${input.id}\"}", get, post, at, "for people");
    assert_fault(b, ",\"recipients\":[]", get, post, at, "object");
    at = "/actions/0/target";
    assert_fault(b, ",\"target\":{\"Page\":\"${input.id}\"}", NULL, NULL, at, "that writes");
    assert_fault(b, ",\"target\":{\"Page\":\"${input.nosuch}\"}", get, post, at, "nosuch");
    assert_fault(b, ",\"target\":{\"Page\":\"a page\"}", get, post, at, "over the input");
}

static void faults_are_named_with_their_place(void **state)
{
    struct bench *b = *state;
    assert_fault(b, ",\"titel\":1", NULL, NULL, "/actions/0", "did you mean \"title\"");
    assert_fault(b, "", "\"name\":\"Demo\"", "\"name\":7", "/name", "string");
    assert_fault(b, "", "\"category\":\"notes\",", "", "", "\"category\" is missing");
    assert_fault(b, "", "\"integration_id\":\"demo\"", "\"integration_id\":\"De-mo\"",
                 "/integration_id", "must match");
    assert_fault(b, "", "https://api.example.com", "https://api.example.com/", "/base_url",
                 "slash");
    assert_fault(b, "", "https://api.example.com", "ftp://api.example.com", "/base_url",
                 "https://");
    assert_fault(b, "", "{\"type\":\"bearer\"}", "{\"type\":\"magic\"}", "/auth/type", "one of");
    assert_fault(b, "", "{\"type\":\"bearer\"}", "{\"type\":\"api_key\"}", "/auth", "send");
    assert_fault(b, "", "\"category\":", "\"errors\":[\"goggle\"],\"category\":", "/errors/0",
                 "the parts are atlassian, google, microsoft");
    assert_fault(b, "", "\"category\":", "\"limits\":{\"rate_limited\":[\"x\"]},\"category\":",
                 "/limits/rate_limited/0", "there is no part");
    assert_fault(b, "", "\"category\":",
                 "\"errors\":[\"google\",{\"when\":\"boddy\"}],\"category\":", "/errors/1/when",
                 "not known here");
    static const struct {
        const char *auth, *pointer, *phrase;
    } ways[] = {
        {"[]", "/auth", "array of 1 to 4"},
        {"[{\"type\":\"bearer\"}]", "/auth", "\"name\" for people"},
        {"[{\"type\":\"bearer\",\"name\":\"A\"},{\"type\":\"bearer\",\"name\":\"B\"}]", "/auth",
         "two ways"},
        {"[{\"type\":\"bearer\",\"name\":\"A\"},{\"type\":\"none\",\"name\":\"B\"}]", "/auth",
         "\"none\" cannot be one"},
        {"[{\"type\":\"bearer\",\"name\":\"A\"},{\"type\":\"api_key\",\"name\":\"B\"}]", "/auth/1",
         "where the key goes"},
        {"{\"type\":\"bearer\",\"optional_scopes\":{\"a\":\"b\"}}", "/auth/optional_scopes",
         "oauth2"},
        {"{\"type\":\"bearer\",\"optional_scopes\":[\"a\"]}", "/auth/optional_scopes", "in words"},
        {"{\"type\":\"bearer\",\"gone\":\"body.error\"}", "/auth/gone", "token endpoint"},
        {GONE("boddy.error"), "/auth/gone", "\"boddy\" is not known here"},
        {GONE("headers.date"), "/auth/gone", "\"headers\" is not known here"},
        {GONE("body.("), "/auth/gone", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(ways); i++)
        assert_fault(b, "", "{\"type\":\"bearer\"}", ways[i].auth, ways[i].pointer, ways[i].phrase);
    static const char *const no_paths[] = {
        "bot${credential.token}",
        "/bot${credential.token}/",
        "/bot",
        "//bot${credential.token}",
        "/b?t=${credential.token}",
        "/bot${credential.token}#",
        "/b%20${credential.token}",
        "${credential.token}",
        "/${credential.token}${credential.x}",
    };
    for (size_t i = 0; i < ARRAY_LEN(no_paths); i++) {
        char auth[256];
        (void)snprintf(auth, sizeof(auth), PATH_AUTH("%s"), no_paths[i]);
        assert_fault(b, "", "{\"type\":\"bearer\"}", auth, "/auth/send/value", "in a path");
    }
    assert_fault(b, "", "{\"type\":\"bearer\"}", PATH_AUTH("/a/${input.id}"), "/auth/send/value",
                 "not known here");
    assert_fault(b, "", "\"method\":\"GET\"", "\"method\":\"FETCH\"", "/actions/0/request/method",
                 "one of");
    assert_fault(b, "", "/pages/${input.id}", "pages", "/actions/0/request/path", "slash");
    assert_fault(b, "", "/pages/${input.id}", "/pages/${input.", "/actions/0/request/path", "");
    static const struct {
        const char *more, *pointer, *phrase;
    } requests[] = {
        {"\"base_url\":\"ftp://x.example\"", "/base_url", "https://"},
        {"\"base_url\":\"https://x.example/\"", "/base_url", "slash"},
        {"\"instead\":{}", "/instead", "array"},
        {"\"instead\":[{\"path\":\"/x\"}]", "/instead/0", "\"when\" is missing"},
        {"\"instead\":[{\"when\":\"input.id\",\"pth\":\"/x\"}]", "/instead/0", "\"path\"?"},
        {"\"instead\":[{\"when\":\"input.ib\"}]", "/instead/0/when", "no property \"ib\""},
        {"\"instead\":[{\"when\":\"body.id\"}]", "/instead/0/when", "not known here"},
        {"\"instead\":[{\"when\":\"input.id\",\"method\":\"DELETE\"}]", "/method",
         "a DELETE changes something"},
        {"\"instead\":[{\"when\":\"input.id\",\"body\":{\"json\":1}}]", "/body", "use query"},
    };
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        char request[256], pointer[64];
        (void)snprintf(request, sizeof(request), "\"method\":\"GET\",%s", requests[i].more);
        (void)snprintf(pointer, sizeof(pointer), "/actions/0/request%s", requests[i].pointer);
        assert_fault(b, "", "\"method\":\"GET\"", request, pointer, requests[i].phrase);
    }
    static const struct {
        const char *pages, *pointer, *phrase;
    } pages[] = {
        {"{}", "", "need \"next\""},
        {"{\"input\":\"id\",\"next\":\"body.\"}", "/next", ""},
        {"{\"next\":\"body.a\"}", "", "needs \"input\""},
        {"{\"input\":\"ib\",\"next\":\"body.a\"}", "", "input_schema does not have"},
        {"{\"input\":\"id\",\"next\":\"input.ib\"}", "", "no property \"ib\""},
        {"{\"kind\":\"urls\",\"input\":\"id\",\"next\":\"body\"}", "/kind", "\"url\""},
        {"{\"kind\":\"link\",\"input\":\"id\",\"next\":\"body\"}", "/next", "no effect"},
        {"{\"kind\":\"link\",\"input\":\"id\",\"take\":{\"id\":\"p\"}}", "", "one of the two"},
        {"{\"kind\":\"link\",\"take\":[]}", "/take", "object"},
        {"{\"kind\":\"url\",\"input\":\"id\",\"next\":\"body\",\"tail\":\"/q\"}", "/tail", "*"},
        {"{\"kind\":\"page\",\"input\":\"id\"}", "", "\"more\""},
        {"{\"kind\":\"offset\",\"input\":\"id\"}", "", "need \"items\""},
        {"{\"input\":\"id\",\"next\":\"body\",\"size\":5}", "/size", "\"items\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
        char response[256], pointer[64];
        (void)snprintf(
            response, sizeof(response),
            "\"response\":{\"kind\":\"any\",\"pagination\":%s},\"request\":", pages[i].pages);
        (void)snprintf(pointer, sizeof(pointer), "/actions/0/response/pagination%s",
                       pages[i].pointer);
        assert_fault(b, "", "\"request\":", response, pointer, pages[i].phrase);
    }
    assert_fault(b, "", "${input.full}", "${input.ful}", "/actions/0/request/query/full",
                 "no property \"ful\"");
    assert_fault(b, "", "Read ${input.id}", "Read ${credential.token}",
                 "/actions/0/display/summary", "not known here");
    assert_fault(b, "", "\"input\":{\"id\":\"p1\"}", "\"input\":{\"idd\":\"p1\"}",
                 "/actions/0/examples/0/input", "does not validate");
    assert_fault(b, "", "\"type\":\"boolean\"", "\"type\":\"bool\"", "/actions/0/input_schema",
                 "type");
    assert_fault(b, "", "\"tags\":[\"paper\"]", "\"tags\":[1]", "/tags", "array of strings");
    assert_fault(b, "", "\"actions\":[", "\"actions\":[],\"more\":[", "/actions", "1 to");
    assert_fault(b, "", "\"integration_id\":\"demo\",", "", "", "\"integration_id\" is missing");
    assert_fault(b, "", "{\"integration_id\"", "{\"name\":\"x\",\"integration_id\"", "", "name");
    assert_fault(b, "", "\"actions\"", "actions", "", "byte");
}

static void tool_names_have_a_limit(void **state)
{
    struct bench *b = *state;
    char id[80];
    memset(id, 'a', 60);
    id[60] = '\0';
    char member[128];
    (void)snprintf(member, sizeof(member), "\"action_id\":\"%s\"", id);
    assert_fault(b, "", "\"action_id\":\"get_page\"", member, "/actions/0/action_id", "65");
}

static void the_later_source_wins(void **state)
{
    struct bench *b = *state;
    struct catalog *catalog = load(b, "", NULL, NULL);
    assert_non_null(catalog);
    catalog_unref(catalog);
    struct catalog_source sources[2] = {{SLICE("a"), slice_cstr(b->text)},
                                        {SLICE("b"), SLICE_NONE}};
    char other[16384];
    const char *name = strstr(b->text, "\"Demo\"");
    (void)snprintf(other, sizeof(other), "%.*s\"Other\"%s", (int)(name - b->text), b->text,
                   name + 6);
    sources[1].text = slice_cstr(other);
    catalog = catalog_load(sources, 2, &b->report);
    assert_non_null(catalog);
    assert_int_equal(catalog->integration_count, 1);
    assert_int_equal(catalog->action_count, 1);
    assert_true(slice_eq_cstr(catalog->integrations[0]->name, "Other"));
    catalog_unref(catalog);
}

static void the_manifests_compiled_in_are_clean(void **state)
{
    struct bench *b = *state;
    struct catalog_source sources[CATALOG_INTEGRATIONS_MAX];
    for (size_t i = 0; i < embed_integrations_count; i++)
        sources[i] = (struct catalog_source){
            slice_cstr(embed_integrations[i].name),
            slice_of(embed_integrations[i].data, embed_integrations[i].len)};
    struct catalog *catalog = catalog_load(sources, embed_integrations_count, &b->report);
    for (size_t i = 0; i < b->report.count; i++)
        print_error("%.*s %.*s: %.*s\n", SLICE_ARG(b->report.problems[i].source),
                    SLICE_ARG(b->report.problems[i].pointer),
                    SLICE_ARG(b->report.problems[i].text));
    assert_int_equal(b->report.error_count + b->report.warning_count, 0);
    assert_non_null(catalog);
    assert_int_equal(catalog->integration_count, embed_integrations_count);
    assert_non_null(catalog_find_tool(catalog, SLICE("gmail_send_message")));
    assert_non_null(catalog_find_tool(catalog, SLICE("notion_create_page")));
    catalog_unref(catalog);
}

static slice schema_version_of(struct catalog *catalog, struct arena *arena)
{
    const struct catalog_action *found = catalog_find_tool(catalog, SLICE("demo_get_page"));
    const struct json *detail = json_parse(arena, found->detail_json, &json_limits_provider, NULL);
    return arena_dup(arena, json_get_str(detail, SLICE("schema_version")));
}

static void the_schema_version_follows_the_schema(void **state)
{
    struct arena arena;
    arena_init(&arena, 1024 * 1024);
    struct catalog *catalog = load(*state, "", NULL, NULL);
    slice first = schema_version_of(catalog, &arena);
    catalog_unref(catalog);
    assert_int_equal(first.len, 16);
    catalog = load(*state, "", "Reads one page.", "Reads a page."); /* a description */
    assert_true(slice_eq(first, schema_version_of(catalog, &arena)));
    catalog_unref(catalog);
    catalog = load(*state, "", "\"type\":\"string\",\"description\":\"Page id\"",
                   "\"description\":\"Page id\",\"type\":\"string\""); /* the order of members */
    assert_true(slice_eq(first, schema_version_of(catalog, &arena)));
    catalog_unref(catalog);
    catalog = load(*state, "", "Page id", "The page's id");
    assert_false(slice_eq(first, schema_version_of(catalog, &arena)));
    catalog_unref(catalog);
    arena_deinit(&arena);
}

static void a_summary_is_short_and_ends_well(void **state)
{
    char text[600];
    (void)state;
    assert_true(slice_eq_cstr(catalog_summary(SLICE("Reads one page.")), "Reads one page."));
    memset(text, 'a', sizeof(text));
    memcpy(text + 100, ". B", 3);
    assert_int_equal(catalog_summary(slice_of(text, sizeof(text))).len, 101);
    memcpy(text + 100, "  B", 3);
    assert_int_equal(catalog_summary(slice_of(text, sizeof(text))).len, 101);
    memset(text, 'a', sizeof(text));
    assert_int_equal(catalog_summary(slice_of(text, sizeof(text))).len, 280);
    for (size_t i = 1; i + 1 < sizeof(text); i += 2)
        memcpy(text + i, "\xc3\xa9", 2);
    assert_int_equal(catalog_summary(slice_of(text, sizeof(text) - 1)).len, 279);
}

static void failing_memory_is_reported(void **state)
{
    struct bench *b = *state;
    catalog_unref(load(b, "", NULL, NULL));
    struct catalog_source source = {SLICE("demo.json"), slice_cstr(b->text)};
    for (uint64_t n = 1; n < 400; n++) {
        catalog_report_deinit(&b->report);
        catalog_report_init(&b->report);
        mem_fail_at(n, 1);
        struct catalog *catalog = catalog_load(&source, 1, &b->report);
        mem_fail_at(0, 0);
        assert_true(catalog || b->report.error_count > 0);
        catalog_unref(catalog);
    }
}

/* Only of such a schema are inputs searched for what must not be kept. */
static void which_schemas_may_hide(void **state)
{
    static const struct {
        const char *property;
        bool may_hide;
    } cases[] = {
        {"{\"type\":\"boolean\"}", false},
        {"{\"type\":\"string\",\"writeOnly\":true}", true},
        {"{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"null\"},{\"writeOnly\":true}]}}",
         true},
        {"{\"$ref\":\"#/properties/id\"}", false},
        {"{\"$ref\":\"https://json-schema.org/draft/2020-12/schema\"}", true},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct catalog *catalog =
            load(b, "", "{\"type\":\"boolean\",\"description\":\"All of it\"}", cases[i].property);
        assert_non_null(catalog);
        const struct catalog_integration *app =
            catalog_find_integration(catalog, SLICE("demo"), NULL);
        const struct catalog_action *found = catalog_find_action(app, SLICE("get_page"), NULL);
        assert_non_null(found);
        assert_int_equal(found->may_hide_inputs, cases[i].may_hide);
        catalog_unref(catalog);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(a_good_manifest_is_found_by_all_its_names),
        BENCH_TEST(what_would_do_nothing_is_warned_of),
        BENCH_TEST(a_credential_may_go_in_the_path),
        BENCH_TEST(limits_are_read_and_their_faults_named),
        BENCH_TEST(identities_are_read_and_their_faults_named),
        BENCH_TEST(replies_are_rendered_at_load),
        BENCH_TEST(the_kind_of_a_reply_follows_from_what_is_said),
        BENCH_TEST(a_reply_must_be_known_from_any_other),
        BENCH_TEST(a_write_says_what_its_reply_never_lacks),
        BENCH_TEST(missing_scopes_are_a_cause_of_forbidden_alone),
        BENCH_TEST(what_proves_an_action_is_its_last_precondition),
        BENCH_TEST(what_proves_an_action_is_dated_and_sourced),
        BENCH_TEST(writes_need_confirmation),
        BENCH_TEST(faults_are_named_with_their_place),
        BENCH_TEST(the_recipients_are_known_before_a_write),
        BENCH_TEST(what_takes_an_action_back_is_one_that_writes),
        BENCH_TEST(tool_names_have_a_limit),
        BENCH_TEST(which_schemas_may_hide),
        BENCH_TEST(the_later_source_wins),
        BENCH_TEST(the_manifests_compiled_in_are_clean),
        BENCH_TEST(the_schema_version_follows_the_schema),
        BENCH_TEST(a_summary_is_short_and_ends_well),
        BENCH_TEST(failing_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
