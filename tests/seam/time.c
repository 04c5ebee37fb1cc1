/*
 * Time that a test moves, random numbers from a seed, and simulated threads: these replace
 * functions of the C library and of loop/work.c that src calls.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#include "base/mem.h"
#include "loop/internal.h"
#include "seam/seam.h"

/* 2026-07-01T08:00:00Z, and a process that has run for a while. */
#define WALL_US_AT_START INT64_C(1782892800000000)
#define MONO_NS_AT_START UINT64_C(1000000000000)
enum { TURNS_MAX = 200000 };

static struct {
    uint64_t now_ns;
    int64_t wall_shift_us;
    uint64_t src, own; /* states of two sequences */
    bool is_held;
    struct list held; /* struct work.task.link */
} seam = {.now_ns = MONO_NS_AT_START, .src = 1, .own = 2, .held = LIST_INIT(seam.held)};

/* ---- chance: splitmix64 ---- */

static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

void seam_open(uint64_t seed)
{
    seam.src = seed * 2 + 1;
    seam.own = ~seed;
}

bool seam_close(void)
{
    metric_deinit();
    return mem_live_blocks() == 0;
}

uint64_t seam_pick(uint64_t bound)
{
    ASSERT(bound > 0);
    return draw(&seam.own) % bound;
}

ssize_t getrandom(void *out, size_t len, unsigned flags)
{
    unsigned char *p = out;
    (void)flags;
    for (size_t i = 0; i < len; i++)
        p[i] = (unsigned char)draw(&seam.src);
    return (ssize_t)len;
}

/* ---- clocks ---- */

int clock_gettime(clockid_t id, struct timespec *now)
{
    uint64_t ns = seam.now_ns;
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
        ns = ns - MONO_NS_AT_START + (uint64_t)(WALL_US_AT_START + seam.wall_shift_us) * 1000;
    now->tv_sec = (time_t)(ns / 1000000000);
    now->tv_nsec = (long)(ns % 1000000000);
    return 0;
}

uint64_t seam_now_ns(void)
{
    return seam.now_ns;
}

void seam_wall_shift_set(int64_t us)
{
    seam.wall_shift_us = us;
}

int64_t seam_wall_shift(void)
{
    return seam.wall_shift_us;
}

void seam_move_to_ns(uint64_t now_ns)
{
    ASSERT(now_ns >= seam.now_ns);
    seam.now_ns = now_ns;
}

/* ---- turns ---- */

uint64_t seam_timer_ns(struct loop *loop)
{
    if (!uv_is_active((uv_handle_t *)&loop->uv_timer))
        return UINT64_MAX;
    return (uv_now(&loop->uv) + uv_timer_get_due_in(&loop->uv_timer)) * 1000000;
}

static bool can_continue(struct loop *loop)
{
    return loop->is_dirty || !list_is_empty(&loop->tasks) || !list_is_empty(&loop->tasks_next) ||
           !list_is_empty(&loop->garbage) || loop->uv.closing_handles ||
           seam_timer_ns(loop) <= seam.now_ns;
}

void seam_settle(struct loop *loop)
{
    for (size_t turns = 0; turns < TURNS_MAX; turns++) {
        if (!can_continue(loop))
            return;
        (void)loop_turn(loop, false);
    }
    op_print_all(loop);
    UNREACHABLE("a loop that never settles");
}

bool seam_pass_timer(struct loop *loop, uint64_t ms_max)
{
    seam_settle(loop);
    uint64_t due_ns = seam_timer_ns(loop);
    if (due_ns == UINT64_MAX || due_ns > seam.now_ns + ms_max * 1000000)
        return false;
    seam_move_to_ns(due_ns);
    seam_settle(loop);
    return true;
}

void seam_pass_ms(struct loop *loop, uint64_t ms)
{
    uint64_t until_ns = seam.now_ns + ms * 1000000;
    while (seam_pass_timer(loop, (until_ns - seam.now_ns) / 1000000))
        continue;
    seam_move_to_ns(until_ns);
    seam_settle(loop);
}

/* ---- threads: their work is done in a drain of the loop ---- */

static void run_work(struct loop_task *task)
{
    struct work *work = CONTAINER_OF(task, struct work, task);
    struct loop *loop = work->handle;
    loop->work_count--;
    work->handle = NULL;
    work->run(work);
    work->done(work);
}

int work_start(struct loop *loop, struct work *work)
{
    ASSERT(work->run && work->done && !work->handle);
    work->handle = loop;
    loop->work_count++;
    loop_task_init(&work->task, run_work);
    if (seam.is_held)
        list_push_back(&seam.held, &work->task.link);
    else
        loop_task_queue(loop, &work->task);
    return OK;
}

void seam_threads_hold(bool is_held)
{
    struct list *link;
    seam.is_held = is_held;
    while (!is_held && (link = list_pop_front(&seam.held))) {
        struct work *work = LIST_ITEM(link, struct work, task.link);
        loop_task_queue(work->handle, &work->task);
    }
}

void loop_pool_start(struct loop *loop)
{
    (void)loop;
}

void loop_pool_started(struct loop *loop)
{
    (void)loop;
}

int signal_watch_start(struct loop *loop, struct signal_watch *watch, int signum)
{
    (void)loop, (void)watch, (void)signum;
    return ERR_IO;
}

void signal_watch_stop(struct signal_watch *watch)
{
    (void)watch;
}
