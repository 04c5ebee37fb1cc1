/*
 * concurrency: how many executions each account has in flight, and whether it may have one more.
 * They are slots as base/share.h counts them: a slow app holds them for long.
 *
 * Limits: an entry is kept for an account while it has executions in flight, so there are at most
 * as many as these; some unused ones are kept, so that an execution costs no allocation. Not for
 * several threads.
 */
#ifndef EXEC_CONCURRENCY_H
#define EXEC_CONCURRENCY_H

#include "base/err.h"
#include "base/id.h"
#include "base/list.h"
#include "base/map.h"

struct concurrency {
    size_t size, share; /* of all accounts; of one alone */
    size_t count;
    struct map accounts; /* struct concurrency_account, by id */
    struct list spares;
    size_t spare_count;
};

struct concurrency_account;

/* share 0: base/share.h's default. */
void concurrency_init(struct concurrency *inflight, size_t size, size_t share);
/* None is in (asserted). */
void concurrency_deinit(struct concurrency *inflight);
/* NULL: this account has its share, all slots are taken, or memory is out. Each other wants one
 * concurrency_leave. */
struct concurrency_account *concurrency_enter(struct concurrency *inflight,
                                              struct uuid account_id) MUST_CHECK;
void concurrency_leave(struct concurrency *inflight, struct concurrency_account *account);

#endif
