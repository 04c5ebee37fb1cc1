/*
 * The server: everything from a struct config to a listening process; `serve` and `dev` run it.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "loop/tcp.h"

enum server_state {
    SERVER_READY,     /* reported once: requests are answered after this */
    SERVER_RELOADING, /* SIGHUP was received */
    SERVER_RELOADED,  /* the reload has ended, whether or not the files were valid */
    SERVER_DRAINING,
};

struct server_events {
    /* Called from the loop; port is the port of the first TCP listener (0: none). May be NULL. */
    void (*on_state)(void *owner, enum server_state state, uint16_t port);
    /* Called about once a second, from the loop; returning false ends the server as SIGTERM
     * would (a child of dev has died). May be NULL. */
    bool (*should_continue)(void *owner);
    void *owner;
    /* The parent's listening sockets, one for each address in config->listen and in that order. If
     * it is NULL, the server opens them. */
    const int *listen_fds;
    const struct tcp_share *share; /* counters shared with the sibling workers; NULL: none */
};

/* Starts, serves until SIGTERM or SIGINT, drains, frees everything. Requires a migrated schema.
 * Blocking. The loop is created here, so the caller must not have started threads. On failure err
 * says what failed at start, or that a limit of the loop was passed (in tests). */
int server_run(const struct config *config, const struct server_events *events,
               struct err *err) MUST_CHECK;

#endif
