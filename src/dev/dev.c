/*
 * sluice dev: runs the service with everything needed to try it, in one process and its children
 * (README.md "Two commands").
 *
 * start_children() defines the order. The two slow parts overlap: the provider makes its
 * certificate while PostgreSQL starts. At the end the server drains first, then the children are
 * stopped. If this process is killed, the children end with it (child.h).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/embed.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "config/attach.h"
#include "dev/demo.h"
#include "dev/folder.h"
#include "dev/postgres.h"
#include "dev/provider.h"
#include "dev/text.h"
#include "dev/trust.h"
#include "pg/migrate.h"
#include "server/ready_file.h"
#include "server/server.h"
#include "tls/tls.h"

enum { MASTER_KEY_BYTES_MAX = 256, SETTINGS_BYTES_MAX = 16 * 1024 };

struct dev {
    struct command_call *call;
    struct config *config;
    struct dev_folder folder;
    struct dev_stages stages;
    struct dev_provider provider;
    struct dev_postgres postgres;
    struct dev_demo demo;
    struct err err;       /* why the start failed */
    struct err child_err; /* the error of a child that has ended; its code is OK while none has */
    bool is_failed;       /* the ready file could not be written */
    bool has_terminal;    /* stderr was a terminal when it started */
};

/* Set by SIGINT and SIGTERM until the server watches them itself. */
static volatile sig_atomic_t is_stop_requested;

static void on_signal(int number)
{
    (void)number;
    is_stop_requested = 1;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

/* ---- the stages ---- */

static bool is_stopped(struct dev *dev)
{
    /* Checked between the stages, each of which may take seconds. */
    if (is_stop_requested)
        (void)err_set(&dev->err, ERR_CLOSED, "stopped");
    return is_stop_requested;
}

/* Checks the port before anything is started, so that a port in use is reported early; the server
 * binds it at the end. */
static int check_port(struct dev *dev)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)dev->config->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_set(&dev->err, ERR_IO, "cannot make a socket: %s", strerror(errno));
    /* The server's own listener sets this option, too: a port in TIME_WAIT counts as free. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    bool is_free = bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
                   listen(fd, 1) == 0;
    int number = errno;
    (void)close(fd);
    return is_free ? OK
                   : err_set(&dev->err, ERR_BUSY,
                             "port %u of 127.0.0.1 cannot be used: %s; --port 0 takes a free one",
                             (unsigned)dev->config->port, strerror(number));
}

/* The key is made at the first start and kept: no other key can open the credentials that it
 * sealed. */
static int make_master_key(struct dev *dev)
{
    struct buf text;
    char path[DEV_PATH_MAX];
    int result = OK;
    dev_folder_path(&dev->folder, "master.key", path);
    if (access(path, F_OK) != 0) {
        buf_init(&text, MASTER_KEY_BYTES_MAX);
        vault_master_key_new(&text);
        result = buf_is_ok(&text)
                     ? dev_folder_write(&dev->folder, "master.key", buf_slice(&text), &dev->err)
                     : err_set(&dev->err, ERR_NOMEM, "out of memory");
        mem_wipe(text.ptr, text.len);
        buf_deinit(&text);
    }
    if (result != OK)
        return result;
    return config_set(dev->config, SLICE("master-key-file"), slice_cstr(path), &dev->err);
}

static int start_database(struct dev *dev)
{
    dev_folder_trim_log(&dev->folder, "postgres.log");
    /* PostgreSQL starts in the background; a signal during its start stops the start of the server,
     * not the wait. */
    if (dev_postgres_start(&dev->postgres, &dev->folder, &dev->stages, &dev->err) != OK ||
        is_stopped(dev) || dev_postgres_wait(&dev->postgres, &dev->err) != OK)
        return (int)dev->err.code;
    dev_stage(&dev->stages, "migrating the schema");
    /* The schema is migrated by this program's own files, so that both have the same version. */
    if (pg_migrate(dev->postgres.url, embed_sql, embed_sql_count, NULL, NULL, &dev->err) != OK)
        return (int)dev->err.code;
    return config_set(dev->config, SLICE("database-url"), slice_cstr(dev->postgres.url), &dev->err);
}

/* Calls to the demo apps go to the emulated provider, others to the real apps. The user's own
 * overrides come last, since the last override of an origin takes precedence. */
static int point_to_provider(struct dev *dev)
{
    static const char *const origins[] = {"https://gmail.googleapis.com", "https://api.notion.com"};
    const struct config_list callers = dev->config->origin_override;
    char text[DEV_PATH_MAX];
    dev->config->origin_override.count = 0;
    for (size_t i = 0; i < ARRAY_LEN(origins); i++) {
        (void)snprintf(text, sizeof(text), "%s=%.*s", origins[i], SLICE_ARG(dev->provider.url));
        if (config_add(dev->config, SLICE("origin-override"), slice_cstr(text), &dev->err) != OK)
            return (int)dev->err.code;
    }
    for (size_t i = 0; i < callers.count; i++)
        if (config_add(dev->config, SLICE("origin-override"), callers.items[i], &dev->err) != OK)
            return (int)dev->err.code;
    /* The provider's own CA is added to the trust roots, so that real apps stay reachable. */
    if (dev_trust_write(&dev->folder, dev->config->ca_file.ptr, dev->provider.ca_file.ptr, text,
                        &dev->err) != OK)
        return (int)dev->err.code;
    return config_set(dev->config, SLICE("ca-file"), slice_cstr(text), &dev->err);
}

/* A receiver under development is on this machine. Hosts that the user names replace this one. */
static int allow_local_receivers(struct dev *dev)
{
    return dev->config->webhook_host.count > 0
               ? OK
               : config_add(dev->config, SLICE("webhook-host"), SLICE("127.0.0.1"), &dev->err);
}

static int make_demo(struct dev *dev)
{
    struct session session;
    if (tls_library_init(&dev->err) != OK || make_master_key(dev) != OK)
        return (int)dev->err.code;
    /* The session is closed before the server starts, since both open the database. */
    session_begin(&session, dev->config);
    int result = session_open_ring(&session);
    if (result == OK)
        result = session_open_catalog(&session);
    if (result == OK)
        result = session_open_database(&session);
    if (result == OK)
        result = dev_demo_make(&dev->demo, &session, &dev->folder, dev->provider.tokens);
    session_end(&session);
    if (result != OK)
        dev->err = session.err;
    return result;
}

/* The settings with which operator commands connect to the database. They may name its socket,
 * so the file's mode is 0600, as set by dev_folder_write. */
static int offer_settings(struct dev *dev)
{
    struct buf text;
    buf_init(&text, SETTINGS_BYTES_MAX);
    config_attach_put(dev->config, &text);
    int result =
        buf_is_ok(&text)
            ? dev_folder_write(&dev->folder, config_attach_name, buf_slice(&text), &dev->err)
            : err_set(&dev->err, ERR_LIMIT, "the settings for operators are too long");
    buf_deinit(&text);
    return result;
}

static int start_children(struct dev *dev)
{
    char listen_on[32];
    const char *data = dev->config->data_dir.len > 0 ? dev->config->data_dir.ptr : ".sluice";
    if (dev_folder_open(&dev->folder, data, &dev->err) != OK || check_port(dev) != OK ||
        is_stopped(dev))
        return (int)dev->err.code;
    /* Printed only once the folder is locked: a second dev must not claim the folder in its first
     * line. */
    (void)fprintf(stderr, "sluice dev, data in %s\n", dev->folder.path);
    if (dev_provider_start(&dev->provider, &dev->folder, &dev->err) != OK ||
        start_database(dev) != OK || is_stopped(dev))
        return (int)dev->err.code;
    dev_stage(&dev->stages, "starting the emulated provider");
    if (dev_provider_wait(&dev->provider, &dev->err) != OK || point_to_provider(dev) != OK ||
        allow_local_receivers(dev) != OK || is_stopped(dev))
        return (int)dev->err.code;
    dev_stage(&dev->stages, "preparing the demo account");
    if (make_demo(dev) != OK || offer_settings(dev) != OK || is_stopped(dev))
        return (int)dev->err.code;
    dev_stage_later(&dev->stages, "starting the server");
    /* the limits in manifests are the vendors', and the emulated provider has none */
    if (slice_eq_cstr(dev->config->connection_limits, "auto") &&
        config_set(dev->config, SLICE("connection-limits"), SLICE("off"), &dev->err) != OK)
        return (int)dev->err.code;
    (void)snprintf(listen_on, sizeof(listen_on), "127.0.0.1:%u", (unsigned)dev->config->port);
    return config_set(dev->config, SLICE("listen"), slice_cstr(listen_on), &dev->err);
}

/* ---- while it runs ---- */

static void on_state(void *owner, enum server_state state, uint16_t port)
{
    if (state != SERVER_READY)
        return;
    struct dev *dev = owner;
    const struct dev_facts facts = {
        .port = port,
        .account_id = dev->demo.account_id,
        .api_key = dev->demo.key,
        .provider_url = dev->provider.url,
        .provider_ca_file = dev->provider.ca_file,
        .database_url = dev->postgres.url,
        .data_dir = dev->folder.path,
        .task_parent = dev->provider.task_parent,
    };
    struct err err;
    slice path = dev->config->ready_file;
    dev_stages_end(&dev->stages);
    (void)fprintf(stderr, "ready after %.2f s\n", dev_stages_seconds(&dev->stages));
    dev_text_print(stdout, &facts);
    /* stdout may be a pipe, as in tests, so it is flushed: the text must be visible immediately. */
    (void)fflush(stdout);
    if (path.len > 0 && dev_text_ready_write(path.ptr, &facts, &err) != OK) {
        (void)command_fail(dev->call, "%s", err.text);
        dev->is_failed = true;
    }
}

/* Returns false to end the server: without its database or its provider it cannot work. */
static bool should_continue(void *owner)
{
    struct dev *dev = owner;
    if (is_stop_requested || dev->is_failed || dev->child_err.code != OK)
        return false;
    /* A closed terminal window sends SIGHUP, which makes the server reload, so the terminal
     * itself is checked. */
    if (dev->has_terminal && !isatty(STDERR_FILENO))
        return false;
    return child_is_running(&dev->postgres.child, dev->postgres.log, &dev->child_err) &&
           child_is_running(&dev->provider.child, dev->provider.log, &dev->child_err);
}

static void stop_children(struct dev *dev)
{
    /* The provider is stopped first: it does not need the database, and stops quickly. */
    dev_provider_stop(&dev->provider);
    dev_postgres_stop(&dev->postgres);
    dev_folder_close(&dev->folder);
}

static int run_server(struct dev *dev)
{
    const struct server_events events = {
        .on_state = on_state, .should_continue = should_continue, .owner = dev};
    int result = server_run(dev->config, &events, &dev->err);
    if (dev->config->ready_file.len > 0)
        (void)unlink(dev->config->ready_file.ptr);
    /* The server has drained without an error because a child ended; the child's error is
     * reported. */
    if (result == OK && dev->child_err.code != OK) {
        dev->err = dev->child_err;
        return (int)dev->err.code;
    }
    return dev->is_failed ? ERR_IO : result;
}

static int run_dev(struct command_call *call)
{
    struct dev dev = {.call = call,
                      .config = call->config,
                      .folder = {.lock_fd = -1},
                      .has_terminal = isatty(STDERR_FILENO)};
    catch_signals();
    dev_stages_init(&dev.stages, stderr);
    int result = start_children(&dev);
    if (result == OK)
        result = run_server(&dev);
    /* The progress line of a stage that failed is still open. */
    dev_stages_fail(&dev.stages);
    stop_children(&dev);
    if (is_stop_requested || result == OK)
        return dev.is_failed ? EXIT_FAILED : EXIT_OK;
    return dev.is_failed ? EXIT_FAILED : command_fail(call, "%s", dev.err.text);
}

static const struct command_verb verbs[] = {
    {NULL, "",
     "Run the service on 127.0.0.1 with everything it needs: a private PostgreSQL, an "
     "emulated mail and notes provider, a demo account. Ctrl-C stops everything.",
     .run = run_dev}};

const struct command dev_command = {
    .name = "dev",
    .summary = "try it: the service with a private database and demo apps",
    .help = "The data folder keeps everything for the next start. Remove the folder to start over. "
            "If you run this as root, PostgreSQL runs as another user. If that user cannot reach "
            "the data folder, the database is under /var/tmp.",
    .scopes = CONFIG_DEV,
    COMMAND_VERBS(verbs),
};
