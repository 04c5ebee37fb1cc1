/*
 * drain: the server's shutdown, as an op. No new work is accepted. Requests, flows and executions
 * under way end or reach a durable point, each within its time limit, and their results are
 * recorded. Then the node leaves the cluster and the loop stops. The server frees its parts
 * afterwards.
 */
#ifndef SERVER_DRAIN_H
#define SERVER_DRAIN_H

#include "connect/connect.h"
#include "event/event.h"
#include "exec/exec.h"
#include "node/node.h"
#include "flow/flow.h"
#include "http/server.h"
#include "loop/op.h"
#include "mcp/mcp.h"
#include "server/janitor.h"
#include "trace/trace.h"

/* The parts that are drained, and the time limits of requests and flows. All must outlive the
 * loop's run. */
struct drain_config {
    struct loop *loop;
    struct http_server *http;
    struct flow_service *flow;
    struct mcp_listeners *mcp_listeners;
    struct exec_service *exec;
    struct connect_service *connect;
    struct node *node;
    struct event_service *event;
    struct tracer *tracer;    /* NULL: none */
    struct janitor **janitor; /* freed first and set to NULL */
    uint64_t timeout_ms;
};

/* Embedded in its owner, zeroed before it begins, and kept until the loop has stopped. */
struct drain {
    struct op op;
    struct op_timer timer;
    struct drain_config config;
    uint64_t records_until_ns, flows_until_ns, events_until_ns, spans_until_ns;
    bool is_begun;
};

/* Begins the shutdown; `why` is for the log. A second call has no effect. Copies config. */
void drain_begin(struct drain *drain, const struct drain_config *config, const char *why);

#endif
