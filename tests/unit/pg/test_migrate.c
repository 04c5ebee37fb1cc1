/* Migrations: applied once, refused if they do not fit, rolled back if they fail. */
#include "pg/migrate.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "unit.h"

#define EMBED(name_, text)                                                              \
    {                                                                                   \
        .name = (name_), .data = (const unsigned char *)(text), .len = sizeof(text) - 1 \
    }

static const struct embed_file files[] = {
    EMBED("0001_one.sql", "create table sluice.one (a int); insert into sluice.one values (1)"),
    EMBED("0002_two.sql", "alter table sluice.one add column b int;"),
    EMBED("0003_three.sql", "create table sluice.three (a int)"),
    EMBED("citus.sql", "this is not SQL"),
};

static char applied_names[200];

static void on_apply(void *owner, unsigned version, const char *name)
{
    (void)version;
    assert_ptr_equal(owner, applied_names);
    strncat(applied_names, name, sizeof(applied_names) - strlen(applied_names) - 1);
}

static int migrate(const char *conninfo, size_t count, unsigned *applied, struct err *err)
{
    struct pg_migrate_events events = {on_apply, applied_names};
    applied_names[0] = '\0';
    return pg_migrate(conninfo, files, count, &events, applied, err);
}

static void test_applied_once_and_in_order(void **state)
{
    const char *conninfo = pg_cluster_database(false);
    struct err err;
    unsigned applied, version;
    (void)state;
    assert_int_equal(pg_schema_check(conninfo, files, 2, &version, &err), ERR_REFUSED);
    assert_int_equal(version, 0);
    assert_non_null(strstr(err.text, "run `sluice migrate`"));
    assert_int_equal(migrate(conninfo, 2, &applied, &err), OK);
    assert_int_equal(applied, 2);
    assert_string_equal(applied_names, "0001_one.sql0002_two.sql");
    assert_int_equal(migrate(conninfo, 2, &applied, &err), OK);
    assert_int_equal(applied, 0);
    assert_int_equal(pg_schema_check(conninfo, files, 2, &version, &err), OK);
    assert_int_equal(migrate(conninfo, 4, &applied, &err), OK);
    assert_string_equal(applied_names, "0003_three.sql");
    assert_int_equal(pg_schema_known(files, 4), 3);
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.migration"), 3);
}

static void test_versions_that_are_served(void **state)
{
    const char *conninfo = pg_cluster_database(false);
    struct err err;
    unsigned version;
    (void)state;
    assert_int_equal(migrate(conninfo, 2, NULL, &err), OK);
    assert_int_equal(pg_schema_check(conninfo, files, 1, &version, &err), OK); /* N + 1 */
    assert_int_equal(version, 2);
    assert_int_equal(pg_schema_check(conninfo, files, 4, &version, &err), ERR_REFUSED);
    assert_string_equal(err.text,
                        "the database is at schema version 2, but this binary needs 3: run "
                        "`sluice migrate`");
    assert_int_equal(migrate(conninfo, 4, NULL, &err), OK);
    assert_int_equal(pg_schema_check(conninfo, files, 1, &version, &err), ERR_REFUSED); /* N + 2 */
    assert_non_null(strstr(err.text, "start the newer sluice"));
    assert_int_equal(migrate(conninfo, 1, NULL, &err), ERR_REFUSED);
    assert_non_null(strstr(err.text, "this binary knows only 1"));
}

static void test_changed_contents_are_refused(void **state)
{
    const char *conninfo = pg_cluster_database(false);
    static const struct embed_file changed[] = {EMBED("0001_one.sql", "select 1")};
    struct err err;
    unsigned version;
    (void)state;
    assert_int_equal(migrate(conninfo, 1, NULL, &err), OK);
    assert_int_equal(pg_migrate(conninfo, changed, 1, NULL, NULL, &err), ERR_REFUSED);
    assert_non_null(strstr(err.text, "another build of sluice"));
    assert_int_equal(pg_schema_check(conninfo, changed, 1, &version, &err), ERR_REFUSED);
    items_tell(conninfo, "update sluice.migration set version = 7");
    assert_int_equal(pg_schema_check(conninfo, files, 1, &version, &err), ERR_REFUSED);
    assert_non_null(strstr(err.text, "gap before number 7"));
}

static void test_a_failing_one_leaves_nothing(void **state)
{
    const char *conninfo = pg_cluster_database(false);
    static const struct embed_file broken[] = {
        EMBED("0001_one.sql", "create table sluice.half (a int); select nonsense"),
    };
    static const struct embed_file gap[] = {EMBED("0002_two.sql", "select 1")};
    struct err err;
    (void)state;
    assert_int_equal(pg_migrate(conninfo, broken, 1, NULL, NULL, &err), ERR_IO);
    assert_string_equal(err.text, "migration 0001_one.sql failed and was rolled back: the database "
                                  "says: column \"nonsense\" does not exist");
    assert_int_equal(items_ask(conninfo, "select (to_regclass('sluice.half') is not null)::int"),
                     0);
    assert_int_equal(migrate(conninfo, 1, NULL, &err), OK); /* repaired, it continues */
    assert_int_equal(pg_migrate(conninfo, gap, 1, NULL, NULL, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "number 0001 is due"));
}

/* Citus sends the text to other nodes, which refuse several statements in one text. */
static void test_statement_by_statement(void **state)
{
    const char *conninfo = pg_cluster_database(false);
    static const struct embed_file file[] = {
        EMBED("0001_one.sql",
              "create table sluice.text (t text); insert into sluice.text select current_query()")};
    struct err err;
    (void)state;
    assert_int_equal(pg_migrate(conninfo, file, 1, NULL, NULL, &err), OK);
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.text where t like 'insert%'"),
                     1);
}

static void test_encoding_and_unreachable(void **state)
{
    struct err err;
    char conninfo[300];
    (void)state;
    if (!pg_cluster_is_private())
        skip();
    items_tell(pg_cluster_start(), "create database latin encoding 'LATIN1' template template0");
    snprintf(conninfo, sizeof(conninfo), "host=%s port=%u user=postgres dbname=latin",
             pg_cluster_socket_dir(), pg_cluster_port());
    assert_int_equal(migrate(conninfo, 1, NULL, &err), ERR_REFUSED);
    assert_non_null(strstr(err.text, "encoding is LATIN1"));
    assert_int_equal(migrate("host=/nonexistent", 1, NULL, &err), ERR_IO);
    assert_non_null(strstr(err.text, "cannot connect to the database: "));
    assert_null(strchr(err.text, '\n') && strchr(err.text, '\n')[1] == '\0' ? err.text : NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_applied_once_and_in_order),
        cmocka_unit_test(test_versions_that_are_served),
        cmocka_unit_test(test_changed_contents_are_refused),
        cmocka_unit_test(test_a_failing_one_leaves_nothing),
        cmocka_unit_test(test_statement_by_statement),
        cmocka_unit_test(test_encoding_and_unreachable),
    };
    return unit_result(cmocka_run_group_tests(tests, NULL, NULL));
}
