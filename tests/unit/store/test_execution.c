/* Executions: answers to replays, and sets of all kinds. */
#include "execution_test.h"
#include "store/app_use.h"
#include "support/pg_second.h"

static void test_claim_finish_replay(void **state)
{
    (void)state;
    slice summary = SLICE("{\"status\": \"succeeded\",  \"output\":{\"b\":1,\"a\":\"\\u0000\","
                          "\"n\":12345678901234567890123,\"a\":1.0}}");
    assert_int_equal(claim_now(SLICE("key-1")), CLAIM_WON);
    struct uuid id = claim.execution_id;
    run(start_claim); /* a replay of the same statement has also won */
    assert_int_equal(outcome_of(&calls[0]).state, CLAIM_WON);
    done();
    assert_int_equal(claim_now(SLICE("key-1")), CLAIM_IN_FLIGHT); /* another execution has it */
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

/* A large summary is loaded neither with its row nor with its key, but only by itself, and then
 * completely. */
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
        assert_true(outcome.started_at == got.started_at && outcome.started_at > 0);
        assert_true(outcome.finished_at == got.finished_at && outcome.finished_at > 0);
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
    assert_int_equal(finish_now(CLAIM_RELEASE, SLICE("{}")), OK); /* failed without an effect */
    assert_int_equal(claim_now(SLICE("key-2")), CLAIM_WON);
    run(start_release);
    done();
}

/* A claim by another node: the same run, with a new owner. */
static void test_a_claim_of_another_owner_stays(void **state)
{
    (void)state;
    assert_int_equal(claim_now(SLICE("key-3")), CLAIM_WON);
    claim.owner = uuid_v7();
    assert_int_equal(finish_now(CLAIM_RELEASE, SLICE("{}")), ERR_NOTFOUND);
    assert_int_equal(finish_now(CLAIM_KEEP, SLICE("{}")), ERR_NOTFOUND);
    run(start_release);
    done();
    run(start_find);
    struct claim_outcome outcome = outcome_of(&calls[0]);
    assert_true(uuid_eq(outcome.owner, node));
    done();
    claim.owner = node;
    assert_int_equal(finish_now(CLAIM_RELEASE, SLICE("{}")), OK);
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

/* The first sending is still under way: the result is stored, and by this node. */
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

/* ---- the uses of one app ---- */

enum { MINUTE_S = 60, HOUR_S = 3600 };
static struct tally_row tally;
static const struct tally_range hours = {.since = INT64_C(1699999200000000), .step_s = HOUR_S};

static void start_tally(struct pg_call *call)
{
    store_tally_add(call->bench->pool, &call->query, &call->op, &tally);
}

/* Adds calls that many seconds after the beginning of the range. */
static void add_calls(const char *app, int64_t seconds, enum tally_outcome outcome, int64_t count)
{
    bool is_blocked = outcome == TALLY_BLOCKED;
    tally = (struct tally_row){
        .account_id = account,
        .slot = hours.since + seconds * 1000000,
        .integration_id = slice_cstr(app),
        .action_id = SLICE("send"),
        .outcome = outcome,
        .error_code = outcome == TALLY_SUCCEEDED ? SLICE_NONE : SLICE("timeout"),
        .calls = count,
        .buckets = is_blocked ? SLICE("{}") : SLICE("{1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}")};
    run(start_tally);
    assert_int_equal(store_done_result(&calls[0].query), OK);
    done();
}

static void new_account(void)
{
    char id[UUID_TEXT_LEN + 1], sql[256];
    account = uuid_v7();
    uuid_format(account, id);
    snprintf(sql, sizeof(sql),
             "insert into sluice.account (account_id, name, created_at) values ('%s', 'a', now())",
             id);
    items_tell(conninfo, sql);
}

static void start_app_use(struct pg_call *call)
{
    store_app_use(call->bench->pool, &call->query, &call->op, account, SLICE("gmail"), &hours,
                  hours.since + INT64_C(1000000) * 3 * HOUR_S);
}

static void start_app_keys(struct pg_call *call)
{
    store_app_keys(call->bench->pool, &call->query, &call->op, account, 7, account);
}

static void test_use_of_an_app(void **state)
{
    struct tally_sum *sums;
    size_t count;
    (void)state;
    new_account();
    struct uuid mine = account;
    add_calls("gmail", 0, TALLY_SUCCEEDED, 4);
    add_calls("gmail", 55 * MINUTE_S, TALLY_SUCCEEDED, 3);
    add_calls("gmail", 55 * MINUTE_S, TALLY_BLOCKED, 2);
    add_calls("gmail", 2 * HOUR_S + 5 * MINUTE_S, TALLY_FAILED, 1);
    add_calls("gmail", -5 * MINUTE_S, TALLY_SUCCEEDED, 100); /* before and after it */
    add_calls("gmail", 4 * HOUR_S, TALLY_SUCCEEDED, 100);
    add_calls("notion", 0, TALLY_SUCCEEDED, 100);
    new_account();
    add_calls("gmail", 0, TALLY_SUCCEEDED, 100);
    account = mine;
    run(start_app_use);
    assert_int_equal(store_app_use_result(&calls[0].query, &sums, &count), OK);
    assert_int_equal(count, 2);
    assert_int_equal(sums[0].at, hours.since);
    assert_true(sums[0].succeeded == 7 && sums[0].failed == 0 && sums[0].blocked == 2);
    assert_int_equal(sums[1].at, hours.since + INT64_C(1000000) * 2 * HOUR_S);
    assert_true(sums[1].succeeded == 0 && sums[1].failed == 1 && sums[1].blocked == 0);
    done();
}

/* Lists each key of a connection once, with its calls, without the keys of other connections. Calls
 * without a key have the nil id. */
static void test_keys_of_a_connection(void **state)
{
    struct uuid key = uuid_v7();
    struct app_key *keys;
    size_t count;
    (void)state;
    for (int i = 0; i < 4; i++) {
        claim = claim_of(SLICE_NONE);
        execution = execution_of(&claim, SLICE("{}"));
        execution.connection_id = i == 2 ? 8 : 7;
        execution.api_key_id = i < 2 ? key : i == 2 ? uuid_v7() : (struct uuid){{0}};
        run(start_insert);
        done();
    }
    run(start_app_keys);
    assert_int_equal(store_app_keys_result(&calls[0].query, &keys, &count), OK);
    assert_int_equal(count, 2);
    assert_true(uuid_eq(keys[0].id, key) && !keys[0].name.ptr); /* the key's row was removed */
    assert_true(keys[0].calls == 2 && keys[0].failed == 0);
    assert_true(uuid_is_nil(keys[1].id) && keys[1].calls == 1);
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

/* Starts the end of an item. One third keeps its key, one third returns it, and one third has
 * none. */
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
    store_execution_get(call->bench->pool, &call->query, &call->op, account, item->execution.id,
                        account);
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
        items[i].claim.owner = uuid_v7(); /* the claims now have another owner, so they stay */
    start_items(start_item_release);
    pg_calls_end(calls, SET);
    assert_int_equal(count_of("idempotency_key"), SET / 2);
    for (size_t i = 0; i < SET; i++)
        items[i].execution.id = uuid_v7();
    start_items(start_item_finish); /* the claim does not exist, so the fence stops all of them */
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
        IN_BOTH(test_a_claim_of_another_owner_stays),
        IN_BOTH(test_write_without_a_key),
        IN_BOTH(test_the_second_sending_sees_the_first),
        IN_BOTH(test_accounts_do_not_meet),
        IN_BOTH(test_use_of_an_app),
        IN_BOTH(test_keys_of_a_connection),
        IN_BOTH(test_plain_insert_is_replayable),
        IN_BOTH(test_sets_of_everything),
    };
    if (tests_begin() != 0)
        return 1;
    return tests_end(cmocka_run_group_tests(tests, NULL, NULL));
}
