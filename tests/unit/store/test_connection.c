/* Connections: compare-and-set, defaults, HOT updates. Also accounts and audit events. */
#include "base/clock.h"
#include "store/audit.h"
#include "store/connection.h"
#include "store/node.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "support/rows.h"
#include "unit.h"

enum { CALLS_MAX = 100 };

static const char *conninfo;
static struct pg_bench bench;
static struct pg_call *calls;
static struct uuid account;
static struct pg_sync *sync;

static struct connection connection;
static slice wanted_integration;
static int64_t wanted_rev;
static size_t wanted_max;
static struct connection_credentials credentials = {.sealed = SLICE_INIT("new secret"),
                                                    .key_id = SLICE_INIT("key1"),
                                                    .expires_at = 1767225600000000};

static struct connection connection_of(slice integration_id, slice label)
{
    return (struct connection){.account_id = account,
                               .id = short_id_new(),
                               .integration_id = integration_id,
                               .label = label,
                               .auth_kind = SLICE("oauth2"),
                               .sealed = slice_of("\x01\x00\xFF", 3),
                               .key_id = SLICE("key0"),
                               .scopes = SLICE("mail.read mail.send"),
                               .params = SLICE("{\"x\":\"\\u0000\"}"),
                               .status = CONNECTION_LIVE};
}

static void start_insert(struct pg_call *call)
{
    store_connection_insert(call->bench->pool, &call->query, &call->op, &connection, wanted_max);
}

static void start_list(struct pg_call *call)
{
    const struct connection_page page = {.integration_id = wanted_integration, .count_max = 100};
    store_connection_page(call->bench->pool, &call->query, &call->op, account, &page);
}

static void start_get(struct pg_call *call)
{
    store_connection_get(call->bench->pool, &call->query, &call->op, account, connection.id);
}

static void start_dead(struct pg_call *call)
{
    const struct connection_loss loss = {.account_id = account,
                                         .id = connection.id,
                                         .rev = wanted_rev,
                                         .error = SLICE("invalid_grant"),
                                         .reason = SLICE("refused"),
                                         .by.actor = SLICE("test")};
    store_connection_lost(call->bench->pool, &call->query, &call->op, &loss);
}

static void start_refresh(struct pg_call *call)
{
    store_connection_credentials_set(call->bench->pool, &call->query, &call->op, account,
                                     connection.id, wanted_rev, &credentials);
}

static void start_use(struct pg_call *call)
{
    const struct connection_use use = {.account_id = account,
                                       .id = connection.id,
                                       .used_at = clock_wall_us(),
                                       .failed_at = clock_wall_us(),
                                       .failure = SLICE("again")};
    store_connection_use(call->bench->pool, &call->query, &call->op, &use);
}

static int run(void (*start)(struct pg_call *call))
{
    return pg_call_run(&bench, &calls[0], start, NULL);
}

static void done(void)
{
    pg_call_end(&calls[0]);
}

static void test_insert_get_list(void **state)
{
    struct connection got, *list;
    size_t count;
    (void)state;
    for (int i = 0; i < 3; i++) {
        connection = connection_of(SLICE("gmail"), SLICE("one"));
        connection.is_default = i == 1;
        assert_int_equal(run(start_insert), OK);
        done();
        assert_int_equal(run(start_insert), OK); /* a replay */
        done();
    }
    int64_t last = connection.id;
    assert_int_equal(run(start_get), OK);
    assert_int_equal(store_connection_get_result(&calls[0].query, &got), OK);
    assert_true(slice_eq(got.sealed, connection.sealed) && slice_eq(got.params, connection.params));
    assert_true(slice_eq(got.scopes, connection.scopes) && !got.error.ptr);
    assert_int_equal(got.rev, 1);
    assert_int_equal(got.expires_at, 0);
    done();
    wanted_integration = SLICE("gmail");
    assert_int_equal(run(start_list), OK);
    assert_int_equal(store_connection_list_result(&calls[0].query, &list, &count), OK);
    assert_int_equal(count, 3);
    assert_true(list[1].is_default && list[0].id < list[1].id && list[2].id == last);
    done();
    wanted_integration = SLICE("notion");
    assert_int_equal(run(start_list), OK);
    assert_int_equal(store_connection_list_result(&calls[0].query, &list, &count), OK);
    assert_int_equal(count, 0);
    done();
    wanted_integration = SLICE_NONE;
    assert_int_equal(run(start_list), OK);
    assert_int_equal(store_connection_list_result(&calls[0].query, &list, &count), OK);
    assert_int_equal(count, 3);
    done();
    connection = connection_of(SLICE("gmail"), SLICE("second default"));
    connection.is_default = true;
    assert_int_equal(run(start_insert), ERR_INVALID);
    assert_string_equal(calls[0].query.sqlstate, "23505");
    done();
}

static void test_a_bound(void **state)
{
    bool is_own;
    (void)state;
    wanted_max = 5; /* three exist */
    for (size_t i = 0; i < 2; i++) {
        connection = connection_of(SLICE("gmail"), SLICE("bounded"));
        for (int round = 0; round < 2; round++) { /* another connection with its id does not
                                                   * change it */
            assert_int_equal(run(start_insert), OK);
            assert_int_equal(store_connection_insert_result(&calls[0].query, &is_own), OK);
            assert_int_equal(is_own, round == 0);
            done();
        }
    }
    int64_t last = connection.id;
    connection = connection_of(SLICE("notion"), SLICE("one too many"));
    assert_int_equal(run(start_insert), OK);
    assert_int_equal(store_connection_insert_result(&calls[0].query, &is_own), ERR_LIMIT);
    done();
    connection.id = last; /* an existing connection is reported as such */
    assert_int_equal(run(start_insert), OK);
    assert_int_equal(store_connection_insert_result(&calls[0].query, &is_own), OK);
    done();
    wanted_max = 0;
}

/* An account that was erased meanwhile gets no connection, nor does a user of it. */
static void test_no_account(void **state)
{
    bool is_own;
    (void)state;
    for (int of_user = 0; of_user < 2; of_user++) {
        connection = connection_of(SLICE("gmail"), SLICE("late"));
        connection.account_id = uuid_v7();
        connection.parent_id = of_user ? uuid_v7() : (struct uuid){{0}};
        assert_int_equal(run(start_insert), OK);
        assert_int_equal(store_connection_insert_result(&calls[0].query, &is_own), ERR_LIMIT);
        done();
    }
    connection = connection_of(SLICE("gmail"), SLICE("of a user"));
    connection.account_id = uuid_v7();
    connection.parent_id = account;
    assert_int_equal(run(start_insert), OK);
    assert_int_equal(store_connection_insert_result(&calls[0].query, &is_own), OK);
    done();
}

static void test_compare_and_set(void **state)
{
    int64_t rev = 0;
    struct connection got;
    (void)state;
    connection = connection_of(SLICE("gmail"), SLICE("cas"));
    connection.identity = (struct connection_identity){.email = SLICE("ada@example.com")};
    assert_int_equal(run(start_insert), OK);
    done();
    wanted_rev = 1;
    assert_int_equal(run(start_dead), OK);
    assert_int_equal(store_rev_result(&calls[0].query, &rev), OK);
    assert_int_equal(rev, 2);
    /* the same statement with the same token, as after a lost connection, gets the same answer */
    pg_submit(bench.pool, &calls[0].query, &calls[0].op);
    while (pg_pool_pending(bench.pool))
        loop_turn(bench.loop, true);
    assert_int_equal(store_rev_result(&calls[0].query, &rev), OK);
    assert_int_equal(rev, 2);
    pg_call_end(&calls[0]);
    assert_int_equal(run(start_refresh), OK); /* another statement with the old revision is too
                                               * late */
    assert_int_equal(store_rev_result(&calls[0].query, &rev), ERR_NOTFOUND);
    done();
    assert_int_equal(run(start_get), OK);
    assert_int_equal(store_connection_get_result(&calls[0].query, &got), OK);
    assert_int_equal(got.status, CONNECTION_REAUTH_REQUIRED);
    assert_true(slice_eq(got.error, SLICE("invalid_grant")));
    done();
    wanted_rev = 2;
    assert_int_equal(run(start_refresh), OK);
    assert_int_equal(store_rev_result(&calls[0].query, &rev), OK);
    assert_int_equal(rev, 3);
    done();
    assert_int_equal(run(start_get), OK);
    assert_int_equal(store_connection_get_result(&calls[0].query, &got), OK);
    assert_true(got.status == CONNECTION_LIVE && !got.error.ptr && got.rev == 3);
    assert_true(slice_eq(got.sealed, SLICE("new secret")));
    assert_true(slice_eq(got.scopes, SLICE("mail.read mail.send"))); /* as before */
    assert_int_equal(got.expires_at, 1767225600000000);
    assert_true(slice_eq(connection_identity_text(&got.identity), SLICE("ada@example.com")));
    done();
    wanted_rev = 3;
    credentials.is_grant_new = true; /* changed by a person whose name is unknown */
    assert_int_equal(run(start_refresh), OK);
    credentials.is_grant_new = false;
    done();
    assert_int_equal(run(start_get), OK);
    assert_int_equal(store_connection_get_result(&calls[0].query, &got), OK);
    assert_false(connection_identity_is_known(&got.identity));
    done();
}

static void test_one_refresh_wins(void **state)
{
    enum { RACERS = 50 };
    size_t winners = 0;
    int64_t rev;
    (void)state;
    connection = connection_of(SLICE("gmail"), SLICE("race"));
    assert_int_equal(run(start_insert), OK);
    done();
    wanted_rev = 1;
    for (size_t i = 0; i < RACERS; i++)
        pg_call_start(&bench, &calls[i], start_refresh, NULL);
    pg_calls_wait(&bench, calls, RACERS);
    for (size_t i = 0; i < RACERS; i++)
        winners += store_rev_result(&calls[i].query, &rev) == OK;
    pg_calls_end(calls, RACERS);
    assert_int_equal(winners, 1);
}

/* ---- operator commands ---- */

static void test_rotation_walk(void **state)
{
    struct arena arena;
    struct connection *list, last = {.id = 0};
    struct err err;
    size_t count, walked = 0;
    (void)state;
    for (int i = 0; i < 130; i++) {
        struct connection c = connection_of(SLICE("slack"), SLICE("many"));
        c.id = 1000 + i;
        assert_int_equal(rows_connection(sync, &c), OK);
    }
    for (;;) {
        arena_init(&arena, 1024 * 1024);
        list = store_connection_stale_sync(sync, &arena, SLICE("key9"), &last, &count, &err);
        assert_non_null(list);
        for (size_t i = 0; i < count; i++) {
            last = list[i];
            assert_int_equal(store_connection_reseal_sync(sync, last.account_id, last.id, last.rev,
                                                          SLICE("resealed"), SLICE("key9"), &err),
                             OK);
            assert_int_equal(store_connection_reseal_sync(sync, last.account_id, last.id, last.rev,
                                                          SLICE("twice"), SLICE("key9"), &err),
                             ERR_NOTFOUND);
        }
        walked += count;
        arena_deinit(&arena);
        if (count == 0)
            break;
    }
    assert_true(walked > 130);
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.connection "
                                         "where key_id <> 'key9'"),
                     0);
}

static void start_audit(struct pg_call *call)
{
    store_audit_insert(call->bench->pool, &call->query, &call->op, call->arg);
}

static void test_audit(void **state)
{
    struct audit_event event = {.account_id = account,
                                .id = uuid_v7(),
                                .kind = SLICE("execution.blocked"),
                                .reason = SLICE("policy_blocked"),
                                .by.actor = SLICE("key:1"),
                                .details = SLICE("{\"action\":\"send\"}")};
    (void)state;
    for (int i = 0; i < 2; i++) { /* the second is a replay */
        assert_int_equal(pg_call_run(&bench, &calls[0], start_audit, &event), OK);
        done();
    }
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.audit_event "
                                         "where details->>'action' = 'send'"),
                     1);
}

/* ---- HOT ---- */

static bool stats_are_in(void *table)
{
    char sql[200];
    snprintf(sql, sizeof(sql),
             "select (n_tup_upd >= 60)::int from pg_stat_user_tables where schemaname = 'sluice' "
             "and relname = '%s'",
             (const char *)table);
    return items_ask(conninfo, sql) == 1;
}

static void check_hot(const char *table)
{
    char sql[200];
    /* a backend reports its counts when it ends */
    pg_bench_close(&bench);
    struct pg_pool_config config = {.conninfo = conninfo};
    pg_bench_open(&bench, &config, true);
    pg_bench_until_true(&bench, stats_are_in, (void *)table);
    snprintf(sql, sizeof(sql),
             "select n_tup_hot_upd * 100 / n_tup_upd from pg_stat_user_tables "
             "where schemaname = 'sluice' and relname = '%s'",
             table);
    assert_true(items_ask(conninfo, sql) > 95);
}

static struct uuid node_id;

static void start_register(struct pg_call *call)
{
    store_node_register(call->bench->pool, &call->query, &call->op, node_id, SLICE("hot"));
}

static void start_heartbeat(struct pg_call *call)
{
    store_node_heartbeat(call->bench->pool, &call->query, &call->op, node_id);
}

static void test_updates_are_hot(void **state)
{
    int64_t rev;
    (void)state;
    items_tell(conninfo, "truncate sluice.connection, sluice.node");
    items_tell(conninfo, "select pg_stat_reset()");
    connection = connection_of(SLICE("gmail"), SLICE("hot"));
    node_id = uuid_v7();
    assert_int_equal(run(start_insert), OK);
    done();
    assert_int_equal(run(start_register), OK);
    done();
    for (wanted_rev = 1; wanted_rev <= 60; wanted_rev++) {
        assert_int_equal(run(start_refresh), OK);
        assert_int_equal(store_rev_result(&calls[0].query, &rev), OK);
        done();
        assert_int_equal(run(start_use), OK);
        done();
        assert_int_equal(run(start_heartbeat), OK);
        done();
    }
    check_hot("connection");
    check_hot("node");
}

static int set_up(void **state)
{
    struct err err;
    struct pg_pool_config config = {.queue_timeout_ms = 30000, .lock_timeout_ms = 30000};
    (void)state;
    calls = mem_calloc(CALLS_MAX, sizeof(*calls));
    conninfo = config.conninfo = pg_cluster_database(true);
    sync = pg_sync_open(conninfo, &err);
    account = uuid_v7();
    struct account row = {.account_id = account, .name = SLICE("test")};
    pg_bench_open(&bench, &config, true);
    return sync ? rows_account(sync, &row) : ERR_IO;
}

static int tear_down(void **state)
{
    (void)state;
    pg_sync_close(sync);
    pg_bench_close(&bench);
    mem_free(calls);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_insert_get_list),  cmocka_unit_test(test_a_bound),
        cmocka_unit_test(test_no_account),       cmocka_unit_test(test_compare_and_set),
        cmocka_unit_test(test_one_refresh_wins), cmocka_unit_test(test_rotation_walk),
        cmocka_unit_test(test_updates_are_hot),  cmocka_unit_test(test_audit),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, tear_down));
}
