/*
 * Facts about the items of a fan-out. Each fact is a row, so that the facts of one turn share a
 * commit although they belong to one flow.
 */
#include "store/flow.h"
#include "store/internal.h"

#define OF(name, type, ...) PG_OF(#name, type, struct flow_item, name, __VA_ARGS__)

static const char *const fact_words[] = {
    [FLOW_ITEM_BEGUN] = "begun",
    [FLOW_ITEM_COMPLETED] = "completed",
    [FLOW_ITEM_FAILED] = "failed",
};
static const struct pg_words facts = {fact_words, ARRAY_LEN(fact_words), ARRAY_LEN(fact_words)};

/* The fence is read, not locked: items of one flow must not queue on its row. A node that takes
 * the flow during this either sees this fact, or has waited for this node's lease to run out,
 * after which this node calls no provider. A replay finds its row and does nothing (the key
 * identifies the fact); `held` still returns it. */
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
    PG_TAKES(OF(account_id, PG_UUID), OF(flow_id, PG_UUID), OF(step_index, PG_I64),
             OF(item, PG_I64), OF(attempt, PG_I64), PG_WORD("fact", struct flow_item, fact, &facts),
             OF(at, PG_TIME), OF(output, PG_JSON), OF(error, PG_JSON), PG_ARG("owner", PG_UUID),
             PG_ARG("rev", PG_I64)),
    /* account, flow, step, item, attempt, fact: the primary key. */
    .key_count = 6,
    .access = PG_WRITE,
};

const struct pg_stmt *const flow_item_stmts[] = {&flow_item_insert, NULL};

void store_flow_item_insert(STORE_ARGS, const struct flow_item *item, struct uuid owner,
                            int64_t rev)
{
    ASSERT((item->fact == FLOW_ITEM_FAILED) == (item->error.ptr != NULL));
    store_ask_of(pool, query, op, &flow_item_insert, item, PG_VALUES(pg_uuid(owner), pg_i64(rev)));
}
