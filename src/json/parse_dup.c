/*
 * parse_dup: duplicate keys. The keys of small objects are compared pairwise after a 64-bit filter,
 * which nearly always shows at once that a key is new; the keys of larger objects go through an
 * open-addressed table under the process's SipHash key, so that chosen keys cannot collide on
 * purpose (hash flooding).
 *
 * RFC 8259 4 leaves the meaning of duplicates open. An attacker can exploit two readers that choose
 * different members, so request bodies with duplicates are refused (json_limits.refuse_dup_keys).
 */
#include "json/parse_dup.h"

#include "base/map.h"
#include "base/mem.h"

/* 24 * 23 / 2 comparisons at most, mostly avoided by the filter: cheaper than clearing a table. */
enum { PAIRWISE_MAX = 24 };

void json_dup_init(struct json_dup_table *table)
{
    *table = (struct json_dup_table){0};
}

void json_dup_deinit(struct json_dup_table *table)
{
    mem_free(table->slots);
    *table = (struct json_dup_table){0};
}

static bool same_key(const struct json_member *a, const struct json_member *b)
{
    return slice_eq(json_str(&a->key), json_str(&b->key));
}

/* Keeps member `from` as the next folded member, or overwrites the value of the member with the
 * same key. */
static void fold_member(struct json *object, uint32_t *kept, uint32_t from,
                        struct json_member *twin, slice *key)
{
    struct json_member *members = object->as.members;
    if (!twin) {
        if (*kept != from)
            members[*kept] = members[from];
        ++*kept;
        return;
    }
    /* An error names the first duplicate. */
    if (!key->ptr)
        *key = json_str(&twin->key);
    twin->value = members[from].value;
}

static struct json_member *find_pairwise(struct json_member *members, uint32_t count,
                                         const struct json_member *wanted)
{
    for (uint32_t i = 0; i < count; i++) {
        if (same_key(&members[i], wanted))
            return &members[i];
    }
    return NULL;
}

static uint64_t filter_bit(const struct json *key)
{
    if (key->count == 0)
        return 1;
    /* Three bytes and the length: cheap, and different for most keys of one object. A wrong "maybe"
     * costs a search, never a wrong answer. */
    const unsigned char *text = (const unsigned char *)key->as.text;
    unsigned mix = text[0] * 7U + text[key->count - 1] * 13U + text[key->count / 2] * 31U;
    return UINT64_C(1) << ((mix + key->count * 17U) & 63);
}

static void fold_small(struct json *object, slice *key)
{
    struct json_member *members = object->as.members;
    uint32_t kept = 0;
    uint64_t bits = 0;
    for (uint32_t i = 0; i < object->count; i++) {
        uint64_t bit = filter_bit(&members[i].key);
        struct json_member *twin = bits & bit ? find_pairwise(members, kept, &members[i]) : NULL;
        bits |= bit;
        fold_member(object, &kept, i, twin, key);
    }
    object->count = kept;
}

/* Clears only as many slots as this object needs: many small objects after one huge object must not
 * each pay for its table. Returns the number of slots, a power of two; 0 if out of memory. */
static size_t clear_slots(struct json_dup_table *table, uint32_t count)
{
    size_t wanted = 64;
    /* At most half full, so probing ends early. */
    while (wanted < (size_t)count * 2)
        wanted *= 2;
    if (wanted > table->cap) {
        uint32_t *slots = mem_realloc(table->slots, wanted * sizeof(*slots));
        if (!slots)
            return 0;
        table->slots = slots;
        table->cap = wanted;
    }
    memset(table->slots, 0, wanted * sizeof(*table->slots));
    return wanted;
}

static int fold_large(struct json_dup_table *table, struct json *object, slice *key)
{
    size_t slot_count = clear_slots(table, object->count);
    if (slot_count == 0)
        return ERR_NOMEM;
    struct json_member *members = object->as.members;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < object->count; i++) {
        const struct json *name = &members[i].key;
        size_t at = hash_bytes(name->as.text, name->count) & (slot_count - 1);
        /* Slots hold indices into the folded members, which are before the one being read. */
        while (table->slots[at] && !same_key(&members[table->slots[at] - 1], &members[i]))
            at = (at + 1) & (slot_count - 1);
        struct json_member *twin = table->slots[at] ? &members[table->slots[at] - 1] : NULL;
        if (!twin)
            table->slots[at] = kept + 1;
        fold_member(object, &kept, i, twin, key);
    }
    object->count = kept;
    return OK;
}

int json_dup_fold(struct json_dup_table *table, struct json *object, slice *key)
{
    ASSERT(object->type == JSON_OBJECT);
    *key = SLICE_NONE;
    if (object->count <= PAIRWISE_MAX)
        fold_small(object, key);
    else if (fold_large(table, object, key) != OK)
        return ERR_NOMEM;
    return key->ptr ? ERR_INVALID : OK;
}
