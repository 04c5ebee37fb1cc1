/*
 * URLs that a request may go to, and URLs that are refused instead of repaired.
 */
#include "http/url.h"
#include "unit.h"

struct good {
    const char *text, *host, *authority, *target, *origin;
    bool is_ip;
};

static const struct good good[] = {
    {"https://gmail.googleapis.com/gmail/v1/users/me?q=is%3Aunread", "gmail.googleapis.com",
     "gmail.googleapis.com", "/gmail/v1/users/me?q=is%3Aunread", "https://gmail.googleapis.com:443",
     false},
    {"HTTPS://Api.Notion.COM", "Api.Notion.COM", "Api.Notion.COM", "", "https://api.notion.com:443",
     false},
    {"http://localhost:8080/", "localhost", "localhost:8080", "/", "http://localhost:8080", false},
    {"http://a", "a", "a", "", "http://a:80", false},
    {"https://a.b.:1/", "a.b.", "a.b.:1", "/", "https://a.b.:1", false},
    {"https://x?y=[1]|{2}", "x", "x", "?y=[1]|{2}", "https://x:443", false},
    {"https://127.0.0.1/x", "127.0.0.1", "127.0.0.1", "/x", "https://127.0.0.1:443", true},
    {"https://[::1]:8443/x", "::1", "[::1]:8443", "/x", "https://[::1]:8443", true},
    {"https://[2001:DB8::1]", "2001:DB8::1", "[2001:DB8::1]", "", "https://[2001:db8::1]:443",
     true},
    {"https://my_host-1.a1/%41%fF", "my_host-1.a1", "my_host-1.a1", "/%41%fF",
     "https://my_host-1.a1:443", false},
    {"https://1.2.3.4.example", "1.2.3.4.example", "1.2.3.4.example", "",
     "https://1.2.3.4.example:443", false},
    {"https://0xfg", "0xfg", "0xfg", "", "https://0xfg:443", false},
};

static void good_urls_are_taken_apart(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct url url;
        struct err err;
        char origin[URL_ORIGIN_MAX + 1];
        if (url_parse(slice_cstr(good[i].text), &url, &err) != OK)
            fail_msg("%s: %s", good[i].text, err.text);
        assert_true(slice_eq_cstr(url.host, good[i].host));
        assert_true(slice_eq_cstr(url.authority, good[i].authority));
        assert_true(slice_eq_cstr(url.target, good[i].target));
        assert_int_equal(url.is_ip_literal, good[i].is_ip);
        assert_true(slice_eq_cstr(url_origin(&url, origin), good[i].origin));
        assert_string_equal(origin, good[i].origin);
    }
}

static const char *const bad[] = {
    "",
    "gmail.googleapis.com",
    "ftp://a",
    "https:/a",
    "https//a",
    "://a",
    "https://",
    "https:///x",
    "https://?x",
    "https://#",
    "https://:443",
    "https://user@a",
    "https://user:pw@a/x",
    "https://a@b",
    "https://a:",
    "https://a:0",
    "https://a:65536",
    "https://a:+1",
    "https://a:1x",
    "https://a:000080",
    "https://a b",
    "https://a\tb",
    "https://a/ b",
    "https://a/\x7f",
    "https://a/\r\nX: y",
    "https://a/\xc3\xa4",
    "https://a/#frag",
    "https://a#frag",
    "https://a/\"",
    "https://a/<",
    "https://a/>",
    "https://a/\\",
    "https://a/^",
    "https://a/`",
    "https://a/%",
    "https://a/%1",
    "https://a/%zz",
    "https://a/%4",
    "https://.a",
    "https://a..b",
    "https://.",
    "https://a,b",
    "https://a%41",
    "https://\xc3\xa4.de",
    "https://[::1",
    "https://[]",
    "https://[::1]x",
    "https://[::1]:x",
    "https://[1.2.3.4]",
    "https://[fe80::1%25eth0]",
    "https://[::g]",
    "https://::1",
    "https://2130706433",
    "https://0x7f000001",
    "https://0x7f.1",
    "https://127.1",
    "https://0177.0.0.1",
    "https://127.0.0.1.",
    "https://1.2.3.4.5",
    "https://1.2.3.256",
    "https://1.2.3.04",
    "https://a.0x1",
    "https://a.1",
    "https://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b",
};

static void bad_urls_are_refused_with_a_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct url url;
        struct err err = {0};
        if (url_parse(slice_cstr(bad[i]), &url, &err) != ERR_SYNTAX)
            fail_msg("taken: %s", bad[i]);
        assert_int_equal(err.code, ERR_SYNTAX);
        assert_true(strlen(err.text) > 10);
        assert_int_equal(url_parse(slice_cstr(bad[i]), &url, NULL), ERR_SYNTAX);
    }
    struct url url;
    struct err err;
    assert_int_equal(url_parse(SLICE("https://a\0b/"), &url, &err), ERR_SYNTAX);
    assert_int_equal(url_parse(SLICE("https://a/\0"), &url, &err), ERR_SYNTAX);
    assert_int_equal(url_parse(SLICE("https://[::1\0]/"), &url, &err), ERR_SYNTAX);
}

static void lengths_are_bounded(void **state)
{
    (void)state;
    static char text[URL_BYTES_MAX + 2];
    struct url url;
    struct err err;
    memset(text, 'a', sizeof(text));
    memcpy(text, "https://a/", 10);
    assert_int_equal(url_parse(slice_of(text, URL_BYTES_MAX), &url, &err), OK);
    assert_int_equal(url_parse(slice_of(text, URL_BYTES_MAX + 1), &url, &err), ERR_LIMIT);
    for (size_t i = 8; i < 300; i++)
        text[i] = i % 50 == 0 ? '.' : 'b';
    assert_int_equal(url_parse(slice_of(text, 8 + URL_HOST_MAX), &url, &err), OK);
    char origin[URL_ORIGIN_MAX + 1];
    assert_int_equal(url_origin(&url, origin).len, 8 + URL_HOST_MAX + 4);
    assert_int_equal(url_parse(slice_of(text, 8 + URL_HOST_MAX + 1), &url, &err), ERR_SYNTAX);
}

/* Every prefix and every single-byte change of a valid URL is either accepted or refused, and
 * never read past its end (ASan checks). */
static void no_byte_makes_it_crash(void **state)
{
    (void)state;
    const char *text = good[0].text;
    size_t len = strlen(text);
    for (size_t cut = 0; cut <= len; cut++) {
        char *copy = mem_alloc(cut);
        assert_non_null(copy);
        memcpy(copy, text, cut);
        struct url url;
        int code = url_parse(slice_of(copy, cut), &url, NULL);
        assert_true(code == OK || code == ERR_SYNTAX);
        for (int c = 0; c < 256 && cut; c++) {
            copy[cut - 1] = (char)c;
            if (url_parse(slice_of(copy, cut), &url, NULL) == OK)
                assert_true(c > 0x20 && c < 0x7f);
        }
        mem_free(copy);
    }
    assert_int_equal(mem_live_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_urls_are_taken_apart),
        cmocka_unit_test(bad_urls_are_refused_with_a_sentence),
        cmocka_unit_test(lengths_are_bounded),
        cmocka_unit_test(no_byte_makes_it_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
