/*
 * See store.h.
 */
#include "provider/store.h"

#include "base/mem.h"

enum { RECORD_BYTES_MAX = 256 * 1024 * 1024, RECORDS_MAX = 1000000 };

void store_init(struct store *store, size_t made_max)
{
    *store = (struct store){.made_max = made_max};
    map_init(&store->records, RECORDS_MAX);
    list_init(&store->roots);
    list_init(&store->order);
    list_init(&store->made);
}

void store_deinit(struct store *store)
{
    while (store->roots.next && !list_is_empty(&store->roots))
        record_free(store, LIST_ITEM(store->roots.next, struct record, sibling_link));
    ASSERT(!store->records.count);
    map_deinit(&store->records);
}

struct record *store_find(const struct store *store, slice id)
{
    return map_get(&store->records, id);
}

void store_evict(struct store *store)
{
    while (store->made_count > store->made_max)
        record_free(store, LIST_ITEM(store->made.next, struct record, made_link));
}

struct record *record_new(struct store *store, slice id, unsigned kind, struct record *parent,
                          bool is_made)
{
    struct record *record = mem_zalloc(sizeof(*record));
    void *old = NULL;
    ASSERT(record && id.len <= RECORD_ID_MAX);
    memcpy(record->id, id.ptr, id.len);
    ASSERT(map_put(&store->records, slice_cstr(record->id), record, &old) == OK && !old);
    record->kind = kind;
    record->json = json_object();
    arena_init(&record->arena, RECORD_BYTES_MAX);
    list_init(&record->sibling_link);
    list_init(&record->children);
    list_init(&record->order_link);
    list_init(&record->made_link);
    record_move(store, record, parent, NULL);
    if (is_made)
        list_push_back(&store->made, &record->made_link);
    store->made_count += is_made;
    return record;
}

void record_set(struct record *record, const struct json *object, slice label)
{
    struct arena fresh;
    arena_init(&fresh, RECORD_BYTES_MAX);
    const struct json *copy = json_dup(&fresh, object);
    label = arena_dup(&fresh, label);
    ASSERT(copy && !fresh.is_exhausted);
    arena_deinit(&record->arena);
    record->arena = fresh;
    record->json = *copy;
    record->label = label;
}

void record_move(struct store *store, struct record *record, struct record *parent,
                 struct list *before)
{
    struct list *at = before ? before : parent ? &parent->children : &store->roots;
    if (at == &record->sibling_link)
        at = at->next;
    list_unlink(&record->sibling_link);
    record->parent = parent;
    list_push_back(at, &record->sibling_link);
}

void record_free(struct store *store, struct record *record)
{
    while (!list_is_empty(&record->children))
        record_free(store, LIST_ITEM(record->children.next, struct record, sibling_link));
    store->made_count -= !list_is_empty(&record->made_link);
    list_unlink(&record->sibling_link);
    list_unlink(&record->order_link);
    list_unlink(&record->made_link);
    map_remove(&store->records, slice_cstr(record->id));
    arena_deinit(&record->arena);
    mem_free(record);
}
