/* Executions and claims: who wins a key, what a replay says, who is fenced, what is recovered. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "store/execution.h"
#include "store/idempotency.h"
#include "store/node.h"
#include "store/retention.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"

enum { CALLS_MAX = 200 };

static const char *conninfo;
static struct pg_bench bench;
static struct pg_call *calls;
static struct uuid account, node;

/* What the call at hand is about. */
static struct claim claim;
static struct execution execution;
static enum claim_end claim_end;
static struct expired_key expired;

static struct claim claim_of(slice key)
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
                      .expires_at = clock_wall_us() + (int64_t)3600 * 1000000};
    memset(c.fingerprint, 0xAB, sizeof(c.fingerprint));
    return c;
}

static struct execution execution_of(const struct claim *c, slice summary)
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

static void start_claim(struct pg_call *call)
{
    const struct claim *c = call->arg;
    store_claim_insert(call->bench->pool, &call->query, &call->op, c ? c : &claim);
}

static void start_find(struct pg_call *call)
{
    store_claim_find(call->bench->pool, &call->query, &call->op, account, claim.key);
}

static void start_release(struct pg_call *call)
{
    store_claim_release(call->bench->pool, &call->query, &call->op, &claim);
}

static void start_finish(struct pg_call *call)
{
    store_execution_finish(call->bench->pool, &call->query, &call->op, &execution, claim.key,
                           claim_end);
}

static void start_insert(struct pg_call *call)
{
    store_execution_insert(call->bench->pool, &call->query, &call->op, &execution);
}

static void start_get(struct pg_call *call)
{
    store_execution_get(call->bench->pool, &call->query, &call->op, account, execution.id);
}

static void start_recover(struct pg_call *call)
{
    store_claim_recover(call->bench->pool, &call->query, &call->op);
}

static void start_register(struct pg_call *call)
{
    store_node_register(call->bench->pool, &call->query, &call->op, node, SLICE("test"));
}

static void start_heartbeat(struct pg_call *call)
{
    store_node_heartbeat(call->bench->pool, &call->query, &call->op, node);
}

static void start_leave(struct pg_call *call)
{
    store_node_leave(call->bench->pool, &call->query, &call->op, node);
}

static void start_sweep(struct pg_call *call)
{
    store_node_sweep(call->bench->pool, &call->query, &call->op);
}

static void run(void (*start)(struct pg_call *call))
{
    assert_int_equal(pg_call_run(&bench, &calls[0], start, NULL), OK);
}

static void done(void)
{
    pg_call_end(&calls[0]);
}

static struct claim_outcome outcome_of(const struct pg_call *call)
{
    struct claim_outcome outcome;
    assert_int_equal(store_claim_result(&call->query, &outcome), OK);
    return outcome;
}

/* claim -> the state that it ends in */
static enum claim_state claim_now(slice key)
{
    claim = claim_of(key);
    run(start_claim);
    enum claim_state state = outcome_of(&calls[0]).state;
    done();
    return state;
}

static int finish_now(enum claim_end end, slice summary)
{
    execution = execution_of(&claim, summary);
    claim_end = end;
    run(start_finish);
    int rc = store_execution_finish_result(&calls[0].query);
    done();
    return rc;
}

static int64_t count_of(const char *table)
{
    char sql[128];
    snprintf(sql, sizeof(sql), "select count(*) from sluice.%s", table);
    return items_ask(conninfo, sql);
}

static void new_node(void)
{
    node = uuid_v7();
    run(start_register);
    done();
}

/* ---- a life ---- */

static void test_claim_finish_replay(void **state)
{
    (void)state;
    slice summary = SLICE("{\"status\": \"succeeded\",  \"output\":{\"b\":1,\"a\":\"\\u0000\","
                          "\"n\":12345678901234567890123,\"a\":1.0}}");
    assert_int_equal(claim_now(SLICE("key-1")), CLAIM_WON);
    struct uuid id = claim.execution_id;
    run(start_claim); /* a replay of the same statement has won, too */
    assert_int_equal(outcome_of(&calls[0]).state, CLAIM_WON);
    done();
    assert_int_equal(claim_now(SLICE("key-1")), CLAIM_IN_FLIGHT); /* another execution's */
    run(start_find);
    struct claim_outcome outcome = outcome_of(&calls[0]);
    assert_int_equal(outcome.state, CLAIM_IN_FLIGHT);
    assert_true(uuid_eq(outcome.execution_id, id));
    assert_true(uuid_eq(outcome.owner, node));
    done();

    claim.execution_id = id;
    assert_int_equal(finish_now(CLAIM_KEEP, summary), OK);
    for (int replay = 0; replay < 3; replay++) {
        run(start_finish);
        assert_int_equal(store_execution_finish_result(&calls[0].query), OK);
        done();
    }
    run(start_get);
    struct execution got;
    assert_int_equal(store_execution_get_result(&calls[0].query, &got), OK);
    assert_true(slice_eq(got.summary, summary)); /* byte for byte */
    assert_true(got.is_succeeded && !got.error_code.ptr && got.connection_id == 7);
    assert_int_equal(got.finished_at, execution.finished_at);
    done();
    run(start_find);
    outcome = outcome_of(&calls[0]);
    assert_int_equal(outcome.state, CLAIM_BOUND);
    assert_true(outcome.has_execution && outcome.is_succeeded);
    assert_true(slice_eq(outcome.summary, summary));
    assert_int_equal(outcome.fingerprint[0], 0xAB);
    done();
    assert_int_equal(claim_now(SLICE("key-1")), CLAIM_BOUND);
}

static void test_release_frees_the_key(void **state)
{
    (void)state;
    assert_int_equal(claim_now(SLICE("key-2")), CLAIM_WON);
    run(start_release);
    done();
    run(start_find);
    struct claim_outcome outcome;
    assert_int_equal(store_claim_result(&calls[0].query, &outcome), ERR_NOTFOUND);
    done();
    assert_int_equal(claim_now(SLICE("key-2")), CLAIM_WON);
    assert_int_equal(finish_now(CLAIM_RELEASE, SLICE("{}")), OK); /* failed, nothing was done */
    assert_int_equal(claim_now(SLICE("key-2")), CLAIM_WON);
    run(start_release);
    done();
}

static void test_write_without_a_key(void **state)
{
    (void)state;
    int64_t before = count_of("idempotency_key");
    assert_int_equal(claim_now(SLICE_NONE), CLAIM_WON);
    assert_int_equal(count_of("idempotency_key"), before + 1);
    assert_int_equal(finish_now(CLAIM_RELEASE, SLICE("{}")), OK);
    assert_int_equal(count_of("idempotency_key"), before);
    run(start_finish);
    assert_int_equal(store_execution_finish_result(&calls[0].query), OK); /* replay */
    done();
}

static void test_accounts_do_not_meet(void **state)
{
    (void)state;
    assert_int_equal(claim_now(SLICE("key-3")), CLAIM_WON);
    assert_int_equal(finish_now(CLAIM_KEEP, SLICE("{}")), OK);
    struct uuid mine = account;
    account = uuid_v7();
    run(start_get);
    struct execution got;
    assert_int_equal(store_execution_get_result(&calls[0].query, &got), ERR_NOTFOUND);
    done();
    assert_int_equal(claim_now(SLICE("key-3")), CLAIM_WON);
    run(start_release);
    done();
    account = mine;
}

static void test_plain_insert_is_replayable(void **state)
{
    (void)state;
    claim = claim_of(SLICE_NONE);
    execution = execution_of(&claim, SLICE("[1]"));
    execution.is_succeeded = false;
    execution.error_code = SLICE("timeout");
    execution.connection_id = 0;
    int64_t before = count_of("execution");
    run(start_insert);
    done();
    run(start_insert);
    done();
    assert_int_equal(count_of("execution"), before + 1);
    run(start_get);
    struct execution got;
    assert_int_equal(store_execution_get_result(&calls[0].query, &got), OK);
    assert_false(got.is_succeeded);
    assert_true(slice_eq(got.error_code, SLICE("timeout")));
    assert_int_equal(got.connection_id, 0);
    done();
}

/* ---- races ---- */

static void race(struct pg_bench *other)
{
    enum { RACERS = 100 };
    static struct claim racers[RACERS];
    size_t winners = 0;
    struct uuid winner = {{0}};
    for (size_t i = 0; i < RACERS; i++) {
        racers[i] = claim_of(SLICE("race"));
        pg_call_start(i % 2 && other ? other : &bench, &calls[i], start_claim, &racers[i]);
    }
    for (size_t i = 0; i < RACERS; i++) {
        while (!calls[i].is_done) {
            loop_turn(bench.loop, false);
            if (other)
                loop_turn(other->loop, false);
        }
        struct claim_outcome outcome = outcome_of(&calls[i]);
        if (outcome.state == CLAIM_WON) {
            winners++;
            winner = racers[i].execution_id;
            claim = racers[i];
        } else {
            assert_int_equal(outcome.state, CLAIM_IN_FLIGHT);
        }
    }
    for (size_t i = 0; i < RACERS; i++)
        assert_true(uuid_eq(outcome_of(&calls[i]).execution_id, winner));
    pg_calls_end(calls, RACERS);
    assert_int_equal(winners, 1);
    run(start_release);
    done();
}

static void test_one_winner(void **state)
{
    struct pg_bench other;
    struct pg_pool_config config = {.conninfo = conninfo, .queue_timeout_ms = 30000};
    (void)state;
    race(NULL);
    pg_bench_open(&other, &config, true); /* as another process would */
    for (int round = 0; round < 5; round++)
        race(&other);
    pg_bench_close(&other);
}

static void test_a_set_of_claims(void **state)
{
    enum { COUNT = 150 };
    static struct claim many[COUNT];
    static char keys[COUNT][16];
    (void)state;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            snprintf(keys[i], sizeof(keys[i]), "many-%zu", i * 7919 % COUNT);
            many[i] = claim_of(slice_cstr(keys[i]));
            pg_call_start(&bench, &calls[i], start_claim, &many[i]);
        }
        pg_calls_wait(&bench, calls, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(outcome_of(&calls[i]).state, round ? CLAIM_IN_FLIGHT : CLAIM_WON);
        pg_calls_end(calls, COUNT);
    }
    items_tell(conninfo, "delete from sluice.idempotency_key where key like 'many-%'");
}

/* ---- sets: all of a kind in one statement ---- */

enum { SET = 90 };
static struct item {
    struct claim claim;
    struct execution execution;
    char key[16], summary[32];
} items[SET];

static void start_item_claim(struct pg_call *call)
{
    struct item *item = call->arg;
    store_claim_insert(call->bench->pool, &call->query, &call->op, &item->claim);
}

static void start_item_find(struct pg_call *call)
{
    struct item *item = call->arg;
    store_claim_find(call->bench->pool, &call->query, &call->op, account, slice_cstr(item->key));
}

/* A third keeps its key, a third gives it back, a third has none. */
static void start_item_finish(struct pg_call *call)
{
    struct item *item = call->arg;
    store_execution_finish(call->bench->pool, &call->query, &call->op, &item->execution,
                           item->claim.key, (item - items) % 3 ? CLAIM_RELEASE : CLAIM_KEEP);
}

static void start_item_insert(struct pg_call *call)
{
    struct item *item = call->arg;
    store_execution_insert(call->bench->pool, &call->query, &call->op, &item->execution);
}

static void start_item_get(struct pg_call *call)
{
    struct item *item = call->arg;
    store_execution_get(call->bench->pool, &call->query, &call->op, account, item->execution.id);
}

static void start_item_release(struct pg_call *call)
{
    struct item *item = call->arg;
    store_claim_release(call->bench->pool, &call->query, &call->op, &item->claim);
}

static void start_items(void (*start)(struct pg_call *call))
{
    for (size_t i = 0; i < SET; i++)
        pg_call_start(&bench, &calls[i], start, &items[i]);
    pg_calls_wait(&bench, calls, SET);
    for (size_t i = 0; i < SET; i++)
        assert_int_equal(calls[i].query.status, OK);
}

static void make_items(void)
{
    for (size_t i = 0; i < SET; i++) {
        struct item *item = &items[i];
        snprintf(item->key, sizeof(item->key), "set-%zu", i * 7 % SET);
        snprintf(item->summary, sizeof(item->summary), "{\"i\": %zu}", i);
        item->claim = claim_of(i % 3 == 2 ? SLICE_NONE : slice_cstr(item->key));
        item->execution = execution_of(&item->claim, slice_cstr(item->summary));
    }
}

static void check_items_got(void)
{
    start_items(start_item_get);
    for (size_t i = 0; i < SET; i++) {
        struct execution got;
        assert_int_equal(store_execution_get_result(&calls[i].query, &got), OK);
        assert_true(slice_eq(got.summary, slice_cstr(items[i].summary)));
        assert_true(uuid_eq(got.id, items[i].execution.id));
    }
    pg_calls_end(calls, SET);
}

static void test_sets_of_everything(void **state)
{
    struct claim_outcome outcome;
    (void)state;
    make_items();
    start_items(start_item_claim);
    for (size_t i = 0; i < SET; i++)
        assert_int_equal(outcome_of(&calls[i]).state, CLAIM_WON);
    pg_calls_end(calls, SET);
    for (int replay = 0; replay < 2; replay++) {
        start_items(start_item_finish);
        for (size_t i = 0; i < SET; i++)
            assert_int_equal(store_execution_finish_result(&calls[i].query), OK);
        pg_calls_end(calls, SET);
    }
    check_items_got();
    start_items(start_item_find);
    for (size_t i = 0; i < SET; i++) {
        int rc = store_claim_result(&calls[i].query, &outcome);
        assert_int_equal(rc, i % 3 ? ERR_NOTFOUND : OK);
        if (rc == OK)
            assert_true(slice_eq(outcome.summary, slice_cstr(items[i].summary)));
    }
    pg_calls_end(calls, SET);
    assert_int_equal(count_of("idempotency_key"), SET / 3);
    assert_int_equal(count_of("execution"), SET);

    items_tell(conninfo, "truncate sluice.execution, sluice.idempotency_key");
    start_items(start_item_insert);
    pg_calls_end(calls, SET);
    check_items_got();
    start_items(start_item_claim);
    pg_calls_end(calls, SET);
    for (size_t i = 0; i < SET; i += 2)
        items[i].claim.owner = uuid_v7(); /* not theirs to release */
    start_items(start_item_release);
    pg_calls_end(calls, SET);
    assert_int_equal(count_of("idempotency_key"), SET / 2);
    for (size_t i = 0; i < SET; i++)
        items[i].execution.id = uuid_v7();
    start_items(start_item_finish); /* no such claim: fenced, one and all */
    for (size_t i = 0; i < SET; i++)
        assert_int_equal(store_execution_finish_result(&calls[i].query), ERR_NOTFOUND);
    pg_calls_end(calls, SET);
    assert_int_equal(count_of("execution"), SET);
}

/* ---- expiry ---- */

static void start_expired(struct pg_call *call)
{
    store_keys_expired(call->bench->pool, &call->query, &call->op);
}

static void start_expire(struct pg_call *call)
{
    store_key_expire(call->bench->pool, &call->query, &call->op, &expired);
}

static void test_expired_keys(void **state)
{
    (void)state;
    claim = claim_of(SLICE("old"));
    claim.expires_at = clock_wall_us() - 1000000;
    run(start_claim);
    done();
    assert_int_equal(finish_now(CLAIM_KEEP, SLICE("{}")), OK);
    run(start_find);
    struct claim_outcome outcome;
    assert_int_equal(store_claim_result(&calls[0].query, &outcome),
                     ERR_NOTFOUND); /* as good as free */
    done();
    struct expired_key *list;
    size_t count;
    run(start_expired);
    assert_int_equal(store_keys_expired_result(&calls[0].query, &list, &count), OK);
    assert_int_equal(count, 1);
    assert_true(slice_eq(list[0].key, SLICE("old")));
    expired = list[0];
    expired.key = SLICE("old");
    done();
    assert_int_equal(claim_now(SLICE("old")), CLAIM_WON); /* changes hands before it is removed */
    run(start_expire);
    done();
    run(start_find);
    assert_int_equal(outcome_of(&calls[0]).state, CLAIM_IN_FLIGHT); /* the fence held */
    done();
    claim.expires_at = expired.expires_at;
    assert_int_equal(finish_now(CLAIM_KEEP, SLICE("{}")), OK);
    items_tell(conninfo, "update sluice.idempotency_key set expires_at = now() - interval '1 h' "
                         "where key = 'old'");
    run(start_expired);
    assert_int_equal(store_keys_expired_result(&calls[0].query, &list, &count), OK);
    assert_int_equal(count, 1);
    expired.expires_at = list[0].expires_at;
    done();
    run(start_expire);
    done();
    run(start_expired);
    assert_int_equal(store_keys_expired_result(&calls[0].query, &list, &count), OK);
    assert_int_equal(count, 0);
    done();
}

/* ---- dead nodes ---- */

static void test_recovery_and_fences(void **state)
{
    struct claim *list;
    size_t count;
    struct uuid dead = node;
    (void)state;
    assert_int_equal(claim_now(SLICE("lost")), CLAIM_WON);
    struct claim lost = claim;
    assert_int_equal(claim_now(SLICE_NONE), CLAIM_WON);
    struct claim unkeyed = claim;
    run(start_recover); /* alive: nothing to recover */
    assert_int_equal(store_claim_recover_result(&calls[0].query, &list, &count), OK);
    assert_int_equal(count, 0);
    done();
    run(start_heartbeat);
    assert_int_equal(store_node_heartbeat_result(&calls[0].query), OK);
    done();
    run(start_leave);
    done();
    run(start_heartbeat); /* dead stays dead */
    assert_int_equal(store_node_heartbeat_result(&calls[0].query), ERR_NOTFOUND);
    done();
    claim = lost;
    run(start_find);
    assert_int_equal(outcome_of(&calls[0]).state, CLAIM_DEAD);
    done();

    new_node();
    run(start_recover);
    assert_int_equal(store_claim_recover_result(&calls[0].query, &list, &count), OK);
    assert_int_equal(count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct claim *want = list[i].key.ptr ? &lost : &unkeyed;
        assert_true(uuid_eq(list[i].execution_id, want->execution_id));
        assert_true(uuid_eq(list[i].owner, dead));
        assert_true(slice_eq(list[i].key, want->key));
        assert_true(slice_eq(list[i].action_id, SLICE("send")));
        assert_int_equal(list[i].started_at, want->started_at);
        assert_true(list[i].is_write);
    }
    done();

    claim = lost; /* the write: failed, outcome unknown, the key stays bound */
    execution = execution_of(&lost, SLICE("{\"status\":\"failed\"}"));
    execution.is_succeeded = false;
    execution.error_code = SLICE("execution_failed");
    claim_end = CLAIM_KEEP;
    run(start_finish);
    assert_int_equal(store_execution_finish_result(&calls[0].query), OK);
    done();
    /* the zombie wakes up and says it succeeded: too late, and it is told */
    assert_int_equal(finish_now(CLAIM_KEEP, SLICE("{\"status\":\"succeeded\"}")), ERR_NOTFOUND);
    run(start_find);
    struct claim_outcome outcome = outcome_of(&calls[0]);
    assert_int_equal(outcome.state, CLAIM_BOUND);
    assert_false(outcome.is_succeeded);
    assert_true(slice_eq(outcome.summary, SLICE("{\"status\":\"failed\"}")));
    done();

    run(start_sweep); /* it still owns the other one, and is not an hour dead */
    done();
    items_tell(conninfo, "update sluice.node set lease_until = now() - interval '2 h' "
                         "where lease_until <= now()");
    run(start_sweep);
    done();
    assert_int_equal(count_of("node"), 2);
    claim = unkeyed;
    run(start_release);
    done();
    run(start_sweep);
    done();
    assert_int_equal(count_of("node"), 1);
}

static int set_up(void **state)
{
    enum pg_mode *mode = *state;
    struct pg_pool_config config = {.conninfo = conninfo, .mode = *mode, .queue_timeout_ms = 30000};
    items_tell(conninfo, "truncate sluice.execution, sluice.idempotency_key, sluice.node");
    pg_bench_open(&bench, &config, true);
    account = uuid_v7();
    new_node();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pg_bench_close(&bench);
    return 0;
}

int main(void)
{
    static enum pg_mode set = PG_MODE_SET, pipe_mode = PG_MODE_PIPE;
/* clang-format off */
#define IN_BOTH(test)                                                                              \
    cmocka_unit_test_prestate_setup_teardown(test, set_up, tear_down, &set),                       \
        cmocka_unit_test_prestate_setup_teardown(test, set_up, tear_down, &pipe_mode)
    const struct CMUnitTest tests[] = {
        IN_BOTH(test_claim_finish_replay),
        IN_BOTH(test_release_frees_the_key),
        IN_BOTH(test_write_without_a_key),
        IN_BOTH(test_accounts_do_not_meet),
        IN_BOTH(test_plain_insert_is_replayable),
        IN_BOTH(test_one_winner),
        IN_BOTH(test_a_set_of_claims),
        IN_BOTH(test_sets_of_everything),
        IN_BOTH(test_expired_keys),
        IN_BOTH(test_recovery_and_fences),
    };
    calls = mem_calloc(CALLS_MAX, sizeof(*calls));
    conninfo = pg_cluster_database(true);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mem_free(calls);
    metric_deinit();
    return failed ? failed : mem_live_blocks() != 0;
}
