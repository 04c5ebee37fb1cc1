/*
 * Waiting for memory: accounts take turns, waits end in time, and work under way never waits for
 * itself.
 */
#include "loop/budget_wait.h"

#include "testing.h"

#define MIB ((size_t)1024 * 1024)

enum { WAITS = 8 };

static struct budget_queue queue;
static struct budget_use uses[WAITS];
static struct budget_wait waits[WAITS];
static size_t ended, order[WAITS];

static struct uuid account_of(unsigned number)
{
    struct uuid id = {{9}};
    memcpy(id.bytes + 8, &number, sizeof(number));
    return id;
}

static void on_end(struct budget_wait *wait)
{
    order[ended++] = (size_t)(wait - waits);
}

static void set_up(struct loop *loop)
{
    memset(uses, 0, sizeof(uses));
    memset(waits, 0, sizeof(waits));
    ended = 0;
    budget_queue_init(&queue, loop, 512 * MIB, 0);
}

static void tear_down(void)
{
    for (size_t i = 0; i < WAITS; i++) {
        budget_wait_stop(&waits[i]);
        budget_use_end(&uses[i]);
    }
    budget_queue_deinit(&queue);
}

static bool ask(size_t index, unsigned account, size_t bytes, enum budget_kind kind, uint64_t ms)
{
    if (!uses[index].budget)
        assert_int_equal(budget_use_begin(&uses[index], &queue.budget, account_of(account)), OK);
    return budget_wait_begin(&waits[index], &uses[index], bytes, kind, ms, on_end);
}

static void accounts_are_served_in_turn(void **state)
{
    struct loop *loop = *state;
    set_up(loop);
    assert_true(ask(0, 1, 500 * MIB, BUDGET_NEW, 60000));
    assert_false(ask(1, 2, 30 * MIB, BUDGET_NEW, 60000));
    assert_false(ask(2, 2, 30 * MIB, BUDGET_NEW, 60000));
    assert_false(ask(3, 2, 30 * MIB, BUDGET_NEW, 60000));
    assert_false(ask(4, 3, 30 * MIB, BUDGET_NEW, 60000));
    assert_int_equal(queue.waiting, 4);
    budget_use_end(&uses[0]);
    WAIT_UNTIL(loop, ended == 4);
    assert_int_equal(order[0], 1);
    assert_int_equal(order[1], 4); /* before the second request of the account that arrived first */
    assert_int_equal(order[2], 2);
    assert_int_equal(order[3], 3);
    for (size_t i = 1; i < 5; i++)
        assert_true(waits[i].is_taken);
    tear_down();
}

static void no_caller_overtakes_others_of_its_account(void **state)
{
    set_up(*state);
    assert_true(ask(0, 1, 120 * MIB, BUDGET_NEW, 60000));
    assert_false(ask(1, 1, 100 * MIB, BUDGET_NEW, 60000));
    assert_false(ask(2, 1, MIB, BUDGET_NEW, 60000));
    assert_true(ask(3, 2, MIB, BUDGET_NEW, 60000));
    tear_down();
}

static void a_wait_ends_in_time_without_it(void **state)
{
    struct loop *loop = *state;
    set_up(loop);
    assert_true(ask(0, 1, 500 * MIB, BUDGET_NEW, 60000));
    assert_false(ask(1, 2, 100 * MIB, BUDGET_NEW, 5));
    WAIT_UNTIL(loop, ended == 1);
    assert_false(waits[1].is_taken);
    assert_int_equal(queue.waiting, 0);
    assert_int_equal(queue.budget.used, 500 * MIB);
    tear_down();
}

static void work_under_way_continues_one_by_one(void **state)
{
    struct loop *loop = *state;
    set_up(loop);
    for (size_t i = 0; i < 4; i++)
        assert_true(ask(i, 1, 30 * MIB, BUDGET_NEW, 60000));
    assert_true(ask(0, 1, 100 * MIB, BUDGET_IN_HAND, 60000)); /* past the share */
    for (size_t i = 1; i < 4; i++)
        assert_false(ask(i, 1, 100 * MIB, BUDGET_IN_HAND, 60000));
    assert_true(ask(0, 1, 100 * MIB, BUDGET_IN_HAND, 60000)); /* this request does not queue */
    budget_use_end(&uses[0]);
    WAIT_UNTIL(loop, ended == 1);
    for (size_t i = 1; i < 4; i++) {
        assert_int_equal(order[i - 1], i);
        budget_use_end(&uses[i]);
        for (size_t turn = 0; turn < 3; turn++)
            loop_turn(loop, false);
        assert_int_equal(ended, i < 3 ? i + 1 : i);
    }
    tear_down();
}

static void a_wait_that_is_stopped_is_forgotten(void **state)
{
    struct loop *loop = *state;
    set_up(loop);
    assert_true(ask(0, 1, 500 * MIB, BUDGET_NEW, 60000));
    assert_false(ask(1, 2, 100 * MIB, BUDGET_NEW, 60000));
    budget_wait_stop(&waits[1]);
    budget_wait_stop(&waits[1]);
    budget_use_end(&uses[0]);
    for (size_t turn = 0; turn < 3; turn++)
        loop_turn(loop, false);
    assert_int_equal(ended, 0);
    assert_int_equal(queue.budget.used, 0);
    tear_down();
}

/* ---- an op ---- */

struct worker {
    struct op op;
    struct budget_use use;
    struct budget_wait memory;
    bool was_taken;
};

static enum op_result step_ask(struct op *op)
{
    struct worker *worker = CONTAINER_OF(op, struct worker, op);
    return budget_wait_op(&worker->memory, op, &worker->use, 100 * MIB, BUDGET_NEW, 60000)
               ? OP_NEXT
               : OP_WAIT;
}

static enum op_result step_note(struct op *op)
{
    struct worker *worker = CONTAINER_OF(op, struct worker, op);
    worker->was_taken = worker->memory.is_taken;
    return OP_DONE;
}

static void cancel_worker(struct op *op)
{
    budget_wait_stop(&CONTAINER_OF(op, struct worker, op)->memory);
}

static const struct op_step worker_steps[] = {{"ask", step_ask, 0}, {"note", step_note, 0}};
static const struct op_class worker_class = {
    .name = "worker",
    .steps = worker_steps,
    .step_count = ARRAY_LEN(worker_steps),
    .on_cancel = cancel_worker,
};

static void an_op_is_held_until_then(void **state)
{
    struct loop *loop = *state;
    struct worker first = {.was_taken = false}, second = {.was_taken = false};
    set_up(loop);
    assert_true(ask(0, 1, 500 * MIB, BUDGET_NEW, 60000));
    assert_int_equal(budget_use_begin(&first.use, &queue.budget, account_of(2)), OK);
    assert_int_equal(budget_use_begin(&second.use, &queue.budget, account_of(2)), OK);
    op_start(&first.op, &worker_class, loop, NULL, 1024);
    op_start(&second.op, &worker_class, loop, NULL, 1024);
    WAIT_UNTIL(loop, queue.waiting == 2);
    op_cancel(&second.op);
    budget_use_end(&uses[0]);
    WAIT_UNTIL(loop, op_count(loop) == 0);
    assert_true(first.was_taken);
    assert_false(second.was_taken);
    budget_use_end(&first.use);
    budget_use_end(&second.use);
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(accounts_are_served_in_turn),         TEST(no_caller_overtakes_others_of_its_account),
        TEST(a_wait_ends_in_time_without_it),      TEST(work_under_way_continues_one_by_one),
        TEST(a_wait_that_is_stopped_is_forgotten), TEST(an_op_is_held_until_then),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
