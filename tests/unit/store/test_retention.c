/* Partitions that are created and dropped, and the schema's version. */
#include "base/embed.h"
#include "pg/migrate.h"
#include "store/retention.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "unit.h"

static const char *conninfo;
static struct pg_bench bench;
static struct pg_call call;
static unsigned audit_days = 90, input_days = 7;

static void start_make(struct pg_call *c)
{
    store_partition_make(c->bench->pool, &c->query, &c->op);
}

static void start_drop(struct pg_call *c)
{
    store_partitions_drop(c->bench->pool, &c->query, &c->op, *(unsigned *)c->arg, audit_days,
                          input_days);
}

static void start_version(struct pg_call *c)
{
    store_schema_version(c->bench->pool, &c->query, &c->op);
}

static int64_t run(void (*start)(struct pg_call *c), unsigned days)
{
    size_t count = SIZE_MAX;
    assert_int_equal(pg_call_run(&bench, &call, start, &days), OK);
    assert_int_equal(store_count_result(&call.query, &count), OK);
    pg_call_end(&call);
    return (int64_t)count;
}

#define DROP_AHEAD(prefix, days)                             \
    "do $$ begin execute 'drop table sluice." prefix "' || " \
    "to_char((now() at time zone 'UTC')::date + " days ", 'YYYYMMDD'); end $$"

static void test_made_once(void **state)
{
    (void)state;
    assert_int_equal(run(start_make, 0), 0); /* the migration has made them */
    items_tell(conninfo, DROP_AHEAD("execution_", "3"));
    items_tell(conninfo, DROP_AHEAD("flow_doc_", "3"));
    assert_int_equal(run(start_make, 0), 1); /* one per call */
    assert_int_equal(run(start_make, 0), 1);
    assert_int_equal(run(start_make, 0), 0);
    items_tell(conninfo, DROP_AHEAD("execution_", "3"));
    items_tell(conninfo, DROP_AHEAD("flow_doc_", "7"));
    assert_int_equal(items_ask(conninfo, "select sluice.partitions_make(7)"), 2); /* the previous
                                                                                   * one */
    assert_int_equal(run(start_make, 0), 0);
}

/* Partitions of ten and of three days ago, with one row, in the older partition. */
#define MAKE_OLD                                                                                 \
    "do $$ declare day date; begin foreach day in array array[(now() at time zone 'UTC')::date " \
    "- 10, (now() at time zone 'UTC')::date - 3] loop "                                          \
    "execute format('create table sluice.%I partition of sluice.execution for values from (%L) " \
    "to (%L)', 'execution_' || to_char(day, 'YYYYMMDD'), sluice.uuid_floor(day), "               \
    "sluice.uuid_floor(day + 1)); end loop; end $$;"                                             \
    "insert into sluice.execution select gen_random_uuid(), sluice.uuid_floor("                  \
    "(now() at time zone 'UTC')::date - 10), 'i', 'a', null, 'succeeded', null, now(), now(), "  \
    "gen_random_uuid(), '{}'"

static void test_dropped_by_age(void **state)
{
    (void)state;
    items_tell(conninfo, MAKE_OLD);
    assert_int_equal(run(start_drop, 30), 0);
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.execution"), 1);
    assert_int_equal(run(start_drop, 5), 1);
    assert_int_equal(run(start_drop, 5), 0);
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.execution"), 0);
    assert_int_equal(run(start_drop, 1), 1); /* three days ago */
    assert_int_equal(run(start_drop, 1), 0); /* yesterday is within a day */
    assert_int_equal(items_ask(conninfo, "select count(*) from pg_inherits "
                                         "where inhparent = 'sluice.execution'::regclass"),
                     9);
}

/* Each kind has its own retention time. */
static void test_the_audit_trail_is_kept_longer(void **state)
{
    (void)state;
    items_tell(conninfo,
               "do $$ declare day date := (now() at time zone 'UTC')::date - 20; begin "
               "execute format('create table sluice.%I partition of sluice.audit_event for values "
               "from (%L) to (%L)', 'audit_event_' || to_char(day, 'YYYYMMDD'), "
               "sluice.uuid_floor(day), sluice.uuid_floor(day + 1)); end $$");
    audit_days = 90;
    assert_int_equal(run(start_drop, 5), 0);
    assert_int_equal(items_ask(conninfo, "select sluice.partitions_drop(5)"), 0); /* the previous
                                                                                   * one */
    audit_days = 10;
    assert_int_equal(run(start_drop, 30), 1);
    assert_int_equal(run(start_drop, 30), 0);
}

/* Inputs of two days ago, with one row, and of today. */
#define MAKE_INPUTS                                                                               \
    "do $$ declare day date := (now() at time zone 'UTC')::date - 2; begin "                      \
    "execute format('create table sluice.%I partition of sluice.execution_input for values from " \
    "(%L) to (%L)', 'execution_input_' || to_char(day, 'YYYYMMDD'), sluice.uuid_floor(day), "     \
    "sluice.uuid_floor(day + 1)); end $$;"                                                        \
    "insert into sluice.execution_input select gen_random_uuid(), "                               \
    "sluice.uuid_floor((now() at time zone 'UTC')::date - n), false, '', 'k', now() "             \
    "from (values (0), (2)) v(n)"
#define COUNT_INPUTS "select count(*) from sluice.execution_input"

static void test_inputs_have_an_age_of_their_own(void **state)
{
    (void)state;
    items_tell(conninfo, MAKE_INPUTS);
    input_days = 2;
    assert_int_equal(run(start_drop, 5), 0);
    input_days = 1;
    assert_int_equal(run(start_drop, 5), 1);
    assert_int_equal(items_ask(conninfo, COUNT_INPUTS), 1);
    /* With 0, the partition of yesterday stays: the next round would make it again. */
    input_days = 0;
    assert_int_equal(run(start_drop, 5), 0);
    items_tell(conninfo, "delete from sluice.execution_input");
}

/* They end at the latest with executions and events, also for a server of the previous version. */
static void test_inputs_end_with_executions(void **state)
{
    (void)state;
    input_days = 3650;
    items_tell(conninfo, MAKE_INPUTS);
    assert_int_equal(run(start_drop, 1), 1);
    items_tell(conninfo, "delete from sluice.execution_input;" MAKE_INPUTS);
    audit_days = 1;
    assert_int_equal(run(start_drop, 5), 1);
    audit_days = 90;
    items_tell(conninfo, "delete from sluice.execution_input;" MAKE_INPUTS);
    assert_int_equal(items_ask(conninfo, "select sluice.partitions_drop(5, 90)"), 0);
    assert_int_equal(items_ask(conninfo, "select sluice.partitions_drop(1, 90)"), 1);
    assert_int_equal(items_ask(conninfo, COUNT_INPUTS), 1);
    input_days = 7;
    items_tell(conninfo, "delete from sluice.execution_input; select sluice.partitions_make(7)");
}

static void test_a_drop_does_not_wait_long(void **state)
{
    struct err err;
    unsigned days = 5;
    size_t count;
    (void)state;
    items_tell(conninfo, MAKE_OLD);
    struct pg_sync *reader = pg_sync_open(conninfo, &err);
    assert_non_null(reader);
    assert_int_equal(
        pg_sync_run(reader, "begin; lock table sluice.execution in access share mode", &err), OK);
    assert_int_equal(pg_call_run(&bench, &call, start_drop, &days), ERR_TIMEOUT);
    assert_int_equal(store_count_result(&call.query, &count), ERR_TIMEOUT);
    pg_call_end(&call);
    pg_sync_close(reader);
    assert_int_equal(run(start_drop, 5), 1);
}

static void test_schema_version(void **state)
{
    unsigned version = 0;
    (void)state;
    assert_int_equal(pg_call_run(&bench, &call, start_version, NULL), OK);
    assert_int_equal(store_schema_version_result(&call.query, &version), OK);
    assert_int_equal(version, pg_schema_known(embed_sql, embed_sql_count));
    pg_call_end(&call);
}

static int set_up(void **state)
{
    struct pg_pool_config config = {.queue_timeout_ms = 30000, .lock_timeout_ms = 30000};
    (void)state;
    conninfo = config.conninfo = pg_cluster_database(true);
    pg_bench_open(&bench, &config, true);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pg_bench_close(&bench);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made_once),
        cmocka_unit_test(test_dropped_by_age),
        cmocka_unit_test(test_the_audit_trail_is_kept_longer),
        cmocka_unit_test(test_inputs_have_an_age_of_their_own),
        cmocka_unit_test(test_inputs_end_with_executions),
        cmocka_unit_test(test_a_drop_does_not_wait_long),
        cmocka_unit_test(test_schema_version),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, tear_down));
}
