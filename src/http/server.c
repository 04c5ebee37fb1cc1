/*
 * server: configuration, listeners, the end-of-turn hook, drain, free.
 *
 * The order of a drain: accept the backlog, stop listening, wait for the grace time, close idle
 * connections some at a time, and cut the rest after drain_timeout_ms. Until that cut every request
 * gets an answer.
 */
#include "http/server.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "http/server_internal.h"

enum { DRAIN_A_TURN_MAX = 500 };

static struct metric connections_metric =
    METRIC_INIT("sluice_http_connections", "Client connections that are open.", METRIC_GAUGE);

/* ---- configuration ---- */

static void config_defaults(struct http_server_config *config)
{
    DEFAULT_TO(config->head.head_bytes_max, 16 * 1024);
    DEFAULT_TO(config->head.url_bytes_max, 8 * 1024);
    DEFAULT_TO(config->head.headers_max, 100);
    DEFAULT_TO(config->body_bytes_max, 8 << 20);
    DEFAULT_TO(config->connections_max, 10000);
    DEFAULT_TO(config->requests_per_turn_max, 32);
    DEFAULT_TO(config->arena_bytes_max, 32 << 20);
    DEFAULT_TO(config->write_bytes_max, 64 << 20);
    DEFAULT_TO(config->head_timeout_ms, 10 * 1000);
    DEFAULT_TO(config->body_timeout_ms, 60 * 1000);
    DEFAULT_TO(config->idle_timeout_ms, 75 * 1000);
    DEFAULT_TO(config->request_timeout_ms, 120 * 1000);
    DEFAULT_TO(config->reply_timeout_ms, 30 * 1000);
    DEFAULT_TO(config->linger_timeout_ms, 2 * 1000);
    DEFAULT_TO(config->drain_timeout_ms, 30 * 1000);
    DEFAULT_TO(config->rate_grace_ms, 10 * 1000);
    DEFAULT_TO(config->rate_bytes_s_min, 256);
    config->listeners = NULL; /* borrowed for http_server_new only */
}

/* headers_max is limited by the size of an array on the stack (exchange.c); head_bytes_max must
 * leave room for a pipeline in the input buffer. */
static int config_check(const struct http_server_config *config, struct err *err)
{
    if (config->head.headers_max > HTTP_HEADERS_LIMIT)
        return err_set(err, ERR_INVALID, "headers_max is %u; the maximum is %d",
                       config->head.headers_max, HTTP_HEADERS_LIMIT);
    if (config->head.head_bytes_max > CONN_INPUT_BYTES_MAX / 2)
        return err_set(err, ERR_INVALID, "head_bytes_max is %u; the maximum is %d",
                       config->head.head_bytes_max, CONN_INPUT_BYTES_MAX / 2);
    if (config->write_bytes_max >= MEM_BLOCK_BYTES_MAX / 2)
        return err_set(err, ERR_INVALID, "write_bytes_max is too large");
    if (!http_is_field_value(config->server_name))
        return err_set(err, ERR_INVALID, "the Server header's value is malformed");
    return OK;
}

/* ---- the end of a turn ---- */

static void on_turn_end(struct loop_hook *hook)
{
    struct http_server *server = CONTAINER_OF(hook, struct http_server, hook);
    /* Connections may queue themselves again during the loop: the list is emptied, not walked. */
    LIST_DRAIN(&server->flush, struct http_conn, conn, flush_link)
        http_conn_end_turn(conn);
}

slice http_server_date(struct http_server *server)
{
    /* The date is formatted once a second, since every reply has it (RFC 9110 6.6.1). */
    int64_t now_us = clock_wall_us();
    if (now_us / 1000000 != server->date_second || !server->date[0]) {
        server->date_second = now_us / 1000000;
        time_format_http(now_us, server->date);
    }
    return slice_of(server->date, DATE_TEXT_LEN);
}

/* ---- connections begin and end ---- */

/* The metric covers all servers of this process, since there may be one for the metrics alone. */
static void report_connections(struct http_server *server)
{
    struct metric_series *series = metric_series(&connections_metric, SLICE_NONE);
    /* The difference from the last report, as the metric is a sum over servers. */
    metric_set(series, metric_get(series) + (double)server->conn_count -
                           (double)server->conn_count_reported);
    server->conn_count_reported = server->conn_count;
}

static void on_accept(struct stream *stream, void *owner)
{
    struct http_server *server = owner;
    server->accepted++;
    http_conn_accept(server, stream);
    report_connections(server);
}

static void server_free(struct loop_garbage *garbage)
{
    struct http_server *server = CONTAINER_OF(garbage, struct http_server, garbage);
    ASSERT(list_is_empty(&server->conns) && list_is_empty(&server->flush));
    loop_hook_remove(&server->hook);
    keyed_deinit(&server->addresses);
    mem_free(server->listeners);
    mem_free(server->server_name);
    mem_free(server);
}

void http_server_release(struct http_server *server)
{
    /* Exchanges hold a reference to the server: a handler may answer long after its connection
     * and the server were freed. */
    if (!server->is_freed || server->conn_count || server->exchange_count || server->garbage.free)
        return;
    server->garbage.free = server_free;
    loop_garbage_add(server->loop, &server->garbage);
}

/* Closes a bounded number of connections per turn, since each costs a system call. */
static void see_off_some(struct http_server *server)
{
    for (size_t i = 0; i < DRAIN_A_TURN_MAX && server->drain_left; i++) {
        struct list *link = list_pop_front(&server->conns);
        if (!link)
            return;
        /* The connection is moved to the back, so that the list is walked once, whatever opens or
         * closes between two turns. */
        list_push_back(&server->conns, link);
        server->drain_left--;
        http_conn_close_idle(LIST_ITEM(link, struct http_conn, link));
    }
    if (server->drain_left)
        loop_task_queue_next_turn(server->loop, &server->drain_task);
}

static void run_drained(struct loop_task *task)
{
    struct http_server *server = CONTAINER_OF(task, struct http_server, drain_task);
    if (server->conn_count) { /* the turn after the drain began: data in the sockets has been
                               * read */
        see_off_some(server);
        return;
    }
    if (server->is_drained_reported)
        return;
    server->is_drained_reported = true;
    timer_stop(&server->drain_timer);
    timer_stop(&server->grace_timer);
    if (server->on_drained)
        server->on_drained(server->drained_ctx);
}

void http_server_conn_gone(struct http_server *server)
{
    ASSERT(server->conn_count > 0);
    server->conn_count--;
    report_connections(server);
    if (server->is_draining && !server->is_freed && server->conn_count == 0)
        loop_task_queue(server->loop, &server->drain_task);
    http_server_release(server);
}

/* ---- creation ---- */

static bool server_listen(struct http_server *server, const struct tcp_listen_config *listeners,
                          size_t count, struct err *err)
{
    /* On failure the array is filled in part: http_server_free closes the listener_count listeners
     * that are open. */
    server->listeners = mem_calloc(count, sizeof(server->listeners[0]));
    if (!server->listeners) {
        err_set(err, ERR_NOMEM, "no memory for the listeners");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        server->listeners[i] = tcp_listen(server->loop, &listeners[i], on_accept, server, err);
        if (!server->listeners[i])
            return false;
        server->listener_count++;
    }
    return true;
}

static void on_drain_due(struct timer *timer);
static void on_grace_over(struct timer *timer);

static bool server_init(struct http_server *server, const struct http_server_config *config,
                        struct err *err)
{
    server->config = *config;
    config_defaults(&server->config);
    http_conn_addresses_init(server);
    list_init(&server->conns);
    list_init(&server->flush);
    timer_init(&server->drain_timer, server->loop, on_drain_due);
    timer_init(&server->grace_timer, server->loop, on_grace_over);
    loop_task_init(&server->drain_task, run_drained);
    /* Everything that http_server_free undoes is set up before the first step that can fail. */
    server->hook.run = on_turn_end;
    loop_hook_add(server->loop, &server->hook, LOOP_PHASE_REPLY);
    if (config_check(&server->config, err) != OK)
        return false;
    if (config->server_name.len) {
        server->server_name = mem_strndup(config->server_name.ptr, config->server_name.len);
        server->config.server_name = slice_cstr(server->server_name);
        if (!server->server_name) {
            err_set(err, ERR_NOMEM, "no memory for the server");
            return false;
        }
    }
    return server_listen(server, config->listeners, config->listener_count, err);
}

struct http_server *http_server_new(struct loop *loop, const struct http_server_config *config,
                                    const struct http_handler *handler, void *ctx, struct err *err)
{
    ASSERT(handler->on_request && config->listener_count > 0);
    struct http_server *server = mem_zalloc(sizeof(*server));
    if (!server)
        return err_null(err, ERR_NOMEM, "no memory for the server");
    server->loop = loop;
    server->handler = *handler;
    server->ctx = ctx;
    if (server_init(server, config, err))
        return server;
    http_server_free(server);
    return NULL;
}

uint16_t http_server_port(const struct http_server *server, size_t index)
{
    ASSERT(index < server->listener_count);
    return tcp_listener_port(server->listeners[index]);
}

bool http_server_is_draining(const struct http_server *server)
{
    return server->is_draining;
}

/* ---- ending ---- */

static void stop_listening(struct http_server *server)
{
    for (size_t i = 0; i < server->listener_count; i++)
        tcp_listener_free(server->listeners[i]);
    server->listener_count = 0;
}

static void cut_all(struct http_server *server)
{
    /* Cutting only marks the connection; on_closed unlinks it later, from the loop. */
    LIST_EACH(&server->conns, struct http_conn, conn, link)
        http_conn_cut(conn);
}

static void on_drain_due(struct timer *timer)
{
    cut_all(CONTAINER_OF(timer, struct http_server, drain_timer));
}

static void see_off(struct http_server *server)
{
    server->drain_left = server->conn_count;
    loop_task_queue_next_turn(server->loop, &server->drain_task);
}

static void on_grace_over(struct timer *timer)
{
    see_off(CONTAINER_OF(timer, struct http_server, grace_timer));
}

void http_server_drain(struct http_server *server, void (*on_drained)(void *ctx), void *ctx)
{
    ASSERT(!server->is_freed);
    if (server->is_draining)
        return;
    server->on_drained = on_drained;
    server->drained_ctx = ctx;
    for (size_t i = 0; i < server->listener_count; i++)
        tcp_listener_accept_all(server->listeners[i]); /* a close would reset waiting connections */
    server->is_draining = true;
    stop_listening(server);
    timer_start_in_ms(&server->drain_timer, server->config.drain_timeout_ms);
    /* During the grace time clients learn of the drain from Connection: close on their replies. */
    if (server->conn_count > 0 && server->config.drain_grace_ms > 0)
        timer_start_in_ms(&server->grace_timer, server->config.drain_grace_ms);
    else
        see_off(server);
}

void http_server_free(struct http_server *server)
{
    if (!server)
        return;
    ASSERT(!server->is_freed);
    /* This is set first, so that on_finished is no longer called (http_exchange_finish). */
    server->is_freed = true;
    stop_listening(server);
    timer_stop(&server->drain_timer);
    timer_stop(&server->grace_timer);
    loop_task_cancel(&server->drain_task);
    cut_all(server);
    http_server_release(server);
}
