/*
 * A token bucket for each account; see account_rate.h. A request costs O(1) whatever the number of
 * accounts: a map finds the bucket by id, and a list in the order of last requests gives the bucket
 * to drop.
 */
#include "limit/account_rate.h"

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"

struct account {
    struct uuid id;
    struct list age_link; /* oldest last request first */
    struct list waiting;  /* struct account_rate_wait.link */
    struct lease lease;
};

struct account_rate {
    int64_t total, burst; /* in millionths */
    struct leases *leases;
    struct map accounts;
    struct list by_age;
};

static slice account_key(const struct account *account)
{
    return uuid_slice(&account->id);
}

/* Lets the waiting requests check again. */
static void let_go(struct account *account)
{
    LIST_EACH(&account->waiting, struct account_rate_wait, wait, link) {
        list_unlink(&wait->link);
        op_release(wait->op);
    }
}

static void on_ask(struct lease *lease)
{
    struct account *account = CONTAINER_OF(lease, struct account, lease);
    lease->backlog = 0;
    LIST_EACH(&account->waiting, struct account_rate_wait, wait, link)
        lease->backlog += wait->count;
}

static void on_answer(struct lease *lease)
{
    let_go(CONTAINER_OF(lease, struct account, lease));
}

static const struct lease_owner lease_owner = {on_ask, on_answer};

static void account_free(struct account_rate *rate, struct account *account)
{
    let_go(account);
    lease_deinit(&account->lease);
    (void)map_remove(&rate->accounts, account_key(account));
    list_unlink(&account->age_link);
    mem_free(account);
}

/* A new account begins with a full burst. */
static struct account *rate_account_new(struct account_rate *rate, struct uuid id, uint64_t now_ns)
{
    if (rate->accounts.count >= ACCOUNT_RATE_ACCOUNTS_MAX)
        account_free(rate, LIST_ITEM(rate->by_age.next, struct account, age_link));
    struct account *account = mem_zalloc(sizeof(*account));
    if (!account)
        return NULL;
    account->id = id;
    list_init(&account->age_link);
    list_init(&account->waiting);
    lease_init(&account->lease, rate->leases, &lease_owner, id, SLICE("requests"));
    lease_set(&account->lease, rate->total, rate->burst, now_ns);
    if (map_put(&rate->accounts, account_key(account), account, NULL) == OK)
        return account;
    lease_deinit(&account->lease);
    mem_free(account);
    return NULL;
}

/* Returns NULL if out of memory; there is then probably no memory for the request either. */
static struct account *account_get(struct account_rate *rate, struct uuid id, uint64_t now_ns)
{
    struct account *account = map_get(&rate->accounts, uuid_slice(&id));
    if (!account)
        account = rate_account_new(rate, id, now_ns);
    if (!account)
        return NULL;
    list_move_back(&rate->by_age, &account->age_link);
    lease_fill(&account->lease, now_ns);
    return account;
}

bool account_rate_awaits(struct account_rate *rate, struct uuid account_id, size_t count,
                         uint64_t now_ns, struct account_rate_wait *wait, struct op *op)
{
    struct account *account = account_get(rate, account_id, now_ns);
    if (!account || lease_wait_ns(&account->lease, (double)count) == 0 ||
        !lease_wants_more(&account->lease, now_ns))
        return false;
    *wait = (struct account_rate_wait){.op = op, .count = count};
    list_init(&wait->link);
    list_push_back(&account->waiting, &wait->link);
    op_hold(op, "its account's rate");
    return true;
}

uint64_t account_rate_take(struct account_rate *rate, struct uuid account_id, uint64_t now_ns)
{
    ASSERT(rate && now_ns > 0);
    struct account *account = account_get(rate, account_id, now_ns);
    if (!account)
        return 0;
    lease_arrive(&account->lease, now_ns);
    uint64_t wait_ns = lease_wait_ns(&account->lease, 1);
    if (wait_ns > 0) /* rounded up, since after 0 ms the request could not be served yet */
        return (wait_ns + 999999) / 1000000;
    lease_spend(&account->lease, 1);
    return 0;
}

struct account_rate *account_rate_new(uint64_t rate_per_s, uint64_t burst, struct leases *leases)
{
    struct account_rate *rate = mem_zalloc(sizeof(*rate));
    if (!rate)
        return NULL;
    ASSERT(rate_per_s > 0);
    rate->leases = leases;
    rate->total = (int64_t)rate_per_s * LEASE_MILLION;
    rate->burst = burst > 0 ? (int64_t)burst * LEASE_MILLION : 2 * rate->total;
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
