/*
 * eval: walks over the nodes. Values are passed as 16-byte structs and share their contents with
 * the input; only new containers are allocated, each as one block of the right size. `out` never
 * points into `current`.
 *
 * Every rule is that of the JMESPath specification: a value of the wrong type gives null, never an
 * error (only functions check types). Every node, item and run of text is charged, so a tenant's
 * expression ends within its budget whatever the data is.
 */
#include "expr/func.h"
#include "expr/run.h"

/* ---- paths ---- */

static const struct json *at_index(const struct json *current, int32_t index)
{
    if (current->type != JSON_ARRAY)
        return &json_null;
    /* The sum is computed in 64 bits, so a negative index plus the count cannot overflow. */
    int64_t i = index < 0 ? (int64_t)current->count + index : index;
    return i >= 0 && i < current->count ? &current->as.items[i] : &json_null;
}

static int eval_field(struct expr_run *run, const struct expr_node *node,
                      const struct json *current, struct json *out)
{
    *out = json_null;
    if (current->type != JSON_OBJECT)
        return OK;
    const struct json *found = json_get(current, node->as.name);
    if (found)
        *out = *found;
    /* The search above is linear: large objects cost more than the one visit of the node. */
    return expr_run_visit(run, current->count / 8);
}

static int eval_seq(struct expr_run *run, const struct expr_node *node, const struct json *current,
                    struct json *out)
{
    /* The value is copied, because the next part may overwrite `out` while it still reads the last
     * value. */
    struct json value = *current;
    int rc = OK;
    for (const struct expr_node *kid = node->first; kid && rc == OK; kid = kid->next) {
        struct json next;
        rc = expr_run_node(run, kid, &value, &next);
        if (rc == OK)
            value = next;
    }
    *out = value;
    return rc;
}

/* ---- logic ---- */

/* || stops at the first true value, && at the first false one. */
static int eval_logic(struct expr_run *run, const struct expr_node *node,
                      const struct json *current, struct json *out)
{
    bool stop = node->kind == EXPR_NODE_OR;
    for (const struct expr_node *kid = node->first; kid; kid = kid->next) {
        int rc = expr_run_node(run, kid, current, out);
        if (rc != OK || expr_is_true(out) == stop)
            return rc;
    }
    return OK;
}

static int eval_not(struct expr_run *run, const struct expr_node *node, const struct json *current,
                    struct json *out)
{
    struct json value;
    int rc = expr_run_node(run, node->first, current, &value);
    if (rc == OK)
        *out = json_bool(!expr_is_true(&value));
    return rc;
}

static bool holds(enum expr_compare op, int order)
{
    bool or_equal = op == EXPR_LE || op == EXPR_GE;
    bool is_less = op == EXPR_LT || op == EXPR_LE;
    return order == 0 ? or_equal : is_less == (order < 0);
}

static int eval_compare(struct expr_run *run, const struct expr_node *node,
                        const struct json *current, struct json *out)
{
    struct json left, right;
    int rc = expr_run_node(run, node->first, current, &left);
    if (rc == OK)
        rc = expr_run_node(run, node->last, current, &right);
    if (rc != OK)
        return rc;
    /* Ordering anything but two numbers gives null, as the specification demands. */
    *out = json_null;
    if (node->op == EXPR_EQ || node->op == EXPR_NE) {
        bool is_equal = false;
        rc = expr_value_equal(run, &left, &right, &is_equal);
        *out = json_bool(is_equal == (node->op == EXPR_EQ));
    } else if (json_is_number(&left) && json_is_number(&right)) {
        int order = 0;
        rc = expr_value_order(run, &left, &right, &order);
        *out = json_bool(holds((enum expr_compare)node->op, order));
    }
    return rc;
}

/* ---- multiselects ---- */

static int eval_list(struct expr_run *run, const struct expr_node *node, const struct json *current,
                     struct json *out)
{
    *out = json_null;
    /* A multiselect of null is null; without this rule it would be a list of nulls. */
    if (current->type == JSON_NULL)
        return OK;
    struct json *items = NULL;
    int rc = expr_run_items(run, node->count, &items);
    size_t count = 0;
    for (const struct expr_node *kid = node->first; kid && rc == OK; kid = kid->next)
        rc = expr_run_node(run, kid, current, &items[count++]);
    ASSERT(rc != OK || count == node->count);
    if (rc == OK)
        *out = expr_array(items, count);
    return rc;
}

static int eval_hash(struct expr_run *run, const struct expr_node *node, const struct json *current,
                     struct json *out)
{
    *out = json_null;
    if (current->type == JSON_NULL)
        return OK;
    struct json_member *members = NULL;
    int rc = expr_run_members(run, node->count, &members);
    size_t count = 0;
    for (const struct expr_node *kid = node->first; kid && rc == OK; kid = kid->next) {
        members[count].key = expr_string(kid->key.ptr, kid->key.len);
        rc = expr_run_node(run, kid, current, &members[count++].value);
    }
    ASSERT(rc != OK || count == node->count);
    if (rc == OK)
        *out = expr_object(members, count);
    return rc;
}

/* ---- projections ---- */

/* Applies rhs to one item and adds the result to the *count items so far; nulls are dropped. */
static int project_item(struct expr_run *run, const struct expr_node *rhs, const struct json *item,
                        struct json *items, size_t *count)
{
    /* The result is written into the next slot but counted only if it is not null, so that the next
     * item overwrites a null. */
    struct json *to = &items[*count];
    int rc = expr_run_visit(run, 1);
    if (rc != OK)
        return rc;
    if (!rhs)
        *to = *item;
    else if ((rc = expr_run_node(run, rhs, item, to)) != OK)
        return rc;
    *count += to->type != JSON_NULL;
    return OK;
}

static bool has_null(const struct json *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (items[i].type == JSON_NULL)
            return true;
    return false;
}

/* Projects adjacent items; they are shared instead of copied if there is no right side and no
 * null. */
static int project_block(struct expr_run *run, const struct expr_node *rhs, struct json *from,
                         size_t count, struct json *out)
{
    /* Shares the array until an item has to be left out: [*] alone costs no copy. */
    *out = expr_array(from, count);
    int rc = expr_run_visit(run, count / EXPR_SCAN_UNIT);
    if (rc != OK || (!rhs && !has_null(from, count)))
        return rc;
    struct json *items = NULL;
    size_t kept = 0;
    rc = expr_run_items(run, count, &items);
    for (size_t i = 0; rc == OK && i < count; i++)
        rc = project_item(run, rhs, &from[i], items, &kept);
    if (rc == OK)
        *out = expr_array(items, kept);
    return rc;
}

static int eval_each(struct expr_run *run, const struct expr_node *node, const struct json *current,
                     struct json *out)
{
    *out = json_null;
    if (current->type != JSON_ARRAY)
        return OK;
    return project_block(run, node->rhs, current->as.items, current->count, out);
}

static int eval_values(struct expr_run *run, const struct expr_node *node,
                       const struct json *current, struct json *out)
{
    *out = json_null;
    if (current->type != JSON_OBJECT)
        return OK;
    struct json *items = NULL;
    size_t kept = 0;
    int rc = expr_run_items(run, current->count, &items);
    for (uint32_t i = 0; rc == OK && i < current->count; i++)
        rc = project_item(run, node->rhs, &current->as.members[i].value, items, &kept);
    if (rc == OK)
        *out = expr_array(items, kept);
    return rc;
}

/* Returns the number of items after each nested array has been replaced by its items. */
static size_t flat_count(const struct json *array)
{
    size_t count = 0;
    for (uint32_t i = 0; i < array->count; i++) {
        const struct json *item = &array->as.items[i];
        count += item->type == JSON_ARRAY ? item->count : 1;
    }
    return count;
}

static int project_nested(struct expr_run *run, const struct expr_node *rhs,
                          const struct json *item, struct json *items, size_t *kept)
{
    if (item->type != JSON_ARRAY)
        return project_item(run, rhs, item, items, kept);
    int rc = expr_run_visit(run, 1);
    for (uint32_t i = 0; rc == OK && i < item->count; i++)
        rc = project_item(run, rhs, &item->as.items[i], items, kept);
    return rc;
}

static int eval_flatten(struct expr_run *run, const struct expr_node *node,
                        const struct json *current, struct json *out)
{
    *out = json_null;
    if (current->type != JSON_ARRAY)
        return OK;
    int rc = expr_run_visit(run, current->count / EXPR_SCAN_UNIT);
    if (rc != OK)
        return rc;
    struct json *items = NULL;
    /* The items are counted before the block is allocated, because the outer array may contain the
     * same array many times. */
    size_t kept = 0, count = flat_count(current);
    if (count > run->budget->visits_max - run->budget->visits)
        return expr_run_spent(run);
    rc = expr_run_items(run, count, &items);
    for (uint32_t i = 0; rc == OK && i < current->count; i++)
        rc = project_nested(run, node->rhs, &current->as.items[i], items, &kept);
    ASSERT(kept <= count);
    if (rc == OK)
        *out = expr_array(items, kept);
    return rc;
}

static int eval_filter(struct expr_run *run, const struct expr_node *node,
                       const struct json *current, struct json *out)
{
    *out = json_null;
    if (current->type != JSON_ARRAY)
        return OK;
    struct json *items = NULL;
    size_t kept = 0;
    int rc = expr_run_items(run, current->count, &items);
    for (uint32_t i = 0; rc == OK && i < current->count; i++) {
        const struct json *item = &current->as.items[i];
        struct json verdict;
        rc = expr_run_node(run, node->first, item, &verdict);
        if (rc == OK && expr_is_true(&verdict))
            rc = project_item(run, node->rhs, item, items, &kept);
    }
    if (rc == OK)
        *out = expr_array(items, kept);
    return rc;
}

/* Returns a slice bound as in Python: negative bounds count from the end, and each is clamped to
 * what the step can reach. */
static int64_t slice_bound(int64_t bound, int64_t count, int64_t step)
{
    /* As Python's slice.indices(): with a negative step the bounds are one lower, since -1 stands
     * for "before the first". */
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? count - 1 : count;
    if (bound < 0)
        bound += count;
    return bound < low ? low : bound > high ? high : bound;
}

static int eval_slice(struct expr_run *run, const struct expr_node *node,
                      const struct json *current, struct json *out)
{
    *out = json_null;
    if (current->type != JSON_ARRAY)
        return OK;
    const struct expr_range *range = &node->as.range;
    int64_t count = current->count, step = range->step;
    ASSERT(step != 0);
    int64_t start = step < 0 ? count - 1 : 0, stop = step < 0 ? -1 : count;
    if (range->has_start)
        start = slice_bound(range->start, count, step);
    if (range->has_stop)
        stop = slice_bound(range->stop, count, step);
    /* Adjacent items need no copy if there is no right side. */
    if (step == 1 && start < stop)
        return project_block(run, node->rhs, current->as.items + start, (size_t)(stop - start),
                             out);
    struct json *items = NULL;
    size_t kept = 0;
    /* The number of steps from start to stop, rounded up. */
    int64_t gap = step < 0 ? start - stop : stop - start, size = step < 0 ? -step : step;
    int rc = expr_run_items(run, gap > 0 ? (size_t)((gap + size - 1) / size) : 0, &items);
    for (int64_t i = start; rc == OK && (step < 0 ? i > stop : i < stop); i += step)
        rc = project_item(run, node->rhs, &current->as.items[i], items, &kept);
    if (rc == OK)
        *out = expr_array(items, kept);
    return rc;
}

/* ---- dispatch ---- */

int expr_run_node(struct expr_run *run, const struct expr_node *node, const struct json *current,
                  struct json *out)
{
    int rc = expr_run_visit(run, 1);
    if (rc != OK)
        return rc;
    switch ((enum expr_node_kind)node->kind) {
    case EXPR_NODE_CURRENT:
        *out = *current;
        return OK;
    case EXPR_NODE_ROOT:
        *out = *run->root;
        return OK;
    case EXPR_NODE_FIELD:
        return eval_field(run, node, current, out);
    case EXPR_NODE_INDEX:
        *out = *at_index(current, node->as.index);
        return OK;
    case EXPR_NODE_LITERAL:
        *out = node->as.literal;
        return OK;
    case EXPR_NODE_SEQ:
        return eval_seq(run, node, current, out);
    case EXPR_NODE_OR:
    case EXPR_NODE_AND:
        return eval_logic(run, node, current, out);
    case EXPR_NODE_NOT:
        return eval_not(run, node, current, out);
    case EXPR_NODE_COMPARE:
        return eval_compare(run, node, current, out);
    case EXPR_NODE_LIST:
        return eval_list(run, node, current, out);
    case EXPR_NODE_HASH:
        return eval_hash(run, node, current, out);
    case EXPR_NODE_CALL:
        return expr_function_call(run, node, current, out);
    case EXPR_NODE_EACH:
        return eval_each(run, node, current, out);
    case EXPR_NODE_VALUES:
        return eval_values(run, node, current, out);
    case EXPR_NODE_FLATTEN:
        return eval_flatten(run, node, current, out);
    case EXPR_NODE_FILTER:
        return eval_filter(run, node, current, out);
    case EXPR_NODE_SLICE:
        return eval_slice(run, node, current, out);
    case EXPR_NODE_REF:
        break;
    }
    /* a reference is never evaluated, and is allowed only as an argument */
    ASSERT(node->kind != EXPR_NODE_REF);
    return ERR_INVALID;
}
