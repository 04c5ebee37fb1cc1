/*
 * Flows as tasks (the extension io.modelcontextprotocol/tasks of 2026-07-28): a task is a flow and
 * has the flow's id, so nothing more is stored. Private to the mcp room.
 *
 *   a flow that runs, or waits for a time  -> working
 *   one that waits for an approval         -> input_required, with a form
 *   one that has completed, or has failed  -> completed, with the result of a tool
 *   one that was cancelled or rejected     -> cancelled
 *
 * If the client has no forms, or its key may not approve, or not decide about a held call, a flow
 * that waits for an approval is reported as working, and its message describes the wait.
 */
#ifndef MCP_TASK_H
#define MCP_TASK_H

#include "mcp/method.h"

/* The envelope for start_flow's answer: a task if the client accepts tasks, else a tool's
 * result. */
const struct api_envelope *mcp_flow_envelope(const struct mcp_message *message);
/* An api_request's on_view: notifies the client of a flow's completed steps if it asked for
 * progress. */
void mcp_flow_progress(struct api_request *request, slice view);
/* The key that asked for a held call, and whether the key of a request may decide about it. Neither
 * changes. All zeros for any other flow. */
struct mcp_asker {
    bool may_decide;
    slice name; /* of the key; SLICE_NONE: it is not known */
    struct pg_query decider, label;
};
/* Begins to look this up if the task of this view may have the form of a held call. Returns
 * false, with nothing begun, if it does not matter. Holds the request's op; temporary data is in
 * arena. */
bool mcp_asker_ask(struct api_request *request, struct arena *arena, slice view,
                   struct mcp_asker *asker);
/* Returns OK or a query's status. The name lives as long as the request. */
int mcp_asker_result(struct mcp_asker *asker) MUST_CHECK;
/* Writes the members of a task from a flow's view {flow, steps}. Temporary data is in arena. */
void mcp_task_put(struct json_writer *w, struct api_request *request, struct arena *arena,
                  slice view, const struct mcp_asker *asker);

#endif
