/*
 * keyed: see keyed.h. A spare block is linked through its ring, and zeroed when it is reused: an
 * owner never finds data of another account.
 */
#include "base/keyed.h"

#include "base/mem.h"

enum { SPARES_MAX = 64 }; /* limited, so that memory is released after a burst of accounts */

void keyed_init(struct keyed_table *table, size_t size)
{
    ASSERT(size >= sizeof(struct keyed));
    *table = (struct keyed_table){.size = size};
    map_init(&table->map, SIZE_MAX);
    list_init(&table->spares);
}

void keyed_deinit(struct keyed_table *table)
{
    ASSERT(table->map.count == 0);
    LIST_DRAIN(&table->spares, struct keyed, entry, ring)
        mem_free(entry);
    map_deinit(&table->map);
}

static void keyed_give_back(struct keyed_table *table, struct keyed *entry)
{
    if (table->spare_count >= SPARES_MAX) {
        mem_free(entry);
        return;
    }
    table->spare_count++;
    list_push_front(&table->spares, &entry->ring);
}

void *keyed_find(const struct keyed_table *table, slice key)
{
    return map_get(&table->map, key);
}

void *keyed_get(struct keyed_table *table, slice key)
{
    struct keyed *entry = map_get(&table->map, key);
    if (entry)
        return entry;
    struct list *node = list_pop_front(&table->spares);
    table->spare_count -= node != NULL;
    entry = node ? LIST_ITEM(node, struct keyed, ring) : mem_alloc(table->size);
    if (!entry)
        return NULL;
    memset(entry, 0, table->size);
    ASSERT(key.len <= sizeof(entry->key));
    list_init(&entry->ring);
    list_init(&entry->waiting);
    entry->key_len = key.len;
    if (key.len > 0)
        memcpy(entry->key, key.ptr, key.len);
    if (map_put(&table->map, slice_of(entry->key, key.len), entry, NULL) == OK)
        return entry;
    keyed_give_back(table, entry);
    return NULL;
}

void keyed_drop(struct keyed_table *table, struct keyed *entry)
{
    (void)map_remove(&table->map, slice_of(entry->key, entry->key_len));
    list_unlink(&entry->ring);
    keyed_give_back(table, entry);
}
