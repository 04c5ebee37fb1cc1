/*
 * Housekeeping of the database, run inside the server in bounded bites: partitions made ahead and
 * dropped, expired idempotency keys and dead nodes removed (DESIGN.md 4). Any number of processes
 * may do it at once. What fails is logged, counted, and tried again in the next round.
 */
#ifndef CMD_JANITOR_H
#define CMD_JANITOR_H

#include "pg/pg.h"

struct janitor;

/* Flows that ended more than keep_days ago go, partitions whose rows are all older than that, of
 * audit events than audit_days, are dropped. NULL: out of memory. */
struct janitor *janitor_new(struct loop *loop, struct pg_pool *pool, unsigned keep_days,
                            unsigned audit_days) MUST_CHECK;
/* Ends its op; the memory goes by itself. */
void janitor_free(struct janitor *janitor);

#endif
