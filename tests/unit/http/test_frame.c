/*
 * http/frame: an op stands for a request. A room of its own for the tests: a request that waits for
 * its body and then answers, or ends in each of the ways in which an op may end.
 *
 *   /body   waits for the body, answers with it
 *   /head   answers before a byte of the body was looked at
 *   /mute   waits for the body, ends without an answer
 *   /fail   the same, fails
 *   /hang   waits for the body, then for the test
 */
#include "support/server_app.h"

#include "http/frame.h"

/* ---- the room ---- */

struct room {
    struct app app; /* for its clients; the server is the room's */
    size_t active, begun, freed, gone, came, finished, refusals;
    enum op_end end;
    unsigned status;
    const char *route;
    bool has_no_memory; /* for a request */
    struct op *hanging;
};

struct request {
    struct op op;
    struct http_frame frame;
    struct room *room;
};

static struct room *room_of_exchange;

static struct request *request_of(struct op *op)
{
    return CONTAINER_OF(op, struct request, op);
}

static bool goes_to(const struct request *request, const char *path)
{
    return slice_eq_cstr(request->frame.exchange->segments[0], path);
}

static void answer(struct request *request, unsigned status, slice body)
{
    request->frame.is_answered = true;
    http_reply(request->frame.exchange, status, NULL, 0, body);
}

static enum op_result step_route(struct op *op)
{
    struct request *request = request_of(op);
    if (goes_to(request, "head")) {
        answer(request, 403, SLICE("unread"));
        return OP_DONE;
    }
    request->frame.exchange->route = "/{word}";
    return http_frame_wait_for_body(&request->frame);
}

static enum op_result step_answer(struct op *op)
{
    struct request *request = request_of(op);
    if (goes_to(request, "mute"))
        return OP_DONE;
    if (goes_to(request, "fail"))
        return OP_FAIL;
    if (goes_to(request, "hang")) {
        op_hold(op, "the test");
        request->room->hanging = op;
        return OP_WAIT;
    }
    answer(request, 200, request->frame.exchange->body);
    return OP_DONE;
}

static enum op_result step_end(struct op *op)
{
    (void)op;
    return OP_DONE;
}

static void on_cancel(struct op *op)
{
    struct request *request = request_of(op);
    if (request->room->hanging == op)
        op_release(op);
    http_frame_cancel(&request->frame);
}

static void on_end(struct op *op, enum op_end end)
{
    struct request *request = request_of(op);
    request->room->end = end;
    http_frame_end(&request->frame, end);
}

static void free_request(struct op *op)
{
    request_of(op)->room->freed++;
    mem_free(request_of(op));
}

static const struct op_step steps[] = {
    {"route", step_route, 0}, {"answer", step_answer, 0}, {"end", step_end, 0}};
static const struct op_class request_class = {
    .name = "request",
    .steps = steps,
    .step_count = ARRAY_LEN(steps),
    .on_cancel = on_cancel,
    .on_end = on_end,
    .free = free_request,
};

static void on_gone(struct http_exchange *exchange)
{
    struct http_frame *frame = http_frame_of(exchange);
    assert_non_null(frame);
    room_of_exchange->gone++;
    op_cancel(frame->op);
}

static enum http_body_wanted on_head(struct http_exchange *exchange, void *ctx)
{
    struct room *room = ctx;
    struct request *request = room->has_no_memory ? NULL : mem_zalloc(sizeof(*request));
    if (!request) {
        room->refusals++;
        return http_frame_refuse(exchange);
    }
    request->room = room;
    room->begun++;
    http_frame_begin(&request->frame, exchange, &request->op, &room->active, on_gone);
    assert_ptr_equal(http_frame_of(exchange), &request->frame);
    op_start(&request->op, &request_class, exchange->loop, NULL, 64 * 1024);
    return HTTP_BODY_WAIT;
}

static void on_request(struct http_exchange *exchange, void *ctx)
{
    ((struct room *)ctx)->came++;
    http_frame_on_request(exchange, NULL);
}

static void on_finished(struct http_exchange *exchange, void *ctx)
{
    struct room *room = ctx;
    room->finished++;
    room->status = exchange->status;
    room->route = exchange->route;
}

static void room_begin(struct room *room, struct loop *loop, struct http_server_config config)
{
    static const struct tcp_listen_config listener = {.address = SLICE_INIT("127.0.0.1:0")};
    static const struct http_handler handler = {
        .on_head = on_head, .on_request = on_request, .on_finished = on_finished};
    struct err err = {0};
    *room = (struct room){.app = {.loop = loop}};
    room_of_exchange = room;
    config.listeners = &listener;
    config.listener_count = 1;
    room->app.server = http_server_new(loop, &config, &handler, room, &err);
    if (!room->app.server)
        fail_msg("%s", err.text);
}

/* Whatever happened: no request is under way, each that began has gone, each was told once. */
static void room_end(struct room *room)
{
    WAIT_UNTIL(room->app.loop, room->active == 0 && room->freed == room->begun);
    http_server_free(room->app.server);
    for (int i = 0; i < 10; i++)
        loop_turn(room->app.loop, false);
    assert_int_equal(op_count(room->app.loop), 0);
    assert_int_equal(room->finished, room->begun + room->refusals);
}

static const struct http_server_config defaults;

#define POST(path, length) "POST " path " HTTP/1.1\r\nHost: a\r\nContent-Length: " length "\r\n\r\n"

/* ---- bodies ---- */

static void a_body_is_waited_for(void **state)
{
    struct room room;
    struct client client;
    room_begin(&room, *state, defaults);
    client_open(&client, &room.app);
    SEND(&client, POST("/body", "6"));
    WAIT_UNTIL(room.app.loop, room.active == 1);
    for (int i = 0; i < 5; i++)
        loop_turn(room.app.loop, false);
    SEND(&client, "abc");
    for (int i = 0; i < 5; i++)
        loop_turn(room.app.loop, false);
    assert_int_equal(room.came, 0);
    assert_int_equal(room.finished, 0);
    SEND(&client, "def");
    client_expect(&client, "\r\n\r\nabcdef");
    assert_int_equal(room.came, 1);
    assert_int_equal(room.end, OP_ENDED_DONE);
    assert_int_equal(room.status, 200);
    assert_string_equal(room.route, "/{word}"); /* told though the op has ended */
    client_forget(&client);
    SEND(&client, GET("/body")); /* none is as good as one that is here */
    client_expect(&client, "Content-Length: 0\r\n");
    client_forget(&client);
    SEND(&client, POST("/body", "2") "hi" POST("/body", "2") "ho" GET("/body"));
    client_expect(&client, "\r\n\r\nhi");
    client_expect(&client, "\r\n\r\nho");
    client_expect(&client, "Content-Length: 0\r\n");
    assert_int_equal(room.begun, 5);
    client_close(&client);
    room_end(&room);
    assert_int_equal(room.gone, 0);
}

static void an_answer_before_the_body_is_the_only_one(void **state)
{
    struct room room;
    struct client client;
    room_begin(&room, *state, defaults);
    client_open(&client, &room.app);
    SEND(&client, POST("/head", "6"));
    client_expect(&client, "HTTP/1.1 403 ");
    SEND(&client, "abcdef" GET("/body")); /* dropped; the connection goes on or is closed */
    WAIT_UNTIL(room.app.loop, client_has(&client, "HTTP/1.1 200 ") || client.is_eof);
    assert_int_equal(client_count(&client, "HTTP/1.1 403 "), 1);
    assert_false(client_has(&client, "HTTP/1.1 500 "));
    client_close(&client);
    room_end(&room);
    assert_int_equal(room.gone, 0);
}

/* ---- ends ---- */

static void an_op_that_says_nothing_is_answered_for(void **state)
{
    static const char *const requests[] = {POST("/mute", "2") "{}", POST("/fail", "2") "{}"};
    struct room room;
    room_begin(&room, *state, defaults);
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        struct client client;
        client_open(&client, &room.app);
        client_send(&client, slice_cstr(requests[i]));
        client_expect(&client, "HTTP/1.1 500 ");
        client_expect(&client, "{\"error\":\"Internal error\"}");
        assert_int_equal(room.end, i ? OP_ENDED_FAILED : OP_ENDED_DONE);
        client_forget(&client);
        SEND(&client, GET("/body")); /* the connection is none the worse */
        client_expect(&client, "HTTP/1.1 200 ");
        client_close(&client);
    }
    room_end(&room);
}

static void a_client_that_goes_ends_its_op(void **state)
{
    struct room room;
    struct client client;
    room_begin(&room, *state, defaults);
    client_open(&client, &room.app); /* in its body, */
    SEND(&client, POST("/body", "6") "abc");
    WAIT_UNTIL(room.app.loop, room.active == 1);
    client_close(&client);
    WAIT_UNTIL(room.app.loop, room.freed == 1);
    assert_int_equal(room.end, OP_ENDED_CANCELLED);
    client_open(&client, &room.app); /* while its op waits for something else, */
    SEND(&client, GET("/hang"));
    WAIT_UNTIL(room.app.loop, room.hanging);
    client_close(&client);
    WAIT_UNTIL(room.app.loop, room.freed == 2);
    assert_int_equal(room.end, OP_ENDED_CANCELLED);
    assert_int_equal(room.gone, 2);
    client_open(&client, &room.app); /* and in the turn in which its head is read */
    SEND(&client, POST("/body", "6"));
    client_close(&client);
    room_end(&room);
    assert_true(room.gone <= 3);
}

/* Cancelled from inside, with its client still there: the client learns at once that no answer
 * comes. */
static void a_cancelled_op_drops_its_exchange(void **state)
{
    struct room room;
    struct client client;
    room_begin(&room, *state, defaults);
    client_open(&client, &room.app);
    SEND(&client, GET("/hang"));
    WAIT_UNTIL(room.app.loop, room.hanging);
    op_cancel(room.hanging);
    op_cancel(room.hanging);
    WAIT_UNTIL(room.app.loop, client.is_closed || client.is_eof);
    assert_int_equal(client.got.len, 0);
    client_close(&client);
    room_end(&room);
    assert_int_equal(room.gone, 0);
}

/* ---- what the server answers by itself while an op waits ---- */

static void what_the_server_refuses_ends_the_op(void **state)
{
    static const struct {
        const char *sent, *answer;
    } cases[] = {
        {POST("/body", "101") "a", "HTTP/1.1 413 "},
        {"POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
         "zz\r\n",
         "HTTP/1.1 400 "},
        {"POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
         "65\r\n",
         "HTTP/1.1 413 "},
        {POST("/body", "10") "abc", "HTTP/1.1 408 "},
        {GET("/hang"), "HTTP/1.1 503 "},
    };
    struct http_server_config config = {
        .body_bytes_max = 100, .body_timeout_ms = 100, .request_timeout_ms = 150};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct room room;
        struct client client;
        room_begin(&room, *state, config);
        client_open(&client, &room.app);
        client_send(&client, slice_cstr(cases[i].sent));
        client_expect(&client, cases[i].answer);
        assert_int_equal(client_count(&client, "HTTP/1.1 "), 1);
        WAIT_UNTIL(room.app.loop, room.freed == 1);
        assert_int_equal(room.end, OP_ENDED_CANCELLED);
        assert_int_equal(room.gone, 1);
        client_expect_eof(&client); /* and not a reset: it can read why */
        assert_int_equal(client_count(&client, "HTTP/1.1 "), 1);
        client_close(&client);
        room_end(&room);
    }
}

/* ---- memory ---- */

static void no_memory_is_said(void **state)
{
    struct room room;
    struct client client;
    room_begin(&room, *state, defaults);
    room.has_no_memory = true;
    client_open(&client, &room.app);
    SEND(&client, POST("/body", "2") "{}");
    client_expect(&client, "HTTP/1.1 503 ");
    assert_int_equal(room.active, 0);
    assert_int_equal(room.refusals, 1);
    assert_string_equal(room.route, "(none)");
    room.has_no_memory = false;
    client_forget(&client);
    SEND(&client, GET("/body"));
    client_expect(&client, "HTTP/1.1 200 ");
    client_close(&client);
    room_end(&room);
}

/* Every allocation in turn fails: one answer or none, and nothing stays. */
static void failing_allocations(void **state)
{
    static const slice body = SLICE_INIT("{}");
    struct room room;
    for (uint64_t n = 1, hits = 1; hits; n++) {
        struct client client;
        room_begin(&room, *state, defaults);
        client_open(&client, &room.app);
        assert_true(buf_reserve(&client.got, 4096)); /* what fails is the server's */
        SEND(&client, POST("/body", "2"));
        mem_fail_at(n, 1);
        WAIT_UNTIL(room.app.loop, room.active || room.finished || client.is_eof || !client.stream);
        bool is_sent = client.stream && stream_write(client.stream, &body, 1) == OK;
        WAIT_UNTIL(room.app.loop,
                   client_has(&client, "\r\n\r\n") || client.is_eof || !client.stream || !is_sent);
        hits = mem_fail_hits();
        mem_fail_at(0, 0);
        assert_true(client_count(&client, "HTTP/1.1 ") <= 1);
        if (!hits)
            client_expect(&client, "HTTP/1.1 200 ");
        client_close(&client);
        http_server_free(room.app.server);
        for (int i = 0; i < 10; i++)
            loop_turn(*state, false);
        assert_int_equal(room.active, 0);
        assert_int_equal(room.freed, room.begun);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_body_is_waited_for),
        TEST(an_answer_before_the_body_is_the_only_one),
        TEST(an_op_that_says_nothing_is_answered_for),
        TEST(a_client_that_goes_ends_its_op),
        TEST(a_cancelled_op_drops_its_exchange),
        TEST(what_the_server_refuses_ends_the_op),
        TEST(no_memory_is_said),
        TEST(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
