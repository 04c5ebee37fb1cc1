/*
 * See cache.h.
 */
#include "policy/cache.h"

#include <stdio.h>

#include "base/mem.h"
#include "catalog/catalog.h"

enum {
    COUNT_MAX = 2000,
    BYTES_MAX = 32 * 1024 * 1024, /* of all cached policies, without their memos (3 KB each) */
    TTL_MS = 60 * 60 * 1000,      /* any time would do, since the key has the revision */
    DENIAL_TTL_MS = 5 * 1000,     /* of a failed compile, which may have lacked memory */
    LOAD_ARENA_BYTES_MAX = 4 * 1024 * 1024,
    KEY_FIXED_BYTES = 16 + 8,
};

struct entry {
    struct cache_entry cached; /* its key: account, revision, name */
    int status;                /* ERR_NOTFOUND: the account no longer has it */
    struct policy *policy;
};

struct load {
    struct cache_load under;
    struct pg_query query;
};

struct policy_cache {
    struct cache cache;
    struct pg_pool *pool;
};

static struct entry *entry_of(const struct cache_entry *cached)
{
    return CONTAINER_OF(cached, struct entry, cached);
}

static struct load *load_of(struct cache_load *under)
{
    return CONTAINER_OF(under, struct load, under);
}

static slice key_write(char room[KEY_FIXED_BYTES + POLICY_NAME_MAX], struct uuid account_id,
                       const struct key_policy *key)
{
    slice name = slice_cstr(key->name);
    memcpy(room, account_id.bytes, 16);
    memcpy(room + 16, &key->rev, 8);
    memcpy(room + KEY_FIXED_BYTES, name.ptr, name.len);
    return slice_of(room, KEY_FIXED_BYTES + name.len);
}

static int64_t rev_of(const struct entry *entry)
{
    int64_t rev;
    memcpy(&rev, entry->cached.key.ptr + 16, sizeof(rev));
    return rev;
}

/* ---- loading ---- */

static void load_policy(struct cache_load *under)
{
    struct policy_cache *policies = CONTAINER_OF(under->cache, struct policy_cache, cache);
    slice key = under->entry->key;
    struct uuid account_id;
    memcpy(account_id.bytes, key.ptr, sizeof(account_id.bytes));
    store_policy_get(policies->pool, &load_of(under)->query, &under->op, account_id,
                     slice_from(key, KEY_FIXED_BYTES));
}

/* A text was compiled before it was stored, so one that no longer compiles is of a later version,
 * and what it forbids is not known. */
static struct policy *compile_row(struct op *op, const struct policy_row *row)
{
    char text[POLICY_LABEL_MAX + 1];
    struct catalog_report *report = catalog_report_new(NULL);
    if (!report)
        return policy_unreadable();
    int len = snprintf(text, sizeof(text), "%.*s@%lld", SLICE_ARG(row->name), (long long)row->rev);
    ASSERT(len > 0 && (size_t)len < sizeof(text));
    slice label = slice_of(text, (size_t)len);
    struct policy *policy = policy_compile_text(label, row->body, label, report);
    if (!policy)
        op_log(op, LOG_ERROR, "a policy cannot be compiled, so its keys may do nothing",
               LOG_STR("policy", label),
               LOG_STR("problem", report->count > 0 ? report->problems[0].text : SLICE("")));
    catalog_report_free(report);
    return policy ? policy : policy_unreadable();
}

static uint64_t policy_loaded(struct cache_load *under)
{
    struct entry *entry = entry_of(under->entry);
    struct policy_row row;
    entry->status = store_policy_get_result(&load_of(under)->query, &row);
    if (entry->status != OK)
        return 0;
    entry->policy = compile_row(&under->op, &row);
    if (row.rev != rev_of(entry)) /* the next request has the key's new revision */
        return 0;
    entry->cached.bytes = policy_bytes(entry->policy);
    return entry->policy == policy_unreadable() ? DENIAL_TTL_MS : TTL_MS;
}

static void answer(struct policy_find *find, const struct entry *entry)
{
    bool is_gone = entry->status == ERR_NOTFOUND;
    find->status = is_gone ? OK : entry->status;
    find->policy = is_gone && find->is_named ? policy_denies_all() : policy_ref(entry->policy);
}

static void on_policy_loaded(struct cache_wait *wait, const struct cache_entry *cached)
{
    answer(CONTAINER_OF(wait, struct policy_find, wait), entry_of(cached));
}

static void drop_policy(struct cache_entry *cached)
{
    policy_unref(entry_of(cached)->policy);
}

static const struct cache_class policy_class = {
    CACHE_LOAD("policy_load", struct entry, struct load),
    .arena_bytes_max = LOAD_ARENA_BYTES_MAX,
    .bytes_max = BYTES_MAX,
    .load = load_policy,
    .loaded = policy_loaded,
    .answer = on_policy_loaded,
    .drop = drop_policy,
};

/* ---- finding ---- */

bool policy_cache_find(struct policy_cache *cache, struct policy_find *find, struct uuid account_id,
                       const struct key_policy *key, struct op *op)
{
    char room[KEY_FIXED_BYTES + POLICY_NAME_MAX];
    *find = (struct policy_find){.is_named = key->is_named};
    if (key->rev == 0) {
        find->policy = key->is_named ? policy_denies_all() : NULL;
        return true;
    }
    slice text = key_write(room, account_id, key);
    struct cache_entry *cached = cache_find(&cache->cache, text);
    if (cached) {
        answer(find, entry_of(cached));
        return true;
    }
    find->status = ERR_CLOSED;
    if (cache_await(&cache->cache, text, &find->wait, op))
        return false;
    find->status = ERR_BUSY;
    return true;
}

struct policy_cache *policy_cache_new(struct loop *loop, struct pg_pool *pool)
{
    struct policy_cache *cache = mem_zalloc(sizeof(*cache));
    if (!cache)
        return NULL;
    cache->pool = pool;
    cache_init(&cache->cache, &policy_class, loop, COUNT_MAX);
    return cache;
}

void policy_cache_free(struct policy_cache *cache)
{
    if (!cache)
        return;
    cache_deinit(&cache->cache);
    mem_free(cache);
}
