/*
 * drain: the way down, as an op. Nothing new is taken; requests, flows and executions under way
 * come to their ends or to a durable point, each within its time; what they found is recorded; the
 * node leaves; the loop stops. What is left then is freed by the server.
 */
#ifndef CMD_DRAIN_H
#define CMD_DRAIN_H

#include "cmd/janitor.h"
#include "connect/connect.h"
#include "exec/exec.h"
#include "exec/node.h"
#include "flow/flow.h"
#include "http/server.h"
#include "loop/op.h"

/* The parts that come down, and how long requests and flows have. All outlive the loop's run. */
struct drain_config {
    struct loop *loop;
    struct http_server *http;
    struct flow_service *flow;
    struct exec_service *exec;
    struct connect_service *connect;
    struct exec_node *node;
    struct janitor **janitor; /* freed first, and NULL then */
    uint64_t timeout_ms;
};

/* Embedded in its owner, all zeros before it begins, and kept until the loop has stopped. */
struct drain {
    struct op op;
    struct op_timer timer;
    struct drain_config config;
    uint64_t records_until_ns, flows_until_ns;
    bool is_begun;
};

/* Begins it, for a reason that the log names; a second time does nothing. Copies config. */
void drain_begin(struct drain *drain, const struct drain_config *config, const char *why);

#endif
