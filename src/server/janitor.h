/*
 * Housekeeping of the database, run inside the server in small steps: it creates partitions in
 * advance and drops old ones, removes expired idempotency keys and dead nodes, and erases users
 * (eraser.h; contrib/deploy/README.md "Operations"). Any number of processes may run it
 * concurrently. A failure is logged, counted, and retried in the next round.
 */
#ifndef SERVER_JANITOR_H
#define SERVER_JANITOR_H

#include "catalog/catalog.h"
#include "server/trimmer.h"

struct janitor;

/* Fills in the call names that steps of flows lack, from the catalog. Removes flows that ended
 * more than keep_days ago; drops partitions whose rows are all older (audit events: than
 * audit_days; inputs: than input_days, which may be 0). An account keeps as many of the remaining
 * rows as `trimmer` allows. */
struct janitor_config {
    struct catalog **catalog;
    unsigned keep_days, audit_days, input_days;
    unsigned webhook_days;  /* deliveries that ended longer ago are removed */
    uint64_t erase_wait_ms; /* how long a call for an erased user may be under way */
    struct trimmer_config trimmer;
};
/* Returns NULL if out of memory. */
struct janitor *janitor_new(struct loop *loop, struct pg_pool *pool,
                            const struct janitor_config *config) MUST_CHECK;
/* Ends its ops, which then free themselves. */
void janitor_free(struct janitor *janitor);
/* A user is to be erased: the next pass begins soon. */
void janitor_erase_users(struct janitor *janitor);

#endif
