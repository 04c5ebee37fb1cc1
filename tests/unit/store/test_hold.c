/* Holds: one flow for each key, however many requests have it, until that flow is long over. In
 * both batch modes. */
#include "flow_test.h"
#include "store/flow_inbox.h"
#include "store/hold.h"

enum { LIFETIME_MS = 60 * 1000 };

static struct hold hold;
static struct uuid event_id; /* of the next start; nil: it has none */
static struct hold_ended ended;
static int64_t passed_until;

/* A flow that waits for an approval from its start on. */
static struct flow held_flow(void)
{
    struct flow made = new_flow();
    made.template_key = SLICE("held_call");
    made.status = FLOW_WAITING;
    made.rev = 2;
    made.owner = (struct uuid){{0}};
    made.is_begun = false;
    made.waiting_for = FLOW_WAITS_APPROVAL;
    return made;
}

/* arg: the flow. */
static void start_held(struct pg_call *c)
{
    const struct flow_start begun = {
        .flow = c->arg,
        .input = SLICE("{\"a\":1}"),
        .actor = SLICE("me"),
        .waiting_input = SLICE("{\"title\":\"shown\"}"),
        .title = SLICE("A title"),
        .hold = &hold,
        .event = {.id = event_id, .step_key = SLICE("approval")},
    };
    store_flow_start(c->bench->pool, &c->query, &c->op, &begun);
}

static void start_find(struct pg_call *c)
{
    store_hold_find(c->bench->pool, &c->query, &c->op, account, hold.key);
}

static void start_scan(struct pg_call *c)
{
    store_holds_ended(c->bench->pool, &c->query, &c->op, passed_until);
}

static void start_removal(struct pg_call *c)
{
    store_hold_remove(c->bench->pool, &c->query, &c->op, &ended);
}

/* Starts the flow and returns the flow that has the key; nil: the account has too many. */
static struct uuid start(struct flow *wanted)
{
    struct hold now = {0};
    run(start_held, wanted);
    int status = store_hold_start_result(&calls[0].query, &now);
    assert_true(status == OK || status == ERR_NOTFOUND);
    if (status == OK) {
        assert_true(uuid_eq(now.account_id, account) && slice_eq(now.key, hold.key));
        assert_memory_equal(now.fingerprint, hold.fingerprint, sizeof(now.fingerprint));
    }
    pg_call_end(&calls[0]);
    return now.flow_id;
}

static int find(struct hold_found *found)
{
    run(start_find, NULL);
    int status = store_hold_find_result(&calls[0].query, found);
    pg_call_end(&calls[0]);
    return status;
}

static void tell(const char *sql, struct uuid id)
{
    char text[UUID_TEXT_LEN + 1];
    uuid_format(id, text);
    items_tellf(conninfo, "%s '%s'", sql, text);
}

static int64_t rows_of(const char *table)
{
    char id[UUID_TEXT_LEN + 1], sql[256];
    uuid_format(account, id);
    (void)snprintf(sql, sizeof(sql), "select count(*) from sluice.%s where account_id = '%s'",
                   table, id);
    return items_ask(conninfo, sql);
}

static void begin_account(void)
{
    account = uuid_v7();
    hold = (struct hold){.key = SLICE("k"), .asker = uuid_v7(), .lifetime_ms = LIFETIME_MS};
    hold.fingerprint[0] = 7;
}

static void test_a_key_has_one_flow(void **state)
{
    struct hold_found found;
    struct flow first = held_flow(), second;
    (void)state;
    begin_account();
    first.account_id = account;
    assert_int_equal(find(&found), ERR_NOTFOUND);
    for (int i = 0; i < 2; i++) { /* the second is a replay */
        calls[0].is_again = i > 0;
        assert_true(uuid_eq(start(&first), first.id));
    }
    calls[0].is_again = false;
    second = held_flow();
    assert_true(uuid_eq(start(&second), first.id));
    assert_int_equal(rows_of("flow"), 1);
    assert_int_equal(rows_of("flow_doc"), 1);
    assert_int_equal(find(&found), OK);
    assert_true(found.is_open && !found.has_record);
    assert_true(uuid_eq(found.hold.flow_id, first.id) && uuid_eq(found.hold.asker, hold.asker));
    assert_true(uuid_is_nil(found.hold.execution_id));
    assert_int_equal(found.hold.lifetime_ms, LIFETIME_MS);
    hold.key = SLICE("other");
    assert_true(uuid_eq(start(&second), second.id));
    assert_int_equal(rows_of("flow"), 2);
}

/* ---- in lists of what waits ---- */

static slice given;
static struct uuid shown; /* the flow whose page asks */

static void start_of_flow(struct pg_call *c)
{
    store_hold_of_flow(c->bench->pool, &c->query, &c->op, account, shown);
}
static void start_versions(struct pg_call *c)
{
    store_flow_waiting_versions(c->bench->pool, &c->query, &c->op, account);
}
static void start_counted(struct pg_call *c)
{
    store_flow_counted_versions(c->bench->pool, &c->query, &c->op, account, uuid_v7_floor(1));
}
static void start_inbox(struct pg_call *c)
{
    static struct flow_inbox_filter filter;
    filter = (struct flow_inbox_filter){.given = given, .payer_id = account, .count_max = 10};
    store_flow_inbox(c->bench->pool, &c->query, &c->op, account, &filter);
}
static void start_askers(struct pg_call *c)
{
    store_flow_askers(c->bench->pool, &c->query, &c->op, account, SLICE_NONE, given, account);
}
static void start_near(struct pg_call *c)
{
    store_flow_near(c->bench->pool, &c->query, &c->op, account, shown, given);
}

static size_t inbox_count(void)
{
    struct flow_inbox_row *list;
    size_t count;
    run(start_inbox, NULL);
    assert_int_equal(store_flow_inbox_result(&calls[0].query, &list, &count), OK);
    pg_call_end(&calls[0]);
    return count;
}

static size_t askers_count(void)
{
    struct flow_asker *list;
    size_t count;
    run(start_askers, NULL);
    assert_int_equal(store_flow_askers_result(&calls[0].query, &list, &count), OK);
    pg_call_end(&calls[0]);
    return count;
}

static size_t near_count(void)
{
    struct flow_near *list;
    size_t count;
    run(start_near, NULL);
    assert_int_equal(store_flow_near_result(&calls[0].query, &list, &count), OK);
    pg_call_end(&calls[0]);
    return count;
}

/* Flows of three versions; the first two wait alike. */
static void test_waiting_flows_by_the_version_of_their_template(void **state)
{
    static char text[UUID_TEXT_LEN + 3] = " ";
    struct flow flows[4];
    struct flow_version_count *list;
    size_t count;
    (void)state;
    begin_account();
    for (size_t i = 0; i < ARRAY_LEN(flows); i++) {
        char of[8];
        (void)snprintf(of, sizeof(of), "k%zu", i);
        flows[i] = held_flow();
        if (i == 1)
            flows[i].template_version = flows[0].template_version;
        hold.key = slice_cstr(of);
        assert_true(uuid_eq(start(&flows[i]), flows[i].id));
    }
    run(start_versions, NULL);
    assert_int_equal(store_flow_waiting_versions_result(&calls[0].query, &list, &count), OK);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(list[i].count,
                         uuid_eq(list[i].version, flows[0].template_version) ? 2 : 1);
    pg_call_end(&calls[0]);
    run(start_counted, NULL);
    assert_int_equal(store_flow_waiting_versions_result(&calls[0].query, &list, &count), OK);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(list[i].waiting,
                         uuid_eq(list[i].version, flows[0].template_version) ? 2 : 1);
        assert_int_equal(list[i].running + list[i].completed + list[i].failed + list[i].count, 0);
    }
    pg_call_end(&calls[0]);
    uuid_format(flows[0].template_version, text + 1);
    text[UUID_TEXT_LEN + 1] = ' ';
    static const struct {
        slice given;
        size_t inbox, near, askers;
    } cases[] = {{SLICE_INIT(""), 0, 0, 0}, {{0}, 4, 2, 1}, {{text, sizeof(text) - 1}, 2, 1, 1}};
    shown = flows[0].id;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        given = cases[i].given;
        assert_int_equal(inbox_count(), cases[i].inbox);
        assert_int_equal(near_count(), cases[i].near);
        assert_int_equal(askers_count(), cases[i].askers);
    }
}

static void test_the_hold_of_a_flow(void **state)
{
    struct flow first = held_flow();
    struct hold_of_flow found;
    (void)state;
    begin_account();
    first.account_id = account;
    assert_true(uuid_eq(start(&first), first.id));
    shown = uuid_v7();
    run(start_of_flow, NULL);
    assert_int_equal(store_hold_of_flow_result(&calls[0].query, &found), ERR_NOTFOUND);
    pg_call_end(&calls[0]);
    shown = first.id;
    tell("update sluice.hold set execution_id = flow_id where flow_id =", shown);
    run(start_of_flow, NULL);
    assert_int_equal(store_hold_of_flow_result(&calls[0].query, &found), OK);
    assert_true(uuid_eq(found.execution_id, shown) && !found.has_record);
    pg_call_end(&calls[0]);
}

/* Two processes do this at the same moment. */
static void test_requests_at_the_same_time_get_one_flow(void **state)
{
    static struct flow racers[40];
    struct pg_bench second;
    struct pg_pool_config config = {
        .conninfo = conninfo, .queue_timeout_ms = 30000, .lock_timeout_ms = 30000};
    struct hold now, before = {0};
    size_t made = 0;
    (void)state;
    begin_account();
    pg_bench_open(&second, &config, true);
    for (size_t i = 0; i < ARRAY_LEN(racers); i++) {
        racers[i] = held_flow();
        pg_call_start(i % 2 ? &bench : &second, &calls[i], start_held, &racers[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(racers); i++) {
        while (!calls[i].is_done) {
            (void)loop_turn(bench.loop, false);
            (void)loop_turn(second.loop, false);
        }
        assert_int_equal(store_hold_start_result(&calls[i].query, &now), OK);
        made += uuid_eq(now.flow_id, racers[i].id);
        assert_true(i == 0 || uuid_eq(now.flow_id, before.flow_id));
        before = now;
    }
    pg_calls_end(calls, ARRAY_LEN(racers));
    pg_bench_close(&second);
    assert_int_equal(made, 1);
    assert_int_equal(rows_of("flow"), 1);
}

/* A hold is kept for its lifetime after the end of its flow, and no longer than its flow. */
static void test_a_key_is_free_after_the_lifetime(void **state)
{
    struct hold_found found;
    struct flow first = held_flow(), second, third;
    (void)state;
    begin_account();
    first.account_id = account;
    assert_true(uuid_eq(start(&first), first.id));
    tell("update sluice.hold set execution_id = flow_id where flow_id =", first.id);
    tell("update sluice.flow set status = 'cancelled', waiting_for = null, "
         "updated_at = now() - interval '50 s' where id =",
         first.id);
    second = held_flow();
    assert_true(uuid_eq(start(&second), first.id));
    assert_int_equal(find(&found), OK);
    assert_true(!found.is_open && uuid_eq(found.hold.execution_id, first.id));
    tell("update sluice.flow set updated_at = now() - interval '70 s' where id =", first.id);
    assert_int_equal(find(&found), ERR_NOTFOUND);
    assert_true(uuid_eq(start(&second), second.id));
    assert_int_equal(find(&found), OK);
    assert_true(found.is_open && uuid_is_nil(found.hold.execution_id));
    tell("delete from sluice.flow where id =", second.id);
    assert_int_equal(find(&found), ERR_NOTFOUND);
    third = held_flow();
    assert_true(uuid_eq(start(&third), third.id));
}

static void test_an_account_has_so_many(void **state)
{
    struct flow first = held_flow(), second;
    (void)state;
    begin_account();
    first.account_id = account;
    assert_true(uuid_eq(start(&first), first.id));
    tell("insert into sluice.flow select f.account_id, gen_random_uuid(), f.template_key, "
         "f.template_version, f.trigger_type, f.status, f.rev, f.op_token, f.owner, f.step_index, "
         "f.attempt, f.is_begun, f.adoptions, f.waiting_for, f.wake_at, f.deadline, f.created_at, "
         "f.updated_at, f.completed_at from sluice.flow f, generate_series(1, 9999) where f.id =",
         first.id);
    hold.key = SLICE("one too many");
    second = held_flow();
    assert_true(uuid_is_nil(start(&second)));
    assert_int_equal(rows_of("hold"), 1);
    hold.key = SLICE("k"); /* the hold of a key is found anyway */
    assert_true(uuid_eq(start(&second), first.id));
    tell("update sluice.flow set status = 'cancelled', waiting_for = null where id =", first.id);
    hold.key = SLICE("one too many");
    assert_true(uuid_eq(start(&second), second.id));
}

static size_t scan(void)
{
    struct hold_ended *list;
    size_t count, ours = 0;
    run(start_scan, NULL);
    assert_int_equal(store_holds_ended_result(&calls[0].query, &list, &count), OK);
    passed_until = 0;
    for (size_t i = 0; i < count; i++)
        if (list[i].passed_until != 0) {
            assert_int_equal(i, count - 1);
            passed_until = list[i].passed_until;
        } else if (uuid_eq(list[i].account_id, account)) {
            ended = list[i];
            ended.key = hold.key;
            ours++;
        }
    pg_call_end(&calls[0]);
    return ours;
}

/* Between scan and removal another request may take the key. */
static void test_what_has_ended_is_removed(void **state)
{
    struct flow first = held_flow(), second;
    (void)state;
    begin_account();
    first.account_id = account;
    assert_true(uuid_eq(start(&first), first.id));
    assert_int_equal(scan(), 0);
    tell("update sluice.flow set status = 'cancelled', waiting_for = null, "
         "updated_at = now() - interval '70 s' where id =",
         first.id);
    assert_int_equal(scan(), 1);
    second = held_flow();
    assert_true(uuid_eq(start(&second), second.id));
    run(start_removal, NULL);
    pg_call_end(&calls[0]);
    assert_int_equal(rows_of("hold"), 1);
    assert_int_equal(scan(), 0);
    tell("delete from sluice.flow where id =", second.id);
    assert_int_equal(scan(), 1);
    run(start_removal, NULL);
    pg_call_end(&calls[0]);
    assert_int_equal(rows_of("hold"), 0);
}

/* As with any start: the statement writes its event, if it has made the flow. */
static void test_its_event_is_made_with_it(void **state)
{
    struct flow first, second;
    char id[UUID_TEXT_LEN + 1];
    (void)state;
    begin_account();
    uuid_format(account, id);
    items_tellf(conninfo,
                "insert into sluice.webhook (account_id, id, url, description, sealed, key_id, "
                "failures, rev, created_at) values ('%s', '%s', 'u', '', '', 'k', 0, 1, now())",
                id, id);
    first = held_flow();
    second = held_flow();
    event_id = uuid_v7();
    assert_true(uuid_eq(start(&first), first.id));
    event_id = uuid_v7();
    assert_true(uuid_eq(start(&second), first.id));
    event_id = (struct uuid){{0}};
    assert_int_equal(rows_of("delivery"), 1);
}

/* However many wait, those made after them are found. */
static void test_open_holds_hide_none(void **state)
{
    struct flow first, second;
    (void)state;
    begin_account();
    first = held_flow();
    assert_true(uuid_eq(start(&first), first.id));
    tell("insert into sluice.hold select h.account_id, 'older ' || n, h.flow_id, h.fingerprint, "
         "h.asker, null, h.lifetime_ms, now() - interval '9 d' + n * interval '1 ms' from "
         "sluice.hold h, generate_series(1, 10050) n where h.flow_id =",
         first.id);
    hold.key = SLICE("over");
    second = held_flow();
    assert_true(uuid_eq(start(&second), second.id));
    tell("delete from sluice.flow where id =", second.id);
    passed_until = 0;
    assert_int_equal(scan(), 0);
    assert_true(passed_until != 0);
    assert_int_equal(scan(), 1);
    assert_int_equal(passed_until, 0);
    tell("delete from sluice.hold where flow_id =", first.id);
    tell("delete from sluice.hold where flow_id =", second.id);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_key_has_one_flow),
    cmocka_unit_test(test_its_event_is_made_with_it),
    cmocka_unit_test(test_requests_at_the_same_time_get_one_flow),
    cmocka_unit_test(test_a_key_is_free_after_the_lifetime),
    cmocka_unit_test(test_an_account_has_so_many),
    cmocka_unit_test(test_what_has_ended_is_removed),
    cmocka_unit_test(test_open_holds_hide_none),
    cmocka_unit_test(test_waiting_flows_by_the_version_of_their_template),
    cmocka_unit_test(test_the_hold_of_a_flow),
};

int main(void)
{
    tests_begin();
    int failed = cmocka_run_group_tests_name("set", tests, open_set, close_bench);
    failed += cmocka_run_group_tests_name("pipe", tests, open_pipe, close_bench);
    return tests_end(failed);
}
