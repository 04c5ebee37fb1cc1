/* loop/timer: order compared with a model, moving, stopping, starting inside a callback, failing
 * allocations. */
#include "testing.h"

enum { TIMERS = 500 };

struct probe {
    struct timer timer;
    uint64_t wanted_ns;
    size_t fired;
    struct recorder *recorder;
};

struct recorder {
    struct loop *loop;
    struct probe probes[TIMERS];
    uint64_t last_ns;
    size_t fired;
};

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void on_probe(struct timer *timer)
{
    struct probe *probe = CONTAINER_OF(timer, struct probe, timer);
    struct recorder *recorder = probe->recorder;
    assert_false(timer_is_armed(timer));
    assert_true(loop_now_ns(recorder->loop) >= probe->wanted_ns); /* never early */
    assert_true(probe->wanted_ns >= recorder->last_ns);           /* in order of due time */
    recorder->last_ns = probe->wanted_ns;
    probe->fired++;
    recorder->fired++;
}

static struct recorder recorder;

static void recorder_init(struct loop *loop)
{
    memset(&recorder, 0, sizeof(recorder));
    recorder.loop = loop;
    for (size_t i = 0; i < TIMERS; i++) {
        recorder.probes[i].recorder = &recorder;
        timer_init(&recorder.probes[i].timer, loop, on_probe);
    }
}

static void they_fire_in_order_after_any_moves(void **state)
{
    struct loop *loop = *state;
    recorder_init(loop);
    uint64_t random = 7, base_ns = clock_mono_ns();
    bool armed[TIMERS] = {false};
    for (size_t move = 0; move < 20 * TIMERS; move++) {
        struct probe *probe = &recorder.probes[next_random(&random) % TIMERS];
        size_t index = (size_t)(probe - recorder.probes);
        if (next_random(&random) % 5 == 0) {
            timer_stop(&probe->timer);
            armed[index] = false;
        } else {
            probe->wanted_ns = base_ns + next_random(&random) % 20000000;
            timer_start(&probe->timer, probe->wanted_ns);
            armed[index] = true;
        }
        assert_int_equal(timer_is_armed(&probe->timer), armed[index]);
    }
    size_t expected = 0;
    for (size_t i = 0; i < TIMERS; i++)
        expected += armed[i];
    assert_true(expected > TIMERS / 2);
    loop_run(loop);
    assert_int_equal(recorder.fired, expected);
    for (size_t i = 0; i < TIMERS; i++)
        assert_int_equal(recorder.probes[i].fired, armed[i]);
}

static void one_moved_later_fires_once_and_late(void **state)
{
    struct loop *loop = *state;
    recorder_init(loop);
    struct probe *probe = &recorder.probes[0];
    uint64_t now_ns = clock_mono_ns();
    for (uint64_t ms = 1; ms <= 10; ms++) {
        probe->wanted_ns = now_ns + ms * 1000000;
        timer_start(&probe->timer, probe->wanted_ns);
    }
    assert_int_equal(probe->timer.armed_ns, now_ns + 1000000); /* the heap was left unchanged */
    loop_run(loop);
    assert_int_equal(probe->fired, 1);
}

struct chain {
    struct timer timer;
    struct loop *loop;
    size_t left;
    bool is_inside;
};

static void on_chain(struct timer *timer)
{
    struct chain *chain = CONTAINER_OF(timer, struct chain, timer);
    assert_false(chain->is_inside);
    chain->is_inside = true;
    if (--chain->left)
        timer_start(timer, 0); /* long overdue: it must run neither inside this callback nor in
                                * this pass */
    chain->is_inside = false;
}

static void one_started_in_its_callback_waits_a_turn(void **state)
{
    struct loop *loop = *state;
    struct chain chain = {.loop = loop, .left = 5};
    timer_init(&chain.timer, loop, on_chain);
    timer_start(&chain.timer, 0);
    assert_int_equal(chain.left, 5);
    uint64_t turns = loop_stats(loop)->turns;
    loop_run(loop);
    assert_int_equal(chain.left, 0);
    assert_true(loop_stats(loop)->turns - turns >= 5);
}

static void on_stops_other(struct timer *timer)
{
    struct probe *probe = CONTAINER_OF(timer, struct probe, timer);
    probe->fired++;
    timer_stop(&(probe + 1)->timer);
    timer_stop(&(probe + 1)->timer); /* does no harm */
}

static void one_can_stop_the_next(void **state)
{
    struct loop *loop = *state;
    recorder_init(loop);
    timer_init(&recorder.probes[0].timer, loop, on_stops_other);
    timer_start(&recorder.probes[0].timer, 1);
    timer_start(&recorder.probes[1].timer, 2);
    loop_run(loop);
    assert_int_equal(recorder.probes[0].fired, 1);
    assert_int_equal(recorder.probes[1].fired, 0);
}

static void on_count(struct timer *timer)
{
    CONTAINER_OF(timer, struct probe, timer)->fired++;
}

/* The timer expires before the turn begins, as if the machine was paused: poll must not wait for
 * later timers. */
static void one_that_is_due_ends_a_turn_that_may_block(void **state)
{
    struct loop *loop = *state;
    recorder_init(loop);
    for (size_t i = 0; i < 2; i++)
        timer_init(&recorder.probes[i].timer, loop, on_count);
    timer_start_in_ms(&recorder.probes[0].timer, 1);
    timer_start_in_ms(&recorder.probes[1].timer, 3600000);
    uint64_t until_ns = clock_mono_ns() + 5000000;
    while (clock_mono_ns() < until_ns)
        continue;
    assert_true(loop_turn(loop, true));
    assert_int_equal(recorder.probes[0].fired, 1);
    timer_stop(&recorder.probes[1].timer);
}

static void without_memory_they_fire_in_the_next_turn(void **state)
{
    struct loop *loop = *state;
    recorder_init(loop);
    for (size_t i = 0; i < 3; i++)
        timer_init(&recorder.probes[i].timer, loop, on_count);
    mem_fail_at(1, 100);
    for (size_t i = 0; i < 3; i++)
        timer_start(&recorder.probes[i].timer, clock_mono_ns() + 3600000000000);
    assert_true(mem_fail_hits() > 0);
    mem_fail_at(0, 0);
    assert_true(timer_is_armed(&recorder.probes[1].timer));
    timer_stop(&recorder.probes[1].timer);
    loop_run(loop);
    assert_int_equal(recorder.probes[0].fired, 1);
    assert_int_equal(recorder.probes[1].fired, 0);
    assert_int_equal(recorder.probes[2].fired, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(they_fire_in_order_after_any_moves),
        TEST(one_moved_later_fires_once_and_late),
        TEST(one_started_in_its_callback_waits_a_turn),
        TEST(one_can_stop_the_next),
        TEST(one_that_is_due_ends_a_turn_that_may_block),
        TEST(without_memory_they_fire_in_the_next_turn),
    };
    return cmocka_run_group_tests_name("loop/timer", tests, NULL, NULL);
}
