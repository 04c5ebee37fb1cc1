/*
 * Successful calls of the outbound client: what is sent, the forms of replies, and bodies.
 */
#include "support/certs.h"
#include "support/http_caller.h"
#include "unit.h"

static struct certs *certs;

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static const struct peer_script keep_ok[] = {{.reply = OK_REPLY}};

static void assert_result(const struct caller *caller, enum http_call_result result)
{
    assert_int_equal(caller->start_code, OK);
    if (caller->call.result != result)
        fail_msg("%s, not %s: %s", http_call_result_name(caller->call.result),
                 http_call_result_name(result), caller->call.err.text);
    assert_int_equal(result == HTTP_CALL_OK, caller->call.err.code == OK);
    assert_int_equal(result == HTTP_CALL_OK, caller->call.err.text[0] == '\0');
}

/* ---- requests ---- */

static void a_get_is_sent_and_answered(void **state)
{
    (void)state;
    static const struct peer_script scripts[] = {
        {.reply = "HTTP/1.1 200 Fine\r\nContent-Type: application/json\r\nX-Empty:\r\n"
                  "X-Spaces: \t a b \t \r\nx-empty: 2\r\nContent-Length: 15\r\n\r\n"
                  "{\"ok\": \"\0yes\"} ",
         .reply_len = 115 + 15},
    };
    struct caller_world world;
    struct caller caller;
    caller_world_init(&world, NULL, NULL, NULL, scripts, 1);
    caller_init(&caller, &world, "/a/b?c=d%20e");
    const struct http_header headers[] = {{SLICE("Authorization"), SLICE("Bearer t0ken")},
                                          {SLICE("Accept"), SLICE("*/*")}};
    caller.call.headers = headers;
    caller.call.header_count = 2;
    caller_start(&caller, &world, 1 << 20);
    caller_wait(&caller);
    assert_result(&caller, HTTP_CALL_OK);
    const struct http_call *call = &caller.call;
    assert_int_equal(call->status, 200);
    assert_int_equal(call->body.len, 15);
    assert_memory_equal(call->body.ptr, "{\"ok\": \"\0yes\"} ", 15);
    assert_int_equal(call->response_header_count, 5);
    assert_text(http_call_header(call, SLICE("content-type")), "application/json");
    assert_text(http_call_header(call, SLICE("X-EMPTY")), "");
    assert_text(http_call_header(call, SLICE("x-spaces")), "a b");
    assert_null(http_call_header(call, SLICE("x-none")).ptr);
    char want[400];
    snprintf(want, sizeof(want),
             "GET /a/b?c=d%%20e HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUser-Agent: sluice\r\n"
             "Authorization: Bearer t0ken\r\nAccept: */*\r\n\r\n",
             http_peer_port(&world.peer));
    assert_text(buf_slice(&world.peer.request), want);
    snprintf(want, sizeof(want), "127.0.0.1:%u", http_peer_port(&world.peer));
    assert_string_equal(call->remote, want);
    assert_true(call->is_any_byte_sent && !call->is_reused && !call->is_resumed);
    assert_true(call->first_byte_ns > 0 && call->total_ns >= call->first_byte_ns);
    assert_true(call->tls_ns == 0 && call->waiting_ns == 0);
    caller_deinit(&caller);
    caller_world_deinit(&world);
}

struct request_row {
    const char *method, *path, *headers, *body, *want;
};

static void requests_are_written_as_they_should(void **state)
{
    (void)state;
    static const struct request_row rows[] = {
        {"GET", "", NULL, NULL, "GET / HTTP/1.1\r\nHost: H\r\nUser-Agent: me/1\r\n\r\n"},
        {"GET", "?a=b", NULL, NULL, "GET /?a=b HTTP/1.1\r\nHost: H\r\nUser-Agent: me/1\r\n\r\n"},
        {"DELETE", "/x", NULL, NULL, "DELETE /x HTTP/1.1\r\nHost: H\r\nUser-Agent: me/1\r\n\r\n"},
        {"POST", "/x", NULL, NULL,
         "POST /x HTTP/1.1\r\nHost: H\r\nUser-Agent: me/1\r\nContent-Length: 0\r\n\r\n"},
        {"PATCH", "/x", NULL, "body",
         "PATCH /x HTTP/1.1\r\nHost: H\r\nUser-Agent: me/1\r\nContent-Length: 4\r\n\r\nbody"},
        {"DELETE", "/x", NULL, "body",
         "DELETE /x HTTP/1.1\r\nHost: H\r\nUser-Agent: me/1\r\nContent-Length: 4\r\n\r\nbody"},
        {"GET", "/x", "user-agent", NULL, "GET /x HTTP/1.1\r\nHost: H\r\nuser-agent: v\r\n\r\n"},
    };
    struct caller_world world;
    struct http_client_config config = {.user_agent = SLICE("me/1")};
    caller_world_init(&world, &config, NULL, NULL, keep_ok, 1);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct caller caller;
        caller_init(&caller, &world, rows[i].path);
        caller.call.method = slice_cstr(rows[i].method);
        struct http_header header = {slice_cstr(rows[i].headers), SLICE("v")};
        caller.call.headers = &header;
        caller.call.header_count = rows[i].headers ? 1 : 0;
        slice body = slice_cstr(rows[i].body);
        caller.call.body_parts = &body;
        caller.call.body_part_count = rows[i].body ? 1 : 0;
        caller_start(&caller, &world, 1 << 20);
        caller_wait(&caller);
        assert_result(&caller, HTTP_CALL_OK);
        char want[300], host[40];
        snprintf(host, sizeof(host), "127.0.0.1:%u", http_peer_port(&world.peer));
        const char *at = strstr(rows[i].want, "Host: H") + 6;
        snprintf(want, sizeof(want), "%.*s%s%s", (int)(at - rows[i].want), rows[i].want, host,
                 at + 1);
        assert_text(buf_slice(&world.peer.request), want);
        caller_deinit(&caller);
    }
    assert_int_equal(world.peer.connections, 1);
    caller_world_deinit(&world);
}

struct refused_row {
    const char *method, *url, *name, *value;
    int code;
};

static void what_may_not_be_sent_is_refused_at_once(void **state)
{
    (void)state;
    static const struct refused_row rows[] = {
        {"GET", "ftp://a/", "a", "b", ERR_SYNTAX},
        {"GET", "http://127.0.0.1/\r\nX: y", "a", "b", ERR_SYNTAX},
        {"G T", NULL, "a", "b", ERR_INVALID},
        {"", NULL, "a", "b", ERR_INVALID},
        {"GET\r\n", NULL, "a", "b", ERR_INVALID},
        {"CONNECT", NULL, "a", "b", ERR_INVALID},
        {"GET", NULL, "", "b", ERR_INVALID},
        {"GET", NULL, "a b", "b", ERR_INVALID},
        {"GET", NULL, "a:", "b", ERR_INVALID},
        {"GET", NULL, "a", "b\r\nX: y", ERR_INVALID},
        {"GET", NULL, "a", "b\n", ERR_INVALID},
        {"GET", NULL, "Host", "evil", ERR_INVALID},
        {"GET", NULL, "content-length", "5", ERR_INVALID},
        {"GET", NULL, "Transfer-Encoding", "chunked", ERR_INVALID},
        {"GET", NULL, "Connection", "close", ERR_INVALID},
        {"GET", NULL, "Expect", "100-continue", ERR_INVALID},
        {"GET", NULL, "Upgrade", "h2c", ERR_INVALID},
    };
    struct caller_world world;
    caller_world_init(&world, NULL, NULL, NULL, keep_ok, 1);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct caller caller;
        caller_init(&caller, &world, "/");
        caller.call.method = slice_cstr(rows[i].method);
        if (rows[i].url)
            caller.call.url = slice_cstr(rows[i].url);
        struct http_header header = {slice_cstr(rows[i].name), slice_cstr(rows[i].value)};
        caller.call.headers = &header;
        caller.call.header_count = 1;
        caller_start(&caller, &world, 1 << 20);
        caller_wait(&caller);
        if (caller.start_code != rows[i].code)
            fail_msg("row %zu: %d %s", i, caller.start_code, caller.call.err.text);
        assert_true(strlen(caller.call.err.text) > 10);
        caller_deinit(&caller);
    }
    /* too many headers, and a head that is too large */
    static struct http_header many[HTTP_CALL_HEADERS_MAX + 1];
    static char large[HTTP_CALL_REQUEST_HEAD_MAX];
    static slice parts[HTTP_CALL_BODY_PARTS_MAX + 1];
    memset(large, 'x', sizeof(large));
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = (struct http_header){SLICE("a"), SLICE("b")};
    for (int i = 0; i < 3; i++) {
        struct caller caller;
        caller_init(&caller, &world, "/");
        if (i == 1)
            many[0].value = slice_of(large, sizeof(large));
        caller.call.headers = many;
        caller.call.header_count = i == 0 ? ARRAY_LEN(many) : i == 1 ? 1 : 0;
        caller.call.body_parts = parts;
        caller.call.body_part_count = i == 2 ? ARRAY_LEN(parts) : 0;
        caller_start(&caller, &world, 1 << 20);
        caller_wait(&caller);
        assert_int_equal(caller.start_code, ERR_LIMIT);
        caller_deinit(&caller);
    }
    assert_int_equal(world.peer.connections, 0);
    caller_world_deinit(&world);
}

static char *pattern_body(size_t len)
{
    char *bytes = mem_alloc(len);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    return bytes;
}

static void large_bodies_arrive_in_order(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 65535, 65536, 65537, 200000, 0, 3 << 20, 7};
    for (int is_tls = 0; is_tls < 2; is_tls++) {
        struct caller_world world;
        struct caller caller;
        struct err err;
        struct tls_config roots = {.ca_file = certs_path(certs, "ca.pem")};
        struct tls_server_config server = {.cert_file = certs_path(certs, "ec.pem"),
                                           .key_file = certs_path(certs, "ec.key")};
        caller_world_init(&world, NULL, NULL, is_tls ? tls_context_new(&roots, &err) : NULL,
                          keep_ok, 1);
        world.peer.tls = is_tls ? tls_server_new(&server, &err) : NULL;
        size_t total = 0;
        slice parts[ARRAY_LEN(sizes)];
        char *bytes = pattern_body((size_t)4 << 20);
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
            parts[i] = slice_of(bytes + total, sizes[i]);
            total += sizes[i];
        }
        caller_init(&caller, &world, "/upload");
        caller.call.method = SLICE("PUT");
        caller.call.body_parts = parts;
        caller.call.body_part_count = ARRAY_LEN(parts);
        caller_start(&caller, &world, 1 << 20);
        caller_wait(&caller);
        assert_result(&caller, HTTP_CALL_OK);
        slice got = buf_slice(&world.peer.request);
        assert_true(got.len > total);
        assert_memory_equal(got.ptr + got.len - total, bytes, total);
        caller_deinit(&caller);
        caller_world_deinit(&world);
        mem_free(bytes);
    }
}

/* ---- replies ---- */

struct reply_row {
    const char *method, *reply;
    enum peer_then then;
    unsigned status;
    const char *body;
    bool is_kept;
};

static const struct reply_row reply_rows[] = {
    {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", PEER_KEEP, 200, "", true},
    {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", PEER_KEEP, 200, "abc", true},
    {"GET", "HTTP/1.1 200\r\nContent-Length: 3\r\n\r\nabc", PEER_KEEP, 200, "abc", true},
    {"GET",
     "HTTP/1.1 200 OK\r\ntransfer-encoding: "
     "Chunked\r\n\r\n3\r\nabc\r\n0a\r\n0123456789\r\n0\r\n\r\n",
     PEER_KEEP, 200, "abc0123456789", true},
    {"GET",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;ext=\"x y\"\r\nabc\r\n0\r\nX-Trailer: "
     "yes\r\n\r\n",
     PEER_KEEP, 200, "abc", true},
    {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", PEER_KEEP, 200, "",
     true},
    {"GET", "HTTP/1.1 200 OK\r\n\r\nuntil the end", PEER_FIN, 200, "until the end", false},
    {"GET", "HTTP/1.1 200 OK\r\n\r\n", PEER_FIN, 200, "", false},
    {"GET", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", PEER_KEEP, 200, "abc", false},
    {"GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc", PEER_KEEP,
     200, "abc", true},
    {"GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc", PEER_KEEP, 200,
     "abc", false},
    {"GET", "HTTP/1.1 204 No Content\r\n\r\n", PEER_KEEP, 204, "", true},
    {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 300\r\n\r\n", PEER_KEEP, 304, "", true},
    {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n", PEER_KEEP, 200, "", true},
    {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", PEER_KEEP, 200, "", true},
    {"GET",
     "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 201 "
     "Created\r\nContent-Length: 2\r\n\r\nhi",
     PEER_KEEP, 201, "hi", true},
    {"GET", "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/x\r\nContent-Length: 0\r\n\r\n",
     PEER_KEEP, 302, "", true},
    {"GET", "HTTP/1.1 500 Oops\r\nContent-Length: 1\r\n\r\n!", PEER_KEEP, 500, "!", true},
    {"GET", "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nhi", PEER_KEEP,
     200, "hi", false},
    {"GET", "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=20, max=3\r\nContent-Length: 2\r\n\r\nhi",
     PEER_KEEP, 200, "hi", true},
};

/* The response is sent whole, and byte by byte. */
static void replies_of_every_shape_are_understood(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * ARRAY_LEN(reply_rows); i++) {
        const struct reply_row *row = &reply_rows[i / 2];
        struct peer_script script = {
            .reply = row->reply, .then = row->then, .is_trickled = i % 2 == 1};
        struct caller_world world;
        struct caller caller;
        caller_world_init(&world, NULL, NULL, NULL, &script, 1);
        caller_init(&caller, &world, "/");
        caller.call.method = slice_cstr(row->method);
        caller_start(&caller, &world, 1 << 20);
        caller_wait(&caller);
        if (caller.call.result != HTTP_CALL_OK)
            fail_msg("row %zu: %s", i / 2, caller.call.err.text);
        assert_int_equal(caller.call.status, row->status);
        assert_text(caller.call.body, row->body);
        if (http_client_stats(world.client).idle != (row->is_kept ? 1 : 0))
            fail_msg("row %zu: %s", i / 2, row->is_kept ? "not kept" : "kept");
        caller_deinit(&caller);
        caller_world_deinit(&world);
    }
}

static void an_early_reply_ends_the_upload(void **state)
{
    (void)state;
    static const struct peer_script scripts[] = {
        {.reply = "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n",
         .is_on_head = true,
         .then = PEER_DEAF},
    };
    struct caller_world world;
    struct caller caller;
    caller_world_init(&world, NULL, NULL, NULL, scripts, 1);
    caller_init(&caller, &world, "/");
    caller.call.method = SLICE("POST");
    char *bytes = pattern_body((size_t)32 << 20);
    slice body = slice_of(bytes, (size_t)32 << 20);
    caller.call.body_parts = &body;
    caller.call.body_part_count = 1;
    caller_start(&caller, &world, 1 << 20);
    caller_wait(&caller);
    assert_result(&caller, HTTP_CALL_OK);
    assert_int_equal(caller.call.status, 413);
    assert_int_equal(http_client_stats(world.client).connections, 0); /* half a request was sent on
                                                                       * it */
    caller_deinit(&caller);
    caller_world_deinit(&world);
    mem_free(bytes);
}

static int setup(void **state)
{
    (void)state;
    loop_threads_init(4);
    certs = certs_new();
    certs_add(certs, &(struct cert_spec){.file = "ec", .dns = {"localhost"}});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    certs_free(certs);
    tls_library_deinit();
    return unit_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_get_is_sent_and_answered),
        cmocka_unit_test(requests_are_written_as_they_should),
        cmocka_unit_test(what_may_not_be_sent_is_refused_at_once),
        cmocka_unit_test(large_bodies_arrive_in_order),
        cmocka_unit_test(replies_of_every_shape_are_understood),
        cmocka_unit_test(an_early_reply_ends_the_upload),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
