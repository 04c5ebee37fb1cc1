/*
 * The cache of keys. An entry is either known (found or not, until it expires), or being loaded:
 * then an op of this room runs the query, and checks wait in the entry's list. Entries in use are
 * never evicted.
 */
#include "vault/auth.h"

#include "base/clock.h"
#include "base/ip.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "store/later.h"
#include "vault/key.h"

enum {
    CACHE_MAX = 10000,
    TTL_MS = 2000,
    NEGATIVE_TTL_MS = 500,
    FETCH_ARENA_MAX = 64 * 1024,
    TOUCH_EVERY_US = 60 * 1000 * 1000,
    TOUCHES_MAX = 1000,
    GUARD_EVERY_MS = 250,
    GUARD_TTL_MS = 30000, /* a guard's entry is valid for longer: changes are notified */
};

static struct metric hit_metric = METRIC_INIT(
    "sluice_auth_cache_total", "Checks of API keys, by how they were answered.", METRIC_COUNTER);

struct entry {
    struct vault_caller caller; /* its hashes are the key in the map */
    struct vault_auth *auth;
    struct list lru;     /* in auth->lru, oldest first, when idle */
    struct list waiters; /* of vault_check */
    bool is_fetching;    /* op is live */
    bool is_stale;       /* flushed meanwhile */
    bool is_orphan;      /* auth is gone; freed with the op */
    uint64_t until_ns;   /* valid until then; 0: to be loaded */
    uint64_t learnt_ns;
    int status;
    bool is_disabled; /* the account, and nothing else refuses the key */
    struct vault_grant grant;
    int64_t expires_at; /* of the key; 0: never */
    int64_t last_used_at;
    struct ip_network *networks; /* that the key is bound to; NULL: none is known */
    size_t network_count;
    struct op op;
    struct pg_query query;
};

struct vault_auth {
    struct loop *loop;
    struct vault_auth_config config;
    size_t cache_max;
    uint64_t ttl_ns, negative_ttl_ns;
    struct map entries;
    struct list lru;
    struct list guards;
    struct timer guard_timer; /* armed while there are any */
    struct store_laters touches;
};

/* ---- entries ---- */

static slice caller_key(const struct vault_caller *caller)
{
    _Static_assert(offsetof(struct vault_caller, session_hash) == API_KEY_HASH_LEN, "one key");
    return slice_of(caller->key_hash, API_KEY_HASH_LEN + SESSION_HASH_LEN);
}

static void entry_free(struct entry *entry)
{
    mem_free(entry->networks);
    mem_free(entry);
}

static void entry_forget(struct entry *entry)
{
    ASSERT(!entry->is_fetching && list_is_empty(&entry->waiters));
    map_remove(&entry->auth->entries, caller_key(&entry->caller));
    list_unlink(&entry->lru);
    entry_free(entry);
}

static void entry_use(struct entry *entry)
{
    list_move_back(&entry->auth->lru, &entry->lru);
}

static struct entry *entry_new(struct vault_auth *auth, const struct vault_caller *caller)
{
    /* Entries that are being fetched are not in the LRU list, so an entry with waiters is
     * never removed here. */
    if (auth->entries.count >= auth->cache_max && !list_is_empty(&auth->lru))
        entry_forget(LIST_ITEM(auth->lru.next, struct entry, lru));
    struct entry *entry = mem_zalloc(sizeof(*entry));
    if (!entry)
        return NULL;
    entry->caller = *caller;
    entry->auth = auth;
    list_init(&entry->lru);
    list_init(&entry->waiters);
    if (map_put(&auth->entries, caller_key(&entry->caller), entry, NULL) == OK)
        return entry;
    mem_free(entry);
    return NULL;
}

/* ---- the answer ---- */

/* An address that is no IP address, as that of a Unix socket, is in no network. */
static bool is_allowed_from(const struct entry *entry, slice address)
{
    uint8_t bytes[16];
    size_t len = ip_parse(address, bytes);
    for (size_t i = 0; i < entry->network_count; i++)
        if (ip_network_holds(&entry->networks[i], bytes, len))
            return true;
    return false;
}

static void check_answer(struct vault_check *check, const struct entry *entry)
{
    check->status = entry->status;
    check->is_disabled = entry->is_disabled;
    check->grant = entry->grant;
    /* A key may expire while its entry is cached, so the clock decides at each use. */
    bool is_over = entry->expires_at && entry->expires_at <= clock_shared_us();
    check->is_elsewhere = check->status == OK && !is_over && entry->grant.is_bound &&
                          check->address.ptr && !is_allowed_from(entry, check->address);
    if (check->status == OK && (is_over || check->is_elsewhere))
        check->status = ERR_REFUSED;
    if (check->status != OK)
        check->grant = (struct vault_grant){.scopes = 0};
}

static void entry_answer_all(struct entry *entry)
{
    LIST_DRAIN(&entry->waiters, struct vault_check, check, link) {
        struct op *op = check->op;
        check_answer(check, entry);
        check->op = NULL;
        op_release(op);
    }
}

/* ---- loading ---- */

OP_OF(entry_of, entry)

static bool has_session(const struct vault_caller *caller)
{
    /* A hash of zeros is no session. */
    static const uint8_t none[SESSION_HASH_LEN];
    return memcmp(caller->session_hash, none, sizeof(none)) != 0;
}

static enum op_result step_find(struct op *op)
{
    struct entry *entry = entry_of(op);
    if (entry->is_orphan)
        return OP_FAIL;
    /* The query keeps pointers to the hashes. They live in the entry, which outlives the op. */
    const struct vault_caller *caller = &entry->caller;
    store_api_key_find(entry->auth->config.pool, &entry->query, op, caller->key_hash,
                       has_session(caller) ? caller->session_hash : NULL);
    return OP_WAIT;
}

/* An entry of the list that is not understood allows nothing. */
static int entry_learn_networks(struct entry *entry, slice words)
{
    if (!words.ptr)
        return OK;
    entry->networks = mem_zalloc(API_KEY_ADDRESSES_MAX * sizeof(*entry->networks));
    if (!entry->networks)
        return ERR_BUSY;
    while (words.len > 0 && entry->network_count < API_KEY_ADDRESSES_MAX) {
        struct ip_network *network = &entry->networks[entry->network_count];
        if (ip_network_parse(slice_split(&words, ' '), network, NULL) == OK)
            entry->network_count++;
    }
    return OK;
}

static void entry_forget_networks(struct entry *entry)
{
    mem_free(entry->networks);
    entry->networks = NULL;
    entry->network_count = 0;
}

/* A key that was not found and one that may not be used look the same from outside. */
static void entry_learn(struct entry *entry)
{
    struct api_key key;
    int rc = store_api_key_find_result(&entry->query, &key);
    entry->grant = (struct vault_grant){.scopes = 0};
    entry->expires_at = 0;
    entry->is_disabled = false;
    entry_forget_networks(entry);
    /* A missing key is a refusal, which may be cached. A failed query says nothing of the
     * key. */
    entry->status = rc == ERR_NOTFOUND ? ERR_REFUSED : rc;
    if (rc != OK)
        return;
    bool is_over = key.expires_at && key.expires_at <= clock_shared_us();
    bool is_session_over =
        has_session(&entry->caller) &&
        (key.is_session_ended || entry->caller.begun_at <= key.sessions_ended_at);
    entry->is_disabled = key.is_account_disabled && !key.revoked_at && !is_over && !is_session_over;
    if (key.revoked_at || key.is_account_disabled || is_over || is_session_over) {
        entry->status = ERR_REFUSED;
        return;
    }
    entry->status = entry_learn_networks(entry, key.addresses);
    if (entry->status != OK)
        return;
    entry->grant =
        (struct vault_grant){key.account_id, key.id, key.scopes, key.addresses.ptr != NULL};
    entry->expires_at = key.expires_at;
    entry->last_used_at = key.last_used_at;
}

struct touch {
    struct store_later later;
    struct vault_grant grant;
    int64_t at;
};

static void send_touch(struct store_later *later)
{
    const struct touch *touch = CONTAINER_OF(later, struct touch, later);
    store_api_key_touch(later->laters->pool, &later->query, &later->op, touch->grant.account_id,
                        touch->grant.key_id, touch->at);
}

/* One that is lost, or has no room, is noted with the key's next loading. */
static void note_use(struct vault_auth *auth, const struct vault_grant *grant, int64_t at)
{
    static const struct store_later_class touch_class = {
        STORE_LATER(store_later_once, "key_use", struct touch),
        .send = send_touch,
    };
    struct touch *touch = store_later(&auth->touches, &touch_class, NULL, 0);
    if (!touch)
        return;
    touch->grant = *grant;
    touch->at = at;
}

static enum op_result step_answer(struct op *op)
{
    struct entry *entry = entry_of(op);
    if (entry->is_orphan)
        return OP_FAIL;
    struct vault_auth *auth = entry->auth;
    entry_learn(entry);
    bool is_known = entry->status == OK || entry->status == ERR_REFUSED;
    if (is_known && entry->is_stale) { /* loaded before the change, and some checks came after it */
        entry->is_stale = false;
        return op_jump(op, 0);
    }
    uint64_t ttl_ns = entry->status == OK ? auth->ttl_ns : auth->negative_ttl_ns;
    entry->learnt_ns = loop_now_ns(auth->loop);
    entry->until_ns = is_known ? entry->learnt_ns + ttl_ns : 0;
    entry_answer_all(entry);
    int64_t now = clock_shared_us();
    if (entry->status == OK && now - entry->last_used_at >= TOUCH_EVERY_US)
        note_use(auth, &entry->grant, now);
    return OP_DONE;
}

static void entry_fetch(struct entry *entry);

static const struct op_step fetch_steps[] = {{"find", step_find, 0},
                                             {"answer", step_answer, OP_TO(0)}};

static void on_fetch_free(struct op *op)
{
    struct entry *entry = entry_of(op);
    entry->is_fetching = false;
    if (entry->is_orphan) {
        entry_free(entry);
        return;
    }
    entry_use(entry);
    if (!list_is_empty(&entry->waiters)) /* asked again since it was answered */
        entry_fetch(entry);
    else if (entry->until_ns == 0)
        entry_forget(entry);
}

static const struct op_class fetch_class = {
    .name = "auth_fetch",
    OP_STEPS(fetch_steps),
    .free = on_fetch_free,
};

static void entry_fetch(struct entry *entry)
{
    ASSERT(!entry->is_fetching);
    entry->is_fetching = true;
    entry->is_stale = false;
    list_unlink(&entry->lru);
    op_start(&entry->op, &fetch_class, entry->auth->loop, NULL, FETCH_ARENA_MAX);
}

/* ---- checks ---- */

static bool refuse_check(struct vault_check *check, int status)
{
    check->status = status;
    check->grant = (struct vault_grant){.scopes = 0};
    return true;
}

bool vault_auth_check(struct vault_auth *auth, struct vault_check *check, slice text, slice address,
                      struct op *op)
{
    struct vault_caller caller = {.begun_at = 0};
    if (vault_key_hash(text, caller.key_hash))
        return vault_auth_check_caller(auth, check, &caller, address, op);
    *check = (struct vault_check){.op = NULL};
    list_init(&check->link);
    return refuse_check(check, ERR_REFUSED);
}

bool vault_auth_check_caller(struct vault_auth *auth, struct vault_check *check,
                             const struct vault_caller *caller, slice address, struct op *op)
{
    *check = (struct vault_check){.caller = *caller, .address = address};
    list_init(&check->link);
    struct entry *entry = map_get(&auth->entries, caller_key(caller));
    if (entry && entry->until_ns > loop_now_ns(auth->loop)) {
        metric_add(metric_series(&hit_metric, SLICE("result=\"hit\"")), 1);
        check_answer(check, entry);
        if (!entry->is_fetching)
            entry_use(entry);
        return true;
    }
    if (!entry)
        entry = entry_new(auth, caller);
    if (!entry)
        return refuse_check(check, ERR_BUSY);
    metric_add(metric_series(&hit_metric, SLICE("result=\"miss\"")), 1);
    check->op = op;
    list_push_back(&entry->waiters, &check->link);
    /* The hold keeps the op from its next step until the answer or vault_auth_cancel
     * releases it. */
    op_hold(op, "auth");
    if (!entry->is_fetching)
        entry_fetch(entry);
    return false;
}

void vault_auth_cancel(struct vault_check *check)
{
    if (!check->op)
        return;
    struct op *op = check->op;
    check->op = NULL;
    check->status = ERR_CLOSED;
    list_unlink(&check->link);
    op_release(op);
}

/* ---- guards ---- */

/* Whether the key is known to be refused. If it is not cached it is loaded, and the answer is there
 * the next time. */
static bool is_refused_now(struct vault_auth *auth, const struct vault_caller *caller)
{
    struct entry *entry = map_get(&auth->entries, caller_key(caller));
    uint64_t ttl_ns = (uint64_t)GUARD_TTL_MS * 1000 * 1000;
    struct vault_check check = {.address = SLICE_NONE}; /* that of an open stream does not change */
    if (entry && entry->until_ns > 0 && loop_now_ns(auth->loop) < entry->learnt_ns + ttl_ns) {
        check_answer(&check, entry);
        return check.status == ERR_REFUSED;
    }
    if (!entry)
        entry = entry_new(auth, caller);
    if (entry && !entry->is_fetching)
        entry_fetch(entry);
    return false;
}

static void on_guards_due(struct timer *timer)
{
    struct vault_auth *auth = CONTAINER_OF(timer, struct vault_auth, guard_timer);
    struct list refused = LIST_INIT(refused);
    LIST_EACH(&auth->guards, struct vault_guard, guard, link) {
        if (!is_refused_now(auth, &guard->caller))
            continue;
        list_unlink(&guard->link);
        /* The callbacks run after the loop: they may start and stop guards, which changes
         * the list. */
        list_push_back(&refused, &guard->link);
    }
    LIST_DRAIN(&refused, struct vault_guard, guard, link) { /* one may stop another */
        guard->auth = NULL;
        guard->on_refused(guard);
    }
    if (!list_is_empty(&auth->guards))
        timer_start_in_ms(&auth->guard_timer, GUARD_EVERY_MS);
}

void vault_guard_start(struct vault_auth *auth, struct vault_guard *guard,
                       const struct vault_caller *caller)
{
    ASSERT(!guard->auth && guard->on_refused);
    guard->caller = *caller;
    guard->auth = auth;
    list_init(&guard->link);
    list_push_back(&auth->guards, &guard->link);
    if (!timer_is_armed(&auth->guard_timer))
        timer_start_in_ms(&auth->guard_timer, GUARD_EVERY_MS);
}

void vault_guard_stop(struct vault_guard *guard)
{
    struct vault_auth *auth = guard->auth;
    if (!auth)
        return;
    guard->auth = NULL;
    list_unlink(&guard->link);
    if (list_is_empty(&auth->guards))
        timer_stop(&auth->guard_timer);
}

static void entry_distrust(struct entry *entry)
{
    entry->until_ns = 0;
    /* An answer that is on its way may be older than the change, so it is fetched once more. */
    entry->is_stale = true;
}

/* The account is not known of a key that is being loaded for the first time, or that was refused.
 */
void vault_auth_forget(struct vault_auth *auth, struct uuid account_id)
{
    MAP_EACH(&auth->entries, slot) {
        struct entry *entry = slot->value;
        bool is_known = entry->until_ns > 0 && entry->status == OK;
        if (!is_known || uuid_eq(entry->grant.account_id, account_id))
            entry_distrust(entry);
    }
}

void vault_auth_changed(struct vault_auth *auth, struct uuid account_id)
{
    vault_auth_forget(auth, account_id);
    if (auth->config.on_changed)
        auth->config.on_changed(auth->config.owner, account_id, SLICE_NONE);
}

void vault_auth_flush(struct vault_auth *auth)
{
    MAP_EACH(&auth->entries, slot)
        entry_distrust(slot->value);
}

struct pg_pool *vault_auth_pool(const struct vault_auth *auth)
{
    return auth->config.pool;
}

struct vault_auth *vault_auth_new(struct loop *loop, const struct vault_auth_config *config)
{
    struct vault_auth *auth = mem_zalloc(sizeof(*auth));
    if (!auth)
        return NULL;
    auth->loop = loop;
    auth->config = *config;
    auth->cache_max = config->cache_max ? config->cache_max : CACHE_MAX;
    auth->ttl_ns = (uint64_t)(config->ttl_ms ? config->ttl_ms : TTL_MS) * 1000 * 1000;
    auth->negative_ttl_ns =
        (uint64_t)(config->negative_ttl_ms ? config->negative_ttl_ms : NEGATIVE_TTL_MS) * 1000 *
        1000;
    /* entries that are asked for are never evicted and may go past the limit for a moment */
    map_init(&auth->entries, 2 * auth->cache_max + 1000);
    list_init(&auth->lru);
    list_init(&auth->guards);
    timer_init(&auth->guard_timer, loop, on_guards_due);
    store_laters_init(&auth->touches, loop, config->pool, TOUCHES_MAX);
    return auth;
}

void vault_auth_free(struct vault_auth *auth)
{
    if (!auth)
        return;
    ASSERT(list_is_empty(&auth->guards));
    timer_stop(&auth->guard_timer);
    store_laters_deinit(&auth->touches);
    MAP_EACH(&auth->entries, slot) {
        struct entry *entry = slot->value;
        ASSERT(list_is_empty(&entry->waiters));
        list_unlink(&entry->lru);
        /* The op of a fetch outlives this function. It frees the orphaned entry when it
         * ends. */
        entry->is_orphan = true;
        if (entry->is_fetching)
            op_cancel(&entry->op);
        else
            entry_free(entry);
    }
    map_deinit(&auth->entries);
    mem_free(auth);
}
