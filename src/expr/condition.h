/*
 * Decides as much as possible about an expression without its data. Lint uses this to find an error
 * rule that no reply reaches, or a comparison that is never true.
 */
#ifndef EXPR_CONDITION_H
#define EXPR_CONDITION_H

#include "expr/expr.h"

enum expr_truth { EXPR_FALSE, EXPR_TRUE, EXPR_EITHER };

/* Returns the result of `expr` as a condition (expr_is_true) if the root has the members of the
 * object `known` and possibly others. denied is NULL or another condition, which is false for the
 * same root. A part of expr that has the same form as `denied`, or as an operand of a `denied` that
 * is an `||`, is then false, too. Returns EXPR_EITHER if the result depends on the rest of the
 * root, if it is unknown, or if out of memory. */
enum expr_truth expr_foresee(const struct expr *expr, const struct json *known,
                             const struct expr *denied);

/* Finds a comparison that is valid but surely a mistake: the root's number `status` compared with a
 * string, or with a member named like a literal (`ok == true`). Returns true if there is one; err
 * then says what to write. */
bool expr_find_slip(const struct expr *expr, struct err *err);

#endif
