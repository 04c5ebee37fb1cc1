/*
 * The time of a turn: when it began, which step was the costliest, when its time for reading and
 * for tasks is over, and what is logged when it ends. Both times are short, so that a turn takes at
 * most some two milliseconds however many sockets are ready and ops queued. The rest is done in the
 * next turn, which does not wait in poll. Shorter times would make smaller batches of statements:
 * halving them costs a twelfth of the executions.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "loop/internal.h"

static struct metric lag_metric =
    METRIC_INIT("sluice_loop_lag_seconds",
                "Wall-clock time of one turn of the event loop, poll excluded.", METRIC_HISTOGRAM);
static struct metric turn_metric = METRIC_INIT("sluice_loop_turn_cpu_seconds",
                                               "Thread CPU time of one turn of the event loop.",
                                               METRIC_HISTOGRAM);

/* A turn that takes this many times the limit always counts as a failure. Pauses caused by a
 * virtual machine's host were measured to be shorter. */
#define FAR_OVER 10

/* Totals for all loops of this process; _max: per thousand turns. */
static uint64_t turns, turns_over, turns_over_max;
static bool is_turn_far_over;

static uint64_t number_of_environment(const char *name)
{
    const char *text = getenv(name);
    uint64_t number;
    return text && slice_to_u64(slice_cstr(text), 3600 * 1000, &number) ? number : 0;
}

void loop_turn_init(struct loop *loop)
{
    loop->turn_cpu_ns_limit = number_of_environment("SLUICE_TURN_CPU_MS_MAX") * 1000 * 1000;
    turns_over_max = number_of_environment("SLUICE_TURNS_OVER_MAX");
    loop->lag_series = metric_series(&lag_metric, SLICE_NONE);
    loop->turn_series = metric_series(&turn_metric, SLICE_NONE);
}

void loop_turn_begin(struct loop *loop)
{
    if (loop->is_in_turn)
        return;
    loop->is_in_turn = true;
    /* All callbacks of a turn see the same time, which costs one reading of the clock. */
    loop->now_ns = loop->turn_began_ns = clock_mono_ns();
    loop->cpu_mark_ns = loop->part_began_ns = clock_thread_cpu_ns();
    loop->worst_ns = 0;
    loop->worst_op = loop->worst_step = NULL;
}

void loop_enter(struct loop *loop)
{
    loop->is_dirty = true;
    loop->events++;
    loop_turn_begin(loop);
}

uint64_t loop_now_ns(const struct loop *loop)
{
    return loop->is_in_turn ? loop->now_ns : clock_mono_ns();
}

/* ---- the time of each op ---- */

/* Without a limit the slowest step is not reported, so it is enough to read the clock at every
 * fourth step. */
void loop_charge_step(struct loop *loop, const char *op_name, const char *step_name)
{
    if (loop->turn_cpu_ns_limit == 0 && ++loop->uncharged < 4)
        return;
    loop->uncharged = 0;
    uint64_t now_ns = clock_mono_ns();
    uint64_t took_ns = now_ns - loop->step_began_ns;
    loop->step_began_ns = now_ns;
    if (took_ns <= loop->worst_ns)
        return;
    loop->worst_ns = took_ns;
    loop->worst_op = op_name;
    loop->worst_step = step_name;
}

void loop_reserve(struct loop *loop, uint64_t about_ns)
{
    loop->reserved_ns += about_ns;
}

bool loop_is_drain_over(const struct loop *loop)
{
    return loop->step_began_ns + loop->reserved_ns >= loop->drain_until_ns;
}

void loop_lap(struct loop *loop, enum loop_part part)
{
    if (loop->turn_cpu_ns_limit == 0 || !loop->is_in_turn)
        return;
    uint64_t now_ns = clock_thread_cpu_ns();
    loop->parts_ns[part] += now_ns - loop->part_began_ns;
    loop->part_began_ns = now_ns;
}

/* ---- its end ---- */

static void loop_report_long_turn(const struct loop *loop, uint64_t cpu_ns)
{
    const uint64_t *parts_ns = loop->parts_ns;
    log_event(loop_turn_limit_passed() ? LOG_ERROR : LOG_WARN,
              "a turn of the loop took longer than SLUICE_TURN_CPU_MS_MAX allows",
              LOG_MS("cpu_ms", cpu_ns), LOG_CSTR("op", loop->worst_op ? loop->worst_op : ""),
              LOG_CSTR("step", loop->worst_step ? loop->worst_step : ""),
              LOG_MS("step_ms", loop->worst_ns), LOG_INT("events", loop->events),
              LOG_MS("events_ms", parts_ns[PART_EVENTS]), LOG_INT("tasks", loop->tasks_run),
              LOG_MS("tasks_ms", parts_ns[PART_STEPS]),
              LOG_MS("database_ms", parts_ns[PART_DATABASE]),
              LOG_MS("reply_ms", parts_ns[PART_REPLY]), LOG_MS("log_ms", parts_ns[PART_LOG]),
              LOG_MS("memory_ms", parts_ns[PART_MEMORY]));
}

void loop_turn_end(struct loop *loop)
{
    if (!loop->is_in_turn)
        return;
    uint64_t turn_cpu_ns = clock_thread_cpu_ns() - loop->cpu_mark_ns;
    uint64_t turn_wall_ns = clock_mono_ns() - loop->turn_began_ns;
    /* Both clocks are read before this, so that the work below is not counted as part of the
     * turn. */
    loop->is_in_turn = false;
    loop->drain_until_ns = loop->reserved_ns = 0;
    struct loop_stats *stats = &loop->stats;
    stats->turns++;
    turns++;
    if (turn_cpu_ns > stats->turn_cpu_ns_max)
        stats->turn_cpu_ns_max = turn_cpu_ns;
    if (turn_wall_ns > stats->turn_wall_ns_max)
        stats->turn_wall_ns_max = turn_wall_ns;
    metric_observe_ns(loop->lag_series, turn_wall_ns);
    metric_observe_ns(loop->turn_series, turn_cpu_ns);
    if (loop->turn_cpu_ns_limit && turn_cpu_ns > loop->turn_cpu_ns_limit) {
        turns_over++;
        is_turn_far_over |= turn_cpu_ns > FAR_OVER * loop->turn_cpu_ns_limit;
        loop_report_long_turn(loop, turn_cpu_ns);
    }
    memset(loop->parts_ns, 0, sizeof(loop->parts_ns));
    loop->events = loop->tasks_run = 0;
}

const struct loop_stats *loop_stats(const struct loop *loop)
{
    return &loop->stats;
}

bool loop_turn_limit_passed(void)
{
    return is_turn_far_over || turns_over > turns_over_max * (turns / 1000 + 1);
}
