/*
 * Circuits, with a clock that the test sets: when they open, for which accounts, and how they
 * close.
 */
#include "limit/breaker.h"
#include "unit.h"

#define ORIGIN SLICE("https://api.example.com")

static const uint64_t MS = 1000000;
static struct breaker *breaker;
static uint64_t now;
static struct uuid anna = {{1}}, bert = {{2}};

static const struct breaker_config config = {
    .volume_min = 10, .window_ms = 1000, .open_ms = 100, .open_ms_max = 350, .origins_max = 3};

static void begin(const struct breaker_config *with)
{
    breaker = breaker_new(with);
    assert_non_null(breaker);
    now = 1000000 * MS;
}

static int end(void **state)
{
    (void)state;
    breaker_free(breaker);
    breaker = NULL;
    return unit_end();
}

static struct uuid account_of(unsigned number)
{
    struct uuid id = {{9}};
    memcpy(id.bytes + 8, &number, sizeof(number));
    return id;
}

static struct breaker_key key_of(slice origin, struct uuid account)
{
    return (struct breaker_key){.account_id = account, .origin = origin};
}

/* A host that a connection to the integration "http" names. */
static struct breaker_key given(slice origin, struct uuid account)
{
    return (struct breaker_key){account, origin, SLICE("http"), true};
}

static bool enter_as(struct breaker_pass *pass, const struct breaker_key *key)
{
    struct breaker_refusal refusal;
    bool would_refuse = breaker_would_refuse(breaker, key, now);
    *pass = (struct breaker_pass){0};
    bool is_in = breaker_enter(breaker, pass, key, now, &refusal);
    assert_int_equal(is_in, refusal.retry_ms == 0);
    assert_true(!would_refuse || !is_in);
    return is_in;
}

static bool enter(struct breaker_pass *pass, slice origin, struct uuid account)
{
    struct breaker_key key = key_of(origin, account);
    return enter_as(pass, &key);
}

/* Runs one execution. Returns false if it was refused. */
static bool vote_as(struct breaker_key key, bool is_failure)
{
    struct breaker_pass pass;
    if (!enter_as(&pass, &key))
        return false;
    breaker_report(&pass, is_failure, now);
    assert_null(pass.member);
    breaker_leave(&pass); /* harmless */
    return true;
}

static bool vote(slice origin, struct uuid account, bool is_failure)
{
    return vote_as(key_of(origin, account), is_failure);
}

static void fail_times(unsigned count, struct uuid account)
{
    for (unsigned i = 0; i < count; i++)
        assert_true(vote(ORIGIN, account, true));
}

static void succeed_times(unsigned count, struct uuid account)
{
    for (unsigned i = 0; i < count; i++)
        assert_true(vote(ORIGIN, account, false));
}

static bool is_refused(struct uuid account)
{
    struct breaker_pass pass;
    bool is_refused = !enter(&pass, ORIGIN, account);
    breaker_leave(&pass);
    return is_refused;
}

/* The time for which it is refused. */
static uint64_t refusal_ms(struct uuid account, bool is_of_all)
{
    struct breaker_pass pass = {0};
    struct breaker_refusal refusal;
    struct breaker_key key = key_of(ORIGIN, account);
    assert_false(breaker_enter(breaker, &pass, &key, now, &refusal));
    assert_int_equal(refusal.is_of_all, is_of_all);
    return refusal.retry_ms;
}

static double gauge(void)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    metric_render(&text);
    slice all = buf_slice(&text), name = SLICE("\nsluice_circuit_open{");
    ptrdiff_t at = slice_find(all, name);
    slice line = at < 0 ? SLICE("} 0") : slice_from(all, (size_t)at + name.len);
    double value = slice_from(line, (size_t)slice_find(line, SLICE("} ")) + 2).ptr[0] - '0';
    buf_deinit(&text);
    return value;
}

/* ---- the circuit of an account ---- */

static void it_opens_when_half_of_enough_have_failed(void **state)
{
    (void)state;
    begin(&config);
    fail_times(9, anna);
    assert_false(is_refused(anna)); /* too few executions for a decision */
    assert_true(vote(ORIGIN, anna, true));
    assert_true(is_refused(anna));
    /* other origins are not refused */
    assert_true(vote(SLICE("https://other.example.com"), anna, true));
    assert_in_range(refusal_ms(anna, false), 100, 125); /* including its jitter */
}

static void fewer_than_half_do_not_open_it(void **state)
{
    (void)state;
    begin(&config);
    for (unsigned i = 0; i < 100; i++) {
        succeed_times(11, anna);
        fail_times(9, anna);
    }
    assert_false(is_refused(anna));
    fail_times(20 * 10, anna);
    assert_true(is_refused(anna));
}

static void what_is_long_past_does_not_count(void **state)
{
    (void)state;
    begin(&config);
    for (unsigned i = 0; i < 50; i++) {
        fail_times(4, anna);
        now += 600 * MS; /* never ten in one window */
    }
    assert_false(is_refused(anna));
    now += 1000 * MS;
    fail_times(4, anna);
    now += 400 * MS;
    fail_times(6, anna);
    assert_true(is_refused(anna));
}

static void its_own_successes_do_not_excuse_an_account(void **state)
{
    (void)state;
    begin(&config);
    succeed_times(3, anna);
    fail_times(7, anna);
    assert_true(is_refused(anna));
}

/* Opens the circuit for anna, and waits until its time is over. */
static void open_and_wait(void)
{
    begin(&config);
    fail_times(10, anna);
    assert_true(is_refused(anna));
    now += 125 * MS;
}

static void a_probe_that_succeeds_closes_it(void **state)
{
    struct breaker_pass probes[3], more;
    (void)state;
    open_and_wait();
    for (unsigned i = 0; i < 3; i++) {
        assert_true(enter(&probes[i], ORIGIN, anna));
        assert_true(probes[i].is_probe);
        assert_false(breaker_is_open(&probes[i], now));
    }
    assert_false(enter(&more, ORIGIN, anna)); /* a few probes, not all calls */
    breaker_leave(&probes[0]);                /* the probe's client disconnected */
    assert_true(enter(&more, ORIGIN, anna));
    breaker_report(&more, false, now);
    assert_false(is_refused(anna));
    breaker_report(&probes[1], true, now); /* by now it counts as one result among others */
    breaker_leave(&probes[2]);
    assert_false(is_refused(anna));
    fail_times(8, anna);
    assert_false(is_refused(anna)); /* earlier results are dropped */
}

static void a_probe_that_fails_opens_it_for_longer(void **state)
{
    static const uint64_t open_ms[] = {200, 350, 350};
    struct breaker_pass late, probe;
    (void)state;
    open_and_wait();
    assert_true(enter(&late, ORIGIN, anna));
    for (unsigned i = 0; i < 3; i++) {
        assert_true(enter(&probe, ORIGIN, anna));
        breaker_report(&probe, true, now);
        uint64_t retry_ms = refusal_ms(anna, false);
        assert_in_range(retry_ms, open_ms[i], open_ms[i] * 5 / 4);
        now += retry_ms * MS;
    }
    assert_true(enter(&probe, ORIGIN, anna));
    breaker_report(&probe, false, now);
    breaker_report(&late, true, now); /* by now it counts as one result among others */
    assert_false(is_refused(anna));
    fail_times(9, anna);
    assert_in_range(refusal_ms(anna, false), 100, 125); /* once closed, the circuit counts from
                                                         * zero */
}

static void those_under_way_when_it_opens_have_no_second_vote(void **state)
{
    struct breaker_pass early[20];
    (void)state;
    begin(&config);
    for (unsigned i = 0; i < 20; i++)
        assert_true(enter(&early[i], ORIGIN, anna));
    for (unsigned i = 0; i < 10; i++)
        breaker_report(&early[i], true, now);
    assert_true(is_refused(anna));
    assert_true(breaker_is_open(&early[10], now)); /* another attempt would not help */
    for (unsigned i = 10; i < 19; i++)
        breaker_report(&early[i], true, now);
    breaker_report(&early[19], false, now); /* not a probe, since its answer may be older */
    assert_true(is_refused(anna));
    now += 125 * MS;
    assert_false(is_refused(anna));
}

/* ---- the circuit of an origin ---- */

static void one_account_is_never_the_cause_for_others(void **state)
{
    (void)state;
    begin(&config);
    fail_times(10, anna);
    assert_true(is_refused(anna));
    assert_false(is_refused(bert)); /* no other account has called so far */
    succeed_times(5, bert);
    for (unsigned i = 0; i < 9; i++) /* two accounts, with more failures than all others */
        assert_true(vote(ORIGIN, account_of(0), true));
    for (unsigned i = 0; i < 100; i++)
        assert_true(vote(ORIGIN, bert, false));
}

/* Makes each of `count` accounts fail this many times. */
static void accounts_fail(unsigned count, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        for (unsigned number = 0; number < count; number++)
            (void)vote(ORIGIN, account_of(number), true);
}

static void it_opens_for_all_where_most_accounts_failed(void **state)
{
    (void)state;
    begin(&config);
    accounts_fail(2, 5);
    assert_false(is_refused(anna)); /* enough executions, but too few accounts */
    accounts_fail(3, 1);
    assert_in_range(refusal_ms(anna, true), 100, 125);
    assert_true(is_refused(account_of(0)));
    assert_int_equal(gauge(), 1);
}

static void a_minority_of_accounts_opens_nothing_however_often_it_fails(void **state)
{
    (void)state;
    begin(&config);
    for (unsigned number = 0; number < 5; number++)
        assert_true(vote(ORIGIN, account_of(100 + number), false));
    accounts_fail(4, 9);
    assert_false(is_refused(anna));
    assert_int_equal(gauge(), 0);
    accounts_fail(5, 1);
    assert_true(is_refused(anna)); /* five of ten */
}

static void no_account_counts_twice(void **state)
{
    (void)state;
    begin(&config);
    for (unsigned i = 0; i < 4; i++) { /* two accounts that fail, in each half of a window */
        accounts_fail(2, 3);
        succeed_times(2, bert);
        assert_true(vote(ORIGIN, bert, true)); /* bert fails only occasionally */
        assert_false(is_refused(anna));
        now += 500 * MS;
    }
    now += 5000 * MS;
    accounts_fail(2, 4); /* old failures do not count */
    assert_false(is_refused(anna));
}

static void an_account_that_succeeds_continues_and_closes_it(void **state)
{
    struct breaker_pass pass;
    (void)state;
    begin(&config);
    assert_true(vote(ORIGIN, bert, false));
    accounts_fail(4, 3);
    assert_true(is_refused(anna));
    assert_true(enter(&pass, ORIGIN, bert));
    assert_false(pass.is_probe);
    breaker_report(&pass, true, now); /* the circuit also applies to this account */
    assert_true(is_refused(bert));
    now += 125 * MS;
    assert_true(vote(ORIGIN, bert, false));
    assert_false(is_refused(anna));
    accounts_fail(4, 3);
    assert_true(is_refused(anna));
    assert_true(vote(ORIGIN, bert, false)); /* this success closes the circuit at once */
    assert_false(is_refused(anna));
    assert_int_equal(gauge(), 0);
}

static void probes_are_spread_over_accounts(void **state)
{
    struct breaker_pass probes[3], more;
    (void)state;
    begin(&config);
    accounts_fail(4, 3);
    now += 125 * MS;
    for (unsigned number = 0; number < 3; number++) {
        assert_true(enter(&probes[number], ORIGIN, account_of(number)));
        assert_true(probes[number].is_probe);
        assert_false(enter(&more, ORIGIN, account_of(number))); /* one probe at a time for each
                                                                 * account */
    }
    assert_false(enter(&more, ORIGIN, bert));
    breaker_report(&probes[0], true, now);
    assert_in_range(refusal_ms(account_of(0), true), 200, 250);
    breaker_leave(&probes[1]);
    now += 25 * MS; /* the circuit is still open, but bert did not fail: */
    assert_true(is_refused(account_of(0)));
    assert_true(enter(&more, ORIGIN, bert));
    assert_true(more.is_probe);
    breaker_leave(&probes[2]);
    assert_true(is_refused(anna)); /* only an occasional probe is allowed */
    breaker_report(&more, false, now);
    assert_false(is_refused(anna));
}

static void what_closes_it_lets_accounts_probe(void **state)
{
    (void)state;
    begin(&config);
    accounts_fail(1, 10); /* opens the circuit of this account */
    now += 25 * MS;
    accounts_fail(4, 4);
    assert_true(is_refused(account_of(0)));
    now += 30 * MS;
    assert_true(vote(ORIGIN, bert, false)); /* a probe */
    assert_true(vote(ORIGIN, account_of(0), true));
    assert_true(is_refused(account_of(0))); /* exactly one probe was allowed */
    now += 1000 * MS;
    assert_true(vote(ORIGIN, account_of(0), false));
    assert_false(is_refused(account_of(0)));
}

static void the_metric_says_when_it_answers_none(void **state)
{
    (void)state;
    begin(&config);
    fail_times(10, anna); /* the only account */
    assert_int_equal(gauge(), 1);
    now += 125 * MS;
    assert_true(vote(ORIGIN, anna, false));
    assert_int_equal(gauge(), 0);
    succeed_times(1, bert);
    fail_times(10, anna);
    assert_int_equal(gauge(), 0); /* bert is served */
    assert_true(is_refused(anna));
}

/* If others use the server, one account's calls may be the cause, even while the others are
 * quiet. */
static void one_account_of_several_sets_no_metric(void **state)
{
    (void)state;
    begin(&config);
    assert_true(vote(SLICE("https://other.example.com"), bert, false));
    fail_times(10, anna);
    assert_true(is_refused(anna));
    assert_int_equal(gauge(), 0);
    now += 125 * MS;
    assert_true(vote(ORIGIN, anna, false));
    fail_times(9, anna);
    fail_times(10, bert); /* now the origin answers none of the accounts */
    assert_int_equal(gauge(), 1);
}

/* ---- hosts that connections name ---- */

static void a_host_that_a_connection_names_is_its_accounts_own_affair(void **state)
{
    (void)state;
    begin(&config);
    for (unsigned number = 0; number < 20; number++)
        for (unsigned i = 0; i < 9; i++)
            assert_true(vote_as(given(ORIGIN, account_of(number)), true));
    assert_false(is_refused(anna)); /* the app at this origin */
    assert_true(vote_as(given(ORIGIN, anna), false));
    assert_true(vote_as(given(ORIGIN, account_of(0)), true)); /* its tenth failure */
    assert_false(vote_as(given(ORIGIN, account_of(0)), true));
    assert_false(is_refused(account_of(0)));
    assert_int_equal(gauge(), 0);
    struct buf text;
    buf_init(&text, 1 << 20);
    metric_render(&text);
    assert_true(slice_find(buf_slice(&text), ORIGIN) < 0); /* an origin is not a label */
    buf_deinit(&text);
}

/* ---- bounds ---- */

static void memory_is_bounded(void **state)
{
    struct breaker_pass passes[3], more;
    char text[64];
    (void)state;
    begin(&config);
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(text, sizeof(text), "https://h%u", i);
        assert_true(vote(slice_cstr(text), anna, true));
    }
    size_t blocks = mem_live_blocks();
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(text, sizeof(text), "https://g%u", i);
        assert_true(vote(slice_cstr(text), anna, true));
    }
    assert_int_equal(mem_live_blocks(), blocks);
    for (unsigned i = 0; i < 3; i++) {
        (void)snprintf(text, sizeof(text), "https://used%u", i);
        assert_true(enter(&passes[i], slice_cstr(text), anna));
        assert_non_null(passes[i].member);
    }
    assert_true(enter(&more, ORIGIN, anna)); /* all slots are in use, so it is not counted */
    assert_null(more.member);
    breaker_report(&more, true, now);
    for (unsigned i = 0; i < 3; i++)
        breaker_leave(&passes[i]);
}

static void an_account_with_many_hosts_displaces_itself(void **state)
{
    struct breaker_config few = config;
    char text[64];
    unsigned kept = 0;
    (void)state;
    few.members_max = 256 * 4;
    begin(&few);
    for (unsigned number = 0; number < 64; number++)
        for (unsigned i = 0; i < 10; i++)
            (void)vote_as(given(ORIGIN, account_of(number)), true);
    size_t blocks = mem_live_blocks();
    for (unsigned i = 0; i < 5000; i++) {
        (void)snprintf(text, sizeof(text), "https://h%u", i);
        assert_true(vote_as(given(slice_cstr(text), anna), true));
    }
    assert_true(mem_live_blocks() <= blocks + 4 + 1); /* the map grew */
    for (unsigned number = 0; number < 64; number++)
        kept += !vote_as(given(ORIGIN, account_of(number)), true);
    assert_true(kept >= 56); /* those in the same slot as anna have lost their circuits */
}

static void many_accounts_are_bounded(void **state)
{
    struct breaker_config few = config;
    (void)state;
    few.members_max = 256;
    begin(&few);
    for (unsigned number = 0; number < 20000; number++)
        (void)vote(ORIGIN, account_of(number), number % 3 == 0);
    assert_true(mem_live_blocks() < 256 + 8);
    assert_false(is_refused(anna));
}

static void it_can_be_switched_off(void **state)
{
    static const struct breaker_config off = {.volume_min = 0};
    (void)state;
    begin(&off);
    fail_times(1000, anna);
    accounts_fail(100, 10);
    assert_false(is_refused(anna));
}

static void an_origin_is_scheme_and_authority(void **state)
{
    static const char *const table[][2] = {
        {"https://a.example/b/c?d", "https://a.example"},
        {"https://a.example:8443?x=/", "https://a.example:8443"},
        {"http://[::1]:80", "http://[::1]:80"},
        {"https://a.example", "https://a.example"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_true(slice_eq_cstr(breaker_origin_of(slice_cstr(table[i][0])), table[i][1]));
}

/* ---- other processes ---- */

static void what_another_process_opened_is_open_here(void **state)
{
    const struct breaker_news opened = {BREAKER_OPENS, 200}, closed = {BREAKER_CLOSES, 0};
    struct breaker_key key = key_of(ORIGIN, anna), other = key_of(ORIGIN, bert);
    (void)state;
    begin(&config);
    breaker_hear(breaker, &key, false, &opened, now);
    assert_true(breaker_would_refuse(breaker, &key, now));
    assert_false(breaker_would_refuse(breaker, &other, now));
    breaker_hear(breaker, &key, false, &closed, now);
    assert_false(breaker_would_refuse(breaker, &key, now));
    breaker_hear(breaker, &key, true, &opened, now);
    assert_true(breaker_would_refuse(breaker, &key, now));
    breaker_hear(breaker, &key, true, &closed, now);
    assert_false(breaker_would_refuse(breaker, &key, now));
    /* refuses calls for no longer than this process itself would: 350 ms plus a quarter */
    breaker_hear(breaker, &key, false, &(struct breaker_news){BREAKER_OPENS, 3600000}, now);
    assert_true(breaker_would_refuse(breaker, &key, now + 436 * MS));
    assert_false(breaker_would_refuse(breaker, &key, now + 437 * MS));
}

static void circuits_that_are_off_hear_nothing(void **state)
{
    const struct breaker_news opened = {BREAKER_OPENS, 200};
    const struct breaker_config off = {.volume_min = 0};
    struct breaker_key key = key_of(ORIGIN, anna);
    (void)state;
    begin(&off);
    breaker_hear(breaker, &key, false, &opened, now);
    assert_false(breaker_would_refuse(breaker, &key, now));
}

static void a_vote_says_what_it_has_turned(void **state)
{
    (void)state;
    begin(&config);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(breaker_news(breaker)->own.turn, BREAKER_STAYS);
        vote(ORIGIN, anna, true);
    }
    assert_int_equal(breaker_news(breaker)->own.turn, BREAKER_OPENS);
    assert_in_range(breaker_news(breaker)->own.for_ms, 100, 125);
    assert_int_equal(breaker_news(breaker)->all.turn, BREAKER_STAYS);
    now += 125 * MS;
    vote(ORIGIN, anna, false); /* a probe */
    assert_int_equal(breaker_news(breaker)->own.turn, BREAKER_CLOSES);
}

#define TEST(function) cmocka_unit_test_teardown(function, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_opens_when_half_of_enough_have_failed),
        TEST(fewer_than_half_do_not_open_it),
        TEST(what_is_long_past_does_not_count),
        TEST(its_own_successes_do_not_excuse_an_account),
        TEST(a_probe_that_succeeds_closes_it),
        TEST(a_probe_that_fails_opens_it_for_longer),
        TEST(those_under_way_when_it_opens_have_no_second_vote),
        TEST(one_account_is_never_the_cause_for_others),
        TEST(it_opens_for_all_where_most_accounts_failed),
        TEST(a_minority_of_accounts_opens_nothing_however_often_it_fails),
        TEST(no_account_counts_twice),
        TEST(an_account_that_succeeds_continues_and_closes_it),
        TEST(probes_are_spread_over_accounts),
        TEST(what_closes_it_lets_accounts_probe),
        TEST(the_metric_says_when_it_answers_none),
        TEST(one_account_of_several_sets_no_metric),
        TEST(a_host_that_a_connection_names_is_its_accounts_own_affair),
        TEST(memory_is_bounded),
        TEST(an_account_with_many_hosts_displaces_itself),
        TEST(many_accounts_are_bounded),
        TEST(it_can_be_switched_off),
        TEST(what_another_process_opened_is_open_here),
        TEST(circuits_that_are_off_hear_nothing),
        TEST(a_vote_says_what_it_has_turned),
        cmocka_unit_test(an_origin_is_scheme_and_authority),
    };
    return cmocka_run_group_tests_name("limit/breaker", tests, NULL, NULL);
}
