/* See server_app.h. */
#include "support/server_app.h"

#include <arpa/inet.h>
#include <stdio.h>

/* ---- the handler ---- */

static void on_gone(struct http_exchange *exchange)
{
    struct app *app = exchange->user;
    app->gone++;
    assert_true(exchange->is_gone);
    if (!app->drops_when_gone)
        return;
    for (size_t i = 0; i < app->held_count; i++)
        if (app->held[i] == exchange)
            app->held[i] = NULL;
    http_reply_drop(exchange);
}

static void on_drained(struct http_exchange *exchange)
{
    ((struct app *)exchange->user)->drained++;
}

static bool path_is(const struct http_exchange *exchange, const char *name)
{
    return exchange->segment_count > 0 && slice_eq_cstr(exchange->segments[0], name);
}

static enum http_body_wanted on_head(struct http_exchange *exchange, void *ctx)
{
    struct app *app = ctx;
    app->heads++;
    exchange->user = app;
    exchange->on_gone = on_gone;
    exchange->on_drained = on_drained;
    if (path_is(exchange, "refuse"))
        http_reply_error(exchange, 403, SLICE("not \"here\"\n"));
    if (path_is(exchange, "small"))
        exchange->body_bytes_max = 10;
    if (path_is(exchange, "pause"))
        exchange->body_pause_at = 10;
    exchange->use = app->use;
    return path_is(exchange, "wait") ? HTTP_BODY_WAIT : HTTP_BODY_READ;
}

static void on_body_paused(struct http_exchange *exchange, void *ctx)
{
    ((struct app *)ctx)->paused = exchange;
}

static void on_request(struct http_exchange *exchange, void *ctx)
{
    struct app *app = ctx;
    app->requests++;
    buf_append(&app->seen, exchange->body);
    buf_append_char(&app->seen, '|');
    if (path_is(exchange, "slow") || path_is(exchange, "wait")) {
        assert_true(app->held_count < HELD_MAX);
        app->held[app->held_count++] = exchange;
        return;
    }
    struct http_header type = {SLICE("Content-Type"), SLICE("text/plain")};
    slice body = exchange->body.len ? exchange->body : exchange->head.target;
    http_reply(exchange, 200, &type, 1, body);
}

static void on_finished(struct http_exchange *exchange, void *ctx)
{
    struct app *app = ctx;
    if (!exchange->user) { /* refused before the handler got it */
        app->refused++;
        return;
    }
    if (app->use) /* before it may end */
        http_body_release(exchange);
    app->finished++;
    app->last_status = exchange->status;
    app->last_bytes = exchange->reply_bytes;
}

void app_begin(struct app *app, struct loop *loop, struct http_server_config config)
{
    static const struct tcp_listen_config listener = {.address = SLICE_INIT("127.0.0.1:0")};
    static const struct http_handler handler = {.on_head = on_head,
                                                .on_body_paused = on_body_paused,
                                                .on_request = on_request,
                                                .on_finished = on_finished};
    struct err err = {0};
    *app = (struct app){.loop = loop};
    buf_init(&app->seen, 64 << 20);
    if (!config.listener_count) {
        config.listeners = &listener;
        config.listener_count = 1;
    }
    app->server = http_server_new(loop, &config, &handler, app, &err);
    if (!app->server)
        fail_msg("%s", err.text);
}

void app_end(struct app *app)
{
    if (app->server)
        http_server_free(app->server);
    app->server = NULL;
    for (size_t i = 0; i < app->held_count; i++)
        if (app->held[i])
            http_reply_error(app->held[i], 500, SLICE("the test is over"));
    for (size_t i = 0; i < 10; i++)
        loop_turn(app->loop, false);
    buf_deinit(&app->seen);
}

/* ---- clients ---- */

static void client_on_open(struct stream *stream, void *owner)
{
    struct client *client = owner;
    client->is_open = true;
    stream_read_start(stream);
}

static void client_on_read(struct stream *stream, void *owner, slice bytes)
{
    (void)stream;
    buf_append(&((struct client *)owner)->got, bytes);
}

static void client_on_eof(struct stream *stream, void *owner, bool is_clean)
{
    (void)stream;
    (void)is_clean;
    ((struct client *)owner)->is_eof = true;
}

static void client_on_closed(struct stream *stream, void *owner, const struct err *why)
{
    (void)stream;
    struct client *client = owner;
    client->is_closed = true;
    client->stream = NULL;
    client->why = *why;
}

static const struct stream_events client_events = {
    .on_open = client_on_open,
    .on_read = client_on_read,
    .on_eof = client_on_eof,
    .on_closed = client_on_closed,
};

void client_open(struct client *client, struct app *app)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(http_server_port(app->server, 0)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    struct err err = {0};
    *client = (struct client){.loop = app->loop};
    buf_init(&client->got, 256 << 20);
    uint64_t before = app->server->accepted;
    client->stream = tcp_connect(app->loop, (struct sockaddr *)&address, 256 << 20, &client_events,
                                 client, &err);
    assert_non_null(client->stream);
    WAIT_UNTIL(app->loop, client->is_open && app->server->accepted > before);
}

void client_send(struct client *client, slice bytes)
{
    assert_non_null(client->stream);
    assert_int_equal(stream_write(client->stream, &bytes, 1), OK);
}

size_t client_count(const struct client *client, const char *text)
{
    slice rest = buf_slice(&client->got), wanted = slice_cstr(text);
    size_t count = 0;
    for (ptrdiff_t at; (at = slice_find(rest, wanted)) >= 0; count++)
        rest = slice_from(rest, (size_t)at + wanted.len);
    return count;
}

bool client_has(const struct client *client, const char *text)
{
    return client_count(client, text) > 0;
}

void client_expect_times(struct client *client, const char *text, size_t count)
{
    while (client_count(client, text) < count) {
        if (client->is_eof || client->is_closed)
            fail_msg("the peer ended (%s) before \"%s\"; got: %.*s", client->why.text, text,
                     SLICE_ARG(buf_slice(&client->got)));
        assert_true(loop_turn(client->loop, true));
    }
    assert_int_equal(client_count(client, text), count);
}

void client_expect(struct client *client, const char *text)
{
    client_expect_times(client, text, 1);
}

void client_expect_eof(struct client *client)
{
    WAIT_UNTIL(client->loop, client->is_eof || client->is_closed);
    if (client->is_closed)
        fail_msg("no clean end: %s", client->why.text);
}

void client_forget(struct client *client)
{
    buf_clear(&client->got);
}

void client_close(struct client *client)
{
    if (client->stream)
        stream_close(client->stream);
    WAIT_UNTIL(client->loop, !client->stream);
    buf_deinit(&client->got);
}

/* ---- setup ---- */

int begin_loop(void **state)
{
    struct err err;
    *state = loop_new(&err);
    return *state ? 0 : -1;
}

int end_loop(void **state)
{
    loop_free(*state);
    return unit_end();
}
