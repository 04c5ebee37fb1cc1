/*
 * The limits on rows that accounts keep; see keeper.h.
 */
#include "server/keeper.h"

#include "store/idempotency.h"

enum {
    ARENA_BYTES_MAX = 1024 * 1024,
    PAGES_MAX = 200, /* of accounts, in one round */
    BITES_MAX = 200, /* of rows, in one round */
};

enum step { STEP_FIND, STEP_FOUND, STEP_TRIM, STEP_TRIMMED };

OP_OF(keeper_of, keeper)

/* Continues with the next kind, or ends the sweep: the next sweep begins in the next round. */
static enum op_result next_kind(struct keeper *keeper)
{
    keeper->after = (struct uuid){{0}};
    keeper->kind = (enum kept_kind)((keeper->kind + 1) % KEPT_KINDS);
    if (keeper->kind == 0)
        return OP_DONE;
    return op_jump(&keeper->op, STEP_FIND);
}

static enum op_result step_find(struct op *op)
{
    struct keeper *keeper = keeper_of(op);
    size_t count_max = keeper->config.count_max[keeper->kind];
    /* 0 means no limit, so there is nothing to find. */
    if (count_max == 0)
        return next_kind(keeper);
    /* The round's share is used up; `after` keeps the position for the next round. */
    if (keeper->pages++ >= PAGES_MAX || keeper->bites >= BITES_MAX)
        return OP_DONE;
    arena_reset(&op->arena);
    store_kept_find(keeper->pool, &keeper->query, op, keeper->kind, keeper->after, keeper->asked,
                    count_max);
    return OP_WAIT;
}

/* A page of accounts that keep very many rows may time out as a whole; then one account is queried
 * at a time. */
static enum op_result step_found(struct op *op)
{
    struct keeper *keeper = keeper_of(op);
    int status = store_kept_find_result(&keeper->query, &keeper->cuts, &keeper->count);
    /* A single account failed: the janitor logs it. */
    if (status != OK && keeper->asked == 1) {
        keeper->status = status;
        return OP_FAIL;
    }
    if (status != OK) {
        keeper->asked = 1;
        return op_jump(op, STEP_FIND);
    }
    keeper->at = 0;
    return OP_NEXT;
}

static enum op_result step_trim(struct op *op)
{
    struct keeper *keeper = keeper_of(op);
    /* Accounts below the limit have no cut. */
    while (keeper->at < keeper->count && uuid_is_nil(keeper->cuts[keeper->at].last))
        keeper->at++;
    if (keeper->at < keeper->count && keeper->bites++ < BITES_MAX) {
        /* Younger executions stay: a repeated idempotency key is answered from them. */
        uint64_t age_ms = keeper->config.idempotency_ttl_ms;
        age_ms = age_ms > CLAIM_GUARDS_MS_MAX ? age_ms : CLAIM_GUARDS_MS_MAX;
        store_kept_trim(keeper->pool, &keeper->query, op, keeper->kind, &keeper->cuts[keeper->at],
                        (int64_t)age_ms);
        return OP_WAIT;
    }
    if (keeper->at < keeper->count) /* this page is found again in the next round */
        return OP_DONE;
    /* A page that is not full was the last one. */
    if (keeper->count < keeper->asked)
        return next_kind(keeper);
    keeper->after = keeper->cuts[keeper->count - 1].account_id;
    return op_jump(op, STEP_FIND);
}

static enum op_result step_trimmed(struct op *op)
{
    struct keeper *keeper = keeper_of(op);
    size_t count = 0;
    keeper->status = store_kept_trim_result(&keeper->query, &count);
    if (keeper->status != OK)
        return OP_FAIL;
    keeper->removed[keeper->kind] += count;
    /* As many rows as one statement removes: the account may have more above its limit. */
    keeper->at += count < KEPT_ROWS_MAX;
    return op_jump(op, STEP_TRIM);
}

static const struct op_step steps[] = {
    [STEP_FIND] = {"find", step_find, OP_TO(STEP_FIND)},
    [STEP_FOUND] = {"found", step_found, OP_TO(STEP_FIND)},
    [STEP_TRIM] = {"trim", step_trim, OP_TO(STEP_FIND)},
    [STEP_TRIMMED] = {"trimmed", step_trimmed, OP_TO(STEP_TRIM)},
};
static const struct op_class keeper_class = {
    .name = "keeper",
    .is_background = true,
    OP_STEPS(steps),
};

void keeper_init(struct keeper *keeper, struct pg_pool *pool, const struct keeper_config *config)
{
    *keeper = (struct keeper){.pool = pool, .config = *config, .asked = KEPT_ACCOUNTS_MAX};
}

void keeper_start(struct keeper *keeper, struct op *parent)
{
    keeper->status = OK;
    /* `kind` and `after` are kept from the round before. */
    keeper->pages = keeper->bites = 0;
    for (size_t i = 0; i < KEPT_KINDS; i++)
        keeper->removed[i] = 0;
    op_start(&keeper->op, &keeper_class, parent->loop, parent, ARENA_BYTES_MAX);
}
