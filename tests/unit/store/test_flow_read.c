/* Whole flows, lists of flows and revisions: the read values equal the written values, in both
 * modes. */
#include "store/flow_read.h"
#include "support/pg_both.h"

enum { FLOWS = 30, CALLS = 20 };

static struct pg_call call, calls[CALLS];
static struct uuid account, other, ids[FLOWS]; /* oldest first */
static struct flow_filter filter;

static void start_load(struct pg_call *c)
{
    store_flow_load(c->bench->pool, &c->query, &c->op, account, ids[0], c->arg != NULL);
}

static void check_step(const struct flow_step *step, int64_t index, int64_t attempt,
                       const char *input, const char *output, const char *error)
{
    assert_int_equal(step->step_index, index);
    assert_int_equal(step->attempt, attempt);
    assert_int_equal(step->is_completed, error == NULL);
    assert_true(slice_eq_cstr(step->input, input));
    assert_true(slice_eq_cstr(step->output, output));
    assert_int_equal(step->output.ptr != NULL, output != NULL);
    assert_true(slice_eq_cstr(step->error, error));
    assert_int_equal(step->started_at, INT64_C(1700000000123456));
    assert_int_equal(step->finished_at, INT64_C(1700000001000000));
}

static void test_a_whole_flow(void **state)
{
    struct flow_whole whole;
    (void)state;
    assert_int_equal(pg_call_run(&bench, &call, start_load, NULL), OK);
    assert_int_equal(store_flow_load_result(&call.query, &whole), OK);
    assert_true(uuid_eq(whole.flow.id, ids[0]) && uuid_eq(whole.flow.account_id, account));
    assert_int_equal(whole.flow.status, FLOW_WAITING);
    assert_int_equal(whole.flow.waiting_for, FLOW_WAITS_APPROVAL);
    assert_int_equal(whole.flow.step_index, 2);
    assert_true(slice_eq_cstr(whole.flow.template_key, "tasks"));
    assert_true(slice_eq_cstr(whole.input, "{\"a\": 12345678901234567890, \"z\":\"\\u0000\"}"));
    assert_true(slice_eq_cstr(whole.actor, "key:1"));
    assert_true(slice_eq_cstr(whole.waiting_input, "{\"title\":\"T\"}"));
    assert_int_equal(whole.step_count, 3);
    check_step(&whole.steps[0], 0, 1, "{\"q\":\"; 1 2;\"}", NULL, "{\"code\":\"timeout\"}");
    check_step(&whole.steps[1], 0, 2, "{}", "[\"\u00fc;\",  \"\\u0000\"]", NULL);
    check_step(&whole.steps[2], 1, 1, NULL, "null", NULL);
    assert_int_equal(whole.item_count, 0);
    pg_call_end(&call);
}

static void test_its_items_are_those_of_its_step(void **state)
{
    struct flow_whole whole;
    (void)state;
    assert_int_equal(pg_call_run(&bench, &call, start_load, &bench), OK);
    assert_int_equal(store_flow_load_result(&call.query, &whole), OK);
    assert_int_equal(whole.step_count, 3);
    assert_int_equal(whole.item_count, 3);
    assert_int_equal(whole.items[0].item, 0);
    assert_int_equal(whole.items[0].fact, FLOW_ITEM_BEGUN);
    assert_int_equal(whole.items[1].item, 0);
    assert_int_equal(whole.items[1].fact, FLOW_ITEM_COMPLETED);
    assert_true(slice_eq_cstr(whole.items[1].output, "{\"n\":1}"));
    assert_int_equal(whole.items[2].item, 1);
    assert_int_equal(whole.items[2].fact, FLOW_ITEM_FAILED);
    assert_int_equal(whole.items[2].attempt, 2);
    assert_int_equal(whole.items[2].at, INT64_C(1700000000123456));
    assert_true(slice_eq_cstr(whole.items[2].error, "{\"code\":\"x\"}"));
    pg_call_end(&call);
}

static void start_foreign(struct pg_call *c)
{
    store_flow_load(c->bench->pool, &c->query, &c->op, other, ids[0], true);
}

static void test_another_account_sees_nothing(void **state)
{
    struct flow_whole whole;
    (void)state;
    assert_int_equal(pg_call_run(&bench, &call, start_foreign, NULL), OK);
    assert_int_equal(store_flow_load_result(&call.query, &whole), ERR_NOTFOUND);
    pg_call_end(&call);
}

static void start_list(struct pg_call *c)
{
    store_flow_list(c->bench->pool, &c->query, &c->op, &filter);
}

/* The number of flows with that filter, in pages of `limit`. Checks their order. */
static size_t walk_all(int status, const char *template_key, int64_t limit, bool alone)
{
    struct flow_listed *list;
    size_t count, met = 0;
    struct uuid last = {{0}}, next = {{0}};
    do {
        filter = (struct flow_filter){.account_id = account,
                                      .status = status,
                                      .template_key = slice_cstr(template_key),
                                      .before = next,
                                      .limit = limit,
                                      .is_rows_alone = alone};
        assert_int_equal(pg_call_run(&bench, &call, start_list, NULL), OK);
        assert_int_equal(store_flow_list_result(&call.query, &list, &count, &next), OK);
        assert_true(count <= (size_t)limit);
        assert_true(uuid_is_nil(next) || uuid_eq(next, list[count - 1].flow.id));
        for (size_t i = 0; i < count; i++) {
            assert_true(uuid_is_nil(last) || uuid_cmp(list[i].flow.id, last) < 0);
            assert_true(status < 0 || (int)list[i].flow.status == status);
            assert_int_equal(list[i].input.len > 0, !alone);
            assert_true(!alone || list[i].output_count == 0);
            last = list[i].flow.id;
        }
        met += count;
        pg_call_end(&call);
    } while (!uuid_is_nil(next));
    return met;
}

static size_t walk(int status, const char *template_key, int64_t limit)
{
    size_t count = walk_all(status, template_key, limit, false);
    assert_int_equal(walk_all(status, template_key, limit, true), count);
    return count;
}

static void test_lists(void **state)
{
    (void)state;
    assert_int_equal(walk(-1, NULL, 100), FLOWS);
    assert_int_equal(walk(-1, NULL, 7), FLOWS);
    assert_int_equal(walk(FLOW_WAITING, NULL, 7), FLOWS / 3);
    assert_int_equal(walk(FLOW_COMPLETED, NULL, 7), FLOWS / 3);
    assert_int_equal(walk(FLOW_FAILED, NULL, 7), FLOWS / 3);
    assert_int_equal(walk(FLOW_RUNNING, NULL, 7), 0);
    assert_int_equal(walk(-1, "tasks", 7), FLOWS / 2);
    assert_int_equal(walk(FLOW_WAITING, "tasks", 7), FLOWS / 6);
    assert_int_equal(walk(-1, "nope", 7), 0);
}

static void test_what_a_listed_one_holds(void **state)
{
    struct flow_listed *list;
    struct uuid next;
    size_t count;
    (void)state;
    filter =
        (struct flow_filter){.account_id = account, .status = -1, .before = ids[1], .limit = 5};
    assert_int_equal(pg_call_run(&bench, &call, start_list, NULL), OK);
    assert_int_equal(store_flow_list_result(&call.query, &list, &count, &next), OK);
    assert_true(uuid_is_nil(next));
    assert_int_equal(count, 1);
    assert_true(uuid_eq(list[0].flow.id, ids[0]));
    assert_true(slice_eq_cstr(list[0].input, "{\"a\": 12345678901234567890, \"z\":\"\\u0000\"}"));
    assert_int_equal(list[0].output_count, 2);
    assert_int_equal(list[0].outputs[0].step_index, 0);
    assert_true(slice_eq_cstr(list[0].outputs[0].output, "[\"\u00fc;\",  \"\\u0000\"]"));
    assert_int_equal(list[0].outputs[1].step_index, 1);
    assert_true(slice_eq_cstr(list[0].outputs[1].output, "null"));
    pg_call_end(&call);
}

/* The number of flows in the list, and where the list continues. */
static size_t listed(struct uuid *next)
{
    struct flow_listed *list;
    size_t count;
    assert_int_equal(pg_call_run(&bench, &call, start_list, NULL), OK);
    assert_int_equal(store_flow_list_result(&call.query, &list, &count, next), OK);
    pg_call_end(&call);
    return count;
}

/* Of 1,500 flows, only the oldest has that template. */
static void test_a_search_by_template_looks_at_a_thousand(void **state)
{
    char sql[1024], owner[UUID_TEXT_LEN + 1];
    const struct uuid many = uuid_v7();
    struct uuid next;
    (void)state;
    uuid_format(many, owner);
    (void)snprintf(sql, sizeof(sql),
                   "insert into sluice.account (account_id, name, created_at) values ('%s', 'm', "
                   "now()); insert into sluice.flow select '%s', ('0' || substr(sluice.uuid_floor("
                   "current_date)::text, 2, 17) || '-8000-' || lpad(n::text, 12, '0'))::uuid, case "
                   "when n = 1 then 'rare' else 'common' end, gen_random_uuid(), 'agent', "
                   "'completed', 1, gen_random_uuid(), null, 0, 1, true, 0, null, null, null, "
                   "now(), now(), now() from generate_series(1, 1500) n",
                   owner, owner);
    items_tell(conninfo, sql);
    for (int i = 0; i < 2; i++) {
        filter = (struct flow_filter){.account_id = many,
                                      .status = i > 0 ? (int)FLOW_COMPLETED : -1,
                                      .template_key = SLICE("rare"),
                                      .limit = 25,
                                      .is_rows_alone = true};
        assert_int_equal(listed(&next), 0);
        assert_int_equal(next.bytes[14], 0x05); /* the 501st: its digits */
        assert_int_equal(next.bytes[15], 0x01);
        filter.before = next;
        assert_int_equal(listed(&next), 1);
        assert_true(uuid_is_nil(next));
    }
    filter.status = FLOW_FAILED;
    assert_int_equal(listed(&next), 0);
    assert_true(uuid_is_nil(next));
}

static void start_rev(struct pg_call *c)
{
    store_flow_rev(c->bench->pool, &c->query, &c->op, account, ids[c - calls]);
}

static void test_revisions_of_many_in_one_go(void **state)
{
    int64_t rev;
    (void)state;
    for (size_t i = 0; i < CALLS; i++)
        pg_call_start(&bench, &calls[i], start_rev, NULL);
    pg_calls_wait(&bench, calls, CALLS);
    for (size_t i = 0; i < CALLS; i++) {
        assert_int_equal(store_rev_result(&calls[i].query, &rev), OK);
        assert_int_equal(rev, i + 1);
    }
    pg_calls_end(calls, CALLS);
}

/* ---- the rows ---- */

/* insert: SQL that inserts values computed from k. */
static void tell(const char *insert, size_t i)
{
    char sql[4096], owner[UUID_TEXT_LEN + 1], id[UUID_TEXT_LEN + 1];
    uuid_format(account, owner);
    uuid_format(ids[i], id);
    assert_true(snprintf(sql, sizeof(sql),
                         "with k as (select '%s'::uuid as account, '%s'::uuid as flow, "
                         "%zu::bigint as n) %s",
                         owner, id, i, insert) < (int)sizeof(sql));
    items_tell(conninfo, sql);
}

/* The states waiting, completed and failed alternate, as do two templates. rev counts up. */
#define FLOW                                                                                      \
    "insert into sluice.flow select account, flow, (array['tasks','other'])[n % 2 + 1], "         \
    "gen_random_uuid(), 'agent', (array['waiting','completed','failed'])[n % 3 + 1], n + 1, "     \
    "gen_random_uuid(), null, 2, 1, true, 0, case n % 3 when 0 then 'approval' end, null, null, " \
    "now(), now(), case n % 3 when 1 then now() end from k"
#define DOC                                                                             \
    "insert into sluice.flow_doc select account, flow, "                                \
    "'{\"a\": 12345678901234567890, \"z\":\"\\u0000\"}', 'key:1', '{\"title\":\"T\"}' " \
    "from k"
#define AT "to_timestamp(1700000000) + '0.123456 s'::interval"

static void fill(void)
{
    for (size_t i = 0; i < FLOWS; i++) {
        ids[i] = uuid_v7();
        tell(FLOW, i);
        tell(DOC, i);
    }
    tell("insert into sluice.flow_step select account, flow, v.step, v.attempt, v.status, " AT
         ", to_timestamp(1700000001), v.input::json, v.output::json, v.error::json from k, (values "
         "(1, 1, 'completed', null, 'null', null), "
         "(0, 2, 'completed', '{}', '[\"\u00fc;\",  \"\\u0000\"]', null), "
         "(0, 1, 'failed', '{\"q\":\"; 1 2;\"}', null, '{\"code\":\"timeout\"}')) "
         "v (step, attempt, status, input, output, error)",
         0);
    tell("insert into sluice.flow_item select account, flow, v.step, v.item, v.attempt, "
         "v.fact, " AT ", v.output::json, v.error::json from k, (values "
         "(2, 1, 2, 'failed', null, '{\"code\":\"x\"}'), "
         "(2, 0, 1, 'completed', '{\"n\":1}', null), (2, 0, 1, 'begun', null, null), "
         "(1, 0, 1, 'completed', '7', null)) v (step, item, attempt, fact, output, error)",
         0);
}

static int set_up(void **state)
{
    (void)state;
    conninfo = pg_cluster_database(true);
    account = uuid_v7();
    other = uuid_v7();
    fill();
    return 0;
}

#define IN_BOTH(test) IN_BOTH_BY(test, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BOTH(test_a_whole_flow),
        IN_BOTH(test_its_items_are_those_of_its_step),
        IN_BOTH(test_another_account_sees_nothing),
        IN_BOTH(test_lists),
        IN_BOTH(test_what_a_listed_one_holds),
        IN_BOTH(test_a_search_by_template_looks_at_a_thousand),
        IN_BOTH(test_revisions_of_many_in_one_go),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, NULL));
}
