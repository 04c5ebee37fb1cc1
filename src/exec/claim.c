/*
 * Idempotency keys (src/api/README.md "Executions"): a request with the same key gets the stored
 * result, or waits for a run under way; a different request with the key is refused. In this
 * process later runs wait in a list of the first run; across processes they load the key again.
 *
 * The table of keys in flight only saves queries: the claiming statement decides between two runs,
 * in this process or in different ones.
 */
#include "exec/internal.h"

#include "base/clock.h"
#include "vault/key.h"

enum { WAIT_MS_MIN = 50, WAIT_MS_MAX = 1000, FINGERPRINT_BYTES_MAX = 64 * 1024 * 1024 };

int exec_fingerprint(const struct exec_request *request, slice action_id, uint8_t *fingerprint)
{
    struct buf text;
    buf_init(&text, FINGERPRINT_BYTES_MAX);
    /* The version of the format: fingerprints are stored for days, and a fingerprint of another
     * format must differ. For the same reason a member that was added later (pages, files) adds
     * nothing if it is not used. */
    buf_append(&text, SLICE("1\n"));
    buf_append(&text, request->integration_id);
    buf_append_char(&text, '\n');
    buf_append(&text, action_id);
    buf_printf(&text, "\n%lld\n", (long long)request->connection_id);
    json_write_sorted(&text, request->input);
    if (request->pages_max > 1)
        buf_printf(&text, "\npages %u\n", request->pages_max);
    call_files_write_fingerprint(request->files, request->file_count, &text);
    bool is_ok = buf_is_ok(&text);
    vault_sha256(buf_slice(&text), fingerprint);
    buf_deinit(&text);
    return is_ok ? OK : ERR_NOMEM;
}

static int make_fingerprint(struct exec *exec)
{
    if (exec->in.fingerprint) {
        memcpy(exec->key.claim.fingerprint, exec->in.fingerprint, IDEMPOTENCY_FINGERPRINT_LEN);
        return OK;
    }
    return exec_fingerprint(&exec->in, exec->out.action_id, exec->key.claim.fingerprint);
}

static bool is_same_request(const struct exec *exec, const uint8_t *fingerprint)
{
    return memcmp(exec->key.claim.fingerprint, fingerprint, sizeof(exec->key.claim.fingerprint)) ==
           0;
}

const char *exec_key_name(const struct exec *exec)
{
    return exec->in.key_name ? exec->in.key_name : "idempotency_key";
}

enum op_result exec_stop_mismatch(struct exec *exec)
{
    return exec_stop(exec, EXEC_KEY_MISMATCH,
                     arena_printf(&exec->op.arena,
                                  "This %s was used for a different request. Nothing was done.",
                                  exec_key_name(exec)),
                     SLICE("Use a new key for a new request, or send the first request again "
                           "unchanged."));
}

/* The message does not mention the key, as the caller may not have sent one: for a form, the server
 * makes the key. */
static enum op_result stop_declined(struct exec *exec)
{
    return exec_stop(exec, EXEC_CONFIRMATION_MISSING,
                     SLICE("The person who was asked did not agree to this. Nothing was done."),
                     SLICE("Do not try again unless they ask for it."));
}

slice exec_row_key(const struct exec *exec)
{
    return exec->in.idempotency_key.len > 0 ? exec->in.idempotency_key : exec->key.lost;
}

/* is_other: the run that was waited for is of a different request. */
static enum op_result stop_waited(struct exec *exec, bool is_other)
{
    slice message;
    if (exec->key.lost.ptr)
        message = SLICE("This call waited for one with the same input until it had too little time "
                        "left. Nothing was done. Send it again.");
    else if (is_other)
        message = arena_printf(&exec->op.arena,
                               "A different request with this %s is being checked, so this one "
                               "was not made. Nothing was done. Send it again.",
                               exec_key_name(exec));
    else
        message = arena_printf(&exec->op.arena,
                               "A request with this %s is still running. Send it again to get "
                               "its result.",
                               exec_key_name(exec));
    exec->out.retry_after_ms = WAIT_MS_MAX;
    return exec_stop(exec, EXEC_STILL_RUNNING, message, SLICE_NONE);
}

/* ---- the table of this process ---- */

/* The account comes first and has a fixed length, so keys of two accounts never collide. */
static int make_table_key(struct exec *exec)
{
    slice key = exec_row_key(exec);
    size_t account_len = sizeof(exec->in.account_id.bytes);
    char *room = arena_alloc_text(&exec->op.arena, account_len + key.len);
    if (!room)
        return ERR_NOMEM;
    memcpy(room, exec->in.account_id.bytes, account_len);
    memcpy(room + account_len, key.ptr, key.len);
    exec->key.name = slice_of(room, account_len + key.len);
    return OK;
}

/* Reads a summary that is too large for its row. If a reply has several results, it must have
 * room for the summary before the summary is read. */
static enum op_result read_stored(struct exec *exec, size_t bytes)
{
    struct call_fit wanted = exec_wanted_fit(exec);
    size_t *room = exec->in.replay_room;
    size_t most = wanted.bytes_max > 0 && wanted.bytes_max < bytes ? wanted.bytes_max : bytes;
    if (room && *room < most) {
        exec->out.is_left_out = true;
        return OP_STOP;
    }
    if (room)
        *room -= most;
    exec_summary_read_begin(&exec->service->summaries, &exec->key.summary_read, &exec->op,
                            exec->in.account_id, exec_payer(exec), &wanted, bytes);
    return op_wait_then(&exec->op, EXEC_STEP_TAKE_STORED);
}

/* The run in exec->key.found has ended: its stored summary is the answer. */
static enum op_result replay(struct exec *exec)
{
    struct claim_outcome *found = &exec->key.found;
    enum exec_reason parsed = exec_reason_parse(found->error_code);
    /* the result is used only once: the next load has to set it again */
    found->has_execution = false;
    exec->out.is_replayed = true;
    exec->out.execution_id = found->execution_id;
    exec->out.started_us = exec->record.row.started_at = found->started_at;
    exec->out.finished_us = exec->record.row.finished_at = found->finished_at;
    exec->out.reason = found->is_succeeded      ? EXEC_SUCCEEDED
                       : parsed == EXEC_REASONS ? EXEC_PROVIDER_ERROR
                                                : parsed;
    exec->record.row.id = found->execution_id;
    exec->record.row.summary = exec->summary_json = found->summary;
    exec->record.row.summary_bytes = found->summary_bytes;
    if (!found->summary.ptr)
        return read_stored(exec, found->summary_bytes);
    return op_jump(&exec->op, EXEC_STEP_FIT_OUTPUT);
}

/* Waiting runs of the same request get the same result, without another query for the key. A large
 * summary is not copied for each of them: they share one read. After any outcome other than success
 * the key may be free, so the waiting runs load it again. So do equal requests without a key,
 * unless the client of this one has left: each of them may be meant. */
static void share_result(const struct exec *holder, struct exec *waiter)
{
    const struct execution *record = &holder->record.row;
    /* the reason of a cancelled run is CANCELLED */
    bool is_bound = holder->out.reason == EXEC_SUCCEEDED &&
                    (!holder->key.lost.ptr || holder->key.is_client_gone);
    bool is_large = !record->summary.ptr || record->summary.len > STORE_SUMMARY_INLINE_BYTES;
    if (!is_bound || uuid_is_nil(record->id))
        return;
    slice copy = is_large ? SLICE_NONE : arena_dup(&waiter->op.arena, record->summary);
    waiter->key.found = (struct claim_outcome){.has_execution = is_large || copy.ptr,
                                               .is_succeeded = true,
                                               .execution_id = record->id,
                                               .started_at = record->started_at,
                                               .finished_at = record->finished_at,
                                               .summary = copy,
                                               .summary_bytes = record->summary_bytes};
}

void exec_key_release(struct exec *exec)
{
    list_unlink(&exec->key.waiter_link);
    if (!exec->key.is_holder)
        return;
    exec->key.is_holder = false;
    (void)map_remove(&exec->service->in_flight, exec->key.name);
    LIST_EACH(&exec->key.waiters, struct exec, waiter, key.waiter_link) {
        list_unlink(&waiter->key.waiter_link);
        share_result(exec, waiter);
        op_sleep_stop(&waiter->timer);
    }
}

/* Waits until `holder` ends or the deadline passes; then the key is loaded again. */
static enum op_result wait_for(struct exec *exec, struct exec *holder)
{
    uint64_t now = loop_now_ns(exec->op.loop);
    ASSERT(holder != exec && holder->key.is_holder && !exec->key.is_holder);
    if (now >= exec->deadline_ns)
        return stop_waited(exec, false);
    exec->key.has_waited = true;
    list_push_back(&holder->key.waiters, &exec->key.waiter_link);
    op_sleep(&exec->op, &exec->timer, (exec->deadline_ns - now) / 1000000 + 1,
             "the same key in flight");
    return op_wait_then(&exec->op, EXEC_STEP_LOAD_KEY);
}

/* Waits for a run of another process, which may have died, or for one of this process that is of a
 * different request (is_other): loads the key again, at growing intervals. */
static enum op_result wait_and_reload(struct exec *exec, bool is_other)
{
    uint64_t now = loop_now_ns(exec->op.loop);
    uint64_t wait_ms = (uint64_t)WAIT_MS_MIN << (exec->key.waits < 5 ? exec->key.waits : 5);
    if (now >= exec->deadline_ns)
        return stop_waited(exec, is_other);
    /* 50 ms, doubled up to 1 s: the other process cannot wake this one. */
    exec->key.waits++;
    exec->key.has_waited = true;
    op_sleep(&exec->op, &exec->timer, wait_ms < WAIT_MS_MAX ? wait_ms : WAIT_MS_MAX,
             "the same key in flight elsewhere");
    return op_wait_then(&exec->op, EXEC_STEP_LOAD_KEY);
}

/* Whether the key is known to belong to the holder's request. Else that request may be refused, or
 * lose the key to one that was sent to another process. */
static bool has_key(const struct exec *holder)
{
    return holder->key.is_taken || holder->key.state >= EXEC_CLAIM_OURS;
}

/* Equal requests without a key share one (lost.c). */
static int make_lost_key(struct exec *exec)
{
    if (exec->key.name.len > 0)
        return OK;
    if (make_fingerprint(exec) != OK)
        return ERR_NOMEM;
    exec->key.lost = exec_lost_key(exec->in.lost_by, exec->key.claim.fingerprint,
                                   exec->in.lost_number, &exec->op.arena);
    return exec->key.lost.ptr ? make_table_key(exec) : ERR_NOMEM;
}

/* A held request is bound to its hold by a key, whether it came with one or not. */
static int make_hold_key(struct exec *exec)
{
    if (make_fingerprint(exec) != OK)
        return ERR_NOMEM;
    exec->in.idempotency_key =
        exec_hold_key(exec->key.claim.fingerprint, exec->in.asker, &exec->op.arena);
    return exec->in.idempotency_key.ptr ? make_table_key(exec) : ERR_NOMEM;
}

/* This step comes before the checks of input and connection: a stored result is returned whatever
 * has changed since. The holder stays in the table until its run has ended, so that every later run
 * of this process waits in its list and sends no query. */
enum op_result exec_step_load_key(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(exec->key.state == EXEC_CLAIM_NONE && exec->out.attempts == 0);
    list_unlink(&exec->key.waiter_link);
    if (exec->key.found.has_execution) /* copied by the run that this one waited for */
        return replay(exec);
    if (exec_needs_hold_key(exec) && make_hold_key(exec) != OK)
        return exec_stop_memory(exec);
    if (exec_is_lost_watched(exec) && make_lost_key(exec) != OK)
        return exec_stop_memory(exec);
    /* Such a run may not use the key, even if it has a result. */
    if (exec_row_key(exec).len == 0 || exec_is_kept_from_results(exec))
        return op_jump(op, EXEC_STEP_CHECK_INPUT);
    if (exec->key.name.len == 0 && (make_table_key(exec) != OK || make_fingerprint(exec) != OK))
        return exec_stop_memory(exec);
    /* A dry run needs the fingerprint, since it shows the provider's key, which is made from it. */
    if (exec->in.is_dry_run)
        return op_jump(op, EXEC_STEP_CHECK_INPUT);
    if (exec->key.lost.ptr && exec_lost_is_being_noted(exec))
        return wait_and_reload(exec, false);
    struct exec *holder = map_get(&exec->service->in_flight, exec->key.name);
    if (holder && holder != exec && !is_same_request(exec, holder->key.claim.fingerprint))
        return has_key(holder) ? exec_stop_mismatch(exec) : wait_and_reload(exec, true);
    if (holder && holder != exec) /* a hidden action has no results */
        return exec->verdict.is_hidden ? exec_stop_unknown(exec) : wait_for(exec, holder);
    if (!holder && map_put(&exec->service->in_flight, exec->key.name, exec, NULL) != OK)
        return exec_stop_memory(exec);
    exec->key.is_holder = true;
    /* A key that was made for a hold is shown to others, whose requests may not take it. */
    bool may_hold = !exec->key.lost.ptr &&
                    (exec->in.policy || exec->in.holds_writes ||
                     slice_starts_with(exec->in.idempotency_key, SLICE(EXEC_HOLD_KEY_START)));
    (may_hold ? store_claim_find_held : store_claim_find)(
        exec->service->config.pool, &exec->query, op, exec->in.account_id, exec_row_key(exec));
    return OP_WAIT;
}

/* A query or a lost claim found another run with the key: waits for it or replays it. */
static enum op_result follow_other_run(struct exec *exec)
{
    const struct claim_outcome *claimed = &exec->key.found;
    if (store_claim_is_spent(claimed))
        return stop_declined(exec);
    if (!is_same_request(exec, claimed->fingerprint))
        return exec_stop_mismatch(exec);
    exec->key.is_taken = true;
    if (exec->verdict.is_hidden) /* it has no results */
        return exec_stop_unknown(exec);
    if (claimed->state == CLAIM_IN_FLIGHT)
        return wait_and_reload(exec, false);
    if (claimed->has_execution)
        return replay(exec);
    store_execution_get(exec->service->config.pool, &exec->query, &exec->op, exec->in.account_id,
                        claimed->execution_id, exec->in.account_id);
    return op_wait_then(&exec->op, EXEC_STEP_READ_REPLAY);
}

enum op_result exec_step_check_key(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(exec->key.state == EXEC_CLAIM_NONE && exec->key.is_holder);
    exec->key.found.has_hold = false;
    int status = store_claim_result(&exec->query, &exec->key.found);
    bool has_hold = (status == OK || status == ERR_NOTFOUND) && exec->key.found.has_hold;
    if (has_hold && !is_same_request(exec, exec->key.found.hold_fingerprint))
        return exec_stop_mismatch(exec); /* another request waits under the key */
    exec->key.is_taken |= has_hold;
    if (status == ERR_NOTFOUND)
        return op_jump(op, EXEC_STEP_CHECK_INPUT);
    return status == OK ? follow_other_run(exec) : exec_stop_database(exec);
}

enum op_result exec_step_read_replay(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(exec->key.state == EXEC_CLAIM_NONE && exec->out.attempts == 0);
    struct execution stored;
    int status = store_execution_get_result(&exec->query, &stored);
    if (status == ERR_NOTFOUND)
        return wait_and_reload(exec, false);
    if (status != OK)
        return exec_stop_database(exec);
    exec->key.found.is_succeeded = stored.is_succeeded;
    exec->key.found.error_code = stored.error_code;
    exec->key.found.started_at = stored.started_at;
    exec->key.found.finished_at = stored.finished_at;
    exec->key.found.summary = stored.summary;
    exec->key.found.summary_bytes = stored.summary_bytes;
    return replay(exec);
}

enum op_result exec_step_take_stored(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(exec->out.is_replayed && exec->out.attempts == 0);
    const struct exec_summary_read *stored = &exec->key.summary_read;
    switch (stored->status) {
    case OK:
        exec->summary_json = stored->summary;
        exec->out.output_json = stored->output;
        return OP_STOP;
    case ERR_NOTFOUND:
        exec->out.is_replayed = false; /* the key may be free by now */
        return wait_and_reload(exec, false);
    default:
        if (exec->out.reason != EXEC_SUCCEEDED)
            return exec_stop_database(exec);
        exec->fit_status =
            stored->status; /* out of memory, or no database: fit_status has the reason */
        return OP_STOP;
    }
}

/* ---- the intent ---- */

/* Asserts what a row in flight requires: the CHECK constraints of the table idempotency_key, and
 * the columns that its fences compare. */
static void assert_row(const struct claim *claim)
{
    ASSERT(!uuid_is_nil(claim->owner)); /* (state = 'in_flight') = (owner is not null) */
    ASSERT(!uuid_is_nil(claim->account_id) && !uuid_is_nil(claim->execution_id));
    /* the longest key; an empty key means the run's own */
    ASSERT(claim->key.len <= 4 * IDEMPOTENCY_KEY_MAX);
    ASSERT(claim->integration_id.len > 0 && claim->action_id.len > 0);
    ASSERT((claim->key.len > 0) == (claim->lifetime_ms > 0));
}

void exec_claim_move(struct exec *exec, enum exec_claim to)
{
    enum exec_claim from = exec->key.state;
    switch (to) {
    case EXEC_CLAIM_ASKED:
        ASSERT(from == EXEC_CLAIM_NONE && exec->out.attempts == 0);
        ASSERT(uuid_eq(exec->key.claim.execution_id, exec->out.execution_id));
        assert_row(&exec->key.claim);
        break;
    case EXEC_CLAIM_NONE:
    case EXEC_CLAIM_OURS:
        ASSERT(from == EXEC_CLAIM_ASKED);
        break;
    case EXEC_CLAIM_ENDED:
        ASSERT(from == EXEC_CLAIM_ASKED || from == EXEC_CLAIM_OURS);
        break;
    }
    exec->key.state = to;
}

/* An equal call may take as long as the one that was waited for. If it is cut off, its outcome is
 * unknown, so it is not made with less time. */
static bool has_half_left(const struct exec *exec)
{
    return exec_left_ms(exec) >= (exec->deadline_ns - exec->op.started_ns) / 2000000;
}

/* This step comes after all checks that can refuse the run, right before the call: from here on a
 * crash leaves a trace. Steps of flows have their intent in the flow's row, and a read without a
 * key may be lost with the process. The lease is checked first, since a claim of an ended
 * incarnation would be treated as an orphan at once. */
enum op_result exec_step_claim(struct op *op)
{
    struct exec *exec = exec_of(op);
    struct exec_outcome *out = &exec->out;
    int64_t now = clock_shared_us();
    slice key = exec_row_key(exec);
    bool has_key = key.len > 0;
    ASSERT(exec->action && !exec->in.is_dry_run && out->attempts == 0);
    ASSERT(!has_key || exec->key.is_holder || exec->in.is_recorded_by_caller);
    bool has_id = !uuid_is_nil(exec->in.execution_id);
    if (has_id && uuid_eq(exec->in.execution_id, out->execution_id))
        /* an earlier claim with this id was lost to another run, and may be noted as unsent */
        return exec_stop_unavailable(exec, SLICE("Nothing was done. Try again."));
    out->execution_id = has_id ? exec->in.execution_id : uuid_v7();
    out->started_us = now;
    if (exec->in.is_recorded_by_caller || (exec->action->level == LEVEL_READ && !has_key))
        return op_jump(op, EXEC_STEP_CALL);
    if (!node_may_write(exec->service->config.node))
        return exec_stop_unavailable(exec, SLICE("This server has lost its connection to the "
                                                 "database. Nothing was done. Try again."));
    if (exec->key.lost.ptr && exec->key.has_waited && !has_half_left(exec))
        return stop_waited(exec, false);
    /* contains the fingerprint if there is a key or lost_by */
    struct claim *claim = &exec->key.claim;
    claim->account_id = exec->in.account_id;
    claim->key = has_key ? key : SLICE_NONE;
    claim->execution_id = out->execution_id;
    claim->owner = node_id(exec->service->config.node);
    claim->integration_id = exec->integration->integration_id;
    claim->action_id = exec->action->action_id;
    claim->connection_id = exec->connection.item ? exec->connection.item->id : 0;
    claim->is_write = exec->action->level != LEVEL_READ;
    claim->parent_id = exec->in.by.parent_id;
    claim->lifetime_ms = exec->key.lost.ptr ? (int64_t)(EXEC_LOST_MS + exec_left_ms(exec))
                         : has_key          ? (int64_t)exec->service->config.idempotency_ttl_ms
                                            : 0;
    claim->guards_until = exec->in.key_guards_until;
    exec_claim_move(exec, EXEC_CLAIM_ASKED);
    store_claim_insert(exec->service->config.pool, &exec->query, op, claim);
    return OP_WAIT;
}

/* There are three cases: this run has the key, another run has it, or no answer arrived. Without an
 * answer the row may exist, so its release is retried until the row is certainly deleted; nothing
 * is sent under this claim. */
enum op_result exec_step_check_claim(struct op *op)
{
    struct exec *exec = exec_of(op);
    int status = store_claim_result(&exec->query, &exec->key.found);
    if (status == ERR_CLOSED ||
        status == ERR_NOMEM) { /* the answer was lost: the claim may have succeeded */
        exec_claim_release_later(exec);
        return exec_stop_database(exec);
    }
    bool is_won = status == OK && exec->key.found.state == CLAIM_WON;
    exec_claim_move(exec, is_won ? EXEC_CLAIM_OURS : EXEC_CLAIM_NONE);
    if (is_won)
        return op_jump(op, EXEC_STEP_CALL);
    if (status != OK)
        return exec_stop_database(exec);
    if (exec->query.is_unknown) /* the first attempt may still find the key free */
        unsent_note(&exec->service->unsent, exec->key.claim.execution_id);
    exec_leave(exec); /* a run that waits for another does not hold a slot */
    return follow_other_run(exec);
}

/* ---- a key that may never run ---- */

bool exec_claim_spend(struct pg_pool *pool, struct pg_query *query, struct op *op,
                      const struct exec_request *request)
{
    struct claim *claim = ARENA_NEW(&op->arena, struct claim);
    if (!claim)
        return false;
    *claim = (struct claim){
        .account_id = request->account_id,
        .key = request->idempotency_key,
        .execution_id = uuid_v7(),
        .integration_id = request->integration_id,
        .action_id = request->action_id,
        .guards_until = request->key_guards_until,
    };
    store_claim_spend(pool, query, op, claim);
    return true;
}
