/*
 * make: builds values. Containers grow by doubling; cap_log2 is their capacity. A parsed container
 * has no spare capacity, so its first growth copies it. The old block stays in the arena, where
 * shared copies of the value may still point to it.
 */
#include <math.h>

#include "json/json.h"

enum { CAP_LOG2_FIRST = 2 };

struct json json_bool(bool value)
{
    return (struct json){.type = JSON_BOOL, .as.boolean = value};
}

struct json json_i64(int64_t value)
{
    return (struct json){.type = JSON_INT, .as.i64 = value};
}

struct json json_u64(uint64_t value)
{
    /* Each integer has only one form: a value that int64 holds is a JSON_INT, so that types can
     * be compared first. */
    if (value <= INT64_MAX)
        return json_i64((int64_t)value);
    return (struct json){.type = JSON_UINT, .as.u64 = value};
}

struct json json_real(double value)
{
    /* RFC 8259 6 does not allow NaN and infinities. */
    return isfinite(value) ? (struct json){.type = JSON_REAL, .as.real = value} : json_null;
}

static struct json text_value(enum json_type type, slice text)
{
    /* No text here is that long: MEM_BLOCK_BYTES_MAX limits blocks of memory. */
    ASSERT(text.len <= UINT32_MAX);
    return (struct json){
        .type = (uint8_t)type, .count = (uint32_t)text.len, .as.text = text.ptr ? text.ptr : ""};
}

struct json json_string(slice text)
{
    return text_value(JSON_STRING, text);
}

struct json json_string_dup(struct arena *arena, slice text)
{
    return json_string(arena_dup(arena, text));
}

struct json json_array(void)
{
    return (struct json){.type = JSON_ARRAY};
}

struct json json_object(void)
{
    return (struct json){.type = JSON_OBJECT};
}

static size_t room_of(const struct json *container)
{
    return container->cap_log2 ? (size_t)1 << container->cap_log2 : container->count;
}

/* Returns a block with capacity for one more item; NULL if the arena's limit is exceeded. */
static void *grown(struct arena *arena, struct json *container, void *block, size_t item_size)
{
    size_t room = room_of(container);
    if (container->count < room)
        return block;
    if (container->count == UINT32_MAX)
        return NULL;
    /* cap_log2 was 0 in a parsed container, whose capacity is its count; after this it is a
     * power of two. */
    uint8_t cap_log2 = CAP_LOG2_FIRST;
    while (((size_t)1 << cap_log2) <= container->count)
        cap_log2++;
    void *larger = arena_realloc(arena, block, room * item_size, item_size << cap_log2);
    if (larger)
        container->cap_log2 = cap_log2;
    return larger;
}

void json_array_push(struct arena *arena, struct json *array, struct json item)
{
    ASSERT(json_is(array, JSON_ARRAY));
    struct json *items = grown(arena, array, array->as.items, sizeof(*items));
    if (!items)
        return;
    items[array->count++] = item;
    array->as.items = items;
}

void json_object_set(struct arena *arena, struct json *object, slice key, struct json value)
{
    ASSERT(json_is(object, JSON_OBJECT));
    struct json_member *members = grown(arena, object, object->as.members, sizeof(*members));
    if (!members)
        return;
    members[object->count++] = (struct json_member){json_string(key), value};
    object->as.members = members;
}

void json_object_put(struct arena *arena, struct json *object, slice key, struct json value)
{
    /* Searches from the end, since json_get finds the last of two equal keys. */
    for (uint32_t i = object->count; i > 0; i--) {
        struct json_member *member = &object->as.members[i - 1];
        if (slice_eq(json_str(&member->key), key)) {
            member->value = value;
            return;
        }
    }
    json_object_set(arena, object, key, value);
}

/* ---- copy ---- */

static bool dup_into(struct arena *arena, struct json *to, const struct json *from);

static bool dup_items(struct arena *arena, struct json *to, const struct json *from)
{
    to->as.items = ARENA_ARRAY(arena, struct json, from->count);
    if (!to->as.items)
        return false;
    for (uint32_t i = 0; i < from->count; i++) {
        if (!dup_into(arena, &to->as.items[i], &from->as.items[i]))
            return false;
    }
    return true;
}

static bool dup_members(struct arena *arena, struct json *to, const struct json *from)
{
    to->as.members = ARENA_ARRAY(arena, struct json_member, from->count);
    if (!to->as.members)
        return false;
    for (uint32_t i = 0; i < from->count; i++) {
        if (!dup_into(arena, &to->as.members[i].key, &from->as.members[i].key) ||
            !dup_into(arena, &to->as.members[i].value, &from->as.members[i].value))
            return false;
    }
    return true;
}

static bool dup_into(struct arena *arena, struct json *to, const struct json *from)
{
    *to = *from;
    /* The copy has no spare room, whatever the original had. */
    to->cap_log2 = 0;
    switch (from->type) {
    case JSON_BIGNUM:
    case JSON_STRING:
        to->as.text = arena_dup(arena, (slice){from->as.text, from->count}).ptr;
        return to->as.text != NULL;
    case JSON_ARRAY:
        return from->count == 0 || dup_items(arena, to, from);
    case JSON_OBJECT:
        return from->count == 0 || dup_members(arena, to, from);
    default:
        return true;
    }
}

struct json *json_dup(struct arena *arena, const struct json *value)
{
    ASSERT(value);
    struct json *copy = ARENA_NEW(arena, struct json);
    return copy && dup_into(arena, copy, value) ? copy : NULL;
}
