/* Which shard holds an account, by PostgreSQL's own hash, and the names of that shard's tables. */
#include "shard/placement.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "support/pg_sharded.h"
#include "unit.h"

static const char *conninfo;

/* Returns NULL on failure; err has the reason. */
static struct placement *placement_read(struct err *err)
{
    struct arena arena;
    struct pg_rows nodes, shards;
    struct pg_sync *sync = pg_sync_open(conninfo, err);
    assert_non_null(sync);
    arena_init(&arena, 1024 * 1024);
    assert_int_equal(pg_sync_exec(sync, &placement_nodes, NULL, &arena, &nodes, err), OK);
    assert_int_equal(pg_sync_exec(sync, &placement_shards, NULL, &arena, &shards, err), OK);
    struct placement *placement = placement_new(&nodes, &shards, err);
    arena_deinit(&arena);
    pg_sync_close(sync);
    return placement;
}

static void test_the_hash_is_the_databases(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 200; i++) {
        char text[UUID_TEXT_LEN + 1] = "", sql[128];
        struct uuid id = i ? uuid_v7() : (struct uuid){{0}};
        uuid_format(id, text);
        (void)snprintf(sql, sizeof(sql), "select uuid_hash('%s')::bigint", text);
        assert_int_equal(placement_hash(id), items_ask(conninfo, sql));
    }
}

static void test_each_account_has_one_shard(void **state)
{
    struct err err = {.code = OK};
    (void)state;
    struct placement *placement = placement_read(&err);
    assert_non_null(placement);
    assert_int_equal(placement->shard_count, SHARDED_COUNT);
    assert_int_equal(placement->node_count, SHARDED_GROUPS);
    for (unsigned i = 0; i < SHARDED_COUNT; i++)
        for (unsigned n = 0; n < 20; n++) {
            const struct shard *shard = placement_of(placement, pg_sharded_account(i, n));
            assert_int_equal(shard->id, SHARDED_ANCHOR + i);
            assert_int_equal(shard->group, 1 + i % 2);
            assert_ptr_equal(placement_by_id(placement, shard->id), shard);
        }
    assert_null(placement_by_id(placement, SHARDED_NOTE));
    placement_free(placement);
}

static void check_rename(const struct placement *placement, unsigned index, const char *sql,
                         const char *want)
{
    struct buf out;
    buf_init(&out, 1024);
    placement_rename(placement, &placement->shards[index], slice_cstr(sql), &out);
    buf_append_char(&out, '\0');
    assert_string_equal(out.ptr, want);
    buf_deinit(&out);
}

static void test_tables_have_the_names_of_their_parts(void **state)
{
    struct err err = {.code = OK};
    (void)state;
    struct placement *placement = placement_read(&err);
    assert_non_null(placement);
    check_rename(placement, 2, "select 1", "select 1");
    check_rename(placement, 2, "select n.body from sluice.note n, sluice.kind",
                 "select n.body from sluice.note_202 n, sluice.kind_300");
    check_rename(placement, 0, "sluice.note_more sluice.connection)",
                 "sluice.note_more sluice.connection_100)");
    placement_free(placement);
}

/* Each call makes its change in a separate database. */
static void check_refused(const char *change, int code)
{
    struct err err = {.code = OK};
    const char *before = conninfo;
    conninfo = pg_sharded_database();
    items_tell(conninfo, change);
    assert_null(placement_read(&err));
    assert_int_equal(err.code, code);
    assert_true(strlen(err.text) > 20);
    conninfo = before;
}

static void test_what_is_not_distributed_alike_is_refused(void **state)
{
    (void)state;
    check_refused("delete from pg_dist_shard where logicalrelid = 'sluice.connection'::regclass",
                  ERR_INVALID);
    check_refused("delete from pg_dist_shard where shardid = 102", ERR_INVALID);
    check_refused("delete from pg_dist_shard where shardid = 203", ERR_INVALID);
    check_refused("insert into pg_dist_node select g, 'x', 1, 'primary', true "
                  "from generate_series(3, 70) g",
                  ERR_LIMIT);
}

static int set_up(void **state)
{
    (void)state;
    conninfo = pg_sharded_database();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_hash_is_the_databases),
        cmocka_unit_test(test_each_account_has_one_shard),
        cmocka_unit_test(test_tables_have_the_names_of_their_parts),
        cmocka_unit_test(test_what_is_not_distributed_alike_is_refused),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, NULL));
}
