/*
 * TLS as a server, for the emulated provider and for tests; the shipped binary does not contain it.
 * Shares the engine of src/tls (handshakes on the thread pool, records in memory buffers). TLS 1.2
 * and 1.3, ALPN http/1.1, session tickets (keys rotate by themselves), RSA or ECDSA certificates.
 */
#ifndef PROVIDER_TLS_SERVER_H
#define PROVIDER_TLS_SERVER_H

#include "loop/stream.h"
#include "tls/tls.h"

struct tls_server_config {
    const char *cert_file;                     /* PEM: the leaf first, then intermediates */
    const char *key_file;                      /* PEM, RSA or EC, not encrypted */
    enum tls_version version_min, version_max; /* ANY: 1.2 and 1.3 */
    bool is_tickets_off;
};

struct tls_server;

/* Calls tls_library_init. On failure, returns NULL and sets *err to the file and the reason. */
struct tls_server *tls_server_new(const struct tls_server_config *config,
                                  struct err *err) MUST_CHECK;
/* Sessions under way keep a reference of their own. Accepts NULL. */
void tls_server_unref(struct tls_server *server);

/* Starts a session over an accepted stream, which the session then owns. on_open follows when the
 * handshake is done, or on_closed if it fails. write_bytes_max: as in tls_client_config, 0: 1 MiB;
 * a TCP stream below needs a larger limit (tcp_write_limit_set). Returns NULL if out of memory;
 * `under` then still belongs to the caller. */
struct stream *tls_server_start(struct tls_server *server, struct stream *under,
                                size_t write_bytes_max, const struct stream_events *events,
                                void *owner, struct err *err) MUST_CHECK;

/* Returns the stream below the session, for injecting a fault: a FIN without close_notify, a forged
 * record. Returns NULL once it has been closed. */
struct stream *tls_server_under(struct stream *stream);

#endif
