/*
 * sluice's texts name routes of its API, where they are used first, and stored. A client of MCP has
 * tools: in answers here, each route is replaced by the equivalent tool, or by "the dashboard" if
 * there is none. Private to the mcp room.
 */
#ifndef MCP_WORDS_H
#define MCP_WORDS_H

#include "base/arena.h"
#include "base/slice.h"

/* A sentence of sluice's own, or a sentence within quotes of JSON. Returns the text itself if it
 * contains no route; else in the arena. */
slice mcp_words_say(slice sentence, struct arena *arena);
/* A reply of the API, JSON: changes its hints, messages and errors, including those of a flow's
 * steps, and nothing else, since texts from apps and callers are not sluice's. */
slice mcp_words_say_json(slice json_text, struct arena *arena);

#endif
