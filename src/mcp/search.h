/*
 * The tool search_actions. Private to the mcp room.
 */
#ifndef MCP_SEARCH_H
#define MCP_SEARCH_H

#include "mcp/method.h"

extern const struct api_endpoint mcp_search;

#endif
