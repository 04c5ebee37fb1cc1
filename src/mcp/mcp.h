/*
 * mcp: the Model Context Protocol endpoint, POST /mcp (README.md of this folder), for agents that
 * use its tools. It serves both eras of the protocol, without sessions: requests with the members
 * of 2026-07-28 in their _meta, and requests of earlier revisions, in which a client begins with
 * initialize.
 *
 * It has no engine of its own. A tool is run by the endpoint of the API that does the same (api/
 * request.h: the same key, rate, memory, scopes and checks), whose reply becomes the tool's result.
 */
#ifndef MCP_MCP_H
#define MCP_MCP_H

#include "base/id.h"
#include "base/list.h"
#include "http/router.h"

/* For api_config. */
const struct http_route *mcp_routes(size_t *count);

/* The subscriptions that are open in this process (listen.h). */
struct mcp_listeners {
    struct list all;
};
void mcp_listeners_init(struct mcp_listeners *listeners);
/* Call it when the tools or the connections of an account (if it is NULL, of all accounts) may have
 * changed. */
void mcp_listeners_tools_changed(struct mcp_listeners *listeners, const struct uuid *account_id);
/* Call it after the server has begun to drain: open subscriptions end immediately. */
void mcp_listeners_wake(struct mcp_listeners *listeners);

#endif
