/* loop/loop, work, poll: the order inside a turn, yielding, hooks, garbage, threads, signals,
 * foreign descriptors, the CPU limit of a turn. */
#include "testing.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop/internal.h"

static char trace[64];

static void note(char what)
{
    size_t len = strlen(trace);
    assert_true(len + 1 < sizeof(trace));
    trace[len] = what;
    trace[len + 1] = 0;
}

struct repeat {
    struct loop_task task;
    struct loop *loop;
    size_t runs, runs_max;
    bool is_next_turn;
};

static void run_repeat(struct loop_task *task)
{
    struct repeat *repeat = CONTAINER_OF(task, struct repeat, task);
    if (++repeat->runs == repeat->runs_max)
        return;
    if (repeat->is_next_turn)
        loop_task_queue_next_turn(repeat->loop, task);
    else
        loop_task_queue(repeat->loop, task);
}

static void repeat_init(struct repeat *repeat, struct loop *loop, size_t runs_max)
{
    *repeat = (struct repeat){.loop = loop, .runs_max = runs_max};
    loop_task_init(&repeat->task, run_repeat);
}

static void a_drain_is_bounded_and_the_rest_comes_first(void **state)
{
    struct loop *loop = *state;
    struct repeat repeat;
    repeat_init(&repeat, loop, 3 * LOOP_RUNS_MAX);
    loop_task_queue(loop, &repeat.task);
    loop_task_queue(loop, &repeat.task); /* queued already */
    assert_int_equal(repeat.runs, 0);
    loop_run(loop); /* continues even if there is nothing else to wait for */
    assert_int_equal(repeat.runs, 3 * LOOP_RUNS_MAX);
}

/* ---- the time of a turn ---- */

enum { BURN_NS = 50 * 1000, BURNS = 200 };

struct burn {
    struct loop_task task;
    struct loop *loop;
    uint64_t turn; /* the turn in which it ran; UINT64_MAX: not yet */
    bool owes;
    uint64_t takes_ns; /* 0: BURN_NS */
};

static void burn_cpu(uint64_t time_ns)
{
    uint64_t until_ns = clock_thread_cpu_ns() + time_ns;
    while (clock_thread_cpu_ns() < until_ns)
        continue;
}

static void run_burn(struct loop_task *task)
{
    struct burn *burn = CONTAINER_OF(task, struct burn, task);
    burn->turn = loop_stats(burn->loop)->turns;
    burn_cpu(burn->takes_ns ? burn->takes_ns : BURN_NS);
    if (burn->owes)
        loop_reserve(burn->loop, BURN_NS);
}

/* The largest number of these tasks that ran in one turn. All ran, in order. */
static size_t most_burns_a_turn(struct loop *loop, bool owes)
{
    static struct burn burns[BURNS];
    size_t most = 0, count = 0;
    for (size_t i = 0; i < BURNS; i++) {
        burns[i] = (struct burn){.loop = loop, .turn = UINT64_MAX, .owes = owes};
        loop_task_init(&burns[i].task, run_burn);
        loop_task_queue(loop, &burns[i].task);
    }
    loop_run(loop);
    for (size_t i = 0; i < BURNS; i++) {
        assert_true(burns[i].turn != UINT64_MAX);
        assert_true(i == 0 || burns[i].turn >= burns[i - 1].turn);
        count = i > 0 && burns[i].turn == burns[i - 1].turn ? count + 1 : 1;
        most = count > most ? count : most;
    }
    return most;
}

/* Counted in tasks, because a clock may stop or jump on a busy machine. */
static void a_turn_has_its_time_whatever_is_queued(void **state)
{
    struct loop *loop = *state;
    enum { CHARGED_EVERY = 4 }; /* see loop_charge_step */
    assert_in_range(most_burns_a_turn(loop, false), 1,
                    (size_t)LOOP_DRAIN_NS_MAX / BURN_NS + CHARGED_EVERY);
    assert_in_range(most_burns_a_turn(loop, true), 1,
                    (size_t)LOOP_DRAIN_NS_MAX / BURN_NS / 2 + CHARGED_EVERY);
}

struct done_work {
    struct work work;
    struct burn burn;
};

static void run_nothing(struct work *work)
{
    (void)work;
}

static void on_burning_work_done(struct work *work)
{
    run_burn(&CONTAINER_OF(work, struct done_work, work)->burn.task);
}

/* libuv reports all of it in one callback. */
static void what_threads_have_done_has_its_place_in_the_drain(void **state)
{
    struct loop *loop = *state;
    static struct done_work works[BURNS];
    for (size_t i = 0; i < BURNS; i++) {
        works[i].burn = (struct burn){.loop = loop, .turn = UINT64_MAX};
        works[i].work = (struct work){.run = run_nothing, .done = on_burning_work_done};
        assert_int_equal(work_start(loop, &works[i].work), OK);
    }
    loop_run(loop);
    uint64_t turns = loop_stats(loop)->turns;
    size_t most = 0;
    for (uint64_t turn = 0; turn <= turns; turn++) {
        size_t count = 0;
        for (size_t i = 0; i < BURNS; i++)
            count += works[i].burn.turn == turn;
        most = count > most ? count : most;
    }
    assert_in_range(most, 1, LOOP_DRAIN_NS_MAX / BURN_NS + 4);
    for (size_t i = 0; i < BURNS; i++)
        assert_true(works[i].burn.turn <= turns);
}

/* The threads already exist for the first work, because creating them takes milliseconds. */
static void the_pool_has_its_threads_before_it_is_needed(void **state)
{
    struct loop *loop = *state;
    struct repeat repeat;
    repeat_init(&repeat, loop, 2);
    loop_task_queue(loop, &repeat.task);
    loop_run(loop);
    loop_pool_started(loop);
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    size_t threads = 0;
    for (struct dirent *entry; (entry = readdir(tasks));)
        threads += entry->d_name[0] != '.';
    closedir(tasks);
    assert_true(threads >= 1 + loop_threads_count());
}

static void next_turn_means_next_turn(void **state)
{
    struct loop *loop = *state;
    struct repeat repeat;
    repeat_init(&repeat, loop, 5);
    repeat.is_next_turn = true;
    loop_task_queue(loop, &repeat.task);
    loop_run(loop);
    assert_int_equal(repeat.runs, 5);
    assert_true(loop_stats(loop)->turns >= 4);
    repeat.runs = 0;
    loop_task_queue_next_turn(loop, &repeat.task);
    loop_task_cancel(&repeat.task);
    loop_run(loop);
    assert_int_equal(repeat.runs, 0);
}

struct ending {
    struct loop_task task;
    struct loop_hook hooks[LOOP_PHASES];
    struct loop_garbage garbage;
    struct loop *loop;
};

static void run_ending(struct loop_task *task)
{
    struct ending *ending = CONTAINER_OF(task, struct ending, task);
    loop_garbage_add(ending->loop, &ending->garbage);
    note('t');
}

static void free_ending(struct loop_garbage *garbage)
{
    (void)garbage;
    note('g');
}

static void hook_database(struct loop_hook *hook)
{
    (void)hook;
    note('d');
}

static void hook_reply(struct loop_hook *hook)
{
    (void)hook;
    note('r');
}

static void hook_log(struct loop_hook *hook)
{
    (void)hook;
    note('l');
}

static void a_turn_ends_with_hooks_in_order_then_garbage(void **state)
{
    struct loop *loop = *state;
    struct ending ending = {.loop = loop};
    loop_task_init(&ending.task, run_ending);
    ending.garbage.free = free_ending;
    ending.hooks[LOOP_PHASE_DATABASE].run = hook_database;
    ending.hooks[LOOP_PHASE_REPLY].run = hook_reply;
    ending.hooks[LOOP_PHASE_LOG].run = hook_log;
    loop_hook_add(loop, &ending.hooks[LOOP_PHASE_LOG], LOOP_PHASE_LOG);
    loop_hook_add(loop, &ending.hooks[LOOP_PHASE_REPLY], LOOP_PHASE_REPLY);
    loop_hook_add(loop, &ending.hooks[LOOP_PHASE_DATABASE], LOOP_PHASE_DATABASE);
    trace[0] = 0;
    loop_task_queue(loop, &ending.task);
    loop_turn(loop, false);
    assert_int_equal(strncmp(trace, "tdrlg", 5), 0);
    for (size_t i = 0; i < LOOP_PHASES; i++)
        loop_hook_remove(&ending.hooks[i]);
    trace[0] = 0;
    loop_turn(loop, false);
    assert_string_equal(trace, "");
}

struct stopper {
    struct timer timer;
    struct loop *loop;
};

static void on_stop(struct timer *timer)
{
    struct stopper *stopper = CONTAINER_OF(timer, struct stopper, timer);
    timer_start_in_ms(timer, 3600000);
    loop_stop(stopper->loop);
}

static void loop_stop_stops(void **state)
{
    struct loop *loop = *state;
    struct stopper stopper = {.loop = loop};
    timer_init(&stopper.timer, loop, on_stop);
    timer_start_in_ms(&stopper.timer, 1);
    loop_run(loop);
    assert_true(timer_is_armed(&stopper.timer));
    timer_stop(&stopper.timer);
}

/* ---- threads ---- */

struct sum {
    struct work work;
    pthread_t thread;
    size_t done;
};

static void run_sum(struct work *work)
{
    CONTAINER_OF(work, struct sum, work)->thread = pthread_self();
}

static void done_sum(struct work *work)
{
    CONTAINER_OF(work, struct sum, work)->done++;
}

static void work_runs_on_a_thread_and_ends_on_the_loop(void **state)
{
    struct loop *loop = *state;
    struct sum sum = {.work = {.run = run_sum, .done = done_sum}};
    assert_int_equal(work_start(loop, &sum.work), OK);
    assert_int_equal(sum.done, 0);
    loop_run(loop);
    assert_int_equal(sum.done, 1);
    assert_false(pthread_equal(sum.thread, pthread_self()));
    mem_fail_at(1, 1);
    assert_int_equal(work_start(loop, &sum.work), ERR_NOMEM);
    mem_fail_at(0, 0);
}

static void loop_free_waits_for_work(void **state)
{
    struct loop *loop = *state;
    static struct sum sum;
    sum = (struct sum){.work = {.run = run_sum, .done = done_sum}};
    assert_int_equal(work_start(loop, &sum.work), OK);
    loop_free(loop);
    assert_int_equal(sum.done, 1);
    struct err err;
    *state = loop_new(&err); /* the teardown needs a loop */
}

static sem_t may_end;

static void run_until_told(struct work *work)
{
    (void)work;
    while (sem_wait(&may_end) != 0)
        continue;
}

static void work_that_hangs_is_waited_for_so_long_and_no_longer(void **state)
{
    struct loop *loop = *state;
    struct sum sum = {.work = {.run = run_until_told, .done = done_sum}};
    assert_int_equal(sem_init(&may_end, 0, 0), 0);
    assert_true(loop_wait_for_work(loop, 0)); /* there is no work to wait for */
    assert_int_equal(work_start(loop, &sum.work), OK);
    assert_false(loop_wait_for_work(loop, 5));
    assert_int_equal(sum.done, 0);
    assert_false(loop_has_abandoned());
    assert_int_equal(sem_post(&may_end), 0);
    assert_true(loop_wait_for_work(loop, 3600 * 1000));
    assert_int_equal(sum.done, 1);
    assert_int_equal(sem_destroy(&may_end), 0);
}

/* ---- signals ---- */

struct catcher {
    struct signal_watch watch;
    int caught;
};

static void on_signal(struct signal_watch *watch, int signum)
{
    CONTAINER_OF(watch, struct catcher, watch)->caught = signum;
}

static void signals_arrive(void **state)
{
    struct loop *loop = *state;
    struct catcher catcher = {.watch = {.on_signal = on_signal}};
    assert_int_equal(signal_watch_start(loop, &catcher.watch, SIGUSR1), OK);
    loop_run(loop); /* a watch alone does not keep the loop running */
    struct stopper stopper = {.loop = loop};
    timer_init(&stopper.timer, loop, on_stop);
    timer_start_in_ms(&stopper.timer, 3600000);
    raise(SIGUSR1);
    WAIT_UNTIL(loop, catcher.caught);
    assert_int_equal(catcher.caught, SIGUSR1);
    timer_stop(&stopper.timer);
    signal_watch_stop(&catcher.watch);
    signal_watch_stop(&catcher.watch);
}

/* ---- foreign descriptors ---- */

struct seen {
    int events;
    size_t count;
};

static void on_ready(void *owner, int events)
{
    struct seen *seen = owner;
    seen->events = events;
    seen->count++;
}

static void a_descriptor_is_watched(void **state)
{
    struct loop *loop = *state;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    struct seen seen = {0};
    struct poll_watch *watch = poll_watch_new(loop, fds[0], on_ready, &seen);
    assert_non_null(watch);
    poll_watch_set(watch, POLL_WRITE);
    WAIT_UNTIL(loop, seen.count);
    assert_int_equal(seen.events, POLL_WRITE);
    seen = (struct seen){0};
    poll_watch_set(watch, POLL_READ);
    loop_turn(loop, false);
    assert_int_equal(seen.count, 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    WAIT_UNTIL(loop, seen.count);
    assert_int_equal(seen.events, POLL_READ);
    poll_watch_free(watch);
    seen.count = 0;
    loop_turn(loop, false);
    assert_int_equal(seen.count, 0);
    close(fds[0]);
    close(fds[1]);
}

static void an_error_counts_as_both_and_can_be_watched_again(void **state)
{
    struct loop *loop = *state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    struct seen seen = {0};
    struct poll_watch *watch = poll_watch_new(loop, fds[1], on_ready, &seen);
    poll_watch_set(watch, POLL_WRITE);
    close(fds[0]); /* a pipe without a reader reports an error, and is not ready to write */
    for (size_t round = 0; round < 3; round++) {
        seen = (struct seen){0};
        poll_watch_set(watch, POLL_WRITE);
        WAIT_UNTIL(loop, seen.count);
        assert_true(seen.events & POLL_WRITE);
    }
    poll_watch_free(watch);
    close(fds[1]);
}

static void an_unwatchable_descriptor_is_refused(void **state)
{
    struct loop *loop = *state;
    int fd = open("/proc/self/stat", O_RDONLY); /* epoll does not accept regular files */
    assert_null(poll_watch_new(loop, fd, on_ready, NULL));
    close(fd);
}

/* ---- long turns ---- */

static enum op_result step_burn(struct op *op)
{
    (void)op;
    burn_cpu(15000000);
    return OP_DONE;
}

/* The environment sets the maximum length of a turn, so the loop is created again. *before: the
 * previous value, for unset_limit. */
static struct loop *loop_with_limit(void **state, const char *limit_ms, char **before)
{
    struct err err;
    loop_free(*state);
    *before = getenv("SLUICE_TURN_CPU_MS_MAX");
    *before = *before ? mem_strdup(*before) : NULL;
    setenv("SLUICE_TURN_CPU_MS_MAX", limit_ms, 1);
    *state = loop_new(&err);
    return *state;
}

static void unset_limit(char *before)
{
    if (before)
        setenv("SLUICE_TURN_CPU_MS_MAX", before, 1);
    else
        unsetenv("SLUICE_TURN_CPU_MS_MAX");
    mem_free(before);
}

/* A turn drains more than once, but each drain takes its first task only if none has run before. */
static void a_task_that_is_longer_than_a_turn_is_alone_in_it(void **state)
{
    char *before;
    struct loop *loop = loop_with_limit(state, "1000", &before); /* each step is charged */
    static struct burn burns[4];
    for (size_t i = 0; i < ARRAY_LEN(burns); i++) {
        burns[i] = (struct burn){.loop = loop, .takes_ns = 2 * LOOP_DRAIN_NS_MAX};
        loop_task_init(&burns[i].task, run_burn);
        loop_task_queue(loop, &burns[i].task);
    }
    loop_run(loop);
    for (size_t i = 1; i < ARRAY_LEN(burns); i++)
        assert_true(burns[i].turn > burns[i - 1].turn);
    unset_limit(before);
}

enum { LIMIT_MS = 10, OVER_MS = 15, FAR_OVER_MS = 110, PASSED = 1, TAKEN = 2 };

/* Runs that many turns that use that much CPU time. TAKEN: more was charged, as when a host
 * pauses the machine. The turn to which it was charged is unknown. */
static int burn_in_turns(struct loop *loop, unsigned count, uint64_t ms)
{
    uint64_t began_ns = clock_thread_cpu_ns();
    for (unsigned i = 0; i < count; i++) {
        struct burn burn = {.loop = loop, .takes_ns = ms * 1000000};
        loop_task_init(&burn.task, run_burn);
        loop_task_queue(loop, &burn.task);
        loop_turn(loop, false);
    }
    uint64_t took_ns = clock_thread_cpu_ns() - began_ns;
    if (took_ns >= (count * ms + LIMIT_MS) * 1000000)
        return TAKEN;
    return loop_turn_limit_passed() ? PASSED : 0;
}

/* Runs in a separate process, since the mark of an exceeded limit stays for the process. */
static bool is_passed_by(struct loop *loop, unsigned count, uint64_t ms)
{
    int status, tries = 0;
    do {
        assert_true(tries++ < 100);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(burn_in_turns(loop, count, ms));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
    } while (WEXITSTATUS(status) == TAKEN);
    return WEXITSTATUS(status) == PASSED;
}

static void a_long_turn_is_seen_and_named(void **state)
{
    static const struct op_step steps[] = {{"burn", step_burn, 0}};
    static const struct op_class class = {.name = "burner", .steps = steps, .step_count = 1};
    char *before;
    setenv("SLUICE_TURNS_OVER_MAX", "1", 1);
    struct loop *loop = loop_with_limit(state, "10", &before);
    unsetenv("SLUICE_TURNS_OVER_MAX");
    assert_false(loop_turn_limit_passed());
    assert_false(is_passed_by(loop, 1, OVER_MS)); /* one turn over the limit is allowed */
    assert_true(is_passed_by(loop, 1, FAR_OVER_MS));
    assert_true(is_passed_by(loop, 2, OVER_MS));
    struct op op;
    op_start(&op, &class, loop, NULL, 0);
    loop_turn(loop, false);
    assert_true(loop_stats(loop)->turn_cpu_ns_max >= OVER_MS * 1000000);
    struct buf text;
    buf_init(&text, 1 << 20);
    metric_render(&text);
    assert_true(slice_find(buf_slice(&text), SLICE("sluice_loop_lag_seconds_count")) >= 0);
    assert_true(slice_find(buf_slice(&text), SLICE("sluice_loop_turn_cpu_seconds_sum")) >= 0);
    buf_deinit(&text);
    unset_limit(before);
}

static void no_memory_means_no_loop(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 2; n++) {
        struct err err = {0};
        mem_fail_at(n, 1);
        assert_null(loop_new(&err));
        mem_fail_at(0, 0);
        assert_int_equal(err.code, ERR_NOMEM);
    }
}

int main(void)
{
    loop_threads_init(2);
    const struct CMUnitTest tests[] = {
        TEST(a_drain_is_bounded_and_the_rest_comes_first),
        TEST(the_pool_has_its_threads_before_it_is_needed),
        TEST(a_turn_has_its_time_whatever_is_queued),
        TEST(what_threads_have_done_has_its_place_in_the_drain),
        TEST(next_turn_means_next_turn),
        TEST(a_turn_ends_with_hooks_in_order_then_garbage),
        TEST(loop_stop_stops),
        TEST(work_runs_on_a_thread_and_ends_on_the_loop),
        TEST(loop_free_waits_for_work),
        TEST(work_that_hangs_is_waited_for_so_long_and_no_longer),
        TEST(signals_arrive),
        TEST(a_descriptor_is_watched),
        TEST(an_error_counts_as_both_and_can_be_watched_again),
        TEST(an_unwatchable_descriptor_is_refused),
        TEST(no_memory_means_no_loop),
        TEST(a_task_that_is_longer_than_a_turn_is_alone_in_it),
        TEST(a_long_turn_is_seen_and_named), /* must be last, because its mark stays for the
                                              * process */
    };
    return cmocka_run_group_tests_name("loop/loop", tests, NULL, NULL);
}
