/*
 * One load process: its connections, and the closed or open loop that starts operations on them.
 */
#include "load/load.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum {
    REQUEST_BYTES_MAX = SCENARIO_BYTES_MAX + 8192,
    GRACE_MS = 5000,  /* how long an open loop waits after the end for what was due */
    FIRST_MS = 30000, /* how long a run waits for its first operation after the end */
    REST_MS = 100     /* after a failed connection, so that an unreachable server is not flooded */
};

struct connection {
    struct load *load;
    struct peer peer;
    struct list idle_link;
    const struct scenario *scenario;
    size_t scenario_index, step;
    uint64_t due_ns; /* when the operation started, or was scheduled to start */
    struct timer rested;
    uint64_t unique;
    struct scenario_value values[SCENARIO_VALUES_MAX];
};

struct load {
    const struct load_plan *plan;
    struct load_result *results; /* of all processes */
    struct load_result *result;  /* of this one */
    struct loop *loop;
    struct connection *connections;
    struct list idle;
    struct buf request;
    struct arena arena; /* memory for the current reply */
    unsigned weight_sum;
    uint64_t uniques, random;
    struct histogram second; /* latencies of the current second */
    struct timer starting, ending, ticking;
    double cpu_s; /* CPU time used before measuring started */
    /* open loop */
    int timer_fd;
    struct poll_watch *watch;
    uint64_t interval_ns, next_due_ns; /* next_due_ns: when the next operation is due */
    uint64_t *due;                     /* a ring of operations waiting for a free connection */
    size_t due_first, due_count;
    bool is_over;
};

/* ---- operations ---- */

/* splitmix64 with a fixed seed: the order of scenarios is the same in every run. */
static uint64_t next_random(struct load *load)
{
    uint64_t z = (load->random += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static size_t choose_scenario(struct load *load)
{
    const struct load_options *options = load->plan->options;
    unsigned at = (unsigned)(next_random(load) % load->weight_sum);
    for (size_t i = 0;; i++) {
        if (at < options->weights[i])
            return i;
        at -= options->weights[i];
    }
}

static void send_step(struct connection *connection)
{
    struct load *load = connection->load;
    const struct scenario_step *step = &connection->scenario->steps[connection->step];
    const struct scenario_context context = {
        .host = load->plan->target->host,
        .key = slice_cstr(load->plan->options->key),
        .values = connection->values,
        .unique = connection->unique,
        .connection = load->plan->connection_first + (uint64_t)(connection - load->connections),
    };
    buf_clear(&load->request);
    scenario_write(step, &context, &load->request);
    peer_send(&connection->peer, buf_slice(&load->request), scenario_reads_body(step));
}

static void begin(struct connection *connection, uint64_t due_ns)
{
    struct load *load = connection->load;
    connection->scenario_index = choose_scenario(load);
    connection->scenario = &load->plan->options->scenarios[connection->scenario_index];
    connection->step = 0;
    connection->due_ns = due_ns;
    /* unique among all processes and runs of one day */
    connection->unique = (uint64_t)clock_wall_us() / 1000000 % 100000 * 10000000000ull +
                         load->plan->process * 100000000ull + load->uniques++ % 100000000ull;
    memcpy(connection->values, connection->scenario->values, sizeof(connection->values));
    send_step(connection);
}

static void begin_due(struct load *load)
{
    while (load->due_count > 0 && !list_is_empty(&load->idle)) {
        struct connection *connection =
            LIST_ITEM(list_pop_front(&load->idle), struct connection, idle_link);
        uint64_t due_ns = load->due[load->due_first];
        load->due_first = (load->due_first + 1) % LOAD_DUE_MAX;
        load->due_count--;
        begin(connection, due_ns);
    }
}

/* Counts an operation that started (or was scheduled) and ended while measuring. In a closed
 * loop, it also counts an operation that started earlier, since throughput counts ends. */
static void count(struct connection *connection, uint64_t now_ns, bool is_right)
{
    struct load *load = connection->load;
    struct load_part *part = &load->result->parts[connection->scenario_index];
    uint64_t us = (now_ns - connection->due_ns) / 1000;
    load->result->live_done++;
    load->result->live_wrong += !is_right;
    histogram_record(&load->second, us);
    bool is_open = load->plan->options->rate > 0;
    uint64_t decides_ns = is_open ? connection->due_ns : now_ns;
    bool is_late = is_open ? decides_ns >= load->plan->end_ns : load->is_over;
    if (decides_ns < load->plan->start_ns || is_late)
        return;
    load->result->measured++;
    if (is_right) {
        part->done++;
        histogram_record(&part->latencies, us);
    } else {
        part->wrong++;
    }
}

static void go_on(struct connection *connection, uint64_t now_ns)
{
    struct load *load = connection->load;
    bool is_open = load->plan->options->rate > 0;
    if (load->is_over)
        return;
    if (!is_open) {
        begin(connection, now_ns);
        return;
    }
    list_push_back(&load->idle, &connection->idle_link);
    begin_due(load);
}

static void on_rested(struct timer *timer)
{
    go_on(CONTAINER_OF(timer, struct connection, rested), clock_mono_ns());
}

static void on_reply(struct peer *peer, unsigned status, slice body, const char *why)
{
    struct connection *connection = peer->owner;
    struct load *load = connection->load;
    struct err err = {0};
    enum scenario_verdict verdict = SCENARIO_WRONG;
    if (status == 0)
        (void)err_set(&err, ERR_CLOSED, "%s", why);
    else
        verdict = scenario_check_reply(&connection->scenario->steps[connection->step], status, body,
                                       connection->values, &load->arena, &err);
    arena_reset(&load->arena);
    if (verdict == SCENARIO_AGAIN) {
        send_step(connection);
        return;
    }
    if (verdict == SCENARIO_GO_ON && ++connection->step < connection->scenario->step_count) {
        send_step(connection);
        return;
    }
    if (verdict == SCENARIO_WRONG && load->result->why[0] == 0)
        (void)snprintf(load->result->why, LOAD_WHY_MAX, "%.*s, step %zu: %.240s",
                       SLICE_ARG(connection->scenario->name), connection->step + 1, err.text);
    uint64_t now_ns = clock_mono_ns();
    count(connection, now_ns, verdict == SCENARIO_GO_ON);
    if (status == 0)
        timer_start_in_ms(&connection->rested, REST_MS);
    else
        go_on(connection, now_ns);
}

/* ---- time ---- */

/* Called when the timerfd has expired, `late` times since the last read. A timerfd is used because
 * libuv's timers have a resolution of milliseconds, which would be most of the latency with
 * thousands of operations per second. */
static void on_timer(void *owner, int events)
{
    struct load *load = owner;
    uint64_t times = 0;
    (void)events;
    if (read(load->timer_fd, &times, sizeof(times)) != (ssize_t)sizeof(times))
        return;
    for (; times > 0 && !load->is_over; times--) {
        if (load->due_count == LOAD_DUE_MAX) {
            load->result->dropped++;
        } else {
            load->due[(load->due_first + load->due_count) % LOAD_DUE_MAX] = load->next_due_ns;
            load->due_count++;
        }
        load->next_due_ns += load->interval_ns;
    }
    begin_due(load);
}

static int start_open_loop(struct load *load)
{
    const struct load_plan *plan = load->plan;
    double share = plan->options->rate / (double)plan->options->processes;
    load->interval_ns = (uint64_t)(1e9 / share);
    load->due = mem_calloc(LOAD_DUE_MAX, sizeof(*load->due));
    load->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (!load->due || load->timer_fd < 0)
        return ERR_NOMEM;
    /* each process starts at its share of the interval, so that they alternate */
    uint64_t begin_ns =
        clock_mono_ns() + 1000000 + load->interval_ns / plan->options->processes * plan->process;
    load->next_due_ns = begin_ns;
    const struct itimerspec spec = {
        .it_interval = {(time_t)(load->interval_ns / 1000000000),
                        (long)(load->interval_ns % 1000000000)},
        .it_value = {(time_t)(begin_ns / 1000000000), (long)(begin_ns % 1000000000)},
    };
    if (timerfd_settime(load->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL) != 0)
        return ERR_IO;
    load->watch = poll_watch_new(load->loop, load->timer_fd, on_timer, load);
    if (!load->watch)
        return ERR_NOMEM;
    poll_watch_set(load->watch, POLL_READ);
    return OK;
}

static void on_tick(struct timer *timer)
{
    struct load *load = CONTAINER_OF(timer, struct load, ticking);
    struct load_result *result = load->result;
    result->second_p50_us = histogram_percentile(&load->second, 50);
    result->second_p99_us = histogram_percentile(&load->second, 99);
    result->second_max_us = load->second.max_us;
    result->second++;
    histogram_clear(&load->second);
    timer_start_in_ms(timer, 1000);
}

static double used_cpu_s(void)
{
    struct rusage usage = {0};
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void on_starting(struct timer *timer)
{
    struct load *load = CONTAINER_OF(timer, struct load, starting);
    load->cpu_s = used_cpu_s();
}

static bool is_anything_measured(const struct load *load)
{
    uint64_t measured = 0;
    for (unsigned i = 0; i < load->plan->options->processes; i++)
        measured += load->results[i].measured;
    return measured > 0;
}

/* Returns whether the run has to go on. An open loop waits for all operations that were scheduled
 * while measuring. A closed loop waits until any of the processes has measured an operation, since
 * one may take longer than the whole duration, and a rate of zero says nothing. */
static bool is_anything_due(const struct load *load)
{
    if (load->plan->options->rate <= 0)
        return !is_anything_measured(load);
    if (load->due_count > 0 && load->due[load->due_first] < load->plan->end_ns)
        return true;
    for (uint64_t i = 0; i < load->plan->connections; i++)
        if (load->connections[i].peer.is_busy && load->connections[i].due_ns < load->plan->end_ns)
            return true;
    return false;
}

static void on_ending(struct timer *timer)
{
    struct load *load = CONTAINER_OF(timer, struct load, ending);
    uint64_t now_ns = clock_mono_ns();
    uint64_t waits_ms = is_anything_measured(load) ? GRACE_MS : FIRST_MS;
    double passed_s = (double)(now_ns - load->plan->start_ns) / 1e9;
    if (load->result->cpu == 0)
        load->result->cpu = (used_cpu_s() - load->cpu_s) / passed_s;
    if (is_anything_due(load) && now_ns < load->plan->end_ns + waits_ms * 1000000ull) {
        timer_start_in_ms(timer, 10);
        return;
    }
    bool is_open = load->plan->options->rate > 0;
    load->result->measured_s = is_open ? (double)load->plan->options->duration_s : passed_s;
    load->is_over = true;
    loop_stop(load->loop);
}

/* ---- a run ---- */

static void start_connections(struct load *load)
{
    const struct load_plan *plan = load->plan;
    for (uint64_t i = 0; i < plan->connections; i++) {
        struct connection *connection = &load->connections[i];
        connection->load = load;
        list_init(&connection->idle_link);
        timer_init(&connection->rested, load->loop, on_rested);
        peer_init(&connection->peer, load->loop, plan->target, connection, on_reply);
        if (plan->options->rate > 0)
            list_push_back(&load->idle, &connection->idle_link);
        else
            begin(connection, clock_mono_ns());
    }
}

static void close_all(struct load *load)
{
    for (uint64_t i = 0; i < load->plan->connections; i++) {
        peer_close(&load->connections[i].peer);
        timer_stop(&load->connections[i].rested);
    }
    timer_stop(&load->starting);
    timer_stop(&load->ending);
    timer_stop(&load->ticking);
    poll_watch_free(load->watch);
    while (loop_turn(load->loop, false))
        continue;
    if (load->timer_fd >= 0)
        (void)close(load->timer_fd);
    mem_free(load->due);
    mem_free(load->connections);
    arena_deinit(&load->arena);
    buf_deinit(&load->request);
    loop_free(load->loop);
}

int load_run(const struct load_plan *plan, struct load_result *results)
{
    struct load_result *result = &results[plan->process];
    struct err err;
    struct load *load = mem_zalloc(sizeof(*load));
    if (!load)
        return ERR_NOMEM;
    *load = (struct load){.plan = plan, .results = results, .result = result, .timer_fd = -1};
    load->random = plan->process + 1;
    for (size_t i = 0; i < plan->options->scenario_count; i++)
        load->weight_sum += plan->options->weights[i];
    list_init(&load->idle);
    buf_init(&load->request, REQUEST_BYTES_MAX);
    arena_init(&load->arena, 4 * PEER_BODY_BYTES_MAX);
    load->loop = loop_new(&err);
    load->connections = mem_calloc(plan->connections, sizeof(*load->connections));
    if (!load->loop || !load->connections) {
        (void)snprintf(result->why, LOAD_WHY_MAX, "out of memory");
        return ERR_NOMEM;
    }
    timer_init(&load->starting, load->loop, on_starting);
    timer_init(&load->ending, load->loop, on_ending);
    timer_init(&load->ticking, load->loop, on_tick);
    timer_start(&load->starting, plan->start_ns);
    timer_start(&load->ending, plan->end_ns);
    timer_start_in_ms(&load->ticking, 1000);
    start_connections(load);
    int status = plan->options->rate > 0 ? start_open_loop(load) : OK;
    if (status == OK)
        loop_run(load->loop);
    else
        (void)snprintf(result->why, LOAD_WHY_MAX, "the timer could not be started");
    close_all(load);
    mem_free(load);
    return status;
}
