/*
 * reply: the heads of replies, their whole or streamed bodies, and the replies that the server
 * sends itself. Bytes go to the connection's outbox and from there, at the end of the turn, to the
 * socket.
 *
 * A reply is claimed once, built in the exchange's arena, queued, and settled. The client may have
 * closed at any of these points; the handler does not have to know.
 */
#include <stdio.h>

#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/server_internal.h"
#include "json/json.h"

enum {
    HEAD_SLACK_BYTES = 64 * 1024, /* added to the arena's limit, which the handler may have used
                                   * up */
    /* for the status line and the fields of every reply, without their texts */
    FIXED_BYTES_MAX = 256,
};

static const struct http_header json_type[] = {
    {SLICE_INIT("Content-Type"), SLICE_INIT("application/json; charset=utf-8")},
};

/* ---- the head ---- */

static bool status_has_body(unsigned status)
{
    /* Whether a reply with this status has a body: 1xx, 204 and 304 have none (RFC 9110 6.4.1). */
    return status >= 200 && status != 204 && status != 304;
}

static char *put_reply_text(char *at, slice text)
{
    if (text.len)
        memcpy(at, text.ptr, text.len);
    return at + text.len;
}

static char *put_reply_field(char *at, slice name, slice value)
{
    at = put_reply_text(at, name);
    at = put_reply_text(at, SLICE(": "));
    at = put_reply_text(at, value);
    return put_reply_text(at, SLICE("\r\n"));
}

/* Writes the fields that show how the client finds the end of the body, and whether the connection
 * stays open. */
static char *put_framing(struct exchange *exchange, char *at, uint64_t body_len)
{
    bool is_old = exchange->pub.head.version_minor == 0;
    char number[SLICE_U64_MAX];
    /* 1xx and 204 have no Content-Length (RFC 9110 8.6). With 304 and HEAD it is the length of
     * the body not sent. */
    if (exchange->is_streaming && exchange->is_chunked) {
        at = put_reply_field(at, SLICE("Transfer-Encoding"), SLICE("chunked"));
    } else if (!exchange->is_streaming && exchange->pub.status >= 200 &&
               exchange->pub.status != 204) {
        at = put_reply_field(at, SLICE("Content-Length"), slice_of_u64(body_len, number));
    }
    /* HTTP/1.0 closes by default and has to send keep-alive; HTTP/1.1 stays open by default (RFC
     * 9112 9.3). */
    if (exchange->is_close)
        at = put_reply_field(at, SLICE("Connection"), SLICE("close"));
    else if (is_old)
        at = put_reply_field(at, SLICE("Connection"), SLICE("keep-alive"));
    return at;
}

static size_t head_bytes_max(const struct exchange *exchange, const struct http_header *headers,
                             size_t count)
{
    /* An upper bound is allocated at once: heads are written without checks, and the ASSERT at the
     * end confirms the bound. */
    size_t len = FIXED_BYTES_MAX + DATE_TEXT_LEN + exchange->pub.request_id.len +
                 exchange->pub.server->config.server_name.len;
    for (size_t i = 0; i < count; i++)
        len += headers[i].name.len + headers[i].value.len + 4;
    for (size_t i = 0; i < exchange->pub.common_count; i++)
        len += exchange->pub.common[i].name.len + exchange->pub.common[i].value.len + 4;
    return len;
}

/* Returns false if out of memory. */
static bool make_head(struct exchange *exchange, const struct http_header *headers, size_t count,
                      uint64_t body_len)
{
    struct http_exchange *pub = &exchange->pub;
    size_t cap = head_bytes_max(exchange, headers, count);
    /* Extra space, so that a handler that has used up its arena can still send its reply. */
    pub->arena.bytes_max += HEAD_SLACK_BYTES + cap;
    char *head = arena_alloc_text(&pub->arena, cap);
    if (!head)
        return false;
    char digits[SLICE_U64_MAX];
    ASSERT(pub->status >= 100 && pub->status <= 999);
    char *at = put_reply_text(head, SLICE("HTTP/1.1 "));
    at = put_reply_text(at, slice_of_u64(pub->status, digits));
    at = put_reply_text(at, SLICE(" "));
    at = put_reply_text(at, slice_cstr(http_status_text(pub->status)));
    at = put_reply_text(at, SLICE("\r\n"));
    at = put_reply_field(at, SLICE("Date"), http_server_date(pub->server));
    if (pub->server->config.server_name.len)
        at = put_reply_field(at, SLICE("Server"), pub->server->config.server_name);
    if (pub->request_id.len)
        at = put_reply_field(at, SLICE("X-Request-Id"), pub->request_id);
    for (size_t i = 0; i < count; i++)
        at = put_reply_field(at, headers[i].name, headers[i].value);
    for (size_t i = 0; i < pub->common_count; i++)
        at = put_reply_field(at, pub->common[i].name, pub->common[i].value);
    at = put_framing(exchange, at, body_len);
    at = put_reply_text(at, SLICE("\r\n"));
    ASSERT((size_t)(at - head) <= cap);
    exchange->out_head = slice_of(head, (size_t)(at - head));
    return true;
}

static bool values_are_good(const struct http_header *headers, size_t count)
{
    /* Only the server sets these fields: a second Content-Length or Transfer-Encoding would give
     * the reply a second framing. */
    static const slice ours[] = {
        SLICE_INIT("Content-Length"), SLICE_INIT("Transfer-Encoding"), SLICE_INIT("Date"),
        SLICE_INIT("X-Request-Id"),   SLICE_INIT("Connection"),
    };
    ASSERT(count <= HTTP_REPLY_HEADERS_MAX);
    for (size_t i = 0; i < count; i++) {
        ASSERT(http_is_token(headers[i].name));
        for (size_t k = 0; k < ARRAY_LEN(ours); k++)
            ASSERT(!slice_eq_nocase(headers[i].name, ours[k]));
        /* Names are constants (asserted), values may contain a tenant's text (checked). */
        if (!http_is_field_value(headers[i].value))
            return false;
    }
    return true;
}

/* ---- sending ---- */

/* Decides whether the connection can stay open, by the rest of the request's body that the handler
 * will not read. */
static void decide_close(struct exchange *exchange)
{
    struct http_server *server = exchange->pub.server;
    /* is_eof: a client that has closed its side sends no further request. */
    if (server->is_draining || exchange->conn->is_eof)
        exchange->is_close = true;
    if (exchange->is_body_done)
        return;
    exchange->is_body_dropped = true;
    /* the handler no longer accepts the body, so it is read and dropped */
    exchange->is_body_awaited = false;
    /* To keep the connection open, the server has to read and drop the rest of the body. That is
     * worth it for a short rest of known length; a client that waits for 100 Continue may never
     * send the body. */
    bool is_short = exchange->pub.head.framing == HTTP_FRAMING_LENGTH &&
                    exchange->body_left <= CONN_DISCARD_BYTES_MAX;
    if (!is_short || exchange->is_continue_due)
        exchange->is_close = true;
}

static void queue_out(struct exchange *exchange)
{
    if (list_is_empty(&exchange->out_link))
        list_push_back(&exchange->conn->outbox, &exchange->out_link);
    exchange->conn->outbox_bytes += exchange->out_head.len + exchange->out_body.len;
    http_conn_queue_flush(exchange->conn);
}

static void reply_lost(struct exchange *exchange)
{
    log_event(LOG_ERROR, "no memory for a reply; the connection is closed",
              LOG_STR("request_id", exchange->pub.request_id));
    http_conn_cut(exchange->conn);
}

/* Makes the head of a reply, in out_head. Returns false if that failed; the connection has then
 * been cut. */
static bool begin_reply(struct exchange *exchange, unsigned status,
                        const struct http_header *headers, size_t count, size_t body_len)
{
    ASSERT(!exchange->is_begun && exchange->conn);
    exchange->pub.status = status;
    exchange->is_begun = true;
    decide_close(exchange);
    if (make_head(exchange, headers, count, body_len))
        return true;
    /* status 0 tells on_finished that nothing was answered. */
    exchange->pub.status = 0;
    reply_lost(exchange);
    return false;
}

static void send_whole(struct exchange *exchange, unsigned status,
                       const struct http_header *headers, size_t count, slice body)
{
    if (!begin_reply(exchange, status, headers, count, body.len))
        return;
    bool is_sent = status_has_body(status) && exchange->pub.head.method != HTTP_METHOD_HEAD;
    exchange->out_body = is_sent ? body : SLICE_NONE;
    exchange->pub.reply_bytes = exchange->out_body.len;
    exchange->is_complete = true;
    /* The reply is queued first: on_finished writes the access log, and http_conn_advance may start
     * the next request. */
    queue_out(exchange);
    http_exchange_finish(exchange);
    http_conn_advance(exchange->conn);
}

/* Returns {"error": text} in the arena. */
static slice error_body(struct exchange *exchange, slice text)
{
    struct buf out;
    buf_init(&out, HEAD_SLACK_BYTES / 2);
    struct json value = json_string(text);
    buf_append(&out, SLICE("{\"error\":"));
    json_write(&out, &value);
    buf_append(&out, SLICE("}"));
    exchange->pub.arena.bytes_max += HEAD_SLACK_BYTES;
    slice body = arena_take(&exchange->pub.arena, &out);
    return body.ptr ? body : SLICE("{\"error\":\"Internal error\"}");
}

static void send_error(struct exchange *exchange, unsigned status, slice text)
{
    send_whole(exchange, status, json_type, ARRAY_LEN(json_type), error_body(exchange, text));
}

/* ---- by the handler ---- */

/* Marks the exchange as answered, which may happen only once, and takes a reference that
 * settle_reply releases. Returns whether the reply can still be sent. */
static bool claim(struct exchange *exchange)
{
    ASSERT(!exchange->is_answered); /* exactly once */
    exchange->is_answered = true;
    http_exchange_ref(&exchange->pub);
    /* is_given_up: the server has already answered with a time-out. */
    return exchange->conn && !exchange->is_given_up && exchange->conn->state != CONN_CLOSED;
}

static void settle_reply(struct exchange *exchange)
{
    if (exchange->is_reply_due) {
        exchange->is_reply_due = false;
        http_exchange_unref(&exchange->pub);
    }
    http_exchange_unref(&exchange->pub);
}

/* Whether the reply can be sent unchanged; otherwise it becomes a 500. */
static bool is_reply_sendable(struct exchange *exchange, const struct http_header *headers,
                              size_t count, size_t body_len)
{
    /* The queue of the stream is sized by write_bytes_max (http_conn_accept), so a reply within it
     * always fits. */
    const char *why = NULL;
    if (!values_are_good(headers, count))
        why = "a header value that would split the message";
    else if (body_len > exchange->pub.server->config.write_bytes_max)
        why = "a body over write_bytes_max";
    if (why)
        log_event(LOG_ERROR, "a reply was refused", LOG_CSTR("cause", why),
                  LOG_STR("request_id", exchange->pub.request_id));
    return !why;
}

void http_reply(struct http_exchange *pub, unsigned status, const struct http_header *headers,
                size_t count, slice body)
{
    struct exchange *exchange = exchange_of(pub);
    ASSERT(status >= 200 && status <= 599);
    if (claim(exchange)) {
        if (is_reply_sendable(exchange, headers, count, body.len))
            send_whole(exchange, status, headers, count, body);
        else
            send_error(exchange, 500, SLICE("Internal error"));
    }
    settle_reply(exchange);
}

/* ---- a large body, piece by piece ---- */

void http_exchange_release(struct exchange *exchange)
{
    void (*release)(void *ctx) = exchange->release;
    exchange->release = NULL;
    exchange->rest = SLICE_NONE;
    exchange->part_count = 0;
    if (release)
        release(exchange->release_ctx);
}

/* Makes `rest` the next part that is not empty, if there is one. */
static void take_next_part(struct exchange *exchange)
{
    while (exchange->rest.len == 0 && exchange->part_count > 0) {
        exchange->rest = *exchange->parts++;
        exchange->part_count--;
    }
}

/* Writes the next piece. If the kernel took all of it, another piece follows in the next turn,
 * after other connections' writes; otherwise on_drained continues. */
void http_exchange_pump(struct exchange *exchange)
{
    struct http_conn *conn = exchange->conn;
    /* At most one piece waits outside the kernel: a slow client costs no copy of a large body. */
    slice piece = slice_first(exchange->rest, CONN_PIECE_BYTES);
    exchange->rest = slice_from(exchange->rest, piece.len);
    take_next_part(exchange);
    if (!http_conn_flush(conn, &piece, 1))
        return;
    exchange->pub.reply_bytes += piece.len;
    if (exchange->rest.len > 0) {
        if (stream_write_pending(conn->stream) == 0)
            loop_task_queue_next_turn(conn->server->loop, &conn->task);
        return;
    }
    exchange->is_complete = true;
    http_exchange_release(exchange);
    http_exchange_finish(exchange);
    http_conn_advance(conn);
}

static void begin_large(struct exchange *exchange, unsigned status,
                        const struct http_header *headers, size_t count, const slice *parts,
                        size_t part_count, size_t len)
{
    if (!begin_reply(exchange, status, headers, count, len))
        return;
    exchange->parts = parts;
    exchange->part_count = part_count;
    take_next_part(exchange);
    queue_out(exchange);
    loop_task_queue(exchange->conn->server->loop, &exchange->conn->task);
}

void http_reply_large(struct http_exchange *pub, unsigned status, const struct http_header *headers,
                      size_t count, const slice *parts, size_t part_count,
                      void (*release)(void *ctx), void *ctx)
{
    struct exchange *exchange = exchange_of(pub);
    size_t len = 0;
    for (size_t i = 0; i < part_count; i++)
        len += parts[i].len;
    bool has_body = status_has_body(status) && pub->head.method != HTTP_METHOD_HEAD;
    ASSERT(status >= 200 && status <= 599);
    exchange->release = release;
    exchange->release_ctx = ctx;
    if (claim(exchange)) {
        /* the size does not matter: a large body is never queued as a whole */
        if (!is_reply_sendable(exchange, headers, count, 0))
            send_error(exchange, 500, SLICE("Internal error"));
        else if (has_body && len > 0)
            begin_large(exchange, status, headers, count, parts, part_count, len);
        else /* only its length is sent */
            send_whole(exchange, status, headers, count, (slice){parts[0].ptr, len});
    }
    /* A large body was not begun (no client, an error, no body to send): the owner gets it back
     * at once. */
    if (exchange->rest.len == 0)
        http_exchange_release(exchange);
    settle_reply(exchange);
}

void http_reply_error(struct http_exchange *pub, unsigned status, slice text)
{
    struct exchange *exchange = exchange_of(pub);
    if (claim(exchange))
        send_error(exchange, status, text);
    settle_reply(exchange);
}

/* Like claim, but the reference for the reply remains until the reply ends. */
static bool claim_stream(struct exchange *exchange)
{
    ASSERT(!exchange->is_streaming);
    bool is_alive = claim(exchange);
    exchange->is_streaming = true;
    http_exchange_unref(&exchange->pub); /* the reference taken by claim */
    return is_alive;
}

void http_reply_begin(struct http_exchange *pub, unsigned status, const struct http_header *headers,
                      size_t count)
{
    struct exchange *exchange = exchange_of(pub);
    ASSERT(status_has_body(status));
    if (!claim_stream(exchange))
        return;
    if (!values_are_good(headers, count)) {
        reply_lost(exchange);
        return;
    }
    /* HTTP/1.0 does not have chunks: the end of the connection ends the body (RFC 9112 6.3), so
     * the client cannot tell an aborted reply from a complete one. */
    exchange->is_chunked = pub->head.version_minor == 1;
    if (!exchange->is_chunked)
        exchange->is_close = true;
    if (!begin_reply(exchange, status, headers, count, 0))
        return;
    queue_out(exchange);
    http_conn_advance(exchange->conn);
}

void http_reply_begin_raw(struct http_exchange *pub, bool closes)
{
    struct exchange *exchange = exchange_of(pub);
    if (!claim_stream(exchange))
        return;
    exchange->is_begun = exchange->is_raw = true;
    exchange->is_close |= closes;
    decide_close(exchange);
    http_conn_advance(exchange->conn);
}

static bool can_stream(const struct exchange *exchange)
{
    return exchange->is_begun && exchange->conn && !exchange->is_given_up &&
           exchange->conn->state != CONN_CLOSED;
}

int http_reply_chunk(struct http_exchange *pub, slice bytes)
{
    struct exchange *exchange = exchange_of(pub);
    ASSERT(exchange->is_streaming && !exchange->is_complete);
    if (!can_stream(exchange))
        return ERR_CLOSED;
    /* A HEAD reply has no body, and a chunk of size 0 would end it (RFC 9112 7.1). */
    bool has_body = pub->head.method != HTTP_METHOD_HEAD || exchange->is_raw;
    bool is_silent = !has_body || bytes.len == 0;
    struct http_conn *conn = exchange->conn;
    if (!is_silent &&
        stream_write_pending(conn->stream) + bytes.len > pub->server->config.write_bytes_max)
        return ERR_LIMIT;
    char size[24];
    int len = snprintf(size, sizeof(size), "%zx\r\n", bytes.len);
    slice parts[] = {slice_of(size, (size_t)len), bytes, SLICE("\r\n")};
    bool is_sent = is_silent              ? http_conn_flush(conn, NULL, 0)
                   : exchange->is_chunked ? http_conn_flush(conn, parts, 3)
                                          : http_conn_flush(conn, &bytes, 1);
    if (!is_sent)
        return ERR_CLOSED;
    pub->reply_bytes += is_silent ? 0 : bytes.len;
    return OK;
}

size_t http_reply_pending(const struct http_exchange *pub)
{
    const struct exchange *exchange = exchange_of(pub);
    return exchange->conn && exchange->conn->stream ? stream_write_pending(exchange->conn->stream)
                                                    : 0;
}

void http_reply_end(struct http_exchange *pub)
{
    struct exchange *exchange = exchange_of(pub);
    ASSERT(exchange->is_streaming && !exchange->is_complete);
    http_exchange_ref(pub);
    bool is_alive = can_stream(exchange);
    exchange->is_complete = true;
    if (is_alive) {
        bool has_tail = exchange->is_chunked && pub->head.method != HTTP_METHOD_HEAD;
        /* The last chunk, without trailers. */
        exchange->out_body = has_tail ? SLICE("0\r\n\r\n") : SLICE_NONE;
        queue_out(exchange);
        http_exchange_finish(exchange);
        http_conn_advance(exchange->conn);
    }
    settle_reply(exchange);
}

void http_reply_drop(struct http_exchange *pub)
{
    /* Also allowed if the reply has begun: a reset instead of the last chunk shows that the reply
     * is incomplete. */
    struct exchange *exchange = exchange_of(pub);
    bool is_ending = exchange->is_streaming && !exchange->is_complete;
    if (!is_ending)
        ASSERT(!exchange->is_answered);
    exchange->is_answered = true;
    http_exchange_ref(pub);
    if (is_ending)
        exchange->is_complete = true;
    if (exchange->conn && !exchange->is_given_up)
        http_conn_cut(exchange->conn);
    settle_reply(exchange);
}

/* ---- by the server ---- */

void http_exchange_refuse(struct exchange *exchange, struct http_problem problem)
{
    ASSERT(exchange->conn && problem.status);
    exchange->is_close = true;
    exchange->is_body_dropped = true;
    /* The reply was complete while the client was still sending: there is nothing left to send. */
    if (exchange->is_complete) { /* only the request's body was still being dropped */
        http_conn_advance(exchange->conn);
        return;
    }
    if (exchange->is_begun) { /* a head was sent: only a reset shows that the reply is incomplete */
        http_conn_cut(exchange->conn);
        return;
    }
    exchange->is_given_up = true;
    http_exchange_ref(&exchange->pub);
    http_exchange_gone(exchange);
    /* on_gone may have dropped the connection. */
    if (exchange->conn && exchange->conn->state != CONN_CLOSED)
        send_error(exchange, problem.status, slice_cstr(problem.text));
    http_exchange_unref(&exchange->pub);
}

slice http_refusal_text(struct http_server *server, char *out, size_t cap, unsigned status,
                        const char *text)
{
    char id[UUID_TEXT_LEN + 1];
    uuid_format(uuid_v7(), id);
    /* {"error":""} around it */
    int len = snprintf(out, cap,
                       "HTTP/1.1 %u %s\r\nDate: %.*s\r\nX-Request-Id: %s\r\nContent-Type: "
                       "application/json; charset=utf-8\r\nContent-Length: %zu\r\n"
                       "Connection: close\r\n%s\r\n"
                       "{\"error\":\"%s\"}",
                       status, http_status_text(status), SLICE_ARG(http_server_date(server)), id,
                       strlen(text) + 12, status == 503 ? "Retry-After: 1\r\n" : "", text);
    ASSERT(len > 0 && (size_t)len < cap);
    return slice_of(out, (size_t)len);
}
