/*
 * sluice-provider: the emulated provider. Starts, says where it listens, runs until SIGTERM.
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
    "  --data DIR         where the CA and the certificate are kept (made at the first start)\n"
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

/* A signal that ends the loop. */
struct stopper {
    struct signal_watch watch;
    struct loop *loop; /* NULL: not watched */
};

struct app {
    struct loop *loop;
    struct provider provider;
    struct host host;
    struct tls_server *tls;
    struct cert_files files;
    struct stopper term, interrupt;
};

static int take_number(const char *name, const char *text, uint64_t max, uint64_t *out,
                       struct err *err)
{
    if (slice_to_u64(slice_cstr(text), max, out))
        return OK;
    return err_set(err, ERR_INVALID, "%s must be a number up to %llu, not %s", name,
                   (unsigned long long)max, text);
}

static int take_option(struct options *options, const char *name, const char *value,
                       struct err *err)
{
    if (!strcmp(name, "--data"))
        options->data = value;
    else if (!strcmp(name, "--listen"))
        options->listen = value;
    else if (!strcmp(name, "--ready-file"))
        options->ready_file = value;
    else if (!strcmp(name, "--port"))
        return take_number(name, value, 65535, &options->port, err);
    else if (!strcmp(name, "--seed"))
        return take_number(name, value, UINT64_MAX, &options->seed, err);
    else if (strcmp(name, "--token") != 0)
        return err_set(err, ERR_INVALID, "there is no option %s; see --help", name);
    else if (options->token_count == ARRAY_LEN(options->tokens))
        return err_set(err, ERR_LIMIT, "too many --token options");
    else
        options->tokens[options->token_count++] = value;
    return OK;
}

/* "--name value" and "--name=value". */
static int read_options(int argc, char **argv, struct options *options, struct err *err)
{
    static char name[64];
    *options = (struct options){.listen = "127.0.0.1", .seed = 1};
    for (int i = 1; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        size_t len = equals ? (size_t)(equals - argv[i]) : strlen(argv[i]);
        if (!strcmp(argv[i], "--plain")) {
            options->is_plain = true;
        } else if (!strcmp(argv[i], "--die-with-parent")) {
            options->dies_with_parent = true;
        } else if (len >= sizeof(name) || (!equals && i + 1 == argc)) {
            return err_set(err, ERR_INVALID, "%s needs a value, or is no option; see --help",
                           argv[i]);
        } else {
            memcpy(name, argv[i], len);
            name[len] = 0;
            int status = take_option(options, name, equals ? equals + 1 : argv[++i], err);
            if (status != OK)
                return status;
        }
    }
    if (!options->data && !options->is_plain)
        return err_set(err, ERR_INVALID, "--data DIR is needed (or --plain); see --help");
    return OK;
}

static void on_signal(struct signal_watch *watch, int signum)
{
    (void)signum;
    loop_stop(CONTAINER_OF(watch, struct stopper, watch)->loop);
}

static int watch_signal(struct app *app, struct stopper *stopper, int signum, struct err *err)
{
    stopper->loop = app->loop;
    stopper->watch.on_signal = on_signal;
    if (signal_watch_start(app->loop, &stopper->watch, signum) == OK)
        return OK;
    return err_set(err, ERR_IO, "signal %d cannot be watched", signum);
}

static void write_ready(struct buf *out, const struct app *app, const struct options *options)
{
    struct arena arena;
    char url[300];
    bool is_v6 = strchr(options->listen, ':') != NULL;
    (void)snprintf(url, sizeof(url), "%s://%s%.200s%s:%u", app->tls ? "https" : "http",
                   is_v6 ? "[" : "", options->listen, is_v6 ? "]" : "",
                   http_server_port(app->host.server, 0));
    arena_init(&arena, 64 * 1024);
    struct json tokens = OBJECT(&arena, "gmail notion", json_string(SLICE("ya29.demo-gmail-full")),
                                json_string(SLICE("ntn_demo_notion")));
    struct json parent = OBJECT(&arena, "page_id", json_string(SLICE(NOTION_ROOT_PAGE)));
    struct json ready = OBJECT(
        &arena,
        "url ca_file pid tokens gmail_address task_parent task_database_id task_data_source_id",
        json_string(slice_cstr(url)), app->tls ? json_string(slice_cstr(app->files.ca)) : json_null,
        json_i64(getpid()), tokens, json_string(SLICE(GMAIL_ADDRESS)), parent,
        json_string(SLICE(NOTION_TASK_DATABASE)), json_string(SLICE(NOTION_TASK_SOURCE)));
    json_write(out, &ready);
    buf_append_char(out, '\n');
    arena_deinit(&arena);
}

static int publish(const struct app *app, const struct options *options, struct err *err)
{
    struct buf text;
    buf_init(&text, 64 * 1024);
    write_ready(&text, app, options);
    int status = OK;
    if (options->ready_file)
        status = file_write_whole(options->ready_file, buf_slice(&text), 0644, err);
    else if (fwrite(text.ptr, 1, text.len, stdout) != text.len || fflush(stdout) != 0)
        status = err_set(err, ERR_IO, "cannot write to stdout");
    buf_deinit(&text);
    return status;
}

static int start(struct app *app, const struct options *options, struct err *err)
{
    char address[300];
    bool is_v6 = strchr(options->listen, ':') != NULL;
    (void)snprintf(address, sizeof(address), "%s%.200s%s:%llu", is_v6 ? "[" : "", options->listen,
                   is_v6 ? "]" : "", (unsigned long long)options->port);
    app->loop = loop_new(err);
    if (!app->loop)
        return err->code;
    provider_init(&app->provider, options->seed, clock_wall_us());
    for (size_t i = 0; i < options->token_count; i++)
        if (tokens_add(app->provider.tokens, slice_cstr(options->tokens[i]), err) != OK)
            return err->code;
    if (!options->is_plain) {
        if (tls_library_init(err) != OK || cert_ensure(options->data, &app->files, err) != OK)
            return err->code;
        struct tls_server_config config = {.cert_file = app->files.cert,
                                           .key_file = app->files.key};
        app->tls = tls_server_new(&config, err);
        if (!app->tls)
            return err->code;
    }
    if (host_init(&app->host, app->loop, &app->provider, app->tls, slice_cstr(address), err) !=
            OK ||
        watch_signal(app, &app->term, SIGTERM, err) != OK ||
        watch_signal(app, &app->interrupt, SIGINT, err) != OK)
        return err->code;
    return publish(app, options, err);
}

static void stop(struct app *app)
{
    if (!app->loop)
        return;
    if (app->term.loop)
        signal_watch_stop(&app->term.watch);
    if (app->interrupt.loop)
        signal_watch_stop(&app->interrupt.watch);
    if (app->host.server)
        host_deinit(&app->host);
    loop_free(app->loop);
    provider_deinit(&app->provider);
    tls_server_unref(app->tls);
    tls_library_deinit();
    metric_deinit();
}

int main(int argc, char **argv)
{
    struct options options;
    struct app app = {0};
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
        status = start(&app, &options, &err);
    if (status == OK)
        loop_run(app.loop);
    else
        (void)fprintf(stderr, "sluice-provider: %s\n", err.text);
    stop(&app);
    if (mem_live_blocks() != 0)
        (void)fprintf(stderr, "sluice-provider: %zu blocks were not freed\n", mem_live_blocks());
    return status == OK ? 0 : 1;
}
