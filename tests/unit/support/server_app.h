/*
 * For the tests of the server: a server on loopback with a handler that acts as the path says, and
 * raw clients on the same loop.
 *
 *   /echo      answers with the body at once
 *   /slow      is kept in app.held[]; the test answers it
 *   /wait      like /slow, but its body waits for http_body_accept
 *   /refuse    is answered with 403 in on_head
 *   /small     accepts bodies of at most 10 bytes
 */
#ifndef TESTS_UNIT_SUPPORT_SERVER_APP_H
#define TESTS_UNIT_SUPPORT_SERVER_APP_H

#include "base/buf.h"
#include "http/server_internal.h"
#include "support/wait.h"
#include "unit.h"

enum { HELD_MAX = 128 };

struct app {
    struct loop *loop;
    struct http_server *server;
    struct http_exchange *held[HELD_MAX];
    size_t held_count;
    size_t heads, requests, finished, refused, gone, drained, server_drained;
    unsigned last_status;
    uint64_t last_bytes;
    bool drops_when_gone;
    struct budget_use *use; /* where bodies count; NULL: nowhere */
    struct http_exchange *paused;
    struct buf seen; /* bodies and facts that a test checks */
};

struct client {
    struct loop *loop;
    struct stream *stream;
    struct buf got;
    bool is_open, is_eof, is_closed;
    struct err why;
};

void app_begin(struct app *app, struct loop *loop, struct http_server_config config);
/* Frees the server and waits until its last connection and exchange have ended. */
void app_end(struct app *app);

void client_open(struct client *client, struct app *app);
void client_send(struct client *client, slice bytes);
/* Turns the loop until the received bytes contain text (count times). Fails if the peer closes
 * before that. */
void client_expect(struct client *client, const char *text);
void client_expect_times(struct client *client, const char *text, size_t count);
/* Turns the loop until the server's FIN arrives. Fails on a reset. */
void client_expect_eof(struct client *client);
bool client_has(const struct client *client, const char *text);
size_t client_count(const struct client *client, const char *text);
void client_forget(struct client *client);
void client_close(struct client *client);

int begin_loop(void **state);
int end_loop(void **state);

#define TEST(function)        cmocka_unit_test_setup_teardown(function, begin_loop, end_loop)
#define SEND(client, literal) client_send((client), SLICE(literal))
#define GET(path)             "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

#endif
