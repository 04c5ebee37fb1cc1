/* Replies of http/server: without bodies, to HTTP/1.0, streamed, and replies that cannot be
 * sent. */
#include "support/server_app.h"

static const struct http_server_config defaults;

static void bodies_are_left_out_where_the_grammar_says(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state, defaults);
    client_open(&client, &app);
    SEND(&client, "HEAD /echo HTTP/1.1\r\nHost: a\r\n\r\n" GET("/slow"));
    WAIT_UNTIL(app.loop, app.held_count == 1);
    client_expect(&client, "Content-Length: 5\r\n\r\n");
    assert_true(slice_ends_with(buf_slice(&client.got), SLICE("\r\n\r\n")));
    client_forget(&client);
    http_reply(app.held[0], 204, NULL, 0, SLICE("none"));
    app.held[0] = NULL;
    client_expect(&client, "HTTP/1.1 204 No Content\r\n");
    client_expect(&client, "\r\n\r\n");
    assert_false(client_has(&client, "Content-Length"));
    assert_true(slice_ends_with(buf_slice(&client.got), SLICE("\r\n\r\n")));
    client_close(&client);
    app_end(&app);
}

static void http_1_0_is_spoken(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state, defaults);
    client_open(&client, &app);
    SEND(&client, "GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    client_expect(&client, "Connection: keep-alive\r\n\r\n/echo");
    client_forget(&client);
    SEND(&client, "GET /echo HTTP/1.0\r\n\r\n");
    client_expect(&client, "Connection: close\r\n\r\n/echo");
    client_expect_eof(&client);
    client_close(&client);
    client_open(&client, &app); /* a stream of unknown length ends with the connection */
    SEND(&client, "GET /slow HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    WAIT_UNTIL(app.loop, app.held_count);
    http_reply_begin(app.held[0], 200, NULL, 0);
    assert_int_equal(http_reply_chunk(app.held[0], SLICE("one")), OK);
    assert_int_equal(http_reply_chunk(app.held[0], SLICE("two")), OK);
    http_reply_end(app.held[0]);
    app.held[0] = NULL;
    client_expect_eof(&client);
    assert_true(client_has(&client, "Connection: close\r\n\r\nonetwo"));
    assert_false(client_has(&client, "chunked"));
    client_close(&client);
    app_end(&app);
}

/* ---- streaming ---- */

static void a_reply_is_streamed(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state, defaults);
    client_open(&client, &app);
    SEND(&client, GET("/slow") GET("/echo"));
    WAIT_UNTIL(app.loop, app.held_count);
    struct http_header type = {SLICE("Content-Type"), SLICE("text/event-stream")};
    http_reply_begin(app.held[0], 200, &type, 1);
    client_expect(&client, "Transfer-Encoding: chunked\r\n\r\n");
    assert_int_equal(http_reply_chunk(app.held[0], SLICE("data: 1\n\n")), OK);
    client_expect(&client, "9\r\ndata: 1\n\n\r\n");
    assert_int_equal(http_reply_chunk(app.held[0], SLICE("")), OK);
    assert_int_equal(http_reply_chunk(app.held[0], SLICE("data: 2\n\n")), OK);
    http_reply_end(app.held[0]);
    app.held[0] = NULL;
    /* the connection stays open */
    client_expect(&client, "\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n");
    client_expect(&client, "\r\n\r\n/echo");
    assert_int_equal(app.finished, 2);
    client_forget(&client);
    SEND(&client, "HEAD /slow HTTP/1.1\r\nHost: a\r\n\r\n" GET("/echo"));
    WAIT_UNTIL(app.loop, app.held_count == 2);
    http_reply_begin(app.held[1], 200, &type, 1);
    assert_int_equal(http_reply_chunk(app.held[1], SLICE("nothing of this")), OK);
    http_reply_end(app.held[1]);
    app.held[1] = NULL;
    client_expect(&client, "chunked\r\n\r\nHTTP/1.1 200 OK");
    client_expect(&client, "\r\n\r\n/echo");
    client_close(&client);
    app_end(&app);
}

static void a_stream_is_held_back_by_its_reader(void **state)
{
    enum { CHUNK = 256 * 1024, MAX = 1 << 20 };
    struct app app;
    struct client client;
    app_begin(&app, *state, (struct http_server_config){.write_bytes_max = MAX});
    client_open(&client, &app);
    SEND(&client, GET("/slow"));
    WAIT_UNTIL(app.loop, app.held_count);
    stream_read_stop(client.stream);
    http_reply_begin(app.held[0], 200, NULL, 0);
    char *bytes = mem_zalloc(CHUNK);
    size_t sent = 0;
    int rc;
    while ((rc = http_reply_chunk(app.held[0], slice_of(bytes, CHUNK))) == OK)
        sent += CHUNK;
    assert_int_equal(rc, ERR_LIMIT);
    assert_true(http_reply_pending(app.held[0]) <= MAX + 1000);
    assert_int_equal(app.drained, 0);
    stream_read_start(client.stream);
    WAIT_UNTIL(app.loop, app.drained);
    assert_int_equal(http_reply_pending(app.held[0]), 0);
    assert_int_equal(http_reply_chunk(app.held[0], slice_of(bytes, CHUNK)), OK);
    sent += CHUNK;
    http_reply_end(app.held[0]);
    app.held[0] = NULL;
    mem_free(bytes);
    client_expect(&client, "\r\n0\r\n\r\n");
    assert_true(client.got.len > sent);
    assert_int_equal(app.last_bytes, sent);
    client_close(&client);
    app_end(&app);
}

/* ---- large bodies ---- */

enum { LARGE_BYTES = 20 * 1024 * 1024 };

static size_t releases;

static void on_release(void *ctx)
{
    assert_ptr_equal(ctx, &releases);
    releases++;
}

static char *large_body(void)
{
    char *bytes = mem_alloc(LARGE_BYTES);
    assert_non_null(bytes);
    for (size_t i = 0; i < LARGE_BYTES; i++)
        bytes[i] = (char)('a' + i % 23);
    return bytes;
}

/* The body stays in its source until the client has read it, and little of it is buffered in the
 * process. */
static void a_large_body_waits_where_it_is(void **state)
{
    struct app app;
    struct client client;
    char *bytes = large_body();
    releases = 0;
    app_begin(&app, *state, (struct http_server_config){.write_bytes_max = LARGE_BYTES / 2});
    client_open(&client, &app);
    SEND(&client, GET("/slow") GET("/echo"));
    WAIT_UNTIL(app.loop, app.held_count);
    stream_read_stop(client.stream);
    struct http_exchange *exchange = app.held[0];
    http_exchange_ref(exchange);
    const slice parts[] = {SLICE_NONE, slice_of(bytes, 7), slice_of(bytes + 7, LARGE_BYTES - 8),
                           SLICE(""), slice_of(bytes + LARGE_BYTES - 1, 1)};
    http_reply_large(exchange, 200, NULL, 0, parts, ARRAY_LEN(parts), on_release, &releases);
    app.held[0] = NULL;
    WAIT_UNTIL(app.loop, http_reply_pending(exchange) > 0); /* the kernel's buffers are full */
    assert_in_range(http_reply_pending(exchange), 1, 256 * 1024);
    assert_int_equal(releases, 0);
    stream_read_start(client.stream);
    WAIT_UNTIL(app.loop, releases);
    http_exchange_unref(exchange);
    client_expect(&client, "\r\n\r\n/echo"); /* the connection stays usable */
    assert_true(client_has(&client, "Content-Length: 20971520\r\n"));
    slice got = buf_slice(&client.got);
    ptrdiff_t start = slice_find(got, SLICE("\r\n\r\n")) + 4;
    assert_memory_equal(got.ptr + start, bytes, LARGE_BYTES);
    assert_int_equal(releases, 1);
    mem_free(bytes);
    client_close(&client);
    app_end(&app);
}

static void a_large_body_is_let_go_when_its_client_goes(void **state)
{
    struct app app;
    struct client client;
    char *bytes = large_body();
    releases = 0;
    app_begin(&app, *state, defaults);
    client_open(&client, &app);
    SEND(&client, GET("/slow"));
    WAIT_UNTIL(app.loop, app.held_count);
    stream_read_stop(client.stream);
    const slice body = slice_of(bytes, LARGE_BYTES);
    http_reply_large(app.held[0], 200, NULL, 0, &body, 1, on_release, &releases);
    app.held[0] = NULL;
    client_close(&client);
    WAIT_UNTIL(app.loop, releases);
    client_open(&client, &app); /* a reply without a body does not need the source */
    SEND(&client, "HEAD /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    WAIT_UNTIL(app.loop, app.held_count == 2);
    http_reply_large(app.held[1], 200, NULL, 0, &body, 1, on_release, &releases);
    app.held[1] = NULL;
    assert_int_equal(releases, 2);
    client_expect(&client, "Content-Length: 20971520\r\n");
    client_close(&client);
    mem_free(bytes);
    app_end(&app);
    assert_int_equal(releases, 2);
}

/* ---- what cannot be sent ---- */

static void a_value_that_would_split_the_message_is_not_sent(void **state)
{
    struct app app;
    struct client client;
    app_begin(&app, *state, (struct http_server_config){.write_bytes_max = 1000});
    client_open(&client, &app);
    SEND(&client, GET("/slow"));
    WAIT_UNTIL(app.loop, app.held_count);
    struct http_header evil = {SLICE("X-Evil"), SLICE("a\r\nSet-Cookie: b")};
    http_reply(app.held[0], 200, &evil, 1, SLICE("body"));
    app.held[0] = NULL;
    client_expect(&client, "HTTP/1.1 500 ");
    client_expect(&client, "{\"error\":\"Internal error\"}");
    assert_false(client_has(&client, "Set-Cookie"));
    client_forget(&client);
    SEND(&client, GET("/slow"));
    WAIT_UNTIL(app.loop, app.held_count == 2);
    static const char large[1001];
    http_reply(app.held[1], 200, NULL, 0, slice_of(large, sizeof(large)));
    app.held[1] = NULL;
    client_expect(&client, "HTTP/1.1 500 ");
    client_close(&client);
    app_end(&app);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bodies_are_left_out_where_the_grammar_says),
        TEST(http_1_0_is_spoken),
        TEST(a_reply_is_streamed),
        TEST(a_stream_is_held_back_by_its_reader),
        TEST(a_large_body_waits_where_it_is),
        TEST(a_large_body_is_let_go_when_its_client_goes),
        TEST(a_value_that_would_split_the_message_is_not_sent),
    };
    return cmocka_run_group_tests_name("http/server reply", tests, NULL, NULL);
}
