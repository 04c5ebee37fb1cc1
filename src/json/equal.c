/*
 * equal: equality and hashing of values. The order of members does not matter; large objects with
 * different orders are compared through a table, so that hostile input cannot cause quadratic time.
 * The recursion is as deep as the values, which JSON_DEPTH_MAX limits for parsed values.
 */
#include "base/map.h"
#include "base/mem.h"
#include "json/number.h"

/* Up to here a linear search for each member is cheaper than building a table. */
enum { SCAN_MEMBERS_MAX = 32 };

static bool arrays_equal(const struct json *a, const struct json *b)
{
    for (uint32_t i = 0; i < a->count; i++) {
        if (!json_equal(&a->as.items[i], &b->as.items[i]))
            return false;
    }
    return true;
}

/* The keys of an object are distinct, so a equals b if the counts are equal and each member of a
 * is in b. */
static bool members_equal_scan(const struct json *a, uint32_t from, const struct json *b)
{
    for (uint32_t i = from; i < a->count; i++) {
        const struct json_member *member = &a->as.members[i];
        const struct json *other = json_get(b, json_str(&member->key));
        if (!other || !json_equal(&member->value, other))
            return false;
    }
    return true;
}

static bool members_equal_table(const struct json *a, uint32_t from, const struct json *b)
{
    struct map map;
    /* Members before `from` have been compared, and keys are distinct, so they cannot match
     * again. */
    map_init(&map, b->count);
    bool is_ok = true;
    for (uint32_t i = from; i < b->count && is_ok; i++)
        is_ok = map_put(&map, json_str(&b->as.members[i].key), &b->as.members[i].value, NULL) == OK;
    bool is_equal = true;
    for (uint32_t i = from; i < a->count && is_ok && is_equal; i++) {
        const struct json *other = map_get(&map, json_str(&a->as.members[i].key));
        is_equal = other && json_equal(&a->as.members[i].value, other);
    }
    map_deinit(&map);
    /* If there is no memory for the table, the answer is the same, only slower. */
    return is_ok ? is_equal : members_equal_scan(a, from, b);
}

static bool objects_equal(const struct json *a, const struct json *b)
{
    uint32_t same = 0; /* leading members that have the same order */
    for (; same < a->count; same++) {
        const struct json_member *left = &a->as.members[same];
        const struct json_member *right = &b->as.members[same];
        if (!slice_eq(json_str(&left->key), json_str(&right->key)))
            break;
        if (!json_equal(&left->value, &right->value))
            return false;
    }
    if (a->count - same > SCAN_MEMBERS_MAX)
        return members_equal_table(a, same, b);
    return members_equal_scan(a, same, b);
}

bool json_equal(const struct json *a, const struct json *b)
{
    ASSERT(a && b);
    if (json_is_number(a) && json_is_number(b))
        return json_number_cmp(a, b) == 0;
    /* The counts of containers and the lengths of texts decide most cases. In enum json_type,
     * JSON_STRING and all types after it have a count. */
    if (a->type != b->type || (a->type >= JSON_STRING && a->count != b->count))
        return false;
    switch (a->type) {
    case JSON_BOOL:
        return a->as.boolean == b->as.boolean;
    case JSON_STRING:
        return a->count == 0 || memcmp(a->as.text, b->as.text, a->count) == 0;
    case JSON_ARRAY:
        return arrays_equal(a, b);
    case JSON_OBJECT:
        return objects_equal(a, b);
    default:
        return true;
    }
}

/* ---- hash ---- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t words[2] = {a, b};
    return hash_bytes(words, sizeof(words));
}

/* Equal numbers round to the same double, whatever their type. Unequal numbers may have the same
 * hash, which costs a comparison. */
static uint64_t number_hash(const struct json *value)
{
    double real = json_to_double(value) + 0.0; /* -0.0 becomes 0.0 */
    uint64_t bits = 0;
    memcpy(&bits, &real, sizeof(bits));
    return mix(JSON_REAL, bits);
}

uint64_t json_hash(const struct json *value)
{
    ASSERT(value);
    if (json_is_number(value))
        return number_hash(value);
    /* The count is part of the hash, so that [[]] and [] differ. */
    uint64_t hash = mix(value->type, value->type >= JSON_STRING ? value->count : 0);
    switch (value->type) {
    case JSON_BOOL:
        return mix(hash, value->as.boolean);
    case JSON_STRING:
        return mix(hash, hash_bytes(value->as.text, value->count));
    case JSON_ARRAY:
        for (uint32_t i = 0; i < value->count; i++)
            hash = mix(hash, json_hash(&value->as.items[i]));
        return hash;
    case JSON_OBJECT:
        for (uint32_t i = 0; i < value->count; i++) /* a sum, since the order of members does not
                                                     * matter */
            hash +=
                mix(json_hash(&value->as.members[i].key), json_hash(&value->as.members[i].value));
        return hash;
    default:
        return hash;
    }
}
