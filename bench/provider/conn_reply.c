/*
 * Replies of a connection: on time, late, slow, cut off, or none at all.
 */
#include "base/clock.h"
#include "provider/conn_internal.h"

enum { ENDLESS_PIECE_BYTES = 64 * 1024, LINGER_MS = 2000 };

static void write_date(struct host *host, struct buf *out)
{
    int64_t now_s = clock_wall_us() / 1000000;
    if (now_s != host->date_s) {
        char text[30];
        host->date_s = now_s;
        time_format_http(now_s * 1000000, text);
        memcpy(host->date, "Date: ", 6);
        memcpy(host->date + 6, text, 29);
        memcpy(host->date + 35, "\r\n", 3);
    }
    buf_append_cstr(out, host->date);
}

/* Everything up to the empty line, which is not yet there. */
static void write_head(struct conn *conn, struct buf *out, const struct provider_reply *reply)
{
    buf_append_cstr(out, "HTTP/1.1 ");
    buf_append_u64(out, reply->status);
    buf_append_char(out, ' ');
    buf_append_cstr(out, http_status_text(reply->status));
    buf_append_cstr(out, "\r\n");
    if (reply->content_type.len)
        http_header_write(out, (struct http_header){SLICE("Content-Type"), reply->content_type});
    for (size_t i = 0; i < reply->header_count; i++)
        http_header_write(out, reply->headers[i]);
    write_date(conn->host, out);
    if (conn->is_last)
        buf_append_cstr(out, "Connection: close\r\n");
}

void conn_write_reply(struct conn *conn, struct buf *out, const struct provider_reply *reply,
                      bool has_body)
{
    write_head(conn, out, reply);
    if (reply->status != 204 && reply->status != 304) {
        buf_append_cstr(out, "Content-Length: ");
        buf_append_u64(out, reply->body->len);
        buf_append_cstr(out, "\r\n");
    }
    buf_append_cstr(out, "\r\n");
    if (has_body)
        buf_append(out, buf_slice(reply->body));
}

bool conn_flush(struct conn *conn)
{
    struct buf *out = &conn->host->out;
    slice bytes = buf_slice(out);
    bool is_ok = buf_is_ok(out) && conn->state != CONN_CLOSED;
    if (is_ok && bytes.len)
        is_ok = stream_write(conn->stream, &bytes, 1) == OK;
    buf_clear(out);
    buf_shrink(out, 1024 * 1024);
    if (!is_ok && conn->state != CONN_CLOSED)
        conn_reset(conn);
    return conn->state != CONN_CLOSED;
}

void conn_end(struct conn *conn)
{
    if (conn->state == CONN_CLOSED || !conn_flush(conn))
        return;
    conn->state = CONN_ENDING;
    stream_shutdown(conn->stream);
    timer_start_in_ms(&conn->timer, LINGER_MS); /* a client that never closes */
    if (conn->has_eof && !stream_write_pending(conn->stream))
        stream_close(conn->stream);
}

void conn_reset(struct conn *conn)
{
    /* Replies to earlier pipelined requests go out first. */
    struct buf *out = &conn->host->out;
    slice bytes = buf_slice(out);
    if (bytes.len && buf_is_ok(out) && stream_write(conn->stream, &bytes, 1) != OK)
        bytes.len = 0;
    buf_clear(out);
    conn->state = CONN_CLOSED;
    stream_reset(conn->stream);
}

void conn_refuse(struct conn *conn, unsigned status, const char *text)
{
    struct provider_reply reply = {.body = &conn->host->body};
    reply_error(&reply, status, text);
    conn->is_last = true;
    conn_write_reply(conn, &conn->host->out, &reply, true);
    conn_end(conn);
}

static void send_garbage(struct conn *conn)
{
    /* A TLS alert, half a status line and noise: nothing that an HTTP client can take for a reply.
     */
    buf_append(&conn->host->out,
               SLICE("\x15\x03\x01\x00\x02 HTTQ/9.9 two hundred\n\x80\xff\xfe \r\n"));
    conn_end(conn);
}

static void start_endless(struct conn *conn, const struct provider_reply *reply)
{
    struct buf *out = &conn->host->out;
    write_head(conn, out, reply);
    buf_append_cstr(out, "Transfer-Encoding: chunked\r\n\r\n");
    conn->state = CONN_ENDLESS;
    if (conn_flush(conn))
        conn_more_endless(conn);
}

/* Writes until the kernel takes no more. A reader that keeps up gets a pause each 4 MiB, so that
 * other connections are served. */
void conn_more_endless(struct conn *conn)
{
    static char piece[ENDLESS_PIECE_BYTES];
    memset(piece, ' ', sizeof(piece));
    const slice parts[] = {SLICE("10000\r\n"), slice_of(piece, sizeof(piece)), SLICE("\r\n")};
    for (int i = 0; i < 64 && conn->state == CONN_ENDLESS; i++) {
        if (stream_write(conn->stream, parts, ARRAY_LEN(parts)) != OK) {
            conn_reset(conn);
            return;
        }
        if (stream_write_pending(conn->stream))
            return;
    }
    if (conn->state == CONN_ENDLESS)
        timer_start_in_ms(&conn->timer, 1);
}

static void start_slow(struct conn *conn, const struct provider_reply *reply,
                       const struct fault *fault)
{
    if (!conn_flush(conn))
        return;
    buf_clear(&conn->held);
    conn_write_reply(conn, &conn->held, reply, true);
    conn->held_sent = conn->held.len - reply->body->len;
    conn->fault = *fault;
    conn->state = CONN_SLOW;
    slice head = slice_first(buf_slice(&conn->held), conn->held_sent);
    if (!buf_is_ok(&conn->held) || stream_write(conn->stream, &head, 1) != OK)
        conn_reset(conn);
    else
        timer_start_in_ms(&conn->timer, fault->slow_interval_ms);
}

static void send_half(struct conn *conn, const struct provider_reply *reply)
{
    struct buf *out = &conn->host->out;
    conn_write_reply(conn, out, reply, false);
    buf_append(out, slice_first(buf_slice(reply->body), reply->body->len / 2));
    if (!conn_flush(conn))
        return;
    conn->state = CONN_RESETTING;
    timer_start_in_ms(&conn->timer, CONN_RESET_DELAY_MS);
}

/* is_held: until conn_let_go, whatever the delay. */
static void delay(struct conn *conn, const struct provider_reply *reply, bool has_body,
                  uint64_t delay_ms, bool is_held)
{
    buf_clear(&conn->held);
    conn_write_reply(conn, &conn->held, reply, has_body);
    if (!buf_is_ok(&conn->held)) {
        conn_reset(conn);
        return;
    }
    conn->state = CONN_LATE;
    conn->is_held = is_held;
    if (!is_held)
        timer_start_in_ms(&conn->timer, delay_ms);
}

void conn_let_go(struct host *host)
{
    LIST_EACH(&host->conns, link)
    {
        struct conn *conn = LIST_ITEM(link, struct conn, link);
        if (conn->is_held)
            timer_start_in_ms(&conn->timer, 0);
        conn->is_held = false;
    }
}

void conn_deliver(struct conn *conn, const struct provider_reply *reply, bool has_body,
                  const struct fault *fault)
{
    enum fault_kind kind = fault ? fault->kind : FAULT_NONE;
    uint64_t delay_ms = reply->delay_ms + (fault ? fault->latency_ms : 0);
    bool is_held = fault && fault->is_held;
    if (!buf_is_ok(reply->body)) { /* longer than a reply may be, or no memory */
        conn_reset(conn);
        return;
    }
    switch (kind) {
    case FAULT_RESET_AFTER:
        conn_reset(conn);
        return;
    case FAULT_RESET_MID_BODY:
        send_half(conn, reply);
        return;
    case FAULT_SLOW_BODY:
        start_slow(conn, reply, fault);
        return;
    case FAULT_ENDLESS_BODY:
        start_endless(conn, reply);
        return;
    case FAULT_CLOSE_AFTER_HEADERS:
        if (!reply->body->len)
            buf_append_char(reply->body, ' ');
        conn_write_reply(conn, &conn->host->out, reply, false);
        conn_end(conn);
        return;
    case FAULT_GARBAGE:
        send_garbage(conn);
        return;
    case FAULT_HANG_AFTER:
        conn->state = CONN_HUNG;
        return;
    default:
        break;
    }
    if (delay_ms || is_held)
        delay(conn, reply, has_body, delay_ms, is_held);
    else
        conn_write_reply(conn, &conn->host->out, reply, has_body);
}

/* Sends the next piece of a slow body; at its end the connection goes on. */
static void send_piece(struct conn *conn)
{
    slice rest = slice_from(buf_slice(&conn->held), conn->held_sent);
    slice piece = slice_first(rest, (size_t)conn->fault.slow_bytes);
    if (piece.len && stream_write(conn->stream, &piece, 1) != OK) {
        conn_reset(conn);
        return;
    }
    conn->held_sent += piece.len;
    if (conn->held_sent < conn->held.len) {
        timer_start_in_ms(&conn->timer, conn->fault.slow_interval_ms);
        return;
    }
    buf_shrink(&conn->held, 0);
    conn_resume(conn);
}

void conn_on_timer(struct timer *timer)
{
    struct conn *conn = CONTAINER_OF(timer, struct conn, timer);
    slice held = buf_slice(&conn->held);
    if (conn->state == CONN_RESETTING) {
        conn_reset(conn);
    } else if (conn->state == CONN_ENDING) {
        stream_close(conn->stream);
    } else if (conn->state == CONN_ENDLESS) {
        conn_more_endless(conn);
    } else if (conn->state == CONN_SLOW) {
        send_piece(conn);
    } else if (conn->state == CONN_LATE) {
        if (stream_write(conn->stream, &held, 1) != OK) {
            conn_reset(conn);
            return;
        }
        buf_shrink(&conn->held, 0);
        conn_resume(conn);
    }
}
