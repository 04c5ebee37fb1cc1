/*
 * The compiled form of a template; shared by template.c, which makes it, and template_eval.c.
 */
#ifndef EXPR_TEMPLATE_H
#define EXPR_TEMPLATE_H

#include "expr/expr.h"

enum expr_template_kind {
    EXPR_TEMPLATE_CONST,  /* value */
    EXPR_TEMPLATE_VALUE,  /* expr */
    EXPR_TEMPLATE_TEXT,   /* kids: CONST strings and VALUEs, written one after the other */
    EXPR_TEMPLATE_ARRAY,  /* kids */
    EXPR_TEMPLATE_OBJECT, /* kids with key */
};

struct expr_template {
    enum expr_template_kind kind;
    bool is_changed; /* a CONST that is not what stands in the tree: it held a $${ */
    uint32_t count;  /* of kids */
    struct expr_template *first, *last;
    struct expr_template *next; /* sibling */
    struct json key;            /* as a kid of an object */
    struct json value;
    struct expr *expr;
    slice where; /* RFC 6901 pointer of the string */
};

#endif
