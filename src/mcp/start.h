/*
 * The tool start_flow, which asks a person where the start confirms writes. Private to the mcp
 * room.
 */
#ifndef MCP_START_H
#define MCP_START_H

#include "mcp/method.h"

enum op_result mcp_start_flow(struct api_request *request, const struct json *arguments);

#endif
