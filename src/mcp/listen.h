/*
 * subscriptions/listen (2026-07-28): a stream of notifications, as server-sent events, for as long
 * as the client keeps it open, STREAM_MS_MAX at most. It contains the requested topics of this
 * list:
 *
 *   toolsListChanged       after a reload of the catalog, and a change of the account's connections
 *   resourceSubscriptions  sluice://flows/{id}: the flow has changed
 *   taskIds                a change of the flow, with the task; the first notification at once
 *
 * Flows are watched by the feed that long polls use (flow_watch): a client costs no query of its
 * own while nothing changes. At the end of its time, at a drain, and when its key is refused, the
 * stream ends with the answer to the request.
 */
#ifndef MCP_LISTEN_H
#define MCP_LISTEN_H

#include "mcp/method.h"

enum {
    MCP_TOPICS_MAX = 32,    /* flows of one stream */
    MCP_LISTENERS_MAX = 64, /* streams of an account, in this process */
};

enum op_result mcp_listen(struct api_request *request, const struct mcp_message *message);

#endif
