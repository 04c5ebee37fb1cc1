/* Flows that change owners: approved, rejected, cancelled, resumed, adopted. In both batch
 * modes. */
#include "flow_test.h"

static struct uuid was_owned_by;
static bool was_cancelled;

static void start_dead(struct pg_call *c)
{
    store_node_dead(c->bench->pool, &c->query, &c->op);
}

static void start_orphans(struct pg_call *c)
{
    store_flow_orphans(c->bench->pool, &c->query, &c->op, c->arg);
}

static void start_owned(struct pg_call *c)
{
    store_flow_owned(c->bench->pool, &c->query, &c->op, node, clock_wall_us() + SECOND_US);
}

static void start_register(struct pg_call *c)
{
    store_node_register(c->bench->pool, &c->query, &c->op, c->arg ? other : node, SLICE("test"));
}

static void start_leave(struct pg_call *c)
{
    store_node_leave(c->bench->pool, &c->query, &c->op, node);
}

static void test_approval(void **state)
{
    (void)state;
    begin();
    park(FLOW_WAITS_APPROVAL, 0);
    assert_int_equal(taken(FLOW_TAKE_RESUME), ERR_NOTFOUND);
    take.output = SLICE("{\"approvedBy\":\"me\"}");
    take.step_index = flow.step_index + 1;
    assert_int_equal(taken(FLOW_TAKE_APPROVE), ERR_NOTFOUND);
    take.step_index = flow.step_index;
    assert_int_equal(taken(FLOW_TAKE_APPROVE), OK);
    assert_int_equal(got.step_index, flow.step_index);
    assert_int_equal(taken(FLOW_TAKE_APPROVE), OK); /* a replay */
    assert_int_equal(count("flow_step", "step_index = 1 and status = 'completed' and "
                                        "input->>'title' = 'shown' and started_at <= finished_at "
                                        "and output->>'approvedBy' = 'me'"),
                     1);
    take.op_token = uuid_v7();
    assert_int_equal(taken(FLOW_TAKE_APPROVE), ERR_NOTFOUND); /* a second one */

    begin(); /* expired */
    park(FLOW_WAITS_APPROVAL, clock_wall_us() - SECOND_US);
    take.output = SLICE("{}");
    assert_int_equal(taken(FLOW_TAKE_APPROVE), ERR_NOTFOUND);
    wake_into(FLOW_FAILED);
    assert_int_equal(moved(), OK);
}

static void test_reject(void **state)
{
    (void)state;
    begin();
    park(FLOW_WAITS_APPROVAL, 0);
    reject = new_reject(SLICE("{\"code\":\"policy_blocked\"}"));
    for (int i = 0; i < 2; i++) {
        run(start_reject, NULL);
        assert_int_equal(store_flow_take_result(&calls[0].query, &got), OK);
        assert_int_equal(got.status, FLOW_CANCELLED);
        pg_call_end(&calls[0]);
    }
    assert_int_equal(count("flow_step", "status = 'failed' and error is not null"), 1);
    take.output = SLICE("{}");
    assert_int_equal(taken(FLOW_TAKE_APPROVE), ERR_NOTFOUND);
}

static void test_cancel(void **state)
{
    (void)state;
    begin();
    token = uuid_v7();
    run(start_cancel, NULL);
    assert_int_equal(store_flow_cancel_result(&calls[0].query, &got, &was_owned_by, &was_cancelled),
                     OK);
    assert_int_equal(got.status, FLOW_CANCELLED);
    assert_true(uuid_eq(was_owned_by, node) && !was_cancelled);
    int64_t rev = got.rev;
    pg_call_end(&calls[0]);
    token = uuid_v7();
    run(start_cancel, NULL);
    assert_int_equal(store_flow_cancel_result(&calls[0].query, &got, &was_owned_by, &was_cancelled),
                     OK);
    assert_int_equal(got.rev, rev); /* a cancelled flow does not change */
    assert_true(was_cancelled);
    pg_call_end(&calls[0]);
    finish_into(FLOW_RUNNING);
    assert_int_equal(moved(), ERR_NOTFOUND);
    assert_int_equal(taken(FLOW_TAKE_RESUME), ERR_NOTFOUND);
    flow.id = uuid_v7();
    run(start_cancel, NULL);
    assert_int_equal(store_flow_cancel_result(&calls[0].query, &got, &was_owned_by, &was_cancelled),
                     ERR_NOTFOUND);
    pg_call_end(&calls[0]);
}

static void test_resume_of_a_failed_one(void **state)
{
    (void)state;
    begin();
    flow.adoptions = 4;
    finish_into(FLOW_FAILED);
    assert_int_equal(moved(), OK);
    assert_int_equal(count("flow_step", "status = 'failed'"), 1);
    assert_int_equal(taken(FLOW_TAKE_RESUME), OK);
    assert_int_equal(got.adoptions, 0);
    assert_false(got.is_begun);
    assert_int_equal(got.attempt, 1);
}

/* Scans for orphans, and counts the current flow if it is one of them and has this owner. The next
 * take uses what the scan found. */
static size_t orphans_of(struct uuid owner)
{
    struct flow_ref *refs;
    struct node_dead dead;
    size_t n, ours = 0;
    assert_int_equal(pg_call_run(&bench, &calls[1], start_dead, NULL), OK);
    if (store_node_dead_result(&calls[1].query, &dead) != OK)
        dead = (struct node_dead){SLICE("{}"), SLICE("{}")};
    run(start_orphans, &dead);
    assert_int_equal(store_flow_scan_result(&calls[0].query, &refs, &n), OK);
    for (size_t i = 0; i < n; i++) {
        bool is_ours = uuid_eq(refs[i].owner, owner) && uuid_eq(refs[i].id, flow.id);
        take.has_left = is_ours ? refs[i].has_left : take.has_left;
        ours += is_ours;
    }
    pg_calls_end(calls, 2);
    return ours;
}

static void test_adoption(void **state)
{
    (void)state;
    node = uuid_v7();
    run(start_register, NULL);
    pg_call_end(&calls[0]);
    begin();
    assert_int_equal(orphans_of(node), 0);
    char id[UUID_TEXT_LEN + 1], sql[256];
    uuid_format(node, id);
    snprintf(sql, sizeof(sql), "update sluice.node set lease_until = now() where node_id = '%s'",
             id);
    items_tell(conninfo, sql);
    assert_int_equal(orphans_of(node), 1);
    take.dead_owner = node;
    take.owner = other;
    assert_int_equal(taken(FLOW_TAKE_ADOPT), OK);
    assert_int_equal(got.adoptions, 1);
    assert_true(got.is_begun);
    assert_int_equal(taken(FLOW_TAKE_ADOPT), OK); /* a replay */
    finish_into(FLOW_RUNNING);
    assert_int_equal(moved(), ERR_NOTFOUND); /* the zombie */

    begin(); /* a flow whose owner had shut down cleanly */
    run(start_leave, NULL);
    pg_call_end(&calls[0]);
    assert_int_equal(orphans_of(node), 1);
    take.dead_owner = node;
    take.owner = other;
    assert_int_equal(taken(FLOW_TAKE_ADOPT), OK);
    assert_int_equal(got.adoptions, 0);

    begin();
    struct flow_ref *refs;
    size_t n;
    run(start_owned, NULL);
    assert_int_equal(store_flow_scan_result(&calls[0].query, &refs, &n), OK);
    assert_int_equal(n, 1);
    pg_call_end(&calls[0]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_approval), cmocka_unit_test(test_reject),
    cmocka_unit_test(test_cancel),   cmocka_unit_test(test_resume_of_a_failed_one),
    cmocka_unit_test(test_adoption),
};

int main(void)
{
    tests_begin();
    int failed = cmocka_run_group_tests_name("set", tests, open_set, close_bench);
    failed += cmocka_run_group_tests_name("pipe", tests, open_pipe, close_bench);
    return tests_end(failed);
}
