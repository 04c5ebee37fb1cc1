/* http/server: disconnects in every state, failures of every allocation, drain, free. */
#include "support/server_app.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct http_server_config defaults;

/* ---- disconnects ---- */

static const char *const scripts[] = {
    GET("/echo"),
    GET("/slow") GET("/echo"),
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789" GET("/slow"),
    "POST /slow HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
    "POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\n0123456789",
    "GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" GET("/echo"),
    "nonsense\r\n\r\n",
};

/* Answers the handler's exchange in each of the possible ways. */
static void answer_held(struct app *app, size_t way)
{
    for (size_t i = 0; i < app->held_count; i++) {
        struct http_exchange *exchange = app->held[i];
        app->held[i] = NULL;
        if (!exchange)
            continue;
        switch (way % 4) {
        case 0:
            http_reply(exchange, 200, NULL, 0, SLICE("late"));
            break;
        case 1:
            http_reply_begin(exchange, 200, NULL, 0);
            (void)!http_reply_chunk(exchange, SLICE("late"));
            http_reply_end(exchange);
            break;
        case 2:
            http_reply_drop(exchange);
            break;
        default:
            http_reply_begin(exchange, 200, NULL, 0);
            http_reply_drop(exchange);
        }
    }
    app->held_count = 0;
}

/* Every script, cut at random positions. The client closes, resets or half closes after some
 * turns, and the handler answers before or after that. No memory is left. */
static void a_client_may_go_in_any_state(void **state)
{
    struct app app;
    uint64_t random = 11;
    app_begin(&app, *state, (struct http_server_config){.linger_timeout_ms = 5});
    for (size_t run = 0; run < 1500; run++) {
        struct client client;
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t dice = (size_t)(random >> 33);
        slice script = slice_cstr(scripts[dice % ARRAY_LEN(scripts)]);
        size_t len = dice / 8 % (script.len + 1);
        app.drops_when_gone = dice / 1000 % 3 == 0;
        client_open(&client, &app);
        client_send(&client, slice_first(script, len));
        for (size_t i = 0; i < dice / 4000 % 4; i++)
            loop_turn(app.loop, false);
        if (dice / 16000 % 2)
            answer_held(&app, run);
        if (client.stream && run % 3 == 0)
            stream_close(client.stream);
        else if (client.stream && run % 3 == 1)
            stream_reset(client.stream);
        else if (client.stream)
            stream_shutdown(client.stream);
        for (size_t i = 0; i < dice / 32000 % 4; i++)
            loop_turn(app.loop, false);
        answer_held(&app, run / 3);
        while (app.server->conn_count) {
            loop_turn(app.loop, true);
            answer_held(&app, run); /* a pipelined request was started */
        }
        client_close(&client);
    }
    loop_turn(app.loop, false);
    assert_int_equal(app.finished, app.heads); /* each exchange once */
    app_end(&app);
}

static void a_reply_after_a_disconnect_is_harmless(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state, defaults);
    client_open(&client, &app);
    SEND(&client, GET("/slow?q=1"));
    WAIT_UNTIL(app.loop, app.held_count);
    http_exchange_ref(app.held[0]);
    stream_reset(client.stream); /* a FIN alone could come from a client that still reads */
    client_close(&client);
    WAIT_UNTIL(app.loop, app.server->conn_count == 0);
    assert_int_equal(app.gone, 1);
    assert_int_equal(app.finished, 1);
    assert_int_equal(app.last_status, 0);
    assert_true(app.held[0]->is_gone);
    loop_turn(app.loop, false);
    struct http_header type = {SLICE("Content-Type"), SLICE("text/plain")};
    http_reply(app.held[0], 200, &type, 1, SLICE("hello?"));
    loop_turn(app.loop, false);
    assert_true(slice_eq_cstr(http_query_get(app.held[0], SLICE("q")), "1")); /* still open */
    http_exchange_unref(app.held[0]);
    app.held[0] = NULL;
    assert_int_equal(app.finished, 1);
    app_end(&app);
}

static void a_half_closed_client_still_gets_its_reply(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state, defaults);
    client_open(&client, &app);
    SEND(&client, GET("/echo/1") GET("/slow"));
    stream_shutdown(client.stream);
    WAIT_UNTIL(app.loop, app.gone);
    http_reply(app.held[0], 200, NULL, 0, SLICE("last words"));
    app.held[0] = NULL;
    client_expect_eof(&client);
    assert_true(client_has(&client, "\r\n\r\n/echo/1"));
    assert_true(client_has(&client, "Connection: close\r\n\r\nlast words"));
    WAIT_UNTIL(app.loop, app.server->conn_count == 0); /* the connection does not linger */
    client_close(&client);
    app_end(&app);
}

static void a_dropped_stream_is_a_reset(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state, defaults);
    client_open(&client, &app);
    SEND(&client, "GET /slow HTTP/1.0\r\n\r\n"); /* only a reset distinguishes this from a
                                                  * complete reply */
    WAIT_UNTIL(app.loop, app.held_count);
    http_reply_begin(app.held[0], 200, NULL, 0);
    assert_int_equal(http_reply_chunk(app.held[0], SLICE("half")), OK);
    loop_turn(app.loop, false);
    http_reply_drop(app.held[0]);
    app.held[0] = NULL;
    WAIT_UNTIL(app.loop, client.is_closed || client.is_eof);
    assert_true(client.is_closed);
    assert_int_equal(client.why.code, ERR_CLOSED);
    client_close(&client);
    app_end(&app);
}

/* ---- memory ---- */

/* Like curl's torture tests: the n-th allocation fails, for every n. There is a correct answer
 * or the connection ends, and nothing leaks. */
static void every_allocation_may_fail(void **state)
{
    static const char *const requests[] = {
        "GET /echo/a%20b?q=1 HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
        "chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
    };
    struct app app;
    app_begin(&app, *state, (struct http_server_config){.linger_timeout_ms = 5});
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        bool is_over = false;
        for (uint64_t n = 1; !is_over; n++) {
            struct client client;
            assert_true(n < 200);
            client_open(&client, &app);
            buf_reserve(&client.got, 4096); /* the test's own buffer may not fail */
            buf_reserve(&app.seen, 4096);
            buf_clear(&app.seen);
            size_t half = strlen(requests[i]) / 2;
            mem_fail_at(n, 1);
            client_send(&client, slice_of(requests[i], half));
            loop_turn(app.loop, false);
            slice rest = slice_cstr(requests[i] + half);
            if (client.stream)
                (void)!stream_write(client.stream, &rest, 1); /* may have been closed by now */
            while (!client.is_closed && !client.is_eof && !client_has(&client, "\r\n\r\n"))
                loop_turn(app.loop, true);
            is_over = mem_fail_hits() == 0;
            mem_fail_at(0, 0);
            if (client_has(&client, "\r\n\r\n"))
                assert_int_equal(strncmp(client.got.ptr, "HTTP/1.1 ", 9), 0);
            assert_true(!is_over || client_has(&client, "\r\n\r\n"));
            client_close(&client);
            WAIT_UNTIL(app.loop, app.server->conn_count == 0);
        }
    }
    app_end(&app);
}

static void on_never(struct http_exchange *exchange, void *ctx)
{
    (void)exchange;
    (void)ctx;
    fail();
}

static void a_server_may_not_come_to_be(void **state)
{
    static const struct tcp_listen_config listener = {.address = SLICE_INIT("127.0.0.1:0")};
    static const struct http_handler handler = {.on_request = on_never};
    const struct http_server_config config = {
        .listeners = &listener,
        .listener_count = 1,
        .server_name = SLICE("x"),
    };
    bool is_over = false;
    for (uint64_t n = 1; !is_over; n++) {
        struct err err = {0};
        assert_true(n < 30);
        mem_fail_at(n, 1);
        struct http_server *server = http_server_new(*state, &config, &handler, NULL, &err);
        is_over = mem_fail_hits() == 0;
        mem_fail_at(0, 0);
        assert_int_equal(server != NULL, is_over);
        assert_int_equal(err.code, is_over ? OK : ERR_NOMEM);
        http_server_free(server);
        loop_turn(*state, false);
    }
}

/* ---- drain ---- */

static void on_server_drained(void *ctx)
{
    ((struct app *)ctx)->server_drained++;
}

static void a_drain_resets_no_connection(void **state)
{
    struct app app;
    struct client idle, busy, late, head, body;
    app_begin(&app, *state, defaults);
    uint16_t port = http_server_port(app.server, 0);
    client_open(&idle, &app);
    client_open(&busy, &app);
    client_open(&late, &app);
    client_open(&head, &app);
    client_open(&body, &app);
    SEND(&idle, GET("/echo"));
    client_expect(&idle, "\r\n\r\n/echo");
    SEND(&busy, GET("/slow") GET("/echo/never"));
    SEND(&head, "GET /echo HTTP/1.1\r\nHo");
    SEND(&body, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
    WAIT_UNTIL(app.loop, app.held_count && app.heads == 3);
    SEND(&late, GET("/echo")); /* the request is in the socket when the drain begins */
    int backlog = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(backlog, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(write(backlog, GET("/echo"), strlen(GET("/echo"))), strlen(GET("/echo")));

    http_server_drain(app.server, on_server_drained, &app);
    http_server_drain(app.server, NULL, NULL); /* a second one changes nothing */
    assert_true(http_server_is_draining(app.server));
    int refused = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(refused, (struct sockaddr *)&address, sizeof(address)), -1);
    close(refused);
    client_expect(&late, "Connection: close\r\n\r\n/echo");
    client_expect_eof(&late);
    client_expect_eof(&idle);
    assert_int_equal(client_count(&idle, "HTTP/1.1"), 1);
    SEND(&head, "st: a\r\n\r\n");
    client_expect(&head, "Connection: close\r\n\r\n/echo");
    client_expect_eof(&head);
    SEND(&body, "lo");
    client_expect(&body, "Connection: close\r\n\r\nhello");
    client_expect_eof(&body);
    assert_int_equal(app.server_drained, 0);
    http_reply(app.held[0], 200, NULL, 0, SLICE("at last"));
    app.held[0] = NULL;
    client_expect(&busy, "Connection: close\r\n\r\nat last");
    client_expect_eof(&busy);
    assert_false(client_has(&busy, "never"));
    char got[1000];
    ssize_t len;
    do
        loop_turn(app.loop, false);
    while ((len = recv(backlog, got, sizeof(got), MSG_DONTWAIT)) < 0);
    assert_true(slice_ends_with(slice_of(got, (size_t)len), SLICE("close\r\n\r\n/echo")));
    close(backlog);
    client_close(&idle);
    client_close(&busy);
    client_close(&late);
    client_close(&head);
    client_close(&body);
    WAIT_UNTIL(app.loop, app.server_drained);
    assert_int_equal(app.server->conn_count, 0);
    loop_turn(app.loop, false);
    assert_int_equal(app.server_drained, 1);
    app_end(&app);
}

static void a_drain_has_an_end(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state,
              (struct http_server_config){.drain_timeout_ms = 20, .linger_timeout_ms = 3600000});
    client_open(&client, &app);
    SEND(&client, GET("/slow"));
    WAIT_UNTIL(app.loop, app.held_count);
    http_server_drain(app.server, on_server_drained, &app);
    WAIT_UNTIL(app.loop, app.server_drained);
    assert_int_equal(app.gone, 1);
    http_reply(app.held[0], 200, NULL, 0, SLICE("too late"));
    app.held[0] = NULL;
    WAIT_UNTIL(app.loop, client.is_closed);
    client_close(&client);
    app_end(&app);
}

static void a_drain_of_nothing_ends_at_once(void **state)
{
    struct app app;
    app_begin(&app, *state, defaults);
    http_server_drain(app.server, on_server_drained, &app);
    assert_int_equal(app.server_drained, 0); /* on_drained is called only from the loop */
    WAIT_UNTIL(app.loop, app.server_drained);
    app_end(&app);
}

static void a_server_can_be_freed_with_everything_open(void **state)
{
    struct app app;
    struct client clients[4];
    app_begin(&app, *state, defaults);
    for (size_t i = 0; i < ARRAY_LEN(clients); i++)
        client_open(&clients[i], &app);
    SEND(&clients[1], GET("/slow"));
    SEND(&clients[2], "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    SEND(&clients[3], GET("/slow"));
    WAIT_UNTIL(app.loop, app.held_count == 2 && app.heads == 3);
    http_reply_begin(app.held[1], 200, NULL, 0);
    http_server_free(app.server);
    app.server = NULL;
    WAIT_UNTIL(app.loop, app.gone == 3);
    assert_int_equal(http_reply_chunk(app.held[1], SLICE("x")), ERR_CLOSED);
    http_reply_end(app.held[1]);
    app.held[1] = NULL;
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        WAIT_UNTIL(app.loop, clients[i].is_closed);
        client_close(&clients[i]);
    }
    /* answers the other request, whose client has disconnected, and frees its memory */
    app_end(&app);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_client_may_go_in_any_state),
        TEST(a_reply_after_a_disconnect_is_harmless),
        TEST(a_half_closed_client_still_gets_its_reply),
        TEST(a_dropped_stream_is_a_reset),
        TEST(every_allocation_may_fail),
        TEST(a_server_may_not_come_to_be),
        TEST(a_drain_resets_no_connection),
        TEST(a_drain_has_an_end),
        TEST(a_drain_of_nothing_ends_at_once),
        TEST(a_server_can_be_freed_with_everything_open),
    };
    return cmocka_run_group_tests_name("http/server end", tests, NULL, NULL);
}
