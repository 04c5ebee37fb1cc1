/* Leases of limits: all holders of a limit together never have more than the limit. */
#include "store/rate_lease.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "unit.h"

enum { HOLDERS = 4, ROUNDS = 6, CALLS_MAX = 8 };
#define CALL  ((int64_t)1000000)
#define RATE  (100 * CALL)
#define BURST (40 * CALL)

static const char *conninfo;
static struct pg_bench bench;
static struct pg_call *calls;
static struct uuid account, holders[HOLDERS];

static void start_take(struct pg_call *call)
{
    store_rate_lease_take(call->bench->pool, &call->query, &call->op, call->arg);
}

static struct rate_lease_ask of(size_t holder, int64_t need)
{
    return (struct rate_lease_ask){.account_id = account,
                                   .name = SLICE("requests"),
                                   .holder = holders[holder],
                                   .total = RATE,
                                   .burst = BURST,
                                   .need = need};
}

static int64_t read_number(const char *sql)
{
    return items_ask(conninfo, sql);
}

/* Makes all leases and the level that many milliseconds old. With a negative value they do not age,
 * so no test depends on its own speed. */
static void let_pass(int ms)
{
    char sql[300];
    (void)snprintf(sql, sizeof(sql),
                   "update sluice.rate_lease set filled_at = now() - interval '%d ms', ends = "
                   "array_fill(now() + interval '%d ms', array[cardinality(ends)])",
                   ms, RATE_LEASE_MS - ms);
    items_tell(conninfo, sql);
}

static struct rate_lease take(struct rate_lease_ask ask)
{
    enum { STILL_MS = -3600 * 1000 };
    struct rate_lease lease;
    assert_int_equal(pg_call_run(&bench, calls, start_take, &ask), OK);
    assert_int_equal(store_rate_lease_take_result(&calls[0].query, &lease), OK);
    pg_call_end(calls);
    let_pass(STILL_MS);
    return lease;
}

static int64_t parts(void)
{
    return read_number("select sum(p) from sluice.rate_lease, unnest(parts) p");
}

static void check_sums(void)
{
    assert_true(parts() <= RATE);
    assert_true(read_number("select level - (select sum(h) from unnest(helds) h) "
                            "from sluice.rate_lease") >= 0);
}

static void test_the_first_has_what_it_needs_and_half_of_the_rest(void **state)
{
    struct rate_lease_ask ask = of(0, 20 * CALL);
    (void)state;
    ask.backlog = 10 * CALL;
    struct rate_lease lease = take(ask);
    assert_int_equal(lease.part, 60 * CALL);
    assert_int_equal(lease.held, 25 * CALL);
    assert_int_equal(take(of(1, 0)).part, 20 * CALL);
    check_sums();
}

/* For any number of concurrent requests, and for any amount. */
static void test_sums_stay_within_the_limit(void **state)
{
    struct rate_lease_ask asks[HOLDERS];
    (void)state;
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < HOLDERS; i++) {
            asks[i] = of(i, (int64_t)(i + 1) * RATE);
            asks[i].backlog = 100 * CALL;
        }
        pg_calls_start(&bench, calls, HOLDERS, start_take, asks, sizeof(*asks));
        pg_calls_wait(&bench, calls, HOLDERS);
        for (size_t i = 0; i < HOLDERS; i++)
            assert_int_equal(calls[i].query.status, OK);
        pg_calls_end(calls, HOLDERS);
        check_sums();
        let_pass(500);
    }
}

/* If all want more than is available, it is divided by need, and all of it is given. */
static void test_parts_follow_the_need(void **state)
{
    const int64_t needs[HOLDERS] = {RATE, RATE, RATE, 3 * RATE};
    struct rate_lease lease = {0};
    (void)state;
    for (size_t round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < HOLDERS; i++) {
            lease = take(of(i, needs[i]));
            check_sums();
        }
    assert_true(lease.part >= RATE / 2 - HOLDERS && lease.part <= RATE / 2); /* rounded */
    assert_int_equal(take(of(0, RATE)).part, (RATE + 5) / 6);
    assert_true(parts() > RATE - HOLDERS && parts() <= RATE);
}

/* A silent holder loses its part when its lease is over. */
static void test_a_lease_ends_by_itself(void **state)
{
    (void)state;
    assert_int_equal(take(of(0, RATE)).part, RATE);
    assert_int_equal(take(of(1, RATE)).part, 0);
    let_pass(RATE_LEASE_MS);
    assert_int_equal(take(of(1, RATE)).part, RATE);
    assert_int_equal(read_number("select cardinality(holders) from sluice.rate_lease"), 1);
}

/* All holders share one burst: a used part is missing until the rate has restored it, and a part
 * that another holder may have used since its last message is not given twice. */
static void test_one_burst_for_all(void **state)
{
    struct rate_lease_ask ask = of(0, RATE);
    (void)state;
    ask.backlog = BURST;
    assert_int_equal(take(ask).held, BURST);
    ask = of(1, RATE);
    ask.backlog = BURST;
    assert_int_equal(take(ask).held, 0);
    let_pass(200); /* 20 calls, which are the first holder's part */
    assert_int_equal(take(ask).held, 0);
    ask = of(0, RATE);
    ask.used = BURST;
    assert_int_equal(take(ask).held, 0);
    check_sums();
    let_pass(3600 * 1000);
    ask = of(2, RATE);
    ask.backlog = 2 * BURST;
    assert_int_equal(take(ask).held, BURST);
}

/* More was used than was available, for example by the calls for the pages of a list: the
 * difference becomes a debt. */
static void test_what_is_owed_is_paid(void **state)
{
    struct rate_lease_ask ask = of(0, RATE);
    (void)state;
    assert_int_equal(take(ask).part, RATE);
    ask.used = BURST + 10 * CALL;
    ask.backlog = CALL;
    assert_int_equal(take(ask).held, 0);
    assert_true(read_number("select level from sluice.rate_lease") < 0);
}

/* A number of concurrent calls: only whole calls are leased, and no call in use is revoked. */
static void test_calls_at_the_same_time(void **state)
{
    struct rate_lease_ask ask = of(0, 2);
    (void)state;
    ask.total = 5;
    ask.burst = 0;
    assert_int_equal(take(ask).part, 3);
    ask.holder = holders[1];
    ask.need = 9;
    assert_int_equal(take(ask).part, 2);
    ask.holder = holders[0];
    ask.need = ask.floor = 3;
    assert_int_equal(take(ask).part, 3);
    ask.need = ask.floor = 0;
    assert_int_equal(take(ask).part, 0);
    ask.holder = holders[1];
    ask.need = 9;
    assert_int_equal(take(ask).part, 5);
}

static void start_sweep(struct pg_call *call)
{
    store_rate_lease_sweep(call->bench->pool, &call->query, &call->op);
}

static void test_a_row_that_says_nothing_goes(void **state)
{
    (void)state;
    (void)take(of(0, RATE));
    assert_int_equal(pg_call_run(&bench, calls, start_sweep, NULL), OK);
    pg_call_end(calls);
    assert_int_equal(read_number("select count(*) from sluice.rate_lease"), 1);
    items_tell(conninfo, "update sluice.rate_lease set expires_at = now() - interval '1 s'");
    assert_int_equal(pg_call_run(&bench, calls, start_sweep, NULL), OK);
    pg_call_end(calls);
    assert_int_equal(read_number("select count(*) from sluice.rate_lease"), 0);
}

static int empty(void **state)
{
    char sql[200], id[UUID_TEXT_LEN + 1];
    (void)state;
    account = uuid_v7();
    for (size_t i = 0; i < HOLDERS; i++)
        holders[i] = uuid_v7();
    uuid_format(account, id);
    (void)snprintf(sql, sizeof(sql),
                   "delete from sluice.rate_lease; insert into sluice.account (account_id, name, "
                   "created_at) values ('%s', 'a', now())",
                   id);
    items_tell(conninfo, sql);
    return 0;
}

static int set_up(void **state)
{
    struct pg_pool_config config = {.queue_timeout_ms = 30000, .lock_timeout_ms = 30000};
    (void)state;
    calls = mem_calloc(CALLS_MAX, sizeof(*calls));
    conninfo = config.conninfo = pg_cluster_database(true);
    pg_bench_open(&bench, &config, true);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pg_bench_close(&bench);
    mem_free(calls);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_first_has_what_it_needs_and_half_of_the_rest, empty),
        cmocka_unit_test_setup(test_sums_stay_within_the_limit, empty),
        cmocka_unit_test_setup(test_parts_follow_the_need, empty),
        cmocka_unit_test_setup(test_a_lease_ends_by_itself, empty),
        cmocka_unit_test_setup(test_one_burst_for_all, empty),
        cmocka_unit_test_setup(test_what_is_owed_is_paid, empty),
        cmocka_unit_test_setup(test_calls_at_the_same_time, empty),
        cmocka_unit_test_setup(test_a_row_that_says_nothing_goes, empty),
    };
    return cmocka_run_group_tests_name("store/rate_lease", tests, set_up, tear_down);
}
