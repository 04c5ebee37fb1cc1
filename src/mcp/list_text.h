/*
 * The lists that a model reads, as lines of text instead of the endpoint's JSON: lines cost a model
 * fewer tokens. Each line has one item, and text from outside in it is quoted and escaped, so that
 * it cannot begin a line of its own. The text that says how to continue is outside the marked
 * lines. A program that asks for structuredContent gets the endpoint's JSON. Private to the mcp
 * room.
 */
#ifndef MCP_LIST_TEXT_H
#define MCP_LIST_TEXT_H

#include "mcp/method.h"

/* For replies of GET /api/integrations, GET /api/executions and GET /api/connections. */
extern const struct api_envelope mcp_apps_result, mcp_history_result, mcp_connections_result;

#endif
