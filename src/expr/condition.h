/*
 * What can be said of an expression before there is anything to evaluate it against. For lint: a
 * rule that no reply reaches, a comparison that is never true.
 */
#ifndef EXPR_CONDITION_H
#define EXPR_CONDITION_H

#include "expr/expr.h"

enum expr_truth { EXPR_FALSE, EXPR_TRUE, EXPR_EITHER };

/* How `expr` ends as a condition (expr_is_true) where the root's members are those of the object
 * `known` and any others. denied: another condition over the same root that was false, or NULL;
 * what it consists of is recognized in expr by its form. EXPR_EITHER: that depends on the rest of
 * the root, or it cannot be said. Out of memory is EXPR_EITHER, too. */
enum expr_truth expr_foresee(const struct expr *expr, const struct json *known,
                             const struct expr *denied);

/* A comparison that is valid and cannot be meant: of the root's number `status` with a text, or
 * with a member that is called as a literal is (`ok == true`). true: err says what to write. */
bool expr_find_slip(const struct expr *expr, struct err *err);

#endif
