/*
 * Writes without an idempotency key whose client disconnected before it had the result. Some
 * clients repeat such a call at once, and it may reach another server. So the run's intent has a
 * key that the server makes from the API key and the request (claim.c): an equal request waits for
 * the run. If the client has left when the result is recorded, the record binds the key for
 * EXEC_LOST_MS, and the equal request gets the result. Else it frees the key, and the equal request
 * is made: it may be meant.
 *
 * A client that leaves between the record and its reply is noted by a statement of its own, which
 * is sent once and in the background: if it is lost, a repetition runs.
 */
#include "base/clock.h"
#include "base/encode.h"
#include "exec/internal.h"

/* Neither a client's key nor a run's own key begins with this byte (store/idempotency.c). */
#define LOST_KEY_MARK "\x02"

struct lost {
    struct store_later later;
    struct claim claim;
};

bool exec_is_lost_watched(const struct exec *exec)
{
    return !uuid_is_nil(exec->in.lost_by) && exec->in.idempotency_key.len == 0 && exec->action &&
           exec->action->level != LEVEL_READ && !exec->in.is_dry_run &&
           !exec_is_kept_from_results(exec);
}

slice exec_lost_key(struct uuid lost_by, const uint8_t *fingerprint, unsigned number,
                    struct arena *arena)
{
    char by[UUID_TEXT_LEN + 1], request[2 * IDEMPOTENCY_FINGERPRINT_LEN + 1];
    uuid_format(lost_by, by);
    encode_hex_in(request, sizeof(request), slice_of(fingerprint, IDEMPOTENCY_FINGERPRINT_LEN));
    return number == 0 ? arena_printf(arena, LOST_KEY_MARK "%s-%s", by, request)
                       : arena_printf(arena, LOST_KEY_MARK "%s-%s-%u", by, request, number);
}

static struct lost *lost_of(struct store_later *later)
{
    return CONTAINER_OF(later, struct lost, later);
}

static void send_note(struct store_later *later)
{
    store_claim_spend(later->laters->pool, &later->query, &later->op, &lost_of(later)->claim);
}

static const struct store_later_class note_class = {
    STORE_LATER(store_later_once, "lost", struct lost),
    .send = send_note,
    .failure = "a lost reply was not noted",
};

bool exec_lost_is_being_noted(const struct exec *exec)
{
    LIST_EACH(&exec->service->audits.all, struct store_later, later, link)
        if (later->op.class == &note_class.op &&
            slice_eq(lost_of(later)->claim.key, exec->key.lost))
            return true;
    return false;
}

void exec_lost_note(struct exec *exec)
{
    bool is_undone = exec->out.effect == EXEC_EFFECT_NONE;
    if (!exec->key.is_client_gone || !exec->key.lost.ptr || exec->key.is_kept ||
        exec->out.is_replayed || is_undone)
        return;
    exec->key.is_kept = true;
    struct lost *lost = store_later(&exec->service->audits, &note_class, NULL, 0);
    if (!lost)
        return;
    struct arena *arena = &lost->later.op.arena;
    op_account_set(&lost->later.op, exec_payer(exec));
    lost->claim = exec->key.claim;
    lost->claim.key = arena_dup(arena, exec->key.lost);
    lost->claim.integration_id = arena_dup(arena, exec->out.integration_id);
    lost->claim.action_id = arena_dup(arena, exec->out.action_id);
    lost->claim.lifetime_ms = 0;
    lost->claim.guards_until = clock_shared_us() + EXEC_LOST_MS * 1000;
    if (!lost->claim.key.ptr || !lost->claim.integration_id.ptr || !lost->claim.action_id.ptr)
        op_cancel(&lost->later.op);
}
