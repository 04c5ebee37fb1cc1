/*
 * Validation: the assertions of each keyword (JSON Schema Validation 6), the applicators (Core 10),
 * and the walk over nodes and references. A first run without a report decides whether the instance
 * is valid. Only an invalid instance is validated again to collect its violations, so valid
 * instances, which are nearly all, pay nothing for messages.
 *
 * Fuel and depth limit every run: a schema may refer to itself, and allOf of allOf doubles work
 * with each level. Once a run is stopped, every function answers "no" quickly, and the caller
 * checks run->stop_reason for the cause.
 */
#include "schema/run.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/thread_block.h"

/* ---- limits ---- */

void schema_stop(struct schema_run *run, const char *reason)
{
    if (!run->stop_reason)
        run->stop_reason = reason;
    /* Without fuel, code that continues without a check of stop_reason ends at its next charge. */
    run->fuel = 0;
}

static bool enter_node(struct schema_run *run)
{
    if (run->stop_reason || !schema_spend(run, FUEL_NODE))
        return false;
    if (run->depth == SCHEMA_DEPTH_MAX) {
        schema_stop(run, "it is nested too deeply; the schema may refer to itself endlessly");
        return false;
    }
    run->depth++;
    return true;
}

/* ---- what was evaluated ---- */

/* Which members or items of one instance were evaluated, for unevaluated*. */
struct evaluated_set {
    uint64_t *bits;
    uint32_t words;
    bool is_heap;
    uint64_t few; /* the bits of up to 64 members */
};

static inline void evaluated_add(struct evaluated_set *evaluated, uint32_t index)
{
    ASSERT(index / 64 < evaluated->words);
    evaluated->bits[index / 64] |= UINT64_C(1) << (index % 64);
}

static inline bool evaluated_has(const struct evaluated_set *evaluated, uint32_t index)
{
    return evaluated->bits[index / 64] >> (index % 64) & 1;
}

enum { EVALUATED_WORDS = 4096 };

/* A stack, like the calls of the validation: the last block taken is the first released. */
struct evaluated_space {
    uint64_t words[EVALUATED_WORDS];
    size_t used;
};

/* Allocated only in threads that validate. */
static _Thread_local struct evaluated_space *evaluated_space;

/* Returns false if out of memory or fuel; the run is then stopped. */
static bool evaluated_init(struct schema_run *run, struct evaluated_set *evaluated, uint32_t count)
{
    *evaluated = (struct evaluated_set){.words = (uint32_t)(((uint64_t)count + 63) / 64)};
    if (evaluated->words <= 1) {
        evaluated->words = 1;
        evaluated->bits = &evaluated->few;
        return true;
    }
    /* Clearing and merging take one operation per word each. */
    if (!schema_spend(run, evaluated->words))
        return false;
    if (!evaluated_space)
        evaluated_space = thread_block_new(sizeof(*evaluated_space));
    if (evaluated_space && evaluated->words <= EVALUATED_WORDS - evaluated_space->used) {
        evaluated->bits = evaluated_space->words + evaluated_space->used;
        evaluated_space->used += evaluated->words;
        memset(evaluated->bits, 0, evaluated->words * sizeof(*evaluated->bits));
        return true;
    }
    evaluated->bits = mem_calloc(evaluated->words, sizeof(*evaluated->bits));
    evaluated->is_heap = true;
    if (!evaluated->bits)
        schema_stop(run, "there is not enough memory for it");
    return evaluated->bits != NULL;
}

static void evaluated_deinit(struct evaluated_set *evaluated)
{
    /* Each function releases the set that it took, so the last set taken is the first released. */
    if (evaluated->is_heap) {
        mem_free(evaluated->bits);
    } else if (evaluated->bits != &evaluated->few) {
        ASSERT(evaluated_space->used >= evaluated->words);
        evaluated_space->used -= evaluated->words;
    }
}

static void evaluated_merge(struct evaluated_set *to, const struct evaluated_set *from)
{
    ASSERT(to->words == from->words);
    for (uint32_t i = 0; i < to->words; i++)
        to->bits[i] |= from->bits[i];
}

static uint32_t container_count(const struct json *value)
{
    return value->type == JSON_ARRAY || value->type == JSON_OBJECT ? value->count : 0;
}

/* ---- below a node ---- */

/* Runs a node without a report. The members it evaluates count only if it succeeds. */
static bool run_quietly(struct schema_run *run, const struct schema_node *node,
                        const struct schema_at *at)
{
    struct schema_report *report = run->report;
    /* Branches that may fail must not report: the violation is that of the whole keyword. */
    run->report = NULL;
    bool is_valid = false;
    if (!at->evaluated) {
        is_valid = schema_run_node(run, node, at);
    } else {
        struct evaluated_set branch;
        struct schema_at inner = *at;
        /* The branch gets its own set: what a failed branch evaluates does not count (Core
         * 7.7.1). */
        inner.evaluated = &branch;
        if (evaluated_init(run, &branch, container_count(at->value))) {
            is_valid = schema_run_node(run, node, &inner);
            if (is_valid)
                evaluated_merge(at->evaluated, &branch);
            evaluated_deinit(&branch);
        }
    }
    run->report = report;
    return is_valid;
}

/* Runs a node on a member or item of at->value. */
static bool run_child(struct schema_run *run, const struct schema_node *node,
                      const struct schema_at *at, const struct json *key, uint32_t index)
{
    /* The path and the scope are on the C stack: SCHEMA_DEPTH_MAX limits it. */
    const struct schema_path path = {at->path, key, index};
    const struct json *value = key ? &at->value->as.members[index].value
                                   : &at->value->as.items[index];
    const struct schema_at child = {value, &path, at->scope, NULL, node};
    return schema_run_node(run, node, &child);
}

/* ---- const, enum ---- */

/* Whether the comparison must read the contents; if not, type or count already differ. */
static bool may_be_equal(const struct json *a, const struct json *b)
{
    if (json_is_number(a))
        return json_is_number(b);
    return a->type == b->type && (a->type < JSON_STRING || a->count == b->count);
}

static bool is_equal(struct schema_run *run, const struct json *value, const struct json *wanted,
                     uint32_t *weight)
{
    if (!may_be_equal(value, wanted))
        return false;
    /* Computed once for an enum of many values, and only if one of them may be equal. */
    if (*weight == 0)
        *weight = schema_weight(value);
    bool has_parts = wanted->type == JSON_BIGNUM || wanted->type >= JSON_ARRAY;
    uint64_t fuel = *weight + (uint64_t)(has_parts ? schema_weight(wanted) : 0);
    return schema_spend(run, fuel) && json_equal(value, wanted);
}

static bool is_in_enum(struct schema_run *run, const struct json *value, const struct json *list)
{
    uint32_t weight = 0;
    if (!schema_spend(run, list->count))
        return false;
    for (uint32_t i = 0; i < list->count; i++) {
        if (is_equal(run, value, &list->as.items[i], &weight))
            return true;
    }
    return false;
}

/* ---- numbers ---- */

static bool is_in_bound(struct schema_run *run, const struct schema_op *op,
                        const struct json *value)
{
    /* Numbers that are stored as text may have megabytes of digits; others are compared in constant
     * time. */
    uint64_t digits = value->type == JSON_BIGNUM ? value->count : 0;
    if (op->as.value->type == JSON_BIGNUM)
        digits += op->as.value->count;
    if (!schema_spend(run, digits))
        return false;
    int order = json_number_cmp(value, op->as.value);
    switch (op->kind) {
    case KW_MINIMUM:
        return order >= 0;
    case KW_MAXIMUM:
        return order <= 0;
    case KW_EXCLUSIVE_MINIMUM:
        return order > 0;
    default:
        ASSERT(op->kind == KW_EXCLUSIVE_MAXIMUM);
        return order < 0;
    }
}

static bool is_multiple(struct schema_run *run, const struct schema_op *op,
                        const struct json *value)
{
    uint64_t digits = value->type == JSON_BIGNUM ? (uint64_t)value->count * 16 : 200;
    return schema_spend(run, digits) && json_number_is_multiple(value, op->as.divisor);
}

/* ---- strings ---- */

enum { LANE_ROUNDS_MAX = 255 }; /* the maximum of a byte */

/* Counts code points, as RFC 8259 counts characters: all bytes except those of the form
 * 10xxxxxx. These are counted in 8 lanes, since a text may have megabytes. */
static uint64_t character_count(slice text)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), even = UINT64_C(0x00ff00ff00ff00ff);
    uint64_t count = text.len, bytes;
    size_t at = 0;
    while (text.len - at >= sizeof(bytes)) {
        uint64_t lanes = 0;
        for (int i = 0; i < LANE_ROUNDS_MAX && text.len - at >= sizeof(bytes); i++) {
            memcpy(&bytes, text.ptr + at, sizeof(bytes));
            /* Adds one to each lane whose byte has the top bit set and the next bit clear. */
            lanes += (bytes >> 7) & (~bytes >> 6) & ones;
            at += sizeof(bytes);
        }
        /* Adds neighbouring lanes to 16-bit lanes, then sums these four by one multiplication. */
        lanes = (lanes & even) + ((lanes >> 8) & even);
        count -= (lanes * UINT64_C(0x0001000100010001)) >> 48;
    }
    for (; at < text.len; at++)
        count -= ((unsigned char)text.ptr[at] & 0xC0) == 0x80;
    return count;
}

/* A character has 1 to 4 bytes, so the length in bytes mostly decides without counting. */
static bool run_length(struct schema_run *run, const struct schema_op *op,
                       const struct schema_at *at)
{
    slice text = json_str(at->value);
    uint64_t limit = op->as.limit;
    bool is_min = op->kind == KW_MIN_LENGTH;
    if (is_min ? text.len / 4 >= limit && limit > 0 : text.len <= limit)
        return true;
    if (is_min && limit == 0)
        return true;
    /* Counting reads a word at a time, so a quarter of the bytes is more than enough. */
    if (!schema_spend(run, text.len / 4))
        return false;
    uint64_t count = character_count(text);
    bool is_fine = is_min ? count >= limit : count <= limit;
    return is_fine || schema_report_count(run, op, at, count);
}

bool schema_pattern_is_match(struct schema_run *run, const struct schema_pattern *pattern,
                             slice text)
{
    enum schema_match match = schema_pattern_match(pattern, text, &run->fuel);
    if (match == SCHEMA_MATCH_FUEL)
        /* A pattern that ran out of fuel has no result; the run stops, since both "yes" and "no"
         * may be wrong. */
        schema_stop(run, "a pattern takes too many steps on this text");
    return match == SCHEMA_MATCH_YES;
}

static bool has_format(struct schema_run *run, const struct schema_format *format, slice text)
{
    if (format->pattern)
        return schema_pattern_is_match(run, format->pattern, text);
    return schema_spend(run, schema_format_fuel(format, text)) && format->check(text);
}

static bool run_value(struct schema_run *run, const struct schema_op *op,
                      const struct schema_at *at)
{
    uint32_t weight = 0;
    bool is_valid = false;
    switch (op->kind) {
    case KW_CONST:
        is_valid = is_equal(run, at->value, op->as.value, &weight);
        break;
    case KW_ENUM:
        is_valid = is_in_enum(run, at->value, op->as.value);
        break;
    case KW_MULTIPLE_OF:
        is_valid = is_multiple(run, op, at->value);
        break;
    case KW_PATTERN:
        is_valid = schema_pattern_is_match(run, op->as.pattern, json_str(at->value));
        break;
    case KW_FORMAT:
        is_valid = has_format(run, op->as.format, json_str(at->value));
        break;
    default:
        is_valid = is_in_bound(run, op, at->value);
        break;
    }
    return is_valid || schema_report_value(run, op, at);
}

/* ---- uniqueItems ---- */

/* Up to four items need six comparisons, which is cheaper than hashing each item. */
enum { UNIQUE_PAIRWISE_MAX = 4, FUEL_UNIQUE = 35 };

static const uint64_t fuel_unique_weight = 20;

struct unique_slot {
    uint32_t hash;
    uint32_t index; /* + 1; 0 is free */
};

/* Finds two equal items, at *first and *second. Items with equal hashes are compared. */
static bool find_twins(struct schema_run *run, const struct json *array, struct unique_slot *slots,
                       size_t mask, uint32_t *first, uint32_t *second)
{
    for (uint32_t i = 0; i < array->count; i++) {
        const struct json *item = &array->as.items[i];
        /* Hashing and a comparison read the whole item, so the charge is its weight. */
        if (!schema_spend(run, FUEL_UNIQUE + fuel_unique_weight * schema_weight(item)))
            return false;
        uint64_t full = json_hash(item);
        /* One hash is used in two parts: the low bits choose the slot, the high bits avoid most
         * comparisons. */
        uint32_t hash = (uint32_t)(full >> 32);
        size_t at = (size_t)full & mask;
        for (; slots[at].index; at = (at + 1) & mask) {
            if (slots[at].hash != hash || !json_equal(item, &array->as.items[slots[at].index - 1]))
                continue;
            *first = slots[at].index - 1;
            *second = i;
            return true;
        }
        slots[at] = (struct unique_slot){hash, i + 1};
    }
    return false;
}

static bool find_twins_pairwise(const struct json *array, uint32_t *first, uint32_t *second)
{
    for (*second = 1; *second < array->count; ++*second) {
        for (*first = 0; *first < *second; ++*first) {
            if (json_equal(&array->as.items[*first], &array->as.items[*second]))
                return true;
        }
    }
    return false;
}

/* This function is not inlined: its slots would otherwise be part of each frame of the
 * recursion. */
__attribute__((noinline)) static bool find_twins_hashed(struct schema_run *run,
                                                        const struct json *array, uint32_t *first,
                                                        uint32_t *second)
{
    struct unique_slot few[SCHEMA_UNIQUE_STACK * 2], *slots = few;
    size_t slot_count = 4;
    while (slot_count < (size_t)array->count * 2)
        slot_count *= 2;
    /* The search does not begin without enough fuel for all items: filling a large table has a
     * cost, too. */
    if (run->fuel < (FUEL_UNIQUE + fuel_unique_weight) * array->count)
        schema_stop(run, "it takes too many steps");
    if (!schema_spend(run, slot_count / 4))
        return false;
    if (slot_count > ARRAY_LEN(few) && !(slots = mem_alloc(slot_count * sizeof(*slots)))) {
        schema_stop(run, "there is not enough memory for it");
        return false;
    }
    memset(slots, 0, slot_count * sizeof(*slots));
    bool has_twins = find_twins(run, array, slots, slot_count - 1, first, second);
    if (slots != few)
        mem_free(slots);
    return has_twins;
}

static bool run_unique(struct schema_run *run, const struct schema_op *op,
                       const struct schema_at *at)
{
    (void)op;
    const struct json *array = at->value;
    uint32_t first = 0, second = 0;
    bool is_cheap = array->count <= UNIQUE_PAIRWISE_MAX;
    if (array->count < 2)
        return true;
    if (is_cheap && !schema_spend(run, UINT64_C(8) * schema_weight(array)))
        return false;
    bool has_twins = is_cheap ? find_twins_pairwise(array, &first, &second)
                              : find_twins_hashed(run, array, &first, &second);
    return has_twins ? schema_report_unique(run, at, first, second) : !run->stop_reason;
}

static bool run_unevaluated(struct schema_run *run, const struct schema_op *op,
                            const struct schema_at *at)
{
    const struct json_member *members = at->value->type == JSON_OBJECT ? at->value->as.members
                                                                       : NULL;
    bool is_valid = true;
    ASSERT(at->evaluated);
    for (uint32_t i = 0; i < at->value->count && schema_spend(run, FUEL_ITEM); i++) {
        if (evaluated_has(at->evaluated, i))
            continue;
        /* The item is added although no later op of this node reads the set: an outer unevaluated*
         * gets it when the sets are merged. */
        evaluated_add(at->evaluated, i);
        bool is_refused = op->as.node->verdict == VERDICT_FALSE;
        if (is_refused && !members)
            return schema_report_extra_item(run, at, KW_UNEVALUATED_ITEMS, i, i);
        is_valid &= is_refused
                        ? schema_report_unknown(run, at, KW_UNEVALUATED_PROPERTIES, i)
                        : run_child(run, op->as.node, at, members ? &members[i].key : NULL, i);
        if (!is_valid && !run->report)
            break;
    }
    return is_valid;
}

/* ---- items ---- */

static bool run_items(struct schema_run *run, const struct schema_op *op,
                      const struct schema_at *at)
{
    const struct schema_items *items = op->as.items;
    bool is_valid = true;
    for (uint32_t i = 0; i < at->value->count; i++) {
        const struct schema_node *node = i < items->prefix_count ? items->prefix[i] : items->rest;
        if (!node)
            break;
        if (at->evaluated)
            /* An invalid item counts as evaluated, too: it fails the node anyway. */
            evaluated_add(at->evaluated, i);
        /* "items": false with a prefix: one message about the length is clearer than one for
         * each item. */
        if (node == items->rest && node->verdict == VERDICT_FALSE)
            return schema_report_extra_item(run, at, KW_ITEMS, i, items->prefix_count);
        if (schema_spend(run, FUEL_ITEM) && run_child(run, node, at, NULL, i))
            continue;
        is_valid = false;
        if (schema_is_over(run))
            break;
    }
    return is_valid;
}

static bool run_contains(struct schema_run *run, const struct schema_op *op,
                         const struct schema_at *at)
{
    const struct schema_contains *contains = op->as.contains;
    struct schema_report *report = run->report;
    uint64_t found = 0;
    run->report = NULL;
    for (uint32_t i = 0; i < at->value->count && schema_spend(run, FUEL_ITEM); i++) {
        if (!run_child(run, contains->node, at, NULL, i))
            continue;
        found++;
        if (at->evaluated)
            evaluated_add(at->evaluated, i);
        /* maxContains and unevaluatedItems need all items; otherwise the minimum decides. */
        bool is_decided = found >= contains->min && contains->max == UINT64_MAX;
        if (found > contains->max || (is_decided && !at->evaluated))
            break;
    }
    run->report = report;
    return (found >= contains->min && found <= contains->max) ||
           schema_report_contains(run, op, at, found);
}

/* ---- properties ---- */

const struct schema_property *schema_find_property(const struct schema_object *object, slice name,
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
            /* The slot holds index + 1, which is the index of the next property. */
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
        if (!schema_pattern_is_match(run, object->patterns[i].pattern, json_str(key)))
            continue;
        *is_evaluated = true;
        is_valid &= run_child(run, object->patterns[i].node, at, key, index);
    }
    return is_valid;
}

static bool run_additional(struct schema_run *run, const struct schema_object *object,
                           const struct schema_at *at, uint32_t index)
{
    if (object->additional->verdict == VERDICT_FALSE)
        /* This message names the property and suggests another name; a failed subschema "false"
         * cannot do that. */
        return schema_report_unknown(run, at, KW_ADDITIONAL_PROPERTIES, index);
    return run_child(run, object->additional, at, &at->value->as.members[index].key, index);
}

struct member_walk {
    uint32_t next; /* the property expected next */
    uint32_t required_found;
};

static bool run_member(struct schema_run *run, const struct schema_object *object,
                       const struct schema_at *at, uint32_t index, struct member_walk *walk)
{
    const struct json *key = &at->value->as.members[index].key;
    const struct schema_property *property =
        schema_find_property(object, json_str(key), &walk->next);
    /* A property that only `required` names has no subschema and does not count as evaluated. */
    bool is_evaluated = property && property->node;
    bool is_valid = true;
    walk->required_found += property && property->is_required;
    if (is_evaluated)
        is_valid = run_child(run, property->node, at, key, index);
    if (object->pattern_count > 0)
        is_valid &= run_patterns(run, object, at, index, &is_evaluated);
    /* additionalProperties applies to the members that match neither properties nor
     * patternProperties (Core 10.3.2.3). */
    if (!is_evaluated && object->additional) {
        is_evaluated = true;
        is_valid &= run_additional(run, object, at, index);
    }
    if (is_evaluated && at->evaluated)
        evaluated_add(at->evaluated, index);
    return is_valid;
}

static bool run_properties(struct schema_run *run, const struct schema_op *op,
                           const struct schema_at *at)
{
    const struct schema_object *object = op->as.object;
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
    /* Required members are counted during the walk, so a complete object needs no search for their
     * names. */
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
        /* A name has no pointer of its own in the instance, so it is reported at its object. */
        const struct schema_at name = {key, at->path, at->scope, NULL, op->as.node};
        if (run_quietly(run, op->as.node, &name))
            continue;
        is_valid = schema_report_property_name(run, op, at, key);
        if (schema_is_over(run))
            break;
    }
    return is_valid;
}

/* Calls json_get and charges for it: its cost is linear in the members, and lists of dependencies
 * multiply the cost. */
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

static bool run_count(struct schema_run *run, const struct schema_op *op,
                      const struct schema_at *at)
{
    bool is_min = op->kind == KW_MIN_ITEMS || op->kind == KW_MIN_PROPERTIES;
    uint32_t count = at->value->count;
    return (is_min ? count >= op->as.limit : count <= op->as.limit) ||
           schema_report_count(run, op, at, count);
}

/* ---- in place ---- */

static bool run_all_of(struct schema_run *run, const struct schema_op *op,
                       const struct schema_at *at)
{
    /* Without a report the first "no" decides; with a report, all branches are visited. */
    bool is_valid = true;
    for (uint32_t i = 0; i < op->count; i++) {
        if (schema_run_node(run, op->as.nodes[i], at))
            continue;
        is_valid = false;
        if (schema_is_over(run))
            break;
    }
    return is_valid;
}

/* Every alternative is tried if the evaluated members are needed. */
static bool run_any_of(struct schema_run *run, const struct schema_op *op,
                       const struct schema_at *at)
{
    bool is_valid = false;
    for (uint32_t i = 0; i < op->count && !run->stop_reason; i++) {
        is_valid |= run_quietly(run, op->as.nodes[i], at);
        if (is_valid && !at->evaluated)
            break;
    }
    return is_valid || schema_report_none_match(run, op, at);
}

static bool run_one_of(struct schema_run *run, const struct schema_op *op,
                       const struct schema_at *at)
{
    uint32_t first = op->count;
    for (uint32_t i = 0; i < op->count && !run->stop_reason; i++) {
        if (!run_quietly(run, op->as.nodes[i], at))
            continue;
        /* A second match already decides, so later branches are not run. */
        if (first < op->count)
            return schema_report_several_match(run, at, first, i);
        first = i;
    }
    return first < op->count || schema_report_none_match(run, op, at);
}

static bool run_not(struct schema_run *run, const struct schema_op *op, const struct schema_at *at)
{
    struct schema_at inner = *at;
    /* What matches under "not" is not evaluated: a success there is a failure here. */
    inner.evaluated = NULL;
    return !run_quietly(run, op->as.node, &inner) || schema_report_forbidden(run, at, KW_NOT);
}

static bool run_if(struct schema_run *run, const struct schema_op *op, const struct schema_at *at)
{
    const struct schema_if *branches = op->as.branches;
    bool is_met = run_quietly(run, branches->condition, at);
    const struct schema_node *next = is_met ? branches->consequence : branches->alternative;
    return !next || schema_run_node(run, next, at);
}

/* Core 8.2.3.2: the outermost resource on the path that has the anchor is the target. */
static bool run_dynamic_ref(struct schema_run *run, const struct schema_op *op,
                            const struct schema_at *at)
{
    const struct schema_dynamic_ref *ref = op->as.dynamic_ref;
    const struct schema_node *target = ref->target;
    /* The loop runs from the innermost scope outwards without a break, so the last scope found
     * is the outermost. */
    const struct schema_scope *scope = ref->anchor.len > 0 ? at->scope : NULL;
    for (; scope && schema_spend(run, FUEL_OP); scope = scope->outer) {
        const struct schema_resource *resource = scope->resource;
        for (uint32_t i = 0; i < resource->dynamic_anchor_count; i++) {
            if (slice_eq(resource->dynamic_anchors[i].name, ref->anchor))
                target = resource->dynamic_anchors[i].node;
        }
    }
    return schema_run_node(run, target, at);
}

/* ---- nodes ---- */

static bool run_ref(struct schema_run *run, const struct schema_op *op, const struct schema_at *at)
{
    return schema_run_node(run, op->as.node, at);
}

static bool (*const runs[KW_COUNT])(struct schema_run *run, const struct schema_op *op,
                                    const struct schema_at *at) = {
    [KW_CONST] = run_value,
    [KW_ENUM] = run_value,
    [KW_MULTIPLE_OF] = run_value,
    [KW_MINIMUM] = run_value,
    [KW_MAXIMUM] = run_value,
    [KW_EXCLUSIVE_MINIMUM] = run_value,
    [KW_EXCLUSIVE_MAXIMUM] = run_value,
    [KW_PATTERN] = run_value,
    [KW_FORMAT] = run_value,
    [KW_MIN_LENGTH] = run_length,
    [KW_MAX_LENGTH] = run_length,
    [KW_MIN_ITEMS] = run_count,
    [KW_MAX_ITEMS] = run_count,
    [KW_MIN_PROPERTIES] = run_count,
    [KW_MAX_PROPERTIES] = run_count,
    [KW_UNIQUE_ITEMS] = run_unique,
    [KW_ITEMS] = run_items,
    [KW_CONTAINS] = run_contains,
    [KW_PROPERTIES] = run_properties,
    [KW_PROPERTY_NAMES] = run_property_names,
    [KW_DEPENDENT_REQUIRED] = run_dependent_required,
    [KW_DEPENDENT_SCHEMAS] = run_dependent_schemas,
    [KW_REF] = run_ref,
    [KW_DYNAMIC_REF] = run_dynamic_ref,
    [KW_ALL_OF] = run_all_of,
    [KW_ANY_OF] = run_any_of,
    [KW_ONE_OF] = run_one_of,
    [KW_NOT] = run_not,
    [KW_IF] = run_if,
    [KW_UNEVALUATED_ITEMS] = run_unevaluated,
    [KW_UNEVALUATED_PROPERTIES] = run_unevaluated,
};

unsigned schema_types_of(const struct json *value)
{
    static const uint8_t types[] = {
        [JSON_NULL] = TYPE_NULL,
        [JSON_BOOL] = TYPE_BOOLEAN,
        [JSON_INT] = TYPE_NUMBER | TYPE_INTEGER,
        [JSON_UINT] = TYPE_NUMBER | TYPE_INTEGER,
        [JSON_REAL] = TYPE_NUMBER,
        [JSON_BIGNUM] = TYPE_NUMBER,
        [JSON_STRING] = TYPE_STRING,
        [JSON_ARRAY] = TYPE_ARRAY,
        [JSON_OBJECT] = TYPE_OBJECT,
    };
    ASSERT(value->type < ARRAY_LEN(types));
    return types[value->type];
}

static bool has_allowed_type(struct schema_run *run, const struct schema_node *node,
                             const struct json *value, unsigned types)
{
    if (types & node->types)
        return true;
    /* 1.0 and 1e3 are integers too. */
    if (!(types & TYPE_NUMBER) || !(node->types & TYPE_INTEGER))
        return false;
    return schema_spend(run, value->type == JSON_BIGNUM ? value->count : FUEL_OP) &&
           json_number_is_integer(value);
}

static bool run_ops(struct schema_run *run, const struct schema_node *node,
                    const struct schema_at *at)
{
    unsigned types = schema_types_of(at->value);
    if (!has_allowed_type(run, node, at->value, types))
        return schema_report_type(run, at);
    bool is_valid = true;
    for (uint32_t i = 0; i < node->op_count; i++) {
        const struct schema_op *op = &node->ops[i];
        /* An op for other types does not apply to this instance, so the assertion passes (Core
         * 7.6.1). */
        if (!(op->types & types))
            continue;
        if (schema_spend(run, FUEL_OP) && runs[op->kind](run, op, at))
            continue;
        is_valid = false;
        if (schema_is_over(run))
            break;
    }
    return is_valid;
}

static bool run_evaluating(struct schema_run *run, const struct schema_node *node,
                           const struct schema_at *at)
{
    struct evaluated_set own;
    struct schema_at inner = *at;
    if (!evaluated_init(run, &own, container_count(at->value)))
        return false;
    inner.evaluated = &own;
    bool is_valid = run_ops(run, node, &inner);
    if (is_valid && at->evaluated)
        evaluated_merge(at->evaluated, &own);
    evaluated_deinit(&own);
    return is_valid;
}

bool schema_run_node(struct schema_run *run, const struct schema_node *node,
                     const struct schema_at *at)
{
    if (node->verdict == VERDICT_TRUE)
        return true;
    if (node->verdict == VERDICT_FALSE)
        return schema_report_forbidden(run, at, KW_COUNT);
    if (!enter_node(run))
        return false;
    const struct schema_scope scope = {at->scope, node->resource};
    struct schema_at here = *at;
    here.node = node;
    /* A scope is added only if the resource changes, so a chain of references within a resource
     * adds none. */
    if (!at->scope || at->scope->resource != node->resource)
        here.scope = &scope;
    bool is_valid = node->has_unevaluated ? run_evaluating(run, node, &here)
                                          : run_ops(run, node, &here);
    run->depth--;
    return is_valid;
}

/* ---- the whole ---- */

bool schema_validate(const struct schema *schema, const struct json *instance,
                     struct schema_report *report)
{
    ASSERT(schema && instance);
    struct schema_run run = {.fuel = SCHEMA_FUEL, .schema = schema};
    const struct schema_at at = {.value = instance};
    bool is_valid = schema_run_node(&run, schema->root, &at) && !run.stop_reason;
    if (is_valid || !report)
        return is_valid;
    run.report = report;
    run.violations_max = SCHEMA_VIOLATIONS_MAX;
    ASSERT(run.depth == 0);
    if (!run.stop_reason) {
        /* The second run has its own budget: the first run may have used nearly all of the fuel. */
        run.fuel = SCHEMA_REPORT_FUEL;
        run.is_known_invalid = true;
        (void)schema_run_node(&run, schema->root, &at);
    }
    if (run.stop_reason)
        schema_report_stop(&run);
    return false;
}
