/*
 * What sluice says names routes of its API, since that is where it is said first and stored. A
 * client of MCP has tools: in what is answered here, each route is replaced by the tool that does
 * the same, or by the dashboard where none does. Private to the mcp room.
 */
#ifndef MCP_WORDS_H
#define MCP_WORDS_H

#include "base/arena.h"
#include "base/slice.h"

/* A sentence of ours, or the same within quotes of JSON. The text itself where it names no route;
 * else in the arena. */
slice mcp_words_say(slice sentence, struct arena *arena);
/* A reply of the API, JSON: its hints, messages and errors, also those of a flow's steps, and no
 * other part, since what apps and callers say is not ours. */
slice mcp_words_say_json(slice json_text, struct arena *arena);

#endif
