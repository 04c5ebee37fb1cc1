/*
 * The methods, each in the file of its noun. Private to the mcp room. `begin` answers, or passes
 * the request to an endpoint of the API; an envelope then converts the endpoint's reply to the
 * method's result.
 */
#ifndef MCP_METHOD_H
#define MCP_METHOD_H

#include "mcp/message.h"

enum {
    MCP_OUTPUT_BYTES =
        32 * 1024, /* limit of an app's output in a result, unless the caller sets a limit */
    MCP_OUTPUT_BYTES_MAX =
        256 * 1024, /* the highest limit that a caller may set: a result is built in one turn */
    MCP_LIST_TTL_MS = 300000,
    MCP_TOOLS_ITEMS_MAX = 64, /* items of ?tools= */
};

enum op_result mcp_tools_list(struct api_request *request, const struct mcp_message *message);
enum op_result mcp_tools_call(struct api_request *request, const struct mcp_message *message);
enum op_result mcp_resources_list(struct api_request *request, const struct mcp_message *message);
enum op_result mcp_resources_templates(struct api_request *request,
                                       const struct mcp_message *message);
enum op_result mcp_resources_read(struct api_request *request, const struct mcp_message *message);
enum op_result mcp_tasks_get(struct api_request *request, const struct mcp_message *message);
enum op_result mcp_tasks_update(struct api_request *request, const struct mcp_message *message);
enum op_result mcp_tasks_cancel(struct api_request *request, const struct mcp_message *message);

/* ---- action_tools.c: the tools of the catalog, by their own names ---- */

/* Writes the first `room` tools of ?tools= as items of an open array. */
void mcp_action_tools_put(struct api_request *request, struct json_writer *w, size_t room);
/* Whether the name matches the pattern, whose first `*` stands for any characters. */
bool mcp_name_is_like(slice name, slice pattern);
/* Whether the list has no more items than allowed, each with at most one `*`. */
bool mcp_action_tools_are_few(slice list);
/* Runs the tool that the message names. */
enum op_result mcp_action_tool_call(struct api_request *request, const struct mcp_message *message,
                                    const struct json *arguments);
/* The envelope of a tool's result (tools.c). */
extern const struct api_envelope mcp_tool_result;
/* Returns what the tool (a constant text, one of sluice's own) takes as this argument: the type of
 * its schema, or "objects" for an array of objects. NULL: the tool has no such argument. */
const char *mcp_argument_type(const char *tool, slice name);
/* Answers a call of a tool, before an endpoint has it, with the result that says this fault. */
enum op_result mcp_refuse_call(struct api_request *request, slice fault);
/* Writes the members of such a result from an endpoint's reply. Temporary data is in `arena`. */
void mcp_tool_result_put(struct json_writer *w, struct api_request *request, struct arena *arena,
                         slice json_text, bool is_error);
/* Starts an execution whose outcome is the tool's result (run.c), or first asks for missing input
 * or a confirmation. */
enum op_result mcp_run(struct api_request *request, struct exec_request *wanted);
/* Starts it without asking. */
enum op_result mcp_run_start(struct api_request *request, const struct exec_request *wanted);
/* Ends such an execution: answers with its outcome. */
api_step mcp_run_reply;
/* Returns the idempotency key in _meta, for clients that may not add an argument to the model's, or
 * SLICE_NONE if there is none. */
slice mcp_meta_key(const struct mcp_message *message);
/* Returns a sentence if the call's own key differs from the key in _meta, otherwise SLICE_NONE. */
slice mcp_meta_key_fault(const struct mcp_message *message, slice key);
/* Sets the defaults of a tool's execution, such as the limit that makes its output fit into a
 * result. */
void mcp_run_prepare(struct api_request *request, const struct mcp_message *message,
                     struct exec_request *wanted);

/* Reads the argument `view`: *wants_view is false if it is "full". Returns the fault if it is
 * another value. */
slice mcp_view_read(const struct json *arguments, bool *wants_view) MUST_CHECK;
extern const struct api_endpoint mcp_run_action, mcp_run_actions;

/* ---- run.c: parts that run_action and run_actions share ---- */

/* Reads the arguments of one action. Returns the fault; SLICE_NONE: wanted has the arguments, and
 * *label the label that names the connection (SLICE_NONE: none does). */
slice mcp_run_read(struct api_request *request, const struct json *arguments,
                   struct exec_request *wanted, slice *label) MUST_CHECK;
/* The search for a connection by its label: among the asker's own, and among those that the account
 * shares with its users. */
struct mcp_label_search {
    struct pg_query own, shared;
};
/* Sends the queries for the connection with that label. Returns the fault: the app has none. */
slice mcp_label_find(struct api_request *request, struct mcp_label_search *search,
                     const struct exec_request *wanted, slice label) MUST_CHECK;
/* Sets the connection from the queries' results. If it is not exactly one, *refusal is JSON text of
 * an object, else SLICE_NONE. Returns a status of the database. */
int mcp_label_take(struct api_request *request, const struct mcp_label_search *search,
                   struct exec_request *wanted, slice label, slice *refusal) MUST_CHECK;
/* Whether what the ids of this call mean is to be read before it is refused for lack of `confirm`.
 * action: NULL if it is unknown. */
bool mcp_run_will_be_asked(const struct api_request *request, const struct catalog_action *action,
                           const struct exec_request *wanted);
/* A dry run that reads that, without record. */
struct exec_request mcp_run_dry(const struct exec_request *wanted);
/* The members that a result begins with, each followed by a comma: whether it is the result of an
 * earlier call, the connection that is used if the app has several, and what the ids of a blocked
 * write mean (from mcp_run_shows; SLICE_NONE: not asked). */
slice mcp_run_members(const struct exec_outcome *outcome, slice shows, struct arena *arena);
/* Returns the members `shows` and `unread` of a dry run that has ended, each followed by a comma.
 */
slice mcp_run_shows(struct exec *exec, struct arena *arena);

#ifdef SLUICE_TEST_BUILD
/* Answers from the conformance suite's table (tests/e2e/mcp_conformance/fixture.c). Returns false
 * if the table has no such call. */
bool mcp_fixture_answer(struct api_request *request, const struct mcp_message *message,
                        enum op_result *result);
/* Writes the capabilities that the table adds. */
void mcp_fixture_put_abilities(struct json_writer *w);
#endif

#endif
