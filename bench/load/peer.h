/*
 * peer: one keep-alive HTTP/1.1 connection to the server under load, with one request at a time. It
 * connects on demand, and again after the server has closed the connection.
 */
#ifndef LOAD_PEER_H
#define LOAD_PEER_H

#include <llhttp.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "loop/stream.h"
#include "tls/tls.h"

enum { PEER_BODY_BYTES_MAX = 16 * 1024 * 1024, PEER_WRITE_BYTES_MAX = 4 * 1024 * 1024 };

/* The address of all peers. It is resolved once, before the loop runs. */
struct peer_target {
    struct sockaddr_storage address;
    slice host;              /* the Host header, borrowed */
    char name[256];          /* for TLS */
    struct tls_context *tls; /* NULL: no TLS */
};

struct peer {
    struct loop *loop;
    const struct peer_target *target;
    void *owner;
    /* Called with a complete reply: its status (100 to 599) and body (borrowed; empty unless
     * keeps_body is set or the status is an error). Otherwise called with status 0 and why
     * (borrowed). Never called from inside peer_send. */
    void (*on_reply)(struct peer *peer, unsigned status, slice body, const char *why);
    bool keeps_body; /* the body of the request in progress is stored */
    /* private */
    struct stream *stream; /* NULL: not connected */
    llhttp_t parser;
    struct buf body, waiting; /* waiting: the request, until the connection is open */
    struct loop_task failed;
    const char *why;
    bool is_open, is_busy, is_complete, closes;
};

/* Resolves the address of "http://host:port" or "https://host:port"; blocks. */
int peer_target_init(struct peer_target *target, slice base, const char *ca_file,
                     struct err *err) MUST_CHECK;
void peer_target_deinit(struct peer_target *target);

void peer_init(struct peer *peer, struct loop *loop, const struct peer_target *target, void *owner,
               void (*on_reply)(struct peer *peer, unsigned status, slice body, const char *why));
/* Sends a complete request, including its head. The request is copied if it cannot be sent
 * without waiting. Asserts that no other request is in progress. */
void peer_send(struct peer *peer, slice request, bool keeps_body);
/* Closes the connection; no callback follows. The caller may free the memory after the next
 * turn. */
void peer_close(struct peer *peer);

#endif
