/*
 * The recovery of one claim. Many run concurrently and share batches.
 *
 * Each claim is ended by one statement, fenced by the claim's owner and execution id. So it does
 * not matter which process runs it, whether it is repeated, or whether the run ends its claim at
 * the same moment.
 */
#include "node/recover.h"

#include "base/clock.h"
#include "base/metric.h"
#include "call/summary.h"

static struct metric recovered_total = METRIC_INIT(
    "sluice_recovered_total", "Claims without a run, by how they were ended.", METRIC_COUNTER);

struct recovery {
    struct store_later later;
    struct claim claim;
    struct execution record;
    enum recover_as as;
    bool is_release; /* the claim is deleted, and nothing is recorded */
};

static struct recovery *recovery_of(struct store_later *later)
{
    return CONTAINER_OF(later, struct recovery, later);
}

/* With a key the claim stays bound to the failed execution, so that the key's next use gets that
 * answer; without a key no later request can name it, and the row is deleted. */
static void send_recovery(struct store_later *later)
{
    struct recovery *recovery = recovery_of(later);
    const struct claim *claim = &recovery->claim;
    struct pg_pool *pool = later->laters->pool;
    if (recovery->is_release)
        store_claim_release(pool, &later->query, &later->op, claim);
    else
        store_execution_finish(pool, &later->query, &later->op, &recovery->record, claim->key,
                               claim->key.len > 0 ? CLAIM_KEEP : CLAIM_RELEASE);
}

/* SQLSTATE 23505 (unique_violation): the execution exists already, since the claim was committed
 * after its run had been recorded. 23514 (check_violation): there is no partition for the row,
 * because housekeeping has removed the day of the id. In both cases only the claim has to be
 * ended. */
static bool can_not_be_recorded(const struct recovery *recovery)
{
    const char *state = recovery->later.query.sqlstate;
    return !recovery->is_release && recovery->later.query.status == ERR_INVALID &&
           (strcmp(state, "23505") == 0 || strcmp(state, "23514") == 0);
}

/* The request is repeated at most once: is_release is false only the first time. */
static bool count_recovery(struct store_later *later)
{
    struct recovery *recovery = recovery_of(later);
    const struct claim *claim = &recovery->claim;
    bool is_dead = recovery->as == RECOVER_DEAD;
    if (can_not_be_recorded(recovery)) {
        recovery->is_release = true;
        return true;
    }
    int status = recovery->is_release ? store_done_result(&later->query)
                                      : store_hit_result(&later->query);
    if (status != OK)
        return false; /* another process was first, or the next scan retries */
    metric_add(metric_series(&recovered_total, recovery->is_release
                                                   ? SLICE("as=\"released\"")
                                                   : SLICE("as=\"outcome_unknown\"")),
               1);
    op_log(&later->op, LOG_WARN,
           is_dead ? "a run of a dead process was ended"
                   : "a claim without a run on this server was ended",
           LOG_BOOL("is_write", claim->is_write), LOG_BOOL("is_released", recovery->is_release),
           LOG_STR("integration_id", claim->integration_id),
           LOG_STR("action_id", claim->action_id));
    return false;
}

static const struct store_later_class recovery_class = {
    STORE_LATER(store_later_again, "recovery", struct recovery),
    .send = send_recovery,
    .on_sent = count_recovery,
};

/* The number of attempts, the status and the output are lost with the process. `attempts` is 1
 * because a claim is recorded right before the call, so it must be assumed that the provider
 * received it. */
static void fill_record(struct recovery *recovery)
{
    const struct claim *claim = &recovery->claim;
    slice why = recovery->as == RECOVER_DEAD
                    ? SLICE("The server stopped while this write was under way.")
                    : SLICE("The result of this write could not be recorded.");
    struct exec_outcome outcome = {
        .reason = EXEC_OUTCOME_UNKNOWN,
        .effect = EXEC_EFFECT_UNKNOWN,
        .execution_id = claim->execution_id,
        .integration_id = claim->integration_id,
        .action_id = claim->action_id,
        .started_us = claim->started_at,
        .finished_us = clock_shared_us(),
        .display_title = SLICE("Outcome unknown"),
        .display_summary = why,
        .message = why,
        .hint = SLICE("The outcome is unknown: the write may or may not have happened. Check "
                      "before sending it again, then use a new idempotency_key."),
        .approval_flow_id = claim->approval_flow_id,
        .retry_after_ms = -1,
        .attempts = 1,
    };
    recovery->record = exec_summary_row(&outcome, claim->account_id, claim->connection_id,
                                        claim->owner,
                                        exec_summary_render(&outcome, &recovery->later.op.arena));
    /* no request waits for this event, so the next scan sends it */
    recovery->record.event_id = uuid_v7();
    recovery->record.parent_id = claim->parent_id;
}

void recover_start(struct store_laters *laters, const struct claim *claim, enum recover_as as,
                   struct op *parent)
{
    struct recovery *recovery = store_later(laters, &recovery_class, parent, 0);
    if (!recovery)
        return;
    recovery->as = as;
    recovery->is_release = !claim->is_write || as == RECOVER_UNSENT;
    /* The caller's claim is in the node's arena, which its next heartbeat resets. */
    struct arena *arena = &recovery->later.op.arena;
    recovery->claim = *claim;
    recovery->claim.integration_id = arena_dup(arena, claim->integration_id);
    recovery->claim.action_id = arena_dup(arena, claim->action_id);
    recovery->claim.key = claim->key.len > 0 ? arena_dup(arena, claim->key) : SLICE_NONE;
    if (!recovery->is_release)
        fill_record(recovery);
}
