/*
 * keyed: state by key, mostly by account, that exists while something is under way: a queue of
 * waiting requests, a part of a budget, or the count for a limit. An entry is found by its key,
 * created when first needed, and dropped by its owner once it is empty. Some dropped blocks are
 * kept for reuse, so that a request costs no allocation. Not thread-safe.
 */
#ifndef BASE_KEYED_H
#define BASE_KEYED_H

#include "base/list.h"
#include "base/map.h"

enum {
    KEYED_KEY_MAX = 128
}; /* enough for an account, some numbers, and the names of a tool and of an error */

/* The first member of each entry. */
struct keyed {
    /* used by the owner: for example, for a list of the entries that wait for a turn */
    struct list ring;
    struct list waiting; /* the owner's nodes, oldest first */
    size_t key_len;
    char key[KEYED_KEY_MAX];
};

struct keyed_table {
    struct map map;     /* struct keyed, by key */
    struct list spares; /* struct keyed, linked by `ring` */
    size_t spare_count, size;
};

/* size: the size of an entry, a struct that begins with a struct keyed. */
void keyed_init(struct keyed_table *table, size_t size);
/* Asserts that no entry is left. */
void keyed_deinit(struct keyed_table *table);
/* Returns NULL if there is no entry with that key. */
void *keyed_find(const struct keyed_table *table, slice key);
/* Returns the entry with that key (up to KEYED_KEY_MAX bytes, copied); a new entry is zeroed except
 * for its struct keyed. Returns NULL if out of memory. */
void *keyed_get(struct keyed_table *table, slice key);
/* Removes the entry from its ring and the table; its memory is reused. */
void keyed_drop(struct keyed_table *table, struct keyed *entry);

/* Appends the node to the entry, and the entry to the ring if nothing waited in it. A caller that
 * serves the first entry of the ring and then moves it to the end serves the entries in turn. */
static inline void keyed_join(struct keyed *entry, struct list *ring, struct list *node)
{
    if (list_is_empty(&entry->waiting))
        list_move_back(ring, &entry->ring);
    list_push_back(&entry->waiting, node);
}

/* Removes the node from the entry, and the entry from its ring if nothing else waits in it. */
static inline void keyed_leave(struct keyed *entry, struct list *node)
{
    list_unlink(node);
    if (list_is_empty(&entry->waiting))
        list_unlink(&entry->ring);
}

#endif
