/*
 * Connections: bytes come in, whole requests go to conn_request.c.
 */
#include "base/mem.h"
#include "loop/tcp.h"
#include "provider/conn_internal.h"

static const struct http_head_limits head_limits = {64 * 1024, 16 * 1024, CONN_HEADERS_MAX};

void host_init(struct host *host, struct loop *loop, struct provider *provider)
{
    *host = (struct host){.loop = loop, .provider = provider, .date_s = -1};
    list_init(&host->conns);
    buf_init(&host->out, CONN_WRITE_BYTES_MAX);
    buf_init(&host->body, PROVIDER_REPLY_BYTES_MAX);
    arena_init(&host->arena, CONN_ARENA_BYTES_MAX);
}

void host_close(struct host *host)
{
    LIST_EACH(&host->conns, link)
    {
        stream_close(LIST_ITEM(link, struct conn, link)->stream);
    }
}

void host_deinit(struct host *host)
{
    ASSERT(list_is_empty(&host->conns));
    buf_deinit(&host->out);
    buf_deinit(&host->body);
    arena_deinit(&host->arena);
}

struct conn *conn_new(struct host *host)
{
    if (host->conn_count >= CONNS_MAX)
        return NULL;
    struct conn *conn = mem_zalloc(sizeof(*conn));
    if (!conn)
        return NULL;
    conn->host = host;
    list_init(&conn->link);
    buf_init(&conn->in, PROVIDER_BODY_BYTES_MAX + 128 * 1024);
    buf_init(&conn->held, PROVIDER_REPLY_BYTES_MAX + 64 * 1024);
    timer_init(&conn->timer, host->loop, conn_on_timer);
    return conn;
}

void conn_discard(struct conn *conn)
{
    ASSERT(!conn->is_attached);
    buf_deinit(&conn->in);
    buf_deinit(&conn->held);
    mem_free(conn);
}

void conn_attach(struct conn *conn, struct stream *stream)
{
    conn->stream = stream;
    conn->is_attached = true;
    list_push_back(&conn->host->conns, &conn->link);
    conn->host->conn_count++;
}

void conn_accept(struct host *host, struct stream *stream, bool is_open)
{
    struct conn *conn = conn_new(host);
    if (!conn) {
        stream_close(stream);
        return;
    }
    stream_own(stream, &conn_events, conn);
    conn_attach(conn, stream);
    if (is_open)
        stream_read_start(stream);
}

/* ---- from bytes to requests ---- */

enum parse_result { PARSE_MORE, PARSE_DONE, PARSE_BAD };

static enum parse_result refuse(struct conn *conn, const struct http_problem *problem)
{
    conn_refuse(conn, problem->status ? problem->status : 400,
                problem->text ? problem->text : "bad request");
    return PARSE_BAD;
}

static void send_continue(struct conn *conn, const struct http_head *head)
{
    if (!head->expects_continue || conn->is_continued)
        return;
    conn->is_continued = true;
    buf_append_cstr(&conn->host->out, "HTTP/1.1 100 Continue\r\n\r\n");
}

/* The chunked body after the head, once it is complete; continues the scan where it stopped. */
static enum parse_result parse_chunked(struct conn *conn, slice rest, struct conn_request *request)
{
    size_t used;
    if (!conn->chunk_at)
        http_chunk_scan_init(&conn->chunk, PROVIDER_BODY_BYTES_MAX);
    enum http_scan scan = http_chunk_scan(&conn->chunk, slice_from(rest, conn->chunk_at), &used);
    if (scan == HTTP_SCAN_BAD)
        return refuse(conn, &conn->chunk.problem);
    conn->chunk_at += used;
    if (scan == HTTP_SCAN_MORE) {
        send_continue(conn, &request->head);
        return PARSE_MORE;
    }
    request->body = slice_first(rest, conn->chunk_at);
    request->bytes += conn->chunk_at;
    return PARSE_DONE;
}

static enum parse_result parse(struct conn *conn, slice bytes, struct conn_request *request)
{
    struct http_head_scan scan;
    struct http_problem problem = {0};
    size_t used;
    http_head_scan_init(&scan, &head_limits);
    enum http_scan result = http_head_scan(&scan, bytes, &used);
    if (result == HTTP_SCAN_BAD)
        return refuse(conn, &scan.problem);
    if (result == HTTP_SCAN_MORE)
        return PARSE_MORE;
    if (!http_head_check(slice_first(bytes, used), request->headers, CONN_HEADERS_MAX,
                         &request->head, &problem))
        return refuse(conn, &problem);
    slice rest = slice_from(bytes, used);
    request->bytes = used;
    request->body = SLICE_NONE;
    if (request->head.framing == HTTP_FRAMING_CHUNKED)
        return parse_chunked(conn, rest, request);
    if (request->head.framing != HTTP_FRAMING_LENGTH)
        return PARSE_DONE;
    if (request->head.content_length > PROVIDER_BODY_BYTES_MAX) {
        conn_refuse(conn, 413, "the body is too long");
        return PARSE_BAD;
    }
    if (rest.len < request->head.content_length) {
        send_continue(conn, &request->head);
        return PARSE_MORE;
    }
    request->body = slice_first(rest, (size_t)request->head.content_length);
    request->bytes += request->body.len;
    return PARSE_DONE;
}

/* Works on as many whole requests as there are; returns how many bytes they took. */
static size_t work(struct conn *conn, slice bytes)
{
    size_t used = 0;
    while (used < bytes.len && conn->state == CONN_READING) {
        struct conn_request request;
        enum parse_result result = parse(conn, slice_from(bytes, used), &request);
        if (result == PARSE_MORE)
            break;
        if (result == PARSE_BAD)
            return bytes.len;
        used += request.bytes;
        conn->chunk_at = 0;
        conn->is_continued = false;
        conn_run(conn, &request);
        arena_reset(&conn->host->arena);
    }
    return used;
}

static void keep(struct conn *conn, slice bytes)
{
    buf_append(&conn->in, bytes);
    if (!buf_is_ok(&conn->in)) {
        conn_reset(conn);
        return;
    }
    /* A client may pipeline requests while a reply is late, up to a limit. */
    if (conn->state != CONN_READING && conn->in.len > CONN_PIPELINE_BYTES_MAX) {
        conn->is_read_stopped = true;
        stream_read_stop(conn->stream);
    }
}

static void after_work(struct conn *conn)
{
    if (!conn_flush(conn))
        return;
    if (conn->state == CONN_READING && conn->is_last)
        conn_end(conn);
    else if (conn->state == CONN_READING && conn->has_eof)
        conn_end(conn);
}

static void on_read(struct stream *stream, void *owner, slice bytes)
{
    struct conn *conn = owner;
    (void)stream;
    if (conn->state == CONN_ENDING || conn->state == CONN_CLOSED || conn->state == CONN_HUNG)
        return;
    if (conn->state != CONN_READING) {
        keep(conn, bytes);
        return;
    }
    if (!conn->in.len) {
        size_t used = work(conn, bytes);
        if (used < bytes.len && conn->state != CONN_CLOSED && conn->state != CONN_ENDING)
            keep(conn, slice_from(bytes, used));
    } else {
        keep(conn, bytes);
        if (conn->state == CONN_READING)
            buf_consume(&conn->in, work(conn, buf_slice(&conn->in)));
    }
    if (!conn->in.len)
        buf_shrink(&conn->in, 0);
    after_work(conn);
}

void conn_resume(struct conn *conn)
{
    conn->state = CONN_READING;
    if (conn->is_read_stopped) {
        conn->is_read_stopped = false;
        stream_read_start(conn->stream);
    }
    if (conn->in.len && !conn->is_last)
        buf_consume(&conn->in, work(conn, buf_slice(&conn->in)));
    after_work(conn);
}

static void on_open(struct stream *stream, void *owner)
{
    (void)owner;
    stream_read_start(stream);
}

static void on_eof(struct stream *stream, void *owner, bool is_clean)
{
    struct conn *conn = owner;
    (void)is_clean;
    conn->has_eof = true;
    /* A client that has half-closed its side still gets the reply that is under way. */
    if (conn->state == CONN_READING || conn->state == CONN_ENDING || conn->state == CONN_HUNG)
        stream_close(stream);
}

static void on_drained(struct stream *stream, void *owner)
{
    struct conn *conn = owner;
    if (conn->state == CONN_ENDLESS)
        conn_more_endless(conn);
    else if (conn->state == CONN_ENDING && conn->has_eof)
        stream_close(stream);
}

static void free_conn(struct loop_garbage *garbage)
{
    struct conn *conn = CONTAINER_OF(garbage, struct conn, garbage);
    buf_deinit(&conn->in);
    buf_deinit(&conn->held);
    mem_free(conn);
}

static void on_closed(struct stream *stream, void *owner, const struct err *why)
{
    struct conn *conn = owner;
    (void)stream;
    (void)why;
    conn->state = CONN_CLOSED;
    timer_stop(&conn->timer);
    list_unlink(&conn->link);
    conn->host->conn_count--;
    conn->garbage.free = free_conn;
    loop_garbage_add(conn->host->loop, &conn->garbage);
}

const struct stream_events conn_events = {on_open, on_read, on_eof, on_drained, on_closed};
