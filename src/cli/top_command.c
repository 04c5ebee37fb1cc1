/*
 * sluice top: shows the activity of the server with these settings, from its /metrics, in a
 * terminal.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/local.h"
#include "cli/top_samples.h"

enum {
    METRICS_BYTES_MAX = 32 * 1024 * 1024,
    APPS_MAX = 256,
    APPS_LISTED = 8,
    CIRCUITS_LISTED = 3,
    INTERVAL_MS = 2000,
};

struct top {
    struct command_call *call;
    struct samples now, before;
    double seconds; /* time between the two samples */
    struct buf out; /* one screen, written at once */
};

/* ---- queries ---- */

/* Each worker has its own port: the port of metrics-listen or one of the ports after it. */
static int ask_all(struct top *top, struct samples *samples, struct err *err)
{
    const struct config *config = top->call->config;
    bool is_own = config->metrics_listen.len > 0;
    slice first = is_own ? config->metrics_listen : config->listen.items[0], port_text;
    slice host = local_split_port(first, &port_text);
    uint64_t count = is_own && config->workers > 0 ? config->workers : 1, port = 0;
    if (count > 1 && !slice_to_u64(port_text, UINT16_MAX, &port))
        return err_set(err, ERR_INVALID, "metrics-listen has no port: %.*s", SLICE_ARG(first));
    for (uint64_t i = 0; i < count; i++) {
        char address[300];
        struct buf reply;
        (void)snprintf(address, sizeof(address), "%.*s:%" PRIu64, SLICE_ARG(host), port + i);
        buf_init(&reply, METRICS_BYTES_MAX);
        int result = local_get(count > 1 ? slice_cstr(address) : first, "/metrics", &reply, err);
        if (result == OK && !samples_add(samples, buf_slice(&reply)))
            result = err_set(err, ERR_NOMEM, "out of memory");
        buf_deinit(&reply);
        if (result != OK)
            return result;
    }
    return OK;
}

/* ---- one screen ---- */

/* Returns the growth per second; label as for samples_sum. */
static double rate(const struct top *top, const char *name, slice label)
{
    return samples_growth(&top->now, &top->before, name, label) / top->seconds;
}

static double sum(const struct top *top, const char *name)
{
    return samples_sum(&top->now, name, SLICE(""));
}

static double quantile(const struct top *top, const char *name, slice label, double of)
{
    return samples_quantile(&top->now, &top->before, name, label, of);
}

/* Writes a duration in a readable unit. A negative duration means that nothing was measured. */
static void put_duration(struct top *top, double seconds)
{
    char text[24] = "-";
    if (seconds >= 1)
        (void)snprintf(text, sizeof(text), "%.1f s", seconds);
    else if (seconds >= 0.001)
        (void)snprintf(text, sizeof(text), "%.1f ms", seconds * 1e3);
    else if (seconds >= 0)
        (void)snprintf(text, sizeof(text), "%.0f us", seconds * 1e6);
    buf_printf(&top->out, " %9s", text);
}

/* Writes the beginning of a line: rate and duration. The current state follows. */
static void put_row(struct top *top, const char *what, const char *counter, const char *histogram)
{
    buf_printf(&top->out, "%-18s %8.1f", what, rate(top, counter, SLICE("")));
    put_duration(top, histogram ? quantile(top, histogram, SLICE(""), 0.5) : -1);
    put_duration(top, histogram ? quantile(top, histogram, SLICE(""), 0.99) : -1);
}

static void put_work(struct top *top)
{
    struct buf *out = &top->out;
    put_row(top, "requests", "sluice_http_requests_total", "sluice_http_request_seconds");
    buf_printf(out, "  connections %.0f, refused %.1f/s\n", sum(top, "sluice_http_connections"),
               rate(top, "sluice_http_refused_total", SLICE("")));
    put_row(top, "executions", "sluice_executions_total", "sluice_execution_seconds");
    buf_printf(out, "  in flight %.0f, wait for limits %.0f\n",
               sum(top, "sluice_executions_active"), sum(top, "sluice_limits_waiting"));
    put_row(top, "calls to apps", "sluice_provider_seconds_count", "sluice_provider_seconds");
    buf_printf(out, "  busy %.0f, idle %.0f, waiting %.0f\n",
               samples_sum(&top->now, "sluice_http_client_connections", SLICE("state=\"busy\"")),
               samples_sum(&top->now, "sluice_http_client_connections", SLICE("state=\"idle\"")),
               sum(top, "sluice_http_client_waiting"));
    put_row(top, "flow transitions", "sluice_flow_transitions_total", NULL);
    buf_printf(out, "  flows running %.0f\n", sum(top, "sluice_flows_running"));
    /* The last two numbers are the largest of all processes, not sums: each process knows all
     * waiting flows. */
    put_row(top, "waiting flows", "sluice_flow_lateness_seconds_count",
            "sluice_flow_lateness_seconds");
    buf_printf(out, "  %.0f wait, %.0f due in a minute\n",
               samples_max(&top->now, "sluice_flows_waiting"),
               samples_max(&top->now, "sluice_flow_timers"));
}

static void put_process(struct top *top)
{
    struct buf *out = &top->out;
    double cut_off = 0; /* number of processes without a database */
    for (size_t i = 0; i < top->now.count; i++)
        if (slice_eq_cstr(top->now.items[i].name, "sluice_database_ready"))
            cut_off += top->now.items[i].value > 0 ? 0 : 1;
    put_row(top, "database queries", "sluice_pg_batched_queries_total", "sluice_pg_query_seconds");
    buf_printf(out, "  commits %.1f/s, waiting %.0f%s\n",
               rate(top, "sluice_pg_commits_total", SLICE("")),
               sum(top, "sluice_pg_queries_waiting"), cut_off > 0 ? "  UNREACHABLE" : "");
    buf_printf(out, "%-18s %6.1f %%", "loop",
               100 * rate(top, "process_cpu_seconds_total", SLICE("")));
    put_duration(top, quantile(top, "sluice_loop_turn_cpu_seconds", SLICE(""), 0.5));
    put_duration(top, quantile(top, "sluice_loop_turn_cpu_seconds", SLICE(""), 0.99));
    buf_printf(out, "  longest %.1f ms, memory %.0f MB\n",
               samples_max(&top->now, "sluice_loop_turn_cpu_seconds_max") * 1e3,
               sum(top, "process_resident_memory_bytes") / 1e6);
}

struct app {
    slice name;
    double calls, slow; /* calls: calls per second; slow: p95 of the duration */
};

static int compare_apps(const void *left, const void *right)
{
    const struct app *a = left, *b = right;
    return a->slow < b->slow ? 1 : a->slow > b->slow ? -1 : 0;
}

/* Writes the label as the server writes it: names of apps need no escape. */
static void label_of(slice app, char text[128])
{
    (void)snprintf(text, 128, "integration=\"%.*s\"", SLICE_ARG(app));
}

/* Finds the apps that were called between the two samples, slowest first. */
static size_t find_apps(const struct top *top, struct app apps[APPS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < top->now.count && count < APPS_MAX; i++) {
        const struct sample *sample = &top->now.items[i];
        if (!slice_eq_cstr(sample->name, "sluice_provider_seconds_count"))
            continue;
        slice name = samples_label(sample, "integration");
        bool is_known = false;
        for (size_t k = 0; k < count && !is_known; k++)
            is_known = slice_eq(apps[k].name, name);
        char label[128];
        label_of(name, label);
        double calls = rate(top, "sluice_provider_seconds_count", slice_cstr(label));
        if (!is_known && calls > 0)
            apps[count++] = (struct app){
                name, calls, quantile(top, "sluice_provider_seconds", slice_cstr(label), 0.95)};
    }
    qsort(apps, count, sizeof(apps[0]), compare_apps);
    return count;
}

/* A call fails if its status is not 2xx or if there is no reply. A run is an execution, which
 * contains the call: its time includes limits and the database. */
static void put_app(struct top *top, const struct app *app)
{
    char label[128], good_label[160];
    label_of(app->name, label);
    (void)snprintf(good_label, sizeof(good_label), "%s,result=\"2xx\"", label);
    double all =
        samples_growth(&top->now, &top->before, "sluice_provider_calls_total", slice_cstr(label));
    double failed = all - samples_growth(&top->now, &top->before, "sluice_provider_calls_total",
                                         slice_cstr(good_label));
    buf_printf(&top->out, "%-18.*s %8.1f", SLICE_ARG(app->name), app->calls);
    put_duration(top, quantile(top, "sluice_provider_seconds", slice_cstr(label), 0.5));
    put_duration(top, app->slow);
    put_duration(top, quantile(top, "sluice_execution_seconds", slice_cstr(label), 0.95));
    buf_printf(&top->out, " %8.1f %%\n", all > 0 ? 100 * failed / all : 0);
}

static void put_apps(struct top *top)
{
    struct app apps[APPS_MAX];
    size_t count = find_apps(top, apps);
    buf_printf(&top->out, "\n%-18s %8s %9s %9s %9s %10s\n", "APP, SLOWEST FIRST", "CALLS/s", "p50",
               "p95", "RUN p95", "FAILED");
    for (size_t i = 0; i < count && i < APPS_LISTED; i++)
        put_app(top, &apps[i]);
    if (count > APPS_LISTED)
        buf_printf(&top->out, "and %zu more\n", count - APPS_LISTED);
    if (count == 0)
        buf_append_cstr(&top->out, "no app was called\n");
}

/* Writes the origins that no account may call at the moment. */
static void put_circuits(struct top *top)
{
    size_t listed = 0;
    for (size_t i = 0; i < top->now.count; i++) {
        const struct sample *sample = &top->now.items[i];
        if (!slice_eq_cstr(sample->name, "sluice_circuit_open") || sample->value <= 0)
            continue;
        if (listed++ == CIRCUITS_LISTED) {
            buf_append_cstr(&top->out, "and more\n");
            return;
        }
        buf_printf(&top->out, "%scircuit open: %.*s\n", listed == 1 ? "\n" : "",
                   SLICE_ARG(samples_label(sample, "origin")));
    }
}

static void put_title(struct top *top)
{
    const struct config *config = top->call->config;
    bool is_own = config->metrics_listen.len > 0;
    slice address = is_own ? config->metrics_listen : config->listen.items[0];
    buf_printf(&top->out, "sluice on %.*s", SLICE_ARG(address));
    if (config->workers > 0)
        buf_printf(&top->out,
                   is_own ? ", %" PRIu64 " workers"
                          : ", one of %" PRIu64 " workers (metrics-listen shows all)",
                   config->workers);
}

static void put_screen(struct top *top)
{
    put_title(top);
    buf_printf(&top->out, ", the last %.1f s\n\n%-18s %8s %9s %9s\n", top->seconds, "", "A SECOND",
               "p50", "p99");
    put_work(top);
    put_process(top);
    put_apps(top);
    put_circuits(top);
}

/* ---- the command ---- */

/* The loop's clock is not needed here: nothing waits on it. */
static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void pause_ms(uint64_t ms)
{
    const struct timespec time = {.tv_sec = (time_t)(ms / 1000),
                                  .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&time, NULL);
}

/* Writes the screen, or a message if there is nothing to compare. is_up: `before` is from the
 * same processes. */
static void put_answer(struct top *top, int result, bool is_up, const struct err *err)
{
    if (result == OK && is_up) {
        put_screen(top);
        return;
    }
    put_title(top);
    if (result == OK)
        buf_append_cstr(&top->out, "\n\nA different process answers now.\n");
    else
        buf_printf(&top->out, "\n\nThe server does not answer: %s\n", err->text);
}

/* Runs until it is interrupted. With --once it prints one screen, without moving the cursor. If
 * the server has answered once, it waits for it to restart. */
static int run_screens(struct top *top, uint64_t interval_ms, bool is_once, struct err *err)
{
    double asked_at = seconds_now();
    int result = ask_all(top, &top->before, err);
    bool is_up = true;
    if (result != OK)
        return result;
    for (;;) {
        pause_ms(interval_ms);
        double now = seconds_now();
        result = ask_all(top, &top->now, err);
        if (is_once && result != OK)
            return result;
        top->seconds = now - asked_at;
        asked_at = now;
        is_up = is_up && samples_continue(&top->now, &top->before);
        buf_clear(&top->out);
        /* Moves the cursor home and clears what is below, which avoids flicker. */
        buf_append_cstr(&top->out, is_once ? "" : "\x1b[H\x1b[J");
        put_answer(top, result, is_up, err);
        (void)fwrite(top->out.ptr, 1, top->out.len, stdout);
        if (is_once || fflush(stdout) != 0)
            return OK;
        is_up = result == OK;
        samples_deinit(&top->before);
        top->before = top->now;
        samples_init(&top->now);
    }
}

static int run_top(struct command_call *call)
{
    struct top top = {.call = call};
    struct err err = {.code = OK};
    slice text = command_option(call, "interval");
    uint64_t interval_ms = INTERVAL_MS;
    if (text.ptr && (!config_parse_ms(text, &interval_ms) || interval_ms < 100))
        return command_misuse(call, "--interval must be a time of at least 100ms, such as 2s");
    if (call->config->listen.count == 0 && call->config->metrics_listen.len == 0)
        return command_misuse(call, "there is no listener to ask: give --metrics-listen");
    samples_init(&top.now);
    samples_init(&top.before);
    buf_init(&top.out, METRICS_BYTES_MAX);
    int result = run_screens(&top, interval_ms, command_has(call, "once") || !isatty(1), &err);
    buf_deinit(&top.out);
    samples_deinit(&top.before);
    samples_deinit(&top.now);
    return result == OK ? EXIT_OK : command_fail(call, "%s", err.text);
}

static const struct config_option options[] = {
    {"interval", "TIME", "the time between two requests; 2s by default"},
    {"once", NULL, "show one screen, then end; also if the output is not a terminal"},
};

static const struct command_verb verbs[] = {
    {NULL, "", "Show the rates, times and queues of the server with these settings until Ctrl-C.",
     .run = run_top, COMMAND_OPTIONS(options)}};

const struct command top_command = {
    .name = "top",
    .summary = "show what the running server does",
    .help =
        "It sends GET /metrics to metrics-listen (of all workers) or to the first listener, with "
        "the settings of `serve`. Rates and times cover the interval between two requests. For "
        "waiting flows, the screen shows how many continued and how late. For the loop, it shows "
        "the processor time of a turn. A run is an execution, including the time that its limits "
        "and the database took.",
    .scopes = CONFIG_SERVE,
    COMMAND_VERBS(verbs),
};
