/* If a transition is sent again while its first sending is still under way, it learns the result
 * of the first: it was done, by this node. In both batch modes. */
#include "flow_test.h"
#include "support/pg_second.h"

static void second(void (*start)(struct pg_call *call))
{
    char sql[128], id[UUID_TEXT_LEN + 1];
    uuid_format(flow.id, id);
    snprintf(sql, sizeof(sql), "select 1 from sluice.flow where id = '%s' for update", id);
    assert_int_equal(pg_second_run(&bench, conninfo, sql, &calls[0], start, NULL), OK);
}

static int second_move(void)
{
    second(start_move);
    int status = store_hit_result(&calls[0].query);
    pg_call_end(&calls[0]);
    return status;
}

static int second_take(enum flow_take_kind kind)
{
    take.kind = kind;
    take.account_id = account;
    take.id = flow.id;
    take.now = clock_wall_us();
    second(start_take);
    int status = store_flow_take_result(&calls[0].query, &got);
    pg_call_end(&calls[0]);
    return status;
}

static void test_of_the_owner(void **state)
{
    (void)state;
    begin();
    finish_into(FLOW_RUNNING);
    assert_int_equal(second_move(), OK);
    finish_into(FLOW_WAITING);
    flow.waiting_for = FLOW_WAITS_TIME;
    flow.wake_at = clock_wall_us() - SECOND_US;
    flow.is_begun = false;
    move.waiting_input = SLICE("{}");
    assert_int_equal(second_move(), OK);
    assert_int_equal(count("flow", "status = 'waiting' and rev = 3"), 1);
    assert_int_equal(count("flow_step", "status = 'completed'"), 2);
}

static void test_of_a_wake(void **state)
{
    (void)state;
    begin();
    park(FLOW_WAITS_TIME, clock_wall_us() - SECOND_US);
    wake_into(FLOW_RUNNING);
    assert_int_equal(second_move(), OK);
    assert_int_equal(count("flow", "status = 'running' and rev = 3"), 1);
    begin();
    park(FLOW_WAITS_TIME, clock_wall_us() - SECOND_US);
    wake_into(FLOW_WAITING);
    flow.waiting_for = FLOW_WAITS_APPROVAL;
    flow.wake_at = 0;
    move.waiting_input = SLICE("{}");
    assert_int_equal(second_move(), OK);
    assert_int_equal(count("flow", "waiting_for = 'approval' and rev = 3"), 1);
}

static void test_of_the_node_that_takes_it(void **state)
{
    (void)state;
    begin();
    park(FLOW_WAITS_APPROVAL, 0);
    take.output = SLICE("{}");
    assert_int_equal(second_take(FLOW_TAKE_APPROVE), OK);
    assert_int_equal(got.rev, 3);
    assert_int_equal(got.status, FLOW_RUNNING);
    assert_int_equal(count("flow_step", "step_index = 1 and status = 'completed'"), 1);
    begin();
    finish_into(FLOW_FAILED);
    assert_int_equal(moved(), OK);
    assert_int_equal(second_take(FLOW_TAKE_RESUME), OK);
    assert_int_equal(got.rev, 3);
    take.op_token = uuid_v7();
    take.dead_owner = node;
    take.owner = other;
    assert_int_equal(second_take(FLOW_TAKE_ADOPT), OK);
    assert_int_equal(got.adoptions, 1);
}

static void test_of_the_node_that_ends_it(void **state)
{
    struct uuid was_owned_by;
    bool was_cancelled;
    (void)state;
    begin();
    park(FLOW_WAITS_APPROVAL, 0);
    reject = new_reject(SLICE("{}"));
    second(start_reject);
    assert_int_equal(store_flow_take_result(&calls[0].query, &got), OK);
    assert_int_equal(got.status, FLOW_CANCELLED);
    pg_call_end(&calls[0]);
    begin();
    token = uuid_v7();
    second(start_cancel);
    assert_int_equal(store_flow_cancel_result(&calls[0].query, &got, &was_owned_by, &was_cancelled),
                     OK);
    assert_int_equal(got.status, FLOW_CANCELLED);
    pg_call_end(&calls[0]);
}

/* A transition that was not first has lost, as always: the change of another node is not
 * mistaken for ours. */
static void test_what_others_did_is_not_ours(void **state)
{
    (void)state;
    begin();
    finish_into(FLOW_RUNNING);
    assert_int_equal(moved(), OK);
    move.op_token = uuid_v7();
    assert_int_equal(moved_again(), ERR_NOTFOUND);
    park(FLOW_WAITS_APPROVAL, 0);
    take.output = SLICE("{}");
    assert_int_equal(taken(FLOW_TAKE_APPROVE), OK);
    take.op_token = uuid_v7();
    calls[0].is_again = true;
    assert_int_equal(taken(FLOW_TAKE_APPROVE), ERR_NOTFOUND);
    calls[0].is_again = false;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_of_the_owner),
    cmocka_unit_test(test_of_a_wake),
    cmocka_unit_test(test_of_the_node_that_takes_it),
    cmocka_unit_test(test_of_the_node_that_ends_it),
    cmocka_unit_test(test_what_others_did_is_not_ours),
};

int main(void)
{
    tests_begin();
    int failed = cmocka_run_group_tests_name("set", tests, open_set, close_bench);
    failed += cmocka_run_group_tests_name("pipe", tests, open_pipe, close_bench);
    return tests_end(failed);
}
