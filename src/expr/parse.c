/*
 * The parser: precedence climbing over the tokens of expr/lex.h into the nodes of expr/ast.h.
 * Errors are sticky: the first one stays, every function returns NULL from then on. Recursion is
 * bounded by EXPR_DEPTH_MAX.
 */
#include <stdarg.h>
#include <stdio.h>

#include "expr/ast.h"
#include "expr/func.h"
#include "expr/lex.h"
#include "expr/literal.h"

/* Binding powers, in the order of the JMESPath grammar; what binds weaker than POWER_PROJECTION
 * ends the right side of a projection. */
enum {
    POWER_PIPE = 1,
    POWER_OR = 2,
    POWER_AND = 3,
    POWER_COMPARE = 5,
    POWER_NOT = 8, /* below dot and brackets: !a.b is !(a.b) */
    POWER_FLATTEN = 9,
    POWER_PROJECTION = 10,
    POWER_STAR = 20,
    POWER_FILTER = 21,
    POWER_DOT = 40,
    POWER_BRACKET = 55,
};

struct parser {
    struct expr_lexer lexer;
    struct expr_token tok; /* the one to look at next */
    struct arena *arena;
    struct err *err;
    enum expr_fault fault;
    unsigned depth;
};

static struct expr_node *parse_expr(struct parser *p, int power);
static struct expr_node *parse_tail(struct parser *p, struct expr_node *left, int power);

/* ---- errors and tokens ---- */

PRINTF_LIKE(4, 5)
static struct expr_node *fail(struct parser *p, enum expr_fault fault, size_t at, const char *fmt,
                              ...)
{
    if (p->fault != EXPR_FAULT_NONE)
        return NULL;
    p->fault = fault;
    char what[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    slice shown = slice_first(p->lexer.source, 200);
    err_set(p->err, expr_fault_code(fault), "%s: %s, at offset %zu of the expression %.*s%s",
            expr_fault_name(fault), what, at, SLICE_ARG(shown),
            shown.len < p->lexer.source.len ? "..." : "");
    return NULL;
}

static struct expr_node *fail_nomem(struct parser *p)
{
    return fail(p, EXPR_FAULT_MEMORY, p->tok.at, "out of memory");
}

/* The current token is not what the grammar allows here. */
static struct expr_node *fail_token(struct parser *p, const char *wanted)
{
    const struct expr_token *tok = &p->tok;
    if (tok->kind == EXPR_TOKEN_BAD)
        return fail(p, EXPR_FAULT_SYNTAX, tok->at, "%s", tok->fault);
    if (tok->kind == EXPR_TOKEN_END)
        return fail(p, EXPR_FAULT_SYNTAX, tok->at, "the expression ends where %s should follow",
                    wanted);
    slice shown = slice_first(tok->text, 40);
    return fail(p, EXPR_FAULT_SYNTAX, tok->at, "found %.*s where %s should follow",
                SLICE_ARG(shown), wanted);
}

static void advance(struct parser *p)
{
    p->tok = expr_lex_next(&p->lexer);
}

static bool accept(struct parser *p, enum expr_token_kind kind)
{
    if (p->tok.kind != kind)
        return false;
    advance(p);
    return true;
}

static bool expect(struct parser *p, enum expr_token_kind kind, const char *wanted)
{
    if (accept(p, kind))
        return true;
    fail_token(p, wanted);
    return false;
}

/* ---- nodes ---- */

static struct expr_node *node_new(struct parser *p, enum expr_node_kind kind, size_t at)
{
    ASSERT(at <= EXPR_SOURCE_MAX);
    struct expr_node *node = p->fault ? NULL : ARENA_NEW(p->arena, struct expr_node);
    if (!node)
        return fail_nomem(p);
    node->kind = (uint8_t)kind;
    node->depth = kind != EXPR_NODE_SEQ;
    node->at = (uint32_t)at;
    return node;
}

/* The child's nesting counts in the parent's. */
static struct expr_node *deepen(struct parser *p, struct expr_node *parent,
                                const struct expr_node *child)
{
    unsigned depth = child->depth + (parent->kind == EXPR_NODE_SEQ ? 0u : 1u);
    if (depth > EXPR_DEPTH_MAX)
        return fail(p, EXPR_FAULT_LIMIT, child->at, "nested over %d deep", EXPR_DEPTH_MAX);
    if (depth > parent->depth)
        parent->depth = (uint8_t)depth;
    return parent;
}

/* Appends child to the kids of parent (the arguments of a call lie at the same place). Returns
 * parent, NULL when either is NULL. */
static struct expr_node *adopt(struct parser *p, struct expr_node *parent, struct expr_node *child)
{
    if (!parent || !child)
        return NULL;
    ASSERT(!child->next);
    struct expr_kids *kids = &parent->as.kids;
    if (kids->last)
        kids->last->next = child;
    else
        kids->first = child;
    kids->last = child;
    parent->count++;
    return deepen(p, parent, child);
}

/* left, then right; a left of NULL is the current value. right must not be NULL. */
static struct expr_node *chain(struct parser *p, struct expr_node *left, struct expr_node *right)
{
    if (!left || !right)
        return right;
    if (left->kind != EXPR_NODE_SEQ)
        left = adopt(p, node_new(p, EXPR_NODE_SEQ, left->at), left);
    if (right->kind != EXPR_NODE_SEQ || !left)
        return adopt(p, left, right);
    for (struct expr_node *kid = right->as.kids.first, *next; kid && left; kid = next) {
        next = kid->next;
        kid->next = NULL;
        left = adopt(p, left, kid);
    }
    return left;
}

/* left OR right and left AND right as one flat list. */
static struct expr_node *join(struct parser *p, enum expr_node_kind kind, struct expr_node *left,
                              struct expr_node *right)
{
    if (!left || !right)
        return NULL;
    if (left->kind != kind)
        left = adopt(p, node_new(p, kind, left->at), left);
    return adopt(p, left, right);
}

/* ---- projections and brackets ---- */

static int token_power(enum expr_token_kind kind)
{
    switch (kind) {
    case EXPR_TOKEN_PIPE:
        return POWER_PIPE;
    case EXPR_TOKEN_OR:
        return POWER_OR;
    case EXPR_TOKEN_AND:
        return POWER_AND;
    case EXPR_TOKEN_EQ:
    case EXPR_TOKEN_NE:
    case EXPR_TOKEN_LT:
    case EXPR_TOKEN_LE:
    case EXPR_TOKEN_GT:
    case EXPR_TOKEN_GE:
        return POWER_COMPARE;
    case EXPR_TOKEN_FLATTEN:
        return POWER_FLATTEN;
    case EXPR_TOKEN_FILTER:
        return POWER_FILTER;
    case EXPR_TOKEN_DOT:
        return POWER_DOT;
    case EXPR_TOKEN_LBRACKET:
        return POWER_BRACKET;
    default:
        return 0;
    }
}

static struct expr_node *parse_list(struct parser *p, size_t at);
static struct expr_node *parse_hash(struct parser *p, size_t at);
static struct expr_node *parse_bracket(struct parser *p, struct expr_node *left);
static struct expr_node *parse_filter(struct parser *p, struct expr_node *left);

/* What follows a dot, which is consumed. */
static struct expr_node *parse_dotted(struct parser *p, int power)
{
    size_t at = p->tok.at;
    switch (p->tok.kind) {
    case EXPR_TOKEN_NAME:
    case EXPR_TOKEN_QUOTED:
    case EXPR_TOKEN_STAR:
        return parse_expr(p, power);
    case EXPR_TOKEN_LBRACKET:
        advance(p);
        return parse_tail(p, parse_list(p, at), power);
    case EXPR_TOKEN_LBRACE:
        advance(p);
        return parse_tail(p, parse_hash(p, at), power);
    default:
        return fail_token(p, "a name, '*', '[' or '{'");
    }
}

/* Gives the projection its right side: all that follows and binds stronger. */
static struct expr_node *project(struct parser *p, struct expr_node *node, int power)
{
    if (!node)
        return NULL;
    if (p->depth >= EXPR_DEPTH_MAX)
        return fail(p, EXPR_FAULT_LIMIT, p->tok.at, "nested over %d deep", EXPR_DEPTH_MAX);
    if (token_power(p->tok.kind) < POWER_PROJECTION)
        return node;
    struct expr_node *rhs = NULL;
    p->depth++;
    if (p->tok.kind == EXPR_TOKEN_LBRACKET)
        rhs = parse_tail(p, parse_bracket(p, NULL), power);
    else if (p->tok.kind == EXPR_TOKEN_FILTER)
        rhs = parse_tail(p, parse_filter(p, NULL), power);
    else if (expect(p, EXPR_TOKEN_DOT, "'.', '[' or an operator"))
        rhs = parse_dotted(p, power);
    p->depth--;
    if (!rhs)
        return NULL;
    node->rhs = rhs;
    return deepen(p, node, rhs);
}

/* The current token as a number in int32. */
static bool parse_number(struct parser *p, int32_t *out)
{
    int64_t value = 0;
    if (!slice_to_i64(p->tok.text, &value) || value > INT32_MAX || value < INT32_MIN + 1) {
        fail(p, EXPR_FAULT_SYNTAX, p->tok.at, "%.*s is too large for an index",
             SLICE_ARG(slice_first(p->tok.text, 40)));
        return false;
    }
    *out = (int32_t)value;
    advance(p);
    return true;
}

/* The parts of a slice from the first colon on; start is already there. */
static bool parse_range(struct parser *p, struct expr_range *range)
{
    range->step = 1;
    advance(p); /* the first colon */
    if (p->tok.kind == EXPR_TOKEN_NUMBER) {
        range->has_stop = true;
        if (!parse_number(p, &range->stop))
            return false;
    }
    size_t at = p->tok.at;
    if (accept(p, EXPR_TOKEN_COLON) && p->tok.kind == EXPR_TOKEN_NUMBER) {
        at = p->tok.at;
        if (!parse_number(p, &range->step))
            return false;
    }
    if (!expect(p, EXPR_TOKEN_RBRACKET, "']' or a number of the slice"))
        return false;
    if (range->step == 0)
        fail(p, EXPR_FAULT_VALUE, at, "the step of a slice cannot be 0");
    return range->step != 0;
}

static struct expr_node *parse_index(struct parser *p, struct expr_node *left, size_t at)
{
    struct expr_range range = {0};
    if (p->tok.kind == EXPR_TOKEN_NUMBER) {
        range.has_start = true;
        if (!parse_number(p, &range.start))
            return NULL;
    }
    if (p->tok.kind != EXPR_TOKEN_COLON) {
        if (!expect(p, EXPR_TOKEN_RBRACKET, "']' or ':'"))
            return NULL;
        struct expr_node *node = node_new(p, EXPR_NODE_INDEX, at);
        if (node)
            node->as.index = range.start;
        return chain(p, left, node);
    }
    if (!parse_range(p, &range))
        return NULL;
    struct expr_node *node = node_new(p, EXPR_NODE_SLICE, at);
    if (node)
        node->as.range = range;
    return chain(p, left, project(p, node, POWER_STAR));
}

/* [0], [1:2], [*]; the current token is the bracket. */
static struct expr_node *parse_bracket(struct parser *p, struct expr_node *left)
{
    size_t at = p->tok.at;
    advance(p);
    if (p->tok.kind == EXPR_TOKEN_NUMBER || p->tok.kind == EXPR_TOKEN_COLON)
        return parse_index(p, left, at);
    if (!expect(p, EXPR_TOKEN_STAR, "a number, ':' or '*'") ||
        !expect(p, EXPR_TOKEN_RBRACKET, "']'"))
        return NULL;
    return chain(p, left, project(p, node_new(p, EXPR_NODE_EACH, at), POWER_STAR));
}

/* [?condition]; the current token is its opening. */
static struct expr_node *parse_filter(struct parser *p, struct expr_node *left)
{
    struct expr_node *node = node_new(p, EXPR_NODE_FILTER, p->tok.at);
    advance(p);
    struct expr_node *condition = parse_expr(p, 0);
    if (!node || !condition || !expect(p, EXPR_TOKEN_RBRACKET, "']'"))
        return NULL;
    node->as.condition = condition;
    node = deepen(p, node, condition);
    return chain(p, left, project(p, node, POWER_FILTER));
}

static struct expr_node *parse_flatten(struct parser *p, struct expr_node *left)
{
    struct expr_node *node = node_new(p, EXPR_NODE_FLATTEN, p->tok.at);
    advance(p);
    return chain(p, left, project(p, node, POWER_FLATTEN));
}

static struct expr_node *parse_values(struct parser *p, struct expr_node *left)
{
    struct expr_node *node = node_new(p, EXPR_NODE_VALUES, p->tok.at);
    advance(p);
    return chain(p, left, project(p, node, POWER_STAR));
}

/* ---- multiselects ---- the opening bracket is consumed */

static struct expr_node *parse_list(struct parser *p, size_t at)
{
    struct expr_node *node = node_new(p, EXPR_NODE_LIST, at);
    do
        node = adopt(p, node, parse_expr(p, 0));
    while (node && accept(p, EXPR_TOKEN_COMMA));
    return node && expect(p, EXPR_TOKEN_RBRACKET, "',' or ']'") ? node : NULL;
}

static bool parse_name(struct parser *p, slice *name)
{
    const char *why = NULL;
    int rc = OK;
    if (p->tok.kind == EXPR_TOKEN_NAME)
        *name = p->tok.text;
    else
        rc = expr_literal_name(p->arena, p->tok.text, name, &why);
    if (rc == ERR_NOMEM)
        fail_nomem(p);
    else if (rc != OK)
        fail(p, EXPR_FAULT_SYNTAX, p->tok.at, "%s", why);
    advance(p);
    return rc == OK;
}

/* An earlier member of that key goes: the last one wins, as in JSON. */
static void drop_key(struct expr_node *hash, slice key)
{
    struct expr_node *last = NULL;
    for (struct expr_node *kid = hash->as.kids.first; kid; kid = kid->next) {
        if (!slice_eq(kid->key, key)) {
            last = kid;
            continue;
        }
        if (last)
            last->next = kid->next;
        else
            hash->as.kids.first = kid->next;
        if (!kid->next)
            hash->as.kids.last = last;
        hash->count--;
        return;
    }
}

static struct expr_node *parse_hash(struct parser *p, size_t at)
{
    struct expr_node *node = node_new(p, EXPR_NODE_HASH, at);
    do {
        slice key = SLICE_NONE;
        if (p->tok.kind != EXPR_TOKEN_NAME && p->tok.kind != EXPR_TOKEN_QUOTED)
            return fail_token(p, "a key");
        if (!parse_name(p, &key) || !expect(p, EXPR_TOKEN_COLON, "':'"))
            return NULL;
        struct expr_node *value = parse_expr(p, 0);
        if (!value || !node)
            return NULL;
        value->key = key;
        drop_key(node, key);
        node = adopt(p, node, value);
    } while (node && accept(p, EXPR_TOKEN_COMMA));
    return node && expect(p, EXPR_TOKEN_RBRACE, "',' or '}'") ? node : NULL;
}

/* ---- functions ---- */

static struct expr_node *parse_argument(struct parser *p)
{
    size_t at = p->tok.at;
    if (!accept(p, EXPR_TOKEN_REF))
        return parse_expr(p, 0);
    return adopt(p, node_new(p, EXPR_NODE_REF, at), parse_expr(p, 0));
}

static struct expr_node *check_call(struct parser *p, struct expr_node *call)
{
    const struct expr_function *function = call->as.call.function;
    if (call->count < function->args_min || call->count > function->args_max)
        return fail(p, EXPR_FAULT_ARITY, call->at, "%s() takes %s%u argument%s, got %u",
                    function->name,
                    function->args_min == function->args_max ? ""
                    : call->count < function->args_min       ? "at least "
                                                             : "at most ",
                    call->count < function->args_min ? function->args_min : function->args_max,
                    function->args_min == 1 && function->args_max == 1 ? "" : "s", call->count);
    uint32_t i = 0;
    for (const struct expr_node *arg = call->as.call.args.first; arg; arg = arg->next, i++) {
        bool wants_ref = expr_function_arg(function, i) == EXPR_ARG_REF;
        if (wants_ref != (arg->kind == EXPR_NODE_REF))
            return fail(p, EXPR_FAULT_TYPE, arg->at, "%s() wants %s as argument %u", function->name,
                        wants_ref ? "an expression reference (&...)" : "a value, not a reference,",
                        i + 1);
    }
    return call;
}

/* name(...); the current token is the parenthesis. */
static struct expr_node *parse_call(struct parser *p, slice name, size_t at)
{
    const struct expr_function *function = expr_function_find(name);
    struct expr_node *node = node_new(p, EXPR_NODE_CALL, at);
    advance(p);
    if (!accept(p, EXPR_TOKEN_RPAREN)) {
        do
            node = adopt(p, node, parse_argument(p));
        while (node && accept(p, EXPR_TOKEN_COMMA));
        if (!node || !expect(p, EXPR_TOKEN_RPAREN, "',' or ')'"))
            return NULL;
    }
    if (!node)
        return NULL;
    if (!function)
        return fail(p, EXPR_FAULT_UNKNOWN_FUNCTION, at, "there is no function %.*s()",
                    SLICE_ARG(slice_first(name, 64)));
    node->as.call.function = function;
    return check_call(p, node);
}

/* ---- expressions ---- */

static struct expr_node *parse_field(struct parser *p)
{
    bool is_quoted = p->tok.kind == EXPR_TOKEN_QUOTED;
    size_t at = p->tok.at;
    slice name = SLICE_NONE;
    if (!parse_name(p, &name))
        return NULL;
    if (p->tok.kind == EXPR_TOKEN_LPAREN && !is_quoted)
        return parse_call(p, name, at);
    struct expr_node *node = node_new(p, EXPR_NODE_FIELD, at);
    if (node)
        node->as.name = name;
    return node;
}

static struct expr_node *parse_literal(struct parser *p)
{
    const char *why = NULL;
    struct expr_node *node = node_new(p, EXPR_NODE_LITERAL, p->tok.at);
    if (!node)
        return NULL;
    int rc = OK;
    if (p->tok.kind == EXPR_TOKEN_LITERAL) {
        rc = expr_literal_json(p->arena, p->tok.text, &node->as.literal, &why);
    } else {
        slice text = SLICE_NONE;
        rc = expr_literal_raw(p->arena, p->tok.text, &text, &why);
        node->as.literal = expr_string(text.ptr, text.len);
    }
    if (rc == ERR_NOMEM)
        return fail_nomem(p);
    if (rc != OK)
        return fail(p, EXPR_FAULT_SYNTAX, p->tok.at, "%s", why);
    advance(p);
    return node;
}

static struct expr_node *parse_simple(struct parser *p, enum expr_node_kind kind)
{
    struct expr_node *node = node_new(p, kind, p->tok.at);
    advance(p);
    return node;
}

static struct expr_node *parse_not(struct parser *p)
{
    size_t at = p->tok.at;
    advance(p);
    return adopt(p, node_new(p, EXPR_NODE_NOT, at), parse_expr(p, POWER_NOT));
}

static struct expr_node *parse_parens(struct parser *p)
{
    advance(p);
    struct expr_node *node = parse_expr(p, 0);
    return node && expect(p, EXPR_TOKEN_RPAREN, "')'") ? node : NULL;
}

/* At the start of an expression: an index, a projection, or a list. */
static struct expr_node *parse_leading_bracket(struct parser *p)
{
    struct expr_lexer ahead = p->lexer;
    struct expr_token first = expr_lex_next(&ahead);
    if (first.kind == EXPR_TOKEN_NUMBER || first.kind == EXPR_TOKEN_COLON)
        return parse_bracket(p, NULL);
    if (first.kind == EXPR_TOKEN_STAR && expr_lex_next(&ahead).kind == EXPR_TOKEN_RBRACKET)
        return parse_bracket(p, NULL);
    size_t at = p->tok.at;
    advance(p);
    return parse_list(p, at);
}

static struct expr_node *parse_head(struct parser *p)
{
    size_t at = p->tok.at;
    switch (p->tok.kind) {
    case EXPR_TOKEN_NAME:
    case EXPR_TOKEN_QUOTED:
        return parse_field(p);
    case EXPR_TOKEN_RAW:
    case EXPR_TOKEN_LITERAL:
        return parse_literal(p);
    case EXPR_TOKEN_CURRENT:
        return parse_simple(p, EXPR_NODE_CURRENT);
    case EXPR_TOKEN_ROOT:
        return parse_simple(p, EXPR_NODE_ROOT);
    case EXPR_TOKEN_STAR:
        return parse_values(p, NULL);
    case EXPR_TOKEN_FLATTEN:
        return parse_flatten(p, NULL);
    case EXPR_TOKEN_FILTER:
        return parse_filter(p, NULL);
    case EXPR_TOKEN_LBRACKET:
        return parse_leading_bracket(p);
    case EXPR_TOKEN_LBRACE:
        advance(p);
        return parse_hash(p, at);
    case EXPR_TOKEN_LPAREN:
        return parse_parens(p);
    case EXPR_TOKEN_NOT:
        return parse_not(p);
    case EXPR_TOKEN_REF:
        return fail(p, EXPR_FAULT_SYNTAX, at, "'&' is allowed only before an argument");
    default:
        return fail_token(p, "an expression");
    }
}

static struct expr_node *parse_compare(struct parser *p, struct expr_node *left)
{
    ASSERT(p->tok.kind >= EXPR_TOKEN_EQ && p->tok.kind <= EXPR_TOKEN_GE);
    struct expr_node *node = node_new(p, EXPR_NODE_COMPARE, p->tok.at);
    if (!node)
        return NULL;
    node->op = (uint8_t)(p->tok.kind - EXPR_TOKEN_EQ + EXPR_EQ);
    advance(p);
    node = adopt(p, node, left);
    return adopt(p, node, parse_expr(p, POWER_COMPARE));
}

/* One operator behind left. */
static struct expr_node *parse_step(struct parser *p, struct expr_node *left)
{
    switch (p->tok.kind) {
    case EXPR_TOKEN_DOT:
        advance(p);
        if (p->tok.kind == EXPR_TOKEN_STAR)
            return parse_values(p, left);
        return chain(p, left, parse_dotted(p, POWER_DOT));
    case EXPR_TOKEN_PIPE:
        advance(p);
        return chain(p, left, parse_expr(p, POWER_PIPE));
    case EXPR_TOKEN_OR:
        advance(p);
        return join(p, EXPR_NODE_OR, left, parse_expr(p, POWER_OR));
    case EXPR_TOKEN_AND:
        advance(p);
        return join(p, EXPR_NODE_AND, left, parse_expr(p, POWER_AND));
    case EXPR_TOKEN_FLATTEN:
        return parse_flatten(p, left);
    case EXPR_TOKEN_FILTER:
        return parse_filter(p, left);
    case EXPR_TOKEN_LBRACKET:
        return parse_bracket(p, left);
    default:
        return parse_compare(p, left);
    }
}

/* All that binds stronger than power and follows left. */
static struct expr_node *parse_tail(struct parser *p, struct expr_node *left, int power)
{
    while (left && power < token_power(p->tok.kind))
        left = parse_step(p, left);
    return left;
}

static struct expr_node *parse_expr(struct parser *p, int power)
{
    if (p->depth >= EXPR_DEPTH_MAX)
        return fail(p, EXPR_FAULT_LIMIT, p->tok.at, "nested over %d deep", EXPR_DEPTH_MAX);
    p->depth++;
    struct expr_node *node = parse_tail(p, parse_head(p), power);
    p->depth--;
    return node;
}

const struct expr_node *expr_parse(struct arena *arena, slice source, enum expr_fault *fault,
                                   struct err *err)
{
    struct parser p = {.lexer = {source, 0}, .arena = arena, .err = err};
    advance(&p);
    struct expr_node *node = parse_expr(&p, 0);
    if (node && p.tok.kind != EXPR_TOKEN_END)
        node = fail_token(&p, "an operator or the end");
    ASSERT((node != NULL) == (p.fault == EXPR_FAULT_NONE));
    *fault = p.fault;
    return node;
}
