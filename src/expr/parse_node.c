/*
 * parse_node: what the parser is made of: the current token, the first error, and nodes that are
 * put together so that chains stay flat and depth is counted. See expr/parser.h.
 */
#include <stdarg.h>
#include <stdio.h>

#include <string.h>

#include "base/ascii.h"
#include "expr/parser.h"

/* ---- errors and tokens ---- */

struct expr_node *expr_parser_fail(struct expr_parser *p, enum expr_fault fault, size_t at,
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
    err_set(p->err, expr_fault_code(fault), "%s: %s, at offset %zu of the expression %.*s%s",
            expr_fault_name(fault), what, at, SLICE_ARG(excerpt),
            excerpt.len < p->lexer.source.len ? "..." : "");
    return NULL;
}

struct expr_node *expr_parser_nomem(struct expr_parser *p)
{
    return expr_parser_fail(p, EXPR_FAULT_MEMORY, p->tok.at, "out of memory");
}

/* The current token is not what the grammar allows here. */
struct expr_node *expr_parser_unexpected(struct expr_parser *p, const char *wanted)
{
    const struct expr_token *tok = &p->tok;
    if (tok->kind == EXPR_TOKEN_BAD)
        return expr_parser_fail(p, EXPR_FAULT_SYNTAX, tok->at, "%s", tok->fault);
    if (tok->kind == EXPR_TOKEN_END)
        return expr_parser_fail(p, EXPR_FAULT_SYNTAX, tok->at,
                                "the expression ends where %s should follow", wanted);
    slice excerpt = slice_first(tok->text, 40);
    bool is_number = excerpt.len > 0 && ascii_is_digit(excerpt.ptr[0]);
    /* The usual slip: `a == 1` without backticks. */
    if (is_number && strcmp(wanted, "an expression") == 0)
        return expr_parser_fail(p, EXPR_FAULT_SYNTAX, tok->at,
                                "a number stands in backticks: `%.*s`, not %.*s",
                                SLICE_ARG(excerpt), SLICE_ARG(excerpt));
    return expr_parser_fail(p, EXPR_FAULT_SYNTAX, tok->at, "found %.*s where %s should follow",
                            SLICE_ARG(excerpt), wanted);
}

void expr_parser_advance(struct expr_parser *p)
{
    p->tok = expr_lex_next(&p->lexer);
}

bool expr_parser_accept(struct expr_parser *p, enum expr_token_kind kind)
{
    if (p->tok.kind != kind)
        return false;
    expr_parser_advance(p);
    return true;
}

bool expr_parser_expect(struct expr_parser *p, enum expr_token_kind kind, const char *wanted)
{
    if (expr_parser_accept(p, kind))
        return true;
    expr_parser_unexpected(p, wanted);
    return false;
}

/* ---- nodes ---- */

struct expr_node *expr_parser_node(struct expr_parser *p, enum expr_node_kind kind, size_t at)
{
    ASSERT(at <= EXPR_SOURCE_MAX);
    struct expr_node *node = p->fault ? NULL : ARENA_NEW(p->arena, struct expr_node);
    if (!node)
        return expr_parser_nomem(p);
    node->kind = (uint8_t)kind;
    /* A sequence is no nesting of its own: a.b.c is as deep as a. */
    node->depth = kind != EXPR_NODE_SEQ;
    node->at = (uint32_t)at;
    return node;
}

/* The child's nesting counts in the parent's. */
struct expr_node *expr_parser_deepen(struct expr_parser *p, struct expr_node *parent,
                                     const struct expr_node *child)
{
    unsigned depth = child->depth + (parent->kind == EXPR_NODE_SEQ ? 0u : 1u);
    if (depth > EXPR_DEPTH_MAX)
        return expr_parser_fail(p, EXPR_FAULT_LIMIT, child->at, "nested over %d deep",
                                EXPR_DEPTH_MAX);
    if (depth > parent->depth)
        parent->depth = (uint8_t)depth;
    return parent;
}

/* Appends child to the kids of parent (the arguments of a call lie at the same place). Returns
 * parent, NULL when either is NULL. */
struct expr_node *expr_parser_adopt(struct expr_parser *p, struct expr_node *parent,
                                    struct expr_node *child)
{
    if (!parent || !child)
        return NULL;
    /* A node has one parent: its sibling pointer is part of it. */
    ASSERT(!child->next);
    struct expr_kids *kids = &parent->as.kids;
    if (kids->last)
        kids->last->next = child;
    else
        kids->first = child;
    kids->last = child;
    parent->count++;
    return expr_parser_deepen(p, parent, child);
}

/* left, then right; a left of NULL is the current value. right must not be NULL. */
struct expr_node *expr_parser_chain(struct expr_parser *p, struct expr_node *left,
                                    struct expr_node *right)
{
    if (!left || !right)
        return right;
    if (left->kind != EXPR_NODE_SEQ)
        left = expr_parser_adopt(p, expr_parser_node(p, EXPR_NODE_SEQ, left->at), left);
    if (right->kind != EXPR_NODE_SEQ || !left)
        return expr_parser_adopt(p, left, right);
    /* Both are sequences: the right one's parts are moved over, or chains would nest with each
     * operator. */
    for (struct expr_node *kid = right->as.kids.first, *next; kid && left; kid = next) {
        next = kid->next;
        kid->next = NULL;
        left = expr_parser_adopt(p, left, kid);
    }
    return left;
}

/* left OR right and left AND right as one flat list. */
struct expr_node *expr_parser_join(struct expr_parser *p, enum expr_node_kind kind,
                                   struct expr_node *left, struct expr_node *right)
{
    if (!left || !right)
        return NULL;
    if (left->kind != kind)
        left = expr_parser_adopt(p, expr_parser_node(p, kind, left->at), left);
    return expr_parser_adopt(p, left, right);
}
