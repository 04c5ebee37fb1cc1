/*
 * Facts about the items of a fan-out. Each is a row of its own, so that those of one turn share a
 * commit although they belong to one flow.
 */
#include "store/flow.h"
#include "store/internal.h"

static const struct pg_column insert_params[] = {
    {"account_id", PG_UUID}, {"flow_id", PG_UUID}, {"step_index", PG_I64}, {"item", PG_I64},
    {"attempt", PG_I64},     {"fact", PG_TEXT},    {"at", PG_TIME},        {"output", PG_JSON},
    {"error", PG_JSON},      {"owner", PG_UUID},   {"rev", PG_I64},
};

/* The fence is read, not locked: items of one flow must not queue on its row. A node that takes the
 * flow meanwhile either sees this fact, or has waited for this node's lease to run out, after which
 * this node calls no provider. A replay finds its row and does nothing (the key has all that makes
 * a fact); `held` still answers it. */
static const struct pg_stmt flow_item_insert = {
    .name = "flow_item_insert",
    .sql = "with held as (select :ord as ord, :account_id as account_id, :flow_id as flow_id, "
           ":step_index as step_index, :item as item, :attempt as attempt, :fact as fact, "
           ":at as at, :output as output, :error as error "
           "from @input lateral (select * from sluice.flow k "
           "where k.account_id = :account_id and k.id = :flow_id offset 0) f "
           "where f.rev = :rev and f.owner = :owner), "
           "stored as (insert into sluice.flow_item (account_id, flow_id, step_index, item, "
           "attempt, fact, at, output, error) select h.account_id, h.flow_id, h.step_index, "
           "h.item, h.attempt, h.fact, h.at, h.output, h.error from held h "
           "on conflict do nothing) "
           "select h.ord from held h",
    PG_PARAMS(insert_params),
    /* account, flow, step, item, attempt, fact: the primary key. */
    .key_count = 6,
    .is_write = true,
    .is_replayable = true,
};

const struct pg_stmt *const flow_item_stmts[] = {&flow_item_insert, NULL};

static slice fact_name(enum flow_item_fact fact)
{
    switch (fact) {
    case FLOW_ITEM_BEGUN:
        return SLICE("begun");
    case FLOW_ITEM_COMPLETED:
        return SLICE("completed");
    case FLOW_ITEM_FAILED:
        return SLICE("failed");
    }
    UNREACHABLE("all facts are above");
    return SLICE_NONE;
}

void store_flow_item_insert(struct pg_pool *pool, struct pg_query *query, struct op *op,
                            const struct flow_item *item, struct uuid owner, int64_t rev)
{
    struct pg_value *params = query->params;
    ASSERT((item->fact == FLOW_ITEM_FAILED) == (item->error.ptr != NULL));
    params[0] = pg_uuid(item->account_id);
    params[1] = pg_uuid(item->flow_id);
    params[2] = pg_i64(item->step_index);
    params[3] = pg_i64(item->item);
    params[4] = pg_i64(item->attempt);
    params[5] = pg_text(fact_name(item->fact));
    params[6] = pg_time(item->at);
    params[7] = pg_json(item->output);
    params[8] = pg_json(item->error);
    params[9] = pg_uuid(owner);
    params[10] = pg_i64(rev);
    store_submit(pool, query, op, &flow_item_insert);
}

int store_flow_item_insert_result(const struct pg_query *query)
{
    if (query->status != OK)
        return query->status;
    return query->rows.count ? OK : ERR_NOTFOUND;
}
