/*
 * Claims that are ended in the background: released, or recorded with their result. Other processes
 * never end a claim of this process while it is alive, so it retries while the database is
 * unreachable; the client got its answer long before.
 */
#include "exec/internal.h"

enum {
    ENDING_RETRY_MS = 500,
    /* Two minutes at least. A result that is not recorded by then is left to the scan for
     * orphans, which records the outcome as unknown; a release is retried until it is done. */
    ENDING_RECORDS_MAX = 240,
};

struct ending {
    struct store_later later;
    struct claim claim;
    struct execution record; /* id nil: the claim is released */
    enum claim_end end;      /* how the claim of the record's key ends: bound or freed */
    unsigned tries;
};

static struct ending *ending_of(struct store_later *later)
{
    return CONTAINER_OF(later, struct ending, later);
}

static bool is_record(const struct ending *ending)
{
    return !uuid_is_nil(ending->record.id);
}

static void send_ending(struct store_later *later)
{
    struct ending *ending = ending_of(later);
    struct pg_pool *pool = later->laters->pool;
    if (is_record(ending))
        store_execution_finish(pool, &later->query, &later->op, &ending->record, ending->claim.key,
                               ending->end);
    else
        store_claim_release(pool, &later->query, &later->op, &ending->claim);
}

static bool must_retry(struct store_later *later)
{
    struct ending *ending = ending_of(later);
    if (!is_record(ending))
        return store_done_result(&later->query) != OK;
    int status = store_hit_result(&later->query);
    return status != OK && status != ERR_NOTFOUND && ++ending->tries < ENDING_RECORDS_MAX;
}

static const struct store_later_class ending_class = {
    STORE_LATER(store_later_again, "claim_end", struct ending),
    .send = send_ending,
    .on_sent = must_retry,
    .retry_ms = ENDING_RETRY_MS,
};

/* Returns NULL if there is no room; the claim is then left to the scan for orphans. */
static struct ending *ending_start(struct exec *exec, size_t more_bytes)
{
    struct ending *ending = store_later(&exec->service->endings, &ending_class, NULL, more_bytes);
    if (!ending) {
        op_log(&exec->op, LOG_ERROR, "a claim is left to the next scan for orphans",
               LOG_STR("integration_id", exec->out.integration_id));
        return NULL;
    }
    struct arena *arena = &ending->later.op.arena;
    op_account_set(&ending->later.op, exec_payer(exec));
    ending->claim = exec->key.claim;
    ending->claim.integration_id = arena_dup(arena, exec->key.claim.integration_id);
    ending->claim.action_id = arena_dup(arena, exec->key.claim.action_id);
    if (exec->key.claim.key.len > 0)
        ending->claim.key = arena_dup(arena, exec->key.claim.key);
    return ending;
}

void exec_claim_release_later(struct exec *exec)
{
    /* The claim is noted as unsent before anything can fail: if it is committed after its release,
     * the scan for orphans frees its key instead of recording an unknown outcome. */
    exec_claim_move(exec, EXEC_CLAIM_ENDED);
    unsent_note(&exec->service->unsent, exec->key.claim.execution_id);
    (void)ending_start(exec, 0);
}

void exec_claim_record_later(struct exec *exec, enum claim_end end)
{
    const struct execution *row = &exec->record.row;
    exec_claim_move(exec, EXEC_CLAIM_ENDED);
    struct ending *ending =
        ending_start(exec, row->summary.len + row->input.sealed.len + row->input.words.len);
    if (!ending)
        return;
    ending->end = end;
    ending->record = *row;
    ending->record.integration_id = ending->claim.integration_id;
    ending->record.action_id = ending->claim.action_id;
    ending->record.summary = arena_dup(&ending->later.op.arena, row->summary);
    if (row->policy.ptr)
        ending->record.policy = arena_dup(&ending->later.op.arena, row->policy);
    if (row->input.sealed.ptr)
        ending->record.input.sealed = arena_dup(&ending->later.op.arena, row->input.sealed);
    if (row->input.words.ptr)
        ending->record.input.words = arena_dup(&ending->later.op.arena, row->input.words);
}

bool exec_endings_have(const struct exec_service *service, struct uuid execution_id)
{
    LIST_EACH(&service->endings.all, struct store_later, later, link) {
        if (uuid_eq(ending_of(later)->claim.execution_id, execution_id))
            return true;
    }
    return false;
}
