/* Flows: every transition is fenced, can be repeated without harm, and reports what it lost to.
 * In both batch modes. */
#include "flow_test.h"
#include "store/due.h"

static struct flow_item item;
static int64_t due_until;

static void start_item(struct pg_call *c)
{
    store_flow_item_insert(c->bench->pool, &c->query, &c->op, c->arg ? c->arg : &item, node,
                           flow.rev);
}

static void start_due(struct pg_call *c)
{
    const struct due_page page = {.until = due_until, .with_flows = true};
    store_due_scan(c->bench->pool, &c->query, &c->op, &page);
}

static void start_waiting(struct pg_call *c)
{
    store_flow_waiting(c->bench->pool, &c->query, &c->op);
}

static size_t waiting(void)
{
    size_t count;
    run(start_waiting, NULL);
    assert_int_equal(store_flow_waiting_result(&calls[0].query, &count), OK);
    pg_call_end(&calls[0]);
    return count;
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

/* A start that runs as far as possible without a wait: one statement. The flow is then taken
 * like any parked flow. */
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
        assert_int_equal(store_flow_start_result(&calls[0].query), OK);
        pg_call_end(&calls[0]);
    }
    assert_int_equal(count("flow",
                           "status = 'waiting' and owner is null and rev = 2 and attempt = 1 "
                           "and waiting_for = 'time' and completed_at is null"),
                     1);
    assert_int_equal(count("flow_doc", "waiting_input ->> 'title' = 'shown'"), 1);
    assert_int_equal(taken(FLOW_TAKE_RESUME), OK);
    run(start_start, NULL); /* a late replay changes nothing */
    pg_call_end(&calls[0]);
    calls[0].is_again = false;
    assert_int_equal(count("flow", "status = 'running' and rev = 3"), 1);
}

/* A caller gives an id and sends the start twice, to two nodes: only one of the nodes may run the
 * flow. */
static void test_a_start_of_another_is_not_ours(void **state)
{
    (void)state;
    flow = new_flow();
    run(start_start, NULL);
    assert_int_equal(store_flow_start_result(&calls[0].query), OK);
    pg_call_end(&calls[0]);
    flow.owner = other;
    flow.created_at += 1;
    calls[0].is_again = true;
    run(start_start, NULL);
    calls[0].is_again = false;
    assert_int_equal(store_flow_start_result(&calls[0].query), ERR_INVALID);
    pg_call_end(&calls[0]);
    assert_int_equal(count("flow", "rev = 1 and owner is not null"), 1);
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

static void start_loading(struct pg_call *c)
{
    store_flow_load(c->bench->pool, &c->query, &c->op, account, flow.id, c->arg != NULL);
}

/* With and without a trace or a title, each sent twice: the load returns the values of the first
 * sending. */
static void test_a_start_keeps_its_trace_and_title(void **state)
{
    static const char *const traces[] = {
        NULL, NULL, "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
        "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01 a=1,b=2"};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof(traces) / sizeof(*traces); i++) {
        struct flow_whole whole;
        trace = traces[i / 2] ? slice_cstr(traces[i / 2]) : SLICE_NONE;
        title = i / 2 % 2 ? SLICE("Digest of unread mails to #sales") : SLICE_NONE;
        if (i % 2 == 0)
            flow = new_flow();
        calls[0].is_again = i % 2 > 0;
        run(start_start, NULL);
        assert_int_equal(store_flow_start_result(&calls[0].query), OK);
        pg_call_end(&calls[0]);
        calls[0].is_again = false;
        run(start_loading, i % 2 ? &bench : NULL);
        assert_int_equal(store_flow_load_result(&calls[0].query, &whole), OK);
        assert_true(slice_eq(whole.trace, trace));
        assert_int_equal(whole.trace.ptr != NULL, trace.ptr != NULL);
        assert_true(slice_eq(whole.title, title));
        assert_int_equal(whole.title.ptr != NULL, title.ptr != NULL);
        assert_int_equal(whole.step_count, 0);
        pg_call_end(&calls[0]);
    }
    trace = title = SLICE_NONE;
}

static struct claim_outcome key_outcome(const struct pg_call *call)
{
    struct claim_outcome outcome;
    assert_int_equal(store_claim_result(&call->query, &outcome), OK);
    return outcome;
}

static int64_t count_keyed(const char *table, const char *condition)
{
    char sql[512], id[UUID_TEXT_LEN + 1];
    uuid_format(account, id);
    (void)snprintf(sql, sizeof(sql),
                   "select count(*) from sluice.%s where account_id = '%s' and (%s)", table, id,
                   condition);
    return items_ask(conninfo, sql);
}

static const char keyed[] = "template_key = 'keyed'";

/* Two processes do this at the same moment. */
static void test_starts_with_one_key_make_one_flow(void **state)
{
    static struct flow racers[40];
    struct pg_bench second;
    struct pg_pool_config config = {
        .conninfo = conninfo, .queue_timeout_ms = 30000, .lock_timeout_ms = 30000};
    struct uuid winner = {{0}};
    size_t won = 0;
    (void)state;
    pg_bench_open(&second, &config, true);
    key = SLICE("race");
    title = SLICE("A title");
    for (size_t i = 0; i < ARRAY_LEN(racers); i++) {
        racers[i] = new_flow();
        racers[i].template_key = SLICE("keyed");
        pg_call_start(i % 2 ? &bench : &second, &calls[i], start_start, &racers[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(racers); i++) {
        while (!calls[i].is_done) {
            (void)loop_turn(bench.loop, false);
            (void)loop_turn(second.loop, false);
        }
        struct claim_outcome outcome = key_outcome(&calls[i]);
        won += outcome.state == CLAIM_WON;
        if (outcome.state == CLAIM_WON)
            winner = racers[i].id;
        else
            assert_int_equal(outcome.state, CLAIM_BOUND);
    }
    for (size_t i = 0; i < ARRAY_LEN(racers); i++)
        assert_true(uuid_eq(key_outcome(&calls[i]).execution_id, winner));
    pg_calls_end(calls, ARRAY_LEN(racers));
    pg_bench_close(&second);
    assert_int_equal(won, 1);
    assert_int_equal(count_keyed("flow", keyed), 1);
    flow.id = winner;
    assert_int_equal(count("flow_doc", "input ->> 'a' = '1'"), 1);
    assert_int_equal(count("flow", "title = 'A title'"), 1);
    key = title = SLICE_NONE;
}

/* A set of starts, some of which have keys that are already bound. Then the keys expire. */
static void test_a_key_of_a_start(void **state)
{
    (void)state;
    key = SLICE("mine");
    flow = new_flow();
    flow.template_key = SLICE("again");
    struct uuid first = flow.id;
    for (int i = 0; i < 3; i++) { /* the second is a replay, the third is another request */
        calls[0].is_again = i == 1;
        if (i == 2)
            flow.id = uuid_v7();
        run(start_start, NULL);
        struct claim_outcome outcome = key_outcome(&calls[0]);
        assert_int_equal(outcome.state, i < 2 ? CLAIM_WON : CLAIM_BOUND);
        assert_true(uuid_eq(outcome.execution_id, first));
        assert_false(outcome.has_execution);
        pg_call_end(&calls[0]);
    }
    calls[0].is_again = false;
    assert_int_equal(count_keyed("flow", "template_key = 'again'"), 1);
    items_tell(conninfo, "update sluice.idempotency_key set expires_at = now() - interval '1 h' "
                         "where key = 'mine'");
    run(start_start, NULL);
    assert_int_equal(key_outcome(&calls[0]).state, CLAIM_WON);
    pg_call_end(&calls[0]);
    assert_int_equal(count("flow", "template_key = 'again'"), 1);
    assert_int_equal(count_keyed("flow", "template_key = 'again'"), 2);
    key = SLICE_NONE;
}

/* Its key is in flight until it is bound or released. */
static void test_a_start_whose_key_is_in_flight(void **state)
{
    (void)state;
    key = SLICE("open");
    key_holder = other;
    flow = new_flow();
    flow.template_key = SLICE("open");
    for (int i = 0; i < 2; i++) {
        run(start_start, NULL);
        assert_int_equal(key_outcome(&calls[0]).state, i == 0 ? CLAIM_WON : CLAIM_IN_FLIGHT);
        assert_true(uuid_eq(key_outcome(&calls[0]).owner, other));
        pg_call_end(&calls[0]);
        flow.id = uuid_v7();
    }
    assert_int_equal(count_keyed("flow", "template_key = 'open'"), 1);
    assert_int_equal(count_keyed("idempotency_key", "key = 'open' and state = 'in_flight' and not "
                                                    "is_write"),
                     1);
    key = SLICE_NONE;
    key_holder = (struct uuid){{0}};
}

/* A start whose row is refused leaves its key free. */
static void test_a_start_that_is_refused_takes_no_key(void **state)
{
    (void)state;
    key = SLICE("free");
    flow = new_flow();
    flow.waiting_for = FLOW_WAITS_TIME; /* although it runs */
    assert_int_equal(pg_call_run(&bench, &calls[0], start_start, NULL), ERR_INVALID);
    pg_call_end(&calls[0]);
    assert_int_equal(count_keyed("idempotency_key", "key = 'free'"), 0);
    key = SLICE_NONE;
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
    assert_int_equal(moved(), ERR_NOTFOUND); /* rev is higher by now */
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

/* Inserts an endpoint of the account, which hears every event. */
static void add_endpoint(void)
{
    char id[UUID_TEXT_LEN + 1];
    uuid_format(account, id);
    items_tellf(conninfo,
                "insert into sluice.webhook (account_id, id, url, description, sealed, key_id, "
                "failures, rev, created_at) values ('%s', '%s', 'u', '', '', 'k', 0, 1, now())",
                id, id);
}

static int64_t deliveries(void)
{
    char where[128], id[UUID_TEXT_LEN + 1];
    uuid_format(flow.id, id);
    (void)snprintf(where, sizeof(where), "select count(*) from sluice.delivery where object = '%s'",
                   id);
    return items_ask(conninfo, where);
}

/* Makes a flow of the account, or of a user of it, and its next transition. */
static void begin_into(enum flow_status status, struct uuid parent_id)
{
    begin();
    if (!uuid_is_nil(parent_id)) {
        struct uuid payer_id = account;
        flow = new_flow();
        flow.account_id = uuid_v7();
        flow.parent_id = payer_id;
        run(start_start, NULL);
        pg_call_end(&calls[0]);
    }
    finish_into(status);
    if (status == FLOW_WAITING) {
        flow.waiting_for = FLOW_WAITS_APPROVAL;
        flow.is_begun = false;
        move.waiting_input = SLICE("{\"title\":\"shown\"}");
    }
    move.event.id = uuid_v7();
}

/* Without an outbox a flow moves if its event has no endpoint. */
static void check_event_of_move(enum flow_status status, bool has_endpoint, struct uuid parent_id)
{
    begin_into(status, parent_id);
    assert_int_equal(moved(), has_endpoint ? ERR_NOTFOUND : OK);
    assert_int_equal(moved_again(), has_endpoint ? ERR_NOTFOUND : OK);
    assert_int_equal(count("flow_step", "true"), has_endpoint ? 0 : 1);
    move.has_outbox = true;
    assert_int_equal(moved(), has_endpoint ? OK : ERR_NOTFOUND);
    assert_int_equal(moved_again(), OK);
    assert_int_equal(count("flow", "rev = 2 and owner is null"), 1);
    assert_int_equal(deliveries(), has_endpoint);
}

static void test_an_event_that_is_heard_needs_an_outbox(void **state)
{
    static const enum flow_status ends[] = {FLOW_COMPLETED, FLOW_FAILED, FLOW_WAITING};
    struct uuid was = account, none = {{0}};
    (void)state;
    account = uuid_v7();
    for (int has_endpoint = 0; has_endpoint < 2; has_endpoint++) {
        if (has_endpoint)
            add_endpoint();
        for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
            check_event_of_move(ends[i], has_endpoint, none);
            check_event_of_move(ends[i], has_endpoint, account);
        }
    }
    begin_into(FLOW_COMPLETED, none);
    move.event.id = none; /* nothing to hear */
    assert_int_equal(moved(), OK);
    begin();
    park(FLOW_WAITS_TIME, flow.created_at - SECOND_US);
    wake_into(FLOW_COMPLETED);
    move.event.id = uuid_v7();
    assert_int_equal(moved(), ERR_NOTFOUND);
    assert_int_equal(count("flow", "status = 'waiting'"), 1);
    move.has_outbox = true;
    assert_int_equal(moved(), OK);
    assert_int_equal(deliveries(), 1);
    account = was;
}

/* In one batch, where the others are not held up. */
static void test_a_batch_moves_all_but_those_that_are_heard(void **state)
{
    struct flow flows[4];
    struct flow_step steps[4];
    struct flow_move moves[4];
    struct uuid was = account;
    (void)state;
    account = uuid_v7();
    add_endpoint();
    for (size_t i = 0; i < ARRAY_LEN(moves); i++) {
        begin_into(i < 2 ? FLOW_COMPLETED : FLOW_RUNNING, (struct uuid){{0}});
        if (i > 0)
            move.event.id = (struct uuid){{0}};
        flows[i] = flow;
        steps[i] = step;
        moves[i] = move;
        moves[i].next = &flows[i];
        moves[i].finished = &steps[i];
    }
    pg_calls_start(&bench, calls, ARRAY_LEN(moves), start_move, moves, sizeof(moves[0]));
    pg_calls_wait(&bench, calls, ARRAY_LEN(moves));
    for (size_t i = 0; i < ARRAY_LEN(moves); i++)
        assert_int_equal(store_hit_result(&calls[i].query), i > 0 ? OK : ERR_NOTFOUND);
    pg_calls_end(calls, ARRAY_LEN(moves));
    account = was;
}

/* A HOT update leaves the index entry unchanged. The server's own counters show this. */
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

static void test_those_that_wait_are_counted(void **state)
{
    (void)state;
    size_t others = waiting();
    begin();
    park(FLOW_WAITS_TIME, clock_wall_us() + 3600LL * SECOND_US);
    begin();
    park(FLOW_WAITS_APPROVAL, 0); /* waits without a time */
    assert_int_equal(waiting(), others + 2);
    begin();
    assert_int_equal(waiting(), others + 2);
    park(FLOW_WAITS_TIME, clock_wall_us() - SECOND_US);
    assert_int_equal(waiting(), others + 3);
    wake_into(FLOW_RUNNING);
    assert_int_equal(moved(), OK);
    assert_int_equal(waiting(), others + 2);
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
    struct due_ref *refs;
    size_t n;
    bool is_found = false;
    assert_int_equal(store_due_scan_result(&calls[0].query, &refs, &n), OK);
    for (size_t i = 0; i < n; i++)
        is_found = is_found || (uuid_eq(refs[i].id, flow.id) && refs[i].rev == flow.rev);
    assert_true(is_found);
    pg_call_end(&calls[0]);
    flow.rev++;
    wake_into(FLOW_RUNNING);
    assert_int_equal(moved(), ERR_NOTFOUND); /* the flow has another rev */
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
        won += store_hit_result(&calls[i].query) == OK;
    pg_calls_end(calls, ARRAY_LEN(moves));
    assert_int_equal(won, 1);
    assert_int_equal(count("flow_step", "step_index = 1"), 1);
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
        assert_int_equal(store_hit_result(&calls[i].query), OK);
    pg_calls_end(calls, ARRAY_LEN(items));
    assert_int_equal(count("flow_item", "true"), 20);
    char sql[256], id[UUID_TEXT_LEN + 1];
    uuid_format(flow.id, id);
    snprintf(sql, sizeof(sql),
             "select count(distinct xmin::text) from sluice.flow_item where flow_id = '%s'", id);
    assert_true(items_ask(conninfo, sql) <= 4); /* by two writers, with at most two batches each */
    item = items[0];
    run(start_item, NULL);
    assert_int_equal(store_hit_result(&calls[0].query), OK); /* a replay */
    pg_call_end(&calls[0]);
    flow.rev++;
    run(start_item, NULL);
    assert_int_equal(store_hit_result(&calls[0].query), ERR_NOTFOUND);
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
    assert_int_equal(store_flow_scan_result(&calls[0].query, &refs, &n), OK);
    assert_true(n > 0);
    pg_call_end(&calls[0]);
    run(start_remove, NULL);
    pg_call_end(&calls[0]);
    assert_int_equal(count("flow", "true"), 0);
}

/* No CHECK of the tables says what a single column has (sql/0043_checks.sql, 0045_step_checks.sql),
 * so this reads all rows that these tests have written. Their words are those of enums. */
static void test_columns_need_no_check(void **state)
{
    static const char *const statuses[] = {"running", "waiting", "completed", "failed",
                                           "cancelled"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
        assert_string_equal(flow_status_name((enum flow_status)i), statuses[i]);
    assert_true(items_ask(conninfo, "select count(*) from sluice.flow") > 0);
    assert_int_equal(items_ask(conninfo,
                               "select count(*) from sluice.flow where status not in ('running', "
                               "'waiting', 'completed', 'failed', 'cancelled') or rev < 1 or "
                               "step_index < 0 or attempt < 0 or adoptions < 0"),
                     0);
    assert_true(items_ask(conninfo, "select count(*) from sluice.flow_step") > 0);
    assert_int_equal(items_ask(conninfo,
                               "select count(*) from sluice.flow_step where status not in "
                               "('completed', 'failed') or step_index < 0 or attempt < 1"),
                     0);
    assert_int_equal(items_ask(conninfo, "select count(*) from pg_constraint where contype = 'c' "
                                         "and conrelid in (select inhrelid from pg_inherits where "
                                         "inhparent = 'sluice.flow_step'::regclass union all "
                                         "select 'sluice.flow_step'::regclass) and conname <> "
                                         "'flow_step_check'"),
                     0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_start_may_be_parked),
    cmocka_unit_test(test_a_start_of_another_is_not_ours),
    cmocka_unit_test(test_a_start_may_be_all),
    cmocka_unit_test(test_a_start_keeps_its_trace_and_title),
    cmocka_unit_test(test_starts_with_one_key_make_one_flow),
    cmocka_unit_test(test_a_key_of_a_start),
    cmocka_unit_test(test_a_start_whose_key_is_in_flight),
    cmocka_unit_test(test_a_start_that_is_refused_takes_no_key),
    cmocka_unit_test(test_moves_are_fenced_and_replayable),
    cmocka_unit_test(test_an_event_that_is_heard_needs_an_outbox),
    cmocka_unit_test(test_a_batch_moves_all_but_those_that_are_heard),
    cmocka_unit_test(test_running_to_running_is_hot),
    cmocka_unit_test(test_those_that_wait_are_counted),
    cmocka_unit_test(test_due),
    cmocka_unit_test(test_due_into_an_end_and_another_pause),
    cmocka_unit_test(test_fifty_wake_one_due_flow),
    cmocka_unit_test(test_items_share_a_commit_and_are_fenced),
    cmocka_unit_test(test_retention),
    cmocka_unit_test(test_columns_need_no_check),
};

int main(void)
{
    tests_begin();
    int failed = cmocka_run_group_tests_name("set", tests, open_set, close_bench);
    failed += cmocka_run_group_tests_name("pipe", tests, open_pipe, close_bench);
    return tests_end(failed);
}
