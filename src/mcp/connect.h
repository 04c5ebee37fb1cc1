/*
 * A call that is blocked for want of a connection, where the client can open a URL (revision
 * 2026-07-28, elicitation of mode "url"): a connect link is made, and the client is asked to show
 * it and to repeat the call with the answer. Private to the mcp room.
 */
#ifndef MCP_CONNECT_H
#define MCP_CONNECT_H

#include "mcp/method.h"

/* Before it runs: what a person gave for its input comes back with the call, in a state. Without
 * that there is none. false: no memory. */
bool mcp_connect_keep(struct api_request *request, struct mcp_message *message,
                      const struct exec_request *wanted) MUST_CHECK;
/* Of the execution that has ended (request->state). Once a call: a client that answered is not
 * asked again. */
bool mcp_connect_is_wanted(const struct api_request *request, const struct mcp_message *message);
/* Makes the link and asks. Where none can be made, the execution's own result is answered. */
enum op_result mcp_connect_ask(struct api_request *request, struct mcp_message *message);

#endif
