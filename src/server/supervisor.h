/*
 * supervisor: the parent of `sluice serve --workers N`. It owns the listening sockets and nothing
 * else: no loop, no thread, no database. Each worker is this program run again (fork and exec),
 * with SLUICE_WORKER naming its descriptors; a worker that dies is started again.
 *
 * SIGUSR2 hands the sockets to a successor: N workers of the program that is then at the parent's
 * path are started in addition to the old ones, and once all are ready the old ones drain. If one
 * of them does not become ready, the new ones are ended and the old ones stay. SIGHUP is passed on;
 * SIGTERM and SIGINT drain all. The parent's process id stays the same throughout.
 *
 * If a service manager watches (systemd.h), the parent reports to it, and watches the workers: a
 * worker whose loop does not report within the watchdog's time limit is killed and restarted.
 */
#ifndef SERVER_SUPERVISOR_H
#define SERVER_SUPERVISOR_H

#include "config/config.h"
#include "loop/tcp.h"
#include "server/server.h"
#include "server/systemd.h"

enum { WORKERS_MAX = 256 };

/* Serves until SIGTERM or SIGINT. argv: the command line of this process; sockets: the service
 * manager's sockets, one for each address in config->listen, or none. on_state as in server_events:
 * ready once all workers answer, reloaded once all have reloaded. err says what failed. */
int supervisor_run(const struct config *config, char *const *argv,
                   const struct systemd_sockets *sockets,
                   void (*on_state)(void *owner, enum server_state state, uint16_t port),
                   void *owner, struct err *err) MUST_CHECK;

/* The data that the parent passes to a worker, from SLUICE_WORKER. */
struct worker {
    unsigned index;                 /* counted from 0 */
    int report_fd;                  /* worker_report writes to it */
    struct systemd_sockets sockets; /* sockets that the parent has bound */
    struct tcp_share share; /* counters shared with its siblings; connections NULL: no shared
                             * memory */
};

/* A worker's reports, one byte each; a parent of another version ignores unknown reports. */
enum worker_report {
    WORKER_READY = '1',    /* sent once, when the worker answers requests */
    WORKER_RELOADED = 'r', /* the reload after SIGHUP is done */
    WORKER_TURNS = '.',    /* the worker's loop runs; sent only if a service manager watches */
};

/* Removes SLUICE_WORKER from the environment. Returns false if this process is not a worker. */
bool worker_read(struct worker *worker);
/* Does nothing in a process that is not a worker. */
void worker_report(struct worker *worker, enum worker_report what);

#endif
