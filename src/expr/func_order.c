/*
 * func_order: functions that order: sort, min, max and their _by forms. Sorting is a stable merge
 * sort, which takes O(n log n) for any input; each comparison is charged. qsort is not stable and
 * cannot be stopped, and hostile input makes some implementations quadratic.
 */
#include "expr/func.h"

struct keyed {
    struct json key, value;
};

/* ---- keys ---- */

static int check_key(struct expr_run *run, const struct expr_node *call, uint32_t i,
                     const struct json *key, const struct json *first)
{
    const char *name = call->as.function->name;
    if (!json_is_number(key) && key->type != JSON_STRING)
        return expr_run_fail(run, EXPR_FAULT_TYPE, call->at,
                             "%s() wants its expression to give numbers or strings, item %u gave "
                             "%s",
                             name, i + 1, expr_value_type(key));
    /* Values of mixed types have no order; the specification requires an error. */
    if (json_is_number(key) != json_is_number(first))
        return expr_run_fail(run, EXPR_FAULT_TYPE, call->at,
                             "%s() wants its expression to give one type, item 1 gave %s and item "
                             "%u gave %s",
                             name, expr_value_type(first), i + 1, expr_value_type(key));
    return OK;
}

/* Pairs each item of the array with its key, which is the value of the reference for the item.
 * Without a reference, an item is its own key. */
static int make_keys(struct expr_run *run, const struct expr_node *call,
                     const struct expr_node *ref, const struct json *array, struct keyed **out)
{
    uint32_t count = array->count;
    struct keyed *items = NULL;
    int rc = expr_run_visit(run, count);
    if (rc != OK)
        return rc;
    items = arena_alloc(run->arena, (count ? count : 1) * sizeof *items);
    if (!items)
        return expr_run_nomem(run);
    for (uint32_t i = 0; rc == OK && i < count; i++) {
        items[i].value = items[i].key = array->as.items[i];
        if (!ref)
            continue;
        rc = expr_run_node(run, ref, &array->as.items[i], &items[i].key);
        if (rc == OK)
            rc = check_key(run, call, i, &items[i].key, &items[0].key);
    }
    *out = items;
    return rc;
}

/* ---- merge sort ---- */

/* Merges from[low, middle) and from[middle, high) into to; on a tie the left item goes first. */
static int merge_runs(struct expr_run *run, const struct keyed *from, struct keyed *to, size_t low,
                      size_t middle, size_t high)
{
    size_t left = low, right = middle;
    for (size_t i = low; i < high; i++) {
        /* If one run is used up, `order` selects the other, without a comparison. */
        int order = left == middle ? 1 : -1;
        if (left < middle && right < high) {
            int rc = expr_value_order(run, &from[left].key, &from[right].key, &order);
            if (rc != OK)
                return rc;
        }
        to[i] = order <= 0 ? from[left++] : from[right++];
    }
    ASSERT(left == middle && right == high);
    return OK;
}

/* Sorts *items; *spare has the same length. The two may be swapped. */
static int merge_sort(struct expr_run *run, struct keyed **items, struct keyed **spare,
                      size_t count)
{
    /* Bottom-up, without recursion: merges runs of 1, 2, 4 ... items. */
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t low = 0; low < count; low += 2 * width) {
            size_t middle = low + width < count ? low + width : count;
            size_t high = low + 2 * width < count ? low + 2 * width : count;
            int rc = merge_runs(run, *items, *spare, low, middle, high);
            if (rc != OK)
                return rc;
        }
        /* The sorted items are now in *spare; the two are swapped for the next width. */
        struct keyed *sorted = *spare;
        *spare = *items;
        *items = sorted;
    }
    return OK;
}

static int sort(struct expr_run *run, const struct expr_node *call, const struct expr_node *ref,
                const struct json *array, struct json *out)
{
    struct keyed *items = NULL, *spare;
    struct json *sorted = NULL;
    int rc = make_keys(run, call, ref, array, &items);
    if (rc == OK)
        rc = expr_run_items(run, array->count, &sorted);
    if (rc != OK)
        return rc;
    spare = arena_alloc(run->arena, (array->count ? array->count : 1) * sizeof *spare);
    if (!spare)
        return expr_run_nomem(run);
    rc = merge_sort(run, &items, &spare, array->count);
    for (uint32_t i = 0; rc == OK && i < array->count; i++)
        sorted[i] = items[i].value;
    *out = expr_array(sorted, array->count);
    return rc;
}

EXPR_FUNCTION(sort)
{
    return sort(run, call, NULL, &args[0], out);
}

EXPR_FUNCTION(sort_by)
{
    return sort(run, call, expr_function_ref(call, 1), &args[0], out);
}

/* ---- extremes ---- */

/* Finds the first item whose key is the largest (sign 1) or the smallest (sign -1). */
static int extreme(struct expr_run *run, const struct expr_node *call, const struct expr_node *ref,
                   const struct json *array, int sign, struct json *out)
{
    struct keyed *items = NULL;
    int rc = make_keys(run, call, ref, array, &items);
    /* The largest item of an empty array is null. */
    if (rc != OK || !items || array->count == 0)
        return rc;
    uint32_t best = 0;
    for (uint32_t i = 1; rc == OK && i < array->count; i++) {
        int order = 0;
        rc = expr_value_order(run, &items[i].key, &items[best].key, &order);
        /* The key must be strictly larger, so that the first of equal items is the result. */
        if (order * sign > 0)
            best = i;
    }
    if (rc == OK)
        *out = items[best].value;
    return rc;
}

EXPR_FUNCTION(max)
{
    return extreme(run, call, NULL, &args[0], 1, out);
}

EXPR_FUNCTION(min)
{
    return extreme(run, call, NULL, &args[0], -1, out);
}

EXPR_FUNCTION(max_by)
{
    return extreme(run, call, expr_function_ref(call, 1), &args[0], 1, out);
}

EXPR_FUNCTION(min_by)
{
    return extreme(run, call, expr_function_ref(call, 1), &args[0], -1, out);
}
