/* Limits of http/server: every limit, every time-out, every refusal. A refused connection ends
 * without a reset. */
#include "support/server_app.h"

#include <stdio.h>

#include "http/address.h"
#include "http/server_internal.h"

static const struct http_server_config defaults;

/* Sends, and expects a refusal with that status as a JSON error, `Connection: close`, and FIN. */
static void expect_refusal(struct app *app, const char *name, slice request, unsigned status)
{
    struct client client;
    char line[40];
    client_open(&client, app);
    client_send(&client, request);
    if (!client.is_closed)
        SEND(&client, GET("/echo/evil")); /* must never be answered */
    snprintf(line, sizeof(line), "HTTP/1.1 %u ", status);
    WAIT_UNTIL(app->loop, client.is_eof || client.is_closed);
    if (client.is_closed || !client_has(&client, line) ||
        client_count(&client, "\r\nDate: ") != 1 ||
        !client_has(&client, "\r\nConnection: close\r\n") ||
        !client_has(&client, "\r\nX-Request-Id: ") || !client_has(&client, "\r\nDate: ") ||
        !client_has(&client, "\r\n\r\n{\"error\":\"") ||
        !slice_ends_with(buf_slice(&client.got), SLICE("\"}")))
        fail_msg("%s: expected %u, got: %.*s", name, status, SLICE_ARG(buf_slice(&client.got)));
    ptrdiff_t body = slice_find(buf_slice(&client.got), SLICE("\r\n\r\n{")) + 4;
    char length[40];
    snprintf(length, sizeof(length), "\r\nContent-Length: %zu\r\n", client.got.len - (size_t)body);
    assert_true(client_has(&client, length));
    client_close(&client);
}

static slice long_target(struct buf *text, size_t len)
{
    buf_clear(text);
    buf_append_cstr(text, "GET /");
    for (size_t i = 1; i < len; i++)
        buf_append_char(text, 'a');
    buf_append_cstr(text, " HTTP/1.1\r\nHost: a\r\n\r\n");
    return buf_slice(text);
}

static slice long_head(struct buf *text, size_t fields, size_t len)
{
    buf_clear(text);
    buf_append_cstr(text, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (size_t i = 0; i < fields; i++) {
        buf_append_cstr(text, "X: ");
        for (size_t k = 0; k < len; k++)
            buf_append_char(text, 'a');
        buf_append_cstr(text, "\r\n");
    }
    buf_append_cstr(text, "\r\n");
    return buf_slice(text);
}

static void each_limit_has_its_status(void **state)
{
    struct app app;
    struct buf text;
    buf_init(&text, 1 << 20);
    app_begin(&app, *state, defaults);
    expect_refusal(&app, "garbage", SLICE("\x16\x03\x01\x02"), 400);
    expect_refusal(&app, "LF", SLICE("GET / HTTP/1.1\nHost: a\n\n"), 400);
    expect_refusal(&app, "smuggling",
                   SLICE("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
                         "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
                   400);
    expect_refusal(&app, "version", SLICE("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
    expect_refusal(&app, "preface", SLICE("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
    expect_refusal(&app, "method", SLICE("FROB / HTTP/1.1\r\nHost: a\r\n\r\n"), 501);
    expect_refusal(&app, "bytes", SLICE("GET /a/%FF HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    expect_refusal(&app, "target", long_target(&text, 8193), 414);
    expect_refusal(&app, "head", long_head(&text, 1, 16 * 1024), 431);
    expect_refusal(&app, "endless head", slice_first(long_head(&text, 1, 64 * 1024), 60000), 431);
    expect_refusal(&app, "fields", long_head(&text, 100, 1), 431);
    expect_refusal(&app, "length",
                   SLICE("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8388609\r\n\r\n"), 413);
    expect_refusal(
        &app, "own limit",
        SLICE("POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n01234567890"), 413);
    expect_refusal(&app, "own limit, chunked",
                   SLICE("POST /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                         "5\r\nhello\r\n6\r\nhello!\r\n0\r\n\r\n"),
                   413);
    expect_refusal(&app, "413 before 100",
                   SLICE("POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n"
                         "Expect: 100-continue\r\n\r\n"),
                   413);
    expect_refusal(&app, "chunk",
                   SLICE("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                         "5\nhello\r\n0\r\n\r\n"),
                   400);
    assert_int_equal(app.requests, 0);
    struct client client; /* a request just within the limit is accepted */
    client_open(&client, &app);
    client_send(&client, long_target(&text, 8192));
    client_send(&client, long_head(&text, 99, 100));
    SEND(&client, "POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789");
    client_expect_times(&client, "HTTP/1.1 200 OK", 3);
    client_close(&client);
    buf_deinit(&text);
    app_end(&app);
}

static void a_refusal_in_a_pipeline_comes_in_its_place(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state, defaults);
    client_open(&client, &app);
    SEND(&client, GET("/slow") GET("/echo") "GET / HTTP/1.1\nHost: a\n\n");
    WAIT_UNTIL(app.loop, app.held_count);
    loop_turn(app.loop, false);
    assert_int_equal(client.got.len, 0);
    http_reply(app.held[0], 200, NULL, 0, SLICE("slow"));
    app.held[0] = NULL;
    client_expect_eof(&client);
    ptrdiff_t last = slice_find(buf_slice(&client.got), SLICE("HTTP/1.1 400 "));
    assert_true(last > slice_find(buf_slice(&client.got), SLICE("\r\n\r\n/echo")));
    assert_int_equal(client_count(&client, "HTTP/1.1 200 OK"), 2);
    client_close(&client);
    app_end(&app);
}

static void a_body_counts_until_it_is_released(void **state)
{
    struct app app;
    struct client client;
    struct budget budget;
    struct budget_use use = {0};
    budget_init(&budget, 1 << 20, 0);
    assert_int_equal(budget_use_begin(&use, &budget, (struct uuid){{1}}), OK);
    app_begin(&app, *state, defaults);
    app.use = &use;
    client_open(&client, &app);
    SEND(&client, "POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n0123456789");
    WAIT_UNTIL(app.loop, budget.used > 0);
    static const char bytes[90];
    client_send(&client, slice_of(bytes, sizeof(bytes)));
    WAIT_UNTIL(app.loop, app.held_count);
    assert_int_equal(budget.used, BUDGET_STEP_BYTES);
    assert_int_equal(use.left, BUDGET_STEP_BYTES - 100);
    http_body_release(app.held[0]);
    assert_int_equal(use.left, BUDGET_STEP_BYTES);
    assert_int_equal(app.held[0]->body.len, 0);
    http_reply(app.held[0], 200, NULL, 0, SLICE("done"));
    app.held[0] = NULL;
    client_expect(&client, "\r\n\r\ndone");
    client_close(&client);
    app_end(&app);
    budget_use_end(&use);
    budget_deinit(&budget);
}

static void a_body_pauses_where_its_handler_says(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state, defaults);
    client_open(&client, &app);
    SEND(&client, "POST /pause HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "a\r\n0123456789\r\n");
    WAIT_UNTIL(app.loop, app.paused);
    struct http_exchange *paused = app.paused;
    SEND(&client, "a\r\nabcdefghij\r\n0\r\n\r\n");
    for (size_t i = 0; i < 5; i++) /* further bytes are not read */
        loop_turn(app.loop, false);
    assert_int_equal(app.requests, 0);
    paused->body_pause_at = 0;
    http_body_accept(paused);
    client_expect(&client, "0123456789abcdefghij");
    assert_int_equal(app.requests, 1);
    client_close(&client);
    app_end(&app);
}

static void too_many_connections_are_reported(void **state)
{
    struct app app;
    struct client clients[3], more;
    app_begin(&app, *state, (struct http_server_config){.connections_max = 3});
    for (size_t i = 0; i < 3; i++)
        client_open(&clients[i], &app);
    client_open(&more, &app);
    client_expect(&more, "HTTP/1.1 503 ");
    assert_true(client_has(&more, "Retry-After: 1\r\n"));
    SEND(&more, GET("/echo"));
    client_expect_eof(&more);
    client_close(&more);
    for (size_t i = 0; i < 3; i++) {
        SEND(&clients[i], GET("/echo"));
        client_expect(&clients[i], "\r\n\r\n/echo");
        client_close(&clients[i]);
    }
    assert_int_equal(app.requests, 3);
    WAIT_UNTIL(app.loop, app.server->conn_count == 0);
    client_open(&more, &app);
    SEND(&more, GET("/echo"));
    client_expect(&more, "\r\n\r\n/echo");
    client_close(&more);
    app_end(&app);
}

static void one_address_has_a_bound_of_its_own(void **state)
{
    struct app app;
    struct client clients[3], more;
    const struct http_server_config config = {.connections_max = 100, .address_connections_max = 3};
    app_begin(&app, *state, config);
    for (size_t i = 0; i < 3; i++)
        client_open(&clients[i], &app);
    client_open(&more, &app);
    client_expect(&more, "HTTP/1.1 503 ");
    client_expect(&more, "too many connections from your address");
    client_expect_eof(&more);
    client_close(&more);
    for (size_t i = 0; i < 3; i++) {
        SEND(&clients[i], GET("/echo"));
        client_expect(&clients[i], "\r\n\r\n/echo");
        client_close(&clients[i]);
    }
    WAIT_UNTIL(app.loop, app.server->conn_count == 0);
    client_open(&more, &app); /* freed again */
    SEND(&more, GET("/echo"));
    client_expect(&more, "\r\n\r\n/echo");
    client_close(&more);
    app_end(&app);
}

static void proxies_have_any_number(void **state)
{
    struct app app;
    struct client clients[5];
    struct err err;
    struct address_policy *proxies = address_policy_new();
    assert_int_equal(address_policy_allow_proxy(proxies, SLICE("127.0.0.0/8"), &err), OK);
    app_begin(&app, *state,
              (struct http_server_config){.address_connections_max = 1, .uncounted = proxies});
    for (size_t i = 0; i < ARRAY_LEN(clients); i++)
        client_open(&clients[i], &app);
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        SEND(&clients[i], GET("/echo"));
        client_expect(&clients[i], "\r\n\r\n/echo");
        client_close(&clients[i]);
    }
    app_end(&app);
    address_policy_free(proxies);
}

/* ---- time-outs ---- */

/* Whether a request has begun on the only connection. */
static bool has_begun(const struct app *app)
{
    const struct list *link = app->server->conns.next;
    return link != &app->server->conns &&
           http_head_scan_has_begun(&LIST_ITEM(link, struct http_conn, link)->scan);
}

/* Opens a connection in that state. The time-out of a silent connection starts at accept, and
 * may be over before the first byte is read if the machine is paused. */
static void send_in_time(struct client *client, struct app *app, const char *sent)
{
    size_t heads = app->heads;
    for (;;) {
        client_open(client, app);
        if (!sent[0])
            return;
        client_send(client, slice_cstr(sent));
        WAIT_UNTIL(app->loop,
                   has_begun(app) || app->heads > heads || client->is_eof || client->is_closed);
        if (has_begun(app) || app->heads > heads)
            return;
        client_close(client);
        WAIT_UNTIL(app->loop, app->server->conn_count == 0);
    }
}

static void slow_requests_are_ended(void **state)
{
    static const struct {
        const char *sent;
        const char *answer; /* NULL: closed without a reply */
    } cases[] = {
        {"", NULL},
        {"G", "HTTP/1.1 408 "},
        {"GET /echo HTTP/1.1\r\nHost: a\r\n", "HTTP/1.1 408 "},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhell", "HTTP/1.1 408 "},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n",
         "HTTP/1.1 408 "},
        {"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 503 "},
        {"POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 503 "},
    };
    struct app app;
    struct client client;
    app_begin(&app, *state,
              (struct http_server_config){
                  .head_timeout_ms = 20,
                  .body_timeout_ms = 20,
                  .request_timeout_ms = 20,
                  .linger_timeout_ms = 20,
              });
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        send_in_time(&client, &app, cases[i].sent);
        WAIT_UNTIL(app.loop, client.is_eof || client.is_closed);
        if (client.is_closed || (!cases[i].answer && client.got.len) ||
            (cases[i].answer && !client_has(&client, cases[i].answer)))
            fail_msg("\"%s\": got %.*s", cases[i].sent, SLICE_ARG(buf_slice(&client.got)));
        WAIT_UNTIL(app.loop, app.server->conn_count == 0); /* lingering ends */
        client_close(&client);
    }
    assert_int_equal(app.gone, 4); /* reported for each request that a handler had */
    /* the handler may still answer the last request, although its client has disconnected */
    assert_int_equal(app.held_count, 1);
    http_reply(app.held[0], 200, NULL, 0, SLICE("late"));
    app.held[0] = NULL;
    app_end(&app);
}

static void idle_connections_are_closed_quietly(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state,
              (struct http_server_config){.idle_timeout_ms = 20, .linger_timeout_ms = 20});
    client_open(&client, &app);
    SEND(&client, GET("/echo"));
    client_expect(&client, "\r\n\r\n/echo");
    size_t len = client.got.len;
    client_expect_eof(&client);
    assert_int_equal(client.got.len, len);
    WAIT_UNTIL(app.loop, app.server->conn_count == 0);
    client_close(&client);
    app_end(&app);
}

/* Single bytes from time to time do not keep a connection open. */
static void a_trickle_is_too_slow(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state,
              (struct http_server_config){.rate_grace_ms = 20, .rate_bytes_s_min = 1000000});
    client_open(&client, &app);
    SEND(&client, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
    while (!client.is_eof && !client.is_closed) {
        if (client.stream && !client.got.len)
            SEND(&client, "x");
        loop_turn(app.loop, true);
    }
    assert_true(client_has(&client, "HTTP/1.1 408 "));
    client_close(&client);
    app_end(&app);
}

static void a_client_that_never_reads_is_cut(void **state)
{
    enum { LEN = 32 << 20 };
    struct app app;
    struct client client;
    app_begin(&app, *state, (struct http_server_config){.reply_timeout_ms = 20});
    char *body = mem_zalloc(LEN);
    for (size_t streams = 0; streams < 2; streams++) {
        size_t finished = app.finished, held = app.held_count;
        client_open(&client, &app);
        stream_read_stop(client.stream);
        SEND(&client, GET("/slow"));
        WAIT_UNTIL(app.loop, app.held_count > held);
        if (streams) {
            http_reply_begin(app.held[held], 200, NULL, 0);
            assert_int_equal(http_reply_chunk(app.held[held], slice_of(body, LEN)), OK);
        } else {
            http_reply(app.held[held], 200, NULL, 0, slice_of(body, LEN));
            app.held[held] = NULL;
        }
        WAIT_UNTIL(app.loop, app.server->conn_count == 0);
        if (streams) {
            assert_int_equal(app.gone, 1);
            assert_int_equal(http_reply_chunk(app.held[held], SLICE("x")), ERR_CLOSED);
            http_reply_end(app.held[held]);
            app.held[held] = NULL;
        }
        assert_int_equal(app.finished, finished + 1);
        stream_read_start(client.stream);
        WAIT_UNTIL(app.loop, client.is_closed); /* reset, so that the client does not take this
                                                 * for the whole body */
        assert_int_equal(client.why.code, ERR_CLOSED);
        assert_true(client.got.len < LEN);
        client_close(&client);
    }
    mem_free(body);
    app_end(&app);
}

static void a_slow_reader_that_reads_is_served(void **state)
{
    enum { LEN = 16 << 20 };
    struct app app;
    struct client client;
    app_begin(&app, *state, (struct http_server_config){.reply_timeout_ms = 60000});
    client_open(&client, &app);
    SEND(&client, GET("/slow") GET("/echo"));
    WAIT_UNTIL(app.loop, app.held_count);
    char *body = mem_zalloc(LEN);
    http_reply(app.held[0], 200, NULL, 0, slice_of(body, LEN));
    app.held[0] = NULL;
    loop_turn(app.loop, false);
    mem_free(body);                    /* borrowed only until the end of the turn */
    assert_int_equal(app.requests, 1); /* the next request waits until this reply has been read */
    client_expect(&client, "\r\n\r\n/echo");
    assert_true(client.got.len > LEN);
    client_close(&client);
    app_end(&app);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_limit_has_its_status),
        TEST(a_refusal_in_a_pipeline_comes_in_its_place),
        TEST(a_body_counts_until_it_is_released),
        TEST(a_body_pauses_where_its_handler_says),
        TEST(too_many_connections_are_reported),
        TEST(one_address_has_a_bound_of_its_own),
        TEST(proxies_have_any_number),
        TEST(slow_requests_are_ended),
        TEST(idle_connections_are_closed_quietly),
        TEST(a_trickle_is_too_slow),
        TEST(a_client_that_never_reads_is_cut),
        TEST(a_slow_reader_that_reads_is_served),
    };
    return cmocka_run_group_tests_name("http/server limits", tests, NULL, NULL);
}
