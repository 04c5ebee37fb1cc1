/*
 * The end of a claim without a run: claims of dead processes, and orphans of this process.
 *
 * An orphan was committed after the run that sent it had ended. Its database connection had stopped
 * responding and was closed; the run released the claim over another connection, where there was
 * nothing to release yet; then the stalled backend continued. No statement of the run can prevent
 * that, so housekeeping finds the orphan (node/node.c). The same may happen to the claim of a run
 * that was sent twice and has succeeded: its execution is then recorded.
 */
#ifndef NODE_RECOVER_H
#define NODE_RECOVER_H

#include "loop/op.h"
#include "store/idempotency.h"
#include "store/later.h"

enum recover_as {
    RECOVER_DEAD,   /* its process ended or lost its lease during the run */
    RECOVER_ORPHAN, /* its process is alive but has no run with the claim */
    RECOVER_UNSENT, /* an orphan for which certainly nothing was sent */
};

/* Ends the claim in a child op of parent; claim is copied. A read changed nothing: its key is free
 * again, and a repeated request runs it; so is the key of a request that was not sent. A write may
 * have happened: it ends as failed, outcome unknown, and its key stays bound to that answer. If its
 * execution is recorded, or its day is removed already, only the claim is deleted. The claim's
 * owner is the fence. A claim that could not be ended, or for which there was no room, is found by
 * the next scan. */
void recover_start(struct store_laters *laters, const struct claim *claim, enum recover_as as,
                   struct op *parent);

#endif
