/*
 * Which part of a result came from outside: from an app, or from a person who wrote to one. A model
 * must never follow it. The rest is in the words of sluice, of its operator and of the caller.
 * README.md has the rule.
 */
#ifndef MCP_OUTSIDE_H
#define MCP_OUTSIDE_H

#include "json/json.h"

struct mcp_outside {
    slice own;      /* the object without its data from outside */
    slice outside;  /* an object of the same form with that data only; SLICE_NONE: there is none */
    slice pointers; /* an array of the JSON pointers of that data; SLICE_NONE: there is none */
};

/* Divides the JSON text of an endpoint's reply, an object. The parts are in the arena. Returns
 * false if out of memory. */
bool mcp_outside_find(slice json_text, struct arena *arena, struct mcp_outside *found) MUST_CHECK;
/* Returns the text for a model: `own`, then `outside` between two lines with a new random id, which
 * the data cannot contain. Returns SLICE_NONE if out of memory. */
slice mcp_outside_text(const struct mcp_outside *found, struct arena *arena);
/* The object for a program: json_text, with the pointers as its first member, `outside`. Returns
 * SLICE_NONE if out of memory. */
slice mcp_outside_object(const struct mcp_outside *found, slice json_text, struct arena *arena);

#endif
