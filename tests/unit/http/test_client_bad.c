/*
 * Misbehaving peers of the outbound client: garbage, ambiguous, endless and slow replies, and
 * resets at each point. Also every deadline.
 */
#include <netinet/in.h>
#include <pthread.h>

#include "support/certs.h"
#include "support/http_caller.h"
#include "unit.h"

static void assert_result(const struct caller *caller, enum http_call_result result)
{
    assert_int_equal(caller->start_code, OK);
    if (caller->call.result != result)
        fail_msg("%s, not %s: %s", http_call_result_name(caller->call.result),
                 http_call_result_name(result), caller->call.err.text);
    assert_true(caller->call.err.code != OK && strlen(caller->call.err.text) > 10);
}

/* Makes one call with one script. The connection may not be kept. */
static void expect(const struct peer_script *script, const struct http_client_config *config,
                   enum http_call_result result, const char *sentence)
{
    struct caller_world world;
    struct caller caller;
    caller_world_init(&world, config, NULL, NULL, script, 1);
    caller_get(&caller, &world, "/");
    if (caller.call.result != result)
        fail_msg("\"%.60s\": %s, not %s: %s", script->reply,
                 http_call_result_name(caller.call.result), http_call_result_name(result),
                 caller.call.err.text);
    if (sentence && !strstr(caller.call.err.text, sentence))
        fail_msg("\"%.60s\": %s", script->reply, caller.call.err.text);
    assert_true(caller.call.is_any_byte_sent);
    assert_int_equal(http_client_stats(world.client).connections, 0);
    caller_deinit(&caller);
    caller_world_deinit(&world);
}

/* ---- replies that may not be trusted ---- */

#define HEAD "HTTP/1.1 200 OK\r\n"

static const char *const garbage[] = {
    "garbage\r\n\r\n",
    "SSH-2.0-OpenSSH_9\r\n",
    "\x16\x03\x03\x00\x02\x02\x28",
    "<html>no</html>\r\n\r\n",
    "HTTP/1.1\r\n\r\n",
    "HTTP/1.1 \r\n\r\n",
    "HTTP/1.1 20 OK\r\n\r\n",
    "HTTP/1.1 2000 OK\r\n\r\n",
    "HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 600 High\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 -20 OK\r\n\r\n",
    "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/0.9 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.9 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTPS/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "ICY 200 OK\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    HEAD "No colon\r\n\r\n",
    HEAD ": no name\r\n\r\n",
    HEAD "Bad name: x\r\n\r\n",
    HEAD "Space : x\r\nContent-Length: 0\r\n\r\n",
    HEAD "A: b\r\n folded\r\nContent-Length: 0\r\n\r\n",
    HEAD "A: b\r\n\tfolded\r\nContent-Length: 0\r\n\r\n",
    HEAD " A: b\r\nContent-Length: 0\r\n\r\n",
    HEAD "A: b\nContent-Length: 0\r\n\r\n",
    HEAD "A: b\rB: c\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    HEAD "A: \x01\r\nContent-Length: 0\r\n\r\n",
    /* lengths */
    HEAD "Content-Length: x\r\n\r\n",
    HEAD "Content-Length: -1\r\n\r\n",
    HEAD "Content-Length: +1\r\n\r\na",
    HEAD "Content-Length: 1 2\r\n\r\na",
    HEAD "Content-Length: 1, 1\r\n\r\na",
    HEAD "Content-Length: 0x1\r\n\r\na",
    HEAD "Content-Length:\r\n\r\n",
    HEAD "Content-Length: 99999999999999999999999\r\n\r\n",
    HEAD "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    HEAD "Content-Length: 1\r\ncontent-length: 1\r\n\r\na",
    HEAD "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    HEAD "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    HEAD "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    HEAD "Transfer-Encoding: identity\r\n\r\n",
    HEAD "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    HEAD "Transfer-Encoding: chunked;a=b\r\n\r\n0\r\n\r\n",
    "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    /* chunks */
    HEAD "Transfer-Encoding: chunked\r\n\r\nx\r\n",
    HEAD "Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    HEAD "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
    HEAD "Transfer-Encoding: chunked\r\n\r\n1 \r\na\r\n0\r\n\r\n",
    HEAD "Transfer-Encoding: chunked\r\n\r\n1\na\n0\n\n",
    HEAD "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    HEAD "Transfer-Encoding: chunked\r\n\r\n\r\na\r\n0\r\n\r\n",
    HEAD "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    /* protocols that were not requested */
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
};

static void garbage_is_refused_whole_and_byte_by_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * ARRAY_LEN(garbage); i++) {
        struct peer_script script = {
            .reply = garbage[i / 2], .is_trickled = i % 2 == 1, .then = PEER_FIN};
        struct caller_world world;
        struct caller caller;
        caller_world_init(&world, NULL, NULL, NULL, &script, 1);
        caller_get(&caller, &world, "/");
        if (caller.call.result == HTTP_CALL_OK)
            fail_msg("taken: \"%s\"", garbage[i / 2]);
        if (caller.call.result != HTTP_CALL_PROTOCOL)
            fail_msg("\"%s\": %s: %s", garbage[i / 2], http_call_result_name(caller.call.result),
                     caller.call.err.text);
        assert_int_equal(http_client_stats(world.client).connections, 0);
        caller_deinit(&caller);
        caller_world_deinit(&world);
    }
}

static void a_nul_in_the_head_is_refused(void **state)
{
    (void)state;
    static const char value[] = HEAD "A: b\0c\r\nContent-Length: 0\r\n\r\n";
    static const char name[] = HEAD "A\0: b\r\nContent-Length: 0\r\n\r\n";
    expect(&(struct peer_script){.reply = value, .reply_len = sizeof(value) - 1}, NULL,
           HTTP_CALL_PROTOCOL, NULL);
    expect(&(struct peer_script){.reply = name, .reply_len = sizeof(name) - 1}, NULL,
           HTTP_CALL_PROTOCOL, NULL);
}

static void endless_heads_are_cut(void **state)
{
    (void)state;
    expect(&(struct peer_script){.reply = HEAD "A: bbbbbbbbbbbbbbbb",
                                 .then = PEER_ENDLESS,
                                 .repeat = 8},
           NULL, HTTP_CALL_PROTOCOL, "head that is too large");
    expect(
        &(struct peer_script){.reply = HEAD "Aaaaaaaaaaaaaaaa", .then = PEER_ENDLESS, .repeat = 8},
        NULL, HTTP_CALL_PROTOCOL, "head that is too large");
    expect(&(struct peer_script){.reply = HEAD "A: b\r\n", .then = PEER_ENDLESS, .repeat = 6}, NULL,
           HTTP_CALL_PROTOCOL, "too many headers");
    expect(&(struct peer_script){.reply = "HTTP/1.1 200 Oooooooooo",
                                 .then = PEER_ENDLESS,
                                 .repeat = 8},
           NULL, HTTP_CALL_PROTOCOL, "framing");
    expect(&(struct peer_script){.reply = "HTTP/1.1 100 Continue\r\n\r\n",
                                 .then = PEER_ENDLESS,
                                 .repeat = 25},
           NULL, HTTP_CALL_PROTOCOL, "too many interim replies");
    expect(
        &(struct peer_script){.reply = HEAD "Transfer-Encoding: chunked\r\n\r\n1;a=bbbbbbbbbbbbbb",
                              .then = PEER_ENDLESS,
                              .repeat = 8},
        NULL, HTTP_CALL_PROTOCOL, "framing");
    expect(&(struct peer_script){.reply = HEAD "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n",
                                 .then = PEER_ENDLESS,
                                 .repeat = 6},
           NULL, HTTP_CALL_PROTOCOL, "framing");
}

/* ---- bodies over the limit ---- */

static void too_large(const char *reply, size_t repeat, size_t body_len)
{
    struct http_client_config config = {.response_bytes_max = 1000};
    struct peer_script script = {
        .reply = reply, .then = repeat ? PEER_ENDLESS : PEER_KEEP, .repeat = repeat};
    struct caller_world world;
    struct caller caller;
    caller_world_init(&world, &config, NULL, NULL, &script, 1);
    caller_get(&caller, &world, "/");
    assert_result(&caller, HTTP_CALL_TOO_LARGE);
    assert_int_equal(caller.call.status, 200);
    assert_true(slice_eq_cstr(http_call_header(&caller.call, SLICE("X-Kept")), "yes"));
    assert_int_equal(caller.call.body.len, body_len);
    for (size_t i = 0; i < body_len; i++)
        assert_int_equal(caller.call.body.ptr[i], 'b');
    assert_int_equal(http_client_stats(world.client).connections, 0);
    caller_deinit(&caller);
    caller_world_deinit(&world);
}

static void bodies_over_the_limit_are_cut(void **state)
{
    (void)state;
    too_large(HEAD "X-Kept: yes\r\nContent-Length: 1001\r\n\r\nbbb", 0, 0);
    too_large(HEAD "X-Kept: yes\r\nContent-Length: 9223372036854775807\r\n\r\nbbb", 0, 0);
    too_large(HEAD "X-Kept: yes\r\n\r\nbbbbbbbb", 8, 1000);
    too_large(HEAD "X-Kept: yes\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\nbbbbbbbb", 8, 1000);
    too_large(HEAD "X-Kept: yes\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbb\r\n", 7, 1000);
}

static void a_body_at_the_limit_is_taken(void **state)
{
    (void)state;
    struct http_client_config config = {.response_bytes_max = 4};
    static const struct peer_script scripts[] = {
        {.reply = HEAD "Content-Length: 4\r\n\r\nbbbb"},
        {.reply = HEAD "Transfer-Encoding: chunked\r\n\r\n4\r\nbbbb\r\n0\r\n\r\n"},
    };
    struct caller_world world;
    caller_world_init(&world, &config, NULL, NULL, scripts, 2);
    for (int i = 0; i < 2; i++) {
        struct caller caller;
        caller_get(&caller, &world, "/");
        assert_int_equal(caller.call.result, HTTP_CALL_OK);
        assert_int_equal(caller.call.body.len, 4);
        caller_deinit(&caller);
    }
    /* the owner's arena is also a limit */
    struct caller caller;
    caller_init(&caller, &world, "/");
    caller_start(&caller, &world, 16);
    caller_wait(&caller);
    assert_result(&caller, HTTP_CALL_OVERLOADED);
    caller_deinit(&caller);
    caller_world_deinit(&world);
}

/* ---- a reply cut at each byte ---- */

static void a_reply_may_end_at_each_byte(void **state)
{
    (void)state;
    static const char *const replies[] = {
        HEAD "Content-Length: 3\r\n\r\nabc",
        HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    };
    for (size_t r = 0; r < ARRAY_LEN(replies); r++) {
        size_t len = strlen(replies[r]);
        for (size_t cut = 0; cut < 2 * len; cut++) {
            struct peer_script script = {.reply = cut / 2 ? replies[r] : NULL,
                                         .reply_len = cut / 2,
                                         .then = cut % 2 ? PEER_RESET : PEER_FIN};
            struct caller_world world;
            struct caller caller;
            caller_world_init(&world, NULL, NULL, NULL, &script, 1);
            caller_get(&caller, &world, "/");
            assert_result(&caller, HTTP_CALL_RESET);
            const char *when = cut / 2 ? "in the middle of the reply" : "before it replied";
            /* a reset may overtake earlier bytes */
            if (cut % 2 == 0 && !strstr(caller.call.err.text, when))
                fail_msg("cut at %zu: %s", cut / 2, caller.call.err.text);
            assert_false(caller.call.is_resent);
            caller_deinit(&caller);
            caller_world_deinit(&world);
        }
    }
}

/* ---- deadlines ---- */

struct late_row {
    const struct peer_script script;
    unsigned first_byte_ms, between_ms, deadline_ms;
    const char *sentence;
};

/* Returns false if the machine was paused, so the deadline passed before anything was sent. */
static bool is_late_as_expected(const struct late_row *row)
{
    struct caller_world world;
    struct caller caller;
    caller_world_init(&world, NULL, NULL, NULL, &row->script, 1);
    caller_init(&caller, &world, "/");
    caller.call.first_byte_ms = row->first_byte_ms;
    caller.call.between_bytes_ms = row->between_ms;
    caller.deadline_in_ms = row->deadline_ms;
    caller_start(&caller, &world, (size_t)64 << 20);
    caller_wait(&caller);
    bool is_sent = caller.call.is_any_byte_sent;
    if (is_sent || !row->deadline_ms) {
        assert_result(&caller, HTTP_CALL_TIMEOUT);
        if (!strstr(caller.call.err.text, row->sentence))
            fail_msg("\"%s\": %s", row->sentence, caller.call.err.text);
        assert_true(is_sent);
    }
    assert_int_equal(http_client_stats(world.client).connections, 0);
    caller_deinit(&caller);
    caller_world_deinit(&world);
    return is_sent;
}

static void every_wait_is_bounded(void **state)
{
    (void)state;
    static const struct late_row rows[] = {
        {{.then = PEER_DEAF}, 20, 0, 0, "waiting for the reply"},
        {{.then = PEER_DEAF}, 0, 0, 20, "the call's deadline passed"},
        {{.reply = "HTTP/1.1 2", .then = PEER_DEAF}, 0, 20, 0, "the rest of the reply"},
        {{.reply = HEAD "Content-Length: 5\r\n\r\nabc", .then = PEER_DEAF}, 0, 20, 0, "the rest"},
        {{.reply = HEAD "Content-Length: 5\r\n\r\nabc", .then = PEER_DEAF}, 0, 0, 20, "deadline"},
        {{.reply = HEAD "\r\nabc", .then = PEER_DEAF}, 0, 20, 0, "the rest of the reply"},
        /* bytes arrive continually, but the end of the reply does not */
        {{.reply = HEAD "\r\nabc", .then = PEER_ENDLESS, .repeat = 1}, 0, 1000, 20, "deadline"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        while (!is_late_as_expected(&rows[i]))
            continue;
}

static void a_peer_that_does_not_read_the_body(void **state)
{
    (void)state;
    static const struct peer_script deaf[] = {{.is_on_head = true, .then = PEER_DEAF}};
    struct caller_world world;
    struct caller caller;
    caller_world_init(&world, NULL, NULL, NULL, deaf, 1);
    caller_init(&caller, &world, "/");
    size_t len = (size_t)64 << 20;
    char *bytes = mem_zalloc(len);
    slice body = slice_of(bytes, len);
    caller.call.method = SLICE("POST");
    caller.call.body_parts = &body;
    caller.call.body_part_count = 1;
    caller.call.first_byte_ms = 50;
    caller_start(&caller, &world, 1 << 20);
    caller_wait(&caller);
    assert_result(&caller, HTTP_CALL_TIMEOUT);
    assert_non_null(strstr(caller.call.err.text, "sending the request"));
    caller_deinit(&caller);
    caller_world_deinit(&world);
    mem_free(bytes);
}

static void a_handshake_that_never_ends(void **state)
{
    struct certs *certs = *state;
    static const struct peer_script deaf[] = {{.then = PEER_DEAF}};
    for (int i = 0; i < 2; i++) {
        struct caller_world world;
        struct caller caller;
        struct err err;
        struct tls_config roots = {.ca_file = certs_path(certs, "ca.pem")};
        caller_world_init(&world, NULL, NULL, tls_context_new(&roots, &err), deaf, 1);
        caller_init(&caller, &world, "/");
        snprintf(caller.url, sizeof(caller.url), "https://127.0.0.1:%u/",
                 http_peer_port(&world.peer));
        caller.call.url = slice_cstr(caller.url);
        if (i == 0)
            caller.call.connect_ms = 30;
        else
            caller.call.deadline_ns = loop_now_ns(world.loop) + 30000000;
        caller_start(&caller, &world, 1 << 20);
        caller_wait(&caller);
        assert_result(&caller, HTTP_CALL_TIMEOUT_CONNECT);
        assert_false(caller.call.is_any_byte_sent);
        caller_deinit(&caller);
        caller_world_deinit(&world);
    }
}

static void a_peer_that_is_not_tls_or_not_there(void **state)
{
    struct certs *certs = *state;
    static const struct peer_script hello[] = {
        {.reply = "220 mail.example ESMTP\r\n", .is_on_connect = true, .then = PEER_DEAF}};
    struct caller_world world;
    struct caller caller;
    struct err err;
    struct tls_config roots = {.ca_file = certs_path(certs, "ca.pem")};
    caller_world_init(&world, NULL, NULL, tls_context_new(&roots, &err), hello, 1);
    caller_init(&caller, &world, "/");
    snprintf(caller.url, sizeof(caller.url), "https://127.0.0.1:%u/", http_peer_port(&world.peer));
    caller.call.url = slice_cstr(caller.url);
    caller_start(&caller, &world, 1 << 20);
    caller_wait(&caller);
    assert_result(&caller, HTTP_CALL_TLS);
    assert_non_null(strstr(caller.call.err.text, "does not speak TLS"));
    caller_deinit(&caller);
    caller_init(&caller, &world, "/");
    caller.call.url = SLICE("http://127.0.0.1:1/");
    caller_start(&caller, &world, 1 << 20);
    caller_wait(&caller);
    assert_result(&caller, HTTP_CALL_CONNECT);
    assert_string_equal(caller.call.remote, "127.0.0.1:1");
    assert_false(caller.call.is_any_byte_sent);
    caller_deinit(&caller);
    caller_world_deinit(&world);
}

/* A resolver that answers only when the test allows it. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static int gated_lookup(const char *name, struct dns_addresses *out, const char **cause)
{
    (void)name;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    out->count = 0;
    *cause = "gate";
    return ERR_NOTFOUND;
}

static void a_slow_resolver_is_inside_the_deadline(void **state)
{
    (void)state;
    static const struct peer_script none[] = {{.then = PEER_DEAF}};
    struct caller_world world;
    struct caller caller;
    struct dns_config dns = {.lookup = gated_lookup};
    pthread_mutex_lock(&gate);
    caller_world_init(&world, NULL, &dns, NULL, none, 1);
    for (int i = 0; i < 3; i++) {
        caller_init(&caller, &world, "/");
        caller.call.url = SLICE("http://localhost/");
        if (i == 0)
            caller.call.connect_ms = 20;
        if (i == 1)
            caller.call.deadline_ns = loop_now_ns(world.loop) + 20000000;
        caller_start(&caller, &world, 1 << 20);
        if (i == 2) {
            while (!http_call_is_active(&caller.call))
                loop_turn(world.loop, false);
            http_call_cancel(&caller.call);
        }
        caller_wait(&caller);
        assert_result(&caller, i == 2 ? HTTP_CALL_CANCELLED : HTTP_CALL_TIMEOUT_CONNECT);
        assert_false(caller.call.is_any_byte_sent);
        caller_deinit(&caller);
    }
    pthread_mutex_unlock(&gate);
    caller_world_deinit(&world);
}

static int setup(void **state)
{
    loop_threads_init(4);
    struct certs *certs = certs_new();
    *state = certs;
    return 0;
}

static int teardown(void **state)
{
    certs_free(*state);
    tls_library_deinit();
    return unit_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(garbage_is_refused_whole_and_byte_by_byte),
        cmocka_unit_test(a_nul_in_the_head_is_refused),
        cmocka_unit_test(endless_heads_are_cut),
        cmocka_unit_test(bodies_over_the_limit_are_cut),
        cmocka_unit_test(a_body_at_the_limit_is_taken),
        cmocka_unit_test(a_reply_may_end_at_each_byte),
        cmocka_unit_test(every_wait_is_bounded),
        cmocka_unit_test(a_peer_that_does_not_read_the_body),
        cmocka_unit_test(a_handshake_that_never_ends),
        cmocka_unit_test(a_peer_that_is_not_tls_or_not_there),
        cmocka_unit_test(a_slow_resolver_is_inside_the_deadline),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
