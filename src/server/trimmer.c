/*
 * The limits on rows that accounts keep; see trimmer.h.
 */
#include "server/trimmer.h"

#include "store/idempotency.h"

enum {
    ARENA_BYTES_MAX = 1024 * 1024,
    PAGES_MAX = 200, /* pages of accounts in one round */
    BITES_MAX = 200, /* batches of rows in one round */
};

enum step { STEP_FIND, STEP_FOUND, STEP_TRIM, STEP_TRIMMED };

OP_OF(trimmer_of, trimmer)

/* Continues with the next kind of row. After the last kind the sweep ends, and the next one begins
 * in the next round. */
static enum op_result next_kind(struct trimmer *trimmer)
{
    trimmer->after = (struct uuid){{0}};
    trimmer->kind = (enum quota_kind)((trimmer->kind + 1) % QUOTA_KINDS);
    if (trimmer->kind == 0)
        return OP_DONE;
    return op_jump(&trimmer->op, STEP_FIND);
}

static enum op_result step_find(struct op *op)
{
    struct trimmer *trimmer = trimmer_of(op);
    size_t count_max = trimmer->config.count_max[trimmer->kind];
    /* 0 means no limit, so no account exceeds it. */
    if (count_max == 0)
        return next_kind(trimmer);
    /* The round's share is used up; the next round continues at `after`. */
    if (trimmer->pages++ >= PAGES_MAX || trimmer->bites >= BITES_MAX)
        return OP_DONE;
    arena_reset(&op->arena);
    store_quota_find(trimmer->pool, &trimmer->query, op, trimmer->kind, trimmer->after,
                     trimmer->asked, count_max);
    return OP_WAIT;
}

/* A page of accounts that keep very many rows may time out as a whole; then accounts are queried
 * one by one. */
static enum op_result step_found(struct op *op)
{
    struct trimmer *trimmer = trimmer_of(op);
    int status = store_quota_find_result(&trimmer->query, &trimmer->cuts, &trimmer->count);
    /* The query for a single account failed; the janitor logs it. */
    if (status != OK && trimmer->asked == 1) {
        trimmer->status = status;
        return OP_FAIL;
    }
    if (status != OK) {
        trimmer->asked = 1;
        return op_jump(op, STEP_FIND);
    }
    trimmer->at = 0;
    return OP_NEXT;
}

static enum op_result step_trim(struct op *op)
{
    struct trimmer *trimmer = trimmer_of(op);
    /* Accounts below the limit have no cut. */
    while (trimmer->at < trimmer->count && uuid_is_nil(trimmer->cuts[trimmer->at].last))
        trimmer->at++;
    if (trimmer->at < trimmer->count && trimmer->bites++ < BITES_MAX) {
        /* Younger executions are kept, since a repeated idempotency key is answered from them. */
        uint64_t age_ms = trimmer->config.idempotency_ttl_ms;
        age_ms = age_ms > CLAIM_GUARDS_MS_MAX ? age_ms : CLAIM_GUARDS_MS_MAX;
        store_quota_trim(trimmer->pool, &trimmer->query, op, trimmer->kind,
                         &trimmer->cuts[trimmer->at], (int64_t)age_ms);
        return OP_WAIT;
    }
    if (trimmer->at < trimmer->count) /* the next round finds this page again */
        return OP_DONE;
    /* A page that is not full was the last page. */
    if (trimmer->count < trimmer->asked)
        return next_kind(trimmer);
    trimmer->after = trimmer->cuts[trimmer->count - 1].account_id;
    return op_jump(op, STEP_FIND);
}

static enum op_result step_trimmed(struct op *op)
{
    struct trimmer *trimmer = trimmer_of(op);
    size_t count = 0;
    trimmer->status = store_quota_trim_result(&trimmer->query, &count);
    if (trimmer->status != OK)
        return OP_FAIL;
    trimmer->removed[trimmer->kind] += count;
    /* The statement has removed its maximum of rows: the account may have more above its limit. */
    trimmer->at += count < QUOTA_ROWS_MAX;
    return op_jump(op, STEP_TRIM);
}

static const struct op_step steps[] = {
    [STEP_FIND] = {"find", step_find, OP_TO(STEP_FIND)},
    [STEP_FOUND] = {"found", step_found, OP_TO(STEP_FIND)},
    [STEP_TRIM] = {"trim", step_trim, OP_TO(STEP_FIND)},
    [STEP_TRIMMED] = {"trimmed", step_trimmed, OP_TO(STEP_TRIM)},
};
static const struct op_class trimmer_class = {
    .name = "trimmer",
    .is_background = true,
    OP_STEPS(steps),
};

void trimmer_init(struct trimmer *trimmer, struct pg_pool *pool,
                  const struct trimmer_config *config)
{
    *trimmer = (struct trimmer){.pool = pool, .config = *config, .asked = QUOTA_ACCOUNTS_MAX};
}

void trimmer_start(struct trimmer *trimmer, struct op *parent)
{
    trimmer->status = OK;
    /* `kind` and `after` keep their values from the previous round. */
    trimmer->pages = trimmer->bites = 0;
    for (size_t i = 0; i < QUOTA_KINDS; i++)
        trimmer->removed[i] = 0;
    op_start(&trimmer->op, &trimmer_class, parent->loop, parent, ARENA_BYTES_MAX);
}
