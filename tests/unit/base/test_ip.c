/*
 * Addresses from text: only the plain forms are accepted, and a socket accepts the results.
 */
#include "testing.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/ip.h"

static void plain_forms_are_read(void **state)
{
    static const struct {
        slice text;
        size_t len;
    } cases[] = {
        {SLICE_INIT("192.0.2.1"), 4},
        {SLICE_INIT("2001:db8::1"), 16},
        {SLICE_INIT("::ffff:192.0.2.1"), 16},
        {SLICE_INIT("1:2:3:4:5:6:7::"), 16},
        {SLICE_INIT(""), 0},
        {SLICE_INIT("127.1"), 0},
        {SLICE_INIT("127.0.0.01"), 0},
        {SLICE_INIT("0x7f.0.0.1"), 0},
        {SLICE_INIT("192.0.2.1\0"), 0},
        {SLICE_INIT("[::1]"), 0},
        {SLICE_INIT("fe80::1%eth0"), 0},
        {SLICE_INIT("1:2:3:4:5:6:7:8::"), 0},
        {SLICE_INIT("0000:0000:0000:0000:0000:0000:255.255.255.2555"), 0},
    };
    uint8_t ip[16];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (ip_parse(cases[i].text, ip) != cases[i].len)
            fail_msg("%.*s", SLICE_ARG(cases[i].text));
}

static void sockets_get_family_port_and_bytes(void **state)
{
    struct sockaddr_storage address;
    uint8_t ip[16];
    (void)state;
    ip_sockaddr(ip, ip_parse(SLICE("192.0.2.1"), ip), 80, &address);
    const struct sockaddr_in *v4 = (const void *)&address;
    assert_int_equal(v4->sin_family, AF_INET);
    assert_int_equal(ntohs(v4->sin_port), 80);
    assert_int_equal(ntohl(v4->sin_addr.s_addr), 0xC0000201);
    ip_sockaddr(ip, ip_parse(SLICE("2001:db8::1"), ip), 443, &address);
    const struct sockaddr_in6 *v6 = (const void *)&address;
    assert_int_equal(v6->sin6_family, AF_INET6);
    assert_int_equal(ntohs(v6->sin6_port), 443);
    assert_memory_equal(&v6->sin6_addr, ip, 16);
}

static void networks_hold_what_their_prefix_says(void **state)
{
    static const struct {
        slice network, address;
        bool is_within;
    } cases[] = {
        {SLICE_INIT("10.1.0.0/16"), SLICE_INIT("10.1.255.255"), true},
        {SLICE_INIT("10.1.0.0/16"), SLICE_INIT("10.2.0.0"), false},
        {SLICE_INIT("10.1.0.0/16"), SLICE_INIT("::ffff:10.1.0.1"), false},
        {SLICE_INIT("192.0.2.128/25"), SLICE_INIT("192.0.2.127"), false},
        {SLICE_INIT("0.0.0.0/0"), SLICE_INIT("255.255.255.255"), true},
        {SLICE_INIT("192.0.2.1"), SLICE_INIT("192.0.2.1"), true},
        {SLICE_INIT("192.0.2.1"), SLICE_INIT("192.0.2.2"), false},
        {SLICE_INIT("fd00::/8"), SLICE_INIT("fdff::1"), true},
        {SLICE_INIT("::/0"), SLICE_INIT("10.1.0.1"), false},
        {SLICE_INIT("2001:db8::1"), SLICE_INIT("2001:db8::2"), false},
        {SLICE_INIT("2001:db8::1"), SLICE_INIT("unix"), false},
    };
    static const slice wrong[] = {SLICE_INIT(""),           SLICE_INIT("10.1.0.0/"),
                                  SLICE_INIT("10.0.0/8"),   SLICE_INIT("10.1.0.0/33"),
                                  SLICE_INIT("::/129"),     SLICE_INIT("10.1.0.0/8"),
                                  SLICE_INIT("/8"),         SLICE_INIT("10.0.0.0/8/8"),
                                  SLICE_INIT("10.0.0.0/-1")};
    struct ip_network network;
    struct err err;
    uint8_t ip[16];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(ip_network_parse(cases[i].network, &network, &err), OK);
        if (ip_network_holds(&network, ip, ip_parse(cases[i].address, ip)) != cases[i].is_within)
            fail_msg("%.*s in %.*s", SLICE_ARG(cases[i].address), SLICE_ARG(cases[i].network));
    }
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        if (ip_network_parse(wrong[i], &network, &err) != ERR_SYNTAX)
            fail_msg("%.*s", SLICE_ARG(wrong[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_forms_are_read),
        cmocka_unit_test(networks_hold_what_their_prefix_says),
        cmocka_unit_test(sockets_get_family_port_and_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
