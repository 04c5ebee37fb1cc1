/*
 * A wait that can never succeed ends soon and prints the waiting ops (support/wait.h). A wait that
 * may still succeed continues.
 */
#include "loop/testing.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static enum op_result step_ask(struct op *op)
{
    op_hold(op, "an answer that never comes");
    return OP_WAIT;
}

static enum op_result step_read(struct op *op)
{
    (void)op;
    return OP_DONE;
}

static const struct op_step steps[] = {{"ask", step_ask, 0}, {"read", step_read, 0}};
static const struct op_class stuck_class = {
    .name = "stuck", .steps = steps, .step_count = ARRAY_LEN(steps)};

static void wait_for_an_op(struct loop *loop)
{
    struct op op;
    op_start(&op, &stuck_class, loop, NULL, 4096);
    WAIT_UNTIL(loop, op.is_ended);
}

static void wait_for_nothing(struct loop *loop)
{
    volatile bool never = false;
    WAIT_UNTIL(loop, never);
}

static void wait_for_a_timer_of_a_minute(struct loop *loop)
{
    struct timer timer;
    timer_init(&timer, loop, timer_stop);
    timer_start_in_ms(&timer, 60000);
    WAIT_UNTIL(loop, !timer_is_armed(&timer));
}

/* Runs it in a process that aborts, and stores the output of the process in `text`. */
static void run_in_vain(void (*run)(struct loop *loop), char *text, size_t text_bytes)
{
    int ends[2], status;
    size_t len = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct err err;
        dup2(ends[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        struct loop *loop = loop_new(&err);
        run(loop);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got;
         len < text_bytes - 1 && (got = read(ends[0], text + len, text_bytes - 1 - len)) > 0;)
        len += (size_t)got;
    text[len] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void a_wait_in_vain_names_what_waits(void **state)
{
    static char text[64 * 1024];
    (void)state;
    run_in_vain(wait_for_an_op, text, sizeof(text));
    assert_non_null(strstr(text, "test_wait.c:"));
    assert_non_null(strstr(text, "waits for op.is_ended: nothing can happen any more"));
    assert_non_null(
        strstr(text, "op stuck, next step read, waits for an answer that never comes (1 holds)"));
    run_in_vain(wait_for_nothing, text, sizeof(text));
    assert_non_null(strstr(text, "no op is alive"));
    run_in_vain(wait_for_a_timer_of_a_minute, text, sizeof(text));
    assert_non_null(strstr(text, "1 timers, the first due in 5"));
}

static void sleep_long(struct work *work)
{
    (void)work;
    usleep(2500 * 1000);
}

static bool work_is_done;
static void on_work_done(struct work *work)
{
    (void)work;
    work_is_done = true;
}

static void what_may_still_end_is_waited_for(void **state)
{
    struct work work = {.run = sleep_long, .done = on_work_done};
    struct timer timer;
    assert_int_equal(work_start(*state, &work), OK);
    WAIT_UNTIL(*state, work_is_done);
    timer_init(&timer, *state, timer_stop);
    timer_start_in_ms(&timer, 2500);
    WAIT_UNTIL(*state, !timer_is_armed(&timer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_wait_in_vain_names_what_waits),
        TEST(what_may_still_end_is_waited_for),
    };
    return cmocka_run_group_tests_name("wait", tests, NULL, NULL);
}
