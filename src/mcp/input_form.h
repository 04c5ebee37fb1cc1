/*
 * Missing input of a call, if the client can show a form (revision 2026-07-28, elicitation): the
 * person at the client is asked for the members that the action's schema requires, and the client
 * repeats the call with the answer. The answers are added to the input; if the call is then
 * confirmed, or an app connected, they come back in the sealed state. Private to the mcp room.
 *
 * Only text, numbers, yes or no, and choices can be asked for, and no secrets; 16 members at most.
 * If a missing member is of any other kind, the execution reports what is wrong.
 */
#ifndef MCP_INPUT_FORM_H
#define MCP_INPUT_FORM_H

#include "mcp/state.h"

/* Handles a call without a state. Returns OP_NEXT if no member is missing, if a form is not
 * possible, or if wanted now has the answers. Otherwise the request has been answered. */
enum op_result mcp_input_form_take(struct api_request *request, struct mcp_message *message,
                                   const struct catalog_action *action,
                                   struct exec_request *wanted);
/* The answers as JSON text; empty: there are none. */
slice mcp_input_form_answers(struct api_request *request, const struct mcp_message *message);
/* Adds the contents of a state to wanted. Returns false if out of memory. */
bool mcp_input_form_restore(struct api_request *request, struct mcp_message *message, slice filled,
                            struct exec_request *wanted) MUST_CHECK;

#endif
