/*
 * The server: starts its parts in the order of their dependencies, and frees them in the reverse
 * order once they are drained (drain.h). See server.h.
 */
#include "server/server.h"

#include <signal.h>
#include <stdio.h>

#include "api/api.h"
#include "api/envelope.h"
#include "base/clock.h"
#include "base/embed.h"
#include "base/mem.h"
#include "base/metric.h"
#include "due/due.h"
#include "event/event.h"
#include "limit/lease.h"
#include "node/node.h"
#include "http/address.h"
#include "http/url.h"
#include "mcp/mcp.h"
#include "shard/citus.h"
#include "pg/migrate.h"
#include "shard/shard.h"
#include "pg/sync.h"
#include "policy/cache.h"
#include "server/changes.h"
#include "server/drain.h"
#include "server/flow_set.h"
#include "server/front.h"
#include "server/janitor.h"
#include "server/outbound.h"
#include "server/ready_file.h"
#include "server/reload.h"
#include "tls/tls.h"
#include "trace/trace.h"

enum {
    THREADS = 16, /* threads in libuv's pool, for name lookups and handshakes */
    TICK_MS = 1000,
    START_TICK_MS = 1,
    CONNECT_TURNS = 2,          /* turns of the loop that connect and send the startup message */
    REQUEST_MARGIN_MS = 10000,  /* added to the longest wait of a request; see request_timeout_ms */
    SETTLE_TIMEOUT_MS = 5000,   /* time limit for cancelled ops to end */
    WORK_TIMEOUT_MS = 2000,     /* time limit for threads when the server ends */
    BLOCKED_INPUTS_KEPT = 1000, /* inputs of blocked runs that an account keeps */
    DELIVERIES_PENDING_MAX = 1000 * 1000, /* events of an account that are to be delivered */
    /* added to the longest call of a user that is erased: a process that missed the notification
     * begins calls for half of this time, and with a key of the user for cache-time */
    ERASE_MARGIN_MS = 60000,
};

struct server {
    const struct config *config;
    const struct server_events *events;
    struct loop *loop;
    struct budget_queue work;
    struct mcp_listeners mcp_listeners;
    struct outbound out;
    struct tracer *tracer; /* NULL: no traces */
    struct address_policy *proxies;
    struct vault_ring *ring;
    struct catalog *catalog;
    struct pg_pool *pool;
    struct pg_sync *sync; /* while it starts */
    struct vault_auth *auth;
    struct vault_users *users;
    struct policy_cache *policies;
    struct event_service *event;
    struct connect_service *connect;
    struct changes *changes;
    struct node *node;
    struct due_timers *due;
    struct exec_service *exec;
    struct flow_template_set *templates;
    struct flow_service *flow;
    struct janitor *janitor;
    struct leases *leases;
    struct front front;
    struct http_server *http, *metrics;
    struct reload *reload;
    struct signal_watch on_term, on_int;
    struct timer tick;
    struct loop_hook log_hook;
    struct drain drain;
    bool is_ready;
    uint64_t began_ns; /* when the process started, by clock_mono_ns */
    char *conninfo;
};

static int out_of_memory(struct err *err, const char *part)
{
    return err_set(err, ERR_NOMEM, "out of memory for the %s", part);
}

/* ---- outbound ---- */

/* The public URL must be an origin without a path: paths are appended to it unchanged. */
static int check_public_url(slice text, struct err *err)
{
    struct url url;
    if (text.len == 0)
        return OK;
    if (url_parse(text, &url, err) != OK)
        return err_prefix(err, "public-url");
    /* With a path, cookies and redirects would have different prefixes. */
    if (url.target.len > 0)
        return err_set(err, ERR_SYNTAX,
                       "public-url: \"%.*s\" must end after the host and port: "
                       "https://sluice.example.com",
                       SLICE_ARG(slice_first(text, 80)));
    return OK;
}

/* Without an endpoint, and if traces are not passed on either, there is no tracer, so that
 * tracing costs nothing. */
static int start_traces(struct server *server, struct err *err)
{
    const struct config *config = server->config;
    bool is_on = slice_eq_cstr(config->trace_propagate, "on");
    if (!is_on && !slice_eq_cstr(config->trace_propagate, "off"))
        return err_set(err, ERR_INVALID, "trace-propagate must be on or off");
    if (!is_on && config->trace_endpoint.len == 0)
        return OK;
    struct trace_config trace = {.loop = server->loop,
                                 .resolver = server->out.dns,
                                 .tls = server->out.tls,
                                 .endpoint = config->trace_endpoint,
                                 .headers_file = config->trace_headers_file,
                                 .sample = config->trace_sample,
                                 .is_propagated = is_on};
    server->tracer = trace_new(&trace, err);
    return server->tracer ? OK : (int)err->code;
}

static int start_outbound(struct server *server, struct err *err)
{
    const struct config *config = server->config;
    /* Without a trusted proxy X-Forwarded-For is ignored, since any client could send it. */
    server->proxies = address_policy_new();
    if (!server->proxies)
        return out_of_memory(err, "trusted proxies");
    for (size_t i = 0; i < config->trusted_proxy.count; i++)
        if (address_policy_allow_proxy(server->proxies, config->trusted_proxy.items[i], err) != OK)
            return err_prefix(err, "trusted-proxy");
    if (check_public_url(config->public_url, err) != OK)
        return (int)err->code;
    if (outbound_open(&server->out, server->loop, config, err) != OK)
        return (int)err->code;
    return start_traces(server, err);
}

/* ---- data ---- */

static int open_ring(struct server *server, struct err *err)
{
    const struct config *config = server->config;
    /* serve_command refuses a command line with both; only dev sets the file. */
    if (config->master_key_file.len > 0)
        server->ring = vault_ring_from_file(config->master_key_file.ptr, err);
    else if (config->master_key.len > 0)
        server->ring = vault_ring_new(config->master_key, err);
    else
        return err_set(err, ERR_NOTFOUND,
                       "no master key: set SLUICE_MASTER_KEY or --master-key-file; `sluice keys "
                       "master` makes one");
    return server->ring ? OK : err_prefix(err, "master key");
}

static int start_database(struct server *server, struct err *err)
{
    const struct config *config = server->config;
    if (config->database_url.len == 0)
        return err_set(err, ERR_NOTFOUND,
                       "no database: set DATABASE_URL or --database-url, for example "
                       "postgresql://user@localhost/sluice");
    bool is_sharded = slice_eq_cstr(config->database_batch, "sharded");
    if (!is_sharded && !slice_eq_cstr(config->database_batch, "set"))
        return err_set(err, ERR_INVALID, "database-batch must be set or sharded");
    /* The pool keeps this pointer, and libpq needs a terminated string. */
    server->conninfo = mem_strndup(config->database_url.ptr, config->database_url.len);
    if (!server->conninfo)
        return out_of_memory(err, "database");
    struct pg_pool_config pool = {
        .conninfo = server->conninfo,
        .dns = server->out.dns,
        .is_sharded = is_sharded,
        .writers = (unsigned)config->database_writers,
        .readers = (unsigned)config->database_readers,
        .queue_max = config->database_queue_max,
        .statement_timeout_ms = (unsigned)config->database_timeout_ms,
    };
    server->pool = is_sharded ? shard_pool_new(server->loop, &pool, err)
                              : pg_pool_new(server->loop, &pool, err);
    if (!server->pool)
        return (int)err->code;
    /* opens its first connections while the schema is checked on another connection */
    for (int i = 0; i < CONNECT_TURNS; i++)
        (void)loop_turn(server->loop, false);
    /* This blocks, which is allowed before the server listens. */
    server->sync = pg_schema_open(server->conninfo, embed_sql, embed_sql_count, err);
    return server->sync ? citus_check(server->sync, is_sharded, err) : (int)err->code;
}

static void on_account_changed(void *owner, struct uuid account_id, slice integration_id)
{
    const struct server *server = owner;
    /* this process's flows are not left to the notification */
    if (server->flow && !integration_id.ptr)
        flow_policies_changed(server->flow, &account_id);
    /* changes is NULL during shutdown: the caches of other processes then keep the old row until
     * it expires. */
    if (server->changes)
        changes_notify(server->changes, account_id, integration_id);
}

/* Also called for an account (vault/auth.h). */
static void on_user_erasing(void *owner, const struct account_user *user)
{
    const struct server *server = owner;
    if (server->changes) /* NULL during shutdown, as above */
        changes_notify_erasing(server->changes, user);
}

static void on_circuit(void *owner, slice payload)
{
    const struct server *server = owner;
    if (server->changes) /* NULL during shutdown, as above */
        changes_send(server->changes, payload);
}

static int start_changes(struct server *server, struct err *err)
{
    struct changes_config changes = {
        .conninfo = server->conninfo,
        .dns = server->out.dns,
        .auth = server->auth,
        .users = server->users,
        .connect = server->connect,
        .janitor = &server->janitor,
        .exec = &server->exec,
        .flow = &server->flow,
        .mcp_listeners = &server->mcp_listeners,
    };
    server->changes = changes_new(server->loop, &changes, err);
    return server->changes ? OK : (int)err->code;
}

static int start_flows(struct server *server, struct err *err)
{
    server->templates = flow_set_load(server->config, server->catalog, server->sync, err);
    /* The blocking connection was needed only for the start. */
    pg_sync_close(server->sync);
    server->sync = NULL;
    if (!server->templates)
        return (int)err->code;
    struct flow_config flow = {
        .loop = server->loop,
        .pool = server->pool,
        .exec = server->exec,
        .node = server->node,
        .due = server->due,
        .catalog = &server->catalog,
        .templates = &server->templates,
        .runs_max = (size_t)server->config->flows_max,
        .idempotency_ttl_ms = server->config->idempotency_ttl_ms,
        .work = &server->work,
        .tracer = server->tracer,
        .events = server->event,
        .policies = server->policies,
        .holds_unattended = slice_eq_cstr(server->config->unattended_writes, "hold"),
    };
    server->flow = flow_service_new(&flow);
    return server->flow ? OK : out_of_memory(err, "flows");
}

/* How long a call for a user that is being erased may be under way: its body arrives, and it runs
 * for its action's own deadline. */
static uint64_t erase_wait_ms(const struct config *config)
{
    uint64_t run_ms = config->execution_timeout_ms > CATALOG_DEADLINE_MS_MAX
                          ? config->execution_timeout_ms
                          : CATALOG_DEADLINE_MS_MAX;
    return run_ms + config->body_timeout_ms + config->cache_time_ms + ERASE_MARGIN_MS;
}

static struct janitor *janitor_of_server(struct server *server, const struct config *config)
{
    const struct janitor_config janitor = {
        .catalog = &server->catalog,
        .keep_days = (unsigned)config->execution_days,
        .audit_days = (unsigned)config->audit_days,
        .input_days = (unsigned)config->input_days,
        .webhook_days = (unsigned)config->webhook_days,
        .erase_wait_ms = erase_wait_ms(config),
        .trimmer = {.count_max = {[QUOTA_EXECUTIONS] = config->account_kept_executions,
                                  [QUOTA_AUDIT] = config->account_kept_audit,
                                  [QUOTA_BLOCKED_INPUTS] = BLOCKED_INPUTS_KEPT,
                                  [QUOTA_DELIVERIES] = DELIVERIES_PENDING_MAX},
                    .idempotency_ttl_ms = config->idempotency_ttl_ms},
    };
    return janitor_new(server->loop, server->pool, &janitor);
}

static struct vault_users *users_of_server(struct server *server, const struct config *config)
{
    const struct vault_users_config users = {
        .pool = server->pool,
        .users_max = config->account_users_max,
        .erase_wait_ms = erase_wait_ms(config),
        .on_erasing = on_user_erasing,
        .owner = server,
    };
    return vault_users_new(server->loop, &users);
}

static bool may_take(void *node)
{
    return node_may_write(node);
}

static int start_events(struct server *server, struct err *err)
{
    const struct config *config = server->config;
    const struct due_config due = {
        .loop = server->loop,
        .pool = server->pool,
        .may_take = may_take,
        .owner = server->node,
    };
    server->due = due_new(&due);
    if (!server->due)
        return out_of_memory(err, "timers");
    const struct event_config event = {
        .loop = server->loop,
        .pool = server->pool,
        .ring = server->ring,
        .dns = server->out.dns,
        .tls = server->out.tls,
        .proxy = config->https_proxy,
        .hosts = config->webhook_host.items,
        .host_count = config->webhook_host.count,
        .timeout_ms = (unsigned)config->webhook_timeout_ms,
        .due = server->due,
    };
    server->event = event_service_new(&event, err);
    return server->event ? OK : (int)err->code;
}

static struct connect_service *connect_of_server(struct server *server, const struct config *config)
{
    const struct connect_config connect = {
        .pool = server->pool,
        .ring = server->ring,
        .http = server->out.client,
        .catalog = &server->catalog,
        .ttl_ms = (unsigned)config->cache_time_ms,
        .token_timeout_ms = (unsigned)config->token_timeout_ms,
        .connections_max = config->account_kept_connections,
        .events = server->event,
        .on_changed = on_account_changed,
        .owner = server,
    };
    return connect_new(server->loop, &connect);
}

static int start_services(struct server *server, struct err *err)
{
    const struct config *config = server->config;
    struct vault_auth_config auth = {
        .pool = server->pool,
        .ttl_ms = (unsigned)config->cache_time_ms,
        .on_changed = on_account_changed,
        .on_erasing = on_user_erasing,
        .owner = server,
    };
    server->auth = vault_auth_new(server->loop, &auth);
    server->users = users_of_server(server, config);
    server->policies = policy_cache_new(server->loop, server->pool);
    /* The node registers in the background; on_tick waits until it may write. */
    server->node = node_new(server->loop, server->pool);
    server->janitor = janitor_of_server(server, config);
    server->leases = leases_new(server->loop, server->pool);
    /* They are checked together, since free_parts accepts any of them being NULL. */
    if (!server->auth || !server->users || !server->policies || !server->node || !server->janitor ||
        !server->leases)
        return out_of_memory(err, "services");
    if (start_events(server, err) != OK)
        return (int)err->code;
    server->connect = connect_of_server(server, config);
    if (!server->connect)
        return out_of_memory(err, "connections");
    if (start_changes(server, err) != OK)
        return (int)err->code;
    bool is_off = slice_eq_cstr(config->connection_limits, "off");
    if (!is_off && !slice_eq_cstr(config->connection_limits, "on") &&
        !slice_eq_cstr(config->connection_limits, "auto"))
        return err_set(err, ERR_INVALID, "connection-limits must be on, off or auto");
    struct exec_config exec = {
        .loop = server->loop,
        .pool = server->pool,
        .http = server->out.client,
        .connect = server->connect,
        .catalog = &server->catalog,
        .node = server->node,
        .events = server->event,
        .work = &server->work,
        .tracer = server->tracer,
        .timeout_ms = config->execution_timeout_ms,
        .idempotency_ttl_ms = config->idempotency_ttl_ms,
        .response_bytes_max = config->provider_response_bytes_max,
        .executions_max = config->executions_max,
        .account_executions_max = config->account_executions_max,
        .limit_wait_ms = config->limit_wait_ms,
        .is_limits_off = is_off,
        .leases = server->leases,
        .breaker = {.volume_min = (unsigned)config->circuit_volume,
                    .accounts_min = (unsigned)config->circuit_accounts,
                    .open_ms = (unsigned)config->circuit_open_ms},
        .on_circuit = on_circuit,
        .owner = server,
        .file_bytes_max = config->file_bytes_max,
        .output_bytes = config->output_bytes,
        .output_bytes_max = config->output_bytes_max,
        .input_days = (unsigned)config->input_days,
        .ring = server->ring,
    };
    server->exec = exec_service_new(&exec);
    if (!server->exec)
        return out_of_memory(err, "executions");
    node_serve(server->node, exec_service_claims(server->exec));
    return start_flows(server, err);
}

/* ---- inbound ---- */

/* The time limit for a request that nothing else ends. A run is answered at its deadline, from the
 * setting or the action, or soon after. A 503 before that would claim that nothing was done. */
static uint32_t request_timeout_ms(const struct config *config)
{
    uint64_t longest_ms = API_WAIT_S_MAX * 1000;
    if (longest_ms < config->execution_timeout_ms)
        longest_ms = config->execution_timeout_ms;
    if (longest_ms < CATALOG_DEADLINE_MS_MAX)
        longest_ms = CATALOG_DEADLINE_MS_MAX;
    return (uint32_t)longest_ms + REQUEST_MARGIN_MS;
}

static struct http_server *listen_on(struct server *server, const slice *addresses, size_t count,
                                     const struct server_events *events, struct err *err)
{
    const struct config *config = server->config;
    struct tcp_listen_config listeners[CONFIG_LIST_MAX];
    ASSERT(count <= CONFIG_LIST_MAX);
    for (size_t i = 0; i < count; i++)
        listeners[i] = (struct tcp_listen_config){
            .address = addresses[i],
            /* Inherited sockets stay open while workers start and exit. */
            .inherited_fd = events && events->listen_fds ? events->listen_fds[i] : -1,
            .share = events ? events->share : NULL};
    struct http_server_config http = {
        .listeners = listeners,
        .listener_count = count,
        .head = {.head_bytes_max = (uint32_t)config->head_bytes_max},
        .body_bytes_max = config->body_bytes_max,
        .connections_max = config->connections_max,
        .address_connections_max = config->address_connections_max,
        /* A proxy's connections carry the requests of many clients. */
        .uncounted = server->proxies,
        .head_timeout_ms = (uint32_t)config->head_timeout_ms,
        .body_timeout_ms = (uint32_t)config->body_timeout_ms,
        .idle_timeout_ms = (uint32_t)config->idle_timeout_ms,
        .drain_timeout_ms = (uint32_t)config->drain_timeout_ms,
        .drain_grace_ms = (uint32_t)config->drain_grace_ms,
        .request_timeout_ms = request_timeout_ms(config),
    };
    return http_server_new(server->loop, &http, &front_handler, &server->front, err);
}

static void log_listening(struct server *server)
{
    const struct config *config = server->config;
    char url[READY_URL_MAX];
    for (size_t i = 0; i < config->listen.count; i++)
        log_event(LOG_INFO, "listening", LOG_STR("address", config->listen.items[i]),
                  LOG_INT("port", http_server_port(server->http, i)));
    slice base = config->public_url;
    if (base.len == 0)
        /* The port of an address with port 0 is known only now, so the URL is derived from the
         * bound port. */
        base = ready_base_url(config->listen.items[0], http_server_port(server->http, 0), url);
    web_public_url_set(server->front.web, base, config->public_url.len > 0);
    api_public_url_set(server->front.api, base);
    flow_service_public_url_set(server->flow, base);
}

static int start_inbound(struct server *server, struct err *err)
{
    const struct config *config = server->config;
    if (!slice_has_word(SLICE("allow hold refuse"), config->unattended_writes))
        return err_set(err, ERR_INVALID, "unattended-writes must be allow, hold or refuse");
    size_t mcp_route_count;
    struct api_config api = {
        .loop = server->loop,
        .pool = server->pool,
        .auth = server->auth,
        .http = server->out.client,
        .exec = server->exec,
        .flow = server->flow,
        .templates = &server->templates,
        .catalog = &server->catalog,
        .trusted_proxies = server->proxies,
        .files_body_bytes_max =
            config->body_bytes_max + CALL_FILES_MAX * (config->file_bytes_max * 4 / 3 + 4),
        .account_rate_per_s = config->account_rate,
        .account_burst = config->account_burst,
        .users = server->users,
        .policies = server->policies,
        .leases = server->leases,
        .schema_known = pg_schema_known(embed_sql, embed_sql_count),
        .connect = server->connect,
        .event = server->event,
        .work = &server->work,
        .ring = server->ring,
        .routes = mcp_routes(&mcp_route_count),
        .mcp_origins = config->mcp_origin.items,
        .mcp_origin_count = config->mcp_origin.count,
        .unattended = vault_unattended_parse(config->unattended_writes),
        .home_domains = config->home_domains.items,
        .home_domain_count = config->home_domains.count,
        .mcp_listeners = &server->mcp_listeners,
        .tracer = server->tracer,
    };
    api.route_count = mcp_route_count;
    server->front.api = api_new(&api, err);
    if (!server->front.api)
        return (int)err->code;
    server->front.web = web_new(&api, server->front.api, err);
    if (!server->front.web)
        return (int)err->code;
    if (config->metrics_listen.len > 0) {
        /* The metrics listener does not use the shared counters: it must answer when the others
         * are full. */
        server->metrics = listen_on(server, &config->metrics_listen, 1, NULL, err);
        if (!server->metrics)
            return (int)err->code;
        /* After this the main listeners answer 404 for /metrics. */
        api_metrics_only_on(server->front.api, server->metrics);
    }
    server->http =
        listen_on(server, config->listen.items, config->listen.count, server->events, err);
    if (!server->http)
        return (int)err->code;
    log_listening(server);
    return OK;
}

/* ---- while it runs ---- */

/* Draining is the last state: callers do not need the later end of a start or a reload, and the
 * listeners may be closed by then. */
static void report_state(struct server *server, enum server_state state)
{
    const struct server_events *events = server->events;
    if (events && events->on_state && !server->drain.is_begun)
        events->on_state(events->owner, state, http_server_port(server->http, 0));
}

static void on_hup(void *owner, bool is_done)
{
    report_state(owner, is_done ? SERVER_RELOADED : SERVER_RELOADING);
}

static void begin_drain(struct server *server, const char *why)
{
    report_state(server, SERVER_DRAINING);
    struct drain_config config = {
        .loop = server->loop,
        .http = server->http,
        .flow = server->flow,
        .mcp_listeners = &server->mcp_listeners,
        .exec = server->exec,
        .connect = server->connect,
        .node = server->node,
        .event = server->event,
        .tracer = server->tracer,
        .janitor = &server->janitor,
        .timeout_ms = server->config->drain_timeout_ms,
    };
    drain_begin(&server->drain, &config, why);
}

static void on_term(struct signal_watch *watch, int signum)
{
    struct server *server = signum == SIGTERM ? CONTAINER_OF(watch, struct server, on_term)
                                              : CONTAINER_OF(watch, struct server, on_int);
    begin_drain(server, signum == SIGTERM ? "SIGTERM" : "SIGINT");
}

static void on_tick(struct timer *timer)
{
    struct server *server = CONTAINER_OF(timer, struct server, tick);
    const struct server_events *events = server->events;
    /* Ready means that a request can be answered: the database answers and the node may write. */
    if (!server->is_ready && pg_pool_is_ready(server->pool) && node_may_write(server->node)) {
        server->is_ready = true;
        log_event(LOG_INFO, "ready", LOG_MS("ready_ms", clock_mono_ns() - server->began_ns));
        report_state(server, SERVER_READY);
    }
    if (events && events->should_continue && !events->should_continue(events->owner))
        begin_drain(server, "a required process has ended");
    /* Ticks are short until the server is ready: the start is measured to that moment, and tests
     * and supervisors wait for it. */
    timer_start_in_ms(timer, server->is_ready ? TICK_MS : START_TICK_MS);
}

static void flush_log(struct loop_hook *hook)
{
    (void)hook;
    log_flush();
}

static int start_watching(struct server *server, struct err *err)
{
    server->on_term.on_signal = server->on_int.on_signal = on_term;
    if (signal_watch_start(server->loop, &server->on_term, SIGTERM) != OK ||
        signal_watch_start(server->loop, &server->on_int, SIGINT) != OK)
        return err_set(err, ERR_IO, "cannot watch signals");
    struct reload_config reload = {.loop = server->loop,
                                   .config = server->config,
                                   .client = server->out.client,
                                   .tracer = server->tracer,
                                   .event = server->event,
                                   .pool = server->pool,
                                   .catalog = &server->catalog,
                                   .templates = &server->templates,
                                   .tls = &server->out.tls,
                                   .mcp_listeners = &server->mcp_listeners,
                                   .on_hup = on_hup,
                                   .owner = server};
    server->reload = reload_new(&reload, err);
    if (!server->reload)
        return (int)err->code;
    /* Log lines of a turn are written together, in its last phase. */
    server->log_hook.run = flush_log;
    loop_hook_add(server->loop, &server->log_hook, LOOP_PHASE_LOG);
    timer_init(&server->tick, server->loop, on_tick);
    timer_start_in_ms(&server->tick, START_TICK_MS);
    return OK;
}

static int start_parts(struct server *server, struct err *err)
{
    server->catalog = reload_first_catalog(server->config);
    if (!server->catalog)
        return err_set(err, ERR_INVALID, "the catalog has errors; see the log above");
    /* The budget comes before the services, which charge their memory to it. */
    budget_queue_init(&server->work, server->loop, server->config->memory_work,
                      server->config->account_memory);
    if (open_ring(server, err) != OK || start_outbound(server, err) != OK ||
        start_database(server, err) != OK || start_services(server, err) != OK ||
        start_inbound(server, err) != OK)
        return (int)err->code;
    return start_watching(server, err);
}

/* Turns the loop until all ops have ended; ops on pool threads take a moment. */
static void wait_for_ops(struct server *server)
{
    uint64_t until = clock_mono_ns() + SETTLE_TIMEOUT_MS * 1000000ULL;
    while (op_count(server->loop) > 0 && clock_mono_ns() < until)
        (void)loop_turn(server->loop, false);
    if (op_count(server->loop) > 0)
        /* An op that does not end is a bug; its state is printed to the log. */
        op_print_all(server->loop);
}

static void free_watching(struct server *server)
{
    /* start_watching sets up this hook last, except for the timer. */
    if (!server->log_hook.run)
        return;
    timer_stop(&server->tick);
    signal_watch_stop(&server->on_term);
    signal_watch_stop(&server->on_int);
    reload_free(server->reload);
    loop_hook_remove(&server->log_hook);
}

/* Frees in the reverse order of the start; any part may be NULL. Running work is cancelled
 * first, so that nothing uses a part that is already freed. */
static void free_parts(struct server *server)
{
    free_watching(server);
    if (server->http)
        http_server_free(server->http);
    if (server->metrics)
        http_server_free(server->metrics);
    janitor_free(server->janitor);
    server->janitor = NULL;
    if (server->node)
        node_stop(server->node);
    due_stop(server->due);
    if (server->event)
        event_service_cancel_all(server->event);
    if (server->flow)
        flow_service_cancel_all(server->flow);
    if (server->exec)
        exec_service_cancel_all(server->exec);
    if (server->connect)
        connect_renewals_cancel(server->connect);
    /* One turn lets cancelled ops end before their database connections close. */
    (void)loop_turn(server->loop, false);
    changes_free(server->changes);
    server->changes = NULL;
    pg_sync_close(server->sync);
    leases_close(server->leases);
    pg_pool_free(server->pool);
    trace_stop(server->tracer);
    event_service_close(server->event);
    outbound_close(&server->out);
    /* Ops end here; the parts that they use are freed only after this. */
    wait_for_ops(server);
    web_free(server->front.web);
    api_free(server->front.api);
    flow_service_free(server->flow);
    due_free(server->due);
    flow_template_set_free(server->templates);
    exec_service_free(server->exec);
    if (server->node)
        node_free(server->node);
    leases_free(server->leases);
    connect_free(server->connect);
    event_service_free(server->event);
    vault_users_free(server->users);
    policy_cache_free(server->policies);
    if (server->auth)
        vault_auth_free(server->auth);
    trace_free(server->tracer);
}

static int check_turns(int result, struct err *err)
{
    log_flush();
    /* For tests (SLUICE_TURN_CPU_MS_MAX): if a turn took too long, the process fails when it
     * ends. */
    if (result == OK && loop_turn_limit_passed())
        return err_set(err, ERR_LIMIT,
                       "a turn of the loop took longer than "
                       "SLUICE_TURN_CPU_MS_MAX allows; the log names it");
    return result;
}

int server_run(const struct config *config, const struct server_events *events, struct err *err)
{
    struct server *server = mem_zalloc(sizeof(*server));
    if (!server)
        return out_of_memory(err, "server");
    server->config = config;
    server->events = events;
    mcp_listeners_init(&server->mcp_listeners);
    /* the process's own CPU time before this (loading, linking, reading settings) counts as part of
     * the start */
    server->began_ns = clock_mono_ns() - clock_thread_cpu_ns();
    loop_threads_init(THREADS);
    int result = tls_library_init(err);
    if (result == OK && !(server->loop = loop_new(err)))
        result = (int)err->code;
    if (result == OK) {
        result = start_parts(server, err);
        if (result == OK)
            loop_run(server->loop);
        /* This also runs after a failed start: free_parts frees the parts that exist. */
        free_parts(server);
        if (!loop_wait_for_work(server->loop, WORK_TIMEOUT_MS)) {
            log_event(LOG_WARN, "a name lookup hangs; exiting without waiting for it");
            loop_abandon(server->loop);
            return check_turns(result, err); /* the memory is leaked, because the thread may
                                              * still use it */
        }
        budget_queue_deinit(&server->work);
        loop_free(server->loop);
    }
    vault_ring_free(server->ring);
    catalog_unref(server->catalog);
    outbound_free(&server->out);
    address_policy_free(server->proxies);
    mem_free(server->conninfo);
    mem_free(server);
    tls_library_deinit();
    metric_deinit();
    return check_turns(result, err);
}
