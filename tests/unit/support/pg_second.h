/*
 * Concurrent work in the database: a write that is sent a second time while its first sending is
 * still under way (its answer was lost with the connection, and the server has not finished it),
 * and a read whose answer is older than a change that its reader knows of.
 */
#ifndef SUPPORT_PG_SECOND_H
#define SUPPORT_PG_SECOND_H

#include "support/pg_call.h"

/* Begins the second sending while lock_sql ("select ... for update") holds its row for the
 * first. Once the second waits, the first runs in the session that holds the lock, and is then
 * committed. Returns the status of the second, whose results stay until pg_call_end. The pool's
 * lock_timeout_ms has to be long. */
int pg_second_run(struct pg_bench *bench, const char *conninfo, const char *lock_sql,
                  struct pg_call *call, void (*start)(struct pg_call *call), void *arg);

/* Makes a read that a change overtakes: begin(arg) starts a read of that table ("s.t"). When this
 * returns, the database has answered it, and the loop does not know that yet. */
void pg_answer_unseen(struct pg_bench *bench, const char *conninfo, const char *table,
                      void (*begin)(void *arg), void *arg);

#endif
