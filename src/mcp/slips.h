/*
 * Harmless slips of a model in a call's input: a text in place of a list, a number or an object.
 * They are mended before a form is shown and before the call gets its fingerprint, and the result
 * names the places. REST refuses them.
 */
#ifndef MCP_SLIPS_H
#define MCP_SLIPS_H

#include "mcp/message.h"

/* For a tool whose argument `input` is an object. If `input` is a string with the JSON text of an
 * object, returns a copy of the arguments' table with that object, otherwise the arguments. NULL:
 * out of memory. */
const struct json *mcp_mend_arguments(struct api_request *request, struct mcp_message *message,
                                      const struct json *arguments) MUST_CHECK;
/* Returns the input as mended by schema_mend. */
const struct json *mcp_mend_input(struct api_request *request, struct mcp_message *message,
                                  const struct schema *schema, const struct json *input);
/* Returns the result's member "coerced" (the pointers of the mended values), followed by a comma,
 * or SLICE_NONE if nothing was mended or out of memory. */
slice mcp_slips_member(struct api_request *request, const struct mcp_message *message);

#endif
