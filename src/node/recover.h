/*
 * The end of a claim that no run carries: what a dead process left, and orphans of this process.
 *
 * An orphan was committed when the run that sent it was gone. Its database connection had fallen
 * silent and was given up; the run released the claim over another one, where there was nothing to
 * release yet; then the silent backend went on. No statement of the run can prevent that, so
 * housekeeping finds it (node/node.c). The same may happen to the claim of a run that was sent a
 * second time and has ended well: then its execution is recorded.
 */
#ifndef NODE_RECOVER_H
#define NODE_RECOVER_H

#include "loop/op.h"
#include "store/idempotency.h"
#include "store/later.h"

enum recover_as {
    RECOVER_DEAD,   /* its process ended, or lost its lease, in the middle of it */
    RECOVER_ORPHAN, /* its process lives, and no run of it knows the claim */
    RECOVER_UNSENT, /* likewise, and it is known that nothing was sent */
};

/* Ends the claim on an op of its own below parent, which outlives it; claim is copied. A read did
 * nothing: its key is free again, and sending it again runs it; so is the key of what was not sent.
 * A write may have happened: it ends as failed, outcome unknown, and its key stays bound to that
 * answer. Where its execution is recorded, or its day's are
 * removed already, only the claim goes. The owner that the claim names is the fence. What fails, or
 * has no room, is found by the next scan. */
void recover_start(struct store_laters *laters, const struct claim *claim, enum recover_as as,
                   struct op *parent);

#endif
