/*
 * Waits for memory of a budget (base/budget.h): requests that do not fit now are queued by account,
 * and the accounts are served in turn as memory is returned. A wait ends when its bytes have been
 * taken, or after its time limit.
 */
#ifndef LOOP_BUDGET_WAIT_H
#define LOOP_BUDGET_WAIT_H

#include "base/budget.h"
#include "loop/loop.h"
#include "loop/op.h"

/* The time that a request waits before it is refused. */
enum { BUDGET_WAIT_MS = 2000 };

struct budget_queue {
    struct budget budget;
    struct loop *loop;
    struct list turns; /* accounts with waits, in the order of their turns */
    struct loop_task task;
    size_t waiting;
};

enum budget_kind {
    BUDGET_NEW, /* work that begins */
    /* Work that already holds memory. One such wait at a time is served even beyond the budget's
     * size, so that waits do not deadlock while all of them hold memory. */
    BUDGET_IN_HAND,
};

/* Embedded in the struct that waits. Zero it before its first use. */
struct budget_wait {
    bool is_taken; /* out */
    /* private */
    struct budget_queue *queue;
    struct budget_use *use;
    size_t bytes;
    enum budget_kind kind;
    void (*on_end)(struct budget_wait *wait);
    struct op *op;
    struct list link;
    struct timer timer;
};

/* size and share are as for budget_init. */
void budget_queue_init(struct budget_queue *queue, struct loop *loop, size_t size, size_t share);
/* Asserts that nothing waits and no use is left. */
void budget_queue_deinit(struct budget_queue *queue);
/* Sets the gauges; called before metrics are read. */
void budget_queue_show(const struct budget_queue *queue);

/* Returns true if the memory was taken, or if there is no budget (`use` was not begun). Otherwise
 * on_end will be called from the loop. */
bool budget_wait_begin(struct budget_wait *wait, struct budget_use *use, size_t bytes,
                       enum budget_kind kind, uint64_t wait_ms,
                       void (*on_end)(struct budget_wait *wait)) MUST_CHECK;
/* Like budget_wait_begin, for an op, which is held until the wait ends: the caller returns
 * OP_WAIT. */
bool budget_wait_op(struct budget_wait *wait, struct op *op, struct budget_use *use, size_t bytes,
                    enum budget_kind kind, uint64_t wait_ms) MUST_CHECK;
/* Ends a wait without calling its on_end, and releases its hold on an op. Does nothing if no wait
 * is under way. */
void budget_wait_stop(struct budget_wait *wait);

#endif
