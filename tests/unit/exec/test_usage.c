/*
 * Runs are counted in memory by account, day, key and user, and written once a minute.
 */
#include "exec/usage.h"

#include "base/metric.h"
#include "seam/walk.h"
#include "store/usage.h"
#include "unit.h"

static const struct exec_outcome succeeded = {.reason = EXEC_SUCCEEDED},
                                 failed = {.reason = EXEC_PROVIDER_ERROR},
                                 blocked = {.reason = EXEC_CONFIRMATION_MISSING};

#define MS UINT64_C(1000000)

static int set_up(void **state)
{
    *state = seam_bench_open(false);
    return 0;
}

static int tear_down(void **state)
{
    return seam_bench_close(*state) ? 0 : -1;
}

static int64_t number(struct pg_query *query, const char *name)
{
    return seam_param(query, name)->as.i64;
}

static struct uuid id(struct pg_query *query, const char *name)
{
    return seam_param(query, name)->as.uuid;
}

static void assert_buckets(struct pg_query *query, const char *expected)
{
    assert_true(slice_eq_cstr(seam_param(query, "buckets")->as.bytes, expected));
}

/* Counts the rows of a user, or all (NULL), that are being written. */
static size_t written(struct seam_bench *b, const struct uuid *user_id, struct pg_query **last)
{
    size_t count = 0;
    struct pg_query *query;
    for (size_t i = 0; (query = seam_query(b->node.pool, i)); i++)
        if (strcmp(seam_query_stmt(query)->name, "usage_add") == 0 &&
            (!user_id || uuid_eq(id(query, "user_id"), *user_id))) {
            *last = query;
            count++;
        }
    return count;
}

/* A run of a user is timed in the rows of all users alone, and only if it was tried. */
static void it_writes_once_a_minute_what_it_counted(void **state)
{
    struct seam_bench *b = *state;
    struct counts usage;
    struct pg_query *row = NULL;
    const struct usage_by by = {uuid_v7(), uuid_v7(), uuid_v7()};
    counts_init(&usage, &usage_class, b->node.loop, b->node.pool);
    usage_count(&usage, &by, &succeeded, 15 * MS, false, false);
    usage_count(&usage, &by, &succeeded, 15 * MS, true, true);
    usage_count(&usage, &by, &failed, 25 * MS, true, false);
    usage_count(&usage, &by, &failed, 25 * MS, false, true);
    usage_count(&usage, &by, &failed, 25 * MS, false, false);
    usage_count(&usage, &by, &blocked, 25 * MS, true, false);
    seam_pass_ms(b->node.loop, USAGE_EVERY_MS - 2000);
    assert_int_equal(written(b, &by.user_id, &row), 0);
    seam_pass_ms(b->node.loop, 4000);
    assert_int_equal(written(b, &by.user_id, &row), 1);
    assert_true(uuid_eq(seam_param(row, "account_id")->as.uuid, by.account_id));
    assert_true(uuid_eq(seam_param(row, "user_id")->as.uuid, by.user_id));
    assert_true(uuid_eq(seam_param(row, "key_id")->as.uuid, by.key_id));
    assert_int_equal(number(row, "day") % USAGE_DAY_US, 0);
    assert_int_equal(number(row, "reads"), 3);
    assert_int_equal(number(row, "writes"), 2);
    assert_int_equal(number(row, "failed"), 3);
    assert_int_equal(number(row, "blocked"), 1);
    assert_int_equal(number(row, "flow_calls"), 2);
    assert_buckets(row, "{}");
    assert_int_equal(written(b, &usage_users_by_key, &row), 1);
    assert_buckets(row, "{0,2,3,0,0,0,0,0,0,0,0,0,0,0,0,0}");
    assert_int_equal(written(b, &by.user_id, &row), 1);
    /* a run during the write, which fails: both are written together */
    usage_count(&usage, &by, &blocked, 25 * MS, true, true);
    seam_query_fail(row, ERR_TIMEOUT);
    seam_settle(b->node.loop);
    counts_write(&usage);
    seam_settle(b->node.loop);
    assert_int_equal(written(b, &by.user_id, &row), 1);
    assert_int_equal(number(row, "reads"), 3);
    assert_int_equal(number(row, "blocked"), 2);
    assert_int_equal(number(row, "flow_calls"), 3);
    assert_int_equal(written(b, &usage_users_by_day, &row), 1);
    assert_buckets(row, "{0,2,3,0,0,0,0,0,0,0,0,0,0,0,0,0}");
    seam_node_answer(&b->node, &b->store);
    assert_true(counts_are_written(&usage));
    counts_deinit(&usage);
}

/* The runs of all users of an account are in one row a key and in one row a day; those of the
 * account itself are in one row. */
static void runs_of_users_are_summed(void **state)
{
    struct seam_bench *b = *state;
    struct counts usage;
    struct pg_query *row = NULL;
    struct uuid account = uuid_v7(), keys[] = {uuid_v7(), uuid_v7()};
    counts_init(&usage, &usage_class, b->node.loop, b->node.pool);
    for (size_t i = 0; i < 6; i++)
        usage_count(&usage, &(struct usage_by){account, uuid_v7(), keys[i / 4]}, &succeeded, 5 * MS,
                    i == 0, false);
    usage_count(&usage, &(struct usage_by){account, {{0}}, keys[0]}, &succeeded, 15 * MS, false,
                false);
    counts_write(&usage);
    seam_settle(b->node.loop);
    assert_int_equal(written(b, NULL, &row), 6 + 2 + 1 + 1);
    assert_int_equal(written(b, &usage_users_by_key, &row), 2);
    bool is_first = uuid_eq(id(row, "key_id"), keys[0]);
    assert_true(is_first || uuid_eq(id(row, "key_id"), keys[1]));
    assert_int_equal(number(row, "reads"), is_first ? 3 : 2);
    assert_int_equal(number(row, "writes"), is_first);
    assert_int_equal(written(b, &usage_users_by_day, &row), 1);
    assert_true(uuid_is_nil(id(row, "key_id")));
    assert_int_equal(number(row, "reads"), 5);
    assert_int_equal(number(row, "writes"), 1);
    assert_buckets(row, "{6,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}");
    assert_int_equal(written(b, &(struct uuid){{0}}, &row), 1);
    assert_buckets(row, "{0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0}");
    assert_int_equal(number(row, "reads"), 1);
    seam_node_answer(&b->node, &b->store);
    assert_true(counts_are_written(&usage));
    counts_deinit(&usage);
}

/* A full table is written at once. If the database does not answer, further runs are lost. */
static void rows_are_limited(void **state)
{
    struct seam_bench *b = *state;
    struct counts usage;
    struct pg_query *row;
    struct usage_by by = {uuid_v7(), uuid_v7(), uuid_v7()};
    counts_init(&usage, &usage_class, b->node.loop, b->node.pool);
    for (uint32_t i = 0; i < USAGE_MAX + USAGE_FLUSH_MAX + 10; i++) {
        memcpy(by.user_id.bytes, &i, sizeof(i));
        usage_count(&usage, &by, &succeeded, 15 * MS, false, false);
    }
    assert_int_equal(usage.table.map.count, USAGE_MAX);
    assert_int_equal(usage.sent.count, USAGE_FLUSH_MAX);
    seam_settle(b->node.loop);
    assert_int_equal(written(b, NULL, &row), USAGE_FLUSH_MAX);
    counts_deinit(&usage);
    seam_node_answer(&b->node, &b->store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_writes_once_a_minute_what_it_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(runs_of_users_are_summed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_are_limited, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("exec/usage", tests, NULL, NULL);
}
