/*
 * Housekeeping of the database, run inside the server in bounded steps: partitions made in advance
 * and dropped, expired idempotency keys and dead nodes removed (contrib/deploy/README.md
 * "Operations"). Any number of processes may run it at once. A failure is logged, counted, and
 * retried in the next round.
 */
#ifndef SERVER_JANITOR_H
#define SERVER_JANITOR_H

#include "catalog/catalog.h"
#include "server/trimmer.h"

struct janitor;

/* Steps of flows without the name of their call are filled in from the catalog. Flows that ended
 * more than keep_days ago are removed; partitions whose rows are all older (audit events: than
 * audit_days) are dropped; an account keeps as many of the rest as `trimmer` allows. */
struct janitor_config {
    struct catalog **catalog;
    unsigned keep_days, audit_days;
    struct trimmer_config trimmer;
};
/* NULL: out of memory. */
struct janitor *janitor_new(struct loop *loop, struct pg_pool *pool,
                            const struct janitor_config *config) MUST_CHECK;
/* Ends its op, which then frees itself. */
void janitor_free(struct janitor *janitor);

#endif
