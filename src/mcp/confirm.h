/*
 * The person at the client confirms a write, if the client can show a form (a multi round-trip
 * request of 2026-07-28):
 *
 *   tools/call                               -> input_required, a form and a requestState
 *   tools/call with the state and the answer -> the result
 *
 * The call first runs as a dry run: it shows what would be sent through which connection, and a
 * call that would be blocked is not asked about. Private to the mcp room.
 */
#ifndef MCP_CONFIRM_H
#define MCP_CONFIRM_H

#include "mcp/method.h"

/* Whether a person has to be asked before this runs. */
bool mcp_confirm_is_wanted(struct api_request *request, const struct mcp_message *message,
                           const struct exec_request *wanted);
/* Runs the dry run and asks. Pointers of wanted live until the request's end. */
enum op_result mcp_confirm_ask(struct api_request *request, const struct exec_request *wanted);
/* For a request with a state: OP_NEXT: agreed, and wanted is confirmed, or there was nothing to
 * agree to; else answered. wanted includes the input from the state. */
enum op_result mcp_confirm_take(struct api_request *request, struct mcp_message *message,
                                struct exec_request *wanted);
/* The action to run. NULL: unknown, which the execution will report. */
const struct catalog_action *mcp_wanted_action(struct api_request *request,
                                               const struct exec_request *wanted);

#endif
