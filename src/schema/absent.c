/*
 * Nulls that mean absent members. Clients whose schemas have to list every member as required (the
 * strict modes of function calling) send null for those that they omit. Such a null is dropped if
 * every schema that the member may have refuses it; a schema that accepts null gives it a meaning,
 * such as "empty this field".
 *
 * Each value is walked with the set of the subschemas that may apply to it, including alternatives.
 * Like a validation, the walk is bounded by fuel, by depth and by the size of such a set: beyond a
 * bound nothing is dropped, and validation reports what is wrong.
 */
#include "schema/run.h"

enum { NODES_MAX = 192, DEPTH_MAX = JSON_REQUEST_DEPTH_MAX };

/* A subschema that may apply to a value; is_sure means that it applies to any value. */
struct applied {
    const struct schema_node *node;
    bool is_sure;
};

struct applied_set {
    struct applied items[NODES_MAX];
    uint32_t count;
};

struct absent {
    struct schema_run run;
    struct arena *arena;
};

/* ---- which subschemas apply ---- */

static void apply_node(struct absent *absent, struct applied_set *set,
                       const struct schema_node *node, bool is_sure);

static void apply_list(struct absent *absent, struct applied_set *set, const struct schema_op *op,
                       bool is_sure)
{
    for (uint32_t i = 0; i < op->count; i++)
        apply_node(absent, set, op->as.nodes[i], is_sure);
}

/* Collects the subschemas that an op applies to the same value, except those of "not" and "if",
 * which do not say whether a null is wanted. */
static void apply_op(struct absent *absent, struct applied_set *set, const struct schema_op *op,
                     bool is_sure)
{
    switch (op->kind) {
    case KW_REF:
        apply_node(absent, set, op->as.node, is_sure);
        break;
    case KW_DYNAMIC_REF:
        apply_node(absent, set, op->as.dynamic_ref->target, is_sure);
        break;
    case KW_ALL_OF:
        apply_list(absent, set, op, is_sure);
        break;
    case KW_ANY_OF:
    case KW_ONE_OF:
        apply_list(absent, set, op, false);
        break;
    case KW_IF:
        apply_node(absent, set, op->as.branches->consequence, false);
        apply_node(absent, set, op->as.branches->alternative, false);
        break;
    case KW_DEPENDENT_SCHEMAS:
        for (uint32_t i = 0; i < op->count; i++)
            apply_node(absent, set, op->as.dependencies[i].node, false);
        break;
    default:
        break;
    }
}

/* node may be NULL. A node that is already in the set is not added again, so circular references
 * end. */
static void apply_node(struct absent *absent, struct applied_set *set,
                       const struct schema_node *node, bool is_sure)
{
    if (!node || node->verdict != VERDICT_BY_OPS ||
        !schema_spend(&absent->run, FUEL_NODE + set->count))
        return;
    for (uint32_t i = 0; i < set->count; i++)
        if (set->items[i].node == node)
            return;
    if (set->count == NODES_MAX) {
        schema_stop(&absent->run, "too many alternatives");
        return;
    }
    set->items[set->count++] = (struct applied){node, is_sure};
    for (uint32_t i = 0; i < node->op_count; i++)
        apply_op(absent, set, &node->ops[i], is_sure);
}

/* ---- members ---- */

/* The result of a walk over all schemas that one member may have. */
struct member_schemas {
    struct applied_set *within; /* the set to collect into; NULL: the member is null */
    bool is_named;              /* named by `properties`: an entry of a map cannot be omitted */
    bool takes_null, is_required;
};

static bool takes_null(struct absent *absent, const struct schema_node *node)
{
    const struct schema_at at = {.value = &json_null};
    return schema_run_node(&absent->run, node, &at);
}

static void meet(struct absent *absent, const struct schema_node *node, bool is_sure,
                 struct member_schemas *member)
{
    if (node->verdict == VERDICT_FALSE)
        return;
    if (member->within) {
        apply_node(absent, member->within, node, is_sure);
    } else {
        member->takes_null = member->takes_null || takes_null(absent, node);
    }
}

static void meet_object(struct absent *absent, const struct schema_object *object, slice name,
                        bool is_sure, struct member_schemas *member)
{
    uint32_t next = 0;
    const struct schema_property *property = schema_find_property(object, name, &next);
    bool is_met = property && property->node;
    member->is_required |= property && property->is_required && is_sure;
    member->is_named |= is_met && property->node->verdict != VERDICT_FALSE;
    if (is_met)
        meet(absent, property->node, is_sure, member);
    for (uint32_t i = 0; i < object->pattern_count; i++) {
        if (!schema_pattern_is_match(&absent->run, object->patterns[i].pattern, name))
            continue;
        meet(absent, object->patterns[i].node, is_sure, member);
        is_met = true;
    }
    if (!is_met && object->additional)
        meet(absent, object->additional, is_sure, member);
}

static void meet_all(struct absent *absent, const struct applied_set *set, slice name,
                     struct member_schemas *member)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const struct schema_node *node = set->items[i].node;
        for (uint32_t k = 0; k < node->op_count; k++) {
            const struct schema_op *op = &node->ops[k];
            if (!schema_spend(&absent->run, FUEL_OP))
                return;
            if (op->kind == KW_PROPERTIES)
                meet_object(absent, op->as.object, name, set->items[i].is_sure, member);
            else if (op->kind == KW_UNEVALUATED_PROPERTIES)
                meet(absent, op->as.node, set->items[i].is_sure, member);
        }
    }
}

static bool is_absent(struct absent *absent, const struct applied_set *set, slice name)
{
    struct member_schemas member = {0};
    meet_all(absent, set, name, &member);
    return member.is_named && !member.takes_null && !member.is_required && !absent->run.stop_reason;
}

/* ---- items ---- */

static void apply_items(struct absent *absent, const struct applied_set *set, uint32_t index,
                        struct applied_set *within)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const struct schema_node *node = set->items[i].node;
        bool is_sure = set->items[i].is_sure;
        for (uint32_t k = 0; k < node->op_count; k++) {
            const struct schema_op *op = &node->ops[k];
            const struct schema_items *items = op->as.items;
            if (op->kind == KW_ITEMS)
                apply_node(absent, within,
                           index < items->prefix_count ? items->prefix[index] : items->rest,
                           is_sure);
            else if (op->kind == KW_UNEVALUATED_ITEMS)
                apply_node(absent, within, op->as.node, is_sure);
        }
    }
}

/* ---- the walk ---- */

static bool drop_within(struct absent *absent, const struct applied_set *set, struct json *value,
                        size_t depth);

/* Changed members of a container go into a copy of its table, made at the first change. */
static bool drop_item(struct absent *absent, const struct applied_set *set,
                      const struct json *container, uint32_t index, struct json *value,
                      size_t depth)
{
    struct applied_set within;
    within.count = 0;
    if (value->type < JSON_ARRAY || value->count == 0)
        return false;
    if (container->type == JSON_OBJECT) {
        struct member_schemas member = {.within = &within};
        meet_all(absent, set, json_str(&container->as.members[index].key), &member);
    } else {
        apply_items(absent, set, index, &within);
    }
    return within.count > 0 && drop_within(absent, &within, value, depth + 1);
}

static bool drop_members(struct absent *absent, const struct applied_set *set, struct json *value,
                         size_t depth)
{
    struct json_member *kept = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < value->count && schema_spend(&absent->run, FUEL_MEMBER); i++) {
        struct json_member member = value->as.members[i];
        bool is_left_out = member.value.type == JSON_NULL &&
                           is_absent(absent, set, json_str(&member.key));
        bool is_changed = drop_item(absent, set, value, i, &member.value, depth);
        if (!kept && (is_left_out || is_changed)) {
            kept = ARENA_ARRAY(absent->arena, struct json_member, value->count);
            if (!kept)
                return false;
            memcpy(kept, value->as.members, i * sizeof(*kept));
            count = i;
        }
        if (kept && !is_left_out)
            kept[count++] = member;
    }
    if (kept)
        *value = (struct json){.type = JSON_OBJECT, .count = count, .as.members = kept};
    return kept != NULL;
}

static bool drop_items(struct absent *absent, const struct applied_set *set, struct json *value,
                       size_t depth)
{
    struct json *kept = NULL;
    for (uint32_t i = 0; i < value->count && schema_spend(&absent->run, FUEL_ITEM); i++) {
        struct json item = value->as.items[i];
        if (!drop_item(absent, set, value, i, &item, depth))
            continue;
        if (!kept) {
            kept = ARENA_ARRAY(absent->arena, struct json, value->count);
            if (!kept)
                return false;
            memcpy(kept, value->as.items, value->count * sizeof(*kept));
        }
        kept[i] = item;
    }
    if (kept)
        *value = (struct json){.type = JSON_ARRAY, .count = value->count, .as.items = kept};
    return kept != NULL;
}

static bool drop_within(struct absent *absent, const struct applied_set *set, struct json *value,
                        size_t depth)
{
    if (depth > DEPTH_MAX) {
        schema_stop(&absent->run, "it is nested too deeply");
        return false;
    }
    return value->type == JSON_OBJECT ? drop_members(absent, set, value, depth)
                                      : drop_items(absent, set, value, depth);
}

/* Most inputs have none. */
static bool has_null_member(const struct json *value)
{
    if (value->type == JSON_ARRAY)
        for (uint32_t i = 0; i < value->count; i++)
            if (has_null_member(&value->as.items[i]))
                return true;
    if (value->type == JSON_OBJECT)
        for (uint32_t i = 0; i < value->count; i++)
            if (value->as.members[i].value.type == JSON_NULL ||
                has_null_member(&value->as.members[i].value))
                return true;
    return false;
}

const struct json *schema_drop_nulls(const struct schema *schema, const struct json *instance,
                                     struct arena *arena)
{
    struct absent absent = {.run = {.fuel = SCHEMA_FUEL, .schema = schema}, .arena = arena};
    struct applied_set set;
    ASSERT(schema && instance);
    struct json value = *instance;
    if (!has_null_member(instance))
        return instance;
    set.count = 0;
    apply_node(&absent, &set, schema->root, true);
    if (!drop_within(&absent, &set, &value, 0) || absent.run.stop_reason || arena->is_exhausted)
        return instance;
    struct json *result = ARENA_NEW(arena, struct json);
    if (!result)
        return instance;
    *result = value;
    return result;
}
