/*
 * Requests to a server on this machine; see local.h. Plain sockets are enough for a request with a
 * fixed text whose reply ends when the connection closes.
 */
#include "cli/local.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/ready_file.h"

enum { ANSWER_MS = 3000, READ_BYTES = 16 * 1024 };

slice local_split_port(slice address, slice *port)
{
    size_t len = address.len;
    while (len > 0 && address.ptr[len - 1] != ':')
        len--;
    *port = slice_from(address, len > 0 ? len : address.len);
    return slice_first(address, len > 0 ? len - 1 : 0);
}

/* Returns the descriptor, or -1 with err set. */
static int open_unix(slice path, struct err *err)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    if (path.len >= sizeof(un.sun_path))
        return err_set(err, ERR_INVALID, "the socket's path is too long"), -1;
    memcpy(un.sun_path, path.ptr, path.len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0)
        return fd;
    err_set(err, ERR_IO, "%s: %s", un.sun_path, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

/* authority: "127.0.0.1:8080", "[::1]:8080", "localhost:8080". */
static int open_tcp(slice authority, struct err *err)
{
    char host[256], port[8];
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    slice service, name = local_split_port(authority, &service);
    if (name.len > 1 && name.ptr[0] == '[')
        name = slice_of(name.ptr + 1, name.len - 2);
    (void)snprintf(host, sizeof(host), "%.*s", SLICE_ARG(name));
    (void)snprintf(port, sizeof(port), "%.*s", SLICE_ARG(service));
    int code = getaddrinfo(host, port, &hints, &list);
    if (code != 0)
        return err_set(err, ERR_IO, "%s: %s", host, gai_strerror(code)), -1;
    int fd = -1;
    for (const struct addrinfo *item = list; item && fd < 0; item = item->ai_next) {
        fd = socket(item->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, item->ai_addr, item->ai_addrlen) == 0)
            break;
        err_set(err, ERR_IO, "%.*s: %s", SLICE_ARG(authority), strerror(errno));
        if (fd >= 0)
            (void)close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    return fd;
}

static int open_listener(slice address, struct err *err)
{
    char text[READY_URL_MAX];
    if (slice_starts_with(address, SLICE("unix:")))
        return open_unix(slice_from(address, sizeof("unix:") - 1), err);
    slice port_text;
    uint64_t port;
    (void)local_split_port(address, &port_text);
    if (!slice_to_u64(port_text, UINT16_MAX, &port) || port == 0)
        return err_set(err, ERR_INVALID, "%.*s has no port to connect to", SLICE_ARG(address)), -1;
    slice url = ready_base_url(address, (uint16_t)port, text);
    return open_tcp(slice_from(url, sizeof("http://") - 1), err);
}

/* Reads the whole reply; the server closes the connection after it. */
static int exchange(int fd, const char *path, struct buf *reply, struct err *err)
{
    const struct timeval limit = {.tv_sec = ANSWER_MS / 1000};
    char request[256];
    ssize_t got;
    int len = snprintf(request, sizeof(request),
                       "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (send(fd, request, (size_t)len, MSG_NOSIGNAL) != len)
        return err_set(err, ERR_IO, "the request was not accepted: %s", strerror(errno));
    do {
        char *room = buf_reserve(reply, READ_BYTES);
        if (!room)
            return err_set(err, ERR_LIMIT, "the reply is too large");
        got = recv(fd, room, READ_BYTES, 0);
        if (got > 0)
            buf_added(reply, (size_t)got);
    } while (got > 0);
    /* Only a closed connection ends the reply. A reply that is cut off is useless. */
    return got == 0 && reply->len > 0
               ? OK
               : err_set(err, ERR_IO, "no answer within %d s", ANSWER_MS / 1000);
}

int local_get(slice address, const char *path, struct buf *reply, struct err *err)
{
    int fd = open_listener(address, err);
    if (fd < 0)
        return (int)err->code;
    int result = exchange(fd, path, reply, err);
    (void)close(fd);
    if (result != OK)
        return result;
    slice rest = buf_slice(reply), line = slice_split(&rest, '\r');
    ptrdiff_t end = slice_find(buf_slice(reply), SLICE("\r\n\r\n"));
    size_t head = end < 0 ? reply->len : (size_t)end + 4;
    if (!slice_starts_with(line, SLICE("HTTP/1.1 200 ")))
        return err_set(err, ERR_REFUSED, "%.*s %.*s", SLICE_ARG(line),
                       SLICE_ARG(slice_from(buf_slice(reply), head)));
    buf_consume(reply, head);
    return OK;
}
