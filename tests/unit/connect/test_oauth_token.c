/*
 * What is said to token endpoints and how their answers are read: RFC 6749, and how vendors differ.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/mem.h"
#include "connect/oauth_token.h"

static struct arena arena;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 1024 * 1024);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
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

static struct oauth_reply read(unsigned status, const char *body)
{
    struct oauth_reply reply;
    struct http_call call = {.result = HTTP_CALL_OK, .status = status, .body = slice_cstr(body)};
    oauth_reply_read(&call, &arena, &reply);
    return reply;
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
    /* GitHub without Accept, and its commas */
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
        oauth_reply_read(&call, &arena, &reply);
        assert_int_equal(reply.verdict, verdict);
        assert_true(reply.message.len > 0);
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

static void a_credential_keeps_what_goes_on(void **state)
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
        cmocka_unit_test(calls_without_an_answer),
        cmocka_unit_test(scopes_are_compared),
        cmocka_unit_test(a_credential_keeps_what_goes_on),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
