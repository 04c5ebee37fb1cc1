/*
 * cache: values loaded by key, kept for some time. All requests for a key while its load is under
 * way share that load.
 *
 * An entry is one load and its result. It stays in the table until it expires, until it is dropped
 * because its source has changed, or until another entry needs room and this is the least recently
 * used one. If its load is still under way then, the load answers only the waits that began before;
 * a later wait starts another load. So a value that was loaded before a change is never used for a
 * wait that began after it.
 *
 * Entries and loads are structs of the owner that begin with the structs declared here. The owner
 * embeds the cache in its own struct. The table has at most count_max entries, which take at most
 * bytes_max bytes.
 *
 * An owner that learns values elsewhere adds them with cache_put.
 */
#ifndef LOOP_CACHE_H
#define LOOP_CACHE_H

#include "base/map.h"
#include "loop/op.h"

enum { CACHE_EPOCHS = 4096 };

struct cache_class;

struct cache {
    struct loop *loop;
    const struct cache_class *class;
    size_t count_max;
    size_t bytes; /* of the entries in the table */
    struct map table;
    struct list by_use; /* entries in the table, least recently used first */
    struct list loads;  /* under way */
    /* Counts changes by group. The table has a fixed size, so that groups without an entry need
     * no memory; if two groups share a counter, a change costs one more load. */
    uint32_t epochs[CACHE_EPOCHS];
};

struct cache_entry {
    slice key;         /* stored in this block after the struct, so that the struct stays aligned */
    uint64_t until_ns; /* 0: being loaded */
    size_t bytes;      /* counted against class->bytes_max; set by `loaded` and cache_put */
    /* private */
    uint32_t epoch; /* epoch of the entry's group when the load began */
    bool is_kept, is_loading;
    struct list link, waiting;
};

struct cache_load {
    struct op op;
    struct cache *cache;
    struct cache_entry *entry;
    struct list link;
};

/* Embedded in the struct that waits for the answer. */
struct cache_wait {
    struct op_wait wait;
    struct list link;
};

struct cache_class {
    struct op_class op; /* CACHE_LOAD, unless all entries are put */
    size_t entry_bytes, load_bytes;
    size_t bytes_max;       /* 0: no limit */
    size_t arena_bytes_max; /* limit of a load's op */
    size_t tail_bytes;      /* bytes at the end of a key that are not part of its group */
    /* Sends the request that loads the entry. The request holds load->op. */
    void (*load)(struct cache_load *load);
    /* Called when the load has ended: fills the entry. Returns how many ms it is valid; 0: only for
     * the present waits, as after a failed load. */
    uint64_t (*loaded)(struct cache_load *load);
    void (*answer)(struct cache_wait *wait, const struct cache_entry *entry);
    /* Frees the contents of the entry, but not the entry. The cache's owner may already have been
     * freed. */
    void (*drop)(struct cache_entry *entry);
};

extern const struct op_step cache_load_steps[2];
void cache_load_free(struct op *op);
#define CACHE_LOAD(name_, entry_type, load_type)                                                  \
    .op = {.name = (name_), .steps = cache_load_steps, .step_count = 2, .free = cache_load_free}, \
    .entry_bytes = sizeof(entry_type), .load_bytes = sizeof(load_type)

void cache_init(struct cache *cache, const struct cache_class *class, struct loop *loop,
                size_t count_max);
/* Asserts that nothing waits. Loads under way are cancelled, and free themselves and their
 * entries. */
void cache_deinit(struct cache *cache);

/* Returns the entry in the table, even if it has expired or its load is under way; NULL if there is
 * none. */
struct cache_entry *cache_peek(struct cache *cache, slice key);
/* Returns a valid entry, which becomes the most recently used; NULL if there is none. Borrowed
 * until the caller returns. */
struct cache_entry *cache_find(struct cache *cache, slice key);
/* Call it after cache_find has returned NULL: op is held until class->answer is called with `wait`,
 * or until op is cancelled. If wait is NULL, the entry is only loaded. Returns false if out of
 * memory. */
bool cache_await(struct cache *cache, slice key, struct cache_wait *wait, struct op *op) MUST_CHECK;
/* Adds an entry that needs no load, as the most recently used one; it replaces the entry that has
 * the same key. It takes `bytes`, at most bytes_max, and is valid for good_ms. The caller fills it.
 * Returns NULL if out of memory; the entry that had the key is forgotten then, too. key is not
 * borrowed from that entry. */
struct cache_entry *cache_put(struct cache *cache, slice key, size_t bytes,
                              uint64_t good_ms) MUST_CHECK;
/* Ends a wait without an answer. Does nothing if it has ended, or was zeroed and did not begin. */
void cache_wait_stop(struct cache_wait *wait);

/* Removes an entry of the table. If its load is under way, its waits are still answered. */
void cache_forget(struct cache *cache, struct cache_entry *entry);
/* Removes all entries of the group. */
void cache_forget_group(struct cache *cache, slice group);
/* Removes the entries for which is_meant returns true, or all entries if is_meant is NULL. */
void cache_forget_if(struct cache *cache,
                     bool (*is_meant)(const struct cache_entry *entry, const void *data),
                     const void *data);

#endif
