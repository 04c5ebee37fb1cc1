/*
 * parse: precedence climbing. Builds the nodes of expr/ast.h from the tokens of expr/lex.h, so that
 * chains stay flat and depth is counted. Errors are sticky: the first error is kept, and after it
 * every function returns NULL for a node. Functions accept NULL for a node that could not be made.
 * EXPR_DEPTH_MAX limits recursion, so a source of brackets cannot use up the stack.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "expr/func.h"
#include "expr/lex.h"
#include "expr/literal.h"

/* Binding powers, in the order of the JMESPath grammar; an operator that binds less tightly than
 * POWER_PROJECTION ends the right side of a projection. */
enum {
    POWER_PIPE = 1,
    POWER_OR = 2,
    POWER_AND = 3,
    POWER_COMPARE = 5,
    POWER_NOT = 8, /* less tight than dot and brackets: !a.b is !(a.b) */
    POWER_FLATTEN = 9,
    POWER_PROJECTION = 10,
    POWER_STAR = 20,
    POWER_FILTER = 21,
    POWER_DOT = 40,
    POWER_BRACKET = 55,
};

struct parser {
    struct expr_lexer lexer;
    struct expr_token tok; /* the current token, which is read but not consumed */
    struct arena *arena;
    struct err *err;
    enum expr_fault fault;
    unsigned depth;
};

/* ---- errors and tokens ---- */

PRINTF_LIKE(4, 5)
static struct expr_node *parse_fail(struct parser *p, enum expr_fault fault, size_t at,
                                    const char *fmt, ...)
{
    /* Later errors are consequences of the first. */
    if (p->fault != EXPR_FAULT_NONE)
        return NULL;
    p->fault = fault;
    char what[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    slice excerpt = slice_first(p->lexer.source, 200);
    return err_null(p->err, expr_fault_code(fault),
                    "%s: %s, at offset %zu of the expression %.*s%s", expr_fault_name(fault), what,
                    at, SLICE_ARG(excerpt), excerpt.len < p->lexer.source.len ? "..." : "");
}

static struct expr_node *parse_nomem(struct parser *p)
{
    return parse_fail(p, EXPR_FAULT_MEMORY, p->tok.at, "out of memory");
}

/* Reports that the current token is not what the grammar allows here. */
static struct expr_node *unexpected_token(struct parser *p, const char *wanted)
{
    const struct expr_token *tok = &p->tok;
    if (tok->kind == EXPR_TOKEN_BAD)
        return parse_fail(p, EXPR_FAULT_SYNTAX, tok->at, "%s", tok->fault);
    if (tok->kind == EXPR_TOKEN_END)
        return parse_fail(p, EXPR_FAULT_SYNTAX, tok->at,
                          "the expression ends where %s should follow", wanted);
    slice excerpt = slice_first(tok->text, 40);
    bool is_number = excerpt.len > 0 && ascii_is_digit(excerpt.ptr[0]);
    /* The usual mistake: `a == 1` without backticks. */
    if (is_number && strcmp(wanted, "an expression") == 0)
        return parse_fail(p, EXPR_FAULT_SYNTAX, tok->at,
                          "a number is written in backticks: `%.*s`, not %.*s", SLICE_ARG(excerpt),
                          SLICE_ARG(excerpt));
    return parse_fail(p, EXPR_FAULT_SYNTAX, tok->at, "found %.*s where %s should follow",
                      SLICE_ARG(excerpt), wanted);
}

static void next_token(struct parser *p)
{
    p->tok = expr_lex_next(&p->lexer);
}

static bool accept_token(struct parser *p, enum expr_token_kind kind)
{
    if (p->tok.kind != kind)
        return false;
    next_token(p);
    return true;
}

static bool expect_token(struct parser *p, enum expr_token_kind kind, const char *wanted)
{
    if (accept_token(p, kind))
        return true;
    unexpected_token(p, wanted);
    return false;
}

/* ---- nodes ---- */

static struct expr_node *node_make(struct parser *p, enum expr_node_kind kind, size_t at)
{
    ASSERT(at <= EXPR_SOURCE_MAX);
    struct expr_node *node = p->fault ? NULL : ARENA_NEW(p->arena, struct expr_node);
    if (!node)
        return parse_nomem(p);
    node->kind = (uint8_t)kind;
    /* A sequence is not a level of nesting: a.b.c is as deep as a. */
    node->depth = kind != EXPR_NODE_SEQ;
    node->at = (uint32_t)at;
    return node;
}

/* Adds the child's nesting to the parent's depth. */
static struct expr_node *deepen_node(struct parser *p, struct expr_node *parent,
                                     const struct expr_node *child)
{
    unsigned depth = child->depth + (parent->kind == EXPR_NODE_SEQ ? 0u : 1u);
    if (depth > EXPR_DEPTH_MAX)
        return parse_fail(p, EXPR_FAULT_LIMIT, child->at, "nested more than %d levels deep",
                          EXPR_DEPTH_MAX);
    if (depth > parent->depth)
        parent->depth = (uint8_t)depth;
    return parent;
}

/* Appends child to the kids of parent. Returns parent, or NULL if either is NULL. */
static struct expr_node *adopt_node(struct parser *p, struct expr_node *parent,
                                    struct expr_node *child)
{
    if (!parent || !child)
        return NULL;
    /* A node has only one parent, since its sibling pointer is part of the node. */
    ASSERT(!child->next);
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->count++;
    return deepen_node(p, parent, child);
}

/* Makes a sequence of left and right; a left of NULL is the current value. right must not be
 * NULL. */
static struct expr_node *chain_nodes(struct parser *p, struct expr_node *left,
                                     struct expr_node *right)
{
    if (!left || !right)
        return right;
    if (left->kind != EXPR_NODE_SEQ)
        left = adopt_node(p, node_make(p, EXPR_NODE_SEQ, left->at), left);
    if (right->kind != EXPR_NODE_SEQ || !left)
        return adopt_node(p, left, right);
    /* If both are sequences, the kids of the right one are moved into the left one; otherwise each
     * operator would add a level. */
    for (struct expr_node *kid = right->first, *next; kid && left; kid = next) {
        next = kid->next;
        kid->next = NULL;
        left = adopt_node(p, left, kid);
    }
    return left;
}

/* Joins left and right by || or && as one flat list. */
static struct expr_node *join_nodes(struct parser *p, enum expr_node_kind kind,
                                    struct expr_node *left, struct expr_node *right)
{
    if (!left || !right)
        return NULL;
    if (left->kind != kind)
        left = adopt_node(p, node_make(p, kind, left->at), left);
    return adopt_node(p, left, right);
}

/* Parses an expression whose operators bind tighter than power; 0 accepts all operators. */
static struct expr_node *parse_power(struct parser *p, int power);

/* ---- multiselects ---- the opening bracket is consumed */

static struct expr_node *parse_list(struct parser *p, size_t at)
{
    struct expr_node *node = node_make(p, EXPR_NODE_LIST, at);
    do
        node = adopt_node(p, node, parse_power(p, 0));
    while (node && accept_token(p, EXPR_TOKEN_COMMA));
    return node && expect_token(p, EXPR_TOKEN_RBRACKET, "',' or ']'") ? node : NULL;
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
        parse_nomem(p);
    else if (rc != OK)
        parse_fail(p, EXPR_FAULT_SYNTAX, p->tok.at, "%s", why);
    next_token(p);
    return rc == OK;
}

/* Removes an earlier member with this key: the last member wins, as in JSON. */
static void drop_key(struct expr_node *hash, slice key)
{
    struct expr_node *last = NULL;
    for (struct expr_node *kid = hash->first; kid; kid = kid->next) {
        if (!slice_eq(kid->key, key)) {
            last = kid;
            continue;
        }
        if (last)
            last->next = kid->next;
        else
            hash->first = kid->next;
        if (!kid->next)
            hash->last = last;
        hash->count--;
        return;
    }
}

static struct expr_node *parse_hash(struct parser *p, size_t at)
{
    struct expr_node *node = node_make(p, EXPR_NODE_HASH, at);
    do {
        slice key = SLICE_NONE;
        if (p->tok.kind != EXPR_TOKEN_NAME && p->tok.kind != EXPR_TOKEN_QUOTED)
            return unexpected_token(p, "a key");
        if (!parse_name(p, &key) || !expect_token(p, EXPR_TOKEN_COLON, "':'"))
            return NULL;
        struct expr_node *value = parse_power(p, 0);
        if (!value || !node)
            return NULL;
        value->key = key;
        drop_key(node, key);
        node = adopt_node(p, node, value);
    } while (node && accept_token(p, EXPR_TOKEN_COMMA));
    return node && expect_token(p, EXPR_TOKEN_RBRACE, "',' or '}'") ? node : NULL;
}

/* ---- functions ---- */

static struct expr_node *parse_argument(struct parser *p)
{
    size_t at = p->tok.at;
    if (!accept_token(p, EXPR_TOKEN_REF))
        return parse_power(p, 0);
    return adopt_node(p, node_make(p, EXPR_NODE_REF, at), parse_power(p, 0));
}

static struct expr_node *check_call(struct parser *p, struct expr_node *call)
{
    const struct expr_function *function = call->as.function;
    if (call->count < function->args_min || call->count > function->args_max)
        return parse_fail(
            p, EXPR_FAULT_ARITY, call->at, "%s() takes %s%u argument%s, got %u", function->name,
            function->args_min == function->args_max ? ""
            : call->count < function->args_min       ? "at least "
                                                     : "at most ",
            call->count < function->args_min ? function->args_min : function->args_max,
            function->args_min == 1 && function->args_max == 1 ? "" : "s", call->count);
    uint32_t i = 0;
    for (const struct expr_node *arg = call->first; arg; arg = arg->next, i++) {
        bool wants_ref = expr_function_arg(function, i) == EXPR_ARG_REF;
        if (wants_ref != (arg->kind == EXPR_NODE_REF))
            return parse_fail(
                p, EXPR_FAULT_TYPE, arg->at, "%s() wants %s as argument %u", function->name,
                wants_ref ? "an expression reference (&...)" : "a value, not a reference,", i + 1);
    }
    return call;
}

/* Parses name(...); the current token is the parenthesis. */
static struct expr_node *parse_call(struct parser *p, slice name, size_t at)
{
    const struct expr_function *function = expr_function_find(name);
    struct expr_node *node = node_make(p, EXPR_NODE_CALL, at);
    next_token(p);
    if (!accept_token(p, EXPR_TOKEN_RPAREN)) {
        do
            node = adopt_node(p, node, parse_argument(p));
        while (node && accept_token(p, EXPR_TOKEN_COMMA));
        if (!node || !expect_token(p, EXPR_TOKEN_RPAREN, "',' or ')'"))
            return NULL;
    }
    if (!node)
        return NULL;
    if (!function)
        return parse_fail(p, EXPR_FAULT_UNKNOWN_FUNCTION, at, "there is no function %.*s()",
                          SLICE_ARG(slice_first(name, 64)));
    node->as.function = function;
    return check_call(p, node);
}

static struct expr_node *parse_tail(struct parser *p, struct expr_node *left, int power);

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

static struct expr_node *parse_bracket(struct parser *p, struct expr_node *left);
static struct expr_node *parse_filter(struct parser *p, struct expr_node *left);

/* Parses what follows a dot; the dot is already consumed. */
static struct expr_node *parse_dotted(struct parser *p, int power)
{
    size_t at = p->tok.at;
    switch (p->tok.kind) {
    case EXPR_TOKEN_NAME:
    case EXPR_TOKEN_QUOTED:
    case EXPR_TOKEN_STAR:
        return parse_power(p, power);
    case EXPR_TOKEN_LBRACKET:
        next_token(p);
        return parse_tail(p, parse_list(p, at), power);
    case EXPR_TOKEN_LBRACE:
        next_token(p);
        return parse_tail(p, parse_hash(p, at), power);
    default:
        return unexpected_token(p, "a name, '*', '[' or '{'");
    }
}

/* Parses the right side of the projection: everything that follows and binds tighter. */
static struct expr_node *project(struct parser *p, struct expr_node *node, int power)
{
    if (!node)
        return NULL;
    /* The right side of a projection nests like brackets, so it is counted like them. */
    if (p->depth >= EXPR_DEPTH_MAX)
        return parse_fail(p, EXPR_FAULT_LIMIT, p->tok.at, "nested more than %d levels deep",
                          EXPR_DEPTH_MAX);
    /* An operator that binds less tightly ends the projection: in a[*].b | c the pipe applies to
     * the whole list. */
    if (token_power(p->tok.kind) < POWER_PROJECTION)
        return node;
    struct expr_node *rhs = NULL;
    p->depth++;
    if (p->tok.kind == EXPR_TOKEN_LBRACKET)
        rhs = parse_tail(p, parse_bracket(p, NULL), power);
    else if (p->tok.kind == EXPR_TOKEN_FILTER)
        rhs = parse_tail(p, parse_filter(p, NULL), power);
    else if (expect_token(p, EXPR_TOKEN_DOT, "'.', '[' or an operator"))
        rhs = parse_dotted(p, power);
    p->depth--;
    if (!rhs)
        return NULL;
    node->rhs = rhs;
    return deepen_node(p, node, rhs);
}

/* Reads the current token as an int32_t. */
static bool parse_number(struct parser *p, int32_t *out)
{
    int64_t value = 0;
    /* INT32_MIN is refused, so that every accepted number can be negated in its own type. */
    if (!slice_to_i64(p->tok.text, &value) || value > INT32_MAX || value < INT32_MIN + 1) {
        parse_fail(p, EXPR_FAULT_SYNTAX, p->tok.at, "%.*s is too large for an index",
                   SLICE_ARG(slice_first(p->tok.text, 40)));
        return false;
    }
    *out = (int32_t)value;
    next_token(p);
    return true;
}

/* Parses the parts of a slice from the first colon on; start is already parsed. */
static bool parse_range(struct parser *p, struct expr_range *range)
{
    range->step = 1;
    next_token(p); /* the first colon */
    if (p->tok.kind == EXPR_TOKEN_NUMBER) {
        range->has_stop = true;
        if (!parse_number(p, &range->stop))
            return false;
    }
    /* The offset for an error about the step. */
    size_t at = p->tok.at;
    if (accept_token(p, EXPR_TOKEN_COLON) && p->tok.kind == EXPR_TOKEN_NUMBER) {
        at = p->tok.at;
        if (!parse_number(p, &range->step))
            return false;
    }
    if (!expect_token(p, EXPR_TOKEN_RBRACKET, "']' or a number of the slice"))
        return false;
    if (range->step == 0)
        parse_fail(p, EXPR_FAULT_VALUE, at, "the step of a slice cannot be 0");
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
        if (!expect_token(p, EXPR_TOKEN_RBRACKET, "']' or ':'"))
            return NULL;
        struct expr_node *node = node_make(p, EXPR_NODE_INDEX, at);
        if (node)
            node->as.index = range.start;
        return chain_nodes(p, left, node);
    }
    if (!parse_range(p, &range))
        return NULL;
    struct expr_node *node = node_make(p, EXPR_NODE_SLICE, at);
    if (node)
        node->as.range = range;
    return chain_nodes(p, left, project(p, node, POWER_STAR));
}

/* Parses [0], [1:2] or [*]; the current token is the bracket. */
static struct expr_node *parse_bracket(struct parser *p, struct expr_node *left)
{
    size_t at = p->tok.at;
    next_token(p);
    if (p->tok.kind == EXPR_TOKEN_NUMBER || p->tok.kind == EXPR_TOKEN_COLON)
        return parse_index(p, left, at);
    if (!expect_token(p, EXPR_TOKEN_STAR, "a number, ':' or '*'") ||
        !expect_token(p, EXPR_TOKEN_RBRACKET, "']'"))
        return NULL;
    return chain_nodes(p, left, project(p, node_make(p, EXPR_NODE_EACH, at), POWER_STAR));
}

/* Parses [?condition]; the current token is its opening. */
static struct expr_node *parse_filter(struct parser *p, struct expr_node *left)
{
    struct expr_node *node = node_make(p, EXPR_NODE_FILTER, p->tok.at);
    next_token(p);
    struct expr_node *condition = parse_power(p, 0);
    node = adopt_node(p, node, condition);
    if (!node || !expect_token(p, EXPR_TOKEN_RBRACKET, "']'"))
        return NULL;
    return chain_nodes(p, left, project(p, node, POWER_FILTER));
}

static struct expr_node *parse_flatten(struct parser *p, struct expr_node *left)
{
    struct expr_node *node = node_make(p, EXPR_NODE_FLATTEN, p->tok.at);
    next_token(p);
    return chain_nodes(p, left, project(p, node, POWER_FLATTEN));
}

static struct expr_node *parse_values(struct parser *p, struct expr_node *left)
{
    struct expr_node *node = node_make(p, EXPR_NODE_VALUES, p->tok.at);
    next_token(p);
    return chain_nodes(p, left, project(p, node, POWER_STAR));
}

/* ---- expressions ---- */

static struct expr_node *parse_field(struct parser *p)
{
    bool is_quoted = p->tok.kind == EXPR_TOKEN_QUOTED;
    size_t at = p->tok.at;
    slice name = SLICE_NONE;
    if (!parse_name(p, &name))
        return NULL;
    /* A quoted name is never a function: "length"(@) is a syntax error. */
    if (p->tok.kind == EXPR_TOKEN_LPAREN && !is_quoted)
        return parse_call(p, name, at);
    struct expr_node *node = node_make(p, EXPR_NODE_FIELD, at);
    if (node)
        node->as.name = name;
    return node;
}

static struct expr_node *parse_literal(struct parser *p)
{
    const char *why = NULL;
    struct expr_node *node = node_make(p, EXPR_NODE_LITERAL, p->tok.at);
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
        return parse_nomem(p);
    if (rc != OK)
        return parse_fail(p, EXPR_FAULT_SYNTAX, p->tok.at, "%s", why);
    next_token(p);
    return node;
}

static struct expr_node *parse_simple(struct parser *p, enum expr_node_kind kind)
{
    struct expr_node *node = node_make(p, kind, p->tok.at);
    next_token(p);
    return node;
}

static struct expr_node *parse_not(struct parser *p)
{
    size_t at = p->tok.at;
    next_token(p);
    return adopt_node(p, node_make(p, EXPR_NODE_NOT, at), parse_power(p, POWER_NOT));
}

static struct expr_node *parse_parens(struct parser *p)
{
    next_token(p);
    struct expr_node *node = parse_power(p, 0);
    return node && expect_token(p, EXPR_TOKEN_RPAREN, "')'") ? node : NULL;
}

/* At the start of an expression, a bracket begins an index, a projection, or a list. */
static struct expr_node *parse_leading_bracket(struct parser *p)
{
    /* A list may also begin with a star ([*.a]), so a copy of the lexer reads one more token to
     * decide. */
    struct expr_lexer ahead = p->lexer;
    struct expr_token first = expr_lex_next(&ahead);
    if (first.kind == EXPR_TOKEN_NUMBER || first.kind == EXPR_TOKEN_COLON)
        return parse_bracket(p, NULL);
    if (first.kind == EXPR_TOKEN_STAR && expr_lex_next(&ahead).kind == EXPR_TOKEN_RBRACKET)
        return parse_bracket(p, NULL);
    size_t at = p->tok.at;
    next_token(p);
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
        next_token(p);
        return parse_hash(p, at);
    case EXPR_TOKEN_LPAREN:
        return parse_parens(p);
    case EXPR_TOKEN_NOT:
        return parse_not(p);
    case EXPR_TOKEN_REF:
        return parse_fail(p, EXPR_FAULT_SYNTAX, at, "'&' is allowed only before an argument");
    default:
        return unexpected_token(p, "an expression");
    }
}

static struct expr_node *parse_compare(struct parser *p, struct expr_node *left)
{
    ASSERT(p->tok.kind >= EXPR_TOKEN_EQ && p->tok.kind <= EXPR_TOKEN_GE);
    struct expr_node *node = node_make(p, EXPR_NODE_COMPARE, p->tok.at);
    if (!node)
        return NULL;
    /* The two enums have the same order (the range is asserted above). */
    node->op = (uint8_t)(p->tok.kind - EXPR_TOKEN_EQ + EXPR_EQ);
    next_token(p);
    node = adopt_node(p, node, left);
    return adopt_node(p, node, parse_power(p, POWER_COMPARE));
}

/* Parses one operator after left. */
static struct expr_node *parse_step(struct parser *p, struct expr_node *left)
{
    switch (p->tok.kind) {
    case EXPR_TOKEN_DOT:
        next_token(p);
        if (p->tok.kind == EXPR_TOKEN_STAR)
            return parse_values(p, left);
        return chain_nodes(p, left, parse_dotted(p, POWER_DOT));
    case EXPR_TOKEN_PIPE:
        next_token(p);
        return chain_nodes(p, left, parse_power(p, POWER_PIPE));
    case EXPR_TOKEN_OR:
        next_token(p);
        return join_nodes(p, EXPR_NODE_OR, left, parse_power(p, POWER_OR));
    case EXPR_TOKEN_AND:
        next_token(p);
        return join_nodes(p, EXPR_NODE_AND, left, parse_power(p, POWER_AND));
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

/* Parses everything that follows left and binds tighter than power. */
static struct expr_node *parse_tail(struct parser *p, struct expr_node *left, int power)
{
    while (left && power < token_power(p->tok.kind))
        left = parse_step(p, left);
    return left;
}

static struct expr_node *parse_power(struct parser *p, int power)
{
    if (p->depth >= EXPR_DEPTH_MAX)
        return parse_fail(p, EXPR_FAULT_LIMIT, p->tok.at, "nested more than %d levels deep",
                          EXPR_DEPTH_MAX);
    p->depth++;
    struct expr_node *node = parse_tail(p, parse_head(p), power);
    p->depth--;
    return node;
}

const struct expr_node *expr_parse(struct arena *arena, slice source, enum expr_fault *fault,
                                   struct err *err)
{
    struct parser p = {.lexer = {source, 0}, .arena = arena, .err = err};
    next_token(&p);
    struct expr_node *node = parse_power(&p, 0);
    if (node && p.tok.kind != EXPR_TOKEN_END)
        node = unexpected_token(&p, "an operator or the end");
    ASSERT((node != NULL) == (p.fault == EXPR_FAULT_NONE));
    *fault = p.fault;
    return node;
}
