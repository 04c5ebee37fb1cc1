/* Nodes: who is fenced, what is recovered when one dies. */
#include "execution_test.h"

static void start_recover(struct pg_call *call)
{
    store_claim_recover(call->bench->pool, &call->query, &call->op);
}

static int64_t owned_before;

static void start_owned(struct pg_call *call)
{
    store_claim_owned(call->bench->pool, &call->query, &call->op, node, owned_before);
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
    assert_int_equal(store_hit_result(&calls[0].query), OK);
    done();
    run(start_leave);
    done();
    run(start_heartbeat); /* dead stays dead */
    assert_int_equal(store_hit_result(&calls[0].query), ERR_NOTFOUND);
    done();
    claim = lost;
    run(start_find);
    assert_int_equal(outcome_of(&calls[0]).state, CLAIM_IN_FLIGHT); /* until recovery ends it */
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
    assert_int_equal(store_hit_result(&calls[0].query), OK);
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

/* Those of the owner alone, in flight, begun before then, the oldest first. */
static void test_claims_of_an_owner(void **state)
{
    struct claim *list;
    size_t count;
    (void)state;
    assert_int_equal(claim_now(SLICE("older")), CLAIM_WON);
    struct claim older = claim;
    assert_int_equal(claim_now(SLICE_NONE), CLAIM_WON);
    struct claim newer = claim;
    assert_int_equal(claim_now(SLICE("bound")), CLAIM_WON);
    assert_int_equal(finish_now(CLAIM_KEEP, SLICE("{}")), OK);
    owned_before = newer.started_at;
    run(start_owned);
    assert_int_equal(store_claim_recover_result(&calls[0].query, &list, &count), OK);
    assert_int_equal(count, 1);
    assert_true(uuid_eq(list[0].execution_id, older.execution_id));
    done();
    owned_before = clock_wall_us() + 1;
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
        IN_BOTH(test_recovery_and_fences),
        IN_BOTH(test_claims_of_an_owner),
    };
    if (tests_begin() != 0)
        return 1;
    return tests_end(cmocka_run_group_tests(tests, NULL, NULL));
}
