/* Failures: killed backends, restarted servers, locks, full queues, and sessions that no longer
 * fit.
 */
#include "pg/lane.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "unit.h"

enum { CALLS_MAX = 2000 };

static const char *conninfo;
static enum pg_mode mode;
static struct pg_call *calls;

static void submit(struct pg_call *call, const struct pg_stmt *stmt)
{
    call->query.stmt = stmt;
    pg_submit(call->bench->pool, &call->query, &call->op);
}

static int64_t id_of(const struct pg_call *call)
{
    return (int64_t)(call - calls) + 1;
}

static void start_put(struct pg_call *call)
{
    items_fill_put(&call->query, items_account(0), id_of(call), 0);
    submit(call, &item_put);
}

static void start_other_put(struct pg_call *call)
{
    items_fill_put(&call->query, items_account(9), id_of(call), 0);
    submit(call, &item_put);
}

static void start_set(struct pg_call *call)
{
    items_fill_by(&call->query, items_account(0), id_of(call), 7);
    submit(call, &item_set);
}

static void start_first_set(struct pg_call *call)
{
    items_fill_by(&call->query, items_account(0), 1, 8);
    submit(call, &item_set);
}

static void start_try(struct pg_call *call)
{
    items_fill_by(&call->query, items_account(0), id_of(call), id_of(call) == 3 ? -1 : 7);
    submit(call, &item_try);
}

static void start_last_try(struct pg_call *call)
{
    start_try(call);
    call->query.attempts = PG_ATTEMPTS_MAX;
}

/* Starts a change that violates the CHECK n >= 0, however it is sent. */
static void start_bad_try(struct pg_call *call)
{
    items_fill_by(&call->query, items_account(0), id_of(call), -2000);
    submit(call, &item_try);
}

static void start_add(struct pg_call *call)
{
    items_fill_by(&call->query, items_account(0), id_of(call), 1);
    submit(call, &item_add);
}

static void start_get(struct pg_call *call)
{
    items_fill_key(&call->query, items_account(0), id_of(call));
    submit(call, &item_get);
}

static void start_all(struct pg_bench *bench, size_t count, void (*start)(struct pg_call *call))
{
    pg_calls_start(bench, calls, count, start, NULL, 0);
}

static struct pg_pool_config config_of(const char *where)
{
    return (struct pg_pool_config){
        .conninfo = where, .mode = mode, .writers = 1, .readers = 1, .queue_timeout_ms = 30000};
}

/* Makes a fresh table with rows 1..count. */
static void open_with_rows(struct pg_bench *bench, const struct pg_pool_config *config,
                           size_t count)
{
    items_tell(conninfo, "truncate t.item");
    pg_bench_open(bench, config, true);
    if (count == 0)
        return;
    start_all(bench, count, start_put);
    pg_calls_wait(bench, calls, count);
    pg_calls_end(calls, count);
}

/* Another session, whose open transaction holds locks: `begin` opens it and takes them. */
static struct pg_sync *lock_with(const char *begin)
{
    struct err err;
    struct pg_sync *sync = pg_sync_open(conninfo, &err);
    assert_non_null(sync);
    assert_int_equal(pg_sync_run(sync, begin, &err), OK);
    return sync;
}

/* Another session that holds row 1. */
static struct pg_sync *lock_row(void)
{
    return lock_with("begin; select 1 from t.item where id = 1 for update");
}

static const char waiting_sql[] =
    "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    " and datname = current_database()";

static bool one_waits(void *arg)
{
    (void)arg;
    return items_ask(conninfo, waiting_sql) > 0;
}

static void kill_waiting(void)
{
    items_ask(conninfo, "select count(pg_terminate_backend(pid)) from pg_stat_activity"
                        " where wait_event_type = 'Lock' and datname = current_database()");
}

static bool none_waits(void *arg)
{
    return !one_waits(arg);
}

/* ---- killed backends ---- */

static void test_killed_mid_batch_is_sent_again(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(conninfo);
    (void)state;
    config.lock_timeout_ms = 60000;
    config.statement_timeout_ms = 60000;
    open_with_rows(&bench, &config, 20);
    struct pg_sync *lock = lock_row();
    start_all(&bench, 20, start_set);
    pg_bench_until_true(&bench, one_waits, NULL);
    kill_waiting();
    pg_bench_until_true(&bench, none_waits, NULL);
    pg_sync_close(lock);
    pg_calls_wait(&bench, calls, 20);
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(calls[i].query.status, OK);
        assert_int_equal(pg_get_i64(&calls[i].query.rows, 0, 0), 7);
    }
    pg_calls_end(calls, 20);
    pg_bench_close(&bench);
    assert_int_equal(items_ask(conninfo, "select count(*) from t.item where n = 7"), 20);
}

/* A batch that waits for a lock delays the other connections only briefly, and blocks only its
 * own rows: a second change of one of these waits, a change of another row does not. */
static void test_a_slow_batch_holds_back_its_rows_only(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(conninfo);
    (void)state;
    config.writers = 3;
    config.lock_timeout_ms = 60000;
    config.statement_timeout_ms = 60000;
    open_with_rows(&bench, &config, 8);
    struct pg_sync *lock = lock_row();
    start_all(&bench, 5, start_set);
    pg_bench_until_true(&bench, one_waits, NULL);
    pg_call_start(&bench, &calls[5], start_set, NULL);
    pg_call_start(&bench, &calls[10], start_first_set, NULL);
    pg_calls_wait(&bench, &calls[5], 1);
    assert_int_equal(calls[5].query.status, OK);
    pg_call_start(&bench, &calls[6], start_set, NULL);
    pg_calls_wait(&bench, &calls[6], 1);
    for (size_t i = 0; i < 5; i++)
        assert_false(calls[i].is_done);
    assert_false(calls[10].is_done);
    assert_int_equal(items_ask(conninfo, waiting_sql), 1);
    pg_sync_close(lock);
    pg_calls_wait(&bench, calls, 7);
    pg_calls_wait(&bench, &calls[10], 1);
    pg_calls_end(calls, 7);
    pg_call_end(&calls[10]);
    pg_bench_close(&bench);
    assert_int_equal(items_ask(conninfo, "select n from t.item where id = 1"), 8);
}

static const struct pg_column large_key[] = {PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_I64)};
static const struct pg_column large_columns[] = {PG_ARG("text", PG_TEXT)};
static const struct pg_stmt large_get = {
    .name = "large_get",
    .sql = "select :ord, repeat('x', 5000000) @read(t.large)",
    PG_PARAMS(large_key),
    PG_COLUMNS(large_columns),
    .key_count = 2,
    .is_large = true,
};

static void start_large(struct pg_call *call)
{
    items_fill_key(&call->query, items_account(0), 1);
    submit(call, &large_get);
}

static bool all_are_up(void *arg)
{
    const struct pg_bench *bench = arg;
    size_t count = 0;
    for (size_t i = 0; i < bench->pool->lane_count; i++)
        count += bench->pool->lanes[i]->link.is_up;
    return count == 3;
}

/* Large reads run one at a time: the next is sent only after the previous one has ended, so a
 * connection stays free for small reads. */
static void test_a_large_read_holds_back_no_small_one(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(conninfo);
    struct err err;
    (void)state;
    config.readers = 2;
    config.lock_timeout_ms = 60000;
    config.statement_timeout_ms = 60000;
    open_with_rows(&bench, &config, 8);
    pg_bench_until_true(&bench, all_are_up, &bench);
    items_tell(conninfo, "drop table if exists t.large; create table t.large as "
                         "select account_id, id from t.item where id = 1");
    struct pg_sync *lock = pg_sync_open(conninfo, &err);
    assert_non_null(lock);
    assert_int_equal(pg_sync_run(lock, "begin; lock table t.large", &err), OK);
    start_all(&bench, 3, start_large);
    pg_bench_until_true(&bench, one_waits, NULL);
    for (size_t i = 3; i < 8; i++) {
        pg_call_start(&bench, &calls[i], start_get, NULL);
        pg_calls_wait(&bench, &calls[i], 1);
        assert_int_equal(calls[i].query.status, OK);
    }
    assert_int_equal(items_ask(conninfo, waiting_sql), 1);
    assert_false(calls[0].is_done || calls[1].is_done || calls[2].is_done);
    pg_sync_close(lock);
    pg_calls_wait(&bench, calls, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(calls[i].query.status, OK);
        assert_int_equal(pg_get_bytes(&calls[i].query.rows, 0, 0).len, 5000000);
    }
    pg_calls_end(calls, 8);
    pg_bench_close(&bench);
}

/* A query that may have been done is sent again as the statement that checks first. A query that
 * was rolled back is not. */
static void test_the_second_sending_looks_first(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(conninfo);
    (void)state;
    config.lock_timeout_ms = 60000;
    config.statement_timeout_ms = 60000;
    open_with_rows(&bench, &config, 5);
    start_all(&bench, 5, start_try); /* the third violates a CHECK: all are rolled back */
    pg_calls_wait(&bench, calls, 5);
    assert_int_equal(calls[2].query.status, ERR_INVALID);
    pg_calls_end(calls, 5);
    assert_int_equal(items_ask(conninfo, "select count(*) from t.item where n = 7"), 4);
    struct pg_sync *lock = lock_row();
    start_all(&bench, 2, start_try);
    pg_bench_until_true(&bench, one_waits, NULL);
    kill_waiting();
    pg_bench_until_true(&bench, none_waits, NULL);
    pg_sync_close(lock);
    pg_calls_wait(&bench, calls, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(calls[i].query.status, OK);
        assert_int_equal(pg_get_i64(&calls[i].query.rows, 0, 0), 1007);
    }
    pg_calls_end(calls, 2);
    pg_bench_close(&bench);
}

static void test_killed_and_not_replayable_is_unknown(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(conninfo);
    (void)state;
    config.lock_timeout_ms = 60000;
    config.statement_timeout_ms = 60000;
    open_with_rows(&bench, &config, 5);
    struct pg_sync *lock = lock_row();
    start_all(&bench, 5, start_add);
    pg_bench_until_true(&bench, one_waits, NULL);
    kill_waiting();
    pg_calls_wait(&bench, calls, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(calls[i].query.status, ERR_CLOSED);
    pg_calls_end(calls, 5);
    pg_sync_close(lock);
    pg_bench_close(&bench);
    assert_int_equal(items_ask(conninfo, "select sum(n)::bigint from t.item"), 0);
}

/* Puts run in a ring while the server dies and comes back: when one is done, the next is sent. */
struct crowd {
    struct pg_bench bench;
    int64_t next_id, acknowledged, unknown;
};

static void start_fresh(struct pg_call *call)
{
    struct crowd *crowd = call->arg;
    items_fill_put(&call->query, items_account(0), ++crowd->next_id, 0);
    submit(call, &item_put);
}

/* Records completed calls, and keeps `count` calls under way. Each acknowledged id is recorded
 * in acked[id]. */
static void crowd_step(struct crowd *crowd, size_t count, uint8_t *acked, size_t acked_max)
{
    for (size_t i = 0; i < count; i++) {
        if (!calls[i].is_done)
            continue;
        int64_t id = calls[i].query.params[1].as.i64;
        if (calls[i].query.status == OK) {
            crowd->acknowledged++;
            acked[id] = 1;
        } else {
            crowd->unknown++;
        }
        pg_call_end(&calls[i]);
        if ((size_t)crowd->next_id + 1 < acked_max)
            pg_call_start(&crowd->bench, &calls[i], start_fresh, crowd);
    }
}

static bool is_acked(const uint8_t *acked, const struct pg_rows *rows, size_t row)
{
    int64_t id = 0;
    assert_true(slice_to_i64(pg_get_bytes(rows, row, 0), &id));
    return acked[id];
}

static void check_nothing_lost(const uint8_t *acked, int64_t want)
{
    struct err err;
    struct arena arena;
    struct pg_rows rows;
    struct pg_sync *sync = pg_sync_open(conninfo, &err);
    assert_non_null(sync);
    arena_init(&arena, 64 * 1024 * 1024);
    assert_int_equal(pg_sync_text(sync, "select id from t.item", &arena, &rows, &err), OK);
    int64_t found = 0;
    for (size_t i = 0; i < rows.count; i++)
        found += is_acked(acked, &rows, i);
    assert_int_equal(found, want);
    arena_deinit(&arena);
    pg_sync_close(sync);
}

static void test_restarts_lose_nothing(void **state)
{
    enum { CROWD = 200, IDS_MAX = 200000, RESTARTS = 4 };
    (void)state;
    if (!pg_cluster_is_private())
        skip();
    uint8_t *acked = mem_calloc(IDS_MAX, 1);
    struct crowd crowd = {.next_id = 0};
    struct pg_pool_config config = config_of(conninfo);
    config.writers = 2;
    open_with_rows(&crowd.bench, &config, 0);
    for (size_t i = 0; i < CROWD; i++)
        pg_call_start(&crowd.bench, &calls[i], start_fresh, &crowd);
    for (int restart = 0; restart < RESTARTS; restart++) {
        int64_t until = crowd.acknowledged + 3 * CROWD;
        while (crowd.acknowledged < until) {
            loop_turn(crowd.bench.loop, true);
            crowd_step(&crowd, CROWD, acked, IDS_MAX);
        }
        loop_turn(crowd.bench.loop, false);
        pg_cluster_stop(PG_CLUSTER_IMMEDIATE);
        loop_turn(crowd.bench.loop, false);
        pg_cluster_restart();
    }
    pg_calls_wait(&crowd.bench, calls, CROWD);
    crowd_step(&crowd, CROWD, acked, 0);
    pg_bench_close(&crowd.bench);
    assert_int_equal(crowd.unknown, 0); /* all queries could be replayed, and had enough time */
    check_nothing_lost(acked, crowd.acknowledged);
    mem_free(acked);
}

/* ---- locks ---- */

static void test_lock_timeout_hits_the_guilty_only(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(conninfo);
    (void)state;
    config.lock_timeout_ms = 50;
    open_with_rows(&bench, &config, 10);
    struct pg_sync *lock = lock_row();
    start_all(&bench, 10, start_add);
    pg_calls_wait(&bench, calls, 10);
    pg_sync_close(lock);
    assert_int_equal(calls[0].query.status, ERR_TIMEOUT);
    assert_string_equal(calls[0].query.sqlstate, "55P03");
    for (size_t i = 1; i < 10; i++) {
        assert_int_equal(calls[i].query.status, OK);
        assert_int_equal(pg_get_i64(&calls[i].query.rows, 0, 0), 1); /* once, not twice */
    }
    pg_calls_end(calls, 10);
    pg_bench_close(&bench);
}

static const struct pg_column pass_params[] = {PG_ARG("account_id", PG_UUID),
                                               PG_ARG("is_down", PG_BOOL)};
static const struct pg_column pass_columns[] = {PG_ARG("count", PG_I64)};
static const struct pg_stmt item_pass = {
    .name = "item_pass",
    .sql = "select :ord, c.count from @input lateral (select t.pass(:is_down) as count "
           "where :account_id is not null) c",
    PG_PARAMS(pass_params),
    PG_COLUMNS(pass_columns),
    .access = PG_WRITE_ONCE,
    .goes_alone = true,
};

static void start_pass(struct pg_call *call)
{
    call->query.params[0] = pg_uuid(items_account(0));
    call->query.params[1] = pg_bool(call != calls);
    submit(call, &item_pass);
}

static bool two_wait(void *arg)
{
    (void)arg;
    return items_ask(conninfo, waiting_sql) == 2;
}

/* One query adds 1 to the rows from the first to the last, the other from the last to the first,
 * and they meet at a row that another session holds. Once it is released, each waits for the other,
 * and PostgreSQL rolls one of them back. It is sent again, although it may not be run twice:
 * nothing of it was done. It may deadlock with the other once more. */
static void test_a_query_that_a_deadlock_ended_is_sent_again(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(conninfo);
    (void)state;
    config.writers = 2;
    config.lock_timeout_ms = 60000;
    config.statement_timeout_ms = 60000;
    items_tell(conninfo,
               "create or replace function t.pass(is_down boolean) returns bigint language plpgsql "
               "as 'begin for i in 1..3 loop update t.item set n = n + 1 where id = case when "
               "is_down then 4 - i else i end; end loop; return 3; end'");
    open_with_rows(&bench, &config, 3);
    struct pg_sync *lock = lock_with("begin; select 1 from t.item where id = 2 for update");
    pg_call_start(&bench, &calls[0], start_pass, NULL);
    pg_bench_until_true(&bench, one_waits, NULL);
    pg_call_start(&bench, &calls[1], start_pass, NULL);
    pg_bench_until_true(&bench, two_wait, NULL);
    pg_sync_close(lock);
    pg_calls_wait(&bench, calls, 2);
    assert_int_equal(calls[0].query.status, OK);
    assert_int_equal(calls[1].query.status, OK);
    assert_true(calls[0].query.attempts + calls[1].query.attempts > 0);
    pg_calls_end(calls, 2);
    pg_bench_close(&bench);
    assert_int_equal(items_ask(conninfo, "select count(*) from t.item where n = 2"), 3);
}

static void test_a_changed_row_is_seen_in_its_new_version(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(conninfo);
    struct err err;
    (void)state;
    config.lock_timeout_ms = 60000;
    open_with_rows(&bench, &config, 3);
    struct pg_sync *lock = lock_row();
    assert_int_equal(pg_sync_run(lock, "update t.item set n = 100 where id = 1", &err), OK);
    start_all(&bench, 3, start_add); /* a set, blocked on row 1, which has a new version by then */
    pg_bench_until_true(&bench, one_waits, NULL);
    assert_int_equal(pg_sync_run(lock, "commit", &err), OK);
    pg_calls_wait(&bench, calls, 3);
    assert_int_equal(pg_get_i64(&calls[0].query.rows, 0, 0), 101);
    assert_int_equal(pg_get_i64(&calls[1].query.rows, 0, 0), 1);
    pg_calls_end(calls, 3);
    pg_sync_close(lock);
    pg_bench_close(&bench);
}

/* A query that was sent before may have been done, so a later failure must not tell the caller that
 * nothing was done. The exception is a query whose values are refused: they were already refused
 * the first time. */
static void test_a_later_failure_hides_no_earlier_success(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(conninfo);
    (void)state;
    config.lock_timeout_ms = 50;
    open_with_rows(&bench, &config, 3);
    struct pg_sync *lock = lock_row();
    calls[0].is_again = calls[2].is_again = true;
    start_all(&bench, 2, start_try);
    pg_call_start(&bench, &calls[2], start_bad_try, NULL);
    pg_calls_wait(&bench, calls, 3);
    calls[0].is_again = calls[2].is_again = false;
    pg_sync_close(lock);
    assert_int_equal(calls[0].query.status, ERR_CLOSED); /* the wait for the lock timed out */
    assert_true(calls[0].query.is_unknown);
    assert_int_equal(calls[1].query.status, OK);
    assert_int_equal(calls[2].query.status, ERR_INVALID);
    pg_calls_end(calls, 3);
    pg_bench_close(&bench);
}

/* A query that has been sent as often as it may be, because connections were lost, is in a set that
 * the database refuses for another query. That says nothing about this one. */
static void test_no_query_ends_with_the_error_of_another(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(conninfo);
    (void)state;
    open_with_rows(&bench, &config, 4);
    start_all(&bench, 4, start_last_try);
    pg_calls_wait(&bench, calls, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(calls[i].query.status, i == 2 ? ERR_INVALID : OK);
    pg_calls_end(calls, 4);
    pg_bench_close(&bench);
}

static const struct pg_column backend_columns[] = {PG_ARG("pid", PG_I64)};
static const struct pg_column backend_params[] = {PG_ARG("account_id", PG_UUID)};
static const struct pg_stmt backend = {
    .name = "backend",
    .sql = "select :ord, c.pid from @input lateral (select pg_backend_pid()::bigint as pid "
           "where :account_id is not null) c",
    PG_PARAMS(backend_params),
    PG_COLUMNS(backend_columns),
};

static void start_backend(struct pg_call *call)
{
    call->query.params[0] = pg_uuid(items_account(0));
    submit(call, &backend);
}

/* The process id of the session that waits for a lock. */
static bool find_waiting_session(void *arg)
{
    int64_t *session = arg;
    *session = items_ask(conninfo, "select coalesce(max(pid), 0) from pg_stat_activity"
                                   " where wait_event_type = 'Lock' and datname = "
                                   "current_database()");
    return *session > 0;
}

/* A statement is prepared after a command that fails, so the server skips the preparation, and the
 * second use of the statement is already under way. Both uses succeed in the same session. */
static void test_a_skipped_preparation_is_made_up_for(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(conninfo);
    (void)state;
    config.lock_timeout_ms = 2000; /* time to look at the session and to start the second use */
    config.readers = 1;
    open_with_rows(&bench, &config, 1);
    struct pg_sync *lock = lock_with("begin; lock table t.item");
    pg_call_start(&bench, &calls[0], start_get, NULL);
    pg_call_start(&bench, &calls[1], start_backend, NULL);
    int64_t session = 0;
    pg_bench_until_true(&bench, find_waiting_session, &session);
    pg_call_start(&bench, &calls[2], start_backend, NULL);
    pg_calls_wait(&bench, calls, 3);
    pg_sync_close(lock);
    assert_string_equal(calls[0].query.sqlstate, "55P03");
    for (size_t i = 1; i < 3; i++) {
        assert_int_equal(calls[i].query.status, OK);
        assert_int_equal(pg_get_i64(&calls[i].query.rows, 0, 0), session);
    }
    pg_calls_end(calls, 3);
    pg_bench_close(&bench);
}

/* ---- memory ---- */

/* Each allocation in turn fails while 12 writes and 12 reads are under way: each query ends, and
 * everything that is reported as done exists. */
static void test_failing_allocations(void **state)
{
    enum { HALF = 12 };
    struct pg_bench bench;
    (void)state;
    for (uint64_t n = 1, hits = 1; hits; n++) {
        struct pg_pool_config config = config_of(conninfo);
        open_with_rows(&bench, &config, 0);
        mem_fail_at(n, 1);
        start_all(&bench, HALF, start_put);
        for (size_t i = HALF; i < 2 * HALF; i++)
            pg_call_start(&bench, &calls[i], start_get, NULL);
        pg_calls_wait(&bench, calls, 2 * HALF);
        hits = mem_fail_hits();
        mem_fail_at(0, 0);
        int64_t done = 0;
        for (size_t i = 0; i < HALF; i++) {
            done += calls[i].query.status == OK;
            if (!hits)
                assert_int_equal(calls[i].query.status, OK);
        }
        pg_calls_end(calls, 2 * HALF);
        pg_bench_close(&bench);
        assert_true(items_ask(conninfo, "select count(*) from t.item") >= done);
    }
}

/* ---- leaving ---- */

static void test_cancel_waiting_and_in_flight(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(conninfo);
    (void)state;
    config.lock_timeout_ms = 60000;
    config.statement_timeout_ms = 60000;
    open_with_rows(&bench, &config, 3);
    struct pg_sync *lock = lock_row();
    pg_call_start(&bench, &calls[0], start_add, NULL);
    pg_bench_until_true(&bench, one_waits, NULL);
    pg_call_start(&bench, &calls[1], start_add, NULL); /* waits for the lane */
    while (!calls[1].is_submitted)
        loop_turn(bench.loop, false);
    assert_int_equal(pg_pool_pending(bench.pool), 2);
    op_cancel(&calls[1].op);
    assert_int_equal(calls[1].query.status, ERR_BUSY);
    op_cancel(&calls[0].op);
    pg_bench_until(&bench, &calls[1].is_freed);
    assert_false(calls[0].is_freed); /* the pool still holds the call */
    pg_sync_close(lock);
    pg_bench_until(&bench, &calls[0].is_freed);
    assert_int_equal(calls[0].query.rows.count, 0); /* drained, not copied */
    assert_int_equal(pg_pool_pending(bench.pool), 0);
    pg_bench_close(&bench);
}

static void test_pool_freed_under_way(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(conninfo);
    (void)state;
    config.lock_timeout_ms = 60000;
    config.statement_timeout_ms = 60000;
    open_with_rows(&bench, &config, 4);
    struct pg_sync *lock = lock_row();
    pg_call_start(&bench, &calls[0], start_set, NULL);
    pg_bench_until_true(&bench, one_waits, NULL);
    pg_call_start(&bench, &calls[1], start_set, NULL);
    while (!calls[1].is_submitted)
        loop_turn(bench.loop, false);
    pg_pool_free(bench.pool);
    bench.pool = NULL;
    pg_calls_wait(&bench, calls, 2);
    assert_int_equal(calls[0].query.status, ERR_CLOSED);
    assert_int_equal(calls[1].query.status, ERR_BUSY);
    pg_calls_end(calls, 2);
    pg_sync_close(lock);
    pg_bench_close(&bench);
}

/* ---- no database ---- */

static void test_queue_is_bounded(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of("host=/nonexistent dbname=x");
    (void)state;
    config.queue_max = 11; /* ten for an account alone */
    pg_bench_open(&bench, &config, false);
    start_all(&bench, 15, start_put);
    pg_calls_wait(&bench, &calls[10], 5); /* these fail at once */
    assert_int_equal(pg_pool_pending(bench.pool), 10);
    pg_call_start(&bench, &calls[16], start_other_put, NULL);
    pg_call_start(&bench, &calls[17], start_other_put, NULL);
    pg_calls_wait(&bench, &calls[17], 1);
    assert_int_equal(pg_pool_pending(bench.pool), 11);
    calls[15].is_again = true; /* the queue is full, but the query may have been done before */
    pg_call_start(&bench, &calls[15], start_put, NULL);
    pg_calls_wait(&bench, &calls[15], 1);
    assert_int_equal(calls[15].query.status, ERR_CLOSED);
    pg_call_end(&calls[15]);
    calls[15].is_again = false;
    pg_pool_free(bench.pool); /* the ten queries end, and nothing was sent */
    bench.pool = NULL;
    pg_calls_wait(&bench, calls, 15);
    for (size_t i = 0; i < 15; i++)
        assert_int_equal(calls[i].query.status, ERR_BUSY);
    pg_calls_end(calls, 15);
    pg_calls_wait(&bench, &calls[16], 1);
    pg_calls_end(&calls[16], 2);
    pg_bench_close(&bench);
}

static void start_attended(struct pg_call *call)
{
    call->op.is_attended = true;
    start_put(call);
}

static void start_first(struct pg_call *call)
{
    call->query.deadline_ns = loop_now_ns(call->bench->loop) + 200 * 1000 * 1000;
    start_attended(call);
}

static void start_result(struct pg_call *call)
{
    static struct pg_stmt result;
    result = item_put;
    result.is_result = true;
    call->op.is_attended = true;
    items_fill_put(&call->query, items_account(0), id_of(call), 0);
    submit(call, &result);
}

/* Once a query has timed out waiting for a connection, queries that a client waits for fail
 * immediately. Results of completed work are still stored, and other queries keep their
 * deadlines. */
static void test_an_unreachable_database_is_not_waited_for_twice(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of("host=/nonexistent dbname=x");
    (void)state;
    config.queue_timeout_ms = 3600 * 1000;
    pg_bench_open(&bench, &config, false);
    pg_call_start(&bench, &calls[0], start_first, NULL);
    pg_call_start(&bench, &calls[1], start_put, NULL);
    pg_calls_wait(&bench, calls, 1);
    assert_int_equal(calls[0].query.status, ERR_BUSY);
    pg_call_start(&bench, &calls[2], start_result, NULL);
    pg_call_start(&bench, &calls[3], start_attended, NULL);
    pg_calls_wait(&bench, &calls[3], 1); /* would take an hour if it waited */
    assert_int_equal(calls[3].query.status, ERR_BUSY);
    assert_int_equal(bench.pool->waiting, 2);
    op_cancel(&calls[1].op);
    op_cancel(&calls[2].op);
    pg_bench_until(&bench, &calls[1].is_freed);
    pg_bench_until(&bench, &calls[2].is_freed);
    pg_call_end(&calls[0]);
    pg_call_end(&calls[3]);
    calls[0].query.deadline_ns = 0; /* other tests use it again */
    pg_bench_close(&bench);
}

static void test_queue_has_a_deadline(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of("host=/nonexistent dbname=x");
    (void)state;
    config.queue_timeout_ms = 200;
    pg_bench_open(&bench, &config, false);
    start_all(&bench, 10, start_put);
    pg_calls_wait(&bench, calls, 10);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(calls[i].query.status, ERR_BUSY);
    assert_false(pg_pool_is_ready(bench.pool));
    bool is_named = false;
    for (size_t i = 0; i < bench.pool->lane_count; i++)
        is_named |= strstr(bench.pool->lanes[i]->link.last_err.text, "/nonexistent") != NULL;
    assert_true(is_named);
    pg_calls_end(calls, 10);
    pg_bench_close(&bench);
}

/* ---- sessions that no longer fit ---- */

static void test_plans_outlived_by_a_migration(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(conninfo);
    (void)state;
    open_with_rows(&bench, &config, 4);
    for (int round = 0; round < 2; round++) {
        start_all(&bench, 4, start_get);
        pg_calls_wait(&bench, calls, 4);
        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(calls[i].query.status, OK);
            assert_int_equal(calls[i].query.rows.count, 1);
        }
        pg_calls_end(calls, 4);
        /* the result type of `select t.*` changes under the prepared statement */
        items_tell(conninfo, "alter table t.item alter column name type varchar(50)");
    }
    items_tell(conninfo, "alter table t.item alter column name type text");
    pg_bench_close(&bench);
}

static int set_up(void **state)
{
    (void)state;
    calls = mem_calloc(CALLS_MAX, sizeof(*calls));
    conninfo = pg_cluster_database(false);
    items_tell(conninfo, ITEMS_SCHEMA);
    return calls ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    mem_free(calls);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_mid_batch_is_sent_again),
        cmocka_unit_test(test_a_slow_batch_holds_back_its_rows_only),
        cmocka_unit_test(test_a_large_read_holds_back_no_small_one),
        cmocka_unit_test(test_the_second_sending_looks_first),
        cmocka_unit_test(test_killed_and_not_replayable_is_unknown),
        cmocka_unit_test(test_restarts_lose_nothing),
        cmocka_unit_test(test_lock_timeout_hits_the_guilty_only),
        cmocka_unit_test(test_a_query_that_a_deadlock_ended_is_sent_again),
        cmocka_unit_test(test_a_changed_row_is_seen_in_its_new_version),
        cmocka_unit_test(test_a_later_failure_hides_no_earlier_success),
        cmocka_unit_test(test_no_query_ends_with_the_error_of_another),
        cmocka_unit_test(test_a_skipped_preparation_is_made_up_for),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_cancel_waiting_and_in_flight),
        cmocka_unit_test(test_pool_freed_under_way),
        cmocka_unit_test(test_queue_is_bounded),
        cmocka_unit_test(test_queue_has_a_deadline),
        cmocka_unit_test(test_an_unreachable_database_is_not_waited_for_twice),
        cmocka_unit_test(test_plans_outlived_by_a_migration),
    };
    loop_threads_init(4);
    int failed = 0;
    for (mode = PG_MODE_SET; mode <= PG_MODE_PIPE; mode++)
        failed += cmocka_run_group_tests_name(mode == PG_MODE_SET ? "set" : "pipe", tests, set_up,
                                              tear_down);
    return unit_result(failed);
}
