/*
 * The parts that calls to apps need, built from the settings: resolver, address policy, trust
 * roots, HTTP client with its origin overrides. They are used by the server, and by commands that
 * call an app.
 */
#ifndef SERVER_OUTBOUND_H
#define SERVER_OUTBOUND_H

#include "config/config.h"
#include "http/client.h"

struct outbound {
    struct dns_resolver *dns;
    struct address_policy *policy;
    struct tls_context *tls;
    struct http_client *client;
};

/* After a failure outbound still has the parts that were made, so it must be closed and freed in
 * either case. */
int outbound_open(struct outbound *outbound, struct loop *loop, const struct config *config,
                  struct err *err) MUST_CHECK;
/* Closing takes two steps: outbound_close closes the client and the resolver; once the loop has
 * run their close callbacks, outbound_free frees the rest. */
void outbound_close(struct outbound *outbound);
void outbound_free(struct outbound *outbound);

#endif
