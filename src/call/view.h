/*
 * What a reader sees of an output instead of the whole: the value of its own expression (`select`),
 * or of the action's `view`, which selects the members that are usually needed
 * (contrib/integrations/README.md "view"). The record keeps the whole output.
 */
#ifndef CALL_VIEW_H
#define CALL_VIEW_H

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

enum { CALL_VIEW_NAMES_MAX = 12 };

/* Returns why `select` is not an expression, as a sentence in the arena; SLICE_NONE if it is
 * one. */
slice call_select_fault(slice select, struct arena *arena);

/* Evaluates the expression over output, which is valid JSON, within the budgets of a template
 * (expr/expr.h). Sets *value to the result, JSON text in the arena; the arena also holds the tree
 * of the output meanwhile. Returns ERR_NOMEM if the output is too large for the arena. On failure
 * err has a sentence. */
int call_select(slice output, slice select, struct arena *arena, slice *value,
                struct err *err) MUST_CHECK;

/* Like call_select, for a manifest's `view`; *value has no null members. Sets *left_out to an array
 * of up to CALL_VIEW_NAMES_MAX members of the output that the view lacks, as expressions ("..." if
 * there are more); SLICE_NONE if it lacks none. */
int call_view(slice output, slice view, struct arena *arena, slice *value, slice *left_out,
              struct err *err) MUST_CHECK;

#endif
