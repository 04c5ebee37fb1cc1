/* Flows: every transition is fenced, harmless to repeat, and says who lost. In both batch modes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "store/flow.h"
#include "store/node.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"

enum { CALLS_MAX = 64, SECOND_US = 1000000 };

static const char *conninfo;
static struct pg_bench bench;
static struct pg_call *calls;
static struct uuid account, node, other;

/* What the call at hand is about. */
static struct flow flow, got;
static struct flow_step step;
static struct flow_move move;
static struct flow_take take;
static struct flow_item item;
static struct flow_reject reject;
static struct uuid token, was_owned_by;
static int64_t due_until;

static void start_start(struct pg_call *c)
{
    struct flow_start begun = {
        .flow = &flow,
        .input = SLICE("{\"a\":1}"),
        .actor = SLICE("me"),
        .waiting_input = flow.status == FLOW_WAITING ? SLICE("{\"title\":\"shown\"}") : SLICE_NONE,
    };
    store_flow_start(c->bench->pool, &c->query, &c->op, &begun);
}
static void start_move(struct pg_call *c)
{
    store_flow_move(c->bench->pool, &c->query, &c->op, c->arg ? c->arg : &move);
}
static void start_take(struct pg_call *c)
{
    store_flow_take(c->bench->pool, &c->query, &c->op, c->arg ? c->arg : &take);
}
static void start_cancel(struct pg_call *c)
{
    store_flow_cancel(c->bench->pool, &c->query, &c->op, account, flow.id, token, clock_wall_us());
}
static void start_reject(struct pg_call *c)
{
    store_flow_reject(c->bench->pool, &c->query, &c->op, &reject);
}
static void start_item(struct pg_call *c)
{
    store_flow_item_insert(c->bench->pool, &c->query, &c->op, c->arg ? c->arg : &item, node,
                           flow.rev);
}
static void start_due(struct pg_call *c)
{
    store_flow_due(c->bench->pool, &c->query, &c->op, due_until, 0, (struct uuid){{0}});
}
static void start_orphans(struct pg_call *c)
{
    store_flow_orphans(c->bench->pool, &c->query, &c->op);
}
static void start_owned(struct pg_call *c)
{
    store_flow_owned(c->bench->pool, &c->query, &c->op, node, clock_wall_us() + SECOND_US);
}
static void start_register(struct pg_call *c)
{
    store_node_register(c->bench->pool, &c->query, &c->op, c->arg ? other : node, SLICE("test"));
}
static void start_leave(struct pg_call *c)
{
    store_node_leave(c->bench->pool, &c->query, &c->op, node);
}
static void start_ended(struct pg_call *c)
{
    store_flow_ended(c->bench->pool, &c->query, &c->op, due_until);
}
static void start_remove(struct pg_call *c)
{
    struct flow_ref ref = {.account_id = account, .id = flow.id};
    store_flow_remove(c->bench->pool, &c->query, &c->op, &ref, due_until);
}

static void run(void (*start)(struct pg_call *c), void *arg)
{
    int status = pg_call_run(&bench, &calls[0], start, arg);
    if (status != OK)
        print_error("%s: %.*s\n", calls[0].query.stmt->name, SLICE_ARG(calls[0].query.message));
    assert_int_equal(status, OK);
}

static int moved(void)
{
    run(start_move, NULL);
    int status = store_flow_move_result(&calls[0].query);
    pg_call_end(&calls[0]);
    return status;
}

/* The same once more, known to be a replay. */
static int moved_again(void)
{
    calls[0].is_again = true;
    int status = moved();
    calls[0].is_again = false;
    return status;
}

static int taken(enum flow_take_kind kind)
{
    take.kind = kind;
    take.account_id = account;
    take.id = flow.id;
    take.now = clock_wall_us();
    run(start_take, NULL);
    int status = store_flow_take_result(&calls[0].query, &got);
    pg_call_end(&calls[0]);
    return status;
}

static struct flow new_flow(void)
{
    int64_t now = clock_wall_us();
    return (struct flow){.account_id = account,
                         .id = uuid_v7(),
                         .template_key = SLICE("t"),
                         .template_version = uuid_v7(),
                         .trigger_type = SLICE("manual"),
                         .status = FLOW_RUNNING,
                         .rev = 1,
                         .owner = node,
                         .attempt = 1,
                         .is_begun = true,
                         .created_at = now,
                         .updated_at = now};
}

/* A running flow of ours, its first step begun. */
static void begin(void)
{
    flow = new_flow();
    take = (struct flow_take){.owner = node, .op_token = uuid_v7(), .step_index = -1};
    run(start_start, NULL);
    pg_call_end(&calls[0]);
}

/* The next transition: the current attempt has ended. */
static void finish_into(enum flow_status status)
{
    step =
        (struct flow_step){.step_index = flow.step_index,
                           .attempt = flow.attempt,
                           .is_completed = status != FLOW_FAILED,
                           .started_at = flow.created_at,
                           .finished_at = clock_wall_us(),
                           .input = SLICE("{}"),
                           .output = status != FLOW_FAILED ? SLICE("[\"\\u0000\"]") : SLICE_NONE,
                           .error = status == FLOW_FAILED ? SLICE("{\"code\":\"x\"}") : SLICE_NONE};
    flow.rev++;
    flow.status = status;
    flow.step_index += status != FLOW_FAILED;
    flow.updated_at = clock_wall_us();
    move =
        (struct flow_move){.next = &flow, .owner = node, .op_token = uuid_v7(), .finished = &step};
}

static void park(enum flow_waiting why, int64_t wake_at)
{
    finish_into(FLOW_WAITING);
    flow.waiting_for = why;
    flow.wake_at = wake_at;
    flow.is_begun = false;
    move.waiting_input = SLICE("{\"title\":\"shown\"}");
    assert_int_equal(moved(), OK);
}

/* Its pause is over: the next step is begun, or it ends. */
static void wake_into(enum flow_status status)
{
    finish_into(status);
    flow.waiting_for = FLOW_WAITS_NOT;
    flow.is_begun = status == FLOW_RUNNING;
    flow.attempt = 1;
    move.is_wake = true;
}

/* Rows about this flow that meet a condition. */
static int64_t count(const char *table, const char *condition)
{
    char sql[512], id[UUID_TEXT_LEN + 1];
    uuid_format(flow.id, id);
    snprintf(sql, sizeof(sql), "select count(*) from sluice.%s where %s = '%s' and (%s)", table,
             strcmp(table, "flow") == 0 ? "id" : "flow_id", id, condition);
    return items_ask(conninfo, sql);
}

/* ---- tests ---- */

/* A start that goes as far as it can by itself: one statement, taken up as any parked flow is. */
static void test_a_start_may_be_parked(void **state)
{
    (void)state;
    begin(); /* take */
    flow = new_flow();
    flow.status = FLOW_WAITING;
    flow.rev = 2;
    flow.owner = (struct uuid){{0}};
    flow.is_begun = false;
    flow.waiting_for = FLOW_WAITS_TIME;
    flow.wake_at = flow.created_at - SECOND_US;
    for (int i = 0; i < 2; i++) { /* the second is a replay */
        calls[0].is_again = i > 0;
        run(start_start, NULL);
        pg_call_end(&calls[0]);
    }
    assert_int_equal(count("flow",
                           "status = 'waiting' and owner is null and rev = 2 and attempt = 1 "
                           "and waiting_for = 'time' and completed_at is null"),
                     1);
    assert_int_equal(count("flow_doc", "waiting_input ->> 'title' = 'shown'"), 1);
    assert_int_equal(taken(FLOW_TAKE_RESUME), OK);
    run(start_start, NULL); /* a replay that comes late changes nothing */
    pg_call_end(&calls[0]);
    calls[0].is_again = false;
    assert_int_equal(count("flow", "status = 'running' and rev = 3"), 1);
}

static void test_a_start_may_be_all(void **state)
{
    (void)state;
    flow = new_flow();
    flow.status = FLOW_COMPLETED;
    flow.rev = 2;
    flow.owner = (struct uuid){{0}};
    flow.attempt = 0;
    flow.is_begun = false;
    flow.completed_at = flow.updated_at;
    run(start_start, NULL);
    pg_call_end(&calls[0]);
    assert_int_equal(count("flow", "status = 'completed' and completed_at = updated_at"), 1);
    assert_int_equal(count("flow_doc", "waiting_input is null"), 1);
}

static void test_moves_are_fenced_and_replayable(void **state)
{
    (void)state;
    begin();
    finish_into(FLOW_RUNNING);
    assert_int_equal(moved(), OK);
    assert_int_equal(moved(), ERR_NOTFOUND);
    assert_int_equal(moved_again(), OK);
    assert_int_equal(count("flow_step", "status = 'completed'"), 1);
    move.op_token = uuid_v7();
    assert_int_equal(moved(), ERR_NOTFOUND); /* rev has passed */
    finish_into(FLOW_RUNNING);
    move.owner = other;
    assert_int_equal(moved(), ERR_NOTFOUND);
    move.owner = node;
    assert_int_equal(moved(), OK);
    finish_into(FLOW_COMPLETED);
    assert_int_equal(moved(), OK);
    assert_int_equal(
        count("flow", "owner is null and completed_at = updated_at and status = 'completed'"), 1);
    finish_into(FLOW_RUNNING);
    assert_int_equal(moved(), ERR_NOTFOUND);
}

/* A HOT update leaves the index entry where it was; so said by the server's own counters. */
static void test_running_to_running_is_hot(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 500; i++) {
        finish_into(FLOW_RUNNING);
        assert_int_equal(moved(), OK);
    }
    bool is_hot = false;
    for (int tries = 0; tries < 100 && !is_hot; tries++) {
        is_hot = items_ask(conninfo, "select count(*) from pg_stat_user_tables "
                                     "where relname = 'flow' and n_tup_upd >= 500 "
                                     "and n_tup_hot_upd > 0.95 * n_tup_upd") == 1;
        items_tell(conninfo, "select pg_sleep(0.1)");
    }
    assert_true(is_hot);
}

static void test_due(void **state)
{
    (void)state;
    begin();
    park(FLOW_WAITS_TIME, clock_wall_us() + 3600LL * SECOND_US);
    assert_int_equal(taken(FLOW_TAKE_RESUME), ERR_NOTFOUND);
    wake_into(FLOW_RUNNING);
    assert_int_equal(moved(), ERR_NOTFOUND);
    begin();
    park(FLOW_WAITS_TIME, clock_wall_us() - SECOND_US);
    due_until = clock_wall_us();
    run(start_due, NULL);
    struct flow_ref *refs;
    size_t n;
    bool is_found = false;
    assert_int_equal(store_flow_scan_result(&calls[0].query, &refs, &n), OK);
    for (size_t i = 0; i < n; i++)
        is_found = is_found || (uuid_eq(refs[i].id, flow.id) && refs[i].rev == flow.rev);
    assert_true(is_found);
    pg_call_end(&calls[0]);
    flow.rev++;
    wake_into(FLOW_RUNNING);
    assert_int_equal(moved(), ERR_NOTFOUND); /* another rev */
    flow.rev -= 2;
    flow.step_index--;
    wake_into(FLOW_RUNNING);
    move.owner = other;
    assert_int_equal(moved(), OK);
    assert_int_equal(moved_again(), OK);
    move.op_token = uuid_v7();
    assert_int_equal(moved(), ERR_NOTFOUND);
    char condition[256], id[UUID_TEXT_LEN + 1];
    uuid_format(other, id);
    (void)snprintf(condition, sizeof(condition),
                   "status = 'running' and owner = '%s' and is_begun and waiting_for is null", id);
    assert_int_equal(count("flow", condition), 1);
    assert_int_equal(count("flow_step", "step_index = 1 and status = 'completed'"), 1);
}

static void test_due_into_an_end_and_another_pause(void **state)
{
    (void)state;
    begin();
    park(FLOW_WAITS_TIME, clock_wall_us() - SECOND_US);
    wake_into(FLOW_WAITING);
    flow.waiting_for = FLOW_WAITS_RETRY;
    flow.wake_at = clock_wall_us() - SECOND_US;
    flow.is_begun = false;
    move.waiting_input = SLICE("{\"title\":\"again\"}");
    assert_int_equal(moved(), OK);
    assert_int_equal(moved_again(), OK);
    assert_int_equal(count("flow", "status = 'waiting' and waiting_for = 'retry'"), 1);
    assert_int_equal(count("flow_doc", "waiting_input->>'title' = 'again'"), 1);
    wake_into(FLOW_COMPLETED);
    assert_int_equal(moved(), OK);
    assert_int_equal(count("flow", "status = 'completed' and owner is null and rev = 4"), 1);
    assert_int_equal(count("flow_step", "true"), 3);
}

static void test_fifty_wake_one_due_flow(void **state)
{
    (void)state;
    static struct flow_move moves[50];
    begin();
    park(FLOW_WAITS_TIME, clock_wall_us() - SECOND_US);
    wake_into(FLOW_RUNNING);
    size_t won = 0;
    for (size_t i = 0; i < ARRAY_LEN(moves); i++) {
        moves[i] = move;
        moves[i].op_token = uuid_v7();
        pg_call_start(&bench, &calls[i], start_move, &moves[i]);
    }
    pg_calls_wait(&bench, calls, ARRAY_LEN(moves));
    for (size_t i = 0; i < ARRAY_LEN(moves); i++)
        won += store_flow_move_result(&calls[i].query) == OK;
    pg_calls_end(calls, ARRAY_LEN(moves));
    assert_int_equal(won, 1);
    assert_int_equal(count("flow_step", "step_index = 1"), 1);
}

static void test_approval(void **state)
{
    (void)state;
    begin();
    park(FLOW_WAITS_APPROVAL, 0);
    assert_int_equal(taken(FLOW_TAKE_RESUME), ERR_NOTFOUND);
    take.output = SLICE("{\"approvedBy\":\"me\"}");
    take.step_index = flow.step_index + 1;
    assert_int_equal(taken(FLOW_TAKE_APPROVE), ERR_NOTFOUND);
    take.step_index = flow.step_index;
    assert_int_equal(taken(FLOW_TAKE_APPROVE), OK);
    assert_int_equal(got.step_index, flow.step_index);
    assert_int_equal(taken(FLOW_TAKE_APPROVE), OK); /* a replay */
    assert_int_equal(count("flow_step", "step_index = 1 and status = 'completed' and "
                                        "input->>'title' = 'shown' and started_at <= finished_at "
                                        "and output->>'approvedBy' = 'me'"),
                     1);
    take.op_token = uuid_v7();
    assert_int_equal(taken(FLOW_TAKE_APPROVE), ERR_NOTFOUND); /* a second one */

    begin(); /* expired */
    park(FLOW_WAITS_APPROVAL, clock_wall_us() - SECOND_US);
    take.output = SLICE("{}");
    assert_int_equal(taken(FLOW_TAKE_APPROVE), ERR_NOTFOUND);
    wake_into(FLOW_FAILED);
    assert_int_equal(moved(), OK);
}

static void test_reject(void **state)
{
    (void)state;
    begin();
    park(FLOW_WAITS_APPROVAL, 0);
    reject = (struct flow_reject){.account_id = account,
                                  .id = flow.id,
                                  .op_token = uuid_v7(),
                                  .step_index = -1,
                                  .now = clock_wall_us(),
                                  .error = SLICE("{\"code\":\"policy_blocked\"}")};
    for (int i = 0; i < 2; i++) {
        run(start_reject, NULL);
        assert_int_equal(store_flow_take_result(&calls[0].query, &got), OK);
        assert_int_equal(got.status, FLOW_CANCELLED);
        pg_call_end(&calls[0]);
    }
    assert_int_equal(count("flow_step", "status = 'failed' and error is not null"), 1);
    take.output = SLICE("{}");
    assert_int_equal(taken(FLOW_TAKE_APPROVE), ERR_NOTFOUND);
}

static void test_cancel(void **state)
{
    (void)state;
    begin();
    token = uuid_v7();
    run(start_cancel, NULL);
    assert_int_equal(store_flow_cancel_result(&calls[0].query, &got, &was_owned_by), OK);
    assert_int_equal(got.status, FLOW_CANCELLED);
    assert_true(uuid_eq(was_owned_by, node));
    int64_t rev = got.rev;
    pg_call_end(&calls[0]);
    token = uuid_v7();
    run(start_cancel, NULL);
    assert_int_equal(store_flow_cancel_result(&calls[0].query, &got, &was_owned_by), OK);
    assert_int_equal(got.rev, rev); /* of a cancelled one nothing changes */
    pg_call_end(&calls[0]);
    finish_into(FLOW_RUNNING);
    assert_int_equal(moved(), ERR_NOTFOUND);
    assert_int_equal(taken(FLOW_TAKE_RESUME), ERR_NOTFOUND);
    flow.id = uuid_v7();
    run(start_cancel, NULL);
    assert_int_equal(store_flow_cancel_result(&calls[0].query, &got, &was_owned_by), ERR_NOTFOUND);
    pg_call_end(&calls[0]);
}

static void test_resume_of_a_failed_one(void **state)
{
    (void)state;
    begin();
    flow.adoptions = 4;
    finish_into(FLOW_FAILED);
    assert_int_equal(moved(), OK);
    assert_int_equal(count("flow_step", "status = 'failed'"), 1);
    assert_int_equal(taken(FLOW_TAKE_RESUME), OK);
    assert_int_equal(got.adoptions, 0);
    assert_false(got.is_begun);
    assert_int_equal(got.attempt, 1);
}

static size_t orphans_of(struct uuid owner)
{
    struct flow_ref *refs;
    size_t n, ours = 0;
    run(start_orphans, NULL);
    assert_int_equal(store_flow_scan_result(&calls[0].query, &refs, &n), OK);
    for (size_t i = 0; i < n; i++)
        ours += uuid_eq(refs[i].owner, owner) && uuid_eq(refs[i].id, flow.id);
    pg_call_end(&calls[0]);
    return ours;
}

static void test_adoption(void **state)
{
    (void)state;
    node = uuid_v7();
    run(start_register, NULL);
    pg_call_end(&calls[0]);
    begin();
    assert_int_equal(orphans_of(node), 0);
    char id[UUID_TEXT_LEN + 1], sql[256];
    uuid_format(node, id);
    snprintf(sql, sizeof(sql), "update sluice.node set lease_until = now() where node_id = '%s'",
             id);
    items_tell(conninfo, sql);
    assert_int_equal(orphans_of(node), 1);
    take.dead_owner = node;
    take.owner = other;
    assert_int_equal(taken(FLOW_TAKE_ADOPT), OK);
    assert_int_equal(got.adoptions, 1);
    assert_true(got.is_begun);
    assert_int_equal(taken(FLOW_TAKE_ADOPT), OK); /* a replay */
    finish_into(FLOW_RUNNING);
    assert_int_equal(moved(), ERR_NOTFOUND); /* the zombie */

    begin(); /* one that had left cleanly */
    run(start_leave, NULL);
    pg_call_end(&calls[0]);
    assert_int_equal(orphans_of(node), 1);
    take.dead_owner = node;
    take.owner = other;
    assert_int_equal(taken(FLOW_TAKE_ADOPT), OK);
    assert_int_equal(got.adoptions, 0);

    begin();
    struct flow_ref *refs;
    size_t n;
    run(start_owned, NULL);
    assert_int_equal(store_flow_scan_result(&calls[0].query, &refs, &n), OK);
    assert_int_equal(n, 1);
    pg_call_end(&calls[0]);
}

static void test_items_share_a_commit_and_are_fenced(void **state)
{
    (void)state;
    static struct flow_item items[20];
    begin();
    for (size_t i = 0; i < ARRAY_LEN(items); i++) {
        items[i] = (struct flow_item){.account_id = account,
                                      .flow_id = flow.id,
                                      .item = (int64_t)i,
                                      .attempt = 1,
                                      .fact = i % 2 ? FLOW_ITEM_COMPLETED : FLOW_ITEM_BEGUN,
                                      .at = clock_wall_us(),
                                      .output = i % 2 ? SLICE("1") : SLICE_NONE};
        pg_call_start(&bench, &calls[i], start_item, &items[i]);
    }
    pg_calls_wait(&bench, calls, ARRAY_LEN(items));
    for (size_t i = 0; i < ARRAY_LEN(items); i++)
        assert_int_equal(store_flow_item_insert_result(&calls[i].query), OK);
    pg_calls_end(calls, ARRAY_LEN(items));
    assert_int_equal(count("flow_item", "true"), 20);
    char sql[256], id[UUID_TEXT_LEN + 1];
    uuid_format(flow.id, id);
    snprintf(sql, sizeof(sql),
             "select count(distinct xmin::text) from sluice.flow_item where flow_id = '%s'", id);
    assert_true(items_ask(conninfo, sql) <= 4); /* by two writers, two batches each at most */
    item = items[0];
    run(start_item, NULL);
    assert_int_equal(store_flow_item_insert_result(&calls[0].query), OK); /* a replay */
    pg_call_end(&calls[0]);
    flow.rev++;
    run(start_item, NULL);
    assert_int_equal(store_flow_item_insert_result(&calls[0].query), ERR_NOTFOUND);
    pg_call_end(&calls[0]);
}

static void test_retention(void **state)
{
    (void)state;
    begin();
    finish_into(FLOW_COMPLETED);
    assert_int_equal(moved(), OK);
    due_until = flow.created_at - SECOND_US;
    run(start_remove, NULL);
    pg_call_end(&calls[0]);
    assert_int_equal(count("flow", "true"), 1);
    due_until = clock_wall_us() + 10 * SECOND_US;
    run(start_ended, NULL);
    struct flow_ref *refs;
    size_t n;
    assert_int_equal(store_flow_ended_result(&calls[0].query, &refs, &n), OK);
    assert_true(n > 0);
    pg_call_end(&calls[0]);
    run(start_remove, NULL);
    pg_call_end(&calls[0]);
    assert_int_equal(count("flow", "true"), 0);
}

/* ---- */

static int open_in(enum pg_mode mode)
{
    struct pg_pool_config config = {.conninfo = conninfo, .mode = mode};
    account = uuid_v7();
    node = uuid_v7();
    other = uuid_v7();
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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_start_may_be_parked),
    cmocka_unit_test(test_a_start_may_be_all),
    cmocka_unit_test(test_moves_are_fenced_and_replayable),
    cmocka_unit_test(test_running_to_running_is_hot),
    cmocka_unit_test(test_due),
    cmocka_unit_test(test_due_into_an_end_and_another_pause),
    cmocka_unit_test(test_fifty_wake_one_due_flow),
    cmocka_unit_test(test_approval),
    cmocka_unit_test(test_reject),
    cmocka_unit_test(test_cancel),
    cmocka_unit_test(test_resume_of_a_failed_one),
    cmocka_unit_test(test_adoption),
    cmocka_unit_test(test_items_share_a_commit_and_are_fenced),
    cmocka_unit_test(test_retention),
};

int main(void)
{
    conninfo = pg_cluster_database(true);
    calls = mem_calloc(CALLS_MAX, sizeof(*calls));
    int failed = cmocka_run_group_tests_name("set", tests, open_set, close_it);
    failed += cmocka_run_group_tests_name("pipe", tests, open_pipe, close_it);
    mem_free(calls);
    metric_deinit();
    return failed ? failed : mem_live_blocks() != 0;
}
