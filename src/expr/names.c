/*
 * names: finds the paths that an expression reads from the root. It is an abstract evaluation in
 * which a value is either a known path from the root or unknown. It is for lint, and reports only
 * what is certain.
 */
#include "expr/ast.h"

/* Where a value comes from: its path from the root, if is_known. */
struct origin {
    bool is_known;
    uint32_t count;
    slice names[EXPR_DEPTH_MAX];
};

struct walk {
    expr_path_fn on_path;
    void *user;
    bool is_stopped;
};

static void report(struct walk *walk, const struct origin *origin)
{
    if (!walk->is_stopped && origin->is_known)
        walk->is_stopped = !walk->on_path(walk->user, origin->names, origin->count);
}

static void visit(struct walk *walk, const struct expr_node *node, struct origin *origin);

/* Visits a node whose value is used but is not the result; origin does not change. */
static void visit_use(struct walk *walk, const struct expr_node *node, const struct origin *origin)
{
    struct origin copy = *origin;
    visit(walk, node, &copy);
    report(walk, &copy);
}

static void visit_kids(struct walk *walk, const struct expr_node *node, struct origin *origin)
{
    for (const struct expr_node *kid = node->first; kid; kid = kid->next)
        visit_use(walk, kid, origin);
    origin->is_known = false;
}

/* Visits a projection: the items of origin's value no longer have a path. */
static void visit_projection(struct walk *walk, const struct expr_node *node, struct origin *origin)
{
    report(walk, origin);
    origin->is_known = false;
    visit_kids(walk, node, origin);
    if (node->rhs)
        visit_use(walk, node->rhs, origin);
}

/* Visits a node that is applied to *origin and sets *origin to the origin of its result. */
static void visit(struct walk *walk, const struct expr_node *node, struct origin *origin)
{
    switch ((enum expr_node_kind)node->kind) {
    case EXPR_NODE_CURRENT:
        return;
    case EXPR_NODE_ROOT:
        origin->is_known = true;
        origin->count = 0;
        return;
    case EXPR_NODE_FIELD:
        /* If the array is full, the part of the path that fits is reported. */
        if (origin->is_known && origin->count == EXPR_DEPTH_MAX) {
            report(walk, origin);
            origin->is_known = false;
        } else if (origin->is_known) {
            origin->names[origin->count++] = node->as.name;
        }
        return;
    case EXPR_NODE_SEQ:
        for (const struct expr_node *kid = node->first; kid; kid = kid->next)
            visit(walk, kid, origin);
        return;
    case EXPR_NODE_REF: /* is applied to items, whose origin is unknown */
        origin->is_known = false;
        visit_kids(walk, node, origin);
        return;
    case EXPR_NODE_INDEX:
    case EXPR_NODE_EACH:
    case EXPR_NODE_VALUES:
    case EXPR_NODE_FLATTEN:
    case EXPR_NODE_FILTER:
    case EXPR_NODE_SLICE:
        visit_projection(walk, node, origin);
        return;
    default:
        visit_kids(walk, node, origin);
        return;
    }
}

void expr_root_names(const struct expr *expr, expr_path_fn on_path, void *user)
{
    struct walk walk = {on_path, user, false};
    struct origin root = {.is_known = true};
    visit_use(&walk, expr->top, &root);
}

bool expr_names_null(const struct expr *expr, const struct json *root)
{
    const struct expr_node *node = expr->top;
    if (node->kind == EXPR_NODE_SEQ)
        node = node->first;
    for (const struct json *at = root; at; node = node->next) {
        if (node->kind != EXPR_NODE_FIELD)
            return false;
        at = json_get(at, node->as.name);
        if (!node->next)
            return json_is(at, JSON_NULL);
    }
    return false;
}

void expr_write_pointer(const struct expr *expr, struct buf *out)
{
    const struct expr_node *node = expr->top, *first = node;
    if (node->kind == EXPR_NODE_SEQ)
        first = node->first;
    for (node = first; node; node = node->next)
        if (node->kind != EXPR_NODE_FIELD)
            return;
    for (node = first; node; node = node->next)
        json_pointer_append_key(out, node->as.name);
}
