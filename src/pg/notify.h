/*
 * LISTEN and NOTIFY on a separate connection: a coalesced hint between processes, never needed for
 * correctness and never inside a transition.
 */
#ifndef PG_NOTIFY_H
#define PG_NOTIFY_H

#include "base/slice.h"
#include "loop/loop.h"
#include "pg/pg.h"

enum {
    PG_NOTIFY_BYTES_MAX = 4000, /* length of a payload; PostgreSQL's own limit is 8000 */
    PG_NOTIFY_QUEUE_MAX = 1024, /* payloads waiting; equal payloads count once; more are dropped */
};

struct pg_notify;

struct pg_notify_config {
    const char *conninfo;
    const char *channel;      /* [a-z_]+ */
    struct dns_resolver *dns; /* outlives it */
    /* payload is borrowed for the call. It is SLICE_NONE after each (re)connection, since something
     * may have been missed. The sender receives its own payloads, too. */
    void (*on_notify)(void *owner, slice payload);
    void *owner;
};

struct pg_notify *pg_notify_new(struct loop *loop, const struct pg_notify_config *config,
                                struct err *err) MUST_CHECK;
/* No callback follows. Accepts NULL. */
void pg_notify_free(struct pg_notify *notify);
/* Queues the payload, which is sent at the end of the turn; equal payloads of a turn are sent
 * once. Best effort. */
void pg_notify_send(struct pg_notify *notify, slice payload);

#endif
