/* What the call of a hold finds, and its intent, in both batch modes. */
#include "execution_test.h"
#include "store/hold_call.h"

enum { REV = 3 };

static struct uuid flow_id;
static struct hold_intent intent;
static int64_t rev;
static struct uuid owner;
static bool is_open; /* the last call's rows are still there */

static void start_check(struct pg_call *call)
{
    store_hold_check(call->bench->pool, &call->query, &call->op, account, flow_id, rev, owner);
}

static void start_intend(struct pg_call *call)
{
    store_hold_intend(call->bench->pool, &call->query, &call->op, &intent);
}

static const char *text_of(struct uuid id)
{
    static char texts[8][UUID_TEXT_LEN + 1];
    static unsigned next;
    char *text = texts[next++ % ARRAY_LEN(texts)];
    uuid_format(id, text);
    return text;
}

/* A running flow of this node, and its hold, whose fingerprint is that of claim_of. */
static void begin_flow(void)
{
    char sql[1024];
    flow_id = uuid_v7();
    rev = REV;
    owner = node;
    (void)snprintf(sql, sizeof(sql),
                   "insert into sluice.flow (account_id, id, template_key, template_version, "
                   "trigger_type, status, rev, op_token, owner, step_index, attempt, is_begun, "
                   "adoptions, created_at, updated_at) values ('%s', '%s', 'held_call', '%s', "
                   "'agent', 'running', %d, '%s', '%s', 1, 1, true, 0, now(), now())",
                   text_of(account), text_of(flow_id), text_of(flow_id), REV, text_of(flow_id),
                   text_of(node));
    items_tell(conninfo, sql);
    (void)snprintf(sql, sizeof(sql),
                   "insert into sluice.hold (account_id, key, flow_id, fingerprint, asker, "
                   "lifetime_ms, created_at) values ('%s', 'k', '%s', decode(repeat('ab', 32), "
                   "'hex'), '%s', 1000, now())",
                   text_of(account), text_of(flow_id), text_of(node));
    items_tell(conninfo, sql);
    intent = (struct hold_intent){.account_id = account,
                                  .key = SLICE("k"),
                                  .flow_id = flow_id,
                                  .execution_id = uuid_v7(),
                                  .rev = REV,
                                  .owner = node};
}

static void end_last(void)
{
    if (is_open)
        done();
    is_open = false;
}

static void run_next(void (*start)(struct pg_call *call))
{
    end_last();
    run(start);
    is_open = true;
}

/* The texts live until the next call. */
static struct hold_state check(void)
{
    struct hold_state found;
    run_next(start_check);
    assert_int_equal(store_hold_check_result(&calls[0].query, &found), OK);
    return found;
}

static int intended(void)
{
    run_next(start_intend);
    return store_hit_result(&calls[0].query);
}

static void test_a_hold_whose_call_has_not_begun(void **state)
{
    (void)state;
    begin_flow();
    struct hold_state found = check();
    assert_true(slice_eq_cstr(found.key, "k") && uuid_eq(found.asker, node));
    assert_int_equal(found.fingerprint[31], 0xAB);
    assert_true(found.is_ours && uuid_is_nil(found.execution_id) && uuid_is_nil(found.holder_id));
    assert_false(found.has_record || found.is_succeeded || found.is_bound || found.is_same);
    assert_null(found.summary.ptr);
    assert_int_equal(found.lifetime_ms, 1000);
    rev++;
    assert_false(check().is_ours);
    rev--;
    owner = uuid_v7();
    assert_false(check().is_ours);
    flow_id = uuid_v7();
    run_next(start_check);
    assert_int_equal(store_hold_check_result(&calls[0].query, &found), ERR_NOTFOUND);
}

static void test_an_intent_has_its_fences(void **state)
{
    (void)state;
    begin_flow();
    const struct hold_intent first = intent;
    assert_int_equal(intended(), OK);
    assert_int_equal(intended(), OK); /* a replay */
    assert_true(uuid_eq(check().execution_id, first.execution_id));
    struct hold_intent others[] = {first, first, first, first, first};
    others[0].execution_id = uuid_v7(); /* after another than the present one */
    others[1].rev++;
    others[2].owner = uuid_v7();
    others[3].flow_id = uuid_v7();
    others[4].key = SLICE("another");
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        intent = others[i];
        assert_int_equal(intended(), ERR_NOTFOUND);
    }
    intent = first;
    intent.was = first.execution_id;
    intent.execution_id = uuid_v7();
    assert_int_equal(intended(), OK);
    assert_true(uuid_eq(check().execution_id, intent.execution_id));
}

static void test_a_call_under_way_and_its_record(void **state)
{
    (void)state;
    begin_flow();
    assert_int_equal(claim_now(SLICE("k")), CLAIM_WON);
    intent.execution_id = claim.execution_id;
    assert_int_equal(intended(), OK);
    struct hold_state found = check();
    assert_true(uuid_eq(found.holder_id, claim.execution_id) && found.is_same && !found.is_bound);
    assert_false(found.has_record);
    end_last();
    assert_int_equal(finish_now(CLAIM_KEEP, SLICE("{\"output\":7}")), OK);
    found = check();
    assert_true(found.has_record && found.is_succeeded && found.is_bound && found.is_same);
    assert_true(slice_eq_cstr(found.summary, "{\"output\":7}"));
    /* the key is forgotten, its record is not */
    items_tell(conninfo, "update sluice.idempotency_key set expires_at = now() - interval '1 s'");
    found = check();
    assert_true(uuid_is_nil(found.holder_id) && found.has_record);
}

static void test_another_request_has_the_key(void **state)
{
    (void)state;
    begin_flow();
    assert_int_equal(claim_now(SLICE("k")), CLAIM_WON);
    items_tell(conninfo, "update sluice.hold set fingerprint = decode(repeat('cd', 32), 'hex')");
    struct hold_state found = check();
    assert_true(uuid_eq(found.holder_id, claim.execution_id));
    assert_false(found.is_same);
}

static void test_a_summary_that_is_too_large_for_a_step(void **state)
{
    char *text = mem_alloc(STORE_HOLD_SUMMARY_BYTES + 1);
    (void)state;
    memset(text, 'x', STORE_HOLD_SUMMARY_BYTES + 1);
    for (size_t more = 0; more <= 1; more++) {
        end_last();
        items_tell(conninfo, "truncate sluice.hold, sluice.idempotency_key");
        begin_flow();
        assert_int_equal(claim_now(SLICE("k")), CLAIM_WON);
        intent.execution_id = claim.execution_id;
        assert_int_equal(intended(), OK);
        end_last();
        slice whole = slice_of(text, STORE_HOLD_SUMMARY_BYTES + more);
        assert_int_equal(finish_now(CLAIM_KEEP, whole), OK);
        struct hold_state found = check();
        assert_true(found.has_record && found.is_succeeded);
        assert_int_equal(found.summary.len, more ? 0 : whole.len);
    }
    mem_free(text);
}

static int clean_up(void **state)
{
    end_last();
    items_tell(conninfo, "truncate sluice.hold");
    return close_bench(state);
}

int main(void)
{
    if (tests_begin())
        return 1;
    const struct CMUnitTest tests[] = {
        IN_BOTH_BY(test_a_hold_whose_call_has_not_begun, set_up, clean_up),
        IN_BOTH_BY(test_an_intent_has_its_fences, set_up, clean_up),
        IN_BOTH_BY(test_a_call_under_way_and_its_record, set_up, clean_up),
        IN_BOTH_BY(test_another_request_has_the_key, set_up, clean_up),
        IN_BOTH_BY(test_a_summary_that_is_too_large_for_a_step, set_up, clean_up),
    };
    return tests_end(cmocka_run_group_tests(tests, NULL, NULL));
}
