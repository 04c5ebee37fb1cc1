/*
 * schema_run_object: assertions and applicators about objects (JSON Schema Core 10.3.2, Validation
 * 6.5).
 */
#include "base/map.h"
#include "schema/run.h"

/* ---- properties ---- */

/* Members often come in the schema's own order: the property after the last hit is tried first. */
static const struct schema_property *find_property(const struct schema_object *object, slice name,
                                                   uint32_t *next)
{
    if (*next < object->property_count && slice_eq(object->properties[*next].name, name))
        return &object->properties[(*next)++];
    if (object->property_count == 0)
        return NULL;
    uint32_t at = (uint32_t)hash_bytes(name.ptr, name.len) & object->slot_mask;
    for (; object->slots[at]; at = (at + 1) & object->slot_mask) {
        const struct schema_property *property = &object->properties[object->slots[at] - 1];
        if (slice_eq(property->name, name)) {
            /* The slot's number is the index + 1, which is the next property. */
            *next = object->slots[at];
            return property;
        }
    }
    return NULL;
}

static bool run_patterns(struct schema_run *run, const struct schema_object *object,
                         const struct schema_at *at, uint32_t index, bool *is_evaluated)
{
    const struct json *key = &at->value->as.members[index].key;
    bool is_valid = true;
    for (uint32_t i = 0; i < object->pattern_count && !run->stop_reason; i++) {
        if (!schema_run_matches(run, object->patterns[i].pattern, json_str(key)))
            continue;
        *is_evaluated = true;
        is_valid &= schema_run_child(run, object->patterns[i].node, at, key, index);
    }
    return is_valid;
}

static bool run_additional(struct schema_run *run, const struct schema_object *object,
                           const struct schema_at *at, uint32_t index)
{
    if (object->additional->verdict == VERDICT_FALSE)
        /* The message names the property and suggests another one, which a failed subschema "false"
         * cannot. */
        return schema_report_unknown(run, at, KW_ADDITIONAL_PROPERTIES, index);
    return schema_run_child(run, object->additional, at, &at->value->as.members[index].key, index);
}

struct member_walk {
    uint32_t next; /* the property expected next */
    uint32_t required_found;
};

static bool run_member(struct schema_run *run, const struct schema_object *object,
                       const struct schema_at *at, uint32_t index, struct member_walk *walk)
{
    const struct json *key = &at->value->as.members[index].key;
    const struct schema_property *property = find_property(object, json_str(key), &walk->next);
    /* A property that is only required has no subschema: it does not count as evaluated. */
    bool is_evaluated = property && property->node;
    bool is_valid = true;
    walk->required_found += property && property->is_required;
    if (is_evaluated)
        is_valid = schema_run_child(run, property->node, at, key, index);
    if (object->pattern_count > 0)
        is_valid &= run_patterns(run, object, at, index, &is_evaluated);
    /* additionalProperties applies to what neither properties nor patterns took (Core 10.3.2.3). */
    if (!is_evaluated && object->additional) {
        is_evaluated = true;
        is_valid &= run_additional(run, object, at, index);
    }
    if (is_evaluated && at->evaluated)
        evaluated_add(at->evaluated, index);
    return is_valid;
}

static bool run_properties(struct schema_run *run, const struct schema_object *object,
                           const struct schema_at *at)
{
    struct member_walk walk = {0};
    bool is_valid = true;
    for (uint32_t i = 0; i < at->value->count; i++) {
        /* A long name costs more to hash and compare. */
        if (schema_spend(run, FUEL_MEMBER + at->value->as.members[i].key.count / 4) &&
            run_member(run, object, at, i, &walk))
            continue;
        is_valid = false;
        if (schema_is_over(run))
            return false;
    }
    /* Counted while walking, so a complete object needs no search for its required names. */
    if (walk.required_found < object->required_count)
        return schema_report_missing(run, at, object);
    return is_valid;
}

/* ---- the others ---- */

static bool run_property_names(struct schema_run *run, const struct schema_op *op,
                               const struct schema_at *at)
{
    bool is_valid = true;
    for (uint32_t i = 0; i < at->value->count; i++) {
        const struct json *key = &at->value->as.members[i].key;
        /* A name has no place of its own in the instance: it is reported at its object. */
        const struct schema_at name = {key, at->path, at->scope, NULL, op->as.node};
        if (schema_run_quietly(run, op->as.node, &name))
            continue;
        is_valid = schema_report_property_name(run, op, at, key);
        if (schema_is_over(run))
            break;
    }
    return is_valid;
}

/* json_get with its cost charged: it is linear in the members, and lists of dependencies multiply
 * it. */
static const struct json *get(struct schema_run *run, const struct json *object, slice name)
{
    return schema_spend(run, object->count) ? json_get(object, name) : NULL;
}

static bool run_dependent_required(struct schema_run *run, const struct schema_op *op,
                                   const struct schema_at *at)
{
    bool is_valid = true;
    for (uint32_t i = 0; i < op->count; i++) {
        const struct schema_dependency *dependency = &op->as.dependencies[i];
        if (!get(run, at->value, dependency->name))
            continue;
        for (uint32_t k = 0; k < dependency->required->count; k++) {
            slice name = json_str(&dependency->required->as.items[k]);
            if (!get(run, at->value, name))
                is_valid = schema_report_dependent(run, at, dependency, name);
        }
    }
    return is_valid;
}

static bool run_dependent_schemas(struct schema_run *run, const struct schema_op *op,
                                  const struct schema_at *at)
{
    bool is_valid = true;
    for (uint32_t i = 0; i < op->count && !run->stop_reason; i++) {
        const struct schema_dependency *dependency = &op->as.dependencies[i];
        if (get(run, at->value, dependency->name))
            is_valid &= schema_run_node(run, dependency->node, at);
    }
    return is_valid;
}

bool schema_run_unevaluated(struct schema_run *run, const struct schema_op *op,
                            const struct schema_at *at)
{
    const struct json_member *members = at->value->type == JSON_OBJECT ? at->value->as.members
                                                                       : NULL;
    bool is_valid = true;
    ASSERT(at->evaluated);
    for (uint32_t i = 0; i < at->value->count && schema_spend(run, FUEL_ITEM); i++) {
        if (evaluated_has(at->evaluated, i))
            continue;
        /* Added although nothing follows in this node: an outer unevaluated* sees it through the
         * merge. */
        evaluated_add(at->evaluated, i);
        bool is_refused = op->as.node->verdict == VERDICT_FALSE;
        if (is_refused && !members)
            return schema_report_extra_item(run, at, KW_UNEVALUATED_ITEMS, i, i);
        is_valid &= is_refused ? schema_report_unknown(run, at, KW_UNEVALUATED_PROPERTIES, i)
                               : schema_run_child(run, op->as.node, at,
                                                  members ? &members[i].key : NULL, i);
        if (!is_valid && !run->report)
            break;
    }
    return is_valid;
}

bool schema_run_object(struct schema_run *run, const struct schema_op *op,
                       const struct schema_at *at)
{
    ASSERT(at->value->type == JSON_OBJECT);
    uint32_t count = at->value->count;
    switch (op->kind) {
    case KW_MIN_PROPERTIES:
        return count >= op->as.limit || schema_report_count(run, op, at, count);
    case KW_MAX_PROPERTIES:
        return count <= op->as.limit || schema_report_count(run, op, at, count);
    case KW_PROPERTIES:
        return run_properties(run, op->as.object, at);
    case KW_PROPERTY_NAMES:
        return run_property_names(run, op, at);
    case KW_DEPENDENT_REQUIRED:
        return run_dependent_required(run, op, at);
    case KW_DEPENDENT_SCHEMAS:
        return run_dependent_schemas(run, op, at);
    default:
        ASSERT(op->kind == KW_UNEVALUATED_PROPERTIES);
        return schema_run_unevaluated(run, op, at);
    }
}
