/* Nodes: which nodes are fenced, and what is recovered when a node dies. */
#include "execution_test.h"

#include <stdlib.h>

static void start_dead(struct pg_call *call)
{
    store_node_dead(call->bench->pool, &call->query, &call->op);
}

static void start_recover(struct pg_call *call)
{
    store_claim_recover(call->bench->pool, &call->query, &call->op, call->arg);
}

static void start_old(struct pg_call *call)
{
    store_node_old(call->bench->pool, &call->query, &call->op);
}

static int64_t owned_age_ms;

static void start_owned(struct pg_call *call)
{
    store_claim_owned(call->bench->pool, &call->query, &call->op, node, owned_age_ms);
}

static void start_heartbeat(struct pg_call *call)
{
    store_node_heartbeat(call->bench->pool, &call->query, &call->op, node);
}

static void start_leave(struct pg_call *call)
{
    store_node_leave(call->bench->pool, &call->query, &call->op, node);
}

static slice old_ids, owning_ids;

static void start_owning(struct pg_call *call)
{
    store_node_owning(call->bench->pool, &call->query, &call->op, old_ids);
}

static void start_remove(struct pg_call *call)
{
    store_node_remove(call->bench->pool, &call->query, &call->op, old_ids, owning_ids);
}

/* Runs the steps of housekeeping. Calls hold the texts of earlier calls. Returns false if no node
 * is old. */
static bool sweep(void)
{
    memset(calls, 0, 3 * sizeof(calls[0]));
    assert_int_equal(pg_call_run(&bench, &calls[0], start_old, NULL), OK);
    bool is_any = store_text_result(&calls[0].query, &old_ids) == OK;
    if (is_any) {
        assert_int_equal(pg_call_run(&bench, &calls[1], start_owning, NULL), OK);
        assert_int_equal(store_node_owning_result(&calls[1].query, &owning_ids), OK);
        assert_int_equal(pg_call_run(&bench, &calls[2], start_remove, NULL), OK);
    }
    pg_calls_end(calls, is_any ? 3 : 1);
    return is_any;
}

/* The claims of dead nodes, or none if no node is dead. The caller ends the call. */
static size_t recoverable(struct claim **list)
{
    struct node_dead dead;
    size_t count = 0;
    memset(calls, 0, 2 * sizeof(calls[0]));
    assert_int_equal(pg_call_run(&bench, &calls[1], start_dead, NULL), OK);
    int status = store_node_dead_result(&calls[1].query, &dead);
    if (status == ERR_NOTFOUND)
        dead = (struct node_dead){SLICE("{}"), SLICE("{}")};
    assert_int_equal(pg_call_run(&bench, &calls[0], start_recover, &dead), OK);
    assert_int_equal(store_claim_recover_result(&calls[0].query, list, &count), OK);
    pg_call_end(&calls[1]);
    return count;
}

static void test_a_clean_scan_is_not_repeated_at_once(void **state)
{
    const uint64_t rest_ns = NODE_CLEAN_MS * 1000000ULL;
    const struct node_dead one = {SLICE("{a}"), SLICE("{f}")};
    const struct node_dead left = {SLICE("{a}"), SLICE("{t}")};
    const struct node_dead two = {SLICE("{a,b}"), SLICE("{f,f}")};
    struct node_scan scan = {0};
    struct pg_query query = {.status = OK};
    (void)state;
    assert_true(node_scan_is_due(&scan, &one, 1));
    node_scan_end(&scan, &query, 1, 1); /* rows: there may be more */
    assert_true(node_scan_is_due(&scan, &one, 1));
    node_scan_end(&scan, &query, 0, 1);
    assert_false(node_scan_is_due(&scan, &one, 1));
    assert_false(node_scan_is_due(&scan, &one, rest_ns));
    assert_true(node_scan_is_due(&scan, &left, 1));
    assert_true(node_scan_is_due(&scan, &two, 1));
    assert_true(node_scan_is_due(&scan, &one, rest_ns + 1));
    query.is_partial = true; /* a shard did not answer */
    node_scan_end(&scan, &query, 0, 1);
    assert_true(node_scan_is_due(&scan, &one, 1));
    query = (struct pg_query){.status = ERR_BUSY};
    node_scan_end(&scan, &query, 0, 1);
    assert_true(node_scan_is_due(&scan, &one, 1));
}

static void test_recovery_and_fences(void **state)
{
    struct claim *list;
    struct uuid dead = node;
    (void)state;
    assert_int_equal(claim_now(SLICE("lost")), CLAIM_WON);
    struct claim lost = claim;
    assert_int_equal(claim_now(SLICE_NONE), CLAIM_WON);
    struct claim unkeyed = claim;
    assert_int_equal(recoverable(&list), 0); /* alive: nothing to recover */
    done();
    int64_t now_us = 0;
    run(start_heartbeat);
    assert_int_equal(store_node_heartbeat_result(&calls[0].query, &now_us), OK);
    assert_true(llabs(now_us - clock_wall_us()) < 60000000);
    done();
    run(start_leave);
    done();
    run(start_heartbeat); /* a dead node stays dead */
    assert_int_equal(store_node_heartbeat_result(&calls[0].query, &now_us), ERR_NOTFOUND);
    done();
    claim = lost;
    run(start_find);
    assert_int_equal(outcome_of(&calls[0]).state, CLAIM_IN_FLIGHT); /* until recovery ends it */
    done();

    new_node();
    assert_int_equal(recoverable(&list), 2);
    for (size_t i = 0; i < 2; i++) {
        const struct claim *want = list[i].key.ptr ? &lost : &unkeyed;
        assert_true(uuid_eq(list[i].execution_id, want->execution_id));
        assert_true(uuid_eq(list[i].owner, dead));
        assert_true(slice_eq(list[i].key, want->key));
        assert_true(slice_eq(list[i].action_id, SLICE("send")));
        assert_true(llabs(list[i].started_at - clock_wall_us()) < 60000000); /* the database's
                                                                              * clock */
        assert_true(list[i].is_write);
    }
    done();

    claim = lost; /* the write: failed, outcome unknown, the key stays bound */
    execution = execution_of(&lost, SLICE("{\"status\":\"failed\"}"));
    execution.is_succeeded = false;
    execution.error_code = SLICE("execution_failed");
    claim_end = CLAIM_KEEP;
    run(start_finish);
    assert_int_equal(store_hit_result(&calls[0].query), OK);
    done();
    /* the zombie wakes up and reports success: it is too late, and the answer says so */
    assert_int_equal(finish_now(CLAIM_KEEP, SLICE("{\"status\":\"succeeded\"}")), ERR_NOTFOUND);
    run(start_find);
    struct claim_outcome outcome = outcome_of(&calls[0]);
    assert_int_equal(outcome.state, CLAIM_BOUND);
    assert_false(outcome.is_succeeded);
    assert_true(slice_eq(outcome.summary, SLICE("{\"status\":\"failed\"}")));
    done();

    assert_false(sweep()); /* dead for less than an hour */
    items_tell(conninfo, "update sluice.node set lease_until = now() - interval '2 h' "
                         "where lease_until <= now()");
    assert_true(sweep()); /* not removed: the node owns the other claim */
    assert_int_equal(count_of("node"), 2);
    claim = unkeyed;
    run(start_release);
    done();
    assert_true(sweep());
    assert_int_equal(count_of("node"), 1);
}

/* Only the owner's claims in flight, of that age by the database's clock, oldest first. */
static void test_claims_of_an_owner(void **state)
{
    struct claim *list;
    size_t count;
    (void)state;
    assert_int_equal(claim_now(SLICE("older")), CLAIM_WON);
    struct claim older = claim;
    items_tell(conninfo, "update sluice.idempotency_key set started_at = now() - interval '1 h' "
                         "where key = 'older'");
    assert_int_equal(claim_now(SLICE_NONE), CLAIM_WON);
    struct claim newer = claim;
    assert_int_equal(claim_now(SLICE("bound")), CLAIM_WON);
    assert_int_equal(finish_now(CLAIM_KEEP, SLICE("{}")), OK);
    owned_age_ms = 60 * 1000;
    run(start_owned);
    assert_int_equal(store_claim_recover_result(&calls[0].query, &list, &count), OK);
    assert_int_equal(count, 1);
    assert_true(uuid_eq(list[0].execution_id, older.execution_id));
    done();
    owned_age_ms = -1;
    run(start_owned);
    assert_int_equal(store_claim_recover_result(&calls[0].query, &list, &count), OK);
    assert_int_equal(count, 2);
    assert_true(slice_eq(list[0].key, SLICE("older")) && !list[1].key.ptr);
    assert_true(uuid_eq(list[1].execution_id, newer.execution_id));
    done();
    new_node();
    run(start_owned);
    assert_int_equal(store_claim_recover_result(&calls[0].query, &list, &count), OK);
    assert_int_equal(count, 0);
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_clean_scan_is_not_repeated_at_once),
        IN_BOTH(test_recovery_and_fences),
        IN_BOTH(test_claims_of_an_owner),
    };
    if (tests_begin() != 0)
        return 1;
    return tests_end(cmocka_run_group_tests(tests, NULL, NULL));
}
