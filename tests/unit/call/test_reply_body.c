/*
 * Whether a 2xx is the action's reply, decided by its body, the kind of its JSON, and its required
 * members.
 */
#include "call/reply_body.h"
#include "call/reply.h"
#include "support/action_test.h"

#define GET  "{\"method\":\"GET\",\"path\":\"/a\"}"
#define POST "{\"method\":\"POST\",\"path\":\"/a\"}"

#define JSON  "{\"output\":\"body\"}"
#define ANY   "{\"body\":\"any\"}"
#define NAMED "{\"required\":[\"body.id\",\"body.list[0] || body.other\"]}"

static struct exec_outcome out;

static const struct catalog_action *act(struct bench *b, bool is_write, const char *response)
{
    char rest[200];
    (void)snprintf(rest, sizeof(rest), ",\"response\":%s", response);
    return bench_action(b, "{\"type\":\"none\"}", "", is_write ? "write" : "read",
                        is_write ? POST : GET, rest);
}

static void read_reply(struct bench *b, const struct catalog_action *action, const char *type,
                       const char *body)
{
    static const struct call_built built;
    struct http_header header = {SLICE("Content-Type"), slice_cstr(type)};
    struct http_call call = {.status = 200,
                             .body = slice_cstr(body),
                             .response_headers = &header,
                             .response_header_count = 1};
    out = (struct exec_outcome){.retry_after_ms = -1};
    struct call_scope scope = {.input = bench_json(b, "{}")};
    call_reply_read(action, &call, &scope, &built, &b->arena, &out);
}

static void a_reply_that_is_not_what_it_says_is_unreadable(void **state)
{
    static const char *const types[] = {"application/json", "Application/JSON; charset=utf-8",
                                        "application/problem+json"};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        read_reply(*state, act(*state, true, JSON), types[i], "{\"a\":");
        assert_int_equal(out.reason, EXEC_REPLY_UNREADABLE);
        assert_true(
            slice_find(out.message, SLICE("with a body that claims to be JSON and is not")) > 0);
        read_reply(*state, act(*state, true, ANY), types[i], "{\"a\":");
        assert_int_equal(out.reason, EXEC_REPLY_UNREADABLE);
        read_reply(*state, act(*state, true, ANY), types[i], "");
        assert_int_equal(out.reason, EXEC_SUCCEEDED);
        read_reply(*state, act(*state, true, JSON), types[i], "null");
        assert_int_equal(out.reason, EXEC_SUCCEEDED);
    }
}

/* One malformed message must not make a channel unreadable: the text is decoded as a browser
 * would, whatever charset the header names. */
static void a_reply_is_read_as_browsers_read_it(void **state)
{
    static const struct {
        const char *type, *body, *output;
    } table[] = {
        {"application/json", "{\"a\":\"cut \\ud83d\"}", "{\"a\":\"cut \xef\xbf\xbd\"}"},
        {"application/json; charset=iso-8859-1", "{\"a\":\"caf\xe9\"}",
         "{\"a\":\"caf\xef\xbf\xbd\"}"},
        {"application/json;charset=utf-16", "\xef\xbb\xbf{\"a\":\"\xc3\xa9\"}",
         "{\"a\":\"\xc3\xa9\"}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        read_reply(*state, act(*state, true, JSON), table[i].type, table[i].body);
        assert_int_equal(out.reason, EXEC_SUCCEEDED);
        assert_true(slice_eq_cstr(out.output_json, table[i].output));
    }
}

/* The rules for errors apply to every reply, whatever a success looks like. */
static void an_error_is_parsed_where_a_success_is_bytes(void **state)
{
    static const char *const bodies[] = {"\"body\":\"bytes\"", "\"body\":\"text\""};
    static const struct call_built built;
    struct bench *b = *state;
    struct http_call call = {.status = 409, .body = SLICE("{\"why\":\"gone\"}")};
    struct call_scope scope = {.input = bench_json(b, "{}")};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        char rest[256];
        (void)snprintf(rest, sizeof(rest),
                       ",\"response\":{%s},\"errors\":[{\"when\":\"body.why\",\"message\":\"It is "
                       "${body.why}\"}]",
                       bodies[i]);
        const struct catalog_action *action =
            bench_action(b, "{\"type\":\"none\"}", "", "read", GET, rest);
        call_reply_read(action, &call, &scope, &built, &b->arena, &out);
        assert_true(slice_starts_with(out.message, SLICE("It is gone"))); /* words: ok */
    }
}

/* A 2xx is a success only if it contains what the action returns. */
static void a_success_has_the_actions_reply(void **state)
{
    static const char page[] = " <!DOCTYPE html><title>Sign in to the airport</title>";
    static const struct {
        const char *response, *type, *body;
        const char *message; /* a part of the message; NULL: a success */
    } table[] = {
        {JSON, "application/json", "{}", NULL},
        {JSON, "application/json", "[]", NULL},
        {JSON, "text/plain", "{\"a\":1}", NULL},
        {JSON, "text/html", page, "with a web page, not what the action returns: \"Sign in to"},
        {JSON, "", page, "with a web page"},
        {JSON, "text/plain", "OK", "with text/plain, not the JSON that the action returns: \"OK\""},
        {JSON, "", "OK", "with a body that is not the JSON"},
        {JSON, "image/png", "\xff\xfe", "with image/png, not the JSON"},
        {JSON, "application/json", "", "with an empty body"},
        {"{\"kind\":\"object\"}", "", "[]", "with an array, not the object"},
        {"{\"kind\":\"object\"}", "", "true", "with a single value, not the object"},
        {"{\"kind\":\"object\"}", "", "{}", NULL},
        {"{\"kind\":\"array\"}", "", "{\"error\":{\"message\":\"bad day\"}}",
         "with an object, not the array that the action returns: \"bad day\""},
        {"{\"kind\":\"array\"}", "", "null", "with a single value, not the array"},
        {"{\"kind\":\"array\"}", "", "[]", NULL},
        {"{\"kind\":\"any\"}", "", "\"text\"", NULL},
        {NAMED, "", "{\"id\":0,\"other\":\"\"}", NULL},
        {NAMED, "", "{\"id\":\"\",\"list\":[1]}", NULL},
        {NAMED, "", "{}", "without body.id, which this reply always has"},
        {NAMED, "", "{\"id\":null,\"other\":1}", "without body.id"},
        {NAMED, "", "{\"id\":1}", "without body.list[0] || body.other"},
        {NAMED, "", "[{\"id\":1}]", "with an array, not the object"},
        {"{\"body\":\"none\"}", "", "", NULL},
        {"{\"body\":\"none\"}", "application/json", "{\"limits\":{}}", NULL},
        {"{\"body\":\"none\"}", "text/plain", "OK", NULL},
        {"{\"body\":\"none\"}", "text/html; charset=utf-8", "<p>", "with a web page"},
        {"{\"body\":\"none\"}", "", "<HTML><body>", "with a web page"},
        {"{\"body\":\"none\"}", "", "\xef\xbb\xbf\n<!doctype HTML>", "with a web page"},
        {"{\"body\":\"none\"}", "text/html", "OK", NULL},
        {JSON, "text/html", "OK", "with text/html, not the JSON"},
        {"{\"body\":\"none\",\"required\":[\"headers.\\\"content-type\\\"\"]}", "x/y", "", NULL},
        {"{\"body\":\"none\",\"required\":[\"headers.other\"]}", "x/y", "",
         "without headers.other"},
        {"{\"body\":\"text\"}", "text/html", page, NULL},
        {"{\"body\":\"text\"}", "application/vnd.x.raw+json", "{\"a\":", NULL},
        {"{\"body\":\"text\"}", "", "", NULL},
        {"{\"body\":\"bytes\"}", "text/html", page, NULL},
        {"{\"body\":\"any\"}", "", "OK", NULL},
        {"{\"body\":\"any\"}", "text/html", page, "with a web page"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        for (int is_write = 0; is_write < 2; is_write++) {
            read_reply(*state, act(*state, is_write, table[i].response), table[i].type,
                       table[i].body);
            bool is_right = table[i].message
                                ? out.reason == EXEC_REPLY_UNREADABLE &&
                                      slice_find(out.message, slice_cstr(table[i].message)) > 0 &&
                                      slice_find(out.hint, is_write
                                                               ? SLICE("outcome is unknown")
                                                               : SLICE("Nothing was changed")) >= 0
                                : out.reason == EXEC_SUCCEEDED;
            if (!is_right)
                fail_msg("row %zu: %s, %.*s, %.*s", i, exec_reason_name(out.reason),
                         SLICE_ARG(out.message), SLICE_ARG(out.hint));
        }
}

static void texts_and_bytes_are_never_parsed(void **state)
{
    const struct catalog_action *action = act(*state, false, "{\"body\":\"text\"}");
    read_reply(*state, action, "", "{\"a\": 1}");
    assert_true(slice_eq_cstr(out.output_json, "\"{\\\"a\\\": 1}\""));
    read_reply(*state, action, "", "");
    assert_true(slice_eq_cstr(out.output_json, "\"\""));
    action = act(*state, false, "{\"body\":\"bytes\"}");
    read_reply(*state, action, "text/csv", "AB");
    assert_true(slice_eq_cstr(out.output_json, "{\"content_type\":\"text/csv\",\"encoding\":"
                                               "\"base64\",\"data\":\"QUI=\",\"bytes\":2}"));
    read_reply(*state, action, "text/csv", "");
    assert_true(slice_eq_cstr(out.output_json, "{\"content_type\":\"text/csv\",\"encoding\":"
                                               "\"base64\",\"data\":\"\",\"bytes\":0}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(a_reply_that_is_not_what_it_says_is_unreadable),
        BENCH_TEST(a_reply_is_read_as_browsers_read_it),
        BENCH_TEST(an_error_is_parsed_where_a_success_is_bytes),
        BENCH_TEST(a_success_has_the_actions_reply),
        BENCH_TEST(texts_and_bytes_are_never_parsed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
