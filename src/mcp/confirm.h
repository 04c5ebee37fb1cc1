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
#include "mcp/state.h"

/* Whether a person has to be asked before this runs. */
bool mcp_confirm_is_wanted(struct api_request *request, const struct mcp_message *message,
                           const struct exec_request *wanted);
/* The hint for a write that is refused, since there is no one to ask about it: which flows with an
 * approval have the tool. SLICE_NONE: it may run. */
slice mcp_confirm_refusal(struct api_request *request, const struct mcp_message *message,
                          slice tool_name);
/* Runs the dry run and asks. Pointers of wanted live until the request's end. */
enum op_result mcp_confirm_ask(struct api_request *request, const struct exec_request *wanted);
/* For a request with a state: OP_NEXT: agreed, and wanted is confirmed, or there was nothing to
 * agree to; else answered. wanted includes the input from the state. */
enum op_result mcp_confirm_take(struct api_request *request, struct mcp_message *message,
                                struct exec_request *wanted);

/* These are for start.c, too. A line for each member of the input, complete; the buffer fails if
 * the form has no room for one. */
void mcp_confirm_put_input(struct buf *form, const struct json *input);
/* Asks. text: of the form; SLICE_NONE: more than a form can show. state: the call and its
 * connection, the rest is filled in. */
enum op_result mcp_confirm_send(struct api_request *request, struct mcp_state *state, slice text);
enum op_result mcp_confirm_refuse_large(struct api_request *request);
enum op_result mcp_confirm_refuse_state(struct api_request *request, const char *why);
/* "accept" with the box ticked is a yes. A question without an answer is asked again. With one,
 * *key (SLICE_NONE: no memory) and *guards_until are those of the call. */
enum mcp_answer { MCP_ANSWER_NONE, MCP_ANSWER_YES, MCP_ANSWER_NO };
enum mcp_answer mcp_confirm_answer(struct api_request *request, const struct mcp_state *state,
                                   slice *key, int64_t *guards_until);
/* A "no": spends the key, so that no run begins with it while the state is valid. Answers. */
enum op_result mcp_confirm_take_no(struct api_request *request, const struct exec_request *wanted);

/* The action to run. NULL: unknown, which the execution will report. */
const struct catalog_action *mcp_wanted_action(struct api_request *request,
                                               const struct exec_request *wanted);

#endif
