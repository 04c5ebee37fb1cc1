/*
 * expr: the entry points of expressions: compile, evaluate, budgets. See expr/expr.h.
 *
 * Compiling checks everything that does not depend on data (grammar, function names, argument
 * counts), so a manifest with a wrong expression fails when it is loaded, not when a tenant uses
 * it.
 */
#include "expr/expr.h"

#include "expr/run.h"

static const struct {
    const char *name;
    enum err_code code;
} faults[] = {
    [EXPR_FAULT_NONE] = {"none", OK},
    [EXPR_FAULT_SYNTAX] = {"syntax", ERR_SYNTAX},
    [EXPR_FAULT_TYPE] = {"invalid-type", ERR_INVALID},
    [EXPR_FAULT_ARITY] = {"invalid-arity", ERR_INVALID},
    [EXPR_FAULT_VALUE] = {"invalid-value", ERR_INVALID},
    [EXPR_FAULT_UNKNOWN_FUNCTION] = {"unknown-function", ERR_NOTFOUND},
    [EXPR_FAULT_LIMIT] = {"limit", ERR_LIMIT},
    [EXPR_FAULT_MEMORY] = {"memory", ERR_NOMEM},
};

const char *expr_fault_name(enum expr_fault fault)
{
    return faults[fault].name;
}

enum err_code expr_fault_code(enum expr_fault fault)
{
    return faults[fault].code;
}

/* ---- compile ---- */

/* Checks the source before the lexer runs: later stages rely on valid UTF-8 without NUL, since they
 * truncate text for messages and use strchr. */
static enum expr_fault check_source(slice source, struct err *err)
{
    size_t bad_at = 0;
    if (source.len > EXPR_SOURCE_MAX) {
        err_set(err, ERR_LIMIT, "limit: an expression of %zu bytes; at most %d are allowed",
                source.len, EXPR_SOURCE_MAX);
        return EXPR_FAULT_LIMIT;
    }
    if (!slice_is_utf8(source, &bad_at)) {
        err_set(err, ERR_SYNTAX, "syntax: the expression is not UTF-8 at offset %zu", bad_at);
        return EXPR_FAULT_SYNTAX;
    }
    ptrdiff_t nul_at = slice_find_char(source, '\0');
    if (nul_at >= 0) {
        err_set(err, ERR_SYNTAX, "syntax: a NUL at offset %td of the expression", nul_at);
        return EXPR_FAULT_SYNTAX;
    }
    return EXPR_FAULT_NONE;
}

static bool is_path_node(const struct expr_node *node)
{
    switch ((enum expr_node_kind)node->kind) {
    case EXPR_NODE_CURRENT:
    case EXPR_NODE_ROOT:
    case EXPR_NODE_FIELD:
    case EXPR_NODE_INDEX:
    case EXPR_NODE_LITERAL:
        return true;
    case EXPR_NODE_SEQ:
    case EXPR_NODE_OR:
    case EXPR_NODE_AND:
        break;
    case EXPR_NODE_NOT:
    case EXPR_NODE_COMPARE:
        return true; /* a boolean, or null */
    /* A new kind of node does not count as a path until it is added above. */
    default:
        return false;
    }
    for (const struct expr_node *kid = node->first; kid; kid = kid->next)
        if (!is_path_node(kid))
            return false;
    return true;
}

struct expr *expr_compile_fault(struct arena *arena, slice source, enum expr_fault *fault,
                                struct err *err)
{
    enum expr_fault unused;
    /* Callers that do not need the category pass NULL; the functions below always need a
     * variable to write to. */
    fault = fault ? fault : &unused;
    *fault = check_source(source, err);
    if (*fault != EXPR_FAULT_NONE)
        return NULL;
    struct expr *expr = ARENA_NEW(arena, struct expr);
    /* The source is copied, because nodes have slices of it and errors quote it long after the
     * caller's text is freed. */
    slice copy = arena_dup(arena, source);
    if (!expr || !copy.ptr) {
        *fault = EXPR_FAULT_MEMORY;
        return err_null(err, ERR_NOMEM, "memory: not enough memory to compile an expression");
    }
    expr->source = copy;
    expr->top = expr_parse(arena, copy, fault, err);
    if (!expr->top)
        return NULL;
    expr->is_path = is_path_node(expr->top);
    return expr;
}

struct expr *expr_compile(struct arena *arena, slice source, struct err *err)
{
    return expr_compile_fault(arena, source, NULL, err);
}

slice expr_source(const struct expr *expr)
{
    return expr->source;
}

/* ---- evaluate ---- */

void expr_budget_init(struct expr_budget *budget)
{
    *budget = (struct expr_budget){.visits_max = EXPR_VISITS_MAX, .bytes_max = EXPR_BYTES_MAX};
}

void expr_budget_add_data(struct expr_budget *budget, size_t bytes)
{
    enum { COPIES = 6 };
    budget->bytes_max += bytes * COPIES;
    budget->visits_max += bytes * 2 * COPIES / EXPR_SCAN_UNIT; /* read and written */
}

/* Charges the result by its size as JSON text, even if it takes little memory. */
static int charge_result(struct expr_run *run, const struct json *result)
{
    struct expr_budget *budget = run->budget;
    /* bytes_result adds up over the expressions that share a budget, so a template with many of
     * them is limited as a whole. */
    size_t bytes = budget->bytes_result;
    int rc = expr_value_measure(run, result, false, budget->bytes_max, &bytes);
    budget->bytes_result = bytes;
    return rc;
}

int expr_eval(const struct expr *expr, const struct json *root, const struct json *current,
              struct expr_budget *budget, struct arena *arena, struct json *result, struct err *err)
{
    ASSERT(expr && budget && arena && result);
    struct expr_run run = {.source = expr->source,
                           .root = root ? root : &json_null,
                           .budget = budget,
                           .arena = arena,
                           .err = err};
    budget->fault = EXPR_FAULT_NONE;
    *result = json_null;
    struct json value = json_null;
    int rc = expr_run_node(&run, expr->top, current ? current : &json_null, &value);
    /* The result of a path is only a part of the input, whose size was limited when it was
     * parsed. */
    if (rc == OK && !expr->is_path)
        rc = charge_result(&run, &value);
    if (rc == OK)
        *result = value;
    ASSERT((rc == OK) == (budget->fault == EXPR_FAULT_NONE));
    return rc;
}
