/*
 * The life of a request; see request.h. The order of the checks is src/api/README.md "HTTP":
 * key, path, method, names of the query string, type, body.
 *
 * The exchange waits with the body (HTTP_BODY_WAIT) until the key is known, so that strangers take
 * no memory but that of a head. The body's memory is taken from the account's share before it is
 * read, and again before it is parsed. The paths for operators have no key and no account: they
 * begin at STEP_ENTER, in the line of strangers or of probes; so does a key that is refused, which
 * STEP_ROUTE answers.
 */
#include "api/request.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"

static const struct http_route routes[] = {
    {HTTP_METHOD_GET, "/healthz", &api_healthz},
    {HTTP_METHOD_GET, "/readyz", &api_readyz},
    {HTTP_METHOD_GET, "/metrics", &api_metrics},
    {HTTP_METHOD_GET, "/openapi.json", &api_openapi},
    {HTTP_METHOD_POST, "/api/executions", &api_executions_create},
    {HTTP_METHOD_GET, "/api/executions", &api_executions_list},
    {HTTP_METHOD_POST, "/api/executions/batch", &api_executions_batch},
    {HTTP_METHOD_GET, "/api/executions/{id}", &api_executions_get},
    {HTTP_METHOD_GET, "/api/stats", &api_stats_get},
    {HTTP_METHOD_GET, "/api/audit", &api_audit_list},
    {HTTP_METHOD_POST, "/api/connect/sessions", &api_connect_session},
    {HTTP_METHOD_GET, "/api/connections", &api_connections_list},
    {HTTP_METHOD_GET, "/api/connections/{id}", &api_connections_get},
    {HTTP_METHOD_PATCH, "/api/connections/{id}", &api_connections_change},
    {HTTP_METHOD_DELETE, "/api/connections/{id}", &api_connections_delete},
    {HTTP_METHOD_POST, "/api/tools/{tool_name}/execute", &api_tools_execute},
    {HTTP_METHOD_GET, "/api/integrations", &api_integrations_list},
    {HTTP_METHOD_GET, "/api/actions", &api_actions_list},
    {HTTP_METHOD_GET, "/api/actions/{integration_id}/{action_id}", &api_actions_get},
    {HTTP_METHOD_GET, "/api/search", &api_search},
    {HTTP_METHOD_GET, "/api/flows/templates", &api_flows_templates},
    {HTTP_METHOD_GET, "/api/flows/templates/{key}", &api_flows_template},
    {HTTP_METHOD_POST, "/api/flows/start", &api_flows_start},
    {HTTP_METHOD_GET, "/api/flows", &api_flows_list},
    {HTTP_METHOD_GET, "/api/flows/{id}", &api_flows_get},
    {HTTP_METHOD_GET, "/api/flows/{id}/events", &api_flows_events},
    {HTTP_METHOD_POST, "/api/flows/{id}/approve", &api_flows_approve},
    {HTTP_METHOD_POST, "/api/flows/{id}/reject", &api_flows_reject},
    {HTTP_METHOD_POST, "/api/flows/{id}/resume", &api_flows_resume},
    {HTTP_METHOD_POST, "/api/flows/{id}/cancel", &api_flows_cancel},
};

const struct http_route *api_routes(size_t *count)
{
    *count = ARRAY_LEN(routes);
    return routes;
}

enum step {
    STEP_FIND_KEY,
    STEP_CHECK_KEY,
    STEP_TAKE_RATE,
    STEP_ENTER,
    STEP_ROUTE,
    STEP_ASK_MEMORY,
    STEP_TAKE_BODY,
    STEP_READ_BODY,
    STEP_CHECK_BODY,
    STEP_BEGIN,
    STEP_FINISH
};

/* A larger body is parsed on a pool thread: 8 MB take up to 50 ms, and a turn of the loop is to end
 * after 10. */
enum { PARSED_ON_LOOP_BYTES_MAX = 128 * 1024 };

OP_OF(request_of, api_request)

/* ---- the key ---- */

static bool is_below(const struct http_exchange *exchange, const char *first)
{
    return exchange->segment_count > 0 && slice_eq_cstr(exchange->segments[0], first);
}

/* What needs a key: all below /api, and /mcp. */
static bool is_keyed(const struct http_exchange *exchange)
{
    return is_below(exchange, "api") || is_below(exchange, "mcp");
}

/* What load balancers ask for. */
static bool is_probe(const struct http_exchange *exchange)
{
    return exchange->segment_count == 1 && (slice_eq_cstr(exchange->segments[0], "healthz") ||
                                            slice_eq_cstr(exchange->segments[0], "readyz"));
}

/* What follows "Bearer ", SLICE_NONE when there is no such header. */
static slice bearer_key(const struct http_exchange *exchange)
{
    slice value = http_request_header(exchange, SLICE("Authorization"));
    if (value.len < 7 || !slice_eq_nocase(slice_first(value, 7), SLICE("Bearer ")))
        return SLICE_NONE;
    return slice_trim(slice_from(value, 7));
}

static enum op_result step_find_key(struct op *op)
{
    struct api_request *request = request_of(op);
    ASSERT(!request->endpoint && !request->frame.is_answered);
    if (!is_keyed(request->exchange))
        return op_jump(op, STEP_ENTER);
    if (api_origin_reply_preflight(request))
        return OP_DONE;
    bool is_known = vault_auth_check(request->api->config.auth, &request->check,
                                     bearer_key(request->exchange), api_client_address(request),
                                     op);
    return is_known ? OP_NEXT : OP_WAIT;
}

/* Before the entrance: a request past its rate is refused at once and waits in no line. */
static enum op_result step_take_rate(struct op *op)
{
    struct api_request *request = request_of(op);
    struct account_rate *rate = request->api->rate;
    uint64_t now = loop_now_ns(op->loop);
    if (!rate)
        return OP_NEXT;
    if (account_rate_awaits(rate, request->grant.account_id, 1, now, &request->rate_wait, op))
        return op_wait_then(op, STEP_TAKE_RATE);
    uint64_t wait_ms = account_rate_take(rate, request->grant.account_id, now);
    if (wait_ms == 0)
        return OP_NEXT;
    api_reply_retry_after(request, (int64_t)wait_ms);
    return api_reply_error(request, 429, "Too many requests");
}

static enum op_result step_check_key(struct op *op)
{
    struct api_request *request = request_of(op);
    ASSERT(is_keyed(request->exchange));
    if (request->check.status == ERR_REFUSED) {
        http_request_account_set(request->exchange, (struct uuid){{0}});
        return op_jump(op, STEP_ENTER);
    }
    if (request->check.status != OK)
        return api_reply_database(request, request->check.status);
    request->grant = request->check.grant;
    http_request_account_set(request->exchange, request->grant.account_id);
    /* from here on log lines have the account, and memory is counted in its share */
    uuid_format(request->grant.account_id, request->account_text);
    op->account_id = slice_cstr(request->account_text);
    api_memory_begin(request);
    return OP_NEXT;
}

static enum op_result step_enter(struct op *op)
{
    struct api_request *request = request_of(op);
    return op_enter(op, &request->entry, is_probe(request->exchange) ? OP_PROBES : OP_STRANGERS);
}

/* ---- route ---- */

bool api_may(const struct api_request *request, uint32_t scope, const struct catalog_action *action)
{
    (void)action; /* today the scopes of a key hold for every action */
    return (scope & ~request->grant.scopes) == 0;
}

enum op_result api_refuse_scope(struct api_request *request, uint32_t scope)
{
    return api_reply_error(request, 403, "This API key lacks the scope \"%s\"",
                           scope_name((enum api_key_scope)scope));
}

/* No byte of the body was read yet, so its limit may still change. */
static void allow_files(struct api_request *request)
{
    uint64_t bytes_max = request->api->config.files_body_bytes_max;
    if (bytes_max <= request->exchange->body_bytes_max)
        return;
    request->exchange->body_bytes_max = bytes_max;
    request->op.arena.bytes_max += bytes_max; /* parsed, it is about as large again */
}

/* The paths for operators need no key, so a proxy in front keeps them from the public by comparing
 * text. An escape that decodes to the same path would pass such a proxy. */
static bool is_as_written(const struct http_exchange *exchange)
{
    return is_keyed(exchange) || slice_eq_cstr(exchange->head.path, exchange->route);
}

static enum op_result step_route(struct op *op)
{
    struct api_request *request = request_of(op);
    ASSERT(!request->endpoint);
    struct http_exchange *exchange = request->exchange;
    if (request->check.is_elsewhere)
        return api_reply_error(request, 403, "This API key may not be used from this address");
    if (request->check.status == ERR_REFUSED)
        return api_reply_key_refused(request);
    switch (http_router_match(request->api->router, exchange->head.method, exchange->segments,
                              exchange->segment_count, &request->match)) {
    case HTTP_MATCH_NO_PATH:
        return api_reply_error(request, 404, "Not found");
    case HTTP_MATCH_NO_METHOD:
        api_reply_header(request, "Allow", slice_cstr(request->match.allow));
        return api_reply_error(request, 405, "Method not allowed");
    case HTTP_MATCH_FOUND:
        break;
    }
    request->endpoint = request->match.route->data;
    request->envelope = request->endpoint->envelope;
    exchange->route = request->match.route->pattern;
    if (!is_as_written(exchange))
        return api_reply_error(request, 404, "Not found");
    if (!api_may(request, request->endpoint->scope, NULL))
        return api_refuse_scope(request, request->endpoint->scope);
    slice fault = api_query_fault(request);
    if (fault.ptr)
        return api_reply_error(request, 400, "%.*s", SLICE_ARG(fault));
    if (request->endpoint->body == API_BODY_FILES)
        allow_files(request);
    return OP_NEXT;
}

/* ---- body ---- */

static bool is_json_type(slice content_type)
{
    return content_type.len == 0 ||
           slice_eq_nocase(http_media_type(content_type), SLICE("application/json"));
}

/* A compressed body would be refused as invalid JSON; 415 names the cause (RFC 9110 8.4, 15.5.16).
 */
static bool is_compressed(const struct http_exchange *exchange)
{
    slice coding = http_request_header(exchange, SLICE("Content-Encoding"));
    return coding.len > 0 && !slice_eq_nocase(coding, SLICE("identity"));
}

static bool has_body(const struct api_request *request)
{
    return request->endpoint->body != API_BODY_NONE && request->exchange->body.len > 0;
}

/* On the loop or on a pool thread, so it touches this request alone. Where the account's share has
 * no room for the values, nothing is parsed: step_check_body waits for it and comes back. */
static void parse_body(struct op *op)
{
    struct api_request *request = request_of(op);
    if (!api_memory_take_parse(request))
        return;
    request->parse_bytes = 0;
    request->body =
        json_parse(&op->arena, request->exchange->body, &json_limits_request, &request->body_err);
}

static enum op_result step_read_body(struct op *op)
{
    struct api_request *request = request_of(op);
    ASSERT(request->endpoint && !request->body);
    struct http_exchange *exchange = request->exchange;
    if (!request->frame.is_body_here) { /* more of it follows than there was memory for so far */
        return op_jump(op, STEP_ASK_MEMORY);
    }
    if (!request->memory.is_taken) /* for its parse */
        return api_memory_refuse(request);
    if (request->endpoint->body == API_BODY_NONE)
        return OP_NEXT;
    if (!is_json_type(http_request_header(exchange, SLICE("Content-Type"))))
        return api_reply_error(request, 415, "Content-Type must be application/json");
    if (is_compressed(exchange))
        return api_reply_error(request, 415,
                               "Content-Encoding must be identity: send the body as it is");
    if (!has_body(request) && request->endpoint->body != API_BODY_OPTIONAL)
        return api_reply_error(request, 400, "A JSON object is required as the body");
    if (!has_body(request))
        return OP_NEXT;
    return op_run_job(op, &request->parsing, exchange->body.len > PARSED_ON_LOOP_BYTES_MAX,
                      parse_body, "its body to be parsed");
}

/* ERR_NOMEM has two causes. The parser refuses beforehand a body whose values pass the request's
 * limit, which it always will (413); or the machine had no memory, which may be better soon (503).
 */
static enum op_result refuse_body(struct api_request *request)
{
    ASSERT(!request->body && request->body_err.code != OK);
    if (request->body_err.code != ERR_NOMEM)
        return api_reply_error(request, 400, "The body cannot be taken: %s",
                               request->body_err.text);
    if (!request->op.arena.is_exhausted)
        return api_reply_error(request, 413, "The body holds more values than a request may have");
    return api_reply_no_memory(request);
}

static enum op_result step_check_body(struct op *op)
{
    struct api_request *request = request_of(op);
    ASSERT(request->frame.is_body_here);
    if (!has_body(request))
        return OP_NEXT;
    if (request->parse_bytes > 0)
        return api_memory_wait_for_parse(request) == OP_WAIT ? op_wait_then(op, STEP_READ_BODY)
                                                             : op_jump(op, STEP_READ_BODY);
    http_body_release(request->exchange); /* the values are copies: its text is not needed */
    budget_use_settle(&request->use);
    if (!request->body)
        return refuse_body(request);
    if (request->body->type != JSON_OBJECT)
        return api_reply_error(request, 400, "The body must be a JSON object, got %s",
                               json_type_name(request->body));
    slice fault = request->endpoint->members
                      ? api_members_fault(request, request->endpoint->members, request->body)
                      : SLICE_NONE;
    return fault.ptr ? api_reply_error(request, 400, "%.*s", SLICE_ARG(fault)) : OP_NEXT;
}

static enum op_result step_begin(struct op *op)
{
    struct api_request *request = request_of(op);
    ASSERT(request->endpoint->begin && !request->frame.is_answered);
    return request->endpoint->begin(request);
}

static enum op_result step_finish(struct op *op)
{
    struct api_request *request = request_of(op);
    if (request->frame.is_answered)
        return OP_DONE;
    ASSERT(request->then); /* an endpoint waits by api_wait */
    enum op_result result = request->then(request);
    return result == OP_WAIT ? op_wait_then(op, STEP_FINISH) : result;
}

enum op_result api_wait(struct api_request *request, api_step *then)
{
    request->then = then;
    return OP_WAIT;
}

/* A check that failed says nothing of the key: what was done is answered. So it is where the
 * account was disabled: what runs is let finish before it is erased. */
static enum op_result finish_keyed(struct api_request *request)
{
    const struct vault_check *check = &request->check;
    return check->status == ERR_REFUSED && !check->is_disabled ? api_reply_key_refused(request)
                                                               : request->then_keyed(request);
}

/* Mostly what is cached of the key is still good, and nothing is asked. */
static enum op_result check_key_again(struct api_request *request)
{
    const struct vault_caller caller = request->check.caller;
    if (vault_auth_check_caller(request->api->config.auth, &request->check, &caller,
                                request->check.address, &request->op))
        return finish_keyed(request);
    request->on_gone = api_go_on;   /* what was waited for has ended */
    op_keep_children(&request->op); /* their results have yet to be read */
    return api_wait(request, finish_keyed);
}

enum op_result api_wait_keyed(struct api_request *request, api_step *then)
{
    request->then_keyed = then;
    return api_wait(request, check_key_again);
}

void api_go_on(struct api_request *request)
{
    (void)request;
}

/* ---- the op ---- */

static void on_cancel(struct op *op)
{
    struct api_request *request = request_of(op);
    vault_auth_cancel(&request->check);
    http_frame_cancel(&request->frame);
    budget_wait_stop(&request->memory);
}

/* Every exchange is answered exactly once, whatever happened to its op. */
static void on_end(struct op *op, enum op_end end)
{
    struct api_request *request = request_of(op);
    http_body_release(request->exchange); /* it counts in the request's use, which ends */
    http_frame_end(&request->frame, end);
}

static void free_request(struct op *op)
{
    budget_use_end(&request_of(op)->use);
    mem_free(request_of(op));
}

static const struct op_step steps[] = {
    [STEP_FIND_KEY] = {"find_key", step_find_key, OP_TO(STEP_ENTER)},
    [STEP_CHECK_KEY] = {"check_key", step_check_key, OP_TO(STEP_ENTER)},
    [STEP_TAKE_RATE] = {"take_rate", step_take_rate, OP_TO(STEP_TAKE_RATE)},
    [STEP_ENTER] = {"enter", step_enter, 0},
    [STEP_ROUTE] = {"route", step_route, 0},
    [STEP_ASK_MEMORY] = {"ask_memory", api_step_ask_memory, 0},
    [STEP_TAKE_BODY] = {"take_body", api_step_take_body, 0},
    [STEP_READ_BODY] = {"read_body", step_read_body, OP_TO(STEP_ASK_MEMORY)},
    [STEP_CHECK_BODY] = {"check_body", step_check_body, OP_TO(STEP_READ_BODY)},
    [STEP_BEGIN] = {"begin", step_begin, 0},
    [STEP_FINISH] = {"finish", step_finish, OP_TO(STEP_FINISH)},
};

static const struct op_class request_class = {
    .name = "request",
    OP_STEPS(steps),
    .is_attended = true,
    .on_cancel = on_cancel,
    .on_end = on_end,
    .free = free_request,
};

/* An endpoint that has begun decides: it may have changed something, or be about to. */
static void on_gone(struct http_exchange *exchange)
{
    struct api_request *request = CONTAINER_OF(http_frame_of(exchange), struct api_request, frame);
    if (request->on_gone)
        request->on_gone(request);
    else
        op_cancel(&request->op);
}

static enum http_body_wanted on_head(struct http_exchange *exchange, void *ctx)
{
    struct api *api = ctx;
    struct api_request *request = mem_zalloc(sizeof(*request));
    if (!request)
        return http_frame_refuse(exchange);
    request->api = api;
    request->exchange = exchange;
    if (is_below(exchange, "mcp")) {
        api_origin_begin(request);
        /* Clients append a slash to the address that they are given. */
        if (exchange->segment_count == 2 && exchange->segments[1].len == 0)
            exchange->segment_count = 1;
    }
    http_frame_begin(&request->frame, exchange, &request->op, &api->active, on_gone);
    op_start(&request->op, &request_class, exchange->loop, NULL, API_REQUEST_ARENA_BYTES_MAX);
    request->op.request_id = exchange->request_id;
    return HTTP_BODY_WAIT;
}

static struct metric requests_total = METRIC_INIT(
    "sluice_http_requests_total", "Requests by route, method and status.", METRIC_COUNTER);
static struct metric request_seconds = METRIC_INIT(
    "sluice_http_request_seconds",
    "From the first byte of a request to the last of its reply, by route.", METRIC_HISTOGRAM);

/* Also for requests that the server refused before on_head; their route is "(none)". A 503 is
 * logged as a warning: the process or its database has too much to do. */
static void on_finished(struct http_exchange *exchange, void *ctx)
{
    slice route = slice_cstr(exchange->route);
    char room[160], digits[SLICE_U64_MAX];
    (void)ctx;
    slice method = http_method_text(exchange->head.method);
    slice labels = SLICE_JOIN(room, SLICE("route=\""), route, SLICE("\",method=\""), method,
                              SLICE("\",status=\""), slice_of_u64(exchange->status, digits),
                              SLICE("\""));
    metric_add(metric_series(&requests_total, labels), 1);
    labels = SLICE_JOIN(room, SLICE("route=\""), route, SLICE("\""));
    uint64_t ns = clock_mono_ns() - exchange->started_ns;
    metric_observe_ns(metric_series(&request_seconds, labels), ns);
    log_event(exchange->status == 503 ? LOG_WARN : LOG_DEBUG, "request",
              LOG_STR("request_id", exchange->request_id), LOG_STR("method", method),
              LOG_STR("path", exchange->head.path), LOG_INT("status", exchange->status),
              LOG_MS("ms", ns), LOG_BOOL("client_gone", exchange->is_gone));
}

const struct http_handler api_handler = {.on_head = on_head,
                                         .on_body_paused = http_frame_on_body_paused,
                                         .on_request = http_frame_on_request,
                                         .on_finished = on_finished};

/* Its own and those that it is given, in one table. NULL: out of memory. */
static struct http_route *all_routes(const struct api_config *config, size_t *count)
{
    *count = ARRAY_LEN(routes) + config->route_count;
    struct http_route *all = mem_calloc(*count, sizeof(*all));
    if (!all)
        return NULL;
    memcpy(all, routes, sizeof(routes));
    if (config->route_count > 0)
        memcpy(all + ARRAY_LEN(routes), config->routes, config->route_count * sizeof(*all));
    return all;
}

struct api *api_new(const struct api_config *config, struct err *err)
{
    size_t count;
    struct api *api = mem_zalloc(sizeof(*api));
    if (!api)
        return err_null(err, ERR_NOMEM, "out of memory");
    api->config = *config;
    api->routes = all_routes(config, &count);
    if (!api->routes) {
        mem_free(api);
        return err_null(err, ERR_NOMEM, "out of memory");
    }
    api->router = http_router_new(api->routes, count, err);
    if (api->router && config->account_rate_per_s > 0) {
        api->rate =
            account_rate_new(config->account_rate_per_s, config->account_burst, config->leases);
        if (!api->rate)
            (void)err_set(err, ERR_NOMEM, "out of memory");
    }
    if (api->router && (api->rate || config->account_rate_per_s == 0))
        return api;
    http_router_free(api->router);
    mem_free(api->routes);
    mem_free(api);
    return NULL;
}

bool api_has_path(const struct api *api, const struct http_exchange *exchange)
{
    struct http_route_match match;
    return is_keyed(exchange) ||
           http_router_match(api->router, exchange->head.method, exchange->segments,
                             exchange->segment_count, &match) != HTTP_MATCH_NO_PATH;
}

void api_metrics_only_on(struct api *api, const struct http_server *server)
{
    api->metrics_server = server;
}

void api_public_url_set(struct api *api, slice url)
{
    (void)snprintf(api->public_url, sizeof(api->public_url), "%.*s", SLICE_ARG(url));
}

void api_free(struct api *api)
{
    if (!api)
        return;
    ASSERT(api->active == 0);
    http_router_free(api->router);
    account_rate_free(api->rate);
    mem_free(api->routes);
    mem_free(api);
}
