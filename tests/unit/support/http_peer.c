/*
 * See http_peer.h.
 */
#include "support/http_peer.h"

#include "base/mem.h"

struct peer_connection {
    struct http_peer *peer;
    struct stream *stream, *tcp;
    struct list link;
    struct buf in;
    const struct peer_script *script; /* being played */
    slice rest;                       /* the unsent rest of its reply */
    struct loop_task task;
};

static const struct stream_events peer_events;

static void play_end(struct peer_connection *connection)
{
    const struct peer_script *script = connection->script;
    struct stream *stream = connection->stream;
    switch (script->then) {
    case PEER_KEEP:
        connection->script = NULL;
        return;
    case PEER_FIN:
        stream_shutdown(stream);
        return;
    case PEER_CUT:
        stream_shutdown(connection->peer->tls ? tls_server_under(stream) : stream);
        return;
    case PEER_RESET:
        stream_reset(stream);
        return;
    case PEER_DEAF:
        stream_read_stop(stream);
        return;
    case PEER_ENDLESS:
        connection->rest =
            slice_of(script->reply + strlen(script->reply) - script->repeat, script->repeat);
        loop_task_queue_next_turn(connection->peer->loop, &connection->task);
        return;
    }
}

static void play(struct loop_task *task)
{
    struct peer_connection *connection = CONTAINER_OF(task, struct peer_connection, task);
    size_t len = connection->script->is_trickled ? 1 : connection->rest.len;
    slice now = slice_first(connection->rest, len);
    int code = OK;
    if (now.len && stream_write_pending(connection->stream) < 64 * 1024) {
        code = stream_write(connection->stream, &now, 1);
        connection->rest = slice_from(connection->rest, now.len);
    }
    if (code != OK) /* the client has left */
        return;
    if (connection->rest.len)
        loop_task_queue_next_turn(connection->peer->loop, &connection->task);
    else
        play_end(connection);
}

static void play_start(struct peer_connection *connection)
{
    struct http_peer *peer = connection->peer;
    size_t index = peer->requests < peer->script_count ? peer->requests : peer->script_count - 1;
    const struct peer_script *script = &peer->scripts[index];
    peer->requests++;
    connection->script = script;
    size_t len = script->reply_len || !script->reply ? script->reply_len : strlen(script->reply);
    connection->rest = slice_of(script->reply, len);
    play(&connection->task);
}

/* The length of the whole request at the beginning of `in`, or 0 if it is not complete yet. */
static size_t request_length(const struct buf *in, bool is_on_head)
{
    ptrdiff_t end = slice_find(buf_slice(in), SLICE("\r\n\r\n"));
    if (end < 0)
        return 0;
    size_t head = (size_t)end + 4;
    ptrdiff_t at = slice_find(slice_first(buf_slice(in), head), SLICE("\r\nContent-Length: "));
    uint64_t body = 0;
    if (at >= 0 && !is_on_head) {
        slice value = slice_from(buf_slice(in), (size_t)at + 18);
        ptrdiff_t line = slice_find(value, SLICE("\r\n"));
        ASSERT(slice_to_u64(slice_first(value, (size_t)line), 1u << 30, &body));
    }
    return in->len >= head + body ? head + body : 0;
}

static const struct peer_script *next_script(const struct http_peer *peer)
{
    return &peer->scripts[peer->requests < peer->script_count ? peer->requests
                                                              : peer->script_count - 1];
}

static void on_read(struct stream *stream, void *owner, slice bytes)
{
    struct peer_connection *connection = owner;
    struct http_peer *peer = connection->peer;
    buf_append(&connection->in, bytes);
    if (!buf_is_ok(&connection->in))
        stream_reset(stream);
    size_t len;
    while (!connection->script &&
           (len = request_length(&connection->in, next_script(peer)->is_on_head)) > 0) {
        buf_clear(&peer->request);
        buf_append(&peer->request, slice_first(buf_slice(&connection->in), len));
        buf_consume(&connection->in, len);
        play_start(connection);
    }
}

static void on_open(struct stream *stream, void *owner)
{
    struct peer_connection *connection = owner;
    (void)stream;
    connection->peer->handshakes++;
    if (next_script(connection->peer)->is_on_connect)
        play_start(connection);
}

static void on_eof(struct stream *stream, void *owner, bool is_clean)
{
    (void)owner, (void)is_clean;
    stream_close(stream);
}

static void on_closed(struct stream *stream, void *owner, const struct err *why)
{
    (void)stream, (void)why;
    struct peer_connection *connection = owner;
    loop_task_cancel(&connection->task);
    list_unlink(&connection->link);
    connection->peer->open_count--;
    buf_deinit(&connection->in);
    mem_free(connection);
}

static const struct stream_events peer_events = {on_open, on_read, on_eof, NULL, on_closed};

static void on_accept(struct stream *stream, void *owner)
{
    struct http_peer *peer = owner;
    struct peer_connection *connection = mem_zalloc(sizeof(*connection));
    struct err err;
    if (!connection) { /* a test of failing memory */
        stream_close(stream);
        return;
    }
    connection->peer = peer;
    list_init(&connection->link);
    list_push_back(&peer->open, &connection->link);
    peer->open_count++;
    peer->connections++;
    buf_init(&connection->in, 64 << 20);
    loop_task_init(&connection->task, play);
    tcp_write_limit_set(stream, (size_t)64 << 20);
    connection->stream = stream;
    stream_own(stream, &peer_events, connection);
    struct stream *tls = NULL;
    if (peer->tls) {
        tls = tls_server_start(peer->tls, stream, (size_t)32 << 20, &peer_events, connection, &err);
        if (!tls) {
            stream_close(stream);
            return;
        }
        connection->stream = tls;
    }
    stream_read_start(connection->stream);
    if (!peer->tls && next_script(peer)->is_on_connect)
        play_start(connection);
}

void http_peer_init(struct http_peer *peer, struct loop *loop, const struct peer_script *scripts,
                    size_t script_count)
{
    memset(peer, 0, sizeof(*peer));
    peer->loop = loop;
    http_peer_scripts(peer, scripts, script_count);
    list_init(&peer->open);
    buf_init(&peer->request, 64 << 20);
    peer->listener = listen_local(loop, on_accept, peer);
}

void http_peer_scripts(struct http_peer *peer, const struct peer_script *scripts, size_t count)
{
    ASSERT(count > 0);
    peer->scripts = scripts;
    peer->script_count = count;
    peer->requests = 0;
}

uint16_t http_peer_port(const struct http_peer *peer)
{
    return tcp_listener_port(peer->listener);
}

void http_peer_close_all(struct http_peer *peer, bool is_reset)
{
    LIST_EACH(&peer->open, struct peer_connection, connection, link) {
        if (is_reset)
            stream_reset(connection->stream);
        else
            stream_close(connection->stream);
    }
}

void http_peer_deinit(struct http_peer *peer)
{
    http_peer_close_all(peer, false);
    WAIT_UNTIL(peer->loop, peer->open_count == 0);
    tcp_listener_free(peer->listener);
    tls_server_unref(peer->tls);
    buf_deinit(&peer->request);
}
