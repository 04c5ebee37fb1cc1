/*
 * A process's part of a limit: when it asks for a part, what it may use while it waits for an
 * answer, and what happens without an answer. The test answers for the database.
 */
#include "limit/lease.h"
#include "seam/seam.h"
#include "unit.h"

enum { RATE = 10, BURST = 8 };
#define CALLS(n) ((int64_t)(n)*LEASE_MILLION)

static struct {
    struct loop *loop;
    struct pg_pool *pool;
    struct leases *leases;
    struct lease lease;
    size_t backlog, floor, answers;
} t;

static void on_ask(struct lease *lease)
{
    lease->backlog = t.backlog;
    lease->floor = t.floor;
}

static void on_answer(struct lease *lease)
{
    assert_ptr_equal(lease, &t.lease);
    t.answers++;
}

static const struct lease_owner owner = {on_ask, on_answer};

static uint64_t now(void)
{
    return loop_now_ns(t.loop);
}

static void limit(int64_t total, int64_t burst)
{
    const struct uuid account = {{7}};
    lease_init(&t.lease, t.leases, &owner, account, SLICE("requests"));
    lease_set(&t.lease, total, burst, now());
}

static int set_up(void **state)
{
    const struct pg_pool_config config = {.conninfo = "host=seam"};
    struct err err;
    (void)state;
    seam_open(1);
    memset(&t, 0, sizeof(t));
    t.loop = loop_new(&err);
    t.pool = pg_pool_new(t.loop, &config, &err);
    t.leases = leases_new(t.loop, t.pool);
    assert_true(t.loop && t.pool && t.leases);
    seam_settle(t.loop);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lease_deinit(&t.lease);
    leases_close(t.leases);
    seam_pool_refuse(t.pool);
    seam_settle(t.loop);
    pg_pool_free(t.pool);
    seam_settle(t.loop);
    leases_free(t.leases);
    loop_free(t.loop);
    metric_deinit();
    return seam_close() ? 0 : -1;
}

/* Runs until all scheduled queries have been sent. */
static void pass(void)
{
    seam_pass_ms(t.loop, 1);
}

static struct pg_query *asked(void)
{
    struct pg_query *query = seam_query_named(t.pool, "rate_lease_take");
    assert_non_null(query);
    return query;
}

static bool is_quiet(void)
{
    return seam_query_count(t.pool) == 0;
}

static void answer(int64_t part, int64_t held)
{
    struct pg_query *query = asked();
    const struct pg_value cells[] = {*seam_param(query, "account_id"), *seam_param(query, "name"),
                                     pg_i64(part), pg_i64(held)};
    seam_row(query, cells);
    seam_query_done(query);
    seam_settle(t.loop);
}

/* Sends the first request of a limit, for one call. */
static void want(int64_t total, int64_t burst)
{
    limit(total, burst);
    t.backlog = 1;
    assert_true(lease_wants_more(&t.lease, now()));
    pass();
}

/* One call of `total` is under way, with this part. */
static void hold(int64_t total, int64_t part)
{
    want(total, 0);
    t.backlog = 0;
    t.floor = 1;
    answer(part, 0);
}

static void check_asked(const char *name, int64_t value)
{
    assert_int_equal(seam_param(asked(), name)->as.i64, value);
}

/* Acts as the owner of the limit: makes one call, or gets the time to wait for one. */
static bool call(void)
{
    lease_fill(&t.lease, now());
    lease_arrive(&t.lease, now());
    if (lease_wait_ns(&t.lease, 1) == 0) {
        lease_spend(&t.lease, 1);
        return true;
    }
    return false;
}

static void a_first_call_asks_at_once(void **state)
{
    (void)state;
    limit(CALLS(RATE), CALLS(BURST));
    assert_true(is_quiet());
    assert_false(call());
    t.backlog = 1;
    assert_true(lease_wants_more(&t.lease, now()));
    pass();
    check_asked("backlog", CALLS(1));
    check_asked("total", CALLS(RATE));
    check_asked("used", 0);
    answer(CALLS(5), CALLS(3));
    assert_int_equal(t.answers, 1);
    t.backlog = 0;
    for (int i = 0; i < 3; i++)
        assert_true(call());
    assert_false(call());
}

/* A process that got more than it wanted asks again soon. Any other process waits for its turn. */
static void one_that_was_refused_asks_at_its_tick_alone(void **state)
{
    (void)state;
    want(CALLS(RATE), CALLS(BURST));
    answer(CALLS(5), CALLS(1));
    assert_true(call());
    assert_true(lease_wants_more(&t.lease, now()));
    seam_pass_ms(t.loop, LEASE_GAP_MS);
    answer(CALLS(5), 0);
    assert_false(lease_wants_more(&t.lease, now()));
    seam_pass_ms(t.loop, LEASE_TICK_MS / 2);
    assert_true(is_quiet());
    seam_pass_ms(t.loop, LEASE_TICK_MS / 2 + 1);
    (void)asked();
    answer(CALLS(5), 0);
}

static void use_is_reported_once_a_tick(void **state)
{
    (void)state;
    limit(CALLS(RATE), CALLS(BURST));
    t.backlog = 1;
    (void)lease_wants_more(&t.lease, now());
    pass();
    answer(CALLS(RATE), CALLS(BURST));
    t.backlog = 0;
    for (int i = 0; i < 4; i++)
        assert_true(call());
    seam_pass_ms(t.loop, LEASE_TICK_MS);
    check_asked("used", CALLS(4));
    check_asked("need", CALLS(4 * 1000 / LEASE_TICK_MS));
    /* it returns half of the rest, and may use the other half while it waits */
    int64_t kept = seam_param(asked(), "kept")->as.i64;
    assert_true(kept >= CALLS(2) && kept <= CALLS(5));
    assert_true(call());
    answer(CALLS(RATE), kept);
    lease_fill(&t.lease, now());
    assert_true(t.lease.tokens.tokens <= (double)kept / LEASE_MILLION - 1 + 1e-6);
    seam_pass_ms(t.loop, LEASE_TICK_MS);
    check_asked("used", CALLS(1));
    answer(CALLS(RATE), 0);
}

static void one_that_nothing_uses_asks_nothing(void **state)
{
    (void)state;
    limit(CALLS(RATE), CALLS(BURST));
    t.backlog = 1;
    (void)lease_wants_more(&t.lease, now());
    pass();
    t.backlog = 0;
    answer(CALLS(RATE), CALLS(BURST));
    seam_pass_ms(t.loop, 60 * 1000);
    assert_true(is_quiet());
    assert_false(call()); /* its lease is over */
    assert_int_equal(t.lease.part, 0);
}

static void without_an_answer_the_last_part_stays_valid(void **state)
{
    int served = 0;
    (void)state;
    limit(CALLS(RATE), CALLS(BURST));
    t.backlog = 1;
    (void)lease_wants_more(&t.lease, now());
    pass();
    t.backlog = 0;
    answer(CALLS(RATE) / 2, 0);
    seam_pass_ms(t.loop, 400);
    assert_true(call());
    seam_pass_ms(t.loop, LEASE_TICK_MS);
    seam_query_fail(asked(), ERR_TIMEOUT);
    seam_settle(t.loop);
    for (int i = 0; i < 40; i++) {
        seam_pass_ms(t.loop, LEASE_TICK_MS);
        while (call())
            served++;
        if (!is_quiet())
            seam_query_fail(asked(), ERR_BUSY);
        pass();
    }
    assert_in_range(served, 20 * RATE / 2 - 2, 20 * RATE / 2 + BURST / 2 + 2);
    seam_pass_ms(t.loop, LEASE_TICK_MS + 1);
    assert_true(seam_param(asked(), "used")->as.i64 >=
                CALLS(served)); /* all that was used is reported, once the database is back */
    answer(CALLS(1), 0);
    assert_int_equal(t.lease.part, CALLS(1));
}

/* pg limits a request's wait in its queue. One that was sent may take until statement_timeout. */
static void a_request_that_hangs_is_not_answered(void **state)
{
    int served = 0;
    (void)state;
    limit(CALLS(RATE), CALLS(BURST));
    t.backlog = 1;
    (void)lease_wants_more(&t.lease, now());
    pass();
    t.backlog = 0;
    answer(CALLS(RATE) / 2, CALLS(4));
    assert_true(call());
    seam_pass_ms(t.loop, LEASE_TICK_MS);
    (void)asked();
    seam_pass_ms(t.loop, 1000);
    assert_int_equal(t.answers, 2); /* its calls check again */
    for (int i = 0; i < 20; i++) {
        seam_pass_ms(t.loop, 500);
        while (call())
            served++;
    }
    assert_in_range(served, 10 * RATE / 2, 11 * RATE / 2 + BURST);
    assert_int_equal(seam_query_count(t.pool), 1);
    seam_query_lose(asked());
    pass();
    assert_int_equal(t.lease.part, CALLS(RATE) / 2);
    seam_pass_ms(t.loop, LEASE_TICK_MS);
    assert_true(seam_param(asked(), "used")->as.i64 >= CALLS(served));
    answer(CALLS(1), 0);
    assert_int_equal(t.lease.part, CALLS(1));
}

/* An answer that is late counts: it shows that the database is reachable. */
static void a_late_answer_counts(void **state)
{
    (void)state;
    limit(3, 0);
    t.backlog = 1;
    assert_true(lease_wants_more(&t.lease, now()));
    seam_pass_ms(t.loop, 999);
    assert_int_equal(t.answers, 0);
    seam_pass_ms(t.loop, 2);
    assert_int_equal(t.answers, 1);
    lease_fill(&t.lease, now());
    assert_int_equal(t.lease.part, 3);
    assert_false(lease_wants_more(&t.lease, now()));
    answer(2, 0);
    assert_int_equal(t.lease.part, 2);
}

/* The lost answer may have taken from this process what another process has by now. */
static void after_a_lost_answer_the_floor_stays(void **state)
{
    (void)state;
    hold(4, 3);
    seam_pass_ms(t.loop, LEASE_TICK_MS);
    check_asked("floor", 1);
    seam_query_lose(asked());
    seam_settle(t.loop);
    assert_int_equal(t.lease.part, 1);
    assert_int_equal(t.answers, 1);
    seam_pass_ms(t.loop, LEASE_GAP_MS);
    check_asked("floor", 1); /* it is repeated at once */
    seam_query_lose(asked());
    seam_pass_ms(t.loop, 2 * LEASE_GAP_MS);
    assert_int_equal(t.lease.part, 1);
    answer(2, 0);
    assert_int_equal(t.lease.part, 2);
    seam_pass_ms(t.loop, LEASE_TICK_MS);
    seam_query_lose(asked());
    seam_pool_away_set(t.pool, true);
    seam_pass_ms(t.loop, 900);
    assert_int_equal(t.lease.part, 1);
    seam_pass_ms(t.loop, 101);
    assert_int_equal(t.lease.part, 2); /* the database is unreachable */
    seam_pool_away_set(t.pool, false);
}

/* A repetition that cannot be sent says nothing about the lost request. */
static void after_a_lost_answer_no_other_failure_ends_the_floor(void **state)
{
    static const enum err_code failures[] = {ERR_BUSY, ERR_TIMEOUT};
    (void)state;
    hold(4, 3);
    seam_pass_ms(t.loop, LEASE_TICK_MS);
    check_asked("floor", 1);
    seam_query_lose(asked());
    for (size_t i = 0; i < 2 * ARRAY_LEN(failures); i++) {
        seam_pass_ms(t.loop, LEASE_GAP_MS + 1);
        seam_query_fail(asked(), failures[i / 2]);
        seam_settle(t.loop);
        assert_int_equal(t.lease.part, 1);
    }
    seam_pass_ms(t.loop, LEASE_GAP_MS + 1);
    answer(2, 0);
    assert_int_equal(t.lease.part, 2);
    /* after its second it is not repeated */
    seam_pass_ms(t.loop, LEASE_TICK_MS);
    seam_query_lose(asked());
    seam_pool_away_set(t.pool, true);
    seam_pass_ms(t.loop, 1001);
    assert_int_equal(t.lease.part, 2);
    seam_pool_away_set(t.pool, false);
}

/* On a cluster one node may be dead, while the others answer. */
static void a_limit_without_an_answer_changes_no_other(void **state)
{
    const struct uuid account = {{8}};
    struct lease other;
    (void)state;
    limit(3, 0);
    lease_init(&other, t.leases, &owner, account, SLICE("calls"));
    lease_set(&other, 3, 0, now());
    t.backlog = 1;
    assert_true(lease_wants_more(&t.lease, now()));
    pass();
    seam_query_fail(asked(), ERR_BUSY);
    seam_settle(t.loop);
    lease_fill(&other, now());
    lease_fill(&t.lease, now());
    assert_int_equal(other.part, 0);
    assert_int_equal(t.lease.part, 3);
    lease_deinit(&other);
}

/* A process that starts while the database is unreachable acts as if it were the only one. */
static void without_a_part_it_has_the_whole(void **state)
{
    int served = 0;
    (void)state;
    want(CALLS(RATE), CALLS(BURST));
    seam_query_fail(asked(), ERR_BUSY);
    pass();
    assert_int_equal(t.answers, 1);
    while (call())
        served++;
    assert_int_equal(served, BURST);
}

/* The whole ends with the first answer, even if nothing has used it since. */
static void the_whole_ends_when_the_database_is_back(void **state)
{
    (void)state;
    want(3, 0);
    t.backlog = 0;
    seam_query_fail(asked(), ERR_BUSY);
    seam_settle(t.loop);
    lease_fill(&t.lease, now());
    assert_int_equal(t.lease.part, 3);
    for (int i = 0; i < 10; i++) {
        seam_pass_ms(t.loop, LEASE_TICK_MS);
        seam_query_fail(asked(), ERR_BUSY);
    }
    seam_pass_ms(t.loop, LEASE_TICK_MS);
    check_asked("floor", 0);
    answer(1, 0);
    assert_int_equal(t.lease.part, 1);
    seam_pass_ms(t.loop, 10 * LEASE_TICK_MS);
    assert_true(is_quiet());
}

/* The part that concurrent calls under way use is not returned. */
static void calls_under_way_are_kept(void **state)
{
    (void)state;
    want(3, 0);
    check_asked("need", 1);
    t.backlog = 0;
    t.floor = 1;
    answer(2, 0);
    assert_int_equal(t.lease.part, 2);
    for (int i = 0; i < 10; i++) { /* as long as the call is under way */
        seam_pass_ms(t.loop, LEASE_TICK_MS);
        check_asked("floor", 1);
        answer(1, 0);
        assert_int_equal(t.lease.part, 1);
    }
    t.floor = 0;
    seam_pass_ms(t.loop, LEASE_TICK_MS);
    answer(0, 0);
    seam_pass_ms(t.loop, 10 * LEASE_TICK_MS);
    assert_true(is_quiet());
}

/* The database may give what is not under way to another process at any time before the answer. */
static void no_call_starts_above_the_floor_of_a_request(void **state)
{
    (void)state;
    hold(3, 3);
    assert_int_equal(t.lease.part, 3);
    seam_pass_ms(t.loop, LEASE_TICK_MS);
    check_asked("floor", 1);
    lease_fill(&t.lease, now());
    assert_int_equal(t.lease.part, 1);
    answer(2, 0);
    assert_int_equal(t.lease.part, 2);
    seam_pass_ms(t.loop, LEASE_TICK_MS);
    assert_int_equal(t.lease.part, 1);
    seam_query_fail(asked(), ERR_TIMEOUT);
    seam_settle(t.loop);
    assert_int_equal(t.lease.part, 2); /* that of the last answer */
    seam_pass_ms(t.loop, LEASE_TICK_MS);
    check_asked("floor", 2);
    assert_int_equal(t.lease.part, 2);
    answer(3, 0);
    assert_int_equal(t.lease.part, 3);
}

static void many_are_asked_for_together(void **state)
{
    static struct lease many[LEASE_FLUSH_MAX + 5];
    const struct uuid account = {{8}};
    (void)state;
    for (size_t i = 0; i < LEASE_FLUSH_MAX + 5; i++) {
        char name[8] = {'l', (char)('a' + i / 676), (char)('a' + i / 26 % 26),
                        (char)('a' + i % 26)};
        lease_init(&many[i], t.leases, &owner, account, slice_cstr(name));
        lease_set(&many[i], CALLS(RATE), CALLS(BURST), now());
        assert_true(lease_wants_more(&many[i], now()));
    }
    pass();
    assert_int_equal(seam_query_count(t.pool), LEASE_FLUSH_MAX);
    for (size_t i = 0; i < LEASE_FLUSH_MAX + 5; i++) /* before their answers have arrived */
        lease_deinit(&many[i]);
    while (!is_quiet())
        answer(CALLS(1), 0);
    assert_int_equal(t.answers, 0);
}

/* ---- many limits of a dead node ---- */

static void on_nothing(struct lease *lease)
{
    (void)lease;
}

static const struct lease_owner silent_owner = {on_nothing, on_nothing};

/* Makes limits whose requests are not answered. */
static void begin_dead(struct lease *many, size_t count)
{
    const struct uuid account = {{8}};
    for (size_t i = 0; i < count; i++) {
        char name[8] = {'l', (char)('a' + i / 676), (char)('a' + i / 26 % 26),
                        (char)('a' + i % 26)};
        memset(&many[i], 0, sizeof(many[i]));
        lease_init(&many[i], t.leases, &silent_owner, account, slice_cstr(name));
        lease_set(&many[i], 3, 0, now());
        assert_true(lease_wants_more(&many[i], now()));
    }
}

static void end_dead(struct lease *many, size_t count)
{
    for (size_t i = 0; i < count; i++)
        lease_deinit(&many[i]);
    while (!is_quiet())
        seam_query_fail(asked(), ERR_TIMEOUT);
    seam_settle(t.loop);
}

/* Requests without an answer, even those that were sent, leave room for others after a second. */
static void limits_of_a_dead_node_leave_room_for_others(void **state)
{
    enum { DEAD = LEASE_FLUSH_MAX };
    static struct lease many[DEAD];
    (void)state;
    begin_dead(many, DEAD);
    pass();
    limit(3, 0);
    t.backlog = 1;
    assert_true(lease_wants_more(&t.lease, now()));
    seam_pass_ms(t.loop, 900);
    assert_int_equal(seam_query_count(t.pool), DEAD);
    seam_pass_ms(t.loop, 150);
    assert_int_equal(seam_query_count(t.pool), DEAD + 1);
    assert_int_equal(t.lease.part, 0);
    /* the requests without an answer end, and only a few are repeated */
    while (seam_query_count(t.pool) > 1) {
        struct pg_query *query = asked();
        if (seam_param(query, "name")->as.bytes.ptr[0] != 'l')
            break;
        seam_query_fail(query, ERR_TIMEOUT);
    }
    seam_settle(t.loop);
    answer(2, 0);
    assert_int_equal(t.lease.part, 2);
    seam_pass_ms(t.loop, LEASE_TICK_MS);
    assert_int_equal(seam_query_count(t.pool), DEAD / 4 + 1);
    end_dead(many, DEAD);
}

/* A limit for which there is no room keeps its part, as if it had asked. */
static void a_limit_without_room_keeps_its_part(void **state)
{
    enum { DEAD = 2 * LEASE_FLUSH_MAX };
    static struct lease many[DEAD];
    (void)state;
    hold(3, 2);
    begin_dead(many, DEAD);
    seam_pass_ms(t.loop, LEASE_GAP_MS);
    assert_int_equal(seam_query_count(t.pool), LEASE_FLUSH_MAX);
    for (unsigned i = 0; i < 5; i++) {
        seam_pass_ms(t.loop, LEASE_TICK_MS);
        lease_fill(&t.lease, now());
        assert_true(t.lease.part >= 1);
    }
    assert_int_equal(t.lease.part, 2);
    end_dead(many, DEAD);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_first_call_asks_at_once),
        TEST(one_that_was_refused_asks_at_its_tick_alone),
        TEST(use_is_reported_once_a_tick),
        TEST(one_that_nothing_uses_asks_nothing),
        TEST(without_an_answer_the_last_part_stays_valid),
        TEST(a_request_that_hangs_is_not_answered),
        TEST(a_late_answer_counts),
        TEST(after_a_lost_answer_the_floor_stays),
        TEST(after_a_lost_answer_no_other_failure_ends_the_floor),
        TEST(a_limit_without_an_answer_changes_no_other),
        TEST(without_a_part_it_has_the_whole),
        TEST(the_whole_ends_when_the_database_is_back),
        TEST(calls_under_way_are_kept),
        TEST(no_call_starts_above_the_floor_of_a_request),
        TEST(many_are_asked_for_together),
        TEST(limits_of_a_dead_node_leave_room_for_others),
        TEST(a_limit_without_room_keeps_its_part),
    };
    return cmocka_run_group_tests_name("limit/lease", tests, NULL, NULL);
}
