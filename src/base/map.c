/*
 * map: linear probing with backward-shift removal (no tombstones), at most 3/4 full. Small and
 * flat: a lookup touches one or two cache lines, and the stored hash avoids most compares.
 *
 * The load limit also ends every probe, because an empty slot always exists. Growth doubles, so a
 * put costs O(1) on average and O(n) in the worst case; the map never shrinks.
 */
#include "base/map.h"

#include "base/id.h"
#include "base/mem.h"

enum { MAP_CAP_MIN = 8 };

/* The key is read from the kernel: with a fixed key an account could send keys that all fall into
 * one slot, so that each lookup would walk them all (hash flooding). */
static uint64_t sip_key[2];

/* Runs before main, so that no lookup checks whether there is a key, and forked workers share
 * the key. */
__attribute__((constructor)) static void draw_sip_key(void)
{
    random_kernel(sip_key, sizeof(sip_key));
}

static inline uint64_t rotate_left_64(uint64_t x, unsigned bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate_left_64(v[1], 13) ^ v[0];
    v[0] = rotate_left_64(v[0], 32);
    v[2] += v[3];
    v[3] = rotate_left_64(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate_left_64(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate_left_64(v[1], 17) ^ v[2];
    v[2] = rotate_left_64(v[2], 32);
}

static inline void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

static uint64_t load_le64(const unsigned char *p, size_t len)
{
    uint64_t word = 0;
    memcpy(&word, p, len);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* SipHash-1-3: one round per word and three at the end, half the cost of 2-4. The constants are
 * those of the paper ("somepseudorandomlygeneratedbytes"). */
uint64_t hash_siphash13(const uint64_t key[2], const void *ptr, size_t len)
{
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                     key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
    const unsigned char *p = ptr;
    size_t left = len;
    for (; left >= 8; p += 8, left -= 8)
        sip_word(v, load_le64(p, 8));
    /* The last word contains the remaining 0 to 7 bytes, and the length in its top byte, so that
     * "a" and "a\0" differ. */
    sip_word(v, (left ? load_le64(p, left) : 0) | (uint64_t)len << 56);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t hash_bytes(const void *ptr, size_t len)
{
    return hash_siphash13(sip_key, ptr, len);
}

uint64_t hash_stable(const void *ptr, size_t len)
{
    const unsigned char *p = ptr;
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ p[i]) * 0x100000001b3;
    return hash;
}

void map_init(struct map *map, size_t count_max)
{
    ASSERT(count_max > 0);
    *map = (struct map){.count_max = count_max};
}

void map_deinit(struct map *map)
{
    mem_free(map->slots);
    map_init(map, map->count_max);
}

/* Returns the slot of the key, or the empty slot for it; cap > 0. */
static struct map_slot *probe(const struct map *map, slice key, uint64_t hash)
{
    ASSERT(map->count < map->cap);
    size_t at = hash & (map->cap - 1);
    struct map_slot *slot = &map->slots[at];
    while (slot->value && !(slot->hash == hash && slice_eq(slot->key, key))) {
        at = (at + 1) & (map->cap - 1);
        slot = &map->slots[at];
    }
    return slot;
}

void *map_get(const struct map *map, slice key)
{
    /* This also covers a map without slots, which must not be passed to probe(). */
    if (map->count == 0)
        return NULL;
    return probe(map, key, hash_bytes(key.ptr, key.len))->value;
}

static bool grow_slots(struct map *map)
{
    size_t cap = map->cap ? map->cap * 2 : MAP_CAP_MIN;
    struct map_slot *slots = mem_calloc(cap, sizeof(*slots));
    if (!slots)
        return false;
    struct map bigger = *map;
    bigger.slots = slots;
    bigger.cap = cap;
    for (size_t i = 0; i < map->cap; i++)
        if (map->slots[i].value)
            /* Hashes are stored, so growing neither compares nor hashes keys; all keys differ,
             * so each finds a free slot. */
            *probe(&bigger, map->slots[i].key, map->slots[i].hash) = map->slots[i];
    mem_free(map->slots);
    *map = bigger;
    return true;
}

int map_put(struct map *map, slice key, void *value, void **old)
{
    ASSERT(value);
    uint64_t hash = hash_bytes(key.ptr, key.len);
    struct map_slot *slot = map->cap ? probe(map, key, hash) : NULL;
    if (!slot || !slot->value) {
        /* Only a new key needs room: replacing a value works in a full map, too. */
        if (map->count >= map->count_max)
            return ERR_LIMIT;
        if (map->count >= map->cap / 4 * 3) {
            if (!grow_slots(map))
                return ERR_NOMEM;
            /* The slot found before is in the old table, which growing has freed. */
            slot = probe(map, key, hash);
        }
        map->count++;
    }
    ASSERT(slot);
    if (old)
        *old = slot->value;
    *slot = (struct map_slot){key, value, hash};
    return OK;
}

void *map_remove(struct map *map, slice key)
{
    if (map->count == 0)
        return NULL;
    struct map_slot *slot = probe(map, key, hash_bytes(key.ptr, key.len));
    void *value = slot->value;
    if (!value)
        return NULL;
    /* Pulls back every later slot of the run that a probe would no longer reach across the hole: a
     * slot whose home slot is not between the hole and itself. Distances are taken modulo the
     * table's size. */
    size_t mask = map->cap - 1, hole = (size_t)(slot - map->slots);
    for (size_t at = (hole + 1) & mask; map->slots[at].value; at = (at + 1) & mask) {
        size_t home = map->slots[at].hash & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            map->slots[hole] = map->slots[at];
            hole = at;
        }
    }
    map->slots[hole] = (struct map_slot){SLICE_NONE, NULL, 0};
    map->count--;
    return value;
}

struct map_slot *map_next(const struct map *map, const struct map_slot *slot)
{
    for (size_t i = slot ? (size_t)(slot - map->slots) + 1 : 0; i < map->cap; i++) {
        if (map->slots[i].value)
            return &map->slots[i];
    }
    return NULL;
}
