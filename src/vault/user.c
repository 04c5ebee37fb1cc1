/*
 * The cache of users (loop/cache.h), keyed by the account's id and the user's external id, so that
 * the same external id of two accounts is two entries. Concurrent requests of one user share a
 * query.
 */
#include "vault/user.h"

#include "base/mem.h"

enum {
    USERS_MAX = 1000 * 1000,
    CACHE_MAX = 50000,
    TTL_MS = 30000,
    FIND_ARENA_BYTES_MAX = 64 * 1024,
    CREATE_ARENA_BYTES_MAX = 64 * 1024,
    KEY_BYTES_MAX = 16 + ACCOUNT_USER_ID_MAX,
};

struct entry {
    struct cache_entry cached; /* its key: 16 bytes of the account's id, then the external id */
    int status;
    struct uuid user_id;
};

struct load {
    struct cache_load under;
    struct pg_query query;
};

struct vault_users {
    struct vault_users_config config;
    struct cache cache;
};

static struct load *load_of(struct cache_load *under)
{
    return CONTAINER_OF(under, struct load, under);
}

static void load_user(struct cache_load *under)
{
    struct vault_users *users = CONTAINER_OF(under->cache, struct vault_users, cache);
    slice key = under->entry->key;
    struct uuid account_id;
    ASSERT(key.len > sizeof(account_id.bytes));
    memcpy(account_id.bytes, key.ptr, sizeof(account_id.bytes));
    store_account_user_find(users->config.pool, &load_of(under)->query, &under->op, account_id,
                            slice_from(key, sizeof(account_id.bytes)));
}

/* A user that does not exist may be created at any moment, so only the present waits get that
 * answer. */
static uint64_t user_loaded(struct cache_load *under)
{
    struct vault_users *users = CONTAINER_OF(under->cache, struct vault_users, cache);
    struct entry *entry = CONTAINER_OF(under->entry, struct entry, cached);
    entry->status = store_account_user_result(&load_of(under)->query, &entry->user_id);
    return entry->status == OK ? users->config.ttl_ms : 0;
}

static void answer_check(struct vault_user_check *check, const struct cache_entry *cached)
{
    const struct entry *entry = CONTAINER_OF(cached, const struct entry, cached);
    check->status = entry->status;
    check->user_id = entry->user_id;
}

static void on_user_loaded(struct cache_wait *wait, const struct cache_entry *cached)
{
    answer_check(CONTAINER_OF(wait, struct vault_user_check, wait), cached);
}

static void drop_user(struct cache_entry *cached)
{
    (void)cached; /* it owns nothing */
}

static const struct cache_class user_class = {
    CACHE_LOAD("user_find", struct entry, struct load),
    .arena_bytes_max = FIND_ARENA_BYTES_MAX,
    .load = load_user,
    .loaded = user_loaded,
    .answer = on_user_loaded,
    .drop = drop_user,
};

bool vault_user_find(struct vault_users *users, struct vault_user_check *check,
                     struct uuid account_id, slice external_id, struct op *op)
{
    char room[KEY_BYTES_MAX];
    ASSERT(external_id.len > 0 && external_id.len <= ACCOUNT_USER_ID_MAX);
    slice key = SLICE_JOIN(room, uuid_slice(&account_id), external_id);
    /* the status until the answer arrives, and if the check is cancelled */
    *check = (struct vault_user_check){.status = ERR_CLOSED};
    struct cache_entry *cached = cache_find(&users->cache, key);
    if (cached) {
        answer_check(check, cached);
        return true;
    }
    if (cache_await(&users->cache, key, &check->wait, op))
        return false;
    check->status = ERR_BUSY;
    return true;
}

/* ---- creation ---- */

OP_OF(create_of, vault_user_create)

static enum op_result step_create(struct op *op)
{
    struct vault_user_create *create = create_of(op);
    const struct vault_users_config *config = &create->users->config;
    store_account_user_create(config->pool, &create->query, op, create->account_id,
                              create->external_id, create->user_id, config->users_max);
    return OP_WAIT;
}

/* No row is returned if the account is full. A user that another request has created at the same
 * time is returned in any case. */
static enum op_result step_created(struct op *op)
{
    struct vault_user_create *create = create_of(op);
    create->status = store_account_user_result(&create->query, &create->user_id);
    if (create->status == ERR_NOTFOUND)
        create->status = ERR_LIMIT;
    return OP_DONE;
}

static const struct op_step steps[] = {{"create", step_create, 0}, {"created", step_created, 0}};
static const struct op_class create_class = {.name = "user_create", OP_STEPS(steps)};

void vault_user_create_start(struct vault_users *users, struct vault_user_create *create,
                             struct uuid account_id, slice external_id, struct uuid proposed,
                             struct op *parent)
{
    ASSERT(parent && !uuid_is_nil(account_id) && !uuid_is_nil(proposed));
    *create = (struct vault_user_create){
        .status = ERR_CLOSED,
        .user_id = proposed,
        .users = users,
        .account_id = account_id,
        .external_id = external_id,
    };
    op_start(&create->op, &create_class, parent->loop, parent, CREATE_ARENA_BYTES_MAX);
}

/* ---- life ---- */

size_t vault_users_max(const struct vault_users *users)
{
    return users->config.users_max;
}

struct vault_users *vault_users_new(struct loop *loop, const struct vault_users_config *config)
{
    struct vault_users *users = mem_zalloc(sizeof(*users));
    if (!users)
        return NULL;
    users->config = *config;
    DEFAULT_TO(users->config.users_max, USERS_MAX);
    DEFAULT_TO(users->config.cache_max, CACHE_MAX);
    DEFAULT_TO(users->config.ttl_ms, TTL_MS);
    cache_init(&users->cache, &user_class, loop, users->config.cache_max);
    return users;
}

void vault_users_free(struct vault_users *users)
{
    if (!users)
        return;
    cache_deinit(&users->cache);
    mem_free(users);
}
