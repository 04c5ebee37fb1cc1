/* The errors for a PostgreSQL without Citus, and reading Citus' catalogs. */
#include "base/embed.h"
#include "shard/citus.h"
#include "support/pg_cluster.h"
#include "unit.h"

static struct pg_sync *sync;

static void test_a_plain_database_is_not_distributed(void **state)
{
    struct err err;
    bool is_distributed = true;
    (void)state;
    assert_int_equal(citus_is_distributed(sync, &is_distributed, &err), OK);
    assert_false(is_distributed);
    assert_int_equal(citus_check(sync, false, &err), OK);
    assert_int_equal(citus_check(sync, true, &err), ERR_REFUSED);
    assert_string_equal(err.text,
                        "database-batch is sharded, but the tables of this database are not "
                        "distributed: run `sluice migrate --citus`, or set database-batch to set");
}

static void check_demand(const char *sql, const char *want)
{
    struct err err;
    assert_int_equal(pg_sync_run(sync, sql, &err), OK);
    assert_int_equal(citus_demand(sync, &err), want ? ERR_REFUSED : OK);
    if (want)
        assert_string_equal(err.text, want);
}

static void check_server(const char *sql, bool is_sharded, const char *want)
{
    struct err err;
    assert_int_equal(pg_sync_run(sync, sql, &err), OK);
    assert_int_equal(citus_check(sync, is_sharded, &err), want ? ERR_REFUSED : OK);
    if (want)
        assert_string_equal(err.text, want);
}

/* The parts of Citus' catalogs that are read. */
#define CATALOGS                                                                              \
    "set allow_system_table_mods = on;"                                                       \
    "create table pg_catalog.pg_dist_local_group (groupid int);"                              \
    "insert into pg_dist_local_group values (1);"                                             \
    "create table pg_catalog.pg_dist_node (isactive boolean, shouldhaveshards boolean);"      \
    "create table pg_catalog.pg_dist_partition (logicalrelid regclass, partmethod \"char\", " \
    "repmodel \"char\");"                                                                     \
    "insert into pg_extension values (1, 'citus', 10, 11, false, '9.5-1', null, null)"

static void test_what_a_cluster_has_to_have(void **state)
{
    (void)state;
    check_demand("select 1", "the database has no Citus: `create extension citus` on every node, "
                             "then citus_set_coordinator_host and citus_add_node on the "
                             "coordinator");
    check_demand(CATALOGS, "the database has Citus 9.5-1, but 13 or newer is needed");
    check_demand(
        "update pg_extension set extversion = '13.2-1' where extname = 'citus'",
        "the database is a worker of a Citus cluster: set database-url to the coordinator");
    check_demand("update pg_dist_local_group set groupid = 0; "
                 "insert into pg_dist_node values (true, false), (false, true)",
                 "no node of the Citus cluster takes shards: add one on the coordinator, select "
                 "citus_add_node('host', 5432)");
    check_demand("insert into pg_dist_node values (true, true)", NULL);
}

/* Runs after the test that creates the catalogs. */
static void test_a_server_is_set_as_the_tables_are(void **state)
{
    (void)state;
    check_server("select 1", false, NULL);
    check_server("select 1", true,
                 "database-batch is sharded, but the tables of this database are not distributed: "
                 "run `sluice migrate --citus`, or set database-batch to set");
    check_server("insert into pg_dist_partition select oid, 'h', 's' from pg_class where "
                 "relnamespace = 'sluice'::regnamespace and relkind in ('r', 'p') and not "
                 "relispartition and relname not in ('node', 'flow', 'account')",
                 false,
                 "the tables of this database are distributed by Citus: set database-batch to "
                 "sharded");
    /* 's' for a local table, which Citus knows only because of its references */
    check_server("insert into pg_dist_partition values ('sluice.account', 'n', 's')", true,
                 "not distributed yet: sluice.account, sluice.flow: run `sluice migrate --citus`");
    check_server("update pg_dist_partition set repmodel = 't' where partmethod = 'n'; "
                 "insert into pg_dist_partition values ('sluice.flow', 'h', 's')",
                 true, NULL);
    check_server(
        "update pg_dist_local_group set groupid = 2", true,
        "the database is a worker of a Citus cluster: set database-url to the coordinator");
}

/* A lost connection is an error, not "no Citus". */
static void test_a_lost_connection(void **state)
{
    const struct citus_events events = {NULL};
    struct err err;
    bool is_distributed;
    (void)state;
    assert_int_equal(pg_sync_run(sync, "select pg_terminate_backend(pg_backend_pid())", &err),
                     ERR_IO);
    assert_int_equal(citus_is_distributed(sync, &is_distributed, &err), ERR_IO);
    assert_int_equal(citus_check(sync, false, &err), ERR_IO);
    assert_int_equal(citus_distribute(sync, embed_sql, embed_sql_count, 8, &events, &err), ERR_IO);
}

static int set_up(void **state)
{
    struct err err;
    (void)state;
    sync = pg_sync_open(pg_cluster_database(true), &err);
    return sync ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    pg_sync_close(sync);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plain_database_is_not_distributed),
        cmocka_unit_test(test_what_a_cluster_has_to_have),
        cmocka_unit_test(test_a_server_is_set_as_the_tables_are),
        cmocka_unit_test(test_a_lost_connection),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, tear_down));
}
