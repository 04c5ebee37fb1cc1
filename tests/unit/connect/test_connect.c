/*
 * Connections through the cache, with a real database: what a look-up returns, what is cached and
 * for how long, credentials that cannot be opened, and the rule for the default.
 */
#include "connect/connect.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_second.h"
#include "support/rows.h"
#include "tls/tls.h"
#include "unit.h"

static const char *conninfo;
static struct pg_bench db;
static struct vault_ring *ring;
static struct connect_service *service;

/* One look-up as an op. */
struct ask {
    struct op op;
    struct connect_lookup lookup;
    struct uuid account_id;
    slice integration_id;
    int64_t id;
    bool is_done, was_cached;
};

static enum op_result step_find(struct op *op)
{
    struct ask *ask = CONTAINER_OF(op, struct ask, op);
    ask->was_cached =
        connect_find(service, &ask->lookup, ask->account_id, ask->integration_id, ask->id, op);
    return ask->was_cached ? OP_NEXT : OP_WAIT;
}

static enum op_result step_done(struct op *op)
{
    CONTAINER_OF(op, struct ask, op)->is_done = true;
    return OP_DONE;
}

static const struct op_step steps[] = {{"find", step_find, 0}, {"done", step_done, 0}};
static const struct op_class ask_class = {
    .name = "ask", .steps = steps, .step_count = ARRAY_LEN(steps)};

static void start(struct ask *ask, struct uuid account_id, slice integration_id)
{
    *ask = (struct ask){.account_id = account_id, .integration_id = integration_id};
    op_start(&ask->op, &ask_class, db.loop, NULL, 65536);
}

static struct connect_set *find(struct ask *ask, struct uuid account_id)
{
    start(ask, account_id, SLICE("demo"));
    pg_bench_until(&db, &ask->is_done);
    assert_int_equal(ask->lookup.status, OK);
    (void)loop_turn(db.loop, false);
    return ask->lookup.set;
}

static struct uuid make_account(struct pg_sync *sync)
{
    struct account account = {.account_id = uuid_v7(), .name = SLICE("a")};
    assert_int_equal(rows_account(sync, &account), OK);
    return account.account_id;
}

struct wanted {
    const char *label, *credential;
    enum connection_status status;
    bool is_default;
};

/* Inserts a connection and returns its id. The credential is sealed for `sealed_for`. */
static int64_t add(struct pg_sync *sync, struct uuid account_id, struct uuid sealed_for,
                   const struct wanted *wanted)
{
    struct buf sealed;
    int64_t id = short_id_new();
    struct vault_binding place = {sealed_for, id};
    buf_init(&sealed, 4096);
    assert_int_equal(vault_seal(ring, &place, slice_cstr(wanted->credential), &sealed), OK);
    struct connection row = {
        .account_id = account_id,
        .id = id,
        .integration_id = SLICE("demo"),
        .label = slice_cstr(wanted->label),
        .is_default = wanted->is_default,
        .auth_kind = SLICE("bearer"),
        .sealed = buf_slice(&sealed),
        .key_id = vault_ring_key_id(ring),
        .params = SLICE("{\"host\":\"h\"}"),
        .scopes = SLICE("a b"),
        .status = wanted->status,
        .error = wanted->status == CONNECTION_LIVE ? SLICE_NONE : SLICE("gone"),
    };
    assert_int_equal(rows_connection(sync, &row), OK);
    buf_deinit(&sealed);
    return id;
}

static struct pg_sync *open_sync(void)
{
    struct err err;
    struct pg_sync *sync = pg_sync_open(conninfo, &err);
    assert_non_null(sync);
    return sync;
}

static void a_set_holds_opened_credentials(void **state)
{
    struct pg_sync *sync = open_sync();
    struct uuid account = make_account(sync);
    struct wanted wanted = {"work", "{\"token\":\"t\"}", CONNECTION_LIVE, true};
    int64_t id = add(sync, account, account, &wanted);
    struct ask ask;
    (void)state;
    struct connect_set *set = find(&ask, account);
    assert_false(ask.was_cached);
    assert_int_equal(set->count, 1);
    assert_int_equal(set->items[0].id, id);
    assert_true(slice_eq_cstr(secret_reveal(set->items[0].credential), "{\"token\":\"t\"}"));
    assert_true(slice_eq_cstr(json_get_str(set->items[0].params, SLICE("host")), "h"));
    assert_true(slice_eq_cstr(set->items[0].scopes, "a b"));
    const struct connect_item *chosen;
    assert_int_equal(connect_set_state(set, &chosen), CONNECT_CONNECTED);
    assert_ptr_equal(chosen, &set->items[0]);
    connect_set_unref(set);
    pg_sync_close(sync);
}

static void what_was_read_is_believed_until_forgotten(void **state)
{
    struct pg_sync *sync = open_sync();
    struct uuid account = make_account(sync), other = make_account(sync);
    struct ask ask;
    (void)state;
    struct connect_set *none = find(&ask, account);
    assert_int_equal(none->count, 0);
    const struct connect_item *chosen;
    assert_int_equal(connect_set_state(none, &chosen), CONNECT_NOT_CONNECTED);
    assert_null(chosen);
    struct wanted wanted = {"one", "{}", CONNECTION_LIVE, true};
    (void)add(sync, account, account, &wanted);
    struct connect_set *cached = find(&ask, account);
    assert_true(ask.was_cached);
    assert_ptr_equal(cached, none);
    connect_forget(service, other, SLICE("demo"));
    connect_forget(service, account, SLICE("demo"));
    struct connect_set *fresh = find(&ask, account);
    assert_false(ask.was_cached);
    assert_int_equal(fresh->count, 1);
    connect_set_unref(none);
    connect_set_unref(cached);
    connect_set_unref(fresh);
    struct connect_set *others = find(&ask, other);
    assert_int_equal(others->count, 0);
    connect_set_unref(others);
    pg_sync_close(sync);
}

static struct connect_set *find_one(struct ask *ask, struct uuid account_id, slice integration_id,
                                    int64_t id)
{
    *ask = (struct ask){.account_id = account_id, .integration_id = integration_id, .id = id};
    op_start(&ask->op, &ask_class, db.loop, NULL, 65536);
    pg_bench_until(&db, &ask->is_done);
    assert_int_equal(ask->lookup.status, OK);
    (void)loop_turn(db.loop, false);
    return ask->lookup.set;
}

/* However many connections there are, a named one is loaded alone, and a choice loads only a
 * few. */
static void a_look_up_reads_what_it_is_asked_for(void **state)
{
    enum { MANY = 130 };
    struct pg_sync *sync = open_sync();
    struct uuid account = make_account(sync);
    struct wanted dead = {"dead", "{}", CONNECTION_REAUTH_REQUIRED, false};
    struct wanted live = {"live", "{\"token\":\"t\"}", CONNECTION_LIVE, false};
    const struct connect_item *chosen;
    struct ask ask;
    int64_t id = 0;
    (void)state;
    for (size_t i = 0; i < MANY; i++)
        id = add(sync, account, account, i < MANY / 2 ? &dead : &live);
    struct connect_set *one = find_one(&ask, account, SLICE("demo"), id);
    assert_int_equal(one->count, 1);
    assert_int_equal(one->items[0].id, id);
    assert_true(slice_eq_cstr(secret_reveal(one->items[0].credential), "{\"token\":\"t\"}"));
    connect_set_unref(one);
    struct connect_set *none = find_one(&ask, account, SLICE("another"), id);
    assert_int_equal(none->count, 0);
    connect_set_unref(none);
    struct connect_set *choice = find(&ask, account);
    assert_true(choice->count <= CONNECTION_CHOICE_LIVE_MAX + 3);
    (void)connect_set_state(choice, &chosen);
    size_t alive = 0;
    for (size_t i = 0; i < choice->count; i++)
        alive += choice->items[i].status == CONNECTION_LIVE;
    connect_set_unref(choice);
    assert_int_equal(alive, CONNECTION_CHOICE_LIVE_MAX);
    connect_forget(service, account, SLICE("demo")); /* everything known about the app */
    one = find_one(&ask, account, SLICE("demo"), id);
    assert_false(ask.was_cached);
    connect_set_unref(one);
    one = find_one(&ask, account, SLICE("demo"), id);
    assert_true(ask.was_cached);
    connect_set_unref(one);
    pg_sync_close(sync);
}

static void look_ups_of_one_key_fly_once(void **state)
{
    struct pg_sync *sync = open_sync();
    struct uuid account = make_account(sync);
    struct ask asks[50];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(asks); i++)
        start(&asks[i], account, SLICE("demo"));
    for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
        pg_bench_until(&db, &asks[i].is_done);
        assert_ptr_equal(asks[i].lookup.set, asks[0].lookup.set);
    }
    for (size_t i = 0; i < ARRAY_LEN(asks); i++)
        connect_set_unref(asks[i].lookup.set);
    (void)loop_turn(db.loop, false);
    pg_sync_close(sync);
}

static void start_early(void *arg)
{
    struct ask *ask = arg;
    start(ask, ask->account_id, SLICE("demo"));
}

/* A request that comes after a change sees the change, even while an earlier look-up is under
 * way. */
static void a_request_after_a_change_sees_it(void **state)
{
    struct pg_sync *sync = open_sync();
    struct uuid account = make_account(sync);
    struct wanted wanted = {"one", "{}", CONNECTION_LIVE, true};
    struct ask early, late;
    (void)state;
    early.account_id = account;
    pg_answer_unseen(&db, conninfo, "sluice.connection", start_early, &early);
    (void)add(sync, account, account, &wanted);
    connect_changed(service, account, SLICE("demo"));
    assert_false(early.is_done);
    struct connect_set *seen = find(&late, account);
    pg_bench_until(&db, &early.is_done);
    size_t early_count = early.lookup.set->count, count = seen->count;
    connect_set_unref(early.lookup.set);
    connect_set_unref(seen);
    assert_int_equal(early_count, 0);
    assert_int_equal(count, 1);
    seen = find(&late, account); /* the changed row is also what is cached */
    count = seen->count;
    connect_set_unref(seen);
    assert_true(late.was_cached);
    assert_int_equal(count, 1);
    pg_sync_close(sync);
}

static void a_credential_of_another_row_does_not_open(void **state)
{
    struct pg_sync *sync = open_sync();
    struct uuid account = make_account(sync), other = make_account(sync);
    struct wanted wanted = {"moved", "{\"token\":\"t\"}", CONNECTION_LIVE, true};
    (void)add(sync, account, other, &wanted);
    struct ask ask;
    (void)state;
    struct connect_set *set = find(&ask, account);
    assert_null(set->items[0].credential);
    assert_int_equal(set->items[0].status, CONNECTION_REAUTH_REQUIRED);
    connect_set_unref(set);
    pg_sync_close(sync);
}

static void the_rule_of_the_default(void **state)
{
    static const struct {
        struct connection_app app;
        enum connect_state state;
    } table[] = {
        {{.count = 0}, CONNECT_NOT_CONNECTED},
        {{.count = 1, .live = 1}, CONNECT_CONNECTED},
        {{.count = 1}, CONNECT_REAUTH_REQUIRED},
        {{.count = 2, .live = 2}, CONNECT_AMBIGUOUS},
        {{.count = 2, .live = 1}, CONNECT_CONNECTED},
        {{.count = 2, .live = 2, .has_default = true, .is_default_live = true}, CONNECT_CONNECTED},
        {{.count = 2, .live = 1, .has_default = true}, CONNECT_REAUTH_REQUIRED},
    };
    (void)state;
    assert_int_equal(connect_state_of(NULL), CONNECT_NOT_CONNECTED);
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        assert_int_equal(connect_state_of(&table[i].app), table[i].state);
    for (int i = CONNECT_CONNECTED; i <= CONNECT_AMBIGUOUS; i++)
        assert_true(strlen(connect_state_name((enum connect_state)i)) > 0);
}

static void tell(struct pg_sync *sync, const char *sql)
{
    struct arena arena;
    struct pg_rows rows;
    struct err err;
    arena_init(&arena, 64 * 1024);
    if (pg_sync_text(sync, sql, &arena, &rows, &err) != OK)
        fail_msg("%s", err.text);
    arena_deinit(&arena);
}

static void a_cancelled_look_up_lets_go(void **state)
{
    struct pg_sync *sync = open_sync();
    struct uuid account = make_account(sync);
    struct ask asks[2];
    (void)state;
    tell(sync, "begin"); /* no answer arrives before the cancel */
    tell(sync, "lock table sluice.connection in access exclusive mode");
    start(&asks[0], account, SLICE("demo"));
    start(&asks[1], account, SLICE("demo"));
    while (asks[1].op.holds == 0) /* a turn may end after the first answer */
        (void)loop_turn(db.loop, false);
    cache_wait_stop(&asks[0].lookup.wait); /* like op_cancel */
    assert_int_equal(asks[0].lookup.status, ERR_CLOSED);
    cache_wait_stop(&asks[0].lookup.wait);
    tell(sync, "rollback");
    pg_bench_until(&db, &asks[1].is_done);
    pg_bench_until(&db, &asks[0].is_done);
    assert_null(asks[0].lookup.set);
    connect_set_unref(asks[1].lookup.set);
    (void)loop_turn(db.loop, false);
    pg_sync_close(sync);
}

static struct uuid told_account;
static char told_integration[64];

static void on_changed(void *owner, struct uuid account_id, slice integration_id)
{
    assert_ptr_equal(owner, &db);
    told_account = account_id;
    memcpy(told_integration, integration_id.ptr, integration_id.len);
    told_integration[integration_id.len] = '\0';
}

static bool is_cached(struct uuid account)
{
    struct ask ask;
    connect_set_unref(find(&ask, account));
    return ask.was_cached;
}

static void processes_notify_one_another(void **state)
{
    struct pg_sync *sync = open_sync();
    struct uuid one = make_account(sync), two = make_account(sync);
    (void)state;
    assert_false(is_cached(one) || is_cached(two));
    assert_true(is_cached(one) && is_cached(two));
    connect_changed(service, one, SLICE("demo"));
    assert_true(uuid_eq(told_account, one));
    assert_string_equal(told_integration, "demo");
    assert_true(!is_cached(one) && is_cached(two));
    connect_forget_account(service, two);
    assert_true(is_cached(one) && !is_cached(two));
    assert_true(is_cached(one) && is_cached(two));
    connect_forget_all(service);
    assert_false(is_cached(one));
    assert_false(is_cached(two));
    pg_sync_close(sync);
}

static int setup(void **state)
{
    struct err err;
    struct buf key;
    (void)state;
    conninfo = pg_cluster_database(true);
    struct pg_pool_config pool = {.conninfo = conninfo};
    if (tls_library_init(&err) != OK)
        return -1;
    buf_init(&key, 128);
    vault_master_key_new(&key);
    ring = vault_ring_new(buf_slice(&key), &err);
    buf_deinit(&key);
    pg_bench_open(&db, &pool, true);
    struct connect_config config = {.pool = db.pool,
                                    .ring = ring,
                                    .ttl_ms = 3600 * 1000,
                                    .on_changed = on_changed,
                                    .owner = &db};
    service = connect_new(db.loop, &config);
    return ring && service ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    connect_free(service);
    vault_ring_free(ring);
    pg_bench_close(&db);
    tls_library_deinit();
    return 0;
}

struct counted {
    struct connect_watch watch;
    int calls;
};

static void count_change(struct connect_watch *watch)
{
    CONTAINER_OF(watch, struct counted, watch)->calls++;
}

static void a_watch_is_notified_of_its_account(void **state)
{
    const struct uuid account = uuid_v7(), other = uuid_v7();
    struct counted one = {.watch = {.account_id = account, .on_change = count_change}};
    struct counted two = {.watch = {.account_id = other, .on_change = count_change}};
    (void)state;
    connect_watch_remove(&one.watch); /* the watch was not added */
    connect_watch_add(service, &one.watch);
    connect_watch_add(service, &two.watch);
    connect_changed(service, account, SLICE("demo"));
    connect_forget(service, account, SLICE("demo"));
    connect_forget_account(service, other);
    assert_int_equal(one.calls, 2);
    assert_int_equal(two.calls, 1);
    connect_forget_all(service);
    connect_watch_wake_all(service);
    assert_int_equal(one.calls, 4);
    assert_int_equal(two.calls, 3);
    connect_watch_remove(&one.watch);
    connect_watch_remove(&two.watch);
    connect_watch_remove(&two.watch);
    connect_forget_all(service);
    assert_int_equal(one.calls + two.calls, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_holds_opened_credentials),
        cmocka_unit_test(what_was_read_is_believed_until_forgotten),
        cmocka_unit_test(a_look_up_reads_what_it_is_asked_for),
        cmocka_unit_test(look_ups_of_one_key_fly_once),
        cmocka_unit_test(a_request_after_a_change_sees_it),
        cmocka_unit_test(a_credential_of_another_row_does_not_open),
        cmocka_unit_test(the_rule_of_the_default),
        cmocka_unit_test(a_cancelled_look_up_lets_go),
        cmocka_unit_test(processes_notify_one_another),
        cmocka_unit_test(a_watch_is_notified_of_its_account),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
