/*
 * The summary of an execution, which is stored, and returned byte for byte.
 */
#ifndef CALL_SUMMARY_H
#define CALL_SUMMARY_H

#include "base/arena.h"
#include "call/outcome.h"
#include "store/execution.h"

/* The tool that recommended_next_action names. It belongs to no app, and each interface has its own
 * form of it. */
#define EXEC_CONNECT_TOOL "sluice.connect_app"

/* Returns JSON text in the arena; SLICE_NONE if out of memory, or for a reason without a summary
 * (exec_reason_status). */
slice exec_summary_render(const struct exec_outcome *outcome, struct arena *arena);
/* Returns the value of recommended_next_action, JSON text in the arena; SLICE_NONE if there is
 * none, or if out of memory. */
slice exec_next_action_render(const struct exec_outcome *outcome, struct arena *arena);
/* Returns the hint of a summary without the part about recommended_next_action, which is for
 * programs. */
slice exec_hint_of_people(slice hint);
/* Makes the row of an outcome with status succeeded or failed (asserted, like the schema's CHECK
 * constraints). connection_id is 0 if there is none. summary is the row's document; the database
 * refuses SLICE_NONE. Texts are borrowed. */
struct execution exec_summary_row(const struct exec_outcome *outcome, struct uuid account_id,
                                  int64_t connection_id, struct uuid owner, slice summary);

#endif
