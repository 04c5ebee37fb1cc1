/*
 * A TLS client and a TLS server over loopback TCP in one loop.
 */
#ifndef TESTS_SUPPORT_TLS_PAIR_H
#define TESTS_SUPPORT_TLS_PAIR_H

#include "provider/tls_server.h"
#include "tls/tls.h"
#include "support/certs.h"
#include "support/peers.h"
#include "unit.h"

struct pair {
    struct loop *loop;
    struct tcp_listener *listener;
    struct tls_server *server;   /* holds a reference; NULL: the accepted side has no TLS */
    struct tls_context *context; /* counted here */
    slice name;                  /* server_name of the client */
    struct end client, accepted; /* accepted: the TLS session or the plain stream */
    struct stream *tcp;          /* the client's TCP stream until TLS starts */
    struct err start_err;        /* error from tls_client_start */
    size_t write_bytes_max;
};

/* server_cert: base name of a certificate and key file in `certs`. With NULL there is no TLS on the
 * accepted side. */
void pair_init(struct pair *pair, struct certs *certs, const char *server_cert,
               const struct tls_server_config *server, const struct tls_config *client);
/* Connects. The handshake starts once TCP is connected. */
void pair_connect(struct pair *pair);
/* Waits until both ends are open. If one closes, fails the test with the client's message. */
void pair_wait_open(struct pair *pair);
/* Closes both ends. pair_connect may be called again. */
void pair_close(struct pair *pair);
void pair_deinit(struct pair *pair);

void pair_send(struct stream *stream, const char *text);
/* Pseudorandom bytes, the same on each call; free with mem_free. */
char *pattern_new(size_t len);

#endif
