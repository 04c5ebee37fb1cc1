/*
 * What PostgreSQL does for this program, for a wait that may be in vain (support/wait.h).
 */
#ifndef SUPPORT_PG_ACTIVITY_H
#define SUPPORT_PG_ACTIVITY_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* conninfo: of any database of the cluster. databases: a pattern of LIKE, those of this program.
 * postmaster: 0 when it is not known; then its processes are not looked at. true: a statement is in
 * flight, a session begins, or a process of it is about to run. Prints a line for each session into
 * out (may be NULL). A server that is down does nothing; one that does not answer may. */
bool pg_activity(const char *conninfo, const char *databases, pid_t postmaster, FILE *out);

#endif
