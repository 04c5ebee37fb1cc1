/* The events of connections: each change has one for each endpoint that hears it, whatever is sent
 * again; renewals, and changes that lose, have none. */
#include "store/connection.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "support/rows.h"
#include "unit.h"

static const char *conninfo;
static struct pg_bench bench;
static struct pg_call call, other_call;
static struct uuid account, other, user;
static struct pg_sync *sync;

static struct connection connection;
static int64_t wanted_rev;
static bool is_grant;

static void start_insert(struct pg_call *at)
{
    store_connection_insert(bench.pool, &at->query, &at->op, &connection, 0);
}

static void start_lost(struct pg_call *at)
{
    const struct connection_loss loss = {.account_id = connection.account_id,
                                         .id = connection.id,
                                         .rev = wanted_rev,
                                         .error = SLICE("the grant has ended"),
                                         .reason = SLICE("invalid_grant"),
                                         .by.actor = SLICE("system")};
    store_connection_lost(bench.pool, &at->query, &at->op, &loss);
}

static void start_credentials(struct pg_call *at)
{
    const struct connection_credentials credentials = {
        .sealed = SLICE("new"), .key_id = SLICE("key1"), .is_grant_new = is_grant};
    store_connection_credentials_set(bench.pool, &at->query, &at->op, connection.account_id,
                                     connection.id, wanted_rev, &credentials);
}

static struct connection_change change(void)
{
    return (struct connection_change){
        .account_id = connection.account_id,
        .id = connection.id,
        .by = {.actor = SLICE("key:1"), .parent_id = connection.parent_id}};
}

static void start_delete(struct pg_call *at)
{
    const struct connection_change by = change();
    store_connection_delete(bench.pool, &at->query, &at->op, &by);
}

static void start_yield(struct pg_call *at)
{
    const struct connection_change by = change();
    const struct connection_twin twin = {.integration_id = SLICE("gmail"),
                                         .subject = SLICE("u1"),
                                         .email = SLICE_NONE,
                                         .params = SLICE("{}")};
    store_connection_yield(bench.pool, &at->query, &at->op, &by, &twin);
}

static void start_rename(struct pg_call *at)
{
    const struct connection_change by = change();
    store_connection_label_set(bench.pool, &at->query, &at->op, &by, SLICE("renamed"));
}

/* Runs the statement. Then sends it again, as after a lost answer, unless it is one that is not. */
static struct uuid run(void (*start)(struct pg_call *at), bool is_once)
{
    assert_int_equal(pg_call_run(&bench, &call, start, NULL), OK);
    struct uuid event = store_event_of(&call.query);
    if (!is_once) {
        pg_submit(bench.pool, &call.query, &call.op);
        while (pg_pool_pending(bench.pool))
            loop_turn(bench.loop, true);
        assert_int_equal(call.query.status, OK);
        assert_true(uuid_is_nil(store_event_of(&call.query)));
    }
    pg_call_end(&call);
    return event;
}

/* The events of the connection that the endpoint with this number hears. */
static void expect(int endpoint, const char *wanted)
{
    char sql[900];
    (void)snprintf(
        sql, sizeof(sql),
        "select (coalesce(string_agg(split_part(kind, '.', 2) || rev, ' ' order by rev), '') = "
        "'%s')::int from sluice.delivery where webhook_id::text like '%%%d' and object = "
        "lpad(to_hex(%lld), 32, '0')::uuid and data->>'connection_id' = '%lld' and "
        "data->>'integration_id' = 'gmail' and status = 'pending' and due_at <= now()",
        wanted, endpoint, (long long)connection.id, (long long)connection.id);
    assert_int_equal(items_ask(conninfo, sql), 1);
}

static void make(struct uuid owner)
{
    connection =
        (struct connection){.account_id = owner,
                            .id = short_id_new(),
                            .integration_id = SLICE("gmail"),
                            .label = SLICE("one"),
                            .auth_kind = SLICE("oauth2"),
                            .sealed = SLICE("old"),
                            .key_id = SLICE("key0"),
                            .identity.subject = SLICE("u1"),
                            .parent_id = uuid_eq(owner, user) ? account : (struct uuid){{0}}};
}

static void live_a_life(struct uuid owner)
{
    make(owner);
    assert_false(uuid_is_nil(run(start_insert, false)));
    is_grant = false;
    wanted_rev = 1; /* a renewal */
    assert_true(uuid_is_nil(run(start_credentials, false)));
    assert_true(uuid_is_nil(run(start_lost, false))); /* too late */
    wanted_rev = 2;
    assert_false(uuid_is_nil(run(start_lost, false)));
    is_grant = true;
    wanted_rev = 3;
    assert_false(uuid_is_nil(run(start_credentials, false)));
    wanted_rev = 4;
    assert_false(uuid_is_nil(run(start_credentials, false)));
    assert_true(uuid_is_nil(run(start_rename, true)));
    assert_false(uuid_is_nil(run(start_delete, true)));
    assert_true(uuid_is_nil(run(start_delete, true)));
    expect(1, "connected1 reauth_required3 recovered4 connected5 deleted7");
    expect(2, "recovered4 deleted7");
    expect(3, "");
    expect(4, "");
}

static void test_a_life(void **state)
{
    (void)state;
    live_a_life(account);
    assert_int_equal(
        items_ask(conninfo, "select count(*) from sluice.delivery where parent_id is null and "
                            "json_extract_path_text(data, 'status') is not distinct from case kind "
                            "when 'connection.deleted' then null when 'connection.reauth_required' "
                            "then 'reauth_required' else 'live' end"),
        7);
}

static void test_of_a_user(void **state)
{
    char sql[300], text[UUID_TEXT_LEN + 1];
    (void)state;
    live_a_life(user);
    uuid_format(account, text);
    (void)snprintf(sql, sizeof(sql),
                   "select count(*) from sluice.delivery where parent_id = '%s' and "
                   "data->>'account_id' = '%s'",
                   text, text);
    assert_int_equal(items_ask(conninfo, sql), 7);
}

/* An account without an endpoint has no event, nor does an id that another request has taken. */
static void test_none(void **state)
{
    (void)state;
    int64_t before = items_ask(conninfo, "select count(*) from sluice.delivery");
    make(uuid_v7());
    connection.parent_id = other;
    assert_true(uuid_is_nil(run(start_insert, false)));
    assert_true(uuid_is_nil(run(start_delete, true)));
    make(account);
    assert_false(uuid_is_nil(run(start_insert, false)));
    assert_true(uuid_is_nil(run(start_insert, false)));
    expect(1, "connected1");
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.delivery"), before + 1);
}

/* The audit event and the messages about a loss have one id, however many processes find it. */
static void test_one_loss(void **state)
{
    (void)state;
    make(account);
    (void)run(start_insert, false);
    wanted_rev = 1;
    pg_call_start(&bench, &call, start_lost, NULL);
    pg_call_start(&bench, &other_call, start_lost, NULL);
    pg_calls_wait(&bench, &call, 1);
    pg_calls_wait(&bench, &other_call, 1);
    assert_true(uuid_is_nil(store_event_of(&call.query)) !=
                uuid_is_nil(store_event_of(&other_call.query)));
    pg_call_end(&call);
    pg_call_end(&other_call);
    expect(1, "connected1 reauth_required2");
    assert_int_equal(items_ask(conninfo, "select (count(*) = 3)::int from sluice.delivery d join "
                                         "sluice.audit_event a on a.id = d.event_id where d.kind = "
                                         "'connection.reauth_required'"),
                     1);
}

static void test_a_twin_yields(void **state)
{
    int64_t kept, first;
    (void)state;
    items_tell(conninfo, "delete from sluice.connection");
    make(account);
    (void)run(start_insert, false);
    first = connection.id;
    make(account);
    (void)run(start_insert, false);
    assert_int_equal(pg_call_run(&bench, &call, start_yield, NULL), OK);
    assert_int_equal(store_connection_yield_result(&call.query, &kept), OK);
    assert_true(kept == first && !uuid_is_nil(store_event_of(&call.query)));
    pg_call_end(&call);
    expect(1, "connected1 deleted2");
}

/* Endpoint 1 hears everything, 2 some kinds, 3 is off, 4 is another account's. */
static void add_endpoints(void)
{
    static const char *const more[] = {"null, null",
                                       "'connection.recovered connection.deleted', null",
                                       "null, now()", "null, null"};
    for (int i = 0; i < 4; i++) {
        char sql[500], owner[UUID_TEXT_LEN + 1];
        uuid_format(i < 3 ? account : other, owner);
        (void)snprintf(
            sql, sizeof(sql),
            "insert into sluice.webhook (account_id, id, url, description, events, off_at,"
            " sealed, key_id, failures, rev, created_at) select '%s', "
            "'00000000-0000-4000-8000-00000000000%d', 'https://example.com/%d', '', %s, "
            "'', '', 0, 1, now()",
            owner, i + 1, i, more[i]);
        items_tell(conninfo, sql);
    }
    items_tell(conninfo, "update sluice.webhook set account_id = gen_random_uuid() where id::text "
                         "like '%4'");
}

static int set_up(void **state)
{
    struct err err;
    struct pg_pool_config config = {.queue_timeout_ms = 30000, .lock_timeout_ms = 30000};
    (void)state;
    conninfo = config.conninfo = pg_cluster_database(true);
    sync = pg_sync_open(conninfo, &err);
    account = uuid_v7();
    other = uuid_v7();
    user = uuid_v7();
    struct account rows[] = {{.account_id = account, .name = SLICE("test")},
                             {.account_id = other, .name = SLICE("other")}};
    pg_bench_open(&bench, &config, true);
    add_endpoints();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (!sync || rows_account(sync, &rows[i]) != OK)
            return ERR_IO;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pg_sync_close(sync);
    pg_bench_close(&bench);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_life),        cmocka_unit_test(test_of_a_user),
        cmocka_unit_test(test_none),          cmocka_unit_test(test_one_loss),
        cmocka_unit_test(test_a_twin_yields),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, tear_down));
}
