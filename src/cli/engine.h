/*
 * engine: a command's own loop, on which it runs the same ops as a server, so that a change has the
 * same effect however it is made.
 */
#ifndef CLI_ENGINE_H
#define CLI_ENGINE_H

#include "cli/session.h"
#include "connect/connect.h"
#include "event/event.h"
#include "server/outbound.h"
#include "vault/auth.h"

struct engine {
    struct session *session;
    struct loop *loop;
    struct dns_resolver *dns;
    struct outbound out; /* for calls to apps; also has the resolver */
    struct pg_pool *pool;
    struct vault_auth *auth;
    struct connect_service *connect;
    struct event_service *event; /* sends nothing */
    bool has_out;
};

/* Opens the engine. The session's database is open; if has_apps is set, so are the ring and the
 * catalog. Servers are notified of changes. engine_close must follow, even after an error. */
int engine_open(struct engine *engine, struct session *session, bool has_apps) MUST_CHECK;
/* Turns the loop until all its ops have ended. */
void engine_close(struct engine *engine);

/* A function that starts ops as children of op. */
typedef void engine_start(struct engine *engine, struct op *op, void *arg);
/* Calls start, waits until its ops have ended, and calls done, which may be NULL. The results of
 * the ops are valid until done returns. */
void engine_run(struct engine *engine, engine_start *start, engine_start *done, void *arg);

#endif
