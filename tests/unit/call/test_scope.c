/*
 * The values that a later request of an action takes from earlier replies, and where their URLs may
 * point.
 */
#include "call/build.h"

#include "base/buf.h"
#include "support/action_test.h"

#define FORMER "https://api.example.com/v1/start?x=/1"

static int follow(struct bench *b, const char *former, const char *text, const char *hosts,
                  char *out, size_t cap)
{
    struct buf url;
    buf_init(&url, 4096);
    int result =
        call_url_follow(slice_cstr(former), slice_cstr(text), bench_json(b, hosts), &url, &b->err);
    (void)snprintf(out, cap, "%.*s", SLICE_ARG(buf_slice(&url)));
    buf_deinit(&url);
    return result;
}

static void a_url_leads_to_named_hosts_only(void **state)
{
    static const struct {
        const char *former, *text;
        int result;
    } cases[] = {
        {FORMER, "https://files.example.com/up?sig=%2F", OK},
        {FORMER, "https://FILES.example.com:443/up", OK},
        {FORMER, "https://a.b.parts.example.com/", OK},
        {FORMER, "https://ports.example.com:8443/x", OK},
        {FORMER, "https://api.example.com/other", OK}, /* the host that sent the reply */
        {FORMER, "https://parts.example.com/", ERR_REFUSED},
        {FORMER, "https://ports.example.com/x", ERR_REFUSED},
        {FORMER, "https://files.example.com:444/", ERR_REFUSED},
        {FORMER, "https://xfiles.example.com/", ERR_REFUSED},
        {FORMER, "https://files.example.com.evil.example/", ERR_REFUSED},
        {FORMER, "https://api.example.com:8080/", ERR_REFUSED},
        {FORMER, "http://files.example.com/up", ERR_REFUSED},
        {FORMER, "http://api.example.com/other", ERR_REFUSED},
        {FORMER, "https://evil.example@files.example.com/", ERR_INVALID},
        {FORMER, "https://files.example.com\\@evil.example/", ERR_INVALID},
        {FORMER, "https://files.example.com/#x", ERR_INVALID},
        {FORMER, "file:///etc/passwd", ERR_INVALID},
        {FORMER, "//evil.example/up", ERR_INVALID},
        {FORMER, "up", ERR_INVALID},
        {FORMER, "", ERR_INVALID},
        {"http://api.example.com:80/v1", "http://files.example.com/up", OK},
    };
    const char *hosts =
        "[\"files.example.com\",\"*.parts.example.com\",\"ports.example.com:8443\"]";
    char out[4096];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int result = follow(*state, cases[i].former, cases[i].text, hosts, out, sizeof(out));
        if (result != cases[i].result)
            print_error("%s: %d\n", cases[i].text, result);
        assert_int_equal(result, cases[i].result);
        if (result == OK)
            assert_string_equal(out, cases[i].text);
    }
}

static void a_path_is_one_on_the_origin_before(void **state)
{
    char out[4096];
    assert_int_equal(follow(*state, FORMER, "/up/1?a=b", "[]", out, sizeof(out)), OK);
    assert_string_equal(out, "https://api.example.com/up/1?a=b");
    assert_int_equal(follow(*state, "https://api.example.com", "/up", "[]", out, sizeof(out)), OK);
    assert_string_equal(out, "https://api.example.com/up");
}

static void templates_see_the_replies_so_far_and_the_size_of_files(void **state)
{
    struct bench *b = *state;
    struct call_progress progress = {.at = 1, .replies = {*bench_json(b, "{\"status\":201}")}};
    struct call_file file = {.name = SLICE("a"), .data = SLICE("AAEC/w==")};
    struct call_scope scope = {.files = &file, .file_count = 1, .progress = &progress};
    struct json root = call_build_root(&scope, &b->arena);
    int64_t number = 0;
    assert_true(json_to_i64(JSON_GET(JSON_GET(&root, "first"), "status"), &number));
    assert_int_equal(number, 201);
    assert_null(JSON_GET(&root, "second"));
    assert_true(json_to_i64(JSON_GET(&JSON_GET(&root, "files")->as.items[0], "bytes"), &number));
    assert_int_equal(number, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(a_url_leads_to_named_hosts_only),
        BENCH_TEST(a_path_is_one_on_the_origin_before),
        BENCH_TEST(templates_see_the_replies_so_far_and_the_size_of_files),
    };
    return cmocka_run_group_tests_name("call/scope", tests, NULL, NULL);
}
