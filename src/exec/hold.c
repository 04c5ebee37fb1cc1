/*
 * Calls that wait for a person's approval (hold.h): which ones the policy or a setting holds, the
 * key that binds a request without one to its hold, and the answer of a held request. The order is
 * that of the table in exec.c: the key is looked up first, so a call that was approved and made is
 * replayed as any other; then come all checks up to the connection, so that a person is not asked
 * about a call that cannot be made.
 */
#include "exec/hold.h"

#include "base/clock.h"
#include "base/encode.h"
#include "call/kept_input.h"
#include "exec/internal.h"
#include "vault/key.h"

/* ---- which calls are held ---- */

/* A setting holds what has to be confirmed: there is no one to ask for the confirmation. */
static void hold_unattended(struct exec *exec)
{
    bool is_stricter = exec->verdict.decision >= POLICY_HOLD;
    if (!exec->in.holds_writes || is_stricter || !exec_wants_confirmation(exec))
        return;
    exec->is_held_unattended = true;
    exec->verdict.decision = POLICY_HOLD;
    exec->verdict.rule = POLICY_RULE_DEFAULT;
    exec->verdict.reason = SLICE_NONE;
    exec->verdict.expires_s = POLICY_EXPIRES_S;
}

/* Returns why no hold can be made of the call, as a reason without a full stop; SLICE_NONE: it
 * can. */
static slice why_not_held(struct exec *exec)
{
    const struct exec_request *in = &exec->in;
    if (in->is_part)
        return SLICE("it needs the approval of a person, so it is not made as a part of another "
                     "call");
    if (in->file_count > 0)
        return SLICE("it needs the approval of a person, and a call with files cannot wait for "
                     "one");
    /* the approval shows the input, to all that may read flows, and keeps it in the clear */
    if (!in->is_recorded_by_caller &&
        kept_input_has_hidden(kept_input_schema(exec->action), in->input, &exec->op.arena))
        return SLICE("it needs the approval of a person, and a call whose input has secrets, or "
                     "too many values to search for them, cannot wait for one");
    if (in->is_dry_run)
        return SLICE_NONE;
    if (in->is_recorded_by_caller)
        return SLICE("it needs an approval of exactly this call in the flow, by a key that neither "
                     "started the flow nor was made by the one that did");
    if (!exec->service->holder.begin || uuid_is_nil(in->asker))
        return SLICE("it needs the approval of a person, and cannot wait for one here");
    return SLICE_NONE;
}

/* What cannot be held is denied: after its input was validated, since another input might be
 * allowed. */
void exec_decide_hold(struct exec *exec)
{
    hold_unattended(exec);
    slice why = exec_is_held(exec) ? why_not_held(exec) : SLICE_NONE;
    if (!why.ptr)
        return;
    exec->verdict.decision = POLICY_DENY;
    exec->verdict.reason = why;
    exec->verdict.is_unsure = true;
}

/* ---- the key ---- */

slice exec_hold_key(const uint8_t *fingerprint, struct uuid asker, struct arena *arena)
{
    enum { SOURCE_BYTES = IDEMPOTENCY_FINGERPRINT_LEN + sizeof(asker.bytes) };
    uint8_t source[SOURCE_BYTES], hash[32];
    char digits[2 * sizeof(hash) + 1];
    memcpy(source, fingerprint, IDEMPOTENCY_FINGERPRINT_LEN);
    memcpy(source + IDEMPOTENCY_FINGERPRINT_LEN, asker.bytes, sizeof(asker.bytes));
    vault_sha256(slice_of(source, sizeof(source)), hash);
    encode_hex_in(digits, sizeof(digits), slice_of(hash, sizeof(hash)));
    return arena_printf(arena, EXEC_HOLD_KEY_START "%s", digits);
}

/* ---- the answer ---- */

/* The approved call is under way, or waits to be tried again. */
static slice say_approved(struct exec *exec, const struct exec_hold *hold)
{
    char text[TIME_TEXT_LEN + 1];
    if (hold->again_at == 0)
        return arena_printf(&exec->op.arena, "%.*s was approved and is being done.",
                            SLICE_ARG(exec->action->title));
    int64_t left_us = hold->again_at - clock_shared_us();
    exec->out.retry_after_ms = left_us > 0 ? left_us / 1000 : 0;
    time_format(hold->again_at, text);
    return arena_printf(&exec->op.arena,
                        "%.*s was approved, could not be done yet, and is tried again at %s.",
                        SLICE_ARG(exec->action->title), text);
}

/* The call waits, or it was approved and is under way. */
static enum op_result stop_held(struct exec *exec, const struct exec_hold *hold)
{
    struct arena *arena = &exec->op.arena;
    bool is_waiting = hold->expires_at > 0;
    slice reason = exec_policy_reason(exec);
    slice message =
        is_waiting
            ? arena_printf(arena, "%.*s waits for the approval of a person, as %s%s%.*s. %s",
                           SLICE_ARG(exec->action->title),
                           hold->is_unattended ? "writes of clients that cannot ask one do"
                                               : "the policy of this API key requires",
                           reason.len > 0 ? ": " : "", SLICE_ARG(reason), "Nothing was done yet.")
            : say_approved(exec, hold);
    slice hint = SLICE("Send the same request again to get its result.");
    if (is_waiting)
        hint = arena_printf(arena,
                            "Ask a person to decide%s%.*s. Then send the same request again to get "
                            "its result.",
                            hold->url.len > 0 ? " at " : "", SLICE_ARG(hold->url));
    return exec_stop(exec, EXEC_HELD, message, hint);
}

static void set_approval(struct exec *exec)
{
    const struct exec_hold *hold = exec->hold;
    struct exec_approval *approval = ARENA_NEW(&exec->op.arena, struct exec_approval);
    if (approval)
        *approval = (struct exec_approval){.flow_id = hold->flow_id,
                                           .status = hold->status,
                                           .url = hold->url,
                                           .expires_at = hold->expires_at,
                                           .key = hold->key};
    exec->out.approval = approval;
}

/* Everything is copied that the catalog or the connection's set has. */
enum op_result exec_step_hold(struct op *op)
{
    struct exec *exec = exec_of(op);
    const struct exec_holder *holder = &exec->service->holder;
    const struct connect_item *connection = exec->connection.item;
    struct exec_hold *hold = ARENA_NEW(&op->arena, struct exec_hold);
    ASSERT(exec_is_held(exec) && exec->key.is_holder && !exec->in.is_dry_run);
    if (!hold)
        return exec_stop_memory(exec);
    *hold = (struct exec_hold){
        .account_id = exec->in.account_id,
        .by = exec->in.by,
        .asker = exec->in.asker,
        .scopes = exec->in.scopes,
        .policy = exec->in.policy,
        .user = exec->in.user,
        .key = exec->in.idempotency_key,
        .key_name = exec_key_name(exec),
        .key_guards_until = exec->in.key_guards_until,
        .action = exec->action,
        .input = exec->in.input,
        .pages_max = exec->in.pages_max,
        .connection_id = connection ? connection->id : 0,
        .connection_name = connection ? arena_dup(&op->arena, connection->label) : SLICE_NONE,
        .decider = exec->is_held_unattended ? SLICE_NONE : policy_label(exec->in.policy),
        .rule = exec->verdict.rule,
        .reason = exec->verdict.reason,
        .expires_s = exec->verdict.expires_s,
        .is_unattended = exec->is_held_unattended,
        .is_by_setting = exec->in.is_set_to_hold,
        .trace = exec->in.trace,
    };
    memcpy(hold->fingerprint, exec->key.claim.fingerprint, sizeof(hold->fingerprint));
    exec->hold = hold;
    return holder->begin(holder->owner, hold, op) ? OP_WAIT : exec_stop_memory(exec);
}

/* A call that has a record is replayed from it: its key may have expired since. */
enum op_result exec_step_held(struct op *op)
{
    struct exec *exec = exec_of(op);
    const struct exec_hold *hold = exec->hold;
    switch (hold->answer) {
    case EXEC_HOLD_OPEN:
        set_approval(exec);
        return stop_held(exec, hold);
    case EXEC_HOLD_ENDED:
        set_approval(exec);
        (void)exec_stop(exec, EXEC_HOLD_OVER, hold->message, hold->hint);
        exec->out.effect = hold->effect;
        return OP_STOP;
    case EXEC_HOLD_RUN:
        exec->key.found = (struct claim_outcome){.execution_id = hold->execution_id};
        store_execution_get(exec->service->config.pool, &exec->query, op, exec->in.account_id,
                            hold->execution_id, exec->in.account_id);
        return op_wait_then(op, EXEC_STEP_READ_REPLAY);
    case EXEC_HOLD_MISMATCH:
        return exec_stop_mismatch(exec);
    case EXEC_HOLD_FULL:
        return exec_stop(exec, EXEC_POLICY_DENIED, hold->message, hold->hint);
    case EXEC_HOLD_UNAVAILABLE:
        break;
    }
    return exec_stop_unavailable(
        exec, hold->message.ptr
                  ? hold->message
                  : SLICE("The approval could not be made or read now. The call was not made; it "
                          "may wait for an approval. Send the same request again."));
}
