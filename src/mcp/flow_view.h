/*
 * The tool get_flow, and a flow as a model reads it. Private to the mcp room.
 */
#ifndef MCP_FLOW_VIEW_H
#define MCP_FLOW_VIEW_H

#include "mcp/method.h"

/* Parts of a view {flow, steps}. Unquoted texts may be in the arena. */
struct mcp_flow_facts {
    slice flow, status, rev; /* status: without quotes; rev: digits */
    slice step, step_key;    /* the current step */
    size_t step_number, step_count;
    slice output, output_of; /* the last output as JSON, and the quoted key of its step */
    bool is_approval;        /* the flow waits for an approval */
};
struct mcp_flow_facts mcp_flow_read(slice view, struct arena *arena);
/* Returns a member that is a string, without quotes, or SLICE_NONE if there is none. */
slice mcp_flow_text(slice object, const char *name, struct arena *arena);

enum op_result mcp_get_flow(struct api_request *request, const struct json *arguments);
/* The envelope for a flow's view {flow, steps} and for a start {flowId, flow: its view}. The
 * result contains the lean view. */
extern const struct api_envelope mcp_flow_result;
/* The same for a start; with start_wait it waits and returns the view that the flow then has. */
extern const struct api_envelope mcp_start_result;
/* The lean view, in the arena: the state of the flow, its steps by name and status, the waiting
 * approval or the last output, and a hint that says where a person decides. Returns SLICE_NONE if
 * out of memory. */
slice mcp_flow_lean(struct api_request *request, struct arena *arena, slice view);

#endif
