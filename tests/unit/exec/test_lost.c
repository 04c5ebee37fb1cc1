/*
 * Writes without a key that are repeated after their reply was lost, and equal ones that are meant.
 */
#include "exec/exec.h"
#include "exec/steps.h"
#include "seam/walk.h"

static void begin(struct bench *b, struct seam_run *run)
{
    want(b, run, "plain", "put", "{}");
    run->exec.lost_by = (struct uuid){{9}};
    seam_run_start(run);
    seam_settle(b->node.loop);
}

/* Meanwhile all queries are answered, so that the server keeps its lease. */
static void pass(struct bench *b, unsigned ms)
{
    for (; ms > 0; ms -= 500) {
        seam_pass_ms(b->node.loop, 500);
        seam_node_answer(&b->node, &b->store);
    }
}

/* Until it has called the app. */
static void begin_call(struct bench *b, struct seam_run *run)
{
    begin(b, run);
    answer(b, "claim_find");
    answer(b, "claim_insert");
    (void)call(b);
}

static void assert_made_again(struct bench *b, struct seam_run *run)
{
    seam_settle(b->node.loop);
    answer(b, "claim_find");
    answer(b, "claim_insert");
    reply(b, 200, "{}");
    answer(b, "execution_finish_release");
    assert_true(seam_run_has_ended(run));
    assert_int_equal(end_of(b, run), EXEC_SUCCEEDED);
    assert_false(run->out.is_replayed);
}

/* The claim's key is bound by the record, for five minutes. */
static void a_repetition_while_the_first_runs_gets_its_result(void **state)
{
    struct bench *b = *state;
    struct seam_run again[2], later;
    begin_call(b, &b->run);
    begin(b, &again[0]);
    seam_run_leave(&b->run);
    begin(b, &again[1]);
    reply(b, 200, "{}");
    answer(b, "execution_finish_keep");
    for (unsigned i = 0; i < 2; i++) {
        assert_true(seam_run_has_ended(&again[i]));
        assert_true(again[i].out.is_replayed);
        assert_true(uuid_eq(again[i].out.execution_id, b->run.out.execution_id));
        assert_int_equal(end_of(b, &again[i]), EXEC_SUCCEEDED);
    }
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    pass(b, EXEC_LOST_MS - 1000);
    begin(b, &later);
    answer(b, "claim_find");
    assert_int_equal(end_of(b, &later), EXEC_SUCCEEDED);
    assert_true(later.out.is_replayed);
    assert_int_equal(seam_call_count(b->node.http), 0);
    pass(b, 60000);
    begin(b, &later);
    assert_made_again(b, &later);
}

/* Each waits for those before it. One that has waited for half of its time is not made. */
static void equal_writes_of_clients_that_are_there_are_all_made(void **state)
{
    struct bench *b = *state;
    struct seam_run second, third;
    begin_call(b, &b->run);
    begin(b, &second);
    pass(b, 8000);
    begin(b, &third);
    reply(b, 200, "{}");
    answer(b, "execution_finish_release");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    assert_int_equal(seam_call_count(b->node.http), 1);
    assert_false(seam_run_has_ended(&second));
    pass(b, 16000);
    reply(b, 200, "{}");
    answer(b, "execution_finish_release");
    assert_int_equal(end_of(b, &second), EXEC_SUCCEEDED);
    assert_false(second.out.is_replayed);
    assert_true(slice_starts_with(third.out.message, SLICE("This call waited for one with the ")));
    assert_int_equal(end_of(b, &third), EXEC_STILL_RUNNING);
    assert_int_equal(b->store.claims.count, 0);
}

/* The one that waits is made, as nothing was done. */
static void a_lost_write_that_did_nothing_leaves_the_key_free(void **state)
{
    struct bench *b = *state;
    struct seam_run again;
    begin_call(b, &b->run);
    begin(b, &again);
    seam_run_leave(&b->run);
    reply(b, 400, "{}");
    answer(b, "execution_finish_release");
    assert_made_again(b, &again);
    assert_int_equal(end(b), EXEC_PROVIDER_INVALID);
    assert_int_equal(b->store.claims.count, 0);
}

/* The record frees the key, as the client was there when it was sent. */
static void a_client_that_leaves_during_the_record_is_noted(void **state)
{
    struct bench *b = *state;
    struct seam_run again;
    begin_call(b, &b->run);
    reply(b, 200, "{}");
    seam_run_leave(&b->run);
    answer(b, "execution_finish_release");
    assert_true(seam_run_has_ended(&b->run));
    begin(b, &again); /* it waits for the note */
    assert_null(seam_query_named(b->node.pool, "claim_find"));
    answer(b, "claim_spend");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    assert_int_equal(end_of(b, &again), EXEC_SUCCEEDED);
    assert_true(again.out.is_replayed);
}

/* A client that leaves before the call ends its run, unless an equal one waits for it. */
static void a_client_that_leaves_before_the_call(void **state)
{
    struct bench *b = *state;
    struct seam_run again;
    begin(b, &b->run);
    seam_run_leave(&b->run);
    answer(b, "claim_find");
    assert_int_equal(end(b), EXEC_CANCELLED);
    begin(b, &b->run);
    begin(b, &again);
    seam_run_leave(&b->run);
    answer(b, "claim_find");
    answer(b, "claim_insert");
    reply(b, 200, "{}");
    answer(b, "execution_finish_keep");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    assert_int_equal(end_of(b, &again), EXEC_SUCCEEDED);
    assert_true(again.out.is_replayed);
}

/* The client learns that the outcome is unknown. An equal request gets the result that is recorded
 * later. */
static void a_result_that_is_recorded_later_keeps_the_key(void **state)
{
    struct bench *b = *state;
    struct seam_run again;
    begin_call(b, &b->run);
    reply(b, 200, "{}");
    for (unsigned i = 0; i < 1000 && !seam_run_has_ended(&b->run); i++) {
        struct pg_query *finish = seam_query_named(b->node.pool, "execution_finish_release");
        if (finish)
            seam_query_fail(finish, ERR_BUSY);
        seam_settle(b->node.loop);
        if (!seam_run_has_ended(&b->run))
            seam_pass_ms(b->node.loop, 100);
    }
    assert_int_equal(b->run.out.reason, EXEC_OUTCOME_UNKNOWN);
    answer(b, "execution_finish_keep");
    assert_int_equal(end(b), EXEC_OUTCOME_UNKNOWN);
    begin(b, &again);
    assert_int_equal(end_of(b, &again), EXEC_SUCCEEDED);
    assert_true(again.out.is_replayed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STEPS_TEST(a_repetition_while_the_first_runs_gets_its_result),
        STEPS_TEST(equal_writes_of_clients_that_are_there_are_all_made),
        STEPS_TEST(a_lost_write_that_did_nothing_leaves_the_key_free),
        STEPS_TEST(a_client_that_leaves_during_the_record_is_noted),
        STEPS_TEST(a_client_that_leaves_before_the_call),
        STEPS_TEST(a_result_that_is_recorded_later_keeps_the_key),
    };
    return cmocka_run_group_tests_name("exec/lost", tests, NULL, NULL);
}
