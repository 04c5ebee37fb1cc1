/* Executions: what a replay says, sets of everything. */
#include "execution_test.h"
#include "support/pg_second.h"

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
    calls[0].is_again = true;
    for (int replay = 0; replay < 3; replay++) {
        run(start_finish);
        assert_int_equal(store_hit_result(&calls[0].query), OK);
        done();
    }
    calls[0].is_again = false;
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

static void start_get_summary(struct pg_call *call)
{
    store_execution_get_summary(call->bench->pool, &call->query, &call->op, account, execution.id);
}

/* A large summary does not come with its row, nor with its key; by itself it comes whole. */
static void test_a_large_summary_is_read_by_itself(void **state)
{
    char *text = mem_alloc(STORE_SUMMARY_INLINE_BYTES + 1);
    struct execution got;
    slice summary;
    (void)state;
    memset(text, 'x', STORE_SUMMARY_INLINE_BYTES + 1);
    for (size_t more = 0; more <= 1; more++) {
        slice whole = slice_of(text, STORE_SUMMARY_INLINE_BYTES + more);
        slice key = more ? SLICE("large-1") : SLICE("large-0");
        assert_int_equal(claim_now(key), CLAIM_WON);
        assert_int_equal(finish_now(CLAIM_KEEP, whole), OK);
        run(start_get);
        assert_int_equal(store_execution_get_result(&calls[0].query, &got), OK);
        assert_int_equal(got.summary_bytes, whole.len);
        assert_int_equal(got.summary.len, more ? 0 : whole.len);
        assert_int_equal(got.summary.ptr == NULL, more);
        done();
        run(start_find);
        struct claim_outcome outcome = outcome_of(&calls[0]);
        assert_true(outcome.has_execution && outcome.summary_bytes == whole.len);
        assert_int_equal(outcome.summary.ptr == NULL, more);
        done();
        run(start_get_summary);
        assert_int_equal(store_text_result(&calls[0].query, &summary), OK);
        assert_true(slice_eq(summary, whole));
        done();
    }
    execution.id = uuid_v7();
    run(start_get_summary);
    assert_int_equal(store_text_result(&calls[0].query, &summary), ERR_NOTFOUND);
    done();
    mem_free(text);
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
    calls[0].is_again = true;
    run(start_finish);
    assert_int_equal(store_hit_result(&calls[0].query), OK); /* replay */
    done();
    calls[0].is_again = false;
    run(start_finish);
    assert_int_equal(store_hit_result(&calls[0].query), ERR_NOTFOUND);
    done();
}

/* Its first sending is still under way: the result is stored, and by us. */
static void test_the_second_sending_sees_the_first(void **state)
{
    static const char lock[] = "select 1 from sluice.idempotency_key for update";
    static const enum claim_end ends[] = {CLAIM_KEEP, CLAIM_RELEASE};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        items_tell(conninfo, "truncate sluice.idempotency_key");
        assert_int_equal(claim_now(SLICE("key-4")), CLAIM_WON);
        execution = execution_of(&claim, SLICE("{}"));
        claim_end = ends[i];
        assert_int_equal(pg_second_run(&bench, conninfo, lock, &calls[0], start_finish, NULL), OK);
        int status = store_hit_result(&calls[0].query);
        done();
        assert_int_equal(status, OK);
    }
    assert_int_equal(count_of("execution"), 2);
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
    calls[0].is_again = true;
    run(start_insert);
    done();
    calls[0].is_again = false;
    assert_int_equal(count_of("execution"), before + 1);
    run(start_get);
    struct execution got;
    assert_int_equal(store_execution_get_result(&calls[0].query, &got), OK);
    assert_false(got.is_succeeded);
    assert_true(slice_eq(got.error_code, SLICE("timeout")));
    assert_int_equal(got.connection_id, 0);
    done();
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
        for (size_t i = 0; i < SET; i++)
            calls[i].is_again = replay > 0;
        start_items(start_item_finish);
        for (size_t i = 0; i < SET; i++)
            assert_int_equal(store_hit_result(&calls[i].query), OK);
        pg_calls_end(calls, SET);
    }
    for (size_t i = 0; i < SET; i++)
        calls[i].is_again = false;
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
        assert_int_equal(store_hit_result(&calls[i].query), ERR_NOTFOUND);
    pg_calls_end(calls, SET);
    assert_int_equal(count_of("execution"), SET);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BOTH(test_a_large_summary_is_read_by_itself),
        IN_BOTH(test_claim_finish_replay),
        IN_BOTH(test_release_frees_the_key),
        IN_BOTH(test_write_without_a_key),
        IN_BOTH(test_the_second_sending_sees_the_first),
        IN_BOTH(test_accounts_do_not_meet),
        IN_BOTH(test_plain_insert_is_replayable),
        IN_BOTH(test_sets_of_everything),
    };
    if (tests_begin() != 0)
        return 1;
    return tests_end(cmocka_run_group_tests(tests, NULL, NULL));
}
