/*
 * Claims without a run: a claim that was committed late is ended according to what is known about
 * it.
 */
#include "seam/walk.h"
#include "unit.h"

enum { SCANNED_MS = 25000 }; /* orphans are scanned for in between */

static int set_up(void **state)
{
    *state = seam_bench_open(false);
    return 0;
}

static int tear_down(void **state)
{
    return seam_bench_close(*state) ? 0 : -1;
}

static void pass(struct seam_bench *b, uint64_t ms)
{
    struct seam_walk walk = {.node = &b->node, .store = &b->store, .place = SIZE_MAX};
    seam_walk_for_ms(&walk, ms);
}

static void start_write(struct seam_bench *b, const char *key)
{
    seam_run_exec(&b->run, &b->node, "put", "{\"a\":1}");
    b->run.exec.is_confirmed = true;
    b->run.exec.idempotency_key = key ? slice_cstr(key) : SLICE_NONE;
    seam_run_start(&b->run);
    seam_settle(b->node.loop);
}

/* Lets the run continue until it has ended, with every query and call answered. */
static void let_end(struct seam_bench *b)
{
    struct seam_walk walk = {.node = &b->node, .store = &b->store, .place = SIZE_MAX};
    assert_true(seam_walk_until_ended(&walk, &b->run));
}

/* Returns the claim as it is after its statement has run once more. */
static struct row_claim copy_claim(struct seam_bench *b)
{
    assert_int_equal(b->store.claims.count, 1);
    return b->store.claims.items[0];
}

static void commit_late(struct seam_bench *b, const struct row_claim *row)
{
    assert_int_equal(b->store.claims.count, 0);
    *ROW_ADD(&b->store, claims) = *row;
}

static void a_claim_that_comes_after_its_release_is_released_again(void **state)
{
    struct seam_bench *b = *state;
    start_write(b, NULL);
    struct pg_query *claim = seam_query_named(b->node.pool, "claim_own");
    assert_int_equal(seam_rows_do(&b->store, claim), OK);
    struct row_claim late = copy_claim(b);
    seam_query_lose_for_good(claim);
    let_end(b);
    assert_int_equal(b->run.out.reason, EXEC_UNAVAILABLE);
    seam_run_end(&b->run);
    pass(b, 1000);
    commit_late(b, &late);
    pass(b, SCANNED_MS);
    assert_int_equal(b->store.claims.count, 0);
    assert_int_equal(b->store.executions.count, 0); /* nothing was done, and nothing is reported */
}

static void a_claim_that_comes_after_its_record_leaves_the_record(void **state)
{
    struct seam_bench *b = *state;
    start_write(b, NULL);
    seam_rows_answer(&b->store, seam_query_named(b->node.pool, "claim_own"));
    struct row_claim late = copy_claim(b);
    let_end(b);
    assert_int_equal(b->run.out.reason, EXEC_SUCCEEDED);
    seam_run_end(&b->run);
    commit_late(b, &late);
    pass(b, SCANNED_MS);
    assert_int_equal(b->store.claims.count, 0);
    assert_int_equal(b->store.executions.count, 1);
    assert_true(b->store.executions.items[0].is_succeeded);
}

/* The provider may have received the call, and the key records that. */
static void a_write_that_nothing_is_known_of_ends_as_unknown(void **state)
{
    struct seam_bench *b = *state;
    start_write(b, "k1");
    seam_rows_answer(&b->store, seam_query_named(b->node.pool, "claim_find"));
    seam_settle(b->node.loop);
    seam_rows_answer(&b->store, seam_query_named(b->node.pool, "claim_insert"));
    struct row_claim late = copy_claim(b);
    late.claim.execution_id = uuid_v7();
    let_end(b);
    seam_run_end(&b->run);
    b->store.claims.count = b->store.executions.count = 0;
    commit_late(b, &late);
    pass(b, SCANNED_MS);
    assert_true(seam_find_claim(&b->store, seam_account, SLICE("k1"))->is_bound);
    assert_int_equal(b->store.executions.count, 1);
    assert_true(slice_eq_cstr(b->store.executions.items[0].error_code,
                              exec_reason_name(EXEC_OUTCOME_UNKNOWN)));
}

static void a_run_under_way_keeps_its_claim(void **state)
{
    struct seam_bench *b = *state;
    start_write(b, NULL);
    seam_rows_answer(&b->store, seam_query_named(b->node.pool, "claim_own"));
    seam_settle(b->node.loop);
    struct http_call *call = seam_call(b->node.http, 0);
    assert_true(seam_call_send(call));
    for (unsigned s = 0; s < SCANNED_MS / 1000; s++) { /* only the call has no answer */
        seam_node_answer(&b->node, &b->store);
        seam_pass_ms(b->node.loop, 1000);
    }
    seam_node_answer(&b->node, &b->store);
    (void)copy_claim(b);
    seam_call_reply(call, 200, "{}");
    let_end(b);
    assert_int_equal(b->run.out.reason, EXEC_SUCCEEDED);
    seam_run_end(&b->run);
    assert_int_equal(b->store.claims.count, 0);
}

#define EXEC_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EXEC_TEST(a_claim_that_comes_after_its_release_is_released_again),
        EXEC_TEST(a_claim_that_comes_after_its_record_leaves_the_record),
        EXEC_TEST(a_write_that_nothing_is_known_of_ends_as_unknown),
        EXEC_TEST(a_run_under_way_keeps_its_claim),
    };
    return cmocka_run_group_tests_name("node/recover", tests, NULL, NULL);
}
