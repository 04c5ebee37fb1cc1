/*
 * hint: what to do about a failed step. An execution's hints are about requests, their keys and
 * headers; for a flow, a person or a client can resume it, or start another flow.
 */
#ifndef FLOW_HINT_H
#define FLOW_HINT_H

#include "base/arena.h"
#include "call/outcome.h"

/* Returns the hint for a failed call, in the arena or constant; SLICE_NONE if out of memory. effect
 * includes the doubt from earlier attempts. is_held: it is the call of a hold (held.c), whose input
 * no start of a flow can change. */
slice flow_hint_of(const struct exec_outcome *outcome, enum exec_effect effect, bool is_held,
                   struct arena *arena);
/* Returns a step's hint without the sentences about a resume, in the arena; SLICE_NONE if none is
 * left. */
slice flow_hint_unresumed(slice hint, struct arena *arena);
/* Returns the hint for a write that may or may not have happened. */
slice flow_hint_unknown(void);
/* Returns the hint for a call that a policy holds, and whose approval does not count. */
slice flow_hint_own_approval(void);

#endif
