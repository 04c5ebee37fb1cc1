/*
 * A token bucket an account; see account_rate.h. A request costs O(1) whatever the number of
 * accounts: a map by id, and a list by last request for the one to drop.
 */
#include "api/account_rate.h"

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/token_bucket.h"

struct account {
    struct uuid id;
    struct list age_link; /* oldest last request first */
    struct token_bucket tokens;
};

struct account_rate {
    double rate_per_s, burst;
    struct map accounts;
    struct list by_age;
};

static slice account_key(const struct account *account)
{
    return uuid_slice(&account->id);
}

static void account_free(struct account_rate *rate, struct account *account)
{
    (void)map_remove(&rate->accounts, account_key(account));
    list_unlink(&account->age_link);
    mem_free(account);
}

static struct account *rate_account_new(struct account_rate *rate, struct uuid id, uint64_t now_ns)
{
    if (rate->accounts.count >= ACCOUNT_RATE_ACCOUNTS_MAX)
        account_free(rate, LIST_ITEM(rate->by_age.next, struct account, age_link));
    struct account *account = mem_zalloc(sizeof(*account));
    if (!account)
        return NULL;
    account->id = id;
    list_init(&account->age_link);
    token_bucket_init(&account->tokens, rate->burst, now_ns);
    if (map_put(&rate->accounts, account_key(account), account, NULL) == OK)
        return account;
    mem_free(account);
    return NULL;
}

uint64_t account_rate_take(struct account_rate *rate, struct uuid account_id, uint64_t now_ns)
{
    ASSERT(rate && now_ns > 0);
    struct account *account = map_get(&rate->accounts, uuid_slice(&account_id));
    if (!account)
        account = rate_account_new(rate, account_id, now_ns);
    if (!account) /* no memory to count with, and most likely none for the request */
        return 0;
    list_move_back(&rate->by_age, &account->age_link);
    token_bucket_fill(&account->tokens, rate->rate_per_s, rate->burst, now_ns);
    uint64_t wait_ns = token_bucket_wait_ns(&account->tokens, rate->rate_per_s, 1);
    if (wait_ns > 0) /* rounded up: after 0 ms it could not be served yet */
        return (wait_ns + 999999) / 1000000;
    account->tokens.tokens -= 1;
    return 0;
}

struct account_rate *account_rate_new(uint64_t rate_per_s, uint64_t burst)
{
    struct account_rate *rate = mem_zalloc(sizeof(*rate));
    if (!rate)
        return NULL;
    ASSERT(rate_per_s > 0);
    rate->rate_per_s = (double)rate_per_s;
    rate->burst = burst > 0 ? (double)burst : 2 * (double)rate_per_s;
    map_init(&rate->accounts, ACCOUNT_RATE_ACCOUNTS_MAX);
    list_init(&rate->by_age);
    return rate;
}

void account_rate_free(struct account_rate *rate)
{
    if (!rate)
        return;
    while (!list_is_empty(&rate->by_age))
        account_free(rate, LIST_ITEM(rate->by_age.next, struct account, age_link));
    map_deinit(&rate->accounts);
    mem_free(rate);
}
