/*
 * Starts of flows that write, without an idempotency key, whose client left before it had the
 * reply: it may repeat the call by itself, as after a write (exec/lost.c). The flow is noted under
 * a key that is made from the API key and the request, so an equal start within EXEC_LOST_MS gets
 * that flow. The note is written once and in the background: if it is lost, a repetition starts
 * another flow.
 */
#include "base/clock.h"
#include "flow/internal.h"

struct lost_start {
    struct store_later later;
    struct claim claim;
};

static struct lost_start *lost_of(struct store_later *later)
{
    return CONTAINER_OF(later, struct lost_start, later);
}

static void send_note_of_start(struct store_later *later)
{
    store_claim_spend(later->laters->pool, &later->query, &later->op, &lost_of(later)->claim);
}

static const struct store_later_class note_class = {
    STORE_LATER(store_later_once, "lost_start", struct lost_start),
    .send = send_note_of_start,
    .failure = "a lost reply to a start was not noted",
};

void flow_lost_note(struct flow_command *command)
{
    if (!command->lost_key.ptr || !command->is_started || !command->is_client_gone ||
        command->is_noted)
        return;
    command->is_noted = true;
    struct lost_start *lost =
        store_later(&command->service->losses, &note_class, NULL, command->lost_key.len);
    if (!lost)
        return;
    op_account_set(&lost->later.op, uuid_or(command->in.by.parent_id, command->in.account_id));
    lost->claim = (struct claim){
        .account_id = command->in.account_id,
        .key = arena_dup(&lost->later.op.arena, command->lost_key),
        .execution_id = command->flow_id,
        .integration_id = SLICE("sluice"),
        .action_id = SLICE("start_flow"),
        .is_write = true,
        .parent_id = command->in.by.parent_id,
        .guards_until = clock_shared_us() + EXEC_LOST_MS * INT64_C(1000),
    };
    memcpy(lost->claim.fingerprint, command->claim.fingerprint, sizeof(lost->claim.fingerprint));
    if (!lost->claim.key.ptr)
        op_cancel(&lost->later.op);
}

void flow_command_client_gone(struct flow_command *command)
{
    command->is_client_gone = true;
    flow_lost_note(command);
}
