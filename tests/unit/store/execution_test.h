/*
 * For the tests of executions, claims and nodes, which depend on one another: a current claim and
 * execution, the calls, and both modes of a database.
 */
#ifndef STORE_EXECUTION_TEST_H
#define STORE_EXECUTION_TEST_H

#include "base/clock.h"
#include "store/execution.h"
#include "store/idempotency.h"
#include "store/node.h"
#include "support/pg_both.h"

enum { CALLS_MAX = 200 };

static struct pg_call *calls;
static struct uuid account, node;

/* The current call's subject. */
static struct claim claim;
static struct execution execution;
static enum claim_end claim_end;

static inline struct claim claim_of(slice key)
{
    struct claim c = {.account_id = account,
                      .key = key,
                      .execution_id = uuid_v7(),
                      .owner = node,
                      .integration_id = SLICE("gmail"),
                      .action_id = SLICE("send"),
                      .connection_id = 7,
                      .is_write = true,
                      .started_at = clock_wall_us(),
                      .lifetime_ms = 3600 * 1000};
    memset(c.fingerprint, 0xAB, sizeof(c.fingerprint));
    return c;
}

static inline struct execution execution_of(const struct claim *c, slice summary)
{
    return (struct execution){.account_id = c->account_id,
                              .id = c->execution_id,
                              .integration_id = c->integration_id,
                              .action_id = c->action_id,
                              .connection_id = c->connection_id,
                              .is_succeeded = true,
                              .started_at = c->started_at,
                              .finished_at = clock_wall_us(),
                              .owner = c->owner,
                              .summary = summary};
}

static inline void start_claim(struct pg_call *call)
{
    const struct claim *c = call->arg;
    store_claim_insert(call->bench->pool, &call->query, &call->op, c ? c : &claim);
}

static inline void start_find(struct pg_call *call)
{
    store_claim_find(call->bench->pool, &call->query, &call->op, account, claim.key);
}

static inline void start_release(struct pg_call *call)
{
    store_claim_release(call->bench->pool, &call->query, &call->op, &claim);
}

static inline void start_finish(struct pg_call *call)
{
    store_execution_finish(call->bench->pool, &call->query, &call->op, &execution, claim.key,
                           claim_end);
}

static inline void start_insert(struct pg_call *call)
{
    store_execution_insert(call->bench->pool, &call->query, &call->op, &execution);
}

static inline void start_get(struct pg_call *call)
{
    store_execution_get(call->bench->pool, &call->query, &call->op, account, execution.id, account);
}

static inline void start_register(struct pg_call *call)
{
    store_node_register(call->bench->pool, &call->query, &call->op, node, SLICE("test"));
}

static inline void run(void (*start)(struct pg_call *call))
{
    assert_int_equal(pg_call_run(&bench, &calls[0], start, NULL), OK);
}

static inline void done(void)
{
    pg_call_end(&calls[0]);
}

static inline struct claim_outcome outcome_of(const struct pg_call *call)
{
    struct claim_outcome outcome;
    assert_int_equal(store_claim_result(&call->query, &outcome), OK);
    return outcome;
}

/* claim -> its final state */
static inline enum claim_state claim_now(slice key)
{
    claim = claim_of(key);
    run(start_claim);
    enum claim_state state = outcome_of(&calls[0]).state;
    done();
    return state;
}

static inline int finish_now(enum claim_end end, slice summary)
{
    execution = execution_of(&claim, summary);
    claim_end = end;
    run(start_finish);
    int rc = store_hit_result(&calls[0].query);
    done();
    return rc;
}

static inline int64_t count_of(const char *table)
{
    char sql[128];
    snprintf(sql, sizeof(sql), "select count(*) from sluice.%s", table);
    return items_ask(conninfo, sql);
}

static inline void new_node(void)
{
    node = uuid_v7();
    run(start_register);
    done();
}

static inline int set_up(void **state)
{
    items_tell(conninfo, "truncate sluice.execution, sluice.idempotency_key, sluice.node");
    open_bench(state);
    account = uuid_v7();
    new_node();
    return 0;
}

#define IN_BOTH(test) IN_BOTH_BY(test, set_up, close_bench)

static inline int tests_begin(void)
{
    calls = mem_calloc(CALLS_MAX, sizeof(*calls));
    conninfo = pg_cluster_database(true);
    return calls ? 0 : 1;
}

/* The return value of main. */
static inline int tests_end(int failed)
{
    mem_free(calls);
    return unit_result(failed);
}

#endif
