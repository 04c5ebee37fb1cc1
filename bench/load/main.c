/*
 * sluice-bench: loads a sluice server and reports throughput and latencies. The parent prepares the
 * run, forks the load processes before any loop exists, watches them, and reports.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "load/report.h"

enum { START_DELAY_MS = 200, HOPELESS_S = 2 };

struct bench {
    struct load_options options;
    struct peer_target target;
    struct load_result *results; /* shared memory of the load processes, one entry each */
    pid_t pids[LOAD_PROCESSES_MAX];
    size_t running;
    struct report report;
    bool is_hopeless; /* every operation has failed since the start, so the run was stopped */
    /* while it runs */
    struct loop *loop;
    struct sampler sampler;
    struct timer tick;
    struct signal_watch children;
    uint64_t start_ns, last_ns, last_done, last_wrong;
};

/* ---- preparing: requests that are made once, one by one ---- */

struct preparing {
    struct bench *bench;
    struct scenario *scenario;
    struct peer peer;
    struct arena arena;
    struct err err;
    size_t step;
    uint64_t connection; /* set in a request that is made for each connection */
    bool is_done;
};

static void send_preparing(struct preparing *preparing)
{
    struct buf request;
    buf_init(&request, 2 * SCENARIO_BYTES_MAX);
    const struct scenario_context context = {
        .host = preparing->bench->target.host,
        .key = slice_cstr(preparing->bench->options.key),
        .values = preparing->scenario->values,
        .unique = (uint64_t)clock_wall_us(),
        .connection = preparing->connection,
    };
    scenario_write(&preparing->scenario->prepare[preparing->step], &context, &request);
    peer_send(&preparing->peer, buf_slice(&request), true);
    buf_deinit(&request);
}

static void advance(struct preparing *preparing)
{
    const struct scenario_step *step = &preparing->scenario->prepare[preparing->step];
    if (step->is_each && ++preparing->connection < preparing->bench->options.connections)
        return;
    preparing->connection = 0;
    preparing->step++;
}

static void on_prepared(struct peer *peer, unsigned status, slice body, const char *why)
{
    struct preparing *preparing = peer->owner;
    enum scenario_verdict verdict = SCENARIO_WRONG;
    if (status == 0)
        (void)err_set(&preparing->err, ERR_CLOSED, "%s", why);
    else
        verdict = scenario_check_reply(&preparing->scenario->prepare[preparing->step], status, body,
                                       preparing->scenario->values, &preparing->arena,
                                       &preparing->err);
    if (verdict == SCENARIO_GO_ON)
        advance(preparing);
    if (verdict != SCENARIO_WRONG && preparing->step < preparing->scenario->prepare_count) {
        send_preparing(preparing);
        return;
    }
    preparing->is_done = verdict == SCENARIO_GO_ON;
    loop_stop(preparing->bench->loop);
}

/* Runs in the parent, since the load processes inherit the captured values. Its loop is freed
 * before the load processes are forked. */
static int prepare(struct bench *bench, struct scenario *scenario, struct err *err)
{
    struct preparing preparing = {.bench = bench, .scenario = scenario};
    if (scenario->prepare_count == 0)
        return OK;
    bench->loop = loop_new(err);
    if (!bench->loop)
        return ERR_NOMEM;
    arena_init(&preparing.arena, 4 * PEER_BODY_BYTES_MAX);
    peer_init(&preparing.peer, bench->loop, &bench->target, &preparing, on_prepared);
    send_preparing(&preparing);
    loop_run(bench->loop);
    peer_close(&preparing.peer);
    while (loop_turn(bench->loop, false))
        continue;
    loop_free(bench->loop);
    arena_deinit(&preparing.arena);
    if (preparing.is_done)
        return OK;
    return err_set(err, ERR_INVALID, "preparing %.*s, request %zu: %s", SLICE_ARG(scenario->name),
                   preparing.step + 1, preparing.err.text);
}

/* ---- load processes ---- */

static int start_processes(struct bench *bench, struct err *err)
{
    const struct load_options *options = &bench->options;
    size_t size = options->processes * sizeof(*bench->results);
    bench->results = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bench->results == MAP_FAILED)
        return err_set(err, ERR_NOMEM, "out of memory");
    uint64_t start_ns =
        clock_mono_ns() + START_DELAY_MS * 1000000ull + options->warmup_s * 1000000000ull;
    uint64_t connection_first = 0;
    bench->start_ns = start_ns;
    for (unsigned i = 0; i < options->processes; i++) {
        struct load_plan plan = {
            .options = options,
            .target = &bench->target,
            .process = i,
            .connections = options->connections / options->processes +
                           (i < options->connections % options->processes),
            .connection_first = connection_first,
            .start_ns = start_ns,
            .end_ns = start_ns + options->duration_s * 1000000000ull,
        };
        connection_first += plan.connections;
        bench->pids[i] = fork();
        if (bench->pids[i] < 0)
            return err_set(err, ERR_IO, "fork: %s", strerror(errno));
        if (bench->pids[i] == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            /* children must not share random state */
            if (bench->target.tls && tls_library_init(NULL) != OK)
                _exit(1);
            _exit(load_run(&plan, bench->results) == OK ? 0 : 1);
        }
        bench->running++;
    }
    return OK;
}

static void stop_processes(struct bench *bench)
{
    for (size_t i = 0; i < bench->options.processes; i++)
        if (bench->pids[i] > 0)
            (void)kill(bench->pids[i], SIGKILL);
}

static void on_child(struct signal_watch *watch, int signum)
{
    struct bench *bench = CONTAINER_OF(watch, struct bench, children);
    (void)signum;
    for (size_t i = 0; i < bench->options.processes; i++) {
        if (bench->pids[i] > 0 && waitpid(bench->pids[i], NULL, WNOHANG) == bench->pids[i]) {
            bench->pids[i] = 0;
            bench->running--;
        }
    }
    if (bench->running == 0)
        loop_stop(bench->loop);
}

/* ---- watching ---- */

static void print_progress(const struct bench *bench, const struct report_second *second)
{
    if (bench->options.is_quiet || !isatty(STDERR_FILENO))
        return;
    (void)fprintf(stderr, "\r%s %5.0f s  %9.0f/s  p50 %8.3f ms  p99 %8.3f ms  %6.0f failed/s ",
                  second->at_s < 0 ? "warm-up" : "       ", second->at_s, second->done_per_s,
                  (double)second->p50_us / 1000, (double)second->p99_us / 1000,
                  second->wrong_per_s);
}

static void on_tick(struct timer *timer)
{
    struct bench *bench = CONTAINER_OF(timer, struct bench, tick);
    uint64_t now_ns = clock_mono_ns(), done = 0, wrong = 0;
    double passed_s = (double)(now_ns - bench->last_ns) / 1e9;
    struct report_second second = {.server = bench->sampler.last};
    second.at_s = ((double)now_ns - (double)bench->start_ns) / 1e9;
    for (size_t i = 0; i < bench->options.processes; i++) {
        const struct load_result *result = &bench->results[i];
        done += result->live_done;
        wrong += result->live_wrong;
        /* the worst of all processes */
        second.p50_us = result->second_p50_us > second.p50_us ? result->second_p50_us
                                                              : second.p50_us;
        second.p99_us = result->second_p99_us > second.p99_us ? result->second_p99_us
                                                              : second.p99_us;
        second.max_us = result->second_max_us > second.max_us ? result->second_max_us
                                                              : second.max_us;
    }
    second.done_per_s = (double)(done - bench->last_done) / passed_s;
    second.wrong_per_s = (double)(wrong - bench->last_wrong) / passed_s;
    bench->last_ns = now_ns;
    bench->last_done = done;
    bench->last_wrong = wrong;
    if (bench->report.second_count < REPORT_SECONDS_MAX)
        bench->report.seconds[bench->report.second_count++] = second;
    print_progress(bench, &second);
    if (done > 0 && done == wrong && bench->report.second_count == HOPELESS_S) {
        bench->is_hopeless = true;
        stop_processes(bench); /* on_child notices their exit */
    }
    sampler_ask(&bench->sampler);
    timer_start_in_ms(timer, 1000);
}

static int watch(struct bench *bench, struct err *err)
{
    bench->loop = loop_new(err);
    bench->report.seconds = mem_calloc(REPORT_SECONDS_MAX, sizeof(*bench->report.seconds));
    if (!bench->loop || !bench->report.seconds)
        return ERR_NOMEM;
    sampler_init(&bench->sampler, bench->loop, &bench->target, slice_cstr(bench->options.key));
    bench->children.on_signal = on_child;
    if (signal_watch_start(bench->loop, &bench->children, SIGCHLD) != OK)
        return err_set(err, ERR_IO, "signals cannot be watched");
    bench->last_ns = clock_mono_ns();
    timer_init(&bench->tick, bench->loop, on_tick);
    timer_start_in_ms(&bench->tick, 1000);
    sampler_ask(&bench->sampler);
    on_child(&bench->children, SIGCHLD); /* one may have exited before the watch started */
    if (bench->running > 0)
        loop_run(bench->loop);
    timer_stop(&bench->tick);
    signal_watch_stop(&bench->children);
    sampler_close(&bench->sampler);
    while (loop_turn(bench->loop, false))
        continue;
    loop_free(bench->loop);
    if (!bench->options.is_quiet && isatty(STDERR_FILENO))
        (void)fputs("\r\033[K", stderr);
    return OK;
}

/* ---- the end ---- */

static void gather(struct bench *bench)
{
    struct report *report = &bench->report;
    report->measured_s = (double)bench->options.duration_s;
    for (size_t i = 0; i < bench->options.processes; i++) {
        const struct load_result *result = &bench->results[i];
        for (size_t s = 0; s < bench->options.scenario_count; s++) {
            const struct load_part *part = &result->parts[s];
            struct load_part *sums[] = {&report->parts[s], &report->total};
            for (size_t k = 0; k < ARRAY_LEN(sums); k++) {
                sums[k]->done += part->done;
                sums[k]->wrong += part->wrong;
                histogram_merge(&sums[k]->latencies, &part->latencies);
            }
        }
        report->dropped += result->dropped;
        report->cpu += result->cpu;
        report->cpu_max = result->cpu > report->cpu_max ? result->cpu : report->cpu_max;
        if (result->measured_s > report->measured_s)
            report->measured_s = result->measured_s;
        report->unmeasured += result->live_done;
        if (result->why[0] && !report->why[0])
            (void)snprintf(report->why, LOAD_WHY_MAX, "%s", result->why);
    }
    report->unmeasured -= report->total.done + report->total.wrong;
}

static int write_file(const char *path, const struct report *report,
                      void (*write)(const struct report *report, struct buf *out), struct err *err)
{
    struct buf out;
    if (!path)
        return OK;
    buf_init(&out, 256 * 1024 * 1024);
    write(report, &out);
    FILE *file = fopen(path, "we");
    bool is_written = file && buf_is_ok(&out) && fwrite(out.ptr, 1, out.len, file) == out.len;
    if (file && fclose(file) != 0)
        is_written = false;
    buf_deinit(&out);
    return is_written ? OK : err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
}

/* Checks before the run that the file can be written, because the results would otherwise be
 * lost. */
static int check_writable(const char *path, struct err *err)
{
    FILE *file = path ? fopen(path, "ae") : NULL;
    if (path && !file)
        return err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    if (file)
        (void)fclose(file);
    return OK;
}

static int run(struct bench *bench, struct err *err)
{
    int status = check_writable(bench->options.json_file, err);
    if (status == OK)
        status = check_writable(bench->options.html_file, err);
    if (status != OK)
        return status;
    status = peer_target_init(&bench->target, slice_cstr(bench->options.base),
                              bench->options.ca_file, err);
    for (size_t i = 0; status == OK && i < bench->options.scenario_count; i++)
        status = prepare(bench, &bench->options.scenarios[i], err);
    bench->report.options = &bench->options;
    bench->report.started_us = clock_wall_us();
    if (status == OK)
        status = start_processes(bench, err);
    if (status == OK)
        status = watch(bench, err);
    if (status != OK) {
        stop_processes(bench);
        return status;
    }
    gather(bench);
    if (bench->is_hopeless)
        return err_set(err, ERR_INVALID, "nothing succeeded in the first %d s, so it was ended: %s",
                       HOPELESS_S, bench->report.why);
    report_print(&bench->report);
    status = write_file(bench->options.json_file, &bench->report, report_write_json, err);
    if (status == OK)
        status = write_file(bench->options.html_file, &bench->report, report_write_html, err);
    return status;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    bool is_help = false;
    struct bench *bench = mem_zalloc(sizeof(*bench));
    struct scenario *scenarios = mem_calloc(SCENARIOS_MAX, sizeof(*scenarios));
    int exit_status = 1;
    if (!bench || !scenarios) {
        (void)fputs("sluice-bench: out of memory\n", stderr);
        return 1;
    }
    bench->options.scenarios = scenarios;
    int status = load_options_parse(&bench->options, argc, argv, &is_help, &err);
    if (status == OK && is_help) {
        load_options_print_help();
        exit_status = 0;
    } else if (status == OK && bench->options.lists) {
        scenario_print_all();
        exit_status = 0;
    } else if (status == OK) {
        status = run(bench, &err);
        bool is_clean = bench->report.total.wrong == 0 && bench->report.dropped == 0 &&
                        bench->report.total.done > 0;
        exit_status = bench->is_hopeless ? 2 : status != OK ? 1 : is_clean ? 0 : 2;
    }
    if (status != OK)
        (void)fprintf(stderr, "sluice-bench: %s\n", err.text);
    for (size_t i = 0; i < bench->options.scenario_count; i++)
        scenario_deinit(&scenarios[i]);
    peer_target_deinit(&bench->target);
    mem_free(bench->report.seconds);
    mem_free(scenarios);
    mem_free(bench);
    return exit_status;
}
