/*
 * What clients of models take as a tool, for MCP's tools/list and for the linter. Claude Code
 * leaves out a tool whose schema has anyOf, oneOf, allOf or not at its top; OpenAI refuses an array
 * without typed items and a description over 1,024 characters; few follow a $ref. What is shown is
 * therefore plainer than what an input is checked against, which stays as the manifest has it.
 */
#ifndef CATALOG_TOOL_H
#define CATALOG_TOOL_H

#include "catalog/catalog.h"

enum { CATALOG_TOOL_TEXT_MAX = 1000, CATALOG_TOOL_PROPERTY_MAX = 64 };

/* How far references of one tool's schema have been followed. */
struct catalog_tool {
    const struct json *root;
    const struct json *open[16]; /* targets that are being written */
    unsigned open_count, nodes;
};

/* Begins with an action's input_schema, which outlives it. */
void catalog_tool_begin(struct catalog_tool *tool, const struct json *input_schema);
/* A schema inside it: references replaced by what they name, arrays with typed items, texts cut. */
void catalog_tool_put_schema(struct catalog_tool *tool, struct json_writer *w,
                             const struct json *schema);
/* The description, and in words what its schema demands besides its properties: at most
 * CATALOG_TOOL_TEXT_MAX bytes, in the arena. */
slice catalog_tool_description(const struct catalog_action *action, struct arena *arena);

/* Whether clients take the name of a property. */
bool catalog_tool_takes_property(slice name);
/* Whether the schema allows an array and does not say of which type its items are. */
bool catalog_tool_lacks_items(const struct json *root, const struct json *schema);

#endif
