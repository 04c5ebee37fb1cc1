/*
 * The record of a run: the execution with its summary, the end of its claim, the mark on a
 * connection that the provider refused. A result is returned
 * only once it is recorded. If recording takes longer than a client waits, the answer is that the
 * outcome is unknown, and the result is recorded in the background (ending.c).
 */
#include "base/clock.h"
#include "event/outbox.h"
#include "exec/internal.h"
#include "call/summary.h"

enum {
    RECORD_RETRY_MS = 200,
    RECORD_WAIT_MS = 5000, /* how long after the run's deadline its client waits for the record */
};

/* If it is proven that nothing was done, or a read failed, the key is free again: "retry
 * unchanged" works. The key of equal requests without one is free once a client gets the result
 * (is_delivered). */
static enum claim_end end_of_claim(const struct exec *exec, bool is_delivered)
{
    bool is_free = exec_row_key(exec).len == 0 || exec->out.effect == EXEC_EFFECT_NONE ||
                   (exec->key.lost.ptr && is_delivered);
    return is_free ? CLAIM_RELEASE : CLAIM_KEEP;
}

/* Whether the run was sent to the provider, or was about to be sent. Only such a run gets a row. */
static bool is_tried(const struct exec *exec)
{
    return exec->out.reason == EXEC_SUCCEEDED || exec_reason_is_failed(exec->out.reason);
}

/* Returns the reason of the last request, which exec_settle may have replaced in the outcome. */
static enum exec_reason refusal_of(const struct exec *exec)
{
    return exec->record.is_settled ? exec->record.refusal : exec->out.reason;
}

/* Marks the credential if the provider refused it. Nothing is answered before the record. */
static enum op_result go_to_answer(struct exec *exec)
{
    ASSERT(!exec_is_claimed(exec));
    const struct connect_item *connection = exec->connection.item;
    enum exec_reason reason = refusal_of(exec);
    bool is_refused = reason == EXEC_REAUTH_REQUIRED || reason == EXEC_KEY_REFUSED;
    return op_jump(&exec->op, is_refused && connection && connection->status == CONNECTION_LIVE
                                  ? EXEC_STEP_MARK_CONNECTION
                                  : EXEC_STEP_FIT_OUTPUT);
}

/* record_again enters this step again, so it sets the end time and the summary only once;
 * exec_settle has its own flag for this. The connection's present id is stored, because a renewal
 * may have dropped the connection and found it again. A run with neither an attempt nor a claim has
 * nothing to store. */
enum op_result exec_step_record(struct op *op)
{
    struct exec *exec = exec_of(op);
    struct pg_pool *pool = exec->service->config.pool;
    const struct connect_item *connection = exec->connection.item;
    ASSERT(exec->action && exec->key.state != EXEC_CLAIM_ASKED);
    exec_settle(exec);
    exec->phase_began_ns = loop_now_ns(op->loop);
    enum claim_end end = end_of_claim(exec, !exec->key.is_client_gone);
    if (exec->out.finished_us == 0) {
        exec->out.finished_us = clock_shared_us();
        exec->key.is_kept = end == CLAIM_KEEP; /* by each of the attempts to record */
    }
    if (exec->in.is_recorded_by_caller || (!is_tried(exec) && !exec_is_claimed(exec)))
        return go_to_answer(exec);
    if (!is_tried(exec)) {
        store_claim_release(pool, &exec->query, op, &exec->key.claim);
        return OP_WAIT;
    }
    if (exec->summary_json.len == 0)
        exec->summary_json = exec_summary_render(&exec->out, &op->arena);
    exec->record.row = exec_summary_row(&exec->out, exec->in.account_id,
                                        connection ? connection->id : 0, exec->key.claim.owner,
                                        exec->summary_json);
    exec->record.row.api_key_id = audit_actor_key(exec->in.by.actor);
    exec->record.row.policy = policy_label(exec->in.policy);
    /* a reply that was lost or unreadable, a time-out, or the end of a process */
    if (exec->key.claim.is_write && exec->out.effect == EXEC_EFFECT_UNKNOWN) {
        if (uuid_is_nil(exec->record.event_id))
            exec->record.event_id = uuid_v7();
        exec->record.row.event_id = exec->record.event_id;
        exec->record.row.parent_id = exec->in.by.parent_id;
    }
    exec_input_keep(exec, &exec->record.row);
    if (exec_is_claimed(exec))
        store_execution_finish(pool, &exec->query, op, &exec->record.row, exec->key.claim.key, end);
    else
        store_execution_insert(pool, &exec->query, op, &exec->record.row);
    return OP_WAIT;
}

/* The run had an effect, or may have had one, and its result is not recorded: the answer is that
 * the outcome is unknown, with the id of the present or future record. A read, and a run that
 * provably did nothing, get 503. */
static enum op_result stop_unrecorded(struct exec *exec, slice message)
{
    exec->summary_json = SLICE_NONE;
    if (!exec->key.claim.is_write)
        return exec_stop_unavailable(exec,
                                     SLICE("The database cannot be reached, so the result could "
                                           "not be recorded. Nothing was changed. Try again."));
    if (exec->out.effect == EXEC_EFFECT_NONE)
        return exec_stop_database(exec);
    exec_end_with(exec, EXEC_OUTCOME_UNKNOWN, message,
                  SLICE("The outcome is unknown: the write may or may not have happened. GET "
                        "/api/executions/{execution_id} shows its record. Check before sending it "
                        "again."));
    exec->out.effect = EXEC_EFFECT_UNKNOWN;
    exec->out.is_repeatable = false;
    exec->out.error_code = SLICE_NONE;
    exec->out.retry_after_ms = -1;
    return OP_STOP;
}

/* The call may have had an effect: the record is retried until it is stored, and the client
 * waits for a while. Without a record the client is still informed that a write may have
 * happened. */
static enum op_result record_again(struct exec *exec)
{
    ASSERT(exec_is_claimed(exec) && is_tried(exec));
    uint64_t answer_by_ns = exec->deadline_ns + RECORD_WAIT_MS * 1000000ULL;
    if (loop_now_ns(exec->op.loop) < answer_by_ns) {
        op_sleep(&exec->op, &exec->timer, RECORD_RETRY_MS, "the database, to record a result");
        return op_wait_then(&exec->op, EXEC_STEP_RECORD);
    }
    exec_claim_record_later(exec, end_of_claim(exec, false));
    return stop_unrecorded(exec, SLICE("The action ran, but its result could not be recorded yet, "
                                       "because the database cannot be reached."));
}

/* Called if the record was not stored but may be stored later. */
static enum op_result check_unstored(struct exec *exec)
{
    if (exec_is_claimed(exec) && is_tried(exec))
        return record_again(exec);
    if (exec_is_claimed(exec)) {
        exec_claim_release_later(exec);
        return go_to_answer(exec);
    }
    return exec_stop_unavailable(exec, SLICE("The database cannot be reached, so the result could "
                                             "not be recorded. Nothing was changed. Try again."));
}

/* ERR_NOTFOUND means that the fence did not match: another process has recovered the claim after
 * this node's lease expired, and its record is valid. Like OK, ERR_NOTFOUND ends the claim.
 * ERR_INVALID and ERR_LIMIT are permanent. */
enum op_result exec_step_check_record(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(exec_is_claimed(exec) || is_tried(exec)); /* otherwise there was nothing to store */
    exec->out.times.record_ns += loop_now_ns(op->loop) - exec->phase_began_ns;
    int status = exec_is_claimed(exec) && is_tried(exec) ? store_hit_result(&exec->query)
                                                         : store_done_result(&exec->query);
    if (exec_is_claimed(exec) && (status == OK || status == ERR_NOTFOUND))
        exec_claim_move(exec, EXEC_CLAIM_ENDED);
    switch (status) {
    case OK:
        if (store_has_event(&exec->query))
            event_written(exec->service->config.events, exec->in.account_id, exec->record.event_id);
        return go_to_answer(exec);
    case ERR_NOTFOUND:
        return stop_unrecorded(exec,
                               SLICE("The action ran, but this server had lost its connection to "
                                     "the database, and the outcome was recorded as unknown."));
    case ERR_INVALID:
    case ERR_LIMIT:
        op_log(op, LOG_ERROR, "a result cannot be stored",
               LOG_CSTR("sqlstate", exec->query.sqlstate), LOG_STR("cause", exec->query.message));
        if (exec_is_claimed(exec) && exec->out.effect != EXEC_EFFECT_NONE)
            return stop_unrecorded(exec,
                                   SLICE("The action ran, but its result cannot be recorded."));
        return exec_stop(exec, EXEC_INTERNAL, SLICE_NONE, SLICE_NONE);
    default:
        return check_unstored(exec);
    }
}

/* A refused credential is marked once, so that later runs are refused without calling the app.
 * This follows the record: a mark without a record would lose the run. The cached set is dropped
 * first, so that no run of this process finds the connection live while the statement is under
 * way. */
enum op_result exec_step_mark_connection(struct op *op)
{
    struct exec *exec = exec_of(op);
    struct uuid owner_id = exec_connection_owner(exec);
    connect_forget(exec->service->config.connect, owner_id, exec->integration->integration_id);
    struct connection_loss loss = {
        .account_id = owner_id,
        .id = exec->connection.item->id,
        .rev = exec->connection.item->rev,
        .error = SLICE("the provider refused the credential"),
        .reason = slice_cstr(exec_reason_name(refusal_of(exec))),
        .by = exec->in.by,
        .details = arena_printf(
            &op->arena, "{\"connection_id\":\"%lld\",\"integration_id\":\"%.*s\"}",
            (long long)exec->connection.item->id, SLICE_ARG(exec->integration->integration_id)),
    };
    store_connection_lost(exec->service->config.pool, &exec->query, op, &loss);
    return OP_WAIT;
}

/* The other processes drop their cached sets, too. The next refusal repeats a mark that failed, so
 * its result is not checked. */
enum op_result exec_step_notify_connection(struct op *op)
{
    struct exec *exec = exec_of(op);
    struct uuid owner_id = exec_connection_owner(exec);
    connect_changed(exec->service->config.connect, owner_id, exec->integration->integration_id);
    event_written(exec->service->config.events, owner_id, store_event_of(&exec->query));
    return OP_NEXT;
}
