/*
 * schema_run_array: assertions and applicators about arrays (JSON Schema Core 10.3.1, Validation
 * 6.4).
 */
#include "base/mem.h"
#include "schema/run.h"

/* ---- uniqueItems ---- */

/* Up to four items are six comparisons: cheaper than hashing each. */
enum { UNIQUE_PAIRWISE_MAX = 4, FUEL_UNIQUE = 35 };

static const uint64_t fuel_unique_weight = 20;

struct unique_slot {
    uint32_t hash;
    uint32_t index; /* + 1; 0 is free */
};

/* Two equal items at *first and *second. Items that hash alike are compared. */
static bool find_twins(struct schema_run *run, const struct json *array, struct unique_slot *slots,
                       size_t mask, uint32_t *first, uint32_t *second)
{
    for (uint32_t i = 0; i < array->count; i++) {
        const struct json *item = &array->as.items[i];
        /* Hashing and a comparison read the whole item, so its weight is the price. */
        if (!schema_spend(run, FUEL_UNIQUE + fuel_unique_weight * schema_weight(item)))
            return false;
        uint64_t full = json_hash(item);
        /* Two parts of one hash: the low bits choose the slot, the high ones spare most
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

static bool find_twins_large(struct schema_run *run, const struct json *array, uint32_t *first,
                             uint32_t *second)
{
    size_t slot_count = (size_t)SCHEMA_UNIQUE_STACK * 2;
    while (slot_count < (size_t)array->count * 2)
        slot_count *= 2;
    /* What cannot be gone through to its end is not begun: filling a large table costs, too. */
    if (run->fuel < (FUEL_UNIQUE + fuel_unique_weight) * array->count)
        schema_stop(run, "it takes too many steps");
    if (!schema_spend(run, slot_count / 4))
        return false;
    struct unique_slot *slots = mem_calloc(slot_count, sizeof(*slots));
    if (!slots) {
        schema_stop(run, "there is not enough memory for it");
        return false;
    }
    bool has_twins = find_twins(run, array, slots, slot_count - 1, first, second);
    mem_free(slots);
    return has_twins;
}

static bool find_twins_small(struct schema_run *run, const struct json *array, uint32_t *first,
                             uint32_t *second)
{
    struct unique_slot slots[SCHEMA_UNIQUE_STACK * 2] = {0};
    return find_twins(run, array, slots, ARRAY_LEN(slots) - 1, first, second);
}

static bool run_unique(struct schema_run *run, const struct schema_at *at)
{
    const struct json *array = at->value;
    uint32_t first = 0;
    uint32_t second = 0;
    bool has_twins = false;
    bool is_cheap = array->count <= UNIQUE_PAIRWISE_MAX;
    if (array->count < 2)
        return true;
    if (is_cheap && !schema_spend(run, UINT64_C(8) * schema_weight(array)))
        return false;
    if (is_cheap)
        has_twins = find_twins_pairwise(array, &first, &second);
    else if (array->count <= SCHEMA_UNIQUE_STACK)
        has_twins = find_twins_small(run, array, &first, &second);
    else
        has_twins = find_twins_large(run, array, &first, &second);
    return has_twins ? schema_report_unique(run, at, first, second) : !run->stop_reason;
}

/* ---- items ---- */

static bool run_items(struct schema_run *run, const struct schema_items *items,
                      const struct schema_at *at)
{
    bool is_valid = true;
    for (uint32_t i = 0; i < at->value->count; i++) {
        const struct schema_node *node = i < items->prefix_count ? items->prefix[i] : items->rest;
        if (!node)
            break;
        if (at->evaluated)
            /* Evaluated whether or not it is valid: a failing item fails the node anyway. */
            evaluated_add(at->evaluated, i);
        /* "items": false with a prefix: one message about the length says more than one for each
         * item. */
        if (node == items->rest && node->verdict == VERDICT_FALSE)
            return schema_report_extra_item(run, at, KW_ITEMS, i, items->prefix_count);
        if (schema_spend(run, FUEL_ITEM) && schema_run_child(run, node, at, NULL, i))
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
        if (!schema_run_child(run, contains->node, at, NULL, i))
            continue;
        found++;
        if (at->evaluated)
            evaluated_add(at->evaluated, i);
        /* maxContains and unevaluatedItems need to see further items; else the minimum decides. */
        bool is_decided = found >= contains->min && contains->max == UINT64_MAX;
        if (found > contains->max || (is_decided && !at->evaluated))
            break;
    }
    run->report = report;
    return (found >= contains->min && found <= contains->max) ||
           schema_report_contains(run, op, at, found);
}

bool schema_run_array(struct schema_run *run, const struct schema_op *op,
                      const struct schema_at *at)
{
    ASSERT(at->value->type == JSON_ARRAY);
    uint32_t count = at->value->count;
    switch (op->kind) {
    case KW_MIN_ITEMS:
        return count >= op->as.limit || schema_report_count(run, op, at, count);
    case KW_MAX_ITEMS:
        return count <= op->as.limit || schema_report_count(run, op, at, count);
    case KW_UNIQUE_ITEMS:
        return run_unique(run, at);
    case KW_ITEMS:
        return run_items(run, op->as.items, at);
    case KW_CONTAINS:
        return run_contains(run, op, at);
    default:
        ASSERT(op->kind == KW_UNEVALUATED_ITEMS);
        return schema_run_unevaluated(run, op, at);
    }
}
