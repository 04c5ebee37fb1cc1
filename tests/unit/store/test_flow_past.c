/* Steps of flows by time: which ones, in which order, and what is known of those whose flow is
 * gone; in both modes. */
#include "base/clock.h"
#include "store/flow_past.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "unit.h"

enum { FLOWS = 4, STEPS = 6 };

static const char *conninfo;
static struct pg_bench bench;
static struct pg_call call;
static struct uuid account, other, key, version, ids[FLOWS];
static int64_t begin; /* of the first step, in whole seconds; step n of flow i begins n * 10 + i
                         seconds later */

static struct flow_past_range range;
static enum flow_past_outcome outcome;
static slice app, action;

static void start_list(struct pg_call *c)
{
    store_flow_past_list(c->bench->pool, &c->query, &c->op, c->arg ? other : account, &range);
}

static size_t list_of(int64_t since_s, int64_t before_s, int64_t count_max, struct flow_past **list)
{
    size_t count;
    range = (struct flow_past_range){.since = begin + since_s * 1000000,
                                     .before = begin + before_s * 1000000,
                                     .count_max = count_max,
                                     .outcome = outcome,
                                     .app_id = app,
                                     .action_id = action};
    assert_int_equal(pg_call_run(&bench, &call, start_list, NULL), OK);
    assert_int_equal(store_flow_past_list_result(&call.query, list, &count), OK);
    return count;
}

static void test_by_time_over_all_flows(void **state)
{
    struct flow_past *list;
    (void)state;
    assert_int_equal(list_of(0, 1000, 100, &list), FLOWS * STEPS);
    for (size_t i = 0; i < FLOWS * STEPS; i++) {
        size_t n = FLOWS * STEPS - 1 - i; /* youngest first */
        assert_int_equal(list[i].started_at,
                         begin + (int64_t)(n / FLOWS * 10 + n % FLOWS) * 1000000);
        assert_true(uuid_eq(list[i].flow_id, ids[n % FLOWS]));
        assert_int_equal(list[i].step_index, n / FLOWS);
        assert_int_equal(list[i].attempt, 1);
        assert_int_equal(list[i].finished_at - list[i].started_at, 1500000);
        assert_int_equal(list[i].is_completed, n / FLOWS != 2);
        assert_true(slice_eq_cstr(list[i].error, n / FLOWS == 2 ? "{\"code\":\"x\"}" : NULL));
    }
    pg_call_end(&call);
}

static void test_a_range_and_a_bound(void **state)
{
    struct flow_past *list;
    (void)state;
    /* from 10 s on, before 21 s: step 1 of all flows, step 2 of the first */
    assert_int_equal(list_of(10, 21, 100, &list), FLOWS + 1);
    assert_int_equal(list[0].started_at, begin + 20 * 1000000);
    assert_int_equal(list[FLOWS].started_at, begin + 10 * 1000000);
    pg_call_end(&call);
    assert_int_equal(list_of(10, 21, 2, &list), 2);
    assert_int_equal(list[1].started_at, begin + 13 * 1000000);
    pg_call_end(&call);
    assert_int_equal(list_of(1, 1, 100, &list), 0);
    pg_call_end(&call);
}

/* Step 2 of each flow has failed. */
static void test_of_one_outcome(void **state)
{
    struct flow_past *list;
    (void)state;
    outcome = FLOW_PAST_FAILED;
    assert_int_equal(list_of(0, 1000, 100, &list), FLOWS);
    for (size_t i = 0; i < FLOWS; i++)
        assert_true(!list[i].is_completed && !list[i].is_cut);
    assert_int_equal(list[0].started_at, begin + 23 * INT64_C(1000000));
    pg_call_end(&call);
    outcome = FLOW_PAST_COMPLETED;
    assert_int_equal(list_of(0, 1000, 7, &list), 7);
    assert_true(list[0].is_completed && !list[6].is_cut);
    pg_call_end(&call);
    outcome = FLOW_PAST_ALL;
    assert_int_equal(list_of(0, 1000, 5, &list), 5);
    assert_false(list[4].is_cut);
    pg_call_end(&call);
}

static size_t steps_for(const char *app_id, const char *action_id)
{
    struct flow_past *list;
    app = slice_cstr(app_id);
    action = slice_cstr(action_id);
    size_t count = list_of(0, 1000, 100, &list);
    pg_call_end(&call);
    app = action = SLICE_NONE;
    return count;
}

/* Steps are read for the calls of an app or an action that a template has, of whatever version. */
static void test_for_what_templates_call(void **state)
{
    (void)state;
    assert_int_equal(steps_for("gmail", NULL), FLOWS * STEPS);
    assert_int_equal(steps_for("gmail", "send_message"), FLOWS * STEPS);
    assert_int_equal(steps_for(NULL, "send_message"), FLOWS * STEPS);
    assert_int_equal(steps_for("gmail_send_message", "gmail_send_message"), FLOWS * STEPS);
    assert_int_equal(steps_for("slack", NULL), 0);
    assert_int_equal(steps_for("send_message", NULL), 0);
    assert_int_equal(steps_for("gmail", "send"), 0);
    assert_int_equal(steps_for(NULL, "message"), FLOWS * STEPS); /* it could be gmail_send's */
    assert_int_equal(steps_for(NULL, "essage"), 0);
    assert_int_equal(steps_for("%", NULL), 0);
    /* too many to look at */
    items_tell(conninfo, "insert into sluice.flow_template select gen_random_uuid(), 'k', '{}', "
                         "now() from generate_series(1, 200)");
    assert_int_equal(steps_for("slack", NULL), FLOWS * STEPS);
    items_tell(conninfo, "delete from sluice.flow_template where key = 'k'");
}

/* A thousand are read, and none of them has completed: the last one is there to go on from. Those
 * that failed are found without reading others. */
static void test_a_long_search_ends(void **state)
{
    struct flow_past *list;
    char owner[UUID_TEXT_LEN + 1], sql[512];
    (void)state;
    uuid_format(other, owner);
    snprintf(sql, sizeof(sql),
             "insert into sluice.flow_step select '%s', sluice.uuid_floor(now()::date), 0, n, "
             "'failed', to_timestamp(%lld) + n * interval '1 ms', now(), '{}', null, '{}' "
             "from generate_series(1, 1200) n on conflict do nothing",
             owner, (long long)(begin / 1000000));
    items_tell(conninfo, sql);
    size_t count;
    range = (struct flow_past_range){.since = begin,
                                     .before = begin + 1000 * INT64_C(1000000),
                                     .count_max = 100,
                                     .outcome = FLOW_PAST_COMPLETED};
    assert_int_equal(pg_call_run(&bench, &call, start_list, &bench), OK);
    assert_int_equal(store_flow_past_list_result(&call.query, &list, &count), OK);
    assert_int_equal(count, 1);
    assert_true(list[0].is_cut && !list[0].is_completed);
    assert_int_equal(list[0].started_at, begin + 201 * 1000);
    pg_call_end(&call);
    range.outcome = FLOW_PAST_FAILED;
    assert_int_equal(pg_call_run(&bench, &call, start_list, &bench), OK);
    assert_int_equal(store_flow_past_list_result(&call.query, &list, &count), OK);
    assert_int_equal(count, 100);
    assert_false(list[99].is_cut);
    assert_int_equal(list[99].started_at, begin + 1101 * 1000);
    pg_call_end(&call);
}

/* Steps that took no input are of no call: of many flows at once all of these may be the youngest.
 * What failed before it had an input is listed. */
static void test_steps_without_input_hide_no_call(void **state)
{
    enum { CALLS = 3, FAILED = 2 };
    const struct uuid first = account;
    struct flow_past *list;
    char owner[UUID_TEXT_LEN + 1], sql[768];
    (void)state;
    account = uuid_v7();
    uuid_format(account, owner);
    snprintf(
        sql, sizeof(sql),
        "insert into sluice.flow_step select '%s', sluice.uuid_floor(now()::date), 0, n, "
        "case when n = %d then 'failed' else 'completed' end, to_timestamp(%lld) + n * "
        "interval '1 ms', now(), case when n <= %d then '{}'::json end, null, case when n = %d "
        "then '{}'::json end from generate_series(1, 900) n",
        owner, CALLS + 1, (long long)(begin / 1000000), CALLS, CALLS + 1);
    items_tell(conninfo, sql);
    assert_int_equal(list_of(0, 1000, 100, &list), CALLS + 1);
    for (size_t i = 0; i <= CALLS; i++)
        assert_int_equal(list[i].started_at, begin + (int64_t)(CALLS + 1 - i) * 1000);
    assert_true(!list[0].is_completed && !list[CALLS].is_cut);
    pg_call_end(&call);
    assert_int_equal(list_of(0, 1000, FAILED, &list), FAILED);
    pg_call_end(&call);
    account = first;
}

/* The first flow was started by a key, the second by one that is gone, the third by no key; of the
 * fourth only the steps are left. */
static void test_who_asked_and_by_which_template(void **state)
{
    struct flow_past *list;
    char actor[UUID_TEXT_LEN + 5] = "key:";
    (void)state;
    uuid_format(key, actor + 4);
    assert_int_equal(list_of(0, 9, 100, &list), FLOWS);
    assert_true(uuid_is_nil(list[0].template_version));
    assert_null(list[0].actor.ptr);
    for (size_t i = 1; i < FLOWS; i++)
        assert_true(uuid_eq(list[i].template_version, version));
    assert_true(slice_eq_cstr(list[3].actor, actor));
    assert_true(slice_eq_cstr(list[3].api_key_name, "lead"));
    assert_true(slice_eq_cstr(list[2].actor, "key:00000000-0000-4000-8000-000000000000"));
    assert_null(list[2].api_key_name.ptr);
    assert_true(slice_eq_cstr(list[1].actor, "import"));
    pg_call_end(&call);
}

static void test_another_account_has_none(void **state)
{
    struct flow_past *list;
    size_t count;
    (void)state;
    range = (struct flow_past_range){
        .since = 1, .before = begin + 1000 * INT64_C(1000000), .count_max = 100};
    assert_int_equal(pg_call_run(&bench, &call, start_list, &bench), OK);
    assert_int_equal(store_flow_past_list_result(&call.query, &list, &count), OK);
    assert_int_equal(count, 0);
    pg_call_end(&call);
}

/* ---- the rows ---- */

/* insert: of what is in k. */
static void tell(const char *insert, size_t i)
{
    char sql[4096], owner[UUID_TEXT_LEN + 1], id[UUID_TEXT_LEN + 1], a_key[UUID_TEXT_LEN + 1];
    char tmpl[UUID_TEXT_LEN + 1];
    uuid_format(account, owner);
    uuid_format(ids[i], id);
    uuid_format(key, a_key);
    uuid_format(version, tmpl);
    assert_true(snprintf(sql, sizeof(sql),
                         "with k as (select '%s'::uuid as account, '%s'::uuid as flow, "
                         "'%s'::uuid as key, '%s'::uuid as version, %zu::bigint as n, "
                         "to_timestamp(%lld) as begin) %s",
                         owner, id, a_key, tmpl, i, (long long)(begin / 1000000),
                         insert) < (int)sizeof(sql));
    items_tell(conninfo, sql);
}

#define FLOW                                                                                    \
    "insert into sluice.flow select account, flow, 'tasks', version, 'agent', 'completed', 1, " \
    "gen_random_uuid(), null, 2, 1, true, 0, null, null, null, now(), now(), now() from k"
#define DOC                                                                                 \
    "insert into sluice.flow_doc select account, flow, '{}', case n when 0 then 'key:' || " \
    "key::text "                                                                            \
    "when 1 then 'key:00000000-0000-4000-8000-000000000000' else 'import' end, null from k"
#define KEY                                                                                \
    "insert into sluice.api_key (account_id, id, hash, prefix, name, scopes, created_at) " \
    "select account, key, sha256(key::text::bytea), 'sk_test', 'lead', 'read', now() from k"
#define STEP                                                                                     \
    "insert into sluice.flow_step select account, flow, s, 1, case s when 2 then 'failed' else " \
    "'completed' end, begin + (s * 10 + n) * interval '1 s', begin + (s * 10 + n + 1.5) * "      \
    "interval '1 s', '{}', null, case s when 2 then '{\"code\":\"x\"}'::json end "               \
    "from k, generate_series(0, 5) s"

static int set_up(void **state)
{
    (void)state;
    conninfo = pg_cluster_database(true);
    account = uuid_v7();
    other = uuid_v7();
    key = uuid_v7();
    version = uuid_v7();
    begin = clock_wall_us() / 1000000 * 1000000;
    for (size_t i = 0; i < FLOWS; i++) {
        ids[i] = uuid_v7();
        tell(STEP, i);
        if (i == FLOWS - 1)
            break;
        tell(FLOW, i);
        tell(DOC, i);
    }
    tell("insert into sluice.account select account, 'a', now() from k", 0);
    tell(KEY, 0);
    items_tell(conninfo,
               "insert into sluice.flow_template values (gen_random_uuid(), 'tasks', "
               "'{\"steps\":[{\"key\":\"slack\",\"tool\":\"gmail_send_message\"}]}', now())");
    return 0;
}

static int open_in(enum pg_mode mode)
{
    struct pg_pool_config config = {.conninfo = conninfo, .mode = mode};
    pg_bench_open(&bench, &config, true);
    return 0;
}

static int open_set(void **state)
{
    (void)state;
    return open_in(PG_MODE_SET);
}

static int open_pipe(void **state)
{
    (void)state;
    return open_in(PG_MODE_PIPE);
}

static int close_it(void **state)
{
    (void)state;
    pg_bench_close(&bench);
    return 0;
}

#define IN_BOTH(test)                                          \
    cmocka_unit_test_setup_teardown(test, open_set, close_it), \
        cmocka_unit_test_setup_teardown(test, open_pipe, close_it)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BOTH(test_by_time_over_all_flows),
        IN_BOTH(test_a_range_and_a_bound),
        IN_BOTH(test_who_asked_and_by_which_template),
        IN_BOTH(test_another_account_has_none),
        IN_BOTH(test_of_one_outcome),
        IN_BOTH(test_for_what_templates_call),
        IN_BOTH(test_steps_without_input_hide_no_call),
        cmocka_unit_test_setup_teardown(test_a_long_search_ends, open_set, close_it),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, NULL));
}
