/*
 * An op that makes one call and keeps its results until the test has read them, and the client,
 * resolver and policy that it needs.
 */
#ifndef TESTS_SUPPORT_HTTP_CALLER_H
#define TESTS_SUPPORT_HTTP_CALLER_H

#include "http/client.h"
#include "support/http_peer.h"

struct caller_world {
    struct loop *loop;
    struct dns_resolver *resolver;
    struct address_policy *policy;
    struct http_client *client;
    struct tls_context *tls; /* counted, may be NULL */
    struct http_peer peer;
};

/* config may be NULL. resolver, policy and tls are filled in. The policy allows "localhost" and
 * 127.0.0.1. dns may be NULL. */
void caller_world_init(struct caller_world *world, const struct http_client_config *config,
                       const struct dns_config *dns, struct tls_context *tls,
                       const struct peer_script *scripts, size_t script_count);
void caller_world_deinit(struct caller_world *world);

struct caller {
    struct op op; /* first member */
    struct http_client *client;
    struct http_call call; /* fill it between caller_init and caller_start */
    char url[256];
    unsigned deadline_in_ms; /* not 0: call.deadline_ns is set to the start of the call plus this */
    int start_code;
    bool is_done;
    enum op_end end;
};

/* Prepares a GET of "http://127.0.0.1:PORT" followed by path (https if the peer has TLS). */
void caller_init(struct caller *caller, struct caller_world *world, const char *path);
/* Starts the op, which makes the call in its first step. */
void caller_start(struct caller *caller, struct caller_world *world, size_t arena_bytes_max);
void caller_wait(struct caller *caller);
/* Releases the op, and waits until its memory is freed. */
void caller_deinit(struct caller *caller);
/* Calls caller_init, caller_start and caller_wait. */
void caller_get(struct caller *caller, struct caller_world *world, const char *path);

#endif
