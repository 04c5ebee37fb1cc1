/* Flow calls in the list of executions, in both modes: which ones are listed, how they sort among
 * the executions, what is shown of a call whose flow was deleted, and how a missing action name is
 * filled in. */
#include "base/clock.h"
#include "store/execution.h"
#include "store/flow.h"
#include "support/pg_both.h"

enum { FLOWS = 4, STEPS = 6 };

static struct pg_call call;
static struct uuid account, other, key, version, ids[FLOWS];
static int64_t begin; /* the beginning of the first step, in whole seconds; step n of flow i
                       * begins n * 10 + i seconds later */

static struct store_page page;
static struct execution_filter filter;
static struct uuid next;

static void start_list(struct pg_call *c)
{
    store_execution_list(c->bench->pool, &c->query, &c->op, c->arg ? other : account, &page,
                         &filter);
}

static size_t read_page(struct execution **list, bool is_other)
{
    size_t count;
    filter.with_calls = true;
    assert_int_equal(pg_call_run(&bench, &call, start_list, is_other ? &bench : NULL), OK);
    assert_int_equal(store_execution_list_result(&call.query, list, &count, &next), OK);
    return count;
}

static void set_range(int64_t since_s, int64_t before_s, size_t count_max)
{
    page = (struct store_page){.since = uuid_v7_floor(begin / 1000 + since_s * 1000),
                               .before = uuid_v7_floor(begin / 1000 + before_s * 1000),
                               .count_max = count_max};
}

static size_t list_of(int64_t since_s, int64_t before_s, size_t count_max, struct execution **list)
{
    set_range(since_s, before_s, count_max);
    return read_page(list, false);
}

/* The fourth flow's row was deleted, so its calls are not listed. */
static void test_by_time_over_all_flows(void **state)
{
    struct execution *list;
    (void)state;
    assert_int_equal(list_of(0, 1000, 100, &list), (FLOWS - 1) * STEPS);
    assert_true(uuid_is_nil(next));
    for (size_t i = 0; i < (FLOWS - 1) * STEPS; i++) {
        size_t n = (FLOWS - 1) * STEPS - 1 - i; /* newest first */
        size_t step = n / (FLOWS - 1), flow = n % (FLOWS - 1);
        int64_t at = begin + (int64_t)(step * 10 + flow) * 1000000;
        assert_int_equal(list[i].started_at, at);
        assert_true(uuid_eq(list[i].flow_id, ids[flow]));
        assert_int_equal(uuid_v7_wall_ms(list[i].id), at / 1000);
        assert_int_equal(list[i].finished_at - list[i].started_at, 1500000);
        assert_int_equal(list[i].is_succeeded, step != 2);
        assert_true(slice_eq_cstr(list[i].summary, step == 2 ? "{\"code\":\"x\"}" : NULL));
        assert_true(slice_eq_cstr(list[i].step_key, step == 0 ? "send" : "note"));
        assert_int_equal(list[i].is_fan_out, step != 0);
        assert_int_equal(list[i].calls, step == 1 || step == 2 ? 3 : 0);
        assert_int_equal(list[i].failed_calls, step == 2 ? 2 : 0);
        assert_true(slice_eq_cstr(list[i].template_key, "tasks"));
    }
    pg_call_end(&call);
}

static void test_a_range_and_a_bound(void **state)
{
    struct execution *list;
    (void)state;
    /* from 10 s on, before 21 s: step 1 of all flows, step 2 of the first */
    assert_int_equal(list_of(10, 21, 100, &list), FLOWS);
    assert_int_equal(list[0].started_at, begin + 20 * 1000000);
    assert_int_equal(list[FLOWS - 1].started_at, begin + 10 * 1000000);
    pg_call_end(&call);
    assert_int_equal(list_of(10, 21, 2, &list), 2);
    assert_int_equal(list[1].started_at, begin + 12 * 1000000);
    page.before = next; /* the position of the last */
    pg_call_end(&call);
    assert_int_equal(read_page(&list, false), 2);
    assert_int_equal(list[0].started_at, begin + 11 * 1000000);
    pg_call_end(&call);
    assert_int_equal(list_of(1, 1, 100, &list), 0);
    pg_call_end(&call);
}

/* Step 2 of each flow has failed. */
static void test_of_one_outcome(void **state)
{
    struct execution *list;
    (void)state;
    filter.status = SLICE("failed");
    assert_int_equal(list_of(0, 1000, 100, &list), FLOWS - 1);
    for (size_t i = 0; i < FLOWS - 1; i++)
        assert_false(list[i].is_succeeded);
    assert_int_equal(list[0].started_at, begin + 22 * INT64_C(1000000));
    pg_call_end(&call);
    filter.error_code = SLICE("x");
    assert_int_equal(list_of(0, 1000, 100, &list), FLOWS - 1);
    pg_call_end(&call);
    filter.error_code = SLICE("y");
    assert_int_equal(list_of(0, 1000, 100, &list), 0);
    pg_call_end(&call);
    filter = (struct execution_filter){.status = SLICE("succeeded")};
    assert_int_equal(list_of(0, 1000, 7, &list), 7);
    assert_true(list[0].is_succeeded && uuid_eq(next, list[6].id));
    pg_call_end(&call);
    filter = (struct execution_filter){.with_calls = true};
}

static size_t calls_of(const char *app_id, const char *action_id)
{
    struct execution *list;
    filter.integration_id = slice_cstr(app_id);
    filter.action_id = slice_cstr(action_id);
    size_t count = list_of(0, 1000, 100, &list);
    for (size_t i = 0; i < count; i++)
        assert_true((!app_id || slice_eq_cstr(list[i].integration_id, app_id)) &&
                    (!action_id || slice_eq_cstr(list[i].action_id, action_id)));
    pg_call_end(&call);
    filter = (struct execution_filter){.with_calls = true};
    return count;
}

/* Decided by the contents of the rows, whatever the templates say. */
static void test_of_an_app_and_an_action(void **state)
{
    (void)state;
    assert_int_equal(calls_of("gmail", NULL), FLOWS - 1);
    assert_int_equal(calls_of("gmail", "send_message"), FLOWS - 1);
    assert_int_equal(calls_of(NULL, "send_message"), FLOWS - 1);
    assert_int_equal(calls_of("notion", NULL), (FLOWS - 1) * (STEPS - 1));
    assert_int_equal(calls_of("slack", NULL), 0);
    assert_int_equal(calls_of("send_message", NULL), 0);
    assert_int_equal(calls_of("gmail", "send"), 0);
    assert_int_equal(calls_of("", NULL), 0);
    assert_int_equal(calls_of("%", NULL), 0);
}

static void insert_steps(const char *owner_flow, const char *rows)
{
    char sql[2048];
    snprintf(sql, sizeof(sql),
             "insert into sluice.flow_step (account_id, flow_id, step_index, attempt, status, "
             "started_at, finished_at, input, output, error, integration_id, action_id) "
             "select %s, %s on conflict do nothing",
             owner_flow, rows);
    items_tell(conninfo, sql);
}

static const char *owner_text(struct uuid id)
{
    static char text[2][UUID_TEXT_LEN + 1];
    static unsigned at;
    uuid_format(id, text[at ^= 1]);
    return text[at];
}

static void insert_flow_of_other(void)
{
    char sql[512];
    snprintf(sql, sizeof(sql),
             "insert into sluice.flow select '%s', sluice.uuid_floor(now()::date), 'tasks', '%s', "
             "'agent', 'completed', 1, gen_random_uuid(), null, 2, 1, true, 0, null, null, null, "
             "now(), now(), now() on conflict do nothing",
             owner_text(other), owner_text(version));
    items_tell(conninfo, sql);
}

/* A thousand executions are read, and none of them has succeeded: the page ends there and says
 * where to continue. Failed executions are found without reading others. */
static void test_a_long_search_ends(void **state)
{
    struct execution *list;
    char owner[128], rows[512];
    (void)state;
    insert_flow_of_other();
    snprintf(owner, sizeof(owner), "'%s', sluice.uuid_floor(now()::date)", owner_text(other));
    snprintf(rows, sizeof(rows),
             "0, n, 'failed', to_timestamp(%lld) + n * interval '1 ms', now(), '{}', null, '{}', "
             "'gmail', 'send_message' from generate_series(1, 1200) n",
             (long long)(begin / 1000000));
    insert_steps(owner, rows);
    set_range(0, 1000, 100);
    filter.status = SLICE("succeeded");
    assert_int_equal(read_page(&list, true), 0);
    assert_int_equal(uuid_v7_wall_ms(next), begin / 1000 + 201);
    page.before = next;
    pg_call_end(&call);
    assert_int_equal(read_page(&list, true), 0);
    assert_true(uuid_is_nil(next));
    pg_call_end(&call);
    /* Newer steps that failed and are not calls, such as approvals, are not listed. */
    snprintf(rows, sizeof(rows),
             "2, n, 'failed', to_timestamp(%lld) + (1200 + n) * interval '1 ms', now(), '{}', "
             "null, '{}', '', '' from generate_series(1, 5) n",
             (long long)(begin / 1000000));
    insert_steps(owner, rows);
    set_range(0, 1000, 100);
    filter.status = SLICE("failed");
    assert_int_equal(read_page(&list, true), 100);
    assert_int_equal(list[99].started_at, begin + 1101 * 1000);
    pg_call_end(&call);
    filter = (struct execution_filter){.with_calls = true};
}

/* One microsecond may have more rows than a page, or than a scan. */
static void test_calls_of_one_moment_are_all_listed(void **state)
{
    enum { CALLS = 300 };
    struct execution *list;
    char owner[128], rows[512];
    bool is_met[CALLS + 1] = {false};
    const struct uuid first = other;
    (void)state;
    other = uuid_v7();
    insert_flow_of_other();
    snprintf(owner, sizeof(owner), "'%s', sluice.uuid_floor(now()::date)", owner_text(other));
    snprintf(rows, sizeof(rows),
             "1, n, 'failed', to_timestamp(%lld) + interval '7 us', now(), '{}', null, "
             "('{\"code\":\"' || n || '\"}')::json, 'gmail', 'send_message' "
             "from generate_series(1, %d) n",
             (long long)(begin / 1000000), CALLS);
    insert_steps(owner, rows);
    set_range(0, 1000, 40);
    size_t count = 0, got;
    do {
        got = read_page(&list, true);
        for (size_t i = 0; i < got; i++, count++) {
            int n = 0;
            assert_int_equal(sscanf(list[i].summary.ptr, "{\"code\":\"%d\"}", &n), 1);
            assert_false(is_met[n]);
            is_met[n] = true;
        }
        page.before = next;
        pg_call_end(&call);
    } while (!uuid_is_nil(next));
    assert_int_equal(count, CALLS);
    other = first;
}

/* Steps that are not calls, and steps that are not filled in. With many flows, all the newest
 * steps may be such steps. */
static void test_other_steps_hide_no_call(void **state)
{
    enum { CALLS = 3 };
    const struct uuid first = other;
    struct execution *list;
    char owner[128], rows[512];
    (void)state;
    other = uuid_v7();
    insert_flow_of_other();
    snprintf(owner, sizeof(owner), "'%s', sluice.uuid_floor(now()::date)", owner_text(other));
    snprintf(rows, sizeof(rows),
             "0, n, 'completed', to_timestamp(%lld) + n * interval '1 ms', now(), '{}', null, "
             "null, case when n <= %d then 'gmail' when n %% 2 = 0 then '' end, '' "
             "from generate_series(1, 900) n",
             (long long)(begin / 1000000), CALLS);
    insert_steps(owner, rows);
    set_range(0, 1000, 100);
    assert_int_equal(read_page(&list, true), CALLS);
    for (size_t i = 0; i < CALLS; i++)
        assert_int_equal(list[i].started_at, begin + (int64_t)(CALLS - i) * 1000);
    assert_true(uuid_is_nil(next));
    pg_call_end(&call);
    other = first;
}

/* Executions and calls are each listed by their time, and neither hides the other. Without calls
 * there are only executions. */
static void test_beside_executions(void **state)
{
    struct execution *list;
    char sql[512];
    const struct uuid id = uuid_v7_floor(begin / 1000 + 15000);
    (void)state;
    snprintf(sql, sizeof(sql),
             "insert into sluice.execution select '%s', '%s', 'github', 'list', null, 'succeeded', "
             "null, to_timestamp(%lld), now(), gen_random_uuid(), '{}' on conflict do nothing",
             owner_text(account), owner_text(id), (long long)(begin / 1000000 + 15));
    items_tell(conninfo, sql);
    assert_int_equal(list_of(11, 21, 100, &list), 4);
    assert_true(uuid_eq(list[1].id, id) && uuid_is_nil(list[1].flow_id));
    assert_true(!uuid_is_nil(list[0].flow_id) && !uuid_is_nil(list[2].flow_id));
    assert_null(list[1].flow_title.ptr);
    pg_call_end(&call);
    assert_int_equal(list_of(11, 21, 2, &list), 2);
    assert_true(uuid_eq(next, id));
    pg_call_end(&call);
    filter.with_calls = false;
    assert_int_equal(pg_call_run(&bench, &call, start_list, NULL), OK);
    size_t count;
    assert_int_equal(store_execution_list_result(&call.query, &list, &count, &next), OK);
    assert_int_equal(count, 1);
    assert_true(uuid_eq(list[0].id, id));
    pg_call_end(&call);
    snprintf(sql, sizeof(sql), "delete from sluice.execution where id = '%s'", owner_text(id));
    items_tell(conninfo, sql);
}

/* The first flow was started with a key, the second with one that was deleted, and the third
 * without a key. */
static void test_who_asked_and_what_the_flow_is_called(void **state)
{
    struct execution *list;
    (void)state;
    assert_int_equal(list_of(0, 9, 100, &list), FLOWS - 1);
    assert_true(uuid_eq(list[2].api_key_id, key));
    assert_true(slice_eq_cstr(list[2].api_key_name, "lead"));
    assert_false(uuid_is_nil(list[1].api_key_id));
    assert_null(list[1].api_key_name.ptr);
    assert_true(uuid_is_nil(list[0].api_key_id));
    assert_true(slice_eq_cstr(list[2].flow_title, "Tasks"));
    assert_true(slice_eq_cstr(list[1].flow_title, "its own"));
    assert_null(list[1].flow_tools.ptr);
    pg_call_end(&call);
    filter.with_tools = true;
    assert_int_equal(list_of(0, 9, 100, &list), FLOWS - 1);
    for (size_t i = 0; i < FLOWS - 1; i++)
        assert_true(slice_starts_with(list[i].flow_tools, SLICE("gmail_send_message")));
    pg_call_end(&call);
    filter.api_key_id = key;
    assert_int_equal(list_of(0, 1000, 100, &list), STEPS);
    assert_true(uuid_eq(list[0].flow_id, ids[0]));
    pg_call_end(&call);
    filter = (struct execution_filter){.with_calls = true};
}

static void test_another_account_has_none(void **state)
{
    const struct uuid first = other;
    struct execution *list;
    (void)state;
    other = uuid_v7();
    set_range(0, 1000, 100);
    assert_int_equal(read_page(&list, true), 0);
    pg_call_end(&call);
    other = first;
}

/* ---- filling in ---- */

static void start_unfilled(struct pg_call *c)
{
    store_flow_steps_unfilled(c->bench->pool, &c->query, &c->op);
}

static void start_fill(struct pg_call *c)
{
    store_flow_step_fill(c->bench->pool, &c->query, &c->op, c->arg);
}

static int64_t count_of(const char *where)
{
    char sql[512];
    snprintf(sql, sizeof(sql), "select count(*) from sluice.flow_step where %s", where);
    return items_ask(conninfo, sql);
}

/* Rows as the previous version of the program wrote them: a call, a step that is not a call, and
 * a step whose flow was deleted. */
static void test_rows_that_do_not_say_it_are_filled_in(void **state)
{
    struct flow_step_unfilled *list, one;
    struct execution *calls;
    size_t count, tools = 0;
    char sql[512];
    (void)state;
    items_tell(conninfo, "update sluice.flow_step set integration_id = '' where integration_id is "
                         "null");
    snprintf(sql, sizeof(sql),
             "update sluice.flow_step set integration_id = null, action_id = null, api_key_id = "
             "null where account_id = '%s' and step_index = 0",
             owner_text(account));
    items_tell(conninfo, sql);
    items_tell(conninfo, "update sluice.flow_step set step_index = 7, integration_id = null where "
                         "step_index = 5");
    assert_int_equal(list_of(0, 9, 100, &calls), 0);
    pg_call_end(&call);
    for (size_t left = 2 * FLOWS; left > 0; left--) {
        assert_int_equal(pg_call_run(&bench, &call, start_unfilled, NULL), OK);
        assert_int_equal(store_flow_steps_unfilled_result(&call.query, &list, &count), OK);
        assert_int_equal(count, left);
        one = list[0];
        bool is_call = one.step_index == 0 && !uuid_eq(one.flow_id, ids[FLOWS - 1]);
        assert_true(slice_eq_cstr(one.tool, is_call ? "gmail_send_message" : NULL));
        tools += is_call;
        one.integration_id = is_call ? SLICE("gmail") : SLICE("");
        one.action_id = is_call ? SLICE("send_message") : SLICE("");
        pg_call_end(&call);
        assert_int_equal(pg_call_run(&bench, &call, start_fill, &one), OK);
        pg_call_end(&call);
    }
    assert_int_equal(tools, FLOWS - 1);
    /* a row that has been filled in does not change */
    one.integration_id = SLICE("other");
    assert_int_equal(pg_call_run(&bench, &call, start_fill, &one), OK);
    pg_call_end(&call);
    assert_int_equal(count_of("integration_id is null or integration_id = 'other'"), 0);
    items_tell(conninfo, "update sluice.flow_step set step_index = 5, integration_id = 'notion', "
                         "action_id = 'create' where step_index = 7");
    test_who_asked_and_what_the_flow_is_called(state);
}

/* ---- the rows ---- */

/* insert: SQL that inserts values computed from k. */
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
    "gen_random_uuid(), null, 2, 1, true, 0, null, null, null, now(), now(), now(), "           \
    "case n when 1 then 'its own' end from k"
#define DOC                                                                                 \
    "insert into sluice.flow_doc select account, flow, '{}', case n when 0 then 'key:' || " \
    "key::text "                                                                            \
    "when 1 then 'key:00000000-0000-4000-8000-000000000000' else 'import' end, null from k"
#define KEY                                                                                \
    "insert into sluice.api_key (account_id, id, hash, prefix, name, scopes, created_at) " \
    "select account, key, sha256(key::text::bytea), 'sk_test', 'lead', 'read', now() from k"
#define NOTE "{\"for_each\":\"x\",\"key\":\"note\",\"tool\":\"notion_create\"}"
#define STEP                                                                                     \
    "insert into sluice.flow_step select account, flow, s, 1, case s when 2 then 'failed' else " \
    "'completed' end, begin + (s * 10 + n) * interval '1 s', begin + (s * 10 + n + 1.5) * "      \
    "interval '1 s', '{}', null, case s when 2 then '{\"code\":\"x\"}'::json end, "              \
    "case s when 0 then 'gmail' else 'notion' end, case s when 0 then 'send_message' else "      \
    "'create' end, case n when 0 then key when 1 then "                                          \
    "'00000000-0000-4000-8000-000000000000'::uuid end from k, generate_series(0, 5) s"
/* Step 0 is not a fan-out. In steps 1 and 2 the first attempt called items 0 to 2, and the second
 * attempt, whose row is missing, item 3. In step 2 item 1 failed, and item 2 was never ended. */
#define ITEMS                                                                                     \
    "insert into sluice.flow_item select account, flow, s, item, case item when 3 then 2 else 1 " \
    "end, fact, begin, case fact when 'completed' then '1'::json end, case fact when 'failed' "   \
    "then '{}'::json end from k, generate_series(0, 2) s, generate_series(0, 3) item, "           \
    "unnest(array['begun', case when s = 2 and item = 1 then 'failed' else 'completed' end]) "    \
    "fact where s < 2 or item <> 2 or fact = 'begun'"

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
        tell(ITEMS, i);
        if (i == FLOWS - 1)
            break;
        tell(FLOW, i);
        tell(DOC, i);
    }
    tell("insert into sluice.account select account, 'a', now() from k", 0);
    tell(KEY, 0);
    tell("insert into sluice.flow_template select version, 'tasks', '{\"name\":\"Tasks\","
         "\"steps\":[{\"key\":\"send\",\"tool\":\"gmail_send_message\"}," NOTE "," NOTE "," NOTE
         "," NOTE "," NOTE "]}', now() from k",
         0);
    return 0;
}

#define IN_BOTH(test) IN_BOTH_BY(test, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BOTH(test_by_time_over_all_flows),
        IN_BOTH(test_a_range_and_a_bound),
        IN_BOTH(test_who_asked_and_what_the_flow_is_called),
        IN_BOTH(test_another_account_has_none),
        IN_BOTH(test_of_one_outcome),
        IN_BOTH(test_of_an_app_and_an_action),
        IN_BOTH(test_other_steps_hide_no_call),
        IN_BOTH(test_calls_of_one_moment_are_all_listed),
        IN_BOTH(test_beside_executions),
        IN_MODE(test_a_long_search_ends, set_mode, open_bench, close_bench),
        IN_BOTH(test_rows_that_do_not_say_it_are_filled_in),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, NULL));
}
