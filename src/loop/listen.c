/*
 * Listeners: libuv only watches the listening socket; accepting is done here, so that it can rest
 * when descriptors run out (PROVING.md trap 7) and take the whole backlog before a drain.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "loop/tcp_internal.h"

enum {
    ACCEPTS_A_TURN_MAX = 128, /* then others get their turn; poll reports the rest again */
    ACCEPT_REST_MS = 100,
    BACKLOG_DEFAULT = 1024,
};

struct tcp_listener {
    struct loop *loop;
    struct poll_watch *watch;
    struct timer rest;
    void (*on_accept)(struct stream *stream, void *owner);
    void *owner;
    int fd, spare_fd;
    uint16_t port;
    bool is_unix, is_resting;
    struct sockaddr_un un; /* sun_path is empty unless the file is ours to remove */
    dev_t un_device;
    ino_t un_inode;
    struct loop_garbage garbage;
};

/* ---- accepting ---- */

static void accept_one(struct tcp_listener *listener, int fd)
{
    struct tcp_stream *tcp = tcp_stream_new(listener->loop, listener->is_unix);
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
    listener->on_accept(&tcp->base, listener->owner);
}

/* Without descriptors the backlog would be reported every turn: the spare one is given up to tell
 * one peer after the other (by closing) instead of letting them hang, and accepting rests. */
static void accept_rest(struct tcp_listener *listener, int cause)
{
    size_t dropped = 0;
    while (listener->spare_fd >= 0 && dropped < ACCEPTS_A_TURN_MAX) {
        close(listener->spare_fd);
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            close(fd);
        listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            break;
        dropped++;
    }
    log_event(LOG_ERROR, "cannot accept connections: out of descriptors, resting for 100 ms",
              LOG_CSTR("cause", uv_strerror(-cause)), LOG_INT("dropped", dropped));
    listener->is_resting = true;
    poll_watch_set(listener->watch, 0);
    timer_start_in_ms(&listener->rest, ACCEPT_REST_MS);
}

static void on_rested(struct timer *timer)
{
    struct tcp_listener *listener = CONTAINER_OF(timer, struct tcp_listener, rest);
    listener->is_resting = false;
    if (listener->spare_fd < 0)
        listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    poll_watch_set(listener->watch, POLL_READ);
}

/* false: nothing is left to accept, or accepting rests now. */
static bool accept_next(struct tcp_listener *listener)
{
    if (listener->fd < 0) /* on_accept has freed it */
        return false;
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
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
    case ECONNABORTED: /* and the network errors that accept(2) passes on of a dead peer */
    case EPROTO:
    case ENETDOWN:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return true;
    default: /* EAGAIN; anything else poll reports again */
        return false;
    }
}

static void on_listener_ready(void *owner, int events)
{
    struct tcp_listener *listener = owner;
    (void)events;
    poll_watch_set(listener->watch, POLL_READ); /* after an error libuv has stopped watching */
    for (size_t i = 0; i < ACCEPTS_A_TURN_MAX && accept_next(listener); i++)
        continue;
}

void tcp_listener_accept_all(struct tcp_listener *listener)
{
    enum { BACKLOG_MAX = 65536 };
    for (size_t i = 0; i < BACKLOG_MAX && !listener->is_resting && accept_next(listener); i++)
        continue;
}

/* ---- addresses ---- */

static int address_error(slice text, struct err *err)
{
    return err_set(err, ERR_INVALID,
                   "\"%.*s\" is no address to listen on: write 127.0.0.1:8080, [::1]:8080 or "
                   "unix:/path",
                   SLICE_ARG(text));
}

static int parse_tcp_address(slice text, struct sockaddr_storage *out, struct err *err)
{
    size_t colon = text.len;
    while (colon > 0 && text.ptr[colon - 1] != ':')
        colon--;
    uint64_t port = 0;
    if (colon == 0 || !slice_to_u64(slice_from(text, colon), 65535, &port))
        return address_error(text, err);
    slice host = slice_first(text, colon - 1);
    bool is_v6 = host.len >= 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']';
    if (is_v6)
        host = slice_of(host.ptr + 1, host.len - 2);
    char name[INET6_ADDRSTRLEN];
    if (host.len == 0 || host.len >= sizeof(name))
        return address_error(text, err);
    memcpy(name, host.ptr, host.len);
    name[host.len] = 0;
    memset(out, 0, sizeof(*out));
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)out;
    if (is_v6 && inet_pton(AF_INET6, name, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        return OK;
    }
    if (!is_v6 && inet_pton(AF_INET, name, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        return OK;
    }
    return address_error(text, err);
}

static int io_error(slice address, const char *what, struct err *err)
{
    return err_set(err, ERR_IO, "cannot listen on %.*s: %s: %s", SLICE_ARG(address), what,
                   uv_strerror(-errno));
}

/* ---- binding ---- */

static int bind_tcp(struct tcp_listener *listener, slice text, struct err *err)
{
    struct sockaddr_storage address;
    int rc = parse_tcp_address(text, &address, err);
    if (rc != OK)
        return rc;
    listener->fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0)
        return io_error(text, "socket", err);
    int on = 1;
    setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    socklen_t len = address.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                  : sizeof(struct sockaddr_in);
    if (bind(listener->fd, (struct sockaddr *)&address, len) != 0)
        return io_error(text, "bind", err);
    return OK;
}

/* Removes a socket file that nobody answers at; ERR_BUSY when somebody does. */
static int remove_stale(const struct sockaddr_un *un, slice text, struct err *err)
{
    struct stat file;
    if (lstat(un->sun_path, &file) != 0)
        return errno == ENOENT ? OK : io_error(text, "stat", err);
    if (!S_ISSOCK(file.st_mode))
        return err_set(err, ERR_INVALID, "cannot listen on %.*s: a file that is no socket is there",
                       SLICE_ARG(text));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return io_error(text, "socket", err);
    int rc = connect(fd, (const struct sockaddr *)un, sizeof(*un));
    int cause = errno;
    close(fd);
    if (rc == 0 || cause != ECONNREFUSED)
        return err_set(err, ERR_BUSY, "cannot listen on %.*s: another process listens there",
                       SLICE_ARG(text));
    return unlink(un->sun_path) == 0 ? OK : io_error(text, "unlink", err);
}

static int bind_unix(struct tcp_listener *listener, slice text, unsigned mode, struct err *err)
{
    slice path = slice_from(text, sizeof("unix:") - 1);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    if (path.len == 0 || path.len >= sizeof(un.sun_path))
        return err_set(err, ERR_INVALID,
                       "cannot listen on %.*s: the path of a Unix socket has 1 to %zu bytes",
                       SLICE_ARG(text), sizeof(un.sun_path) - 1);
    memcpy(un.sun_path, path.ptr, path.len);
    int rc = remove_stale(&un, text, err);
    if (rc != OK)
        return rc;
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0)
        return io_error(text, "socket", err);
    mode_t before = umask(0777); /* nobody may connect before the mode is set */
    rc = bind(listener->fd, (struct sockaddr *)&un, sizeof(un));
    int cause = errno;
    umask(before);
    errno = cause;
    if (rc != 0)
        return io_error(text, "bind", err);
    listener->un = un;
    struct stat file;
    if (chmod(un.sun_path, mode ? mode : 0660) != 0 || stat(un.sun_path, &file) != 0)
        return io_error(text, "chmod", err);
    listener->un_device = file.st_dev;
    listener->un_inode = file.st_ino;
    return OK;
}

static int use_inherited(struct tcp_listener *listener, int fd, slice text, struct err *err)
{
    int is_listening = 0;
    socklen_t len = sizeof(is_listening);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) != 0 || !is_listening)
        return err_set(err, ERR_INVALID,
                       "cannot listen on %.*s: inherited descriptor %d is no listening socket",
                       SLICE_ARG(text), fd);
    listener->fd = fd;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return OK;
}

static int listener_open(struct tcp_listener *listener, const struct tcp_listen_config *config,
                         struct err *err)
{
    listener->is_unix = slice_starts_with(config->address, SLICE("unix:"));
    int rc;
    if (config->inherited_fd > 0)
        rc = use_inherited(listener, config->inherited_fd, config->address, err);
    else if (listener->is_unix)
        rc = bind_unix(listener, config->address, config->unix_mode, err);
    else
        rc = bind_tcp(listener, config->address, err);
    if (rc != OK)
        return rc;
    if (listen(listener->fd, config->backlog ? config->backlog : BACKLOG_DEFAULT) != 0)
        return io_error(config->address, "listen", err);
    struct sockaddr_storage bound = {0};
    socklen_t len = sizeof(bound);
    if (getsockname(listener->fd, (struct sockaddr *)&bound, &len) != 0)
        return io_error(config->address, "getsockname", err);
    /* the port is at the same place in both families */
    if (!listener->is_unix)
        listener->port = ntohs(((struct sockaddr_in *)(void *)&bound)->sin_port);
    listener->watch = poll_watch_new(listener->loop, listener->fd, on_listener_ready, listener);
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
    if (!listener) {
        err_set(err, ERR_NOMEM, "no memory for a listener");
        return NULL;
    }
    listener->loop = loop;
    listener->on_accept = on_accept;
    listener->owner = owner;
    listener->fd = -1;
    listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
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
    return listener->fd;
}

/* Only the file that this listener made: a successor may have put its own there. */
static void remove_file(const struct tcp_listener *listener)
{
    struct stat file;
    if (listener->un.sun_path[0] && stat(listener->un.sun_path, &file) == 0 &&
        file.st_dev == listener->un_device && file.st_ino == listener->un_inode)
        unlink(listener->un.sun_path);
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
    poll_watch_free(listener->watch);
    remove_file(listener);
    if (listener->fd >= 0)
        close(listener->fd);
    if (listener->spare_fd >= 0)
        close(listener->spare_fd);
    listener->fd = listener->spare_fd = -1;
    listener->garbage.free = listener_free; /* on_accept may be what calls */
    loop_garbage_add(listener->loop, &listener->garbage);
}
