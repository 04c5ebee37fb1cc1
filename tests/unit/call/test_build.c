/*
 * Requests in the form in which they are sent: encodings, values that are left out, and inputs that
 * are refused before anything is sent.
 */
#include "call/build.h"

#include "base/encode.h"
#include "support/action_test.h"

#define BEARER "{\"type\":\"bearer\"}"

static struct call_built built;

/* host: the connection's parameter, used in base_url. */
static int build_at(struct bench *b, const char *request, const char *input, const char *host)
{
    const char *level = strstr(request, "GET") ? "read" : "write";
    const struct catalog_action *action = bench_action(b, BEARER, "", level, request, "");
    char params[100];
    (void)snprintf(params, sizeof(params), "{\"host\":\"%s\"}", host);
    struct call_scope scope = {.input = bench_json(b, input),
                               .connection_params = bench_json(b, params)};
    return call_build(action, &scope, bench_json(b, "{\"token\":\"t0\"}"), &b->arena, &built,
                      &b->err);
}

static int build(struct bench *b, const char *request, const char *input)
{
    return build_at(b, request, input, "h.example");
}

static slice header(const char *name)
{
    return http_header_get(built.headers, built.header_count, slice_cstr(name));
}

static void paths_are_encoded_by_segment(void **state)
{
    const char *get = "{\"method\":\"GET\",\"path\":\"/a/${input.id}:go\"}";
    assert_int_equal(build(*state, get, "{\"id\":\"x y/..z/.../z?#%\"}"), OK);
    assert_text(built.url, "https://h.example/a/x%20y%2F..z%2F...%2Fz%3F%23%25:go");
    static const char *const twelve[] = {"{\"id\":12}", "{\"id\":12.0}", "{\"id\":1.2e1}"};
    for (size_t i = 0; i < ARRAY_LEN(twelve); i++) {
        assert_int_equal(build(*state, get, twelve[i]), OK);
        assert_text(built.url, "https://h.example/a/12:go");
    }
    static const char *const bad[] = {
        "{}",
        "{\"id\":\"\"}",
        "{\"id\":\"..\"}",
        "{\"id\":[]}",
        "{\"id\":\"../x\"}",
        "{\"id\":\"x/../y\"}",
        "{\"id\":\"x\\\\..\\\\y\"}",
        "{\"id\":\"./x\"}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(build(*state, get, bad[i]), ERR_INVALID);
}

static void an_input_chooses_another_request(void **state)
{
    static const char list[] =
        "{\"method\":\"POST\",\"path\":\"/list\",\"query\":{\"q\":\"${input.q}\"},\"headers\":{"
        "\"X-A\":\"1\"},\"body\":{\"json\":{\"path\":\"${input.path}\"}},\"instead\":[{\"when\":"
        "\"input.cursor\",\"path\":\"/list/continue\",\"query\":{},\"body\":{\"json\":{\"cursor\":"
        "\"${input.cursor}\"}}},{\"when\":\"input.id\",\"method\":\"PUT\",\"path\":\"/"
        "${input.id}\","
        "\"body\":null,\"base_url\":\"https://up.example/v1\"}]}";
    assert_int_equal(build(*state, list, "{\"path\":\"/a\",\"q\":1}"), OK);
    assert_text(built.method, "POST");
    assert_text(built.url, "https://h.example/list?q=1");
    assert_text(built.body[0], "{\"path\":\"/a\"}");
    assert_true(built.is_host_given);
    assert_int_equal(build(*state, list, "{\"path\":\"/a\",\"q\":1,\"cursor\":\"c\",\"id\":1}"),
                     OK);
    assert_text(built.url, "https://h.example/list/continue");
    assert_text(built.body[0], "{\"cursor\":\"c\"}");
    assert_text(header("X-A"), "1");
    assert_int_equal(build(*state, list, "{\"id\":\"7\",\"q\":2}"), OK);
    assert_text(built.method, "PUT");
    assert_text(built.url, "https://up.example/v1/7?q=2");
    assert_int_equal(built.body_count, 0);
    assert_false(built.is_host_given);
    assert_text(header("Authorization"), "Bearer t0");
}

static void a_request_may_have_a_host_of_the_connection(void **state)
{
    static const char list[] = "{\"method\":\"GET\",\"path\":\"/a\",\"base_url\":\"https://up."
                               "${connection.params.host}/v1\"}";
    assert_int_equal(build(*state, list, "{}"), OK);
    assert_text(built.url, "https://up.h.example/v1/a");
    assert_true(built.is_host_given);
}

static void queries_drop_null_and_repeat_arrays(void **state)
{
    const char *get = "{\"method\":\"GET\",\"path\":\"/a\",\"query\":{\"q\":\"${input.q}\","
                      "\"l\":\"${input.l}\",\"n\":\"${input.n}\",\"b\":\"${input.b}\"}}";
    assert_int_equal(build(*state, get, "{\"q\":\"a&b=c d+é\",\"l\":[1,null,\"x\"],\"b\":true}"),
                     OK);
    assert_text(built.url, "https://h.example/a?q=a%26b%3Dc%20d%2B%C3%A9&l=1&l=x&b=true");
    assert_int_equal(build(*state, get, "{}"), OK);
    assert_text(built.url, "https://h.example/a");
    assert_int_equal(build(*state, get, "{\"q\":{}}"), ERR_INVALID);
    assert_int_equal(build(*state, get, "{\"q\":5.0,\"l\":[-0.0,1e3,1.5],\"n\":1e300}"), OK);
    assert_text(built.url, "https://h.example/a?q=5&l=0&l=1000&l=1.5&n=1e300");
}

static void headers_cannot_be_split(void **state)
{
    const char *get = "{\"method\":\"GET\",\"path\":\"/a\",\"headers\":{\"X-One\":\"${input.h}\","
                      "\"accept\":\"text/x\"}}";
    assert_int_equal(build(*state, get, "{\"h\":\"v\"}"), OK);
    assert_text(header("x-one"), "v");
    assert_text(header("Accept"), "text/x");
    assert_text(header("Authorization"), "Bearer t0");
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
    assert_text(built.body[0], "{\"a\":{\"x\":null,\"n\":9007199254740993},\"c\":null,\"d\":[1]}");
    assert_text(header("content-type"), "application/json");
    /* null (only if the schema accepts it) clears a field at the vendor */
    assert_int_equal(build(*state, post, "{\"a\":null}"), OK);
    assert_text(built.body[0], "{\"a\":null,\"c\":null,\"d\":[1]}");
}

static void forms_and_raw_and_multipart(void **state)
{
    assert_int_equal(build(*state,
                           "{\"method\":\"POST\",\"path\":\"/a\",\"body\":{\"form\":{\"k\":"
                           "\"${input.k}\",\"z\":\"${input.z}\"}}}",
                           "{\"k\":[\"a b\",\"c\"]}"),
                     OK);
    assert_text(built.body[0], "k=a%20b&k=c");
    assert_text(header("content-type"), "application/x-www-form-urlencoded");
    const char *raw = "{\"method\":\"PUT\",\"path\":\"/a\",\"body\":{\"raw\":\"${input.d}\","
                      "\"content_type\":\"text/csv\",\"encoding\":\"base64\"}}";
    assert_int_equal(build(*state, raw, "{\"d\":\"aGVsbG8=\"}"), OK);
    assert_text(built.body[0], "hello");
    assert_text(header("content-type"), "text/csv");
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
    assert_text(built.body[0], wanted);
}

static void nested_values_are_written_in_brackets(void **state)
{
    static const char input[] =
        "{\"v\":{\"meta\":{\"a b\":1,\"n\":null,\"deep\":{\"x\":[true,{\"y\":\"&=\"}]}}},"
        "\"items\":[{\"price\":\"p\",\"qty\":2},{\"price\":\"q\"}],\"none\":[],\"nul\":[null]}";
    static const struct {
        const char *nesting, *wanted;
    } table[] = {
        {"brackets", "v%5Bmeta%5D%5Ba%20b%5D=1&v%5Bmeta%5D%5Bdeep%5D%5Bx%5D%5B%5D=true&"
                     "v%5Bmeta%5D%5Bdeep%5D%5Bx%5D%5B%5D%5By%5D=%26%3D&items%5B%5D%5Bprice%5D=p&"
                     "items%5B%5D%5Bqty%5D=2&items%5B%5D%5Bprice%5D=q"},
        {"indices", "v%5Bmeta%5D%5Ba%20b%5D=1&v%5Bmeta%5D%5Bdeep%5D%5Bx%5D%5B0%5D=true&"
                    "v%5Bmeta%5D%5Bdeep%5D%5Bx%5D%5B1%5D%5By%5D=%26%3D&items%5B0%5D%5Bprice%5D=p&"
                    "items%5B0%5D%5Bqty%5D=2&items%5B1%5D%5Bprice%5D=q"},
    };
    char request[512], url[1024];
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        (void)snprintf(request, sizeof(request),
                       "{\"method\":\"POST\",\"path\":\"/a\",\"nesting\":\"%s\",\"body\":{"
                       "\"form\":{\"v\":\"${input.v}\",\"items\":\"${input.items}\",\"none\":"
                       "\"${input.none}\",\"nul\":\"${input.nul}\"}}}",
                       table[i].nesting);
        assert_int_equal(build(*state, request, input), OK);
        assert_text(built.body[0], table[i].wanted);
        (void)snprintf(request, sizeof(request),
                       "{\"method\":\"GET\",\"path\":\"/a\",\"nesting\":\"%s\",\"query\":{"
                       "\"v\":\"${input.v}\",\"items\":\"${input.items}\"}}",
                       table[i].nesting);
        assert_int_equal(build(*state, request, input), OK);
        (void)snprintf(url, sizeof(url), "https://h.example/a?%s", table[i].wanted);
        assert_text(built.url, url);
    }
    /* without nesting, an object has no encoding, at any depth */
    const char *repeat = "{\"method\":\"POST\",\"path\":\"/a\",\"body\":{\"form\":{\"k\":"
                         "\"${input.k}\"}}}";
    assert_int_equal(build(*state, repeat, "{\"k\":{\"a\":1}}"), ERR_INVALID);
    assert_int_equal(build(*state, repeat, "{\"k\":[{\"a\":1}]}"), ERR_INVALID);
    assert_int_equal(build(*state, repeat, "{\"k\":[[1]]}"), ERR_INVALID);
}

static void nested_names_are_bounded(void **state)
{
    struct bench *b = *state;
    const char *form = "{\"method\":\"POST\",\"path\":\"/a\",\"nesting\":\"indices\",\"body\":{"
                       "\"form\":{\"k\":\"${input.k}\"}}}";
    char input[6000];
    (void)snprintf(input, sizeof(input), "{\"k\":{\"%05000d\":1}}", 1);
    assert_int_equal(build(b, form, input), ERR_INVALID);
    assert_non_null(strstr(b->err.text, "is too long"));
}

static void commas_are_an_expression(void **state)
{
    const char *get = "{\"method\":\"GET\",\"path\":\"/a\",\"query\":{\"s\":\"${input.s && "
                      "join(',', input.s)}\",\"n\":\"${input.n && join(',', "
                      "input.n[].to_string(@))}\",\"f\":\"${input.f}\"}}";
    assert_int_equal(build(*state, get, "{\"s\":[\"a,b\",\"c\"],\"n\":[1,2.5],\"f\":false}"), OK);
    assert_text(built.url, "https://h.example/a?s=a%2Cb%2Cc&n=1%2C2.5&f=false");
    assert_int_equal(build(*state, get, "{}"), OK);
    assert_text(built.url, "https://h.example/a");
}

static void dots_cannot_be_completed(void **state)
{
    const char *get = "{\"method\":\"GET\",\"path\":\"/a/.${input.x}/b\"}";
    assert_int_equal(build(*state, get, "{\"x\":\"hidden\"}"), OK);
    assert_text(built.url, "https://h.example/a/.hidden/b");
    assert_int_equal(build(*state, get, "{\"x\":\".\"}"), ERR_INVALID);
    get = "{\"method\":\"GET\",\"path\":\"/a/${input.x}\"}";
    assert_int_equal(build(*state, get, "{\"x\":\"%2e%2Ex\\u0000\\r\\n\"}"), OK);
    assert_text(built.url, "https://h.example/a/%252e%252Ex%00%0D%0A");
    assert_int_equal(build(*state, get, "{\"x\":\"...\"}"), OK);
    assert_int_equal(build(*state, get, "{\"x\":true}"), OK);
    assert_text(built.url, "https://h.example/a/true");
    /* every character that a server decodes, splits at or drops */
    static const char *const bad[] = {"..",         "..;",      "..;/x",    "..;v=1/x", "%2e%2e",
                                      "%2E.",       "%252e.",   "..\\\\x",  "x/../y",   "x\\\\.",
                                      "x%2f..%2fy", "x/%2e%2e", "x/..;a/y", "./x"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char input[64];
        (void)snprintf(input, sizeof(input), "{\"x\":\"%s\"}", bad[i]);
        if (build(*state, get, input) != ERR_INVALID)
            fail_msg("%s is sent as %.*s", bad[i], SLICE_ARG(built.url));
    }
    /* a connection parameter, also in base_url */
    get = "{\"method\":\"GET\",\"path\":\"/a\"}";
    assert_int_equal(build_at(*state, get, "{}", "h.example/x"), OK);
    assert_text(built.url, "https://h.example/x/a");
    assert_int_equal(build_at(*state, get, "{}", "h.example/..;x"), ERR_INVALID);
    assert_int_equal(build_at(*state, get, "{}", "h.example/%2e"), ERR_INVALID);
}

/* GraphQL is JSON: a constant query, and variables in which null has a meaning. */
static void graphql_keeps_nulls(void **state)
{
    const char *post =
        "{\"method\":\"POST\",\"path\":\"/graphql\",\"body\":{\"json\":{\"query\":\"mutation "
        "U($id: String!, $in: In!) { update(id: $id, input: $in) { ok } }\",\"variables\":{"
        "\"id\":\"${input.id}\",\"in\":\"${input.fields}\",\"after\":\"${input.after}\"}}}}";
    assert_int_equal(
        build(*state, post, "{\"id\":\"i\",\"fields\":{\"assignee\":null,\"tags\":[null]}}"), OK);
    assert_text(built.body[0],
                "{\"query\":\"mutation U($id: String!, $in: In!) { update(id: $id, input: $in) { "
                "ok } }\",\"variables\":{\"id\":\"i\",\"in\":{\"assignee\":null,\"tags\":[null]"
                "}}}");
}

/* A mail is sent as base64url of a whole message (Gmail's raw). */
static void mail_is_base64url_of_a_message(void **state)
{
    struct bench *b = *state;
    const char *post = "{\"method\":\"POST\",\"path\":\"/send\",\"body\":{\"json\":{\"raw\":"
                       "\"${base64url(mime_message({to: input.to, subject: input.subject, text: "
                       "input.text}))}\"}}}";
    assert_int_equal(build(b, post,
                           "{\"to\":\"ada@example.com\",\"subject\":\"Gr\\u00fc\\u00dfe\","
                           "\"text\":\"?\\u003f?>>>\"}"),
                     OK);
    slice raw = json_get_str(json_parse(&b->arena, built.body[0], &json_limits_provider, &b->err),
                             SLICE("raw"));
    assert_true(raw.len > 0 && slice_find_char(raw, '+') < 0 && slice_find_char(raw, '/') < 0 &&
                slice_find_char(raw, '=') < 0);
    struct buf message;
    buf_init(&message, 8192);
    assert_int_equal(decode_base64url(&message, raw), OK);
    assert_true(slice_find(buf_slice(&message), SLICE("To: ada@example.com\r\n")) >= 0);
    assert_true(slice_find(buf_slice(&message), SLICE("=?")) > 0);
    buf_deinit(&message);
    /* a careless mail writer would turn a line break in a subject into a header */
    int result = build(b, post,
                       "{\"to\":\"ada@example.com\",\"subject\":\"a\\r\\nBcc: eve@example.com\","
                       "\"text\":\"x\"}");
    if (result == OK) {
        raw = json_get_str(json_parse(&b->arena, built.body[0], &json_limits_provider, &b->err),
                           SLICE("raw"));
        buf_init(&message, 8192);
        assert_int_equal(decode_base64url(&message, raw), OK);
        assert_true(slice_find(buf_slice(&message), SLICE("\nBcc:")) < 0);
        buf_deinit(&message);
    } else {
        assert_int_equal(result, ERR_INVALID);
    }
}

/* Each allocation in turn fails: the request is complete, or there is no request. */
static void failing_allocations(void **state)
{
    const char *post = "{\"method\":\"POST\",\"path\":\"/a\",\"body\":{\"multipart\":[{\"name\":"
                       "\"n\",\"value\":\"${input.v}\"}]}}";
    struct bench *b = *state;
    const struct catalog_action *action = bench_action(b, BEARER, "", "write", post, "");
    struct call_scope scope = {.input = bench_json(b, "{\"v\":\"x\"}"),
                               .connection_params = bench_json(b, "{\"host\":\"h.example\"}")};
    const struct json *credential = bench_json(b, "{\"token\":\"t0\"}");
    for (uint64_t n = 1, hits = 1; hits; n++) {
        struct arena arena;
        arena_init(&arena, 1024 * 1024);
        mem_fail_at(n, 1);
        int rc = call_build(action, &scope, credential, &arena, &built, &b->err);
        hits = mem_fail_hits();
        mem_fail_at(0, 0);
        bool has_all = rc == OK && slice_eq_cstr(header("authorization"), "Bearer t0") &&
                       header("content-type").len > 24 && built.body[0].len > 24;
        arena_deinit(&arena);
        if (rc != OK && rc != ERR_NOMEM)
            fail_msg("allocation %zu: %s", (size_t)n, b->err.text);
        assert_true(rc == OK ? has_all : hits > 0);
    }
}

static void multipart_fields_repeat_and_leave_out(void **state)
{
    struct bench *b = *state;
    const char *post = "{\"method\":\"POST\",\"path\":\"/a\",\"body\":{\"multipart\":[{\"name\":"
                       "\"n\\\"\\r\\nX: y\",\"value\":\"${input.v}\"}]}}";
    assert_int_equal(build(b, post, "{\"v\":[\"a\",null,7,true]}"), OK);
    slice body = built.body[0];
    size_t parts = 0;
    for (ptrdiff_t at; (at = slice_find(body, SLICE("name=\"n%22%0D%0AX: y\"\r\n"))) >= 0; parts++)
        body = slice_from(body, (size_t)at + 1);
    assert_int_equal(parts, 3);
    assert_int_equal(build(b, post, "{\"v\":{}}"), ERR_INVALID);
    assert_int_equal(build(b, post, "{\"v\":[[]]}"), ERR_INVALID);
}

static int build_with(struct bench *b, const char *auth, const char *credential)
{
    const struct catalog_action *action =
        bench_action(b, auth, "", "read", "{\"method\":\"GET\",\"path\":\"/a\"}", "");
    struct call_scope scope = {.input = bench_json(b, "{}"),
                               .connection_params = bench_json(b, "{\"host\":\"h.example\"}")};
    return call_build(action, &scope, bench_json(b, credential), &b->arena, &built, &b->err);
}

static void credentials_go_where_the_manifest_says(void **state)
{
    struct bench *b = *state;
    assert_int_equal(build_with(b, "{\"type\":\"basic\"}",
                                "{\"username\":\"Aladdin\",\"password\":\"open sesame\"}"),
                     OK);
    assert_text(header("authorization"), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    assert_int_equal(build_with(b,
                                "{\"type\":\"api_key\",\"send\":{\"in\":\"query\",\"name\":\"key\","
                                "\"value\":\"${credential.api_key}\"}}",
                                "{\"api_key\":\"a+b\"}"),
                     OK);
    assert_text(built.url, "https://h.example/a?key=a%2Bb");
    assert_text(slice_first(slice_from(built.url, built.secret_at), built.secret_len), "a%2Bb");
    assert_int_equal(built.credential_index, SIZE_MAX);
    assert_int_equal(build_with(b,
                                "{\"type\":\"api_key\",\"send\":{\"in\":\"header\",\"name\":"
                                "\"X-Key\",\"value\":\"k ${credential.api_key}\"}}",
                                "{\"api_key\":\"s\"}"),
                     OK);
    assert_text(header("x-key"), "k s");
    assert_text(built.headers[built.credential_index].value, "k s");
    assert_int_equal(built.secret_len, 0);
}

#define IN_PATH                                                  \
    "{\"type\":\"api_key\",\"send\":{\"in\":\"path\",\"value\":" \
    "\"/bot${credential.api_key}\"}}"

static void a_credential_in_the_path_is_one_segment(void **state)
{
    struct bench *b = *state;
    assert_int_equal(build_with(b, IN_PATH, "{\"api_key\":\"12:A-b_/../x?y#z% \"}"), OK);
    assert_text(built.url, "https://h.example/bot12%3AA-b_%2F..%2Fx%3Fy%23z%25%20/a");
    assert_text(slice_first(slice_from(built.url, built.secret_at), built.secret_len),
                "bot12%3AA-b_%2F..%2Fx%3Fy%23z%25%20");
    assert_int_equal(built.credential_index, SIZE_MAX);
    for (size_t i = 0; i < 4; i++) {
        static const char *const broken[] = {"{\"api_key\":\"\"}", "{\"api_key\":\"..\"}",
                                             "{\"api_key\":[\"..\"]}", "{}"};
        assert_int_equal(build_with(b, IN_PATH, broken[i]), ERR_CRYPTO);
        assert_null(strstr(b->err.text, ".."));
    }
}

static void a_broken_credential_is_never_quoted(void **state)
{
    struct bench *b = *state;
    assert_int_equal(build_with(b, BEARER, "{\"other\":\"s3cr3t\"}"), ERR_CRYPTO);
    assert_null(strstr(b->err.text, "s3cr3t"));
    assert_int_equal(build_with(b, BEARER, "{\"token\":\"s3cr3t\\r\\nX: y\"}"), ERR_CRYPTO);
    assert_null(strstr(b->err.text, "s3cr3t"));
}

static void a_credential_that_lacks_a_member_is_named(void **state)
{
    struct bench *b = *state;
    static const struct {
        const char *auth, *credential, *text;
    } cases[] = {
        {BEARER, "{\"other\":\"x\"}", "the connection has no \"token\", which \"send\""},
        {BEARER, "{\"token\":null}", "the connection has no \"token\""},
        {BEARER, "{\"token\":{}}", "another kind of credential than the connection has"},
        {"{\"type\":\"oauth2\",\"authorize_url\":\"https://a.example/a\",\"token_url\":"
         "\"https://a.example/t\",\"send\":{\"in\":\"header\",\"name\":\"A\",\"value\":"
         "\"${credential.token_type} ${credential.access_token}\"}}",
         "{\"access_token\":\"t\"}", "the connection has no \"token_type\""},
        {"{\"type\":\"basic\"}", "{\"password\":\"p\"}",
         "the connection has no \"username\", which the Basic header needs"},
        {"{\"type\":\"basic\"}", "{\"username\":\"u\"}", "the connection has no \"password\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(build_with(b, cases[i].auth, cases[i].credential), ERR_CRYPTO);
        if (!strstr(b->err.text, cases[i].text))
            fail_msg("case %zu: %s", i, b->err.text);
    }
    assert_int_equal(
        build_with(b, "{\"type\":\"basic\"}", "{\"username\":\"u\",\"password\":\"\"}"), OK);
}

#define MEMBER(name) ",\"idempotency_member\":\"" name "\""

static void a_provider_key_goes_where_the_manifest_says(void **state)
{
    struct bench *b = *state;
    static const struct {
        const char *rest, *body, *sent; /* NULL: refused */
    } cases[] = {
        {MEMBER("key"), "{\"json\":{\"a\":\"${input.a}\"}}", "{\"a\":1,\"key\":\"k-1\"}"},
        {MEMBER("v.in.id"), "{\"json\":{\"v\":{\"x\":[1]}}}",
         "{\"v\":{\"x\":[1],\"in\":{\"id\":\"k-1\"}}}"},
        {MEMBER("v.id"), "{\"json\":{\"v\":\"${input.o}\"}}", "{\"v\":{\"a\":1,\"id\":\"k-1\"}}"},
        {MEMBER("a"), "{\"json\":\"${input.o}\"}", "{\"a\":\"k-1\"}"},
        {MEMBER("v.id"), "{\"json\":{\"v\":\"${input.list}\"}}", NULL},
        {MEMBER("id"), "{\"json\":\"${input.list}\"}", NULL},
        {MEMBER("key"), "{\"form\":{\"a\":\"${input.a}\"}}", "a=1&key=k-1"},
        {MEMBER("a[key]"), "{\"form\":{}}", "a%5Bkey%5D=k-1"},
        {MEMBER("key"), "{\"multipart\":[]}", "name=\"key\"\r\n\r\nk-1\r\n--"},
        {",\"idempotency_header\":\"X-Key\"", "{\"form\":{\"a\":\"${input.a}\"}}", "a=1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char request[256];
        (void)snprintf(request, sizeof(request),
                       "{\"method\":\"POST\",\"path\":\"/a\",\"body\":%s}", cases[i].body);
        const struct catalog_action *action =
            bench_action(b, BEARER, "", "write", request, cases[i].rest);
        struct call_scope scope = {.input = bench_json(b, "{\"a\":1,\"o\":{\"a\":1},\"list\":[]}"),
                                   .connection_params = bench_json(b, "{\"host\":\"h.example\"}"),
                                   .provider_key = SLICE("k-1")};
        int rc = call_build(action, &scope, bench_json(b, "{\"token\":\"t\"}"), &b->arena, &built,
                            &b->err);
        assert_int_equal(rc, cases[i].sent ? OK : ERR_INVALID);
        if (rc == OK && slice_find(built.body[0], slice_cstr(cases[i].sent)) < 0)
            fail_msg("case %zu: %.*s", i, SLICE_ARG(built.body[0]));
        if (rc != OK)
            assert_non_null(strstr(b->err.text, "idempotency key"));
    }
    assert_text(header("x-key"), "k-1");
}

static void expressions_that_fail_are_the_callers_fault(void **state)
{
    struct bench *b = *state;
    const char *get =
        "{\"method\":\"GET\",\"path\":\"/a\",\"query\":{\"n\":\"${length(input.n)}\"}}";
    assert_int_equal(build(b, get, "{\"n\":1}"), ERR_INVALID);
    assert_true(strlen(b->err.text) > 10);
}

/* ---- files ---- */

static int build_files(struct bench *b, const char *request, const char *travel,
                       struct call_file *files, size_t count)
{
    char rest[256];
    (void)snprintf(rest, sizeof(rest), ",\"files\":{\"travel\":\"%s\",\"field\":\"upload\"}",
                   travel);
    const struct catalog_action *action = bench_action(b, BEARER, "", "write", request, rest);
    assert_null(call_files_check(action, files, count, 1024, &b->arena).ptr);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(call_file_decode(&files[i], &b->arena), OK);
    struct call_scope scope = {.input = bench_json(b, "{\"v\":\"x\"}"),
                               .connection_params = bench_json(b, "{\"host\":\"h.example\"}"),
                               .files = files,
                               .file_count = count};
    return call_build(action, &scope, bench_json(b, "{\"token\":\"t0\"}"), &b->arena, &built,
                      &b->err);
}

static slice whole_body(struct bench *b)
{
    struct buf text;
    buf_init(&text, 64 * 1024);
    for (size_t i = 0; i < built.body_count; i++)
        buf_append(&text, built.body[i]);
    slice body = arena_dup(&b->arena, buf_slice(&text));
    buf_deinit(&text);
    return body;
}

static void files_become_parts_that_are_not_copied(void **state)
{
    struct bench *b = *state;
    struct call_file files[2] = {
        {.name = SLICE("a\"b.txt"), .content_type = SLICE("text/plain"), .data = SLICE("aGVsbG8=")},
        {.field = SLICE("other"), .name = SLICE("gr\xc3\xbc\xc3\x9f.bin"), .data = SLICE("AP8=")}};
    assert_int_equal(build_files(b,
                                 "{\"method\":\"POST\",\"path\":\"/a\",\"body\":{\"multipart\":["
                                 "{\"name\":\"n\",\"value\":\"${input.v}\"}]}}",
                                 "multipart", files, 2),
                     OK);
    assert_int_equal(built.body_count, 5);
    assert_ptr_equal(built.body[1].ptr, files[0].bytes.ptr);
    assert_ptr_equal(built.body[3].ptr, files[1].bytes.ptr);
    assert_int_equal(built.body[3].len, 2);
    assert_memory_equal(built.body[3].ptr, "\0\xff", 2);
    slice boundary =
        slice_from(header("content-type"), sizeof("multipart/form-data; boundary=") - 1);
    char wanted[1024];
    (void)snprintf(
        wanted, sizeof(wanted),
        "--%.*s\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\nx\r\n"
        "--%.*s\r\nContent-Disposition: form-data; name=\"upload\"; filename=\"a%%22b.txt\"\r\n"
        "Content-Type: text/plain\r\n\r\n",
        SLICE_ARG(boundary), SLICE_ARG(boundary));
    assert_text(built.body[0], wanted);
    assert_text(built.body[1], "hello");
    (void)snprintf(wanted, sizeof(wanted),
                   "\r\n--%.*s\r\nContent-Disposition: form-data; name=\"other\"; "
                   "filename=\"gr\xc3\xbc\xc3\x9f"
                   ".bin\"\r\nContent-Type: application/octet-stream\r\n\r\n",
                   SLICE_ARG(boundary));
    assert_text(built.body[2], wanted);
    (void)snprintf(wanted, sizeof(wanted), "\r\n--%.*s--\r\n", SLICE_ARG(boundary));
    assert_text(built.body[4], wanted);
}

static void a_multipart_file_needs_no_field_beside_it(void **state)
{
    struct call_file file = {.name = SLICE("a"), .data = SLICE("")};
    assert_int_equal(
        build_files(*state, "{\"method\":\"POST\",\"path\":\"/a\"}", "multipart", &file, 1), OK);
    assert_int_equal(built.body_count, 3);
    assert_int_equal(built.body[1].len, 0);
    assert_true(slice_find(whole_body(*state), SLICE("name=\"upload\"; filename=\"a\"")) > 0);
}

static void a_raw_file_is_the_body(void **state)
{
    struct call_file file = {.name = SLICE("a"), .data = SLICE("aGVsbG8=")};
    const char *put = "{\"method\":\"PUT\",\"path\":\"/a\"}";
    assert_int_equal(build_files(*state, put, "raw", &file, 1), OK);
    assert_int_equal(built.body_count, 1);
    assert_ptr_equal(built.body[0].ptr, file.bytes.ptr);
    assert_text(built.body[0], "hello");
    assert_text(header("content-type"), "application/octet-stream");
    file.content_type = SLICE("image/png");
    assert_int_equal(build_files(*state, put, "raw", &file, 1), OK);
    assert_text(header("content-type"), "image/png");
}

static void base64_files_are_seen_by_templates(void **state)
{
    struct call_file file = {.name = SLICE("a.txt"), .data = SLICE("aGVsbG8=")};
    assert_int_equal(build_files(*state,
                                 "{\"method\":\"POST\",\"path\":\"/a\",\"body\":{\"json\":{"
                                 "\"n\":\"${files[0].name}\",\"t\":\"${files[0].content_type}\","
                                 "\"d\":\"${files[0].data}\",\"e\":\"${files[1].data}\"}}}",
                                 "base64", &file, 1),
                     OK);
    assert_text(built.body[0],
                "{\"n\":\"a.txt\",\"t\":\"application/octet-stream\",\"d\":\"aGVsbG8=\"}");
}

static void sizes_are_known_before_decoding(void **state)
{
    struct bench *b = *state;
    static const char *const texts[] = {"", "QQ==", "QUI=", "QUJD", "QUJDRA=="};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct call_file file = {.data = slice_cstr(texts[i])};
        assert_int_equal(call_file_size(file.data), i);
        assert_int_equal(call_file_decode(&file, &b->arena), OK);
        assert_int_equal(file.bytes.len, i);
    }
    static const char *const broken[] = {"=",    "==",   "====", "QQ=",    "QQ",   "Q===",    "Q",
                                         "QU-D", "QU_D", "QU D", "QUJD\n", "QR==", "QQ==QQ=="};
    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        struct call_file file = {.data = slice_cstr(broken[i])};
        assert_int_equal(call_file_decode(&file, &b->arena), ERR_SYNTAX);
        assert_null(file.bytes.ptr);
    }
}

static void assert_fault(struct bench *b, const struct catalog_action *action,
                         struct call_file file, size_t count, const char *wanted)
{
    struct call_file files[CALL_FILES_MAX + 1];
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        files[i] = file;
    slice fault = call_files_check(action, files, count, 1000, &b->arena);
    if (!wanted)
        assert_null(fault.ptr);
    else if (!fault.ptr || slice_find(fault, slice_cstr(wanted)) < 0)
        fail_msg("\"%.*s\" lacks \"%s\"", SLICE_ARG(fault), wanted);
}

static void files_are_checked_before_they_are_decoded(void **state)
{
    struct bench *b = *state;
    const char *post = "{\"method\":\"POST\",\"path\":\"/a\"}";
    const struct call_file good = {.name = SLICE("n"), .data = SLICE("QUJD")};
    const struct catalog_action *action = bench_action(b, BEARER, "", "write", post, "");
    assert_fault(b, action, good, 0, NULL);
    assert_fault(b, action, good, 1, "takes no files");
    action = bench_action(b, BEARER, "", "write", post, ",\"files\":{\"travel\":\"raw\"}");
    assert_fault(b, action, good, 0, "the request has none");
    assert_fault(b, action, good, 1, NULL);
    assert_fault(b, action, good, 2, "at most 1 file, but the request has more");
    action = bench_action(b, BEARER, "", "write", post,
                          ",\"files\":{\"travel\":\"multipart\",\"bytes_max\":3}");
    assert_fault(b, action, good, CALL_FILES_MAX, NULL);
    assert_fault(b, action, good, CALL_FILES_MAX + 1, "at most 10 files, but the request has more");
    struct call_file bad = good;
    bad.data = SLICE("QUJDRA==");
    assert_fault(b, action, bad, 1, "/files/0: has 4 bytes, but at most 3 are allowed");
    bad = good;
    bad.data = SLICE_NONE;
    assert_fault(b, action, bad, 1, "/files/0: data is missing");
    bad = good;
    bad.name = SLICE_NONE;
    assert_fault(b, action, bad, 1, "name is missing");
    bad.name = SLICE("a\r\nX: y");
    assert_fault(b, action, bad, 1, "control characters");
    bad = good;
    bad.field = SLICE("a\n");
    assert_fault(b, action, bad, 1, "control characters");
    bad = (struct call_file){.name = SLICE("n"), .content_type = SLICE("text")};
    assert_fault(b, action, bad, 2,
                 "/files/0: data is missing; /files/0/contentType: must be a media type; "
                 "/files/1: data is missing; /files/1/contentType: must be a media type");
    static const char *const types[] = {"text", "/x", "a/b\r\nX: y", "a/\x01"};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        bad = good;
        bad.content_type = slice_cstr(types[i]);
        assert_fault(b, action, bad, 1, "must be a media type");
    }
}

static void fingerprints_tell_files_apart(void **state)
{
    (void)state;
    struct call_file files[2] = {{.name = SLICE("a"), .hash = {1}},
                                 {.name = SLICE("a"), .hash = {1}}};
    struct buf one, two;
    buf_init(&one, 4096);
    buf_init(&two, 4096);
    call_files_write_fingerprint(files, 0, &one);
    assert_int_equal(one.len, 0);
    for (int i = 0; i < 3; i++) {
        files[1].hash[31] = i == 0;
        files[1].name = i == 1 ? SLICE("b") : SLICE("a");
        files[1].content_type = i == 2 ? SLICE("a/b") : SLICE_NONE;
        buf_clear(&one);
        buf_clear(&two);
        call_files_write_fingerprint(&files[0], 1, &one);
        call_files_write_fingerprint(&files[1], 1, &two);
        assert_false(slice_eq(buf_slice(&one), buf_slice(&two)));
    }
    buf_deinit(&one);
    buf_deinit(&two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(paths_are_encoded_by_segment),
        BENCH_TEST(an_input_chooses_another_request),
        BENCH_TEST(a_request_may_have_a_host_of_the_connection),
        BENCH_TEST(queries_drop_null_and_repeat_arrays),
        BENCH_TEST(headers_cannot_be_split),
        BENCH_TEST(json_bodies_leave_out_what_is_absent),
        BENCH_TEST(forms_and_raw_and_multipart),
        BENCH_TEST(nested_values_are_written_in_brackets),
        BENCH_TEST(nested_names_are_bounded),
        BENCH_TEST(commas_are_an_expression),
        BENCH_TEST(dots_cannot_be_completed),
        BENCH_TEST(graphql_keeps_nulls),
        BENCH_TEST(mail_is_base64url_of_a_message),
        BENCH_TEST(multipart_fields_repeat_and_leave_out),
        BENCH_TEST(failing_allocations),
        BENCH_TEST(credentials_go_where_the_manifest_says),
        BENCH_TEST(a_credential_in_the_path_is_one_segment),
        BENCH_TEST(a_broken_credential_is_never_quoted),
        BENCH_TEST(a_credential_that_lacks_a_member_is_named),
        BENCH_TEST(a_provider_key_goes_where_the_manifest_says),
        BENCH_TEST(expressions_that_fail_are_the_callers_fault),
        BENCH_TEST(files_become_parts_that_are_not_copied),
        BENCH_TEST(a_multipart_file_needs_no_field_beside_it),
        BENCH_TEST(a_raw_file_is_the_body),
        BENCH_TEST(base64_files_are_seen_by_templates),
        BENCH_TEST(sizes_are_known_before_decoding),
        BENCH_TEST(files_are_checked_before_they_are_decoded),
        BENCH_TEST(fingerprints_tell_files_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
