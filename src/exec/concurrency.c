/*
 * Executions in flight by account; see concurrency.h.
 */
#include "exec/concurrency.h"

#include "base/mem.h"
#include "base/share.h"

enum { SPARES_MAX = 64 };

struct concurrency_account {
    struct uuid id;
    size_t count;
    struct list link; /* among the spare ones */
};

void concurrency_init(struct concurrency *inflight, size_t size, size_t share)
{
    *inflight = (struct concurrency){.size = size, .share = share ? share : share_default(size)};
    map_init(&inflight->accounts, size + 1);
    list_init(&inflight->spares);
}

void concurrency_deinit(struct concurrency *inflight)
{
    struct list *node;
    ASSERT(inflight->count == 0 && inflight->accounts.count == 0);
    while ((node = list_pop_front(&inflight->spares)))
        mem_free(LIST_ITEM(node, struct concurrency_account, link));
    map_deinit(&inflight->accounts);
}

static void account_give_back(struct concurrency *inflight, struct concurrency_account *account)
{
    if (inflight->spare_count >= SPARES_MAX) {
        mem_free(account);
        return;
    }
    inflight->spare_count++;
    list_push_front(&inflight->spares, &account->link);
}

static struct concurrency_account *account_new(struct concurrency *inflight, struct uuid id)
{
    struct list *node = list_pop_front(&inflight->spares);
    inflight->spare_count -= node != NULL;
    struct concurrency_account *account = node ? LIST_ITEM(node, struct concurrency_account, link)
                                               : mem_alloc(sizeof(*account));
    if (!account)
        return NULL;
    *account = (struct concurrency_account){.id = id};
    list_init(&account->link);
    if (map_put(&inflight->accounts, uuid_slice(&account->id), account, NULL) == OK)
        return account;
    account_give_back(inflight, account);
    return NULL;
}

struct concurrency_account *concurrency_enter(struct concurrency *inflight, struct uuid account_id)
{
    struct concurrency_account *account = map_get(&inflight->accounts, uuid_slice(&account_id));
    if (!share_allows(account ? account->count : 0, inflight->count, inflight->size,
                      inflight->share))
        return NULL;
    if (!account)
        account = account_new(inflight, account_id);
    if (!account)
        return NULL;
    account->count++;
    inflight->count++;
    return account;
}

void concurrency_leave(struct concurrency *inflight, struct concurrency_account *account)
{
    ASSERT(account->count > 0 && inflight->count > 0);
    inflight->count--;
    if (--account->count > 0)
        return;
    (void)map_remove(&inflight->accounts, uuid_slice(&account->id));
    account_give_back(inflight, account);
}
