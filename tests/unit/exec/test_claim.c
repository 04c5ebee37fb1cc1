/*
 * A key that is asked for by two requests at once, one of which cannot have it.
 */
#include "exec/steps.h"
#include "seam/walk.h"

/* Starts b->run and then a different request with the same key. */
static void start_two(struct bench *b, struct seam_run *other)
{
    want_plain(b, "get", "k");
    seam_run_start(&b->run);
    seam_settle(b->node.loop);
    want(b, other, "plain", "get", "{\"q\":\"x\"}");
    other->exec.idempotency_key = SLICE("k");
    seam_run_start(other);
    seam_settle(b->node.loop);
}

/* What another process has given to one request is not refused because of another one, which does
 * not know yet that it comes too late. */
static void a_request_waits_for_one_that_comes_too_late(void **state)
{
    struct bench *b = *state;
    struct seam_run other;
    start_two(b, &other);
    struct row_claim *row = ROW_ADD(&b->store, claims);
    *row = (struct row_claim){.claim = {.account_id = seam_account, .key = SLICE("k")}};
    row->claim.execution_id = uuid_v7();
    assert_int_equal(exec_fingerprint(&other.exec, SLICE("get"), row->claim.fingerprint), OK);
    row->is_bound = true;
    row->expires_at = seam_store_now() + INT64_C(3600000000);
    *ROW_ADD(&b->store, executions) = (struct execution){
        .account_id = seam_account,
        .id = row->claim.execution_id,
        .is_succeeded = true,
        .started_at = seam_store_now(),
        .finished_at = seam_store_now(),
        .summary = SLICE("{\"status\":\"succeeded\",\"output\":{\"by\":\"another\"}}"),
    };
    assert_int_equal(end(b), EXEC_KEY_MISMATCH);
    assert_int_equal(end_of(b, &other), EXEC_SUCCEEDED);
    assert_true(other.out.is_replayed);
}

/* It leaves the key free. */
static void a_request_waits_for_one_that_is_refused(void **state)
{
    struct bench *b = *state;
    struct seam_run other;
    want(b, &b->run, "plain", "get", "{\"q\":1}");
    b->run.exec.idempotency_key = SLICE("k");
    seam_run_start(&b->run);
    seam_settle(b->node.loop);
    want(b, &other, "plain", "get", "{}");
    other.exec.idempotency_key = SLICE("k");
    seam_run_start(&other);
    seam_settle(b->node.loop);
    assert_false(seam_run_has_ended(&other));
    assert_int_equal(end(b), EXEC_INPUT_INVALID);
    seam_pass_ms(b->node.loop, 60);
    answer(b, "claim_find");
    answer(b, "claim_insert");
    reply(b, 200, "{}");
    assert_int_equal(end_of(b, &other), EXEC_SUCCEEDED);
    assert_false(other.out.is_replayed);
}

/* The result of the other request is not this one's, so it is not promised. */
static void a_request_waits_for_a_different_one_until_its_deadline(void **state)
{
    struct bench *b = *state;
    struct seam_run other;
    start_two(b, &other);
    for (unsigned i = 0; i < 100 && !seam_run_has_ended(&other); i++)
        (void)seam_pass_timer(b->node.loop, 60000);
    assert_true(seam_run_has_ended(&other));
    const struct exec_outcome *out = &other.out;
    assert_int_equal(out->reason, EXEC_STILL_RUNNING);
    assert_true(slice_starts_with(out->message, SLICE("A different request with this ")));
    assert_int_equal(end_of(b, &other), EXEC_STILL_RUNNING);
    (void)end(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_waits_for_one_that_comes_too_late, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_request_waits_for_one_that_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_request_waits_for_a_different_one_until_its_deadline,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests_name("exec/claim", tests, NULL, NULL);
}
