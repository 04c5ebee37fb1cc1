/*
 * What a reader sees of an output instead of the whole: the value of its own expression (`select`),
 * or of the action's `view`, which gives the members that work needs
 * (contrib/integrations/README.md "view"). The record keeps the whole output.
 */
#ifndef CALL_VIEW_H
#define CALL_VIEW_H

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

enum { CALL_VIEW_NAMES_MAX = 12 };

/* Why `select` is not an expression, as a sentence in the arena; SLICE_NONE: it is one. */
slice call_select_fault(slice select, struct arena *arena);

/* output: valid JSON. *value: the value of the expression, JSON text in the arena, which also holds
 * the tree of the output meanwhile. Within the budgets of a template (expr/expr.h). ERR_NOMEM: the
 * output is too large for the arena. On failure err has a sentence. */
int call_select(slice output, slice select, struct arena *arena, slice *value,
                struct err *err) MUST_CHECK;

/* The same for a manifest's `view`, without null members. *left_out: an array of up to
 * CALL_VIEW_NAMES_MAX members of the output that the view lacks, as expressions ("..." if there are
 * more); SLICE_NONE: none. */
int call_view(slice output, slice view, struct arena *arena, slice *value, slice *left_out,
              struct err *err) MUST_CHECK;

#endif
