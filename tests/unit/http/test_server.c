/* Requests to http/server: keep-alive, pipelining, bodies, Expect, on_head, and what a handler
 * gets. */
#include "support/server_app.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

static const struct http_server_config defaults;

static void replies_have_what_every_reply_has(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state, (struct http_server_config){.server_name = SLICE("test")});
    client_open(&client, &app);
    SEND(&client, "GET /echo HTTP/1.1\r\nHost: a\r\nX-Request-Id: r-1/x\r\n\r\n");
    client_expect(&client, "\r\n\r\n/echo");
    assert_int_equal(strncmp(client.got.ptr, "HTTP/1.1 200 OK\r\n", 17), 0);
    assert_true(client_has(&client, "\r\nX-Request-Id: r-1/x\r\n"));
    assert_true(client_has(&client, "\r\nContent-Length: 5\r\n"));
    assert_true(client_has(&client, "\r\nContent-Type: text/plain\r\n"));
    assert_true(client_has(&client, "\r\nServer: test\r\n"));
    assert_true(client_has(&client, "\r\nDate: "));
    assert_true(client_has(&client, " GMT\r\n"));
    assert_false(client_has(&client, "Connection:"));
    static const char *const bad_ids[] = {"", "a b", "caf\xc3\xa9"};
    for (size_t i = 0; i < ARRAY_LEN(bad_ids); i++) {
        client_forget(&client);
        char text[200];
        int len = snprintf(text, sizeof(text),
                           "GET /echo HTTP/1.1\r\nHost: a\r\nX-Request-Id: %s\r\n\r\n", bad_ids[i]);
        client_send(&client, slice_of(text, (size_t)len));
        client_expect(&client, "\r\n\r\n/echo");
        ptrdiff_t at = slice_find(buf_slice(&client.got), SLICE("X-Request-Id: "));
        assert_true(at > 0);
        assert_int_equal(client.got.ptr[at + 14 + 36], '\r'); /* a UUID in that position */
    }
    assert_int_equal(app.finished, 4);
    assert_int_equal(app.last_status, 200);
    assert_int_equal(app.last_bytes, 5);
    client_close(&client);
    app_end(&app);
}

static void a_connection_serves_many_requests(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state, defaults);
    client_open(&client, &app);
    for (size_t i = 0; i < 50; i++) {
        client_forget(&client);
        SEND(&client, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        client_expect(&client, "\r\n\r\nhello");
    }
    assert_int_equal(app.requests, 50);
    assert_int_equal(app.server->conn_count, 1);
    client_close(&client);
    app_end(&app);
}

static void an_idle_connection_holds_no_buffer(void **state)
{
    struct app app;
    struct client clients[20];
    app_begin(&app, *state, defaults);
    client_open(&clients[0], &app);
    SEND(&clients[0], GET("/echo"));
    client_expect(&clients[0], "\r\n\r\n/echo");
    buf_shrink(&clients[0].got, 0);
    buf_shrink(&app.seen, 0);
    loop_turn(app.loop, false);
    size_t blocks = mem_live_blocks();
    for (size_t i = 1; i < ARRAY_LEN(clients); i++) {
        client_open(&clients[i], &app);
        SEND(&clients[i], "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n");
        loop_turn(app.loop, false);
        SEND(&clients[i], "123456789GET /echo HTTP/1.1\r\nHo"); /* kept for a while */
        client_expect(&clients[i], "\r\n\r\n123456789");
        SEND(&clients[i], "st: a\r\n\r\n");
        client_expect(&clients[i], "\r\n\r\n/echo");
        buf_shrink(&clients[i].got, 0);
    }
    buf_shrink(&app.seen, 0);
    loop_turn(app.loop, false);
    /* two blocks of the server (connection, stream) and the client's stream */
    assert_true(mem_live_blocks() - blocks <= 3 * (ARRAY_LEN(clients) - 1));
    for (size_t i = 0; i < ARRAY_LEN(clients); i++)
        client_close(&clients[i]);
    app_end(&app);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state, defaults);
    client_open(&client, &app);
    SEND(&client, GET("/slow/1") GET("/slow/2") GET("/echo/3"));
    WAIT_UNTIL(app.loop, app.held_count == 1);
    loop_turn(app.loop, false);
    assert_int_equal(app.held_count, 1); /* pipelined requests run one at a time */
    assert_int_equal(client.got.len, 0);
    http_reply(app.held[0], 200, NULL, 0, SLICE("first"));
    app.held[0] = NULL;
    WAIT_UNTIL(app.loop, app.held_count == 2);
    assert_int_equal(app.requests, 2);
    http_reply(app.held[1], 200, NULL, 0, SLICE("second"));
    app.held[1] = NULL;
    client_expect(&client, "\r\n\r\n/echo/3");
    ptrdiff_t first = slice_find(buf_slice(&client.got), SLICE("\r\n\r\nfirst"));
    ptrdiff_t second = slice_find(buf_slice(&client.got), SLICE("\r\n\r\nsecond"));
    ptrdiff_t third = slice_find(buf_slice(&client.got), SLICE("\r\n\r\n/echo/3"));
    assert_true(0 < first && first < second && second < third);
    client_close(&client);
    app_end(&app);
}

static void a_long_pipeline_is_served_turn_by_turn(void **state)
{
    enum { COUNT = 5000 };
    struct app app;
    struct client client;
    app_begin(&app, *state, (struct http_server_config){.requests_per_turn_max = 8});
    client_open(&client, &app);
    for (size_t i = 0; i < COUNT; i++)
        SEND(&client, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    uint64_t turns = loop_stats(app.loop)->turns;
    WAIT_UNTIL(app.loop, app.requests == COUNT);
    assert_true(loop_stats(app.loop)->turns - turns >= COUNT / 8 - 1);
    client_expect_times(&client, "\r\n\r\nabc", COUNT);
    client_close(&client);
    app_end(&app);
}

static void a_request_may_come_byte_by_byte(void **state)
{
    static const char text[] = "\r\nPOST /echo?a=1 HTTP/1.1\r\nHost: a\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n"
                               "5;x=y\r\nhello\r\n7\r\n, world\r\n0\r\nT: v\r\n\r\n";
    struct app app;
    struct client client;
    app_begin(&app, *state, defaults);
    client_open(&client, &app);
    for (size_t round = 0; round < 2; round++) {
        client_forget(&client);
        for (size_t i = 0; i + 1 < sizeof(text); i++) {
            assert_false(client_has(&client, "hello"));
            client_send(&client, slice_of(text + i, 1));
            loop_turn(app.loop, false);
        }
        client_expect(&client, "\r\n\r\nhello, world");
    }
    assert_int_equal(app.requests, 2);
    client_close(&client);
    app_end(&app);
}

static void big_bodies_come_through_whole(void **state)
{
    enum { LEN = 3 << 20 };
    struct app app;
    struct client client;
    app_begin(&app, *state, defaults);
    client_open(&client, &app);
    char *body = mem_alloc(LEN);
    for (size_t i = 0; i < LEN; i++)
        body[i] = (char)('a' + i % 23);
    for (size_t round = 0; round < 2; round++) {
        client_forget(&client);
        if (round == 0) {
            SEND(&client, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3145728\r\n\r\n");
            client_send(&client, slice_of(body, LEN));
        } else {
            SEND(&client, "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
            SEND(&client, "100000\r\n");
            client_send(&client, slice_of(body, 1 << 20));
            SEND(&client, "\r\n200000\r\n");
            client_send(&client, slice_of(body + (1 << 20), 2 << 20));
            SEND(&client, "\r\n0\r\n\r\n");
        }
        WAIT_UNTIL(app.loop, client.got.len > LEN);
        ptrdiff_t at = slice_find(buf_slice(&client.got), SLICE("\r\n\r\n"));
        WAIT_UNTIL(app.loop, client.got.len == (size_t)at + 4 + LEN);
        assert_memory_equal(client.got.ptr + at + 4, body, LEN);
    }
    mem_free(body);
    client_close(&client);
    app_end(&app);
}

/* ---- Expect ---- */

static void continue_is_said_when_the_body_is_wanted(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state, defaults);
    client_open(&client, &app);
    SEND(&client,
         "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    client_expect(&client, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_int_equal(client.got.len, 25);
    SEND(&client, "hello");
    client_expect(&client, "\r\n\r\nhello");
    client_forget(&client); /* a body that is sent without waiting needs no 100 */
    SEND(&client,
         "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nhi");
    client_expect(&client, "\r\n\r\nhi");
    assert_false(client_has(&client, "100 Continue"));
    client_forget(&client); /* a request without a body needs no 100 either */
    SEND(&client, "GET /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n");
    client_expect(&client, "\r\n\r\n/echo");
    assert_false(client_has(&client, "100 Continue"));
    client_forget(&client); /* refused because of its head, so the final status is sent instead */
    SEND(&client,
         "POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    client_expect(&client, "{\"error\":\"not \\\"here\\\"\\n\"}");
    assert_false(client_has(&client, "100 Continue"));
    assert_true(client_has(&client, "Connection: close")); /* it is unknown whether the body will
                                                            * follow */
    client_expect_eof(&client);
    client_close(&client);
    client_open(&client, &app);
    SEND(&client,
         "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: the moon\r\n\r\n");
    client_expect(&client, "HTTP/1.1 417 ");
    client_expect_eof(&client);
    client_close(&client);
    app_end(&app);
}

/* ---- the handler decides before the body ---- */

static void a_refused_body_is_dropped(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state, (struct http_server_config){.linger_timeout_ms = 60000});
    client_open(&client, &app);
    SEND(&client, "POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
    client_expect(&client, "HTTP/1.1 403 ");
    assert_false(client_has(&client, "Connection: close")); /* short enough to read past */
    SEND(&client, "56789" GET("/echo"));
    client_expect(&client, "\r\n\r\n/echo");
    assert_int_equal(app.requests, 1);
    client_forget(&client);
    SEND(&client, "POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\n");
    client_expect(&client, "HTTP/1.1 403 ");
    assert_true(client_has(&client, "Connection: close"));
    char *body = mem_zalloc(5000000); /* the client is still sending, and must not get a reset
                                       * while it does */
    client_send(&client, slice_of(body, 5000000));
    mem_free(body);
    client_expect_eof(&client);
    WAIT_UNTIL(app.loop, stream_write_pending(client.stream) == 0);
    assert_int_equal(app.requests, 1);
    client_close(&client);
    app_end(&app);
}

static void a_body_can_wait_for_the_handler(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state, defaults);
    client_open(&client, &app);
    SEND(&client,
         "POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    WAIT_UNTIL(app.loop, app.heads == 1);
    for (size_t i = 0; i < 5; i++)
        loop_turn(app.loop, false);
    assert_int_equal(client.got.len, 0);
    assert_int_equal(app.requests, 0);
    client_close(&client); /* disconnected while it waits */
    WAIT_UNTIL(app.loop, app.finished == 1);
    app_end(&app);
}

static struct http_exchange *waiting;

static enum http_body_wanted keep_waiting(struct http_exchange *exchange, void *ctx)
{
    (void)ctx;
    http_exchange_ref(exchange);
    waiting = exchange;
    return HTTP_BODY_WAIT;
}

static void answer_length(struct http_exchange *exchange, void *ctx)
{
    (void)ctx;
    http_reply(exchange, 200, NULL, 0, exchange->body.len ? exchange->body : SLICE("none"));
}

/* A key check that needs the database, started by on_head. The body is accepted later, or never. */
static void a_waiting_body_is_accepted_or_refused(void **state)
{
    static const struct http_handler handler = {.on_head = keep_waiting,
                                                .on_request = answer_length};
    static const struct tcp_listen_config listener = {.address = SLICE_INIT("127.0.0.1:0")};
    struct http_server_config config = {.listeners = &listener, .listener_count = 1};
    struct err err;
    struct app app = {.loop = *state};
    struct client client;
    app.server = http_server_new(*state, &config, &handler, NULL, &err);
    assert_non_null(app.server);
    client_open(&client, &app);
    for (size_t round = 0; round < 3; round++) {
        waiting = NULL;
        client_forget(&client);
        if (round == 1)
            SEND(&client, GET("/x"));
        else
            SEND(&client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        WAIT_UNTIL(app.loop, waiting);
        loop_turn(app.loop, false);
        assert_int_equal(client.got.len, 0);
        if (round < 2) {
            http_body_accept(waiting);
            http_body_accept(waiting);
            client_expect(&client, round == 1 ? "\r\n\r\nnone" : "\r\n\r\nhello");
        } else {
            http_reply_error(waiting, 401, SLICE("no key"));
            client_expect(&client, "HTTP/1.1 401 ");
        }
        http_exchange_unref(waiting);
    }
    client_forget(&client); /* the refused body was read and dropped */
    waiting = NULL;
    SEND(&client, GET("/y"));
    WAIT_UNTIL(app.loop, waiting);
    http_body_accept(waiting);
    http_exchange_unref(waiting);
    client_expect(&client, "\r\n\r\nnone");
    client_close(&client);
    http_server_free(app.server);
    loop_turn(*state, false);
}

/* ---- what a handler gets ---- */

static void requests_are_taken_apart(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state, defaults);
    client_open(&client, &app);
    SEND(&client, "GET /slow/a%2Fb//c%20d/?limit=10&q=a+b%26c&empty=&flag&limit=20&&=x HTTP/1.1\r\n"
                  "Host: a\r\nX-One: 1\r\n\r\n");
    WAIT_UNTIL(app.loop, app.held_count);
    struct http_exchange *exchange = app.held[0];
    static const char *const segments[] = {"slow", "a/b", "", "c d", ""};
    assert_int_equal(exchange->segment_count, ARRAY_LEN(segments));
    for (size_t i = 0; i < ARRAY_LEN(segments); i++)
        assert_true(slice_eq_cstr(exchange->segments[i], segments[i]));
    assert_true(slice_eq_cstr(http_query_get(exchange, SLICE("limit")), "10"));
    assert_true(slice_eq_cstr(http_query_get(exchange, SLICE("q")), "a b&c"));
    assert_non_null(http_query_get(exchange, SLICE("empty")).ptr);
    assert_non_null(http_query_get(exchange, SLICE("flag")).ptr);
    assert_null(http_query_get(exchange, SLICE("Limit")).ptr);
    size_t count;
    const struct http_header *params = http_query_all(exchange, &count);
    assert_int_equal(count, 6);
    assert_true(slice_eq_cstr(params[4].value, "20"));
    assert_true(slice_eq_cstr(params[5].name, ""));
    assert_true(slice_eq_cstr(http_request_header(exchange, SLICE("x-one")), "1"));
    assert_true(slice_eq_cstr(http_client_address(exchange, NULL), "127.0.0.1"));
    assert_true(exchange->started_ns > 0);
    http_reply(exchange, 204, NULL, 0, SLICE("never sent"));
    app.held[0] = NULL;
    client_expect(&client, "HTTP/1.1 204 No Content\r\n");
    client_forget(&client);
    SEND(&client, GET("/slow"));
    WAIT_UNTIL(app.loop, app.held_count == 2);
    assert_null(http_query_get(app.held[1], SLICE("x")).ptr);
    assert_int_equal(app.held[1]->segment_count, 1);
    http_reply(app.held[1], 200, NULL, 0, SLICE_NONE);
    app.held[1] = NULL;
    client_expect(&client, "Content-Length: 0\r\n");
    client_close(&client);
    app_end(&app);
}

static void nothing_is_read_after_close(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state, defaults);
    client_open(&client, &app);
    SEND(&client, "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" GET("/echo/evil"));
    client_expect_eof(&client);
    assert_int_equal(app.requests, 1);
    assert_int_equal(client_count(&client, "HTTP/1.1 "), 1);
    assert_true(client_has(&client, "Connection: close\r\n\r\n/echo"));
    client_close(&client);
    app_end(&app);
}

static void a_unix_socket_serves_too(void **state)
{
    char folder[] = "/tmp/sluice-test-XXXXXX", address[64];
    assert_non_null(mkdtemp(folder));
    snprintf(address, sizeof(address), "unix:%s/s", folder);
    struct tcp_listen_config listener = {.address = slice_cstr(address)};
    struct app app;
    app_begin(&app, *state,
              (struct http_server_config){.listeners = &listener, .listener_count = 1});
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    memcpy(un.sun_path, address + 5, strlen(address + 5));
    assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    assert_int_equal(write(fd, GET("/slow"), strlen(GET("/slow"))), strlen(GET("/slow")));
    WAIT_UNTIL(app.loop, app.held_count);
    assert_true(slice_eq_cstr(http_client_address(app.held[0], NULL), "unix"));
    http_reply(app.held[0], 200, NULL, 0, SLICE("hi"));
    app.held[0] = NULL;
    loop_turn(app.loop, false);
    char got[1000];
    ssize_t len = recv(fd, got, sizeof(got), MSG_DONTWAIT);
    assert_true(len > 0 && slice_ends_with(slice_of(got, (size_t)len), SLICE("\r\n\r\nhi")));
    close(fd);
    app_end(&app);
    rmdir(folder);
}

static void bad_configurations_are_refused(void **state)
{
    static const struct http_handler handler = {.on_request = answer_length};
    static const struct tcp_listen_config listener = {.address = SLICE_INIT("127.0.0.1:0")};
    static const struct tcp_listen_config twice[] = {
        {.address = SLICE_INIT("127.0.0.1:0")},
        {.address = SLICE_INIT("nowhere")},
    };
    const struct http_server_config bad[] = {
        {.listeners = &listener, .listener_count = 1, .head.headers_max = 1000},
        {.listeners = &listener, .listener_count = 1, .head.head_bytes_max = 1 << 30},
        {.listeners = &listener, .listener_count = 1, .server_name = SLICE("a\r\n")},
        {.listeners = &listener, .listener_count = 1, .write_bytes_max = (uint64_t)1 << 40},
        {.listeners = twice, .listener_count = 2},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};
        assert_null(http_server_new(*state, &bad[i], &handler, NULL, &err));
        assert_int_equal(err.code, ERR_INVALID);
        assert_true(strlen(err.text) > 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(replies_have_what_every_reply_has),
        TEST(a_connection_serves_many_requests),
        TEST(an_idle_connection_holds_no_buffer),
        TEST(pipelined_requests_are_answered_in_order),
        TEST(a_long_pipeline_is_served_turn_by_turn),
        TEST(a_request_may_come_byte_by_byte),
        TEST(big_bodies_come_through_whole),
        TEST(continue_is_said_when_the_body_is_wanted),
        TEST(a_refused_body_is_dropped),
        TEST(a_body_can_wait_for_the_handler),
        TEST(a_waiting_body_is_accepted_or_refused),
        TEST(requests_are_taken_apart),
        TEST(nothing_is_read_after_close),
        TEST(a_unix_socket_serves_too),
        TEST(bad_configurations_are_refused),
    };
    return cmocka_run_group_tests_name("http/server", tests, NULL, NULL);
}
