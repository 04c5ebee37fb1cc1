/*
 * The owners of the addresses of a call: which addresses belong to the caller's own organisation,
 * and that an address with two interpretations belongs to no one.
 */
#include "catalog/recipient.h"
#include "unit.h"

/* ---- domains ---- */

static void assert_domain(const char *text, const char *expected)
{
    char room[RECIPIENT_DOMAIN_MAX + 1];
    slice found = recipient_domain(slice_cstr(text), room);
    if (!expected)
        assert_null(found.ptr);
    else if (!slice_eq_cstr(found, expected))
        fail_msg("%s became %.*s", text, SLICE_ARG(found));
}

static void test_domain_form(void **state)
{
    char label[80], all[300];
    (void)state;
    assert_domain("Example.COM", "example.com");
    assert_domain("example.com.", "example.com");
    assert_domain("bücher.example", "xn--bcher-kva.example");
    assert_domain("XN--bcher-KVA.example", "xn--bcher-kva.example");
    assert_domain("例え.テスト", "xn--r8jz45g.xn--zckzah");
    /* RFC 3492 7.1 (L) and the Czech of (C), in lower case. */
    assert_domain("3年b組金八先生.example", "xn--3b-ww4c5e180e575a65lsy2b.example");
    assert_domain("pročprostěnemluvíčesky.example", "xn--proprostnemluvesky-uyb24dma41a.example");
    assert_domain("", NULL);
    assert_domain(".", NULL);
    assert_domain("a..b", NULL);
    assert_domain(".example.com", NULL);
    assert_domain("exa mple.com", NULL);
    assert_domain("[192.0.2.1]", NULL);
    assert_domain("example.com/x", NULL);
    assert_domain("b\xFC"
                  "cher.example",
                  NULL);
    memset(label, 'a', 79);
    label[79] = 0;
    memcpy(label + 60, "\xC3\xBC", 2);
    assert_domain(label, NULL); /* 78 characters, too many for an encoded label */
    memset(all, 'a', 254);
    all[254] = 0;
    assert_domain(all, NULL);
}

static bool is_home(const char *domain)
{
    const slice homes[] = {SLICE("example.com"), SLICE("xn--bcher-kva.example")};
    return recipient_is_home(slice_cstr(domain), homes, ARRAY_LEN(homes));
}

static void test_home(void **state)
{
    (void)state;
    assert_true(is_home("example.com"));
    assert_true(is_home("EXAMPLE.com."));
    assert_true(is_home("mail.eu.example.com"));
    assert_true(is_home("bücher.example"));
    assert_true(is_home("post.bücher.example"));
    assert_false(is_home("badexample.com"));
    assert_false(is_home("example.com.evil.example"));
    assert_false(is_home("com"));
    assert_false(is_home("examp\u0142e.com"));
    assert_false(is_home("b\u00DC"
                         "cher.example")); /* letters of other scripts are not converted to lower
                                            * case */
    assert_false(is_home(""));
    assert_false(recipient_is_home(SLICE_NONE, NULL, 0));
    assert_false(recipient_is_home(SLICE("example.com"), NULL, 0));
}

/* ---- addresses ---- */

/* expected: each recipient as "lead|address|tail|domain", with a line break between two. */
static void assert_list(const char *text, const char *expected)
{
    char all[1024] = "";
    size_t len = 0;
    slice rest = slice_cstr(text);
    struct recipient one;
    while (recipient_next(&rest, &one))
        len += (size_t)snprintf(all + len, sizeof(all) - len, "%.*s|%.*s|%.*s|%.*s\n",
                                SLICE_ARG(one.lead), SLICE_ARG(one.address), SLICE_ARG(one.tail),
                                SLICE_ARG(one.domain));
    assert_string_equal(all, expected);
}

static void test_addresses(void **state)
{
    (void)state;
    assert_list("", "");
    assert_list(" ,; ", "");
    assert_list("ada@example.com", "|ada@example.com||example.com\n");
    assert_list("Ada L <ada@example.com>, ben@example.org;cy@x.example",
                "Ada L <|ada@example.com|>|example.com\n|ben@example.org||example.org\n"
                "|cy@x.example||x.example\n");
    assert_list("\"Keller, \\\"Anna\\\" <a@b.c>\" <anna@example.com>",
                "\"Keller, \\\"Anna\\\" <a@b.c>\" <|anna@example.com|>|example.com\n");
    assert_list("@example.com", "|@example.com||example.com\n");
    assert_list("jörg@bücher.example", "|jörg@bücher.example||bücher.example\n");
}

/* A text that is not an address, or could be two addresses, has no domain. */
static void test_malformed(void **state)
{
    static const char *const texts[] = {
        "anyone",
        "ada@",
        "ada@@example.com",
        "a@evil.example@example.com",
        "ada@example.com <eve@evil.example>",
        "Ada <@example.com>",
        "Ada <ada@example.com",
        "Ada <ada@example.com> (home)",
        "Ada <ada@evil.example> <ada@example.com>",
        "ada(x@evil.example)@example.com",
        "a b@example.com",
        "ada@exa mple.com",
        "ada@[192.0.2.1]",
        "ada@example..com",
        "a\"b@example.com",
        "<>",
        "friends:ada@example.com",
        "ada\tx@example.com",
        "ada@example.com\r\nBcc: eve@evil.example",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        slice rest = slice_cstr(texts[i]);
        struct recipient one;
        assert_true(recipient_next(&rest, &one));
        if (one.domain.ptr)
            fail_msg("%s has the domain %.*s", texts[i], SLICE_ARG(one.domain));
        assert_int_equal(one.lead.len + one.tail.len, 0);
        assert_true(slice_eq_cstr(one.address, texts[i]));
    }
}

/* ---- a call ---- */

struct seen {
    char text[512];
    size_t len;
};

static void note_one(void *user, slice field, const struct recipient *recipient)
{
    struct seen *seen = user;
    seen->len += (size_t)snprintf(seen->text + seen->len, sizeof(seen->text) - seen->len,
                                  "%.*s=%.*s@%.*s ", SLICE_ARG(field),
                                  SLICE_ARG(recipient->address), SLICE_ARG(recipient->domain));
}

static void assert_call(const struct catalog *catalog, const char *tool, const char *input,
                        const char *expected)
{
    struct arena arena;
    struct seen seen = {.len = 0};
    const struct catalog_action *action = catalog_find_tool(catalog, slice_cstr(tool));
    arena_init(&arena, 1024 * 1024);
    assert_non_null(action);
    const struct json *value = json_parse(&arena, slice_cstr(input), &json_limits_provider, NULL);
    assert_non_null(value);
    recipient_each(action, value, &arena, note_one, &seen);
    assert_string_equal(seen.text, expected);
    arena_deinit(&arena);
}

static void test_calls(void **state)
{
    (void)state;
    struct catalog_report *report = catalog_report_new(NULL);
    struct catalog *catalog = catalog_load_all(NULL, report);
    assert_non_null(catalog);
    assert_call(catalog, "gmail_send_message",
                "{\"to\":[\"a@x.example\",\"B <b@y.example>\"],\"bcc\":\"c@z.example\"}",
                "To=a@x.example@x.example To=b@y.example@y.example Bcc=c@z.example@z.example ");
    assert_call(catalog, "sendgrid_send_email", "{\"to\":[{\"email\":\"a@x.example\"}]}",
                "To=a@x.example@x.example ");
    assert_call(catalog, "google_calendar_change_attendees",
                "{\"add\":[\"a@x.example\",{\"email\":\"b@y.example\"},{\"displayName\":\"C\"}]}",
                "Invites=a@x.example@x.example Invites=b@y.example@y.example "
                "Invites=(no address)@ ");
    assert_call(catalog, "google_drive_share_file", "{\"type\":\"anyone\"}",
                "Shared with=anyone@ ");
    assert_call(catalog, "google_drive_share_file",
                "{\"type\":\"domain\",\"domain\":\"x.example\"}",
                "Shared with=@x.example@x.example ");
    assert_call(catalog, "google_calendar_share_calendar", "{\"scopeValue\":\"a@x.example\"}",
                "Shared with=a@x.example@x.example ");
    assert_call(catalog, "google_calendar_share_calendar", "{\"scopeType\":\"default\"}",
                "Shared with=everybody@ ");
    /* If the expression cannot be evaluated, the recipients are unknown. */
    assert_call(catalog, "google_drive_share_file", "{\"type\":\"domain\",\"domain\":5}",
                "Shared with=(not known)@ ");
    assert_call(catalog, "notion_create_page", "{\"title\":\"a@x.example\"}", "");
    catalog_unref(catalog);
    catalog_report_free(report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(test_domain_form), UNIT_TEST(test_home),  UNIT_TEST(test_addresses),
        UNIT_TEST(test_malformed),   UNIT_TEST(test_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
