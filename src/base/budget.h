/*
 * Limits the memory for work under way, and the share of each account in it.
 *
 *   budget           total bytes
 *   budget_account   one account's part of it; exists while the account has any use
 *   budget_use       what one piece of work (a request, a flow's run) has of its account's part
 *
 * Memory is counted in two ways. budget_use_take is called before memory is allocated, and is
 * refused if it would exceed the account's share or the whole: large allocations begin with it (a
 * body, a stored output, a parse). budget_use_add counts what has been allocated, never fails, and
 * first uses up what was taken: arenas call it as they grow (base/arena.h), on any thread. A use
 * that was refused waits in loop/budget_wait.h.
 *
 * Shares are those of base/share.h: an account alone gets `share`; the more others use, the less it
 * gets, so a part of the whole stays free for other accounts. An account that uses little may
 * always begin, however much of the whole its next step needs.
 */
#ifndef BASE_BUDGET_H
#define BASE_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/id.h"
#include "base/keyed.h"

#define BUDGET_STEP_BYTES \
    ((size_t)16 * 1024) /* charged in advance in steps, so that small work is cheap */
#define BUDGET_SMALL_BYTES ((size_t)64 * 1024) /* always granted while its account uses little */
/* an account that uses less than this uses little memory */
#define BUDGET_FREE_BYTES ((size_t)4 * 1024 * 1024)

struct budget {
    size_t size, share;
    _Atomic size_t used;
    struct keyed_table accounts;  /* struct budget_account, by id */
    struct budget_use *overdrawn; /* the use that exceeds the whole budget */
    /* Called on the loop's thread when memory was returned. NULL if nothing waits for memory. */
    void (*on_returned)(struct budget *budget);
    bool is_awaited;
};

struct budget_account {
    struct keyed keyed; /* its ring: the accounts with uses that wait (loop/budget_wait.h) */
    _Atomic size_t used;
    struct budget_use *overdrawn; /* the use that exceeds this account's share */
    size_t refs;
};

/* Zeroed: counts nothing. */
struct budget_use {
    struct budget *budget;
    struct budget_account *account;
    _Atomic long long left; /* taken and not yet allocated */
    _Atomic size_t charged; /* counted in the account and in the whole */
};

/* share 0: a quarter. */
void budget_init(struct budget *budget, size_t size, size_t share);
/* Asserts that no use is left. */
void budget_deinit(struct budget *budget);

/* Returns ERR_NOMEM if there is no memory for the account; the use then counts nothing. */
int budget_use_begin(struct budget_use *use, struct budget *budget,
                     struct uuid account_id) MUST_CHECK;
/* Returns everything. Harmless if the use was not begun. */
void budget_use_end(struct budget_use *use);
/* Returns false, and takes nothing, if the share or the whole would be exceeded. May be called on
 * any thread. */
bool budget_use_take(struct budget_use *use, size_t bytes) MUST_CHECK;
/* For work that holds memory already and needs more: if all such work waited for memory that other
 * work holds, none of it would ever end. One use of an account at a time may exceed the account's
 * share, and one use of all accounts the whole, until it ends or fits. Returns false if another use
 * already does so. Called on the loop's thread. */
bool budget_use_overdraw(struct budget_use *use, size_t bytes) MUST_CHECK;
/* Returns what was taken but not allocated. Called on the loop's thread. */
void budget_use_settle(struct budget_use *use);
/* To be called after memory was allocated or freed, on any thread. */
void budget_use_add(struct budget_use *use, size_t bytes);
void budget_use_remove(struct budget_use *use, size_t bytes);

#endif
