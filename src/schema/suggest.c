/*
 * schema_suggest: finds the property that a wrong name most likely means, among the names that a
 * schema knows. The number of names and the depth are limited: a suggestion must never cost more
 * than the check.
 */
#include "base/suggest.h"
#include "schema/run.h"

enum {
    NODES_DEEP_MAX = 6,
    KNOWN_MAX = 500, /* names compared for one suggestion */
    EDITS_MAX = 3,
    MEMBERS_MAX = 64, /* members compared with the names of one node */
};

struct name_walk {
    slice names[KNOWN_MAX];
    size_t count;
};

/* ---- the names a node knows ---- */

static void walk_node(const struct schema_node *node, unsigned depth, struct name_walk *walk);

static void walk_list(const struct schema_op *op, unsigned depth, struct name_walk *walk)
{
    for (uint32_t i = 0; i < op->count && walk->count < KNOWN_MAX; i++)
        walk_node(op->as.nodes[i], depth, walk);
}

static void walk_properties(const struct schema_object *object, struct name_walk *walk)
{
    for (uint32_t i = 0; i < object->property_count && walk->count < KNOWN_MAX; i++) {
        const struct schema_property *property = &object->properties[i];
        /* A property whose schema is false is listed only to be refused, so it is not a
         * suggestion. */
        if (!property->node || property->node->verdict != VERDICT_FALSE)
            walk->names[walk->count++] = property->name;
    }
}

static void walk_op(const struct schema_op *op, unsigned depth, struct name_walk *walk)
{
    switch (op->kind) {
    case KW_PROPERTIES:
        walk_properties(op->as.object, walk);
        break;
    case KW_REF:
        walk_node(op->as.node, depth, walk);
        break;
    case KW_ALL_OF:
    case KW_ANY_OF:
    case KW_ONE_OF:
        walk_list(op, depth, walk);
        break;
    case KW_IF:
        if (op->as.branches->consequence)
            walk_node(op->as.branches->consequence, depth, walk);
        if (op->as.branches->alternative)
            walk_node(op->as.branches->alternative, depth, walk);
        break;
    default:
        break;
    }
}

static void walk_node(const struct schema_node *node, unsigned depth, struct name_walk *walk)
{
    /* The limit of the depth also ends circular references. */
    for (uint32_t i = 0; i < node->op_count && depth < NODES_DEEP_MAX; i++)
        walk_op(&node->ops[i], depth + 1, walk);
}

size_t schema_known_properties(const struct schema_node *node, slice *names, size_t max)
{
    struct name_walk walk;
    walk.count = 0;
    walk_node(node, 0, &walk);
    size_t printed = 0;
    for (size_t i = 0; i < walk.count && printed < max; i++) {
        bool is_new = true;
        for (size_t k = 0; k < printed; k++)
            is_new &= !slice_eq(names[k], walk.names[i]);
        if (is_new)
            names[printed++] = walk.names[i];
    }
    /* The number is exact if the list is not truncated; otherwise it may count duplicates. */
    return walk.count > printed && printed == max ? walk.count : printed;
}

static bool walk_has(const struct name_walk *walk, slice name)
{
    size_t i = 0;
    while (i < walk->count && !slice_eq(walk->names[i], name))
        i++;
    return i < walk->count;
}

size_t schema_members_known(const struct schema_node *node, const struct json *object)
{
    struct name_walk walk;
    walk.count = 0;
    walk_node(node, 0, &walk);
    size_t known = 0;
    for (uint32_t i = 0; i < object->count && i < MEMBERS_MAX; i++)
        known += walk_has(&walk, json_str(&object->as.members[i].key));
    return known;
}

/* ---- which one is meant ---- */

/* At most one edit for every three characters: "to" is not close to "cc". */
static unsigned distance_allowed(slice name)
{
    size_t allowed = name.len / 3;
    return allowed > EDITS_MAX ? EDITS_MAX : (unsigned)allowed;
}

slice schema_suggest_property(const struct schema_node *node, slice name)
{
    struct name_walk walk;
    walk.count = 0;
    walk_node(node, 0, &walk);
    slice best = SLICE_NONE;
    unsigned limit = distance_allowed(name) + 1;
    for (size_t i = 0; i < walk.count && limit > 0; i++) {
        unsigned distance = suggest_distance(walk.names[i], name, limit);
        /* The name itself is not suggested, since it was refused. */
        if (distance < limit && !slice_eq(walk.names[i], name)) {
            best = walk.names[i];
            limit = distance;
        }
    }
    return best;
}
