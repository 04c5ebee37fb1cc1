/*
 * What becomes of a provider's reply: reasons, messages, times to wait, hostile bodies.
 */
#include "exec/reply.h"
#include "exec_test.h"

#define GET  "{\"method\":\"GET\",\"path\":\"/a\"}"
#define POST "{\"method\":\"POST\",\"path\":\"/a\"}"

static struct exec_outcome out;
static struct http_header headers[4];

static const struct catalog_action *plain(struct bench *b, const char *level)
{
    return bench_action(b, "{\"type\":\"bearer\"}", "", level,
                        strcmp(level, "read") == 0 ? GET : POST, "");
}

static void read_reply(struct bench *b, const struct catalog_action *action, unsigned status,
                       const char *body, size_t header_count)
{
    struct http_call call = {.status = status,
                             .body = slice_cstr(body),
                             .response_headers = headers,
                             .response_header_count = header_count};
    out = (struct exec_outcome){.retry_after_ms = -1};
    exec_reply_read(action, &call, bench_json(b, "{\"x\":1}"), NULL, &b->arena, &out);
}

static void read_failure(struct bench *b, const char *level, enum http_call_result result,
                         bool is_any_byte_sent)
{
    struct http_call call = {.result = result, .is_any_byte_sent = is_any_byte_sent};
    (void)err_set(&call.err, ERR_IO, "what happened");
    out = (struct exec_outcome){.retry_after_ms = -1};
    exec_reply_read(plain(b, level), &call, NULL, NULL, &b->arena, &out);
}

static void statuses_become_reasons(void **state)
{
    static const struct {
        unsigned status;
        enum exec_reason reason;
    } table[] = {
        {200, EXEC_SUCCEEDED},        {204, EXEC_SUCCEEDED},
        {400, EXEC_PROVIDER_INVALID}, {422, EXEC_PROVIDER_INVALID},
        {401, EXEC_KEY_REFUSED},      {403, EXEC_PROVIDER_FORBIDDEN},
        {404, EXEC_PROVIDER_ERROR},   {429, EXEC_PROVIDER_RATE_LIMITED},
        {500, EXEC_PROVIDER_ERROR},   {501, EXEC_PROVIDER_UNSUPPORTED},
        {302, EXEC_PROVIDER_ERROR},
    };
    const struct catalog_action *action = plain(*state, "read");
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        read_reply(*state, action, table[i].status, "", 0);
        assert_int_equal(out.reason, table[i].reason);
        assert_true(out.display_title.len > 0 && out.display_summary.len > 0);
        assert_true(out.reason == EXEC_SUCCEEDED || out.message.len > 0);
    }
    action = bench_action(*state,
                          "{\"type\":\"oauth2\",\"authorize_url\":\"https://a\","
                          "\"token_url\":\"https://t\"}",
                          "", "read", GET, "");
    read_reply(*state, action, 401, "", 0);
    assert_int_equal(out.reason, EXEC_REAUTH_REQUIRED);
}

static void outputs_are_selected_and_survive(void **state)
{
    const struct catalog_action *action =
        bench_action(*state, "{\"type\":\"none\"}", "", "read", GET,
                     ",\"response\":{\"output\":\"{n: body.n, s: status, x: input.x}\"}");
    read_reply(*state, action, 200, "{\"n\":12345678901234567890123,\"u\":\"\\u0000\"}", 0);
    assert_true(
        slice_eq_cstr(out.output_json, "{\"n\":12345678901234567890123,\"s\":200,\"x\":1}"));
    assert_true(slice_eq_cstr(out.display_summary, "status 200"));
    action = plain(*state, "read");
    read_reply(*state, action, 200, "{\"u\":\"\\u0000\"}", 0);
    assert_true(slice_eq_cstr(out.output_json, "{\"u\":\"\\u0000\"}"));
    read_reply(*state, action, 200, "plain text", 0);
    assert_true(slice_eq_cstr(out.output_json, "\"plain text\""));
    read_reply(*state, action, 204, "", 0);
    assert_true(slice_eq_cstr(out.output_json, "null"));
    read_reply(*state, action, 200, "\xff\xfe", 0);
    assert_true(slice_eq_cstr(out.output_json, "null"));
}

static void a_failing_output_expression_gives_the_whole_body(void **state)
{
    const struct catalog_action *action = bench_action(*state, "{\"type\":\"none\"}", "", "read",
                                                       GET,
                                                       ",\"response\":{\"output\":\"keys(body)\"}");
    read_reply(*state, action, 200, "[1,2]", 0);
    assert_int_equal(out.reason, EXEC_SUCCEEDED);
    assert_true(slice_eq_cstr(out.output_json, "[1,2]"));
}

static void rules_of_the_manifest_win(void **state)
{
    const struct catalog_action *action = bench_action(
        *state, "{\"type\":\"none\"}",
        ",\"errors\":[{\"when\":\"body.ok == `false`\",\"on_success\":true,\"message\":\"app says "
        "${body.why}\",\"hint\":\"mend it\"},{\"when\":\"status == `404`\",\"error_code\":"
        "\"validation_error\",\"message\":\"no such thing\"}]",
        "read", GET,
        ",\"errors\":[{\"when\":\"status == `404` && body.gone\",\"error_code\":"
        "\"unsupported_operation\"}]");
    read_reply(*state, action, 200, "{\"ok\":false,\"why\":\"no\"}", 0);
    assert_int_equal(out.reason, EXEC_PROVIDER_ERROR);
    assert_true(slice_eq_cstr(out.message, "app says no"));
    assert_true(slice_eq_cstr(out.hint, "mend it"));
    read_reply(*state, action, 404, "{}", 0);
    assert_true(slice_eq_cstr(out.error_code, "validation_error"));
    assert_true(slice_eq_cstr(out.message, "no such thing"));
    read_reply(*state, action, 404, "{\"gone\":true}", 0);
    assert_int_equal(out.reason, EXEC_PROVIDER_UNSUPPORTED);
    read_reply(*state, action, 200, "{\"ok\":true}", 0);
    assert_int_equal(out.reason, EXEC_SUCCEEDED);
}

static void waits_come_in_many_forms(void **state)
{
    const struct catalog_action *action = plain(*state, "read");
    static const struct {
        const char *value;
        int64_t min_ms, max_ms;
    } table[] = {
        {"7", 7000, 7000},
        {" 0 ", 0, 0},
        {"1.2", 1000, 2000},
        {"x", -1, -1},
        {"-5", -1, -1},
        {"", -1, -1},
        {"Thu, 01 Jan 1970 00:00:00 GMT", 0, 0},
        {"99999999999999999999", -1, -1},
        {"100000000", 86400000, 86400000},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        headers[0] = (struct http_header){SLICE("Retry-After"), slice_cstr(table[i].value)};
        read_reply(*state, action, 429, "", 1);
        assert_int_equal(out.reason, EXEC_PROVIDER_RATE_LIMITED);
        assert_in_range(out.retry_after_ms + 1, table[i].min_ms + 1, table[i].max_ms + 1);
    }
    action = bench_action(*state, "{\"type\":\"none\"}",
                          ",\"limits\":{\"rate_limited\":[{\"when\":\"status == `403` && "
                          "body.reason == 'slow'\",\"retry_after\":\"body.wait\"}]}",
                          "read", GET, "");
    read_reply(*state, action, 403, "{\"reason\":\"slow\",\"wait\":3}", 0);
    assert_int_equal(out.reason, EXEC_PROVIDER_RATE_LIMITED);
    assert_int_equal(out.retry_after_ms, 3000);
    read_reply(*state, action, 403, "{\"reason\":\"no\"}", 0);
    assert_int_equal(out.reason, EXEC_PROVIDER_FORBIDDEN);
}

static void lost_calls_say_what_is_known(void **state)
{
    read_failure(*state, "write", HTTP_CALL_CONNECT, false);
    assert_int_equal(out.reason, EXEC_UNREACHABLE);
    assert_true(slice_find(out.hint, SLICE("Nothing was sent")) >= 0);
    read_failure(*state, "write", HTTP_CALL_RESET, true);
    assert_int_equal(out.reason, EXEC_BROKEN_OFF);
    assert_true(slice_find(out.hint, SLICE("unknown")) >= 0);
    read_failure(*state, "write", HTTP_CALL_TIMEOUT, true);
    assert_int_equal(out.reason, EXEC_TIMED_OUT);
    assert_true(slice_find(out.hint, SLICE("unknown")) >= 0);
    read_failure(*state, "read", HTTP_CALL_TIMEOUT, true);
    assert_true(slice_find(out.hint, SLICE("again is safe")) >= 0);
    read_failure(*state, "read", HTTP_CALL_ADDRESS_REFUSED, false);
    assert_int_equal(out.reason, EXEC_ADDRESS_REFUSED);
    read_failure(*state, "read", HTTP_CALL_TOO_LARGE, true);
    assert_int_equal(out.reason, EXEC_REPLY_TOO_LARGE);
}

static void hostile_replies_are_bounded(void **state)
{
    struct bench *b = *state;
    char *body = arena_alloc_text(&b->arena, 200001);
    memset(body, '[', 200000);
    body[200000] = '\0';
    const struct catalog_action *action = plain(b, "read");
    read_reply(b, action, 200, body, 0);
    assert_int_equal(out.reason, EXEC_SUCCEEDED); /* no JSON, so its text */
    char *text = arena_alloc_text(&b->arena, 100001);
    (void)snprintf(text, 100001, "{\"why\":\"%099000d\"}", 1);
    action =
        bench_action(b, "{\"type\":\"none\"}",
                     ",\"errors\":[{\"when\":\"status == `400`\",\"message\":\"${body.why}\"}]",
                     "read", GET, "");
    read_reply(b, action, 400, text, 0);
    assert_int_equal(out.message.len, EXEC_MESSAGE_BYTES_MAX);
}

static void names_of_reasons_are_unique_and_parse(void **state)
{
    (void)state;
    for (unsigned i = 0; i < EXEC_REASONS; i++)
        assert_int_equal(exec_reason_parse(slice_cstr(exec_reason_name((enum exec_reason)i))), i);
    assert_int_equal(exec_reason_parse(SLICE("nothing")), EXEC_REASONS);
    assert_true(exec_reason_is_blocked(EXEC_KEY_MISMATCH));
    assert_false(exec_reason_is_blocked(EXEC_SUCCEEDED));
    assert_true(exec_reason_is_failed(EXEC_OUTCOME_UNKNOWN));
    assert_false(exec_reason_is_failed(EXEC_UNAVAILABLE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(statuses_become_reasons),
        BENCH_TEST(outputs_are_selected_and_survive),
        BENCH_TEST(a_failing_output_expression_gives_the_whole_body),
        BENCH_TEST(rules_of_the_manifest_win),
        BENCH_TEST(waits_come_in_many_forms),
        BENCH_TEST(lost_calls_say_what_is_known),
        BENCH_TEST(hostile_replies_are_bounded),
        BENCH_TEST(names_of_reasons_are_unique_and_parse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
