/*
 * systemd: the two protocols between a service manager and a service: sd_notify(3) and socket
 * activation, sd_listen_fds(3). Both consist of a few variables and a datagram, so libsystemd is
 * not needed. Without a service manager these functions do nothing.
 */
#ifndef SERVER_SYSTEMD_H
#define SERVER_SYSTEMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

/* Removes NOTIFY_SOCKET and WATCHDOG_USEC from the environment, so that no child reports for
 * this process. A worker of `serve --workers` remembers the watchdog's time limit and reports to
 * its parent. */
void systemd_open(bool is_worker);
/* Sends assignments, one per line, as for sd_notify: "READY=1\nSTATUS=...". Returns once the
 * manager has received them; a failure is logged. */
void systemd_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Sends RELOADING=1 with the current time; READY=1 follows once the reload is done. */
void systemd_notify_reloading(void);
/* Returns the interval within which the manager, or a worker's parent, expects a report from the
 * loop; 0 if no reports are expected. */
uint64_t systemd_watchdog_ns(void);

/* Sockets that a parent has opened: the service manager, or the parent of a worker. */
struct systemd_sockets {
    int fds[CONFIG_LIST_MAX];
    size_t count;
};

/* Takes the sockets of LISTEN_FDS if they are meant for this process. Fails if one is not a
 * listening stream socket, or if there are too many. */
int systemd_sockets_take(struct systemd_sockets *sockets, struct err *err) MUST_CHECK;
/* Returns whether the listeners come from the service manager; also valid in a worker. */
bool systemd_has_sockets(void);
/* Replaces config->listen with the addresses of the sockets. */
int systemd_sockets_use(const struct systemd_sockets *sockets, struct config *config,
                        struct err *err) MUST_CHECK;

#endif
