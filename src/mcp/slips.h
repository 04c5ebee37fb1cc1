/*
 * Harmless slips of a model in a call's input: a text in place of a list, a number or an object.
 * They are mended before a form is shown and before the call gets its fingerprint, and the result
 * names the places. REST refuses them.
 */
#ifndef MCP_SLIPS_H
#define MCP_SLIPS_H

#include "mcp/message.h"

/* The arguments of a tool whose argument `input` is an object; if that is the JSON text of one, a
 * copy of their table with the object. NULL: out of memory. */
const struct json *mcp_mend_arguments(struct api_request *request, struct mcp_message *message,
                                      const struct json *arguments) MUST_CHECK;
/* The input as schema_mend returns it. */
const struct json *mcp_mend_input(struct api_request *request, struct mcp_message *message,
                                  const struct schema *schema, const struct json *input);
/* The member that names the places, with a comma; SLICE_NONE: nothing was mended. */
slice mcp_slips_member(struct api_request *request, const struct mcp_message *message);

#endif
