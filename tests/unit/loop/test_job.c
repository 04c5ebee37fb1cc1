/* loop/job: heavy parts of ops on pool threads, with turns by account. */
#include "testing.h"

#include <sched.h>
#include <stdatomic.h>

struct worker {
    struct op op;
    struct op_job job;
    atomic_int stage; /* 1: running, 2: may end */
    const char *text;
    size_t ends;
    enum op_end end;
    bool was_seen;
};

static void run_job(struct op *op)
{
    struct worker *worker = CONTAINER_OF(op, struct worker, op);
    atomic_store(&worker->stage, 1);
    while (atomic_load(&worker->stage) != 2)
        sched_yield();
    worker->text = arena_dup(&op->arena, SLICE("made elsewhere")).ptr;
}

static enum op_result step_offload(struct op *op)
{
    struct worker *worker = CONTAINER_OF(op, struct worker, op);
    return op_offload(op, &worker->job, run_job, "a job") == OK ? OP_WAIT : OP_FAIL;
}

static enum op_result step_see(struct op *op)
{
    struct worker *worker = CONTAINER_OF(op, struct worker, op);
    worker->was_seen = strcmp(worker->text, "made elsewhere") == 0;
    return OP_DONE;
}

static void end_worker(struct op *op, enum op_end end)
{
    struct worker *worker = CONTAINER_OF(op, struct worker, op);
    worker->ends++;
    worker->end = end;
}

static const struct op_step worker_steps[] = {{"offload", step_offload, 0}, {"see", step_see, 0}};
static const struct op_class worker_class = {
    .name = "worker", .steps = worker_steps, .step_count = 2, .on_end = end_worker};

static void a_job_runs_elsewhere(void **state)
{
    struct loop *loop = *state;
    struct worker worker = {.text = NULL};
    op_start(&worker.op, &worker_class, loop, NULL, 4096);
    while (atomic_load(&worker.stage) != 1)
        loop_turn(loop, false);
    loop_turn(loop, false); /* the loop keeps turning while the job runs */
    assert_string_equal(worker.op.waits_for, "a job");
    atomic_store(&worker.stage, 2);
    WAIT_UNTIL(loop, op_count(loop) == 0);
    assert_true(worker.was_seen);
    assert_int_equal(worker.ends, 1);
}

static void a_cancelled_op_ends_after_its_job(void **state)
{
    struct loop *loop = *state;
    struct worker worker = {.text = NULL};
    op_start(&worker.op, &worker_class, loop, NULL, 4096);
    while (atomic_load(&worker.stage) != 1)
        loop_turn(loop, false);
    op_cancel(&worker.op);
    for (int i = 0; i < 3; i++)
        loop_turn(loop, false);
    assert_int_equal(worker.ends, 0);
    atomic_store(&worker.stage, 2);
    WAIT_UNTIL(loop, op_count(loop) == 0);
    assert_int_equal(worker.ends, 1);
    assert_int_equal(worker.end, OP_ENDED_CANCELLED);
    assert_false(worker.was_seen);
}

static void run_pending(struct loop *loop, struct worker *workers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        op_start(&workers[i].op, &worker_class, loop, NULL, 4096);
        workers[i].op.account_id = SLICE("many");
    }
    while (atomic_load(&workers[0].stage) != 1)
        loop_turn(loop, false);
}

/* An account with many jobs leaves threads to the others, whose jobs run first. */
static void jobs_go_in_turn_by_account(void **state)
{
    enum { MANY = 12 };
    struct loop *loop = *state;
    static struct worker workers[MANY];
    struct worker other = {.text = NULL};
    memset(workers, 0, sizeof(workers));
    run_pending(loop, workers, MANY);
    op_start(&other.op, &worker_class, loop, NULL, 4096);
    other.op.account_id = SLICE("other");
    while (atomic_load(&other.stage) != 1)
        loop_turn(loop, false);
    atomic_store(&other.stage, 2);
    WAIT_UNTIL(loop, other.ends);
    size_t running = 0;
    for (size_t i = 0; i < MANY; i++)
        running += atomic_load(&workers[i].stage) == 1;
    assert_in_range(running, 1, 4);
    op_cancel(&workers[MANY - 1].op); /* still waiting: it ends immediately, and never runs */
    WAIT_UNTIL(loop, workers[MANY - 1].ends);
    assert_int_equal(atomic_load(&workers[MANY - 1].stage), 0);
    while (op_count(loop) > 0) {
        for (size_t i = 0; i < MANY; i++)
            if (atomic_load(&workers[i].stage) == 1)
                atomic_store(&workers[i].stage, 2);
        loop_turn(loop, false);
    }
    for (size_t i = 0; i + 1 < MANY; i++)
        assert_true(workers[i].was_seen);
}

static void a_job_that_cannot_start(void **state)
{
    struct loop *loop = *state;
    struct worker worker = {.text = NULL};
    op_start(&worker.op, &worker_class, loop, NULL, 4096);
    mem_fail_at(1, 1);
    WAIT_UNTIL(loop, op_count(loop) == 0);
    mem_fail_at(0, 0);
    assert_int_equal(worker.end, OP_ENDED_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_job_runs_elsewhere),
        TEST(a_cancelled_op_ends_after_its_job),
        TEST(jobs_go_in_turn_by_account),
        TEST(a_job_that_cannot_start),
    };
    return cmocka_run_group_tests_name("loop/job", tests, NULL, NULL);
}
