/*
 * Harmless slips of a model in a call: a text in place of a list, a number or an object. They are
 * mended before a form is shown and before the call gets its fingerprint, and the result names the
 * places. REST refuses them.
 */
#ifndef MCP_SLIPS_H
#define MCP_SLIPS_H

#include "mcp/method.h"

/* Returns a copy of the arguments' table in which each text that spells the list, number or object
 * that the tool takes there is replaced by it; the arguments, if there is none. NULL: out of
 * memory. */
const struct json *mcp_mend_arguments(struct api_request *request, struct mcp_message *message,
                                      const char *tool, const struct json *arguments) MUST_CHECK;
/* The same for one value, where that type is taken (mcp_argument_type); pointer is its place in the
 * result's "coerced". */
const struct json *mcp_mend_value(struct api_request *request, struct mcp_message *message,
                                  const char *type, const struct json *value, slice pointer);
/* Returns the input as mended by schema_mend. */
const struct json *mcp_mend_input(struct api_request *request, struct mcp_message *message,
                                  const struct schema *schema, const struct json *input);
/* Returns the result's member "coerced" (the pointers of the mended values), followed by a comma,
 * or SLICE_NONE if nothing was mended or out of memory. */
slice mcp_slips_member(struct api_request *request, const struct mcp_message *message);

#endif
