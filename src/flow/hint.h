/*
 * hint: what a failed step says is to be done. An execution's hints speak of requests, their keys
 * and headers; a person or a client that looks at a flow can resume it, or start another one.
 */
#ifndef FLOW_HINT_H
#define FLOW_HINT_H

#include "base/arena.h"
#include "call/outcome.h"

/* Of a call that failed. effect: with what earlier tries of it leave in doubt. In the arena, or
 * constant; SLICE_NONE: out of memory. */
slice flow_hint_of(const struct exec_outcome *outcome, enum exec_effect effect,
                   struct arena *arena);
/* Of a write of which it is not known whether it happened. */
slice flow_hint_unknown(void);

#endif
