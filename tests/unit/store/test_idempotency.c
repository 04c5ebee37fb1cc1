/* Claims: which run wins a key, and when keys expire. */
#include "execution_test.h"

#include "store/retention.h"

static void race(struct pg_bench *other)
{
    enum { RACERS = 100 };
    static struct claim racers[RACERS];
    size_t winners = 0;
    struct uuid winner = {{0}};
    for (size_t i = 0; i < RACERS; i++) {
        racers[i] = claim_of(SLICE("race"));
        pg_call_start(i % 2 && other ? other : &bench, &calls[i], start_claim, &racers[i]);
    }
    for (size_t i = 0; i < RACERS; i++) {
        while (!calls[i].is_done) {
            loop_turn(bench.loop, false);
            if (other)
                loop_turn(other->loop, false);
        }
        struct claim_outcome outcome = outcome_of(&calls[i]);
        if (outcome.state == CLAIM_WON) {
            winners++;
            winner = racers[i].execution_id;
            claim = racers[i];
        } else {
            assert_int_equal(outcome.state, CLAIM_IN_FLIGHT);
        }
    }
    for (size_t i = 0; i < RACERS; i++)
        assert_true(uuid_eq(outcome_of(&calls[i]).execution_id, winner));
    pg_calls_end(calls, RACERS);
    assert_int_equal(winners, 1);
    run(start_release);
    done();
}

static void test_one_winner(void **state)
{
    struct pg_bench other;
    struct pg_pool_config config = {
        .conninfo = conninfo, .queue_timeout_ms = 30000, .lock_timeout_ms = 30000};
    (void)state;
    race(NULL);
    pg_bench_open(&other, &config, true); /* another process's pool */
    for (int round = 0; round < 5; round++)
        race(&other);
    pg_bench_close(&other);
}

static void test_a_set_of_claims(void **state)
{
    enum { COUNT = 150 };
    static struct claim many[COUNT];
    static char keys[COUNT][16];
    (void)state;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            snprintf(keys[i], sizeof(keys[i]), "many-%zu", i * 7919 % COUNT);
            many[i] = claim_of(slice_cstr(keys[i]));
            pg_call_start(&bench, &calls[i], start_claim, &many[i]);
        }
        pg_calls_wait(&bench, calls, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(outcome_of(&calls[i]).state, round ? CLAIM_IN_FLIGHT : CLAIM_WON);
        pg_calls_end(calls, COUNT);
    }
    items_tell(conninfo, "delete from sluice.idempotency_key where key like 'many-%'");
}

static void expire(const char *key_text)
{
    char sql[200];
    snprintf(sql, sizeof(sql),
             "update sluice.idempotency_key set expires_at = now() - interval '1 h' "
             "where key = '%s'",
             key_text);
    items_tell(conninfo, sql);
}

static void start_spend(struct pg_call *call)
{
    store_claim_spend(call->bench->pool, &call->query, &call->op, &claim);
}

static enum claim_state spend(slice key)
{
    claim = claim_of(key);
    claim.owner = (struct uuid){{0}};
    claim.lifetime_ms = 0;
    claim.guards_until = clock_wall_us() + 60 * 1000000LL;
    memset(claim.fingerprint, 0, sizeof(claim.fingerprint));
    run(start_spend);
    enum claim_state found = outcome_of(&calls[0]).state;
    done();
    return found;
}

static void test_a_spent_key(void **state)
{
    (void)state;
    assert_int_equal(spend(SLICE("no")), CLAIM_WON);
    assert_int_equal(spend(SLICE("no")), CLAIM_BOUND);
    assert_int_equal(claim_now(SLICE("no")), CLAIM_BOUND);
    assert_int_equal(claim_now(SLICE("yes")), CLAIM_WON);
    assert_int_equal(spend(SLICE("yes")), CLAIM_IN_FLIGHT);
    expire("no");
    assert_int_equal(claim_now(SLICE("no")), CLAIM_WON);
    items_tell(conninfo, "delete from sluice.idempotency_key where key in ('no', 'yes')");
}

/* ---- expiry ---- */

/* Seconds from the database's now. */
static int64_t left_s(const char *key_text)
{
    char sql[200];
    snprintf(sql, sizeof(sql),
             "select extract(epoch from expires_at - now())::bigint from sluice.idempotency_key "
             "where key = '%s'",
             key_text);
    return items_ask(conninfo, sql);
}

static void start_bind(struct pg_call *call)
{
    store_claim_bind(call->bench->pool, &call->query, &call->op, &claim);
}

/* The key of one run is bound, whether it is in flight or free; that of another stays as it is. */
static void test_a_key_that_is_bound_later(void **state)
{
    (void)state;
    assert_int_equal(claim_now(SLICE("later")), CLAIM_WON);
    struct uuid owner = claim.owner, id = claim.execution_id;
    claim.lifetime_ms = 1000;
    claim.execution_id = uuid_v7();
    run(start_bind);
    done();
    assert_int_equal(claim_now(SLICE("later")), CLAIM_IN_FLIGHT);
    for (int i = 0; i < 2; i++) {
        claim.lifetime_ms = 3600 * 1000;
        claim.execution_id = id;
        claim.owner = owner;
        run(start_bind);
        done();
        assert_int_equal(claim_now(SLICE("later")), CLAIM_BOUND);
        assert_true(left_s("later") > 3500);
        items_tell(conninfo, "delete from sluice.idempotency_key where key = 'later'");
    }
}

/* A key is valid from the statement on, and for longer than the run that it guards. After the
 * run's end, it lives long enough for the callers that wait for the run to load it. */
static void test_the_life_of_a_key(void **state)
{
    const struct {
        const char *key;
        int64_t lifetime_s, guards_s, least_s, most_s;
    } lives[] = {
        {"plain", 3600, 0, 3590, 3600},
        {"guarding", 1, 600, 620, 630},
        {"longer", 3600, 600, 3590, 3600},
        {"guarded", 1, -600, -10, 1},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lives); i++) {
        claim = claim_of(slice_cstr(lives[i].key));
        claim.lifetime_ms = lives[i].lifetime_s * 1000;
        if (lives[i].guards_s)
            claim.guards_until = clock_wall_us() + lives[i].guards_s * 1000000;
        run(start_claim);
        assert_int_equal(outcome_of(&calls[0]).state, CLAIM_WON);
        done();
        assert_in_range(left_s(lives[i].key) + 100, lives[i].least_s + 100, lives[i].most_s + 100);
    }
    expire("guarded"); /* while it still runs */
    assert_int_equal(finish_now(CLAIM_KEEP, SLICE("{}")), OK);
    run(start_find);
    assert_int_equal(outcome_of(&calls[0]).state, CLAIM_BOUND);
    done();
    items_tell(conninfo, "truncate sluice.idempotency_key");
}

static struct expired_key expired;

static void start_expired(struct pg_call *call)
{
    store_keys_expired(call->bench->pool, &call->query, &call->op);
}

static void start_expire(struct pg_call *call)
{
    store_key_expire(call->bench->pool, &call->query, &call->op, &expired);
}

static void test_expired_keys(void **state)
{
    (void)state;
    assert_int_equal(claim_now(SLICE("old")), CLAIM_WON);
    assert_int_equal(finish_now(CLAIM_KEEP, SLICE("{}")), OK);
    expire("old");
    run(start_find);
    struct claim_outcome outcome;
    assert_int_equal(store_claim_result(&calls[0].query, &outcome),
                     ERR_NOTFOUND); /* counts as free */
    done();
    struct expired_key *list;
    size_t count;
    run(start_expired);
    assert_int_equal(store_keys_expired_result(&calls[0].query, &list, &count), OK);
    assert_int_equal(count, 1);
    assert_true(slice_eq(list[0].key, SLICE("old")));
    expired = list[0];
    expired.key = SLICE("old");
    done();
    assert_int_equal(claim_now(SLICE("old")), CLAIM_WON); /* it gets a new owner before it is
                                                           * removed */
    run(start_expire);
    done();
    run(start_find);
    assert_int_equal(outcome_of(&calls[0]).state, CLAIM_IN_FLIGHT); /* the fence held */
    done();
    assert_int_equal(finish_now(CLAIM_KEEP, SLICE("{}")), OK);
    expire("old");
    run(start_expired);
    assert_int_equal(store_keys_expired_result(&calls[0].query, &list, &count), OK);
    assert_int_equal(count, 1);
    expired.expires_at = list[0].expires_at;
    done();
    run(start_expire);
    done();
    run(start_expired);
    assert_int_equal(store_keys_expired_result(&calls[0].query, &list, &count), OK);
    assert_int_equal(count, 0);
    done();
}

/* No CHECK of the table says what a single column has (sql/0043_checks.sql). The length of a
 * client's key is checked where it is read (api_key_fault), that of a fingerprint is its type's. */
static void test_columns_need_no_check(void **state)
{
    (void)state;
    assert_int_equal(claim_now(SLICE("runs")), CLAIM_WON);
    assert_int_equal(claim_now(SLICE_NONE), CLAIM_WON);
    assert_int_equal(claim_now(SLICE("ended")), CLAIM_WON);
    assert_int_equal(finish_now(CLAIM_KEEP, SLICE("{}")), OK);
    assert_int_equal(items_ask(conninfo,
                               "select count(*) from sluice.idempotency_key where state in "
                               "('in_flight', 'bound') and char_length(key) between 1 and 255 and "
                               "octet_length(fingerprint) = 32"),
                     3);
    items_tell(conninfo, "truncate sluice.idempotency_key");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BOTH(test_one_winner),
        IN_BOTH(test_a_set_of_claims),
        IN_BOTH(test_a_spent_key),
        IN_BOTH(test_a_key_that_is_bound_later),
        IN_BOTH(test_the_life_of_a_key),
        IN_BOTH(test_expired_keys),
        IN_BOTH(test_columns_need_no_check),
    };
    if (tests_begin() != 0)
        return 1;
    return tests_end(cmocka_run_group_tests(tests, NULL, NULL));
}
