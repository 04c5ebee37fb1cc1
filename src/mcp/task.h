/*
 * Flows as tasks (the extension io.modelcontextprotocol/tasks of 2026-07-28): a task is a flow, by
 * the flow's id, so that nothing more is stored. Private to the mcp room.
 *
 *   a flow that runs, or waits for a time  -> working
 *   one that waits for an approval         -> input_required, with a form
 *   one that has completed, or has failed  -> completed, with the result of a tool
 *   one that was cancelled or rejected     -> cancelled
 *
 * Where the client has no forms, or its key may not approve, a flow that waits for an approval is
 * working, and its message says what it waits for.
 */
#ifndef MCP_TASK_H
#define MCP_TASK_H

#include "mcp/method.h"

/* What start_flow is answered with: a task where the client takes one, else a tool's result. */
const struct api_envelope *mcp_flow_envelope(const struct mcp_message *message);
/* Notifies of the steps of a flow that are done, where the client asked for progress: an
 * api_request's on_view. */
void mcp_flow_progress(struct api_request *request, slice view);
/* The members of a task, of a flow's view {flow, steps}. What is made for it lies in arena. */
void mcp_task_put(struct json_writer *w, struct api_request *request, struct arena *arena,
                  slice view);

#endif
