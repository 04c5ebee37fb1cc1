/*
 * Claims that are ended in the background: released, or recorded with their result. No other
 * process ends a claim of ours while this one lives, so it is tried again while the database is
 * unreachable; the client has had its answer long before.
 */
#include "base/mem.h"
#include "exec/internal.h"

enum {
    ENDING_ARENA_BYTES_MAX = 64 * 1024, /* and the summary */
    ENDING_RETRY_MS = 500,
    /* Two minutes at least. A result that is not recorded by then is left to the scan for orphans,
     * which records the outcome as unknown; a release is tried until it is done. */
    ENDING_RECORDS_MAX = 240,
};

struct ending {
    struct op op;
    struct pg_pool *pool;
    struct pg_query query;
    struct op_timer timer;
    struct claim claim;
    struct execution record; /* id nil: it is released */
    enum claim_end end;      /* of the record's key */
    unsigned tries;
    struct list link; /* in the service, to be cut on the way down */
};

enum ending_step { ENDING_END, ENDING_CHECK };

static struct ending *ending_of(struct op *op)
{
    return CONTAINER_OF(op, struct ending, op);
}

static bool is_record(const struct ending *ending)
{
    return !uuid_is_nil(ending->record.id);
}

static enum op_result step_end_claim(struct op *op)
{
    struct ending *ending = ending_of(op);
    if (is_record(ending))
        store_execution_finish(ending->pool, &ending->query, op, &ending->record, ending->claim.key,
                               ending->end);
    else
        store_claim_release(ending->pool, &ending->query, op, &ending->claim);
    return OP_WAIT;
}

static enum op_result step_check_end(struct op *op)
{
    struct ending *ending = ending_of(op);
    int status = is_record(ending) ? store_hit_result(&ending->query)
                                   : store_done_result(&ending->query);
    bool is_over = is_record(ending) &&
                   (status == ERR_NOTFOUND || ++ending->tries >= ENDING_RECORDS_MAX);
    if (status == OK || is_over)
        return OP_DONE;
    op_sleep(op, &ending->timer, ENDING_RETRY_MS, "the database, to end a claim");
    return op_wait_then(op, ENDING_END);
}

static void on_end(struct op *op, enum op_end end)
{
    (void)end;
    list_unlink(&ending_of(op)->link);
}

static const struct op_step steps[] = {
    [ENDING_END] = {"end", step_end_claim, 0},
    [ENDING_CHECK] = {"check", step_check_end, OP_TO(ENDING_END)},
};
static const struct op_class ending_class = {
    .name = "claim_end",
    OP_STEPS(steps),
    .on_end = on_end,
    .free = op_free_struct,
};

/* NULL: out of memory; the claim is left to the scan for orphans. */
static struct ending *ending_start(struct exec *exec, size_t more_bytes)
{
    struct ending *ending = mem_zalloc(sizeof(*ending));
    if (!ending) {
        op_log(&exec->op, LOG_ERROR, "a claim is left to the next scan for orphans",
               LOG_STR("integration_id", exec->out.integration_id));
        return NULL;
    }
    ending->pool = exec->service->config.pool;
    op_start(&ending->op, &ending_class, exec->op.loop, NULL, ENDING_ARENA_BYTES_MAX + more_bytes);
    list_init(&ending->link);
    list_push_back(&exec->service->endings, &ending->link);
    struct arena *arena = &ending->op.arena;
    ending->claim = exec->key.claim;
    ending->claim.integration_id = arena_dup(arena, exec->key.claim.integration_id);
    ending->claim.action_id = arena_dup(arena, exec->key.claim.action_id);
    if (exec->key.claim.key.len > 0)
        ending->claim.key = arena_dup(arena, exec->key.claim.key);
    return ending;
}

void exec_claim_release_later(struct exec *exec)
{
    /* Remembered as unsent before anything can fail: should the claim be committed after its
     * release, the scan for orphans frees its key instead of recording an unknown outcome. */
    exec_claim_move(exec, EXEC_CLAIM_ENDED);
    unsent_note(&exec->service->unsent, exec->key.claim.execution_id);
    (void)ending_start(exec, 0);
}

void exec_claim_record_later(struct exec *exec, enum claim_end end)
{
    const struct execution *row = &exec->record.row;
    exec_claim_move(exec, EXEC_CLAIM_ENDED);
    struct ending *ending = ending_start(exec, row->summary.len);
    if (!ending)
        return;
    ending->end = end;
    ending->record = *row;
    ending->record.integration_id = ending->claim.integration_id;
    ending->record.action_id = ending->claim.action_id;
    ending->record.summary = arena_dup(&ending->op.arena, row->summary);
}

void exec_endings_cancel(struct exec_service *service)
{
    LIST_EACH(&service->endings, struct ending, ending, link)
        op_cancel(&ending->op);
}

bool exec_endings_have(const struct exec_service *service, struct uuid execution_id)
{
    LIST_EACH(&service->endings, struct ending, ending, link) {
        if (uuid_eq(ending->claim.execution_id, execution_id))
            return true;
    }
    return false;
}
