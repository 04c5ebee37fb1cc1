/*
 * The last use of connections, with a real database: many uses cause few writes, failures are
 * recorded, and nothing is lost in a clean shutdown or while the database is down.
 */
#include "base/clock.h"
#include "connect/connect.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "support/rows.h"
#include "tls/tls.h"
#include "unit.h"

enum { EVERY_MS = 400 };

static const char *conninfo;
static struct pg_bench db;
static struct vault_ring *ring;
static struct connect_service *service;
static struct pg_sync *sync;
static struct uuid account;

static int64_t add(void)
{
    struct connection row = {.account_id = account,
                             .id = short_id_new(),
                             .integration_id = SLICE("demo"),
                             .label = SLICE("l"),
                             .auth_kind = SLICE("bearer"),
                             .status = CONNECTION_LIVE};
    assert_int_equal(rows_connection(sync, &row), OK);
    return row.id;
}

static void open_service(void)
{
    struct connect_config config = {.pool = db.pool, .ring = ring, .use_every_ms = EVERY_MS};
    service = connect_new(db.loop, &config);
    assert_non_null(service);
    items_tell(conninfo, "truncate public.writes");
}

static int64_t writes(void)
{
    return items_ask(conninfo, "select count(*) from public.writes");
}

static int64_t ask(int64_t id, const char *what)
{
    char sql[300];
    (void)snprintf(sql, sizeof(sql),
                   "select coalesce((%s)::bigint, 0) from sluice.connection where id = %lld", what,
                   (long long)id);
    return items_ask(conninfo, sql);
}

struct wanted {
    int64_t id;
    const char *what;
};

static bool is_so(void *arg)
{
    const struct wanted *wanted = arg;
    return ask(wanted->id, wanted->what) == 1;
}

static void wait_for(int64_t id, const char *what)
{
    struct wanted wanted = {id, what};
    pg_bench_until_true(&db, is_so, &wanted);
}

/* Waits for that time, and until all writes scheduled in it have been sent and their results are
 * known. */
static void let_pass(unsigned ms)
{
    uint64_t until = clock_mono_ns() + ms * 1000000ULL;
    while (clock_mono_ns() < until || connect_uses_active(service))
        (void)loop_turn(db.loop, true);
}

static void wake(struct timer *timer)
{
    timer_start_in_ms(timer, 5);
}

static void many_uses_are_one_write(void **state)
{
    int64_t ids[150];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        ids[i] = add();
    open_service();
    int64_t before = clock_wall_us(), rev = ask(ids[0], "rev");
    for (size_t i = 0; i < 100 * ARRAY_LEN(ids); i++)
        connect_used(service, account, account, ids[i % ARRAY_LEN(ids)], SLICE_NONE);
    assert_int_equal(writes(), 0);
    wait_for(ids[0], "select (count(*) = 150)::int from public.writes");
    int64_t at = ask(ids[0], "extract(epoch from last_used_at) * 1000000");
    assert_in_range(at, before, clock_wall_us());
    assert_int_equal(ask(ids[0], "(failure is null)::int"), 1);
    assert_int_equal(ask(ids[0], "rev"), rev);
    assert_int_equal(writes(), ARRAY_LEN(ids));
    /* a connection in constant use is written again once its interval is over; the others are
     * not */
    for (int i = 0; i < 50; i++)
        connect_used(service, account, account, ids[0], SLICE_NONE);
    let_pass(1000 + 2 * EVERY_MS); /* long enough even if the use counts as a first use */
    assert_int_equal(writes(), ARRAY_LEN(ids) + 1);
    assert_true(ask(ids[0], "extract(epoch from last_used_at) * 1000000") > at);
    connect_free(service);
}

static void a_failure_is_kept_until_the_next(void **state)
{
    struct buf text;
    int64_t id = add();
    (void)state;
    open_service();
    connect_used(service, account, account, id, SLICE("first\x01\n\x7F thing"));
    connect_used(service, account, account, id, SLICE_NONE);
    wait_for(id, "(failure = 'first    thing' and failed_at <= last_used_at)::int");
    connect_used(service, account, account, id, SLICE_NONE);
    let_pass(1000 + 2 * EVERY_MS); /* long enough even if the use counts as a first use */
    assert_int_equal(ask(id, "(failed_at < last_used_at)::int"), 1);
    buf_init(&text, 4096);
    for (int i = 0; i < 400; i++)
        buf_append(&text, SLICE("\xC3\xA9"));
    connect_used(service, account, account, id, buf_slice(&text));
    wait_for(id, "(octet_length(failure) = 500 and char_length(failure) = 250)::int");
    buf_deinit(&text);
    connect_free(service);
}

static void all_is_reported_on_the_way_down(void **state)
{
    int64_t ids[100];
    (void)state;
    open_service();
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        ids[i] = add();
    connect_uses_flush(service);
    assert_false(connect_uses_active(service)); /* nothing to write */
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        connect_used(service, account, account, ids[i], i % 2 ? SLICE("no") : SLICE_NONE);
    connect_uses_flush(service);
    assert_true(connect_uses_active(service));
    let_pass(0);
    assert_int_equal(writes(), ARRAY_LEN(ids));
    assert_int_equal(ask(ids[1], "(failure = 'no')::int"), 1);
    connect_free(service);
}

static void what_the_database_refuses_now_is_reported_later(void **state)
{
    struct arena arena;
    struct pg_rows rows;
    struct err err;
    int64_t id = add();
    (void)state;
    open_service();
    arena_init(&arena, 64 * 1024);
    assert_int_equal(pg_sync_text(sync, "begin", &arena, &rows, &err), OK);
    assert_int_equal(
        pg_sync_text(sync, "lock table sluice.connection in exclusive mode", &arena, &rows, &err),
        OK);
    connect_used(service, account, account, id, SLICE("lock"));
    while (!connect_uses_active(service))
        (void)loop_turn(db.loop, true);
    let_pass(0); /* lock_timeout */
    assert_int_equal(pg_sync_text(sync, "rollback", &arena, &rows, &err), OK);
    assert_int_equal(writes(), 0);
    wait_for(id, "(failure = 'lock')::int");
    arena_deinit(&arena);
    connect_free(service);
}

static void a_flush_outlives_its_service(void **state)
{
    int64_t id = add();
    (void)state;
    open_service();
    connect_used(service, account, account, id, SLICE("late"));
    connect_uses_flush(service);
    (void)loop_turn(db.loop, false);
    connect_free(service);
    while (op_count(db.loop) > 5)
        (void)loop_turn(db.loop, true);
}

struct late {
    struct pg_call call;
    struct connection_use use;
};

static void start_use(struct pg_call *call)
{
    store_connection_use(call->bench->pool, &call->query, &call->op, call->arg);
}

static void tell(const struct connection_use *use)
{
    struct pg_call call = {.is_done = false};
    assert_int_equal(pg_call_run(&db, &call, start_use, (void *)(uintptr_t)use), OK);
    pg_call_end(&call);
}

/* Two servers write about the same connection, and the slower server writes last. */
static void the_later_one_wins(void **state)
{
    const int64_t second = 1000000, at = 1800000000 * second;
    struct connection_use newer = {account, add(), at, at, SLICE("newer")};
    struct connection_use older = {account, newer.id, at - second, at - second, SLICE("older")};
    struct connection_use fine = {account, newer.id, at + second, 0, SLICE_NONE};
    (void)state;
    tell(&newer);
    tell(&older);
    assert_int_equal(ask(newer.id, "(failure = 'newer')::int"), 1);
    assert_int_equal(ask(newer.id, "extract(epoch from last_used_at)"), at / second);
    tell(&fine);
    assert_int_equal(ask(newer.id, "extract(epoch from last_used_at)"), at / second + 1);
    assert_int_equal(ask(newer.id, "extract(epoch from failed_at)"), at / second);
    assert_int_equal(ask(newer.id, "(failure = 'newer')::int"), 1);
}

static struct timer ticking; /* a loop without work would wait forever */

static int setup(void **state)
{
    struct err err;
    struct buf key;
    (void)state;
    conninfo = pg_cluster_database(true);
    struct pg_pool_config pool = {.conninfo = conninfo};
    struct account row = {.account_id = uuid_v7(), .name = SLICE("a")};
    if (tls_library_init(&err) != OK)
        return -1;
    buf_init(&key, 128);
    vault_master_key_new(&key);
    ring = vault_ring_new(buf_slice(&key), &err);
    buf_deinit(&key);
    sync = pg_sync_open(conninfo, &err);
    account = row.account_id;
    if (!ring || !sync || rows_account(sync, &row) != OK)
        return -1;
    items_tell(conninfo, "create table public.writes (id bigint)");
    items_tell(conninfo, "create function public.note() returns trigger language plpgsql as $$"
                         "begin insert into public.writes values (new.id); return null; end$$");
    items_tell(conninfo, "create trigger note after update on sluice.connection for each row "
                         "execute function public.note()");
    pg_bench_open(&db, &pool, true);
    timer_init(&ticking, db.loop, wake);
    timer_start_in_ms(&ticking, 5);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    timer_stop(&ticking);
    pg_bench_close(&db);
    pg_sync_close(sync);
    vault_ring_free(ring);
    tls_library_deinit();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_uses_are_one_write),
        cmocka_unit_test(a_failure_is_kept_until_the_next),
        cmocka_unit_test(all_is_reported_on_the_way_down),
        cmocka_unit_test(what_the_database_refuses_now_is_reported_later),
        cmocka_unit_test(a_flush_outlives_its_service),
        cmocka_unit_test(the_later_one_wins),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
