/*
 * client_connection: connections of the pool. Each is idle in its origin's list, or carries one
 * call. It reads all the time, so that the close of an idle connection is noticed. A byte that
 * arrives without a request ends the connection: it would be read as the answer to the next request
 * (response splitting).
 *
 * States: idle (in two lists, timer on), busy (call set), closing (stream NULL). connection_close()
 * may be called more than once; on_closed is called exactly once and frees the connection.
 */
#include "base/mem.h"
#include "base/metric.h"
#include "http/client_internal.h"

static struct metric reuses = METRIC_INIT("sluice_http_client_reused_total",
                                          "Outbound calls that went over a kept connection.",
                                          METRIC_COUNTER);
static struct metric resends =
    METRIC_INIT("sluice_http_client_resent_total",
                "Outbound calls sent again because a kept connection was dead.", METRIC_COUNTER);

static const struct stream_events connection_events;

/* ---- idle and closed ---- */

static void connection_leave_idle(struct http_connection *connection)
{
    if (!connection->is_idle)
        return;
    connection->is_idle = false;
    list_unlink(&connection->idle_link);
    list_unlink(&connection->all_idle_link);
    connection->origin->idle_count--;
    connection->client->idle_count--;
    timer_stop(&connection->idle_timer);
}

/* From here on the connection is no longer counted; on_closed frees its memory. */
static void connection_close(struct http_connection *connection)
{
    struct http_client *client = connection->client;
    struct stream *stream = connection->stream;
    ASSERT(!connection->call);
    /* The connection is already closing. */
    if (!stream)
        return;
    connection_leave_idle(connection);
    /* The task must not find a connection without a stream. */
    loop_task_cancel(&connection->send_more);
    connection->stream = NULL;
    client->connection_count--;
    client_count_changed(client);
    stream_close(stream);
}

void connection_close_idle(struct http_connection *connection)
{
    ASSERT(connection->is_idle && !connection->call);
    connection_close(connection);
}

static void on_idle_due(struct timer *timer)
{
    connection_close_idle(CONTAINER_OF(timer, struct http_connection, idle_timer));
}

static void connection_cut_call(struct http_connection *connection)
{
    budget_wait_stop(&connection->memory);
    connection->call->connection = NULL;
    connection->call = NULL;
}

void connection_drop(struct http_connection *connection)
{
    /* response_end copies the body received so far into the call, so it runs before the link is
     * cut. */
    response_end(connection);
    connection_cut_call(connection);
    connection_close(connection);
}

bool connection_make_room(struct http_client *client)
{
    if (list_is_empty(&client->by_idle))
        return false;
    connection_close_idle(LIST_ITEM(client->by_idle.next, struct http_connection, all_idle_link));
    return true;
}

/* The peer's limit applies if it is shorter, less one second: the peer began to count before its
 * reply arrived here. */
static uint64_t idle_limit_ns(const struct http_connection *connection)
{
    uint64_t ms = connection->client->config.idle_ms;
    unsigned said_s = connection->response.keep_alive_s;
    /* said_s is at least 1 here; with 1 the limit is 0 and the connection is not kept. */
    if (said_s && (said_s - 1) * 1000ull < ms)
        ms = (said_s - 1) * 1000ull;
    return ms * 1000000;
}

static void connection_go_idle(struct http_connection *connection)
{
    struct http_client *client = connection->client;
    struct http_origin *origin = connection->origin;
    uint64_t limit_ns = idle_limit_ns(connection);
    ASSERT(!connection->call && !connection->is_idle);
    bool is_old = connection->tls && connection->tls != client->tls; /* roots were reloaded */
    if (client->is_freed || is_old || limit_ns == 0) {
        connection_close(connection);
        return;
    }
    /* The least recently used connection of this origin: its peer is the likeliest to close it
     * soon. */
    if (origin->idle_count >= client->config.idle_per_origin)
        connection_close_idle(LIST_ITEM(origin->idle.next, struct http_connection, idle_link));
    connection->is_idle = true;
    connection->idle_since_ns = loop_now_ns(client->loop);
    list_push_back(&origin->idle, &connection->idle_link);
    list_push_back(&client->by_idle, &connection->all_idle_link);
    origin->idle_count++;
    client->idle_count++;
    timer_start(&connection->idle_timer, connection->idle_since_ns + limit_ns);
    client_count_changed(client);
}

struct http_connection *connection_take_idle(struct http_call *call)
{
    struct http_origin *origin = call->origin;
    const struct http_client *client = call->client;
    if (list_is_empty(&origin->idle))
        return NULL;
    /* The newest connection is at the back. */
    struct http_connection *connection =
        LIST_ITEM(origin->idle.prev, struct http_connection, idle_link);
    uint64_t idle_ns = loop_now_ns(client->loop) - connection->idle_since_ns;
    /* A write that dies with its connection cannot be repeated, so it does not use a connection
     * that has been idle for long. If the newest is too old, all are. */
    if (!call->is_idempotent && idle_ns > client->config.write_reuse_ms * 1000000ull)
        return NULL;
    connection_leave_idle(connection);
    call->is_reused = true;
    metric_inc(&reuses);
    return connection;
}

/* ---- a call's end on this connection ---- */

/* Called when the reply is complete. may_stay: no bytes followed it. */
static void connection_succeed(struct http_connection *connection, bool may_stay)
{
    struct http_call *call = connection->call;
    /* A reply that arrives before the request was fully sent is valid, but the rest of the body
     * would follow on the connection, so it is not kept. */
    bool is_all_sent = call->state == CALL_RECEIVING;
    bool is_kept = may_stay && is_all_sent && connection->response.is_keep_alive &&
                   !connection->is_eof;
    response_end(connection);
    /* response_end may run out of memory, which changes the result, so it is read only now. */
    enum http_call_result result = connection->response.is_failed ? connection->response.result
                                                                  : HTTP_CALL_OK;
    /* The link is cut and the connection settled before the call ends: the owner may start its
     * next call at once, which should find the connection in the pool. */
    connection_cut_call(connection);
    if (is_kept)
        connection_go_idle(connection);
    else
        connection_close(connection);
    call_finish(call, result);
}

/* Whether the call may be sent a second time: see the head of client.h. */
static bool may_resend(const struct http_connection *connection)
{
    const struct http_call *call = connection->call;
    /* No byte of a reply arrived, so the peer most likely closed the connection while it was
     * idle. A call is resent only once, or a peer that closes each time would cause a loop. */
    return call->is_reused && !call->is_resent && connection->response.wire_bytes == 0 &&
           (call->is_idempotent || !call->is_any_byte_sent);
}

/* Called when the connection has ended during the call. why->code may be OK: a plain FIN. */
static void connection_fail(struct http_connection *connection, const struct err *why)
{
    struct http_call *call = connection->call;
    if (may_resend(connection)) {
        metric_inc(&resends);
        /* is_resent means that bytes were sent twice, not only that a second connection was
         * used. */
        call->is_resent = call->is_any_byte_sent;
        call->is_fresh_wanted = true;
        connection_drop(connection);
        call_assign(call);
        return;
    }
    const char *when = connection->response.wire_bytes ? "in the middle of the reply"
                                                       : "before it replied";
    const char *cause = why && why->code != OK ? why->text : "connection closed";
    call_fail(call, HTTP_CALL_RESET, ERR_CLOSED, "%.*s closed the connection %s (%s)",
              SLICE_ARG(call->authority), when, cause);
}

/* ---- sending ---- */

/* Puts up to CLIENT_SEND_BYTES of the rest of the body into parts and advances past them;
 * returns the number of parts. */
static size_t body_parts_next(struct http_connection *connection, slice *parts, size_t parts_max)
{
    const struct http_call *call = connection->call;
    size_t count = 0, room = CLIENT_SEND_BYTES;
    while (count < parts_max && room > 0 && connection->part_index < call->body_part_count) {
        slice rest = slice_from(call->body_parts[connection->part_index], connection->part_offset);
        slice now = slice_first(rest, room);
        room -= now.len;
        if (now.len)
            parts[count++] = now;
        if (now.len == rest.len) {
            connection->part_index++;
            connection->part_offset = 0;
        } else {
            connection->part_offset += now.len;
        }
    }
    return count;
}

static void connection_all_sent(struct http_connection *connection)
{
    struct http_call *call = connection->call;
    uint64_t now = loop_now_ns(connection->client->loop);
    /* If the reply has already begun, on_read has set the limit of its silence,
     * between_bytes_ms. */
    if (connection->response.wire_bytes == 0)
        call_set_phase(call, CALL_RECEIVING, now + call->first_byte_ms * 1000000ull);
    else
        call_set_phase(call, CALL_RECEIVING, call->phase_due_ns);
}

/* Continues to write as long as the stream takes everything at once; the rest follows in
 * on_drained, or in the next turn. */
static void connection_send_more(struct http_connection *connection)
{
    struct http_call *call = connection->call;
    for (unsigned i = 0; i < CLIENT_SENDS_A_TURN; i++) {
        /* Parts are filled one at a time, because bytes that TLS and the kernel do not accept at
         * once are copied. */
        slice parts[HTTP_CALL_BODY_PARTS_MAX];
        if (stream_write_pending(connection->stream) > 0)
            return;
        size_t count = body_parts_next(connection, parts, ARRAY_LEN(parts));
        if (count == 0) {
            connection_all_sent(connection);
            return;
        }
        int code = stream_write(connection->stream, parts, count);
        if (code == OK)
            continue;
        /* ERR_LIMIT is impossible: the queue was empty, and the piece is below its limit */
        ASSERT(code == ERR_CLOSED);
        return; /* on_closed or a reply will have the reason */
    }
    /* A long body is sent over several turns; otherwise one upload would delay all other
     * connections of the loop. */
    call_set_phase(call, CALL_SENDING, call->phase_due_ns);
    loop_task_queue_next_turn(connection->client->loop, &connection->send_more);
}

static void on_send_more(struct loop_task *task)
{
    struct http_connection *connection = CONTAINER_OF(task, struct http_connection, send_more);
    if (connection->call && connection->stream)
        connection_send_more(connection);
}

/* The head and the beginning of the body are sent in one write. */
static int connection_send_head(struct http_connection *connection)
{
    slice parts[1 + CLIENT_HEAD_FIRST_PARTS];
    parts[0] = request_head(connection->call);
    size_t count = parts[0].ptr ? 1 : 0;
    if (count)
        count += body_parts_next(connection, parts + 1, CLIENT_HEAD_FIRST_PARTS);
    int code = count ? stream_write(connection->stream, parts, count) : ERR_NOMEM;
    request_wipe(connection->client);
    return code;
}

/* Called if the caller no longer wants the request sent. The connection is unused. */
static void connection_keep_back(struct http_connection *connection, struct http_call *call)
{
    connection_go_idle(connection);
    if (call->is_any_byte_sent)
        call_fail(call, HTTP_CALL_RESET, ERR_CLOSED,
                  "%.*s closed the connection before it replied, and the request may not be sent "
                  "again now",
                  SLICE_ARG(call->authority));
    else
        call_fail(call, HTTP_CALL_UNSENT, ERR_REFUSED, "the request may not be sent any more");
}

bool connection_send(struct http_connection *connection, struct http_call *call)
{
    ASSERT(!connection->call && !call->connection && connection->stream);
    /* The last point where the caller can stop the request: after this a byte may be sent. */
    if (call->may_send && !call->may_send(call)) {
        connection_keep_back(connection, call);
        return true;
    }
    uint64_t now = loop_now_ns(connection->client->loop);
    connection->call = call;
    call->connection = connection;
    stream_read_for(connection->stream, call->tenant, false);
    /* A resend begins with the first part again. */
    connection->part_index = connection->part_offset = 0;
    /* Everything that a call learns about its connection is copied: the connection may close before
     * the call ends. */
    call->is_resumed = connection->is_resumed;
    memcpy(call->remote, connection->remote, sizeof(call->remote));
    response_begin(connection);
    int code = connection_send_head(connection);
    /* This is reported to call_assign, which tries another connection: is_any_byte_sent is not set
     * yet. */
    if (code == ERR_CLOSED) { /* nothing was sent: this write was the first */
        connection_drop(connection);
        return false;
    }
    if (code != OK) {
        call_fail(call, HTTP_CALL_OVERLOADED, ERR_NOMEM, "out of memory for the request");
        return true;
    }
    /* This is set before anything can fail: a write request that may have reached the provider is
     * not repeated. */
    call->is_any_byte_sent = true;
    call_set_phase(call, CALL_SENDING, now + call->first_byte_ms * 1000000ull);
    if (connection->part_index == call->body_part_count)
        connection_all_sent(connection);
    else
        connection_send_more(connection);
    client_count_changed(connection->client);
    return true;
}

/* ---- events ---- */

static void on_read(struct stream *stream, void *owner, slice bytes)
{
    (void)stream;
    struct http_connection *connection = owner;
    struct http_call *call = connection->call;
    /* Bytes that were read before the close was requested may still be delivered. */
    if (!connection->stream) /* closing */
        return;
    if (!call) { /* these bytes answer no request */
        connection_close(connection);
        return;
    }
    uint64_t now = loop_now_ns(connection->client->loop);
    /* Time to the first byte includes waiting and connecting, as it starts with the call. */
    if (connection->response.wire_bytes == 0)
        call->first_byte_ns = now - call->started_ns;
    size_t used = response_feed(connection, bytes);
    const struct http_response *response = &connection->response;
    if (response->is_failed)
        call_finish(call, response->result);
    else if (response->is_complete)
        /* Bytes after the reply belong to no request: such a connection is not kept. */
        connection_succeed(connection, used == bytes.len);
    /* While the connection waits for memory the timer is set to that wait: the silence is this
     * side's. */
    else if (!response_waits_for_memory(connection))
        call_set_phase(call, (enum call_state)call->state,
                       now + call->between_bytes_ms * 1000000ull);
}

static void on_eof(struct stream *stream, void *owner, bool is_clean)
{
    (void)stream;
    struct http_connection *connection = owner;
    struct http_call *call = connection->call;
    if (!connection->stream)
        return;
    connection->is_eof = true;
    if (!call) {
        connection_close(connection);
        return;
    }
    /* A close is the proper end only of a reply without a length (RFC 9112 6.3, rule 8). */
    if (!response_finish(connection)) {
        connection_fail(connection, NULL);
        return;
    }
    if (connection->response.is_failed) {
        call_finish(call, connection->response.result);
    } else if (is_clean) {
        connection_succeed(connection, false);
    } else {
        /* Without close_notify an attacker in between may have cut the reply (truncation, RFC 8446
         * 6.1). */
        call_fail(
            call, HTTP_CALL_RESET, ERR_CLOSED,
            "%.*s ended a reply without a length and without close_notify, so it may have been cut",
            SLICE_ARG(call->authority));
    }
}

static void on_drained(struct stream *stream, void *owner)
{
    (void)stream;
    struct http_connection *connection = owner;
    struct http_call *call = connection->call;
    if (!connection->stream || !call || call->state != CALL_SENDING)
        return;
    call->phase_due_ns = loop_now_ns(connection->client->loop) + call->first_byte_ms * 1000000ull;
    call_set_phase(call, CALL_SENDING, call->phase_due_ns);
    connection_send_more(connection);
}

static void on_closed(struct stream *stream, void *owner, const struct err *why)
{
    (void)stream;
    struct http_connection *connection = owner;
    struct http_client *client = connection->client;
    struct http_origin *origin = connection->origin;
    if (connection->stream) { /* this side did not close it */
        connection->stream = NULL;
        connection_leave_idle(connection);
        loop_task_cancel(&connection->send_more);
        client->connection_count--;
        client_count_changed(client);
        if (connection->call)
            connection_fail(connection, why);
    }
    ASSERT(!connection->call && !connection->response.scratch);
    mem_free(connection);
    origin->connection_count--;
    origin_collect(origin);
    /* This comes last: it may free the client if this was the last connection. */
    client_unref(client);
}

static const struct stream_events connection_events = {
    NULL, on_read, on_eof, on_drained, on_closed,
};

struct http_connection *connection_new(struct http_origin *origin, struct stream *stream)
{
    struct http_client *client = origin->client;
    struct http_connection *connection = mem_zalloc(sizeof(*connection));
    if (!connection)
        return NULL;
    connection->stream = stream;
    connection->client = client;
    connection->origin = origin;
    list_init(&connection->idle_link);
    list_init(&connection->all_idle_link);
    timer_init(&connection->idle_timer, client->loop, on_idle_due);
    loop_task_init(&connection->send_more, on_send_more);
    /* References are taken before the stream can call back. */
    client->refs++;
    client->connection_count++;
    origin->connection_count++;
    stream_own(stream, &connection_events, connection);
    stream_read_start(stream);
    return connection;
}
