/*
 * sluice healthcheck: queries /readyz of the server with the same settings, for containers whose
 * images have no HTTP client.
 */
#include "cli/commands.h"
#include "cli/local.h"

enum { REPLY_BYTES_MAX = 64 * 1024 };

static int run_healthcheck(struct command_call *call)
{
    struct buf reply;
    struct err err;
    if (call->config->listen.count == 0)
        return command_misuse(call, "there is no listener to ask: give --listen");
    buf_init(&reply, REPLY_BYTES_MAX);
    int result = local_get(call->config->listen.items[0], "/readyz", &reply, &err);
    buf_deinit(&reply);
    return result == OK ? EXIT_OK : command_fail(call, "%s", err.text);
}

static const struct command_verb verbs[] = {
    {NULL, "", "Exit 0 if the server with these settings is ready to answer requests.",
     .run = run_healthcheck}};

const struct command healthcheck_command = {
    .name = "healthcheck",
    .summary = "ask the running server whether it is ready",
    .help = "It sends GET /readyz to the first listener, with the settings of `serve` (file, "
            "environment, flags). If the server is not ready, the exit code is 1 and a sentence "
            "says why.",
    .scopes = CONFIG_SERVE,
    COMMAND_VERBS(verbs),
};
