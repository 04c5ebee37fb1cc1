/* loop/op: steps, jumps, stops, holds, cancel in every state, parents, sleeping, and that each
 * op ends exactly once. */
#include "testing.h"

#include <stdio.h>
#include <unistd.h>

#include "loop/internal.h"

enum { TRACE_MAX = 64 };

struct sample {
    struct op op;
    char trace[TRACE_MAX];
    size_t ends, cancels, frees;
    enum op_end end;
    size_t rounds;
    enum op_result last_result;
    bool cancels_itself;
    struct op_timer timer;
    struct sample *child;
};

static struct sample *sample_of(struct op *op)
{
    return CONTAINER_OF(op, struct sample, op);
}

static void note(struct op *op, char what)
{
    struct sample *sample = sample_of(op);
    size_t len = strlen(sample->trace);
    assert_true(len + 1 < TRACE_MAX);
    sample->trace[len] = what;
}

static enum op_result step_begin(struct op *op)
{
    note(op, 'b');
    assert_non_null(arena_alloc(&op->arena, 100));
    return OP_NEXT;
}

static enum op_result step_hold(struct op *op)
{
    note(op, 'h');
    op_hold(op, "a test");
    if (sample_of(op)->cancels_itself)
        op_cancel(op);
    return OP_WAIT;
}

static enum op_result step_again(struct op *op)
{
    note(op, 'a');
    if (sample_of(op)->rounds) {
        sample_of(op)->rounds--;
        return op_jump(op, 1);
    }
    return OP_NEXT;
}

static enum op_result step_last(struct op *op)
{
    note(op, 'l');
    return sample_of(op)->last_result;
}

static void on_cancel(struct op *op)
{
    sample_of(op)->cancels++;
}

static void on_end(struct op *op, enum op_end end)
{
    struct sample *sample = sample_of(op);
    sample->ends++;
    sample->end = end;
    assert_true(op->arena.bytes_used > 0 || end == OP_ENDED_CANCELLED);
    op_log(op, LOG_DEBUG, "ended", LOG_INT("end", end)); /* the step's name is known */
}

static void on_free(struct op *op)
{
    assert_int_equal(op->arena.bytes_used, 0);
    sample_of(op)->frees++;
}

static const struct op_step sample_steps[] = {
    {"begin", step_begin, 0},
    {"hold", step_hold, 0},
    {"again", step_again, OP_TO(1)},
    {"last", step_last, 0},
};
static const struct op_class sample_class = {.name = "sample",
                                             .steps = sample_steps,
                                             .step_count = ARRAY_LEN(sample_steps),
                                             .on_cancel = on_cancel,
                                             .on_end = on_end,
                                             .free = on_free};

static void sample_start(struct loop *loop, struct sample *sample, struct op *parent)
{
    op_start(&sample->op, &sample_class, loop, parent, 4096);
    assert_string_equal(sample->trace, ""); /* never inside the call */
}

static void assert_ended(const struct sample *sample, enum op_end end, const char *trace)
{
    assert_int_equal(sample->ends, 1);
    assert_int_equal(sample->frees, 1);
    assert_int_equal(sample->end, end);
    assert_string_equal(sample->trace, trace);
}

static void steps_run_in_order_and_wait_for_holds(void **state)
{
    struct loop *loop = *state;
    struct sample sample = {.last_result = OP_NEXT};
    sample_start(loop, &sample, NULL);
    loop_turn(loop, false);
    assert_string_equal(sample.trace, "bh");
    assert_int_equal(op_count(loop), 1);
    loop_turn(loop, false);
    assert_string_equal(sample.trace, "bh");
    op_release(&sample.op);
    assert_string_equal(sample.trace, "bh"); /* a release runs no step */
    loop_turn(loop, false);
    assert_ended(&sample, OP_ENDED_DONE, "bhal");
    assert_int_equal(op_count(loop), 0);
}

static void two_holds_need_two_releases(void **state)
{
    struct loop *loop = *state;
    struct sample sample = {.last_result = OP_DONE};
    sample_start(loop, &sample, NULL);
    loop_turn(loop, false);
    op_hold(&sample.op, "another");
    op_release(&sample.op);
    loop_turn(loop, false);
    assert_string_equal(sample.trace, "bh");
    op_release(&sample.op);
    loop_turn(loop, false);
    assert_ended(&sample, OP_ENDED_DONE, "bhal");
}

static void a_hold_taken_again_before_the_queue_runs_keeps_it_waiting(void **state)
{
    struct loop *loop = *state;
    struct sample sample = {.last_result = OP_DONE};
    sample_start(loop, &sample, NULL);
    loop_turn(loop, false);
    op_release(&sample.op);
    op_hold(&sample.op, "once more");
    loop_turn(loop, false);
    assert_string_equal(sample.trace, "bh");
    op_release(&sample.op);
    loop_turn(loop, false);
    assert_ended(&sample, OP_ENDED_DONE, "bhal");
}

static void a_jump_goes_back(void **state)
{
    struct loop *loop = *state;
    struct sample sample = {.last_result = OP_FAIL, .rounds = 2};
    sample_start(loop, &sample, NULL);
    while (sample.ends == 0) {
        loop_turn(loop, false);
        if (sample.op.holds)
            op_release(&sample.op);
    }
    loop_turn(loop, false);
    assert_ended(&sample, OP_ENDED_FAILED, "bhahahal");
}

static enum op_result step_forever(struct op *op)
{
    if (sample_of(op)->rounds++ < 100000)
        return op_jump(op, 0);
    return OP_NEXT;
}

static void a_loop_of_jumps_yields_to_others(void **state)
{
    static const struct op_step steps[] = {{"forever", step_forever, OP_TO(0)}};
    static const struct op_class class = {
        .name = "spinner", .steps = steps, .step_count = 1, .free = on_free};
    struct loop *loop = *state;
    struct sample spinner = {0}, sample = {.last_result = OP_DONE};
    op_start(&spinner.op, &class, loop, NULL, 0);
    sample_start(loop, &sample, NULL);
    loop_turn(loop, false);
    assert_string_equal(sample.trace, "bh");
    op_release(&sample.op);
    WAIT_UNTIL(loop, spinner.frees && sample.frees);
    assert_int_equal(spinner.rounds, 100001);
    assert_ended(&sample, OP_ENDED_DONE, "bhal");
}

static enum op_result step_choose(struct op *op)
{
    note(op, 'c');
    switch (sample_of(op)->rounds) {
    case 0:
        return OP_NEXT;
    case 1:
        return OP_STOP;
    default:
        op_hold(op, "a test");
        return op_wait_then(op, 3);
    }
}

static enum op_result step_pass(struct op *op)
{
    note(op, 'p');
    return OP_NEXT;
}

static void a_stop_and_a_named_step_after_a_wait(void **state)
{
    static const struct op_step steps[] = {
        {"begin", step_begin, 0}, {"choose", step_choose, OP_TO(3) | OP_TO(4)},
        {"pass", step_pass, 0},   {"pass", step_pass, 0},
        {"last", step_last, 0},
    };
    static const struct op_class class = {
        .name = "chooser",
        .steps = steps,
        .step_count = ARRAY_LEN(steps),
        .stop = 4,
        .on_cancel = on_cancel,
        .on_end = on_end,
        .free = on_free,
    };
    static const char *const traces[] = {"bcppl", "bcl", "bcpl"};
    struct loop *loop = *state;
    for (unsigned i = 0; i < ARRAY_LEN(traces); i++) {
        struct sample sample = {.last_result = OP_DONE, .rounds = i};
        op_start(&sample.op, &class, loop, NULL, 1024);
        loop_turn(loop, false);
        if (i == 2) {
            assert_string_equal(sample.trace, "bc");
            op_release(&sample.op);
        }
        WAIT_UNTIL(loop, sample.frees);
        assert_ended(&sample, OP_ENDED_DONE, traces[i]);
    }
}

static void cancel_before_the_first_step(void **state)
{
    struct loop *loop = *state;
    struct sample sample = {0};
    sample_start(loop, &sample, NULL);
    op_cancel(&sample.op);
    op_cancel(&sample.op);
    assert_int_equal(sample.ends, 0); /* on_end follows in the drain */
    assert_int_equal(sample.cancels, 1);
    loop_turn(loop, false);
    assert_ended(&sample, OP_ENDED_CANCELLED, "");
}

static void cancel_while_waiting_keeps_memory_until_the_hold_ends(void **state)
{
    struct loop *loop = *state;
    struct sample sample = {0};
    sample_start(loop, &sample, NULL);
    loop_turn(loop, false);
    op_cancel(&sample.op);
    loop_turn(loop, false);
    assert_int_equal(sample.ends, 1);
    assert_int_equal(sample.frees, 0);
    assert_false(op_is_active(&sample.op));
    op_cancel(&sample.op); /* has no effect after the end */
    op_release(&sample.op);
    assert_int_equal(sample.frees, 0); /* it is freed at the end of the turn */
    loop_turn(loop, false);
    assert_ended(&sample, OP_ENDED_CANCELLED, "bh");
    assert_int_equal(sample.cancels, 1);
}

static void cancel_from_its_own_step(void **state)
{
    struct loop *loop = *state;
    struct sample sample = {.cancels_itself = true};
    sample_start(loop, &sample, NULL);
    loop_turn(loop, false);
    assert_int_equal(sample.ends, 1);
    op_release(&sample.op);
    loop_turn(loop, false);
    assert_ended(&sample, OP_ENDED_CANCELLED, "bh");
}

static enum op_result step_child(struct op *op)
{
    note(op, 'c');
    op_start(&sample_of(op)->child->op, &sample_class, op->loop, op, 4096);
    return OP_WAIT;
}

static void a_parent_waits_for_its_child(void **state)
{
    static const struct op_step steps[] = {{"child", step_child, 0}, {"last", step_last, 0}};
    static const struct op_class class = {
        .name = "parent", .steps = steps, .step_count = 2, .free = on_free};
    struct loop *loop = *state;
    struct sample child = {.last_result = OP_DONE};
    struct sample parent = {.child = &child, .last_result = OP_DONE};
    op_start(&parent.op, &class, loop, NULL, 0);
    parent.op.request_id = SLICE("r-1");
    loop_turn(loop, false);
    assert_string_equal(parent.trace, "c");
    assert_string_equal(parent.op.waits_for, "sample");
    assert_true(slice_eq_cstr(child.op.request_id, "r-1"));
    assert_int_equal(op_count(loop), 2);
    op_release(&child.op);
    loop_turn(loop, false);
    assert_ended(&child, OP_ENDED_DONE, "bhal");
    assert_string_equal(parent.trace, "cl");
    assert_int_equal(parent.frees, 1);
}

/* ---- what remains of a child ---- */

struct heir {
    struct op op;
    struct op child;
    struct loop_task slow;
    const char *left; /* in the child's arena */
    bool was_read, is_held;
    struct op_timer timer;
    unsigned reads_later;
};

static void run_longer_than_a_drain(struct loop_task *task)
{
    uint64_t until_ns = clock_mono_ns() + LOOP_DRAIN_NS_MAX;
    (void)task;
    while (clock_mono_ns() < until_ns)
        continue;
}

/* The slow task is queued before the parent, which this op's end wakes. */
static enum op_result step_leave_word(struct op *op)
{
    struct heir *heir = CONTAINER_OF(op, struct heir, child);
    heir->left = arena_dup(&op->arena, SLICE("a word")).ptr;
    loop_task_queue(op->loop, &heir->slow);
    return OP_DONE;
}

static enum op_result step_start_child(struct op *op)
{
    static const struct op_step steps[] = {{"leave_word", step_leave_word, 0}};
    static const struct op_class class = {.name = "child", .steps = steps, .step_count = 1};
    struct heir *heir = CONTAINER_OF(op, struct heir, op);
    op_start(&heir->child, &class, op->loop, op, 4096);
    if (heir->is_held)
        op_hold(op, "something else");
    return OP_WAIT;
}

static enum op_result step_read_word(struct op *op)
{
    struct heir *heir = CONTAINER_OF(op, struct heir, op);
    if (heir->reads_later > 0) {
        heir->reads_later--;
        op_keep_children(op);
        op_sleep(op, &heir->timer, 1, "another answer");
        return op_wait_then(op, 1);
    }
    heir->was_read = memcmp(heir->left, "a word", 6) == 0;
    return OP_DONE;
}

static void heir_start(struct loop *loop, struct heir *heir)
{
    static const struct op_step steps[] = {{"child", step_start_child, 0},
                                           {"read", step_read_word, OP_TO(1)}};
    static const struct op_class class = {.name = "heir", .steps = steps, .step_count = 2};
    loop_task_init(&heir->slow, run_longer_than_a_drain);
    op_start(&heir->op, &class, loop, NULL, 0);
}

static void a_childs_arena_lives_until_its_parent_has_run(void **state)
{
    struct loop *loop = *state;
    struct heir heir = {.left = NULL};
    heir_start(loop, &heir);
    WAIT_UNTIL(loop, op_count(loop) == 0);
    assert_true(heir.was_read);
}

static void it_lives_longer_where_the_parent_says_so(void **state)
{
    struct loop *loop = *state;
    for (int is_cancelled = 0; is_cancelled < 2; is_cancelled++) {
        struct heir heir = {.reads_later = 3};
        heir_start(loop, &heir);
        WAIT_UNTIL(loop, heir.reads_later == 1);
        assert_int_equal(op_count(loop), 2);
        if (is_cancelled)
            op_cancel(&heir.op);
        WAIT_UNTIL(loop, op_count(loop) == 0);
        assert_int_equal(heir.was_read, !is_cancelled);
    }
}

static void a_child_that_is_kept_goes_with_its_cancelled_parent(void **state)
{
    struct loop *loop = *state;
    struct heir heir = {.is_held = true};
    heir_start(loop, &heir);
    WAIT_UNTIL(loop, heir.child.is_ended);
    loop_turn(loop, false);
    assert_int_equal(op_count(loop), 2);
    op_cancel(&heir.op);
    loop_turn(loop, false);
    assert_int_equal(op_count(loop), 1);
    op_release(&heir.op);
    WAIT_UNTIL(loop, op_count(loop) == 0);
    assert_false(heir.was_read);
}

/* ---- sleeping ---- */

static enum op_result step_sleep(struct op *op)
{
    note(op, 's');
    op_sleep(op, &sample_of(op)->timer, sample_of(op)->rounds, "a nap");
    return OP_WAIT;
}

static const struct op_step sleeper_steps[] = {{"sleep", step_sleep, 0}, {"last", step_last, 0}};
static const struct op_class sleeper_class = {
    .name = "sleeper", .steps = sleeper_steps, .step_count = 2, .free = on_free};

static void an_op_sleeps(void **state)
{
    struct loop *loop = *state;
    struct sample sample = {.rounds = 5, .last_result = OP_DONE};
    op_start(&sample.op, &sleeper_class, loop, NULL, 0);
    uint64_t began_ns = clock_mono_ns();
    WAIT_UNTIL(loop, sample.frees);
    assert_string_equal(sample.trace, "sl");
    assert_true(clock_mono_ns() - began_ns >= 5000000);
}

static void a_sleep_is_cut_by_stop_and_by_cancel(void **state)
{
    struct loop *loop = *state;
    struct sample woken = {.rounds = 3600000, .last_result = OP_DONE};
    struct sample cancelled = {.rounds = 3600000};
    op_start(&woken.op, &sleeper_class, loop, NULL, 0);
    op_start(&cancelled.op, &sleeper_class, loop, NULL, 0);
    loop_turn(loop, false);
    assert_string_equal(cancelled.trace, "s");
    op_sleep_stop(&woken.timer);
    op_sleep_stop(&woken.timer); /* idle: does no harm */
    op_cancel(&cancelled.op);
    loop_turn(loop, false);
    assert_int_equal(woken.frees, 1);
    assert_string_equal(woken.trace, "sl");
    assert_int_equal(cancelled.frees, 1);
    assert_string_equal(cancelled.trace, "s");
}

static void a_stuck_op_prints_itself(void **state)
{
    struct loop *loop = *state;
    struct sample sample = {.last_result = OP_DONE};
    sample_start(loop, &sample, NULL);
    loop_turn(loop, false);
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    int saved = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    op_print_all(loop);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    char text[256] = {0};
    rewind(file);
    assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
    fclose(file);
    assert_non_null(strstr(text, "op sample step again"));
    assert_non_null(strstr(text, "waits for a test"));
    op_release(&sample.op);
    WAIT_UNTIL(loop, sample.frees);
}

/* For any order of releases, cancels and turns, there is one end, one free, and no call
 * afterwards. */
static void random_orders_end_once(void **state)
{
    struct loop *loop = *state;
    uint64_t random = 3;
    for (size_t run = 0; run < 2000; run++) {
        struct sample sample = {.rounds = run % 3, .last_result = OP_DONE};
        sample_start(loop, &sample, NULL);
        while (!sample.frees) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            switch (random >> 60) {
            case 0:
                op_cancel(&sample.op);
                break;
            case 1:
            case 2:
            case 3:
            case 4:
                if (sample.op.holds)
                    op_release(&sample.op);
                break;
            default:
                loop_turn(loop, false);
            }
        }
        assert_int_equal(sample.ends, 1);
        assert_int_equal(sample.frees, 1);
        assert_true(sample.cancels <= 1);
    }
    assert_int_equal(op_count(loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(steps_run_in_order_and_wait_for_holds),
        TEST(two_holds_need_two_releases),
        TEST(a_hold_taken_again_before_the_queue_runs_keeps_it_waiting),
        TEST(a_jump_goes_back),
        TEST(a_stop_and_a_named_step_after_a_wait),
        TEST(a_loop_of_jumps_yields_to_others),
        TEST(cancel_before_the_first_step),
        TEST(cancel_while_waiting_keeps_memory_until_the_hold_ends),
        TEST(cancel_from_its_own_step),
        TEST(a_parent_waits_for_its_child),
        TEST(a_childs_arena_lives_until_its_parent_has_run),
        TEST(a_child_that_is_kept_goes_with_its_cancelled_parent),
        TEST(it_lives_longer_where_the_parent_says_so),
        TEST(an_op_sleeps),
        TEST(a_sleep_is_cut_by_stop_and_by_cancel),
        TEST(a_stuck_op_prints_itself),
        TEST(random_orders_end_once),
    };
    return cmocka_run_group_tests_name("loop/op", tests, NULL, NULL);
}
