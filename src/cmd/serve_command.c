/*
 * sluice serve: the service.
 */
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/commands.h"
#include "cmd/ready_file.h"
#include "cmd/server.h"
#include "json/json.h"

enum { READY_BYTES_MAX = 1024, FILES_BESIDE = 500 };

static void on_ready(void *owner, uint16_t port)
{
    struct command_call *call = owner;
    const struct config *config = call->config;
    struct buf text;
    struct err err;
    buf_init(&text, READY_BYTES_MAX);
    struct json_writer w;
    json_begin(&w, &text);
    json_open(&w, '{');
    json_key(&w, "base_url");
    ready_put_base_url(&w, config->listen.count > 0 ? config->listen.items[0] : SLICE_NONE, port);
    json_key(&w, "pid");
    json_put_i64(&w, getpid());
    json_close(&w, '}');
    if (config->ready_file.len > 0 &&
        ready_file_write(config->ready_file.ptr, buf_slice(&text), &err) != OK)
        (void)command_fail(call, "%s", err.text);
    buf_deinit(&text);
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

static int run(struct command_call *call)
{
    const struct config *config = call->config;
    const struct server_events events = {.on_ready = on_ready, .owner = call};
    struct err err = {.code = OK};
    if (config->listen.count == 0)
        return command_misuse(call, "there is nothing to listen on; give --listen");
    if (config->master_key.len > 0 && config->master_key_file.len > 0)
        return command_misuse(call, "give master-key or master-key-file, not both");
    warn_of_few_files(config);
    int result = server_run(config, &events, &err);
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
            "master`). Put a proxy that ends TLS before it. SIGHUP reads the manifests and the "
            "trust roots again.",
    .scopes = CONFIG_SERVE,
    COMMAND_VERBS(verbs),
};
