/*
 * The tools that clients of models accept, for MCP's tools/list and for the linter. Claude Code
 * omits a tool whose schema has anyOf, oneOf, allOf or not at its top level; OpenAI refuses an
 * array without typed items and a description over 1,024 characters; few clients follow a $ref. So
 * the published schema is simpler than the manifest's, against which inputs are validated.
 */
#ifndef CATALOG_TOOL_H
#define CATALOG_TOOL_H

#include "catalog/catalog.h"

enum { CATALOG_TOOL_TEXT_MAX = 1000, CATALOG_TOOL_PROPERTY_MAX = 64 };

/* The references that are being followed in one tool's schema. */
struct catalog_tool {
    const struct json *root;
    const struct json *open[16]; /* targets that are being written */
    unsigned open_count, nodes;
};

/* Starts with an action's input_schema, which outlives the tool. */
void catalog_tool_begin(struct catalog_tool *tool, const struct json *input_schema);
/* Writes a schema that is part of the input_schema. References are replaced by their targets,
 * arrays get typed items, and texts are truncated. */
void catalog_tool_put_schema(struct catalog_tool *tool, struct json_writer *w,
                             const struct json *schema);
/* Returns the description, followed by sentences on the schema's requirements beyond its
 * properties; at most CATALOG_TOOL_TEXT_MAX bytes, in the arena. */
slice catalog_tool_description(const struct catalog_action *action, struct arena *arena);

/* Returns a call in one line, which may be all that an agent needs: `send_message(to!, subject!,
 * text | html, cc, ...)`. `!` follows a required input; of inputs with `|` between them one is
 * required (`a + b`: both together); [] marks a list, {a, b | c} an object with its members or
 * forms, {} an object whose members are not declared; `...` means further inputs. An example (of
 * `examples`, an array of {input} or NULL) that shows such an object follows. The text is in the
 * arena; SLICE_NONE if out of memory. */
slice catalog_tool_signature(slice name, const struct json *input_schema,
                             const struct json *examples, struct arena *arena);

/* Whether clients accept the name of a property. */
bool catalog_tool_takes_property(slice name);
/* Whether the schema allows an array without a type for its items. */
bool catalog_tool_lacks_items(const struct json *root, const struct json *schema);

#endif
