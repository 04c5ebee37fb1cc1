/*
 * conn: a connection of the server, from bytes to requests, one at a time, and the handling of
 * slow, ended and broken connections. States are in server_internal.h; conn_settle corrects
 * reading, the timer and the end of the connection after every event.
 *
 * A handler may answer inside its callback, and an answer may end the connection. So functions that
 * call a handler hold a reference to the exchange during the call, and is_processing stops an
 * answer from starting the next request inside the current one.
 */
#include "base/id.h"
#include "base/mem.h"
#include "base/metric.h"
#include "http/server_internal.h"

static struct metric refused_metric = METRIC_INIT(
    "sluice_http_refused_total",
    "Requests and connections that the HTTP server refused by itself, by status.", METRIC_COUNTER);

static void conn_settle(struct http_conn *conn);

static uint64_t conn_now(const struct http_conn *conn)
{
    return loop_now_ns(conn->server->loop);
}

static bool is_alive(const struct http_conn *conn)
{
    return conn->state != CONN_CLOSED;
}

/* ---- states ---- */

static void enter_conn_state(struct http_conn *conn, enum conn_state state)
{
    conn->state = (uint8_t)state;
    conn->state_ns = conn_now(conn);
    if (state == CONN_HEAD)
        http_head_scan_init(&conn->scan, &conn->server->config.head);
}

/* The server takes no more requests: queued bytes are sent, then FIN, then input is read and
 * dropped for a while. Closing with unread input makes the kernel send RST, which can destroy
 * the reply before the client has read it (RFC 9112 9.6). */
static void conn_linger(struct http_conn *conn)
{
    /* LINGER and CLOSED are final: a connection never leaves them for an earlier state. */
    if (conn->state >= CONN_LINGER)
        return;
    enter_conn_state(conn, CONN_LINGER);
    conn->progress_ns = conn->state_ns;
    http_conn_queue_flush(conn);
}

void http_conn_cut(struct http_conn *conn)
{
    if (!is_alive(conn))
        return;
    conn->state = CONN_CLOSED;
    stream_reset(conn->stream); /* on_closed then frees the connection */
}

static void conn_close(struct http_conn *conn)
{
    if (!is_alive(conn))
        return;
    conn->state = CONN_CLOSED;
    stream_close(conn->stream);
}

static void count_refused(unsigned status)
{
    /* Formatted without the reply code, because this runs for each refused connection of a
     * flood. */
    char label[16] = "status=\"000\"";
    label[8] = (char)('0' + status / 100 % 10);
    label[9] = (char)('0' + status / 10 % 10);
    label[10] = (char)('0' + status % 10);
    metric_add(metric_series(&refused_metric, slice_cstr(label)), 1);
}

/* Sends a refusal without an exchange. */
static void conn_refuse(struct http_conn *conn, struct http_problem problem)
{
    char text[1024];
    slice reply = http_refusal_text(conn->server, text, sizeof(text), problem.status, problem.text);
    count_refused(problem.status);
    http_conn_flush(conn, &reply, 1);
    conn_linger(conn);
}

static void exchange_refuse(struct exchange *exchange, struct http_problem problem)
{
    count_refused(problem.status);
    http_exchange_refuse(exchange, problem);
}

/* ---- writing ---- */

void http_conn_queue_flush(struct http_conn *conn)
{
    if (!list_is_empty(&conn->flush_link))
        return;
    list_push_back(&conn->server->flush, &conn->flush_link);
    /* The cost is reported to the loop, so that a turn's time includes the system call at its
     * end. */
    loop_reserve(conn->server->loop, CONN_FLUSH_NS_ABOUT);
}

static void note_written(struct http_conn *conn, size_t bytes, size_t pending_before)
{
    conn->pending_before = stream_write_pending(conn->stream);
    /* The rate at which the client reads is measured from the first byte that has to wait. */
    if (pending_before == 0) {
        conn->write_ns = conn->progress_ns = conn_now(conn);
        conn->write_bytes = 0;
    }
    conn->write_bytes += bytes;
}

static bool write_parts(struct http_conn *conn, const slice *parts, size_t count)
{
    size_t bytes = 0, pending = stream_write_pending(conn->stream);
    for (size_t i = 0; i < count; i++)
        bytes += parts[i].len;
    if (bytes == 0)
        return true;
    int rc = stream_write(conn->stream, parts, count);
    if (rc != OK) {
        http_conn_cut(conn); /* ERR_LIMIT is impossible: sizes were checked */
        return false;
    }
    note_written(conn, bytes, pending);
    return true;
}

bool http_conn_flush(struct http_conn *conn, const slice *more, size_t count)
{
    /* Sends the replies of this turn together: one writev, however many were pipelined. */
    slice parts[CONN_PARTS_MAX];
    size_t used = 0;
    bool is_good = is_alive(conn);
    conn->outbox_bytes = 0;
    /* The exchanges are taken out whether or not the connection is open: each holds a reference
     * that must be released. */
    LIST_DRAIN(&conn->outbox, struct exchange, exchange, out_link) {
        parts[used++] = exchange->out_head;
        parts[used++] = exchange->out_body;
        exchange->out_head = exchange->out_body = SLICE_NONE;
        if (conn->exchange != exchange) {
            exchange->conn = NULL;
            http_exchange_unref(&exchange->pub); /* the memory of the parts remains valid in this
                                                  * turn */
        }
        /* If there is no room for a head, a body and the caller's parts, the present parts are
         * sent first. */
        if (used + 2 <= CONN_PARTS_MAX - count)
            continue;
        is_good = is_good && write_parts(conn, parts, used);
        used = 0;
    }
    for (size_t i = 0; i < count; i++)
        parts[used++] = more[i];
    return is_good && write_parts(conn, parts, used);
}

/* ---- requests ---- */

/* Calls the handler, once the request is complete and its body is wanted. */
static void show_request(struct exchange *exchange)
{
    struct http_server *server = exchange->pub.server;
    /* In each of these cases the handler has answered, or is about to. */
    if (exchange->is_answered || exchange->is_given_up || exchange->is_reply_due)
        return;
    exchange->pub.is_delivered = true;
    exchange->is_reply_due = true;
    /* The reference is the handler's until its reply (settle in reply.c). */
    http_exchange_ref(&exchange->pub);
    server->handler.on_request(&exchange->pub, server->ctx);
}

static void show_head(struct exchange *exchange)
{
    struct http_server *server = exchange->pub.server;
    if (!server->handler.on_head)
        return;
    /* The handler knows the exchange from this point on, so on_gone may be called. */
    exchange->pub.is_delivered = true;
    if (server->handler.on_head(&exchange->pub, server->ctx) == HTTP_BODY_WAIT)
        exchange->is_body_awaited = true;
}

static void begin_request(struct http_conn *conn, slice head)
{
    struct http_problem problem;
    struct exchange *exchange = http_exchange_new(conn, head, &problem);
    conn->turn_requests++;
    conn->is_first = false;
    if (!exchange) {
        /* There is no exchange to answer, so a constant text is sent. */
        conn_refuse(conn,
                    (struct http_problem){503, "The server is out of memory. Try again later."});
        return;
    }
    conn->exchange = exchange;
    enter_conn_state(conn, exchange->is_body_done ? CONN_BUSY : CONN_BODY);
    /* A reference is held: the handler may answer at once, and that reply may end the exchange. */
    http_exchange_ref(&exchange->pub);
    if (problem.status) {
        exchange_refuse(exchange, problem);
    } else {
        show_head(exchange);
        if (exchange->is_body_done && !exchange->is_body_awaited)
            show_request(exchange);
    }
    http_exchange_unref(&exchange->pub);
}

/* No next request begins while the client reads slowly, or when other connections must have their
 * turn. */
static bool is_blocked(struct http_conn *conn)
{
    /* The loop counts turns; a new turn starts the count again, without a timer. */
    uint64_t turn = loop_stats(conn->server->loop)->turns;
    if (conn->turn != turn) {
        conn->turn = turn;
        conn->turn_requests = 0;
    }
    return conn->turn_requests >= conn->server->config.requests_per_turn_max ||
           stream_write_pending(conn->stream) + conn->outbox_bytes > CONN_PENDING_HIGH;
}

/* rest begins with the head, of which scan.bytes were read before. Returns whether to continue. */
static bool take_head(struct http_conn *conn, slice rest, size_t *used)
{
    /* Bytes of an incomplete head that were scanned before are not scanned again: a head that
     * arrives byte by byte costs linear time (a slow client must not be an expensive one). */
    slice fresh = slice_from(rest, conn->scan.bytes);
    if (fresh.len == 0 || is_blocked(conn))
        return false;
    if (!http_head_scan_has_begun(&conn->scan))
        /* The time limit of a head runs from its first byte, not from the end of the last
         * request. */
        conn->state_ns = conn_now(conn);
    size_t scanned;
    switch (http_head_scan(&conn->scan, fresh, &scanned)) {
    case HTTP_SCAN_MORE:
        return false; /* the caller keeps the partial head */
    case HTTP_SCAN_BAD:
        /* Everything is dropped: after a broken head it is unknown where the next request
         * begins. */
        *used = rest.len;
        conn_refuse(conn, conn->scan.problem);
        return false;
    case HTTP_SCAN_DONE:
        break;
    }
    *used = conn->scan.bytes;
    begin_request(conn, slice_first(rest, *used));
    return true;
}

/* Returns whether to continue, because the body is complete or refused. */
static bool take_body(struct http_conn *conn, slice rest, size_t *used)
{
    struct exchange *exchange = conn->exchange;
    struct http_problem problem;
    /* The handler does not want the body yet: bytes stay in the input buffer, which wants_input
     * bounds. */
    if (exchange->is_body_awaited)
        return false;
    if (!http_exchange_feed(exchange, rest, used, &problem)) {
        exchange_refuse(exchange, problem);
        *used = rest.len;
        return false;
    }
    /* 100 Continue is useful only while no byte of the body has arrived and no reply has begun (RFC
     * 9110 10.1.1). */
    if (exchange->is_continue_due && rest.len == 0 && !exchange->is_begun) {
        slice text = SLICE("HTTP/1.1 100 Continue\r\n\r\n");
        http_conn_flush(conn, &text, 1);
    }
    exchange->is_continue_due = false;
    if (!exchange->is_body_done) {
        if (http_exchange_pauses(exchange))
            conn->server->handler.on_body_paused(&exchange->pub, conn->server->ctx);
        return false;
    }
    if (conn->state == CONN_BODY)
        enter_conn_state(conn, CONN_BUSY);
    /* A reference is held over show_request, as in begin_request. */
    http_exchange_ref(&exchange->pub);
    show_request(exchange);
    http_exchange_unref(&exchange->pub);
    http_conn_advance(conn);
    return true;
}

/* Takes as many bytes as can be used now; returns their number. */
static size_t conn_process(struct http_conn *conn, slice bytes)
{
    size_t used = 0;
    ASSERT(!conn->is_processing);
    conn->is_processing = true;
    for (bool goes_on = true; goes_on;) {
        slice rest = slice_from(bytes, used);
        size_t taken = 0;
        if (conn->state == CONN_HEAD)
            goes_on = take_head(conn, rest, &taken);
        else if (conn->state == CONN_BODY)
            goes_on = take_body(conn, rest, &taken);
        else
            goes_on = false;
        used += taken;
    }
    conn->is_processing = false;
    /* In LINGER and CLOSED input is dropped, so all of it counts as used. */
    return conn->state >= CONN_LINGER ? bytes.len : used;
}

static void process_input(struct http_conn *conn)
{
    size_t used = conn_process(conn, buf_slice(&conn->input));
    buf_consume(&conn->input, used);
    if (conn->input.len == 0)
        /* The buffer is freed, since otherwise ten thousand idle connections would each keep the
         * memory of their largest pipeline. */
        buf_deinit(&conn->input); /* an idle connection holds no input buffer */
}

/* Handles the end of the client's input, if it has arrived. */
static void take_eof(struct http_conn *conn)
{
    conn->is_eof_due = false;
    /* A half-closed connection may still read its reply; the handler decides (on_gone in
     * server.h). */
    if (conn->state == CONN_BUSY && conn->exchange && !conn->exchange->is_complete)
        http_exchange_gone(conn->exchange);
}

static void on_continue(struct loop_task *task)
{
    struct http_conn *conn = CONTAINER_OF(task, struct http_conn, task);
    if (!is_alive(conn))
        return;
    struct exchange *exchange = conn->exchange;
    /* The task runs for several reasons, so each is tried: a body accepted, a piece of a large
     * reply to write, input left over, an end to report. */
    if (conn->state == CONN_BUSY && exchange && !exchange->is_body_awaited)
        show_request(exchange);
    if (exchange && exchange->rest.len > 0 && stream_write_pending(conn->stream) == 0)
        http_exchange_pump(exchange);
    if (!is_alive(conn))
        return;
    process_input(conn);
    if (conn->is_eof_due)
        take_eof(conn);
    conn_settle(conn);
}

/* The exchange is over for the client once its reply is complete and its body read. */
void http_conn_advance(struct http_conn *conn)
{
    struct exchange *exchange = conn->exchange;
    if (!is_alive(conn))
        return;
    /* is_close ends the connection even with an unread body: reading it would be pointless. */
    if (exchange && exchange->is_complete && (exchange->is_body_done || exchange->is_close)) {
        conn->exchange = NULL;
        if (exchange->is_close)
            conn_linger(conn);
        else
            enter_conn_state(conn, CONN_HEAD);
        /* An exchange that is still in the outbox has bytes that are sent at the end of the
         * turn, when http_conn_flush releases it. */
        if (list_is_empty(&exchange->out_link)) {
            exchange->conn = NULL;
            http_exchange_unref(&exchange->pub);
        }
    }
    if (!conn->is_processing)
        loop_task_queue(conn->server->loop, &conn->task);
}

/* ---- time ---- */

/* Slow heads and bodies (slowloris) end with 408; if this server is the slow side, the answer is
 * 503. */
static void give_up(struct http_conn *conn)
{
    static const struct http_problem slow = {408, "the request did not arrive in time"};
    static const struct http_problem late = {503, "The request took too long. Try again later."};
    switch ((enum conn_state)conn->state) {
    case CONN_HEAD:
        if (http_head_scan_has_begun(&conn->scan))
            conn_refuse(conn, slow);
        else
            conn_linger(conn);
        break;
    case CONN_BODY:
        exchange_refuse(conn->exchange, conn->exchange->is_body_awaited ? late : slow);
        break;
    case CONN_BUSY:
        exchange_refuse(conn->exchange, late);
        break;
    case CONN_LINGER:
        conn_close(conn);
        break;
    case CONN_CLOSED:
        break;
    }
}

static void on_conn_due(struct timer *timer)
{
    struct http_conn *conn = CONTAINER_OF(timer, struct http_conn, timer);
    if (!is_alive(conn))
        return;
    /* The kernel may have taken bytes since, without an event: check for progress first. */
    http_conn_note_progress(conn);
    uint64_t now_ns = conn_now(conn);
    if (http_conn_write_due(conn) <= now_ns)
        http_conn_cut(conn);
    else if (http_conn_state_due(conn) <= now_ns)
        give_up(conn);
    conn_settle(conn);
}

/* ---- after every event ---- */

static bool wants_input(const struct http_conn *conn)
{
    if (conn->state == CONN_LINGER)
        return true;
    if (conn->state == CONN_BODY && !conn->exchange->is_body_awaited)
        return true;
    /* This many bytes are read ahead without a consumer, only to notice a FIN after them; beyond
     * that TCP's flow control stops the client. */
    return conn->input.len < HTTP_PIPELINE_BYTES_MAX;
}

/* Whether input is discarded, because the connection is about to end or the reply was sent before
 * the body. */
static bool is_input_discarded(const struct http_conn *conn)
{
    return conn->state == CONN_LINGER ||
           (conn->state == CONN_BODY && conn->exchange->is_body_dropped);
}

/* Processes left-over input. If the connection is no longer blocked, this happens at once; if
 * the number of requests in this turn blocked it, in the next turn. If the client reads slowly,
 * on_drained calls this again. */
static void settle_input(struct http_conn *conn)
{
    if (conn->state != CONN_HEAD || conn->input.len <= conn->scan.bytes)
        return;
    if (!is_blocked(conn))
        loop_task_queue(conn->server->loop, &conn->task);
    else if (conn->turn_requests >= conn->server->config.requests_per_turn_max)
        loop_task_queue_next_turn(conn->server->loop, &conn->task);
}

/* Ends the connection if the client sends no more and no request waits for an answer. */
static void settle_eof(struct http_conn *conn)
{
    /* Left-over input may still become requests, whose replies the client can read. */
    bool is_waiting = loop_task_is_queued(&conn->task) || is_blocked(conn);
    bool is_silent = list_is_empty(&conn->outbox) && stream_write_pending(conn->stream) == 0;
    /* With an incomplete body or an idle connection there is no reply to wait for. */
    if (conn->state == CONN_BODY || (conn->state == CONN_HEAD && !is_waiting && is_silent)) {
        conn_close(conn); /* the request will never be complete, or there is nothing left to send */
        return;
    }
    if (conn->state == CONN_HEAD && !is_waiting)
        conn_linger(conn);
    if (conn->state == CONN_LINGER && conn->is_shut && stream_write_pending(conn->stream) == 0)
        conn_close(conn);
}

static void conn_settle(struct http_conn *conn)
{
    if (!is_alive(conn))
        return;
    http_conn_note_progress(conn);
    /* The bytes in the input buffer will never be parsed. */
    if (conn->state == CONN_LINGER && conn->input.len)
        buf_deinit(&conn->input);
    settle_input(conn);
    if (conn->is_eof)
        settle_eof(conn);
    /* settle_eof may have closed the connection. */
    if (!is_alive(conn))
        return;
    stream_read_for(conn->stream, conn->account, is_input_discarded(conn));
    if (wants_input(conn))
        stream_read_start(conn->stream);
    else
        stream_read_stop(conn->stream);
    uint64_t due_ns = http_conn_write_due(conn);
    uint64_t state_due_ns = http_conn_state_due(conn);
    due_ns = state_due_ns < due_ns ? state_due_ns : due_ns;
    if (due_ns == UINT64_MAX)
        timer_stop(&conn->timer);
    else
        timer_start(&conn->timer, due_ns);
}

static void on_read(struct stream *stream, void *owner, slice bytes)
{
    struct http_conn *conn = owner;
    (void)stream;
    if (conn->state == CONN_LINGER)
        conn->progress_ns = conn_now(conn);
    if (conn->state >= CONN_LINGER)
        return;
    /* Left-over input comes first, or requests would be read out of order. */
    if (conn->input.len) {
        buf_append(&conn->input, bytes);
        if (buf_is_ok(&conn->input))
            process_input(conn);
    } else {
        size_t used = conn_process(conn, bytes);
        /* Only unused bytes are copied; most requests arrive in one read and are parsed in
         * place. */
        buf_append(&conn->input, slice_from(bytes, used));
    }
    if (!buf_is_ok(&conn->input))
        http_conn_cut(conn); /* out of memory: the bytes cannot be kept */
    conn_settle(conn);
}

/* The end is handled as a task, since the time of tasks in a turn is bounded: ten thousand clients
 * may end at once. Requests before the end that can be answered at once have been answered by
 * then. */
static void on_eof(struct stream *stream, void *owner, bool is_clean)
{
    struct http_conn *conn = owner;
    (void)stream;
    (void)is_clean;
    conn->is_eof = conn->is_eof_due = true;
    loop_task_queue(conn->server->loop, &conn->task);
}

static void on_drained(struct stream *stream, void *owner)
{
    struct http_conn *conn = owner;
    (void)stream;
    if (!is_alive(conn))
        return;
    struct exchange *exchange = conn->exchange;
    if (exchange && exchange->is_streaming && exchange->pub.on_drained)
        exchange->pub.on_drained(&exchange->pub);
    if (exchange && exchange->rest.len > 0)
        loop_task_queue(conn->server->loop, &conn->task);
    conn_settle(conn);
}

/* ---- begin and end ---- */

static void conn_free(struct loop_garbage *garbage)
{
    mem_free(CONTAINER_OF(garbage, struct http_conn, garbage));
}

static void drop_exchanges(struct http_conn *conn)
{
    struct exchange *current = conn->exchange;
    conn->exchange = NULL;
    LIST_DRAIN(&conn->outbox, struct exchange, exchange, out_link) {
        /* The current exchange may be in the outbox as well; it has one reference for both. */
        if (exchange == current)
            continue;
        exchange->conn = NULL;
        http_exchange_unref(&exchange->pub);
    }
    if (!current)
        return;
    current->conn = NULL;
    /* Order: first its borrowed body is released, then the handler is notified, then the access log
     * is written, then this reference is dropped. */
    http_exchange_release(current);
    http_exchange_gone(current);
    http_exchange_finish(current);
    http_exchange_unref(&current->pub);
}

static void on_closed(struct stream *stream, void *owner, const struct err *why)
{
    struct http_conn *conn = owner;
    struct http_server *server = conn->server;
    (void)stream;
    (void)why;
    conn->state = CONN_CLOSED;
    conn->stream = NULL;
    timer_stop(&conn->timer);
    /* Everything that could still reach the connection is unlinked here; its memory is freed at the
     * turn's end. */
    loop_task_cancel(&conn->task);
    list_unlink(&conn->flush_link);
    list_unlink(&conn->link);
    http_conn_address_release(conn);
    drop_exchanges(conn);
    buf_deinit(&conn->input);
    conn->garbage.free = conn_free;
    loop_garbage_add(server->loop, &conn->garbage);
    http_server_conn_gone(server);
}

static const struct stream_events conn_events = {
    .on_read = on_read,
    .on_eof = on_eof,
    .on_drained = on_drained,
    .on_closed = on_closed,
};

void http_conn_close_idle(struct http_conn *conn)
{
    /* A request that has begun is answered. On a new connection the server waits for the first
     * request, since the client cannot know of the drain. */
    if (conn->state == CONN_HEAD && !http_head_scan_has_begun(&conn->scan) && !conn->input.len &&
        !conn->is_first)
        conn_linger(conn);
    conn_settle(conn); /* deadlines are shorter in a drain */
}

static struct http_conn *conn_new(struct http_server *server, struct stream *stream)
{
    struct http_conn *conn = mem_zalloc(sizeof(*conn));
    if (!conn)
        return NULL;
    conn->server = server;
    conn->stream = stream;
    conn->is_first = true;
    list_init(&conn->link);
    list_init(&conn->flush_link);
    list_init(&conn->outbox);
    buf_init(&conn->input, CONN_INPUT_BYTES_MAX);
    timer_init(&conn->timer, server->loop, on_conn_due);
    loop_task_init(&conn->task, on_continue);
    list_push_back(&server->conns, &conn->link);
    server->conn_count++;
    stream_own(stream, &conn_events, conn);
    /* A Unix socket does not have such an address. */
    if (stream_peer(stream, (struct sockaddr *)&conn->peer, sizeof(conn->peer)) != OK)
        conn->peer.sin6_family = AF_UNIX;
    enter_conn_state(conn, CONN_HEAD);
    return conn;
}

void http_conn_accept(struct http_server *server, struct stream *stream)
{
    size_t count = server->conn_count, count_max = server->config.connections_max;
    /* Beyond the limit, some connections are still accepted and answered with 503. Further ones are
     * closed without a reply; otherwise refusing a flood would cost as much as serving it. */
    struct http_conn *conn = count < count_max + CONN_REFUSED_MAX ? conn_new(server, stream) : NULL;
    if (!conn) {
        count_refused(503);
        stream_close(stream);
        return;
    }
    tcp_write_limit_set(stream, server->config.write_bytes_max + CONN_INPUT_BYTES_MAX);
    if (server->config.wrap) {
        struct stream *session = server->config.wrap(stream, &conn_events, conn, server->ctx);
        if (!session) {
            conn_close(conn);
            return;
        }
        conn->stream = session;
    }
    size_t of_address = http_conn_address_take(conn),
           of_address_max = server->config.address_connections_max;
    /* http_conn_address_take has counted it in any case; on_closed releases that count. */
    if (of_address > of_address_max + CONN_ADDRESS_REFUSED_MAX) {
        count_refused(503);
        conn_close(conn);
        return;
    }
    if (count >= count_max)
        conn_refuse(conn, (struct http_problem){
                              503, "The server has too many connections. Try again later."});
    else if (of_address > of_address_max)
        conn_refuse(conn, (struct http_problem){503, "There are too many connections from your "
                                                     "address. Close some, or try again later."});
    conn_settle(conn);
}

/* Runs at the end of a turn: sends replies, and FIN if the connection is done. */
void http_conn_end_turn(struct http_conn *conn)
{
    if (!http_conn_flush(conn, NULL, 0) || !is_alive(conn))
        return;
    if (conn->state == CONN_LINGER && !conn->is_shut) {
        conn->is_shut = true;
        stream_shutdown(conn->stream);
    }
    conn_settle(conn);
}
