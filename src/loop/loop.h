/*
 * The event loop of a process: a run queue of ops, hooks at the end of each turn, and the
 * accounting of turns. uv.h stays inside this room; other rooms see opaque structs.
 *
 * A turn: poll (I/O and timer callbacks, which only store results and wake ops) -> readable streams
 * are read in turn -> drain the run queue -> end-of-turn hooks (pg sends its batch, http flushes
 * replies, the log is written) -> memory of ended ops and closed streams is freed. Tasks that are
 * queued while the queue drains run in the same drain, up to LOOP_RUNS_MAX; the rest runs first in
 * the next turn, which then does not block in poll.
 */
#ifndef LOOP_LOOP_H
#define LOOP_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"

enum { LOOP_RUNS_MAX = 4096 };

struct loop;

/* Also ignores SIGPIPE. UV_THREADPOOL_SIZE is set by loop_threads_init. Returns NULL with err set
 * on failure. */
struct loop *loop_new(struct err *err) MUST_CHECK;
/* Sets the size of libuv's pool (lookups and TLS handshakes run there). Call it once, before any
 * loop or thread is made. */
void loop_threads_init(unsigned threads);
/* Runs until loop_stop or until there is nothing left to wait for. */
void loop_run(struct loop *loop);
/* Runs one turn; blocks in poll if may_block is set and nothing is due. Returns true while handles
 * or queued ops remain. For tests. */
bool loop_turn(struct loop *loop, bool may_block);
void loop_stop(struct loop *loop);
/* Runs the closing turns (waits for work on threads), then ASSERTs that uv_loop_close() == 0 and
 * that no timer is armed and no op is alive: anything left open is a bug, and is printed. */
void loop_free(struct loop *loop);
/* Runs turns until there is no more work on threads. Returns false if some was still running after
 * timeout_ms (a lookup whose server does not answer cannot be interrupted). For use at the end,
 * before loop_free. */
bool loop_wait_for_work(struct loop *loop, uint64_t timeout_ms) MUST_CHECK;
/* Call it instead of loop_free if loop_wait_for_work failed: the loop, and memory that the work may
 * access, are not freed. The process must end with _exit, since any other way joins libuv's
 * threads. */
void loop_abandon(struct loop *loop);
bool loop_has_abandoned(void);
/* Returns monotonic nanoseconds, read once a turn; for deadlines. */
uint64_t loop_now_ns(const struct loop *loop);
/* Returns the number of pool threads set by loop_threads_init; libuv's default of 4 before that. */
unsigned loop_threads_count(void);

/* Called at the end of every turn in the order of `phase`, until removed. */
enum loop_phase { LOOP_PHASE_DATABASE, LOOP_PHASE_REPLY, LOOP_PHASE_LOG, LOOP_PHASES };
struct loop_hook {
    struct list link;
    void (*run)(struct loop_hook *hook);
};
void loop_hook_add(struct loop *loop, struct loop_hook *hook, enum loop_phase phase);
void loop_hook_remove(struct loop_hook *hook);

/* Reports that work was queued for a hook and will take about this long, so that the drain ends
 * earlier by this time. */
void loop_reserve(struct loop *loop, uint64_t about_ns);

/* An object whose memory is freed at the bottom of the turn, never where the object ends. */
struct loop_garbage {
    struct list link;
    void (*free)(struct loop_garbage *garbage);
};
void loop_garbage_add(struct loop *loop, struct loop_garbage *garbage);

/* The smallest unit that the run queue runs; ops are built on it. Embedded in its owner. */
struct loop_task {
    struct list link;
    void (*run)(struct loop_task *task);
};
void loop_task_init(struct loop_task *task, void (*run)(struct loop_task *task));
/* The task runs in the drain of this turn, or of the next turn. No effect if it is queued
 * already. */
void loop_task_queue(struct loop *loop, struct loop_task *task);
/* Like loop_task_queue, but never in the drain that is under way: for work that yields to I/O. */
void loop_task_queue_next_turn(struct loop *loop, struct loop_task *task);
void loop_task_cancel(struct loop_task *task);
static inline bool loop_task_is_queued(const struct loop_task *task)
{
    return !list_is_empty(&task->link);
}

struct loop_stats {
    uint64_t turns;
    uint64_t turn_cpu_ns_max;  /* thread CPU time of the longest turn, poll excluded */
    uint64_t turn_wall_ns_max; /* the same in wall-clock time, as a waiting request sees it */
};
const struct loop_stats *loop_stats(const struct loop *loop);
/* Whether too many turns took more thread CPU time than SLUICE_TURN_CPU_MS_MAX allows: more than
 * SLUICE_TURNS_OVER_MAX (0) of each thousand begun, or a single turn that took ten times that long.
 * Both are environment variables, read by loop_new; the count is for all loops of this process. The
 * log names each such turn, and where its time was spent. Test runs use this to assert a limit of
 * 50 ms. A few such turns may be allowed, since a virtual machine's host may pause it, and the
 * pause is charged to the running thread. */
bool loop_turn_limit_passed(void);

/* ---- timers: an intrusive heap driven by one uv_timer ---- */

struct timer {
    struct loop *loop;
    uint64_t due_ns;   /* wanted */
    uint64_t armed_ns; /* position in the heap; changing due_ns to a later time costs nothing
                        * until then */
    size_t heap_index; /* SIZE_MAX: not armed; SIZE_MAX - 1: spilled */
    /* list of timers for which the heap had no memory; they fire in the next turn */
    struct timer *spilled_next;
    void (*on_due)(struct timer *timer);
};

void timer_init(struct timer *timer, struct loop *loop, void (*on_due)(struct timer *timer));
/* Arms or moves the timer. Moving it to a later time is O(1), to an earlier one O(log n). Never
 * calls back before it returns. If there is no memory for the heap to grow, the timer fires in
 * the next turn. */
void timer_start(struct timer *timer, uint64_t due_ns);
void timer_start_in_ms(struct timer *timer, uint64_t delay_ms);
void timer_stop(struct timer *timer);
static inline bool timer_is_armed(const struct timer *timer)
{
    return timer->heap_index != (size_t)-1;
}

/* ---- work on the thread pool ---- */

/* run is called on a pool thread and may access only what the work owns; done is called later, in a
 * drain of the loop. The struct is embedded in its owner, which must live until done is called. */
struct work {
    void (*run)(struct work *work);
    void (*done)(struct work *work);
    void *handle;
    struct loop_task task;
};
int work_start(struct loop *loop, struct work *work) MUST_CHECK;

/* ---- signals ---- */

struct signal_watch {
    void (*on_signal)(struct signal_watch *watch, int signum);
    void *handle;
};
/* A watch alone does not keep loop_run running. */
int signal_watch_start(struct loop *loop, struct signal_watch *watch, int signum) MUST_CHECK;
void signal_watch_stop(struct signal_watch *watch);

/* ---- readiness of a foreign descriptor (libpq's socket) ---- */

enum { POLL_READ = 1, POLL_WRITE = 2 };
struct poll_watch;
/* on_ready gets a set of POLL_*; an error is reported as both. A uv_poll error without events is
 * passed on as both, too. The caller owns the fd; free the watch before the fd is closed or
 * changes. Returns NULL if the fd cannot be watched. */
struct poll_watch *poll_watch_new(struct loop *loop, int fd,
                                  void (*on_ready)(void *owner, int events),
                                  void *owner) MUST_CHECK;
void poll_watch_set(struct poll_watch *watch, int events);
/* No callback follows; the memory is freed once libuv has released it. */
void poll_watch_free(struct poll_watch *watch);

#endif
