/*
 * Where each statement is sent, proved with EXPLAIN on a cluster: DATABASE_URL is its coordinator,
 * whose tables are distributed. routing.test.mjs runs this.
 */
#include <stdlib.h>

#include "shard/placement.h"
#include "pg/stmt.h"
#include "store/store.h"
#include "support/pg_items.h"
#include "unit.h"

/* Statements over all shards that are sent to the coordinator. Only operators' commands use
 * them. */
static const char *const exceptions[] = {
    "connection_stale",     /* sluice keys rotate: a page of a hundred rows */
    "oauth_client_stale",   /* sluice keys rotate */
    "flow_explain_account", /* sluice flow explain: the account of a flow */
    "flow_explain_user",    /* the same for the flow of a user */
};

static const char *coordinator;
static struct placement *placement;
static struct arena memory;

static struct pg_sync *open_sync(const char *conninfo)
{
    struct err err;
    struct pg_sync *sync = pg_sync_open(conninfo, &err);
    if (!sync)
        fail_msg("%s", err.text);
    return sync;
}

/* Uses the settings of a server's connections. Group 0 is the coordinator. */
static struct pg_sync *open_node(int64_t group)
{
    static char conninfo[1024];
    for (size_t i = 0; i < placement->node_count; i++) {
        const struct placement_node *node = &placement->nodes[i];
        if (node->group != group)
            continue;
        (void)snprintf(conninfo, sizeof(conninfo), "%s host=%.*s port=%lld", coordinator,
                       SLICE_ARG(node->host), (long long)node->port);
        return items_open_pinned(conninfo);
    }
    fail_msg("no node of group %lld", (long long)group);
    return NULL;
}

static const char *sample(enum pg_type type)
{
    static const char *const samples[] = {
        [PG_UUID] = "'00000000-0000-7000-8000-000000000000'",
        [PG_I64] = "1",
        [PG_TEXT] = "'{}'", /* also valid for an array */
        [PG_JSON] = "'{}'",
        [PG_BYTES] = "'\\x00'",
        [PG_TIME] = "now()",
        [PG_BOOL] = "true",
        [PG_OIDS] = "'1 2'",
    };
    return samples[type];
}

static void put_list(struct buf *out, const struct pg_stmt *stmt, enum pg_mode mode, bool values)
{
    bool is_set = mode == PG_MODE_SET;
    for (size_t i = 0; i < stmt->param_count; i++) {
        const char *type = pg_type_name(stmt->params[i].type);
        buf_append_cstr(out, i ? ", " : "(");
        if (values)
            buf_printf(out, is_set ? "array[%s]::" : "%s::", sample(stmt->params[i].type));
        buf_printf(out, is_set ? "%s[]" : "%s", type);
    }
    if (stmt->param_count > 0)
        buf_append_char(out, ')');
}

/* The plan as one text, in `memory`. shard: NULL for the coordinator's own names. */
static slice explain(struct pg_sync *sync, const struct pg_stmt *stmt, enum pg_mode mode,
                     const struct shard *shard)
{
    struct err err;
    struct pg_rows rows;
    struct buf sql, text;
    buf_init(&sql, 64 * 1024);
    buf_init(&text, 64 * 1024);
    assert_int_equal(pg_stmt_expand(stmt, mode, &text, &err), OK);
    buf_append_cstr(&sql, "prepare x ");
    put_list(&sql, stmt, mode, false);
    buf_append_cstr(&sql, " as ");
    if (shard)
        placement_rename(placement, shard, buf_slice(&text), &sql);
    else
        buf_append(&sql, buf_slice(&text));
    buf_append_char(&sql, '\0');
    if (pg_sync_run(sync, sql.ptr, &err) != OK)
        fail_msg("%s: %s in: %s", stmt->name, err.text, sql.ptr);
    buf_clear(&sql);
    buf_append_cstr(&sql, "explain (costs off, verbose) execute x ");
    put_list(&sql, stmt, mode, true);
    buf_append_char(&sql, '\0');
    if (pg_sync_text(sync, sql.ptr, &memory, &rows, &err) != OK)
        fail_msg("%s: %s in: %s", stmt->name, err.text, sql.ptr);
    assert_int_equal(pg_sync_run(sync, "deallocate x", &err), OK);
    buf_clear(&text);
    for (size_t i = 0; i < rows.count; i++) {
        buf_append(&text, pg_get_bytes(&rows, i, 0));
        buf_append_char(&text, '\n');
    }
    slice plan = arena_dup(&memory, buf_slice(&text));
    buf_deinit(&sql);
    buf_deinit(&text);
    return plan;
}

static bool has(slice text, const char *part)
{
    return slice_find(text, slice_cstr(part)) >= 0;
}

/* Checks that every table of the plan belongs to this shard or is a copy, and that Citus did not
 * plan the statement. */
static void check_one_shard(const struct pg_stmt *stmt, slice plan, const struct shard *shard)
{
    char sql[512];
    slice rest = plan;
    ptrdiff_t at;
    if (has(plan, "Citus"))
        fail_msg("%s is planned by Citus:\n%.*s", stmt->name, SLICE_ARG(plan));
    while ((at = slice_find(rest, SLICE(" on sluice."))) >= 0) {
        rest = slice_from(rest, (size_t)at + strlen(" on sluice."));
        slice name = rest;
        name.len = strcspn(arena_cstr(&memory, slice_first(rest, 100)), " \n");
        (void)snprintf(sql, sizeof(sql),
                       "select count(*) from pg_dist_shard where shardid = substring('%.*s' from "
                       "'\\d+$')::bigint and coalesce(shardminvalue::bigint, %d) = %d",
                       SLICE_ARG(name), shard->hash_min, shard->hash_min);
        if (items_ask(coordinator, sql) != 1)
            fail_msg("%s: %.*s is not of the shard from %d:\n%.*s", stmt->name, SLICE_ARG(name),
                     shard->hash_min, SLICE_ARG(plan));
    }
}

static bool goes_to_a_shard(const struct pg_stmt *stmt)
{
    return !stmt->is_copied && pg_stmt_account_at(stmt) < PG_PARAMS_MAX;
}

/* Checks, in both modes and on a shard of each node, what a server sends for an account, or for
 * a shard. */
static void test_one_shard(void **state)
{
    unsigned of_account = 0, of_each = 0;
    (void)state;
    for (size_t s = 0; s < 2; s++) {
        const struct shard *shard = &placement->shards[s ? placement->shard_count - 1 : 0];
        struct pg_sync *sync = open_node(shard->group);
        for (size_t i = 0; store_stmt_at(i); i++) {
            const struct pg_stmt *stmt = store_stmt_at(i);
            if (!goes_to_a_shard(stmt) && !stmt->is_spread)
                continue;
            *(stmt->is_spread ? &of_each : &of_account) += s == 0;
            for (int mode = PG_MODE_SET; mode <= PG_MODE_PIPE; mode++)
                if (mode == PG_MODE_PIPE || (stmt->param_count > 0 && !stmt->is_spread))
                    check_one_shard(stmt, explain(sync, stmt, (enum pg_mode)mode, shard), shard);
        }
        pg_sync_close(sync);
    }
    print_message("# figure: %u statements go to the shard of their account, %u to each shard\n",
                  of_account, of_each);
    assert_true(of_account > 60);
}

/* The largest number of tasks in a part of the plan that Citus runs; 0 if it runs none. */
static long tasks_max(slice plan)
{
    static const char label[] = "Task Count: ";
    long max = 0;
    for (const char *at = arena_cstr(&memory, plan); (at = strstr(at, label));) {
        at += sizeof(label) - 1;
        long count = strtol(at, NULL, 10);
        max = count > max ? count : max;
    }
    return max;
}

static bool is_exception(const struct pg_stmt *stmt)
{
    for (size_t i = 0; i < ARRAY_LEN(exceptions); i++)
        if (strcmp(stmt->name, exceptions[i]) == 0)
            return true;
    return false;
}

/* A statement for the coordinator reads its own tables or copies. The exceptions are listed. */
static void test_the_coordinator(void **state)
{
    struct pg_sync *sync = open_sync(coordinator);
    unsigned count = 0;
    (void)state;
    for (size_t i = 0; store_stmt_at(i); i++) {
        const struct pg_stmt *stmt = store_stmt_at(i);
        if (goes_to_a_shard(stmt) || stmt->is_spread)
            continue;
        count++;
        slice plan = explain(sync, stmt, PG_MODE_PIPE, NULL);
        if ((tasks_max(plan) > 1) != is_exception(stmt))
            fail_msg("%s goes to more than one shard, or is not an exception any more:\n%.*s",
                     stmt->name, SLICE_ARG(plan));
    }
    print_message("# figure: %u statements go to the coordinator, %zu of them over shards\n", count,
                  ARRAY_LEN(exceptions));
    pg_sync_close(sync);
}

static void test_the_shard_of_an_account_is_the_one_of_citus(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 200; i++) {
        char text[UUID_TEXT_LEN + 1] = "", sql[160];
        struct uuid id = i ? uuid_v7() : (struct uuid){{0}};
        uuid_format(id, text);
        (void)snprintf(sql, sizeof(sql),
                       "select get_shard_id_for_distribution_column('sluice.connection', '%s')",
                       text);
        assert_int_equal(placement_of(placement, id)->id, items_ask(coordinator, sql));
    }
}

static int set_up(void **state)
{
    struct err err = {.code = OK};
    struct pg_rows nodes, shards;
    (void)state;
    coordinator = getenv("DATABASE_URL");
    if (!coordinator)
        return -1;
    arena_init(&memory, 64 * 1024 * 1024);
    struct pg_sync *sync = open_sync(coordinator);
    if (pg_sync_exec(sync, &placement_nodes, NULL, &memory, &nodes, &err) != OK ||
        pg_sync_exec(sync, &placement_shards, NULL, &memory, &shards, &err) != OK)
        return -1;
    pg_sync_close(sync);
    placement = placement_new(&nodes, &shards, &err);
    return placement ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    placement_free(placement);
    arena_deinit(&memory);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_shard_of_an_account_is_the_one_of_citus),
        cmocka_unit_test(test_one_shard),
        cmocka_unit_test(test_the_coordinator),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, tear_down));
}
