/*
 * Listeners: libuv only watches the listening socket. Connections are accepted here, so that
 * accepting can pause when descriptors run out, and can take the whole backlog before a drain.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "loop/tcp_internal.h"

enum {
    ACCEPTS_A_TURN_MAX = 128, /* later turns accept the rest */
    ACCEPTS_A_VISIT = 8,      /* accepts in a row before other readers have their turn */
    ACCEPT_REST_MS = 100,
    LEAVE_MS = 1,
    LEFT_ACCEPTS_MAX = 4, /* connections left by other processes, accepted after LEAVE_MS */
};

struct tcp_listener {
    struct loop *loop;
    struct poll_watch *watch;
    struct loop_reader reader; /* takes turns with the accounts, as if it were one */
    uint64_t turn;             /* the loop's turn in which turn_accepts connections were accepted */
    size_t turn_accepts;
    struct timer rest;
    void (*on_accept)(struct stream *stream, void *owner);
    void *owner;
    const struct tcp_share *share;
    struct tcp_bound bound;
    int spare_fd;
    uint16_t port;
    bool is_unix, is_resting, is_leaving;
    struct loop_garbage garbage;
};

/* ---- accepting ---- */

static void accept_one(struct tcp_listener *listener, int fd)
{
    struct tcp_stream *tcp = tcp_stream_new(listener->loop, listener->is_unix, READ_CLIENTS);
    int rc =
        tcp ? (listener->is_unix ? uv_pipe_open(&tcp->uv.pipe, fd) : uv_tcp_open(&tcp->uv.tcp, fd))
            : UV_ENOMEM;
    if (rc != 0) {
        log_event(LOG_WARN, "an accepted connection was dropped",
                  LOG_CSTR("cause", uv_strerror(rc)));
        close(fd);
        if (tcp)
            stream_close(&tcp->base);
        return;
    }
    /* The count is shared between processes. It is decremented when the stream is closed. */
    if (listener->share) {
        tcp->counted = &listener->share->connections[listener->share->self];
        /* Relaxed order is enough: the counts are only estimates and guard no other memory. */
        atomic_fetch_add_explicit(tcp->counted, 1, memory_order_relaxed);
    }
    listener->on_accept(&tcp->base, listener->owner);
}

/* Without free descriptors, poll would report the backlog every turn. The spare descriptor is
 * closed to accept waiting peers one by one and close them, so that they do not hang; then
 * accepting pauses. */
static void accept_rest(struct tcp_listener *listener, int cause)
{
    size_t dropped = 0;
    while (listener->spare_fd >= 0 && dropped < ACCEPTS_A_TURN_MAX) {
        close(listener->spare_fd);
        int fd = accept4(listener->bound.fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            close(fd);
        listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            break;
        dropped++;
    }
    log_event(LOG_ERROR, "cannot accept connections: out of file descriptors; retrying in 100 ms",
              LOG_CSTR("cause", uv_strerror(-cause)), LOG_INT("dropped", dropped));
    listener->is_resting = true;
    poll_watch_set(listener->watch, 0);
    timer_start_in_ms(&listener->rest, ACCEPT_REST_MS);
}

/* Returns false if nothing is left to accept, or accepting is paused. */
static bool accept_next(struct tcp_listener *listener)
{
    if (listener->bound.fd < 0) /* on_accept has freed the listener */
        return false;
    /* With both flags no fcntl calls are needed, and no other thread can exec with the descriptor
     * open. */
    int fd = accept4(listener->bound.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        accept_one(listener, fd);
        return true;
    }
    switch (errno) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        accept_rest(listener, errno);
        return false;
    case EINTR:
    case ECONNABORTED: /* these include network errors of a dead peer, which accept(2) passes on */
    case EPROTO:
    case ENETDOWN:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return true;
    default: /* EAGAIN, or another error, after which poll reports the socket again */
        return false;
    }
}

static void on_rested(struct timer *timer)
{
    struct tcp_listener *listener = CONTAINER_OF(timer, struct tcp_listener, rest);
    bool was_leaving = listener->is_leaving;
    listener->is_resting = false;
    listener->is_leaving = false;
    if (listener->spare_fd < 0)
        listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    poll_watch_set(listener->watch, POLL_READ);
    for (size_t i = 0; was_leaving && i < LEFT_ACCEPTS_MAX && accept_next(listener); i++)
        continue;
}

/* This process accepts while it has at most an eighth more connections than the one with the
 * fewest, plus two, so that a burst is not distributed one by one. */
static bool is_its_turn(const struct tcp_listener *listener)
{
    const struct tcp_share *share = listener->share;
    uint32_t fewest = UINT32_MAX;
    if (!share)
        return true;
    for (size_t i = 0; i < share->count; i++) {
        uint32_t count = atomic_load_explicit(&share->connections[i], memory_order_relaxed);
        fewest = count < fewest ? count : fewest;
    }
    uint32_t own = atomic_load_explicit(&share->connections[share->self], memory_order_relaxed);
    return own <= fewest + 2 + fewest / 8;
}

/* Waits only LEAVE_MS: a process that hangs or is dead does not keep the others from accepting. */
static void leave_to_others(struct tcp_listener *listener)
{
    listener->is_leaving = true;
    poll_watch_set(listener->watch, 0);
    timer_start_in_ms(&listener->rest, LEAVE_MS);
}

static void on_listener_ready(void *owner, int events)
{
    struct tcp_listener *listener = owner;
    (void)events;
    poll_watch_set(listener->watch, POLL_READ); /* after an error libuv has stopped watching */
    loop_reader_ready(listener->loop, &listener->reader);
}

static void on_turn_to_accept(struct loop_reader *reader)
{
    struct tcp_listener *listener = CONTAINER_OF(reader, struct tcp_listener, reader);
    uint64_t turn = loop_stats(listener->loop)->turns;
    if (listener->is_resting)
        return;
    if (!is_its_turn(listener)) {
        leave_to_others(listener);
        return;
    }
    listener->turn_accepts = listener->turn == turn ? listener->turn_accepts : 0;
    listener->turn = turn;
    for (size_t i = 0; i < ACCEPTS_A_VISIT; i++, listener->turn_accepts++)
        if (!is_its_turn(listener) || !accept_next(listener))
            return;
    if (listener->turn_accepts < ACCEPTS_A_TURN_MAX)
        loop_reader_ready(listener->loop, &listener->reader);
}

void tcp_listener_accept_all(struct tcp_listener *listener)
{
    enum { BACKLOG_MAX = 65536 };
    for (size_t i = 0; i < BACKLOG_MAX && !listener->is_resting && accept_next(listener); i++)
        continue;
}

/* ---- opening ---- */

static int use_inherited(struct tcp_listener *listener, int fd, slice text, struct err *err)
{
    int is_listening = 0;
    socklen_t len = sizeof(is_listening);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) != 0 || !is_listening)
        return err_set(
            err, ERR_INVALID,
            "cannot listen on %.*s: the inherited descriptor %d is not a listening socket",
            SLICE_ARG(text), fd);
    listener->bound.fd = fd;
    /* The parent passed the descriptor across exec. It must not be passed on to a child
     * accidentally. */
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return OK;
}

static int listener_open(struct tcp_listener *listener, const struct tcp_listen_config *config,
                         struct err *err)
{
    listener->is_unix = slice_starts_with(config->address, SLICE("unix:"));
    listener->share = config->share;
    int rc = config->inherited_fd > 0
                 ? use_inherited(listener, config->inherited_fd, config->address, err)
                 : tcp_bind(config, &listener->bound, err);
    if (rc != OK)
        return rc;
    /* Port 0 was bound to a free port, so the port is read from the socket, not from the
     * configuration. */
    listener->port = tcp_port_of(listener->bound.fd);
    listener->watch =
        poll_watch_new(listener->loop, listener->bound.fd, on_listener_ready, listener);
    if (!listener->watch)
        return err_set(err, ERR_NOMEM, "cannot listen on %.*s: no memory",
                       SLICE_ARG(config->address));
    poll_watch_set(listener->watch, POLL_READ);
    return OK;
}

struct tcp_listener *tcp_listen(struct loop *loop, const struct tcp_listen_config *config,
                                void (*on_accept)(struct stream *stream, void *owner), void *owner,
                                struct err *err)
{
    ASSERT(on_accept);
    struct tcp_listener *listener = mem_zalloc(sizeof(*listener));
    if (!listener)
        return err_null(err, ERR_NOMEM, "no memory for a listener");
    listener->loop = loop;
    listener->on_accept = on_accept;
    listener->owner = owner;
    listener->bound.fd = -1;
    listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    loop_reader_init(&listener->reader, READ_CLIENTS, on_turn_to_accept);
    listener->reader.account = (struct uuid){{[15] = 1}}; /* an id that no account has */
    timer_init(&listener->rest, loop, on_rested);
    if (listener_open(listener, config, err) != OK) {
        tcp_listener_free(listener);
        return NULL;
    }
    return listener;
}

uint16_t tcp_listener_port(const struct tcp_listener *listener)
{
    return listener->port;
}

int tcp_listener_fd(const struct tcp_listener *listener)
{
    return listener->bound.fd;
}

static void listener_free(struct loop_garbage *garbage)
{
    mem_free(CONTAINER_OF(garbage, struct tcp_listener, garbage));
}

void tcp_listener_free(struct tcp_listener *listener)
{
    if (!listener || listener->garbage.free)
        return;
    timer_stop(&listener->rest);
    loop_reader_leave(listener->loop, &listener->reader);
    poll_watch_free(listener->watch);
    /* The watch is freed before the descriptor: epoll must not keep a number that is reused. */
    tcp_unbind(&listener->bound);
    if (listener->spare_fd >= 0)
        close(listener->spare_fd);
    listener->spare_fd = -1;
    listener->garbage.free = listener_free; /* on_accept may be the caller */
    loop_garbage_add(listener->loop, &listener->garbage);
}
