/*
 * A PostgreSQL for tests: a private cluster in a separate folder under /tmp, on a Unix socket only.
 * It is started on first use and removed when the program ends, in whatever way. As root, it runs
 * as user postgres. If $SLUICE_TEST_DATABASE_URL is set, that server is used instead (a superuser's
 * URL; it is never stopped).
 *
 * If anything here fails, it ends the program with a message on stderr.
 */
#ifndef SUPPORT_PG_CLUSTER_H
#define SUPPORT_PG_CLUSTER_H

#include <stdbool.h>

/* Starts the cluster if it is not running. Returns the conninfo of the maintenance database,
 * which lives as long as the program. */
const char *pg_cluster_start(void);
/* A fresh database, with the schema of sql/ if migrated is set. Its conninfo lives as long as the
 * program (at most 64 in a program). */
const char *pg_cluster_database(bool migrated);
/* Whether the functions below may be used. */
bool pg_cluster_is_private(void);
enum pg_cluster_end { PG_CLUSTER_FAST, PG_CLUSTER_IMMEDIATE };
/* Returns once it is down. */
void pg_cluster_stop(enum pg_cluster_end how);
/* Starts the server again. Returns once it accepts connections. */
void pg_cluster_restart(void);
/* The folder of its socket, and its port (for other forms of conninfo). */
const char *pg_cluster_socket_dir(void);
unsigned pg_cluster_port(void);
/* Makes the server also listen on 127.0.0.1 from its next start or restart. Returns its port. */
unsigned pg_cluster_listen_tcp(void);

#endif
