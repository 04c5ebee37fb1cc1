/*
 * crowd: how many executions each account has in flight, and whether it may have one more. They
 * are places as base/share.h means them: a slow app holds them for long.
 *
 * Limits: an entry is kept for an account while it has executions in flight, so there are at most
 * as many as these; some unused ones are kept, so that an execution costs no allocation. Not for
 * several threads.
 */
#ifndef EXEC_CROWD_H
#define EXEC_CROWD_H

#include "base/err.h"
#include "base/id.h"
#include "base/list.h"
#include "base/map.h"

struct crowd {
    size_t size, share; /* of all accounts; of one alone */
    size_t count;
    struct map accounts; /* struct crowd_account, by id */
    struct list spares;
    size_t spare_count;
};

struct crowd_account;

/* share 0: base/share.h's default. */
void crowd_init(struct crowd *crowd, size_t size, size_t share);
/* None is in (asserted). */
void crowd_deinit(struct crowd *crowd);
/* NULL: this account has its share, all places are taken, or memory is out. Each other wants one
 * crowd_leave. */
struct crowd_account *crowd_enter(struct crowd *crowd, struct uuid account_id) MUST_CHECK;
void crowd_leave(struct crowd *crowd, struct crowd_account *account);

#endif
