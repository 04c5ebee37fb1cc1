/*
 * func_list: functions over arrays and objects. Results share their items with the arguments; only
 * the blocks that hold them are new.
 */
#include "expr/func.h"

EXPR_FUNCTION(length)
{
    if (args[0].type != JSON_STRING) {
        *out = json_i64(args[0].count);
        return OK;
    }
    int64_t points = 0;
    int rc = expr_run_scan(run, args[0].count);
    for (uint32_t i = 0; rc == OK && i < args[0].count; i++)
        /* Counts the bytes that begin a code point: length() counts code points, as the
         * specification requires. */
        points += ((unsigned char)args[0].as.text[i] & 0xC0) != 0x80;
    *out = json_i64(points);
    return rc;
}

EXPR_FUNCTION(contains)
{
    bool found = false;
    int rc = OK;
    if (args[0].type == JSON_STRING) {
        /* memmem is linear, so the charged scan covers its cost. */
        rc = expr_run_scan(run, (size_t)args[0].count + args[1].count);
        if (rc == OK && args[1].type == JSON_STRING)
            found = args[1].count == 0 ||
                    memmem(args[0].as.text, args[0].count, args[1].as.text, args[1].count) != NULL;
    } else {
        for (uint32_t i = 0; rc == OK && !found && i < args[0].count; i++)
            rc = expr_value_equal(run, &args[0].as.items[i], &args[1], &found);
    }
    *out = json_bool(found);
    return rc;
}

static int list_members(struct expr_run *run, const struct json *object, bool wants_keys,
                        struct json *out)
{
    struct json *items = NULL;
    int rc = expr_run_visit(run, object->count);
    if (rc == OK)
        rc = expr_run_items(run, object->count, &items);
    for (uint32_t i = 0; rc == OK && i < object->count; i++)
        items[i] = wants_keys ? object->as.members[i].key : object->as.members[i].value;
    if (rc == OK)
        *out = expr_array(items, object->count);
    return rc;
}

EXPR_FUNCTION(keys)
{
    return list_members(run, &args[0], true, out);
}

EXPR_FUNCTION(values)
{
    return list_members(run, &args[0], false, out);
}

/* Sets a member of out, whose block has room; an existing member keeps its position. */
static int merge_member(struct expr_run *run, struct json *out, const struct json_member *member)
{
    /* The search is linear in the members merged so far, so merging many large objects is
     * quadratic; the charge keeps it within the budget. */
    int rc = expr_run_visit(run, 1 + out->count / 8);
    if (rc != OK)
        return rc;
    struct json_member *members = out->as.members;
    for (uint32_t i = 0; i < out->count; i++) {
        if (!slice_eq(json_str(&members[i].key), json_str(&member->key)))
            continue;
        members[i].value = member->value;
        return OK;
    }
    members[out->count++] = *member;
    return OK;
}

EXPR_FUNCTION(merge)
{
    size_t total = 0;
    for (uint32_t i = 0; i < call->count; i++)
        total += args[i].count;
    struct json_member *members = NULL;
    /* The block is allocated for all members together, so its size is charged first. */
    int rc = expr_run_visit(run, total);
    if (rc == OK)
        rc = expr_run_members(run, total, &members);
    if (rc != OK)
        return rc;
    struct json merged = expr_object(members, 0);
    for (uint32_t i = 0; rc == OK && i < call->count; i++)
        for (uint32_t k = 0; rc == OK && k < args[i].count; k++)
            rc = merge_member(run, &merged, &args[i].as.members[k]);
    ASSERT(merged.count <= total);
    *out = merged;
    return rc;
}

EXPR_FUNCTION(items)
{
    struct json *pairs = NULL, *pair = NULL;
    uint32_t count = args[0].count;
    int rc = expr_run_visit(run, count);
    if (rc == OK)
        rc = expr_run_items(run, count, &pairs);
    for (uint32_t i = 0; rc == OK && i < count; i++) {
        rc = expr_run_items(run, 2, &pair);
        if (rc != OK)
            return rc;
        pair[0] = args[0].as.members[i].key;
        pair[1] = args[0].as.members[i].value;
        pairs[i] = expr_array(pair, 2);
    }
    if (rc == OK)
        *out = expr_array(pairs, count);
    return rc;
}

EXPR_FUNCTION(from_items)
{
    struct json_member *members = NULL;
    int rc = expr_run_visit(run, args[0].count);
    if (rc == OK)
        rc = expr_run_members(run, args[0].count, &members);
    if (rc != OK)
        return rc;
    struct json made = expr_object(members, 0);
    for (uint32_t i = 0; rc == OK && i < args[0].count; i++) {
        const struct json *pair = &args[0].as.items[i];
        if (!json_is(pair, JSON_ARRAY) || pair->count != 2 ||
            !json_is(json_at(pair, 0), JSON_STRING))
            return expr_run_fail(run, EXPR_FAULT_VALUE, call->at,
                                 "from_items(): item %u is not a pair of a string and a value", i);
        struct json_member member = {*json_at(pair, 0), *json_at(pair, 1)};
        rc = merge_member(run, &made, &member);
    }
    *out = made;
    return rc;
}

EXPR_FUNCTION(not_null)
{
    for (uint32_t i = 0; i < call->count; i++) {
        if (args[i].type == JSON_NULL)
            continue;
        *out = args[i];
        return OK;
    }
    return OK;
}

EXPR_FUNCTION(to_array)
{
    *out = args[0];
    if (args[0].type == JSON_ARRAY)
        return OK;
    struct json *items = NULL;
    int rc = expr_run_items(run, 1, &items);
    if (rc != OK)
        return rc;
    items[0] = args[0];
    *out = expr_array(items, 1);
    return OK;
}

EXPR_FUNCTION(map)
{
    const struct expr_node *ref = expr_function_ref(call, 0);
    const struct json *from = &args[1];
    struct json *items = NULL;
    int rc = expr_run_items(run, from->count, &items);
    for (uint32_t i = 0; rc == OK && i < from->count; i++)
        rc = expr_run_node(run, ref, &from->as.items[i], &items[i]);
    if (rc == OK)
        *out = expr_array(items, from->count);
    return rc;
}

/* Reverses the code points of a string. */
static int reverse_string(struct expr_run *run, const struct json *string, struct json *out)
{
    char *to = NULL;
    uint32_t len = string->count;
    int rc = expr_run_text(run, len, &to);
    if (rc != OK)
        return rc;
    const char *text = string->as.text;
    for (uint32_t i = 0, size; i < len; i += size) {
        size = 1;
        /* Continuation bytes (10xxxxxx) stay after their first byte. */
        while (i + size < len && ((unsigned char)text[i + size] & 0xC0) == 0x80)
            size++;
        memcpy(to + len - i - size, text + i, size);
    }
    *out = expr_string(to, len);
    return OK;
}

EXPR_FUNCTION(reverse)
{
    if (args[0].type == JSON_STRING)
        return reverse_string(run, &args[0], out);
    uint32_t count = args[0].count;
    struct json *items = NULL;
    int rc = expr_run_visit(run, count);
    if (rc == OK)
        rc = expr_run_items(run, count, &items);
    for (uint32_t i = 0; rc == OK && i < count; i++)
        items[i] = args[0].as.items[count - 1 - i];
    if (rc == OK)
        *out = expr_array(items, count);
    return rc;
}
