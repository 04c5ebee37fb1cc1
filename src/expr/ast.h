/*
 * The compiled form of an expression: a tree of nodes in an arena, immutable after parsing. Every
 * node is a function of the current value. A JMESPath chain (a.b[0] | c) is one flat sequence, and
 * || and && are flat lists, so that depth means real nesting: evaluation recurses at most twice
 * EXPR_DEPTH_MAX levels.
 */
#ifndef EXPR_AST_H
#define EXPR_AST_H

#include <stdint.h>

#include "expr/expr.h"

enum expr_node_kind {
    EXPR_NODE_CURRENT,
    EXPR_NODE_ROOT,
    EXPR_NODE_FIELD,   /* as.name */
    EXPR_NODE_INDEX,   /* as.index */
    EXPR_NODE_LITERAL, /* as.literal */
    EXPR_NODE_SEQ,     /* each kid is applied to the result of the previous one */
    EXPR_NODE_OR,      /* kids */
    EXPR_NODE_AND,     /* kids */
    EXPR_NODE_NOT,     /* kids: one */
    EXPR_NODE_COMPARE, /* kids: two; op */
    EXPR_NODE_LIST,    /* kids: [a, b] */
    EXPR_NODE_HASH,    /* kids with key: {a: b} */
    EXPR_NODE_CALL,    /* kids: the arguments; as.function */
    EXPR_NODE_REF,     /* kids: one; &a, allowed only as an argument */
    /* Projections apply rhs to each item and drop nulls; if rhs is NULL, items are unchanged. */
    EXPR_NODE_EACH,    /* [*] */
    EXPR_NODE_VALUES,  /* .* */
    EXPR_NODE_FLATTEN, /* [] */
    EXPR_NODE_FILTER,  /* [?a]; kids: the condition */
    EXPR_NODE_SLICE,   /* [1:2], as.slice */
};

enum expr_compare { EXPR_EQ, EXPR_NE, EXPR_LT, EXPR_LE, EXPR_GT, EXPR_GE };

struct expr_function;

/* A slice as in Python; step is never 0. */
struct expr_range {
    int32_t start, stop, step;
    bool has_start, has_stop;
};

struct expr_node {
    uint8_t kind;                   /* enum expr_node_kind */
    uint8_t op;                     /* enum expr_compare */
    uint8_t depth;                  /* levels of nesting, this node included; sequences add none */
    uint32_t count;                 /* number of kids */
    uint32_t at;                    /* offset in the source, for errors */
    struct expr_node *first, *last; /* kids */
    struct expr_node *next;         /* next sibling */
    struct expr_node *rhs;          /* the right side of a projection */
    slice key;                      /* only for children of a HASH */
    union {
        slice name;
        int32_t index;
        struct json literal;
        const struct expr_function *function;
        struct expr_range range;
    } as;
};

struct expr {
    slice source; /* a copy in the arena */
    const struct expr_node *top;
    bool is_path; /* every result of the expression is part of the input, a literal or a boolean */
};

/* The error code that goes with a category. */
enum err_code expr_fault_code(enum expr_fault fault);

/* Parses source; returns NULL on failure, with *fault and *err set. source must live as long as the
 * arena. */
const struct expr_node *expr_parse(struct arena *arena, slice source, enum expr_fault *fault,
                                   struct err *err) MUST_CHECK;

#endif
