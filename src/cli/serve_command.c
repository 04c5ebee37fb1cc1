/*
 * sluice serve: the service. It is one process, or, with --workers, a parent that does not serve
 * itself and its workers, which are this program run again with their descriptors in SLUICE_WORKER.
 */
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/local.h"
#include "json/json.h"
#include "server/ready_file.h"
#include "server/server.h"
#include "server/supervisor.h"
#include "server/systemd.h"

enum { READY_BYTES_MAX = 1024, OTHER_FILES = 500 };

/* How this process serves: alone, as the parent of workers, or as a worker. */
struct serving {
    struct command_call *call;
    struct worker worker;
    struct systemd_sockets sockets; /* passed by the service manager */
};

static void write_ready_file(const struct serving *serving, slice url)
{
    const struct config *config = serving->call->config;
    struct buf text;
    struct err err;
    buf_init(&text, READY_BYTES_MAX);
    struct json_writer w;
    json_begin(&w, &text);
    json_open(&w, '{');
    json_member_str(&w, "base_url", url);
    json_member_i64(&w, "pid", getpid());
    json_close(&w, '}');
    /* The server runs already, so a failure to write the ready file is reported but does not end
     * it. */
    if (file_write_whole(config->ready_file.ptr, buf_slice(&text), 0600, &err) != OK)
        (void)command_fail(serving->call, "%s", err.text);
    buf_deinit(&text);
}

/* Called only in the process that the service manager knows: the single process, or the parent. */
static void on_state(void *owner, enum server_state state, uint16_t port)
{
    const struct serving *serving = owner;
    const struct config *config = serving->call->config;
    char text[READY_URL_MAX];
    slice url = ready_base_url(config->listen.items[0], port, text);
    switch (state) {
    case SERVER_READY:
        if (config->ready_file.len > 0)
            write_ready_file(serving, url);
        systemd_notify("READY=1\nSTATUS=serving on %.*s", SLICE_ARG(url));
        break;
    case SERVER_RELOADING:
        systemd_notify_reloading();
        break;
    case SERVER_RELOADED:
        systemd_notify("READY=1\nSTATUS=serving on %.*s", SLICE_ARG(url));
        break;
    case SERVER_DRAINING:
        systemd_notify("STOPPING=1\nSTATUS=draining: requests and flows under way are finished");
    }
}

static void on_worker_state(void *owner, enum server_state state, uint16_t port)
{
    struct serving *serving = owner;
    (void)port;
    if (state == SERVER_READY)
        worker_report(&serving->worker, WORKER_READY);
    else if (state == SERVER_RELOADED)
        worker_report(&serving->worker, WORKER_RELOADED);
}

/* Called once a second: reports that the loop runs, if a service manager watches. */
static bool on_tick(void *owner)
{
    struct serving *serving = owner;
    if (systemd_watchdog_ns() > 0) {
        worker_report(&serving->worker, WORKER_TURNS);
        systemd_notify("WATCHDOG=1");
    }
    return true;
}

/* main.c has raised the limit to the hard limit, but at most to FILES_MAX. */
static void warn_of_few_files(const struct config *config)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        files.rlim_cur < config->connections_max + OTHER_FILES)
        log_event(LOG_WARN,
                  "fewer file descriptors than connections; raise the limit (ulimit -n, "
                  "LimitNOFILE) or lower --connections",
                  LOG_INT("descriptors", files.rlim_cur),
                  LOG_INT("connections", config->connections_max));
}

/* Each worker has its own port for metrics: the first worker has the port of the setting, the
 * others have the ports after it. */
static int set_metrics_port(const struct worker *worker, struct config *config, struct err *err)
{
    slice address = config->metrics_listen, port_text;
    slice host = local_split_port(address, &port_text);
    uint64_t port = 0;
    if (address.len == 0 || worker->index == 0)
        return OK;
    if (!slice_to_u64(port_text, UINT16_MAX, &port) || port == 0 ||
        port + worker->index > UINT16_MAX)
        return err_set(err, ERR_INVALID,
                       "metrics-listen needs a port with free numbers above it for all workers");
    config->metrics_listen =
        arena_printf(&config->arena, "%.*s:%u", SLICE_ARG(host), (unsigned)port + worker->index);
    return OK;
}

/* Runs as one of the three kinds of process; returns when the process has drained. */
static int run_service(struct serving *serving, struct err *err)
{
    struct config *config = serving->call->config;
    struct server_events events = {
        .on_state = on_state, .should_continue = on_tick, .owner = serving};
    struct systemd_sockets *sockets = &serving->sockets;
    bool is_worker = worker_read(&serving->worker);
    systemd_open(is_worker);
    if (!is_worker && systemd_sockets_take(sockets, err) != OK)
        return (int)err->code;
    /* A worker uses the parent's sockets, which the parent may have from the service manager. A
     * successor whose settings have other listeners than the parent binds its own. */
    if (is_worker &&
        (systemd_has_sockets() || serving->worker.sockets.count == config->listen.count))
        *sockets = serving->worker.sockets;
    if (systemd_has_sockets() && systemd_sockets_use(sockets, config, err) != OK)
        return (int)err->code;
    /* A parent serves nothing itself: it starts workers and waits. */
    if (!is_worker && config->workers > 0)
        return supervisor_run(config, serving->call->line, sockets, on_state, serving, err);
    if (sockets->count > 0)
        events.listen_fds = sockets->fds;
    if (is_worker) {
        events.on_state = on_worker_state;
        if (serving->worker.share.connections)
            events.share = &serving->worker.share;
        int status = set_metrics_port(&serving->worker, config, err);
        if (status != OK)
            return status;
        config->ready_file = SLICE_NONE; /* the parent writes the file */
    }
    return server_run(config, &events, err);
}

/* Checks the settings as a whole before anything is opened. */
static int run_serve(struct command_call *call)
{
    const struct config *config = call->config;
    struct serving serving = {.call = call};
    struct err err = {.code = OK};
    if (config->listen.count == 0 && !systemd_has_sockets())
        return command_misuse(call, "there is nothing to listen on: give --listen");
    if (config->master_key.len > 0 && config->master_key_file.len > 0)
        return command_misuse(call, "give master-key or master-key-file, not both");
    /* The check runs before the listeners open, so that the warning precedes the first refused
     * connection. */
    warn_of_few_files(config);
    int result = run_service(&serving, &err);
    if (config->ready_file.len > 0)
        (void)unlink(config->ready_file.ptr);
    return result == OK ? EXIT_OK : command_fail(call, "%s", err.text);
}

static const struct command_verb verbs[] = {{NULL, "",
                                             "Serve the API, MCP and the dashboard until SIGTERM "
                                             "or SIGINT. Running requests are finished first.",
                                             .run = run_serve}};

const struct command serve_command = {
    .name = "serve",
    .summary = "run the service",
    .help = "It needs a migrated database (`sluice migrate`) and a master key (`sluice keys "
            "master`). Put a proxy that terminates TLS in front of it. SIGHUP reads manifests, "
            "templates and trust roots again. A change in the --catalog folder is noticed without "
            "it. With --workers, SIGUSR2 hands the sockets to a successor, the program that is at "
            "this path then. No connection is dropped.",
    .scopes = CONFIG_SERVE,
    COMMAND_VERBS(verbs),
};
