/*
 * TCP and Unix-socket streams. The owner set by stream_own has them until on_closed; the block is
 * freed at the bottom of that turn. libuv reports that a stream is readable; it is read when its
 * turn comes (reads.c). An idle stream is only this struct: reads use the loop's shared buffer, and
 * bytes that the socket did not accept wait in a tcp_out block that is freed once it is drained.
 */
#include "loop/tcp.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "loop/tcp_internal.h"

enum {
    TCP_PARTS_MAX = 64,
    /* maximum read from one stream before it waits for the next turn */
    TCP_TURN_BYTES_MAX = 256 * 1024,
    /* after this many reports, poll no longer reports a stream that waits to be read. A stream
     * whose input is discarded always waits for a while */
    TCP_REPORTS_MAX = 4,
};

/* Two buffers: one is in use by libuv and must not move; the other collects output during the
 * write. */
struct tcp_out {
    uv_write_t request;
    struct buf flying, waiting;
};

static void tcp_fail(struct tcp_stream *tcp, int status, const char *what);

static struct tcp_stream *tcp_of(const struct stream *stream)
{
    return CONTAINER_OF((struct stream *)(uintptr_t)stream, struct tcp_stream, base);
}

/* ---- the end ---- */

static void tcp_free(struct loop_garbage *garbage)
{
    struct tcp_stream *tcp = CONTAINER_OF(garbage, struct tcp_stream, garbage);
    ASSERT(!tcp->out);
    mem_free(tcp);
}

static void tcp_drop_out(struct tcp_stream *tcp)
{
    if (!tcp->out)
        return;
    buf_deinit(&tcp->out->flying);
    buf_deinit(&tcp->out->waiting);
    mem_free(tcp->out);
    tcp->out = NULL;
}

static void on_uv_closed(uv_handle_t *handle)
{
    struct tcp_stream *tcp = handle->data;
    loop_enter(tcp->base.loop);
    tcp_drop_out(tcp); /* no write is in flight: libuv has called back */
    struct err why = {.code = OK};
    if (tcp->fail_status)
        err_set(&why, (enum err_code)loop_err_from_uv(tcp->fail_status), "%s: %s", tcp->fail_what,
                uv_strerror(tcp->fail_status));
    if (tcp->base.events && tcp->base.events->on_closed)
        tcp->base.events->on_closed(&tcp->base, tcp->base.owner, &why);
    tcp->garbage.free = tcp_free;
    loop_garbage_add(tcp->base.loop, &tcp->garbage);
}

static void tcp_close_handle(struct tcp_stream *tcp, bool is_reset)
{
    ASSERT(!tcp->is_closing);
    tcp->is_closing = true;
    if (tcp->counted)
        atomic_fetch_sub_explicit(tcp->counted, 1, memory_order_relaxed);
    loop_reader_leave(tcp->base.loop, &tcp->reader);
    if (is_reset && !tcp->is_unix && uv_tcp_close_reset(&tcp->uv.tcp, on_uv_closed) == 0)
        return;
    uv_close(&tcp->uv.handle, on_uv_closed);
}

static void tcp_fail(struct tcp_stream *tcp, int status, const char *what)
{
    if (tcp->is_closing)
        return;
    tcp->fail_status = status;
    tcp->fail_what = what;
    tcp_close_handle(tcp, false);
}

static void tcp_close(struct stream *stream)
{
    struct tcp_stream *tcp = tcp_of(stream);
    if (!tcp->is_closing)
        tcp_close_handle(tcp, false);
}

static void tcp_reset(struct stream *stream)
{
    struct tcp_stream *tcp = tcp_of(stream);
    if (!tcp->is_closing)
        tcp_close_handle(tcp, true);
}

/* ---- reading ---- */

/* libuv gets no buffer and so reads nothing: it only reports that there is data to read. */
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct tcp_stream *tcp = handle->data;
    (void)suggested;
    loop_reader_ready(tcp->base.loop, &tcp->reader);
    *out = uv_buf_init(NULL, 0);
}

/* Each report costs time, even if the stream will not be read soon. */
static void on_reported(uv_stream_t *handle, ssize_t count, const uv_buf_t *bytes)
{
    struct tcp_stream *tcp = handle->data;
    (void)count, (void)bytes; /* UV_ENOBUFS */
    if (++tcp->reports < TCP_REPORTS_MAX && tcp->reader.class != READ_DISCARDED)
        return;
    tcp->is_unwatched = true;
    uv_read_stop(handle);
}

static void tcp_watch(struct tcp_stream *tcp)
{
    int rc = tcp->is_unwatched ? 0 : uv_read_start(&tcp->uv.stream, on_alloc, on_reported);
    if (rc != 0 && rc != UV_EALREADY)
        tcp_fail(tcp, rc, "read");
}

/* After the last bytes the kernel reports an end even if the peer has reset the connection. In that
 * case an error is pending on the socket, and the data is incomplete. */
static void tcp_take_eof(struct tcp_stream *tcp, int fd)
{
    int error = 0;
    socklen_t len = sizeof(error);
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error) {
        tcp_fail(tcp, -error, "read");
        return;
    }
    tcp->is_eof = true;
    uv_read_stop(&tcp->uv.stream);
    tcp->base.events->on_eof(&tcp->base, tcp->base.owner, true);
}

/* Queues the stream for another read if the buffer was full: the rest is read after the other
 * streams have had their turn. */
static void tcp_queue_read(struct tcp_stream *tcp, size_t count)
{
    uint64_t turn = loop_stats(tcp->base.loop)->turns;
    if (tcp->read_turn != turn)
        tcp->turn_bytes = 0;
    tcp->read_turn = turn;
    tcp->turn_bytes += count;
    if (tcp->turn_bytes < TCP_TURN_BYTES_MAX && tcp->wants_read && !tcp->is_closing)
        loop_reader_ready(tcp->base.loop, &tcp->reader);
}

static void tcp_take(struct tcp_stream *tcp, int fd, ssize_t count, size_t cap)
{
    if (count < 0 && errno != EAGAIN)
        tcp_fail(tcp, -errno, "read");
    else if (count == 0)
        tcp_take_eof(tcp, fd);
    else if (count > 0)
        tcp->base.events->on_read(&tcp->base, tcp->base.owner,
                                  slice_of(tcp->base.loop->read_buf, (size_t)count));
    if (count > 0 && (size_t)count == cap)
        tcp_queue_read(tcp, cap);
}

static void on_turn_to_read(struct loop_reader *reader)
{
    struct tcp_stream *tcp = CONTAINER_OF(reader, struct tcp_stream, reader);
    size_t cap = reader->class == READ_DISCARDED ? LOOP_DISCARD_BYTES : LOOP_READ_BYTES;
    uv_os_fd_t fd;
    ssize_t count;
    ASSERT(tcp->wants_read && !tcp->is_eof && !tcp->is_closing);
    int rc = uv_fileno(&tcp->uv.handle, &fd);
    ASSERT(rc == 0);
    tcp->reports = 0;
    do
        count = read(fd, tcp->base.loop->read_buf, cap);
    while (count < 0 && errno == EINTR);
    tcp_take(tcp, fd, count, cap);
    /* A stream that continues reading needs no report. */
    if (!tcp->is_unwatched || reader->streams)
        return;
    tcp->is_unwatched = false;
    if (tcp->wants_read && !tcp->is_closing && !tcp->is_eof)
        tcp_watch(tcp);
}

static void tcp_read_start(struct stream *stream)
{
    struct tcp_stream *tcp = tcp_of(stream);
    tcp->wants_read = true;
    if (tcp->is_closing || tcp->is_connecting || tcp->is_eof)
        return;
    ASSERT(stream->events && stream->events->on_read && stream->events->on_eof);
    tcp_watch(tcp);
}

static void tcp_read_stop(struct stream *stream)
{
    struct tcp_stream *tcp = tcp_of(stream);
    tcp->wants_read = tcp->is_unwatched = false;
    tcp->reports = 0;
    loop_reader_leave(stream->loop, &tcp->reader);
    if (!tcp->is_closing)
        uv_read_stop(&tcp->uv.stream);
}

static void tcp_read_for(struct stream *stream, struct uuid account, bool is_discarded)
{
    struct tcp_stream *tcp = tcp_of(stream);
    loop_reader_move(stream->loop, &tcp->reader, account,
                     is_discarded ? READ_DISCARDED : tcp->class);
}

/* ---- writing ---- */

static void tcp_shutdown_now(struct tcp_stream *tcp)
{
    uv_os_fd_t fd;
    if (uv_fileno(&tcp->uv.handle, &fd) == 0)
        shutdown(fd, SHUT_WR); /* fails only if the peer has closed; a read will report it */
}

static void on_written(uv_write_t *request, int status);

/* Passes the waiting bytes to libuv. */
static void tcp_fly(struct tcp_stream *tcp)
{
    struct tcp_out *out = tcp->out;
    ASSERT(out->flying.len == 0 && out->waiting.len > 0);
    struct buf empty = out->flying;
    out->flying = out->waiting;
    out->waiting = empty;
    uv_buf_t bytes = {out->flying.ptr, out->flying.len};
    out->request.data = tcp;
    int rc = uv_write(&out->request, &tcp->uv.stream, &bytes, 1, on_written);
    if (rc != 0) {
        buf_clear(&out->flying);
        tcp_fail(tcp, rc, "write");
    }
}

static void on_written(uv_write_t *request, int status)
{
    struct tcp_stream *tcp = request->data;
    loop_enter(tcp->base.loop);
    buf_clear(&tcp->out->flying);
    if (tcp->is_closing)
        return;
    if (status < 0) {
        tcp_fail(tcp, status, "write");
        return;
    }
    if (tcp->out->waiting.len) {
        tcp_fly(tcp);
        return;
    }
    tcp_drop_out(tcp);
    if (tcp->is_shutdown)
        tcp_shutdown_now(tcp);
    if (tcp->base.events->on_drained)
        tcp->base.events->on_drained(&tcp->base, tcp->base.owner);
}

static size_t tcp_write_pending(const struct stream *stream)
{
    const struct tcp_stream *tcp = tcp_of(stream);
    return tcp->out ? tcp->uv.stream.write_queue_size + tcp->out->waiting.len : 0;
}

static void advance(const slice *parts, size_t count, size_t *at, size_t *skip, size_t bytes)
{
    while (*at < count) {
        size_t len = parts[*at].len - *skip;
        if (bytes < len) {
            *skip += bytes;
            return;
        }
        bytes -= len;
        (*at)++;
        *skip = 0;
    }
}

/* Writes the bytes that the socket accepts at once, starting with byte *skip of parts[*at];
 * advances both. Returns 0 or libuv's error. */
static int tcp_try(struct tcp_stream *tcp, const slice *parts, size_t count, size_t *at,
                   size_t *skip)
{
    size_t wanted;
    int rc;
    do {
        uv_buf_t bufs[TCP_PARTS_MAX];
        unsigned used = 0;
        wanted = 0;
        for (size_t i = *at; i < count && used < TCP_PARTS_MAX; i++) {
            slice part = slice_from(parts[i], i == *at ? *skip : 0);
            bufs[used++] = (uv_buf_t){(char *)(uintptr_t)part.ptr, part.len};
            wanted += part.len;
        }
        rc = wanted ? uv_try_write(&tcp->uv.stream, bufs, used) : 0;
        if (rc < 0)
            return rc == UV_EAGAIN ? 0 : rc;
        advance(parts, count, at, skip, (size_t)rc);
    } while (*at < count && (size_t)rc == wanted);
    return 0;
}

/* Copies parts[at] from byte skip, and all parts after it. */
static bool tcp_keep(struct tcp_stream *tcp, const slice *parts, size_t count, size_t at,
                     size_t skip)
{
    if (!tcp->out) {
        tcp->out = mem_zalloc(sizeof(*tcp->out));
        if (!tcp->out)
            return false;
        buf_init(&tcp->out->flying, MEM_BLOCK_BYTES_MAX - 1);
        buf_init(&tcp->out->waiting, MEM_BLOCK_BYTES_MAX - 1); /* the limit was checked */
    }
    size_t total = 0;
    for (size_t i = at; i < count; i++)
        total += parts[i].len - (i == at ? skip : 0);
    if (!buf_reserve(&tcp->out->waiting, total))
        return false;
    for (size_t i = at; i < count; i++)
        buf_append(&tcp->out->waiting, slice_from(parts[i], i == at ? skip : 0));
    return buf_is_ok(&tcp->out->waiting);
}

static int tcp_write(struct stream *stream, const slice *parts, size_t count)
{
    struct tcp_stream *tcp = tcp_of(stream);
    if (tcp->is_closing || tcp->is_shutdown)
        return ERR_CLOSED;
    size_t total = 0, pending = tcp_write_pending(stream);
    for (size_t i = 0; i < count; i++)
        total += parts[i].len;
    if (total > tcp->write_bytes_max || pending > tcp->write_bytes_max - total)
        return ERR_LIMIT;
    if (total == 0)
        return OK;
    size_t at = 0, skip = 0;
    int rc = pending || tcp->is_connecting ? 0 : tcp_try(tcp, parts, count, &at, &skip);
    if (rc < 0) {
        tcp_fail(tcp, rc, "write");
        return ERR_CLOSED;
    }
    if (at == count)
        return OK;
    if (!tcp_keep(tcp, parts, count, at, skip)) {
        tcp_fail(tcp, UV_ENOMEM, "write");
        return ERR_CLOSED;
    }
    if (!tcp->is_connecting && tcp->out->flying.len == 0)
        tcp_fly(tcp);
    return tcp->is_closing ? ERR_CLOSED : OK;
}

static void tcp_shutdown(struct stream *stream)
{
    struct tcp_stream *tcp = tcp_of(stream);
    if (tcp->is_closing || tcp->is_shutdown)
        return;
    tcp->is_shutdown = true;
    if (!tcp->out && !tcp->is_connecting)
        tcp_shutdown_now(tcp); /* otherwise FIN is sent once everything is written */
}

static int tcp_peer(const struct stream *stream, struct sockaddr *out, size_t cap)
{
    const struct tcp_stream *tcp = tcp_of(stream);
    int len = cap > INT32_MAX ? INT32_MAX : (int)cap;
    if (tcp->is_unix)
        return ERR_NOTFOUND;
    if (tcp->is_closing || uv_tcp_getpeername(&tcp->uv.tcp, out, &len) != 0)
        return ERR_CLOSED;
    return OK;
}

static const struct stream_class tcp_class = {
    .name = "tcp",
    .read_start = tcp_read_start,
    .read_stop = tcp_read_stop,
    .write = tcp_write,
    .shutdown = tcp_shutdown,
    .close = tcp_close,
    .reset = tcp_reset,
    .write_pending = tcp_write_pending,
    .peer = tcp_peer,
    .read_for = tcp_read_for,
};

/* ---- creation ---- */

struct tcp_stream *tcp_stream_new(struct loop *loop, bool is_unix, enum read_class class)
{
    struct tcp_stream *tcp = mem_zalloc(sizeof(*tcp));
    if (!tcp)
        return NULL;
    tcp->base = (struct stream){.class = &tcp_class, .loop = loop};
    tcp->is_unix = is_unix;
    tcp->write_bytes_max = TCP_WRITE_BYTES_DEFAULT;
    int rc = is_unix ? uv_pipe_init(&loop->uv, &tcp->uv.pipe, 0)
                     : uv_tcp_init(&loop->uv, &tcp->uv.tcp);
    ASSERT(rc == 0); /* no socket is made yet, so this cannot fail */
    tcp->class = class;
    loop_reader_init(&tcp->reader, class, on_turn_to_read);
    tcp->uv.handle.data = tcp;
    if (!is_unix)
        uv_tcp_nodelay(&tcp->uv.tcp, 1);
    return tcp;
}

void tcp_write_limit_set(struct stream *stream, size_t write_bytes_max)
{
    ASSERT(stream->class == &tcp_class);
    tcp_of(stream)->write_bytes_max = write_bytes_max;
}

static void on_connected(uv_connect_t *uv, int status)
{
    struct tcp_stream *tcp = uv->data;
    mem_free(uv);
    if (tcp->is_closing)
        return;
    loop_enter(tcp->base.loop);
    if (status < 0) {
        tcp_fail(tcp, status, "connect");
        return;
    }
    tcp->is_connecting = false;
    if (tcp->out)
        tcp_fly(tcp);
    else if (tcp->is_shutdown)
        tcp_shutdown_now(tcp);
    if (tcp->wants_read && !tcp->is_closing)
        tcp_read_start(&tcp->base);
    if (!tcp->is_closing && tcp->base.events->on_open)
        tcp->base.events->on_open(&tcp->base, tcp->base.owner);
}

static int tcp_connect_uv(struct tcp_stream *tcp, uv_connect_t *uv, const struct sockaddr *address)
{
    if (!tcp->is_unix)
        return uv_tcp_connect(uv, &tcp->uv.tcp, address, on_connected);
    const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)address;
    uv_pipe_connect(uv, &tcp->uv.pipe, un->sun_path, on_connected);
    return 0;
}

struct stream *tcp_connect(struct loop *loop, const struct sockaddr *address,
                           size_t write_bytes_max, const struct stream_events *events, void *owner,
                           struct err *err)
{
    ASSERT(events && events->on_closed);
    uv_connect_t *request = mem_zalloc(sizeof(*request));
    struct tcp_stream *tcp =
        request ? tcp_stream_new(loop, address->sa_family == AF_UNIX, READ_APPS) : NULL;
    if (!tcp) {
        mem_free(request);
        return err_null(err, ERR_NOMEM, "no memory for a connection");
    }
    tcp->write_bytes_max = write_bytes_max;
    tcp->is_connecting = true;
    request->data = tcp;
    int rc = tcp_connect_uv(tcp, request, address);
    if (rc == UV_EMFILE || rc == UV_ENFILE || rc == UV_ENOMEM || rc == UV_ENOBUFS) {
        mem_free(request);
        tcp_close_handle(tcp, false); /* no events are set, so no callback runs */
        return err_null(err, rc == UV_ENOMEM ? ERR_NOMEM : ERR_IO, "cannot open a connection: %s",
                        uv_strerror(rc));
    }
    stream_own(&tcp->base, events, owner);
    if (rc != 0) {
        mem_free(request);
        tcp_fail(tcp, rc, "connect");
    }
    return &tcp->base;
}
