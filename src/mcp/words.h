/*
 * Texts of sluice name routes of its API. Most of these texts are answers of the API, and some are
 * stored. A client of MCP has tools instead: in answers to it, each route is replaced by the
 * equivalent tool, or by "the dashboard" if there is none. Private to the mcp room.
 */
#ifndef MCP_WORDS_H
#define MCP_WORDS_H

#include "base/arena.h"
#include "base/slice.h"

/* Converts a sentence of sluice, or such a sentence within quotes of JSON. Returns the text
 * itself if it contains no route; the result is in the arena otherwise. */
slice mcp_words_say(slice sentence, struct arena *arena);
/* Converts a JSON reply of the API: changes its hints, messages and errors, including those of a
 * flow's steps. All else stays, because texts from apps and callers are not sluice's. The summary
 * in `display` is left out if it repeats the message. */
slice mcp_words_say_json(slice json_text, struct arena *arena);

#endif
