/*
 * exchange: a request, from its raw head to its whole body, and the life of its struct. References
 * are counted (server_internal.h lists them); the arena, and with it every slice that a handler was
 * given, is freed with the last reference, at the turn's end.
 */
#include "base/encode.h"
#include "base/id.h"
#include "base/mem.h"
#include "http/router.h"
#include "http/server_internal.h"

enum {
    BODY_FIRST_BYTES_MAX = 64 * 1024
}; /* maximum that the server allocates because of an announced length alone */

/* ---- life ---- */

static void exchange_free(struct loop_garbage *garbage)
{
    struct exchange *exchange = CONTAINER_OF(garbage, struct exchange, garbage);
    struct http_server *server = exchange->pub.server;
    /* The exchange is in no outbox, since an outbox holds a reference. Its large body has been
     * released; otherwise the owner would never get it back. */
    ASSERT(exchange->refs == 0 && list_is_empty(&exchange->out_link) && !exchange->release);
    ASSERT(!exchange->pub.use);
    buf_deinit(&exchange->body);
    arena_deinit(&exchange->pub.arena);
    mem_free(exchange);
    server->exchange_count--;
    http_server_release(server);
}

void http_exchange_ref(struct http_exchange *pub)
{
    ASSERT(exchange_of(pub)->refs > 0);
    exchange_of(pub)->refs++;
}

void http_exchange_unref(struct http_exchange *pub)
{
    struct exchange *exchange = exchange_of(pub);
    ASSERT(exchange->refs > 0);
    if (--exchange->refs)
        return;
    exchange->garbage.free = exchange_free;
    loop_garbage_add(pub->loop, &exchange->garbage);
}

void http_exchange_finish(struct exchange *exchange)
{
    struct http_server *server = exchange->pub.server;
    if (exchange->is_finished)
        return;
    exchange->is_finished = true;
    if (server->handler.on_finished && !server->is_freed)
        /* A server that is being freed has no handler any more; its ctx may be freed. */
        server->handler.on_finished(&exchange->pub, server->ctx);
}

void http_exchange_gone(struct exchange *exchange)
{
    if (exchange->is_gone_reported || exchange->is_complete)
        return;
    exchange->is_gone_reported = true;
    exchange->pub.is_gone = true;
    /* A handler that has answered does not wait, unless it is still streaming. */
    if (exchange->pub.on_gone && exchange->pub.is_delivered && !exchange->is_answered)
        exchange->pub.on_gone(&exchange->pub);
    else if (exchange->pub.on_gone && exchange->is_streaming)
        exchange->pub.on_gone(&exchange->pub);
}

/* ---- the head ---- */

static bool out_of_memory(struct http_problem *problem)
{
    *problem = (struct http_problem){503, "The server is out of memory. Try again later."};
    return false;
}

/* Splits the path between slashes and decodes the segments. Reading stops one segment past the
 * maximum of a route: such a path matches none. The segments are decoded after splitting, so that
 * %2F in a segment is part of it and cannot change the route (RFC 3986 2.4). */
static bool read_segments(struct exchange *exchange, struct http_problem *problem)
{
    struct http_exchange *pub = &exchange->pub;
    slice rest = slice_from(pub->head.path, 1);
    const size_t cap = HTTP_SEGMENTS_MAX + 1;
    slice *segments = ARENA_ARRAY(&pub->arena, slice, cap);
    if (!segments)
        return out_of_memory(problem);
    pub->segments = segments;
    for (bool is_last = rest.len == 0; !is_last && pub->segment_count < cap;) {
        slice segment = slice_split(&rest, '/');
        is_last = rest.ptr == NULL;
        segment = decode_percent_in(&pub->arena, segment, false);
        if (!segment.ptr) /* escapes were checked with the head */
            return out_of_memory(problem);
        if (!slice_is_utf8(segment, NULL)) {
            *problem = (struct http_problem){400, "the path is not UTF-8"};
            return false;
        }
        segments[pub->segment_count++] = segment;
    }
    return true;
}

static bool read_request_id(struct exchange *exchange)
{
    struct http_exchange *pub = &exchange->pub;
    if (pub->server->config.is_without_ids)
        return true;
    slice given = http_request_header(pub, SLICE("X-Request-Id"));
    /* Only visible ASCII is accepted, since the id is written into log lines and the reply's
     * head. */
    if (given.len <= HTTP_REQUEST_ID_MAX && http_is_visible(given)) {
        pub->request_id = given;
        return true;
    }
    char *text = arena_alloc_text(&pub->arena, UUID_TEXT_LEN + 1);
    if (!text)
        return false;
    uuid_format(uuid_v7(), text);
    pub->request_id = slice_of(text, UUID_TEXT_LEN);
    return true;
}

static bool keep_body(struct http_parser *parser, slice bytes)
{
    struct exchange *exchange = CONTAINER_OF(parser, struct exchange, parser);
    /* The parser continues, to find the body's end; bytes that no handler reads are not kept. */
    if (exchange->is_body_dropped)
        return true;
    buf_append(&exchange->body, bytes);
    if (!buf_is_ok(&exchange->body))
        return false;
    /* A body is charged to its account while it arrives, not only once it is complete. */
    if (exchange->pub.use)
        budget_use_add(exchange->pub.use, bytes.len);
    return true;
}

static bool read_head(struct exchange *exchange, slice head, struct http_problem *problem)
{
    struct http_exchange *pub = &exchange->pub;
    const struct http_server_config *config = &pub->server->config;
    /* The headers are collected on the stack first: most requests have ten, and only the actual
     * number goes into the arena. */
    struct http_header found[HTTP_HEADERS_LIMIT];
    slice copy = arena_dup(&pub->arena, head);
    if (!copy.ptr)
        return out_of_memory(problem);
    if (!http_head_check(copy, found, config->head.headers_max, &pub->head, problem)) {
        pub->head.headers = NULL;
        pub->head.header_count = 0;
        return false;
    }
    pub->head.headers = ARENA_ARRAY(&pub->arena, struct http_header, pub->head.header_count + 1);
    if (!pub->head.headers) {
        pub->head.header_count = 0;
        return out_of_memory(problem);
    }
    memcpy(pub->head.headers, found, pub->head.header_count * sizeof(found[0]));
    http_parser_init(&exchange->parser, &pub->head, keep_body);
    /* llhttp parses the head that http_head_check has accepted. If it disagrees the request is
     * refused (see parser.c). */
    if (http_parser_feed(&exchange->parser, copy) != OK) {
        *problem = (struct http_problem){400, "the head is malformed"};
        return false;
    }
    if (!read_request_id(exchange))
        return out_of_memory(problem);
    if (!read_segments(exchange, problem))
        return false;
    if (pub->head.expects_other) {
        *problem = (struct http_problem){
            417, "the only expectation that this server supports is 100-continue"};
        return false;
    }
    return true;
}

static bool has_body(const struct exchange *exchange)
{
    const struct http_head *head = &exchange->pub.head;
    return head->framing == HTTP_FRAMING_CHUNKED ||
           (head->framing == HTTP_FRAMING_LENGTH && head->content_length > 0);
}

struct exchange *http_exchange_new(struct http_conn *conn, slice head, struct http_problem *problem)
{
    struct http_server *server = conn->server;
    struct exchange *exchange = mem_zalloc(sizeof(*exchange));
    *problem = (struct http_problem){0};
    if (!exchange)
        return NULL;
    struct http_exchange *pub = &exchange->pub;
    server->exchange_count++;
    exchange->refs = 1;
    exchange->conn = conn;
    list_init(&exchange->out_link);
    arena_init(&pub->arena, server->config.arena_bytes_max);
    buf_init(&exchange->body, 0);
    pub->server = server;
    pub->loop = server->loop;
    pub->route = "(none)";
    pub->started_ns = conn->state_ns;
    pub->body_bytes_max = server->config.body_bytes_max;
    memcpy(&pub->peer, &conn->peer, sizeof(conn->peer));
    if (!read_head(exchange, head, problem)) {
        /* Headers are dropped with the head, so a new id is made: refusals have an id as well. */
        if (!pub->request_id.len && !read_request_id(exchange))
            pub->request_id = SLICE("-"); /* out of memory: the refusal is sent without an id */
        exchange->is_close = true;
        exchange->is_body_done = true; /* any further bytes are ignored */
        return exchange;
    }
    exchange->is_close = !pub->head.is_keep_alive;
    exchange->is_body_done = !has_body(exchange);
    /* 100 Continue is sent only if the client is waiting to send a body (RFC 9110 10.1.1). */
    exchange->is_continue_due = pub->head.expects_continue && has_body(exchange);
    exchange->body_left = pub->head.content_length;
    return exchange;
}

/* ---- the body ---- */

/* The limit is set once, when the first byte is read: by then the handler may have set its own
 * limit. */
static bool begin_body(struct exchange *exchange, struct http_problem *problem)
{
    struct http_exchange *pub = &exchange->pub;
    uint64_t limit = pub->body_bytes_max;
    /* The limit is half of the largest block, so that doubling a buffer cannot exceed the block. */
    if (limit > MEM_BLOCK_BYTES_MAX / 2)
        limit = MEM_BLOCK_BYTES_MAX / 2;
    exchange->body_ns = loop_now_ns(pub->loop);
    http_chunk_scan_init(&exchange->chunk, limit);
    if (pub->head.framing == HTTP_FRAMING_LENGTH) {
        if (pub->head.content_length > limit && !exchange->is_body_dropped) {
            *problem = (struct http_problem){413, "the body is too large"};
            return false;
        }
        limit = pub->head.content_length;
    }
    if (exchange->is_body_dropped)
        return true;
    buf_init(&exchange->body, (size_t)limit);
    /* An announced length is not allocated at once: thousands of connections can announce much and
     * send nothing. */
    if (pub->head.framing == HTTP_FRAMING_LENGTH &&
        !buf_reserve(&exchange->body,
                     limit < BODY_FIRST_BYTES_MAX ? (size_t)limit : BODY_FIRST_BYTES_MAX))
        return out_of_memory(problem);
    return true;
}

static bool feed_parser(struct exchange *exchange, slice bytes, struct http_problem *problem)
{
    int rc = http_parser_feed(&exchange->parser, bytes);
    /* This server's scan and llhttp must find the same end: is_body_done without is_complete is a
     * disagreement. */
    if (rc == OK && (!exchange->is_body_done || exchange->parser.is_complete))
        return true;
    if (rc == ERR_LIMIT)
        return out_of_memory(problem);
    *problem = (struct http_problem){400, "the body is malformed"};
    return false;
}

bool http_exchange_feed(struct exchange *exchange, slice bytes, size_t *used,
                        struct http_problem *problem)
{
    ASSERT(!exchange->is_body_done);
    *used = 0;
    if (!exchange->body_ns && !begin_body(exchange, problem))
        return false;
    if (exchange->pub.head.framing == HTTP_FRAMING_LENGTH) {
        *used = bytes.len < exchange->body_left ? bytes.len : (size_t)exchange->body_left;
        /* The body has a known length: bytes after it belong to the next request, and stay with
         * the caller. */
        exchange->body_left -= *used;
        exchange->is_body_done = exchange->body_left == 0;
    } else {
        enum http_scan scan = http_chunk_scan(&exchange->chunk, bytes, used);
        if (scan == HTTP_SCAN_BAD) {
            /* a fault that llhttp finds before that byte takes precedence, as if the bytes were fed
             * one by one */
            if (feed_parser(exchange, slice_first(bytes, *used - 1), problem))
                *problem = exchange->chunk.problem;
            return false;
        }
        exchange->is_body_done = scan == HTTP_SCAN_DONE;
    }
    exchange->body_received += *used;
    if (!feed_parser(exchange, slice_first(bytes, *used), problem))
        return false;
    if (exchange->is_body_done)
        exchange->pub.body = buf_slice(&exchange->body);
    return true;
}

bool http_exchange_pauses(struct exchange *exchange)
{
    const struct http_exchange *pub = &exchange->pub;
    bool is_due = pub->body_pause_at > 0 && exchange->body.len >= pub->body_pause_at;
    if (!is_due || exchange->is_body_done || exchange->is_body_dropped || exchange->is_given_up)
        return false;
    exchange->is_body_awaited = true;
    return true;
}

void http_body_release(struct http_exchange *pub)
{
    struct exchange *exchange = exchange_of(pub);
    /* keep_body counts it piece by piece; the sum is released here in one step. */
    if (pub->use)
        budget_use_remove(pub->use, exchange->body.len);
    buf_deinit(&exchange->body);
    pub->body = SLICE_NONE;
    pub->use = NULL;
}

/* ---- accessors for handlers ---- */

slice http_request_header(const struct http_exchange *pub, slice name)
{
    return http_header_get(pub->head.headers, pub->head.header_count, name);
}

static slice decode_param(struct arena *arena, slice text)
{
    slice decoded = decode_percent_in(arena, text, true); /* the head check validated the escapes */
    return decoded.ptr ? decoded : SLICE("");
}

static void read_params(struct exchange *exchange)
{
    struct http_exchange *pub = &exchange->pub;
    slice rest = pub->head.query;
    size_t cap = 1;
    exchange->has_params = true;
    /* One more than the number of separators is an upper bound, so the loop needs no check. */
    for (size_t i = 0; i < rest.len; i++)
        cap += rest.ptr[i] == '&';
    exchange->params = rest.len ? ARENA_ARRAY(&pub->arena, struct http_header, cap) : NULL;
    while (exchange->params && rest.len) {
        slice value = slice_split(&rest, '&');
        if (value.len == 0)
            continue;
        slice name = slice_split(&value, '=');
        exchange->params[exchange->param_count++] = (struct http_header){
            decode_param(&pub->arena, name),
            decode_param(&pub->arena, value),
        };
    }
}

const struct http_header *http_query_all(struct http_exchange *pub, size_t *count)
{
    struct exchange *exchange = exchange_of(pub);
    if (!exchange->has_params)
        read_params(exchange);
    *count = exchange->param_count;
    return exchange->params;
}

slice http_query_get(struct http_exchange *pub, slice name)
{
    size_t count;
    const struct http_header *params = http_query_all(pub, &count);
    for (size_t i = 0; i < count; i++)
        if (slice_eq(params[i].name, name))
            return params[i].value;
    return SLICE_NONE;
}

void http_request_account_set(struct http_exchange *pub, struct uuid account)
{
    struct http_conn *conn = exchange_of(pub)->conn;
    if (!conn || conn->state == CONN_CLOSED)
        return;
    conn->account = account;
    stream_read_for(conn->stream, account, false);
}

void http_body_accept(struct http_exchange *pub)
{
    struct exchange *exchange = exchange_of(pub);
    if (!exchange->is_body_awaited)
        return;
    exchange->is_body_awaited = false;
    if (exchange->conn)
        /* The exchange continues from a task, not inside the handler's call. */
        http_conn_advance(exchange->conn);
}
