/*
 * Requests as they go out: encodings, what is left out, what is refused before anything is sent.
 */
#include "exec/build.h"
#include "exec_test.h"

#define BEARER "{\"type\":\"bearer\"}"

static struct exec_built built;

static int build(struct bench *b, const char *request, const char *input)
{
    const char *level = strstr(request, "GET") ? "read" : "write";
    const struct catalog_action *action = bench_action(b, BEARER, "", level, request, "");
    struct exec_scope scope = {bench_json(b, input), bench_json(b, "{\"host\":\"h.example\"}")};
    return exec_build(action, &scope, bench_json(b, "{\"token\":\"t0\"}"), &b->arena, &built,
                      &b->err);
}

static slice header(const char *name)
{
    return http_header_get(built.headers, built.header_count, slice_cstr(name));
}

#define assert_slice(got, wanted)                                \
    do {                                                         \
        slice got_ = (got);                                      \
        char text_[4096];                                        \
        snprintf(text_, sizeof(text_), "%.*s", SLICE_ARG(got_)); \
        assert_string_equal(text_, (wanted));                    \
    } while (0)

static void paths_are_encoded_by_segment(void **state)
{
    const char *get = "{\"method\":\"GET\",\"path\":\"/a/${input.id}:go\"}";
    assert_int_equal(build(*state, get, "{\"id\":\"x y/../z?#%\"}"), OK);
    assert_slice(built.url, "https://h.example/a/x%20y%2F..%2Fz%3F%23%25:go");
    assert_int_equal(build(*state, get, "{\"id\":12}"), OK);
    assert_slice(built.url, "https://h.example/a/12:go");
    for (size_t i = 0; i < 4; i++) {
        static const char *const bad[] = {"{}", "{\"id\":\"\"}", "{\"id\":\"..\"}", "{\"id\":[]}"};
        assert_int_equal(build(*state, get, bad[i]), ERR_INVALID);
    }
}

static void queries_drop_null_and_repeat_arrays(void **state)
{
    const char *get = "{\"method\":\"GET\",\"path\":\"/a\",\"query\":{\"q\":\"${input.q}\","
                      "\"l\":\"${input.l}\",\"n\":\"${input.n}\",\"b\":\"${input.b}\"}}";
    assert_int_equal(build(*state, get, "{\"q\":\"a&b=c d+é\",\"l\":[1,null,\"x\"],\"b\":true}"),
                     OK);
    assert_slice(built.url, "https://h.example/a?q=a%26b%3Dc%20d%2B%C3%A9&l=1&l=x&b=true");
    assert_int_equal(build(*state, get, "{}"), OK);
    assert_slice(built.url, "https://h.example/a");
    assert_int_equal(build(*state, get, "{\"q\":{}}"), ERR_INVALID);
}

static void headers_cannot_be_split(void **state)
{
    const char *get = "{\"method\":\"GET\",\"path\":\"/a\",\"headers\":{\"X-One\":\"${input.h}\","
                      "\"accept\":\"text/x\"}}";
    assert_int_equal(build(*state, get, "{\"h\":\"v\"}"), OK);
    assert_slice(header("x-one"), "v");
    assert_slice(header("Accept"), "text/x");
    assert_slice(header("Authorization"), "Bearer t0");
    assert_int_equal(build(*state, get, "{\"h\":null}"), OK);
    assert_null(header("x-one").ptr);
    assert_int_equal(build(*state, get, "{\"h\":\"a\\r\\nX-Two: b\"}"), ERR_INVALID);
    assert_int_equal(build(*state, get, "{\"h\":\"a\\u0000\"}"), ERR_INVALID);
}

static void json_bodies_leave_out_what_is_absent(void **state)
{
    const char *post = "{\"method\":\"POST\",\"path\":\"/a\",\"body\":{\"json\":{\"a\":"
                       "\"${input.a}\",\"b\":\"${input.b}\",\"c\":null,\"d\":[\"${input.b}\",1]}}}";
    assert_int_equal(build(*state, post, "{\"a\":{\"x\":null,\"n\":9007199254740993}}"), OK);
    assert_slice(built.body[0], "{\"a\":{\"x\":null,\"n\":9007199254740993},\"c\":null,\"d\":[1]}");
    assert_slice(header("content-type"), "application/json");
}

static void forms_and_raw_and_multipart(void **state)
{
    assert_int_equal(build(*state,
                           "{\"method\":\"POST\",\"path\":\"/a\",\"body\":{\"form\":{\"k\":"
                           "\"${input.k}\",\"z\":\"${input.z}\"}}}",
                           "{\"k\":[\"a b\",\"c\"]}"),
                     OK);
    assert_slice(built.body[0], "k=a%20b&k=c");
    assert_slice(header("content-type"), "application/x-www-form-urlencoded");
    const char *raw = "{\"method\":\"PUT\",\"path\":\"/a\",\"body\":{\"raw\":\"${input.d}\","
                      "\"content_type\":\"text/csv\",\"encoding\":\"base64\"}}";
    assert_int_equal(build(*state, raw, "{\"d\":\"aGVsbG8=\"}"), OK);
    assert_slice(built.body[0], "hello");
    assert_slice(header("content-type"), "text/csv");
    assert_int_equal(build(*state, raw, "{\"d\":\"a\"}"), ERR_INVALID);
    assert_int_equal(build(*state, raw, "{\"d\":7}"), ERR_INVALID);
    assert_int_equal(build(*state,
                           "{\"method\":\"POST\",\"path\":\"/a\",\"body\":{\"multipart\":[{"
                           "\"name\":\"n\",\"value\":\"${input.v}\"},{\"name\":\"m\",\"value\":"
                           "\"${input.none}\"}]}}",
                           "{\"v\":\"x\"}"),
                     OK);
    slice type = header("content-type");
    assert_true(slice_starts_with(type, SLICE("multipart/form-data; boundary=")));
    slice boundary = slice_from(type, sizeof("multipart/form-data; boundary=") - 1);
    char wanted[512];
    (void)snprintf(wanted, sizeof(wanted),
                   "--%.*s\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\nx\r\n--%.*s--\r\n",
                   SLICE_ARG(boundary), SLICE_ARG(boundary));
    assert_slice(built.body[0], wanted);
}

static int build_with(struct bench *b, const char *auth, const char *credential)
{
    const struct catalog_action *action =
        bench_action(b, auth, "", "read", "{\"method\":\"GET\",\"path\":\"/a\"}", "");
    struct exec_scope scope = {bench_json(b, "{}"), bench_json(b, "{\"host\":\"h.example\"}")};
    return exec_build(action, &scope, bench_json(b, credential), &b->arena, &built, &b->err);
}

static void credentials_go_where_the_manifest_says(void **state)
{
    struct bench *b = *state;
    assert_int_equal(build_with(b, "{\"type\":\"basic\"}",
                                "{\"username\":\"Aladdin\",\"password\":\"open sesame\"}"),
                     OK);
    assert_slice(header("authorization"), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    assert_int_equal(build_with(b,
                                "{\"type\":\"api_key\",\"send\":{\"in\":\"query\",\"name\":\"key\","
                                "\"value\":\"${credential.api_key}\"}}",
                                "{\"api_key\":\"a+b\"}"),
                     OK);
    assert_slice(built.url, "https://h.example/a?key=a%2Bb");
    assert_int_equal(build_with(b,
                                "{\"type\":\"api_key\",\"send\":{\"in\":\"header\",\"name\":"
                                "\"X-Key\",\"value\":\"k ${credential.api_key}\"}}",
                                "{\"api_key\":\"s\"}"),
                     OK);
    assert_slice(header("x-key"), "k s");
}

static void a_broken_credential_is_never_quoted(void **state)
{
    struct bench *b = *state;
    assert_int_equal(build_with(b, BEARER, "{\"other\":\"s3cr3t\"}"), ERR_CRYPTO);
    assert_null(strstr(b->err.text, "s3cr3t"));
    assert_int_equal(build_with(b, BEARER, "{\"token\":\"s3cr3t\\r\\nX: y\"}"), ERR_CRYPTO);
    assert_null(strstr(b->err.text, "s3cr3t"));
}

static void expressions_that_fail_are_the_callers_fault(void **state)
{
    struct bench *b = *state;
    const char *get =
        "{\"method\":\"GET\",\"path\":\"/a\",\"query\":{\"n\":\"${length(input.n)}\"}}";
    assert_int_equal(build(b, get, "{\"n\":1}"), ERR_INVALID);
    assert_true(strlen(b->err.text) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(paths_are_encoded_by_segment),
        BENCH_TEST(queries_drop_null_and_repeat_arrays),
        BENCH_TEST(headers_cannot_be_split),
        BENCH_TEST(json_bodies_leave_out_what_is_absent),
        BENCH_TEST(forms_and_raw_and_multipart),
        BENCH_TEST(credentials_go_where_the_manifest_says),
        BENCH_TEST(a_broken_credential_is_never_quoted),
        BENCH_TEST(expressions_that_fail_are_the_callers_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
