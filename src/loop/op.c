/*
 * The driver of ops (loop/op.h). An op is queued as a task of the loop; the driver runs steps until
 * one waits or the op ends. Every op ends in op_finish, and its memory is freed in op_collect.
 */
#include "loop/op.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "loop/internal.h"

enum {
    /* after this number of steps, other ops have their turn, so that a loop of jumps does not stall
     * the event loop */
    OP_STEPS_A_RUN_MAX = 256,
    FOLLOWING = UINT16_MAX, /* value of op.step_next if no step was named */
};

static void op_queue(struct op *op)
{
    loop_task_queue(op->loop, &op->task);
}

/* ---- ending ---- */

static void op_collect(struct op *op);

static void op_free(struct loop_garbage *garbage)
{
    struct op *op = CONTAINER_OF(garbage, struct op, garbage);
    struct op *parent = op->parent;
    ASSERT(op->is_ended && op->holds == 0 && op->children == 0);
    list_unlink(&op->all_link);
    op->loop->op_count--;
    arena_deinit(&op->arena);
    if (op->class->free)
        op->class->free(op);
    if (!parent)
        return;
    parent->children--;
    op_collect(parent);
}

/* Memory is freed once the op has ended, no reference is held, its parent has read its results, and
 * the ops below it are freed. The ops below it may be embedded in its struct, and be held by a call
 * that is still being drained. */
static void op_collect(struct op *op)
{
    if (!op->is_ended || op->holds || op->children || op->is_kept)
        return;
    loop_task_cancel(&op->task);
    op->garbage.free = op_free;
    loop_garbage_add(op->loop, &op->garbage);
}

/* A child's arena is kept until its parent has run, which may be several turns later, since a drain
 * ends when its time is up. */
static void op_keep_for_parent(struct op *op)
{
    if (!op->parent || op->parent->is_ended)
        return;
    op->is_kept = true;
    list_push_back(&op->parent->kept, &op->kept_link);
}

/* Frees the ended children, since op has run after their end and has read their results. */
static void op_let_children_go(struct op *op)
{
    if (op->is_keeping && !op->is_ended) {
        op->is_keeping = false;
        return;
    }
    LIST_DRAIN(&op->kept, struct op, child, kept_link) {
        child->is_kept = false;
        op_collect(child);
    }
}

static void op_finish(struct op *op, enum op_end end)
{
    ASSERT(!op->is_ended);
    struct op *parent = op->parent;
    op_sleep_stop(op->sleep);
    op_leave_entrance(op);
    op->is_ended = true;
    if (op->class->on_end)
        op->class->on_end(op, end);
    op_keep_for_parent(op);
    op_collect(op);
    if (parent)
        op_release(parent);
}

/* ---- running ---- */

const char *op_step_name(const struct op *op)
{
    return op->step < op->class->step_count ? op->class->steps[op->step].name : "(end)";
}

/* Moves to the named step, else to the next step; returns false if there is none. */
static bool op_advance(struct op *op)
{
    op->step = op->step_next != FOLLOWING ? op->step_next : (uint16_t)(op->step + 1);
    op->step_next = FOLLOWING;
    return op->step < op->class->step_count;
}

#ifdef SLUICE_TEST_BUILD
void (*op_on_step)(struct op *op);
void (*op_on_jump)(const struct op *op, size_t to);

/* Counts calls; every n-th one is meant, where n is the value of an environment variable. */
struct op_every {
    const char *name;
    bool is_read;
    uint64_t every, count;
};

static bool is_nth(struct op_every *counter)
{
    const char *text = counter->is_read ? NULL : getenv(counter->name);
    if (text)
        counter->every = strtoull(text, NULL, 10);
    counter->is_read = true;
    return counter->every > 0 && ++counter->count % counter->every == 0;
}

/* SLUICE_CANCEL_EVERY=97 cancels an op instead of running every 97th step of ops that have a
 * parent: as the end of a drain does if it comes between two steps. */
static void op_cut_point(struct op *op)
{
    static struct op_every counter = {.name = "SLUICE_CANCEL_EVERY"};
    if (op->parent && is_nth(&counter))
        op_cancel(op);
}

/* SLUICE_YIELD_EVERY=1 ends the turn of an op after each step, as if its time was over. */
static bool op_yields(const struct op *op)
{
    static struct op_every counter = {.name = "SLUICE_YIELD_EVERY"};
    return op->holds == 0 && is_nth(&counter);
}

/* Returns whether the step is to run. */
static bool op_show_step(struct op *op)
{
    if (op_on_step)
        op_on_step(op);
    op_cut_point(op);
    return !op->is_cancelled;
}

static void op_show_jump(const struct op *op)
{
    if (op_on_jump)
        op_on_jump(op, op->step_next);
}
#else
static inline bool op_yields(const struct op *op)
{
    (void)op;
    return false;
}

static inline bool op_show_step(struct op *op)
{
    (void)op;
    return true;
}

static inline void op_show_jump(const struct op *op)
{
    (void)op;
}
#endif

/* The table names all jumps: a missing jump is a bug. */
static void op_name_next(struct op *op, size_t step)
{
    ASSERT(step < op->class->step_count && op->step < op->class->step_count);
    ASSERT(op->class->steps[op->step].jumps & OP_TO(step));
    op->step_next = (uint16_t)step;
    op_show_jump(op);
}

enum op_result op_jump(struct op *op, size_t step)
{
    op_name_next(op, step);
    return OP_JUMP;
}

enum op_result op_wait_then(struct op *op, size_t step)
{
    op_name_next(op, step);
    return OP_WAIT;
}

#ifdef SLUICE_TEST_BUILD
/* Every step is a named crash point: SLUICE_CRASH_AT=exec/record kills the process the moment an op
 * of class "exec" is about to run its step "record" (tests/README.md "Rules"). */
static void op_crash_point(const struct op *op, const struct op_step *step)
{
    static const char *wanted;
    static bool is_read;
    if (!is_read)
        wanted = getenv("SLUICE_CRASH_AT");
    is_read = true;
    size_t class_len = strlen(op->class->name);
    if (wanted && strncmp(wanted, op->class->name, class_len) == 0 && wanted[class_len] == '/' &&
        strcmp(wanted + class_len + 1, step->name) == 0)
        (void)raise(SIGKILL);
}
#else
static inline void op_crash_point(const struct op *op, const struct op_step *step)
{
    (void)op;
    (void)step;
}
#endif

/* Runs one step. Returns whether to continue with the next step at once. */
static bool op_run_step(struct op *op)
{
    const struct op_step *step = &op->class->steps[op->step];
    if (!op_show_step(op)) {
        op_finish(op, OP_ENDED_CANCELLED);
        return false;
    }
    op_log(op, op_log_level(op), "step", LOG_MS("age_ms", loop_now_ns(op->loop) - op->started_ns));
    op_crash_point(op, step);
    enum op_result result = step->run(op);
    loop_charge_step(op->loop, op->class->name, step->name);
    if (op->is_cancelled) {
        op_finish(op, OP_ENDED_CANCELLED);
        return false;
    }
    switch (result) {
    case OP_FAIL:
        op_finish(op, OP_ENDED_FAILED);
        return false;
    case OP_DONE:
        op_finish(op, OP_ENDED_DONE);
        return false;
    case OP_WAIT:
        ASSERT(op->holds > 0); /* without a hold the op would never run again */
        if (!op_advance(op))
            /* the op ends once the holds are released */
            op->step = (uint16_t)op->class->step_count;
        return false;
    case OP_STOP:
        ASSERT(op->class->stop);
        op_name_next(op, op->class->stop);
        break;
    case OP_JUMP:
        ASSERT(op->step_next != FOLLOWING);
        break;
    case OP_NEXT:
        break;
    }
    if (op_advance(op))
        return true;
    op_finish(op, OP_ENDED_DONE);
    return false;
}

/* Runs steps until one waits, the op ends, or it is the turn of others. */
static void op_run_steps(struct op *op)
{
    for (size_t runs = 0; runs < OP_STEPS_A_RUN_MAX; runs++) {
        if (!op_run_step(op))
            return;
        if (op_yields(op)) {
            loop_task_queue_next_turn(op->loop, &op->task);
            return;
        }
        if (op->holds == 0 && loop_is_drain_over(op->loop))
            break;
    }
    if (op->holds == 0) /* otherwise the release queues the op */
        op_queue(op);
}

static void op_run(struct loop_task *task)
{
    struct op *op = CONTAINER_OF(task, struct op, task);
    if (op->is_ended || op->job)
        return;
    if (op->is_cancelled)
        op_finish(op, OP_ENDED_CANCELLED);
    else if (op->holds) /* a hold was released and another was taken before the queue reached
                         * this op */
        return;
    else if (op->step >= op->class->step_count)
        op_finish(op, OP_ENDED_DONE);
    else
        op_run_steps(op);
    op_let_children_go(op);
}

void op_start(struct op *op, const struct op_class *class, struct loop *loop, struct op *parent,
              size_t arena_bytes_max)
{
    ASSERT(class->step_count > 0 && class->step_count <= OP_STEPS_MAX);
    ASSERT(class->stop < class->step_count);
    *op = (struct op){
        .class = class,
        .loop = loop,
        .parent = parent,
        .step_next = FOLLOWING,
        .is_background = class->is_background || (parent && parent->is_background),
        .is_attended = class->is_attended || (parent && parent->is_attended),
        .started_ns = loop_now_ns(loop),
        .request_id = parent ? parent->request_id : SLICE_NONE,
        .account_id = parent ? parent->account_id : SLICE_NONE,
    };
    arena_init(&op->arena, arena_bytes_max);
    op->arena.use = parent ? parent->arena.use : NULL;
    loop_task_init(&op->task, op_run);
    list_init(&op->kept);
    list_init(&op->kept_link);
    list_init(&op->waits);
    list_init(&op->all_link);
    list_push_back(&loop->ops, &op->all_link);
    loop->op_count++;
    if (parent) {
        op_hold(parent, class->name);
        parent->children++;
    }
    op_queue(op);
}

void op_account_set(struct op *op, struct uuid account_id)
{
    char text[UUID_TEXT_LEN + 1];
    uuid_format(account_id, text);
    op->account_id = arena_dup(&op->arena, slice_of(text, UUID_TEXT_LEN));
}

void op_keep_children(struct op *op)
{
    ASSERT(!op->is_ended);
    op->is_keeping = true;
}

void op_hold(struct op *op, const char *what)
{
    ASSERT(what && op->holds < UINT16_MAX);
    op->holds++;
    op->waits_for = what;
}

void op_release(struct op *op)
{
    ASSERT(op->holds > 0);
    if (--op->holds)
        return;
    if (op->is_ended)
        op_collect(op);
    else
        op_queue(op);
}

void op_wait_begin(struct op *op, struct op_wait *wait, const char *what,
                   void (*cut)(struct op_wait *wait))
{
    wait->op = op;
    wait->cut = cut;
    list_init(&wait->link);
    list_push_back(&op->waits, &wait->link);
    op_hold(op, what);
}

void op_wait_end(struct op_wait *wait)
{
    list_unlink(&wait->link);
    op_release(wait->op);
}

void op_free_struct(struct op *op)
{
    mem_free(op);
}

void op_cancel(struct op *op)
{
    if (!op_is_active(op) || op->is_cancelled)
        return;
    op->is_cancelled = true;
    LIST_DRAIN(&op->waits, struct op_wait, wait, link) {
        wait->cut(wait);
    }
    op_sleep_stop(op->sleep);
    op_job_drop(op);
    op_leave_entrance(op);
    if (op->class->on_cancel)
        op->class->on_cancel(op);
    op_queue(op);
}

bool op_is_active(const struct op *op)
{
    return op->class && !op->is_ended;
}

/* ---- sleeping ---- */

static void op_wake_sleeper(struct op_timer *timer)
{
    struct op *op = timer->op;
    timer->op = NULL;
    op->sleep = NULL;
    op_release(op);
}

static void on_sleep_due(struct timer *timer)
{
    op_wake_sleeper(CONTAINER_OF(timer, struct op_timer, timer));
}

void op_sleep(struct op *op, struct op_timer *timer, uint64_t delay_ms, const char *what)
{
    ASSERT(!op->sleep && !op->is_ended);
    timer_init(&timer->timer, op->loop, on_sleep_due);
    timer->op = op;
    op->sleep = timer;
    op_hold(op, what);
    timer_start_in_ms(&timer->timer, op->is_cancelled ? 0 : delay_ms);
}

void op_sleep_stop(struct op_timer *timer)
{
    if (!timer || !timer->op)
        return;
    timer_stop(&timer->timer);
    op_wake_sleeper(timer);
}

/* ---- the ops that are alive ---- */

size_t op_count(const struct loop *loop)
{
    return loop->op_count;
}

void op_print_all(struct loop *loop)
{
    uint64_t now_ns = clock_mono_ns();
    LIST_EACH(&loop->ops, struct op, op, all_link) {
        fprintf(stderr, "op %s step %s age %" PRIu64 " ms holds %u waits for %s%s%s\n",
                op->class->name, op_step_name(op), (now_ns - op->started_ns) / 1000000,
                (unsigned)op->holds, op->waits_for ? op->waits_for : "nothing",
                op->is_cancelled ? ", cancelled" : "", op->is_ended ? ", ended" : "");
    }
}
