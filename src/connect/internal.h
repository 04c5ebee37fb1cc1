/*
 * The internals of struct connect_service, for the files of this room.
 */
#ifndef CONNECT_INTERNAL_H
#define CONNECT_INTERNAL_H

#include "base/keyed.h"
#include "connect/connect.h"
#include "store/later.h"

enum {
    /* connections whose token is being renewed, or could not be renewed */
    CONNECT_SLOTS_MAX = 10000,
};

struct connect_service {
    struct loop *loop;
    struct connect_config config; /* defaults filled in */
    struct cache sets;            /* connect.c: by account, app and connection */
    struct list watches;          /* connect.c: struct connect_watch */
    struct uuid holder;           /* identifies this process when it claims a renewal */
    uint64_t jitter; /* differs per process, so that several processes do not renew a token
                      * at the same time */
    struct keyed_table renewals; /* renew.c: struct slot, by account and connection */
    struct list slots;           /* most recently used first */
    size_t renewals_active;
    struct keyed_table uses; /* use.c: struct use, by account and connection */
    struct list uses_young, uses_sending, uses_stored;
    struct timer uses_timer;
    struct store_laters uses_sent;
    uint64_t use_every_ns;
    bool are_uses_hurried; /* set at a shutdown: all uses are stored, even if not due */
};

/* renew.c */
void connect_renewals_init(struct connect_service *service);
void connect_renewals_free(struct connect_service *service);

/* use.c */
void connect_uses_init(struct connect_service *service);
void connect_uses_free(struct connect_service *service);

#endif
