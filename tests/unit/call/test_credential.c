/*
 * Credentials: the form for each kind of auth. No error ever contains a value.
 */
#include "base/clock.h"
#include "call/credential.h"
#include "unit.h"

static const char secret[] = "s3cr3t-value";

static const char *refusal(enum catalog_auth_kind kind, const char *text, int code)
{
    static struct err err;
    struct arena arena;
    int64_t expires_at;
    arena_init(&arena, 1024 * 1024);
    err.text[0] = '\0';
    assert_int_equal(call_credential_check(kind, slice_cstr(text), &arena, &expires_at, &err),
                     code);
    arena_deinit(&arena);
    assert_null(strstr(err.text, secret));
    return err.text;
}

static int64_t taken(enum catalog_auth_kind kind, const char *text)
{
    struct arena arena;
    struct err err = {.text = ""};
    int64_t expires_at = -1;
    arena_init(&arena, 1024 * 1024);
    if (call_credential_check(kind, slice_cstr(text), &arena, &expires_at, &err) != OK)
        fail_msg("refused: %s: %s", text, err.text);
    arena_deinit(&arena);
    return expires_at;
}

static void each_kind_has_its_shape(void **state)
{
    (void)state;
    assert_int_equal(taken(AUTH_OAUTH2, "{\"access_token\":\"a\"}"), 0);
    assert_int_equal(taken(AUTH_OAUTH2, "{\"access_token\":\"a\",\"refresh_token\":\"b\","
                                        "\"expires_at\":\"1970-01-01T00:00:01Z\"}"),
                     1000000);
    assert_int_equal(taken(AUTH_OAUTH2_CLIENT_CREDENTIALS, " {\"access_token\" : \"a\"} \n"), 0);
    assert_int_equal(taken(AUTH_BEARER, "{\"token\":\"a\"}"), 0);
    assert_int_equal(taken(AUTH_API_KEY, "{\"api_key\":\"a\"}"), 0);
    assert_int_equal(taken(AUTH_BASIC, "{\"username\":\"a\",\"password\":\"\"}"), 0);
}

static void what_a_token_endpoint_answers_is_taken(void **state)
{
    int64_t before = clock_wall_us();
    (void)state;
    int64_t expires_at = taken(AUTH_OAUTH2, "{\"access_token\":\"a\",\"refresh_token\":\"b\","
                                            "\"expires_in\":3600,\"scope\":\"x y\","
                                            "\"token_type\":\"Bearer\"}");
    assert_true(expires_at >= before + 3600 * 1000000LL);
    assert_true(expires_at <= clock_wall_us() + 3600 * 1000000LL);
    assert_int_equal(taken(AUTH_OAUTH2_CLIENT_CREDENTIALS, "{}"), 0);
    assert_int_equal(
        taken(AUTH_OAUTH2_CLIENT_CREDENTIALS, "{\"client_id\":\"a\",\"client_secret\":\"b\"}"), 0);
    assert_contains(refusal(AUTH_OAUTH2_CLIENT_CREDENTIALS, "{\"client_secret\":\"s3cr3t-value\"}",
                            ERR_INVALID),
                    "client_id and client_secret go together");
    assert_contains(
        refusal(AUTH_OAUTH2, "{\"access_token\":\"a\",\"expires_in\":\"3600\"}", ERR_INVALID),
        "expires_in must be a number");
    assert_contains(refusal(AUTH_OAUTH2, "{\"access_token\":\"a\",\"expires_in\":0}", ERR_INVALID),
                    "expires_in must be a number");
}

static void what_lacks_is_named(void **state)
{
    (void)state;
    assert_contains(refusal(AUTH_OAUTH2, "{}", ERR_INVALID), "lacks access_token; the members are");
    assert_contains(refusal(AUTH_OAUTH2, "{\"refresh_token\":\"s3cr3t-value\"}", ERR_INVALID),
                    "lacks access_token");
    assert_contains(refusal(AUTH_BASIC, "{\"username\":\"a\"}", ERR_INVALID), "lacks password");
    assert_contains(refusal(AUTH_BEARER, "{\"access_token\":\"s3cr3t-value\"}", ERR_INVALID),
                    "has a member \"access_token\"; the members are token");
    assert_contains(refusal(AUTH_OAUTH2_CLIENT_CREDENTIALS,
                            "{\"access_token\":\"a\",\"refresh_token\":\"s3cr3t-value\"}",
                            ERR_INVALID),
                    "has a member \"refresh_token\"");
    assert_contains(refusal(AUTH_API_KEY, "{\"api_key\":\"\"}", ERR_INVALID), "and not empty");
    assert_contains(refusal(AUTH_API_KEY, "{\"api_key\":7}", ERR_INVALID), "must be a string");
    assert_contains(refusal(AUTH_API_KEY, "{\"api_key\":\"s3cr3t-value\\r\\nX: y\"}", ERR_INVALID),
                    "without control characters");
    assert_contains(
        refusal(AUTH_OAUTH2, "{\"access_token\":\"a\",\"expires_at\":\"tomorrow\"}", ERR_INVALID),
        "expires_at must be a time");
}

static void only_an_object_is_accepted(void **state)
{
    (void)state;
    assert_contains(refusal(AUTH_BEARER, "s3cr3t-value", ERR_SYNTAX), "is not JSON");
    assert_contains(refusal(AUTH_BEARER, "\"s3cr3t-value\"", ERR_INVALID),
                    "a JSON object of token");
    assert_contains(refusal(AUTH_BEARER, "[]", ERR_INVALID), "a JSON object of token");
    assert_contains(refusal(AUTH_BEARER, "{\"token\":\"a\",\"token\":\"b\"}", ERR_INVALID),
                    "is not JSON");
    assert_contains(refusal(AUTH_NONE, "{}", ERR_REFUSED), "needs no connection");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(each_kind_has_its_shape),
        UNIT_TEST(what_a_token_endpoint_answers_is_taken),
        UNIT_TEST(what_lacks_is_named),
        UNIT_TEST(only_an_object_is_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
