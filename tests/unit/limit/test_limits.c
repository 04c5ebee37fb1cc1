/*
 * A connection's limits: order, maximum waits, what providers' replies teach, and what is returned.
 */
#include "limit/limits.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/metric.h"
#include "support/action_test.h"

enum { CALLERS_MAX = 64 };
static const uint64_t MS = 1000000;

struct caller {
    struct op op;
    struct limits_slot place;
    struct limits_key key;
    uint64_t wait_ms;
    bool is_decided, is_ended;
};

static struct {
    struct bench *b;
    struct loop *loop;
    struct limits *limits;
    struct caller callers[CALLERS_MAX];
    size_t count;
    struct caller *order[CALLERS_MAX]; /* in the order of their start */
    size_t order_count;
    const struct catalog_action *action;
} t;

/* ---- callers ---- */

static enum op_result step_enter(struct op *op)
{
    struct caller *caller = CONTAINER_OF(op, struct caller, op);
    uint64_t until = loop_now_ns(op->loop) + caller->wait_ms * MS;
    return limits_enter(t.limits, &caller->place, &caller->key, until, op) == LIMITS_QUEUED
               ? OP_WAIT
               : OP_NEXT;
}

static enum op_result step_decided(struct op *op)
{
    struct caller *caller = CONTAINER_OF(op, struct caller, op);
    caller->is_decided = true;
    if (caller->place.verdict == LIMITS_FREE)
        t.order[t.order_count++] = caller;
    return OP_DONE;
}

static void on_cancel(struct op *op)
{
    limits_leave(&CONTAINER_OF(op, struct caller, op)->place, false);
}

static void on_end(struct op *op, enum op_end how)
{
    (void)how;
    CONTAINER_OF(op, struct caller, op)->is_ended = true;
}

static const struct op_step steps[] = {{"enter", step_enter, 0}, {"decided", step_decided, 0}};
static const struct op_class caller_class = {.name = "caller",
                                             .steps = steps,
                                             .step_count = ARRAY_LEN(steps),
                                             .on_cancel = on_cancel,
                                             .on_end = on_end};

static struct caller *come(int64_t connection_id, uint64_t wait_ms)
{
    assert_true(t.count < CALLERS_MAX);
    struct caller *caller = &t.callers[t.count++];
    *caller = (struct caller){.wait_ms = wait_ms};
    caller->key = (struct limits_key){{{7}}, connection_id, t.action};
    op_start(&caller->op, &caller_class, t.loop, NULL, 4096);
    while (!caller->is_decided && caller->op.holds == 0) /* a turn may end after a step */
        (void)loop_turn(t.loop, false);
    return caller;
}

/* Checks what is left of a time of whole_ms that began at began_ns or later. */
static void assert_left_ms(int64_t left_ms, int64_t whole_ms, uint64_t began_ns)
{
    int64_t gone_ms = (int64_t)((clock_mono_ns() - began_ns) / MS) + 1;
    assert_true(left_ms <= whole_ms && left_ms >= whole_ms - gone_ms);
}

static bool is_free(const struct caller *caller)
{
    return caller->is_decided && caller->place.verdict == LIMITS_FREE;
}

static bool is_refused(const struct caller *caller)
{
    return caller->is_decided && caller->place.verdict == LIMITS_REFUSED;
}

static void turn_until(const bool *condition)
{
    while (!*condition)
        assert_true(loop_turn(t.loop, true) || *condition);
}

static void tell(struct caller *caller, struct limits_feedback told)
{
    limits_learn(t.limits, &caller->place, &caller->key, &told);
}

static struct limits_feedback too_fast(int64_t retry_after_ms)
{
    return (struct limits_feedback){true, retry_after_ms, -1, -1};
}

/* ---- set up and tear down ---- */

static void begin(struct bench *b, const char *limits, struct limits_config config)
{
    char more[512];
    struct err err;
    memset(&t, 0, sizeof(t));
    t.b = b;
    (void)snprintf(more, sizeof(more), ",\"limits\":%s", limits);
    t.action = bench_action(b, "{\"type\":\"none\"}", more, "read",
                            "{\"method\":\"GET\",\"path\":\"/a\"}", "");
    t.loop = loop_new(&err);
    config.loop = t.loop;
    config.buckets_max = config.buckets_max ? config.buckets_max : 100;
    t.limits = limits_new(&config);
    assert_true(t.loop && t.limits);
}

/* Read from the metric that operators use. The line does not exist before the first caller
 * waits. */
static unsigned waiting(void)
{
    struct buf text;
    buf_init(&text, 1024 * 1024);
    metric_render(&text);
    buf_append_char(&text, 0);
    const char *line = strstr(text.ptr, "\nsluice_limits_waiting ");
    unsigned count = line ? (unsigned)strtoul(strchr(line, ' '), NULL, 10) : 0;
    buf_deinit(&text);
    return count;
}

static int end(void **state)
{
    for (size_t i = 0; i < t.count; i++) {
        op_cancel(&t.callers[i].op);
        limits_leave(&t.callers[i].place, true);
    }
    assert_int_equal(waiting(), 0);
    limits_free(t.limits);
    loop_free(t.loop);
    metric_deinit();
    return bench_teardown(state);
}

/* ---- tests ---- */

static void what_is_not_limited_is_not_counted(void **state)
{
    begin(*state, "{}", (struct limits_config){0});
    struct caller *caller = come(1, 0);
    size_t blocks = mem_live_blocks();
    for (int64_t i = 2; i < 20; i++) {
        const struct limits_key key = {{{7}}, i, t.action};
        struct limits_slot place;
        assert_int_equal(limits_enter(t.limits, &place, &key, 0, &caller->op), LIMITS_FREE);
        assert_int_equal(mem_live_blocks(), blocks);
        limits_leave(&place, true);
    }
}

static void a_cap_lets_them_in_in_order(void **state)
{
    begin(*state, "{\"in_flight_max\":2}", (struct limits_config){0});
    struct caller *all[6];
    for (unsigned i = 0; i < 6; i++)
        all[i] = come(1, 60000);
    assert_true(is_free(all[0]) && is_free(all[1]) && !all[2]->is_decided);
    assert_true(is_free(come(2, 0))); /* another connection has its own limits */
    assert_int_equal(waiting(), 4);
    limits_leave(&all[1]->place, true);
    turn_until(&all[2]->is_decided);
    limits_leave(&all[0]->place, true);
    limits_leave(&all[0]->place, true); /* a second call has no effect */
    limits_leave(&all[2]->place, true);
    turn_until(&all[4]->is_decided);
    assert_false(all[5]->is_decided);
    struct caller *const order[] = {all[0], all[1], &t.callers[6], all[2], all[3], all[4]};
    assert_memory_equal(t.order, order, sizeof(order));
}

static void a_rate_lets_a_burst_go_and_then_one_after_the_other(void **state)
{
    begin(*state, "{\"rate_per_s\":100,\"burst\":3}", (struct limits_config){0});
    uint64_t began = clock_mono_ns();
    for (unsigned i = 0; i < 13; i++)
        (void)come(1, 60000);
    assert_true(t.order_count >= 3);
    turn_until(&t.callers[12].is_decided);
    assert_int_equal(t.order_count, 13);
    for (unsigned i = 0; i < 13; i++)
        assert_ptr_equal(t.order[i], &t.callers[i]);
    assert_true(clock_mono_ns() - began >= 99 * MS); /* ten calls at 100 per second */
}

static void a_caller_that_would_wait_too_long_is_refused_at_once(void **state)
{
    begin(*state, "{\"rate_per_s\":0.1,\"burst\":1}", (struct limits_config){0});
    uint64_t began_ns = clock_mono_ns();
    assert_true(is_free(come(1, 5000)));
    struct caller *late = come(1, 5000);
    assert_true(is_refused(late));
    assert_left_ms(late->place.retry_after_ms, 10001, began_ns);
    struct caller *patient = come(1, 11000);
    assert_false(patient->is_decided);
    late = come(1, 11000); /* its wait would be twice as long, because the patient caller is
                            * first */
    assert_true(is_refused(late));
    assert_left_ms(late->place.retry_after_ms, 20001, began_ns);
}

static void a_wait_for_a_place_ends_at_its_bound(void **state)
{
    begin(*state, "{\"in_flight_max\":1}", (struct limits_config){0});
    assert_true(is_free(come(1, 0)));
    struct caller *long_one = come(1, 60000);
    struct caller *short_one = come(1, 30); /* has less time, but arrived later */
    turn_until(&short_one->is_decided);
    assert_true(is_refused(short_one) && short_one->place.retry_after_ms > 0);
    assert_false(long_one->is_decided);
    assert_true(is_refused(come(1, 0)));
}

static void what_did_not_go_out_costs_nothing(void **state)
{
    begin(*state, "{\"rate_per_s\":0.001,\"burst\":1}", (struct limits_config){0});
    struct caller *first = come(1, 0);
    assert_true(is_free(first) && is_refused(come(1, 0)));
    limits_leave(&first->place, false);
    first = come(1, 0);
    assert_true(is_free(first));
    limits_leave(&first->place, true);
    assert_true(is_refused(come(1, 0)));
}

static void another_attempt_counts(void **state)
{
    begin(*state, "{\"rate_per_s\":0.1,\"burst\":3,\"in_flight_max\":1}",
          (struct limits_config){0});
    uint64_t began_ns = clock_mono_ns();
    struct caller *first = come(1, 0);
    assert_int_equal(limits_repeat(&first->place), 0);
    assert_int_equal(limits_repeat(&first->place), 0);
    /* one token more than it has, so the balance becomes negative */
    assert_left_ms(limits_repeat(&first->place), 10001, began_ns);
    limits_leave(&first->place, true);
    struct caller *next = come(1, 0);
    assert_true(is_refused(next));
    assert_left_ms(next->place.retry_after_ms, 20001, began_ns);
}

static void callers_that_are_cancelled_leave_the_queue(void **state)
{
    begin(*state, "{\"in_flight_max\":1}", (struct limits_config){0});
    struct caller *first = come(1, 0), *gone = come(1, 60000), *next = come(1, 60000);
    op_cancel(&gone->op);
    turn_until(&gone->is_ended);
    assert_false(gone->is_decided);
    limits_leave(&first->place, true);
    turn_until(&next->is_decided);
    assert_true(is_free(next));
}

static void a_provider_that_says_wait_closes_the_connection(void **state)
{
    begin(*state, "{}", (struct limits_config){0});
    struct caller *first = come(1, 0);
    tell(first, too_fast(-1)); /* the duration is unknown, so nothing is assumed */
    assert_true(is_free(come(1, 0)));
    uint64_t began_ns = clock_mono_ns();
    tell(first, too_fast(40000));
    tell(first, too_fast(1000)); /* a shorter one does not replace it */
    struct caller *late = come(1, 5000);
    assert_true(is_refused(late));
    assert_left_ms(late->place.retry_after_ms, 40000, began_ns);
    assert_true(is_free(come(2, 0)));
    struct caller *other = come(3, 0);
    began_ns = clock_mono_ns();
    tell(other, too_fast(20));
    struct caller *waiting = come(3, 60000);
    turn_until(&waiting->is_decided);
    assert_true(is_free(waiting) && clock_mono_ns() - began_ns >= 20 * MS);
    struct caller *banned = come(4, 0);
    tell(banned, too_fast((int64_t)30 * 24 * 3600 * 1000));
    late = come(4, 0);
    assert_int_equal(late->place.retry_after_ms, LIMITS_CLOSED_MS_MAX); /* then check again */
}

static void waiting_callers_are_notified_when_it_closes(void **state)
{
    begin(*state, "{\"in_flight_max\":1}", (struct limits_config){0});
    struct caller *first = come(1, 0), *second = come(1, 5000), *third = come(1, 5000);
    uint64_t began_ns = clock_mono_ns();
    tell(first, too_fast(60000));
    turn_until(&third->is_decided);
    assert_true(is_refused(second) && is_refused(third));
    assert_left_ms(third->place.retry_after_ms, 60000, began_ns);
}

static void a_quota_that_is_used_up_closes_until_its_reset(void **state)
{
    begin(*state, "{}", (struct limits_config){0});
    struct caller *first = come(1, 0);
    uint64_t began_ns = clock_mono_ns();
    tell(first, (struct limits_feedback){false, -1, 2, 30000});
    struct caller *a = come(1, 0), *b = come(1, 0), *c = come(1, 0);
    assert_true(is_free(a) && is_free(b) && is_refused(c));
    assert_left_ms(c->place.retry_after_ms, 30000, began_ns);
    limits_leave(&b->place, true);
    /* one call is left, but the other call in flight may not have been counted yet, so none is
     * certain */
    struct caller *own = come(2, 0);
    tell(own, (struct limits_feedback){false, -1, 9, 30000});
    struct caller *second = come(2, 0), *third = come(2, 0);
    assert_true(is_free(second) && is_free(third));
    tell(second, (struct limits_feedback){false, -1, 1, 30000});
    assert_true(is_refused(come(2, 0)));
    limits_leave(&second->place, true);
    tell(third, (struct limits_feedback){false, -1, 5, 20});
    struct caller *waiting[6];
    for (unsigned i = 0; i < 6; i++)
        waiting[i] = come(2, 60000);
    assert_true(is_free(waiting[4]));
    turn_until(&waiting[5]->is_decided); /* the quota is over after 20 ms */
    assert_true(is_free(waiting[5]));
    tell(third, (struct limits_feedback){false, -1, -1, 20});
    /* without the time of the reset, this proves nothing */
    tell(third, (struct limits_feedback){false, -1, 0, -1});
    assert_true(is_free(come(2, 0)));
}

static void memory_is_bounded(void **state)
{
    begin(*state, "{\"rate_per_s\":0.001,\"burst\":1}", (struct limits_config){.buckets_max = 2});
    struct caller *first = come(1, 0);
    for (int64_t i = 2; i < 40; i++) {
        struct caller *caller = come(i, 0);
        assert_true(is_free(caller));
        limits_leave(&caller->place, true);
    }
    assert_true(is_refused(come(39, 0)));
    assert_true(is_free(come(2, 0)));    /* its bucket was evicted */
    assert_true(is_refused(come(1, 0))); /* a bucket in use is not evicted */
    limits_leave(&first->place, true);
}

static void they_can_be_switched_off(void **state)
{
    begin(*state, "{\"rate_per_s\":0.001,\"burst\":1,\"in_flight_max\":1}",
          (struct limits_config){.is_off = true});
    struct caller *first = come(1, 0);
    tell(first, too_fast(40000));
    assert_true(is_free(come(1, 0)));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, bench_setup, end)

/* Limits in replies apply, but the manifest's rate does not. */
static void it_is_known_until_when_calls_are_refused(void **state)
{
    begin(*state, "{\"rate_per_s\":0.001,\"burst\":2}", (struct limits_config){0});
    struct caller *one = come(1, 0), *two = come(1, 0);
    uint64_t began = clock_mono_ns();
    assert_int_equal(limits_closed_ms(t.limits, &one->key), 0);
    tell(one, too_fast(-1));
    assert_int_equal(limits_closed_ms(t.limits, &one->key), 0);
    tell(one, too_fast(40000));
    tell(two, too_fast(-1));
    assert_left_ms((int64_t)limits_closed_ms(t.limits, &two->key), 40000, began);
    struct limits_key other = two->key;
    other.connection_id = 2;
    assert_int_equal(limits_closed_ms(t.limits, &other), 0);
    tell(two, (struct limits_feedback){false, -1, 5, 90000});
    assert_left_ms((int64_t)limits_closed_ms(t.limits, &two->key), 40000, began);
    tell(two, (struct limits_feedback){false, -1, 0, 90000});
    assert_left_ms((int64_t)limits_closed_ms(t.limits, &two->key), 90000, began);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_not_limited_is_not_counted),
        TEST(a_cap_lets_them_in_in_order),
        TEST(it_is_known_until_when_calls_are_refused),
        TEST(a_rate_lets_a_burst_go_and_then_one_after_the_other),
        TEST(a_caller_that_would_wait_too_long_is_refused_at_once),
        TEST(a_wait_for_a_place_ends_at_its_bound),
        TEST(what_did_not_go_out_costs_nothing),
        TEST(another_attempt_counts),
        TEST(callers_that_are_cancelled_leave_the_queue),
        TEST(a_provider_that_says_wait_closes_the_connection),
        TEST(waiting_callers_are_notified_when_it_closes),
        TEST(a_quota_that_is_used_up_closes_until_its_reset),
        TEST(memory_is_bounded),
        TEST(they_can_be_switched_off),
    };
    return cmocka_run_group_tests_name("limit/limits", tests, NULL, NULL);
}
