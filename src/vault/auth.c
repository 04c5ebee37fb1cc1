/*
 * The cache of keys (loop/cache.h). An entry is the state of a key, or of a session that the key
 * opened. A session has its own entry, since it may be refused while its key is valid; so an
 * entry's key is all that a load needs. Entries have no groups: the account of a key is known only
 * once the key is loaded, so a change walks all entries.
 */
#include "vault/auth.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/ip.h"
#include "base/mem.h"
#include "base/metric.h"
#include "store/account_user.h"
#include "store/later.h"
#include "vault/key.h"
#include "vault/user.h"

enum {
    CACHE_MAX = 10000,
    TTL_MS = 2000,
    NEGATIVE_TTL_MS = 500,
    FETCH_ARENA_MAX = 64 * 1024,
    TOUCH_EVERY_US = 60 * 1000 * 1000,
    TOUCHES_MAX = 1000,
    GUARD_EVERY_MS = 250,
    GUARD_TTL_MS = 30000, /* a guard's entry is valid for longer, because changes are notified */
};

static struct metric hit_metric = METRIC_INIT(
    "sluice_auth_cache_total", "Checks of API keys, by how they were answered.", METRIC_COUNTER);

struct entry {
    struct cache_entry cached; /* its key is a struct vault_caller */
    uint64_t learnt_ns;        /* a guard trusts the entry for longer than a check does */
    int status;
    bool is_disabled; /* the account is disabled, and nothing else refuses the key */
    struct vault_grant grant;
    int64_t expires_at;          /* when the key expires; 0: never */
    char *user;                  /* of a user's key: the account's id for that user; else NULL */
    struct ip_network *networks; /* networks that the key is bound to; NULL: none */
    size_t network_count;
};

struct load {
    struct cache_load under;
    struct pg_query query;
};

struct vault_auth {
    struct loop *loop;
    struct vault_auth_config config;
    struct cache keys;
    struct list guards;
    struct timer guard_timer; /* armed while there are guards */
    struct store_laters touches;
};

static slice caller_key(const struct vault_caller *caller)
{
    return slice_of(caller, sizeof(*caller));
}

_Static_assert(sizeof(struct vault_caller) == API_KEY_HASH_LEN + SESSION_HASH_LEN + sizeof(int64_t),
               "a key of the cache must not have padding");

static const struct vault_caller *caller_of(const struct cache_entry *cached)
{
    return (const void *)cached->key.ptr;
}

/* ---- the answer ---- */

/* An address that is not an IP address, such as that of a Unix socket, is in no network. */
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
    if (entry->user)
        (void)snprintf(check->user, sizeof(check->user), "%s", entry->user);
    /* A key may expire while its entry is cached, so the clock decides at each use. */
    bool is_over = entry->expires_at && entry->expires_at <= clock_shared_us();
    check->is_elsewhere = check->status == OK && !is_over && entry->grant.is_bound &&
                          check->address.ptr && !is_allowed_from(entry, check->address);
    if (check->status == OK && (is_over || check->is_elsewhere))
        check->status = ERR_REFUSED;
    if (check->status != OK)
        check->grant = (struct vault_grant){.scopes = 0};
}

static void on_key_loaded(struct cache_wait *wait, const struct cache_entry *cached)
{
    check_answer(CONTAINER_OF(wait, struct vault_check, wait),
                 CONTAINER_OF(cached, const struct entry, cached));
}

/* ---- loading ---- */

static bool has_session(const struct vault_caller *caller)
{
    /* A hash of zeros means no session. */
    static const uint8_t none[SESSION_HASH_LEN];
    return memcmp(caller->session_hash, none, sizeof(none)) != 0;
}

static struct pg_query *query_of(struct cache_load *under)
{
    return &CONTAINER_OF(under, struct load, under)->query;
}

/* The query keeps pointers to the hashes. They are in the entry, which outlives the op. */
static void load_key(struct cache_load *under)
{
    struct vault_auth *auth = CONTAINER_OF(under->cache, struct vault_auth, keys);
    const struct vault_caller *caller = caller_of(under->entry);
    store_api_key_find(auth->config.pool, query_of(under), &under->op, caller->key_hash,
                       has_session(caller) ? caller->session_hash : NULL);
}

/* A malformed entry of the list matches no address. */
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

struct touch {
    struct store_later later;
    struct vault_grant grant;
    int64_t at;
};

/* The first use of a user's key in an hour is a request of that user, too: no look-up of the user
 * notes it. */
static void note_user(struct vault_auth *auth, const struct api_key *key, int64_t now)
{
    static const int64_t hour_us = (int64_t)ACCOUNT_USER_REQUEST_S * 1000000;
    if (key->external_id.ptr && now / hour_us != key->last_used_at / hour_us)
        vault_user_note(&auth->touches, key->account_id, key->external_id);
}

static void send_touch(struct store_later *later)
{
    const struct touch *touch = CONTAINER_OF(later, struct touch, later);
    store_api_key_touch(later->laters->pool, &later->query, &later->op,
                        vault_grant_payer(&touch->grant), touch->grant.key_id, touch->at);
}

/* A record that is lost, or for which there is no room, is written with the key's next load. */
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

/* A user's key is used only with its user's id. */
static int entry_learn_user(struct entry *entry, slice user)
{
    if (!user.ptr)
        return OK;
    entry->user = mem_zalloc(user.len + 1);
    if (!entry->user)
        return ERR_BUSY;
    memcpy(entry->user, user.ptr, user.len);
    return OK;
}

/* Checks whether a key that was found may be used. A key that has expired by now is cached as
 * refused; a key that expires while it is cached is refused by check_answer. */
static int check_key(struct entry *entry, const struct api_key *key)
{
    const struct vault_caller *caller = caller_of(&entry->cached);
    bool is_over = key->expires_at && key->expires_at <= clock_shared_us();
    bool is_session_over = has_session(caller) &&
                           (key->is_session_ended || caller->begun_at <= key->sessions_ended_at);
    /* Keys of no account are the operator's, which have only that scope and are bound to
     * addresses; no other row can have it. */
    bool is_operator = (key->scopes & SCOPE_OPERATOR) != 0;
    bool is_unowned = is_operator != uuid_is_nil(key->account_id) ||
                      (is_operator && (key->scopes != SCOPE_OPERATOR || !key->addresses.ptr));
    bool is_refused = key->revoked_at || is_over || is_session_over || is_unowned;
    entry->is_disabled = key->is_account_disabled && !is_refused;
    if (is_refused || key->is_account_disabled)
        return ERR_REFUSED;
    int rc = entry_learn_networks(entry, key->addresses);
    return rc == OK ? entry_learn_user(entry, key->external_id) : rc;
}

/* A key that was not found and one that may not be used look the same to the caller. */
static uint64_t key_loaded(struct cache_load *under)
{
    struct vault_auth *auth = CONTAINER_OF(under->cache, struct vault_auth, keys);
    struct entry *entry = CONTAINER_OF(under->entry, struct entry, cached);
    struct api_key key;
    int rc = store_api_key_find_result(query_of(under), &key);
    entry->learnt_ns = loop_now_ns(auth->loop);
    entry->status = rc == OK ? check_key(entry, &key) : rc == ERR_NOTFOUND ? ERR_REFUSED : rc;
    if (entry->status !=
        OK) /* a refusal may be cached; a failed query has no information about the key */
        return entry->status == ERR_REFUSED ? auth->config.negative_ttl_ms : 0;
    bool is_of_user = !uuid_is_nil(key.user_id);
    entry->grant = (struct vault_grant){
        .account_id = is_of_user ? key.user_id : key.account_id,
        .parent_id = is_of_user ? key.account_id : (struct uuid){{0}},
        .key_id = key.id,
        .line = key.line,
        .scopes = key.scopes,
        .is_bound = key.addresses.ptr != NULL,
        .is_of_user = is_of_user,
        .is_formless = key.forms.ptr != NULL,
        .unattended = vault_unattended_parse(key.unattended_writes),
        .policy = store_key_policy(key.policy, key.policy_rev),
    };
    entry->expires_at = key.expires_at;
    /* Once per load: a key that is used continuously is loaded every ttl_ms. */
    int64_t now = clock_shared_us();
    if (now - key.last_used_at >= TOUCH_EVERY_US) {
        note_use(auth, &entry->grant, now);
        note_user(auth, &key, now);
    }
    return auth->config.ttl_ms;
}

static void drop_key(struct cache_entry *cached)
{
    struct entry *entry = CONTAINER_OF(cached, struct entry, cached);
    mem_free(entry->networks);
    mem_free(entry->user);
}

static const struct cache_class key_class = {
    CACHE_LOAD("auth_fetch", struct entry, struct load),
    .arena_bytes_max = FETCH_ARENA_MAX,
    .load = load_key,
    .loaded = key_loaded,
    .answer = on_key_loaded,
    .drop = drop_key,
};

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
    *check = (struct vault_check){.status = OK};
    return refuse_check(check, ERR_REFUSED);
}

bool vault_auth_check_caller(struct vault_auth *auth, struct vault_check *check,
                             const struct vault_caller *caller, slice address, struct op *op)
{
    *check = (struct vault_check){.caller = *caller, .address = address};
    struct cache_entry *cached = cache_find(&auth->keys, caller_key(caller));
    if (cached) {
        metric_add(metric_series(&hit_metric, SLICE("result=\"hit\"")), 1);
        check_answer(check, CONTAINER_OF(cached, struct entry, cached));
        return true;
    }
    if (!cache_await(&auth->keys, caller_key(caller), &check->wait, op))
        return refuse_check(check, ERR_BUSY);
    metric_add(metric_series(&hit_metric, SLICE("result=\"miss\"")), 1);
    /* the status until the answer arrives, and if the check is cancelled */
    check->status = ERR_CLOSED;
    return false;
}

/* ---- guards ---- */

/* Returns whether the key is known to be refused, or to have another policy. If it is not cached,
 * it is loaded, and the answer is available in the next round. */
static bool is_refused_now(struct vault_auth *auth, struct vault_guard *guard)
{
    const struct vault_caller *caller = &guard->caller;
    struct cache_entry *cached = cache_peek(&auth->keys, caller_key(caller));
    struct entry *entry = cached ? CONTAINER_OF(cached, struct entry, cached) : NULL;
    uint64_t ttl_ns = (uint64_t)GUARD_TTL_MS * 1000 * 1000;
    struct vault_check check = {.address = SLICE_NONE}; /* the address of an open stream does not
                                                         * change */
    if (entry && cached->until_ns > 0) {
        check_answer(&check, entry);
        guard->has_other_policy = check.status == OK && check.grant.policy.rev != guard->policy_rev;
        if (loop_now_ns(auth->loop) < entry->learnt_ns + ttl_ns)
            return check.status == ERR_REFUSED || guard->has_other_policy;
        cache_forget(&auth->keys, cached);
    }
    (void)!cache_await(&auth->keys, caller_key(caller), NULL, NULL);
    return false;
}

static void on_guards_due(struct timer *timer)
{
    struct vault_auth *auth = CONTAINER_OF(timer, struct vault_auth, guard_timer);
    struct list refused = LIST_INIT(refused);
    LIST_EACH(&auth->guards, struct vault_guard, guard, link) {
        if (!is_refused_now(auth, guard))
            continue;
        list_unlink(&guard->link);
        /* The callbacks run after the loop: they may start and stop guards, which changes
         * the list. */
        list_push_back(&refused, &guard->link);
    }
    LIST_DRAIN(&refused, struct vault_guard, guard, link) { /* a callback may stop another guard */
        guard->auth = NULL;
        guard->on_refused(guard);
    }
    if (!list_is_empty(&auth->guards))
        timer_start_in_ms(&auth->guard_timer, GUARD_EVERY_MS);
}

void vault_guard_start(struct vault_auth *auth, struct vault_guard *guard,
                       const struct vault_check *check)
{
    ASSERT(!guard->auth && guard->on_refused);
    guard->caller = check->caller;
    guard->policy_rev = check->grant.policy.rev;
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

static bool may_be_of(const struct cache_entry *cached, const void *account_id)
{
    const struct entry *entry = CONTAINER_OF(cached, const struct entry, cached);
    bool is_known = cached->until_ns > 0 && entry->status == OK;
    struct uuid of = vault_grant_payer(&entry->grant), user = entry->grant.account_id;
    return !is_known || memcmp(of.bytes, account_id, sizeof(of.bytes)) == 0 ||
           memcmp(user.bytes, account_id, sizeof(user.bytes)) == 0;
}

/* The account of a key is unknown while it is being loaded, or if it was refused. */
void vault_auth_forget(struct vault_auth *auth, struct uuid account_id)
{
    cache_forget_if(&auth->keys, may_be_of, account_id.bytes);
}

void vault_auth_changed(struct vault_auth *auth, struct uuid account_id)
{
    vault_auth_forget(auth, account_id);
    if (auth->config.on_changed)
        auth->config.on_changed(auth->config.owner, account_id, SLICE_NONE);
}

/* Processes drop what they have cached of the account as if it were a user of its own. At most one
 * user is dropped from their caches by the name. */
void vault_auth_erasing(struct vault_auth *auth, struct uuid account_id)
{
    const struct account_user account = {
        .account_id = account_id, .user_id = account_id, .external_id = SLICE("*")};
    vault_auth_changed(auth, account_id);
    if (auth->config.on_erasing)
        auth->config.on_erasing(auth->config.owner, &account);
}

void vault_auth_flush(struct vault_auth *auth)
{
    cache_forget_if(&auth->keys, NULL, NULL);
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
    DEFAULT_TO(auth->config.cache_max, CACHE_MAX);
    DEFAULT_TO(auth->config.ttl_ms, TTL_MS);
    DEFAULT_TO(auth->config.negative_ttl_ms, NEGATIVE_TTL_MS);
    cache_init(&auth->keys, &key_class, loop, auth->config.cache_max);
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
    cache_deinit(&auth->keys);
    mem_free(auth);
}
