/*
 * Calls that are blocked because a connection is missing. If the client can open a URL (revision
 * 2026-07-28, elicitation of mode "url"), a connect link is made. The client shows it and repeats
 * the call with the answer. Private to the mcp room.
 */
#ifndef MCP_CONNECT_H
#define MCP_CONNECT_H

#include "mcp/method.h"

/* Call it before the run: it puts the input that a person gave into a state, which comes back with
 * the repeated call. Without such input there is no state. Returns false if out of memory. */
bool mcp_connect_keep(struct api_request *request, struct mcp_message *message,
                      const struct exec_request *wanted) MUST_CHECK;
/* Whether to ask, for the ended execution (request->state). Each call asks once: a client that
 * answered is not asked again. */
bool mcp_connect_is_wanted(const struct api_request *request, const struct mcp_message *message);
/* Makes the link and asks. If no link can be made, answers with the execution's own result. */
enum op_result mcp_connect_ask(struct api_request *request, struct mcp_message *message);

#endif
