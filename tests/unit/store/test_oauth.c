/*
 * Which node may refresh a token, the end of a grant with its single audit event, OAuth clients,
 * and authorizations under way, which are used once, by the session that began them.
 */
#include "base/clock.h"
#include "store/connection.h"
#include "store/oauth.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "support/rows.h"
#include "unit.h"

enum { CALLS_MAX = 50, LEASE_MS = 3600 * 1000 };

static const char *conninfo;
static struct pg_bench bench;
static struct pg_call *calls;
static struct uuid account, holder;
static struct pg_sync *sync;
static struct connection connection;
static int64_t wanted_rev;
static unsigned lease_ms;
static struct oauth_begun begun;
static slice wanted_integration;
static struct uuid wanted_account;

static int run(void (*start)(struct pg_call *call))
{
    return pg_call_run(&bench, &calls[0], start, NULL);
}

static void done(void)
{
    pg_call_end(&calls[0]);
}

static void make_connection(void)
{
    struct err err;
    connection = (struct connection){.account_id = account,
                                     .id = short_id_new(),
                                     .integration_id = SLICE("gmail"),
                                     .label = SLICE("one"),
                                     .auth_kind = SLICE("oauth2"),
                                     .sealed = SLICE("s"),
                                     .key_id = SLICE("k"),
                                     .status = CONNECTION_LIVE};
    assert_int_equal(rows_connection(sync, &connection), OK);
    wanted_rev = connection.rev =
        2; /* the first connection becomes the default, which is a change */
    struct arena arena;
    struct connection *list;
    size_t count;
    arena_init(&arena, 1024 * 1024);
    list = store_connection_list_sync(sync, &arena, account, &count, &err);
    assert_non_null(list);
    for (size_t i = 0; i < count; i++)
        if (list[i].id == connection.id)
            wanted_rev = list[i].rev;
    arena_deinit(&arena);
}

/* ---- claims ---- */

static void start_claim(struct pg_call *call)
{
    struct uuid *who = call->arg ? call->arg : &holder;
    store_connection_claim(bench.pool, &call->query, &call->op, account, connection.id, wanted_rev,
                           *who, lease_ms);
}

static void start_release(struct pg_call *call)
{
    store_connection_release(bench.pool, &call->query, &call->op, account, connection.id, holder);
}

static void start_lost(struct pg_call *call)
{
    struct connection_loss loss = {.account_id = account,
                                   .id = connection.id,
                                   .rev = wanted_rev,
                                   .error = SLICE("the grant is gone"), /* words: ok */
                                   .reason = SLICE("invalid_grant"),
                                   .by.actor = SLICE("system"),
                                   .by.address = SLICE("192.0.2.1"),
                                   .details = SLICE("{\"a\":1}")};
    store_connection_lost(bench.pool, &call->query, &call->op, &loss);
}

static int claim(struct uuid who)
{
    assert_int_equal(pg_call_run(&bench, &calls[0], start_claim, &who), OK);
    int result = store_hit_result(&calls[0].query);
    done();
    return result;
}

static void test_one_holder_at_a_time(void **state)
{
    struct uuid holders[CALLS_MAX];
    size_t winners = 0;
    (void)state;
    make_connection();
    lease_ms = LEASE_MS;
    for (size_t i = 0; i < CALLS_MAX; i++) {
        holders[i] = uuid_v7();
        pg_call_start(&bench, &calls[i], start_claim, &holders[i]);
    }
    pg_calls_wait(&bench, calls, CALLS_MAX);
    for (size_t i = 0; i < CALLS_MAX; i++)
        if (store_hit_result(&calls[i].query) == OK) {
            winners++;
            holder = holders[i];
        }
    pg_calls_end(calls, CALLS_MAX);
    assert_int_equal(winners, 1);
    assert_int_equal(claim(uuid_v7()), ERR_NOTFOUND);
    assert_int_equal(claim(holder), OK); /* the holder may take its own claim again */
    assert_int_equal(run(start_release), OK);
    done();
    assert_int_equal(claim(uuid_v7()), OK);
}

static void test_a_claim_runs_out(void **state)
{
    (void)state;
    make_connection();
    lease_ms = 0;
    assert_int_equal(claim(uuid_v7()), OK);
    assert_int_equal(claim(uuid_v7()), OK); /* immediately, because the lease of the other node
                                             * was over */
    lease_ms = LEASE_MS;
    wanted_rev++;
    assert_int_equal(claim(uuid_v7()), ERR_NOTFOUND); /* the row has another revision */
}

static void test_a_loss_is_reported_once(void **state)
{
    size_t winners = 0;
    int64_t rev, before = wanted_rev;
    char sql[400];
    (void)state;
    make_connection();
    before = wanted_rev;
    for (size_t i = 0; i < CALLS_MAX; i++)
        pg_call_start(&bench, &calls[i], start_lost, NULL);
    pg_calls_wait(&bench, calls, CALLS_MAX);
    for (size_t i = 0; i < CALLS_MAX; i++)
        if (store_rev_result(&calls[i].query, &rev) == OK) {
            winners++;
            assert_int_equal(rev, before + 1);
        }
    pg_calls_end(calls, CALLS_MAX);
    assert_int_equal(winners, 1);
    (void)snprintf(sql, sizeof(sql),
                   "select count(*) from sluice.audit_event where kind = "
                   "'connection.reauth_required' and reason = 'invalid_grant' and actor = 'system' "
                   "and details::text = '{\"a\":1}' and address = '192.0.2.1'");
    assert_int_equal(items_ask(conninfo, sql), 1);
    lease_ms = LEASE_MS;
    wanted_rev = before + 1;
    assert_int_equal(claim(uuid_v7()), ERR_NOTFOUND); /* a connection that is not live is not
                                                       * refreshed */
}

/* ---- changes by a person ---- */

static slice wanted_label;

static struct connection_change change_of(int64_t id)
{
    return (struct connection_change){.account_id = wanted_account,
                                      .id = id,
                                      .by.actor = SLICE("key:1"),
                                      .by.request_id = SLICE("r-1"),
                                      .by.address = SLICE("192.0.2.1")};
}

static void start_default(struct pg_call *call)
{
    int64_t *id = call->arg;
    const struct connection_change change = change_of(id ? *id : connection.id);
    store_connection_default_set(bench.pool, &call->query, &call->op, &change);
}

static void start_label(struct pg_call *call)
{
    const struct connection_change change = change_of(connection.id);
    store_connection_label_set(bench.pool, &call->query, &call->op, &change, wanted_label);
}

static void start_delete(struct pg_call *call)
{
    struct connection_change change = change_of(connection.id);
    change.by.means = SLICE("dashboard");
    store_connection_delete(bench.pool, &call->query, &call->op, &change);
}

static int set_result(void (*start)(struct pg_call *call))
{
    slice app;
    assert_int_equal(run(start), OK);
    int result = store_text_result(&calls[0].query, &app);
    if (result == OK)
        assert_text(app, "gmail");
    done();
    return result;
}

/* The events of one connection, identified by their contents. */
static int64_t events_of(int64_t id, const char *kind, const char *means)
{
    char text[400];
    (void)snprintf(text, sizeof(text),
                   "select count(*) from sluice.audit_event where kind = '%s' and actor = 'key:1' "
                   "and request_id = 'r-1' and address = '192.0.2.1' and reason is null and "
                   "details::text = '{\"connection_id\":\"%lld\",\"integration_id\":\"gmail\"%s}'",
                   kind, (long long)id, means);
    return items_ask(conninfo, text);
}

static int64_t count_of(const char *format_id, int64_t id)
{
    char text[300];
    (void)snprintf(text, sizeof(text), "select count(*) from sluice.connection where id = %lld %s",
                   (long long)id, format_id);
    return items_ask(conninfo, text);
}

static void test_what_a_person_changes(void **state)
{
    int64_t ids[CALLS_MAX];
    (void)state;
    wanted_account = account;
    for (size_t i = 0; i < 5; i++) {
        make_connection();
        ids[i] = connection.id;
    }
    for (size_t i = 0; i < 5; i++) { /* in any order, there is exactly one default */
        pg_call_start(&bench, &calls[i], start_default, &ids[i]);
    }
    pg_calls_wait(&bench, calls, 5);
    size_t winners = 0; /* two at exactly the same moment: the unique index may refuse one */
    for (size_t i = 0; i < 5; i++) {
        winners += calls[i].query.status == OK;
        assert_true(calls[i].query.status == OK || calls[i].query.status == ERR_INVALID);
    }
    pg_calls_end(calls, 5);
    assert_true(winners > 0);
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.connection "
                                         "where is_default and integration_id = 'gmail'"),
                     1);
    assert_int_equal(set_result(start_default), OK);
    assert_int_equal(count_of("and is_default", connection.id), 1);
    assert_int_equal(set_result(start_default), OK); /* again: the same */
    wanted_label = SLICE("mine");
    assert_int_equal(set_result(start_label), OK);
    assert_int_equal(count_of("and label = 'mine' and is_default", connection.id), 1);
    wanted_account = uuid_v7(); /* another account's */
    assert_int_equal(set_result(start_default), ERR_NOTFOUND);
    assert_int_equal(set_result(start_label), ERR_NOTFOUND);
    assert_int_equal(set_result(start_delete), ERR_NOTFOUND);
    assert_int_equal(count_of("and label = 'mine' and is_default", connection.id), 1);
    wanted_account = account;
    assert_int_equal(set_result(start_delete), OK);
    assert_int_equal(count_of("", connection.id), 0);
    /* one event for each change that was made, and no others */
    assert_true(events_of(connection.id, "connection.default_set", "") >= 2);
    assert_int_equal(events_of(connection.id, "connection.renamed", ""), 1);
    assert_int_equal(events_of(connection.id, "connection.removed", ",\"by\":\"dashboard\""), 1);
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.audit_event where kind like "
                                         "'connection.%' and actor = 'key:1'"),
                     (int64_t)winners + 4);
}

/* ---- clients ---- */

static void start_client_get(struct pg_call *call)
{
    store_oauth_client_get(bench.pool, &call->query, &call->op, wanted_account, wanted_integration);
}

static struct oauth_client_change client_change;

static void start_client_set(struct pg_call *call)
{
    store_oauth_client_set(bench.pool, &call->query, &call->op, &client_change);
}

static void start_client_delete(struct pg_call *call)
{
    store_oauth_client_delete(bench.pool, &call->query, &call->op, &client_change);
}

static int delete_client(void)
{
    assert_int_equal(run(start_client_delete), OK);
    int status = store_hit_result(&calls[0].query);
    done();
    return status;
}

static int64_t client_events(const char *kind)
{
    char sql[300];
    (void)snprintf(sql, sizeof(sql),
                   "select count(*) from sluice.audit_event where kind = 'oauth_client.%s' and "
                   "details::text = '{\"integration_id\":\"gmail\"}' and actor = 'key:1'",
                   kind);
    return items_ask(conninfo, sql);
}

static void test_clients(void **state)
{
    struct err err;
    struct arena arena;
    struct oauth_client got, *list, first = {.integration_id = SLICE_NONE};
    struct oauth_client *client = &client_change.client;
    size_t count;
    (void)state;
    client_change.by.actor = SLICE("key:1");
    *client = (struct oauth_client){.account_id = account,
                                    .integration_id = SLICE("gmail"),
                                    .client_id = SLICE("id-1"),
                                    .sealed = slice_of("\x01\x00\xFF", 3),
                                    .key_id = SLICE("key0")};
    wanted_account = account;
    wanted_integration = SLICE("gmail");
    assert_int_equal(run(start_client_get), OK);
    assert_int_equal(store_oauth_client_get_result(&calls[0].query, &got), ERR_NOTFOUND);
    done();
    assert_int_equal(run(start_client_set), OK);
    done();
    client->client_id = SLICE("id-2");
    assert_int_equal(run(start_client_set), OK); /* replaces */
    done();
    assert_int_equal(client_events("set"), 2);
    client->account_id = (struct uuid){{0}};
    client->sealed = SLICE_NONE; /* public */
    assert_int_equal(run(start_client_set), OK);
    done();
    assert_int_equal(client_events("set"), 2); /* no account has an event for this */
    assert_int_equal(run(start_client_get), OK);
    assert_int_equal(store_oauth_client_get_result(&calls[0].query, &got), OK);
    assert_true(slice_eq(got.client_id, SLICE("id-2")) && got.sealed.len == 3);
    done();
    arena_init(&arena, 1024 * 1024);
    list = store_oauth_client_list_sync(sync, &arena, account, &count, &err);
    assert_non_null(list);
    assert_int_equal(count, 1);
    struct oauth_client mine = list[0];
    /* the scan of a key rotation: clients with a secret sealed with another key */
    list = store_oauth_client_stale_sync(sync, &arena, SLICE("key0"), &first, &count, &err);
    assert_non_null(list);
    assert_int_equal(count, 0);
    list = store_oauth_client_stale_sync(sync, &arena, SLICE("key1"), &first, &count, &err);
    assert_non_null(list);
    assert_int_equal(count, 1);
    assert_int_equal(
        store_oauth_client_reseal_sync(sync, &mine, SLICE("anew"), SLICE("key1"), &err), OK);
    assert_int_equal(
        store_oauth_client_reseal_sync(sync, &mine, SLICE("again"), SLICE("key1"), &err),
        ERR_NOTFOUND);
    arena_deinit(&arena);
    client->account_id = account;
    assert_int_equal(delete_client(), OK);
    assert_int_equal(delete_client(), ERR_NOTFOUND);
    assert_int_equal(client_events("removed"), 1);
    client->account_id = (struct uuid){{0}};
    assert_int_equal(delete_client(), OK);
    assert_int_equal(client_events("removed"), 1);
}

/* ---- authorizations under way ---- */

static void start_begun(struct pg_call *call)
{
    store_oauth_begun_insert(bench.pool, &call->query, &call->op, &begun);
}

static void start_take(struct pg_call *call)
{
    static const uint8_t other[OAUTH_HASH_LEN];
    store_oauth_begun_take(bench.pool, &call->query, &call->op, wanted_account, begun.state_hash,
                           call->arg ? other : begun.session_hash);
}

static void start_sweep(struct pg_call *call)
{
    store_oauth_begun_sweep(bench.pool, &call->query, &call->op);
}

static void make_begun(int64_t expires_at)
{
    begun = (struct oauth_begun){.account_id = account,
                                 .integration_id = SLICE("gmail"),
                                 .sealed = SLICE("verifier"),
                                 .key_id = SLICE("k"),
                                 .created_at = clock_wall_us(),
                                 .expires_at = expires_at};
    random_bytes(begun.state_hash, OAUTH_HASH_LEN);
    random_bytes(begun.session_hash, OAUTH_HASH_LEN);
    assert_int_equal(run(start_begun), OK);
    done();
}

static void test_an_authorization_is_taken_once(void **state)
{
    struct oauth_begun got;
    size_t winners = 0;
    (void)state;
    make_begun(clock_wall_us() + 60 * 1000000);
    wanted_account = uuid_v7();
    assert_int_equal(run(start_take), OK); /* the other account takes nothing */
    assert_int_equal(store_oauth_begun_take_result(&calls[0].query, &got), ERR_NOTFOUND);
    done();
    wanted_account = account;
    assert_int_equal(pg_call_run(&bench, &calls[0], start_take, &got), OK); /* another session */
    assert_int_equal(store_oauth_begun_take_result(&calls[0].query, &got), ERR_NOTFOUND);
    done();
    for (size_t i = 0; i < CALLS_MAX; i++)
        pg_call_start(&bench, &calls[i], start_take, NULL);
    pg_calls_wait(&bench, calls, CALLS_MAX);
    for (size_t i = 0; i < CALLS_MAX; i++)
        if (store_oauth_begun_take_result(&calls[i].query, &got) == OK) {
            winners++;
            assert_true(slice_eq(got.sealed, SLICE("verifier")));
            assert_true(slice_eq(got.integration_id, SLICE("gmail")));
            assert_int_equal(got.expires_at, begun.expires_at);
        }
    pg_calls_end(calls, CALLS_MAX);
    assert_int_equal(winners, 1);
}

static void test_abandoned_authorizations_are_removed(void **state)
{
    const char *count = "select count(*) from sluice.oauth_begun";
    (void)state;
    make_begun(clock_wall_us() - 1000000);
    make_begun(clock_wall_us() + 3600LL * 1000000);
    assert_int_equal(items_ask(conninfo, count), 2);
    assert_int_equal(run(start_sweep), OK);
    done();
    assert_int_equal(items_ask(conninfo, count), 1);
}

static int set_up(void **state)
{
    struct err err;
    struct pg_pool_config config = {.queue_timeout_ms = 30000, .lock_timeout_ms = 30000};
    (void)state;
    calls = mem_calloc(CALLS_MAX, sizeof(*calls));
    conninfo = config.conninfo = pg_cluster_database(true);
    sync = pg_sync_open(conninfo, &err);
    account = uuid_v7();
    struct account row = {.account_id = account, .name = SLICE("test")};
    pg_bench_open(&bench, &config, true);
    return sync ? rows_account(sync, &row) : ERR_IO;
}

static int tear_down(void **state)
{
    (void)state;
    pg_sync_close(sync);
    pg_bench_close(&bench);
    mem_free(calls);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_holder_at_a_time),
        cmocka_unit_test(test_a_claim_runs_out),
        cmocka_unit_test(test_a_loss_is_reported_once),
        cmocka_unit_test(test_what_a_person_changes),
        cmocka_unit_test(test_clients),
        cmocka_unit_test(test_an_authorization_is_taken_once),
        cmocka_unit_test(test_abandoned_authorizations_are_removed),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, tear_down));
}
