/*
 * serve/request: an op represents a request. The tests have an interface of their own, whose
 * endpoints accept a body and then answer, or end in each way in which an op can end. No caller is
 * checked.
 *
 *   /body   answers with the body
 *   /head   answers before a byte of the body was read
 *   /mute   ends without an answer
 *   /fail   the same, with a failure
 *   /hang   waits for the test
 *   /child  waits for an op below it, which waits for the test and then reads the path
 * /late is done without an answer while something holds the op, and answers when it is resumed
 */
#include "support/server_app.h"

#include "serve/request.h"

/* ---- the interface ---- */

struct room {
    struct serve serve;
    struct app app; /* provides the clients; the server belongs to the room */
    size_t begun, ended, gone, came, finished;
    enum op_end end;
    unsigned status;
    const char *route;
    struct op *hanging;
    size_t read_by_child;
};

static struct room *room_of(struct serve_request *request)
{
    return CONTAINER_OF(request->serve, struct room, serve);
}

static bool goes_to(const struct serve_request *request, const char *path)
{
    return slice_eq_cstr(request->exchange->segments[0], path);
}

static enum op_result answer(struct serve_request *request, unsigned status, slice body)
{
    request->is_answered = true;
    http_reply(request->exchange, status, request->headers, request->header_count, body);
    return OP_DONE;
}

static void open_request(struct serve_request *request)
{
    room_of(request)->begun++;
}

static slice entrance_queue(const struct serve_request *request)
{
    (void)request;
    return OP_STRANGERS;
}

static enum op_result has_no_caller(struct serve_request *request)
{
    return op_jump(&request->op, SERVE_ENTER);
}

static enum op_result is_not_called(struct serve_request *request)
{
    fail_msg("%s: a request without a caller", request->exchange->route);
    return OP_FAIL;
}

static enum op_result goes_on(struct serve_request *request)
{
    (void)request;
    return OP_NEXT;
}

static enum op_result answer_head(struct serve_request *request)
{
    return goes_to(request, "head") ? answer(request, 403, SLICE("unread")) : OP_NEXT;
}

struct child {
    struct op op;
    struct room *room;
    slice path;
};

static enum op_result hang_child(struct op *op)
{
    CONTAINER_OF(op, struct child, op)->room->hanging = op;
    op_hold(op, "the test");
    return OP_WAIT;
}

static enum op_result read_path(struct op *op)
{
    struct child *child = CONTAINER_OF(op, struct child, op);
    child->room->read_by_child += slice_eq_cstr(child->path, "child");
    return OP_DONE;
}

static enum op_result begin_child(struct serve_request *request)
{
    static const struct op_step child_steps[] = {{"hang", hang_child, 0}, {"read", read_path, 0}};
    static const struct op_class child_class = {.name = "child", OP_STEPS(child_steps)};
    struct child *child = ARENA_NEW(&request->op.arena, struct child);
    assert_non_null(child);
    child->room = room_of(request);
    child->path = request->exchange->segments[0];
    op_start(&child->op, &child_class, request->op.loop, &request->op, 1024);
    return OP_WAIT;
}

static enum op_result begin(struct serve_request *request)
{
    if (goes_to(request, "child"))
        return begin_child(request);
    bool is_late = goes_to(request, "late");
    if (goes_to(request, "mute"))
        return OP_DONE;
    if (goes_to(request, "fail"))
        return OP_FAIL;
    if (is_late || goes_to(request, "hang")) {
        op_hold(&request->op, "the test");
        room_of(request)->hanging = &request->op;
        return is_late ? OP_DONE : OP_WAIT;
    }
    return answer(request, 200, arena_dup(&request->op.arena, request->exchange->body));
}

static enum op_result resume(struct serve_request *request)
{
    return answer(request, 200, SLICE("resumed"));
}

static enum op_result refuse(struct serve_request *request, enum serve_refusal refusal)
{
    static const unsigned statuses[] = {[SERVE_NO_PATH] = 404,
                                        [SERVE_NO_METHOD] = 405,
                                        [SERVE_PAST_RATE] = 429,
                                        [SERVE_MEMORY_BUSY] = 503};
    return answer(request, statuses[refusal], SLICE("refused"));
}

static bool on_gone(struct serve_request *request)
{
    room_of(request)->gone++;
    return false;
}

static void on_cancel(struct serve_request *request)
{
    if (room_of(request)->hanging == &request->op)
        op_release(&request->op);
}

static void on_end(struct serve_request *request, enum op_end end)
{
    room_of(request)->end = end;
    room_of(request)->ended++;
}

static struct serve_face face = {
    .arena_bytes_max = 64 * 1024,
    .queue = entrance_queue,
    .open = open_request,
    .find_caller = has_no_caller,
    .take_caller = is_not_called,
    .admit = goes_on,
    .check_access = answer_head,
    .read_body = goes_on,
    .check_body = goes_on,
    .begin = begin,
    .resume = resume,
    .refuse = refuse,
    .on_gone = on_gone,
    .on_cancel = on_cancel,
    .on_end = on_end,
};

static void on_request(struct http_exchange *exchange, void *ctx)
{
    ((struct room *)ctx)->came++;
    serve_on_request(exchange, NULL);
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
    static const struct http_route routes[] = {{HTTP_METHOD_GET, "/{word}", NULL},
                                               {HTTP_METHOD_POST, "/{word}", NULL}};
    static const struct http_handler handler = {.on_head = serve_on_head,
                                                .on_body_paused = serve_on_body_paused,
                                                .on_request = on_request,
                                                .on_finished = on_finished};
    struct err err = {0};
    *room = (struct room){.app = {.loop = loop}, .serve = {.face = &face}};
    face.request_bytes = sizeof(struct serve_request);
    room->serve.router = http_router_new(routes, ARRAY_LEN(routes), &err);
    assert_non_null(room->serve.router);
    config.listeners = &listener;
    config.listener_count = 1;
    room->app.server = http_server_new(loop, &config, &handler, room, &err);
    if (!room->app.server)
        fail_msg("%s", err.text);
}

/* Checks that no request is under way, that each request that began has ended, and that each was
 * finished once. */
static void room_end(struct room *room)
{
    WAIT_UNTIL(room->app.loop, room->serve.active == 0 && room->ended == room->begun);
    http_server_free(room->app.server);
    for (int i = 0; i < 10; i++)
        loop_turn(room->app.loop, false);
    assert_int_equal(op_count(room->app.loop), 0);
    assert_int_equal(room->finished, room->begun);
    http_router_free(room->serve.router);
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
    WAIT_UNTIL(room.app.loop, room.serve.active == 1);
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
    assert_string_equal(room.route, "/{word}"); /* known even after the op has ended */
    client_forget(&client);
    SEND(&client, GET("/body")); /* an empty body counts like one that has arrived */
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
    SEND(&client, "abcdef" GET("/body")); /* dropped, and the connection is kept or closed */
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
        SEND(&client, GET("/body")); /* the connection is still usable */
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
    client_open(&client, &room.app); /* the client disconnects in its body, */
    SEND(&client, POST("/body", "6") "abc");
    WAIT_UNTIL(room.app.loop, room.serve.active == 1);
    client_close(&client);
    WAIT_UNTIL(room.app.loop, room.ended == 1);
    assert_int_equal(room.end, OP_ENDED_CANCELLED);
    client_open(&client, &room.app); /* while its op waits for something else, */
    SEND(&client, GET("/hang"));
    WAIT_UNTIL(room.app.loop, room.hanging);
    client_close(&client);
    WAIT_UNTIL(room.app.loop, room.ended == 2);
    assert_int_equal(room.end, OP_ENDED_CANCELLED);
    assert_int_equal(room.gone, 2);
    client_open(&client, &room.app); /* and in the turn in which its head is read */
    SEND(&client, POST("/body", "6"));
    client_close(&client);
    room_end(&room);
    assert_true(room.gone <= 3);
}

/* Cancelled by the server, with its client still connected: the client's connection ends
 * immediately. */
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

/* The ops below a cancelled one may go on, with what they borrowed of the request. */
static void a_cancelled_ops_child_has_the_head(void **state)
{
    struct room room;
    struct client client;
    room_begin(&room, *state, defaults);
    client_open(&client, &room.app);
    SEND(&client, GET("/child"));
    WAIT_UNTIL(room.app.loop, room.hanging);
    op_cancel(room.hanging->parent);
    WAIT_UNTIL(room.app.loop, client.is_closed || client.is_eof);
    client_close(&client);
    for (int i = 0; i < 5; i++)
        loop_turn(room.app.loop, false);
    assert_int_equal(room.ended, 1);
    op_release(room.hanging);
    WAIT_UNTIL(room.app.loop, room.read_by_child == 1);
    room_end(&room);
}

/* A page that ends before its frame was read completely. */
static void an_endpoint_that_is_done_early_is_resumed(void **state)
{
    struct room room;
    struct client client;
    room_begin(&room, *state, defaults);
    client_open(&client, &room.app);
    SEND(&client, GET("/late"));
    WAIT_UNTIL(room.app.loop, room.hanging);
    for (int i = 0; i < 5; i++)
        loop_turn(room.app.loop, false);
    assert_int_equal(room.finished, 0);
    op_release(room.hanging);
    room.hanging = NULL;
    client_expect(&client, "\r\n\r\nresumed");
    assert_int_equal(room.end, OP_ENDED_DONE);
    client_close(&client);
    room_end(&room);
}

static void a_path_or_method_that_is_not_there_is_refused(void **state)
{
    struct room room;
    struct client client;
    room_begin(&room, *state, defaults);
    client_open(&client, &room.app);
    SEND(&client, GET("/a/b"));
    client_expect(&client, "HTTP/1.1 404 ");
    SEND(&client, "DELETE /a HTTP/1.1\r\nHost: a\r\n\r\n");
    client_expect(&client, "HTTP/1.1 405 ");
    client_expect(&client, "Allow: GET, HEAD, POST\r\n");
    client_close(&client);
    room_end(&room);
}

/* ---- the server's own answers while an op waits ---- */

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
        WAIT_UNTIL(room.app.loop, room.ended == 1);
        assert_int_equal(room.end, OP_ENDED_CANCELLED);
        assert_int_equal(room.gone, 1);
        client_expect_eof(&client); /* not a reset, so the client can read the reason */
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
    face.request_bytes = SIZE_MAX / 2;
    client_open(&client, &room.app);
    SEND(&client, POST("/body", "2") "{}");
    client_expect(&client, "HTTP/1.1 503 ");
    assert_int_equal(room.serve.active + room.begun, 0);
    assert_int_equal(room.finished, 1);
    assert_string_equal(room.route, "(none)");
    face.request_bytes = sizeof(struct serve_request);
    room.finished = 0;
    client_forget(&client);
    SEND(&client, GET("/body"));
    client_expect(&client, "HTTP/1.1 200 ");
    client_close(&client);
    room_end(&room);
}

/* Each allocation in turn fails: there is one answer or none, and no memory is left. */
static void failing_allocations(void **state)
{
    static const slice body = SLICE_INIT("{}");
    struct room room;
    for (uint64_t n = 1, hits = 1; hits; n++) {
        struct client client;
        room_begin(&room, *state, defaults);
        client_open(&client, &room.app);
        assert_true(buf_reserve(&client.got, 4096)); /* so the allocation that fails is one of
                                                      * the server */
        SEND(&client, POST("/body", "2"));
        mem_fail_at(n, 1);
        WAIT_UNTIL(room.app.loop,
                   room.serve.active || room.finished || client.is_eof || !client.stream);
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
        http_router_free(room.serve.router);
        assert_int_equal(room.serve.active, 0);
        assert_int_equal(room.ended, room.begun);
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
        TEST(a_cancelled_ops_child_has_the_head),
        TEST(an_endpoint_that_is_done_early_is_resumed),
        TEST(a_path_or_method_that_is_not_there_is_refused),
        TEST(what_the_server_refuses_ends_the_op),
        TEST(no_memory_is_said),
        TEST(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
