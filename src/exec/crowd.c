/*
 * Executions in flight by account; see crowd.h.
 */
#include "exec/crowd.h"

#include "base/mem.h"
#include "base/share.h"

enum { SPARES_MAX = 64 };

struct crowd_account {
    struct uuid id;
    size_t count;
    struct list link; /* among the spare ones */
};

static slice key_of(const struct uuid *id)
{
    return slice_of((const char *)id->bytes, sizeof(id->bytes));
}

void crowd_init(struct crowd *crowd, size_t size, size_t share)
{
    *crowd = (struct crowd){.size = size, .share = share ? share : share_default(size)};
    map_init(&crowd->accounts, size + 1);
    list_init(&crowd->spares);
}

void crowd_deinit(struct crowd *crowd)
{
    struct list *node;
    ASSERT(crowd->count == 0 && crowd->accounts.count == 0);
    while ((node = list_pop_front(&crowd->spares)))
        mem_free(LIST_ITEM(node, struct crowd_account, link));
    map_deinit(&crowd->accounts);
}

static void account_give_back(struct crowd *crowd, struct crowd_account *account)
{
    if (crowd->spare_count >= SPARES_MAX) {
        mem_free(account);
        return;
    }
    crowd->spare_count++;
    list_push_front(&crowd->spares, &account->link);
}

static struct crowd_account *account_new(struct crowd *crowd, struct uuid id)
{
    struct list *node = list_pop_front(&crowd->spares);
    crowd->spare_count -= node != NULL;
    struct crowd_account *account = node ? LIST_ITEM(node, struct crowd_account, link)
                                         : mem_alloc(sizeof(*account));
    if (!account)
        return NULL;
    *account = (struct crowd_account){.id = id};
    list_init(&account->link);
    if (map_put(&crowd->accounts, key_of(&account->id), account, NULL) == OK)
        return account;
    account_give_back(crowd, account);
    return NULL;
}

struct crowd_account *crowd_enter(struct crowd *crowd, struct uuid account_id)
{
    struct crowd_account *account = map_get(&crowd->accounts, key_of(&account_id));
    if (!share_allows(account ? account->count : 0, crowd->count, crowd->size, crowd->share))
        return NULL;
    if (!account)
        account = account_new(crowd, account_id);
    if (!account)
        return NULL;
    account->count++;
    crowd->count++;
    return account;
}

void crowd_leave(struct crowd *crowd, struct crowd_account *account)
{
    ASSERT(account->count > 0 && crowd->count > 0);
    crowd->count--;
    if (--account->count > 0)
        return;
    (void)map_remove(&crowd->accounts, key_of(&account->id));
    account_give_back(crowd, account);
}
