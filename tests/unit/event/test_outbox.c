/* What is sent when: the limits of an endpoint, an account and the process, what waits and what is
 * put off, timers, and a shutdown. The service, with a database and a scripted endpoint. */
#include "base/encode.h"
#include "event/internal.h"
#include "event/outbox.h"
#include "event/sign.h"
#include "support/http_peer.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "tls/tls.h"
#include "unit.h"
#include "vault/key.h"

enum { ENDPOINTS = 5, SENDING_OF_ENDPOINT = 8, SENDING_OF_ACCOUNT = 16, WAITING_OF_ENDPOINT = 100 };

static const struct peer_script hangs[] = {{.reply = NULL}};
static const struct peer_script answers[] = {{.reply = "HTTP/1.1 204 No Content\r\n\r\n"}};

static const char *conninfo;
static struct pg_bench db;
static struct vault_ring *ring;
static struct http_peer peer;
static struct due_timers *due;
static struct event_service *service;
static bool may_scan;
static struct uuid accounts[2], endpoints[ENDPOINTS]; /* the last one is the second account's */

static int64_t count(const char *where)
{
    char sql[500];
    (void)snprintf(sql, sizeof(sql), "select count(*) from sluice.delivery where %s", where);
    return items_ask(conninfo, sql);
}

static struct uuid account_of(size_t endpoint)
{
    return accounts[endpoint == ENDPOINTS - 1];
}

static struct uuid event_of(size_t endpoint, size_t n)
{
    return (struct uuid){{[0] = (uint8_t)(endpoint + 1),
                          [6] = 0x70,
                          [8] = 0x80,
                          [14] = (uint8_t)(n >> 8),
                          [15] = (uint8_t)n}};
}

/* Inserts `rows` events for the endpoint, of this state and due time. */
static void add(size_t endpoint, size_t rows, const char *due_at)
{
    char account[UUID_TEXT_LEN + 1], id[UUID_TEXT_LEN + 1];
    uuid_format(account_of(endpoint), account);
    uuid_format(endpoints[endpoint], id);
    items_tellf(
        conninfo,
        "insert into sluice.delivery (account_id, event_id, webhook_id, kind, object, rev, at, "
        "data, status, attempt, due_at) select '%s', ('%02x000000-0000-7000-8000-' || "
        "lpad(to_hex(n), 12, '0'))::uuid, '%s', 'flow.failed', gen_random_uuid(), 1, now(), "
        "'{\"flow_id\":1}', 'pending', 0, %s from generate_series(1, %zu) n",
        account, (unsigned)endpoint + 1, id, due_at, rows);
}

/* Gives these events to the service, as a timer does. */
static void take(size_t endpoint, size_t rows)
{
    for (size_t n = 1; n <= rows; n++) {
        const struct due_ref ref = {.kind = DUE_DELIVERY,
                                    .account_id = account_of(endpoint),
                                    .id = event_of(endpoint, n),
                                    .webhook_id = endpoints[endpoint]};
        event_outbox_take(service, &ref, false);
    }
}

static bool is_settled(void *arg)
{
    const struct event_outbox *outbox = &service->outbox;
    (void)arg;
    return outbox->sending_count == 0 && outbox->putting_off_count == 0 && outbox->late_count == 0;
}

static bool are_asked(void *arg)
{
    return peer.requests == *(unsigned *)arg;
}

static void until_asked(unsigned requests)
{
    pg_bench_until_true(&db, are_asked, &requests);
}

/* An endpoint has 8 messages at a time, an account 16, and another account its own. */
static void test_limits(void **state)
{
    const struct event_outbox *outbox = &service->outbox;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        add(i, 20, "now()");
        take(i, 20);
        assert_int_equal(outbox->sending_count, i == 0 ? SENDING_OF_ENDPOINT : SENDING_OF_ACCOUNT);
    }
    take(0, 20); /* they are known */
    assert_int_equal(outbox->waiting_count, 60 - SENDING_OF_ACCOUNT);
    add(ENDPOINTS - 1, 1, "now()");
    take(ENDPOINTS - 1, 1);
    assert_int_equal(outbox->sending_count, SENDING_OF_ACCOUNT + 1);
    until_asked(SENDING_OF_ACCOUNT + 1);
    assert_int_equal(count("attempt = 1"), SENDING_OF_ACCOUNT + 1);
    http_peer_scripts(&peer, answers, 1); /* the others follow as places become free */
    http_peer_close_all(&peer, true);
    pg_bench_until_true(&db, is_settled, NULL);
    assert_int_equal(outbox->waiting_count, 0);
    /* the first two endpoints have failed eight times each, so their others are put off */
    assert_int_equal(count("status = 'delivered' and attempt = 1 and code = 204 and event_id >= "
                           "'03000000-0000-7000-8000-000000000000'"),
                     20);
    assert_int_equal(count("status = 'delivered' or due_at > now() + interval '1 second'"), 61);
    assert_int_equal(count("status = 'pending' and attempt = 1 and problem is not null and due_at "
                           "between now() + interval '3 seconds' and now() + interval '6 seconds'"),
                     SENDING_OF_ACCOUNT + 1);
    assert_int_equal(outbox->known.count, 0);
}

/* What can neither be sent nor wait is put off. The event of another account is sent meanwhile. */
static void test_what_has_no_room(void **state)
{
    enum { ROWS = 1500, KEPT = SENDING_OF_ENDPOINT + WAITING_OF_ENDPOINT };
    struct event_outbox *outbox = &service->outbox;
    (void)state;
    add(0, ROWS, "now()");
    add(ENDPOINTS - 1, 1, "now()");
    take(0, ROWS);
    assert_int_equal(outbox->waiting_count, WAITING_OF_ENDPOINT);
    assert_int_equal(outbox->putting_off_count + outbox->late_count, ROWS - KEPT);
    assert_true(outbox->late_count > 0);
    take(ENDPOINTS - 1, 1);
    assert_int_equal(outbox->sending_count, SENDING_OF_ENDPOINT + 1);
    until_asked(SENDING_OF_ENDPOINT + 1);
    WAIT_UNTIL(db.loop, outbox->putting_off_count + outbox->late_count == 0);
    assert_int_equal(count("attempt = 0 and due_at > at"), ROWS - KEPT);
    assert_int_equal(count("attempt = 0 and due_at = at"), WAITING_OF_ENDPOINT);
}

/* What waits, or is to be put off, is dropped at once: other processes find it. */
static void test_a_shutdown(void **state)
{
    struct event_outbox *outbox = &service->outbox;
    (void)state;
    add(0, 1500, "now()");
    take(0, 1500);
    event_service_drain(service);
    assert_int_equal(outbox->late_count + outbox->waiting_count, 0);
    assert_int_equal(event_service_active(service), SENDING_OF_ENDPOINT);
    take(ENDPOINTS - 1, 1);
    assert_int_equal(outbox->sending_count, SENDING_OF_ENDPOINT);
    until_asked(SENDING_OF_ENDPOINT);
    event_service_cancel_all(service);
    pg_bench_until_true(&db, is_settled, NULL);
    assert_int_equal(count("attempt = 1 and status = 'pending'"), SENDING_OF_ENDPOINT);
}

/* Events that are due, and become due, are found and sent; one that is later is not. */
static void test_timers(void **state)
{
    (void)state;
    add(0, 3, "now() - interval '1 hour'");
    add(1, 2, "now() + interval '300 milliseconds'");
    add(2, 1, "now() + interval '10 minutes'");
    http_peer_scripts(&peer, answers, 1);
    may_scan = true;
    until_asked(5);
    pg_bench_until_true(&db, is_settled, NULL);
    assert_int_equal(count("status = 'delivered' and attempt = 1"), 5);
    assert_int_equal(count("status = 'pending' and attempt = 0"), 1);
}

/* The events that the statement of a change wrote are sent at once. */
static void test_what_was_just_written(void **state)
{
    (void)state;
    add(0, 2, "now()");
    http_peer_scripts(&peer, answers, 1);
    event_written(service, accounts[0], (struct uuid){{0}});
    assert_int_equal(service->outbox.news.count, 0);
    event_written(service, accounts[0], event_of(0, 2));
    until_asked(1);
    pg_bench_until_true(&db, is_settled, NULL);
    assert_int_equal(count("status = 'delivered'"), 1);
}

static void take_of_user(void)
{
    struct due_ref ref = {.kind = DUE_DELIVERY,
                          .parent_id = accounts[0],
                          .id = event_of(0, 1),
                          .webhook_id = endpoints[0]};
    assert_true(uuid_parse(SLICE("00000000-0000-4000-8000-00000000abcd"), &ref.account_id));
    event_outbox_take(service, &ref, false);
    pg_bench_until_true(&db, is_settled, NULL);
    assert_int_equal(peer.requests, 0);
}

/* Nothing is sent for a user that cannot be read, so the claim does not count. The event of one
 * that was erased ends. */
static void test_a_user_without_a_name(void **state)
{
    char parent[UUID_TEXT_LEN + 1];
    (void)state;
    add(0, 1, "now()");
    uuid_format(accounts[0], parent);
    items_tellf(conninfo,
                "update sluice.delivery set parent_id = '%s', account_id = "
                "'00000000-0000-4000-8000-00000000abcd'",
                parent);
    items_tellf(conninfo, "alter table sluice.account_user rename to unreadable");
    take_of_user();
    assert_int_equal(count("attempt = 0 and status = 'pending' and due_at between now() + interval "
                           "'20 seconds' and now() + interval '30 seconds' and problem = 'the user "
                           "of the event could not be read'"),
                     1);
    items_tellf(conninfo, "alter table sluice.unreadable rename to account_user");
    items_tellf(conninfo, "update sluice.delivery set due_at = now()");
    take_of_user();
    assert_int_equal(count("status = 'failed' and problem = 'the user of the event was erased'"),
                     1);
}

/* ---- the bench ---- */

static void add_endpoint(size_t i)
{
    struct webhook webhook = {.account_id = account_of(i), .id = uuid_v7()};
    struct vault_binding binding = event_secret_binding(&webhook);
    char account[UUID_TEXT_LEN + 1], id[UUID_TEXT_LEN + 1], hex[300];
    struct buf sealed;
    buf_init(&sealed, 1024);
    assert_int_equal(vault_seal(ring, &binding, SLICE("0123456789abcdef0123456789abcdef"), &sealed),
                     OK);
    encode_hex_in(hex, sizeof(hex), buf_slice(&sealed));
    uuid_format(webhook.account_id, account);
    uuid_format(webhook.id, id);
    items_tellf(
        conninfo,
        "insert into sluice.webhook (account_id, id, url, description, sealed, key_id, failures, "
        "rev, created_at) values ('%s', '%s', 'http://127.0.0.1:%u/%zu', '', '\\x%s', '%.*s', 0, "
        "1, now())",
        account, id, http_peer_port(&peer), i, hex, SLICE_ARG(vault_ring_key_id(ring)));
    endpoints[i] = webhook.id;
    buf_deinit(&sealed);
}

static bool may_take(void *owner)
{
    (void)owner;
    return may_scan;
}

static int set_up(void **state)
{
    struct err err;
    static const slice hosts[] = {SLICE_INIT("127.0.0.1")};
    struct pg_pool_config pool = {.queue_timeout_ms = 30000, .lock_timeout_ms = 30000};
    (void)state;
    may_scan = false;
    conninfo = pool.conninfo = pg_cluster_database(true);
    assert_int_equal(tls_library_init(&err), OK);
    ring = vault_ring_new(SLICE("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="), &err);
    pg_bench_open(&db, &pool, true);
    http_peer_init(&peer, db.loop, hangs, 1);
    for (size_t i = 0; i < ARRAY_LEN(accounts); i++)
        accounts[i] = uuid_v7();
    for (size_t i = 0; i < ENDPOINTS; i++)
        add_endpoint(i);
    const struct due_config timers = {.loop = db.loop, .pool = db.pool, .may_take = may_take};
    due = due_new(&timers);
    const struct event_config config = {.loop = db.loop,
                                        .pool = db.pool,
                                        .ring = ring,
                                        .dns = db.dns,
                                        .hosts = hosts,
                                        .host_count = 1,
                                        .due = due,
                                        .timeout_ms = 60000};
    service = event_service_new(&config, &err);
    return service ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    event_service_cancel_all(service);
    due_stop(due);
    pg_bench_until_true(&db, is_settled, NULL);
    event_service_close(service);
    http_peer_deinit(&peer);
    pg_pool_free(db.pool);
    db.pool = NULL;
    WAIT_UNTIL(db.loop, op_count(db.loop) == 0);
    due_free(due);
    event_service_free(service);
    pg_bench_close(&db);
    vault_ring_free(ring);
    tls_library_deinit();
    return unit_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_limits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_has_no_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_shutdown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_timers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_just_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_user_without_a_name, set_up, tear_down),
    };
    return unit_result(cmocka_run_group_tests(tests, NULL, NULL));
}
