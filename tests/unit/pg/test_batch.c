/* Batches of 1 to 1000 queries give the same results in both modes. An error affects only the
 * query that caused it. */
#include <stdlib.h>

#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "unit.h"

enum { CALLS_MAX = 1500 };

static const char *conninfo;
static struct pg_call *calls;

/* The purpose of a call. */
static struct todo {
    struct uuid account;
    int64_t id, n;
} todo[CALLS_MAX];

static struct todo *todo_of(struct pg_call *call)
{
    return call->arg;
}

static void submit(struct pg_call *call, const struct pg_stmt *stmt)
{
    call->query.stmt = stmt;
    pg_submit(call->bench->pool, &call->query, &call->op);
}

static void start_put(struct pg_call *call)
{
    struct todo *t = todo_of(call);
    items_fill_put(&call->query, t->account, t->id, t->n);
    submit(call, &item_put);
}

static void start_take(struct pg_call *call)
{
    struct todo *t = todo_of(call);
    items_fill_put(&call->query, t->account, t->id, t->n);
    submit(call, &item_take);
}

static void start_add(struct pg_call *call)
{
    struct todo *t = todo_of(call);
    items_fill_by(&call->query, t->account, t->id, t->n);
    submit(call, &item_add);
}

static void start_get(struct pg_call *call)
{
    struct todo *t = todo_of(call);
    items_fill_key(&call->query, t->account, t->id);
    submit(call, &item_get);
}

static void start_list(struct pg_call *call)
{
    call->query.params[0] = pg_uuid(todo_of(call)->account);
    submit(call, &item_list);
}

static void start_drop(struct pg_call *call)
{
    struct todo *t = todo_of(call);
    items_fill_key(&call->query, t->account, t->id);
    submit(call, &item_drop);
}

static void start_all(struct pg_bench *bench, size_t count, void (*start)(struct pg_call *call))
{
    pg_calls_start(bench, calls, count, start, todo, sizeof(todo[0]));
    pg_calls_wait(bench, calls, count);
}

/* Plans row i for account i % 3, in an order that is not the order of the keys. */
static void plan(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t k = i * 7919 % count; /* 7919 is a prime above all counts here */
        todo[i] = (struct todo){items_account((uint8_t)(k % 3)), (int64_t)k + 1, (int64_t)k * 10};
    }
}

static struct pg_pool_config config_of(enum pg_mode mode)
{
    return (struct pg_pool_config){.conninfo = conninfo, .mode = mode, .queue_timeout_ms = 30000};
}

static void check_row(const struct pg_call *call, const struct todo *t)
{
    const struct pg_rows *rows = &call->query.rows;
    bool is_odd = t->id % 2 != 0;
    assert_int_equal(call->query.status, OK);
    assert_int_equal(rows->count, 1);
    assert_true(uuid_eq(pg_get_uuid(rows, 0, 0), t->account));
    assert_int_equal(pg_get_i64(rows, 0, 1), t->id);
    assert_int_equal(pg_get_i64(rows, 0, 2), t->n);
    for (size_t col = 3; col < 8; col++)
        assert_int_equal(pg_is_null(rows, 0, col), is_odd);
    assert_int_equal(pg_get_time(rows, 0, 5), is_odd ? 0 : 1767225599123456 + t->id);
    if (is_odd)
        return;
    assert_true(slice_eq(pg_get_bytes(rows, 0, 3), SLICE("na\xC3\xAFve")));
    assert_true(slice_eq(pg_get_bytes(rows, 0, 4), SLICE("{\"b\": 1,\"a\":\"\\u0000\"}")));
    assert_int_equal(pg_get_bool(rows, 0, 6), t->id % 4 == 0);
    assert_true(slice_eq(pg_get_bytes(rows, 0, 7), slice_of("\x00\xFF", 2)));
}

/* ---- the round trip ---- */

static void check_lists(struct pg_bench *bench, size_t count)
{
    struct todo saved[4];
    memcpy(saved, todo, sizeof(saved));
    for (size_t i = 0; i < 4; i++) /* the same row twice, and one that does not exist */
        todo[i].account = items_account((uint8_t[]){0, 1, 0, 77}[i]);
    start_all(bench, 4, start_list);
    for (size_t i = 0; i < 4; i++) {
        size_t first = i == 1 ? 1 : 0;
        size_t want = i == 3 || count <= first ? 0 : (count - first + 2) / 3;
        const struct pg_rows *rows = &calls[i].query.rows;
        assert_int_equal(rows->count, want);
        for (size_t row = 0; row < rows->count; row++) {
            int64_t id = (int64_t)(first + 3 * row) + 1;
            assert_int_equal(pg_get_i64(rows, row, 0), id);
            assert_int_equal(pg_get_i64(rows, row, 1), (id - 1) * 10);
        }
    }
    pg_calls_end(calls, 4);
    memcpy(todo, saved, sizeof(saved));
}

static void round_trip(enum pg_mode mode, size_t count)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(mode);
    items_tell(conninfo, "truncate t.item");
    plan(count);
    pg_bench_open(&bench, &config, true);

    start_all(&bench, count, start_take); /* new rows: each query returns its own row */
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(calls[i].query.rows.count, 1);
        assert_int_equal(pg_get_i64(&calls[i].query.rows, 0, 1), todo[i].id);
        assert_int_equal(pg_get_i64(&calls[i].query.rows, 0, 2), todo[i].n);
    }
    pg_calls_end(calls, count);
    start_all(&bench, count, start_take); /* exists: no row */
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(calls[i].query.status, OK);
        assert_int_equal(calls[i].query.rows.count, 0);
    }
    pg_calls_end(calls, count);
    start_all(&bench, count, start_get);
    for (size_t i = 0; i < count; i++)
        check_row(&calls[i], &todo[i]);
    pg_calls_end(calls, count);
    check_lists(&bench, count);
    start_all(&bench, count, start_add);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pg_get_i64(&calls[i].query.rows, 0, 0), 2 * todo[i].n);
    pg_calls_end(calls, count);
    for (size_t i = 0; i < count; i += 2)
        todo[i].id = -todo[i].id; /* half of the rows do not exist */
    start_all(&bench, count, start_drop);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(calls[i].query.rows.count, i % 2);
    pg_calls_end(calls, count);
    pg_bench_close(&bench);
    assert_int_equal(items_ask(conninfo, "select count(*) from t.item"), (count + 1) / 2);
}

static void test_sizes_in_both_modes(void **state)
{
    static const size_t sizes[] = {1, 2, 3, 5, 17, 100, 333, 1000};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        round_trip(PG_MODE_SET, sizes[i]);
        round_trip(PG_MODE_PIPE, sizes[i]);
    }
}

/* ---- a turn is a commit ---- */

static double metric_now(const char *line)
{
    struct buf text;
    buf_init(&text, 1024 * 1024);
    metric_render(&text);
    buf_append_char(&text, '\0');
    const char *at = text.ptr;
    double value = 0;
    while ((at = strstr(at, line))) {
        if ((at == text.ptr || at[-1] == '\n') && at[strlen(line)] == ' ')
            value = strtod(at + strlen(line), NULL);
        at += strlen(line);
    }
    buf_deinit(&text);
    return value;
}

/* ---- reads that share an answer ---- */

/* Column n of an account's row, and the number of queries so far. */
static const struct pg_column shared_params[] = {PG_ARG("account_id", PG_UUID),
                                                 PG_ARG("id", PG_I64)};
static const struct pg_column shared_columns[] = {PG_ARG("n", PG_I64), PG_ARG("asked", PG_I64)};
static const struct pg_stmt item_shared = {
    .name = "item_shared",
    .sql = "select :ord, c.* from @input lateral (select x.n, nextval('t.asked') from t.item x "
           "where x.account_id = :account_id and x.id = :id) c",
    PG_PARAMS(shared_params),
    PG_COLUMNS(shared_columns),
    .is_shared = true,
};

static void start_shared(struct pg_call *call)
{
    struct todo *t = todo_of(call);
    items_fill_key(&call->query, t->account, t->id);
    submit(call, &item_shared);
}

/* Makes `count` calls in one turn for `different` rows, and one for a row that does not exist. */
static void share(enum pg_mode mode, size_t count, size_t different)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(mode);
    items_tell(conninfo, "truncate t.item");
    items_tell(conninfo, "drop sequence if exists t.asked");
    items_tell(conninfo, "create sequence t.asked");
    plan(different);
    pg_bench_open(&bench, &config, true);
    start_all(&bench, different, start_take);
    pg_calls_end(calls, different);
    for (size_t i = different; i < count; i++)
        todo[i] = todo[i % different];
    todo[count / 2].id = -1;
    start_all(&bench, count, start_shared);
    for (size_t i = 0; i < count; i++) {
        const struct pg_rows *rows = &calls[i].query.rows;
        assert_int_equal(calls[i].query.status, OK);
        assert_int_equal(rows->count, todo[i].id != -1);
        if (rows->count)
            assert_int_equal(pg_get_i64(rows, 0, 0), todo[i].n);
    }
    pg_calls_end(calls, count);
    pg_bench_close(&bench);
    int64_t asked = items_ask(conninfo, "select last_value from t.asked");
    assert_in_range(asked, different, 2 * different);
}

static void test_the_same_is_asked_once(void **state)
{
    (void)state;
    static const size_t counts[][2] = {{2, 1}, {50, 1}, {50, 7}, {300, 40}};
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        share(PG_MODE_SET, counts[i][0], counts[i][1]);
        share(PG_MODE_PIPE, counts[i][0], counts[i][1]);
    }
}

static void test_a_turn_is_a_commit(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(PG_MODE_SET);
    (void)state;
    items_tell(conninfo, "truncate t.item");
    plan(300);
    config.writers = 1;
    pg_bench_open(&bench, &config, true);
    double before = metric_now("sluice_pg_commits_total");
    uint64_t turns_before = loop_stats(bench.loop)->turns;
    start_all(&bench, 300, start_put);
    double commits = metric_now("sluice_pg_commits_total") - before;
    assert_true(commits >= 1 && commits <= (double)(loop_stats(bench.loop)->turns - turns_before));
    assert_true(commits <= 30);
    pg_calls_end(calls, 300);
    pg_bench_close(&bench);
}

/* ---- reads of one turn among readers ---- */

#define BACKEND(number)                                                                           \
    {                                                                                             \
        .name = "backend_" #number,                                                               \
        .sql = "select :ord, c.pid from @input lateral (select pg_backend_pid()::bigint "         \
               "as pid where :account_id is not null) c",                                         \
        .params = shared_params, .param_count = 1, .columns = backend_columns, .column_count = 1, \
    }
static const struct pg_column backend_columns[] = {PG_ARG("pid", PG_I64)};
static const struct pg_stmt backend_stmts[] = {BACKEND(0), BACKEND(1), BACKEND(2),
                                               BACKEND(3), BACKEND(4), BACKEND(5),
                                               BACKEND(6), BACKEND(7), BACKEND(8)};

/* Starts the statement with that id. */
static void start_backend(struct pg_call *call)
{
    struct todo *t = todo_of(call);
    call->query.params[0] = pg_uuid(t->account);
    submit(call, &backend_stmts[t->id]);
}

/* The number of these reads that ran on the connection of the first. */
static size_t on_first(struct pg_bench *bench, size_t count, bool are_different)
{
    size_t same = 0;
    for (size_t i = 0; i < count; i++)
        todo[i] = (struct todo){items_account(1), are_different ? (int64_t)i : 0, 0};
    start_all(bench, count, start_backend);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(calls[i].query.status, OK);
        same += pg_get_i64(&calls[i].query.rows, 0, 0) == pg_get_i64(&calls[0].query.rows, 0, 0);
    }
    pg_calls_end(calls, count);
    return same;
}

static void test_different_reads_are_shared_out_among_idle_readers(void **state)
{
    (void)state;
    for (enum pg_mode mode = PG_MODE_SET; mode <= PG_MODE_PIPE; mode++) {
        struct pg_bench bench;
        struct pg_pool_config config = config_of(mode);
        double before = metric_now("sluice_pg_connects_total");
        pg_bench_open(&bench, &config, true);
        WAIT_UNTIL(bench.loop, metric_now("sluice_pg_connects_total") - before >= 4);
        assert_int_equal(on_first(&bench, 2, true), 2);
        assert_int_equal(on_first(&bench, 3, true), 2);
        assert_int_equal(on_first(&bench, 8, true), 4);
        assert_int_equal(on_first(&bench, 9, true), 9);
        assert_int_equal(on_first(&bench, 6, false), 6);
        pg_bench_close(&bench);
    }
}

static void test_one_row_keeps_its_order(void **state)
{
    struct pg_bench bench;
    (void)state;
    for (int mode = PG_MODE_SET; mode <= PG_MODE_PIPE; mode++) {
        struct pg_pool_config config = config_of((enum pg_mode)mode);
        items_tell(conninfo, "truncate t.item");
        pg_bench_open(&bench, &config, true);
        for (size_t i = 0; i < 40; i++)
            todo[i] = (struct todo){items_account(1), 1 + (int64_t)(i % 2), 1};
        start_all(&bench, 2, start_put);
        pg_calls_end(calls, 2);
        start_all(&bench, 40, start_add);
        for (size_t i = 0; i < 40; i++)
            assert_int_equal(pg_get_i64(&calls[i].query.rows, 0, 0), 2 + i / 2);
        pg_calls_end(calls, 40);
        pg_bench_close(&bench);
    }
}

/* ---- accounts ---- */

static size_t done_of(const struct pg_call *some, size_t count)
{
    size_t done = 0;
    for (size_t i = 0; i < count; i++)
        done += some[i].is_done;
    return done;
}

/* 200 queries of one account wait, then four of another. */
static void start_two_accounts(struct pg_bench *bench, void (*start)(struct pg_call *call))
{
    for (size_t i = 0; i < 204; i++)
        todo[i] = (struct todo){items_account(i < 200 ? 1 : 2), (int64_t)i + 1, 1};
    pg_calls_start(bench, calls, 204, start, todo, sizeof(todo[0]));
    pg_calls_wait(bench, &calls[200], 4);
}

static void test_accounts_take_turns(void **state)
{
    struct pg_bench bench;
    (void)state;
    for (int mode = PG_MODE_SET; mode <= PG_MODE_PIPE; mode++) {
        struct pg_pool_config config = config_of((enum pg_mode)mode);
        config.writers = config.readers = 1;
        config.batch_rows_max = 8;
        items_tell(conninfo, "truncate t.item");
        pg_bench_open(&bench, &config, true);
        start_two_accounts(&bench, start_put);
        assert_true(done_of(calls, 200) <= 100);
        pg_calls_wait(&bench, calls, 204);
        for (size_t i = 0; i < 204; i++)
            assert_int_equal(calls[i].query.status, OK);
        pg_calls_end(calls, 204);
        start_two_accounts(&bench, start_get);
        assert_true(done_of(calls, 200) <= 100);
        pg_calls_wait(&bench, calls, 204);
        for (size_t i = 0; i < 204; i++)
            assert_int_equal(pg_get_i64(&calls[i].query.rows, 0, 1), i + 1);
        pg_calls_end(calls, 204);
        pg_bench_close(&bench);
    }
}

/* One account with large documents, each of which ends a batch, and another with small documents.
 */
static void start_large_or_put(struct pg_call *call)
{
    static char large[PG_ALONE_BYTES + 100];
    struct todo *t = todo_of(call);
    memset(large, 'x', sizeof(large));
    large[0] = large[sizeof(large) - 1] = '"';
    items_fill_put(&call->query, t->account, t->id, t->n);
    if (t->id <= 20)
        call->query.params[4] = pg_json(slice_of(large, sizeof(large)));
    submit(call, &item_put);
}

static void test_what_goes_alone_holds_up_no_other_account(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(PG_MODE_SET);
    (void)state;
    config.writers = 1;
    items_tell(conninfo, "truncate t.item");
    pg_bench_open(&bench, &config, true);
    for (size_t i = 0; i < 120; i++)
        todo[i] = (struct todo){items_account(i < 20 ? 1 : 2), (int64_t)i + 1, 1};
    pg_calls_start(&bench, calls, 120, start_large_or_put, todo, sizeof(todo[0]));
    pg_calls_wait(&bench, &calls[20], 100);
    assert_true(done_of(calls, 20) <= 10);
    pg_calls_wait(&bench, calls, 120);
    for (size_t i = 0; i < 120; i++)
        assert_int_equal(calls[i].query.status, OK);
    pg_calls_end(calls, 120);
    pg_bench_close(&bench);
}

/* Many changes of one row, which run one after the other, and a change of another account. */
static void test_a_row_that_many_change_holds_up_no_other_account(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(PG_MODE_SET);
    (void)state;
    config.writers = 1;
    items_tell(conninfo, "truncate t.item");
    pg_bench_open(&bench, &config, true);
    todo[0] = (struct todo){items_account(1), 1, 1};
    start_all(&bench, 1, start_put);
    pg_calls_end(calls, 1);
    for (size_t i = 0; i < 1400; i++)
        todo[i] = (struct todo){items_account(i < 1300 ? 1 : 2), i < 1300 ? 1 : (int64_t)i, 1};
    pg_calls_start(&bench, calls, 1400, start_add, todo, sizeof(todo[0]));
    pg_calls_wait(&bench, &calls[1300], 100);
    assert_true(done_of(calls, 1300) <= 100);
    pg_calls_wait(&bench, calls, 1400);
    assert_int_equal(pg_get_i64(&calls[1299].query.rows, 0, 0), 1301); /* made in order */
    pg_calls_end(calls, 1400);
    pg_bench_close(&bench);
}

/* ---- errors ---- */

static void check_guilty(const struct pg_call *call)
{
    assert_int_equal(call->query.status, ERR_INVALID);
    assert_string_equal(call->query.sqlstate, "23514");
    assert_true(slice_find(call->query.message, SLICE("check constraint")) >= 0);
}

static void test_only_the_guilty_sees_its_error(void **state)
{
    struct pg_bench bench;
    (void)state;
    for (int mode = PG_MODE_SET; mode <= PG_MODE_PIPE; mode++) {
        struct pg_pool_config config = config_of((enum pg_mode)mode);
        items_tell(conninfo, "truncate t.item");
        plan(50);
        todo[31].n = -1; /* CHECK (n >= 0) */
        pg_bench_open(&bench, &config, true);
        start_all(&bench, 50, start_put);
        for (size_t i = 0; i < 50; i++)
            if (i == 31)
                check_guilty(&calls[i]);
            else
                assert_int_equal(calls[i].query.status, OK);
        pg_calls_end(calls, 50);
        pg_bench_close(&bench);
        assert_int_equal(items_ask(conninfo, "select count(*) from t.item"), 49);
    }
}

static void start_poison(struct pg_call *call)
{
    start_put(call);
    call->query.params[3] = pg_text(slice_of("a\0b", 3)); /* still queued: the turn is not over */
}

static void test_text_with_nul_is_refused(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(PG_MODE_SET);
    (void)state;
    items_tell(conninfo, "truncate t.item");
    plan(10);
    pg_bench_open(&bench, &config, true);
    for (size_t i = 0; i < 10; i++)
        pg_call_start(&bench, &calls[i], i == 4 ? start_poison : start_put, &todo[i]);
    pg_calls_wait(&bench, calls, 10);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(calls[i].query.status, i == 4 ? ERR_INVALID : OK);
    assert_string_equal(calls[4].query.sqlstate, "22021");
    pg_calls_end(calls, 10);
    pg_bench_close(&bench);
}

/* ---- large documents ---- */

static slice large;

static void start_large(struct pg_call *call)
{
    start_put(call);
    call->query.params[4] = pg_json(large);
}

static void test_large_documents(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = config_of(PG_MODE_SET);
    struct buf text;
    (void)state;
    items_tell(conninfo, "truncate t.item");
    buf_init(&text, 16 * 1024 * 1024);
    buf_append_char(&text, '"');
    while (text.len < 2 * 1024 * 1024)
        buf_append_u64(&text, random_u64());
    buf_append_char(&text, '"');
    large = buf_slice(&text);
    plan(20);
    pg_bench_open(&bench, &config, true);
    for (size_t i = 0; i < 20; i++)
        pg_call_start(&bench, &calls[i], i % 7 == 3 ? start_large : start_put, &todo[i]);
    pg_calls_wait(&bench, calls, 20);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(calls[i].query.status, OK);
    pg_calls_end(calls, 20);
    start_all(&bench, 20, start_get);
    for (size_t i = 0; i < 20; i++)
        if (i % 7 == 3)
            assert_true(slice_eq(pg_get_bytes(&calls[i].query.rows, 0, 4), large));
        else
            check_row(&calls[i], &todo[i]);
    pg_calls_end(calls, 20);
    pg_bench_close(&bench);
    buf_deinit(&text);
}

static int set_up(void **state)
{
    (void)state;
    calls = mem_calloc(CALLS_MAX, sizeof(*calls));
    conninfo = pg_cluster_database(false);
    items_tell(conninfo, ITEMS_SCHEMA);
    return calls ? 0 : -1;
}

/* ---- the largest number of parameters ---- */

static char widest_sql[PG_PARAMS_MAX * 16 + 100], widest_names[PG_PARAMS_MAX][4];
static struct pg_column widest_params[PG_PARAMS_MAX];
static const struct pg_column widest_columns[] = {PG_ARG("sum", PG_I64)};
static const struct pg_stmt widest = {
    .name = "widest",
    .sql = widest_sql,
    PG_PARAMS(widest_params),
    PG_COLUMNS(widest_columns),
    .no_account = "it reads no table",
};

/* Each parameter has a different weight, so one that is passed as text or in another's position
 * is detected. */
static void make_widest(void)
{
    size_t len = (size_t)snprintf(widest_sql, sizeof(widest_sql),
                                  "select :ord, c.* from @input lateral (select 0::bigint");
    for (size_t i = 0; i < PG_PARAMS_MAX; i++) {
        snprintf(widest_names[i], sizeof(widest_names[i]), "p%zu", i);
        widest_params[i] = (struct pg_column)PG_ARG(widest_names[i], PG_I64);
        len += (size_t)snprintf(widest_sql + len, sizeof(widest_sql) - len, " + %zu * :%s", i + 1,
                                widest_names[i]);
    }
    snprintf(widest_sql + len, sizeof(widest_sql) - len, " offset 0) c");
}

static void start_widest(struct pg_call *call)
{
    for (size_t i = 0; i < PG_PARAMS_MAX; i++)
        call->query.params[i] = pg_i64(todo_of(call)->n + (int64_t)i);
    submit(call, &widest);
}

static void test_all_parameters_travel_alike(void **state)
{
    (void)state;
    make_widest();
    for (enum pg_mode mode = PG_MODE_SET; mode <= PG_MODE_PIPE; mode++)
        for (size_t count = 1; count <= 3; count += 2) {
            struct pg_pool_config config = config_of(mode);
            struct pg_bench bench;
            pg_bench_open(&bench, &config, true);
            plan(count);
            start_all(&bench, count, start_widest);
            for (size_t i = 0; i < count; i++) {
                int64_t want = 0;
                for (int64_t k = 0; k < PG_PARAMS_MAX; k++)
                    want += (k + 1) * (todo[i].n + k);
                assert_int_equal(calls[i].query.status, OK);
                assert_int_equal(pg_get_i64(&calls[i].query.rows, 0, 0), want);
            }
            pg_calls_end(calls, count);
            pg_bench_close(&bench);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_in_both_modes),
        cmocka_unit_test(test_the_same_is_asked_once),
        cmocka_unit_test(test_a_turn_is_a_commit),
        cmocka_unit_test(test_different_reads_are_shared_out_among_idle_readers),
        cmocka_unit_test(test_one_row_keeps_its_order),
        cmocka_unit_test(test_accounts_take_turns),
        cmocka_unit_test(test_what_goes_alone_holds_up_no_other_account),
        cmocka_unit_test(test_a_row_that_many_change_holds_up_no_other_account),
        cmocka_unit_test(test_only_the_guilty_sees_its_error),
        cmocka_unit_test(test_text_with_nul_is_refused),
        cmocka_unit_test(test_large_documents),
        cmocka_unit_test(test_all_parameters_travel_alike),
    };
    int failed = cmocka_run_group_tests(tests, set_up, NULL);
    mem_free(calls);
    return unit_result(failed);
}
