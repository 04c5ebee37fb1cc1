/*
 * Decides conditions without their input; see condition.h. Works upwards from the leaves, with
 * three values: a node that reads only known members is evaluated, any other node is EXPR_EITHER.
 */
#include "expr/condition.h"

#include "base/ascii.h"
#include "expr/ast.h"

enum { CONDITION_ARENA_BYTES_MAX = 1024 * 1024 };

/* ---- equal forms ---- */

static bool is_same(const struct expr_node *a, const struct expr_node *b);

static bool are_same_kids(const struct expr_node *a, const struct expr_node *b)
{
    const struct expr_node *one = a->first, *other = b->first;
    for (; one && other && is_same(one, other); one = one->next)
        other = other->next;
    return !one && !other;
}

static bool is_same_range(const struct expr_range *a, const struct expr_range *b)
{
    return a->has_start == b->has_start && a->has_stop == b->has_stop && a->start == b->start &&
           a->stop == b->stop && a->step == b->step;
}

static bool is_same(const struct expr_node *a, const struct expr_node *b)
{
    if (a->kind != b->kind || a->op != b->op || !slice_eq(a->key, b->key) || !a->rhs != !b->rhs ||
        (a->rhs && !is_same(a->rhs, b->rhs)) || !are_same_kids(a, b))
        return false;
    switch ((enum expr_node_kind)a->kind) {
    case EXPR_NODE_FIELD:
        return slice_eq(a->as.name, b->as.name);
    case EXPR_NODE_INDEX:
        return a->as.index == b->as.index;
    case EXPR_NODE_LITERAL:
        return json_equal(&a->as.literal, &b->as.literal);
    case EXPR_NODE_SLICE:
        return is_same_range(&a->as.range, &b->as.range);
    case EXPR_NODE_CALL:
        return a->as.function == b->as.function;
    default:
        return true;
    }
}

/* If an `||` is false, each of its operands is false. */
static bool is_denied(const struct expr_node *node, const struct expr *denied)
{
    if (!denied || is_same(node, denied->top))
        return denied != NULL;
    if (denied->top->kind == EXPR_NODE_OR)
        for (const struct expr_node *kid = denied->top->first; kid; kid = kid->next)
            if (is_same(node, kid))
                return true;
    return false;
}

/* ---- truth ---- */

struct reads {
    const struct json *known;
    bool is_all_known;
};

static bool on_read(void *user, const slice *names, size_t count)
{
    struct reads *reads = user;
    reads->is_all_known = count > 0 && json_get(reads->known, names[0]);
    return reads->is_all_known;
}

static enum expr_truth evaluate_node(const struct expr_node *node, const struct json *known)
{
    struct expr part = {.top = node};
    struct reads reads = {known, true};
    struct expr_budget budget;
    struct arena arena;
    struct json value;
    struct err ignored;
    expr_root_names(&part, on_read, &reads);
    if (!reads.is_all_known)
        return EXPR_EITHER;
    arena_init(&arena, CONDITION_ARENA_BYTES_MAX);
    expr_budget_init(&budget);
    enum expr_truth truth = EXPR_EITHER;
    if (expr_eval(&part, known, known, &budget, &arena, &value, &ignored) == OK)
        truth = expr_is_true(&value) ? EXPR_TRUE : EXPR_FALSE;
    arena_deinit(&arena);
    return truth;
}

static enum expr_truth foresee(const struct expr_node *node, const struct json *known,
                               const struct expr *denied)
{
    if (is_denied(node, denied))
        return EXPR_FALSE;
    if (node->kind == EXPR_NODE_NOT) {
        enum expr_truth truth = foresee(node->first, known, denied);
        return truth == EXPR_EITHER ? truth : truth == EXPR_TRUE ? EXPR_FALSE : EXPR_TRUE;
    }
    if (node->kind != EXPR_NODE_AND && node->kind != EXPR_NODE_OR)
        return evaluate_node(node, known);
    /* A single kid can decide the result. If none does, the result is EXPR_EITHER if any kid's
     * result is. */
    enum expr_truth decides = node->kind == EXPR_NODE_AND ? EXPR_FALSE : EXPR_TRUE;
    enum expr_truth all = node->kind == EXPR_NODE_AND ? EXPR_TRUE : EXPR_FALSE;
    for (const struct expr_node *kid = node->first; kid; kid = kid->next) {
        enum expr_truth truth = foresee(kid, known, denied);
        if (truth == decides)
            return decides;
        if (truth == EXPR_EITHER)
            all = EXPR_EITHER;
    }
    return all;
}

enum expr_truth expr_foresee(const struct expr *expr, const struct json *known,
                             const struct expr *denied)
{
    return foresee(expr->top, known, denied);
}

/* ---- slips ---- */

static bool is_number(slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!ascii_is_digit(text.ptr[i]))
            return false;
    return text.len > 0 && text.len < 20;
}

/* Whether the node reads the root's member `status`, written as `status` or `$.status`. */
static bool is_status(const struct expr_node *node, bool is_at_root)
{
    if (node->kind == EXPR_NODE_SEQ && node->count == 2 && node->first->kind == EXPR_NODE_ROOT) {
        node = node->last;
        is_at_root = true;
    }
    return is_at_root && node->kind == EXPR_NODE_FIELD && slice_eq_cstr(node->as.name, "status");
}

static bool check_sides(const struct expr_node *one, const struct expr_node *other, bool is_at_root,
                        struct err *err)
{
    slice name = other->kind == EXPR_NODE_FIELD ? other->as.name : SLICE_NONE;
    slice text = other->kind == EXPR_NODE_LITERAL ? json_str(&other->as.literal) : SLICE_NONE;
    bool is_word = slice_eq_cstr(name, "true") || slice_eq_cstr(name, "false") ||
                   slice_eq_cstr(name, "null");
    if (is_word || is_number(name))
        (void)err_set(err, ERR_INVALID,
                      "%.*s is the name of a member here, since literals are written in backticks: "
                      "write `%.*s`",
                      SLICE_ARG(name), SLICE_ARG(name));
    else if (is_status(one, is_at_root) && is_number(text))
        (void)err_set(
            err, ERR_INVALID,
            "status is a number and '%.*s' is text, so they are never equal: write `%.*s`",
            SLICE_ARG(text), SLICE_ARG(text));
    else if (is_status(one, is_at_root) && text.ptr)
        (void)err_set(err, ERR_INVALID,
                      "status is a number and never equal to text: compare it with a number in "
                      "backticks, such as `401`");
    else
        return false;
    return true;
}

/* If is_at_root, the current value is the root, so a field is a member of the root. */
static bool find_slip(const struct expr_node *node, bool is_at_root, struct err *err)
{
    const struct expr_node *kid = node->first;
    if (node->rhs && find_slip(node->rhs, false, err))
        return true;
    if (node->kind == EXPR_NODE_COMPARE && (check_sides(kid, kid->next, is_at_root, err) ||
                                            check_sides(kid->next, kid, is_at_root, err)))
        return true;
    /* Kids of both kinds are applied to items. */
    is_at_root = is_at_root && node->kind != EXPR_NODE_FILTER && node->kind != EXPR_NODE_REF;
    for (; kid; kid = kid->next) {
        if (find_slip(kid, is_at_root, err))
            return true;
        is_at_root = is_at_root && node->kind != EXPR_NODE_SEQ;
    }
    return false;
}

bool expr_find_slip(const struct expr *expr, struct err *err)
{
    return find_slip(expr->top, true, err);
}
