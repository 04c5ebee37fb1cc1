/*
 * A PostgreSQL for tests: a private cluster in a folder of its own under /tmp, on a Unix socket
 * only. It is started on first use and removed with the program, however that ends. As root, it
 * runs as user postgres. If $SLUICE_TEST_DATABASE_URL is set, that server is used instead (a
 * superuser's URL; it is never stopped).
 *
 * If anything here fails, it ends the program with a message on stderr.
 */
#ifndef SUPPORT_PG_CLUSTER_H
#define SUPPORT_PG_CLUSTER_H

#include <stdbool.h>

/* Starts it if it is not running. Returns the conninfo of the maintenance database, which lives as
 * long as the program. */
const char *pg_cluster_start(void);
/* A fresh database, with the schema of sql/ if migrated is set. Its conninfo lives as long as the
 * program (at most 64 in a program). */
const char *pg_cluster_database(bool migrated);
/* Whether the functions below may be used. */
bool pg_cluster_is_private(void);
enum pg_cluster_end { PG_CLUSTER_FAST, PG_CLUSTER_IMMEDIATE };
/* Returns once it is down. */
void pg_cluster_stop(enum pg_cluster_end how);
/* Starts it again. Returns once it accepts connections. */
void pg_cluster_restart(void);
/* The folder of its socket, and its port (for other conninfo forms). */
const char *pg_cluster_socket_dir(void);
unsigned pg_cluster_port(void);
/* Makes the server listen on 127.0.0.1, too, from the next (re)start on. Returns its port. */
unsigned pg_cluster_listen_tcp(void);

#endif
