/*
 * parse: precedence climbing over the tokens of expr/lex.h into the nodes of expr/ast.h. Errors are
 * sticky: the first one stays, every function returns NULL from then on. Recursion is bounded by
 * EXPR_DEPTH_MAX, so a source of brackets cannot use up the stack.
 */
#include "expr/literal.h"
#include "expr/parser.h"
#include "expr/run.h"

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

static struct expr_node *parse_tail(struct expr_parser *p, struct expr_node *left, int power);

/* ---- projections and brackets ---- */

static int token_power(enum expr_token_kind kind)
{
    static const uint8_t powers[EXPR_TOKEN_GE + 1] = {
        [EXPR_TOKEN_PIPE] = POWER_PIPE,        [EXPR_TOKEN_OR] = POWER_OR,
        [EXPR_TOKEN_AND] = POWER_AND,          [EXPR_TOKEN_EQ] = POWER_COMPARE,
        [EXPR_TOKEN_NE] = POWER_COMPARE,       [EXPR_TOKEN_LT] = POWER_COMPARE,
        [EXPR_TOKEN_LE] = POWER_COMPARE,       [EXPR_TOKEN_GT] = POWER_COMPARE,
        [EXPR_TOKEN_GE] = POWER_COMPARE,       [EXPR_TOKEN_FLATTEN] = POWER_FLATTEN,
        [EXPR_TOKEN_FILTER] = POWER_FILTER,    [EXPR_TOKEN_DOT] = POWER_DOT,
        [EXPR_TOKEN_LBRACKET] = POWER_BRACKET,
    };
    return powers[kind];
}

static struct expr_node *parse_bracket(struct expr_parser *p, struct expr_node *left);
static struct expr_node *parse_filter(struct expr_parser *p, struct expr_node *left);

/* What follows a dot, which is consumed. */
static struct expr_node *parse_dotted(struct expr_parser *p, int power)
{
    size_t at = p->tok.at;
    switch (p->tok.kind) {
    case EXPR_TOKEN_NAME:
    case EXPR_TOKEN_QUOTED:
    case EXPR_TOKEN_STAR:
        return expr_parse_power(p, power);
    case EXPR_TOKEN_LBRACKET:
        expr_parser_advance(p);
        return parse_tail(p, expr_parse_list(p, at), power);
    case EXPR_TOKEN_LBRACE:
        expr_parser_advance(p);
        return parse_tail(p, expr_parse_hash(p, at), power);
    default:
        return expr_parser_unexpected(p, "a name, '*', '[' or '{'");
    }
}

/* Gives the projection its right side: all that follows and binds stronger. */
static struct expr_node *project(struct expr_parser *p, struct expr_node *node, int power)
{
    if (!node)
        return NULL;
    /* The right side of a projection nests as deep as brackets do, so it is counted the same. */
    if (p->depth >= EXPR_DEPTH_MAX)
        return expr_parser_fail(p, EXPR_FAULT_LIMIT, p->tok.at, "nested over %d deep",
                                EXPR_DEPTH_MAX);
    /* An operator that binds weaker ends the projection: in a[*].b | c the pipe is applied to the
     * whole list. */
    if (token_power(p->tok.kind) < POWER_PROJECTION)
        return node;
    struct expr_node *rhs = NULL;
    p->depth++;
    if (p->tok.kind == EXPR_TOKEN_LBRACKET)
        rhs = parse_tail(p, parse_bracket(p, NULL), power);
    else if (p->tok.kind == EXPR_TOKEN_FILTER)
        rhs = parse_tail(p, parse_filter(p, NULL), power);
    else if (expr_parser_expect(p, EXPR_TOKEN_DOT, "'.', '[' or an operator"))
        rhs = parse_dotted(p, power);
    p->depth--;
    if (!rhs)
        return NULL;
    node->rhs = rhs;
    return expr_parser_deepen(p, node, rhs);
}

/* The current token as a number in int32. */
static bool parse_number(struct expr_parser *p, int32_t *out)
{
    int64_t value = 0;
    /* INT32_MIN is refused, so that each number has a negative in its own type. */
    if (!slice_to_i64(p->tok.text, &value) || value > INT32_MAX || value < INT32_MIN + 1) {
        expr_parser_fail(p, EXPR_FAULT_SYNTAX, p->tok.at, "%.*s is too large for an index",
                         SLICE_ARG(slice_first(p->tok.text, 40)));
        return false;
    }
    *out = (int32_t)value;
    expr_parser_advance(p);
    return true;
}

/* The parts of a slice from the first colon on; start is already there. */
static bool parse_range(struct expr_parser *p, struct expr_range *range)
{
    range->step = 1;
    expr_parser_advance(p); /* the first colon */
    if (p->tok.kind == EXPR_TOKEN_NUMBER) {
        range->has_stop = true;
        if (!parse_number(p, &range->stop))
            return false;
    }
    /* The offset of the step where it is written, for the error; else that of what stands there. */
    size_t at = p->tok.at;
    if (expr_parser_accept(p, EXPR_TOKEN_COLON) && p->tok.kind == EXPR_TOKEN_NUMBER) {
        at = p->tok.at;
        if (!parse_number(p, &range->step))
            return false;
    }
    if (!expr_parser_expect(p, EXPR_TOKEN_RBRACKET, "']' or a number of the slice"))
        return false;
    if (range->step == 0)
        expr_parser_fail(p, EXPR_FAULT_VALUE, at, "the step of a slice cannot be 0");
    return range->step != 0;
}

static struct expr_node *parse_index(struct expr_parser *p, struct expr_node *left, size_t at)
{
    struct expr_range range = {0};
    if (p->tok.kind == EXPR_TOKEN_NUMBER) {
        range.has_start = true;
        if (!parse_number(p, &range.start))
            return NULL;
    }
    if (p->tok.kind != EXPR_TOKEN_COLON) {
        if (!expr_parser_expect(p, EXPR_TOKEN_RBRACKET, "']' or ':'"))
            return NULL;
        struct expr_node *node = expr_parser_node(p, EXPR_NODE_INDEX, at);
        if (node)
            node->as.index = range.start;
        return expr_parser_chain(p, left, node);
    }
    if (!parse_range(p, &range))
        return NULL;
    struct expr_node *node = expr_parser_node(p, EXPR_NODE_SLICE, at);
    if (node)
        node->as.range = range;
    return expr_parser_chain(p, left, project(p, node, POWER_STAR));
}

/* [0], [1:2], [*]; the current token is the bracket. */
static struct expr_node *parse_bracket(struct expr_parser *p, struct expr_node *left)
{
    size_t at = p->tok.at;
    expr_parser_advance(p);
    if (p->tok.kind == EXPR_TOKEN_NUMBER || p->tok.kind == EXPR_TOKEN_COLON)
        return parse_index(p, left, at);
    if (!expr_parser_expect(p, EXPR_TOKEN_STAR, "a number, ':' or '*'") ||
        !expr_parser_expect(p, EXPR_TOKEN_RBRACKET, "']'"))
        return NULL;
    return expr_parser_chain(p, left,
                             project(p, expr_parser_node(p, EXPR_NODE_EACH, at), POWER_STAR));
}

/* [?condition]; the current token is its opening. */
static struct expr_node *parse_filter(struct expr_parser *p, struct expr_node *left)
{
    struct expr_node *node = expr_parser_node(p, EXPR_NODE_FILTER, p->tok.at);
    expr_parser_advance(p);
    struct expr_node *condition = expr_parse_power(p, 0);
    if (!node || !condition || !expr_parser_expect(p, EXPR_TOKEN_RBRACKET, "']'"))
        return NULL;
    node->as.condition = condition;
    node = expr_parser_deepen(p, node, condition);
    return expr_parser_chain(p, left, project(p, node, POWER_FILTER));
}

static struct expr_node *parse_flatten(struct expr_parser *p, struct expr_node *left)
{
    struct expr_node *node = expr_parser_node(p, EXPR_NODE_FLATTEN, p->tok.at);
    expr_parser_advance(p);
    return expr_parser_chain(p, left, project(p, node, POWER_FLATTEN));
}

static struct expr_node *parse_values(struct expr_parser *p, struct expr_node *left)
{
    struct expr_node *node = expr_parser_node(p, EXPR_NODE_VALUES, p->tok.at);
    expr_parser_advance(p);
    return expr_parser_chain(p, left, project(p, node, POWER_STAR));
}

/* ---- expressions ---- */

static struct expr_node *parse_field(struct expr_parser *p)
{
    bool is_quoted = p->tok.kind == EXPR_TOKEN_QUOTED;
    size_t at = p->tok.at;
    slice name = SLICE_NONE;
    if (!expr_parse_name(p, &name))
        return NULL;
    /* A quoted name is never a function: "length"(@) is a syntax error. */
    if (p->tok.kind == EXPR_TOKEN_LPAREN && !is_quoted)
        return expr_parse_call(p, name, at);
    struct expr_node *node = expr_parser_node(p, EXPR_NODE_FIELD, at);
    if (node)
        node->as.name = name;
    return node;
}

static struct expr_node *parse_literal(struct expr_parser *p)
{
    const char *why = NULL;
    struct expr_node *node = expr_parser_node(p, EXPR_NODE_LITERAL, p->tok.at);
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
        return expr_parser_nomem(p);
    if (rc != OK)
        return expr_parser_fail(p, EXPR_FAULT_SYNTAX, p->tok.at, "%s", why);
    expr_parser_advance(p);
    return node;
}

static struct expr_node *parse_simple(struct expr_parser *p, enum expr_node_kind kind)
{
    struct expr_node *node = expr_parser_node(p, kind, p->tok.at);
    expr_parser_advance(p);
    return node;
}

static struct expr_node *parse_not(struct expr_parser *p)
{
    size_t at = p->tok.at;
    expr_parser_advance(p);
    return expr_parser_adopt(p, expr_parser_node(p, EXPR_NODE_NOT, at),
                             expr_parse_power(p, POWER_NOT));
}

static struct expr_node *parse_parens(struct expr_parser *p)
{
    expr_parser_advance(p);
    struct expr_node *node = expr_parse_power(p, 0);
    return node && expr_parser_expect(p, EXPR_TOKEN_RPAREN, "')'") ? node : NULL;
}

/* At the start of an expression: an index, a projection, or a list. */
static struct expr_node *parse_leading_bracket(struct expr_parser *p)
{
    /* A list may begin with a star as well ([*.a]): two tokens decide, read with a copy of the
     * lexer. */
    struct expr_lexer ahead = p->lexer;
    struct expr_token first = expr_lex_next(&ahead);
    if (first.kind == EXPR_TOKEN_NUMBER || first.kind == EXPR_TOKEN_COLON)
        return parse_bracket(p, NULL);
    if (first.kind == EXPR_TOKEN_STAR && expr_lex_next(&ahead).kind == EXPR_TOKEN_RBRACKET)
        return parse_bracket(p, NULL);
    size_t at = p->tok.at;
    expr_parser_advance(p);
    return expr_parse_list(p, at);
}

static struct expr_node *parse_head(struct expr_parser *p)
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
        expr_parser_advance(p);
        return expr_parse_hash(p, at);
    case EXPR_TOKEN_LPAREN:
        return parse_parens(p);
    case EXPR_TOKEN_NOT:
        return parse_not(p);
    case EXPR_TOKEN_REF:
        return expr_parser_fail(p, EXPR_FAULT_SYNTAX, at, "'&' is allowed only before an argument");
    default:
        return expr_parser_unexpected(p, "an expression");
    }
}

static struct expr_node *parse_compare(struct expr_parser *p, struct expr_node *left)
{
    ASSERT(p->tok.kind >= EXPR_TOKEN_EQ && p->tok.kind <= EXPR_TOKEN_GE);
    struct expr_node *node = expr_parser_node(p, EXPR_NODE_COMPARE, p->tok.at);
    if (!node)
        return NULL;
    /* The two enums are in the same order (asserted above by the range). */
    node->op = (uint8_t)(p->tok.kind - EXPR_TOKEN_EQ + EXPR_EQ);
    expr_parser_advance(p);
    node = expr_parser_adopt(p, node, left);
    return expr_parser_adopt(p, node, expr_parse_power(p, POWER_COMPARE));
}

/* One operator behind left. */
static struct expr_node *parse_step(struct expr_parser *p, struct expr_node *left)
{
    switch (p->tok.kind) {
    case EXPR_TOKEN_DOT:
        expr_parser_advance(p);
        if (p->tok.kind == EXPR_TOKEN_STAR)
            return parse_values(p, left);
        return expr_parser_chain(p, left, parse_dotted(p, POWER_DOT));
    case EXPR_TOKEN_PIPE:
        expr_parser_advance(p);
        return expr_parser_chain(p, left, expr_parse_power(p, POWER_PIPE));
    case EXPR_TOKEN_OR:
        expr_parser_advance(p);
        return expr_parser_join(p, EXPR_NODE_OR, left, expr_parse_power(p, POWER_OR));
    case EXPR_TOKEN_AND:
        expr_parser_advance(p);
        return expr_parser_join(p, EXPR_NODE_AND, left, expr_parse_power(p, POWER_AND));
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
static struct expr_node *parse_tail(struct expr_parser *p, struct expr_node *left, int power)
{
    while (left && power < token_power(p->tok.kind))
        left = parse_step(p, left);
    return left;
}

struct expr_node *expr_parse_power(struct expr_parser *p, int power)
{
    if (p->depth >= EXPR_DEPTH_MAX)
        return expr_parser_fail(p, EXPR_FAULT_LIMIT, p->tok.at, "nested over %d deep",
                                EXPR_DEPTH_MAX);
    p->depth++;
    struct expr_node *node = parse_tail(p, parse_head(p), power);
    p->depth--;
    return node;
}

const struct expr_node *expr_parse(struct arena *arena, slice source, enum expr_fault *fault,
                                   struct err *err)
{
    struct expr_parser p = {.lexer = {source, 0}, .arena = arena, .err = err};
    expr_parser_advance(&p);
    struct expr_node *node = expr_parse_power(&p, 0);
    if (node && p.tok.kind != EXPR_TOKEN_END)
        node = expr_parser_unexpected(&p, "an operator or the end");
    ASSERT((node != NULL) == (p.fault == EXPR_FAULT_NONE));
    *fault = p.fault;
    return node;
}
