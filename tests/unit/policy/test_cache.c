/* Compiled policies by revision: what a key gets for its row, and what is loaded only once. */
#include "base/clock.h"
#include "policy/cache.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "unit.h"

static const char *conninfo;
static struct uuid account_id;

/* An op that finds the policy of a key. */
struct asker {
    struct op op;
    struct policy_cache *cache;
    struct key_policy key;
    struct policy_find find;
    bool was_at_once, is_freed;
};

static enum op_result step_ask(struct op *op)
{
    struct asker *asker = CONTAINER_OF(op, struct asker, op);
    asker->was_at_once = policy_cache_find(asker->cache, &asker->find, account_id, &asker->key, op);
    return asker->was_at_once ? OP_NEXT : OP_WAIT;
}

static enum op_result step_done(struct op *op)
{
    (void)op;
    return OP_DONE;
}

static void on_free(struct op *op)
{
    CONTAINER_OF(op, struct asker, op)->is_freed = true;
}

static const struct op_step steps[] = {{"ask", step_ask, 0}, {"done", step_done, 0}};
static const struct op_class asker_class = {
    .name = "asker",
    .steps = steps,
    .step_count = ARRAY_LEN(steps),
    .free = on_free,
};

static void start(struct pg_bench *bench, struct policy_cache *cache, struct asker *asker,
                  struct key_policy key)
{
    *asker = (struct asker){.cache = cache, .key = key};
    op_start(&asker->op, &asker_class, bench->loop, NULL, 64 * 1024);
}

/* Returns the label of the policy that the key gets, "" for none. */
static slice ask(struct pg_bench *bench, struct policy_cache *cache, struct asker *asker,
                 struct key_policy key)
{
    policy_unref(asker->find.policy);
    start(bench, cache, asker, key);
    pg_bench_until(bench, &asker->is_freed);
    assert_int_equal(asker->find.status, OK);
    return policy_label(asker->find.policy);
}

static void put_policy(const char *name, int rev, const char *body)
{
    char account[UUID_TEXT_LEN + 1], sql[500];
    uuid_format(account_id, account);
    snprintf(sql, sizeof(sql),
             "insert into sluice.policy values ('%s', '%s', %d, '%s', now()) on conflict "
             "(account_id, name) do update set rev = excluded.rev, body = excluded.body",
             account, name, rev, body);
    items_tell(conninfo, sql);
}

static struct policy_cache *open_cache(struct pg_bench *bench)
{
    struct pg_pool_config config = {.conninfo = conninfo};
    pg_bench_open(bench, &config, true);
    struct policy_cache *cache = policy_cache_new(bench->loop, bench->pool);
    assert_non_null(cache);
    return cache;
}

static void test_a_revision_is_loaded_once(void **state)
{
    struct pg_bench bench;
    struct policy_cache *cache = open_cache(&bench);
    struct asker asker = {.was_at_once = false}, other = asker;
    (void)state;
    const struct key_policy third = store_key_policy(SLICE("mail"), 3);
    put_policy("mail", 3, "{\"default\": \"deny\"}");
    /* two at the same time share the load */
    start(&bench, cache, &asker, third);
    start(&bench, cache, &other, third);
    pg_bench_until(&bench, &asker.is_freed);
    pg_bench_until(&bench, &other.is_freed);
    assert_true(asker.find.policy && asker.find.policy == other.find.policy);
    assert_true(slice_eq_cstr(policy_label(other.find.policy), "mail@3"));
    policy_unref(other.find.policy);
    items_tell(conninfo, "update sluice.policy set body = '[]'");
    assert_true(slice_eq_cstr(ask(&bench, cache, &asker, third), "mail@3"));
    assert_true(asker.was_at_once);
    policy_unref(asker.find.policy);
    policy_cache_free(cache);
    pg_bench_close(&bench);
}

/* The key was read before its policy changed: it gets the present one, which is not kept as the
 * former. */
static void test_a_row_that_has_changed(void **state)
{
    struct pg_bench bench;
    struct policy_cache *cache = open_cache(&bench);
    struct asker asker = {.was_at_once = false};
    (void)state;
    put_policy("mail", 5, "{\"default\": \"deny\"}");
    for (int i = 0; i < 2; i++) {
        const struct key_policy former = store_key_policy(SLICE("mail"), 4);
        assert_true(slice_eq_cstr(ask(&bench, cache, &asker, former), "mail@5"));
        assert_false(asker.was_at_once);
    }
    /* deleted: a key that names it may do nothing, one that names none is free */
    items_tell(conninfo, "delete from sluice.policy");
    (void)ask(&bench, cache, &asker, store_key_policy(SLICE("mail"), 6));
    assert_ptr_equal(asker.find.policy, policy_denies_all());
    (void)ask(&bench, cache, &asker, store_key_policy(SLICE_NONE, 7));
    assert_null(asker.find.policy);
    /* neither needs a query if the key's row says so */
    (void)ask(&bench, cache, &asker, store_key_policy(SLICE("mail"), 0));
    assert_true(asker.was_at_once && asker.find.policy == policy_denies_all());
    (void)ask(&bench, cache, &asker, store_key_policy(SLICE_NONE, 0));
    assert_true(asker.was_at_once && !asker.find.policy);
    /* a name and a text of a later version */
    char name[POLICY_NAME_MAX + 1];
    memset(name, 'x', sizeof(name));
    (void)ask(&bench, cache, &asker, store_key_policy(slice_of(name, sizeof(name)), 8));
    assert_ptr_equal(asker.find.policy, policy_denies_all());
    put_policy("mail", 9, "{\"default\": \"later\"}");
    (void)ask(&bench, cache, &asker, store_key_policy(SLICE("mail"), 9));
    assert_ptr_equal(asker.find.policy, policy_unreadable());
    policy_cache_free(cache);
    pg_bench_close(&bench);
}

static void test_no_database_is_no_answer(void **state)
{
    struct pg_bench bench;
    struct pg_pool_config config = {.conninfo = "host=/nonexistent", .queue_timeout_ms = 50};
    (void)state;
    pg_bench_open(&bench, &config, false);
    struct policy_cache *cache = policy_cache_new(bench.loop, bench.pool);
    struct asker asker;
    start(&bench, cache, &asker, store_key_policy(SLICE("mail"), 3));
    pg_bench_until(&bench, &asker.is_freed);
    assert_true(asker.find.status != OK && !asker.find.policy);
    policy_cache_free(cache);
    pg_bench_close(&bench);
}

static int set_up(void **state)
{
    (void)state;
    conninfo = pg_cluster_database(true);
    account_id = uuid_v7();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_revision_is_loaded_once),
        cmocka_unit_test(test_a_row_that_has_changed),
        cmocka_unit_test(test_no_database_is_no_answer),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, NULL));
}
