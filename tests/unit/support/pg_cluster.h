/*
 * A PostgreSQL for tests: a private cluster in a folder of its own under /tmp, on a Unix socket
 * only, started on first use and gone with the program, however that ends. As root it runs as user
 * postgres. With $SLUICE_TEST_DATABASE_URL set, that server is used instead (a superuser's URL; it
 * is never stopped).
 *
 * Everything here fails the program with a sentence on stderr when it cannot be done.
 */
#ifndef SUPPORT_PG_CLUSTER_H
#define SUPPORT_PG_CLUSTER_H

#include <stdbool.h>

/* Starts it when it is not running. Conninfo of the maintenance database; lives as long as the
 * program. */
const char *pg_cluster_start(void);
/* A fresh database, with the schema of sql/ applied when migrated. Conninfo; lives as long as the
 * program (at most 64 a program). */
const char *pg_cluster_database(bool migrated);
/* May the functions below be used? */
bool pg_cluster_is_private(void);
enum pg_cluster_end { PG_CLUSTER_FAST, PG_CLUSTER_IMMEDIATE };
/* Returns when it is down. */
void pg_cluster_stop(enum pg_cluster_end how);
/* Starts it again; returns when it accepts connections. */
void pg_cluster_restart(void);
/* The folder of its socket, and its port (for other conninfo forms). */
const char *pg_cluster_socket_dir(void);
unsigned pg_cluster_port(void);
/* Makes the server listen on 127.0.0.1 too, from the next (re)start on; its port. */
unsigned pg_cluster_listen_tcp(void);

#endif
