/*
 * GET /healthz, /readyz and /metrics: for operators, without a key.
 *
 * /healthz does not use the database: a process must not be restarted because its database is down.
 * /readyz does, so that a load balancer sends requests to another process.
 */
#include "api/request.h"
#include "base/metric.h"
#include "base/process.h"
#include "pg/migrate.h"
#include "store/retention.h"

enum { METRICS_BYTES_MAX = 16 * 1024 * 1024, READY_TIMEOUT_MS = 2000 };

static enum op_result begin_health(struct api_request *request)
{
    return api_reply(request, 200, SLICE("{\"status\":\"ok\"}"));
}

const struct api_endpoint api_healthz = {.begin = begin_health};

/* ---- ready ---- */

static enum op_result reply_not_ready(struct api_request *request, const char *why)
{
    serve_retry_after(&request->serve, READY_TIMEOUT_MS);
    return api_reply_error(request, 503, "Not ready: %s", why);
}

static enum op_result finish_ready(struct api_request *request)
{
    unsigned version = 0;
    if (store_schema_version_result(&request->query, &version) != OK)
        return reply_not_ready(request, "the database does not answer");
    if (!pg_schema_is_served(request->api->config.schema_known, version))
        return reply_not_ready(request,
                               "the database's schema has another version. Run sluice migrate.");
    /* requests to this process would now be answered with 503 */
    if (!exec_service_may_write(request->api->config.exec))
        return reply_not_ready(request, "this server has not renewed its lease yet");
    return api_reply(request, 200, SLICE("{\"status\":\"ready\"}"));
}

static enum op_result begin_ready(struct api_request *request)
{
    struct pg_pool *pool = request->api->config.pool;
    if (http_server_is_draining(request->serve.exchange->server))
        return reply_not_ready(request, "this server is draining");
    if (!pg_pool_is_ready(pool)) /* the reason is logged, but not shown to anonymous clients */
        return reply_not_ready(request, "the database cannot be reached");
    /* The pool's connections may be open although the database does not answer, so a statement is
     * sent. */
    request->query.deadline_ns =
        loop_now_ns(request->serve.op.loop) + READY_TIMEOUT_MS * 1000000ULL;
    store_schema_version(pool, &request->query, &request->serve.op);
    return api_wait(request, finish_ready);
}

const struct api_endpoint api_readyz = {.begin = begin_ready};

/* ---- metrics ---- */

static struct metric turn_cpu_max =
    METRIC_INIT("sluice_loop_turn_cpu_seconds_max",
                "Longest turn of the event loop so far, in thread CPU time.", METRIC_GAUGE);
static struct metric client_connections =
    METRIC_INIT("sluice_provider_connections", "Outbound connections by state.", METRIC_GAUGE);
static struct metric database_pending = METRIC_INIT(
    "sluice_database_pending", "Statements waiting for the database or in flight.", METRIC_GAUGE);
static struct metric database_ready = METRIC_INIT(
    "sluice_database_ready", "1 when a writer and a reader are connected.", METRIC_GAUGE);

static struct metric process_cpu =
    METRIC_INIT("process_cpu_seconds_total", "Processor time of all threads.", METRIC_COUNTER);
static struct metric process_memory =
    METRIC_INIT("process_resident_memory_bytes", "Resident memory.", METRIC_GAUGE);

/* Reads values that other parts of the process own. A counter can only be increased, so the
 * processor time is added as a difference. */
static void take_readings(struct api_request *request)
{
    const struct api_config *config = &request->api->config;
    struct http_client_stats client = http_client_stats(config->http);
    const struct process_usage usage = process_usage();
    double cpu = (double)loop_stats(config->loop)->turn_cpu_ns_max / 1e9;
    struct metric_series *cpu_total = metric_series(&process_cpu, SLICE_NONE);
    metric_add(cpu_total, usage.cpu_s - metric_get(cpu_total));
    metric_set(metric_series(&process_memory, SLICE_NONE), (double)usage.rss_bytes);
    metric_set(metric_series(&turn_cpu_max, SLICE_NONE), cpu);
    metric_set(metric_series(&client_connections, SLICE("state=\"idle\"")), (double)client.idle);
    metric_set(metric_series(&client_connections, SLICE("state=\"busy\"")),
               (double)(client.connections - client.idle));
    metric_set(metric_series(&database_pending, SLICE_NONE), (double)pg_pool_pending(config->pool));
    metric_set(metric_series(&database_ready, SLICE_NONE), pg_pool_is_ready(config->pool));
}

static enum op_result begin_metrics(struct api_request *request)
{
    const struct http_server *only = request->api->metrics_server;
    struct buf text;
    if (only && request->serve.exchange->server != only) /* answers as if the path did not exist */
        return api_reply_error(request, 404, "Not found");
    take_readings(request);
    buf_init(&text, METRICS_BYTES_MAX);
    if (request->api->config.work)
        budget_queue_show(request->api->config.work);
    metric_render(&text);
    slice body = arena_take(&request->serve.op.arena, &text);
    if (!body.ptr)
        return api_reply_error(request, 500, "Internal error");
    struct http_header type = {SLICE_INIT("Content-Type"),
                               SLICE_INIT("text/plain; version=0.0.4; charset=utf-8")};
    request->serve.is_answered = true; /* as api_reply does, which only sends JSON */
    http_reply(request->serve.exchange, 200, &type, 1, body);
    return OP_DONE;
}

const struct api_endpoint api_metrics = {.begin = begin_metrics};
