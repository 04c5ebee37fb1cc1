/*
 * The server's shutdown; see drain.h. Requests end first, since they start executions and flows.
 * Executions are recorded while the node is still a member, since its rows name it. The node leaves
 * last: after that, other nodes may take over its remaining flows and claims.
 */
#include "server/drain.h"

#include "base/log.h"

enum {
    RECORD_TIMEOUT_MS = 5000, /* time limit for results that are being stored */
    EVENTS_TIMEOUT_MS = 2000,
    SPANS_TIMEOUT_MS = 2000, /* time limit for sending the last spans, which are then dropped */
    POLL_MS = 20,
    ARENA_BYTES_MAX = 4096,
};

enum drain_step {
    DRAIN_REQUESTS,
    DRAIN_FLOWS,
    DRAIN_EVENTS,
    DRAIN_RECORDS,
    DRAIN_LEAVE,
    DRAIN_SPANS,
    DRAIN_STOP
};

OP_OF(drain_of, drain)

static void on_drained(void *ctx)
{
    struct drain *drain = ctx;
    op_release(&drain->op);
}

static enum op_result step_drain_requests(struct op *op)
{
    struct drain *drain = drain_of(op);
    const struct drain_config *config = &drain->config;
    janitor_free(*config->janitor);
    *config->janitor = NULL;
    event_service_drain(config->event);
    flow_service_drain(
        config->flow); /* while requests end, flows stop at their next durable point */
    drain->flows_until_ns = loop_now_ns(op->loop) + config->timeout_ms * 1000000;
    op_hold(op, "http drain");
    http_server_drain(config->http, on_drained, drain);
    flow_watch_wake_all(config->flow); /* long polls and event streams end immediately */
    connect_watch_wake_all(config->connect);
    mcp_listeners_wake(config->mcp_listeners);
    return OP_WAIT;
}

/* Calls of flows get the same time as requests of clients. */
static enum op_result step_wait_for_flows(struct op *op)
{
    struct drain *drain = drain_of(op);
    struct flow_service *flow = drain->config.flow;
    if (flow_service_active(flow) == 0)
        return OP_NEXT;
    if (loop_now_ns(op->loop) > drain->flows_until_ns) {
        log_event(LOG_ERROR, "stopping with flows in the middle of a step",
                  LOG_INT("count", flow_service_active(flow)));
        flow_service_cancel_all(flow);
        return OP_NEXT;
    }
    op_sleep(op, &drain->timer, POLL_MS, "flows to reach a durable point");
    return op_wait_then(op, DRAIN_FLOWS);
}

/* Messages to endpoints get a short time: what is not acknowledged is sent again by others. */
static enum op_result step_wait_for_events(struct op *op)
{
    struct drain *drain = drain_of(op);
    uint64_t now = loop_now_ns(op->loop);
    if (drain->events_until_ns == 0)
        drain->events_until_ns = now + EVENTS_TIMEOUT_MS * 1000000ULL;
    if (event_service_active(drain->config.event) == 0 || now > drain->events_until_ns)
        return OP_NEXT;
    op_sleep(op, &drain->timer, POLL_MS, "events to be delivered");
    return op_wait_then(op, DRAIN_EVENTS);
}

/* Waits for executions whose client has disconnected, which still record the provider's answer,
 * for background writes of ended executions, and for renewed tokens. Then it flushes the times
 * of last use and the counts for charts and usage. */
static enum op_result step_wait_for_records(struct op *op)
{
    struct drain *drain = drain_of(op);
    const struct drain_config *config = &drain->config;
    uint64_t now = loop_now_ns(op->loop);
    if (drain->records_until_ns == 0)
        drain->records_until_ns = now + RECORD_TIMEOUT_MS * 1000000ULL;
    if (exec_service_active(config->exec) == 0 && connect_renewals_active(config->connect) == 0) {
        connect_uses_flush(config->connect);
        bool is_counted = exec_service_write_counts(config->exec);
        if (!connect_uses_active(config->connect) && is_counted)
            return OP_NEXT;
    }
    if (now > drain->records_until_ns) {
        log_event(LOG_ERROR, "stopping with executions or tokens that could not be recorded",
                  LOG_INT("count", exec_service_active(config->exec)),
                  LOG_INT("renewals", connect_renewals_active(config->connect)));
        return OP_NEXT;
    }
    op_sleep(op, &drain->timer, POLL_MS, "executions to be recorded");
    return op_wait_then(op, DRAIN_RECORDS);
}

static enum op_result step_leave(struct op *op)
{
    node_leave(drain_of(op)->config.node, op);
    return OP_WAIT;
}

/* The spans are sent last, since the receiver may be slow: by now other nodes have taken over. */
static enum op_result step_wait_for_spans(struct op *op)
{
    struct drain *drain = drain_of(op);
    uint64_t now = loop_now_ns(op->loop);
    if (drain->spans_until_ns == 0)
        drain->spans_until_ns = now + SPANS_TIMEOUT_MS * 1000000ULL;
    trace_drain(drain->config.tracer);
    if (trace_is_drained(drain->config.tracer) || now > drain->spans_until_ns)
        return OP_NEXT;
    op_sleep(op, &drain->timer, POLL_MS, "spans to be exported");
    return op_wait_then(op, DRAIN_SPANS);
}

static enum op_result step_stop_loop(struct op *op)
{
    loop_stop(op->loop);
    return OP_DONE;
}

static const struct op_step drain_steps[] = {
    [DRAIN_REQUESTS] = {"drain_requests", step_drain_requests, 0},
    [DRAIN_FLOWS] = {"wait_for_flows", step_wait_for_flows, OP_TO(DRAIN_FLOWS)},
    [DRAIN_EVENTS] = {"wait_for_events", step_wait_for_events, OP_TO(DRAIN_EVENTS)},
    [DRAIN_RECORDS] = {"wait_for_records", step_wait_for_records, OP_TO(DRAIN_RECORDS)},
    [DRAIN_LEAVE] = {"leave", step_leave, 0},
    [DRAIN_SPANS] = {"wait_for_spans", step_wait_for_spans, OP_TO(DRAIN_SPANS)},
    [DRAIN_STOP] = {"stop_loop", step_stop_loop, 0},
};
static const struct op_class drain_class = {
    .name = "drain", .steps = drain_steps, .step_count = ARRAY_LEN(drain_steps)};

void drain_begin(struct drain *drain, const struct drain_config *config, const char *why)
{
    if (drain->is_begun)
        return;
    drain->is_begun = true;
    drain->config = *config;
    log_event(LOG_INFO, "draining", LOG_CSTR("because", why));
    op_start(&drain->op, &drain_class, config->loop, NULL, ARENA_BYTES_MAX);
}
