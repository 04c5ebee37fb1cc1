/*
 * Starts of flows that write, without an idempotency key, whose client may automatically repeat
 * them, as writes (exec/lost.c). The key is made from the API key and the request. The start's
 * statement claims it, and it is in flight until the start's request has ended: an equal start
 * waits for a while (command.c). If the client has left by then, the key is bound to the flow for
 * EXEC_LOST_MS, and an equal start gets that flow; else it is released. Both are done in the
 * background, once: a key that stays in flight is released by the scan for orphans.
 */
#include "flow/internal.h"

struct lost_start {
    struct store_later later;
    struct claim claim;
};

static struct lost_start *lost_of(struct store_later *later)
{
    return CONTAINER_OF(later, struct lost_start, later);
}

static void send_binding(struct store_later *later)
{
    store_claim_bind(later->laters->pool, &later->query, &later->op, &lost_of(later)->claim);
}

static void send_release(struct store_later *later)
{
    store_claim_release(later->laters->pool, &later->query, &later->op, &lost_of(later)->claim);
}

static const struct store_later_class binding_class = {
    STORE_LATER(store_later_once, "lost_start", struct lost_start),
    .send = send_binding,
    .failure = "a lost reply to a start was not noted",
};

static const struct store_later_class release_class = {
    STORE_LATER(store_later_once, "start_replied", struct lost_start),
    .send = send_release,
    .failure = "the key of a start was not released",
};

static bool is_open(const struct flow_command *command)
{
    return !list_is_empty(&command->carried.link);
}

void flow_lost_begin(struct flow_command *command)
{
    if (!command->lost_key.ptr || !command->claim.key.ptr || is_open(command))
        return;
    command->carried.execution_id = command->flow_id;
    exec_claim_carry(command->service->config.exec, &command->carried);
}

void flow_lost_drop(struct flow_command *command)
{
    list_unlink(&command->carried.link);
}

/* A start whose answer was lost may have made a flow, or may do so later. An equal one must not get
 * it before it exists, so the key is released. */
void flow_lost_end(struct flow_command *command)
{
    bool is_bound = command->is_started && command->is_client_gone;
    if (!is_open(command) || (!is_bound && !(command->is_replied && command->op.is_ended)))
        return;
    flow_lost_drop(command);
    struct lost_start *lost = store_later(&command->service->losses,
                                          is_bound ? &binding_class : &release_class, NULL,
                                          command->lost_key.len);
    if (!lost)
        return;
    op_account_set(&lost->later.op, uuid_or(command->in.by.parent_id, command->in.account_id));
    lost->claim = (struct claim){
        .account_id = command->in.account_id,
        .key = arena_dup(&lost->later.op.arena, command->lost_key),
        .execution_id = command->flow_id,
        .owner = command->claim.owner,
        .integration_id = SLICE("sluice"),
        .action_id = SLICE("start_flow"),
        .parent_id = command->in.by.parent_id,
        .lifetime_ms = EXEC_LOST_MS,
    };
    memcpy(lost->claim.fingerprint, command->claim.fingerprint, sizeof(lost->claim.fingerprint));
    if (!lost->claim.key.ptr)
        op_cancel(&lost->later.op);
}

void flow_command_client_gone(struct flow_command *command)
{
    command->is_client_gone = true;
    flow_lost_end(command);
}

void flow_command_replied(struct flow_command *command)
{
    command->is_replied = true;
    flow_lost_end(command);
}
