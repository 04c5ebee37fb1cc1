/*
 * See session.h. An entry is one block: the struct, the key, the session.
 */
#include "tls/session.h"

#include "base/mem.h"

struct session_entry {
    struct list link;
    slice key, bytes; /* both inside this block */
    size_t size;
    int64_t good_until_s;
    char data[];
};

void tls_sessions_init(struct tls_sessions *sessions, size_t count_max)
{
    ASSERT(count_max > 0);
    map_init(&sessions->by_key, count_max);
    list_init(&sessions->by_use);
    sessions->count_max = count_max;
}

static void entry_drop(struct tls_sessions *sessions, struct session_entry *entry)
{
    void *removed = map_remove(&sessions->by_key, entry->key);
    ASSERT(removed == entry);
    list_unlink(&entry->link);
    mem_wipe(entry, entry->size);
    mem_free(entry);
}

void tls_sessions_deinit(struct tls_sessions *sessions)
{
    while (!list_is_empty(&sessions->by_use))
        entry_drop(sessions, LIST_ITEM(sessions->by_use.next, struct session_entry, link));
    map_deinit(&sessions->by_key);
}

slice tls_sessions_get(struct tls_sessions *sessions, slice key, int64_t now_wall_s,
                       int64_t *good_until_s)
{
    struct session_entry *entry = map_get(&sessions->by_key, key);
    if (!entry)
        return SLICE_NONE;
    if (now_wall_s >= entry->good_until_s) {
        entry_drop(sessions, entry);
        return SLICE_NONE;
    }
    list_move_back(&sessions->by_use, &entry->link);
    *good_until_s = entry->good_until_s;
    return entry->bytes;
}

static struct session_entry *entry_new(slice key, slice bytes, int64_t good_until_s)
{
    size_t size = sizeof(struct session_entry) + key.len + bytes.len;
    struct session_entry *entry = mem_alloc(size);
    if (!entry)
        return NULL;
    list_init(&entry->link);
    entry->size = size;
    entry->good_until_s = good_until_s;
    memcpy(entry->data, key.ptr, key.len);
    memcpy(entry->data + key.len, bytes.ptr, bytes.len);
    entry->key = slice_of(entry->data, key.len);
    entry->bytes = slice_of(entry->data + key.len, bytes.len);
    return entry;
}

void tls_sessions_put(struct tls_sessions *sessions, slice key, slice bytes, int64_t good_until_s)
{
    if (key.len == 0 || key.len > TLS_SESSION_KEY_MAX || bytes.len == 0 ||
        bytes.len > TLS_SESSION_BYTES_MAX)
        return;
    tls_sessions_drop(sessions, key);
    if (sessions->by_key.count == sessions->count_max)
        entry_drop(sessions, LIST_ITEM(sessions->by_use.next, struct session_entry, link));
    struct session_entry *entry = entry_new(key, bytes, good_until_s);
    if (!entry)
        return;
    if (map_put(&sessions->by_key, entry->key, entry, NULL) == OK) {
        list_push_back(&sessions->by_use, &entry->link);
        return;
    }
    mem_wipe(entry, entry->size);
    mem_free(entry);
}

void tls_sessions_drop(struct tls_sessions *sessions, slice key)
{
    struct session_entry *entry = map_get(&sessions->by_key, key);
    if (entry)
        entry_drop(sessions, entry);
}
