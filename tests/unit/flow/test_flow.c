/*
 * A flow with a call, a wait and an approval, on the seam, from its start to its end. Each query
 * and call fails in each possible way.
 */
#include "seam/walk.h"
#include "unit.h"

static int set_up(void **state)
{
    *state = seam_bench_open(true);
    return 0;
}

static int tear_down(void **state)
{
    return seam_bench_close(*state) ? 0 : -1;
}

/* Runs a command, with everything answered. */
static enum flow_answer command(struct seam_bench *b, struct seam_walk *walk,
                                enum flow_command_kind kind, struct uuid id)
{
    seam_run_command(&b->run, &b->node, kind, id);
    seam_run_start(&b->run);
    assert_true(seam_walk_until_ended(walk, &b->run));
    seam_run_end(&b->run);
    return b->run.answer;
}

static struct uuid start(struct seam_bench *b, struct seam_walk *walk)
{
    seam_run_flow(&b->run, &b->node, "demo", "{}");
    seam_run_start(&b->run);
    assert_true(seam_walk_until_ended(walk, &b->run));
    struct uuid id = b->run.flow_id;
    seam_run_end(&b->run);
    return id;
}

static void it_reads_waits_asks_and_writes(void **state)
{
    struct seam_bench *b = *state;
    struct seam_walk walk = {.node = &b->node, .store = &b->store, .place = SIZE_MAX};
    struct uuid id = start(b, &walk);
    assert_int_equal(b->run.answer, FLOW_ANSWER_DONE);
    assert_true(seam_walk_until_status(&walk, id, FLOW_WAITING));
    const struct row_flow *row = seam_find_flow(&b->store, id);
    assert_int_equal(row->flow.waiting_for, FLOW_WAITS_TIME);
    assert_int_equal(walk.sent, 1);
    seam_walk_for_ms(&walk, 61000);
    row = seam_find_flow(&b->store, id);
    assert_int_equal(row->flow.waiting_for, FLOW_WAITS_APPROVAL);
    assert_int_equal(walk.sent, 1); /* the write waits for a person */
    assert_int_equal(command(b, &walk, FLOW_COMMAND_APPROVE, id), FLOW_ANSWER_DONE);
    assert_true(seam_walk_until_status(&walk, id, FLOW_COMPLETED));
    assert_int_equal(walk.sent, 2);
    assert_int_equal(b->store.steps.count, 4);
}

/* A client that got no answer retries on another node. */
static void a_start_that_another_node_has_made_is_not_begun_again(void **state)
{
    struct seam_bench *b = *state;
    struct seam_walk walk = {.node = &b->node, .store = &b->store, .place = SIZE_MAX};
    struct seam_node other;
    struct uuid id = uuid_v7();
    seam_node_open(&other, b->catalog, b->templates, NULL);
    seam_node_join(&other, &b->store);
    seam_run_flow(&b->run, &b->node, "demo", "{}");
    b->run.command.flow_id = id;
    seam_run_start(&b->run);
    assert_true(seam_walk_until_ended(&walk, &b->run));
    assert_int_equal(b->run.answer, FLOW_ANSWER_DONE);
    seam_run_end(&b->run);
    seam_pass_ms(b->node.loop, 1);
    seam_run_flow(&b->run, &other, "demo", "{}");
    b->run.command.flow_id = id;
    seam_run_start(&b->run);
    seam_settle(other.loop);
    seam_query_lose(seam_query_named(other.pool, "flow_start")); /* the start is not done */
    seam_node_answer(&other, &b->store);
    assert_true(seam_run_has_ended(&b->run));
    assert_int_equal(b->run.answer, FLOW_ANSWER_REPEATED);
    assert_int_equal(seam_call_count(other.http), 0);
    assert_int_equal(flow_service_active(other.flow), 0);
    seam_run_end(&b->run);
    seam_node_close(&other);
}

/* ---- each place, each fault ---- */

static bool expect(bool holds, const struct seam_walk *walk, const char *what)
{
    if (!holds)
        print_error("%s at %s (place %zu): %s\n", seam_fault_name(walk->fault), walk->where,
                    walk->place, what);
    return holds;
}

/* The attempts to write. Failed attempts count only if they may have written. */
static size_t count_writes(const struct seam_store *store, struct uuid id, bool is_completed)
{
    size_t count = 0;
    for (size_t i = 0; i < store->steps.count; i++) {
        const struct row_step *row = &store->steps.items[i];
        count += uuid_eq(row->flow_id, id) && row->step.step_index == 3 &&
                 row->step.is_completed == is_completed &&
                 slice_find(row->step.error, SLICE("\"outcome\":\"not_done\"")) < 0;
    }
    return count;
}

/* Acts as a person: starts the flow until it exists, and approves it until it is approved.
 * Returns the number of queries and calls on the way. */
static size_t walk_once(size_t place, enum seam_fault fault, bool *is_ok)
{
    void *state;
    assert_int_equal(set_up(&state), 0);
    struct seam_bench *b = state;
    struct seam_walk walk = {.node = &b->node, .store = &b->store, .place = place, .fault = fault};
    struct uuid id = start(b, &walk);
    bool is_there = b->run.answer == FLOW_ANSWER_DONE;
    *is_ok &= expect(is_there || walk.is_hit, &walk, "it did not start");
    *is_ok &= expect(!is_there || seam_find_flow(&b->store, id), &walk, "its start was lost");
    seam_walk_for_ms(&walk, 180000);
    const struct row_flow *row = seam_find_flow(&b->store, id);
    if (row && row->flow.waiting_for == FLOW_WAITS_APPROVAL) {
        enum flow_answer answer = command(b, &walk, FLOW_COMMAND_APPROVE, id);
        *is_ok &= expect(answer == FLOW_ANSWER_DONE || walk.is_hit, &walk, "it was not approved");
        seam_walk_for_ms(&walk, 180000);
        row = seam_find_flow(&b->store, id);
        *is_ok &= expect(answer != FLOW_ANSWER_DONE || row->flow.waiting_for != FLOW_WAITS_APPROVAL,
                         &walk, "its approval was lost");
        if (row->flow.waiting_for == FLOW_WAITS_APPROVAL) {
            (void)command(b, &walk, FLOW_COMMAND_APPROVE, id);
            seam_walk_for_ms(&walk, 180000);
            row = seam_find_flow(&b->store, id);
        }
    }
    if (row) {
        size_t done = count_writes(&b->store, id, true),
               failed = count_writes(&b->store, id, false);
        *is_ok &= expect(row->flow.status > FLOW_WAITING, &walk, "it has not ended");
        *is_ok &= expect(done + failed <= 1, &walk, "it wrote twice");
        *is_ok &= expect((row->flow.status == FLOW_COMPLETED) == (done == 1), &walk,
                         "its end and its write differ");
        *is_ok &= expect(walk.writes <= 1, &walk, "the write went out again after its first byte");
    }
    *is_ok &= expect(flow_service_active(b->node.flow) == 0, &walk, "it is still in memory");
    assert_int_equal(tear_down(&state), 0);
    return walk.places;
}

static void it_may_fail_anywhere(void **state)
{
    bool is_ok = true;
    (void)state;
    size_t places = walk_once(SIZE_MAX, SEAM_REFUSED, &is_ok);
    assert_true(places >= 8);
    for (size_t place = 0; place < places; place++)
        for (unsigned fault = 0; fault < SEAM_FAULTS; fault++)
            (void)walk_once(place, (enum seam_fault)fault, &is_ok);
    assert_true(is_ok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_reads_waits_asks_and_writes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_start_that_another_node_has_made_is_not_begun_again,
                                        set_up, tear_down),
        cmocka_unit_test(it_may_fail_anywhere),
    };
    return cmocka_run_group_tests_name("flow/flow", tests, NULL, NULL);
}
