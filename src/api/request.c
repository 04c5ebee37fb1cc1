/*
 * The API's part of a request's life (serve/request.h). The order of the checks is that of
 * src/api/README.md "HTTP": key, path, method, names of the query string, type, body.
 *
 * Requests for the operators' paths have no key and no account, so they wait in the queue of
 * anonymous requests or of probes. So does a request with a refused key, which refuse_caller
 * answers.
 */
#include "api/request.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "flow/template.h"
#include "serve/foresee.h"

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
    {HTTP_METHOD_GET, "/api/usage", &api_usage_get},
    {HTTP_METHOD_GET, "/api/audit", &api_audit_list},
    {HTTP_METHOD_POST, "/api/connect/sessions", &api_connect_session},
    {HTTP_METHOD_GET, "/api/connect/sessions/{id}", &api_connect_session_get},
    {HTTP_METHOD_GET, "/api/connections", &api_connections_list},
    {HTTP_METHOD_POST, "/api/connections", &api_connections_add},
    {HTTP_METHOD_GET, "/api/connections/{id}", &api_connections_get},
    {HTTP_METHOD_PATCH, "/api/connections/{id}", &api_connections_change},
    {HTTP_METHOD_DELETE, "/api/connections/{id}", &api_connections_delete},
    {HTTP_METHOD_GET, "/api/oauth-clients/{integration_id}", &api_oauth_clients_get},
    {HTTP_METHOD_PUT, "/api/oauth-clients/{integration_id}", &api_oauth_clients_set},
    {HTTP_METHOD_DELETE, "/api/oauth-clients/{integration_id}", &api_oauth_clients_remove},
    {HTTP_METHOD_GET, "/api/users", &api_users_list},
    {HTTP_METHOD_GET, "/api/users/{id}", &api_users_get},
    {HTTP_METHOD_PATCH, "/api/users/{id}", &api_users_change},
    {HTTP_METHOD_DELETE, "/api/users/{id}", &api_users_erase},
    {HTTP_METHOD_GET, "/api/keys", &api_keys_list},
    {HTTP_METHOD_POST, "/api/keys", &api_keys_create},
    {HTTP_METHOD_GET, "/api/keys/self", &api_keys_self},
    {HTTP_METHOD_GET, "/api/keys/{id}", &api_keys_get},
    {HTTP_METHOD_POST, "/api/keys/{id}/roll", &api_keys_roll},
    {HTTP_METHOD_DELETE, "/api/keys/{id}", &api_keys_revoke},
    {HTTP_METHOD_GET, "/api/webhooks", &api_webhooks_list},
    {HTTP_METHOD_POST, "/api/webhooks", &api_webhooks_create},
    {HTTP_METHOD_GET, "/api/webhooks/{id}", &api_webhooks_get},
    {HTTP_METHOD_PATCH, "/api/webhooks/{id}", &api_webhooks_change},
    {HTTP_METHOD_DELETE, "/api/webhooks/{id}", &api_webhooks_delete},
    {HTTP_METHOD_GET, "/api/webhooks/{id}/deliveries", &api_webhooks_deliveries},
    {HTTP_METHOD_POST, "/api/webhooks/{id}/deliveries/{event_id}/replay", &api_webhooks_replay_one},
    {HTTP_METHOD_POST, "/api/webhooks/{id}/replay", &api_webhooks_replay},
    {HTTP_METHOD_POST, "/api/webhooks/{id}/roll", &api_webhooks_roll},
    {HTTP_METHOD_POST, "/api/webhooks/{id}/test", &api_webhooks_test},
    {HTTP_METHOD_GET, "/api/policies", &api_policies_list},
    {HTTP_METHOD_POST, "/api/policies/test", &api_policies_test},
    {HTTP_METHOD_GET, "/api/policies/{name}", &api_policies_get},
    {HTTP_METHOD_PUT, "/api/policies/{name}", &api_policies_set},
    {HTTP_METHOD_DELETE, "/api/policies/{name}", &api_policies_delete},
    {HTTP_METHOD_GET, "/api/accounts", &api_accounts_list},
    {HTTP_METHOD_POST, "/api/accounts", &api_accounts_create},
    {HTTP_METHOD_GET, "/api/accounts/{id}", &api_accounts_get},
    {HTTP_METHOD_PATCH, "/api/accounts/{id}", &api_accounts_change},
    {HTTP_METHOD_DELETE, "/api/accounts/{id}", &api_accounts_erase},
    {HTTP_METHOD_POST, "/api/accounts/{id}/keys", &api_accounts_key_create},
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

/* A larger body is parsed on a pool thread: 8 MB take up to 50 ms, and a turn of the loop should
 * end within 10 ms. */
enum { PARSED_ON_LOOP_BYTES_MAX = 128 * 1024 };

static struct api_request *request_of(struct serve_request *serve)
{
    return CONTAINER_OF(serve, struct api_request, serve);
}

/* ---- the key ---- */

static bool is_below(const struct http_exchange *exchange, const char *first)
{
    return exchange->segment_count > 0 && slice_eq_cstr(exchange->segments[0], first);
}

/* Whether the path needs a key, as all below /api and /mcp do. */
static bool is_keyed(const struct http_exchange *exchange)
{
    return is_below(exchange, "api") || is_below(exchange, "mcp");
}

/* Whether the path is one for load balancers' probes. */
static bool is_probe(const struct http_exchange *exchange)
{
    return exchange->segment_count == 1 && (slice_eq_cstr(exchange->segments[0], "healthz") ||
                                            slice_eq_cstr(exchange->segments[0], "readyz"));
}

/* Returns the text after "Bearer "; SLICE_NONE if the header is missing or has another scheme. */
static slice bearer_key(const struct http_exchange *exchange)
{
    slice value = http_request_header(exchange, SLICE("Authorization"));
    if (value.len < 7 || !slice_eq_nocase(slice_first(value, 7), SLICE("Bearer ")))
        return SLICE_NONE;
    return slice_trim(slice_from(value, 7));
}

static enum op_result find_bearer(struct serve_request *serve)
{
    struct api_request *request = request_of(serve);
    if (!is_keyed(serve->exchange))
        return op_jump(&serve->op, SERVE_ENTER);
    if (api_origin_reply_preflight(request))
        return OP_DONE;
    bool is_known = vault_auth_check(request->api->config.auth, &serve->check,
                                     bearer_key(serve->exchange), serve_client_address(serve),
                                     &serve->op);
    return is_known ? OP_NEXT : OP_WAIT;
}

static enum op_result take_key(struct serve_request *serve)
{
    ASSERT(is_keyed(serve->exchange));
    if (serve->check.status == ERR_REFUSED) {
        http_request_account_set(serve->exchange, (struct uuid){{0}});
        return op_jump(&serve->op, SERVE_ENTER);
    }
    if (serve->check.status != OK)
        return api_reply_database(request_of(serve), serve->check.status);
    serve_caller_set(serve, &serve->check.grant);
    return OP_NEXT;
}

static slice entrance_queue(const struct serve_request *serve)
{
    return is_probe(serve->exchange) ? OP_PROBES : OP_STRANGERS;
}

static enum op_result refuse_early(struct serve_request *serve, enum serve_refusal refusal)
{
    static const struct {
        unsigned status;
        const char *text;
    } answers[] = {
        [SERVE_NO_PATH] = {404, "Not found"},
        [SERVE_NO_METHOD] = {405, "Method not allowed"},
        [SERVE_PAST_RATE] = {429, "Too many requests"},
        [SERVE_MEMORY_BUSY] =
            {503, "This account's requests use all of its memory at the moment. Try again."},
        [SERVE_NO_POLICY] = {503, "The policy of this API key could not be read. Nothing was "
                                  "done. Try again."},
    };
    return api_reply_error(request_of(serve), answers[refusal].status, "%s", answers[refusal].text);
}

/* ---- route ---- */

bool api_may(const struct api_request *request, uint32_t scope, const struct catalog_action *action)
{
    if (action && scope == SCOPE_EXECUTE)
        scope = exec_scope_of(action);
    return serve_may(&request->serve, scope) && (!action || serve_lists(&request->serve, action));
}

/* The command that starts a flow decides this again, by the same function. */
static struct policy_verdict foresee_start(const struct api_request *request,
                                           const struct flow_template *tmpl)
{
    struct policy_verdict verdict;
    flow_template_foresee(tmpl, *request->api->config.catalog, serve_policy(&request->serve),
                          &verdict);
    return verdict;
}

bool api_may_start(const struct api_request *request, const struct flow_template *tmpl)
{
    return serve_may(&request->serve, flow_start_scope(tmpl)) &&
           api_template_is_listed(request, tmpl);
}

bool api_template_is_listed(const struct api_request *request, const struct flow_template *tmpl)
{
    const struct policy_verdict verdict = foresee_start(request, tmpl);
    return !flow_template_is_refused(&verdict);
}

const struct flow_template *api_template_find(const struct api_request *request, slice key)
{
    const struct flow_template *tmpl = flow_template_set_find(*request->api->config.templates, key);
    return tmpl && !foresee_start(request, tmpl).is_hidden ? tmpl : NULL;
}

enum op_result api_refuse_scope(struct api_request *request, uint32_t scope)
{
    return api_reply_error(request, 403, "This API key lacks the scope \"%s\"",
                           scope_name((enum api_key_scope)scope));
}

/* No byte of the body has been read yet, so its limit may still change. */
static void allow_files(struct api_request *request)
{
    uint64_t bytes_max = request->api->config.files_body_bytes_max;
    if (bytes_max <= request->serve.exchange->body_bytes_max)
        return;
    request->serve.exchange->body_bytes_max = bytes_max;
    request->serve.op.arena.bytes_max += bytes_max; /* the parsed values take about as much
                                                     * memory again */
}

/* The paths for operators need no key, so a proxy that restricts them compares the text of the
 * path. An escape that decodes to the same path would pass such a proxy. */
static bool is_as_written(const struct http_exchange *exchange)
{
    return is_keyed(exchange) || slice_eq_cstr(exchange->head.path, exchange->route);
}

static enum op_result refuse_caller(struct serve_request *serve)
{
    if (serve->check.is_elsewhere)
        return api_reply_error(request_of(serve), 403,
                               "This API key may not be used from this address");
    return serve->check.status == ERR_REFUSED ? api_reply_key_refused(request_of(serve)) : OP_NEXT;
}

/* Whether the key may use the endpoint at all. Endpoints that others run are checked, too. */
static enum op_result check_key_rights(struct api_request *request)
{
    const struct api_endpoint *endpoint = request->endpoint;
    if (!api_may(request, endpoint->scope, NULL))
        return api_refuse_scope(request, endpoint->scope);
    if (endpoint->refuses_policy && request->serve.grant.policy.is_named)
        return api_reply_error(request, 403,
                               "This API key has a policy of its own, so it may not use this path");
    return OP_NEXT;
}

static enum op_result check_access(struct serve_request *serve)
{
    struct api_request *request = request_of(serve);
    ASSERT(!request->endpoint);
    request->endpoint = serve->match.route->data;
    request->envelope = request->endpoint->envelope;
    if (!is_as_written(serve->exchange))
        return refuse_early(serve, SERVE_NO_PATH);
    enum op_result result = check_key_rights(request);
    if (result == OP_NEXT)
        result = api_user_check_path(request);
    if (result != OP_NEXT)
        return result;
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

/* A compressed body would be refused as invalid JSON; 415 is the accurate error (RFC 9110 8.4,
 * 15.5.16). */
static bool is_compressed(const struct http_exchange *exchange)
{
    slice coding = http_request_header(exchange, SLICE("Content-Encoding"));
    return coding.len > 0 && !slice_eq_nocase(coding, SLICE("identity"));
}

static bool has_body(const struct api_request *request)
{
    return request->endpoint->body != API_BODY_NONE && request->serve.exchange->body.len > 0;
}

/* Runs on any thread, before the body is parsed. Returns false if the request must first wait for
 * memory. */
static bool take_parse(struct api_request *request)
{
    struct budget_use *use = &request->serve.use;
    slice body = request->serve.exchange->body;
    if (!use->budget || body.len <= SERVE_SMALL_BODY_BYTES || request->parse_bytes > 0)
        return true;
    /* this needs one pass over the text, so it is done only for large bodies */
    size_t bytes = json_parse_bytes(body);
    if (budget_use_take(use, bytes))
        return true;
    request->parse_bytes = bytes;
    return false;
}

/* Runs on the loop or on a pool thread, so it accesses only this request. If the account's share
 * has no room for the values, nothing is parsed: check_body waits for the memory and then calls
 * this function again. */
static void parse_body(struct op *op)
{
    struct api_request *request = CONTAINER_OF(op, struct api_request, serve.op);
    if (!take_parse(request))
        return;
    request->parse_bytes = 0;
    request->body = json_parse(&op->arena, request->serve.exchange->body, &json_limits_request,
                               &request->body_err);
}

static enum op_result read_body(struct serve_request *serve)
{
    struct api_request *request = request_of(serve);
    struct http_exchange *exchange = serve->exchange;
    ASSERT(request->endpoint && !request->body);
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
    return op_run_job(&serve->op, &request->parsing, exchange->body.len > PARSED_ON_LOOP_BYTES_MAX,
                      parse_body, "its body to be parsed");
}

/* ERR_NOMEM has two causes. The parser refuses in advance a body whose values exceed the request's
 * limit, which is permanent (413); or the machine had no memory, which may be temporary (503). */
static enum op_result refuse_body(struct api_request *request)
{
    ASSERT(!request->body && request->body_err.code != OK);
    if (request->body_err.code != ERR_NOMEM)
        return api_reply_error(request, 400, "The body cannot be read: %s", request->body_err.text);
    if (!request->serve.op.arena.is_exhausted)
        return api_reply_error(request, 413, "The body has more values than a request may have");
    return api_reply_no_memory(request);
}

static enum op_result check_body(struct serve_request *serve)
{
    struct api_request *request = request_of(serve);
    if (!has_body(request))
        return OP_NEXT;
    if (request->parse_bytes > 0) /* the use has memory already (serve/request.c) */
        return budget_wait_op(&serve->memory, &serve->op, &serve->use, request->parse_bytes,
                              BUDGET_IN_HAND, BUDGET_WAIT_MS)
                   ? op_jump(&serve->op, SERVE_READ_BODY)
                   : op_wait_then(&serve->op, SERVE_READ_BODY);
    http_body_release(
        request->serve.exchange); /* the values are copies, so the text is no longer needed */
    budget_use_settle(&request->serve.use);
    if (!request->body)
        return refuse_body(request);
    if (request->body->type != JSON_OBJECT)
        return api_reply_error(request, 400, "The body must be a JSON object, got %s",
                               json_type_name(request->body));
    slice fault = api_members_fault(request, request->endpoint->members, request->body);
    return fault.ptr ? api_reply_error(request, 400, "%.*s", SLICE_ARG(fault)) : OP_NEXT;
}

static enum op_result begin_endpoint(struct serve_request *serve)
{
    return api_begin(request_of(serve));
}

static enum op_result resume_endpoint(struct serve_request *serve)
{
    ASSERT(request_of(serve)->then); /* an endpoint waits by api_wait */
    return request_of(serve)->then(request_of(serve));
}

enum op_result api_delegate(struct api_request *request, const struct api_endpoint *endpoint,
                            const struct json *arguments, const struct api_envelope *envelope)
{
    ASSERT(endpoint->begin && !request->serve.is_answered);
    const struct api_names *names = endpoint->members ? endpoint->members : endpoint->query;
    request->endpoint = endpoint;
    request->envelope = envelope;
    request->body = request->arguments = arguments;
    enum op_result result = check_key_rights(request);
    if (result != OP_NEXT)
        return result;
    slice fault = names ? api_members_fault(request, names, arguments) : SLICE_NONE;
    return fault.ptr ? api_reply_error(request, 400, "%.*s", SLICE_ARG(fault)) : api_begin(request);
}

enum op_result api_wait(struct api_request *request, api_step *then)
{
    request->then = then;
    return OP_WAIT;
}

/* If the check itself fails, nothing is known about the key, so the result is returned. It is also
 * returned if the account was disabled, since running work finishes before an account is erased. */
static enum op_result finish_keyed(struct api_request *request)
{
    const struct vault_check *check = &request->serve.check;
    return check->status == ERR_REFUSED && !check->is_disabled ? api_reply_key_refused(request)
                                                               : request->then_keyed(request);
}

/* In most cases the cached key is still valid, and there is no query. The endpoint's on_gone stays:
 * a write whose client leaves during the query gets a note, too. */
static enum op_result check_key_again(struct api_request *request)
{
    const struct vault_caller caller = request->serve.check.caller;
    ASSERT(request->on_gone);
    if (vault_auth_check_caller(request->api->config.auth, &request->serve.check, &caller,
                                request->serve.check.address, &request->serve.op))
        return finish_keyed(request);
    op_keep_children(&request->serve.op); /* the results of the child ops have not been read yet */
    return api_wait(request, finish_keyed);
}

enum op_result api_wait_keyed(struct api_request *request, api_step *then)
{
    request->then_keyed = then;
    return api_wait(request, check_key_again);
}

void api_continue(struct api_request *request)
{
    (void)request;
}

/* Once the endpoint has begun, it decides whether the request continues, since it may have changed
 * something or be about to. */
static bool on_gone(struct serve_request *serve)
{
    struct api_request *request = request_of(serve);
    if (!request->on_gone)
        return false;
    if (request->started)
        flow_command_client_gone(request->started);
    request->on_gone(request);
    return true;
}

static void on_end(struct serve_request *serve, enum op_end end)
{
    struct api_request *request = request_of(serve);
    (void)end;
    if (request->started)
        flow_command_replied(request->started);
}

static void open_request(struct serve_request *serve)
{
    struct api_request *request = request_of(serve);
    struct http_exchange *exchange = serve->exchange;
    request->api = CONTAINER_OF(serve->serve, struct api, serve);
    if (!is_below(exchange, "mcp"))
        return;
    api_origin_begin(request);
    /* Some clients append a slash to the configured address. */
    if (exchange->segment_count == 2 && exchange->segments[1].len == 0)
        exchange->segment_count = 1;
}

static const struct serve_face face = {
    .request_bytes = sizeof(struct api_request),
    .arena_bytes_max = API_REQUEST_ARENA_BYTES_MAX,
    .queue = entrance_queue,
    .open = open_request,
    .find_caller = find_bearer,
    .take_caller = take_key,
    .find_user = api_user_find,
    .take_user = api_user_take,
    .admit = refuse_caller,
    .check_access = check_access,
    .read_body = read_body,
    .check_body = check_body,
    .begin = begin_endpoint,
    .resume = resume_endpoint,
    .refuse = refuse_early,
    .on_gone = on_gone,
    .on_end = on_end,
};

_Static_assert(offsetof(struct api, serve) == 0, "serve_on_head takes it as its ctx");

static struct metric requests_total = METRIC_INIT(
    "sluice_http_requests_total", "Requests by route, method and status.", METRIC_COUNTER);
static struct metric request_seconds =
    METRIC_INIT("sluice_http_request_seconds",
                "Time from the first byte of a request to the last byte of its reply, by route.",
                METRIC_HISTOGRAM);

/* This is also called for requests that the server refused before on_head; their route is "(none)".
 * A 503 is logged as a warning: the process or its database is overloaded. */
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

const struct http_handler api_handler = {.on_head = serve_on_head,
                                         .on_body_paused = serve_on_body_paused,
                                         .on_request = serve_on_request,
                                         .on_finished = on_finished};

/* Returns the api's own routes and those of the config in one table; NULL if out of memory. */
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
    api->serve = (struct serve){.face = &face,
                                .work = config->work,
                                .trusted_proxies = config->trusted_proxies,
                                .policies = config->policies};
    api->routes = all_routes(config, &count);
    if (!api->routes) {
        mem_free(api);
        return err_null(err, ERR_NOMEM, "out of memory");
    }
    api->serve.router = http_router_new(api->routes, count, err);
    if (config->account_rate_per_s > 0)
        api->serve.rate =
            account_rate_new(config->account_rate_per_s, config->account_burst, config->leases);
    if (api->serve.router && (api->serve.rate || config->account_rate_per_s == 0))
        return api;
    if (api->serve.router)
        (void)err_set(err, ERR_NOMEM, "out of memory");
    api_free(api);
    return NULL;
}

bool api_has_path(const struct api *api, const struct http_exchange *exchange)
{
    struct http_route_match match;
    return is_keyed(exchange) ||
           http_router_match(api->serve.router, exchange->head.method, exchange->segments,
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
    ASSERT(api->serve.active == 0);
    http_router_free(api->serve.router);
    account_rate_free(api->serve.rate);
    mem_free(api->routes);
    mem_free(api);
}
