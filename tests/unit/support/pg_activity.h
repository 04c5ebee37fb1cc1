/*
 * The work that PostgreSQL does for this program, for a wait that may never succeed
 * (support/wait.h).
 */
#ifndef SUPPORT_PG_ACTIVITY_H
#define SUPPORT_PG_ACTIVITY_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* Returns whether a statement is in flight, a session begins, or a process is about to run. A
 * server that is down does no work, and a server that does not answer may do some. conninfo: any
 * database of the cluster. databases: a LIKE pattern for the names of this program's databases.
 * postmaster: its process id; 0: unknown, so its processes are not checked. out (may be NULL) gets
 * a line for each session. */
bool pg_activity(const char *conninfo, const char *databases, pid_t postmaster, FILE *out);

#endif
