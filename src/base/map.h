/*
 * Hash map from bytes to a pointer. Open addressing, SipHash-1-3 with a key made at process start
 * (tenants choose some of the keys). Keys are not copied: the caller keeps them alive as long as
 * the entry, usually inside the value. Iteration order is unspecified.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

struct map_slot {
    slice key;
    void *value; /* NULL: empty */
    uint64_t hash;
};

struct map {
    struct map_slot *slots;
    size_t count, cap; /* cap is 0 or a power of two */
    size_t count_max;
};

void map_init(struct map *map, size_t count_max);
void map_deinit(struct map *map);

/* Returns NULL if the key is absent. */
void *map_get(const struct map *map, slice key);
/* value is not NULL. Replaces key and value if the key is present; *old (may be NULL) gets the
 * previous value or NULL. Returns ERR_LIMIT at count_max, or ERR_NOMEM; nothing has changed
 * then. */
int map_put(struct map *map, slice key, void *value, void **old) MUST_CHECK;
/* Returns the removed value, or NULL if there was none. */
void *map_remove(struct map *map, slice key);
/* Returns the occupied slot after this slot (NULL: the first), or NULL at the end. The map must not
 * change during the iteration. The slot just returned may be removed only if the iteration then
 * restarts or ends, since a removal moves other slots. */
struct map_slot *map_next(const struct map *map, const struct map_slot *slot);
#define MAP_EACH(map, slot) for (struct map_slot *slot = NULL; (slot = map_next((map), slot));)

/* Returns the hash that maps use, for other tables (choice of a pool). It is stable only within one
 * process. */
uint64_t hash_bytes(const void *ptr, size_t len);
/* SipHash-1-3 with a given key (Aumasson, Bernstein: SipHash; c=1, d=3). */
uint64_t hash_siphash13(const uint64_t key[2], const void *ptr, size_t len);
/* FNV-1a 64 bit: stable across processes and versions; not for tables with hostile keys. */
uint64_t hash_stable(const void *ptr, size_t len);

#endif
