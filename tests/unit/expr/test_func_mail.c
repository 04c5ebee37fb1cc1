/*
 * mail_text and mail_parts: the text that the sender of a mail wrote, for any tree of parts, and
 * all of these parts.
 */
#include "base/encode.h"
#include "expr_test.h"

#define TEXT(type, words)  "{mimeType:'text/" type "',body:{data:base64url('" words "')}}"
#define MULTI(type, parts) "{mimeType:'multipart/" type "',filename:'',parts:[" parts "]}"
#define FILE_PART          "{mimeType:'image/png',filename:'a.png',body:{attachmentId:'x',size:`9`}}"
#define BROKEN(type)       "{mimeType:'text/" type "',body:{data:'a+/b'}}"
#define ATTACHED_MAIL \
    "{mimeType:'message/rfc822',filename:'',parts:[" MULTI("mixed", TEXT("plain", "Theirs")) "]}"

static void the_text_is_what_the_sender_wrote(void **state)
{
    static const struct {
        const char *payload, *text;
    } cases[] = {
        {TEXT("plain", "Hi"), "\"Hi\""},
        {TEXT("html", "<p>Hi<p>there"), "\"Hi\\n\\nthere\""},
        {MULTI("mixed",
               MULTI("mixed", MULTI("related",
                                    MULTI("mixed", MULTI("alternative", TEXT("plain", "Deep")))))),
         "\"Deep\""},
        {MULTI("mixed", TEXT("plain", "One") "," FILE_PART "," TEXT("plain", "two")),
         "\"One\\n\\ntwo\""},
        {MULTI("mixed", TEXT("plain", "One\n") "," TEXT("html", "<b>two</b>")), "\"One\\n\\ntwo\""},
        {MULTI("mixed", TEXT("plain", "One") "," TEXT("plain", " ")), "\"One\""},
        /* alternatives have the same content: the first with words is used, plain text first */
        {MULTI("alternative", TEXT("plain", "Hi") "," TEXT("html", "<p>Hi")), "\"Hi\""},
        {MULTI("alternative", TEXT("html", "<p>Hi") "," TEXT("plain", "Hi plain")), "\"Hi plain\""},
        {MULTI("alternative", TEXT("plain", " \n\xC2\xA0\xE2\x80\x8B") "," TEXT("html", "<p>Hi")),
         "\"Hi\""},
        {MULTI("alternative",
               BROKEN("plain") "," MULTI("related", TEXT("html", "<p>Hi") "," FILE_PART)),
         "\"Hi\""},
        {MULTI("alternative", TEXT("html", "<p>Less") "," TEXT("html", "<p>More") "," TEXT(
                                  "calendar", "BEGIN:VCALENDAR")),
         "\"More\""},
        {MULTI("alternative", TEXT("plain", "") "," TEXT("html", "<img>")), "null"},
        /* a mail inside the mail has another sender */
        {MULTI("mixed", TEXT("plain", "See below") "," ATTACHED_MAIL), "\"See below\""},
        {MULTI("mixed", ATTACHED_MAIL "," TEXT("plain", "See above")), "\"See above\""},
        {MULTI("mixed", ATTACHED_MAIL), "null"},
        {MULTI("digest", ATTACHED_MAIL "," ATTACHED_MAIL), "null"},
        {"{mimeType:'Message/RFC822',parts:[" TEXT("plain", "Theirs") "]}", "null"},
        /* a file also has another sender */
        {MULTI("mixed",
               TEXT("plain", "Mine") ",{mimeType:'text/plain',filename:'a.txt',body:{data:'QQ'}}"),
         "\"Mine\""},
        {MULTI("mixed", "{mimeType:'text/plain',headers:[{name:'content-disposition',"
                        "value:'Attachment'}],body:{data:'QQ'}}," TEXT("plain", "Mine")),
         "\"Mine\""},
        {MULTI("mixed", "{mimeType:'text/plain',headers:[{name:'Content-Disposition',"
                        "value:'inline'}],body:{data:'QQ'}}"),
         "\"A\""},
        /* only unreadable parts are missing */
        {MULTI("mixed", BROKEN("plain") "," TEXT("plain", "Readable")), "\"Readable\""},
        {BROKEN("plain"), "null"},
        {BROKEN("html"), "null"},
        {"{mimeType:'text/plain',body:{attachmentId:'large',size:`9`}}", "null"},
        {"{mimeType:'text/plain',body:{data:'QekgQg'}}", "\"A\xEF\xBF\xBD B\""},
        {"{mimeType:`3`,parts:`7`,headers:'no'}", "null"},
        {MULTI("mixed", "`1`,'x',`null`"), "null"},
        {"`{}`", "null"},
        {"`null`", "null"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char source[2048];
        (void)snprintf(source, sizeof source, "mail_text(%s)", cases[i].payload);
        assert_gives(*state, source, "{}", cases[i].text);
    }
}

static void all_parts_are_listed(void **state)
{
    assert_gives(*state,
                 "mail_parts(" MULTI(
                     "mixed",
                     MULTI("alternative", TEXT("plain", "a")) "," FILE_PART
                                                              "," ATTACHED_MAIL) ")[].mimeType",
                 "{}",
                 "[\"multipart/mixed\",\"multipart/alternative\",\"text/plain\",\"image/png\","
                 "\"message/rfc822\",\"multipart/mixed\",\"text/plain\"]");
    assert_gives(*state, "mail_parts(`null`)", "null", "[]");
    assert_gives(*state, "mail_parts(`{\"parts\":{}}`)", "null", "[{\"parts\":{}}]");
}

/* A header that another program wrote gives what mime_message accepts, and nothing else. */
static void ids_of_any_header_are_accepted(void **state)
{
    static const struct {
        const char *field, *ids;
    } cases[] = {
        {"<a@x.org>", "\"<a@x.org>\""},
        {"a@x.org", "\"<a@x.org>\""},
        {"<a@x.org>\\t<b@x.org><c@x.org>\\r\\n <d@x.org>",
         "\"<a@x.org> <b@x.org> <c@x.org> <d@x.org>\""},
        {"<a> <b@x.org> (a comment) <c\xC3\xBC@x.org> <d @x.org>", "\"<b@x.org>\""},
        {"<a@x.org", "\"<a@x.org>\""},
        {"a@x.org>\\r\\nBcc: <b", "null"},
        {"<>", "null"},
        {"no id", "null"},
        {"", "null"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char given[200];
        (void)snprintf(given, sizeof given, "{\"field\":\"%s\"}", cases[i].field);
        assert_gives(*state, "message_ids(field)", given, cases[i].ids);
        assert_gives(*state, "!!mime_message({references: message_ids(field)})", given, "true");
    }
    assert_gives(*state, "message_ids(`null`)", "{}", "null");
    /* up to the longest that a line has room for */
    for (int len = 250; len <= 901; len += len == 260 ? 640 : 1) {
        char given[1000], ids[1000];
        (void)snprintf(given, sizeof given, "{\"field\":\"<b@x.org> <%0*d@x.org>\"}", len - 6, 0);
        (void)snprintf(ids, sizeof ids, "\"<b@x.org> <%0*d@x.org>\"", len - 6, 0);
        assert_gives(*state, "message_ids(field)", given, len <= 900 ? ids : "\"<b@x.org>\"");
    }
}

static void a_field_becomes_one_line(void **state)
{
    assert_gives(*state, "one_line(s)", "{\"s\":\"a\\r\\n b\\u0001\\u007fc\\td\\n\"}",
                 "\"a  b c d \"");
    assert_gives(*state, "one_line(s)", "{\"s\":\"Gr\xC3\xBC\xC3\x9F\x65\"}",
                 "\"Gr\xC3\xBC\xC3\x9F\x65\"");
    assert_gives(*state, "one_line('')", "{}", "\"\"");
    assert_gives(*state, "one_line(`null`)", "{}", "null");
}

/* As mime_message addresses a mail: a long or lying name hides nothing. */
static void addresses_have_no_names(void **state)
{
    static const struct {
        const char *to, *addresses;
    } cases[] = {
        {"'a@b.org'", "\"a@b.org\""},
        {"'\"eve@x.org\" <a@b.org>, Ben <c@d.org>'", "\"a@b.org, c@d.org\""},
        {"'\"Eve <eve@x.org>, and, others\" <a@b.org>'", "\"a@b.org\""},
        {"['a@b.org', 'c@d.org,e@f.org']", "\"a@b.org, c@d.org, e@f.org\""},
        {"'a@b\xC3\xBC.org'", "\"a@xn--b-eha.org\""},
        {"'nobody'", "null"},
        {"'a@b.org, nobody'", "null"},
        {"'a@b.org (Ada)'", "null"},
        {"''", "null"},
        {"`null`", "null"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char source[256];
        (void)snprintf(source, sizeof source, "mail_addresses(%s)", cases[i].to);
        assert_gives(*state, source, "{}", cases[i].addresses);
    }
}

static const char *deep_payload(struct bench *b, size_t levels)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    for (size_t i = 0; i < levels; i++)
        buf_append_cstr(&text, "{\"mimeType\":\"multipart/mixed\",\"parts\":[");
    buf_append_cstr(&text, "{\"mimeType\":\"text/plain\",\"body\":{\"data\":\"QQ\"}}");
    for (size_t i = 0; i < levels; i++)
        buf_append_cstr(&text, "]}");
    const char *copy = arena_cstr(&b->arena, buf_slice(&text));
    buf_deinit(&text);
    return copy;
}

static void every_level_is_walked(void **state)
{
    assert_gives(*state, "mail_text(@)", deep_payload(*state, 250), "\"A\"");
    assert_gives(*state, "length(mail_parts(@))", deep_payload(*state, 250), "251");
}

/* A text within the budget is extracted however much markup surrounds it. */
static void only_the_text_counts_against_the_budget(void **state)
{
    struct bench *b = *state;
    struct buf page, json;
    buf_init(&page, 4 << 20);
    buf_init(&json, 8 << 20);
    buf_append_cstr(&page, "<style>");
    for (size_t i = 0; i < 1500000; i++)
        buf_append_char(&page, 'x');
    buf_append_cstr(&page, "</style>Hi");
    buf_append_cstr(&json, "{\"mimeType\":\"text/html\",\"body\":{\"data\":\"");
    encode_base64url(&json, buf_slice(&page));
    buf_append_cstr(&json, "\"}}");
    buf_append_char(&json, '\0');
    assert_gives(b, "mail_text(@)", json.ptr, "\"Hi\"");
    buf_clear(&json);
    buf_append_cstr(&json, "{\"mimeType\":\"text/plain\",\"body\":{\"data\":\"");
    encode_base64url(&json, slice_first(buf_slice(&page), 1100000));
    buf_append_cstr(&json, "\"}}");
    buf_append_char(&json, '\0');
    assert_fault(b, "mail_text(@)", json.ptr, EXPR_FAULT_LIMIT, "");
    buf_deinit(&page);
    buf_deinit(&json);
}

static void every_failed_allocation_is_reported(void **state)
{
    struct bench *b = *state;
    struct expr *expr = expr_compile(
        &b->arena,
        SLICE("[mail_text(" MULTI(
            "mixed", TEXT("plain", "One") "," MULTI(
                         "alternative", TEXT("plain", "") "," TEXT(
                                            "html", "<p>Two"))) "),"
                                                                "mail_parts(" MULTI(
                                                                    "mixed",
                                                                    TEXT("plain", "One")) ")]"),
        &b->err);
    assert_non_null(expr);
    const struct json *given = bench_json(b, "{}");
    int rc = ERR_NOMEM;
    for (unsigned at = 1; rc != OK; at++) {
        struct arena arena;
        struct json result;
        arena_init(&arena, 1 << 20);
        expr_budget_init(&b->budget);
        mem_fail_at(at, 1);
        rc = expr_eval(expr, given, given, &b->budget, &arena, &result, &b->err);
        mem_fail_at(0, 0);
        assert_true(rc == OK || rc == ERR_NOMEM);
        assert_true(at < 200);
        if (rc == OK)
            assert_string_equal(bench_text(b, &result.as.items[0]), "\"One\\n\\nTwo\"");
        arena_deinit(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        bench_test(the_text_is_what_the_sender_wrote),
        bench_test(all_parts_are_listed),
        bench_test(ids_of_any_header_are_accepted),
        bench_test(a_field_becomes_one_line),
        bench_test(addresses_have_no_names),
        bench_test(every_level_is_walked),
        bench_test(only_the_text_counts_against_the_budget),
        bench_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
