/* From a key to an account: the cache, single flight, revocation. */
#include <stdlib.h>

#include "base/clock.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "support/pg_second.h"
#include "support/rows.h"
#include "unit.h"
#include "vault/auth.h"
#include "vault/key.h"

enum { CHECKS = 50 };

static const char *conninfo;
static struct uuid account_id;

/* An op that checks a key. */
struct asker {
    struct op op;
    struct vault_check check;
    struct vault_auth *auth;
    slice text, address;
    bool was_at_once, is_done, is_freed;
};

static struct asker *asker_of(struct op *op)
{
    return CONTAINER_OF(op, struct asker, op);
}

static enum op_result step_ask(struct op *op)
{
    struct asker *asker = asker_of(op);
    asker->was_at_once =
        vault_auth_check(asker->auth, &asker->check, asker->text, asker->address, op);
    return asker->was_at_once ? OP_NEXT : OP_WAIT;
}

static enum op_result step_done(struct op *op)
{
    asker_of(op)->is_done = true;
    return OP_DONE;
}

static void on_free(struct op *op)
{
    asker_of(op)->is_freed = true;
}

static const struct op_step steps[] = {{"ask", step_ask, 0}, {"done", step_done, 0}};
static const struct op_class asker_class = {
    .name = "asker",
    .steps = steps,
    .step_count = ARRAY_LEN(steps),
    .free = on_free,
};

static void ask_start(struct pg_bench *bench, struct vault_auth *auth, struct asker *asker,
                      const char *text)
{
    *asker = (struct asker){.auth = auth, .text = slice_cstr(text)};
    op_start(&asker->op, &asker_class, bench->loop, NULL, 1024);
}

static int ask(struct pg_bench *bench, struct vault_auth *auth, struct asker *asker,
               const char *text)
{
    ask_start(bench, auth, asker, text);
    pg_bench_until(bench, &asker->is_freed);
    assert_true(asker->is_done);
    return asker->check.status;
}

/* Asks from a client's address. */
static int ask_from(struct pg_bench *bench, struct vault_auth *auth, struct asker *asker,
                    const char *text, const char *address)
{
    ask_start(bench, auth, asker, text);
    asker->address = slice_cstr(address); /* before the op's first step, which is a turn later */
    pg_bench_until(bench, &asker->is_freed);
    return asker->check.status;
}

static struct api_key make_bound_key(struct vault_key *key, uint32_t scopes, int64_t expires_at,
                                     slice addresses)
{
    struct err err;
    struct pg_sync *sync = pg_sync_open(conninfo, &err);
    assert_non_null(sync);
    vault_key_new(key);
    struct api_key row = {.account_id = account_id,
                          .id = uuid_v7(),
                          .prefix = slice_cstr(key->prefix),
                          .name = SLICE("test"),
                          .scopes = scopes,
                          .addresses = addresses,
                          .expires_at = expires_at};
    memcpy(row.hash, key->hash, sizeof(row.hash));
    assert_int_equal(rows_key(sync, &row), OK);
    pg_sync_close(sync);
    return row;
}

static struct api_key make_key(struct vault_key *key, uint32_t scopes, int64_t expires_at)
{
    return make_bound_key(key, scopes, expires_at, SLICE_NONE);
}

/* Revokes the key like another process that does not notify this one. */
static void revoke(const struct api_key *key)
{
    char id[UUID_TEXT_LEN + 1], sql[200];
    uuid_format(key->id, id);
    snprintf(sql, sizeof(sql), "update sluice.api_key set revoked_at = now() where id = '%s'", id);
    items_tell(conninfo, sql);
}

static struct vault_auth *open_auth(struct pg_bench *bench, unsigned ttl_ms, size_t cache_max)
{
    struct pg_pool_config config = {.conninfo = conninfo};
    pg_bench_open(bench, &config, true);
    struct vault_auth_config auth_config = {
        .pool = bench->pool, .ttl_ms = ttl_ms, .negative_ttl_ms = ttl_ms, .cache_max = cache_max};
    struct vault_auth *auth = vault_auth_new(bench->loop, &auth_config);
    assert_non_null(auth);
    return auth;
}

static bool has_only_links(void *loop)
{
    return op_count(loop) == 4; /* the pool's connections */
}

static void test_answers(void **state)
{
    struct pg_bench bench;
    struct vault_auth *auth = open_auth(&bench, 60000, 0);
    struct asker asker;
    struct vault_key key, unknown, expired;
    (void)state;
    struct api_key row = make_key(&key, SCOPE_READ, 0);
    make_key(&expired, SCOPE_ALL, clock_wall_us() - 1);
    vault_key_new(&unknown);
    assert_int_equal(ask(&bench, auth, &asker, key.text), OK);
    assert_true(uuid_eq(asker.check.grant.account_id, account_id));
    assert_true(uuid_eq(asker.check.grant.key_id, row.id));
    assert_int_equal(asker.check.grant.scopes, SCOPE_READ);
    assert_false(asker.was_at_once);
    assert_int_equal(ask(&bench, auth, &asker, key.text), OK);
    assert_true(asker.was_at_once);
    for (int round = 0; round < 2; round++) { /* from the database, then from the cache */
        assert_int_equal(ask(&bench, auth, &asker, unknown.text), ERR_REFUSED);
        assert_int_equal(asker.was_at_once, round);
        assert_int_equal(ask(&bench, auth, &asker, expired.text), ERR_REFUSED);
        assert_int_equal(asker.check.grant.scopes, 0);
    }
    assert_int_equal(ask(&bench, auth, &asker, "sk_short"), ERR_REFUSED);
    assert_true(asker.was_at_once); /* no look-up for a text that is not a key */
    pg_bench_until_true(&bench, has_only_links, bench.loop);
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.api_key "
                                         "where last_used_at > now() - interval '1 minute'"),
                     1);
    vault_auth_free(auth);
    pg_bench_close(&bench);
}

static void test_addresses(void **state)
{
    static const struct {
        const char *address;
        bool is_allowed;
    } cases[] = {{"10.1.2.3", true},     {"10.2.0.1", false}, {"2001:db8::1", true},
                 {"2001:db8::2", false}, {"unix", false},     {"", false}};
    struct pg_bench bench;
    struct vault_auth *auth = open_auth(&bench, 60000, 0);
    struct asker asker;
    struct vault_key key, broken, old;
    (void)state;
    make_bound_key(&key, SCOPE_ALL, 0, SLICE("10.1.0.0/16 2001:db8::1"));
    make_bound_key(&broken, SCOPE_ALL, 0, SLICE("of a newer version"));
    make_bound_key(&old, SCOPE_ALL, clock_wall_us() - 1, SLICE("10.1.0.0/16"));
    for (size_t i = 0; i < 2 * ARRAY_LEN(cases); i++) {
        const char *address = cases[i / 2].address;
        bool is_allowed = cases[i / 2].is_allowed;
        assert_int_equal(ask_from(&bench, auth, &asker, key.text, address),
                         is_allowed ? OK : ERR_REFUSED);
        assert_int_equal(asker.check.is_elsewhere, !is_allowed);
        assert_int_equal(asker.check.grant.scopes, is_allowed ? SCOPE_ALL : 0);
        assert_int_equal(asker.was_at_once, i > 0); /* all checks share one query */
    }
    /* the visitor of a link does not have the key */
    assert_int_equal(ask(&bench, auth, &asker, key.text), OK);
    assert_true(asker.check.grant.is_bound);
    assert_int_equal(ask_from(&bench, auth, &asker, broken.text, "10.1.2.3"), ERR_REFUSED);
    assert_true(asker.check.is_elsewhere);
    /* nothing is revealed about a key that has expired */
    assert_int_equal(ask_from(&bench, auth, &asker, old.text, "10.2.0.1"), ERR_REFUSED);
    assert_false(asker.check.is_elsewhere);
    pg_bench_until_true(&bench, has_only_links, bench.loop);
    vault_auth_free(auth);
    pg_bench_close(&bench);
}

static double misses(void)
{
    struct buf text;
    buf_init(&text, 1024 * 1024);
    metric_render(&text);
    buf_append_char(&text, '\0');
    const char *at = strstr(text.ptr, "\nsluice_pg_batched_queries_total ");
    double value = at ? strtod(at + strlen("\nsluice_pg_batched_queries_total "), NULL) : 0;
    buf_deinit(&text);
    return value;
}

static void test_single_flight_and_cancel(void **state)
{
    struct pg_bench bench;
    struct vault_auth *auth = open_auth(&bench, 60000, 0);
    struct asker askers[CHECKS];
    struct vault_key key;
    (void)state;
    /* the key is not in the database, so no update of its last use adds to the count */
    vault_key_new(&key);
    struct err err;
    struct pg_sync *sync = pg_sync_open(conninfo, &err);
    assert_non_null(sync);
    /* no answer before one of the ops was cancelled */
    assert_int_equal(
        pg_sync_run(sync, "begin; lock table sluice.api_key in access exclusive mode", &err), OK);
    double before = misses();
    for (size_t i = 0; i < CHECKS; i++)
        ask_start(&bench, auth, &askers[i], key.text);
    while (askers[CHECKS - 1].op.holds == 0) /* a turn may end after each */
        loop_turn(bench.loop, false);
    op_cancel(&askers[7].op);
    assert_int_equal(pg_sync_run(sync, "rollback", &err), OK);
    pg_sync_close(sync);
    for (size_t i = 0; i < CHECKS; i++)
        pg_bench_until(&bench, &askers[i].is_freed);
    for (size_t i = 0; i < CHECKS; i++) {
        assert_int_equal(askers[i].is_done, i != 7);
        assert_int_equal(askers[i].check.status, i == 7 ? ERR_CLOSED : ERR_REFUSED);
    }
    assert_true(misses() == before + 1);
    vault_auth_free(auth);
    pg_bench_close(&bench);
}

static void test_revoked_after_flush(void **state)
{
    struct pg_bench bench;
    struct vault_auth *auth = open_auth(&bench, 60000, 0);
    struct asker asker;
    struct vault_key key;
    (void)state;
    struct api_key row = make_key(&key, SCOPE_ALL, 0);
    assert_int_equal(ask(&bench, auth, &asker, key.text), OK);
    revoke(&row);
    assert_int_equal(ask(&bench, auth, &asker, key.text), OK); /* still cached */
    vault_auth_flush(auth);
    assert_int_equal(ask(&bench, auth, &asker, key.text), ERR_REFUSED);

    make_key(&key, SCOPE_ALL, 0);
    assert_int_equal(ask(&bench, auth, &asker, key.text), OK);
    items_tell(conninfo, "update sluice.account set disabled_at = now()");
    vault_auth_flush(auth);
    assert_int_equal(ask(&bench, auth, &asker, key.text), ERR_REFUSED);
    items_tell(conninfo, "update sluice.account set disabled_at = null");
    vault_auth_free(auth);
    pg_bench_close(&bench);
}

/* Evicts one account: its keys are looked up again, other accounts' keys are not. */
struct early {
    struct pg_bench bench;
    struct vault_auth *auth;
    struct asker asker;
    struct vault_key key;
};

static void ask_early(void *arg)
{
    struct early *it = arg;
    ask_start(&it->bench, it->auth, &it->asker, it->key.text);
}

/* A request after the revocation is refused, even while an earlier look-up is under way. */
static void test_revoked_under_way(void **state)
{
    struct early it;
    struct asker late;
    (void)state;
    it.auth = open_auth(&it.bench, 60000, 0);
    make_key(&it.key, SCOPE_ALL, 0);
    pg_answer_unseen(&it.bench, conninfo, "sluice.api_key", ask_early, &it);
    items_tell(conninfo, "update sluice.api_key set revoked_at = now()");
    vault_auth_forget(it.auth, account_id);
    assert_false(it.asker.is_done);
    int status = ask(&it.bench, it.auth, &late, it.key.text);
    pg_bench_until(&it.bench, &it.asker.is_freed);
    int again = ask(&it.bench, it.auth, &late, it.key.text);
    vault_auth_free(it.auth);
    pg_bench_close(&it.bench);
    assert_int_equal(status, ERR_REFUSED);
    assert_int_equal(again, ERR_REFUSED);
    assert_true(late.was_at_once); /* it was looked up once more, and the result is cached */
}

static void test_forget_one_account(void **state)
{
    struct pg_bench bench;
    struct vault_auth *auth = open_auth(&bench, 60000, 0);
    struct asker asker;
    struct vault_key key, refused;
    (void)state;
    struct api_key row = make_key(&key, SCOPE_ALL, 0);
    vault_key_new(&refused);
    assert_int_equal(ask(&bench, auth, &asker, key.text), OK);
    assert_int_equal(ask(&bench, auth, &asker, refused.text), ERR_REFUSED);
    revoke(&row);
    vault_auth_forget(auth, uuid_v7());
    assert_int_equal(ask(&bench, auth, &asker, key.text), OK);
    assert_true(asker.was_at_once);
    assert_int_equal(ask(&bench, auth, &asker, refused.text), ERR_REFUSED);
    assert_false(asker.was_at_once); /* it is unknown whose key this is now, so it is looked up
                                      * again */
    vault_auth_forget(auth, account_id);
    assert_int_equal(ask(&bench, auth, &asker, key.text), ERR_REFUSED);
    assert_false(asker.was_at_once);
    vault_auth_free(auth);
    pg_bench_close(&bench);
}

struct watcher {
    struct vault_guard guard;
    size_t told;
};

static void on_refused(struct vault_guard *guard)
{
    CONTAINER_OF(guard, struct watcher, guard)->told++;
}

static bool is_told(void *watcher)
{
    return ((struct watcher *)watcher)->told > 0;
}

/* A check of the key that found no policy. */
static const struct vault_check *check_of(const struct vault_key *key)
{
    static struct vault_check check;
    memcpy(check.caller.key_hash, key->hash, sizeof(check.caller.key_hash));
    return &check;
}

/* A guard is notified once when its key is refused. Guards of other keys, and guards that
 * stopped, are not. */
static void test_guards_are_notified(void **state)
{
    struct pg_bench bench;
    struct vault_auth *auth = open_auth(&bench, 3600 * 1000, 0);
    struct vault_key key, other;
    struct watcher first = {.guard.on_refused = on_refused}, second = first, stopped = first,
                   others = first;
    (void)state;
    struct api_key row = make_key(&key, SCOPE_ALL, 0);
    make_key(&other, SCOPE_ALL, 0);
    vault_guard_start(auth, &first.guard, check_of(&key));
    vault_guard_start(auth, &second.guard, check_of(&key));
    vault_guard_start(auth, &stopped.guard, check_of(&key));
    vault_guard_start(auth, &others.guard, check_of(&other));
    vault_guard_stop(&stopped.guard);
    revoke(&row);
    vault_auth_forget(auth, account_id);
    pg_bench_until_true(&bench, is_told, &first);
    pg_bench_until_true(&bench, is_told, &second);
    assert_int_equal(first.told + second.told, 2);
    assert_int_equal(stopped.told + others.told, 0);
    vault_guard_stop(&first.guard); /* does no harm */
    vault_guard_stop(&others.guard);
    first.told = 0; /* it is also notified of a key that has already been refused, and of a key
                     * that expires */
    struct vault_key expiring;
    make_key(&expiring, SCOPE_ALL, clock_wall_us() + 1000000);
    vault_guard_start(auth, &first.guard, check_of(&key));
    vault_guard_start(auth, &others.guard, check_of(&expiring));
    pg_bench_until_true(&bench, is_told, &first);
    pg_bench_until_true(&bench, is_told, &others);
    vault_auth_free(auth);
    pg_bench_close(&bench);
}

static void tell_policy(const char *name, int64_t rev)
{
    char account[UUID_TEXT_LEN + 1], sql[300];
    uuid_format(account_id, account);
    snprintf(sql, sizeof(sql),
             "insert into sluice.policy values ('%s', '%s', %lld, '{}', now()) on conflict "
             "(account_id, name) do update set rev = excluded.rev",
             account, name, (long long)rev);
    items_tell(conninfo, sql);
}

/* A key has the policy that it names, also one that no longer exists, else the account's default. A
 * guard is notified of another policy. */
static void test_a_key_has_a_policy(void **state)
{
    struct pg_bench bench;
    struct vault_auth *auth = open_auth(&bench, 3600 * 1000, 0);
    struct vault_key key, named;
    struct asker asker;
    struct watcher watcher = {.guard.on_refused = on_refused};
    char id[UUID_TEXT_LEN + 1], sql[200];
    (void)state;
    make_key(&key, SCOPE_ALL, 0);
    struct api_key row = make_key(&named, SCOPE_ALL, 0);
    uuid_format(row.id, id);
    snprintf(sql, sizeof(sql), "update sluice.api_key set policy = 'mail' where id = '%s'", id);
    items_tell(conninfo, sql);
    const struct key_policy *policy = &asker.check.grant.policy;
    assert_int_equal(ask(&bench, auth, &asker, key.text), OK);
    assert_true(store_key_policy_is_none(policy));
    assert_int_equal(ask(&bench, auth, &asker, named.text), OK);
    assert_true(policy->is_named && policy->rev == 0 && !store_key_policy_is_none(policy));
    assert_string_equal(policy->name, "mail");
    vault_guard_start(auth, &watcher.guard, check_of(&key));
    tell_policy("default", 7);
    tell_policy("mail", 8);
    assert_int_equal(watcher.told, 0);
    vault_auth_forget(auth, account_id);
    assert_int_equal(ask(&bench, auth, &asker, key.text), OK);
    assert_true(!policy->is_named && policy->rev == 7 && !store_key_policy_is_none(policy));
    assert_string_equal(policy->name, "default");
    assert_int_equal(ask(&bench, auth, &asker, named.text), OK);
    assert_true(policy->is_named && policy->rev == 8);
    pg_bench_until_true(&bench, is_told, &watcher);
    assert_true(watcher.told == 1 && watcher.guard.has_other_policy);
    items_tell(conninfo, "delete from sluice.policy");
    vault_auth_free(auth);
    pg_bench_close(&bench);
}

static void test_cache_is_bounded(void **state)
{
    struct pg_bench bench;
    struct vault_auth *auth = open_auth(&bench, 60000, 8);
    struct asker asker;
    struct vault_key keys[20];
    (void)state;
    for (size_t i = 0; i < 20; i++) {
        vault_key_new(&keys[i]);
        assert_int_equal(ask(&bench, auth, &asker, keys[i].text), ERR_REFUSED);
    }
    assert_int_equal(ask(&bench, auth, &asker, keys[19].text), ERR_REFUSED);
    assert_true(asker.was_at_once);
    assert_int_equal(ask(&bench, auth, &asker, keys[0].text), ERR_REFUSED);
    assert_false(asker.was_at_once); /* this key was the least recently used */
    vault_auth_free(auth);
    pg_bench_close(&bench);
}

static void test_no_database_is_not_a_refusal(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = {.conninfo = "host=/nonexistent", .queue_timeout_ms = 50};
    struct asker asker;
    struct vault_key key;
    (void)state;
    pg_bench_open(&bench, &config, false);
    struct vault_auth *auth =
        vault_auth_new(bench.loop, &(struct vault_auth_config){.pool = bench.pool});
    vault_key_new(&key);
    assert_int_equal(ask(&bench, auth, &asker, key.text), ERR_BUSY);
    assert_int_equal(ask(&bench, auth, &asker, key.text), ERR_BUSY); /* the error is not cached */
    assert_false(asker.was_at_once);
    vault_auth_free(auth);
    pg_bench_close(&bench);
}

static void test_freed_under_way(void **state)
{
    struct pg_bench bench;
    struct vault_auth *auth = open_auth(&bench, 60000, 0);
    struct asker asker;
    struct vault_key key;
    (void)state;
    vault_key_new(&key);
    ask_start(&bench, auth, &asker, key.text);
    loop_turn(bench.loop, false);
    op_cancel(&asker.op);
    vault_auth_free(auth); /* its look-up is still in flight */
    pg_bench_until(&bench, &asker.is_freed);
    pg_bench_until_true(&bench, has_only_links, bench.loop);
    pg_bench_close(&bench);
}

static int set_up(void **state)
{
    struct err err;
    (void)state;
    conninfo = pg_cluster_database(true);
    account_id = uuid_v7();
    struct account account = {.account_id = account_id, .name = SLICE("test")};
    struct pg_sync *sync = pg_sync_open(conninfo, &err);
    int rc = sync ? rows_account(sync, &account) : ERR_IO;
    pg_sync_close(sync);
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_single_flight_and_cancel),
        cmocka_unit_test(test_revoked_after_flush),
        cmocka_unit_test(test_revoked_under_way),
        cmocka_unit_test(test_forget_one_account),
        cmocka_unit_test(test_guards_are_notified),
        cmocka_unit_test(test_a_key_has_a_policy),
        cmocka_unit_test(test_cache_is_bounded),
        cmocka_unit_test(test_no_database_is_not_a_refusal),
        cmocka_unit_test(test_freed_under_way),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, NULL));
}
