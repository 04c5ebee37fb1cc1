/*
 * The engine under TLS sessions: threads and closing, data, pauses, limits, ends, failing memory.
 */
#include "base/metric.h"
#include "support/tls_pair.h"

static struct certs *certs;

static void a_peer_may_vanish_in_the_handshake(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        struct pair pair;
        pair_init(&pair, certs, NULL, NULL, NULL);
        pair_connect(&pair);
        WAIT_UNTIL(pair.loop, pair.accepted.got.len > 0);
        if (how == 1)
            pair_send(pair.accepted.stream, "\x16\x03\x03\x10"); /* half a record */
        if (how == 2)
            stream_reset(pair.accepted.stream);
        else if (how == 3)
            stream_close(pair.client.stream); /* or the client itself closes */
        else
            stream_shutdown(pair.accepted.stream);
        WAIT_UNTIL(pair.loop, pair.client.closed);
        assert_int_equal(pair.client.opened, 0);
        if (how < 2)
            assert_non_null(strstr(pair.client.why.text, "during the TLS handshake"));
        assert_int_equal(pair.client.why.code == OK, how == 3);
        pair_close(&pair);
        pair_deinit(&pair);
    }
}

/* A close while a thread works on the session must not free what the thread uses. */
static void closing_during_a_step_is_safe(void **state)
{
    (void)state;
    for (unsigned turns = 0; turns < 12; turns++) {
        struct pair pair;
        pair_init(&pair, certs, "rsa", NULL, NULL);
        pair_connect(&pair);
        WAIT_UNTIL(pair.loop, pair.client.stream);
        for (unsigned i = 0; i < turns; i++)
            loop_turn(pair.loop, false);
        if (pair.client.stream)
            stream_close(pair.client.stream);
        if (turns % 3 == 0 && pair.accepted.stream)
            stream_reset(pair.accepted.stream);
        WAIT_UNTIL(pair.loop, pair.client.closed);
        pair_close(&pair);
        pair_deinit(&pair);
    }
}

static void a_write_before_the_handshake_is_refused(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, certs, "ec", NULL, NULL);
    pair_connect(&pair);
    WAIT_UNTIL(pair.loop, pair.client.stream);
    slice part = SLICE("early");
    assert_int_equal(stream_write(pair.client.stream, &part, 1), ERR_INVALID);
    pair_wait_open(&pair);
    pair_close(&pair);
    pair_deinit(&pair);
}

/* ---- data ---- */

/* Odd sizes around the record and gather limits, in parts of every kind. */
static void sizes_and_parts_arrive_whole(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 8191, 8192, 8193, 16384, 16385, 3, 100000, 131072, 262144, 5};
    struct pair pair;
    pair_init(&pair, certs, "ec", NULL, NULL);
    pair_connect(&pair);
    pair_wait_open(&pair);
    size_t total = 0, len = 1 << 20;
    char *bytes = pattern_new(len);
    slice parts[ARRAY_LEN(sizes)];
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        parts[i] = slice_of(bytes + total, sizes[i]);
        total += sizes[i];
    }
    assert_int_equal(stream_write(pair.client.stream, parts, ARRAY_LEN(parts)), OK);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        assert_int_equal(stream_write(pair.accepted.stream, &parts[i], 1), OK);
    WAIT_UNTIL(pair.loop, pair.accepted.got.len == total && pair.client.got.len == total);
    assert_memory_equal(pair.accepted.got.ptr, bytes, total);
    assert_memory_equal(pair.client.got.ptr, bytes, total);
    mem_free(bytes);
    pair_close(&pair);
    pair_deinit(&pair);
}

static void a_paused_reader_loses_nothing(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, certs, "ec", NULL, NULL);
    pair_connect(&pair);
    pair_wait_open(&pair);
    size_t len = (size_t)3 << 20;
    char *bytes = pattern_new(len);
    slice part = slice_of(bytes, len);
    pair.client.pause_at = 1;
    assert_int_equal(stream_write(pair.accepted.stream, &part, 1), OK);
    size_t seen = 0;
    while (pair.client.got.len < len) { /* one record at a time: it pauses after each */
        WAIT_UNTIL(pair.loop, pair.client.got.len > seen);
        size_t now = pair.client.got.len;
        for (int i = 0; i < 2; i++)
            loop_turn(pair.loop, false);
        assert_int_equal(pair.client.got.len, now);
        seen = now;
        stream_read_start(pair.client.stream);
    }
    assert_memory_equal(pair.client.got.ptr, bytes, len);
    mem_free(bytes);
    pair_close(&pair);
    pair_deinit(&pair);
}

static void the_write_queue_is_bounded(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, certs, "ec", NULL, NULL);
    pair.write_bytes_max = 1 << 20;
    pair_connect(&pair);
    pair_wait_open(&pair);
    stream_read_stop(pair.accepted.stream); /* a peer that never reads */
    size_t len = 256 * 1024, sent = 0;
    char *bytes = pattern_new(len);
    slice part = slice_of(bytes, len);
    int code = OK;
    while (sent < ((size_t)64 << 20) && (code = stream_write(pair.client.stream, &part, 1)) == OK) {
        sent += len;
        loop_turn(pair.loop, false);
    }
    assert_int_equal(code, ERR_LIMIT);
    assert_true(stream_write_pending(pair.client.stream) <= (1 << 20) + (1 << 17));
    unsigned drained = pair.client.drained;
    stream_read_start(pair.accepted.stream); /* nothing is broken: it continues */
    WAIT_UNTIL(pair.loop, pair.accepted.got.len == sent && pair.client.drained > drained);
    assert_int_equal(stream_write(pair.client.stream, &part, 1), OK);
    WAIT_UNTIL(pair.loop, pair.accepted.got.len == sent + len);
    mem_free(bytes);
    pair_close(&pair);
    pair_deinit(&pair);
}

/* ---- endings ---- */

static void close_notify_makes_the_end_clean(void **state)
{
    (void)state;
    for (int version = TLS_VERSION_1_2; version <= TLS_VERSION_1_3; version++) {
        struct pair pair;
        struct tls_server_config server = {.version_min = version, .version_max = version};
        pair_init(&pair, certs, "ec", &server, NULL);
        pair_connect(&pair);
        pair_wait_open(&pair);
        pair_send(pair.accepted.stream, "last words");
        stream_shutdown(pair.accepted.stream);
        WAIT_UNTIL(pair.loop, pair.client.eofs);
        assert_true(pair.client.is_clean);
        assert_int_equal(pair.client.got.len, 10);
        slice part = SLICE("too late");
        assert_int_equal(stream_write(pair.accepted.stream, &part, 1), ERR_CLOSED);
        pair_send(pair.client.stream, "but I may still talk");
        WAIT_UNTIL(pair.loop, pair.accepted.got.len == 20);
        assert_int_equal(pair.client.eofs, 1);
        pair_close(&pair);
        pair_deinit(&pair);
    }
}

static void a_fin_without_close_notify_is_not_clean(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, certs, "ec", NULL, NULL);
    pair_connect(&pair);
    pair_wait_open(&pair);
    pair_send(pair.accepted.stream, "half of it");
    WAIT_UNTIL(pair.loop, pair.client.got.len == 10);
    /* the TCP stream below the server's session gets its FIN without the session's knowledge */
    struct stream *under = tls_server_under(pair.accepted.stream);
    stream_shutdown(under);
    WAIT_UNTIL(pair.loop, pair.client.eofs);
    assert_false(pair.client.is_clean);
    pair_close(&pair);
    pair_deinit(&pair);
}

static void garbage_in_an_open_session_ends_it(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, certs, "ec", NULL, NULL);
    pair_connect(&pair);
    pair_wait_open(&pair);
    struct stream *under = tls_server_under(pair.accepted.stream);
    slice forged = SLICE("\x17\x03\x03\x00\x20"
                         "0123456789abcdef0123456789abcdef");
    assert_int_equal(stream_write(under, &forged, 1), OK);
    WAIT_UNTIL(pair.loop, pair.client.closed);
    assert_int_equal(pair.client.why.code, ERR_IO);
    assert_int_equal(pair.client.got.len, 0);
    assert_int_equal(pair.client.eofs, 0);
    pair_close(&pair);
    pair_deinit(&pair);
}

static void a_reader_may_close_from_inside(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, certs, "ec", NULL, NULL);
    pair_connect(&pair);
    pair_wait_open(&pair);
    pair.client.is_close_on_read = true;
    char *bytes = pattern_new(200000);
    slice part = slice_of(bytes, 200000);
    assert_int_equal(stream_write(pair.accepted.stream, &part, 1), OK);
    WAIT_UNTIL(pair.loop, pair.client.closed);
    assert_true(pair.client.got.len <= 16384);
    mem_free(bytes);
    pair_close(&pair);
    pair_deinit(&pair);
}

static void a_reset_reaches_the_other_side(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, certs, "ec", NULL, NULL);
    pair_connect(&pair);
    pair_wait_open(&pair);
    stream_reset(pair.accepted.stream);
    WAIT_UNTIL(pair.loop, pair.client.closed || pair.client.eofs);
    assert_false(pair.client.is_clean);
    pair_close(&pair);
    pair_deinit(&pair);
}

/* Each allocation fails once, in our code and in the library: the session ends correctly, and no
 * memory is left. */
static void failing_memory_is_survived(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, certs, "ec", NULL, NULL);
    unsigned opened = 0, refused = 0;
    uint64_t hits = 1;
    for (uint64_t nth = 1; hits; nth += 1 + nth / 10) {
        pair_connect(&pair);
        WAIT_UNTIL(pair.loop, pair.tcp == NULL || pair.client.stream);
        mem_fail_at(nth, 1);
        WAIT_UNTIL(pair.loop, pair.client.closed || (pair.client.opened && pair.accepted.opened) ||
                                  pair.accepted.closed);
        hits = mem_fail_hits();
        mem_fail_at(0, 0);
        if (pair.client.opened)
            opened++;
        else
            refused++;
        pair_close(&pair);
    }
    assert_true(opened > 0 && refused > 0);
    pair_deinit(&pair);
}

/* ---- groups ---- */

static int setup(void **state)
{
    (void)state;
    loop_threads_init(4);
    certs = certs_new();
    static const struct cert_spec ec = {.file = "ec", .dns = {"localhost"}};
    static const struct cert_spec rsa = {.file = "rsa", .dns = {"localhost"}, .rsa_bits = 2048};
    certs_add(certs, &ec);
    certs_add(certs, &rsa);
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
        cmocka_unit_test(a_peer_may_vanish_in_the_handshake),
        cmocka_unit_test(closing_during_a_step_is_safe),
        cmocka_unit_test(a_write_before_the_handshake_is_refused),
        cmocka_unit_test(sizes_and_parts_arrive_whole),
        cmocka_unit_test(a_paused_reader_loses_nothing),
        cmocka_unit_test(the_write_queue_is_bounded),
        cmocka_unit_test(close_notify_makes_the_end_clean),
        cmocka_unit_test(a_fin_without_close_notify_is_not_clean),
        cmocka_unit_test(garbage_in_an_open_session_ends_it),
        cmocka_unit_test(a_reader_may_close_from_inside),
        cmocka_unit_test(a_reset_reaches_the_other_side),
        cmocka_unit_test(failing_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
