/*
 * sluice serve: the service.
 */
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/commands.h"
#include "cmd/ready_file.h"
#include "cmd/server.h"
#include "cmd/supervisor.h"
#include "json/json.h"

enum { READY_BYTES_MAX = 1024, FILES_BESIDE = 500 };

/* How this process serves: alone, as the parent of workers, or as one of them. */
struct serving {
    struct command_call *call;
    struct worker worker;
};

static void on_ready(void *owner, uint16_t port)
{
    const struct serving *serving = owner;
    const struct config *config = serving->call->config;
    char url[READY_URL_MAX];
    struct buf text;
    struct err err;
    if (config->ready_file.len == 0)
        return;
    buf_init(&text, READY_BYTES_MAX);
    struct json_writer w;
    json_begin(&w, &text);
    json_open(&w, '{');
    json_key(&w, "base_url");
    json_put_str(&w, ready_base_url(config->listen.count > 0 ? config->listen.items[0] : SLICE_NONE,
                                    port, url));
    json_key(&w, "pid");
    json_put_i64(&w, getpid());
    json_close(&w, '}');
    if (ready_file_write(config->ready_file.ptr, buf_slice(&text), &err) != OK)
        (void)command_fail(serving->call, "%s", err.text);
    buf_deinit(&text);
}

static void on_worker_ready(void *owner, uint16_t port)
{
    struct serving *serving = owner;
    (void)port;
    worker_ready(&serving->worker);
}

/* main.c has raised the limit as far as it may. */
static void warn_of_few_files(const struct config *config)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        files.rlim_cur < config->connections_max + FILES_BESIDE)
        log_event(LOG_WARN,
                  "fewer file descriptors than connections; raise the limit (ulimit -n, "
                  "LimitNOFILE) or lower --connections",
                  LOG_INT("descriptors", files.rlim_cur),
                  LOG_INT("connections", config->connections_max));
}

/* Each worker has a port of its own for its metrics: that of the setting and those behind it. */
static int place_metrics(const struct worker *worker, struct config *config, struct err *err)
{
    slice address = config->metrics_listen, rest = address;
    uint64_t port = 0;
    while (slice_find_char(rest, ':') >= 0)
        (void)slice_split(&rest, ':');
    if (address.len == 0 || worker->index == 0)
        return OK;
    if (!slice_to_u64(rest, UINT16_MAX, &port) || port == 0 || port + worker->index > UINT16_MAX)
        return err_set(err, ERR_INVALID,
                       "metrics-listen needs a port that has room for all workers behind it");
    config->metrics_listen = arena_printf(&config->arena, "%.*s%u", (int)(address.len - rest.len),
                                          address.ptr, (unsigned)port + worker->index);
    return OK;
}

static int serve(struct serving *serving, struct err *err)
{
    struct config *config = serving->call->config;
    struct server_events events = {.on_ready = on_ready, .owner = serving};
    bool is_worker = worker_read(&serving->worker, config);
    if (!is_worker && config->workers > 0)
        return supervisor_run(config, serving->call->line, on_ready, serving, err);
    if (is_worker) {
        events.on_ready = on_worker_ready;
        if (serving->worker.listen_count > 0)
            events.listen_fds = serving->worker.listen_fds;
        if (serving->worker.share.connections)
            events.share = &serving->worker.share;
        int status = place_metrics(&serving->worker, config, err);
        if (status != OK)
            return status;
        config->ready_file = SLICE_NONE; /* it is the parent's */
    }
    return server_run(config, &events, err);
}

static int run(struct command_call *call)
{
    const struct config *config = call->config;
    struct serving serving = {.call = call};
    struct err err = {.code = OK};
    if (config->listen.count == 0)
        return command_misuse(call, "there is nothing to listen on; give --listen");
    if (config->master_key.len > 0 && config->master_key_file.len > 0)
        return command_misuse(call, "give master-key or master-key-file, not both");
    warn_of_few_files(config);
    int result = serve(&serving, &err);
    if (config->ready_file.len > 0)
        ready_file_remove(config->ready_file.ptr);
    return result == OK ? EXIT_OK : command_fail(call, "%s", err.text);
}

static const struct command_verb verbs[] = {{
    .synopsis = "",
    .summary = "Serve the interface until SIGTERM or SIGINT; then requests under way are finished.",
    .run = run,
}};

const struct command serve_command = {
    .name = "serve",
    .summary = "run the service",
    .help = "It needs a migrated database (`sluice migrate`) and a master key (`sluice keys "
            "master`). Put a proxy that ends TLS before it. SIGHUP reads manifests, "
            "templates and trust roots again; a change in the --catalog folder is noticed without "
            "it. With --workers, SIGUSR2 hands the sockets to a successor: "
            "the program that now lies at this path, without a dropped connection.",
    .scopes = CONFIG_SERVE,
    COMMAND_VERBS(verbs),
};
