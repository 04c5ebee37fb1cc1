/*
 * replay: sends events of an endpoint again, on request: one, whatever became of it, or those that
 * have failed since a time. They are sent under their ids, outside of the order of their objects.
 */
#ifndef EVENT_REPLAY_H
#define EVENT_REPLAY_H

#include "event/event.h"
#include "store/delivery.h"

enum { EVENT_REPLAYS_MAX = 10000 }; /* of one request */

/* An op, embedded in a caller's op. */
struct event_replay {
    struct op op;
    /* out */
    int status;   /* OK, or that of a query: then some may be sent again */
    size_t found; /* rows that were found; one may be pending already */
    size_t count; /* rows that are sent again */
    /* private */
    struct event_service *service;
    struct delivery_replays in;
    struct pg_query query;
    struct op_timer timer;
    unsigned waits; /* for room, since the last row */
};

/* since, until: event ids; equal: that event. The caller has checked that the endpoint is the
 * account's, and on: a delivery to one that is off fails at once. */
void event_replay_start(struct event_service *service, struct event_replay *replay,
                        struct uuid webhook_id, struct uuid since, struct uuid until,
                        struct op *parent);

#endif
