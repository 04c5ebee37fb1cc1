/*
 * The summary of an execution: what is stored of an execution, and answered byte for byte.
 */
#ifndef EXEC_SUMMARY_H
#define EXEC_SUMMARY_H

#include "base/arena.h"
#include "exec/outcome.h"

/* JSON text in the arena; SLICE_NONE: out of memory, or a reason that has none
 * (exec_reason_status). */
slice exec_summary_render(const struct exec_outcome *outcome, struct arena *arena);

#endif
