/*
 * What calls to apps need: names, address rules, trust roots, the client with its overrides, as the
 * settings say. For the server, and for commands that ask an app themselves.
 */
#ifndef CMD_OUTBOUND_H
#define CMD_OUTBOUND_H

#include "cmd/config.h"
#include "http/client.h"

struct outbound {
    struct dns_resolver *dns;
    struct address_policy *policy;
    struct tls_context *tls;
    struct http_client *client;
};

/* What could be made stands in outbound also when it fails, and is to be freed in any case. */
int outbound_open(struct outbound *outbound, struct loop *loop, const struct config *config,
                  struct err *err) MUST_CHECK;
/* The client and the resolver; then, once the loop has settled, the rest. */
void outbound_close(struct outbound *outbound);
void outbound_free(struct outbound *outbound);

#endif
