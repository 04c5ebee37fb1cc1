/*
 * The requests to token endpoints, and how their answers are parsed: RFC 6749, and the differences
 * between vendors.
 */
#include "connect/oauth_token.h"
#include "unit.h"

static struct arena arena;
static struct catalog *apps; /* sluice's own manifests */
static struct catalog *bare; /* the manifest has no rules for refusals */

static int set_up(void **state)
{
    static const char manifest[] =
        "{\"integration_id\":\"plain\",\"name\":\"Plain\",\"description\":\"An app.\","
        "\"category\":\"test\",\"base_url\":\"https://a.example\",\"auth\":{\"type\":\"oauth2\","
        "\"authorize_url\":\"https://a.example/a\",\"token_url\":\"https://a.example/t\"},"
        "\"actions\":[{\"action_id\":\"a\",\"title\":\"A\",\"description\":\"A.\","
        "\"side_effect_level\":\"read\",\"input_schema\":{\"type\":\"object\","
        "\"additionalProperties\":false},\"request\":{\"method\":\"GET\",\"path\":\"/a\"},"
        "\"display\":{\"title\":\"A\",\"summary\":\"A\"}}]}";
    const struct catalog_source source = {SLICE("plain.json"), slice_cstr(manifest)};
    struct catalog_report *report = mem_alloc(sizeof(*report));
    (void)state;
    arena_init(&arena, 1024 * 1024);
    catalog_report_init(report);
    bare = catalog_load(&source, 1, report);
    apps = catalog_load_all(NULL, report);
    catalog_report_deinit(report);
    mem_free(report);
    return bare && apps ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    catalog_unref(bare);
    catalog_unref(apps);
    arena_deinit(&arena);
    return 0;
}

/* ---- requests ---- */

static struct json *scopes_of(const char *text)
{
    struct json *scopes = json_parse(&arena, slice_cstr(text), &json_limits_request, NULL);
    assert_non_null(scopes);
    return scopes;
}

static void expect_request(const struct oauth_ask *ask, const char *body, const char *authorization)
{
    struct oauth_request request;
    struct http_call call = {.deadline_ns = 1};
    assert_int_equal(oauth_request_make(ask, &request, &call), OK);
    assert_int_equal(call.body_part_count, 1);
    if (!slice_eq_cstr(call.body_parts[0], body))
        fail_msg("%.*s instead of %s", SLICE_ARG(call.body_parts[0]), body);
    slice got = SLICE_NONE, accept = SLICE_NONE, type = SLICE_NONE;
    for (size_t i = 0; i < call.header_count; i++) {
        if (slice_eq_cstr(call.headers[i].name, "Authorization"))
            got = call.headers[i].value;
        if (slice_eq_cstr(call.headers[i].name, "Accept"))
            accept = call.headers[i].value;
        if (slice_eq_cstr(call.headers[i].name, "Content-Type"))
            type = call.headers[i].value;
    }
    assert_true(authorization ? slice_eq_cstr(got, authorization) : !got.ptr);
    assert_true(slice_eq_cstr(accept, "application/json"));
    assert_true(slice_eq_cstr(type, body[0] == '{' ? "application/json"
                                                   : "application/x-www-form-urlencoded"));
    assert_true(slice_eq_cstr(call.url, "https://a/t") && slice_eq_cstr(call.method, "POST"));
    assert_false(call.is_idempotent);
    assert_int_equal(call.deadline_ns, 1);
    oauth_request_deinit(&request);
}

static void a_code_is_exchanged(void **state)
{
    struct catalog_auth auth = {.token_url = SLICE("https://a/t")};
    struct oauth_ask ask = {.auth = &auth,
                            .grant = OAUTH_GRANT_CODE,
                            .client_id = SLICE("me & you"),
                            .client_secret = SLICE("s:1"),
                            .code = SLICE("c+/="),
                            .redirect_uri = SLICE("https://s/back?x=1"),
                            .verifier = SLICE("v")};
    (void)state;
    expect_request(&ask,
                   "grant_type=authorization_code&code=c%2B%2F%3D&redirect_uri="
                   "https%3A%2F%2Fs%2Fback%3Fx%3D1&code_verifier=v&client_id=me%20%26%20you"
                   "&client_secret=s%3A1",
                   NULL);
    auth.token_by_basic = true; /* "me%20%26%20you:s%3A1" */
    expect_request(&ask,
                   "grant_type=authorization_code&code=c%2B%2F%3D&redirect_uri="
                   "https%3A%2F%2Fs%2Fback%3Fx%3D1&code_verifier=v",
                   "Basic bWUlMjAlMjYlMjB5b3U6cyUzQTE=");
    ask.client_secret = ask.verifier = SLICE_NONE; /* a public client names itself in the body */
    expect_request(&ask,
                   "grant_type=authorization_code&code=c%2B%2F%3D&redirect_uri="
                   "https%3A%2F%2Fs%2Fback%3Fx%3D1&client_id=me%20%26%20you",
                   NULL);
}

static void other_grants_and_json(void **state)
{
    struct catalog_auth auth = {.token_url = SLICE("https://a/t"),
                                .token_as_json = true,
                                .scopes = scopes_of("[\"a\",\"b\"]"),
                                .scope_separator = SLICE(",")};
    struct oauth_ask ask = {.auth = &auth,
                            .grant = OAUTH_GRANT_REFRESH,
                            .client_id = SLICE("i"),
                            .client_secret = SLICE("s\"1"),
                            .refresh_token = SLICE("r")};
    (void)state;
    expect_request(&ask,
                   "{\"grant_type\":\"refresh_token\",\"refresh_token\":\"r\",\"client_id\":\"i\","
                   "\"client_secret\":\"s\\\"1\"}",
                   NULL);
    ask.grant = OAUTH_GRANT_CLIENT;
    ask.refresh_token = SLICE_NONE;
    expect_request(&ask,
                   "{\"grant_type\":\"client_credentials\",\"scope\":\"a,b\",\"client_id\":\"i\","
                   "\"client_secret\":\"s\\\"1\"}",
                   NULL);
}

/* ---- replies ---- */

static const struct catalog_auth *auth_of(struct catalog *catalog, const char *app)
{
    const struct catalog_integration *integration =
        catalog_find_integration(catalog, slice_cstr(app), NULL);
    assert_non_null(integration);
    return catalog_auth_by(integration, AUTH_OAUTH2);
}

static struct oauth_reply read_for(const struct catalog_auth *auth,
                                   const struct oauth_request *request, unsigned status,
                                   const char *body)
{
    struct oauth_reply reply;
    struct http_call call = {.result = HTTP_CALL_OK, .status = status, .body = slice_cstr(body)};
    oauth_reply_read(auth, request, &call, &arena, &reply);
    return reply;
}

static struct oauth_reply read_of(const struct catalog_auth *auth, unsigned status,
                                  const char *body)
{
    static const struct oauth_request none;
    return read_for(auth, &none, status, body);
}

static struct oauth_reply read(unsigned status, const char *body)
{
    return read_of(auth_of(bare, "plain"), status, body);
}

static void tokens_are_read(void **state)
{
    (void)state;
    struct oauth_reply reply =
        read(200, "{\"access_token\":\"a\",\"refresh_token\":\"r\",\"expires_in\":3600,"
                  "\"scope\":\"x  y\",\"token_type\":\"Bearer\"}");
    assert_int_equal(reply.verdict, OAUTH_GRANTED);
    assert_true(slice_eq_cstr(reply.access_token, "a") && slice_eq_cstr(reply.refresh_token, "r"));
    assert_int_equal(reply.expires_in_s, 3600);
    assert_true(slice_eq_cstr(reply.scopes, "x y"));
    /* GitHub without Accept, with its commas */
    reply = read(200, "access_token=a%2Bb&scope=repo%2Cread%3Auser&token_type=bearer");
    assert_int_equal(reply.verdict, OAUTH_GRANTED);
    assert_true(slice_eq_cstr(reply.access_token, "a+b"));
    assert_true(slice_eq_cstr(reply.scopes, "repo read:user"));
    assert_true(!reply.refresh_token.ptr && reply.expires_in_s == 0);
    /* Slack */
    reply = read(200, "{\"ok\":true,\"access_token\":\"xoxb\",\"token_type\":\"bot\","
                      "\"scope\":\"chat:write,users:read\",\"expires_in\":\"43200\"}");
    assert_int_equal(reply.verdict, OAUTH_GRANTED);
    assert_int_equal(reply.expires_in_s, 43200);
    assert_true(slice_eq_cstr(reply.scopes, "chat:write users:read"));
    reply = read(201, "{\"access_token\":\"a\",\"expires_in\":99999999999,\"error\":null}");
    assert_int_equal(reply.verdict, OAUTH_GRANTED);
    assert_int_equal(reply.expires_in_s, 10 * 365 * 24 * 3600);
    assert_false(reply.scopes.ptr != NULL);
    assert_int_equal(read(200, "{\"access_token\":\"a\",\"expires_in\":-5}").expires_in_s, 0);
}

static void answers_that_are_no_token(void **state)
{
    static const struct {
        unsigned status;
        const char *body;
        enum oauth_verdict verdict;
        const char *error;
    } table[] = {
        {400, "{\"error\":\"invalid_grant\",\"error_description\":\"gone\"}", OAUTH_GONE,
         "invalid_grant"},
        {401, "{\"error\":\"invalid_grant\"}", OAUTH_GONE, "invalid_grant"},
        {200, "error=bad_refresh_token&error_description=The+token", OAUTH_GONE,
         "bad_refresh_token"},
        {200, "{\"ok\":false,\"error\":\"invalid_refresh_token\"}", OAUTH_GONE,
         "invalid_refresh_token"},
        {401, "{\"error\":\"invalid_client\"}", OAUTH_REFUSED, "invalid_client"},
        {400, "{\"error\":\"unsupported_grant_type\"}", OAUTH_REFUSED, "unsupported_grant_type"},
        {400, "{\"error\":{\"code\":1}}", OAUTH_REFUSED, "an unreadable error"},
        {400, "{\"error\":\"a\\r\\nb\"}", OAUTH_REFUSED, "an unreadable error"},
        {200, "{\"access_token\":\"a\",\"token_type\":\"DPoP\"}", OAUTH_REFUSED, NULL},
        {400, "{\"error\":\"temporarily_unavailable\"}", OAUTH_OUTAGE, "temporarily_unavailable"},
        {500, "{\"error\":\"invalid_grant\"}", OAUTH_OUTAGE, NULL},
        {429, "{\"error\":\"invalid_grant\"}", OAUTH_OUTAGE, NULL},
        {408, "", OAUTH_OUTAGE, NULL},
        {403, "<html>blocked</html>", OAUTH_OUTAGE, NULL},
        {400, "{\"message\":\"no\"}", OAUTH_OUTAGE, NULL},
        {302, "", OAUTH_OUTAGE, NULL},
        {200, "", OAUTH_OUTAGE, NULL},
        {200, "{}", OAUTH_OUTAGE, NULL},
        {200, "[]", OAUTH_OUTAGE, NULL},
        {200, "{\"access_token\":7}", OAUTH_OUTAGE, NULL},
        {200, "{\"access_token\":\"a b\"}", OAUTH_OUTAGE, NULL},
        {200, "{\"access_token\":\"a\\r\\nX: y\"}", OAUTH_OUTAGE, NULL},
        {200, "{\"access_token\": nonsense", OAUTH_OUTAGE, NULL},
        {200, "access_token=%zz", OAUTH_OUTAGE, NULL},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct oauth_reply reply = read(table[i].status, table[i].body);
        if (reply.verdict != table[i].verdict)
            fail_msg("%u %s: %d", table[i].status, table[i].body, reply.verdict);
        assert_true(table[i].error ? slice_eq_cstr(reply.error, table[i].error) : !reply.error.ptr);
        assert_true(reply.message.len > 0 && !reply.access_token.ptr);
    }
}

/* Taken from the vendors' documents, and from observation where these documents say nothing. */
static void a_dead_grant_is_known_in_the_vendors_words(void **state)
{
    static const struct {
        const char *app;
        unsigned status;
        const char *body;
        enum oauth_verdict verdict;
    } table[] = {
        {"airtable", 400, "{\"error\":\"invalid_grant\"}", OAUTH_GONE},
        {"asana", 400,
         "{\"error\":\"invalid_grant\",\"error_description\":\"The `refresh_token` provided was "
         "invalid.\"}",
         OAUTH_GONE},
        {"dropbox", 400,
         "{\"error\":\"invalid_grant\",\"error_description\":\"refresh token is invalid or "
         "revoked\"}",
         OAUTH_GONE},
        {"github", 200, "error=bad_refresh_token&error_description=The+refresh+token", OAUTH_GONE},
        {"github", 200, "{\"error\":\"incorrect_client_credentials\"}", OAUTH_REFUSED},
        {"gitlab", 400, "{\"error\":\"invalid_grant\"}", OAUTH_GONE},
        {"gmail", 400,
         "{\"error\":\"invalid_grant\",\"error_description\":\"Token has been expired or "
         "revoked.\"}",
         OAUTH_GONE},
        {"google_drive", 400, "{\"error\":\"invalid_grant\",\"error_subtype\":\"invalid_rapt\"}",
         OAUTH_GONE},
        {"hubspot", 400,
         "{\"status\":\"BAD_REFRESH_TOKEN\",\"message\":\"missing or invalid refresh "
         "token\",\"correlationId\":\"c\"}",
         OAUTH_GONE},
        {"hubspot", 400, "{\"status\":\"BAD_HUB\",\"message\":\"missing or unknown hub id\"}",
         OAUTH_GONE},
        {"hubspot", 400, "{\"error\":\"invalid_grant\"}", OAUTH_GONE},
        {"hubspot", 400, "{\"status\":\"BAD_CLIENT_SECRET\",\"message\":\"m\"}", OAUTH_OUTAGE},
        {"jira", 403,
         "{\"error\":\"unauthorized_client\",\"error_description\":\"refresh_token is "
         "invalid\"}",
         OAUTH_GONE},
        {"jira", 403,
         "{\"error\":\"invalid_grant\",\"error_description\":\"Unknown or invalid refresh "
         "token.\"}",
         OAUTH_GONE},
        {"jira", 401,
         "{\"error\":\"unauthorized_client\",\"error_description\":\"The client is not "
         "authorized\"}",
         OAUTH_REFUSED},
        {"trello", 403,
         "{\"error\":\"unauthorized_client\",\"error_description\":\"refresh_token is "
         "invalid\"}",
         OAUTH_GONE},
        {"linear", 400, "{\"error\":\"invalid_grant\"}", OAUTH_GONE},
        {"notion", 400, "{\"error\":\"invalid_grant\"}", OAUTH_GONE},
        {"notion", 400,
         "{\"object\":\"error\",\"status\":400,\"code\":\"invalid_grant\",\"message\":\"m\"}",
         OAUTH_GONE},
        {"outlook_mail", 400,
         "{\"error\":\"interaction_required\",\"error_description\":\"AADSTS50076: multi-factor "
         "authentication\",\"error_codes\":[50076]}",
         OAUTH_GONE},
        {"outlook_mail", 400,
         "{\"error\":\"invalid_grant\",\"error_description\":\"AADSTS700082: the refresh token "
         "has expired\"}",
         OAUTH_GONE},
        {"outlook_calendar", 400, "{\"error\":\"consent_required\"}", OAUTH_GONE},
        {"outlook_calendar", 400, "{\"error\":\"login_required\"}", OAUTH_GONE},
        {"outlook_calendar", 401, "{\"error\":\"invalid_client\"}", OAUTH_REFUSED},
        {"outlook_calendar", 400, "{\"error\":\"temporarily_unavailable\"}", OAUTH_OUTAGE},
        {"salesforce", 400,
         "{\"error\":\"invalid_grant\",\"error_description\":\"expired access/refresh token\"}",
         OAUTH_GONE},
        {"salesforce", 400, "{\"error\":\"inactive_user\"}", OAUTH_GONE},
        {"salesforce", 400, "{\"error\":\"inactive_org\"}", OAUTH_GONE},
        /* may succeed in an hour, or once the rules of the organisation allow it */
        {"salesforce", 400,
         "{\"error\":\"invalid_grant\",\"error_description\":\"ip restricted or invalid login "
         "hours\"}",
         OAUTH_REFUSED},
        {"slack", 200, "{\"ok\":false,\"error\":\"invalid_refresh_token\"}", OAUTH_GONE},
        {"slack", 200, "{\"ok\":false,\"error\":\"token_revoked\"}", OAUTH_GONE},
        {"slack", 200, "{\"ok\":false,\"error\":\"account_inactive\"}", OAUTH_GONE},
        {"slack", 200, "{\"ok\":false,\"error\":\"bad_client_secret\"}", OAUTH_REFUSED},
        {"zendesk", 400, "{\"error\":\"invalid_grant\"}", OAUTH_GONE},
        /* an outage proves nothing, whatever its body says */
        {"jira", 503,
         "{\"error\":\"unauthorized_client\",\"error_description\":\"refresh_token is "
         "invalid\"}",
         OAUTH_OUTAGE},
        {"hubspot", 429, "{\"status\":\"BAD_REFRESH_TOKEN\"}", OAUTH_OUTAGE},
        {"hubspot", 200, "{\"access_token\":\"a\",\"status\":\"BAD_HUB\"}", OAUTH_GRANTED},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct oauth_reply reply =
            read_of(auth_of(apps, table[i].app), table[i].status, table[i].body);
        if (reply.verdict != table[i].verdict)
            fail_msg("%s %u %s: %d", table[i].app, table[i].status, table[i].body, reply.verdict);
        assert_true(reply.verdict != OAUTH_GONE || (reply.error.len > 0 && reply.message.len > 0));
    }
}

/* Each manifest was written from the vendor's documents. */
static void every_app_says_what_ends_a_grant(void **state)
{
    (void)state;
    for (size_t i = 0; i < apps->integration_count; i++) {
        slice id = apps->integrations[i]->integration_id;
        const struct catalog_integration *app = catalog_find_integration(apps, id, NULL);
        const struct catalog_auth *auth = catalog_auth_by(app, AUTH_OAUTH2);
        if (auth && slice_eq(expr_source(auth->gone), expr_source(auth_of(bare, "plain")->gone)))
            fail_msg("%.*s: auth.gone is missing", SLICE_ARG(id));
        assert_true(!auth || catalog_grant_is_gone(
                                 auth, 400, scopes_of("{\"error\":\"invalid_grant\"}"), &arena));
    }
}

/* If each customer of an app has a separate host, the authorization server is also there. */
static void people_sign_in_where_the_app_is(void **state)
{
    const struct json *params =
        scopes_of("{\"instance\":\"acme--dev.sandbox.my.salesforce.com\",\"subdomain\":\"acme\"}");
    size_t found = 0;
    (void)state;
    for (size_t i = 0; i < apps->integration_count; i++) {
        slice id = apps->integrations[i]->integration_id;
        const struct catalog_integration *app = catalog_find_integration(apps, id, NULL);
        const struct catalog_auth *auth = catalog_auth_by(app, AUTH_OAUTH2);
        if (!auth || !app->is_host_given)
            continue;
        found++;
        assert_true(slice_find(oauth_url_make(auth->authorize_url, params, &arena), SLICE("acme")) >
                    0);
        assert_true(slice_find(oauth_url_make(auth->token_url, params, &arena), SLICE("acme")) > 0);
    }
    assert_true(found >= 2); /* Salesforce, Zendesk */
}

static void calls_without_an_answer(void **state)
{
    (void)state;
    for (int result = HTTP_CALL_OK + 1; result < HTTP_CALL_RESULTS; result++) {
        struct http_call call = {.result = (enum http_call_result)result, .status = 200};
        struct oauth_reply reply;
        enum oauth_verdict verdict = OAUTH_OUTAGE;
        if (result == HTTP_CALL_TIMEOUT || result == HTTP_CALL_TIMEOUT_CONNECT)
            verdict = OAUTH_TIMEOUT;
        if (result == HTTP_CALL_ADDRESS_REFUSED)
            verdict = OAUTH_REFUSED;
        static const struct oauth_request none;
        oauth_reply_read(auth_of(bare, "plain"), &none, &call, &arena, &reply);
        assert_int_equal(reply.verdict, verdict);
        assert_true(reply.message.len > 0);
    }
}

/* A server echoes what it received, in any form and any member, or sends a new token where a
 * word is expected. No text that is shown, stored or logged contains either. */
static void no_text_of_a_reply_has_a_secret(void **state)
{
#define TOKENS "{\"access_token\":\"new.access.1\",\"refresh_token\":\"new.refresh.1\","
    static const char basic[] = "aWQlMjAxOmNsaWVudC1zZWNyZXQlMkYx"; /* id%201:client-secret%2F1 */
    static const char *const sent[] = {
        "client-secret/1", "client-secret%2F1", "the+code=1",      "the%2Bcode%3D1",
        "verifier-1",      "old.refresh/1",     "old.refresh%2F1", basic};
    static const char *const bodies[][2] = {
        /* surrounds what was sent */
        {"{\"error\":\"", "\"}"},
        {"{\"error\":\"no:", ";\"}"},
        {TOKENS "\"scope\":\"a ", " b\"}"},
        {TOKENS "\"error\":\"new.access.1/", "/new.refresh.1\"}"},
    };
#undef TOKENS
    (void)state;
    for (int by_basic = 0; by_basic < 2; by_basic++) {
        const struct catalog_auth auth = {
            .kind = AUTH_OAUTH2, .token_url = SLICE("https://a/t"), .token_by_basic = by_basic};
        for (size_t i = 0; i < ARRAY_LEN(sent) - !by_basic; i++) {
            bool is_refresh = strstr(sent[i], "refresh") != NULL;
            struct oauth_ask ask = {.auth = &auth,
                                    .grant = is_refresh ? OAUTH_GRANT_REFRESH : OAUTH_GRANT_CODE,
                                    .client_id = SLICE("id 1"),
                                    .client_secret = SLICE("client-secret/1"),
                                    .verifier = SLICE("verifier-1")};
            if (is_refresh)
                ask.refresh_token = SLICE("old.refresh/1");
            else
                ask.code = SLICE("the+code=1");
            struct oauth_request request;
            struct http_call call = {0};
            assert_int_equal(oauth_request_make(&ask, &request, &call), OK);
            for (size_t k = 0; k < ARRAY_LEN(bodies); k++) {
                char body[400];
                (void)snprintf(body, sizeof(body), "%s%s%s", bodies[k][0], sent[i], bodies[k][1]);
                struct oauth_reply reply = read_for(&auth, &request, k == 2 ? 200 : 400, body);
                const slice texts[] = {reply.error, reply.message, reply.scopes};
                for (size_t t = 0; t < ARRAY_LEN(texts); t++) {
                    assert_true(slice_find(texts[t], slice_cstr(sent[i])) < 0);
                    assert_true(slice_find(texts[t], SLICE("new.access.1")) < 0);
                    assert_true(slice_find(texts[t], SLICE("new.refresh.1")) < 0);
                }
                assert_true(slice_find(k == 2 ? reply.scopes : reply.message, SLICE("***")) >= 0);
                assert_true(k != 2 || slice_eq_cstr(reply.access_token, "new.access.1"));
            }
            oauth_request_deinit(&request);
        }
    }
}

/* ---- scopes, credentials ---- */

static void scopes_are_compared(void **state)
{
    (void)state;
    const struct json *wanted = scopes_of("[\"a\",\"b:c\",\"d\"]");
    assert_false(oauth_scopes_missing(wanted, SLICE("d b:c a extra"), &arena).ptr != NULL);
    assert_true(slice_eq_cstr(oauth_scopes_missing(wanted, SLICE("b:c,x"), &arena), "a d"));
    assert_true(slice_eq_cstr(oauth_scopes_missing(wanted, SLICE_NONE, &arena), "a b:c d"));
    assert_false(oauth_scopes_missing(NULL, SLICE("a"), &arena).ptr != NULL);
    assert_true(slice_eq_cstr(oauth_scopes_normal(SLICE(" a,b  c,"), &arena), "a b c"));
    assert_false(oauth_scopes_normal(SLICE(" , "), &arena).ptr != NULL);
    assert_true(slice_eq_cstr(oauth_scopes_normal(SLICE("a \x01\x02 b"), &arena), "a b"));
}

static void expect_credential(const char *former, const struct oauth_reply *reply, const char *want)
{
    struct buf out;
    const struct json *value =
        former ? json_parse(&arena, slice_cstr(former), &json_limits_request, NULL) : NULL;
    buf_init(&out, 4096);
    assert_int_equal(oauth_credential_write(value, reply, &out), OK);
    if (!slice_eq_cstr(buf_slice(&out), want))
        fail_msg("%.*s instead of %s", SLICE_ARG(buf_slice(&out)), want);
    buf_deinit(&out);
}

static void a_credential_keeps_what_stays_valid(void **state)
{
    struct oauth_reply rotated = {.access_token = SLICE("a2"), .refresh_token = SLICE("r2")};
    struct oauth_reply plain = {.access_token = SLICE("a2")};
    const char *former = "{\"access_token\":\"a1\",\"refresh_token\":\"r1\",\"expires_at\":\"x\","
                         "\"expires_in\":5,\"client_id\":\"i\"}";
    (void)state;
    expect_credential(former, &rotated,
                      "{\"access_token\":\"a2\",\"refresh_token\":\"r2\",\"client_id\":\"i\"}");
    expect_credential(former, &plain,
                      "{\"access_token\":\"a2\",\"refresh_token\":\"r1\",\"client_id\":\"i\"}");
    expect_credential(NULL, &plain, "{\"access_token\":\"a2\"}");
}

/* ---- addresses of the customer's own ---- */

static void a_url_takes_the_connections_params(void **state)
{
    static const struct {
        const char *params, *made; /* NULL: refused */
    } cases[] = {
        {"{\"subdomain\":\"acme-1.eu\",\"tenant\":\"t_2\"}",
         "https://acme-1.eu.example.com/t_2/oauth/tokens"},
        {"{\"subdomain\":\"acme\"}", NULL},
        {"{\"subdomain\":\"evil.example.org/\",\"tenant\":\"t\"}", NULL},
        {"{\"subdomain\":\"a@b\",\"tenant\":\"t\"}", NULL},
        {"{\"subdomain\":\"a:1\",\"tenant\":\"t\"}", NULL},
        {"{\"subdomain\":\"\",\"tenant\":\"t\"}", NULL},
        {"{\"subdomain\":7,\"tenant\":\"t\"}", NULL},
        {"{\"subdomain\":\"acme\",\"tenant\":\"..\"}", NULL},
        {"{\"subdomain\":\"acme\",\"tenant\":\".\"}", NULL},
    };
    slice url = SLICE("https://${connection.params.subdomain}.example.com/"
                      "${connection.params.tenant}/oauth/tokens");
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct json *params = scopes_of(cases[i].params);
        slice made = oauth_url_make(url, params, &arena);
        assert_true(cases[i].made ? slice_eq_cstr(made, cases[i].made) : made.ptr == NULL);
    }
    assert_null(oauth_url_make(url, NULL, &arena).ptr);
    assert_null(
        oauth_url_make(SLICE("https://${input.x}/"), scopes_of(cases[0].params), &arena).ptr);
    slice plain = SLICE("https://example.com/token");
    assert_ptr_equal(oauth_url_make(plain, NULL, &arena).ptr, plain.ptr);
}

static void a_token_is_asked_for_where_it_says(void **state)
{
    const struct catalog_auth auth = {.kind = AUTH_OAUTH2,
                                      .token_url = SLICE("https://a.example/"),
                                      .scope_separator = SLICE(" ")};
    struct oauth_ask ask = {.auth = &auth, .grant = OAUTH_GRANT_CODE};
    struct oauth_request request;
    struct http_call call = {0};
    (void)state;
    assert_int_equal(oauth_request_make(&ask, &request, &call), OK);
    assert_true(slice_eq_cstr(call.url, "https://a.example/"));
    oauth_request_deinit(&request);
    ask.token_url = SLICE("https://b.example/");
    assert_int_equal(oauth_request_make(&ask, &request, &call), OK);
    assert_true(slice_eq_cstr(call.url, "https://b.example/"));
    oauth_request_deinit(&request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_takes_the_connections_params),
        cmocka_unit_test(a_token_is_asked_for_where_it_says),
        cmocka_unit_test(a_code_is_exchanged),
        cmocka_unit_test(other_grants_and_json),
        cmocka_unit_test(tokens_are_read),
        cmocka_unit_test(answers_that_are_no_token),
        cmocka_unit_test(a_dead_grant_is_known_in_the_vendors_words),
        cmocka_unit_test(every_app_says_what_ends_a_grant),
        cmocka_unit_test(people_sign_in_where_the_app_is),
        cmocka_unit_test(calls_without_an_answer),
        cmocka_unit_test(no_text_of_a_reply_has_a_secret),
        cmocka_unit_test(scopes_are_compared),
        cmocka_unit_test(a_credential_keeps_what_stays_valid),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
