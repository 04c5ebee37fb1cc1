/* Pages of executions and audit events: order, filters, where a page ends, and what it reads. */
#include <stdlib.h>

#include "base/clock.h"
#include "pg/stmt.h"
#include "store/audit.h"
#include "store/execution.h"
#include "support/pg_both.h"

enum { TODAY_ROWS = 2500, ALL_ROWS = TODAY_ROWS + 3, WANTED = 20 /* rows per page */ };

static struct pg_call call;
static struct uuid account, other;

static struct store_page page;
static struct execution_filter filter;
static slice kind, actor;
static int64_t midnight_ms;

static const struct uuid nil, top = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                      0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

static void start_list(struct pg_call *c)
{
    store_execution_list(c->bench->pool, &c->query, &c->op, account, &page, &filter);
}

static void start_audit_list(struct pg_call *c)
{
    store_audit_list(c->bench->pool, &c->query, &c->op, account, &page, kind, actor);
}

/* Reads pages backwards from `before` until the range is read. Returns the number of executions
 * that it found. */
static size_t walk(struct uuid since, struct uuid before, size_t count_max, size_t *pages)
{
    struct execution *list;
    struct uuid last = before, next = before;
    size_t count, met = 0;
    for (*pages = 0; !uuid_is_nil(next); ++*pages) {
        page = (struct store_page){since, next, count_max};
        assert_int_equal(pg_call_run(&bench, &call, start_list, NULL), OK);
        assert_int_equal(store_execution_list_result(&call.query, &list, &count, &next), OK);
        assert_true(count <= count_max);
        for (size_t i = 0; i < count; i++) {
            assert_true(uuid_cmp(list[i].id, last) < 0 && uuid_cmp(list[i].id, since) >= 0);
            last = list[i].id;
        }
        if (!uuid_is_nil(next))
            assert_true(uuid_cmp(next, last) <= 0);
        met += count;
        pg_call_end(&call);
        assert_true(*pages < ALL_ROWS);
    }
    return met;
}

static void test_all_in_order(void **state)
{
    size_t pages;
    (void)state;
    filter = (struct execution_filter){0};
    assert_int_equal(walk(nil, top, 100, &pages), ALL_ROWS);
    assert_int_equal(walk(nil, top, 7, &pages), ALL_ROWS);
    assert_int_equal(walk(uuid_v7_floor(midnight_ms), top, 100, &pages), TODAY_ROWS);
    assert_int_equal(walk(nil, uuid_v7_floor(midnight_ms), 100, &pages), 3);
    assert_int_equal(pages, 1);
}

/* A filter that matches few rows: no page reads more than its limit, and each says where it
 * ended. */
static void test_filters(void **state)
{
    size_t pages;
    (void)state;
    filter = (struct execution_filter){.status = SLICE("failed")};
    assert_int_equal(walk(nil, top, 100, &pages), 4);
    assert_int_equal(pages, 1); /* by execution_failed */
    filter = (struct execution_filter){.integration_id = SLICE("notion")};
    assert_int_equal(walk(nil, top, 100, &pages), 3);
    filter =
        (struct execution_filter){.integration_id = SLICE("notion"), .status = SLICE("failed")};
    assert_int_equal(walk(nil, top, 100, &pages), 1);
    filter = (struct execution_filter){.integration_id = SLICE("slack")};
    assert_int_equal(walk(nil, top, 100, &pages), 0);
    assert_int_equal(pages, 3);
    filter =
        (struct execution_filter){.integration_id = SLICE("gmail"), .status = SLICE("succeeded")};
    assert_int_equal(walk(nil, top, 100, &pages), TODAY_ROWS - 3);
}

static void test_what_a_row_holds(void **state)
{
    struct execution *list;
    struct uuid next;
    size_t count;
    (void)state;
    filter = (struct execution_filter){0};
    page = (struct store_page){nil, uuid_v7_floor(midnight_ms), 10};
    assert_int_equal(pg_call_run(&bench, &call, start_list, NULL), OK);
    assert_int_equal(store_execution_list_result(&call.query, &list, &count, &next), OK);
    assert_int_equal(count, 3);
    assert_true(uuid_is_nil(next));
    assert_true(slice_eq(list[0].integration_id, SLICE("notion")));
    assert_true(slice_eq(list[0].action_id, SLICE("get")));
    assert_true(list[0].is_succeeded && !list[0].summary.ptr && !list[0].error_code.ptr);
    assert_int_equal(list[0].connection_id, 7);
    assert_true(list[0].started_at > 0 && list[0].finished_at >= list[0].started_at);
    assert_true(!list[2].is_succeeded && slice_eq(list[2].error_code, SLICE("timed_out")));
    assert_true(slice_eq(list[2].summary, SLICE("{\"status\": \"failed\"}")));
    pg_call_end(&call);
    filter.with_summary = true;
    assert_int_equal(pg_call_run(&bench, &call, start_list, NULL), OK);
    assert_int_equal(store_execution_list_result(&call.query, &list, &count, &next), OK);
    assert_true(slice_eq(list[0].summary, SLICE("{\"output\": 1}")));
    assert_true(list[1].is_succeeded && !list[1].summary.ptr); /* too large for the page */
    assert_true(slice_eq(list[2].summary, SLICE("{\"status\": \"failed\"}")));
    pg_call_end(&call);
}

static size_t events_by(slice wanted, slice wanted_actor)
{
    struct audit_event *list;
    struct uuid next;
    size_t count;
    kind = wanted;
    actor = wanted_actor;
    page = (struct store_page){nil, top, 100};
    assert_int_equal(pg_call_run(&bench, &call, start_audit_list, NULL), OK);
    assert_int_equal(store_audit_list_result(&call.query, &list, &count, &next), OK);
    for (size_t i = 0; i < count; i++)
        assert_true(slice_eq(list[i].by.actor, SLICE("operator:ada")) &&
                    slice_eq(list[i].by.address, SLICE("192.0.2.1")) && list[i].details.len > 0 &&
                    !list[i].reason.ptr && slice_eq(list[i].by.request_id, SLICE("r")));
    pg_call_end(&call);
    return count;
}

static size_t events_of(slice wanted)
{
    return events_by(wanted, SLICE_NONE);
}

static void test_audit_by_actor(void **state)
{
    (void)state;
    assert_int_equal(events_by(SLICE_NONE, SLICE("operator:ada")), 4);
    assert_int_equal(events_by(SLICE("key"), SLICE("operator")), 2);
    assert_int_equal(events_by(SLICE_NONE, SLICE("operator:")), 0);
    assert_int_equal(events_by(SLICE_NONE, SLICE("operator:ad")), 0);
    assert_int_equal(events_by(SLICE_NONE, SLICE("oper")), 0);
    assert_int_equal(events_by(SLICE_NONE, SLICE("%")), 0);
}

static void test_audit_by_kind(void **state)
{
    (void)state;
    assert_int_equal(events_of(SLICE_NONE), 4);
    assert_int_equal(events_of(SLICE("key")), 2);
    assert_int_equal(events_of(SLICE("key.created")), 1);
    assert_int_equal(events_of(SLICE("key.")), 0);
    assert_int_equal(events_of(SLICE("keychain.opened")), 1);
    assert_int_equal(events_of(SLICE("%")), 0);
}

/* ---- what it reads ---- */

static const struct pg_stmt *statement(const char *name)
{
    for (size_t i = 0; store_stmt_at(i); i++)
        if (strcmp(store_stmt_at(i)->name, name) == 0)
            return store_stmt_at(i);
    fail_msg("no statement %s", name);
    return NULL;
}

/* "(actual rows=20 loops=1)" */
static long rows_of(slice line)
{
    ptrdiff_t at = slice_find(line, SLICE("actual rows="));
    return at < 0 ? 0 : strtol(line.ptr + at + strlen("actual rows="), NULL, 10);
}

/* The number of partitions from which a page reads rows: pruned partitions are not executed. The
 * results of two scans are sorted, each with at most the requested number of rows. */
static size_t partitions_since(struct uuid since, const char *name, const char *more,
                               enum pg_mode mode)
{
    struct err err;
    struct arena arena;
    struct pg_rows rows;
    struct buf sql;
    char ids[3][UUID_TEXT_LEN + 1];
    size_t count = 0;
    struct pg_sync *sync = items_open_pinned(conninfo);
    uuid_format(account, ids[0]);
    uuid_format(since, ids[1]);
    uuid_format(uuid_v7_floor(midnight_ms + 86399999), ids[2]);
    buf_init(&sql, 64 * 1024);
    const struct pg_stmt *stmt = statement(name);
    for (size_t i = 0; i < stmt->param_count; i++)
        buf_printf(&sql, "%s %s%s", i ? "," : "prepare x (", pg_type_name(stmt->params[i].type),
                   mode == PG_MODE_SET ? "[]" : "");
    buf_append_cstr(&sql, ") as ");
    assert_int_equal(pg_stmt_expand(stmt, mode, &sql, &err), OK);
    buf_append_char(&sql, '\0');
    assert_int_equal(pg_sync_run(sync, sql.ptr, &err), OK);
    buf_clear(&sql);
    buf_append_cstr(&sql, "explain (analyze, costs off, timing off, summary off) execute x (");
    for (size_t i = 0; i < 3; i++)
        if (mode == PG_MODE_SET)
            buf_printf(&sql, "array['%s']::uuid[], ", ids[i]);
        else
            buf_printf(&sql, "'%s', ", ids[i]);
    buf_printf(&sql, "%s, %s)", mode == PG_MODE_SET ? "array[20]::bigint[]" : "20", more);
    buf_append_char(&sql, '\0');
    arena_init(&arena, 1024 * 1024);
    if (pg_sync_text(sync, sql.ptr, &arena, &rows, &err) != OK)
        fail_msg("%s in: %s", err.text, sql.ptr);
    for (size_t i = 0; i < rows.count; i++) {
        slice line = pg_get_bytes(&rows, i, 0);
        bool is_scan = slice_find(line, SLICE("Index Scan Backward using ")) >= 0;
        if (!is_scan && slice_find(line, SLICE("Sort ")) >= 0 && rows_of(line) > 2 * WANTED)
            fail_msg("%s sorts: %.*s", name, SLICE_ARG(line));
        count += is_scan && slice_find(line, SLICE("never executed")) < 0;
    }
    buf_deinit(&sql);
    arena_deinit(&arena);
    pg_sync_close(sync);
    return count;
}

static size_t partitions_read(const char *name, const char *more, enum pg_mode mode)
{
    return partitions_since(uuid_v7_floor(midnight_ms), name, more, mode);
}

/* with_calls, since_at, before_at, flow_before, parent_id, with_blocked, with_tools, words */
#define CALLS_PIPE(is)                                                      \
#is ", now() - interval '1 day', now() + interval '1 day', " TODAY_FLOW \
        ", null, false, false, null"
#define CALLS_SET(is)                                                                    \
    "array[" #is "], array[now() - interval '1 day'], array[now() + interval '1 day'], " \
    "array[" TODAY_FLOW "], array[null]::uuid[], array[false], array[false], array[null]::text[]"
#define TODAY_FLOW "sluice.uuid_floor((now() at time zone 'UTC')::date + 1)"

static void test_partitions_are_pruned(void **state)
{
    (void)state;
    items_tell(conninfo, "analyze");
    assert_true(items_ask(conninfo, "select count(*) from pg_inherits "
                                    "where inhparent = 'sluice.execution'::regclass") >= 9);
    assert_int_equal(partitions_read("execution_list",
                                     "null, null, null, null, null, true, " CALLS_PIPE(false),
                                     PG_MODE_PIPE),
                     1);
    assert_int_equal(
        partitions_read("execution_list",
                        "array['gmail'], array[null]::text[], array[null]::text[], "
                        "array[null]::uuid[], array[null]::text[], array[true], " CALLS_SET(false),
                        PG_MODE_SET),
        1);
    /* with calls of flows: a partition of executions, and the partitions of steps until today */
    assert_int_equal(partitions_read("execution_list_calls",
                                     "null, null, null, null, null, true, " CALLS_PIPE(true),
                                     PG_MODE_PIPE),
                     1 + 2);
    assert_int_equal(
        partitions_read("execution_list_calls",
                        "array['gmail'], array['get'], array[null]::text[], "
                        "array[null]::uuid[], array[null]::text[], array[true], " CALLS_SET(true),
                        PG_MODE_SET),
        1 + 2);
    assert_int_equal(partitions_read("audit_list", "'key', 'system'", PG_MODE_PIPE), 1);
    assert_int_equal(
        partitions_read("audit_list", "array[null]::text[], array[null]::text[]", PG_MODE_SET), 1);
    /* The account's events, and those of its users. Of the latter, partitions are read from the day
     * of the migration on. */
    size_t all = (size_t)items_ask(conninfo, "select count(*) from pg_inherits where inhparent = "
                                             "'sluice.audit_event'::regclass and right(inhrelid::"
                                             "regclass::text, 8) <= to_char(now() at time zone "
                                             "'UTC', 'YYYYMMDD')");
    assert_int_equal(partitions_read("audit_list_all", "'key'", PG_MODE_PIPE), 1 + 1);
    assert_int_equal(partitions_read("audit_list_all", "array[null]::text[]", PG_MODE_SET), 1 + 1);
    assert_int_equal(partitions_since(nil, "audit_list_all", "'key'", PG_MODE_PIPE), all + 1);
    assert_int_equal(partitions_since(nil, "audit_list_all", "array['key']", PG_MODE_SET), all + 1);
}

/* ---- setup ---- */

/* Executions n of a day, where the largest n is the newest. They are the same for each account. */
#define FILL_DAY                                                                             \
    "insert into sluice.execution select a.id, (lpad(to_hex(%lld + n), 12, '0') || "         \
    "'70008000000000000000')::uuid, case when %s then 'notion' else 'gmail' end, 'get', 7, " \
    "case when %s then 'failed' else 'succeeded' end, case when %s then 'timed_out' end, "   \
    "now(), now(), gen_random_uuid(), "                                                      \
    "case when %s then '{\"status\": \"failed\"}' else '{\"output\": 1}' end::json "         \
    "from (values ('%s'::uuid), ('%s'::uuid)) a (id), generate_series(1, %d) n"

static void fill_day(int64_t day_ms, const char *is_notion, const char *is_failed, int count)
{
    char sql[4096], one[UUID_TEXT_LEN + 1], two[UUID_TEXT_LEN + 1];
    uuid_format(account, one);
    uuid_format(other, two);
    snprintf(sql, sizeof(sql), FILL_DAY, (long long)day_ms, is_notion, is_failed, is_failed,
             is_failed, one, two, count);
    items_tell(conninfo, sql);
}

/* Adds the same number of calls of one flow, today. */
static void fill_calls(void)
{
    char sql[1024], text[UUID_TEXT_LEN + 1];
    uuid_format(account, text);
    snprintf(sql, sizeof(sql),
             "insert into sluice.flow select '%s', sluice.uuid_floor((now() at time zone "
             "'UTC')::date), 't', gen_random_uuid(), 'agent', 'completed', 1, gen_random_uuid(), "
             "null, 0, 1, true, 0, null, null, null, now(), now(), now(); "
             "insert into sluice.flow_step select account_id, id, 0, n, 'completed', "
             "now() - n * interval '1 ms', now(), '{}', '{}', null, 'gmail', 'get' "
             "from sluice.flow, generate_series(1, %d) n",
             text, TODAY_ROWS);
    items_tell(conninfo, sql);
}

static void fill_audit(struct uuid id)
{
    char sql[1024], text[UUID_TEXT_LEN + 1];
    uuid_format(id, text);
    snprintf(sql, sizeof(sql),
             "insert into sluice.audit_event select '%s', (lpad(to_hex(%lld + n), 12, '0') || "
             "'70008000000000000000')::uuid, k, null, 'operator:ada', 'r', '{}', "
             "'192.0.2.1' from unnest(array['key.created', 'key.revoked', 'keychain.opened', "
             "'execution.blocked']) with ordinality t (k, n)",
             text, (long long)midnight_ms);
    items_tell(conninfo, sql);
}

static int set_up(void **state)
{
    (void)state;
    conninfo = pg_cluster_database(true);
    account = uuid_v7();
    other = uuid_v7();
    midnight_ms = items_ask(
        conninfo,
        "select ((now() at time zone 'UTC')::date - date '1970-01-01')::bigint * 86400000");
    fill_day(midnight_ms, "n = 1", "n in (1, 1000, 2500)", TODAY_ROWS);
    fill_day(midnight_ms - 86400000, "n > 1", "n = 1", 3);
    items_tell(conninfo, "update sluice.execution set summary = rpad(summary, 4097) where id in "
                         "(select id from sluice.execution where integration_id = 'notion' "
                         "and status = 'succeeded' order by id limit 2)");
    fill_calls();
    fill_audit(account);
    fill_audit(other);
    return 0;
}

#define IN_BOTH(test) IN_BOTH_BY(test, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BOTH(test_all_in_order),     IN_BOTH(test_filters),
        IN_BOTH(test_what_a_row_holds), IN_BOTH(test_audit_by_kind),
        IN_BOTH(test_audit_by_actor),   cmocka_unit_test(test_partitions_are_pruned),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, NULL));
}
