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
/* Whether a call of the action may need the confirmation of the person at the client. One that is
 * held for every input waits for an approval instead. */
bool mcp_confirm_may_be_asked(const struct api_request *request,
                              const struct catalog_action *action);
/* Limits a write of a client that cannot ask a person, as its key or the setting wants: sets its
 * refusal_hint or holds_writes. The hint names the flow templates that use the tool in a step with
 * an approval. */
void mcp_confirm_limit(struct api_request *request, const struct mcp_message *message,
                       const struct catalog_action *action, struct exec_request *wanted);
/* The same for the start of a flow that confirms this tool, which cannot wait for an approval:
 * returns the hint of its refusal; SLICE_NONE: it may start. */
slice mcp_confirm_refusal(struct api_request *request, const struct mcp_message *message,
                          slice tool_name);
/* Starts the dry run, then asks. Pointers in wanted must live until the request ends. */
enum op_result mcp_confirm_ask(struct api_request *request, const struct exec_request *wanted);
/* Handles a request with a state. Returns OP_NEXT if the person agreed and wanted is confirmed, or
 * if the state has no confirmation. Otherwise the request has been answered. wanted receives the
 * input from the state. */
enum op_result mcp_confirm_take(struct api_request *request, struct mcp_message *message,
                                struct exec_request *wanted);

/* Also used by start.c. Writes a line for each member of the input, in full; the buffer fails if
 * a member does not fit into the form. */
void mcp_confirm_put_input(struct buf *form, const struct json *input);
/* Sends the question. text: the text of the form, or SLICE_NONE if it does not fit into one. state:
 * has the call and its connection; the other members are filled in here. */
enum op_result mcp_confirm_send(struct api_request *request, struct mcp_state *state, slice text);
enum op_result mcp_confirm_refuse_large(struct api_request *request);
enum op_result mcp_confirm_refuse_state(struct api_request *request, const char *why);
/* "accept" with the box ticked is a yes. If the person gave no answer, the question is asked again.
 * With an answer, *key (SLICE_NONE: out of memory) and *guards_until are set for the call. */
enum mcp_answer { MCP_ANSWER_NONE, MCP_ANSWER_YES, MCP_ANSWER_NO };
enum mcp_answer mcp_confirm_answer(struct api_request *request, const struct mcp_state *state,
                                   slice *key, int64_t *guards_until);
/* After a "no": spends the key, so that no run begins with it while the state is valid, and
 * answers the request. */
enum op_result mcp_confirm_take_no(struct api_request *request, const struct exec_request *wanted);

/* Answers after a "no". is_late: a call has run, or is running. */
enum op_result mcp_confirm_reply_no(struct api_request *request, bool is_late);
/* Returns the text of a form about a call whose dry run has ended: the action, its integration and
 * connection, and every field in full. Returns SLICE_NONE if it is too long for a form. */
slice mcp_confirm_call(struct exec *exec, slice title, const struct json *input,
                       struct arena *arena);
/* Returns the lines of the form that say what the ids of that call (wanted) mean, as the app has
 * it, or that they could not be read; empty if there are none, SLICE_NONE if they are too long. A
 * line of the input cannot look like their heading. */
slice mcp_confirm_shows(struct api_request *request, struct exec *exec,
                        const struct exec_request *wanted);

/* Returns the action to run, or NULL if it is unknown, which the execution reports. */
const struct catalog_action *mcp_wanted_action(struct api_request *request,
                                               const struct exec_request *wanted);

#endif
