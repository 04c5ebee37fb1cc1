/*
 * Makes a listening socket from an address, without a loop: for listeners, and for a parent that
 * passes the socket to the processes that serve it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/ip.h"
#include "loop/tcp.h"

enum { BACKLOG_DEFAULT = 1024 };

/* ---- addresses ---- */

static int address_error(slice text, struct err *err)
{
    return err_set(
        err, ERR_INVALID,
        "\"%.*s\" is not an address to listen on: write 127.0.0.1:8080, [::1]:8080 or unix:/path",
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
    uint8_t ip[16];
    if (ip_parse(host, ip) != (is_v6 ? 16 : 4))
        return address_error(text, err);
    ip_sockaddr(ip, is_v6 ? 16 : 4, (uint16_t)port, out);
    return OK;
}

static int io_error(slice address, const char *what, struct err *err)
{
    return err_set(err, ERR_IO, "cannot listen on %.*s: %s: %s", SLICE_ARG(address), what,
                   uv_strerror(-errno));
}

/* ---- binding ---- */

static int bind_tcp(struct tcp_bound *bound, slice text, struct err *err)
{
    struct sockaddr_storage address;
    int rc = parse_tcp_address(text, &address, err);
    if (rc != OK)
        return rc;
    bound->fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bound->fd < 0)
        return io_error(text, "socket", err);
    int on = 1;
    setsockopt(bound->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    socklen_t len = address.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                  : sizeof(struct sockaddr_in);
    if (bind(bound->fd, (struct sockaddr *)&address, len) != 0)
        return io_error(text, "bind", err);
    return OK;
}

/* Removes a socket file that has no listener; returns ERR_BUSY if it has one. */
static int remove_stale(const struct sockaddr_un *un, slice text, struct err *err)
{
    struct stat file;
    if (lstat(un->sun_path, &file) != 0)
        return errno == ENOENT ? OK : io_error(text, "stat", err);
    if (!S_ISSOCK(file.st_mode))
        return err_set(err, ERR_INVALID,
                       "cannot listen on %.*s: there is a file that is not a socket",
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

static int bind_unix(struct tcp_bound *bound, slice text, unsigned mode, struct err *err)
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
    bound->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bound->fd < 0)
        return io_error(text, "socket", err);
    mode_t before = umask(0777); /* so that no client can connect before the mode is set */
    rc = bind(bound->fd, (struct sockaddr *)&un, sizeof(un));
    int cause = errno;
    umask(before);
    errno = cause;
    if (rc != 0)
        return io_error(text, "bind", err);
    bound->un = un;
    struct stat file;
    if (chmod(un.sun_path, mode ? mode : 0660) != 0 || stat(un.sun_path, &file) != 0)
        return io_error(text, "chmod", err);
    bound->device = file.st_dev;
    bound->inode = file.st_ino;
    return OK;
}

/* The port is at the same offset in both families. */
uint16_t tcp_port_of(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0 || address.ss_family == AF_UNIX)
        return 0;
    return ntohs(((struct sockaddr_in *)(void *)&address)->sin_port);
}

int tcp_bind(const struct tcp_listen_config *config, struct tcp_bound *bound, struct err *err)
{
    *bound = (struct tcp_bound){.fd = -1};
    int rc = slice_starts_with(config->address, SLICE("unix:"))
                 ? bind_unix(bound, config->address, config->unix_mode, err)
                 : bind_tcp(bound, config->address, err);
    if (rc == OK && listen(bound->fd, config->backlog ? config->backlog : BACKLOG_DEFAULT) != 0)
        rc = io_error(config->address, "listen", err);
    if (rc != OK)
        tcp_unbind(bound);
    return rc;
}

/* Removes only the file that was created here: a successor may have replaced it with its own. */
void tcp_unbind(struct tcp_bound *bound)
{
    struct stat file;
    if (bound->un.sun_path[0] && stat(bound->un.sun_path, &file) == 0 &&
        file.st_dev == bound->device && file.st_ino == bound->inode)
        (void)unlink(bound->un.sun_path);
    if (bound->fd >= 0)
        (void)close(bound->fd);
    *bound = (struct tcp_bound){.fd = -1};
}
