/*
 * budget: memory of work under way, by account; see budget.h for the rules.
 *
 * The three counters of a use, its account and the budget always change by the same amount, only in
 * charge() and give_back(), so the counter of each level is the sum of the counters below it. They
 * are atomic because arenas grow on pool threads. Relaxed order suffices, because no other memory
 * is published through them: two threads that add at the same moment may exceed a limit a little,
 * which does no harm. Everything else (accounts, overdrafts, callbacks) belongs to the loop's
 * thread.
 */
#include "base/budget.h"

#include "base/share.h"

enum {
    UNIT = 1024, /* shares are compared in units, so that products do not overflow */
    SHARE_OF_SIZE = 4,
};

void budget_init(struct budget *budget, size_t size, size_t share)
{
    *budget = (struct budget){.size = size, .share = share ? share : size / SHARE_OF_SIZE};
    keyed_init(&budget->accounts, sizeof(struct budget_account));
}

void budget_deinit(struct budget *budget)
{
    ASSERT(atomic_load(&budget->used) == 0);
    keyed_deinit(&budget->accounts);
}

/* ---- accounts ---- */

static void account_unref(struct budget *budget, struct budget_account *account)
{
    ASSERT(account->refs > 0);
    if (--account->refs > 0)
        return;
    /* Each use has returned what it was charged (budget_use_end), so an account without uses is
     * at 0. */
    ASSERT(atomic_load(&account->used) == 0);
    /* An account that waits for memory has a waiting use, and that use holds a reference. */
    ASSERT(list_is_empty(&account->keyed.waiting) && list_is_empty(&account->keyed.ring));
    keyed_drop(&budget->accounts, &account->keyed);
}

/* ---- counting ---- */

static void charge(struct budget_use *use, size_t bytes)
{
    atomic_fetch_add_explicit(&use->charged, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&use->account->used, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&use->budget->used, bytes, memory_order_relaxed);
}

static bool is_within_share(const struct budget *budget, const struct budget_account *account)
{
    size_t taken = atomic_load_explicit(&budget->used, memory_order_relaxed);
    size_t used = atomic_load_explicit(&account->used, memory_order_relaxed);
    return share_allows(used / UNIT, taken / UNIT, budget->size / UNIT, budget->share / UNIT);
}

/* Ends the overdraft if the use now fits within the limits; if is_over is set, ends it in any
 * case. */
static void end_overdraft(struct budget_use *use, bool is_over)
{
    struct budget *budget = use->budget;
    struct budget_account *account = use->account;
    if (budget->overdrawn == use && (is_over || atomic_load(&budget->used) <= budget->size))
        budget->overdrawn = NULL;
    if (account->overdrawn == use && (is_over || is_within_share(budget, account)))
        account->overdrawn = NULL;
}

static void give_back(struct budget_use *use, size_t bytes)
{
    struct budget *budget = use->budget;
    /* If more were returned than charged, the unsigned counters would wrap and the budget would
     * stay full. */
    ASSERT(atomic_load_explicit(&use->charged, memory_order_relaxed) >= bytes);
    atomic_fetch_sub_explicit(&use->charged, bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&use->account->used, bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&budget->used, bytes, memory_order_relaxed);
    /* Returned memory may bring an overdraft back within the limits. The next use may then
     * overdraw. */
    if (use->account->overdrawn)
        end_overdraft(use->account->overdrawn, false);
    if (budget->is_awaited && budget->on_returned)
        budget->on_returned(budget);
}

int budget_use_begin(struct budget_use *use, struct budget *budget, struct uuid account_id)
{
    ASSERT(!use->budget);
    struct budget_account *account = keyed_get(&budget->accounts, uuid_slice(&account_id));
    if (!account)
        return ERR_NOMEM;
    account->refs++;
    use->budget = budget;
    use->account = account;
    return OK;
}

void budget_use_end(struct budget_use *use)
{
    struct budget *budget = use->budget;
    if (!budget)
        return;
    size_t charged = atomic_load(&use->charged);
    /* `left` is cleared before the memory is returned: `charged` includes it, so it would be
     * returned twice. */
    atomic_store(&use->left, 0);
    end_overdraft(use, true);
    give_back(use, charged);
    account_unref(budget, use->account);
    use->budget = NULL;
    use->account = NULL;
}

/* Returns whether `bytes` more fit for this account, with `used` bytes of its own and `taken` in
 * total. */
static bool fits(const struct budget *budget, size_t used, size_t taken, size_t bytes)
{
    /* A small request of a small account is granted even while large work has overdrawn the
     * budget; otherwise one greedy account could stop all others. The limit for this is twice
     * the size. */
    if (bytes <= BUDGET_SMALL_BYTES && used <= BUDGET_FREE_BYTES)
        return taken <= 2 * budget->size;
    if (bytes > budget->size / 2) /* a request larger than the budget must be able to begin at
                                   * some time */
        bytes = budget->size / 2;
    if (taken > budget->size || bytes > budget->size - taken)
        return false;
    return used <= BUDGET_FREE_BYTES || share_allows((used + bytes) / UNIT, taken / UNIT,
                                                     budget->size / UNIT, budget->share / UNIT);
}

bool budget_use_take(struct budget_use *use, size_t bytes)
{
    struct budget *budget = use->budget;
    if (!budget)
        return true;
    size_t used = atomic_load_explicit(&use->account->used, memory_order_relaxed);
    size_t taken = atomic_load_explicit(&budget->used, memory_order_relaxed);
    if (!fits(budget, used, taken, bytes))
        return false;
    charge(use, bytes);
    atomic_fetch_add_explicit(&use->left, (long long)bytes, memory_order_relaxed);
    return true;
}

static bool is_others(const struct budget_use *overdrawn, const struct budget_use *use)
{
    return overdrawn && overdrawn != use;
}

bool budget_use_overdraw(struct budget_use *use, size_t bytes)
{
    struct budget *budget = use->budget;
    bool is_past_whole = atomic_load(&budget->used) + bytes > budget->size;
    if (is_others(use->account->overdrawn, use) ||
        (is_past_whole && is_others(budget->overdrawn, use)))
        return false;
    use->account->overdrawn = use;
    if (is_past_whole)
        budget->overdrawn = use;
    charge(use, bytes);
    atomic_fetch_add_explicit(&use->left, (long long)bytes, memory_order_relaxed);
    return true;
}

void budget_use_settle(struct budget_use *use)
{
    long long left = use->budget ? atomic_load(&use->left) : 0;
    /* A pool thread may use up what is left at the same time; only what this thread took to 0 is
     * returned. */
    while (left > 0 && !atomic_compare_exchange_weak(&use->left, &left, 0))
        ;
    if (left > 0)
        give_back(use, (size_t)left);
}

void budget_use_add(struct budget_use *use, size_t bytes)
{
    if (!use->budget)
        return;
    /* The subtraction comes first, and the missing bytes are added after it, so that two threads
     * never use the same bytes of the reserve. Between the two steps `left` may be negative:
     * then another thread is adding its own part, and this one charges everything it wanted. */
    long long wanted = (long long)bytes;
    long long left = atomic_fetch_sub_explicit(&use->left, wanted, memory_order_relaxed);
    if (left >= wanted)
        return;
    size_t missing = (size_t)(left > 0 ? wanted - left : wanted);
    missing = (missing + BUDGET_STEP_BYTES - 1) / BUDGET_STEP_BYTES * BUDGET_STEP_BYTES;
    charge(use, missing);
    atomic_fetch_add_explicit(&use->left, (long long)missing, memory_order_relaxed);
}

void budget_use_remove(struct budget_use *use, size_t bytes)
{
    /* Freed memory stays charged as a reserve of the same use (it is usually needed again at
     * once) until budget_use_settle or the end. So no callback runs here: this may be a pool
     * thread. */
    if (use->budget)
        atomic_fetch_add_explicit(&use->left, (long long)bytes, memory_order_relaxed);
}
