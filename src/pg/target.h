/*
 * Where to connect: a parsed conninfo, so that names can be resolved without libpq, which would
 * block.
 */
#ifndef PG_TARGET_H
#define PG_TARGET_H

#include <libpq-fe.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

enum { PG_HOSTS_MAX = 16, PG_ENDPOINTS_MAX = 64 };

struct pg_host {
    char *name;    /* a name, an address or a socket directory; "" is libpq's default socket */
    char *address; /* hostaddr given by the operator; "" for none */
    char *port;
};

struct pg_target {
    PQconninfoOption *options;
    char *application_name;
    char *settings; /* the first statement of a new session */
    size_t host_count;
    struct pg_host hosts[PG_HOSTS_MAX];
};

/* settings: "('name','value'),..." of a session; settings in the conninfo's `options` take
 * precedence. Defaults come from the environment as with libpq (PGHOST ...). ERR_INVALID with a
 * sentence that never contains a password. */
struct pg_target *pg_target_new(const char *conninfo, const char *application_name,
                                const char *settings, struct err *err) MUST_CHECK;
/* Replaces all hosts by another server, with the same user, database and options. Returns false if
 * out of memory; nothing is changed then. */
bool pg_target_point_to(struct pg_target *target, const char *host, const char *port) MUST_CHECK;
/* Whether the target already has that server as its only host. */
bool pg_target_points_to(const struct pg_target *target, const char *host, const char *port);
void pg_target_free(struct pg_target *target);
/* Whether host i is a name that must be resolved first. */
bool pg_host_needs_lookup(const struct pg_host *host);

/* The lists of one attempt: libpq requires as many addresses as hosts. */
struct pg_endpoints {
    struct buf lists[3]; /* hosts, addresses, ports */
    size_t count;
};
void pg_endpoints_init(struct pg_endpoints *endpoints);
void pg_endpoints_deinit(struct pg_endpoints *endpoints);
void pg_endpoints_clear(struct pg_endpoints *endpoints);
/* address: "" if none is known or needed. Entries over PG_ENDPOINTS_MAX are left out. */
void pg_endpoints_add(struct pg_endpoints *endpoints, const struct pg_host *host,
                      const char *address);
/* Calls PQconnectStartParams. Returns NULL if out of memory. */
PGconn *pg_target_connect_start(const struct pg_target *target, struct pg_endpoints *endpoints);

/* Connects and waits (at most 10 s for each host unless the operator set connect_timeout); libpq
 * looks up names. For operator commands. Applies the session settings. Returns NULL if out of
 * memory; otherwise PQstatus has the result. */
PGconn *pg_target_connect_blocking(const struct pg_target *target);

#endif
