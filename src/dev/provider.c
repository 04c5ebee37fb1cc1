/*
 * The emulated provider as a child process; see provider.h.
 */
#include "dev/provider.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

enum {
    READY_BYTES_MAX = 16 * 1024,
    ARENA_BYTES_MAX = 256 * 1024,
    START_TIMEOUT_MS = 20000,
    STOP_TIMEOUT_MS = 5000,
    WAIT_MS = 2,
};

static const char program_name[] = "sluice-provider";

/* The two programs are in one folder, in the build tree as well as installed. */
static int find_program(char out[DEV_PATH_MAX], struct err *err)
{
    char own[DEV_PATH_MAX - sizeof(program_name)];
    ssize_t len = readlink("/proc/self/exe", own, sizeof(own) - 1);
    if (len <= 0)
        return err_set(err, ERR_IO, "cannot find this program's own path: %s", strerror(errno));
    own[len] = '\0';
    char *slash = strrchr(own, '/');
    if (slash)
        *slash = '\0';
    (void)snprintf(out, DEV_PATH_MAX, "%s/%s", own, program_name);
    if (access(out, X_OK) != 0)
        return err_set(err, ERR_NOTFOUND,
                       "the emulated provider %s is missing: %s; `make` builds it", out,
                       strerror(errno));
    return OK;
}

int dev_provider_start(struct dev_provider *provider, const struct dev_folder *folder,
                       struct err *err)
{
    char program[DEV_PATH_MAX], data[DEV_PATH_MAX];
    *provider = (struct dev_provider){.url = SLICE_NONE};
    arena_init(&provider->arena, ARENA_BYTES_MAX);
    dev_folder_trim_log(folder, "provider.log");
    dev_folder_path(folder, "provider.log", provider->log);
    dev_folder_path(folder, "provider.ready", provider->ready);
    dev_folder_path(folder, "provider", data);
    if (find_program(program, err) != OK)
        return (int)err->code;
    if (mkdir(data, 0700) != 0 && errno != EEXIST)
        return err_set(err, ERR_IO, "cannot create the folder %s: %s", data, strerror(errno));
    (void)unlink(provider->ready);
    const char *const argv[] = {program,
                                "--port",
                                "0",
                                "--data",
                                data,
                                "--ready-file",
                                provider->ready,
                                "--die-with-parent",
                                NULL};
    struct child_spec spec = {.name = program_name, .argv = argv, .log_path = provider->log};
    return child_start(&provider->child, &spec, err);
}

/* Parses the provider's ready file. Returns NULL if it is not a ready file. */
static const struct json *read_ready(struct dev_provider *provider, struct err *err)
{
    struct buf text;
    buf_init(&text, READY_BYTES_MAX);
    int result = file_read_into(provider->ready, &text, NULL, err);
    slice kept = arena_take(&provider->arena, &text);
    if (result != OK)
        return NULL;
    const struct json *ready = json_parse(&provider->arena, kept, &json_limits_request, err);
    if (ready && json_get_str(ready, SLICE("url")).len > 0)
        return ready;
    return err_null(err, ERR_SYNTAX, "%s is not a ready file", provider->ready);
}

static bool is_complete(const struct dev_provider *provider)
{
    return provider->ca_file.len > 0 && json_is(provider->tokens, JSON_OBJECT) &&
           json_is(provider->task_parent, JSON_OBJECT);
}

static int wait_until_ready(struct dev_provider *provider, struct err *err)
{
    uint64_t until = clock_mono_ns() + START_TIMEOUT_MS * 1000000ULL;
    while (access(provider->ready, F_OK) != 0) {
        struct timespec wait = {.tv_nsec = WAIT_MS * 1000000L};
        if (!child_is_running(&provider->child, provider->log, err))
            return (int)err->code;
        if (clock_mono_ns() > until)
            return err_set(err, ERR_TIMEOUT, "%s is not ready after %d s; its log is %s",
                           program_name, START_TIMEOUT_MS / 1000, provider->log);
        (void)nanosleep(&wait, NULL);
    }
    const struct json *ready = read_ready(provider, err);
    if (!ready)
        return (int)err->code;
    /* arena_dup adds a NUL, which callers that need C strings rely on. */
    provider->url = arena_dup(&provider->arena, json_get_str(ready, SLICE("url")));
    provider->ca_file = arena_dup(&provider->arena, json_get_str(ready, SLICE("ca_file")));
    provider->tokens = JSON_GET(ready, "tokens");
    provider->task_parent = JSON_GET(ready, "task_parent");
    return is_complete(provider)
               ? OK
               : err_set(err, ERR_INVALID,
                         "%s lacks ca_file, tokens or task_parent: sluice and "
                         "sluice-provider must be of the same version; rebuild both",
                         provider->ready);
}

int dev_provider_wait(struct dev_provider *provider, struct err *err)
{
    if (wait_until_ready(provider, err) == OK)
        return OK;
    dev_provider_stop(provider);
    return (int)err->code;
}

void dev_provider_stop(struct dev_provider *provider)
{
    child_stop(&provider->child, SIGTERM, STOP_TIMEOUT_MS);
    if (provider->ready[0])
        (void)unlink(provider->ready);
    arena_deinit(&provider->arena);
    provider->url = provider->ca_file = SLICE_NONE;
    provider->tokens = provider->task_parent = NULL;
}
