/*
 * Renewal with a real database and a scripted token endpoint: however many callers wait, one
 * request is sent. A new token is stored whatever happens during the request, and a connection ends
 * only if its grant ends.
 */
#include "unit/connect/testing.h"

enum { ASKERS = 50 };

#define OLD   "{\"access_token\":\"a1\",\"refresh_token\":\"r1\"}"
#define NEW   "{\"access_token\":\"a2\",\"refresh_token\":\"r2\"}"
#define GRANT REPLY_200("{\"access_token\":\"a2\",\"refresh_token\":\"r2\",\"expires_in\":60}")

/* A caller that needs a token. */
struct asker {
    struct op op;
    struct connect_renewal renewal;
    struct connect_item item;
    uint64_t deadline_ns;
    bool is_done, is_freed;
};

static enum op_result step_renew(struct op *op)
{
    struct asker *asker = CONTAINER_OF(op, struct asker, op);
    return connect_renew(bench.service, &asker->renewal, bench.account, SLICE("demo"), &asker->item,
                         asker->deadline_ns, op)
               ? OP_NEXT
               : OP_WAIT;
}

static enum op_result step_done(struct op *op)
{
    CONTAINER_OF(op, struct asker, op)->is_done = true;
    return OP_DONE;
}

static void on_cancel(struct op *op)
{
    connect_renew_cancel(&CONTAINER_OF(op, struct asker, op)->renewal);
}

static void on_free(struct op *op)
{
    CONTAINER_OF(op, struct asker, op)->is_freed = true;
}

static const struct op_step steps[] = {{"renew", step_renew, 0}, {"done", step_done, 0}};
static const struct op_class asker_class = {.name = "asker",
                                            .steps = steps,
                                            .step_count = ARRAY_LEN(steps),
                                            .on_cancel = on_cancel,
                                            .free = on_free};

static void start(struct asker *asker, int64_t id, struct secret *credential, uint64_t within_ms)
{
    *asker = (struct asker){.item = {.id = id, .credential = credential}};
    asker->deadline_ns = loop_now_ns(bench.db.loop) + within_ms * 1000000;
    op_start(&asker->op, &asker_class, bench.db.loop, NULL, 65536);
}

/* Starts a renewal and waits for it. */
static enum connect_renewed renew(int64_t id, const char *credential)
{
    struct asker asker;
    struct secret *secret = secret_new(slice_cstr(credential));
    start(&asker, id, secret, 30000);
    pg_bench_until(&bench.db, &asker.is_freed);
    secret_unref(secret);
    return asker.renewal.result;
}

static bool has_request(void *arg)
{
    return bench.peer.requests >= *(const unsigned *)arg;
}

static void wait_for_request(unsigned number)
{
    pg_bench_until_true(&bench.db, has_request, &number);
}

/* Acts as another writer that changes the row. */
static void change(int64_t id, const char *what)
{
    char text[400];
    (void)snprintf(text, sizeof(text), "update sluice.connection set %s where id = %lld", what,
                   (long long)id);
    items_tell(bench.conninfo, text);
}

/* ---- tests ---- */

static void many_ask_and_one_request_goes_out(void **state)
{
    static const struct peer_script grant = {.reply = GRANT, .then = PEER_FIN};
    static struct asker askers[ASKERS];
    struct secret *old = secret_new(SLICE(OLD)), *now;
    int64_t id = bench_connection(OLD);
    (void)state;
    bench_answers(&grant, 1);
    for (size_t i = 0; i < ASKERS; i++)
        start(&askers[i], id, old, 30000);
    for (size_t i = 0; i < ASKERS; i++) {
        pg_bench_until(&bench.db, &askers[i].is_freed);
        assert_int_equal(askers[i].renewal.result, CONNECT_RENEWED);
    }
    assert_int_equal(bench.peer.requests, 1);
    slice asked = buf_slice(&bench.peer.request);
    assert_true(slice_find(asked, SLICE("grant_type=refresh_token&refresh_token=r1&client_id="
                                        "client&client_secret=client-secret")) > 0);
    bench_expect_credential(id, NEW);
    struct connection row = bench_row(id, &now);
    secret_unref(now);
    assert_true(row.status == CONNECTION_LIVE && slice_eq(row.scopes, SLICE("a b")));
    assert_true(row.expires_at > clock_wall_us() && row.expires_at < clock_wall_us() + 61000000);
    /* A caller with the old token gets the new token, without a request. */
    assert_int_equal(renew(id, OLD), CONNECT_RENEWED);
    assert_int_equal(bench.peer.requests, 1);
    secret_unref(old);
}

static void one_that_leaves_does_not_end_it(void **state)
{
    static const struct peer_script slow = {.reply = GRANT, .then = PEER_FIN, .is_trickled = true};
    struct asker impatient, gone;
    struct secret *old = secret_new(SLICE(OLD));
    int64_t id = bench_connection(OLD);
    (void)state;
    bench_answers(&slow, 1);
    start(&impatient, id, old, 0);
    start(&gone, id, old, 30000);
    wait_for_request(1);
    op_cancel(&gone.op);
    pg_bench_until(&bench.db, &impatient.is_freed);
    pg_bench_until(&bench.db, &gone.is_freed);
    assert_int_equal(impatient.renewal.result, CONNECT_RENEWAL_TIMEOUT);
    pg_bench_until_true(&bench.db, bench_is_quiet, NULL);
    bench_expect_credential(id, NEW);
    secret_unref(old);
}

static void other_changes_of_the_row_lose_no_token(void **state)
{
    static const struct peer_script slow = {.reply = GRANT, .then = PEER_FIN, .is_trickled = true};
    struct asker asker;
    struct secret *old = secret_new(SLICE(OLD));
    int64_t id = bench_connection(OLD);
    (void)state;
    bench_answers(&slow, 1);
    start(&asker, id, old, 30000);
    wait_for_request(1);
    change(id, "label = 'renamed', rev = rev + 1");
    pg_bench_until(&bench.db, &asker.is_freed);
    assert_int_equal(asker.renewal.result, CONNECT_RENEWED);
    bench_expect_credential(id, NEW);
    secret_unref(old);
}

static void a_new_grant_wins_over_a_renewal(void **state)
{
    static const struct peer_script slow = {.reply = GRANT, .then = PEER_FIN, .is_trickled = true};
    struct asker asker;
    struct secret *old = secret_new(SLICE(OLD));
    int64_t id = bench_connection(OLD), other = bench_connection("{\"access_token\":\"own\"}");
    struct vault_binding place = {bench.account, id};
    struct buf sealed, text;
    (void)state;
    (void)other;
    bench_answers(&slow, 1);
    start(&asker, id, old, 30000);
    wait_for_request(1);
    buf_init(&sealed, 4096);
    buf_init(&text, 4096);
    assert_int_equal(vault_seal(bench.ring, &place, SLICE("{\"access_token\":\"mine\"}"), &sealed),
                     OK);
    buf_append_cstr(&text, "update sluice.connection set rev = rev + 1, sealed = '\\x");
    for (size_t i = 0; i < sealed.len; i++)
        buf_printf(&text, "%02x", (unsigned char)sealed.ptr[i]);
    buf_printf(&text, "' where id = %lld", (long long)id);
    buf_append_char(&text, '\0');
    items_tell(bench.conninfo, text.ptr);
    pg_bench_until(&bench.db, &asker.is_freed);
    assert_int_equal(asker.renewal.result, CONNECT_RENEWED);
    bench_expect_credential(id, "{\"access_token\":\"mine\"}");
    buf_deinit(&sealed);
    buf_deinit(&text);
    secret_unref(old);
}

static void another_process_is_waited_for(void **state)
{
    static const struct peer_script grant = {.reply = GRANT, .then = PEER_FIN};
    struct asker asker;
    struct secret *old = secret_new(SLICE(OLD));
    int64_t id = bench_connection(OLD);
    (void)state;
    bench_answers(&grant, 1);
    change(id, "refreshing_by = gen_random_uuid(), refreshing_until = now() + interval '1 hour'");
    start(&asker, id, old, 30000);
    for (int turns = 0; turns < 20; turns++)
        (void)loop_turn(bench.db.loop, true);
    assert_false(asker.is_done);
    assert_int_equal(bench.peer.requests, 0);
    /* the process of the refresh dies, so its lease expires */
    change(id, "refreshing_until = now() - interval '1 second'");
    pg_bench_until(&bench.db, &asker.is_freed);
    assert_int_equal(asker.renewal.result, CONNECT_RENEWED);
    assert_int_equal(bench.peer.requests, 1);
    bench_expect_credential(id, NEW);
    secret_unref(old);
}

static void a_database_that_is_away_loses_no_token(void **state)
{
    static const struct peer_script slow = {.reply = GRANT, .then = PEER_FIN, .is_trickled = true};
    struct asker asker;
    struct secret *old = secret_new(SLICE(OLD));
    int64_t id = bench_connection(OLD);
    struct err err;
    (void)state;
    if (!pg_cluster_is_private())
        skip();
    bench_answers(&slow, 1);
    start(&asker, id, old, 60000);
    wait_for_request(1);
    pg_cluster_stop(PG_CLUSTER_IMMEDIATE);
    uint64_t until = clock_mono_ns() +
                     (QUEUE_TIMEOUT_MS + 500) *
                         1000000ULL; /* long enough for an attempt to store the token to time out */
    struct timer tick;               /* so that the loop turns */
    timer_init(&tick, bench.db.loop, timer_stop);
    while (clock_mono_ns() < until) {
        timer_start_in_ms(&tick, 20);
        (void)loop_turn(bench.db.loop, true);
    }
    timer_stop(&tick);
    assert_false(asker.is_done);
    pg_cluster_restart();
    pg_bench_until(&bench.db, &asker.is_freed);
    assert_int_equal(asker.renewal.result, CONNECT_RENEWED);
    assert_int_equal(bench.peer.requests, 1);
    pg_sync_close(bench.sync);
    bench.sync = pg_sync_open(bench.conninfo, &err);
    bench_expect_credential(id, NEW);
    secret_unref(old);
}

struct failing_row {
    struct peer_script script;
    enum connect_renewed result;
};

/* Returns false if the machine was paused, so the pause after a failure was over at the second
 * request. */
static bool fails_as_expected(const struct failing_row *row)
{
    enum { QUIET_MS = 500 }; /* see connect/renew.c */
    struct secret *credential;
    int64_t id = bench_connection(OLD);
    uint64_t began_ns = clock_mono_ns();
    bench_answers(&row->script, 1);
    assert_int_equal(renew(id, OLD), row->result);
    bool is_gone = row->result == CONNECT_RENEWAL_GONE;
    struct connection now = bench_row(id, &credential);
    secret_unref(credential);
    assert_int_equal(now.status, is_gone ? CONNECTION_REAUTH_REQUIRED : CONNECTION_LIVE);
    bench_expect_credential(id, OLD);
    /* the next caller sends nothing to the endpoint; a dead connection never causes a request */
    assert_int_equal(renew(id, OLD), is_gone ? CONNECT_RENEWED : row->result);
    if (bench.peer.requests > 1 && clock_mono_ns() - began_ns >= QUIET_MS * 1000000ull)
        return false;
    assert_int_equal(bench.peer.requests, 1);
    return true;
}

static void only_the_end_of_a_grant_ends_a_connection(void **state)
{
    static const struct failing_row table[] = {
        {{.reply = REPLY_400("{\"error\":\"invalid_client\"}"), .then = PEER_FIN},
         CONNECT_RENEWAL_REFUSED},
        {{.reply = REPLY_400("<html>"), .then = PEER_FIN}, CONNECT_RENEWAL_OUTAGE},
        {{.reply =
              "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
          .then = PEER_FIN},
         CONNECT_RENEWAL_OUTAGE},
        {{.then = PEER_RESET}, CONNECT_RENEWAL_OUTAGE},
        {{.reply = REPLY_400("{\"error\":\"invalid_grant\"}"), .then = PEER_FIN},
         CONNECT_RENEWAL_GONE},
    };
    static const struct failing_row deaf = {{.then = PEER_DEAF}, CONNECT_RENEWAL_TIMEOUT};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        while (!fails_as_expected(&table[i]))
            continue;
    struct connect_service *patient = bench_impatient(200);
    while (!fails_as_expected(&deaf))
        continue;
    bench_patient_again(patient);
}

static void what_cannot_be_renewed_is_not_asked_about(void **state)
{
    static const struct peer_script grant = {.reply = GRANT, .then = PEER_FIN};
    const char *bare = "{\"access_token\":\"a1\"}";
    int64_t id = bench_connection(bare);
    struct connect_item item = {.id = id, .status = CONNECTION_LIVE, .has_token = true};
    (void)state;
    bench_answers(&grant, 1);
    assert_int_equal(renew(id, bare), CONNECT_RENEWAL_IMPOSSIBLE);
    assert_int_equal(renew(12345, OLD), CONNECT_RENEWED); /* the row does not exist, so the
                                                           * caller must read it again */
    items_tell(bench.conninfo, "delete from sluice.oauth_client");
    id = bench_connection(OLD);
    assert_int_equal(renew(id, OLD), CONNECT_RENEWAL_IMPOSSIBLE);
    bench_client("client", "client-secret");
    assert_int_equal(bench.peer.requests, 0);
    item.expires_at = 1;
    assert_int_equal(connect_item_need(bench.service, &item, AUTH_OAUTH2, 10), CONNECT_FRESH);
    assert_int_equal(connect_item_need(bench.service, &item, AUTH_BEARER, 10), CONNECT_FRESH);
}

static void tokens_age_by_their_life(void **state)
{
    const int64_t second = 1000000;
    struct connect_item item = {.id = 7,
                                .status = CONNECTION_LIVE,
                                .has_token = true,
                                .has_refresh_token = true,
                                .updated_at = 0,
                                .expires_at = 3600 * second};
    static const struct {
        int64_t at_s;
        enum connect_need need;
    } table[] = {{0, CONNECT_FRESH},    {3290, CONNECT_FRESH},   {3390, CONNECT_AGING},
                 {3590, CONNECT_AGING}, {3596, CONNECT_EXPIRED}, {9999, CONNECT_EXPIRED}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        assert_int_equal(
            connect_item_need(bench.service, &item, AUTH_OAUTH2, table[i].at_s * second),
            table[i].need);
    item.expires_at = 5 * second; /* a short lifetime does not cause constant renewals */
    assert_int_equal(connect_item_need(bench.service, &item, AUTH_OAUTH2, 3 * second),
                     CONNECT_FRESH);
    assert_int_equal(connect_item_need(bench.service, &item, AUTH_OAUTH2, second * 9 / 2),
                     CONNECT_AGING);
    item.expires_at = 0;
    assert_int_equal(connect_item_need(bench.service, &item, AUTH_OAUTH2, second), CONNECT_FRESH);
    item.has_token = item.has_refresh_token = false;
    assert_int_equal(
        connect_item_need(bench.service, &item, AUTH_OAUTH2_CLIENT_CREDENTIALS, second),
        CONNECT_EXPIRED);
    item.status = CONNECTION_REAUTH_REQUIRED;
    assert_int_equal(
        connect_item_need(bench.service, &item, AUTH_OAUTH2_CLIENT_CREDENTIALS, second),
        CONNECT_FRESH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_ask_and_one_request_goes_out),
        cmocka_unit_test(one_that_leaves_does_not_end_it),
        cmocka_unit_test(other_changes_of_the_row_lose_no_token),
        cmocka_unit_test(a_new_grant_wins_over_a_renewal),
        cmocka_unit_test(another_process_is_waited_for),
        cmocka_unit_test(a_database_that_is_away_loses_no_token),
        cmocka_unit_test(only_the_end_of_a_grant_ends_a_connection),
        cmocka_unit_test(what_cannot_be_renewed_is_not_asked_about),
        cmocka_unit_test(tokens_age_by_their_life),
    };
    return cmocka_run_group_tests(tests, bench_set_up, bench_tear_down);
}
