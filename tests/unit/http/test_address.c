/*
 * The whole deny registry: the first and last address of each block, and the adjacent addresses
 * just outside, which must be allowed (or belong to the next block).
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "http/address.h"
#include "unit.h"

static struct sockaddr_storage address_of(const char *text, uint16_t port)
{
    struct sockaddr_storage out = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&out;
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
    } else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
    } else {
        fail_msg("no address: %s", text);
    }
    return out;
}

static const char *special(const char *text)
{
    struct sockaddr_storage address = address_of(text, 443);
    return address_special((struct sockaddr *)&address);
}

/* below and above are the adjacent addresses, or NULL if they are special, too. */
struct block {
    const char *below, *first, *last, *above, *what;
};

static const struct block blocks[] = {
    {NULL, "0.0.0.0", "0.255.255.255", "1.0.0.0", "this network"},
    {"9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0", "private"},
    {"100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0", "carrier"},
    {"126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0", "loopback"},
    {"169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0", "link-local"},
    {"172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0", "private"},
    {"191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0", "IETF"},
    {"192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0", "documentation"},
    {"192.31.195.255", "192.31.196.0", "192.31.196.255", "192.31.197.0", "AS112"},
    {"192.52.192.255", "192.52.193.0", "192.52.193.255", "192.52.194.0", "AMT"},
    {"192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0", "6to4"},
    {"192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0", "private"},
    {"192.175.47.255", "192.175.48.0", "192.175.48.255", "192.175.49.0", "AS112"},
    {"198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0", "benchmarking"},
    {"198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0", "documentation"},
    {"203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0", "documentation"},
    {"223.255.255.255", "224.0.0.0", "239.255.255.255", NULL, "multicast"},
    {NULL, "240.0.0.0", "255.255.255.254", NULL, "reserved"},
    {NULL, "255.255.255.255", "255.255.255.255", NULL, "broadcast"},
    {NULL, "::", "::", NULL, "unspecified"},
    {NULL, "::1", "::1", NULL, "loopback"},
    {NULL, "::ffff:0.0.0.0", "::ffff:255.255.255.255", NULL, "IPv4-mapped"},
    {NULL, "::2", "::255.255.255.255", NULL, "IPv4-compatible"},
    {NULL, "::ffff:0:0.0.0.0", "::ffff:0:255.255.255.255", NULL, "IPv4-translated"},
    {NULL, "64:ff9b::", "64:ff9b::255.255.255.255", NULL, "NAT64"},
    {NULL, "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", NULL, "local NAT64"},
    {NULL, "100::", "100::ffff:ffff:ffff:ffff", NULL, "discard"},
    {NULL, "100:0:0:1::", "100:0:0:1:ffff:ffff:ffff:ffff", NULL, "dummy"},
    {NULL, "2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff", NULL, "Teredo"},
    {NULL, "2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff", NULL, "benchmarking"},
    {NULL, "2001:10::", "2001:1f:ffff:ffff:ffff:ffff:ffff:ffff", NULL, "ORCHID"},
    {NULL, "2001:20::", "2001:2f:ffff:ffff:ffff:ffff:ffff:ffff", NULL, "ORCHIDv2"},
    {NULL, "2001:1::1", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::", "IETF"},
    {"2001:db7:ffff:ffff:ffff:ffff:ffff:ffff",
     "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::", "documentation"},
    {"2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
     "2003::", "6to4"},
    {"2620:4f:7fff:ffff:ffff:ffff:ffff:ffff",
     "2620:4f:8000::", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff", "2620:4f:8001::", "AS112"},
    {"3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
     "3fff:1000::", "documentation"},
    {NULL, "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, "segment routing"},
    {NULL, "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, "private"},
    {NULL, "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, "link-local"},
    {NULL, "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, "site-local"},
    {NULL, "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, "multicast"},
    /* in no block of the registry, but not in 2000::/3 either */
    {NULL, "1::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2000::", "not global unicast"},
    {"3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "4000::", "4000::1", NULL, "not global unicast"},
    {NULL, "2600::5efe:8.8.8.8", "2600::200:5efe:10.0.0.1", NULL, "ISATAP"},
};

static void every_special_block_is_known_to_its_edges(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(blocks); i++) {
        const struct block *block = &blocks[i];
        const char *edges[] = {block->first, block->last};
        for (size_t e = 0; e < 2; e++) {
            const char *what = special(edges[e]);
            if (!what || !strstr(what, block->what))
                fail_msg("%s is %s, not %s", edges[e], what ? what : "free", block->what);
        }
        if (block->below && special(block->below))
            fail_msg("%s should be free", block->below);
        if (block->above && special(block->above))
            fail_msg("%s should be free", block->above);
    }
}

static void ordinary_addresses_are_free(void **state)
{
    (void)state;
    static const char *const addresses[] = {
        "8.8.8.8",         "1.1.1.1",  "142.250.74.42",        "104.16.132.229",
        "223.255.255.255", "99.1.2.3", "2a00:1450:4001:800::", "2606:4700::6810:84e5",
        "2001:4860::8888", "2000::",   "2600::5efd:8.8.8.8",
    };
    for (size_t i = 0; i < ARRAY_LEN(addresses); i++)
        if (special(addresses[i]))
            fail_msg("%s is %s", addresses[i], special(addresses[i]));
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    assert_non_null(address_special((struct sockaddr *)&un));
}

static void addresses_print(void **state)
{
    (void)state;
    char text[ADDRESS_TEXT_MAX];
    struct sockaddr_storage v4 = address_of("8.8.8.8", 443);
    struct sockaddr_storage v6 = address_of("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 65535);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    assert_true(slice_eq_cstr(address_format((struct sockaddr *)&v4, text), "8.8.8.8:443"));
    assert_true(slice_eq_cstr(address_format((struct sockaddr *)&v6, text),
                              "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"));
    assert_true(slice_eq_cstr(address_format((struct sockaddr *)&un, text), "unix"));
}

struct allow_row {
    const char *rule, *host;
    uint16_t port;
    const char *address;
    bool is_allowed;
};

static const struct allow_row allow_rows[] = {
    {NULL, "localhost", 80, "127.0.0.1", false},
    {NULL, "example.com", 443, "93.184.216.34", true},
    {"localhost", "LOCALHOST.", 80, "127.0.0.1", true},
    {"LocalHost.", "localhost", 9, "127.0.0.1", true},
    {"localhost", "localhost.evil", 80, "127.0.0.1", false},
    {"localhost", "xlocalhost", 80, "127.0.0.1", false},
    {"localhost:8080", "localhost", 8080, "127.0.0.1", true},
    {"localhost:8080", "localhost", 8081, "127.0.0.1", false},
    {"localhost:80", "localhost", 80, "127.0.0.1", true},
    {"localhost:80", "localhost", 443, "127.0.0.1", false},
    {"127.0.0.1", "127.0.0.1", 1, "127.0.0.1", true},
    {"127.0.0.1", "localhost", 1, "127.0.0.1", false},   /* a rule with a host applies to the
                                                          * host in the URL */
    {"127.0.0.1/32", "localhost", 1, "127.0.0.1", true}, /* a rule with a network applies to the
                                                          * address */
    {"127.0.0.1/32", "localhost", 1, "127.0.0.2", false},
    {"10.0.0.0/8", "a", 1, "10.255.0.1", true},
    {"10.0.0.0/8", "a", 1, "11.0.0.1", true},
    {"10.0.0.0/8", "a", 1, "192.168.0.1", false},
    {"172.16.0.0/13", "a", 1, "172.23.255.255", true},
    {"172.16.0.0/13", "a", 1, "172.24.0.0", false},
    {"0.0.0.0/0", "a", 1, "127.0.0.1", true},
    {"0.0.0.0/0", "a", 1, "::1", false},
    {"::/0", "a", 1, "::ffff:10.0.0.1", true},
    {"10.0.0.0/8", "a", 1, "::ffff:10.0.0.1", false},
    {"::1", "::1", 1, "::1", true},
    {"[::1]", "0:0::1", 1, "::1", true},
    {"[::1]:443", "::1", 443, "::1", true},
    {"[::1]:443", "::1", 80, "::1", false},
    {"fd00::/8", "a", 1, "fdff::1", true},
    {"fd00::/8", "a", 1, "fc00::1", false},
    {" localhost ", "localhost", 1, "127.0.0.1", true},
};

static void the_operator_may_allow(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(allow_rows); i++) {
        const struct allow_row *row = &allow_rows[i];
        struct address_policy *policy = address_policy_new();
        assert_non_null(policy);
        struct err err = {0};
        struct sockaddr_storage address = address_of(row->address, row->port);
        if (row->rule && address_policy_allow(policy, slice_cstr(row->rule), &err) != OK)
            fail_msg("%s: %s", row->rule, err.text);
        int code = address_policy_check(policy, slice_cstr(row->host), row->port,
                                        (struct sockaddr *)&address, &err);
        if ((code == OK) != row->is_allowed)
            fail_msg("row %zu: %s %s: %s", i, row->rule, row->address, err.text);
        if (code != OK) {
            assert_int_equal(code, ERR_REFUSED);
            assert_non_null(strstr(err.text, row->host));
        }
        address_policy_free(policy);
    }
    struct sockaddr_storage loopback = address_of("127.0.0.1", 80);
    assert_int_equal(address_policy_check(NULL, SLICE("a"), 80, (struct sockaddr *)&loopback, NULL),
                     ERR_REFUSED);
    address_policy_free(NULL);
    assert_int_equal(mem_live_blocks(), 0);
}

static void bad_rules_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        "/",
        "10.0.0.0/",
        "/8",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0.0/8x",
        "10.1.0.0/8",
        "fd01::/8",
        "::/129",
        "a/8",
        "http://a",
        "a b",
        "a:",
        "a:0",
        "a:99999",
        "user@a",
        "[::1",
        "[::1]x",
        "127.1",
        "2130706433",
        "*",
        "*.a",
        "a?x",
        "a#x",
        "10.0.0.0/08888888888888888888",
    };
    struct address_policy *policy = address_policy_new();
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};
        if (address_policy_allow(policy, slice_cstr(bad[i]), &err) != ERR_SYNTAX)
            fail_msg("taken: %s", bad[i]);
        assert_true(strlen(err.text) > 10);
    }
    struct err err;
    for (size_t i = 0; i < ADDRESS_RULES_MAX; i++)
        assert_int_equal(address_policy_allow(policy, SLICE("a"), &err), OK);
    assert_int_equal(address_policy_allow(policy, SLICE("a"), &err), ERR_LIMIT);
    address_policy_free(policy);
    policy = address_policy_new();
    mem_fail_at(1, 1);
    assert_int_equal(address_policy_allow(policy, SLICE("a"), &err), ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_false(address_policy_is_host_allowed(policy, SLICE("a"), 1));
    address_policy_free(policy);
    assert_int_equal(mem_live_blocks(), 0);
}

/* wanted: the address, or "" if the text is not an address. */
static void check_parsed(const char *text, const char *wanted)
{
    struct sockaddr_storage address;
    char out[ADDRESS_TEXT_MAX];
    bool is_one = address_parse(slice_cstr(text), &address);
    slice got = is_one ? address_format((const struct sockaddr *)&address, out) : SLICE("");
    if (!slice_eq_cstr(got, wanted))
        fail_msg("%s gave %.*s", text, SLICE_ARG(got));
}

static void what_a_proxy_writes_is_parsed(void **state)
{
    (void)state;
    check_parsed("192.0.2.1", "192.0.2.1:0");
    check_parsed(" \t192.0.2.1 ", "192.0.2.1:0");
    check_parsed("192.0.2.1:443", "192.0.2.1:0");
    check_parsed("2001:db8::1", "[2001:db8::1]:0");
    check_parsed("[2001:db8::1]", "[2001:db8::1]:0");
    check_parsed("[2001:db8::1]:443", "[2001:db8::1]:0");
    check_parsed("::ffff:192.0.2.1", "192.0.2.1:0");
    check_parsed("[::ffff:192.0.2.1]:1", "192.0.2.1:0");
    static const char *const none[] = {
        "",  " ",    "unknown", "_x",        "a.example", "[",      "[]",
        "]", "[::1", "1.2.3",   "1.2.3.4/8", ":",         "::1]:1", "1.2.3.4,1.2.3.5"};
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        check_parsed(none[i], "");
}

static void a_proxy_is_an_address(void **state)
{
    static const char *const good[] = {"10.1.2.3", "::1",  "10.0.0.0/8",
                                       "fd00::/8", "unix", " ::1 "};
    static const char *const bad[] = {
        "", "nonsense", "proxy.example", "10.1.2", "10.1.2.3:80", "[::1]", "10.0.0.0/33", "UNIX"};
    struct address_policy *policy = address_policy_new();
    struct err err;
    (void)state;
    assert_non_null(policy);
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_int_equal(address_policy_allow_proxy(policy, slice_cstr(good[i]), &err), OK);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(address_policy_allow_proxy(policy, slice_cstr(bad[i]), &err), ERR_SYNTAX);
    address_policy_free(policy);
}

static void a_list_of_proxies_holds_addresses(void **state)
{
    static const char *const proxies[] = {"127.0.0.1", "10.0.0.0/8", "2001:db8::/32", "::1"};
    static const struct {
        const char *text;
        bool is_held;
    } cases[] = {{"127.0.0.1", true},        {"127.0.0.2", false},  {"10.255.0.1", true},
                 {"11.0.0.1", false},        {"::1", true},         {"::2", false},
                 {"2001:db8:ffff::1", true}, {"2001:db9::", false}, {"::ffff:10.0.0.1", true}};
    struct address_policy *policy = address_policy_new();
    struct sockaddr_storage address;
    struct err err;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(proxies); i++)
        assert_int_equal(address_policy_allow(policy, slice_cstr(proxies[i]), &err), OK);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_true(address_parse(slice_cstr(cases[i].text), &address));
        if (address_policy_holds(policy, (const struct sockaddr *)&address) != cases[i].is_held)
            fail_msg("%s", cases[i].text);
        assert_false(address_policy_holds(NULL, (const struct sockaddr *)&address));
    }
    address = (struct sockaddr_storage){.ss_family = AF_UNIX};
    assert_false(address_policy_holds(policy, (const struct sockaddr *)&address));
    assert_int_equal(address_policy_allow(policy, SLICE("unix"), &err), OK);
    assert_true(address_policy_holds(policy, (const struct sockaddr *)&address));
    address_policy_free(policy);
    assert_int_equal(mem_live_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_special_block_is_known_to_its_edges),
        cmocka_unit_test(ordinary_addresses_are_free),
        cmocka_unit_test(addresses_print),
        cmocka_unit_test(the_operator_may_allow),
        cmocka_unit_test(bad_rules_are_refused),
        cmocka_unit_test(what_a_proxy_writes_is_parsed),
        cmocka_unit_test(a_proxy_is_an_address),
        cmocka_unit_test(a_list_of_proxies_holds_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
