/*
 * The pool of the outbound client: reuse, limits, queues, stale connections, cancelling, closing,
 * failing allocations.
 */
#include "base/clock.h"
#include "support/certs.h"
#include "support/http_caller.h"
#include "unit.h"

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static const struct peer_script keep_ok[] = {{.reply = OK_REPLY}};
static const struct peer_script silent[] = {{.reply = NULL, .then = PEER_DEAF}};

static void assert_result(const struct caller *caller, enum http_call_result result)
{
    assert_int_equal(caller->start_code, OK);
    if (caller->call.result != result)
        fail_msg("%s, not %s: %s", http_call_result_name(caller->call.result),
                 http_call_result_name(result), caller->call.err.text);
}

static void get(struct caller_world *world, bool is_reused)
{
    struct caller caller;
    caller_get(&caller, world, "/");
    assert_result(&caller, HTTP_CALL_OK);
    assert_int_equal(caller.call.is_reused, is_reused);
    caller_deinit(&caller);
}

/* ---- reuse and limits ---- */

static void connections_are_reused_newest_first(void **state)
{
    (void)state;
    struct caller_world world;
    struct caller callers[3];
    caller_world_init(&world, NULL, NULL, NULL, keep_ok, 1);
    for (int i = 0; i < 3; i++)
        get(&world, i > 0);
    assert_int_equal(world.peer.connections, 1);
    for (int i = 0; i < 3; i++) {
        caller_init(&callers[i], &world, "/");
        caller_start(&callers[i], &world, 1 << 20);
    }
    for (int i = 0; i < 3; i++)
        caller_wait(&callers[i]);
    assert_int_equal(world.peer.connections, 3);
    struct http_client_stats stats = http_client_stats(world.client);
    assert_int_equal(stats.idle, 3);
    assert_int_equal(stats.connections, 3);
    assert_int_equal(stats.calls_active, 0);
    for (int i = 0; i < 3; i++)
        caller_deinit(&callers[i]);
    get(&world, true);
    caller_world_deinit(&world);
}

static void too_many_idle_ones_are_closed(void **state)
{
    (void)state;
    struct http_client_config config = {.idle_per_origin = 2};
    struct caller_world world;
    struct caller callers[4];
    caller_world_init(&world, &config, NULL, NULL, keep_ok, 1);
    for (int i = 0; i < 4; i++) {
        caller_init(&callers[i], &world, "/");
        caller_start(&callers[i], &world, 1 << 20);
    }
    for (int i = 0; i < 4; i++)
        caller_wait(&callers[i]);
    assert_int_equal(world.peer.connections, 4);
    assert_int_equal(http_client_stats(world.client).idle, 2);
    WAIT_UNTIL(world.loop, world.peer.open_count == 2);
    for (int i = 0; i < 4; i++)
        caller_deinit(&callers[i]);
    caller_world_deinit(&world);
}

static void idle_connections_end_by_time_or_by_the_peer(void **state)
{
    (void)state;
    struct http_client_config config = {.idle_ms = 20};
    struct caller_world world;
    caller_world_init(&world, &config, NULL, NULL, keep_ok, 1);
    bool is_kept, is_over;
    do { /* if the machine was paused, its time may already be over */
        uint64_t began_ns = clock_mono_ns();
        get(&world, false);
        is_kept = http_client_stats(world.client).idle == 1;
        is_over = clock_mono_ns() - began_ns >= config.idle_ms * 1000000ull;
        WAIT_UNTIL(world.loop, http_client_stats(world.client).connections == 0);
        WAIT_UNTIL(world.loop, world.peer.open_count == 0);
    } while (!is_kept && is_over);
    assert_true(is_kept);
    assert_int_equal(http_client_stats(world.client).origins, 0);
    get(&world, false);
    caller_world_deinit(&world);
    for (int is_reset = 0; is_reset < 2; is_reset++) {
        caller_world_init(&world, NULL, NULL, NULL, keep_ok, 1);
        get(&world, false);
        http_peer_close_all(&world.peer, is_reset);
        WAIT_UNTIL(world.loop, http_client_stats(world.client).connections == 0);
        get(&world, false);
        caller_world_deinit(&world);
    }
}

/* A response without a request must not answer the next request. */
static void extra_bytes_end_the_connection(void **state)
{
    (void)state;
    static const struct peer_script scripts[] = {
        {.reply = OK_REPLY OK_REPLY},
        {.reply = OK_REPLY "x"},
        {.reply = "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n\r\nevil"},
        {.reply = OK_REPLY},
    };
    struct caller_world world;
    caller_world_init(&world, NULL, NULL, NULL, scripts, ARRAY_LEN(scripts));
    for (unsigned i = 0; i < ARRAY_LEN(scripts); i++) {
        get(&world, false);
        assert_int_equal(world.peer.connections, i + 1);
    }
    get(&world, true);
    caller_world_deinit(&world);
}

static void an_unasked_reply_on_an_idle_connection_ends_it(void **state)
{
    (void)state;
    static const struct peer_script scripts[] = {
        {.reply = OK_REPLY, .then = PEER_ENDLESS, .repeat = 2}};
    struct caller_world world;
    struct caller caller;
    caller_world_init(&world, NULL, NULL, NULL, scripts, 1);
    caller_get(&caller, &world, "/");
    assert_result(&caller, HTTP_CALL_OK);
    caller_deinit(&caller);
    WAIT_UNTIL(world.loop, http_client_stats(world.client).connections == 0);
    caller_world_deinit(&world);
}

static void writes_shun_connections_that_rested_long(void **state)
{
    (void)state;
    struct http_client_config config = {.write_reuse_ms = 1};
    struct caller_world world;
    struct caller caller;
    caller_world_init(&world, &config, NULL, NULL, keep_ok, 1);
    get(&world, false);
    uint64_t began = loop_now_ns(world.loop);
    while (loop_now_ns(world.loop) - began < 5000000)
        loop_turn(world.loop, false);
    caller_init(&caller, &world, "/");
    caller.call.is_idempotent = false;
    caller_start(&caller, &world, 1 << 20);
    caller_wait(&caller);
    assert_result(&caller, HTTP_CALL_OK);
    assert_false(caller.call.is_reused);
    caller_deinit(&caller);
    assert_int_equal(world.peer.connections, 2);
    get(&world, true);
    caller_world_deinit(&world);
}

static void connections_max_spends_idle_ones_first(void **state)
{
    (void)state;
    struct http_client_config config = {.connections_max = 2, .waiting_ms = 20};
    struct caller_world world;
    struct caller callers[3];
    struct http_peer second;
    caller_world_init(&world, &config, NULL, NULL, keep_ok, 1);
    http_peer_init(&second, world.loop, silent, 1);
    get(&world, false);
    for (int i = 0; i < 3;
         i++) { /* the first fits, the second replaces the idle connection, and the third waits */
        caller_init(&callers[i], &world, "/");
        snprintf(callers[i].url, sizeof(callers[i].url), "http://127.0.0.1:%u/",
                 http_peer_port(&second));
        callers[i].call.url = slice_cstr(callers[i].url);
        caller_start(&callers[i], &world, 1 << 20);
    }
    caller_wait(&callers[2]);
    assert_result(&callers[2], HTTP_CALL_OVERLOADED);
    assert_int_equal(http_client_stats(world.client).idle, 0);
    assert_int_equal(http_client_stats(world.client).calls_active, 2);
    for (int i = 0; i < 3; i++) {
        http_call_cancel(&callers[i].call);
        caller_wait(&callers[i]);
        caller_deinit(&callers[i]);
    }
    http_peer_deinit(&second);
    caller_world_deinit(&world);
}

static void calls_queue_per_origin(void **state)
{
    (void)state;
    static const struct peer_script slow[] = {{.reply = OK_REPLY, .is_trickled = true}};
    struct http_client_config config = {.calls_per_origin = 1, .waiting_max = 2};
    struct caller_world world;
    struct caller callers[4];
    caller_world_init(&world, &config, NULL, NULL, slow, 1);
    for (int i = 0; i < 4; i++) {
        caller_init(&callers[i], &world, "/");
        caller_start(&callers[i], &world, 1 << 20);
    }
    caller_wait(&callers[3]);
    assert_result(&callers[3], HTTP_CALL_OVERLOADED);
    assert_false(callers[3].call.is_any_byte_sent);
    assert_int_equal(http_client_stats(world.client).calls_waiting, 2);
    for (int i = 0; i < 3; i++) {
        caller_wait(&callers[i]);
        assert_result(&callers[i], HTTP_CALL_OK);
        assert_int_equal(callers[i].call.waiting_ns > 0, i > 0);
        for (int later = i + 1; later < 3; later++) /* in order */
            assert_false(callers[later].is_done);
    }
    assert_int_equal(world.peer.connections, 1);
    for (int i = 0; i < 4; i++)
        caller_deinit(&callers[i]);
    caller_world_deinit(&world);
}

static void waiting_ends_in_time(void **state)
{
    (void)state;
    struct http_client_config config = {.calls_per_origin = 1, .waiting_ms = 20};
    struct caller_world world;
    struct caller first, second, third;
    caller_world_init(&world, &config, NULL, NULL, silent, 1);
    caller_init(&first, &world, "/");
    caller_start(&first, &world, 1 << 20);
    caller_init(&second, &world, "/");
    caller_start(&second, &world, 1 << 20);
    caller_init(&third, &world, "/");
    third.deadline_in_ms = 10;
    caller_start(&third, &world, 1 << 20);
    caller_wait(&third);
    caller_wait(&second);
    assert_result(&second, HTTP_CALL_OVERLOADED);
    assert_result(&third, HTTP_CALL_OVERLOADED);
    assert_false(second.call.is_any_byte_sent);
    assert_int_equal(http_client_stats(world.client).calls_waiting, 0);
    http_call_cancel(&first.call);
    caller_wait(&first);
    assert_result(&first, HTTP_CALL_CANCELLED);
    caller_deinit(&first);
    caller_deinit(&second);
    caller_deinit(&third);
    caller_world_deinit(&world);
}

static void origins_are_bounded_and_forgotten(void **state)
{
    (void)state;
    struct http_client_config config = {.origins_max = 1};
    struct caller_world world;
    struct caller caller;
    struct http_peer second;
    caller_world_init(&world, &config, NULL, NULL, keep_ok, 1);
    http_peer_init(&second, world.loop, keep_ok, 1);
    get(&world, false);
    for (int i = 0; i < 2; i++) {
        caller_init(&caller, &world, "/");
        snprintf(caller.url, sizeof(caller.url), "http://127.0.0.1:%u/", http_peer_port(&second));
        caller.call.url = slice_cstr(caller.url);
        caller_start(&caller, &world, 1 << 20);
        caller_wait(&caller);
        assert_result(&caller, i == 0 ? HTTP_CALL_OVERLOADED : HTTP_CALL_OK);
        caller_deinit(&caller);
        http_peer_close_all(&world.peer, false);
        if (i == 0)
            WAIT_UNTIL(world.loop, http_client_stats(world.client).origins == 0);
    }
    http_peer_deinit(&second);
    caller_world_deinit(&world);
}

/* ---- the caller's last-moment check ---- */

static bool is_sending_allowed;
static unsigned times_asked;

static bool may_send(const struct http_call *call)
{
    assert_false(call->is_any_byte_sent);
    times_asked++;
    return is_sending_allowed;
}

/* The connection is completed nevertheless, and the next call uses it. */
static void what_may_not_be_sent_leaves_its_connection(void **state)
{
    (void)state;
    struct caller_world world;
    caller_world_init(&world, NULL, NULL, NULL, keep_ok, 1);
    times_asked = 0;
    for (unsigned i = 0; i < 3; i++) { /* refused on a new connection and on a kept one, then
                                        * allowed */
        struct caller caller;
        is_sending_allowed = i == 2;
        caller_init(&caller, &world, "/");
        caller.call.may_send = may_send;
        caller_start(&caller, &world, 1 << 20);
        assert_int_equal(times_asked, i); /* not before the connection is established */
        caller_wait(&caller);
        assert_result(&caller, i == 2 ? HTTP_CALL_OK : HTTP_CALL_UNSENT);
        assert_int_equal(caller.call.is_any_byte_sent, i == 2);
        assert_int_equal(times_asked, i + 1);
        assert_int_equal(world.peer.requests, i == 2);
        caller_deinit(&caller);
    }
    assert_int_equal(world.peer.connections, 1);
    assert_int_equal(http_client_stats(world.client).idle, 1);
    caller_world_deinit(&world);
}

/* ---- stale connections ---- */

struct stale_row {
    enum peer_then then;
    bool is_idempotent, is_saved;
};

/* The first request is answered; the second finds the connection dying. */
static void stale_connections_are_tried_again_only_where_safe(void **state)
{
    (void)state;
    static const struct stale_row rows[] = {
        {PEER_FIN, true, true},
        {PEER_RESET, true, true},
        {PEER_FIN, false, false},
        {PEER_RESET, false, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct peer_script scripts[] = {
            {.reply = OK_REPLY}, {.reply = NULL, .then = rows[i].then}, {.reply = OK_REPLY}};
        struct caller_world world;
        struct caller caller;
        caller_world_init(&world, NULL, NULL, NULL, scripts, 3);
        get(&world, false);
        caller_init(&caller, &world, "/");
        caller.call.is_idempotent = rows[i].is_idempotent;
        caller_start(&caller, &world, 1 << 20);
        caller_wait(&caller);
        assert_result(&caller, rows[i].is_saved ? HTTP_CALL_OK : HTTP_CALL_RESET);
        assert_true(caller.call.is_any_byte_sent);
        assert_int_equal(caller.call.is_resent, rows[i].is_saved);
        assert_int_equal(caller.call.is_reused, !rows[i].is_saved);
        assert_int_equal(world.peer.requests, rows[i].is_saved ? 3 : 2);
        caller_deinit(&caller);
        caller_world_deinit(&world);
    }
}

static void it_is_tried_again_once_only_and_never_on_a_fresh_connection(void **state)
{
    (void)state;
    static const struct peer_script scripts[] = {{.reply = OK_REPLY},
                                                 {.reply = NULL, .then = PEER_RESET},
                                                 {.reply = NULL, .then = PEER_RESET}};
    struct caller_world world;
    struct caller caller;
    caller_world_init(&world, NULL, NULL, NULL, scripts, 3);
    get(&world, false);
    caller_get(&caller, &world, "/");
    assert_result(&caller, HTTP_CALL_RESET);
    assert_true(caller.call.is_resent);
    assert_int_equal(world.peer.requests, 3);
    caller_deinit(&caller);
    caller_get(&caller, &world, "/");
    assert_result(&caller, HTTP_CALL_RESET);
    assert_false(caller.call.is_resent);
    assert_int_equal(world.peer.requests, 4);
    caller_deinit(&caller);
    caller_world_deinit(&world);
}

/* Once a byte of the reply has arrived, the peer may have acted. */
static void half_a_reply_is_never_tried_again(void **state)
{
    (void)state;
    static const struct peer_script scripts[] = {
        {.reply = OK_REPLY}, {.reply = "H", .then = PEER_FIN}, {.reply = OK_REPLY}};
    struct caller_world world;
    struct caller caller;
    caller_world_init(&world, NULL, NULL, NULL, scripts, 3);
    get(&world, false);
    caller_get(&caller, &world, "/");
    assert_result(&caller, HTTP_CALL_RESET);
    assert_non_null(strstr(caller.call.err.text, "in the middle of the reply"));
    assert_int_equal(world.peer.requests, 2);
    caller_deinit(&caller);
    caller_world_deinit(&world);
}

/* ---- cancelling and closing ---- */

/* Cancels after each number of turns, so in every state of a call, without TLS and with it. */
static void a_call_may_be_cancelled_at_any_time(void **state)
{
    struct certs *certs = *state;
    for (int is_tls = 0; is_tls < 2; is_tls++) {
        for (unsigned turns = 0; turns < 40; turns++) {
            struct err err;
            struct tls_config roots = {.ca_file = certs_path(certs, "ca.pem")};
            struct tls_server_config server = {.cert_file = certs_path(certs, "ec.pem"),
                                               .key_file = certs_path(certs, "ec.key")};
            static const struct peer_script slow[] = {{.reply = OK_REPLY, .is_trickled = true}};
            struct caller_world world;
            struct caller caller;
            caller_world_init(&world, NULL, NULL, is_tls ? tls_context_new(&roots, &err) : NULL,
                              slow, 1);
            world.peer.tls = is_tls ? tls_server_new(&server, &err) : NULL;
            caller_init(&caller, &world, "/");
            caller_start(&caller, &world, 1 << 20);
            for (unsigned i = 0; i < turns && !caller.is_done; i++)
                loop_turn(world.loop, true);
            bool was_done = caller.is_done;
            if (turns % 2)
                op_cancel(&caller.op);
            else
                http_call_cancel(&caller.call);
            http_call_cancel(&caller.call); /* the call may be cancelled any number of times */
            caller_wait(&caller);
            if (turns == 0 && turns % 2 == 0)
                assert_true(caller.is_done);
            else if (!was_done)
                assert_result(&caller, HTTP_CALL_CANCELLED);
            caller_deinit(&caller);
            caller_world_deinit(&world);
        }
    }
}

static void closing_the_client_ends_its_calls(void **state)
{
    (void)state;
    struct http_client_config config = {.calls_per_origin = 2};
    for (unsigned turns = 0; turns < 10; turns++) {
        struct caller_world world;
        struct caller callers[4];
        caller_world_init(&world, &config, NULL, NULL, silent, 1);
        for (int i = 0; i < 4; i++) {
            caller_init(&callers[i], &world, "/");
            caller_start(&callers[i], &world, 1 << 20);
        }
        for (int i = 0; i < 4; i++) /* a turn may end after each */
            WAIT_UNTIL(world.loop, http_call_is_active(&callers[i].call));
        for (unsigned i = 0; i < turns; i++)
            loop_turn(world.loop, false);
        http_client_free(world.client);
        for (int i = 0; i < 4; i++) {
            caller_wait(&callers[i]);
            assert_result(&callers[i], HTTP_CALL_CANCELLED);
        }
        for (int i = 0; i < 4; i++)
            caller_deinit(&callers[i]);
        world.client = NULL;
        caller_world_deinit(&world);
    }
}

/* Each allocation of a call fails once, and the call always ends with the correct error. */
static void failing_memory_is_survived(void **state)
{
    struct certs *certs = *state;
    for (int is_tls = 0; is_tls < 2; is_tls++) {
        struct err err;
        struct tls_config roots = {.ca_file = certs_path(certs, "ca.pem")};
        struct tls_server_config server = {.cert_file = certs_path(certs, "ec.pem"),
                                           .key_file = certs_path(certs, "ec.key")};
        static const struct peer_script chunked[] = {
            {.reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nA: "
                      "b\r\n\r\n2\r\nok\r\n0\r\n\r\n"}};
        struct caller_world world;
        unsigned good = 0, bad = 0;
        uint64_t hits = 1;
        caller_world_init(&world, NULL, NULL, is_tls ? tls_context_new(&roots, &err) : NULL,
                          chunked, 1);
        world.peer.tls = is_tls ? tls_server_new(&server, &err) : NULL;
        for (uint64_t nth = 1; hits; nth += 1 + nth / 20) {
            struct caller caller;
            caller_init(&caller, &world, "/");
            caller_start(&caller, &world, 1 << 20);
            mem_fail_at(nth, 1);
            WAIT_UNTIL(world.loop, caller.is_done);
            hits = mem_fail_hits();
            mem_fail_at(0, 0);
            if (caller.call.result == HTTP_CALL_OK) {
                good++;
                assert_int_equal(caller.call.body.len, 2);
            } else {
                bad++;
                assert_true(strlen(caller.call.err.text) > 5);
            }
            caller_deinit(&caller);
            dns_cache_clear(world.resolver);
            http_peer_close_all(&world.peer, false);
            WAIT_UNTIL(world.loop, http_client_stats(world.client).connections == 0 &&
                                       world.peer.open_count == 0);
        }
        assert_true(good > 0 && bad > 3);
        caller_world_deinit(&world);
    }
}

static void settings_are_checked(void **state)
{
    (void)state;
    struct err err;
    struct loop *loop = loop_new(&err);
    struct dns_resolver *resolver = dns_resolver_new(loop, NULL);
    struct http_client_config config = {.resolver = resolver, .user_agent = SLICE("a\r\nb")};
    assert_null(http_client_new(loop, &config, &err));
    assert_int_equal(err.code, ERR_INVALID);
    config.user_agent = SLICE("");
    mem_fail_at(1, 1);
    assert_null(http_client_new(loop, &config, &err));
    mem_fail_at(0, 0);
    struct http_client *client = http_client_new(loop, &config, &err);
    assert_non_null(client);
    for (int i = 0; i < HTTP_OVERRIDES_MAX; i++)
        assert_int_equal(http_client_override(client, SLICE("https://a"), SLICE("http://b"), &err),
                         OK);
    assert_int_equal(http_client_override(client, SLICE("https://a"), SLICE("http://b"), &err),
                     ERR_LIMIT);
    http_client_free(client);
    http_client_free(NULL);
    dns_resolver_free(resolver);
    loop_free(loop);
    for (int i = 0; i < HTTP_CALL_RESULTS; i++)
        assert_non_null(http_call_result_name(i));
}

static int setup(void **state)
{
    loop_threads_init(4);
    struct certs *certs = certs_new();
    certs_add(certs, &(struct cert_spec){.file = "ec", .dns = {"localhost"}});
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
        cmocka_unit_test(connections_are_reused_newest_first),
        cmocka_unit_test(too_many_idle_ones_are_closed),
        cmocka_unit_test(idle_connections_end_by_time_or_by_the_peer),
        cmocka_unit_test(extra_bytes_end_the_connection),
        cmocka_unit_test(an_unasked_reply_on_an_idle_connection_ends_it),
        cmocka_unit_test(writes_shun_connections_that_rested_long),
        cmocka_unit_test(connections_max_spends_idle_ones_first),
        cmocka_unit_test(calls_queue_per_origin),
        cmocka_unit_test(waiting_ends_in_time),
        cmocka_unit_test(origins_are_bounded_and_forgotten),
        cmocka_unit_test(what_may_not_be_sent_leaves_its_connection),
        cmocka_unit_test(stale_connections_are_tried_again_only_where_safe),
        cmocka_unit_test(it_is_tried_again_once_only_and_never_on_a_fresh_connection),
        cmocka_unit_test(half_a_reply_is_never_tried_again),
        cmocka_unit_test(a_call_may_be_cancelled_at_any_time),
        cmocka_unit_test(closing_the_client_ends_its_calls),
        cmocka_unit_test(failing_memory_is_survived),
        cmocka_unit_test(settings_are_checked),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
