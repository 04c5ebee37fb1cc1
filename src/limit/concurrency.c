/*
 * Executions in flight per account; see concurrency.h.
 */
#include "limit/concurrency.h"

#include "base/share.h"

void concurrency_init(struct concurrency *inflight, size_t size, size_t share)
{
    *inflight = (struct concurrency){.size = size, .share = share ? share : share_default(size)};
    keyed_init(&inflight->accounts, sizeof(struct concurrency_account));
}

void concurrency_deinit(struct concurrency *inflight)
{
    ASSERT(inflight->count == 0);
    keyed_deinit(&inflight->accounts);
}

struct concurrency_account *concurrency_enter(struct concurrency *inflight, struct uuid account_id)
{
    struct concurrency_account *account = keyed_find(&inflight->accounts, uuid_slice(&account_id));
    if (!share_allows(account ? account->count : 0, inflight->count, inflight->size,
                      inflight->share))
        return NULL;
    if (!account)
        account = keyed_get(&inflight->accounts, uuid_slice(&account_id));
    if (!account)
        return NULL;
    account->count++;
    inflight->count++;
    return account;
}

/* An account without executions under way leaves no entry. */
void concurrency_leave(struct concurrency *inflight, struct concurrency_account *account)
{
    ASSERT(account->count > 0 && inflight->count > 0);
    inflight->count--;
    if (--account->count == 0)
        keyed_drop(&inflight->accounts, &account->keyed);
}
