/*
 * What is known about an expression without a value to evaluate it against. For lint: an error rule
 * that no reply reaches, a comparison that is never true.
 */
#ifndef EXPR_CONDITION_H
#define EXPR_CONDITION_H

#include "expr/expr.h"

enum expr_truth { EXPR_FALSE, EXPR_TRUE, EXPR_EITHER };

/* The result of `expr` as a condition (expr_is_true) if the root has the members of the object
 * `known` and possibly others. denied: another condition over the same root that was false, or
 * NULL; its parts are recognized in expr by their form. EXPR_EITHER: the result depends on the rest
 * of the root, or is unknown. Out of memory is EXPR_EITHER, too. */
enum expr_truth expr_foresee(const struct expr *expr, const struct json *known,
                             const struct expr *denied);

/* A comparison that is valid but surely a mistake: of the root's number `status` with a text, or
 * with a member named like a literal (`ok == true`). true: err says what to write. */
bool expr_find_slip(const struct expr *expr, struct err *err);

#endif
