/*
 * supervisor: the parent of `sluice serve --workers N`. It owns the listening sockets and nothing
 * else: no loop, no thread, no database. Each worker is this program run again (fork and exec),
 * with SLUICE_WORKER naming its descriptors; a worker that dies is started again.
 *
 * SIGUSR2 hands the sockets to a successor: N workers of the program that is then at the
 * parent's path are started in addition to the old ones, and once all are ready the old ones drain.
 * If one of them does not become ready, the new ones are ended and the old ones stay. SIGHUP is
 * passed on; SIGTERM and SIGINT drain all. The parent's process id stays the same throughout.
 */
#ifndef SERVER_SUPERVISOR_H
#define SERVER_SUPERVISOR_H

#include "config/config.h"
#include "loop/tcp.h"

enum { WORKERS_MAX = 256 };

/* Serves until SIGTERM or SIGINT. on_ready: all workers answer; port is that of the first TCP
 * listener; once. argv: how this process was started. err says what failed. */
int supervisor_run(const struct config *config, char *const *argv,
                   void (*on_ready)(void *owner, uint16_t port), void *owner,
                   struct err *err) MUST_CHECK;

/* What the parent hands to a worker, from SLUICE_WORKER. */
struct worker {
    unsigned index; /* from 0 */
    int ready_fd;   /* worker_ready writes to it */
    int listen_fds[CONFIG_LIST_MAX];
    size_t listen_count;    /* as many as config.listen has, in its order; else 0: bind yourself */
    struct tcp_share share; /* with its siblings; connections NULL: there is no shared memory */
};

/* false: this process is no worker. Takes SLUICE_WORKER out of the environment. */
bool worker_read(struct worker *worker, const struct config *config);
/* Notifies the parent that this worker answers requests. */
void worker_ready(struct worker *worker);

#endif
