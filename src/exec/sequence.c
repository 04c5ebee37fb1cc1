/*
 * The requests of one action, in order (contrib/integrations/README.md "then"): at most
 * CATALOG_REQUESTS_MAX, each made from the input and the earlier replies. The intent is recorded
 * before the first request, the result after the last; a process that dies in between leaves an
 * unknown outcome, as in a single call. All requests share the deadline, the slot of the limits and
 * the maximum of attempts.
 *
 * If a later request fails after an earlier one had an effect, the run fails, its message says what
 * was done, and its idempotency key stays bound (settle.c).
 */
#include "exec/internal.h"

/* ---- from one to the next ---- */

/* The connection's limits count the request, unless it is sent to another server without the
 * credential. */
static uint64_t wait_of_limits(struct exec *exec)
{
    uint64_t wait_ms = exec->attempt.request.is_bare ? 0 : limits_repeat(&exec->gate.slot);
    return wait_ms * 2 > exec_left_ms(exec) ? 0 : wait_ms;
}

/* Only a success that another request follows has advanced progress.at. */
enum op_result exec_next_request(struct exec *exec)
{
    ASSERT(exec->progress.at <= exec->action->then_count);
    bool has_moved = exec->attempt.request.at < exec->progress.at;
    if (exec->out.reason != EXEC_SUCCEEDED || !has_moved)
        return OP_NEXT;
    if (exec_build_request(exec) == OP_STOP || exec_change_origin(exec) == OP_STOP)
        return OP_NEXT; /* earlier pages are the result */
    exec->pages.attempts += exec->out.attempts;
    exec->out.attempts = 0;
    uint64_t wait_ms = wait_of_limits(exec);
    if (wait_ms == 0)
        return op_jump(&exec->op, EXEC_STEP_CALL);
    op_sleep(&exec->op, &exec->timer, wait_ms, "its connection's limits");
    return op_wait_then(&exec->op, EXEC_STEP_CALL);
}

/* Used if the action can be repeated as a whole but its later request cannot be repeated alone. The
 * build may set the outcome, so it is restored afterwards: if no retry follows, the failure that
 * led here is the run's outcome. */
bool exec_start_over(struct exec *exec)
{
    ASSERT(exec->progress.at > 0 && exec->out.reason != EXEC_SUCCEEDED);
    struct exec_outcome kept = exec->out;
    exec->progress.former_url = exec->attempt.request.url;
    exec->progress.at = 0;
    bool is_ready = exec_build_request(exec) == OP_NEXT && exec_change_origin(exec) == OP_NEXT;
    exec->out = kept;
    return is_ready;
}
