/*
 * Sharded mode with a plain database that has Citus' catalogs (support/pg_sharded.h): where queries
 * are sent, the effects of a moved shard, and scans of all shards.
 */
#include "pg/lane.h"
#include "shard/shards.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "support/pg_sharded.h"
#include "unit.h"

enum { CALLS = 24, SCAN_MAX = 10 };

static const char *conninfo;
static struct pg_bench bench;
static struct pg_call calls[CALLS];

/* ---- statements ---- */

static const struct pg_column note_columns[] = {PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_I64),
                                                PG_ARG("body", PG_TEXT)};

static const struct pg_stmt note_put = {
    .name = "note_put",
    .sql = "insert into sluice.note (account_id, id, body) @row :account_id, :id, :body @end "
           "on conflict do nothing",
    PG_PARAMS(note_columns),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

static const struct pg_stmt note_get = {
    .name = "note_get",
    .sql = "select :ord, t.account_id, t.id, t.body @read(sluice.note)",
    .params = note_columns,
    .param_count = 2,
    PG_COLUMNS(note_columns),
    .key_count = 2,
};

#define SCAN "select :ord, c.* from (select account_id, id, body from sluice.note "
static const struct pg_stmt note_first = {
    .name = "note_first",
    .sql = SCAN "order by id, account_id limit 10) c",
    PG_COLUMNS(note_columns),
    .no_account = "a test",
    .is_spread = true,
    .spread_max = SCAN_MAX,
    .spread_order = "id account_id",
};

static const struct pg_stmt note_any = {
    .name = "note_any",
    .sql = SCAN "limit 10) c",
    PG_COLUMNS(note_columns),
    .no_account = "a test",
    .is_spread = true,
    .spread_max = SCAN_MAX,
};

static const struct pg_stmt note_clear = {
    .name = "note_clear",
    .sql = "delete from sluice.note",
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
    .no_account = "a test",
    .is_spread = true,
};

/* The tables that each node has a copy of, and those that are sharded. */
static const struct pg_stmt kind_of_shard = {
    .name = "kind_of_shard",
    .sql = "select :ord, c.* from @input lateral (select k.account_id, k.id, k.body "
           "from sluice.kind k where uuid_hash(k.account_id) between :hash_min and :hash_max) c",
    PG_TAKES(PG_ARG(PG_HASH_MIN, PG_I64), PG_ARG(PG_HASH_MAX, PG_I64)),
    PG_COLUMNS(note_columns),
    .no_account = "a test",
    .is_spread = true,
    .spread_order = "id",
};

/* Sent to the coordinator, with an error that the database invents. */
static const struct pg_column fail_columns[] = {PG_ARG("count", PG_I64)};
static const struct pg_stmt fail_write = {
    .name = "fail_write",
    .sql = "select :ord, sluice.fail('08006')",
    PG_COLUMNS(fail_columns),
    .access = PG_WRITE_ONCE,
    .no_account = "a test",
};
static const struct pg_stmt fail_again = {
    .name = "fail_again",
    .sql = "select :ord, sluice.fail('08006')",
    PG_COLUMNS(fail_columns),
    .access = PG_WRITE,
    .no_account = "a test",
};
static const struct pg_stmt fail_plan = {
    .name = "fail_plan",
    .sql = "select :ord, sluice.fail('0A000')",
    PG_COLUMNS(fail_columns),
    .no_account = "a test",
};

static struct note {
    struct uuid account;
    int64_t id;
} notes[CALLS];

static void start_note(struct pg_call *call, const struct pg_stmt *stmt)
{
    const struct note *note = call->arg;
    call->query.stmt = stmt;
    call->query.params[0] = pg_uuid(note->account);
    call->query.params[1] = pg_i64(note->id);
    call->query.params[2] = pg_text(SLICE("a note"));
    pg_submit(call->bench->pool, &call->query, &call->op);
}

static void start_put(struct pg_call *call)
{
    start_note(call, &note_put);
}

static void start_get(struct pg_call *call)
{
    start_note(call, &note_get);
}

/* arg: the statement, which has only the bounds of a hash as parameters. */
static void start_plain(struct pg_call *call)
{
    call->query.stmt = call->arg;
    for (size_t i = 0; i < call->query.stmt->param_count; i++)
        call->query.params[i] = pg_i64(0);
    pg_submit(call->bench->pool, &call->query, &call->op);
}

static int run_plain(const struct pg_stmt *stmt)
{
    return pg_call_run(&bench, &calls[0], start_plain, (void *)stmt);
}

/* ---- the database ---- */

static int64_t ask(const char *sql)
{
    return items_ask(conninfo, sql);
}

static int64_t notes_of(unsigned index)
{
    char sql[128];
    (void)snprintf(sql, sizeof(sql), "select count(*) from sluice.note_%u", SHARDED_NOTE + index);
    return ask(sql);
}

static struct pg_pool_config config_of(void)
{
    return (struct pg_pool_config){
        .conninfo = conninfo,
        .is_sharded = true,
        .queue_timeout_ms = 60000,
        .lock_timeout_ms = 60000, /* a test holds a lock while it connects to another node */
        .statement_timeout_ms = 60000,
    };
}

static struct shards *shards_of_bench(void)
{
    return shards_of(bench.pool->router);
}

static bool all_nodes_are_ready(void)
{
    const struct placement *placement = shards_of_bench()->placement;
    for (size_t i = 0; i < placement->shard_count; i++)
        if (!pg_pool_is_ready(shards_pool(shards_of_bench(), &placement->shards[i])))
            return false;
    return true;
}

/* lanes: readers of each pool, and writers; 0: the usual number. */
static void begin_with(unsigned lanes)
{
    struct pg_pool_config config = config_of();
    config.writers = config.readers = lanes;
    conninfo = config.conninfo = pg_sharded_database();
    pg_bench_open_by(&bench, shard_pool_new, &config, true);
    WAIT_UNTIL(bench.loop, all_nodes_are_ready());
    for (size_t i = 0; i < CALLS; i++) {
        unsigned index = (unsigned)i % SHARDED_COUNT;
        notes[i].account = pg_sharded_account(index, (unsigned)(i / SHARDED_COUNT % 3));
        notes[i].id = (int64_t)(CALLS - i);
    }
}

static void put_all(void)
{
    pg_calls_start(&bench, calls, CALLS, start_put, notes, sizeof(notes[0]));
    pg_calls_wait(&bench, calls, CALLS);
    for (size_t i = 0; i < CALLS; i++)
        assert_int_equal(calls[i].query.status, OK);
    pg_calls_end(calls, CALLS);
}

static void begin(void)
{
    begin_with(0);
}

/* Splits the shards of index 0 in two, with new names, as Citus would. */
static void run_split(void)
{
    items_tell(conninfo,
               "begin; select pg_advisory_xact_lock(100); "
               "create table sluice.connection_104 (like sluice.connection including all); "
               "create table sluice.connection_105 (like sluice.connection including all); "
               "create table sluice.note_204 (like sluice.note including all); "
               "create table sluice.note_205 (like sluice.note including all); "
               "insert into pg_dist_shard select s.logicalrelid, s.shardid + 4 + part, "
               "(s.shardminvalue::bigint + part * 536870912)::text, "
               "(s.shardminvalue::bigint + (part + 1) * 536870912 - 1)::text "
               "from pg_dist_shard s, generate_series(0, 1) part where s.shardid in (100, 200); "
               "insert into pg_dist_placement select s + part, 1 + part "
               "from unnest(array[104, 204]) s, generate_series(0, 1) part; "
               "delete from pg_dist_shard where shardid in (100, 200); "
               "delete from pg_dist_placement where shardid in (100, 200); "
               "delete from sluice.note_200; commit");
}

/* The node of these shards, as far as the pool knows. */
static int64_t group_of(unsigned index)
{
    const struct placement *placement = shards_of_bench()->placement;
    return placement_by_id(placement, SHARDED_ANCHOR + index)->group;
}

/* ---- tests ---- */

static void test_each_account_is_queried_on_its_shard(void **state)
{
    (void)state;
    begin();
    put_all();
    for (unsigned i = 0; i < SHARDED_COUNT; i++)
        assert_int_equal(notes_of(i), CALLS / SHARDED_COUNT);
    pg_calls_start(&bench, calls, CALLS, start_get, notes, sizeof(notes[0]));
    pg_calls_wait(&bench, calls, CALLS);
    for (size_t i = 0; i < CALLS; i++) {
        assert_int_equal(calls[i].query.status, OK);
        assert_int_equal(calls[i].query.rows.count, 1);
        assert_true(uuid_eq(pg_get_uuid(&calls[i].query.rows, 0, 0), notes[i].account));
    }
    pg_calls_end(calls, CALLS);
    pg_bench_close(&bench);
}

/* Whether the log of PostgreSQL contains the text. */
static bool is_logged(const char *text)
{
    char path[256], line[1024];
    bool is_found = false;
    (void)snprintf(path, sizeof(path), "%s/server.log", pg_cluster_socket_dir());
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (!is_found && fgets(line, sizeof(line), file))
        is_found = strstr(line, text) != NULL;
    (void)fclose(file);
    return is_found;
}

/* The guards of the next batch detect the change, and the batch is not lost. An operator who reads
 * the log of PostgreSQL learns what the error of the guards means. */
static void test_a_moved_shard_is_followed(void **state)
{
    (void)state;
    begin();
    pg_sharded_move(conninfo, 0, 2);
    assert_int_equal(group_of(0), 1);
    put_all();
    assert_int_equal(group_of(0), 2);
    assert_int_equal(group_of(1), 2);
    assert_int_equal(notes_of(0), CALLS / SHARDED_COUNT);
    assert_true(
        is_logged("\"shard 100 is not in node group 1 any more: the batch is sent again\""));
    pg_bench_close(&bench);
}

/* While a move holds a shard's lock, the shard's queries wait. Those of other shards do not. */
static void test_a_shard_that_is_being_moved_holds_up_its_own(void **state)
{
    struct err err;
    (void)state;
    begin();
    struct pg_sync *mover = pg_sync_open(conninfo, &err);
    assert_int_equal(pg_sync_run(mover, "begin; select pg_advisory_xact_lock(100)", &err), OK);
    pg_call_start(&bench, &calls[0], start_put, &notes[0]);
    assert_int_equal(pg_call_run(&bench, &calls[1], start_put, &notes[1]), OK);
    assert_false(calls[0].is_done);
    assert_int_equal(pg_sync_run(mover,
                                 "update pg_dist_placement set groupid = 2 "
                                 "where shardid in (100, 200); commit",
                                 &err),
                     OK);
    pg_calls_wait(&bench, &calls[0], 1);
    assert_int_equal(calls[0].query.status, OK);
    assert_int_equal(group_of(0), 2);
    pg_calls_end(calls, 2);
    pg_sync_close(mover);
    pg_bench_close(&bench);
}

static void test_the_first_rows_of_all_shards(void **state)
{
    (void)state;
    begin();
    put_all();
    assert_int_equal(run_plain(&note_first), OK);
    const struct pg_rows *rows = &calls[0].query.rows;
    assert_false(calls[0].query.is_partial);
    assert_int_equal(rows->count, SCAN_MAX);
    for (size_t i = 0; i < rows->count; i++) {
        assert_int_equal(pg_get_i64(rows, i, 1), i + 1);
        assert_true(slice_eq_cstr(pg_get_bytes(rows, i, 2), "a note"));
    }
    pg_call_end(&calls[0]);
    pg_bench_close(&bench);
}

static void test_without_an_order_shards_take_turns(void **state)
{
    size_t found[SHARDED_COUNT] = {0};
    (void)state;
    begin();
    put_all();
    assert_int_equal(run_plain(&note_any), OK);
    const struct pg_rows *rows = &calls[0].query.rows;
    assert_int_equal(rows->count, SCAN_MAX);
    for (size_t i = 0; i < rows->count; i++)
        for (unsigned s = 0; s < SHARDED_COUNT; s++)
            for (unsigned n = 0; n < 3; n++)
                found[s] += uuid_eq(pg_get_uuid(rows, i, 0), pg_sharded_account(s, n));
    for (unsigned s = 0; s < SHARDED_COUNT; s++)
        assert_in_range(found[s], SCAN_MAX / SHARDED_COUNT, SCAN_MAX / SHARDED_COUNT + 1);
    pg_call_end(&calls[0]);
    pg_bench_close(&bench);
}

static void test_a_write_of_all_shards(void **state)
{
    (void)state;
    begin();
    put_all();
    assert_int_equal(run_plain(&note_clear), OK);
    for (unsigned i = 0; i < SHARDED_COUNT; i++)
        assert_int_equal(notes_of(i), 0);
    pg_call_end(&calls[0]);
    pg_bench_close(&bench);
}

static void test_copied_rows_are_found_once(void **state)
{
    (void)state;
    begin();
    items_tell(conninfo, "insert into sluice.kind_300 select gen_random_uuid(), n, 'k' "
                         "from generate_series(1, 40) n");
    assert_int_equal(run_plain(&kind_of_shard), OK);
    const struct pg_rows *rows = &calls[0].query.rows;
    assert_int_equal(rows->count, 40);
    for (size_t i = 0; i < rows->count; i++)
        assert_int_equal(pg_get_i64(rows, i, 1), i + 1);
    pg_call_end(&calls[0]);
    pg_bench_close(&bench);
}

/* Moves a shard to node 3, which has an address where nothing listens. */
static void lose_shard(unsigned index)
{
    items_tell(conninfo, "insert into pg_dist_node values (3, '127.0.0.1', 1, 'primary', true)");
    pg_sharded_move(conninfo, index, 3);
    shards_refresh(shards_of_bench());
    WAIT_UNTIL(bench.loop, group_of(index) == 3);
}

static void test_a_node_that_is_away_concerns_its_own_accounts(void **state)
{
    (void)state;
    begin();
    put_all();
    lose_shard(3);
    assert_true(pg_pool_is_ready(bench.pool));
    assert_int_equal(run_plain(&note_first), OK);
    assert_true(calls[0].query.is_partial);
    assert_int_equal(calls[0].query.rows.count, SCAN_MAX);
    for (size_t i = 0; i < SCAN_MAX; i++)
        assert_int_not_equal(pg_get_i64(&calls[0].query.rows, i, 1) % SHARDED_COUNT, 1);
    pg_call_end(&calls[0]);
    assert_int_equal(pg_call_run(&bench, &calls[0], start_get, &notes[0]), OK);
    pg_call_end(&calls[0]);
    pg_bench_close(&bench);
}

/* Queries of note_200 wait until this connection is closed. Otherwise they could be answered in the
 * turn that sent them. */
static struct pg_sync *hold_up(void)
{
    struct err err;
    struct pg_sync *holder = pg_sync_open(conninfo, &err);
    assert_int_equal(pg_sync_run(holder, "begin; lock table sluice.note_200", &err), OK);
    return holder;
}

/* Gives node 2 another address. */
static void readdress(const char *host, unsigned port)
{
    char sql[512];
    (void)snprintf(sql, sizeof(sql),
                   "update pg_dist_node set nodename = '%s', nodeport = %u where groupid = 2", host,
                   port);
    items_tell(conninfo, sql);
}

/* A pool that cannot reach its node loads the node's address again. */
static void test_a_node_with_another_address_is_followed(void **state)
{
    (void)state;
    begin();
    const struct pg_pool *before =
        shards_pool(shards_of_bench(), &shards_of_bench()->placement->shards[1]);
    readdress("127.0.0.1", 1);
    shards_refresh(shards_of_bench());
    WAIT_UNTIL(bench.loop,
               shards_pool(shards_of_bench(), &shards_of_bench()->placement->shards[1]) != before);
    pg_call_start(&bench, &calls[0], start_put, &notes[1]);
    assert_int_equal(pg_call_run(&bench, &calls[1], start_put, &notes[0]), OK);
    assert_false(calls[0].is_done);
    readdress(pg_cluster_socket_dir(), pg_cluster_port());
    pg_calls_wait(&bench, &calls[0], 1);
    assert_int_equal(calls[0].query.status, OK);
    assert_int_equal(notes_of(1), 1);
    pg_calls_end(calls, 2);
    pg_bench_close(&bench);
}

/* Queries that wait or are in flight are sent to the new address. */
static void test_queries_under_way_follow_their_node(void **state)
{
    char other[256];
    (void)state;
    begin();
    (void)snprintf(other, sizeof(other), "%s/.", pg_cluster_socket_dir());
    struct err err;
    struct pg_sync *holder = pg_sync_open(conninfo, &err);
    assert_int_equal(pg_sync_run(holder, "begin; lock table sluice.note_201", &err), OK);
    pg_calls_start(&bench, calls, CALLS, start_put, notes, sizeof(notes[0]));
    WAIT_UNTIL(bench.loop,
               ask("select count(*) from pg_locks l join pg_class c on c.oid = l.relation "
                   "where c.relname = 'note_201' and not l.granted") > 0);
    readdress(other, pg_cluster_port());
    shards_refresh(shards_of_bench());
    WAIT_UNTIL(bench.loop,
               ask("select count(*) from pg_locks l join pg_class c on c.oid = l.relation "
                   "where c.relname = 'note_201' and not l.granted") > 1);
    pg_sync_close(holder);
    pg_calls_wait(&bench, calls, CALLS);
    for (size_t i = 0; i < CALLS; i++)
        assert_int_equal(calls[i].query.status, OK);
    assert_int_equal(notes_of(1), CALLS / SHARDED_COUNT);
    pg_calls_end(calls, CALLS);
    pg_bench_close(&bench);
}

/* Of all nodes that ever existed, only those with shards count. */
static void test_nodes_without_shards_are_let_go(void **state)
{
    (void)state;
    begin_with(1);
    items_tell(conninfo, "insert into pg_dist_node select g, n.nodename, n.nodeport, 'primary', "
                         "g < 4 from pg_dist_node n, generate_series(3, 90) g where n.groupid = 1");
    for (unsigned group = 3; group < 6 + PLACEMENT_NODES_MAX; group++) {
        char sql[128];
        (void)snprintf(sql, sizeof(sql), "update pg_dist_node set isactive = groupid in (1, 2, %u)",
                       group);
        items_tell(conninfo, sql);
        pg_sharded_move(conninfo, 3, group);
        shards_refresh(shards_of_bench());
        WAIT_UNTIL(bench.loop, group_of(3) == group);
    }
    put_all();
    assert_int_equal(notes_of(3), CALLS / SHARDED_COUNT);
    /* the coordinator's pool and those of three nodes, two connections each */
    WAIT_UNTIL(bench.loop, ask("select count(*) from pg_stat_activity where application_name = "
                               "'sluice' and datname = current_database() and pid <> "
                               "pg_backend_pid()") == 4 * 2);
    pg_bench_close(&bench);
}

/* The accounts of a split shard are found in its parts, which have new names. */
static void test_a_split_shard_is_followed(void **state)
{
    (void)state;
    begin();
    put_all();
    run_split();
    put_all();
    assert_int_equal(notes_of(0), 0);
    assert_int_equal(ask("select (select count(*) from sluice.note_204) + "
                         "(select count(*) from sluice.note_205)"),
                     CALLS / SHARDED_COUNT);
    assert_int_equal(run_plain(&note_first), OK);
    assert_false(calls[0].query.is_partial);
    assert_int_equal(shards_of_bench()->placement->shard_count, SHARDED_COUNT + 1);
    pg_call_end(&calls[0]);
    pg_bench_close(&bench);
}

/* Queries in every state: on their way to an unreachable node, in flight, and part of a spread. */
static void test_a_pool_is_freed_under_way(void **state)
{
    (void)state;
    begin();
    struct pg_sync *holder = hold_up();
    lose_shard(3);
    for (size_t i = 0; i < 4; i++)
        pg_call_start(&bench, &calls[i], start_put, &notes[i]);
    pg_call_start(&bench, &calls[4], start_plain, (void *)&note_first);
    pg_call_start(&bench, &calls[5], start_plain, (void *)&note_clear);
    WAIT_UNTIL(bench.loop, calls[5].is_submitted);
    struct pg_pool *pool = bench.pool;
    bench.pool = NULL;
    pg_pool_free(pool);
    pg_calls_wait(&bench, calls, 6);
    assert_int_equal(calls[3].query.status, ERR_BUSY);
    assert_int_equal(calls[4].query.status, ERR_BUSY);
    assert_int_equal(calls[5].query.status, ERR_BUSY);
    pg_calls_end(calls, 6);
    pg_sync_close(holder);
    pg_bench_close(&bench);
}

/* A cancelled caller is released once the parts have ended. */
static void test_a_spread_is_cancelled(void **state)
{
    (void)state;
    begin();
    struct pg_sync *holder = hold_up();
    pg_call_start(&bench, &calls[0], start_plain, (void *)&note_first);
    WAIT_UNTIL(bench.loop, calls[0].is_submitted);
    op_cancel(&calls[0].op);
    pg_sync_close(holder);
    WAIT_UNTIL(bench.loop, calls[0].is_freed);
    assert_int_equal(pg_pool_pending(bench.pool), 0);
    pg_bench_close(&bench);
}

/* Makes sluice.fail, which raises the error the first time only. */
static void prepare_failures(void)
{
    items_tell(conninfo,
               "create sequence sluice.tries; "
               "create function sluice.fail(state text) returns bigint language plpgsql as "
               "'begin if nextval(''sluice.tries'') = 1 then raise exception ''no node'' using "
               "errcode = state; end if; return 7; end'");
}

static void test_a_write_that_lost_a_node_is_unknown(void **state)
{
    (void)state;
    begin();
    prepare_failures();
    assert_int_equal(run_plain(&fail_write), ERR_CLOSED);
    assert_true(calls[0].query.is_unknown);
    pg_call_end(&calls[0]);
    items_tell(conninfo, "alter sequence sluice.tries restart");
    assert_int_equal(run_plain(&fail_again), OK);
    assert_int_equal(pg_get_i64(&calls[0].query.rows, 0, 0), 7);
    pg_call_end(&calls[0]);
    pg_bench_close(&bench);
}

/* The process ids of the backends that are connected at the moment. */
static size_t backends(int pids[PG_LANES_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < bench.pool->lane_count; i++)
        if (bench.pool->lanes[i]->link.is_up)
            pids[count++] = PQbackendPID(bench.pool->lanes[i]->link.conn);
    return count;
}

/* A text that Citus cannot plan is not a reason to reconnect. */
static void test_a_text_that_cannot_be_planned_costs_no_connection(void **state)
{
    int before[PG_LANES_MAX], after[PG_LANES_MAX];
    (void)state;
    begin();
    prepare_failures();
    WAIT_UNTIL(bench.loop, backends(before) == 4);
    assert_int_equal(run_plain(&fail_plan), ERR_IO);
    assert_string_equal(calls[0].query.sqlstate, "0A000");
    pg_call_end(&calls[0]);
    assert_int_equal(backends(after), 4);
    assert_memory_equal(before, after, 4 * sizeof(before[0]));
    pg_bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_account_is_queried_on_its_shard),
        cmocka_unit_test(test_a_moved_shard_is_followed),
        cmocka_unit_test(test_a_shard_that_is_being_moved_holds_up_its_own),
        cmocka_unit_test(test_the_first_rows_of_all_shards),
        cmocka_unit_test(test_without_an_order_shards_take_turns),
        cmocka_unit_test(test_a_write_of_all_shards),
        cmocka_unit_test(test_copied_rows_are_found_once),
        cmocka_unit_test(test_a_node_that_is_away_concerns_its_own_accounts),
        cmocka_unit_test(test_a_node_with_another_address_is_followed),
        cmocka_unit_test(test_queries_under_way_follow_their_node),
        cmocka_unit_test(test_nodes_without_shards_are_let_go),
        cmocka_unit_test(test_a_split_shard_is_followed),
        cmocka_unit_test(test_a_pool_is_freed_under_way),
        cmocka_unit_test(test_a_spread_is_cancelled),
        cmocka_unit_test(test_a_write_that_lost_a_node_is_unknown),
        cmocka_unit_test(test_a_text_that_cannot_be_planned_costs_no_connection),
    };
    return unit_result(cmocka_run_group_tests(tests, NULL, NULL));
}
