/*
 * concurrency: counts the executions that each account has in flight, and decides whether it may
 * start another. Executions take slots as in base/share.h, since a slow app holds slots for a long
 * time.
 *
 * Limits: an account has an entry while it has executions in flight, so there are never more
 * entries than executions. Not thread-safe.
 */
#ifndef LIMIT_CONCURRENCY_H
#define LIMIT_CONCURRENCY_H

#include "base/err.h"
#include "base/id.h"
#include "base/keyed.h"

struct concurrency {
    size_t size, share; /* limits of all accounts together; of one account */
    size_t count;
    struct keyed_table accounts; /* struct concurrency_account, by id */
};

struct concurrency_account {
    struct keyed keyed; /* its ring and its list `waiting` are free for the caller's use */
    size_t count;
};

/* If share is 0, the default of base/share.h applies. */
void concurrency_init(struct concurrency *inflight, size_t size, size_t share);
/* No execution may be in flight (asserted). */
void concurrency_deinit(struct concurrency *inflight);
/* Returns NULL if this account has used its share, if all slots are taken, or if out of memory.
 * Each success requires one concurrency_leave. */
struct concurrency_account *concurrency_enter(struct concurrency *inflight,
                                              struct uuid account_id) MUST_CHECK;
void concurrency_leave(struct concurrency *inflight, struct concurrency_account *account);

#endif
