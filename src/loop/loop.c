/*
 * Turns: see loop.h for their order. The run queue is drained in uv_check (after I/O) and in
 * uv_prepare (after timers and close callbacks), so that no task waits during a poll.
 */
#include "loop/internal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/poison.h"
#include "loop/op.h"

#ifdef BASE_HAS_ASAN
enum { LOOP_REUSE_BYTES = 0 };
#else
enum {
    LOOP_REUSE_BYTES = 1024 * 1024
}; /* blocks freed by the requests of one turn are kept for the requests of the next */
#endif

static unsigned threads_wanted = 4; /* libuv's own default */
static bool has_abandoned;          /* a loop was abandoned because pool threads did not end */

/* ---- tasks, hooks, garbage ---- */

void loop_task_init(struct loop_task *task, void (*run)(struct loop_task *task))
{
    list_init(&task->link);
    task->run = run;
}

void loop_task_queue(struct loop *loop, struct loop_task *task)
{
    ASSERT(task->run);
    if (!list_is_empty(&task->link))
        return;
    list_push_back(&loop->tasks, &task->link);
    loop->is_dirty = true;
}

void loop_task_queue_next_turn(struct loop *loop, struct loop_task *task)
{
    ASSERT(task->run);
    if (!list_is_empty(&task->link))
        return;
    list_push_back(&loop->tasks_next, &task->link);
    loop->is_dirty = true;
}

void loop_task_cancel(struct loop_task *task)
{
    list_unlink(&task->link);
}

void loop_hook_add(struct loop *loop, struct loop_hook *hook, enum loop_phase phase)
{
    ASSERT(phase < LOOP_PHASES && hook->run);
    list_init(&hook->link);
    list_push_back(&loop->hooks[phase], &hook->link);
}

void loop_hook_remove(struct loop_hook *hook)
{
    list_unlink(&hook->link);
}

void loop_garbage_add(struct loop *loop, struct loop_garbage *garbage)
{
    ASSERT(garbage->free);
    list_init(&garbage->link);
    list_push_back(&loop->garbage, &garbage->link);
    loop->is_dirty = true;
}

/* ---- one turn ---- */

/* A turn may drain several times (after poll, before it, after close callbacks). All drains of a
 * turn share its time. */
static void loop_drain(struct loop *loop)
{
    if (list_is_empty(&loop->tasks))
        return;
    loop_enter(loop);
    loop->step_began_ns = clock_mono_ns();
    if (loop->drain_until_ns == 0)
        loop->drain_until_ns = loop->step_began_ns + LOOP_DRAIN_NS_MAX;
    for (size_t runs = 0; runs < LOOP_RUNS_MAX; runs++) {
        /* At least one task runs in each turn, so that a queue always gets shorter. */
        if (loop->tasks_run > 0 && loop_is_drain_over(loop))
            return;
        struct list *link = list_pop_front(&loop->tasks);
        if (!link)
            return;
        struct loop_task *task = LIST_ITEM(link, struct loop_task, link);
        task->run(task);
        loop->tasks_run++;
        /* Called for tasks that are not ops, too, to update the time of the drain. */
        loop_charge_step(loop, NULL, NULL);
    }
}

static void loop_run_hooks(struct loop *loop)
{
    for (size_t phase = 0; phase < LOOP_PHASES; phase++) {
        LIST_EACH(&loop->hooks[phase], struct loop_hook, hook, link) {
            hook->run(hook);
        }
        loop_lap(loop, (enum loop_part)(PART_DATABASE + phase));
    }
}

static void loop_free_garbage(struct loop *loop)
{
    LIST_DRAIN(&loop->garbage, struct loop_garbage, garbage, link) {
        garbage->free(garbage);
    }
}

static void on_idle(uv_idle_t *idle)
{
    loop_enter(loop_of(idle->loop));
}

/* Runs drain, hooks and garbage; afterwards poll may block only if no task is left. */
static void loop_settle(struct loop *loop)
{
    if (!loop->is_dirty)
        return;
    /* is_dirty is cleared first: if the steps below queue anything, the loop is dirty again. */
    loop->is_dirty = false;
    loop_lap(loop, PART_EVENTS);
    loop_drain(loop);
    loop_lap(loop, PART_STEPS);
    /* The hooks run after the tasks, so that one batch and one write have all that the tasks
     * queued. */
    loop_run_hooks(loop);
    log_flush();
    loop_lap(loop, PART_LOG);
    /* No callback of this turn is on the stack any more, so the memory may be freed. */
    loop_free_garbage(loop);
    loop_lap(loop, PART_MEMORY);
    bool has_tasks = !list_is_empty(&loop->tasks) || !list_is_empty(&loop->tasks_next) ||
                     loop_has_ready(loop); /* streams left to read may no longer be polled */
    if (uv_is_closing((uv_handle_t *)&loop->idle))
        return;
    /* An active idle handle makes poll return at once. */
    if (has_tasks && !uv_is_active((uv_handle_t *)&loop->idle)) {
        int rc = uv_idle_start(&loop->idle, on_idle);
        ASSERT(rc == 0);
    } else if (!has_tasks && uv_is_active((uv_handle_t *)&loop->idle)) {
        uv_idle_stop(&loop->idle);
    }
}

static void on_check(uv_check_t *check)
{
    struct loop *loop = loop_of(check->loop);
    list_append_all(&loop->tasks, &loop->tasks_next); /* poll comes between */
    loop_read_ready(loop);
    loop_settle(loop);
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct loop *loop = loop_of(prepare->loop);
    bool has_fired = loop->is_in_turn; /* a timer has begun the turn, before poll */
    loop_settle(loop);
    loop_turn_end(loop);
    if (has_fired && loop->is_one_turn)
        /* poll must not block this time, so that the caller can check its time-out */
        uv_stop(&loop->uv);
}

/* ---- running ---- */

static void loop_begin_running(struct loop *loop)
{
    loop->is_dirty = true; /* work may have been queued for hooks outside of a turn */
}

static bool loop_has_tasks(const struct loop *loop)
{
    return !list_is_empty(&loop->tasks) || !list_is_empty(&loop->tasks_next);
}

static bool loop_uv_turn(struct loop *loop, uv_run_mode mode)
{
    uv_run(&loop->uv, mode);
    loop_settle(loop); /* close callbacks and timers came after uv_check */
    loop_turn_end(loop);
    return uv_loop_alive(&loop->uv) || loop_has_tasks(loop);
}

void loop_run(struct loop *loop)
{
    loop->is_stopped = false;
    mem_reuse(LOOP_REUSE_BYTES);
    loop_pool_start(loop);
    loop_begin_running(loop);
    loop_settle(loop);
    while (loop_uv_turn(loop, UV_RUN_DEFAULT) && !loop->is_stopped)
        continue;
    mem_reuse(0);
}

bool loop_turn(struct loop *loop, bool may_block)
{
    loop_begin_running(loop);
    bool has_work =
        loop_has_tasks(loop); /* the turn has made progress, so poll must not block after it */
    loop_settle(loop);
    loop->is_one_turn = true;
    bool goes_on = loop_uv_turn(loop, may_block && !has_work ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    loop->is_one_turn = false;
    return goes_on;
}

void loop_stop(struct loop *loop)
{
    loop->is_stopped = true;
    uv_stop(&loop->uv);
}

int loop_err_from_uv(int status)
{
    switch (status) {
    case 0:
        return OK;
    case UV_ENOMEM:
    case UV_ENOBUFS:
        return ERR_NOMEM;
    case UV_ETIMEDOUT:
        return ERR_TIMEOUT;
    case UV_ECONNRESET:
    case UV_EPIPE:
    case UV_ECONNABORTED:
        return ERR_CLOSED;
    default:
        return ERR_IO;
    }
}

/* ---- creation and removal ---- */

void loop_threads_init(unsigned threads)
{
    ASSERT(threads >= 1 && threads <= 1024);
    char text[16];
    snprintf(text, sizeof(text), "%u", threads);
    /* libuv reads the variable when its first work is queued, so it must be set before that. */
    setenv("UV_THREADPOOL_SIZE", text, 1);
    /* The count is kept for code that divides the pool, such as dns. */
    threads_wanted = threads;
}

unsigned loop_threads_count(void)
{
    return threads_wanted;
}

static void loop_init_handles(struct loop *loop)
{
    loop->uv.data = loop;
    uv_prepare_init(&loop->uv, &loop->prepare);
    uv_check_init(&loop->uv, &loop->check);
    uv_idle_init(&loop->uv, &loop->idle);
    uv_prepare_start(&loop->prepare, on_prepare);
    uv_check_start(&loop->check, on_check);
    /* The loop's own handles must not keep uv_run alive. */
    uv_unref((uv_handle_t *)&loop->prepare);
    uv_unref((uv_handle_t *)&loop->check);
    loop_timers_init(loop);
    loop_jobs_init(&loop->jobs);
    loop_entrance_init(loop);
    loop_reads_init(loop);
}

struct loop *loop_new(struct err *err)
{
    struct loop *loop = mem_zalloc(sizeof(*loop));
    if (!loop || !(loop->read_buf = mem_alloc(LOOP_READ_BYTES))) {
        mem_free(loop);
        return err_null(err, ERR_NOMEM, "no memory for the event loop");
    }
    int rc = uv_loop_init(&loop->uv);
    if (rc != 0) {
        err_set(err, ERR_IO, "cannot start the event loop: %s", uv_strerror(rc));
        mem_free(loop->read_buf);
        mem_free(loop);
        return NULL;
    }
    /* A write to a closed socket then fails with EPIPE instead of ending the process. */
    signal(SIGPIPE, SIG_IGN);
    list_init(&loop->tasks);
    list_init(&loop->tasks_next);
    list_init(&loop->garbage);
    list_init(&loop->ops);
    for (size_t phase = 0; phase < LOOP_PHASES; phase++)
        list_init(&loop->hooks[phase]);
    loop_init_handles(loop);
    loop_turn_init(loop);
    return loop;
}

static void print_open_handle(uv_handle_t *handle, void *found)
{
    struct loop *loop = loop_of(handle->loop);
    if (uv_is_closing(handle) || handle == (uv_handle_t *)&loop->prepare ||
        handle == (uv_handle_t *)&loop->check || handle == (uv_handle_t *)&loop->idle ||
        handle == (uv_handle_t *)&loop->uv_timer)
        return;
    *(bool *)found = true;
    fprintf(stderr, "loop_free: a handle was left open: %s\n",
            uv_handle_type_name(uv_handle_get_type(handle)));
}

static void loop_check_nothing_left(struct loop *loop)
{
    bool has_handles = false;
    uv_walk(&loop->uv, print_open_handle, &has_handles);
    if (loop->op_count)
        op_print_all(loop);
    if (loop->slot_count)
        fprintf(stderr, "loop_free: %zu timers are still armed\n", loop->slot_count);
    ASSERT(!has_handles);
    ASSERT(loop->op_count == 0);
    ASSERT(loop->slot_count == 0 && !loop->spilled);
}

static void count_closing(uv_handle_t *handle, void *count)
{
    *(size_t *)count += uv_is_closing(handle) ? 1 : 0;
}

static bool loop_is_ending(struct loop *loop)
{
    size_t closing = 0;
    uv_walk(&loop->uv, count_closing, &closing);
    return closing || loop->work_count || loop_has_tasks(loop);
}

static void on_wait_over(struct timer *timer)
{
    (void)timer; /* loop_wait_for_work checks whether it is still armed */
}

bool loop_wait_for_work(struct loop *loop, uint64_t timeout_ms)
{
    struct timer timer;
    timer_init(&timer, loop, on_wait_over);
    timer_start_in_ms(&timer, timeout_ms);
    while (loop->work_count > 0 && timer_is_armed(&timer))
        (void)loop_turn(loop, true);
    timer_stop(&timer);
    return loop->work_count == 0;
}

void loop_abandon(struct loop *loop)
{
    ASSERT(loop->work_count > 0); /* without such work, call loop_free */
    has_abandoned = true;
}

bool loop_has_abandoned(void)
{
    return has_abandoned;
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    /* Closed handles end here, and work on threads is awaited. */
    while (loop_turn(loop, loop->work_count > 0) && loop_is_ending(loop))
        continue;
    loop_check_nothing_left(loop);
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->check, NULL);
    uv_close((uv_handle_t *)&loop->idle, NULL);
    loop_timers_deinit(loop);
    loop_jobs_deinit(&loop->jobs);
    loop_entrance_deinit(loop);
    loop_reads_deinit(&loop->reads);
    while (loop_uv_turn(loop, UV_RUN_DEFAULT))
        list_append_all(&loop->tasks, &loop->tasks_next); /* as in on_check */
    ASSERT(list_is_empty(&loop->garbage));
    /* The starter thread uses libuv's pool. It ends before the loop is closed. */
    loop_pool_started(loop);
    int rc = uv_loop_close(&loop->uv);
    ASSERT(rc == 0);
    mem_free(loop->read_buf);
    mem_free(loop);
}

static void on_handle_closed(uv_handle_t *handle)
{
    mem_free(handle);
}

void loop_handle_close(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, on_handle_closed);
}
