/*
 * eraser: deletes the rows of users (vault/user.h) and accounts (vault/command.h) that are being
 * erased, in all tables, as a part of housekeeping. Any number of processes may run it: one at a
 * time deletes rows, and the others wait a second and go on. All that it knows is in the rows of
 * the users and accounts, so a process that dies loses nothing.
 *
 * Each round first ends what users that were marked since would continue: their keys, links and
 * flows. Then it makes a pass over the users that are being erased, some at a time: one statement
 * reads all tables for all of them. Calls that were under way for a user may write rows until its
 * erase_at; a pass that begins after that is its last one, and deletes the user itself, too. A user
 * that is marked during a long pass does not wait for its end, but at most for the users of an
 * account to be marked.
 *
 * An account is erased as a user is, and all its users are marked first. It is deleted after them.
 */
#ifndef SERVER_ERASER_H
#define SERVER_ERASER_H

#include "pg/pg.h"

struct eraser;

/* wait_ms: how long a call for such a user may be under way. Returns NULL if out of memory. pool
 * outlives its op. */
struct eraser *eraser_new(struct loop *loop, struct pg_pool *pool, uint64_t wait_ms) MUST_CHECK;
/* Ends its op, which then frees itself. */
void eraser_free(struct eraser *eraser);
/* The next round begins soon: a user or an account is to be erased. */
void eraser_wake(struct eraser *eraser);

/* Defined in janitor.c. Counts the result of a step of housekeeping, by `what`, a literal. Returns
 * false if it failed; the failure is logged with the reason in query. */
bool housekeeping_note(struct op *op, const struct pg_query *query, int status, const char *what,
                       double count);

#endif
