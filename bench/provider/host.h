/*
 * The provider as an HTTP server: the server of src/http, with TLS over its connections, and with
 * replies that are late, in pieces, cut off or missing.
 */
#ifndef PROVIDER_HOST_H
#define PROVIDER_HOST_H

#include "base/list.h"
#include "http/server.h"
#include "provider/provider.h"
#include "provider/tls_server.h"

enum {
    HOST_CONNECTIONS_MAX = 20000, /* also the maximum number of delayed replies */
    HOST_WRITE_BYTES_MAX = PROVIDER_REPLY_BYTES_MAX + 1024 * 1024,
};

struct host {
    struct provider *provider;
    struct tls_server *tls; /* borrowed; NULL: plain */
    struct http_server *server;
    struct list late; /* replies that are delayed or sent in pieces */
    size_t late_count;
    struct buf body; /* the body of the reply that is being built */
};

/* Listens. provider and tls are borrowed for its life. host_deinit may be called even if this
 * fails. */
int host_init(struct host *host, struct loop *loop, struct provider *provider,
              struct tls_server *tls, slice address, struct err *err) MUST_CHECK;
/* Closes all connections with a reset; the loop's closing turns free them. */
void host_deinit(struct host *host);

#endif
