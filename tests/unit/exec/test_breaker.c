/*
 * Circuits under a clock of the test's own: when they open, for whom, and how they close.
 */
#include "exec/breaker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/metric.h"

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
    metric_deinit();
    return mem_live_blocks() == 0 ? 0 : -1;
}

static bool enter(struct breaker_pass *pass, slice origin)
{
    uint64_t retry_ms;
    *pass = (struct breaker_pass){0};
    bool is_in = breaker_enter(breaker, pass, origin, now, &retry_ms);
    assert_int_equal(is_in, retry_ms == 0);
    return is_in;
}

/* One execution; false: it was refused. */
static bool vote(slice origin, struct uuid account, bool is_failure)
{
    struct breaker_pass pass;
    if (!enter(&pass, origin))
        return false;
    breaker_report(&pass, is_failure, account, now);
    assert_null(pass.origin);
    breaker_leave(&pass); /* harmless */
    return true;
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

static bool is_refused(void)
{
    bool is_refused = breaker_would_refuse(breaker, ORIGIN, now);
    struct breaker_pass pass;
    assert_int_equal(enter(&pass, ORIGIN), !is_refused);
    breaker_leave(&pass);
    return is_refused;
}

static void it_opens_when_half_of_enough_have_failed(void **state)
{
    (void)state;
    begin(&config);
    fail_times(9, anna);
    assert_false(is_refused()); /* too few to tell */
    assert_true(vote(ORIGIN, anna, true));
    assert_true(is_refused());
    assert_true(vote(SLICE("https://other.example.com"), anna, true)); /* others go on */
    struct breaker_pass pass = {0};
    uint64_t retry_ms;
    assert_false(breaker_enter(breaker, &pass, ORIGIN, now, &retry_ms));
    assert_in_range(retry_ms, 100, 125); /* with its jitter */
}

static void fewer_than_half_do_not_open_it(void **state)
{
    (void)state;
    begin(&config);
    for (unsigned i = 0; i < 100; i++) {
        succeed_times(11, anna);
        fail_times(9, anna);
    }
    assert_false(is_refused());
    fail_times(20 * 10, anna);
    assert_true(is_refused());
}

static void what_is_long_past_does_not_count(void **state)
{
    (void)state;
    begin(&config);
    for (unsigned i = 0; i < 50; i++) {
        fail_times(4, anna);
        now += 600 * MS; /* never ten in one window */
    }
    assert_false(is_refused());
    fail_times(6, anna);
    assert_true(is_refused());
}

static void one_account_alone_does_not_open_what_serves_others(void **state)
{
    (void)state;
    begin(&config);
    assert_true(vote(ORIGIN, bert, false));
    fail_times(100, anna);
    assert_false(is_refused());
    assert_true(vote(ORIGIN, bert, true)); /* it is not anna's requests alone */
    assert_true(is_refused());
}

static void its_own_successes_do_not_excuse_an_account(void **state)
{
    (void)state;
    begin(&config);
    succeed_times(3, anna);
    fail_times(7, anna);
    assert_true(is_refused());
}

/* Open, with its time over. */
static void open_and_wait(void)
{
    begin(&config);
    fail_times(10, anna);
    assert_true(is_refused());
    now += 125 * MS;
}

static void a_probe_that_succeeds_closes_it(void **state)
{
    struct breaker_pass probes[3], more;
    (void)state;
    open_and_wait();
    for (unsigned i = 0; i < 3; i++) {
        assert_true(enter(&probes[i], ORIGIN));
        assert_true(probes[i].is_probe);
        assert_false(breaker_is_open(&probes[i], now));
    }
    assert_false(enter(&more, ORIGIN)); /* a few, not all */
    breaker_leave(&probes[0]);          /* its client went away */
    assert_true(enter(&more, ORIGIN));
    breaker_report(&more, false, bert, now);
    assert_false(is_refused());
    breaker_report(&probes[1], true, anna, now); /* one vote among others by now */
    breaker_leave(&probes[2]);
    assert_false(is_refused());
    fail_times(8, anna);
    assert_false(is_refused()); /* what was before is forgotten */
}

static void a_probe_that_fails_opens_it_for_longer(void **state)
{
    static const uint64_t open_ms[] = {200, 350, 350};
    struct breaker_pass late, probe;
    (void)state;
    open_and_wait();
    assert_true(enter(&late, ORIGIN));
    for (unsigned i = 0; i < 3; i++) {
        assert_true(enter(&probe, ORIGIN));
        breaker_report(&probe, true, anna, now);
        struct breaker_pass pass = {0};
        uint64_t retry_ms;
        assert_false(breaker_enter(breaker, &pass, ORIGIN, now, &retry_ms));
        assert_in_range(retry_ms, open_ms[i], open_ms[i] * 5 / 4);
        now += retry_ms * MS;
    }
    assert_true(enter(&probe, ORIGIN));
    breaker_report(&probe, false, anna, now);
    breaker_report(&late, true, anna, now); /* one vote among others by now */
    assert_false(is_refused());
    fail_times(9, anna);
    struct breaker_pass pass = {0};
    uint64_t retry_ms;
    assert_false(breaker_enter(breaker, &pass, ORIGIN, now, &retry_ms));
    assert_in_range(retry_ms, 100, 125); /* once closed, it begins anew */
}

static void those_under_way_when_it_opens_have_no_second_vote(void **state)
{
    struct breaker_pass early[20];
    (void)state;
    begin(&config);
    for (unsigned i = 0; i < 20; i++)
        assert_true(enter(&early[i], ORIGIN));
    for (unsigned i = 0; i < 10; i++)
        breaker_report(&early[i], true, anna, now);
    assert_true(is_refused());
    assert_true(breaker_is_open(&early[10], now)); /* no use in another attempt */
    for (unsigned i = 10; i < 19; i++)
        breaker_report(&early[i], true, anna, now);
    breaker_report(&early[19], false, anna, now); /* no probe: it may have been answered before */
    assert_true(is_refused());
    now += 125 * MS;
    assert_false(is_refused());
}

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
        assert_true(enter(&passes[i], slice_cstr(text)));
        assert_non_null(passes[i].origin);
    }
    assert_true(enter(&more, ORIGIN)); /* all are in use: it goes uncounted */
    assert_null(more.origin);
    breaker_report(&more, true, anna, now);
    for (unsigned i = 0; i < 3; i++)
        breaker_leave(&passes[i]);
}

static void it_can_be_switched_off(void **state)
{
    static const struct breaker_config off = {.volume_min = 0};
    (void)state;
    begin(&off);
    fail_times(1000, anna);
    assert_false(is_refused());
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

#define TEST(function) cmocka_unit_test_teardown(function, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_opens_when_half_of_enough_have_failed),
        TEST(fewer_than_half_do_not_open_it),
        TEST(what_is_long_past_does_not_count),
        TEST(one_account_alone_does_not_open_what_serves_others),
        TEST(its_own_successes_do_not_excuse_an_account),
        TEST(a_probe_that_succeeds_closes_it),
        TEST(a_probe_that_fails_opens_it_for_longer),
        TEST(those_under_way_when_it_opens_have_no_second_vote),
        TEST(memory_is_bounded),
        TEST(it_can_be_switched_off),
        cmocka_unit_test(an_origin_is_scheme_and_authority),
    };
    return cmocka_run_group_tests_name("exec/breaker", tests, NULL, NULL);
}
