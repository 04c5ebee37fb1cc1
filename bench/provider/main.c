/*
 * sluice-provider: the emulated provider. Starts, prints where it listens, and runs until SIGTERM.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/metric.h"
#include "provider/cert.h"
#include "provider/gmail.h"
#include "provider/host.h"
#include "provider/notion.h"
#include "provider/token.h"

static const char help[] =
    "usage: sluice-provider --data DIR [options]\n"
    "\n"
    "An emulated provider with Gmail-shaped and Notion-shaped endpoints, for `sluice dev`, tests\n"
    "and benchmarks. State is in memory and the same after each start.\n"
    "\n"
    "  --data DIR         where the CA and the certificate are put (made at each start)\n"
    "  --port N           port to listen on, 0 for any (0)\n"
    "  --listen ADDRESS   address to listen on (127.0.0.1)\n"
    "  --ready-file FILE  written whole once it listens: {\"url\",\"ca_file\",\"pid\",\"tokens\", "
    "...}\n"
    "  --plain            HTTP without TLS\n"
    "  --seed N           what determines everything that looks random (1)\n"
    "  --token APP=TOKEN[,SCOPE...]\n"
    "                     accept one more token, for gmail or notion; may be repeated\n"
    "  --die-with-parent  end when the process that started this one ends\n"
    "  --help\n";

struct options {
    const char *data, *listen, *ready_file;
    uint64_t port, seed;
    bool is_plain, dies_with_parent;
    const char *tokens[64];
    size_t token_count;
};

struct process {
    struct loop *loop;
    struct provider provider;
    struct host host;
    struct tls_server *tls;
    struct cert_files files;
    struct signal_watch signals[2]; /* these end the loop */
    size_t signal_count;            /* watched */
};

static struct process process; /* global: a signal handler gets no other pointer */

/* Stores the value of an option in its variable. */
static int take_option(struct options *options, slice name, const char *value, struct err *err)
{
    const struct {
        const char *name;
        const char **text;
        bool *flag;
        uint64_t *number, max;
    } known[] = {
        {"--data", &options->data, NULL, NULL, 0},
        {"--listen", &options->listen, NULL, NULL, 0},
        {"--ready-file", &options->ready_file, NULL, NULL, 0},
        {"--token", &options->tokens[options->token_count], NULL, NULL, 0},
        {"--plain", NULL, &options->is_plain, NULL, 0},
        {"--die-with-parent", NULL, &options->dies_with_parent, NULL, 0},
        {"--port", NULL, NULL, &options->port, 65535},
        {"--seed", NULL, NULL, &options->seed, UINT64_MAX},
    };
    size_t i = 0;
    while (i < ARRAY_LEN(known) && !slice_eq_cstr(name, known[i].name))
        i++;
    if (i == ARRAY_LEN(known))
        return err_set(err, ERR_INVALID, "there is no option %.*s; see --help", SLICE_ARG(name));
    if (known[i].flag) {
        *known[i].flag = true;
        return OK;
    }
    if (!value)
        return err_set(err, ERR_INVALID, "%s needs a value; see --help", known[i].name);
    if (known[i].text)
        *known[i].text = value;
    else if (!slice_to_u64(slice_cstr(value), known[i].max, known[i].number))
        return err_set(err, ERR_INVALID, "%s must be a number up to %llu, not %s", known[i].name,
                       (unsigned long long)known[i].max, value);
    options->token_count += options->tokens[options->token_count] != NULL;
    return options->token_count < ARRAY_LEN(options->tokens)
               ? OK
               : err_set(err, ERR_LIMIT, "too many --token options");
}

/* Reads options in the forms "--name value" and "--name=value". */
static int read_options(int argc, char **argv, struct options *options, struct err *err)
{
    int status = OK;
    *options = (struct options){.listen = "127.0.0.1", .seed = 1};
    for (int i = 1; i < argc && status == OK; i++) {
        slice value = slice_cstr(argv[i]), name = slice_split(&value, '=');
        bool is_next = !value.ptr && i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0;
        status = take_option(options, name, is_next ? argv[++i] : value.ptr, err);
    }
    if (status == OK && !options->data && !options->is_plain)
        return err_set(err, ERR_INVALID, "--data DIR is needed (or --plain); see --help");
    return status;
}

static void on_signal(struct signal_watch *watch, int signum)
{
    (void)watch;
    (void)signum;
    loop_stop(process.loop);
}

static void write_ready(struct buf *out, const struct options *options)
{
    struct arena arena;
    bool is_v6 = strchr(options->listen, ':') != NULL;
    arena_init(&arena, 64 * 1024);
    slice url = arena_printf(&arena, "%s://%s%.200s%s:%u", process.tls ? "https" : "http",
                             is_v6 ? "[" : "", options->listen, is_v6 ? "]" : "",
                             http_server_port(process.host.server, 0));
    struct json scope = OBJECT(&arena, "url ca_file pid", json_string(url),
                               process.tls ? json_string(slice_cstr(process.files.ca)) : json_null,
                               json_i64(getpid()));
    struct json ready =
        provider_eval(&arena, JSON_GET(provider_data(&arena, "notion"), "ready"), &scope);
    json_write(out, &ready);
    buf_append_char(out, '\n');
    arena_deinit(&arena);
}

static int publish(const struct options *options, struct err *err)
{
    struct buf text;
    buf_init(&text, 64 * 1024);
    write_ready(&text, options);
    int status = OK;
    if (options->ready_file)
        status = file_write_whole(options->ready_file, buf_slice(&text), 0644, err);
    else if (fwrite(text.ptr, 1, text.len, stdout) != text.len || fflush(stdout) != 0)
        status = err_set(err, ERR_IO, "cannot write to stdout");
    buf_deinit(&text);
    return status;
}

static int start_tls(const struct options *options, struct err *err)
{
    if (options->is_plain)
        return OK;
    if (tls_library_init(err) != OK || cert_make(options->data, &process.files, err) != OK)
        return err->code;
    process.tls = tls_server_new(
        &(struct tls_server_config){.cert_file = process.files.cert, .key_file = process.files.key},
        err);
    return process.tls ? OK : err->code;
}

static int start(const struct options *options, struct err *err)
{
    static const int signals[] = {SIGTERM, SIGINT};
    char address[300];
    bool is_v6 = strchr(options->listen, ':') != NULL;
    (void)snprintf(address, sizeof(address), "%s%.200s%s:%llu", is_v6 ? "[" : "", options->listen,
                   is_v6 ? "]" : "", (unsigned long long)options->port);
    process.loop = loop_new(err);
    if (!process.loop)
        return err->code;
    provider_init(&process.provider, options->seed, clock_wall_us());
    for (size_t i = 0; i < options->token_count; i++)
        if (tokens_add(process.provider.tokens, slice_cstr(options->tokens[i]), err) != OK)
            return err->code;
    if (start_tls(options, err) != OK || host_init(&process.host, process.loop, &process.provider,
                                                   process.tls, slice_cstr(address), err) != OK)
        return err->code;
    for (; process.signal_count < ARRAY_LEN(signals); process.signal_count++) {
        process.signals[process.signal_count].on_signal = on_signal;
        if (signal_watch_start(process.loop, &process.signals[process.signal_count],
                               signals[process.signal_count]) != OK)
            return err_set(err, ERR_IO, "signals cannot be watched");
    }
    return publish(options, err);
}

static void stop(void)
{
    if (!process.loop)
        return;
    while (process.signal_count)
        signal_watch_stop(&process.signals[--process.signal_count]);
    if (process.host.server)
        host_deinit(&process.host);
    loop_free(process.loop);
    provider_deinit(&process.provider);
    tls_server_unref(process.tls);
    tls_library_deinit();
    metric_deinit();
}

int main(int argc, char **argv)
{
    struct options options;
    struct err err = {0};
    if (argc == 2 && !strcmp(argv[1], "--help")) {
        (void)fputs(help, stdout);
        return 0;
    }
    pid_t parent = getppid();
    int status = read_options(argc, argv, &options, &err);
    if (status == OK && options.dies_with_parent &&
        (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent))
        return 1;
    loop_threads_init(4);
    if (status == OK)
        status = start(&options, &err);
    if (status == OK)
        loop_run(process.loop);
    else
        (void)fprintf(stderr, "sluice-provider: %s\n", err.text);
    stop();
    if (mem_live_blocks() != 0)
        (void)fprintf(stderr, "sluice-provider: %zu blocks were not freed\n", mem_live_blocks());
    return status == OK ? 0 : 1;
}
