/*
 * How a provider's reply is classified: reasons, messages, wait times, and hostile bodies.
 */
#include "call/reply.h"
#include "base/clock.h"
#include "support/action_test.h"

#define GET  "{\"method\":\"GET\",\"path\":\"/a\"}"
#define POST "{\"method\":\"POST\",\"path\":\"/a\"}"

static struct exec_outcome out;
static struct http_header headers[4];
static struct call_built built;

static const struct catalog_action *plain(struct bench *b, const char *level)
{
    return bench_action(b, "{\"type\":\"bearer\"}", "", level,
                        strcmp(level, "read") == 0 ? GET : POST, "");
}

/* An action whose reply may be anything. */
static const struct catalog_action *loose(struct bench *b, const char *level)
{
    return bench_action(b, "{\"type\":\"bearer\"}", "", level,
                        strcmp(level, "read") == 0 ? GET : POST,
                        ",\"response\":{\"body\":\"any\"}");
}

static void read_reply(struct bench *b, const struct catalog_action *action, unsigned status,
                       const char *body, size_t header_count)
{
    struct http_call call = {.status = status,
                             .body = slice_cstr(body),
                             .response_headers = headers,
                             .response_header_count = header_count};
    out = (struct exec_outcome){.retry_after_ms = -1};
    struct call_scope scope = {.input = bench_json(b, "{\"x\":1}")};
    call_reply_read(action, &call, &scope, &built, &b->arena, &out);
}

static void read_failure(struct bench *b, const char *level, enum http_call_result result,
                         bool is_any_byte_sent)
{
    struct http_call call = {.result = result, .is_any_byte_sent = is_any_byte_sent};
    (void)err_set(&call.err, ERR_IO, "what happened");
    out = (struct exec_outcome){.retry_after_ms = -1};
    call_reply_read(plain(b, level), &call, &(struct call_scope){0}, &built, &b->arena, &out);
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
    const struct catalog_action *action = loose(*state, "read");
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
    action = loose(*state, "read");
    read_reply(*state, action, 200, "plain text", 0);
    assert_true(slice_eq_cstr(out.output_json, "\"plain text\""));
    read_reply(*state, action, 204, "", 0);
    assert_true(slice_eq_cstr(out.output_json, "null"));
    headers[0] = (struct http_header){SLICE("Content-Type"), SLICE("image/png")};
    read_reply(*state, action, 200, "\xff\xfe", 1);
    assert_true(slice_eq_cstr(out.output_json, "{\"content_type\":\"image/png\",\"encoding\":"
                                               "\"base64\",\"data\":\"//4=\",\"bytes\":2}"));
    read_reply(*state, action, 200, "\xff", 0);
    assert_true(slice_find(out.output_json, SLICE("application/octet-stream")) > 0);
}

static void a_failing_output_expression_gives_the_whole_body(void **state)
{
    const struct catalog_action *action = bench_action(*state, "{\"type\":\"none\"}", "", "read",
                                                       GET,
                                                       ",\"response\":{\"output\":\"keys(body)\"}");
    read_reply(*state, action, 200, "[1,2]", 0);
    assert_int_equal(out.reason, EXEC_SUCCEEDED);
    assert_true(slice_eq_cstr(out.output_json, "[1,2]"));
    assert_true(slice_starts_with(out.manifest_fault, SLICE("output: ")));
    read_reply(*state, action, 200, "{\"a\":1}", 0);
    assert_int_equal(out.manifest_fault.len, 0);
}

/* The message contains text of the reply, so it may be as long as the reply. */
static void an_output_may_be_as_large_as_its_reply(void **state)
{
    enum { LENGTH = 3 * EXPR_BYTES_MAX };
    struct bench *b = *state;
    const struct catalog_action *action = bench_action(
        b, "{\"type\":\"none\"}", "", "read", GET,
        ",\"response\":{\"output\":\"merge(body, {text: html_text(base64url_decode(body.d))})\"}");
    char *body = arena_alloc_text(&b->arena, LENGTH + 16);
    memcpy(body, "{\"d\":\"", 6);
    memcpy(body + 6 + LENGTH, "\"}", 3);
    for (size_t i = 6; i < 6 + LENGTH; i += 4)
        memcpy(body + i, "YWFh", 4); /* "aaa" */
    read_reply(b, action, 200, body, 0);
    assert_int_equal(out.reason, EXEC_SUCCEEDED);
    assert_int_equal(out.manifest_fault.len, 0);
    assert_true(slice_find(out.output_json, SLICE("\"text\":\"aaaa")) > LENGTH);
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
    /* The time from a moment between these two to the midnight nearest to the result. */
    int64_t day_ms = 86400000, before_ms = clock_wall_us() / 1000;
    read_reply(*state, action, 403, "{\"reason\":\"slow\",\"wait\":\"midnight UTC\"}", 0);
    int64_t after_ms = clock_wall_us() / 1000 + 1;
    int64_t midnight_ms = (before_ms + out.retry_after_ms + day_ms / 2) / day_ms * day_ms;
    assert_true(out.retry_after_ms > 0 && before_ms + out.retry_after_ms <= midnight_ms);
    assert_true(after_ms + out.retry_after_ms >= midnight_ms);
    read_reply(*state, action, 403, "{\"reason\":\"no\"}", 0);
    assert_int_equal(out.reason, EXEC_PROVIDER_FORBIDDEN);
}

#define assert_message(wanted)                                    \
    do {                                                          \
        if (!slice_eq_cstr(out.message, wanted))                  \
            fail_msg("message is: %.*s", SLICE_ARG(out.message)); \
    } while (0)

static void the_providers_own_words_are_kept(void **state)
{
    const struct catalog_action *action = plain(*state, "read");
    static const struct {
        unsigned status;
        const char *body, *wanted;
    } table[] = {
        {404, "{\"error\":{\"code\":404,\"message\":\"Requested entity was not found.\"}}",
         "Demo found nothing there (HTTP 404 Not Found): \"Requested entity was not found.\""},
        {400, "{\"message\":\"a\\r\\n\\tb\\u0000c\",\"error\":\"less\"}",
         "Demo found the request invalid (HTTP 400 Bad Request): \"a b c\""},
        {422, "{\"errors\":[\"name is too long\"]}",
         "Demo found the request invalid (HTTP 422 Unprocessable Content): \"name is too long\""},
        {403, "[{\"message\":\"no access\"}]",
         "Demo does not let the connected account do this (HTTP 403 Forbidden): \"no access\""},
        {502, "<html><head><title> 502 Bad\nGateway </title></head></html>",
         "Demo reported an error (HTTP 502 Bad Gateway): \"502 Bad Gateway\""},
        {500, "out of\xc3\xa4 order",
         "Demo reported an error (HTTP 500 Internal Server Error): "
         "\"out of\xc3\xa4 order\""},
        {500, "<html>", "Demo reported an error (HTTP 500 Internal Server Error)."},
        {501, "{\"error\":17}", "Demo does not offer this operation (HTTP 501 Not Implemented)."},
        {500, "", "Demo reported an error (HTTP 500 Internal Server Error)."},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        read_reply(*state, action, table[i].status, table[i].body, 0);
        assert_message(table[i].wanted);
        assert_true(out.hint.len > 0);
    }
    headers[0] = (struct http_header){SLICE("X-Request-Id"), SLICE("req-17")};
    read_reply(*state, action, 500, "", 1);
    assert_message("Demo reported an error (HTTP 500 Internal Server Error). "
                   "[provider request id req-17]");
}

static void secrets_are_masked_wherever_a_text_goes(void **state)
{
    built = (struct call_built){.secrets = {{SLICE("s3cr3t-token"), SLICE("other")}, 2}};
    read_reply(*state, plain(*state, "read"), 401,
               "{\"message\":\"s3cr3t-token is bad, s3cr3t-tokens3cr3t-token\"}", 0);
    assert_message("Demo refused the credential (HTTP 401 Unauthorized): \"*** is bad, "
                   "******\"");
    read_reply(*state, plain(*state, "read"), 200, "{\"echo\":[\"Bearer s3cr3t-token\"]}", 0);
    assert_true(slice_eq_cstr(out.output_json, "{\"echo\":[\"Bearer ***\"]}"));
    const struct catalog_action *action = bench_action(
        *state, "{\"type\":\"none\"}",
        ",\"errors\":[{\"when\":\"status == `400`\",\"message\":\"m ${body.m}\",\"hint\":\"h "
        "${body.m}\"}]",
        "read", GET, "");
    read_reply(*state, action, 400, "{\"m\":\"s3cr3t-token\"}", 0);
    assert_message("m *** h ***"); /* only the message quotes the reply */
    assert_true(slice_starts_with(out.hint, SLICE("Nothing was done. Correct the input")));
    built = (struct call_built){0};
}

/* A rule that matches below 200 identifies a refusal by the app. Without a code of its own it
 * proves nothing. */
static void an_error_under_200_is_not_a_success(void **state)
{
    static const char rules[] =
        ",\"errors\":[{\"when\":\"body.error.code == 'bad'\",\"on_success\":true,\"error_code\":"
        "\"validation_error\"},{\"when\":\"body.error\",\"on_success\":true}]";
    const struct catalog_action *action =
        bench_action(*state, "{\"type\":\"none\"}", rules, "write", POST, "");
    read_reply(*state, action, 200, "{\"error\":{\"code\":\"bad\"}}", 0);
    assert_int_equal(out.reason, EXEC_PROVIDER_INVALID);
    assert_true(slice_starts_with(out.hint, SLICE("Nothing was done")));
    read_reply(*state, action, 200, "{\"error\":{\"message\":\"odd\"}}", 0);
    assert_int_equal(out.reason, EXEC_PROVIDER_ERROR);
    assert_true(slice_starts_with(out.hint, SLICE("The outcome is unknown")));
    assert_true(slice_find(out.message, SLICE("\"odd\"")) > 0);
    action = bench_action(*state, "{\"type\":\"none\"}", rules, "read", GET, "");
    read_reply(*state, action, 200, "{\"error\":1}", 0);
    assert_true(slice_starts_with(out.hint, SLICE("Nothing was done")));
}

static void missing_scopes_are_mended_by_a_new_grant(void **state)
{
    static const char rules[] =
        ",\"errors\":[{\"when\":\"body.scope\",\"error_code\":\"forbidden\","
        "\"missing_scopes\":true}]";
    const struct catalog_action *action =
        bench_action(*state, "{\"type\":\"bearer\"}", rules, "read", GET, "");
    read_reply(*state, action, 403, "{\"scope\":\"x\"}", 0);
    assert_int_equal(out.reason, EXEC_PROVIDER_FORBIDDEN);
    assert_int_equal(out.advice, EXEC_ADVICE_RECONNECT);
    read_reply(*state, action, 401, "{\"scope\":\"x\"}", 0);
    assert_int_equal(out.advice, EXEC_ADVICE_RECONNECT);
    read_reply(*state, action, 403, "{}", 0);
    assert_int_equal(out.advice, EXEC_ADVICE_OF_REASON);
    action = bench_action(*state, "{\"type\":\"none\"}", "", "read", GET, "");
    read_reply(*state, action, 401, "{}", 0);
    assert_int_equal(out.advice, EXEC_ADVICE_NONE);
    assert_true(slice_find(out.hint, SLICE("Reconnect")) < 0);
}

/* A limit that is given as a point in time: seconds and milliseconds since 1970, in both text
 * forms.
 */
static void waits_until_a_time_are_counted_from_now(void **state)
{
    const struct catalog_action *action = plain(*state, "read");
    int64_t at_us = clock_wall_us() + 30 * 1000000;
    char forms[5][40], body[80];
    time_format_http(at_us, forms[0]);
    time_format(at_us, forms[1]);
    (void)snprintf(forms[2], sizeof(forms[2]), "%lld", (long long)(at_us / 1000000));
    (void)snprintf(forms[3], sizeof(forms[3]), "%lld", (long long)(at_us / 1000));
    (void)snprintf(forms[4], sizeof(forms[4]), "  %lld ", (long long)(at_us / 1000000));
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        headers[0] = (struct http_header){SLICE("retry-after"), slice_cstr(forms[i])};
        read_reply(*state, action, 429, "", 1);
        assert_in_range(out.retry_after_ms, 25000, 30000);
    }
    action = bench_action(*state, "{\"type\":\"none\"}",
                          ",\"limits\":{\"rate_limited\":[{\"when\":\"status == `403` && "
                          "headers.\\\"x-ratelimit-remaining\\\" == '0'\",\"retry_after\":"
                          "\"headers.\\\"x-ratelimit-reset\\\"\"},{\"when\":\"body.slow\","
                          "\"retry_after\":\"body.reset\"}]}",
                          "read", GET, "");
    headers[0] = (struct http_header){SLICE("X-RateLimit-Reset"), slice_cstr(forms[2])};
    headers[1] = (struct http_header){SLICE("X-RateLimit-Remaining"), SLICE("0")};
    read_reply(*state, action, 403, "", 2);
    assert_int_equal(out.reason, EXEC_PROVIDER_RATE_LIMITED);
    assert_in_range(out.retry_after_ms, 25000, 30000);
    headers[1].value = SLICE("1");
    read_reply(*state, action, 403, "", 2);
    assert_int_equal(out.reason, EXEC_PROVIDER_FORBIDDEN);
    (void)snprintf(body, sizeof(body), "{\"slow\":true,\"reset\":%s}", forms[3]);
    read_reply(*state, action, 400, body, 0);
    assert_int_equal(out.reason, EXEC_PROVIDER_RATE_LIMITED);
    assert_in_range(out.retry_after_ms, 25000, 30000);
}

static void retry_after_counts_where_no_rule_says_more(void **state)
{
    const struct catalog_action *action = bench_action(
        *state, "{\"type\":\"none\"}",
        ",\"limits\":{\"rate_limited\":[{\"when\":\"status == `430`\"}]}", "read", GET, "");
    headers[0] = (struct http_header){SLICE("Retry-After"), SLICE("12")};
    read_reply(*state, action, 429, "", 1); /* classified by its status, since no rule matches it */
    assert_int_equal(out.reason, EXEC_PROVIDER_RATE_LIMITED);
    assert_int_equal(out.retry_after_ms, 12000);
    read_reply(*state, action, 430, "", 1);
    assert_int_equal(out.reason, EXEC_PROVIDER_RATE_LIMITED);
    assert_int_equal(out.retry_after_ms, 12000);
    read_reply(*state, action, 503, "", 1);
    assert_int_equal(out.reason, EXEC_PROVIDER_ERROR);
    assert_int_equal(out.retry_after_ms, 12000);
    read_reply(*state, action, 503, "", 0);
    assert_int_equal(out.retry_after_ms, -1);
    read_reply(*state, action, 500, "", 1);
    assert_int_equal(out.retry_after_ms, -1);
}

static void a_quota_is_read_from_every_reply(void **state)
{
    const struct catalog_action *action = bench_action(
        *state, "{\"type\":\"none\"}",
        ",\"limits\":{\"quota\":{\"remaining\":\"headers.left || body.left\",\"reset\":"
        "\"headers.reset || body.reset\"}}",
        "read", GET, "");
    headers[0] = (struct http_header){SLICE("Left"), SLICE("17")};
    headers[1] = (struct http_header){SLICE("Reset"), SLICE("30")};
    read_reply(*state, action, 200, "{}", 2);
    assert_int_equal(out.reason, EXEC_SUCCEEDED);
    assert_int_equal(out.quota_remaining, 17);
    assert_int_equal(out.quota_reset_ms, 30000);
    assert_int_equal(out.retry_after_ms, -1);
    read_reply(*state, action, 429, "{\"left\":0,\"reset\":20}", 0);
    assert_int_equal(out.retry_after_ms, 20000);
    read_reply(*state, action, 429, "{\"left\":1,\"reset\":20}", 0);
    assert_int_equal(out.retry_after_ms, -1);
    read_reply(*state, action, 404, "{\"left\":0,\"reset\":0.5}", 0);
    assert_int_equal(out.quota_remaining, 0);
    assert_int_equal(out.quota_reset_ms, 500);
    read_reply(*state, action, 200, "{\"left\":1e300,\"reset\":\"soon\"}", 0);
    assert_true(out.quota_remaining > 0 && out.quota_reset_ms == -1);
    read_reply(*state, action, 200, "{\"left\":-4,\"reset\":null}", 0);
    assert_true(out.quota_remaining == 0 && out.quota_reset_ms == -1);
    headers[0].value = SLICE("unlimited");
    read_reply(*state, action, 200, "", 2);
    assert_int_equal(out.quota_remaining, -1);
    read_reply(*state, plain(*state, "read"), 200, "", 2);
    assert_int_equal(out.quota_remaining, -1);
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

static void the_mark_of_the_next_page_is_read(void **state)
{
    static const struct {
        const char *body, *next;
    } table[] = {
        {"{\"next\":\"c2\"}", "{\"cursor\":\"c2\"}"},
        {"{\"next\":7}", "{\"cursor\":7}"},
        {"{\"next\":\"\"}", "null"},
        {"{\"next\":null}", "null"},
        {"{\"next\":false}", "null"},
        {"{}", "null"},
        {"[]", "null"},
        {"{\"next\":{}}", "null"},
    };
    const struct catalog_action *action =
        bench_action(*state, "{\"type\":\"none\"}", "", "read", GET,
                     ",\"response\":{\"pagination\":{\"input\":\"cursor\",\"next\":\"body.next\","
                     "\"max_pages\":3}}");
    assert_int_equal(action->pages.max, 3);
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        read_reply(*state, action, 200, table[i].body, 0);
        assert_true(json_equal(&out.page_next, bench_json(*state, table[i].next)));
    }
    read_reply(*state, plain(*state, "read"), 200, "{\"next\":1}", 0);
    assert_int_equal(out.page_next.type, JSON_NULL);
}

/* Checks the value of pages.next after a reply with this Link field (or none) and body. */
static void assert_next(struct bench *b, const char *pagination, const char *input,
                        const char *link, const char *body, const char *wanted)
{
    char rest[2048];
    (void)snprintf(rest, sizeof(rest), ",\"response\":{\"pagination\":%s}", pagination);
    const struct catalog_action *action =
        bench_action(b, "{\"type\":\"none\"}", "", "read", GET, rest);
    struct http_header fields[] = {{SLICE("Link"), slice_cstr(link)}};
    struct http_call call = {.status = 200,
                             .response_headers = fields,
                             .response_header_count = *link ? 1 : 0,
                             .body = slice_cstr(body)};
    struct call_scope scope = {.input = bench_json(b, input)};
    static const struct call_built nothing;
    out = (struct exec_outcome){0};
    call_reply_read(action, &call, &scope, &nothing, &b->arena, &out);
    assert_int_equal(out.reason, EXEC_SUCCEEDED);
    if (!json_equal(&out.page_next, bench_json(b, wanted)))
        fail_msg("%s after %s", pagination, body);
}

static void pages_continue_by_a_cursor_if_there_is_more(void **state)
{
    static const char by[] =
        "{\"input\":\"cursor\",\"next\":\"body.cursor\",\"more\":\"body.has_more\"}";
    assert_next(*state, by, "{}", "", "{\"cursor\":\"AAF\",\"has_more\":true}",
                "{\"cursor\":\"AAF\"}");
    assert_next(*state, by, "{}", "", "{\"cursor\":\"AAF\",\"has_more\":false}", "null");
    assert_next(*state, by, "{}", "", "{\"cursor\":\"AAF\"}", "null");
    static const char last[] = "{\"input\":\"before\",\"next\":\"body[-1].id\",\"items\":\"body\","
                               "\"size\":\"input.limit || `50`\"}";
    assert_next(*state, last, "{\"limit\":2}", "", "[{\"id\":\"9\"},{\"id\":\"8\"}]",
                "{\"before\":\"8\"}");
    assert_next(*state, last, "{\"limit\":3}", "", "[{\"id\":\"9\"},{\"id\":\"8\"}]", "null");
    assert_next(*state, last, "{}", "", "[]", "null");
}

static void pages_continue_by_parameters_of_a_url_that_is_not_followed(void **state)
{
    static const char odata[] = "{\"kind\":\"url\",\"next\":\"body.\\\"@odata.nextLink\\\"\","
                                "\"take\":{\"skip\":\"$skip\",\"skipToken\":\"$skiptoken\"}}";
    assert_next(*state, odata, "{}", "",
                "{\"@odata.nextLink\":\"https://evil.example/me?%24top=2&%24skip=2\"}",
                "{\"skip\":\"2\"}");
    assert_next(*state, odata, "{\"skip\":2}", "",
                "{\"@odata.nextLink\":\"https://h.example/me?$skiptoken=a%3D%3D\"}",
                "{\"skipToken\":\"a==\"}");
    assert_next(*state, odata, "{}", "", "{\"@odata.nextLink\":\"https://h.example/me\"}", "null");
    assert_next(*state, odata, "{}", "", "{}", "null");
    static const char twilio[] = "{\"kind\":\"url\",\"next\":\"body.next_page_uri\",\"take\":"
                                 "{\"page\":\"Page\",\"pageToken\":\"PageToken\"}}";
    assert_next(*state, twilio, "{}", "",
                "{\"next_page_uri\":\"/2010/M.json?PageSize=2&Page=1&PageToken=PASM1\"}",
                "{\"page\":\"1\",\"pageToken\":\"PASM1\"}");
    static const char tail[] =
        "{\"kind\":\"url\",\"next\":\"body.nextRecordsUrl\","
        "\"input\":\"cursor\",\"tail\":\"/query/*\",\"more\":\"!body.done\"}";
    assert_next(*state, tail, "{}", "",
                "{\"done\":false,\"nextRecordsUrl\":\"/services/data/v66.0/query/01g-2000\"}",
                "{\"cursor\":\"01g-2000\"}");
    assert_next(*state, tail, "{}", "", "{\"done\":true}", "null");
}

static void pages_continue_by_a_link_field(void **state)
{
    static const char link[] =
        "<https://h.example/a?page=3&per_page=2>; rel=\"next\", <x>; rel=last";
    assert_next(*state, "{\"kind\":\"link\",\"input\":\"page\"}", "{\"page\":2}", link, "[]",
                "{\"page\":\"3\"}");
    assert_next(*state, "{\"kind\":\"link\",\"take\":{\"p\":\"page\"}}", "{}", link, "[]",
                "{\"p\":\"3\"}");
    assert_next(*state, "{\"kind\":\"link\",\"input\":\"page\"}", "{}", "<x?page=1>; rel=prev",
                "[]", "null");
    assert_next(*state, "{\"kind\":\"link\",\"input\":\"page\"}", "{}", "", "[]", "null");
}

static void pages_continue_by_their_number(void **state)
{
    static const char full[] = "{\"kind\":\"page\",\"input\":\"page\",\"items\":\"body\","
                               "\"size\":2}";
    assert_next(*state, full, "{}", "", "[1,2]", "{\"page\":2}");
    assert_next(*state, full, "{\"page\":4}", "", "[1,2]", "{\"page\":5}");
    assert_next(*state, full, "{\"page\":4}", "", "[1]", "null");
    static const char more[] = "{\"kind\":\"page\",\"input\":\"page\",\"more\":"
                               "\"body.next_page\",\"first\":0}";
    assert_next(*state, more, "{}", "", "{\"next_page\":\"https://h.example/x\"}", "{\"page\":1}");
    assert_next(*state, more, "{}", "", "{\"next_page\":null}", "null");
    static const char total[] = "{\"kind\":\"page\",\"input\":\"page\",\"total\":\"body.pages\"}";
    assert_next(*state, total, "{\"page\":1}", "", "{\"pages\":2}", "{\"page\":2}");
    assert_next(*state, total, "{\"page\":2}", "", "{\"pages\":2}", "null");
    assert_next(*state, total, "{\"page\":1}", "", "{\"pages\":\"2\"}", "{\"page\":2}");
}

static void pages_continue_by_the_number_of_items(void **state)
{
    static const char total[] = "{\"kind\":\"offset\",\"input\":\"startAt\",\"items\":"
                                "\"body.values\",\"total\":\"body.total\"}";
    assert_next(*state, total, "{}", "", "{\"values\":[1,2],\"total\":3}", "{\"startAt\":2}");
    assert_next(*state, total, "{\"startAt\":2}", "", "{\"values\":[1],\"total\":3}", "null");
    assert_next(*state, total, "{}", "", "{\"values\":[],\"total\":3}", "null");
    static const char size[] = "{\"kind\":\"offset\",\"input\":\"offset\",\"items\":\"body\","
                               "\"size\":\"input.limit || `100`\"}";
    assert_next(*state, size, "{\"limit\":2,\"offset\":4}", "", "[1,2]", "{\"offset\":6}");
    assert_next(*state, size, "{\"limit\":2,\"offset\":4}", "", "[1]", "null");
    static const char last[] = "{\"kind\":\"offset\",\"input\":\"startAt\",\"items\":"
                               "\"body.values\",\"more\":\"!body.isLast\"}";
    assert_next(*state, last, "{}", "", "{\"values\":[1],\"isLast\":false}", "{\"startAt\":1}");
    assert_next(*state, last, "{}", "", "{\"values\":[1],\"isLast\":true}", "null");
}

/* Rules that several apps of a vendor share name the app that replied. */
static void parts_stand_for_their_rules(void **state)
{
    static const struct {
        const char *part, *body;
        unsigned status;
        const char *code, *message, *hint;
    } table[] = {
        {"google",
         "{\"error\":{\"message\":\"m\",\"errors\":[{\"reason\":\"userRateLimitExceeded\"}]}}", 403,
         "rate_limited", "Demo limits this account's requests: m", "Wait"},
        {"google", "{\"error\":{\"details\":[{\"reason\":\"ACCESS_TOKEN_SCOPE_INSUFFICIENT\"}]}}",
         403, "forbidden", "The connected account has not granted", "Reconnect Demo"},
        {"google", "{\"error\":{\"message\":\"m\"}}", 401, "reauth_required",
         "Demo refused the access token: m", "Reconnect"},
        {"google", "{\"error\":{\"message\":\"m\"}}", 500, "", "Demo: m", ""},
        {"microsoft", "{\"error\":{\"code\":\"ErrorAccountSuspend\",\"message\":\"m\"}}", 403,
         "forbidden", "Microsoft has suspended this account: m", "sign in on the web"},
        {"microsoft", "{\"error\":{\"code\":\"ErrorItemNotFound\",\"message\":\"m\"}}", 404,
         "execution_failed", "Demo does not know that id: m", "search again"},
        {"atlassian", "{\"errorMessages\":[\"a\"],\"errors\":{\"f\":\"b\"}}", 400,
         "validation_error", "Demo: a; b Field names: f", "Correct the input"},
        {"atlassian", "{\"message\":\"Unauthorized; scope does not match\"}", 401, "forbidden",
         "The connection lacks a scope", "grant the scopes"},
        {"atlassian", "", 404, "execution_failed", "Demo did not find it: not found", "Check"},
        {"atlassian", "{\"message\":\"own\"}", 418, "unsupported_operation", "mine", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char more[512];
        (void)snprintf(
            more, sizeof(more),
            ",\"limits\":{\"rate_limited\":[\"%s\"]},\"errors\":[{\"when\":\"status == "
            "`418`\",\"error_code\":\"unsupported_operation\",\"message\":\"mine\"},\"%s\"]",
            table[i].part, table[i].part);
        const struct catalog_action *action =
            bench_action(*state, "{\"type\":\"bearer\"}", more, "read", GET, "");
        read_reply(*state, action, table[i].status, table[i].body, 0);
        assert_true(slice_find(out.message, slice_cstr(table[i].message)) >= 0);
        assert_true(slice_find(out.hint, slice_cstr(table[i].hint)) >= 0);
        if (strcmp(table[i].code, "rate_limited") == 0)
            assert_int_equal(out.reason, EXEC_PROVIDER_RATE_LIMITED);
        else
            assert_true(slice_eq_cstr(out.error_code, table[i].code));
        assert_int_equal(out.manifest_fault.len, 0);
    }
}

static void combined_pages_get_a_new_display(void **state)
{
    struct bench *b = *state;
    const struct catalog_action *action = plain(b, "read");
    read_reply(b, action, 200, "{}", 0);
    call_reply_display(action, bench_json(b, "{}"), bench_json(b, "[1]"), &b->arena, &out);
    assert_true(slice_eq_cstr(out.display_title, "Done"));
    assert_true(slice_eq_cstr(out.display_summary, "status 200"));
}

static void a_write_whose_outcome_is_unknown_says_so_beside_the_manifests_hint(void **state)
{
    static const char rule[] = ",\"errors\":[{\"when\":\"status >= `400`\",\"message\":\"m\\n "
                               "${body}\",\"hint\":\"Ask the admin.\"}]";
    read_reply(*state, bench_action(*state, "{\"type\":\"none\"}", rule, "write", POST, ""), 500,
               "a\r\nb", 0);
    assert_message("m a b");
    assert_true(slice_starts_with(out.hint, SLICE("Ask the admin. The outcome is unknown")));
    read_reply(*state, bench_action(*state, "{\"type\":\"none\"}", rule, "write", POST, ""), 400,
               "x", 0);
    assert_true(slice_eq_cstr(out.hint, "Ask the admin."));
    read_reply(*state, bench_action(*state, "{\"type\":\"none\"}", rule, "read", GET, ""), 500, "x",
               0);
    assert_true(slice_eq_cstr(out.hint, "Ask the admin."));
}

static void a_write_refused_as_too_fast_is_known_not_to_be_done(void **state)
{
    static const char rule[] = ",\"limits\":{\"rate_limited\":[{\"when\":\"status == `503`\"}]},"
                               "\"errors\":[{\"when\":\"status >= `400`\",\"hint\":\"Wait.\"}]";
    read_reply(*state, bench_action(*state, "{\"type\":\"none\"}", rule, "write", POST, ""), 503,
               "", 0);
    assert_int_equal(out.reason, EXEC_PROVIDER_RATE_LIMITED);
    assert_true(slice_eq_cstr(out.hint, "Wait."));
}

static void hostile_replies_are_bounded(void **state)
{
    struct bench *b = *state;
    char *body = arena_alloc_text(&b->arena, 200001);
    memset(body, '[', 200000);
    body[200000] = '\0';
    const struct catalog_action *action = plain(b, "read");
    read_reply(b, action, 200, body, 0);
    assert_int_equal(out.reason, EXEC_REPLY_UNREADABLE);
    assert_true(out.message.len <= EXEC_MESSAGE_BYTES_MAX);
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
        BENCH_TEST(an_output_may_be_as_large_as_its_reply),
        BENCH_TEST(rules_of_the_manifest_win),
        BENCH_TEST(waits_come_in_many_forms),
        BENCH_TEST(the_providers_own_words_are_kept),
        BENCH_TEST(secrets_are_masked_wherever_a_text_goes),
        BENCH_TEST(an_error_under_200_is_not_a_success),
        BENCH_TEST(missing_scopes_are_mended_by_a_new_grant),
        BENCH_TEST(waits_until_a_time_are_counted_from_now),
        BENCH_TEST(retry_after_counts_where_no_rule_says_more),
        BENCH_TEST(a_quota_is_read_from_every_reply),
        BENCH_TEST(lost_calls_say_what_is_known),
        BENCH_TEST(the_mark_of_the_next_page_is_read),
        BENCH_TEST(pages_continue_by_a_cursor_if_there_is_more),
        BENCH_TEST(pages_continue_by_parameters_of_a_url_that_is_not_followed),
        BENCH_TEST(pages_continue_by_a_link_field),
        BENCH_TEST(pages_continue_by_their_number),
        BENCH_TEST(pages_continue_by_the_number_of_items),
        BENCH_TEST(parts_stand_for_their_rules),
        BENCH_TEST(combined_pages_get_a_new_display),
        BENCH_TEST(a_write_whose_outcome_is_unknown_says_so_beside_the_manifests_hint),
        BENCH_TEST(a_write_refused_as_too_fast_is_known_not_to_be_done),
        BENCH_TEST(hostile_replies_are_bounded),
        BENCH_TEST(names_of_reasons_are_unique_and_parse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
