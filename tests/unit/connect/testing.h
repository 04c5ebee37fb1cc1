/*
 * Shared by the tests of OAuth: a database, a scripted token endpoint on the same loop, the client
 * that calls it, a catalog with one app, and an account.
 */
#ifndef TESTS_UNIT_CONNECT_TESTING_H
#define TESTS_UNIT_CONNECT_TESTING_H

#include "base/clock.h"
#include "connect/oauth.h"
#include "http/address.h"
#include "support/http_peer.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "support/rows.h"
#include "tls/tls.h"
#include "unit.h"

#define REPLY_200(body) \
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" body
#define REPLY_400(body) \
    "HTTP/1.1 400 Bad\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" body

enum { TOKEN_TIMEOUT_MS = 20000, QUEUE_TIMEOUT_MS = 4000 };

struct bench {
    const char *conninfo;
    struct pg_bench db;
    struct pg_sync *sync;
    struct vault_ring *ring;
    struct address_policy *policy;
    struct http_client *http;
    struct http_peer peer;
    struct catalog *catalog;
    struct connect_service *service;
    struct uuid account;
};

static struct bench bench;

/* place: the prefix of the authorization server's paths. */
static inline struct catalog *bench_catalog_at(uint16_t port, const char *place)
{
    char text[2000];
    struct catalog_report *report = mem_alloc(sizeof(*report));
    (void)snprintf(
        text, sizeof(text),
        "{\"integration_id\":\"demo\",\"name\":\"Demo\",\"description\":\"d\",\"category\":\"c\","
        "\"base_url\":\"http://127.0.0.1:%u\",\"auth\":{\"type\":\"oauth2\","
        "\"authorize_url\":\"https://login.example%s/authorize?tenant=1\","
        "\"token_url\":\"http://127.0.0.1:%u%s/token\",\"scopes\":[\"a\",\"b\"],"
        "\"scope_separator\":\",\",\"authorize_params\":{\"prompt\":\"consent\"}},"
        "\"actions\":[{\"action_id\":\"x\",\"title\":\"X\",\"description\":\"d\","
        "\"side_effect_level\":\"read\",\"input_schema\":{\"type\":\"object\","
        "\"additionalProperties\":false,\"properties\":{}},"
        "\"request\":{\"method\":\"GET\",\"path\":\"/x\"},"
        "\"display\":{\"title\":\"t\",\"summary\":\"s\"}}]}",
        port, place, port, place);
    struct catalog_source source = {SLICE("demo.json"), slice_cstr(text)};
    catalog_report_init(report);
    struct catalog *catalog = catalog_load(&source, 1, report);
    if (!catalog)
        fail_msg("%.*s %.*s", SLICE_ARG(report->problems[0].pointer),
                 SLICE_ARG(report->problems[0].text));
    catalog_report_deinit(report);
    mem_free(report);
    return catalog;
}

static inline struct catalog *bench_catalog(uint16_t port)
{
    return bench_catalog_at(port, "");
}

static inline void bench_client(const char *client_id, const char *secret)
{
    struct buf sealed;
    struct vault_binding binding = oauth_client_binding((struct uuid){{0}}, SLICE("demo"));
    buf_init(&sealed, 4096);
    assert_int_equal(vault_seal(bench.ring, &binding, slice_cstr(secret), &sealed), OK);
    struct oauth_client client = {.integration_id = SLICE("demo"),
                                  .client_id = slice_cstr(client_id),
                                  .sealed = buf_slice(&sealed),
                                  .key_id = vault_ring_key_id(bench.ring)};
    assert_int_equal(rows_client(bench.sync, &client), OK);
    buf_deinit(&sealed);
}

static inline struct connect_service *bench_service(unsigned token_timeout_ms)
{
    struct connect_config config = {.pool = bench.db.pool,
                                    .ring = bench.ring,
                                    .http = bench.http,
                                    .catalog = &bench.catalog,
                                    .token_timeout_ms = token_timeout_ms};
    return connect_new(bench.db.loop, &config);
}

static inline int bench_set_up(void **state)
{
    struct err err;
    struct buf key;
    struct pg_pool_config pool = {.queue_timeout_ms = QUEUE_TIMEOUT_MS};
    (void)state;
    bench.conninfo = pool.conninfo = pg_cluster_database(true);
    if (tls_library_init(&err) != OK)
        return -1;
    buf_init(&key, 128);
    vault_master_key_new(&key);
    bench.ring = vault_ring_new(buf_slice(&key), &err);
    buf_deinit(&key);
    pg_bench_open(&bench.db, &pool, true);
    bench.sync = pg_sync_open(bench.conninfo, &err);
    bench.policy = address_policy_new();
    assert_int_equal(address_policy_allow(bench.policy, SLICE("127.0.0.1"), &err), OK);
    struct http_client_config http = {.resolver = bench.db.dns, .policy = bench.policy};
    bench.http = http_client_new(bench.db.loop, &http, &err);
    static const struct peer_script none = {.reply = NULL};
    http_peer_init(&bench.peer, bench.db.loop, &none, 1);
    bench.catalog = bench_catalog(http_peer_port(&bench.peer));
    bench.service = bench_service(TOKEN_TIMEOUT_MS);
    bench.account = uuid_v7();
    struct account row = {.account_id = bench.account, .name = SLICE("test")};
    assert_int_equal(rows_account(bench.sync, &row), OK);
    bench_client("client", "client-secret");
    return bench.service ? 0 : -1;
}

static inline bool bench_is_quiet(void *arg)
{
    (void)arg;
    return connect_renewals_active(bench.service) == 0;
}

static inline int bench_tear_down(void **state)
{
    (void)state;
    pg_bench_until_true(&bench.db, bench_is_quiet, NULL);
    http_client_free(bench.http);
    http_peer_deinit(&bench.peer);
    pg_sync_close(bench.sync);
    connect_free(bench.service);
    catalog_unref(bench.catalog);
    vault_ring_free(bench.ring);
    (void)loop_turn(bench.db.loop, false);
    pg_bench_close(&bench.db);
    address_policy_free(bench.policy);
    tls_library_deinit();
    return unit_end();
}

/* Replaces the service by one that considers a token endpoint dead after that time. Returns the
 * previous service. */
static inline struct connect_service *bench_impatient(unsigned token_timeout_ms)
{
    struct connect_service *patient = bench.service;
    bench.service = bench_service(token_timeout_ms);
    assert_non_null(bench.service);
    return patient;
}

static inline void bench_patient_again(struct connect_service *patient)
{
    pg_bench_until_true(&bench.db, bench_is_quiet, NULL);
    connect_free(bench.service);
    bench.service = patient;
}

/* Sets the endpoint's answers. Its count of requests starts at zero. */
static inline void bench_answers(const struct peer_script *scripts, size_t count)
{
    http_peer_scripts(&bench.peer, scripts, count);
    bench.peer.requests = 0;
}

/* Inserts a live connection with a credential that has expired. */
static inline int64_t bench_connection(const char *credential)
{
    struct buf sealed;
    int64_t id = short_id_new();
    struct vault_binding binding = {bench.account, id};
    buf_init(&sealed, 4096);
    assert_int_equal(vault_seal(bench.ring, &binding, slice_cstr(credential), &sealed), OK);
    struct connection row = {.account_id = bench.account,
                             .id = id,
                             .integration_id = SLICE("demo"),
                             .label = SLICE("l"),
                             .auth_kind = SLICE("oauth2"),
                             .sealed = buf_slice(&sealed),
                             .key_id = vault_ring_key_id(bench.ring),
                             .scopes = SLICE("a b"),
                             .expires_at = 1000000};
    assert_int_equal(rows_connection(bench.sync, &row), OK);
    buf_deinit(&sealed);
    return id;
}

/* The current row. Its credential is opened into *credential (the caller gets the reference). */
static inline struct connection bench_row(int64_t id, struct secret **credential)
{
    static struct arena arena;
    struct connection *list;
    size_t count;
    struct err err;
    arena_deinit(&arena);
    arena_init(&arena, 4 * 1024 * 1024);
    list = store_connection_list_sync(bench.sync, &arena, bench.account, &count, &err);
    assert_non_null(list);
    for (size_t i = 0; i < count; i++) {
        if (list[i].id != id)
            continue;
        struct vault_binding binding = {bench.account, id};
        struct connection row = list[i];
        assert_int_equal(vault_open(bench.ring, &binding, row.key_id, row.sealed, credential, &err),
                         OK);
        row.label = row.integration_id = row.auth_kind = SLICE(""); /* not checked */
        row.scopes = row.scopes.len == 3 ? SLICE("a b") : SLICE("other");
        row.error = row.error.ptr ? SLICE("error") : SLICE_NONE;
        row.sealed = row.key_id = row.params = SLICE("");
        arena_deinit(&arena);
        return row;
    }
    fail_msg("the connection does not exist");
    return (struct connection){.id = 0};
}

static inline void bench_expect_credential(int64_t id, const char *want)
{
    struct secret *credential;
    (void)bench_row(id, &credential);
    if (!slice_eq_cstr(secret_reveal(credential), want))
        fail_msg("%.*s instead of %s", SLICE_ARG(secret_reveal(credential)), want);
    secret_unref(credential);
}

#endif
