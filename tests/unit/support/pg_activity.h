/*
 * The work that PostgreSQL does for this program, for a wait that may never succeed
 * (support/wait.h).
 */
#ifndef SUPPORT_PG_ACTIVITY_H
#define SUPPORT_PG_ACTIVITY_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* conninfo: of any database of the cluster. databases: a LIKE pattern for those of this program.
 * postmaster: 0 if it is not known; then its processes are not checked. true: a statement is in
 * flight, a session begins, or a process is about to run. Prints a line for each session into out
 * (may be NULL). A server that is down does nothing. One that does not answer may do something. */
bool pg_activity(const char *conninfo, const char *databases, pid_t postmaster, FILE *out);

#endif
