/*
 * A call that is blocked because there is no connection, if the client can open a URL (revision
 * 2026-07-28, elicitation of mode "url"): a connect link is made, and the client is asked to show
 * it and to repeat the call with the answer. Private to the mcp room.
 */
#ifndef MCP_CONNECT_H
#define MCP_CONNECT_H

#include "mcp/method.h"

/* Before it runs: the input that a person gave comes back with the repeated call, in a state.
 * Without such input there is no state. false: no memory. */
bool mcp_connect_keep(struct api_request *request, struct mcp_message *message,
                      const struct exec_request *wanted) MUST_CHECK;
/* For the ended execution (request->state). Once for each call: a client that answered is not asked
 * again. */
bool mcp_connect_is_wanted(const struct api_request *request, const struct mcp_message *message);
/* Makes the link and asks. If none can be made, answers with the execution's own result. */
enum op_result mcp_connect_ask(struct api_request *request, struct mcp_message *message);

#endif
