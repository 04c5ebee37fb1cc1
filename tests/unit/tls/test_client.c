/*
 * TLS sessions with our own server half: versions, keys, the certificate matrix, resumption, data
 * in both directions, ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/metric.h"
#include "support/tls_pair.h"
#include "tls/context.h"

static struct certs *certs;

/* ---- handshakes ---- */

struct way {
    const char *cert;
    enum tls_version version;
    const char *name;
};

static void a_session_carries_bytes_both_ways(void **state)
{
    (void)state;
    static const struct way ways[] = {
        {"ec", TLS_VERSION_1_2, "TLSv1.2"},      {"ec", TLS_VERSION_1_3, "TLSv1.3"},
        {"rsa", TLS_VERSION_1_2, "TLSv1.2"},     {"rsa", TLS_VERSION_1_3, "TLSv1.3"},
        {"chained", TLS_VERSION_ANY, "TLSv1.3"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct pair pair;
        struct tls_server_config server = {.version_min = ways[i].version,
                                           .version_max = ways[i].version};
        pair_init(&pair, certs, ways[i].cert, &server, NULL);
        pair_connect(&pair);
        pair_wait_open(&pair);
        struct tls_info info = tls_client_info(pair.client.stream);
        assert_string_equal(info.version, ways[i].name);
        assert_false(info.is_resumed);
        assert_true(info.handshake_cpu_ns > 0);
        assert_true(strstr(info.ciphersuite, "GCM") || strstr(info.ciphersuite, "POLY1305"));
        slice parts[] = {SLICE("GET / "), SLICE(""), SLICE("HTTP/1.1\r\n")};
        assert_int_equal(stream_write(pair.client.stream, parts, 3), OK);
        WAIT_UNTIL(pair.loop, pair.accepted.got.len == 16);
        assert_memory_equal(pair.accepted.got.ptr, "GET / HTTP/1.1\r\n", 16);
        pair_send(pair.accepted.stream, "hello");
        WAIT_UNTIL(pair.loop, pair.client.got.len == 5);
        assert_memory_equal(pair.client.got.ptr, "hello", 5);
        struct sockaddr_storage peer;
        assert_int_equal(stream_peer(pair.client.stream, (struct sockaddr *)&peer, sizeof(peer)),
                         OK);
        assert_int_equal(peer.ss_family, AF_INET);
        pair_close(&pair);
        assert_int_equal(pair.client.why.code, OK);
        pair_deinit(&pair);
    }
}

static void a_name_is_required(void **state)
{
    (void)state;
    static const char *const bad[] = {"",          ".",   "a b",        "a..b",  ".a",  "-\x01",
                                      "host/path", "*.a", "1.2.3.4.5.", "[::1]", "a\0b"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct pair pair;
        pair_init(&pair, certs, "ec", NULL, NULL);
        pair.name = i + 1 == ARRAY_LEN(bad) ? SLICE("a\0b") : slice_cstr(bad[i]);
        bool may_be_name = strcmp(bad[i], "1.2.3.4.5.") == 0; /* odd, but labels */
        pair_connect(&pair);
        WAIT_UNTIL(pair.loop, pair.client.closed);
        if (may_be_name)
            assert_int_equal(pair.client.why.code, ERR_CRYPTO);
        else
            assert_int_equal(pair.start_err.code, ERR_INVALID);
        pair_close(&pair);
        pair_deinit(&pair);
    }
}

struct matrix_row {
    const char *cert, *name; /* the certificate that is served, and the requested name */
    const char *ca;          /* NULL: ca.pem */
    const char *want;        /* a part of the message; NULL: accepted */
};

static const struct matrix_row matrix[] = {
    {"ec", "localhost", NULL, NULL},
    {"ec", "LocalHost.", NULL, NULL},
    {"ec", "a.wild.test", NULL, NULL},
    {"ec", "127.0.0.1", NULL, NULL},
    {"ec", "::1", NULL, NULL},
    {"ec", "0:0:0::1", NULL, NULL},
    {"self", "localhost", "self.pem", NULL},
    {"chained", "localhost", NULL, NULL},
    {"ec", "a.b.wild.test", NULL, "is not for host a.b.wild.test but for "},
    {"ec", "wild.test", NULL, "is not for host wild.test"},
    {"ec", "localhost.evil.test", NULL, "is not for host"},
    {"ec", "127.0.0.2", NULL, "is not for host 127.0.0.2"},
    {"ec", "::2", NULL, "is not for host ::2"},
    {"iponly", "localhost", NULL, "is not for host localhost but for 127.0.0.1"},
    {"dnsip", "127.0.0.1", NULL, "is not for host 127.0.0.1"},
    {"cnonly", "localhost", NULL, "no subjectAltName"},
    {"expired", "localhost", NULL, "has expired (valid until 2021-01-01T00:00:00.000Z)"},
    {"future", "localhost", NULL, "is not valid yet (valid from 2098-01-01T00:00:00.000Z)"},
    {"self", "localhost", NULL, "is self-signed; pass its PEM with --ca-file"},
    {"foreign", "localhost", NULL, "comes from an unknown issuer; pass the issuer's PEM"},
    {"ec", "localhost", "other.pem", "unknown issuer"},
    {"weak", "localhost", NULL, "too weak"},
};

static void certificates_are_judged(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * ARRAY_LEN(matrix); i++) {
        const struct matrix_row *row = &matrix[i / 2];
        struct pair pair;
        struct tls_config client = {.ca_file = row->ca ? certs_path(certs, row->ca) : NULL};
        enum tls_version version = i % 2 ? TLS_VERSION_1_2 : TLS_VERSION_1_3;
        struct tls_server_config server = {.version_min = version, .version_max = version};
        pair_init(&pair, certs, row->cert, &server, &client);
        pair.name = slice_cstr(row->name);
        pair_connect(&pair);
        WAIT_UNTIL(pair.loop, pair.client.opened || pair.client.closed);
        if (!row->want && !pair.client.opened)
            fail_msg("%s as %s: %s", row->cert, row->name, pair.client.why.text);
        if (row->want) {
            assert_int_equal(pair.client.opened, 0);
            if (pair.client.why.code != ERR_CRYPTO || !strstr(pair.client.why.text, row->want))
                fail_msg("%s as %s: %s", row->cert, row->name, pair.client.why.text);
            assert_int_equal(pair.context->sessions.by_key.count, 0);
            /* the server notices the refusal, and gets no byte of a request */
            WAIT_UNTIL(pair.loop, pair.accepted.closed);
            assert_int_equal(pair.accepted.got.len, 0);
        }
        pair_close(&pair);
        pair_deinit(&pair);
    }
}

static void versions_must_meet(void **state)
{
    (void)state;
    struct pair pair;
    struct tls_server_config server = {.version_max = TLS_VERSION_1_2};
    struct tls_config client = {.version_min = TLS_VERSION_1_3};
    pair_init(&pair, certs, "ec", &server, &client);
    pair_connect(&pair);
    WAIT_UNTIL(pair.loop, pair.client.closed && pair.accepted.closed);
    assert_int_equal(pair.client.why.code, ERR_IO);
    if (!strstr(pair.client.why.text, "version"))
        fail_msg("%s", pair.client.why.text);
    pair_deinit(&pair);
}

static void a_plain_server_is_named_as_such(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, certs, NULL, NULL, NULL);
    pair_connect(&pair);
    WAIT_UNTIL(pair.loop, pair.accepted.got.len > 0);
    pair_send(pair.accepted.stream, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    WAIT_UNTIL(pair.loop, pair.client.closed);
    assert_non_null(strstr(pair.client.why.text, "does not speak TLS on this port"));
    pair_close(&pair);
    pair_deinit(&pair);
}

/* ---- resumption ---- */

static bool connect_and_ping(struct pair *pair)
{
    pair_connect(pair);
    pair_wait_open(pair);
    pair_send(pair->accepted.stream, "x"); /* in TLS 1.3, the tickets arrive before these bytes */
    WAIT_UNTIL(pair->loop, pair->client.got.len == 1);
    bool is_resumed = tls_client_info(pair->client.stream).is_resumed;
    pair_close(pair);
    return is_resumed;
}

static double count_handshakes(const char *labels)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    metric_render(&text);
    buf_append_char(&text, '\0');
    char name[80];
    snprintf(name, sizeof(name), "\nsluice_tls_handshakes_total{kind=\"%s\"} ", labels);
    const char *at = strstr(text.ptr, name);
    double value = at ? strtod(at + strlen(name), NULL) : 0;
    buf_deinit(&text);
    return value;
}

static void the_second_connection_resumes(void **state)
{
    (void)state;
    static const struct way ways[] = {
        {"ec", TLS_VERSION_1_2, ""},
        {"rsa", TLS_VERSION_1_2, ""},
        {"ec", TLS_VERSION_1_3, ""},
        {"rsa", TLS_VERSION_1_3, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct pair pair;
        struct tls_server_config server = {.version_min = ways[i].version,
                                           .version_max = ways[i].version};
        pair_init(&pair, certs, ways[i].cert, &server, NULL);
        double full = count_handshakes("full"), resumed = count_handshakes("resumed");
        assert_false(connect_and_ping(&pair));
        assert_int_equal(pair.context->sessions.by_key.count, 1);
        assert_true(connect_and_ping(&pair));
        assert_true(connect_and_ping(&pair)); /* the new session can also be resumed */
        assert_int_equal(pair.context->sessions.by_key.count, 1);
        assert_true(count_handshakes("full") - full == 1);
        assert_true(count_handshakes("resumed") - resumed == 2);
        /* another name has another session, even if the server is the same */
        pair.name = SLICE("x.wild.test");
        assert_false(connect_and_ping(&pair));
        assert_int_equal(pair.context->sessions.by_key.count, 2);
        /* a session cannot be used to connect under a name that is not in the certificate */
        pair.name = SLICE("evil.test");
        pair_connect(&pair);
        WAIT_UNTIL(pair.loop, pair.client.closed);
        assert_int_equal(pair.client.why.code, ERR_CRYPTO);
        pair_close(&pair);
        pair_deinit(&pair);
    }
}

static void a_server_that_forgot_gets_a_full_handshake(void **state)
{
    (void)state;
    for (int version = TLS_VERSION_1_2; version <= TLS_VERSION_1_3; version++) {
        struct pair pair, other;
        struct tls_server_config server = {.version_min = version, .version_max = version};
        pair_init(&pair, certs, "ec", &server, NULL);
        assert_false(connect_and_ping(&pair));
        pair_init(&other, certs, "ec", &server, NULL); /* has other ticket keys */
        struct tls_server *swap = pair.server;
        pair.server = other.server;
        other.server = swap;
        assert_false(connect_and_ping(&pair));
        assert_true(connect_and_ping(&pair));
        pair_deinit(&other);
        pair_deinit(&pair);
    }
}

static void resumption_can_be_off_and_contexts_do_not_share(void **state)
{
    (void)state;
    struct pair pair;
    struct tls_config off = {.is_resumption_off = true};
    pair_init(&pair, certs, "ec", NULL, &off);
    assert_false(connect_and_ping(&pair));
    assert_false(connect_and_ping(&pair));
    assert_int_equal(pair.context->sessions.by_key.count, 0);
    struct tls_config on = {.ca_file = certs_path(certs, "ca.pem")};
    struct err err;
    for (int i = 0; i < 2; i++) { /* after a reload, the new context has no sessions */
        tls_context_unref(pair.context);
        pair.context = tls_context_new(&on, &err);
        assert_non_null(pair.context);
        assert_false(connect_and_ping(&pair));
    }
    assert_true(connect_and_ping(&pair));
    pair_deinit(&pair);
}

static void a_session_outlives_its_context_owner(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, certs, "ec", NULL, NULL);
    pair_connect(&pair);
    pair_wait_open(&pair);
    tls_context_unref(pair.context);
    pair.context = NULL;
    tls_server_unref(pair.server);
    pair.server = NULL;
    pair_send(pair.client.stream, "still there");
    WAIT_UNTIL(pair.loop, pair.accepted.got.len == 11);
    pair_close(&pair);
    pair_deinit(&pair);
}

/* ---- groups ---- */

static int setup(void **state)
{
    (void)state;
    loop_threads_init(4);
    certs = certs_new();
    static const struct cert_spec specs[] = {
        {.file = "ec", .dns = {"localhost", "*.wild.test"}, .ip = {"127.0.0.1", "::1"}},
        {.file = "rsa", .dns = {"localhost", "*.wild.test"}, .rsa_bits = 2048},
        {.file = "chained", .dns = {"localhost"}, .signer = CERT_BY_INTERMEDIATE},
        {.file = "iponly", .ip = {"127.0.0.1"}},
        {.file = "dnsip", .dns = {"127.0.0.1"}},
        {.file = "cnonly", .cn = "localhost"},
        {.file = "expired", .dns = {"localhost"}, .to = "20210101000000"},
        {.file = "future", .dns = {"localhost"}, .from = "20980101000000"},
        {.file = "self", .dns = {"localhost"}, .signer = CERT_BY_ITSELF},
        {.file = "foreign", .dns = {"localhost"}, .signer = CERT_BY_OTHER_CA},
        {.file = "weak", .dns = {"localhost"}, .rsa_bits = 1024},
    };
    for (size_t i = 0; i < ARRAY_LEN(specs); i++)
        certs_add(certs, &specs[i]);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    certs_free(certs);
    tls_library_deinit();
    return unit_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_carries_bytes_both_ways),
        cmocka_unit_test(a_name_is_required),
        cmocka_unit_test(certificates_are_judged),
        cmocka_unit_test(versions_must_meet),
        cmocka_unit_test(a_plain_server_is_named_as_such),
        cmocka_unit_test(the_second_connection_resumes),
        cmocka_unit_test(a_server_that_forgot_gets_a_full_handshake),
        cmocka_unit_test(resumption_can_be_off_and_contexts_do_not_share),
        cmocka_unit_test(a_session_outlives_its_context_owner),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
