/*
 * TCP and Unix-socket streams and listeners on libuv.
 */
#ifndef LOOP_TCP_H
#define LOOP_TCP_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include "loop/stream.h"

struct tcp_listener;

/* The number of connections of each process that accepts from the same sockets, in shared
 * memory. Without it the process that wakes first would accept all connections, and keep them as
 * long as the clients stay. A listener that has clearly more connections than another leaves new
 * connections to it for 1 ms. */
struct tcp_share {
    _Atomic uint32_t *connections;
    size_t count, self; /* self is the index of this process */
};

struct tcp_listen_config {
    slice address;                 /* "127.0.0.1:8080", "[::1]:0", "unix:/run/sluice.sock" */
    int backlog;                   /* 0: 1024 */
    unsigned unix_mode;            /* file mode of a Unix socket, 0: 0660 */
    int inherited_fd;              /* -1 or 0: none; or a listening socket from a parent process */
    const struct tcp_share *share; /* NULL: no other process accepts here; outlives the listener */
};

/* A listening socket that no loop watches, for a parent that passes it as inherited_fd to the
 * processes that serve it. */
struct tcp_bound {
    int fd;                /* -1: none */
    struct sockaddr_un un; /* sun_path is empty unless this process has to remove the file */
    dev_t device;
    ino_t inode;
};

/* Ignores inherited_fd. On failure, err names the address and the reason, and nothing has to be
 * undone. */
int tcp_bind(const struct tcp_listen_config *config, struct tcp_bound *bound,
             struct err *err) MUST_CHECK;
/* Closes the socket and removes the file of a Unix socket. Does nothing if there is no socket. */
void tcp_unbind(struct tcp_bound *bound);
/* Returns the port that a socket is bound to; 0 for a Unix socket. */
uint16_t tcp_port_of(int fd);

/* on_accept owns the new stream (stream_own, then stream_read_start); it may close it at once.
 * EMFILE and ENFILE do not cause a busy loop: a spare descriptor is used to accept and close, and
 * accepting pauses for 100 ms. A stale Unix socket file (no listener answers) is replaced; a socket
 * file with a listener is an error. Returns NULL on failure; err names the address and the
 * reason. */
struct tcp_listener *tcp_listen(struct loop *loop, const struct tcp_listen_config *config,
                                void (*on_accept)(struct stream *stream, void *owner), void *owner,
                                struct err *err) MUST_CHECK;
/* Returns the port that was bound (useful for port 0); 0 for a Unix socket. */
uint16_t tcp_listener_port(const struct tcp_listener *listener);
/* For tests. */
int tcp_listener_fd(const struct tcp_listener *listener);
/* Accepts the whole backlog at once (before a close that would reset it); calls on_accept before
 * it returns. */
void tcp_listener_accept_all(struct tcp_listener *listener);
/* Stops accepting and closes the socket (and removes the file of a Unix socket). */
void tcp_listener_free(struct tcp_listener *listener);

/* Connects to one socket address (TCP, TCP_NODELAY set; or AF_UNIX). events->on_open or on_closed
 * follows. write_bytes_max limits the write queue. Returns NULL if out of memory or descriptors. */
struct stream *tcp_connect(struct loop *loop, const struct sockaddr *address,
                           size_t write_bytes_max, const struct stream_events *events, void *owner,
                           struct err *err) MUST_CHECK;
/* Sets the queue limit of an accepted stream; it is 1 MiB until it is set. */
void tcp_write_limit_set(struct stream *stream, size_t write_bytes_max);

#endif
