/*
 * The tool describe_action. Private to the mcp room.
 */
#ifndef MCP_DESCRIBE_H
#define MCP_DESCRIBE_H

#include "mcp/method.h"

/* The envelope for GET /api/actions/{integration_id}/{action_id}: without null members, and without
 * what the argument `include` does not name. */
extern const struct api_envelope mcp_description_result;
/* Returns what is wrong with `include` (400), or SLICE_NONE. */
slice mcp_description_fault(const struct json *arguments) MUST_CHECK;

#endif
