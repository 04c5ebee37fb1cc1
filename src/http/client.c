/*
 * client: settings, overrides, origins, and the life of a call from its start to its only end.
 * Other files: client_request.c (what is sent), client_slot.c (when), client_dial.c (a new
 * connection), client_connection.c (the pool), client_response.c (the reply).
 *
 * call_finish() is the only end of a call. After any function that may reach it, call_fail() and
 * call_assign() among them, the call may have ended and its connection and dial may be closed;
 * callers do not touch them afterwards. Their memory stays until the end of the turn.
 */
#include "http/client.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/metric.h"
#include "http/client_internal.h"

static struct metric connections_gauge =
    METRIC_INIT("sluice_http_client_connections", "Outbound connections, by state (idle or busy).",
                METRIC_GAUGE);
static struct metric waiting_gauge = METRIC_INIT(
    "sluice_http_client_waiting",
    "Outbound calls that wait for a connection, by the limit of their origin or of all.",
    METRIC_GAUGE);

static const char *const result_names[HTTP_CALL_RESULTS] = {
    [HTTP_CALL_OK] = "ok",
    [HTTP_CALL_DNS] = "dns",
    [HTTP_CALL_ADDRESS_REFUSED] = "address_refused",
    [HTTP_CALL_CONNECT] = "connect",
    [HTTP_CALL_PROXY] = "proxy",
    [HTTP_CALL_TLS] = "tls",
    [HTTP_CALL_TIMEOUT_CONNECT] = "timeout_connect",
    [HTTP_CALL_TIMEOUT] = "timeout",
    [HTTP_CALL_RESET] = "reset",
    [HTTP_CALL_PROTOCOL] = "protocol",
    [HTTP_CALL_TOO_LARGE] = "too_large",
    [HTTP_CALL_OVERLOADED] = "overloaded",
    [HTTP_CALL_UNSENT] = "unsent",
    [HTTP_CALL_INVALID] = "invalid",
    [HTTP_CALL_CANCELLED] = "cancelled",
};

const char *http_call_result_name(enum http_call_result result)
{
    ASSERT(result < HTTP_CALL_RESULTS);
    return result_names[result];
}

/* ---- the client ---- */

static void set_defaults(struct http_client_config *config)
{
    DEFAULT_TO(config->calls_per_origin, 64);
    DEFAULT_TO(config->waiting_max, 256);
    DEFAULT_TO(config->waiting_ms, 5000);
    DEFAULT_TO(config->idle_per_origin, 16);
    DEFAULT_TO(config->connections_max, 1024);
    DEFAULT_TO(config->origins_max, 4096);
    DEFAULT_TO(config->idle_ms, 30000);
    DEFAULT_TO(config->write_reuse_ms, 10000);
    DEFAULT_TO(config->connect_ms, 10000);
    DEFAULT_TO(config->first_byte_ms, 30000);
    DEFAULT_TO(config->between_bytes_ms, 15000);
    DEFAULT_TO(config->response_bytes_max, (size_t)8 << 20);
}

struct http_client *http_client_new(struct loop *loop, const struct http_client_config *config,
                                    struct err *err)
{
    ASSERT(config->resolver);
    slice agent = config->user_agent.len ? config->user_agent : SLICE("sluice");
    struct http_client *client = mem_zalloc(sizeof(*client));
    if (!client)
        return err_null(err, ERR_NOMEM, "out of memory for the HTTP client");
    if (agent.len >= sizeof(client->user_agent) || !http_is_field_value(agent)) {
        mem_free(client);
        return err_null(err, ERR_INVALID,
                        "the user agent must be a header value of at most %zu characters",
                        sizeof(client->user_agent) - 1);
    }
    if (config->proxy.len > 0 && proxy_new(config->proxy, &client->proxy, err) != OK) {
        mem_free(client);
        return NULL;
    }
    client->loop = loop;
    client->config = *config;
    client->config.proxy = SLICE_NONE; /* the URL may contain a password, and belongs to the
                                        * caller */
    set_defaults(&client->config);
    memcpy(client->user_agent, agent.ptr, agent.len);
    client->config.user_agent = slice_of(client->user_agent, agent.len);
    client->tls = config->tls ? tls_context_ref(config->tls) : NULL;
    client->refs = 1;
    /* Series are looked up once: counts change several times per call. */
    client->idle_series = metric_series(&connections_gauge, SLICE("state=\"idle\""));
    client->busy_series = metric_series(&connections_gauge, SLICE("state=\"busy\""));
    client->waiting_series = metric_series(&waiting_gauge, SLICE_NONE);
    map_init(&client->origins, client->config.origins_max);
    list_init(&client->calls);
    list_init(&client->by_idle);
    slot_init(client);
    buf_init(&client->head, HTTP_CALL_REQUEST_HEAD_MAX);
    return client;
}

static void client_free(struct loop_garbage *garbage)
{
    struct http_client *client = CONTAINER_OF(garbage, struct http_client, garbage);
    /* Each connection and dial holds a reference to the client, and each origin is freed with
     * its last connection or dial. */
    ASSERT(client->origins.count == 0 && client->connection_count == 0);
    slot_deinit(client);
    map_deinit(&client->origins);
    for (size_t i = 0; i < client->override_count; i++)
        mem_free(client->overrides[i].target_text);
    mem_free(client->overrides);
    if (client->spare_scratch) {
        buf_deinit(&client->spare_scratch->text);
        buf_deinit(&client->spare_scratch->fields);
        mem_free(client->spare_scratch);
    }
    buf_deinit(&client->head);
    proxy_free(client->proxy);
    tls_context_unref(client->tls);
    mem_free(client);
}

void client_unref(struct http_client *client)
{
    /* The client is freed at the bottom of the turn: functions up the stack still use it. */
    ASSERT(client->refs > 0);
    if (--client->refs > 0)
        return;
    client->garbage.free = client_free;
    loop_garbage_add(client->loop, &client->garbage);
}

void http_client_free(struct http_client *client)
{
    if (!client)
        return;
    ASSERT(!client->is_freed);
    client->is_freed = true;
    /* Always takes the first call: ending one call may end or start others, so no iterator
     * survives. */
    while (!list_is_empty(&client->calls))
        call_fail(LIST_ITEM(client->calls.next, struct http_call, all_link), HTTP_CALL_CANCELLED,
                  ERR_CLOSED, "the HTTP client is being closed");
    while (!list_is_empty(&client->by_idle))
        connection_close_idle(
            LIST_ITEM(client->by_idle.next, struct http_connection, all_idle_link));
    client_unref(client);
}

void http_client_tls_set(struct http_client *client, struct tls_context *tls)
{
    struct tls_context *old = client->tls;
    client->tls = tls ? tls_context_ref(tls) : NULL;
    /* LIST_EACH has saved the next node, and closing this connection unlinks no other. */
    LIST_EACH(&client->by_idle, struct http_connection, connection, all_idle_link) {
        /* Idle connections made under the old roots are no longer trusted; busy ones are checked
         * when they become idle (connection_go_idle). */
        if (connection->tls && connection->tls != client->tls)
            connection_close_idle(connection);
    }
    tls_context_unref(old);
}

struct http_client_stats http_client_stats(const struct http_client *client)
{
    return (struct http_client_stats){
        .connections = client->connection_count,
        .idle = client->idle_count,
        .calls_active = client->call_count - client->waiting_count,
        .calls_waiting = client->waiting_count,
        .origins = client->origins.count,
    };
}

void client_count_changed(struct http_client *client)
{
    if (client->config.is_apart)
        return;
    metric_set(client->idle_series, (double)client->idle_count);
    metric_set(client->busy_series, (double)(client->connection_count - client->idle_count));
    metric_set(client->waiting_series, (double)client->waiting_count);
}

/* ---- overrides ---- */

static int override_fill(struct http_override *override, slice origin, slice target,
                         struct err *err)
{
    struct url from;
    int code = url_parse(origin, &from, err);
    if (code == OK && from.target.len > 0 && !slice_eq_cstr(from.target, "/"))
        code = err_set(err, ERR_SYNTAX, "an origin must not have a path");
    if (code != OK)
        return err_prefix(err, "origin override of \"%.*s\"", SLICE_ARG(slice_first(origin, 80)));
    url_origin(&from, override->origin);
    override->target_text = mem_strndup(target.ptr, target.len);
    if (!override->target_text)
        return err_set(err, ERR_NOMEM, "out of memory for an origin override");
    code = url_parse(slice_of(override->target_text, target.len), &override->target, err);
    slice prefix = override->target.target;
    if (code == OK && slice_find_char(prefix, '?') >= 0)
        code = err_set(err, ERR_SYNTAX, "the target of an override must not have a query");
    if (code != OK)
        return err_prefix(err, "origin override to \"%.*s\"", SLICE_ARG(slice_first(target, 80)));
    /* Removes the slash at the end, as the request's own path begins with one. */
    while (prefix.len && prefix.ptr[prefix.len - 1] == '/')
        prefix.len--;
    override->prefix = prefix;
    return OK;
}

int http_client_override(struct http_client *client, slice origin, slice target, struct err *err)
{
    if (client->override_count == HTTP_OVERRIDES_MAX)
        return err_set(err, ERR_LIMIT, "more than %d origin overrides", HTTP_OVERRIDES_MAX);
    struct http_override *grown =
        mem_realloc(client->overrides, (client->override_count + 1) * sizeof(*client->overrides));
    if (!grown)
        return err_set(err, ERR_NOMEM, "out of memory for an origin override");
    client->overrides = grown;
    struct http_override *override = &grown[client->override_count];
    memset(override, 0, sizeof(*override));
    int code = override_fill(override, origin, target, err);
    if (code != OK) {
        /* The count grows last, so a failed entry is overwritten by the next. */
        mem_free(override->target_text);
        return code;
    }
    client->override_count++;
    return OK;
}

static const struct http_override *override_find(const struct http_client *client,
                                                 const struct url *url)
{
    char text[URL_ORIGIN_MAX + 1];
    if (client->override_count == 0)
        return NULL;
    url_origin(url, text);
    for (size_t i = client->override_count; i > 0; i--) /* the last override set wins */
        if (strcmp(client->overrides[i - 1].origin, text) == 0)
            return &client->overrides[i - 1];
    return NULL;
}

/* ---- origins ---- */

static struct http_origin *origin_new(struct http_client *client, const struct url *url,
                                      bool is_override)
{
    char text[URL_ORIGIN_MAX + 1];
    struct http_origin *origin = mem_zalloc(sizeof(*origin));
    if (!origin)
        return NULL;
    slice name = url_origin(url, text);
    origin->client = client;
    /* "!" cannot begin a scheme, so the keys of overridden origins never equal those of others.
     * Their connections bypass the address check, so no other call may use them. */
    int len = snprintf(origin->key_text, sizeof(origin->key_text), "%s%s", is_override ? "!" : "",
                       name.ptr);
    origin->key = slice_of(origin->key_text, (size_t)len);
    memcpy(origin->host, url->host.ptr, url->host.len);
    origin->port = url->port;
    origin->is_https = url->is_https;
    origin->is_override = is_override;
    origin->is_proxied =
        client->proxy && url->is_https && !is_override &&
        !address_policy_is_host_allowed(client->config.policy, url->host, url->port);
    list_init(&origin->idle);
    list_init(&origin->ring);
    return origin;
}

/* Returns NULL if out of memory, or if the tenant or all tenants together use too many origins. */
/* The key is built on the stack with room for "!", so that finding an origin costs no
 * allocation. */
static struct http_origin *origin_get(struct http_client *client, const struct url *url,
                                      bool is_override, struct uuid tenant)
{
    char key[URL_ORIGIN_MAX + 2] = "!";
    slice name = url_origin(url, key + 1);
    name = is_override ? slice_of(key, name.len + 1) : name;
    struct http_origin *origin = map_get(&client->origins, name);
    if (origin)
        return origin;
    origin = slot_allows_origin(client, tenant) ? origin_new(client, url, is_override) : NULL;
    if (!origin)
        return NULL;
    if (map_put(&client->origins, origin->key, origin, NULL) == OK)
        return origin;
    mem_free(origin);
    return NULL;
}

void origin_collect(struct http_origin *origin)
{
    /* Each of these still points to the origin; when the last of them ends, this function is called
     * again. */
    if (origin->queue_count || origin->connection_count || origin->dial_count || origin->pins)
        return;
    ASSERT(list_is_empty(&origin->idle) && list_is_empty(&origin->ring));
    void *removed = map_remove(&origin->client->origins, origin->key);
    ASSERT(removed == origin);
    mem_free(origin);
}

/* ---- the end of a call ---- */

static void on_call_ended(struct loop_task *task)
{
    struct http_call *call = CONTAINER_OF(task, struct http_call, ended);
    ASSERT(call->state == CALL_ENDING);
    call->state = CALL_IDLE;
    op_release(call->owner); /* the call may be freed after this */
}

/* Cuts all links between the call and the client, on both sides. */
static struct http_origin *call_detach(struct http_call *call)
{
    struct http_client *client = call->client;
    struct http_origin *origin = call->origin;
    /* The order matters. The timer comes first, or it could fire for a call that has ended. The
     * dial and the connection follow, which use call->dial and call->connection to cut the
     * links. The slot is last, after the connection is no longer counted. */
    timer_stop(&call->timer);
    list_unlink(&call->all_link);
    client->call_count--;
    if (call->dial)
        dial_abandon(call->dial);
    if (call->connection)
        connection_drop(call->connection);
    ASSERT(!call->dial && !call->connection);
    slot_leave(call);
    call->origin = NULL;
    return origin;
}

/* Logs neither path nor query, since either may contain a token. */
static void log_call(const struct http_call *call)
{
    op_log(call->owner, op_log_level(call->owner), "outbound call",
           LOG_STR("host", call->authority), LOG_STR("method", call->method),
           LOG_CSTR("result", http_call_result_name(call->result)), LOG_INT("status", call->status),
           LOG_MS("ms", call->total_ns), LOG_INT("attempt", call->attempt ? call->attempt : 1),
           LOG_BOOL("reused", call->is_reused), LOG_BOOL("resent", call->is_resent),
           LOG_CSTR("error", call->err.text));
}

void call_finish(struct http_call *call, enum http_call_result result)
{
    ASSERT(call->state != CALL_IDLE && call->state != CALL_ENDING);
    ASSERT(result == HTTP_CALL_OK || call->err.code != OK);
    struct http_client *client = call->client;
    struct http_origin *origin = call_detach(call);
    call->result = result;
    call->total_ns = loop_now_ns(client->loop) - call->started_ns;
    call->state = CALL_ENDING;
    log_call(call);
    /* The hold is released from a task, not here: the owner's op must not run inside a function
     * that it calls. */
    loop_task_queue(client->loop, &call->ended);
    client_count_changed(client);
    /* A slot is free now. The origin still exists: call_detach does not free it, but slot_serve
     * may. */
    if (origin)
        slot_serve(origin);
}

void call_fail(struct http_call *call, enum http_call_result result, enum err_code code,
               const char *fmt, ...)
{
    /* The text is formatted into a separate block, because an argument may be call->err.text. */
    char text[ERR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    err_set(&call->err, code, "%s", text);
    call_finish(call, result);
}

/* ---- time ---- */

static void fail_late(struct http_call *call, bool is_deadline)
{
    const char *why = is_deadline ? "the call's deadline passed" : "it took too long";
    enum http_call_result result = call->state == CALL_DIALING ? HTTP_CALL_TIMEOUT_CONNECT
                                                               : HTTP_CALL_TIMEOUT;
    const char *what = call->state == CALL_DIALING   ? "connecting to"
                       : call->state == CALL_SENDING ? "sending the request to"
                       : call->first_byte_ns         ? "waiting for the rest of the reply of"
                                                     : "waiting for the reply of";
    if (call->state == CALL_DIALING && dial_waits_for_proxy(call->dial)) {
        result = HTTP_CALL_PROXY;
        what = "waiting for the proxy to connect to";
    }
    if (call->state == CALL_WAITING)
        call_fail(call, HTTP_CALL_OVERLOADED, ERR_BUSY,
                  "too many calls to %.*s are in flight: %s while waiting for a connection",
                  SLICE_ARG(call->authority), why);
    else /* the result already reports a time-out */
        call_fail(call, result, ERR_TIMEOUT, "%s %.*s%s%s", what, SLICE_ARG(call->authority),
                  is_deadline ? ": " : "", is_deadline ? why : "");
}

static void on_call_due(struct timer *timer)
{
    struct http_call *call = CONTAINER_OF(timer, struct http_call, timer);
    /* The timer is set to the earlier of two deadlines; which of them has passed decides what is
     * reported. */
    bool is_deadline = call->deadline_ns && loop_now_ns(call->client->loop) >= call->deadline_ns;
    fail_late(call, is_deadline);
}

void call_set_phase(struct http_call *call, enum call_state state, uint64_t phase_due_ns)
{
    call->state = (uint8_t)state;
    call->phase_due_ns = phase_due_ns;
    uint64_t due = phase_due_ns;
    if (call->deadline_ns && call->deadline_ns < due)
        due = call->deadline_ns;
    timer_start(&call->timer, due);
}

/* ---- the start of a call ---- */

void call_assign(struct http_call *call)
{
    struct http_client *client = call->client;
    uint64_t now = loop_now_ns(client->loop);
    struct http_connection *connection;
    /* This is a loop, since an idle connection may turn out to be closed when the request is
     * written. Each round takes a connection out of the pool, so the loop ends. */
    while (!call->is_fresh_wanted && (connection = connection_take_idle(call)))
        if (connection_send(connection, call))
            return;
    /* Dials are counted, too, since each becomes a connection. An idle connection of any origin is
     * closed to make room for this call. */
    if (client->connection_count + client->dial_count >= client->config.connections_max &&
        !connection_make_room(client)) {
        call_fail(call, HTTP_CALL_OVERLOADED, ERR_BUSY, "all %zu outbound connections are in use",
                  client->config.connections_max);
        return;
    }
    /* From here on the call waits for the dial, whose end provides a connection or fails the
     * call. */
    call->is_reused = false;
    call_set_phase(call, CALL_DIALING, now + call->connect_ms * 1000000ull);
    call->dial = dial_start(call);
    if (!call->dial)
        call_fail(call, HTTP_CALL_OVERLOADED, ERR_NOMEM, "out of memory for a connection");
}

/* Clears everything from an earlier use of the struct except "in": a caller repeats a call by
 * starting the same struct again. */
static void call_reset(struct http_client *client, struct http_call *call, struct op *owner)
{
    call->result = HTTP_CALL_OK;
    call->err.code = OK;
    call->err.text[0] = '\0';
    call->status = 0;
    call->response_headers = NULL;
    call->response_header_count = 0;
    call->body = SLICE_NONE;
    call->is_any_byte_sent = call->is_reused = call->is_resumed = call->is_resent = false;
    call->remote[0] = '\0';
    call->waiting_ns = call->dns_ns = call->connect_ns = call->tls_ns = 0;
    call->first_byte_ns = call->total_ns = 0;
    call->client = client;
    call->owner = owner;
    call->origin = NULL;
    call->queue = NULL;
    call->connection = NULL;
    call->dial = NULL;
    call->is_fresh_wanted = false;
    call->started_ns = loop_now_ns(client->loop);
    DEFAULT_TO(call->connect_ms, client->config.connect_ms);
    DEFAULT_TO(call->first_byte_ms, client->config.first_byte_ms);
    DEFAULT_TO(call->between_bytes_ms, client->config.between_bytes_ms);
    DEFAULT_TO(call->response_bytes_max, client->config.response_bytes_max);
}

static bool may_speak_plain(const struct http_client *client, const struct url *url,
                            bool is_override)
{
    /* An override is set by the operator, so plain HTTP is allowed, too (a test server on this
     * machine). */
    return is_override ||
           address_policy_is_host_allowed(client->config.policy, url->host, url->port);
}

int http_call_start(struct http_client *client, struct http_call *call, struct op *owner)
{
    ASSERT(!client->is_freed && !http_call_is_active(call));
    call_reset(client, call, owner);
    struct url url;
    int code = url_parse(call->url, &url, &call->err);
    if (code != OK)
        return code;
    const struct http_override *override = override_find(client, &url);
    call->authority = url.authority;
    call->target = url.target;
    call->target_prefix = override ? override->prefix : SLICE_NONE;
    code = request_check(call);
    if (code != OK)
        return code;
    const struct url *to = override ? &override->target : &url;
    struct http_origin *origin = origin_get(client, to, override != NULL, call->tenant);
    /* From here on an error ends the call later, through call_finish: the caller gets OK and
     * waits for the end. */
    list_init(&call->all_link);
    list_init(&call->wait_link);
    list_push_back(&client->calls, &call->all_link);
    client->call_count++;
    timer_init(&call->timer, client->loop, on_call_due);
    loop_task_init(&call->ended, on_call_ended);
    call->state = CALL_DIALING;
    op_hold(owner, "http call");
    if (origin)
        /* The origin is pinned: call_fail below may free the last queue of an origin that this
         * function still uses. */
        origin->pins++;
    if (!origin)
        call_fail(call, HTTP_CALL_OVERLOADED, ERR_BUSY,
                  "no more origins can be stored, or the server is out of memory");
    else if (to->is_https && !client->tls)
        call_fail(call, HTTP_CALL_TLS, ERR_INVALID, "this client has no TLS");
    else if (!to->is_https && !may_speak_plain(client, to, override != NULL))
        call_fail(
            call, HTTP_CALL_ADDRESS_REFUSED, ERR_REFUSED,
            "plain http to %.*s is not allowed: use https, or ask an operator to allow the host",
            SLICE_ARG(call->authority));
    else if (slot_ask(call, origin))
        call_assign(call);
    if (origin) {
        origin->pins--;
        slot_serve(origin);
    }
    return OK;
}

void http_call_cancel(struct http_call *call)
{
    if (call->state != CALL_IDLE && call->state != CALL_ENDING)
        call_fail(call, HTTP_CALL_CANCELLED, ERR_CLOSED, "the call was cancelled");
}

bool http_call_is_active(const struct http_call *call)
{
    return call->state != CALL_IDLE;
}

slice http_call_header(const struct http_call *call, slice name)
{
    return http_header_get(call->response_headers, call->response_header_count, name);
}
