/*
 * See cache.h. An entry is freed once it is no longer in the table and its load has ended.
 */
#include "loop/cache.h"

#include "base/mem.h"

OP_OF(load_of, cache_load)

static const struct cache_class *class_of(const struct cache_load *load)
{
    return CONTAINER_OF(load->op.class, const struct cache_class, op);
}

static uint32_t *epoch_of(struct cache *cache, slice group)
{
    return &cache->epochs[hash_bytes(group.ptr, group.len) % CACHE_EPOCHS];
}

static uint32_t epoch_of_key(struct cache *cache, slice key)
{
    ASSERT(key.len >= cache->class->tail_bytes);
    return *epoch_of(cache, slice_first(key, key.len - cache->class->tail_bytes));
}

static void entry_free(const struct cache_class *class, struct cache_entry *entry)
{
    ASSERT(list_is_empty(&entry->waiting));
    class->drop(entry);
    mem_free(entry);
}

void cache_forget(struct cache *cache, struct cache_entry *entry)
{
    void *removed = map_remove(&cache->table, entry->key);
    ASSERT(removed == entry && entry->is_kept);
    list_unlink(&entry->link);
    entry->is_kept = false;
    if (entry->until_ns > 0)
        cache->bytes -= entry->bytes;
    if (!entry->is_loading)
        entry_free(cache->class, entry);
}

void cache_forget_group(struct cache *cache, slice group)
{
    ++*epoch_of(cache, group);
}

void cache_forget_if(struct cache *cache,
                     bool (*is_meant)(const struct cache_entry *entry, const void *data),
                     const void *data)
{
    LIST_EACH(&cache->by_use, struct cache_entry, entry, link) {
        if (!is_meant || is_meant(entry, data))
            cache_forget(cache, entry);
    }
}

/* Forgets the least recently used entries until there is room for `count` entries and `bytes`
 * more. */
static void make_room(struct cache *cache, size_t count, size_t bytes)
{
    size_t bytes_max = cache->class->bytes_max > 0 ? cache->class->bytes_max : SIZE_MAX;
    while (cache->table.count > 0 &&
           (cache->table.count + count > cache->count_max || cache->bytes + bytes > bytes_max))
        cache_forget(cache, LIST_ITEM(cache->by_use.next, struct cache_entry, link));
}

/* Counts an entry that is filled, or about to be. */
static void entry_ready(struct cache *cache, struct cache_entry *entry, uint64_t good_ms)
{
    entry->until_ns = loop_now_ns(cache->loop) + good_ms * 1000000;
    if (entry->is_kept)
        cache->bytes += entry->bytes;
}

/* ---- a load ---- */

static enum op_result step_load(struct op *op)
{
    struct cache_load *load = load_of(op);
    class_of(load)->load(load);
    return OP_WAIT;
}

static enum op_result step_answer(struct op *op)
{
    struct cache_load *load = load_of(op);
    struct cache_entry *entry = load->entry;
    uint64_t good_ms = class_of(load)->loaded(load);
    entry_ready(load->cache, entry, good_ms);
    if (good_ms == 0 && entry->is_kept)
        cache_forget(load->cache, entry);
    make_room(load->cache, 0, 0);
    LIST_DRAIN(&entry->waiting, struct cache_wait, wait, link) {
        class_of(load)->answer(wait, entry);
        op_wait_end(&wait->wait);
    }
    return OP_DONE;
}

const struct op_step cache_load_steps[2] = {{"load", step_load, 0}, {"answer", step_answer, 0}};

void cache_load_free(struct op *op)
{
    struct cache_load *load = load_of(op);
    list_unlink(&load->link);
    load->entry->is_loading = false;
    if (!load->entry->is_kept)
        entry_free(class_of(load), load->entry);
    mem_free(load);
}

/* Adds the entry to the table, which does not have its key yet. */
static bool entry_keep(struct cache *cache, struct cache_entry *entry, slice key)
{
    make_room(cache, 1, entry->bytes);
    char *bytes = (char *)entry + cache->class->entry_bytes;
    memcpy(bytes, key.ptr, key.len);
    entry->key = slice_of(bytes, key.len);
    entry->epoch = epoch_of_key(cache, key);
    list_init(&entry->link);
    list_init(&entry->waiting);
    if (map_put(&cache->table, entry->key, entry, NULL) != OK)
        return false;
    list_push_back(&cache->by_use, &entry->link);
    return entry->is_kept = true;
}

/* Returns NULL if out of memory. */
static struct cache_entry *start_load(struct cache *cache, slice key, const struct op *op)
{
    const struct cache_class *class = cache->class;
    struct cache_entry *entry = mem_zalloc(class->entry_bytes + key.len);
    struct cache_load *load = mem_zalloc(class->load_bytes);
    if (!entry || !load || !entry_keep(cache, entry, key)) {
        mem_free(entry);
        mem_free(load);
        return NULL;
    }
    entry->is_loading = true;
    load->cache = cache;
    load->entry = entry;
    list_init(&load->link);
    list_push_back(&cache->loads, &load->link);
    op_start(&load->op, &class->op, cache->loop, NULL, class->arena_bytes_max);
    if (op && op->account_id.len > 0) /* it may end before the load */
        load->op.account_id = arena_dup(&load->op.arena, op->account_id);
    return entry;
}

/* ---- lookups ---- */

struct cache_entry *cache_peek(struct cache *cache, slice key)
{
    struct cache_entry *entry = map_get(&cache->table, key);
    if (!entry || entry->epoch == epoch_of_key(cache, key))
        return entry;
    cache_forget(cache, entry);
    return NULL;
}

struct cache_entry *cache_find(struct cache *cache, slice key)
{
    struct cache_entry *entry = cache_peek(cache, key);
    if (!entry || entry->until_ns <= loop_now_ns(cache->loop))
        return NULL;
    list_move_back(&cache->by_use, &entry->link);
    return entry;
}

struct cache_entry *cache_put(struct cache *cache, slice key, size_t bytes, uint64_t good_ms)
{
    ASSERT(cache->class->bytes_max == 0 || bytes <= cache->class->bytes_max);
    struct cache_entry *before = cache_peek(cache, key);
    if (before)
        cache_forget(cache, before);
    struct cache_entry *entry = mem_zalloc(cache->class->entry_bytes + key.len);
    if (entry)
        entry->bytes = bytes;
    if (!entry || !entry_keep(cache, entry, key)) {
        mem_free(entry);
        return NULL;
    }
    entry_ready(cache, entry, good_ms);
    return entry;
}

static void cut_wait(struct op_wait *wait)
{
    cache_wait_stop(CONTAINER_OF(wait, struct cache_wait, wait));
}

bool cache_await(struct cache *cache, slice key, struct cache_wait *wait, struct op *op)
{
    struct cache_entry *entry = cache_peek(cache, key);
    if (entry && entry->until_ns > 0) { /* it has expired */
        cache_forget(cache, entry);
        entry = NULL;
    }
    if (!entry)
        entry = start_load(cache, key, op);
    if (!entry || !wait)
        return entry != NULL;
    list_init(&wait->link);
    list_push_back(&entry->waiting, &wait->link);
    op_wait_begin(op, &wait->wait, cache->class->op.name, cut_wait);
    return true;
}

void cache_wait_stop(struct cache_wait *wait)
{
    if (!wait->link.next || list_is_empty(&wait->link))
        return;
    list_unlink(&wait->link);
    op_wait_end(&wait->wait);
}

/* ---- creation and removal ---- */

void cache_init(struct cache *cache, const struct cache_class *class, struct loop *loop,
                size_t count_max)
{
    ASSERT((!class->load || class->op.free == cache_load_free) && count_max > 0);
    *cache = (struct cache){.loop = loop, .class = class, .count_max = count_max};
    map_init(&cache->table, count_max);
    list_init(&cache->by_use);
    list_init(&cache->loads);
}

void cache_deinit(struct cache *cache)
{
    LIST_DRAIN(&cache->loads, struct cache_load, load, link) {
        ASSERT(list_is_empty(&load->entry->waiting));
        op_cancel(&load->op);
    }
    cache_forget_if(cache, NULL, NULL);
    map_deinit(&cache->table);
}
